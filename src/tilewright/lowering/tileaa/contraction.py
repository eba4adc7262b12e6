"""Matrix products, reductions and scans."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, BoolAttr, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilewright.dialects.arith.constants import scalar_value
from tilewright.dialects.cuda_tile import types as C
from tilewright.dialects.cuda_tile.constants import exact_float, scalar_bits
from tilewright.dialects.cuda_tile.ops import matrix as M
from tilewright.dialects.cuda_tile.ops.reductions import ReduceOp, ReduceOrScan, ScanOp
from tilewright.dialects.declare import enum_property, int_property
from tilewright.dialects.nv_tileaa.enums import SignednessAttr
from tilewright.dialects.nv_tileaa.ops import contraction as N
from tilewright.dialects.nv_tileaa.ops.functions import YieldOp
from tilewright.lowering.tileaa.control_flow import Exit, Frame, lower_block
from tilewright.lowering.tileaa.state import Lowering, Nested, i32_number, segment_sizes
from tilewright.lowering.tileaa.table import lowers, refuse, require_block_scale
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.floats import bits_to_float, float_to_bits

_NO_SCALES = segment_sizes((1, 1, 1, 0, 0))


@lowers(M.MmaFOp)
def mmaf(low: Lowering, op: M.MmaFOp) -> Sequence[SSAValue]:
    """``dot``; that it may accumulate in fewer bits is the attribute ``fast_acc``."""
    dot = N.DotOp.create(
        operands=low.values(op.operands),
        result_types=low.types_of(op.results),
        properties={"operandSegmentSizes": _NO_SCALES},
        attributes={"fast_acc": UnitAttr()} if op.fast_acc is not None else {},
    )
    return low.add(dot).results


@lowers(M.MmaIOp)
def mmai(low: Lowering, op: M.MmaIOp) -> Sequence[SSAValue]:
    """``dot`` with the signedness of both operands."""
    properties: dict[str, Attribute | None] = {
        "signedness_a": SignednessAttr.of(enum_property(op, "signedness_lhs")),
        "signedness_b": SignednessAttr.of(enum_property(op, "signedness_rhs")),
    }
    groups = (*([value] for value in low.values(op.operands)), (), ())
    return low.grouped(N.DotOp, groups, low.types_of(op.results), properties)


@lowers(M.MmaFScaledOp)
def mmaf_scaled(low: Lowering, op: M.MmaFScaledOp) -> Sequence[SSAValue]:
    """``dot`` with scale factors. Raises ``TileIRError`` (``aa-target``) if the target has none."""
    require_block_scale(low, op, "a product with scale factors")
    groups = [[value] for value in low.values(op.operands)]
    return low.grouped(N.DotOp, groups, low.types_of(op.results))


@lowers(ReduceOp)
def reduce(low: Lowering, op: ReduceOp) -> Nested:
    """``reduce``; its body takes scalars instead of tiles of rank 0."""
    return _fold(low, op, N.ReduceOp, {})


@lowers(ScanOp)
def scan(low: Lowering, op: ScanOp) -> Nested:
    """``scan``, with ``reverse`` as in the source."""
    return _fold(low, op, N.ScanOp, {"reverse": BoolAttr.from_bool(op.is_reverse)})


def _fold(
    low: Lowering, op: ReduceOrScan, kind: type[Operation], properties: dict[str, Attribute | None]
) -> Nested:
    """A reduction or scan; the arguments and results of its body are scalars."""
    old = op.regions[0].blocks[0]
    _check_captures(low, op, old)
    new = Block(arg_types=low.types_of(old.args))
    low.bind(old.args, new.args)
    identities = op.properties["identities"]
    assert isinstance(identities, ArrayAttr)
    elements = [
        value.type.element_type for value in op.operands if isinstance(value.type, C.TileType)
    ]
    properties["axis"] = i32_number(int_property(op, "dim"))
    properties["identities"] = ArrayAttr(
        [_identity(a, e) for a, e in zip(identities.data, elements, strict=True)]
    )
    frame = Frame((Exit.FALL,), (elements,), _end_in_yield)
    yield lower_block(low, new, old.first_op, None, frame)
    low.op = op
    operands, types = low.values(op.operands), low.types_of(op.results)
    return low.emit(kind, operands, types, properties, [Region(new)])


def _end_in_yield(low: Lowering, values: Sequence[SSAValue]) -> None:
    low.emit(YieldOp, values)


def _check_captures(low: Lowering, op: ReduceOrScan, body: Block) -> None:
    """Refuse a body that captures tiles; those of nv_tileaa may only capture scalars."""
    for inner in body.walk():
        for value in inner.operands:
            if isinstance(value.type, C.TileType) and value.type.rank and low.is_bound(value):
                raise refuse(
                    op,
                    "its body uses a tile from outside",
                    "pass the elements that the body needs as operands of the operation",
                )


def _identity(attribute: Attribute, element: Attribute) -> Attribute:
    """The identity in the element type, exactly. In the source f16 and bf16 may stand for one another."""
    found = scalar_bits(attribute)
    assert found is not None, attribute
    name, bits = found
    wanted = FORMATS[C.element_name(element)]
    if name != wanted.name:
        bits = float_to_bits(bits_to_float(bits, FORMATS[name]), wanted)
    return exact_float(element, bits) if wanted.is_float else scalar_value(element, bits)
