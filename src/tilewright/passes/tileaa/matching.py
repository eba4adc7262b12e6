"""Predicates and builders for rewrite rules on ``nv_tileaa``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, i64
from xdsl.dialects.scf import ForOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import Rewriter

from tilewright.analysis.tileaa.integers import known_integers
from tilewright.dialects import arith
from tilewright.dialects.arith.constants import ConstantOp
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.attributes import BoundedAttr, DivByAttr
from tilewright.dialects.nv_tileaa.base import OPERATIONS, int_list
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp
from tilewright.dialects.nv_tileaa.ops.pointers import BitcastOp
from tilewright.dialects.nv_tileaa.ops.shapes import (
    BroadcastOp,
    CatOp,
    ExpandDimsOp,
    ExtractOp,
    ExtractSliceOp,
    PermuteOp,
    SplatOp,
    ViewOp,
)
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.floats import is_nan
from tilewright.passes.base import insert_before
from tilewright.passes.laws import Site, Words


def integer_of(value: SSAValue) -> int | None:
    """Return the integer that all elements of a value are known to equal, read signed; i1 as 0
    and 1. None if unknown."""
    owner = value.owner
    found = known_integers(owner) if isinstance(owner, Operation) else None
    return found[0] if found is not None and len(found) == 1 else None


def constant_iterations(loop: ForOp) -> range | None:
    """Return the values that a loop's counter takes, empty where it never runs; None where they are not known."""
    lower, upper, step = (integer_of(value) for value in (loop.lb, loop.ub, loop.step))
    if lower is None or upper is None or step is None or step <= 0:
        return None
    if "unsignedCmp" in loop.attributes | loop.properties and min(lower, upper) < 0:
        return None
    return range(lower, upper, step)


def make_splat(
    rewriter: PatternRewriter, before: Operation, scalar: SSAValue, ty: Attribute
) -> SSAValue:
    """Return a tile filled with a value, or the bare scalar for a scalar type."""
    if not isinstance(ty, T.TileType):
        return scalar
    made = SplatOp.create(operands=[scalar], result_types=[ty])
    insert_before(rewriter, before, made)
    return made.result


def make_integer(
    rewriter: PatternRewriter, before: Operation, number: int, ty: Attribute
) -> SSAValue:
    """Return a constant whose elements all equal the number."""
    made = ConstantOp.from_value(ty, number)
    insert_before(rewriter, before, made)
    return made.result


def replace_with(rewriter: PatternRewriter, op: Operation, values: Sequence[SSAValue]) -> None:
    """Erase an operation and replace its results by these values."""
    rewriter.replace(op, (), tuple(values))


#: Operations whose results hold the elements of their source, some of them several times, and nothing else.
REPEATING = (SplatOp, BroadcastOp, ExpandDimsOp, ViewOp)


def is_scalar(value: SSAValue) -> bool:
    """Whether a value has no axes: a scalar or a tile of rank 0."""
    return not T.dims_of(value.type)


def is_uniform(constant: SSAValue) -> bool:
    """Whether all elements of a constant are equal."""
    return isinstance(constant.owner, ConstantOp) and len(constant.owner.bits()) == 1


def is_per_element(op: AssumeOp) -> bool:
    """Whether the assumption is about each element separately."""
    assert isinstance(op.predicates, ArrayAttr)
    return all(is_plain_divisor(p) or isinstance(p, BoundedAttr) for p in op.predicates)


def is_plain_divisor(predicate: Attribute) -> bool:
    """Whether a predicate states a divisor of every element."""
    return isinstance(predicate, DivByAttr) and predicate.group == (None, None)


def keeps_axes(op: PermuteOp) -> bool:
    """Whether the permutation is the identity."""
    return list(int_list(op.permutation)) == sorted(int_list(op.permutation))


def keeps_shape(op: BitcastOp) -> bool:
    """Whether source and result have the same extents, hence elements of one size."""
    return T.dims_of(op.source.type) == T.dims_of(op.result.type)


