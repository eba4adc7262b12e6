"""What declares an operation of ``nv_tileas``, and the codes of its rules."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue

from tilewright.diagnostics import define_code
from tilewright.dialects.declare import Declaring
from tilewright.dialects.nv_tileaa.base import TileAAOp

LAYOUT = define_code(
    "as-layout",
    "A tile's layout does not match the tile or the operation.",
    "A layout has as many elements as its tile. Element-wise operations take operands of one "
    "layout; `nv_tileas.convert_layout` converts between layouts.",
)
RESIDENCY = define_code(
    "as-residency",
    "The operation cannot move data between these kinds of memory.",
    "Data moves between global memory and registers, global and shared memory, or shared memory and registers.",
)
VIEW_SHAPE = define_code(
    "as-view-shape",
    "The shapes of a view and of the value moved through it do not match.",
)

STORAGE_PLACE = define_code(
    "as-storage-place",
    "A storage's offset in shared memory is misaligned, or overlaps another storage.",
    "Storages may share bytes only if their live ranges are disjoint. `tileas-allocate` assigns offsets.",
)

IN_FLIGHT = define_code(
    "as-in-flight",
    "The accumulator of a product in flight is used before it was waited for.",
    "Before `nv_tileas.async.future_wait`, only the next product may use it, also as a "
    "loop-carried value.",
)

AHEAD = define_code(
    "as-ahead",
    "Copies cannot start that many iterations ahead.",
    "`ahead` counts iterations of the enclosing loop. A ring has one stage more, for the "
    "iteration that reads, or as many: then a stage is refilled as soon as it is read.",
)

#: Every operation, by mnemonic, in the order of definition.
OPERATIONS: dict[str, type[TileAAOp]] = {}
schedule_op = Declaring("nv_tileas", OPERATIONS)


def is_within(value: SSAValue, op: Operation) -> bool:
    """Whether a value is made in an operation's regions."""
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while block is not None:
        outer = block.parent_op()
        if outer is op:
            return True
        block = None if outer is None else outer.parent
    return False


def is_schedule_op(op: Operation) -> bool:
    """Whether an operation is one of this dialect."""
    return op.name.startswith("nv_tileas.")
