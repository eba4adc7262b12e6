"""``ldmatrix``, ``mma.sync`` and ``mma.sp.sync``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright.numerics.arrays import Array
from tilewright.numerics.tensor_cores import (
    Unit,
    multiply_add,
    multiply_add_f64,
    multiply_add_integers,
    rough_sum_of_products,
    sum_of_products,
    unit_of,
)
from tilewright.simulator import codes
from tilewright.simulator.compile import Step, Translator, implements
from tilewright.simulator.faults import Fault, OneByOne
from tilewright.simulator.layouts import (
    a_sources,
    b_sources,
    c_sources,
    c_targets,
    fragment_tables,
)
from tilewright.simulator.memory import locate, note_order
from tilewright.simulator.ops.threads import collective
from tilewright.simulator.ops.vectors import unpack_bits
from tilewright.simulator.shadow import Bytes
from tilewright.simulator.state import WARP_SIZE, Warp
from tilewright.simulator.values import Element, element_of, shape_of

_ROW_BYTES = 16
Product = Callable[[Array, Array, Array], Array]


@implements("nvgpu.ldmatrix", wide=True)
def _ldmatrix(op: Any, t: Translator) -> Step:
    """Loads 1, 2 or 4 matrices of 8 rows of 16 bytes from shared memory (PTX, ``ldmatrix``).

    Row i of matrix m is at the address of lane 8 m + i. Raises ``Fault`` if lanes have diverged, or a row is not
    aligned to 16 bytes.
    """
    source, indices = t.slot(op.srcMemref), t.slots(op.indices)
    result, shape = t.slot(op.results[0]), shape_of(op.results[0].type)
    element, tiles = element_of(op.srcMemref.type), op.properties["numTiles"].value.data
    transposes = bool(op.properties["transpose"].value.data)
    extents, bits = (8 * _ROW_BYTES // element.stored_bits,), element.stored_bits

    def step(warp: Warp) -> None:
        collective(warp, op)
        r = warp.regs
        memref = r[source]
        # Only the lanes that supply addresses are checked.
        mask = _first_lanes(8 * tiles, len(warp.members))
        place = locate(warp, memref, [r[i] for i in indices], op, extents, mask)
        if not isinstance(place, np.ndarray):
            place = np.full(warp.size, place)
        rows = place.reshape(-1, WARP_SIZE)[:, : 8 * tiles].reshape(-1) * bits >> 3
        if int(np.bitwise_or.reduce(rows)) & (_ROW_BYTES - 1):
            bad = int(rows[(rows % _ROW_BYTES != 0).argmax()])
            raise Fault(
                codes.MISALIGNED,
                f"{op.name} of {warp.name()} reads a row at shared byte {bad}, which is not a "
                f"multiple of {_ROW_BYTES}",
                op,
            )
        _note_rows(warp, rows, op)
        words = memref.buffer.data.reshape(-1, _ROW_BYTES)[rows >> 4]
        r[result] = _distributed(words, tiles, transposes, element).reshape(warp.size, *shape)

    return step


@cache
def _first_lanes(count: int, warps: int) -> Array:
    """The mask of the first lanes of each warp."""
    return np.tile(np.arange(WARP_SIZE) < count, warps)


def _note_rows(warp: Warp, rows: Array, op: Operation) -> None:
    note_order(warp, Bytes(rows, _ROW_BYTES, _ROW_BYTES), op, is_write=False)
    counters = warp.launch.counters
    counters.shared_bytes_read += rows.size * _ROW_BYTES
    counters.shared_access(rows, _ROW_BYTES, warp, op, rows.size // 8)


def _distributed(rows: Array, tiles: int, transposes: bool, element: Element) -> Array:
    """Distribute rows of 16 bytes over the lanes: 4 bytes of each matrix."""
    if transposes:
        halves = rows.view(np.uint16).reshape(-1, 8, 8).transpose(0, 2, 1)
        rows = np.ascontiguousarray(halves)
    words = rows.reshape(-1).view(np.uint32).reshape(-1, tiles, WARP_SIZE)
    octets = np.ascontiguousarray(words.transpose(0, 2, 1)).view(np.uint8)
    return unpack_bits(octets.reshape(-1, 4 * tiles), element.name, element.bits)


def product_of(name: str, unit: Unit, numerics: Any, right_name: str = "") -> Product:
    """The function that computes ``a @ b + c`` for an element type, or for two; see ``numerics.tensor_cores``.

    ``numerics`` is the mode: ``tensor-core``, ``exact``, ``portable`` or ``rough``.
    """
    if name == "f64":
        return multiply_add_f64
    if name[0] == "i":
        return lambda a, b, c: multiply_add_integers(a, b, c, saturating=True)
    return lambda a, b, c: multiply_add(a, b, c, name, unit, numerics, right_name)


def _integer_product(op: Any, bits: int) -> Product:
    """The function for integers of ``bits`` bits, held as bytes, by the operation's properties."""
    saturating = op.properties.get("wraps") is None
    unsigned = [op.properties.get(f"unsigned{side}") is not None for side in "AB"]
    mask = np.uint8((1 << bits) - 1)

    def read(array: Array, is_unsigned: bool) -> Array:
        return array.view(np.uint8) & mask if is_unsigned else array

    def multiply(a: Array, b: Array, c: Array) -> Array:
        a, b = read(a, unsigned[0]), read(b, unsigned[1])
        return multiply_add_integers(a, b, c, saturating=saturating)

    return multiply


