"""The diagnostic codes of tuning."""

from tilewright.diagnostics import define_code

BAD_SPACE = define_code(
    "tune-bad-space",
    "The search space is malformed.",
    "`--set NAME=VALUE,VALUE` and `--hint NAME=VALUE,VALUE` give the values of one name; `--where EXPRESSION` is "
    "Python's, over those names.",
)
NO_SPACE = define_code(
    "tune-no-space",
    "There is no search space.",
    "A cuTile program calls `cuda.tile.tune.exhaustive_search`, or `--set` names constants of it; for kernels of Tile IR "
    "there are the values of `--hint`.",
)
BAD_RECORD = define_code(
    "tune-bad-record",
    "A file is not a record of decisions.",
    "`tilewright tune FILE --search --save RECORD` writes one, and `tilewright compile --decisions RECORD` takes it.",
)
PROGRAM = define_code(
    "tune-program",
    "A program launches no kernel with one of the configurations.",
    "It ended before its first launch, as it would on a GPU with these values.",
)
TOO_LARGE = define_code(
    "tune-too-large",
    "A configuration needs more registers than a GPU has.",
    "Loop-carried tiles and accumulators are held in registers entirely. Such a configuration is "
    "skipped before it is compiled, which would take minutes.",
)
