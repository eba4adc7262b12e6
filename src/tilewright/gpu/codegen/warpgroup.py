"""Products of a warpgroup: descriptors, `wgmma`, and stores of accumulators.

A tile in shared memory consists of slabs whose rows are 128 bytes, with the 128-byte swizzle. A row of A, and of B
without `transposeB`, is a row or column of the product and runs along k; with `transposeB`, a row of B is one k and
runs along n.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    FloatTF32Type,
    IntegerType,
    MemRefType,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.dialects.narrowing import integers_of
from tilewright.dialects.nvgpu.ops import warpgroup
from tilewright.dialects.nvgpu.types import (
    WarpgroupAccumulatorType,
    WarpgroupMatrixDescriptorType,
)
from tilewright.dialects.nvgpu.wgmma import WgmmaProductOp, WgmmaSumsOp
from tilewright.dialects.upstream.base.shapes import bit_width
from tilewright.gpu.codegen import ir, layout
from tilewright.gpu.codegen.function import Function, lowers
from tilewright.gpu.codegen.gpu_ops import thread_number
from tilewright.gpu.codegen.layout import WGMMA_ROWS
from tilewright.gpu.codegen.matrix import braces
from tilewright.numerics.element_types import signed

ROW_BYTES = 128
#: The period of the swizzle, in rows.
_PATTERN_ROWS = 8
#: The bytes along k per instruction and operand.
_STEP_BYTES = 32
_SWIZZLE_128B = 1
#: The registers of a thread, including the zero register.
_REGISTERS = 256
_STRIDE_FIELD = _PATTERN_ROWS * ROW_BYTES >> 4

_PTX_TYPES: dict[Attribute, str] = {
    Float16Type(): "f16",
    BFloat16Type(): "bf16",
    FloatTF32Type(): "tf32",
    Float8E4M3FNType(): "e4m3",
    Float8E5M2Type(): "e5m2",
    IntegerType(8): "s8",
    IntegerType(1): "b1",
}
_RESULTS: dict[Attribute, str] = {
    Float16Type(): "f16",
    Float32Type(): "f32",
    IntegerType(32): "s32",
}


def descriptor_fields(leading_rows: int) -> int:
    """The bits of a descriptor except its address, for slabs of ``leading_rows`` rows of 128 bytes.

    From the PTX instruction set, "Matrix Descriptor Format" of ``wgmma``; byte offsets stand there divided by 16.
    """
    leading = leading_rows * ROW_BYTES >> 4 & 0x3FFF
    return leading << 16 | _STRIDE_FIELD << 32 | _SWIZZLE_128B << 62


@lowers("nvgpu.warpgroup.generate.descriptor")
def _descriptor(f: Function, op: Operation) -> None:
    assert isinstance(op, warpgroup.WarpgroupGenerateDescriptorOp)
    found, made = f.layout(op.tensor), f.memref(op.tensor)
    pointer = f.address(made.pointer, found.element, made.offset)
    address = f.code.op(ir.I64, f"ptrtoint {pointer} to i64")
    place = f.code.binary("and", address, ir.index(0x3FFFF))
    start = f.code.binary("lshr", place, ir.index(4))
    rows = found.sizes[0]
    assert rows is not None
    f.set(op.descriptor, f.code.binary("or", start, ir.index(signed(descriptor_fields(rows), 64))))


@lowers("nvgpu.warpgroup.mma.init.accumulator")
def _zeros(f: Function, op: Operation) -> None:
    (result,) = op.results
    zero = {ir.F32: ir.floating(ir.F32, 0.0), ir.I32: ir.integer(ir.I32, 0)}
    f.set(result, *(zero[ty] for ty in f.types(result)))


def _matrix(value: SSAValue) -> MemRefType:
    ty = value.type
    assert isinstance(ty, WarpgroupMatrixDescriptorType)
    return ty.tensor


def k_step_bytes(step: int, *, rows: int, along_rows: bool, bits: int) -> int:
    """The byte offset of step ``step`` along k in a tile.

    ``along_rows``: k runs along rows of 128 bytes, in slabs of ``rows`` rows; otherwise each row is one k, of elements
    of ``bits`` bits.
    """
    if not along_rows:
        return step * (_STEP_BYTES * 8 // bits) * ROW_BYTES
    slab, place = divmod(step * _STEP_BYTES, ROW_BYTES)
    return slab * rows * ROW_BYTES + place


def _words(f: Function, descriptor: ir.Value) -> list[ir.Value]:
    """The low word of a descriptor, which has the address, and the high word."""
    high = f.code.binary("lshr", descriptor, ir.index(32))
    return [f.code.resize(word, ir.I32) for word in (descriptor, high)]


def _moved(name: str, words: int, distance: int) -> list[str]:
    """PTX that advances a descriptor by ``distance`` bytes; its two words are operands from ``words`` on.

    There is no carry out of the address, so the high word is unchanged.
    """
    return [f"add.u32 low, ${words}, {distance >> 4};", f"mov.b64 {name}, {{low, ${words + 1}}};"]


@lowers("nvgpu.warpgroup.mma")
def _mma(f: Function, op: Operation) -> None:
    """All instructions of the product are in one asm block, so that nothing is scheduled between them."""
    assert isinstance(op, warpgroup.WarpgroupMmaOp)
    a, b = _matrix(op.descriptorA), _matrix(op.descriptorB)
    _check_transposes(f, op, a.element_type)
    accumulator = op.matrixC.type
    assert isinstance(accumulator, WarpgroupAccumulatorType)
    register, count, blocks = layout.accumulator_registers(accumulator)
    total = count * blocks
    lines = [
        "{ .reg .pred p; .reg .b32 low; .reg .b64 da, db;",
        "setp.eq.u32 p, 0, 0;",
        "wgmma.fence.sync.aligned;",
        *_blocks(op, a, b, blocks, count),
        "wgmma.commit_group.sync.aligned;",
        f"wgmma.wait_group.sync.aligned {op.unfinished};",
        "}",
    ]
    descriptors = (f.value(op.descriptorA), f.value(op.descriptorB))
    given = [*f.parts(op.matrixC), *(word for value in descriptors for word in _words(f, value))]
    made = f.code.asm(" ".join(lines), [register] * total, given, tied=total)
    f.set(op.matrixD, *made)


def _check_transposes(f: Function, op: warpgroup.WarpgroupMmaOp, element: Attribute) -> None:
    for name in ("transposeA", "transposeB"):
        if op.properties.get(name) is not None and bit_width(element) != 16:
            raise f.refuse(
                op, f"has {name} for elements of 16 bits only: others lie along k in shared memory"
            )


def _blocks(
    op: warpgroup.WarpgroupMmaOp, a: MemRefType, b: MemRefType, blocks: int, count: int
) -> list[str]:
    """The instructions for blocks of 64 rows, with ``count`` registers of the result each.

    The operands are the results, the arguments tied to them, then the words of the descriptors.
    """
    (m, k), (_, n) = a.get_shape(), b.get_shape()
    bits = bit_width(a.element_type)
    trans_a, trans_b = op.transposeA is not None, op.transposeB is not None
    accumulator = op.matrixC.type
    assert isinstance(accumulator, WarpgroupAccumulatorType)
    depth = _STEP_BYTES * 8 // bits
    kinds = (_RESULTS[accumulator.fragmented.element_type], *map(_ptx_type, (a, b)))
    name = f"wgmma.mma_async.sync.aligned.m{WGMMA_ROWS}n{n}k{depth}.{'.'.join(kinds)}"
    tail = _tail(a.element_type, trans_a, trans_b)
    if a.element_type == IntegerType(1):
        name += ".and.popc"
    first = 2 * count * blocks
    lines: list[str] = []
    there = -1
    for step, block in _order(k // depth, blocks, count * blocks):
        if step != there:
            of_b = k_step_bytes(step, rows=n, along_rows=not trans_b, bits=bits)
            lines += _moved("db", first + 2, of_b)
        there = step
        # The next 64 rows of A are in the same slab, or with transposeA in another one.
        down = block * (k if trans_a else WGMMA_ROWS) * ROW_BYTES
        of_a = down + k_step_bytes(step, rows=m, along_rows=not trans_a, bits=bits)
        lines += _moved("da", first, of_a)
        lines.append(f"{name} {braces(count * block, count)}, da, db, p{tail};")
    return lines


def _ptx_type(matrix: MemRefType) -> str:
    return _PTX_TYPES[matrix.element_type]


def _tail(element: Attribute, trans_a: bool, trans_b: bool) -> str:
    """The immediates after the predicate: signs of A and B, and whether they are transposed."""
    if isinstance(element, IntegerType):
        return ""
    return ", 1, 1" + (f", {int(trans_a)}, {int(trans_b)}" if bit_width(element) == 16 else "")


@lowers("nvvm.wgmma.product")
def _product(f: Function, op: Operation) -> None:
    """As `nvgpu.warpgroup.mma`, with the accumulator, and possibly A, in vectors."""
    assert isinstance(op, WgmmaProductOp)
    assert isinstance(op.c.type, VectorType)
    sums = op.c.type.element_type
    register = ir.F32 if isinstance(sums, Float32Type) else ir.I32
    total = op.c.type.get_shape()[0]
    given = [f.code.element(f.value(op.c), register, ir.integer(ir.I32, i)) for i in range(total)]
    given += _words(f, f.value(op.b))
    if isinstance(op.a.type, VectorType):
        given += _left_registers(f, op.a)
    else:
        given += _words(f, f.value(op.a))
    lines = [
        "{ .reg .pred p; .reg .b32 low; .reg .b64 da, db;",
        "setp.eq.u32 p, 0, 0;",
        "wgmma.fence.sync.aligned;",
        *_instructions(op, total),
        "wgmma.commit_group.sync.aligned;",
    ]
    if op.unfinished is not None:
        lines.append(f"wgmma.wait_group.sync.aligned {op.unfinished};")
    lines.append("}")
    made = f.code.asm(" ".join(lines), [register] * total, given, tied=total)
    _set_vector(f, op.d, made)


def _instructions(op: WgmmaProductOp, total: int) -> list[str]:
    """The instructions of a product with ``total`` accumulators.

    These are followed by the words of B's descriptor, then by A's descriptor or registers.
    """
    m, n, _ = op.shape
    each = total * WGMMA_ROWS // m
    second, first = 2 * total, 2 * total + 2
    bits = bit_width(op.element)
    name = f"wgmma.mma_async.sync.aligned.m{WGMMA_ROWS}n{n}k{_STEP_BYTES * 8 // bits}.{_kinds(op)}"
    flags = [op.transposeA is not None, op.transposeB is not None]
    a_offsets, b_offsets = integers_of(op.properties.get("aOffsets")), integers_of(op.bOffsets)
    lines: list[str] = []
    there = -1
    for step, block in _order(op.steps, m // WGMMA_ROWS, total):
        if step != there:
            lines += _moved("db", second, b_offsets[step])
        there = step
        number = block * op.steps + step
        if a_offsets:
            lines += _moved("da", first, a_offsets[number])
            operand, signs = "da", flags
        else:
            operand, signs = braces(first + 4 * number, 4), flags[1:]
        tail = "" if isinstance(op.element, IntegerType) else ", 1, 1"
        if bits == 16:
            tail += "".join(f", {int(flag)}" for flag in signs)
        lines.append(f"{name} {braces(block * each, each)}, {operand}, db, p{tail};")
    return lines


def _order(steps: int, blocks: int, sums: int) -> list[tuple[int, int]]:
    """The instructions of a product, each a step of k and a block of rows.

    Blocks of the same step are consecutive, so that B's descriptor stays in the registers that the instruction reads.
    If registers do not hold the whole accumulator, the steps of a block are consecutive, so that it is spilled and
    restored once.
    """
    if sums >= _REGISTERS:
        return [(step, block) for block in range(blocks) for step in range(steps)]
    return [(step, block) for step in range(steps) for block in range(blocks)]


def _kinds(op: WgmmaProductOp) -> str:
    """The types of a product's accumulator and operands in PTX."""
    assert isinstance(op.c.type, VectorType)
    kinds = [_RESULTS[op.c.type.element_type], *[_PTX_TYPES[op.element]] * 2]
    for side, is_unsigned in ((1, op.unsignedA), (2, op.unsignedB)):
        if is_unsigned is not None:
            kinds[side] = "u" + kinds[side][1:]
    return ".".join(kinds)


