"""The diagnostic codes of campaigns."""

from tilewright.diagnostics import define_code

NO_DASK = define_code(
    "campaign-no-dask",
    "Jobs cannot be sent to a Dask cluster: its package is missing, or its scheduler does not answer.",
    "`pip install tilewright[dask]` installs the package, on this machine and on the workers, which need Tilewright "
    "itself, too. `dask scheduler` prints the address to give.",
)
BAD_STORE = define_code(
    "campaign-bad-store",
    "The file with the results of a campaign cannot be read or written.",
    "It has one JSON object on each line. A truncated last line is not an error.",
)
