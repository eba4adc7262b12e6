"""What the planner knows about operations, by name."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Operation

from tilewright.dialects.arith import ArithOp, ConstantOp
from tilewright.dialects.nv_tileaa import types as T

#: Operations of nv_tileaa whose results are functions of the position, with the cost of an element.
_LAZY: dict[str, int] = {
    "addf": 1,
    "subf": 1,
    "mulf": 1,
    "divf": 8,
    "fma": 1,
    "sqrt": 8,
    "rsqrt": 10,
    "exp2": 12,
    "clampf": 4,
    "mulhiui": 3,
    "splat": 0,
    "broadcast": 0,
    "expand_dims": 0,
    "view": 0,
    "extract": 0,
    "extract_slice": 0,
    "cat": 2,
    "permute": 0,
    "make_range": 0,
    "generate": 4,
    "addptr": 1,
    "int_to_ptr": 0,
    "ptr_to_int": 0,
    "bitcast": 1,
    "fp_to_fp": 3,
    "load": 12,
    "tiled_load": 2,
    "gather_load": 12,
    "assume": 0,
    "ext.insert_slice": 3,
}
#: Those of arith and math that cost more than one unit.
_EXPENSIVE: dict[str, int] = {
    "divi": 20,
    "remi": 20,
    "remf": 40,
    "exp": 12,
    "log": 15,
    "log2": 15,
    "sin": 25,
    "cos": 25,
    "tan": 30,
    "sinh": 30,
    "cosh": 30,
    "tanh": 20,
    "atan2": 30,
    "fpowf": 40,
    "fpowi": 40,
    "maxf": 3,
    "minf": 3,
    "itof": 2,
    "ftoi": 3,
}
ALIAS_ELEMENTWISE: dict[str, str] = {
    "nv_tileaa.addf": "addf",
    "nv_tileaa.subf": "subf",
    "nv_tileaa.mulf": "mulf",
    "nv_tileaa.divf": "divf",
    "nv_tileaa.fma": "fma",
    "nv_tileaa.sqrt": "sqrt",
    "nv_tileaa.rsqrt": "rsqrt",
    "nv_tileaa.exp2": "exp2",
    "nv_tileaa.mulhiui": "mulhii",
    "nv_tileaa.int_to_ptr": "int_to_ptr",
    "nv_tileaa.ptr_to_int": "ptr_to_int",
    "nv_tileaa.fp_to_fp": "ftof",
    "nv_tileaa.clampf": "clampf",
    "nv_tileaa.addptr": "offset",
    "nv_tileaa.bitcast": "bitcast",
}
"""The element-wise operations of nv_tileaa, with the names of what they mean in
``numerics.semantics``."""

_MOVING = frozenset(
    {"broadcast", "view", "extract", "extract_slice", "cat", "permute", "ext.insert_slice"}
)
_FREE = frozenset({"splat", "make_range"})
_IN_PLACE = frozenset({"nv_tileaa.dot"})
_LOADS = frozenset({"nv_tileaa.load", "nv_tileaa.tiled_load", "nv_tileaa.gather_load"})
_WITH_BODIES = frozenset({"nv_tileaa.reduce", "nv_tileaa.scan", "nv_tileaa.generate"})
#: What bodies may hold, beside arithmetic on scalars, to run on many elements at once.
_IN_BODIES = frozenset({"nv_tileaa.yield", "scf.yield", "nv_tileaa.assume", "ub.poison"})
_LOOPS = frozenset({"scf.for", "scf.while"})


def short_name(op: Operation) -> str:
    return op.name.removeprefix("nv_tileaa.")


def is_weak(op: Operation) -> bool:
    """Whether a memory operation neither orders others nor is volatile."""
    semantic = op.properties.get("mem_semantic")
    weak = semantic is None or semantic.data.value == "weak"  # pyright: ignore[reportAttributeAccessIssue]
    return weak and "volatile" not in op.properties


def is_volatile(op: Operation) -> bool:
    return "volatile" in op.properties


def is_lazy(op: Operation) -> bool:
    """Whether the result can be computed position by position, where it is read."""
    if isinstance(op, ArithOp):
        return True
    if op.name in _LOADS:
        return is_weak(op)
    if op.name == "nv_tileaa.generate":
        return is_body_of_elements(op)
    return short_name(op) in _LAZY


def is_elementwise(op: Operation) -> bool:
    """Whether an element depends on the elements of the operands at its position only."""
    return isinstance(op, ArithOp) or (
        short_name(op) in _LAZY and short_name(op) not in _MOVING and op.name not in _LOADS
    )


def is_free(op: Operation) -> bool:
    """Whether computing an element takes no more than reading it would."""
    return isinstance(op, ConstantOp) or short_name(op) in _FREE


def is_body_of_elements(op: Operation) -> bool:
    """Whether the regions compute single elements, many at once."""
    return op.name in _WITH_BODIES and all(
        _runs_on_elements(inner) for region in op.regions for inner in region.block.ops
    )


def _runs_on_elements(op: Operation) -> bool:
    if not all(T.is_scalar_or_tile(v.type) and not T.dims_of(v.type) for v in op.results):
        return False
    if op.name == "scf.if":
        blocks = [block for region in op.regions for block in region.blocks]
        return all(_runs_on_elements(inner) for block in blocks for inner in block.ops)
    return isinstance(op, ArithOp) or op.name in ALIAS_ELEMENTWISE or op.name in _IN_BODIES


def repeats(op: Operation) -> bool:
    """Whether what stands inside runs several times."""
    return op.name in _LOOPS or (op.name in _WITH_BODIES and not is_body_of_elements(op))


def is_agent(op: Operation) -> bool:
    """Whether the operation runs its region beside what follows, as a function of its own."""
    return op.name == "nv_tileaa.execute"


def cost(op: Operation) -> int:
    """What an element costs, given its operands', in units of a simple operation."""
    if isinstance(op, ConstantOp):
        return 0
    if isinstance(op, ArithOp):
        return _EXPENSIVE.get(op.MEANING, 1)
    return _LAZY[short_name(op)]


def works_in_place(op: Operation) -> bool:
    """Whether the operation fills a buffer, element by element from the old elements there."""
    return op.name in _IN_PLACE


def _is_transposed_factor(op: Operation) -> bool:
    """Whether a permutation of what was loaded goes into products only, which pack it as it lies."""
    source = op.operands[0].owner
    loaded = isinstance(source, Operation) and source.name == "nv_tileaa.tiled_load"
    uses = list(op.results[0].uses)
    return loaded and all(
        use.operation.name == "nv_tileaa.dot" and use.index in (0, 1) for use in uses
    )


def needs_buffer(user: Operation, index: int) -> bool:
    """Whether the operation reads this operand at scattered positions."""
    if user.name == "nv_tileaa.permute":
        if _is_transposed_factor(user):
            return False
        order = user.properties["permutation"]
        assert isinstance(order, DenseArrayBase)
        axes = [int(axis) for axis in order.iter_values()]
        source = user.operands[0].type
        assert isinstance(source, T.TileType)
        moved = [axis for axis in axes if source.dims[axis] != 1]
        return bool(moved) and moved != sorted(moved)
    if user.name == "nv_tileaa.bitcast":
        return T.dims_of(user.operands[0].type) != T.dims_of(user.results[0].type)
    return False
