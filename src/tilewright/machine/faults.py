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
    "causes are a shape or stride argument that does not match its array, and a missing mask.",
    help="mask the elements outside the array, and check that shape and stride arguments match it",
)
FREED_MEMORY = define_code(
    "freed-memory",
    "The kernel accesses alloca memory after the block that contains the alloca has ended.",
    "Each iteration of a loop gets fresh memory; the memory of the last iteration is gone.",
    help="move the alloca out of the block, or do not use its address after the block",
)
FOREIGN_MEMORY = define_code(
    "foreign-memory",
    "A tile block accesses the alloca memory of another tile block.",
    help="mark the alloca `global`, or exchange data through an array",
)
MISALIGNED_ACCESS = define_code(
    "misaligned-access",
    "An address is not a multiple of the size of the element that is accessed there.",
    help="use an address that is a multiple of the element size",
)
OUTSIDE_INDEX_SPACE = define_code(
    "outside-index-space",
    "The index of a view access is outside the index space of the view.",
    "A tile may extend past the tensor but must not start outside of it. get_index_space_shape "
    "returns the number of indices.",
    help="keep the index below the number of tiles, or guard the access",
)
INBOUNDS_BROKEN = define_code(
    "inbounds-broken",
    "An access marked inbounds along a dimension extends past the tensor there.",
    help="drop the inbounds mark, or handle the last, partial tile separately",
)
BAD_SUB_TILE_INDEX = define_code(
    "sub-tile-index",
    "The index of extract or insert is outside the grid of sub-tiles.",
    help="keep the index below the number of sub-tiles along the dimension",
)
UNDEFINED_DIVISION = define_code(
    "undefined-division",
    "An integer division has a zero divisor, or divides the smallest signed number by -1.",
    help="select a divisor other than zero for the elements that are not used",
)
BAD_STEP = define_code(
    "bad-step",
    "The step of a for loop is not positive.",
    help="use a positive step, and compute a descending index from an ascending one",
)
INDUCTION_OVERFLOW = define_code(
    "induction-overflow",
    "The induction variable of a for loop overflows its type before it reaches the upper bound.",
    "Compiled code wraps around there and continues.",
    help="use a wider type for the bounds and the step",
)
EXTENT_TOO_LARGE = define_code(
    "extent-too-large",
    "An extent does not fit the result type of a shape query.",
    help="use a wider result type",
)
ALLOCA_TOO_LARGE = define_code(
    "alloca-too-large",
    "An alloca requests more memory than the machine allows.",
    help="allocate less memory, or pass an array to the kernel",
)
STEP_LIMIT = define_code(
    "step-limit",
    "A loop makes more iterations than the limit of the run allows.",
    "The limit detects infinite loops.",
    help="raise `max_iterations` if the loop is meant to run longer, else check its exit condition",
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
