"""Operations that need no loops of their own: element-wise ones, constants, shapes, grid queries."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, NamedTuple

from llvmlite import ir
from xdsl.dialects import scf
from xdsl.dialects.builtin import SymbolRefAttr
from xdsl.ir import Operation, SSAValue

from tilewright.cpu.codegen.analysis.known_numbers import CASTS, known_factor, known_number
from tilewright.cpu.codegen.control.loop_values import chosen, rebuilt, types_of_parts
from tilewright.cpu.codegen.elementwise import EMITTERS
from tilewright.cpu.codegen.elementwise.float_keys import Keys, extremum
from tilewright.cpu.codegen.elementwise.floats import Nans, clampf
from tilewright.cpu.codegen.elementwise.integers import index_cast
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.emitter.table import lowers, refuse
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import (
    ELEMENTS,
    I64,
    Element,
    bits_constant,
    element_of,
    pointee_of,
)
from tilewright.cpu.codegen.ir.types import Value
from tilewright.cpu.codegen.loops.indices import Index, Lane, alignment
from tilewright.cpu.codegen.loops.tiles import (
    Elementwise,
    Emit,
    Joined,
    Mapped,
    Range,
    Shifted,
    Strided,
    Tile,
    Uniform,
    permuted,
    repeated,
    reshaped,
)
from tilewright.cpu.codegen.memory.packing import BYTE, Bytes, FromBytes, shared_bits
from tilewright.cpu.codegen.memory.views import Memref
from tilewright.dialects import facts
from tilewright.dialects.arith import AddiOp, ArithOp, ConstantOp, IndexConversion, MuliOp, SelectOp
from tilewright.dialects.cuda_tile.types import DYNAMIC
from tilewright.dialects.declare import enum_property, int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import OPERATIONS, int_list, is_set
from tilewright.dialects.nv_tileaa.ops import shapes as S
from tilewright.dialects.nv_tileaa.ops.pointers import AddPtrOp, BitcastOp
from tilewright.dialects.nv_tileaa.ops.queues import GetProgramIdOp
from tilewright.dialects.nv_tileaa.types import strides_of
from tilewright.numerics.strides import row_major


def apply(
    f: FunctionEmitter,
    result: SSAValue,
    operands: list[SSAValue],
    emit: Emit,
    name: str = "",
    unit: int = 1,
) -> None:
    """Define the result of an element-wise operation, a scalar or a tile."""
    if not isinstance(result.type, T.TileType):
        f.values[result] = emit(f.builder, *(f.scalar(value) for value in operands))
        return
    tiles = tuple(f.tile(value) for value in operands)
    element, dims = element_of(result.type), T.dims_of(result.type)
    uniform = [tile for tile in tiles if isinstance(tile, Uniform)]
    if len(uniform) == len(tiles):
        found = emit(f.builder, *(tile.value for tile in uniform))
        f.define(result, Uniform(element, dims, found))
    else:
        f.define(result, Elementwise(element, dims, tiles, emit, name, unit))


def emitter_of(
    op: ArithOp,
    canonical: Collection[SSAValue] = (),
    quiet: Collection[SSAValue] = (),
    networks: Collection[SSAValue] = (),
) -> Emit:
    """The function that makes code of an operation of arith or math; ``canonical``: values without any
    NaN but the canonical one; ``quiet``: without any that signals; ``networks``: extrema of integers in the order of floats."""
    call = op.meaning()
    keywords: dict[str, Any] = dict(call.keywords)
    if "to" in keywords:
        keywords["to"] = ELEMENTS[keywords["to"]]
    element = ELEMENTS[T.element_name(T.element_of(op.operands[op.ELEMENT_OPERAND].type))]
    if isinstance(op, IndexConversion):
        to = element_of(op.results[0].type)
        return partial(
            index_cast, element=element, to=to, signedness=keywords.get("signedness", "signed")
        )
    if op.results[0] in networks:
        return partial(extremum, Keys(element, call.name == "maxf", "propagate_nan" in keywords))
    if call.name in ("maxf", "minf"):
        keywords["nans"] = tuple(
            Nans.CANONICAL if value in canonical else Nans.QUIET if value in quiet else Nans.ANY
            for value in op.operands
        )
    return partial(EMITTERS[call.name], element=element, **keywords)


@lowers("arith.elementwise")
def elementwise(f: FunctionEmitter, op: ArithOp) -> None:
    """A tile that is computed where it is read; choices between memrefs and views choose their addresses."""
    if isinstance(op, SelectOp) and not T.is_scalar_or_tile(op.result.type):
        condition, lhs, rhs = (f.values[value] for value in op.operands)
        f.values[op.result] = chosen(f.builder, condition, lhs, rhs, op.result.type)
        return
    apply(
        f,
        op.results[0],
        list(op.operands),
        emitter_of(op, f.canonical, f.quiet, f.by_keys),
        op.MEANING,
    )


def alias_emitter(op: Operation) -> Emit:
    """The function that makes code of an element-wise operation of nv_tileaa.

    Raises ``TileIRError`` (``cpu-unsupported``) for one that has none.
    """
    element = element_of(op.operands[0].type)
    keywords: dict[str, Any] = {"element": element}
    if rounding := enum_property(op, "rounding_mode"):
        keywords["rounding"] = rounding
    if is_set(op, "flush_to_zero"):
        keywords["flush_to_zero"] = True
    name = facts.meaning(op)
    if name == "clampf":
        return partial(clampf, element=element, propagate_nan=is_set(op, "propagate_nan"))
    if name in ("ftof", "bitcast"):
        keywords["to"] = element_of(op.results[0].type)
    if name == "offset":
        keywords["pointee"] = pointee_of(op.results[0].type)
        if keywords["pointee"].is_packed:
            raise refuse(op, "pointers to elements narrower than a byte cannot be offset")
    return partial(EMITTERS[name], **keywords)


@lowers(*(cls.name for cls in OPERATIONS.values() if cls.MEANING))
def tileaa_elementwise(f: FunctionEmitter, op: Operation) -> None:
    """The same for operations of ``nv_tileaa``; those that change the shape, packed bits and pointers with one base,
    apart.
    """
    if T.dims_of(op.operands[0].type) != T.dims_of(op.results[0].type):
        if isinstance(op, BitcastOp):
            repack(f, op)
            return
        if isinstance(op, AddPtrOp):
            _spread_base(f, op)
            return
    unit = pointee_of(op.results[0].type).memory_bytes if isinstance(op, AddPtrOp) else 1
    name = facts.meaning(op)
    apply(f, op.results[0], list(op.operands), alias_emitter(op), name, unit)


def _spread_base(f: FunctionEmitter, op: Operation) -> None:
    """A scalar base, moved by a tile of offsets."""
    base, offsets = (f.tile(value) for value in op.operands)
    result = op.results[0]
    tiles = (Uniform(base.element, T.dims_of(result.type), base.value), offsets)  # pyright: ignore[reportAttributeAccessIssue]
    element = element_of(result.type)
    unit = pointee_of(result.type).memory_bytes
    dims, emit = T.dims_of(result.type), alias_emitter(op)
    f.define(result, Elementwise(element, dims, tiles, emit, "offset", unit))


def repack(f: FunctionEmitter, op: Operation) -> None:
    """The bytes of a rank-1 tile read as elements of another width."""
    source, result = f.tile(op.operands[0]), op.results[0]
    element, dims = element_of(result.type), T.dims_of(result.type)
    if shared_bits(element):
        whole = _as_bytes(f, op, source)
        f.define(result, FromBytes(element, dims, whole))
        return
    if shared_bits(source.element):
        source = _as_bytes(f, op, source)
        if element.name == "i8":
            f.define(result, source)
            return
    held = source if isinstance(source, Strided) else f.keep(source, f.plan.last_use(result))
    f.define(result, Strided(element, dims, held.pointer, row_major(dims), held.slot))


def _as_bytes(f: FunctionEmitter, op: Operation, source: Tile) -> Tile:
    """A rank-1 tile as a tile of bytes."""
    bits = shared_bits(source.element)
    count = source.dims[0]
    if bits:
        return Bytes(BYTE, (count * bits // 8,), source)
    if source.element.buffer_bytes == 1:
        same = partial(EMITTERS["bitcast"], element=source.element, to=BYTE)
        return Elementwise(BYTE, source.dims, (source,), same)
    held = f.keep(source, f.plan.last_use(op.results[0]))
    dims = (count * source.element.buffer_bytes,)
    return Strided(BYTE, dims, held.pointer, (1,), held.slot)


@lowers("arith.constant")
def constant(f: FunctionEmitter, op: ConstantOp) -> None:
    """A splat is one number, other tiles a table in the object."""
    element, bits = element_of(op.result.type), op.bits()
    if not isinstance(op.result.type, T.TileType):
        f.values[op.result] = bits_constant(element, bits[0])
        return
    dims = op.result.type.dims
    if len(bits) == 1:
        f.values[op.result] = Uniform(element, dims, bits_constant(element, bits[0]))
        return
    f.values[op.result] = Strided(
        element, dims, constant_pointer(f, element, bits), row_major(dims)
    )


def constant_pointer(f: FunctionEmitter, element: Element, bits: list[int]) -> Value:
    """The address of constant data in buffer form, row-major and aligned to 64 bytes; ``bits`` has the pattern of
    each element.
    """
    size = element.buffer_bytes
    shift = 13 if element.name == "tf32" else 0
    data = b"".join((pattern << shift).to_bytes(size, "little") for pattern in bits)
    array = ir.Constant(ir.ArrayType(ir.IntType(8), len(data)), bytearray(data))
    module = f.unit.module
    variable = ir.GlobalVariable(module, array.type, module.get_unique_name("constant"))
    variable.linkage, variable.global_constant = "internal", True
    variable.align = 64  # pyright: ignore[reportAttributeAccessIssue]
    variable.initializer = array  # pyright: ignore[reportAttributeAccessIssue]
    return llvm.opaque(variable)


@lowers("ub.poison")
def poison(f: FunctionEmitter, op: Operation) -> None:
    """A value that nothing looks at."""
    result = op.results[0]
    parts = [llvm.undefined(ty) for ty in types_of_parts(result.type)]
    if isinstance(result.type, T.TileType):
        f.values[result] = Uniform(element_of(result.type), result.type.dims, parts[0])
    else:
        f.values[result] = rebuilt(result.type, iter(parts))


def is_poison(tile: object) -> bool:
    """Whether a tile is poison everywhere, as far as is known while code is made."""
    return isinstance(tile, Uniform) and llvm.is_undefined(tile.value)


@lowers("assume", "pragma", "optimization_barrier")
def same_values(f: FunctionEmitter, op: Operation) -> None:
    """Operand and result are the same value; assumptions have been used before code is made."""
    for operand, result in zip(op.operands, op.results, strict=True):
        if isinstance(result.type, T.TileType):
            f.define(result, f.tile(operand))
        else:
            f.values[result] = f.values[operand]


@lowers("create_mem_token", "join_mem_token", "message", "mark_for_reuse")
def nothing(f: FunctionEmitter, op: Operation) -> None:
    """The order of the program is kept, so that tokens add nothing to it."""
    for result in op.results:
        f.values[result] = None


def is_block_number(value: SSAValue, grid_axis: int) -> bool:
    """Whether a number is that of the tile block along an axis of the grid."""
    while isinstance(owner := value.owner, Operation) and owner.name in CASTS:
        value = owner.operands[0]
    owner = value.owner
    if not isinstance(owner, GetProgramIdOp) or owner.program_id is not None:
        return False
    return int_property(owner, "axis") == grid_axis


class Rise(NamedTuple):
    """By how much a number rises: so many times a value that is the same in all iterations, or 1 where that is None."""

    times: int
    by: SSAValue | None = None


def rise_per_iteration(value: SSAValue, loop: scf.ForOp) -> Rise | None:
    """By how much a number rises from one iteration of a loop to the next: 0 for what stays; None where that is not
    known.
    """
    if value is loop.body.block.args[0]:
        step = known_number(loop.step)
        return Rise(1, loop.step) if step is None else Rise(step)
    owner = value.owner
    if isinstance(owner, ConstantOp) or not loop.is_ancestor(owner):
        return Rise(0)
    if isinstance(owner, Operation) and owner.name in CASTS:
        return rise_per_iteration(owner.operands[0], loop)
    if not isinstance(owner, AddiOp | MuliOp):
        return None
    rises = [rise_per_iteration(operand, loop) for operand in owner.operands]
    if rises[0] is None or rises[1] is None:
        return None
    moving = [rise for rise in rises if rise is not None and rise.times]
    if not moving:
        return Rise(0)
    if isinstance(owner, AddiOp):
        if len({rise.by for rise in moving}) > 1:
            return None
        return Rise(sum(rise.times for rise in moving), moving[0].by)
    if len(moving) > 1:
        return None
    (rise,) = moving
    other = owner.operands[1 - rises.index(rise)]
    factor = known_number(other)
    if factor is not None:
        return Rise(rise.times * factor, rise.by)
    return Rise(rise.times, other) if rise.by is None else None


# -- shapes --------------------------------------------------------------------------------------


@lowers("splat")
def splat(f: FunctionEmitter, op: S.SplatOp) -> None:
    """One scalar for all elements."""
    ty = op.result.type
    f.values[op.result] = Uniform(element_of(ty), T.dims_of(ty), f.scalar(op.source))


def _mapped(
    f: FunctionEmitter, op: Operation, source: Tile, mapping: Any, along: int | None = None
) -> None:
    result = op.results[0]
    element, dims = element_of(result.type), T.dims_of(result.type)
    if isinstance(source, Uniform):
        f.values[result] = Uniform(element, dims, source.value)
    else:
        f.define(result, Mapped(element, dims, source, mapping, along))


@lowers("broadcast")
def broadcast(f: FunctionEmitter, op: S.BroadcastOp) -> None:
    """Element 0 along the axes of extent 1: another mapping of places, no code of its own."""
    source = f.tile(op.source)
    _mapped(f, op, source, repeated(source.dims))


@lowers("view", "expand_dims")
def view(f: FunctionEmitter, op: S.ViewOp | S.ExpandDimsOp) -> None:
    """The same elements in row-major order under other coordinates; memrefs get other extents and strides."""
    result = op.results[0]
    if isinstance(result.type, T.MemrefType):
        f.values[result] = _viewed(f, op, result.type)
        return
    source = f.tile(op.operands[0])
    if not isinstance(result.type, T.TileType):
        f.values[result] = f.element(source, [Index(0, None, 1 << 62)] * len(source.dims))
    else:
        dims = result.type.dims
        _mapped(f, op, source, reshaped(source.dims, dims), _along_in(source, dims))


def _along_in(source: Tile, dims: Sequence[int]) -> int | None:
    """The axis along which a tile lies, under a shape that only has other axes of one element; None where that is
    another shape."""
    before = [axis for axis, extent in enumerate(source.dims) if extent > 1]
    after = [axis for axis, extent in enumerate(dims) if extent > 1]
    if [source.dims[axis] for axis in before] != [dims[axis] for axis in after]:
        return None
    along = source.lies_along
    return after[before.index(along)] if along in before else None


def _viewed(f: FunctionEmitter, op: Operation, result: T.MemrefType) -> Memref:
    """The same memory under another type: extents and strides stay, or are those of the new shape."""
    source = f.values[op.operands[0]]
    assert isinstance(source, Memref)
    if len(source.sizes) == result.rank:
        return source
    if DYNAMIC in result.dims:
        raise refuse(op, "the dynamic extents of another rank are unspecified")
    return Memref(source.element, source.pointer, result.dims, strides_of(result))


@lowers("permute")
def permute(f: FunctionEmitter, op: S.PermuteOp) -> None:
    """Strides in another order where the tile lies in memory, else another mapping of places."""
    order = int_list(op.properties["permutation"])
    source = f.tile(op.source)
    if isinstance(source, Strided):
        strides = tuple(source.strides[axis] for axis in order)
        dims = T.dims_of(op.result.type)
        f.define(op.result, Strided(source.element, dims, source.pointer, strides, source.slot))
        return
    along = source.lies_along
    _mapped(f, op, source, permuted(order), None if along is None else order.index(along))


@lowers("extract")
def extract(f: FunctionEmitter, op: S.ExtractOp) -> None:
    """The leading axes at these indices; out of range is undefined, but stays in the tile."""
    source = f.tile(op.source)
    offsets = [
        _within(f, f.as_index(value), extent, 1)
        for value, extent in zip(op.indices, source.dims, strict=False)
    ]
    result = op.results[0]
    if not isinstance(result.type, T.TileType):
        coords = [Index(Lane(o), None, 1) for o in offsets]
        f.values[result] = f.element(source, coords)
        return
    count = len(offsets)
    _mapped(f, op, source, Shifted(tuple(offsets), (1,) * count, count))


@lowers("extract_slice")
def extract_slice(f: FunctionEmitter, op: S.ExtractSliceOp) -> None:
    """A mapping of places, from offsets that count elements."""
    source, result = f.tile(op.source), op.results[0]
    dims = T.dims_of(result.type)
    _mapped(f, op, source, slice_positions(f, op, source.dims, dims))


def slice_positions(
    f: FunctionEmitter, op: Any, whole: tuple[int, ...], part: tuple[int, ...]
) -> Shifted:
    """Positions in a tile for those in the part of it that starts at the operation's offsets."""
    if static := int_list(op.properties.get("offsets")):
        return Shifted(static, tuple(alignment(o) for o in static))
    offsets: list[Value | int] = []
    aligns: list[int] = []
    for value, outer, inner in zip(op.indices, whole, part, strict=True):
        if outer == inner:
            offsets.append(0)
            aligns.append(1 << 62)
            continue
        number = known_number(value)
        if number is not None and number + inner <= outer:
            offsets.append(number)
            aligns.append(alignment(number))
            continue
        unit = known_factor(value)
        offsets.append(_within(f, f.as_index(value), outer, inner))
        aligns.append(unit if outer % unit == 0 else 1)
    return Shifted(tuple(offsets), tuple(aligns))


