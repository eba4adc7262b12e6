"""Element-wise operations: arithmetic, comparisons, conversions and constants."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.dialects import arith
from tilewright.dialects.arith.constants import ElementsAttr, constant_value, scalar_value
from tilewright.dialects.cuda_tile.base import TileOp, tile_type
from tilewright.dialects.cuda_tile.ops import conversions as C
from tilewright.dialects.cuda_tile.ops import core
from tilewright.dialects.cuda_tile.ops import floating_point as F
from tilewright.dialects.cuda_tile.ops import integer as I
from tilewright.dialects.cuda_tile.types import i8
from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.enums import RoundingModeAttr
from tilewright.dialects.nv_tileaa.ops import arithmetic as N
from tilewright.dialects.nv_tileaa.ops import pointers as P
from tilewright.lowering.tileaa.state import Lowering
from tilewright.lowering.tileaa.table import Rule, lowers, refuse, require_block_scale

#: Operations that map to one operation, with at most rounding, flushing and overflow as properties.
RENAMED: dict[type[TileOp], type[Operation]] = {
    I.AddIOp: arith.AddiOp,
    I.SubIOp: arith.SubiOp,
    I.MulIOp: arith.MuliOp,
    I.ShLIOp: arith.ShLIOp,
    I.AndIOp: arith.AndIOp,
    I.OrIOp: arith.OrIOp,
    I.XOrIOp: arith.XOrIOp,
    I.AbsIOp: arith.AbsIOp,
    F.AddFOp: N.AddFOp,
    F.SubFOp: N.SubFOp,
    F.MulFOp: N.MulFOp,
    F.DivFOp: N.DivFOp,
    F.FmaOp: N.FmaOp,
    F.SqrtOp: N.SqrtOp,
    F.RsqrtOp: N.RsqrtOp,
    F.Exp2Op: N.Exp2Op,
    F.RemFOp: arith.RemfOp,
    F.NegFOp: arith.NegfOp,
    F.AbsFOp: arith.AbsFOp,
    F.CeilOp: arith.CeilOp,
    F.FloorOp: arith.FloorOp,
    F.CosOp: arith.CosOp,
    F.SinOp: arith.SinOp,
    F.TanOp: arith.TanOp,
    F.CosHOp: arith.CoshOp,
    F.SinHOp: arith.SinhOp,
    F.TanHOp: arith.TanhOp,
    F.ExpOp: arith.ExpOp,
    F.LogOp: arith.LogOp,
    F.Log2Op: arith.Log2Op,
    F.FPowFOp: arith.PowFOp,
    F.FPowIOp: arith.FPowIOp,
    F.Atan2Op: arith.Atan2Op,
    C.TruncIOp: arith.TruncIOp,
    C.BitcastOp: arith.BitcastOp,
    C.IntToPtrOp: P.IntToPtrOp,
    C.PtrToIntOp: P.PtrToIntOp,
    core.SelectOp: arith.SelectOp,
}

#: Operations with a signedness: for signed and for unsigned.
BY_SIGNEDNESS: dict[type[TileOp], tuple[type[Operation], type[Operation]]] = {
    I.MaxIOp: (arith.MaxSIOp, arith.MaxUIOp),
    I.MinIOp: (arith.MinSIOp, arith.MinUIOp),
    I.RemIOp: (arith.RemSIOp, arith.RemUIOp),
    I.ShRIOp: (arith.ShRSIOp, arith.ShRUIOp),
    C.ExtIOp: (arith.ExtSIOp, arith.ExtUIOp),
    C.FToIOp: (arith.FPToSIOp, arith.FPToUIOp),
    C.IToFOp: (arith.SIToFPOp, arith.UIToFPOp),
}

#: Divisions by signedness and rounding.
DIVISIONS: dict[tuple[str, str], type[Operation]] = {
    ("signed", "zero"): arith.DivSIOp,
    ("signed", "positive_inf"): arith.CeilDivSIOp,
    ("signed", "negative_inf"): arith.FloorDivSIOp,
    ("unsigned", "zero"): arith.DivUIOp,
    ("unsigned", "positive_inf"): arith.CeilDivUIOp,
}

#: Float maximum and minimum: without and with NaN propagation.
EXTREMA: dict[type[TileOp], tuple[type[Operation], type[Operation]]] = {
    F.MaxFOp: (arith.MaxnumfOp, arith.MaximumfOp),
    F.MinFOp: (arith.MinnumfOp, arith.MinimumfOp),
}

#: The stem of the predicate's name in ``arith``.
RELATIONS: dict[str, str] = {
    "equal": "eq",
    "not_equal": "ne",
    "less_than": "lt",
    "less_than_or_equal": "le",
    "greater_than": "gt",
    "greater_than_or_equal": "ge",
}
_NO_SIGN = frozenset({"eq", "ne"})

#: The rounding mode of an operation that has no rounding attribute, if not to nearest even.
_USUAL: dict[type[TileOp], str] = {F.ExpOp: "full", F.TanHOp: "full"}


def _properties(op: TileOp) -> dict[str, Attribute | None]:
    """Rounding, flushing and overflow, where they are not the default."""
    found: dict[str, Attribute | None] = {}
    mode = enum_property(op, "rounding_mode")
    if mode and mode != _USUAL.get(type(op), "nearest_even"):
        found["rounding_mode"] = RoundingModeAttr.of(mode)
    if "flush_to_zero" in op.properties:
        found["flush_to_zero"] = UnitAttr()
    if overflow := enum_property(op, "overflow"):
        found["overflowFlags"] = arith.overflow_attr(overflow)
    return found


def _renamed(kind: type[Operation]) -> Rule:
    def rule(low: Lowering, op: TileOp) -> Sequence[SSAValue]:
        operands, results = low.values(op.operands), low.types_of(op.results)
        return low.emit(kind, operands, results, _properties(op))

    return rule


for _old, _new in RENAMED.items():
    lowers(_old)(_renamed(_new))


@lowers(C.FToFOp)
def ftof(low: Lowering, op: C.FToFOp) -> Sequence[SSAValue]:
    """``fp_to_fp``. Raises ``TileIRError`` (``aa-target``) for types of scale factors that the target lacks."""
    (source,), results = low.values(op.operands), low.types_of(op.results)
    for ty in (source.type, *results):
        if (name := T.element_name(T.element_of(ty))) in P.SCALED_FORMATS:
            require_block_scale(low, op, name)
    return low.emit(P.FpToFpOp, (source,), results, _properties(op))


@lowers(*BY_SIGNEDNESS)
def by_signedness(low: Lowering, op: TileOp) -> Sequence[SSAValue]:
    """The signed or unsigned operation. ``ftoi`` below always saturates, which only changes results that are undefined
    in the source.
    """
    kind = BY_SIGNEDNESS[type(op)][enum_property(op, "signedness") == "unsigned"]
    return low.emit(kind, low.values(op.operands), low.types_of(op.results))


@lowers(*EXTREMA)
def extremum(low: Lowering, op: F.MaxFOp | F.MinFOp) -> Sequence[SSAValue]:
    """``maximumf`` and ``minimumf`` with NaN propagation, ``maxnumf`` and ``minnumf`` without."""
    kind = EXTREMA[type(op)][op.propagate_nan is not None]
    return low.emit(kind, low.values(op.operands), low.types_of(op.results), _properties(op))


@lowers(I.DivIOp)
def divi(low: Lowering, op: I.DivIOp) -> Sequence[SSAValue]:
    """The division of this signedness and rounding."""
    kind = DIVISIONS[enum_property(op, "signedness"), enum_property(op, "rounding")]
    return low.emit(kind, low.values(op.operands), low.types_of(op.results))


@lowers(I.NegIOp)
def negi(low: Lowering, op: I.NegIOp) -> Sequence[SSAValue]:
    """0 - x; any overflow flag becomes ``no_signed_wrap``."""
    ty = low.type_of(op.result)
    promised = enum_property(op, "overflow") != "none"
    flags = arith.overflow_attr("no_signed_wrap" if promised else "none")
    zero = _constant(low, ty, 0)
    return low.emit(arith.SubiOp, (zero, low.value(op.source)), (ty,), {"overflowFlags": flags})


@lowers(I.MulhiIOp)
def mulhii(low: Lowering, op: I.MulhiIOp) -> Sequence[SSAValue]:
    """``mulhiui``; zero for i1, where the upper bit of a product is never set."""
    ty = low.type_of(op.result)
    if T.element_name(T.element_of(ty)) == "i1":
        return (_constant(low, ty, 0),)
    return low.emit(N.MulhiUIOp, low.values(op.operands), (ty,))


@lowers(I.CmpIOp)
def cmpi(low: Lowering, op: I.CmpIOp) -> Sequence[SSAValue]:
    """The predicate with its signedness, which eq and ne do not have."""
    name = RELATIONS[enum_property(op, "comparison_predicate")]
    if name not in _NO_SIGN:
        name = ("u" if enum_property(op, "signedness") == "unsigned" else "s") + name
    return _compare(low, op, arith.CmpiOp, name)


@lowers(F.CmpFOp)
def cmpf(low: Lowering, op: F.CmpFOp) -> Sequence[SSAValue]:
    """The predicate with ``o`` (ordered) or ``u`` (unordered) in front."""
    ordered = enum_property(op, "comparison_ordering") == "ordered"
    name = RELATIONS[enum_property(op, "comparison_predicate")]
    return _compare(low, op, arith.CmpfOp, ("o" if ordered else "u") + name)


def _compare(
    low: Lowering, op: TileOp, kind: type[arith.CmpiOp] | type[arith.CmpfOp], name: str
) -> Sequence[SSAValue]:
    operands = (low.value(op.operands[-2]), low.value(op.operands[-1]))
    predicate = {"predicate": IntegerAttr(kind.NAMES.index(name), i64)}
    return low.emit(kind, operands, low.types_of(op.results), predicate)


@lowers(core.ConstantOp)
def constant(low: Lowering, op: core.ConstantOp) -> Sequence[SSAValue]:
    """A constant with the same bits, a tile or a scalar."""
    ty, value = low.type_of(op.result), op.constant
    found = (
        ElementsAttr(ty, value.data.data)
        if isinstance(ty, T.TileType)
        else scalar_value(ty, value.bits()[0])
    )
    return low.emit(arith.ConstantOp, (), (ty,), {"value": found})


def _constant(low: Lowering, ty: Attribute, bits: int) -> SSAValue:
    """A scalar or splat constant of this bit pattern."""
    return low.emit(arith.ConstantOp, (), (ty,), {"value": constant_value(ty, [bits])})[0]


@lowers(C.PtrToPtrOp)
def ptr_to_ptr(low: Lowering, op: C.PtrToPtrOp) -> Sequence[SSAValue]:
    """A bitcast; nothing if the types are equal below, where pointers do not tell how memory is reached."""
    source, result = low.value(op.source), low.type_of(op.result)
    if source.type == result:
        return (source,)
    return low.emit(P.BitcastOp, (source,), (result,))


@lowers(core.OffsetOp)
def offset(low: Lowering, op: core.OffsetOp) -> Sequence[SSAValue]:
    """``addptr`` with signed offsets; i1, which it does not take, is sign-extended to i8. Raises ``not-lowered`` for
    f4E2M1FN.
    """
    base, distance = low.values((op.ptr, op.offset))
    pointee = T.element_of(base.type)
    assert isinstance(pointee, T.PtrType)
    if T.element_name(pointee.pointee) == "f4E2M1FN":
        raise refuse(op, "f4E2M1FN elements share bytes and have no addresses")
    old = tile_type(op.offset)
    if old is not None and old.element == "i1":
        wide = T.tile_or_scalar(old.dims, i8)
        (distance,) = low.emit(arith.ExtSIOp, (distance,), (wide,))
    return low.emit(P.AddPtrOp, (base, distance), low.types_of(op.results))
