"""What ends a run at the level of ``nv_tileaa`` and at no other."""

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
AGENT_DEADLOCK = define_code(
    "agent-deadlock",
    "All agents of a tile block wait for one another, so none of them can go on.",
    "Each waits at a queue that nobody will fill or empty, or for the end of another agent. Look "
    "for a put without a get or the reverse, unequal numbers of them, and queues that two agents "
    "use in a different order.",
)
PLUGIN_RESULT = define_code(
    "plugin-result",
    "What a function given as plugin returned does not fit the results of the operation.",
    "It returns one array for each result, of its shape and a dtype that can be cast to that of "
    "its elements without loss of kind; a scalar is an array of rank 0 or a number.",
)