def _within(f: FunctionEmitter, index: Value, extent: int, size: int) -> Value:
    """An index cut to where ``size`` elements fit."""
    if isinstance(index, ir.Constant):
        return index
    most = ir.Constant(I64, extent - size)
    b = f.builder
    return b.select(b.icmp_unsigned("<", index, most), index, most)


@lowers("cat")
def cat(f: FunctionEmitter, op: S.CatOp) -> None:
    """Both tiles, told apart by the coordinate along the axis where they are read."""
    lhs, rhs = f.tile(op.lhs), f.tile(op.rhs)
    dims = T.dims_of(op.result.type)
    f.define(op.result, Joined(lhs.element, dims, lhs, rhs, int_property(op, "axis")))


@lowers("make_range")
def make_range(f: FunctionEmitter, op: S.MakeRangeOp) -> None:
    """``start`` plus the row-major number, modulo 2**N in the type of the result."""
    ty = op.result.type
    element, dims = element_of(ty), T.dims_of(ty)
    if op.bounds:
        start = f.scalar(op.bounds[0])
    else:
        start = bits_constant(element, int_property(op, "start"))
    f.define(op.result, Range(element, dims, start))


def symbol_name(attribute: Any) -> str:
    """The name in a reference to a symbol, or in a symbol's own name."""
    return attribute.string_value() if isinstance(attribute, SymbolRefAttr) else attribute.data
