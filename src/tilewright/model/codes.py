"""The diagnostic codes of the performance model."""

from tilewright.diagnostics import define_code

UNKNOWN_GPU = define_code(
    "model-unknown-gpu",
    "The performance model does not know this GPU.",
    "The message lists the known GPUs. A JSON file of constants can change a known GPU, not add one.",
)
BAD_TABLE = define_code(
    "model-bad-table",
    "A file of measured constants cannot be used.",
    'It is a JSON object {"gpu": NAME, "constants": {NAME: {"value": NUMBER, "source": TEXT}}}; '
    "`tilewright profile --gpu GPU --show-constants` prints one.",
)
NOT_A_CUBIN = define_code("model-not-a-cubin", "A file is not GPU machine code, or is damaged.")
OTHER_ARCHITECTURE = define_code(
    "model-other-architecture",
    "Machine code is for another architecture than the given GPU.",
    "Compile for the architecture of the GPU, or name a GPU of the architecture of the code.",
)
NO_SUCH_KERNEL = define_code(
    "model-no-such-kernel",
    "The machine code has no kernel of that name, or has several and no name is given.",
)
UNKNOWN_TRIPS = define_code(
    "model-unknown-trips",
    "The trip count of a loop is unknown without running the kernel.",
    "Give the launch arguments if the trip count depends on them, or the trip count itself with "
    "`--trips LOOP=N`; the message names the loop.",
)
CANNOT_RUN = define_code(
    "model-cannot-run", "A block needs more registers, threads or shared memory than the GPU has."
)
BAD_COMPARISON = define_code(
    "model-bad-comparison",
    "A file is not a profile to compare with.",
    "`tilewright profile ... --json > before.json` writes one; `--compare before.json` reads it later.",
)