def are_halves(op: CatOp) -> bool:
    """Whether two concatenated slices are adjacent and begin at the start of their source."""
    lhs, rhs = op.lhs.owner, op.rhs.owner
    assert isinstance(lhs, ExtractSliceOp) and isinstance(rhs, ExtractSliceOp)
    axis = int_property(op, "axis")
    first, second = int_list(lhs.offsets), int_list(rhs.offsets)
    middle = T.dims_of(op.lhs.type)[axis]
    wanted = tuple(middle if a == axis else 0 for a in range(len(first)))
    return bool(first) and not any(first) and second == wanted


def holds(wide_value: SSAValue, value: SSAValue) -> bool:
    """Whether the first value's float type represents every number of the second's."""
    wide, narrow = (FORMATS[T.element_name(T.element_of(v.type))] for v in (wide_value, value))
    return (
        wide.precision >= narrow.precision
        and wide.min_exponent - wide.mantissa_bits <= narrow.min_exponent - narrow.mantissa_bits
        and wide.max_exponent >= narrow.max_exponent
        and wide.has_inf
        and wide.signed
    )


def never_nan(value: SSAValue) -> bool:
    """Whether a float cannot be NaN, judging by the operation that defines it."""
    owner = value.owner
    if isinstance(owner, ConstantOp):
        fmt = FORMATS[T.element_name(T.element_of(value.type))]
        return not any(is_nan(bits, fmt) for bits in owner.bits())
    if isinstance(owner, SplatOp | BroadcastOp | ExpandDimsOp | ViewOp | PermuteOp):
        return never_nan(owner.source)
    return isinstance(owner, arith.SIToFPOp | arith.UIToFPOp)


def _splat(site: Site, ty: Attribute, scalar: SSAValue) -> SSAValue:
    return make_splat(site.rewriter, site.op, scalar, ty)


def _constant(site: Site, ty: Attribute, value: SSAValue) -> SSAValue:
    assert isinstance(value.owner, ConstantOp)
    return site.add(ConstantOp.from_bits(ty, value.owner.bits()))


def _permute_both(site: Site, ty: Attribute, source: SSAValue, inner: SSAValue) -> SSAValue:
    op, before = site.op, inner.owner
    assert isinstance(op, PermuteOp) and isinstance(before, PermuteOp)
    first = int_list(before.permutation)
    both = DenseArrayBase.from_list(i64, [first[axis] for axis in int_list(op.permutation)])
    return site.add(
        PermuteOp.create(operands=[source], result_types=[ty], properties={"permutation": both})
    )


_MOVED = (ViewOp, BroadcastOp, ExpandDimsOp, PermuteOp, ExtractOp, ExtractSliceOp)
_TESTS = (
    is_scalar,
    is_uniform,
    is_per_element,
    keeps_axes,
    keeps_shape,
    are_halves,
    holds,
    never_nan,
)
#: The vocabulary of laws on nv_tileaa; ``moved`` stands for operations that rearrange elements.
WORDS = Words(
    kinds={
        **{cls.mnemonic(): cls for cls in (*arith.OPERATIONS.values(), *OPERATIONS.values())},
        "moved": _MOVED,
    },
    number=integer_of,
    makers={"splat": _splat, "constant": _constant, "permute_both": _permute_both},
    tests={test.__name__: test for test in _TESTS},
)


def erase_with_sources(op: Operation, goes_too: Callable[[Operation], bool]) -> None:
    """Erase an operation that nothing uses, and those behind its operands that then nothing uses and that may go, too."""
    unused = [op]
    while unused:
        dead = unused.pop()
        if dead.parent is None or any(result.uses for result in dead.results):
            continue
        before = [value.owner for value in dead.operands]
        Rewriter.erase_op(dead)
        unused += [each for each in before if isinstance(each, Operation) and goes_too(each)]
