"""Faults that stop a run: their codes, and the exception that carries one out of an operation."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from tilewright.diagnostics import Note, TileIRError, define_code
from tilewright.dialects.source_map import location_of
from tilewright.launching.codes import source_note

INVALID_ADDRESS = define_code(
    "invalid-address",
    "The kernel accesses memory outside every live allocation.",
    "Live memory is: the arrays given to the launch (their own extent, not the array that a slice "
    "was cut from), the globals of the module, and alloca memory until its block ends. Usual "
    "causes are a shape or stride argument that does not fit its array, and a missing mask.",
)
FREED_MEMORY = define_code(
    "freed-memory",
    "The kernel accesses alloca memory after the block that contains the alloca has ended.",
    "Each iteration of a loop gets fresh memory; the memory of the last iteration is gone.",
)
FOREIGN_MEMORY = define_code(
    "foreign-memory",
    "A tile block accesses the alloca memory of another tile block.",
    "Mark the alloca `global` if other tile blocks are to use its address.",
)
MISALIGNED_ACCESS = define_code(
    "misaligned-access",
    "An address is not a multiple of the size of the element that is accessed there.",
)
OUTSIDE_INDEX_SPACE = define_code(
    "outside-index-space",
    "The index of a view access lies outside the index space of the view.",
    "A tile that sticks out of the tensor is fine, a tile that starts outside it is not. "
    "get_index_space_shape gives the number of indices.",
)
INBOUNDS_BROKEN = define_code(
    "inbounds-broken",
    "An access marked inbounds along a dimension reaches outside the tensor there.",
)
BAD_SUB_TILE_INDEX = define_code(
    "sub-tile-index", "The index of extract or insert lies outside the grid of sub-tiles."
)
UNDEFINED_DIVISION = define_code(
    "undefined-division",
    "An integer division has a zero divisor, or divides the smallest signed number by -1.",
)
BAD_STEP = define_code("bad-step", "The step of a for loop is not positive.")
INDUCTION_OVERFLOW = define_code(
    "induction-overflow",
    "The induction value of a for loop leaves its type before it reaches the upper bound.",
    "Compiled code wraps around there and goes on. Use a wider type for the bounds.",
)
EXTENT_TOO_LARGE = define_code(
    "extent-too-large", "An extent does not fit the result type of a shape query."
)
ALLOCA_TOO_LARGE = define_code(
    "alloca-too-large", "An alloca asks for more memory than the machine gives to one."
)
STEP_LIMIT = define_code(
    "step-limit",
    "A loop makes more iterations than the limit of the run allows.",
    "The limit is there so that a loop without end is reported; raise `max_iterations` for kernels "
    "that need more.",
)


class Fault(Exception):
    """An error in a kernel that ends the run. ``op`` is set as the exception leaves the operation."""

    def __init__(self, code: str, message: str, *, help: str = "", notes: Sequence[Note] = ()):
        super().__init__(message)
        self.code = code
        self.message = message
        self.help = help
        self.notes = tuple(notes)
        self.op: Operation | None = None


def as_error(fault: Fault, notes: Sequence[Note]) -> TileIRError:
    """Return the error for a fault, located at its operation."""
    op = fault.op
    location = None if op is None else location_of(op)
    own = () if op is None else source_note(op)
    return TileIRError.single(
        fault.code,
        fault.message,
        location,
        notes=(*fault.notes, *own, *notes),
        help=fault.help,
    )
