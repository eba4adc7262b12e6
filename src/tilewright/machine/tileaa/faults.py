"""Faults specific to ``nv_tileaa``."""

from __future__ import annotations

from tilewright.diagnostics import define_code

RANGE_EXTENT = define_code(
    "range-extent", "The bounds of make_range are not as far apart as its result is long."
)
SLICE_OUTSIDE = define_code(
    "slice-outside", "An index or slice of a tile reaches outside the tile."
)
INVALID_PROGRAM_ID = define_code(
    "invalid-program-id",
    "A kernel asks where work is that it has not taken over.",
    "cancel_next_program_id gives no work once every tile block has begun; is_valid_program_id "
    "tells.",
)
