"""`gpu`: thread indices, barriers, and warp-level operations."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from tilewright.dialects.declare import enum_property
from tilewright.dialects.upstream.base.shapes import bit_width
from tilewright.dialects.upstream.gpu import ops as gpu_ops
from tilewright.gpu.architectures import BASE
from tilewright.gpu.codegen import ir
from tilewright.gpu.codegen.arith import check_arithmetic
from tilewright.gpu.codegen.function import Function, lowers
from tilewright.gpu.codegen.ir import Value
from tilewright.gpu.codegen.vector import combine

WARP = 32
_ALL_LANES = ir.integer(ir.I32, -1)

#: The special registers of queries of the launch.
_REGISTERS = {
    "gpu.thread_id": "tid",
    "gpu.block_id": "ctaid",
    "gpu.block_dim": "ntid",
    "gpu.grid_dim": "nctaid",
    "gpu.cluster_id": "clusterid",
    "gpu.cluster_dim": "nclusterid",
    "gpu.cluster_block_id": "cluster.ctaid",
    "gpu.cluster_dim_blocks": "cluster.nctaid",
}


def special_register(f: Function, name: str) -> Value:
    """Read a 32-bit special register."""
    return f.code.call(f"llvm.nvvm.read.ptx.sreg.{name}", ir.I32, [])


def as_index(f: Function, number: Value) -> Value:
    """Zero-extend a number to i64."""
    return f.code.resize(number, ir.I64)


@lowers(*_REGISTERS)
def _dimension(f: Function, op: Operation) -> None:
    assert isinstance(op, gpu_ops.DimensionOp)
    if op.name == "gpu.block_dim" and f.block_size is not None:
        f.set(op.result, ir.index(f.block_size[op.axis]))
        return
    f.set(op.result, as_index(f, special_register(f, f"{_REGISTERS[op.name]}.{'xyz'[op.axis]}")))


@lowers("gpu.global_id")
def _global_id(f: Function, op: Operation) -> None:
    assert isinstance(op, gpu_ops.DimensionOp)
    axis = "xyz"[op.axis]
    block, extent, thread = (
        as_index(f, special_register(f, f"{name}.{axis}")) for name in ("ctaid", "ntid", "tid")
    )
    f.set(op.result, f.code.add(f.code.mul(block, extent), thread))


def block_extent(f: Function, axis: int) -> Value:
    """The extent of the block along an axis, an i32."""
    if f.block_size is not None:
        return ir.integer(ir.I32, f.block_size[axis])
    return special_register(f, f"ntid.{'xyz'[axis]}")


def thread_number(f: Function) -> Value:
    """The linear number of the thread in its block, x fastest, an i32."""
    total = ir.integer(ir.I32, 0)
    for axis in (2, 1, 0):
        extent = block_extent(f, axis)
        place = (
            ir.integer(ir.I32, 0)
            if extent.number == 1
            else special_register(f, f"tid.{'xyz'[axis]}")
        )
        total = f.code.add(f.code.mul(total, extent), place)
    return total


@lowers("gpu.lane_id")
def _lane(f: Function, op: Operation) -> None:
    f.set(op.results[0], as_index(f, special_register(f, "laneid")))


@lowers("gpu.subgroup_size")
def _warp_size(f: Function, op: Operation) -> None:
    f.set(op.results[0], ir.index(WARP))


@lowers("gpu.subgroup_id")
def _warp(f: Function, op: Operation) -> None:
    """From the thread's number, as the register `%warpid` may change while a kernel runs."""
    warp = f.code.binary("lshr", thread_number(f), ir.integer(ir.I32, 5))
    f.set(op.results[0], as_index(f, warp))


@lowers("gpu.num_subgroups")
def _warps(f: Function, op: Operation) -> None:
    threads = ir.integer(ir.I32, WARP - 1)
    product = ir.integer(ir.I32, 1)
    for axis in range(3):
        product = f.code.mul(product, block_extent(f, axis))
    threads = f.code.add(product, threads)
    f.set(op.results[0], as_index(f, f.code.binary("lshr", threads, ir.integer(ir.I32, 5))))


@lowers("gpu.barrier", "nvvm.barrier0")
def _barrier(f: Function, op: Operation) -> None:
    f.asm("bar.sync 0;")


# Lanes

_SHUFFLES = {"xor": "bfly", "up": "up", "down": "down", "idx": "idx"}


def shuffle(
    f: Function, mode: str, value: Value, offset: Value, clamp: Value, mask: Value
) -> tuple[Value, Value]:
    """32 bits of another lane, and whether that lane exists, by ``shfl.sync``.

    ``mode`` is ``idx``, ``up``, ``down`` or ``bfly``; the others are the operands b, c and membermask of PTX.
    """
    text = f"{{ .reg .pred p; shfl.sync.{mode}.b32 $0|p, $2, $3, $4, $5; selp.b32 $1, 1, 0, p; }}"
    found, valid = f.code.asm(text, [ir.I32, ir.I32], [value, offset, clamp, mask])
    return found, f.as_bit(valid)