def _operand_name(element: Element) -> str:
    return "tf32" if element.name == "f32" else element.name


@implements("nvgpu.mma.sync", wide=True)
def _mma(op: Any, t: Translator) -> Step:
    """Multiplies fragments, distributed as PTX defines, as the tensor cores of the architecture do.

    The number of products added at once, and the bits kept, are measured (``numerics.tensor_cores``). Raises ``Fault``
    for f32 without ``tf32Enabled``.
    """
    slots, result = t.slots(op.operands), t.slot(op.results[0])
    rows, columns, depth = op.shape
    element = element_of(op.operands[0].type)
    name, right_name = _operand_name(element), _operand_name(element_of(op.operands[1].type))
    if name == "tf32" and "tf32Enabled" not in op.properties:
        raise Fault(
            codes.UNSUPPORTED, "there is no product of f32 elements without tf32Enabled", op
        )
    per_register = shape_of(op.operands[0].type)[1]
    shape = shape_of(op.results[0].type)
    unit = unit_of("mma", name, t.arch.compute)
    is_integer = name[0] == "i"
    if is_integer:
        product = _integer_product(op, element.bits)
    else:
        product = product_of(name, unit, t.numerics, right_name)
    of_a, of_b = a_sources(rows, depth, per_register), b_sources(depth, per_register)
    of_c, to_c = c_sources(rows), c_targets(rows)
    multiplications = rows * columns * depth

    def alone(warp: Warp) -> None:
        if warp.size > WARP_SIZE:
            raise OneByOne
        collective(warp, op)
        a, b, c = (warp.regs[slot].reshape(-1) for slot in slots)
        found = product(a[of_a], b[of_b], c[of_c])
        warp.regs[result] = found.reshape(-1)[to_c]
        note_product(warp, op, multiplications)

    def of_integers(warp: Warp) -> None:
        collective(warp, op)
        a, b, c = (warp.regs[slot].reshape(len(warp.members), -1) for slot in slots)
        found = product(a[:, of_a], b[:, of_b], c[:, of_c])
        found = found.reshape(len(warp.members), -1)[:, to_c]
        warp.regs[result] = found.reshape(warp.size, *shape)
        note_product(warp, op, multiplications)

    def modelled(warp: Warp) -> None:
        collective(warp, op)
        tables = fragment_tables(rows, depth, per_register, len(warp.members))
        a, b, c = (warp.regs[slot].reshape(-1) for slot in slots)
        given = a[tables.a], b[tables.b], c[tables.c]
        if t.numerics == "rough":
            found = rough_sum_of_products(*given)
        else:
            found = sum_of_products(*given, name, unit, right_name)
        warp.regs[result] = found.reshape(-1)[tables.result].reshape(warp.size, *shape)
        note_product(warp, op, multiplications)

    if is_integer:
        return of_integers
    is_wide = name != "f64" and t.numerics in ("tensor-core", "rough")
    return modelled if is_wide else alone


def note_product(warp: Warp, op: Operation, multiplications: int) -> None:
    """Count a product of each warp, and advance its time. ``multiplications`` are those of one warp."""
    counters, block, count = warp.launch.counters, warp.block, len(warp.members)
    counters.mma_instructions += count
    counters.tensor_operations += 2 * multiplications * count
    warp.settle()
    for member in warp.members:
        start, member.time = block.tensor_cores.take(member.index, member.time, multiplications)
        warp.launch.timeline.add(member, "product", op, start, member.time)


