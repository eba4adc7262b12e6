"""``dot``: operands through shared memory, each thread computes the elements that it holds."""

from __future__ import annotations

from math import prod

from xdsl.dialects import builtin as b
from xdsl.dialects import math as M
from xdsl.dialects import scf
from xdsl.ir import Attribute, Block, Region, SSAValue

from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nvgpu.support import arith_vectors as V
from tilewright.lowering.nvgpu.elementwise import float_cast
from tilewright.lowering.nvgpu.exchange import Exchange
from tilewright.lowering.nvgpu.memory import element_name
from tilewright.lowering.nvgpu.state import Threads
from tilewright.lowering.nvgpu.table import lowers
from tilewright.lowering.nvgpu.types import I32, scalar_of, vector_like


@lowers("dot")
def dot(low: Threads, op: DotOp) -> None:
    if op.sfa is not None:
        raise low.refuse("products with scale factors need the tensor cores of sm_100")
    a_dims, b_dims, dims = (T.dims_of(value.type) for value in (op.a, op.b, op.c))
    a, other, c = low.values((op.a, op.b, op.c))
    exchange = Exchange(low)
    a_buffer = exchange.buffer(scalar_of(a.type), prod(a_dims))
    b_buffer = exchange.buffer(scalar_of(other.type), prod(b_dims))
    exchange.put(a_buffer, a)
    exchange.put(b_buffer, other)
    exchange.meet()
    *batch, row, column = low.coordinates(dims)
    count, depth = low.layout(dims).registers, a_dims[-1]
    sums = _sum_type(low, op, c.type)
    start = _to_sum(low, c, element_name(op.c), sums)
    zero, one, end = (low.constant(n, I32) for n in (0, 1, depth))
    a_start = low.times(low.linear([*batch, row], a_dims[:-1]), depth)
    b_start = column
    if batch:
        matrices = low.linear(batch, dims[:-2])
        b_start = low.plus(low.times(matrices, b_dims[-2] * b_dims[-1]), column)
    body = Block(arg_types=[I32, sums])
    with low.filling(body):
        k = low.splat(body.args[0], count)
        left = exchange.take(a_buffer, low.plus(a_start, k))
        right = exchange.take(b_buffer, low.plus(b_start, low.times(k, b_dims[-1])))
        factors = [
            _factor(low, value, element_name(origin), enum_property(op, f"signedness_{name}"), sums)
            for value, origin, name in ((left, op.a, "a"), (right, op.b, "b"))
        ]
        total = _add_product(low, factors[0], factors[1], body.args[1])
        low.emit(scf.YieldOp, (total,))
    (found,) = low.emit(scf.ForOp, (zero, end, one, start), (sums,), regions=[Region(body)])
    low.bind(op.result, _from_sum(low, found, element_name(op.c), c.type))


def _sum_type(low: Threads, op: DotOp, ty: Attribute) -> Attribute:
    """Sums are kept in f32 for f16."""
    if isinstance(scalar_of(ty), b.Float16Type):
        return vector_like(ty, b.Float32Type())
    return ty


def _to_sum(low: Threads, value: SSAValue, name: str, ty: Attribute) -> SSAValue:
    if value.type == ty:
        return value
    return float_cast(low, value, ty, name, "f32")


def _from_sum(low: Threads, value: SSAValue, name: str, ty: Attribute) -> SSAValue:
    if value.type == ty:
        return value
    return float_cast(low, value, ty, "f32", name)


def _factor(low: Threads, value: SSAValue, name: str, signedness: str, sums: Attribute) -> SSAValue:
    """An operand in the type of the sum."""
    if name[0] == "i":
        kind = V.ExtUIOp if signedness == "unsigned" else V.ExtSIOp
        return low.one(kind, (value,), sums)
    if name == "f64":
        return value
    return float_cast(low, value, sums, name, "f32")


def _add_product(low: Threads, a: SSAValue, c: SSAValue, total: SSAValue) -> SSAValue:
    if isinstance(scalar_of(total.type), b.IntegerType):
        return low.plus(total, low.times(a, c))
    return low.one(M.FmaOp, (a, c, total), total.type)