def words_of(f: Function, value: Value) -> list[Value]:
    """A number as 32-bit words, low word first."""
    width = _width(value.type)
    bits = f.code.cast("bitcast", value, f"i{width}")
    if width <= 32:
        return [f.code.resize(bits, ir.I32)]
    return [
        f.code.cast("trunc", f.code.binary("lshr", bits, ir.index(32 * i)), ir.I32)
        for i in range(2)
    ]


def _width(ty: str) -> int:
    return {"half": 16, "bfloat": 16, "float": 32, "double": 64}.get(ty) or int(ty[1:])


def from_words(f: Function, words: list[Value], ty: str) -> Value:
    """A number of up to 64 bits from 32-bit words, low word first."""
    width = _width(ty)
    if width <= 32:
        return f.code.cast("bitcast", f.code.resize(words[0], f"i{width}"), ty)
    low, high = (f.code.resize(word, ir.I64) for word in words)
    return f.code.cast(
        "bitcast", f.code.binary("or", low, f.code.binary("shl", high, ir.index(32))), ty
    )


@lowers("gpu.shuffle")
def _shuffle(f: Function, op: Operation) -> None:
    assert isinstance(op, gpu_ops.ShuffleOp)
    value, offset, width = map(f.value, op.operands)
    if not 1 <= bit_width(op.operands[0].type) <= 64:
        raise f.refuse(op, "is compiled for numbers of up to 64 bits only")
    mode = enum_property(op, "mode")
    left_out = f.code.binary("sub", ir.integer(ir.I32, WARP), width)
    mask = f.code.binary("lshr", _ALL_LANES, left_out)
    # The bound is the first lane of the segment for ``up``, else the last.
    clamp = left_out if mode == "up" else f.code.binary("sub", width, ir.integer(ir.I32, 1))
    made = [shuffle(f, _SHUFFLES[mode], word, offset, clamp, mask) for word in words_of(f, value)]
    f.set(op.results[0], from_words(f, [word for word, _ in made], value.type))
    f.set(op.results[1], made[0][1])


#: Warp reductions that are one instruction for 32-bit integers.
_REDUX = {
    "add": "add.s32",
    "minsi": "min.s32",
    "maxsi": "max.s32",
    "minui": "min.u32",
    "maxui": "max.u32",
    "and": "and.b32",
    "or": "or.b32",
    "xor": "xor.b32",
}


@lowers("gpu.subgroup_reduce")
def _subgroup_reduce(f: Function, op: Operation) -> None:
    """One instruction for 32-bit integers, else five butterfly shuffles."""
    kind = enum_property(op, "op")
    value = f.value(op.operands[0])
    check_arithmetic(f, op, op.operands[0])
    if "cluster_size" in op.properties or "cluster_size" in op.attributes:
        raise f.refuse(op, "of a part of the warp is not compiled")
    if value.type == ir.I32 and kind in _REDUX:
        f.require(op, BASE)
        text = f"redux.sync.{_REDUX[kind]} $0, $1, $2;"
        f.set(op.results[0], *f.code.asm(text, [ir.I32], [value, _ALL_LANES]))
        return
    total = value
    for step in (16, 8, 4, 2, 1):
        words = [
            shuffle(
                f,
                "bfly",
                word,
                ir.integer(ir.I32, step),
                ir.integer(ir.I32, WARP - 1),
                _ALL_LANES,
            )[0]
            for word in words_of(f, total)
        ]
        total = combine(f, kind, total, from_words(f, words, total.type))
    f.set(op.results[0], total)


# Printing


@lowers("gpu.printf")
def _printf(f: Function, op: Operation) -> None:
    """Calls `vprintf`, whose arguments are stored contiguously, promoted as in C."""
    found = op.properties["format"]
    assert isinstance(found, StringAttr)
    name = f.unit.text_constant(found.data)
    values = [_promoted(f, value) for value in f.all_parts(op.operands)]
    place = Value("ptr", "null")
    if values:
        place = f.code.alloca(f"[{8 * len(values)} x i8]", 8)
        offset = 0
        for value in values:
            size = 8 if _width(value.type) == 64 else 4
            offset += -offset % size
            f.code.store(value, f.code.offset(place, ir.I8, ir.index(offset)), size)
            offset += size
    text = f.code.op("ptr", f"addrspacecast ptr addrspace(1) @{name} to ptr")
    f.code.call("vprintf", ir.I32, [text, place])


def _promoted(f: Function, value: Value) -> Value:
    if value.type in ("half", "bfloat", "float"):
        return f.code.cast("fpext", value, ir.F64)
    if value.type.startswith("i") and _width(value.type) < 32:
        return f.code.resize(value, ir.I32)
    return value