# By element bits and depth: the lane and the first bit of a chunk's metadata.
_MetadataPlace = Callable[[Array, Array, int], tuple[Array, Array]]
_METADATA: dict[tuple[int, int], _MetadataPlace] = {
    (16, 16): lambda row, c, s: (4 * (row % 8) + s, 16 * (row // 8) + 4 * c),
    (16, 32): lambda row, c, s: (4 * (row % 8) + 2 * s + c // 4, 16 * (row // 8) + 4 * (c % 4)),
    (32, 8): lambda row, c, s: (4 * (row % 8) + s, 16 * (row // 8) + 4 * c),
    (32, 16): lambda row, c, s: (4 * (row % 8) + 2 * s + c // 4, 16 * (row // 8) + 4 * (c % 4)),
    (8, 32): lambda row, c, s: (4 * (row % 8) + 2 * s + row // 8, 4 * c),
    (8, 64): lambda row, c, s: (4 * (row % 8) + row // 8 + 2 * (c // 8), 4 * (c % 8)),
    (4, 64): lambda row, c, s: (4 * (row % 8) + 2 * s + row // 8, 4 * c),
    (4, 128): lambda row, c, s: (4 * (row % 8) + row // 8 + 2 * (c // 8), 4 * (c % 8)),
}
#: Elements of a chunk: in total, and stored per position in the metadata.
_CHUNKS = {16: (4, 1), 8: (4, 1), 4: (8, 2)}


def decompressed(stored: Array, words: Array, bits: int, depth: int, selector: int) -> Array | None:
    """A with zeros where nothing is stored; None if the metadata are invalid (PTX ISA, sparse matrix storage).

    ``stored`` is rows x depth / 2, the result rows x ``depth``, a new array. ``words`` are the metadata of each lane
    (uint32), ``bits`` the width of an element, ``selector`` says which lanes contribute.
    """
    rows = stored.shape[0]
    chunk = 2 if bits == 32 else _CHUNKS[bits][0]
    row, number = np.arange(rows)[:, None], np.arange(depth // chunk)[None, :]
    lane, bit = np.broadcast_arrays(*_METADATA[bits, depth](row, number, selector))
    codes_ = (words[lane] >> bit.astype(np.uint32)) & 0xF
    first, second = codes_ & 3, codes_ >> 2
    if (first >= second).any():
        return None
    full = np.zeros((rows, depth), stored.dtype)
    base = chunk * number
    if bits == 32:
        if not np.isin(codes_, (0b0100, 0b1110)).all():
            return None
        full[row, base + (first >> 1)] = stored
        return full
    each = _CHUNKS[bits][1]
    parts = stored.reshape(rows, depth // chunk, 2, each)
    for which, position in enumerate((first, second)):
        for e in range(each):
            full[row, base + each * position + e] = parts[:, :, which, e]
    return full


@implements("nvgpu.mma.sp.sync")
def _sparse_mma(op: Any, t: Translator) -> Step:
    """Multiplies a sparse A, of which half is stored. The metadata, in the lanes that the selector names, say which
    half.
    """
    slots, result = t.slots(op.operands), t.slot(op.results[0])
    rows, columns, depth = op.shape
    element = element_of(op.operands[0].type)
    name, selector = _operand_name(element), op.properties["sparsitySelector"].value.data
    per_register = shape_of(op.operands[0].type)[1]
    dense = unit_of("mma", name, t.arch.compute)
    # A chunk counts stored elements, half of all.
    unit = Unit(dense.fraction_bits, 2 * dense.chunk, dense.precision)
    product = product_of(name, unit, t.numerics)
    of_a, of_b = a_sources(rows, depth // 2, per_register), b_sources(depth, per_register)
    of_c, to_c = c_sources(rows), c_targets(rows)
    if (element.bits, depth) in ((8, 64), (4, 128)) and selector:
        raise Fault(codes.SPARSITY, "this shape has the sparsity selector 0 only", op)

    def step(warp: Warp) -> None:
        collective(warp, op)
        a, b, c, metadata = (warp.regs[slot].reshape(-1) for slot in slots)
        words = np.ascontiguousarray(metadata, np.int16).view(np.uint32)
        full = decompressed(a[of_a], words, element.bits, depth, selector)
        if full is None:
            raise Fault(
                codes.SPARSITY,
                f"the metadata of {op.name} of {warp.name()} do not name two elements of a chunk "
                "in ascending order",
                op,
            )
        found = product(full, b[of_b], c[of_c])
        warp.regs[result] = found.reshape(-1)[to_c]
        note_product(warp, op, rows * columns * depth // 2)

    return step
