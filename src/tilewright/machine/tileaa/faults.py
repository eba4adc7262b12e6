"""Faults specific to ``nv_tileaa``."""

from __future__ import annotations

from tilewright.diagnostics import define_code

RANGE_EXTENT = define_code(
    "range-extent",
    "The bounds of make_range do not match the number of elements of its result.",
    help="make the difference of the bounds equal to the number of elements of the result",
)
SLICE_OUTSIDE = define_code(
    "slice-outside",
    "An index or slice of a tile is outside the tile.",
    help="keep the offset within the tile: at most its extent less that of the slice",
)
INVALID_PROGRAM_ID = define_code(
    "invalid-program-id",
    "A kernel reads the position of work that it has not taken over.",
    "cancel_next_program_id returns no work once every tile block has started; "
    "is_valid_program_id tells.",
    help="read the position only if is_valid_program_id is true",
)
