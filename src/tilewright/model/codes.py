"""The diagnostic codes of the performance model."""

from tilewright.diagnostics import define_code

UNKNOWN_GPU = define_code(
    "model-unknown-gpu",
    "The performance model has no table for a GPU of that name.",
    "The message lists those that it has. A JSON file can change numbers of a table, not add one.",
)
BAD_TABLE = define_code(
    "model-bad-table",
    "A file of measured constants cannot be used.",
    'It is a JSON object {"gpu": NAME, "constants": {NAME: {"value": NUMBER, "source": TEXT}}}; '
    "`tilewright profile --gpu GPU --show-constants` prints one.",
)
NOT_A_CUBIN = define_code("model-not-a-cubin", "A file is no machine code of a GPU, or is damaged.")
OTHER_ARCHITECTURE = define_code(
    "model-other-architecture",
    "Machine code is for another architecture than the GPU that was named.",
    "Compile for the architecture of the GPU, or name a GPU of the architecture of the code.",
)
NO_SUCH_KERNEL = define_code(
    "model-no-such-kernel",
    "The machine code has no kernel of that name, or several and none named.",
)
UNKNOWN_TRIPS = define_code(
    "model-unknown-trips",
    "How often a loop runs is not known without running the kernel.",
    "Give the arguments of the launch, if the loop depends on them, or the turns of the loop by "
    "`--trips LOOP=N`; the message names the loop.",
)
CANNOT_RUN = define_code(
    "model-cannot-run", "A block needs more registers, threads or shared memory than the GPU has."
)
BAD_COMPARISON = define_code(
    "model-bad-comparison",
    "A file is no profile that can be compared with.",
    "`tilewright profile ... --json > before.json` writes one; `--compare before.json` reads it later.",
)
