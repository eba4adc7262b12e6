"""The diagnostic codes of tuning."""

from tilewright.diagnostics import define_code

BAD_SPACE = define_code(
    "tune-bad-space",
    "What shall be tried is not well formed.",
    "`--set NAME=VALUE,VALUE` and `--hint NAME=VALUE,VALUE` give the values of one name; `--where EXPRESSION` is "
    "Python's, over those names.",
)
NO_SPACE = define_code(
    "tune-no-space",
    "Nothing says what shall be tried.",
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
    "A program launches nothing with one of the configurations.",
    "It ended before its first launch, as it does with these values on a GPU, too.",
)
TOO_LARGE = define_code(
    "tune-too-large",
    "A configuration needs more registers than a GPU has.",
    "What a loop carries from turn to turn, and the sum of products, is held in registers as a whole. Such a configuration is left "
    "out before it is compiled, which would take minutes.",
)