@lowers("nvvm.wgmma.sums")
def _sums(f: Function, op: Operation) -> None:
    assert isinstance(op, WgmmaSumsOp) and isinstance(op.c.type, VectorType)
    register = ir.F32 if isinstance(op.c.type.element_type, Float32Type) else ir.I32
    total = op.c.type.get_shape()[0]
    given = [f.code.element(f.value(op.c), register, ir.integer(ir.I32, i)) for i in range(total)]
    wait = f"wgmma.wait_group.sync.aligned {op.unfinished};"
    _set_vector(f, op.d, f.code.asm(wait, [register] * total, given, tied=total))


def _set_vector(f: Function, result: SSAValue, numbers: Sequence[ir.Value]) -> None:
    vector = ir.Value(f.types(result)[0], "poison")
    for place, value in enumerate(numbers):
        vector = f.code.with_element(vector, value, ir.integer(ir.I32, place))
    f.set(result, vector)


def _left_registers(f: Function, value: SSAValue) -> list[ir.Value]:
    """The 32-bit registers of A's fragments."""
    held = f.value(value)
    assert isinstance(value.type, VectorType)
    words = value.type.get_shape()[0] * bit_width(value.type.element_type) // 32
    packed = f.code.cast("bitcast", held, f"<{words} x i32>")
    return [f.code.element(packed, ir.I32, ir.integer(ir.I32, place)) for place in range(words)]


@lowers("nvgpu.warpgroup.mma.store")
def _store(f: Function, op: Operation) -> None:
    """Each thread stores its elements: pairs of columns, in rows 8 apart.

    A register holds a pair of f16, or one other number.
    """
    assert isinstance(op, warpgroup.WarpgroupMmaStoreOp)
    code, made = f.code, f.memref(op.dstMemref)
    found = f.layout(op.dstMemref)
    thread = code.binary("and", thread_number(f), ir.integer(ir.I32, 127))
    warp = code.binary("lshr", thread, ir.integer(ir.I32, 5))
    lane = code.binary("and", thread, ir.integer(ir.I32, 31))
    row = code.add(
        code.mul(warp, ir.integer(ir.I32, 16)), code.binary("lshr", lane, ir.integer(ir.I32, 2))
    )
    column = code.mul(code.binary("and", lane, ir.integer(ir.I32, 3)), ir.integer(ir.I32, 2))
    first_row, first_column = code.resize(row, ir.I64), code.resize(column, ir.I64)
    _, count, _ = layout.accumulator_registers(op.matrixD.type)  # pyright: ignore[reportArgumentType]
    start = made.offset
    for place, stride in zip((first_row, first_column), made.strides, strict=True):
        start = code.add(start, code.mul(place, stride))
    size = layout.element_bytes(found.element)
    pairs = 4 // size
    for number, value in enumerate(f.parts(op.matrixD)):
        block, register = divmod(number * pairs, count * pairs)
        for e, part in enumerate(_numbers_in(f, value, pairs)):
            down = WGMMA_ROWS * block + 8 * ((register + e) >> 1 & 1)
            right = 8 * ((register + e) >> 2) + ((register + e) & 1)
            linear = start
            for distance, stride in zip((down, right), made.strides, strict=True):
                linear = code.add(linear, code.mul(ir.index(distance), stride))
            code.store(part, f.address(made.pointer, found.element, linear), size)


def _numbers_in(f: Function, register: ir.Value, count: int) -> list[ir.Value]:
    """The numbers in a register: itself, or two halves."""
    if count == 1:
        return [register]
    both = f.code.cast("bitcast", register, "<2 x half>")
    return [f.code.element(both, "half", ir.integer(ir.I32, place)) for place in range(count)]
