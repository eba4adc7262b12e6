"""8-bit operands of ``mma.sync`` that are not contiguous along k.

``ldmatrix`` transposes 16-bit elements. Applied to bytes, it gives each thread two pairs of adjacent bytes that are
consecutive along k. Two such registers hold, for each byte of a pair, four bytes along k; ``prmt`` gathers them into the
operand registers of every second row or column.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import builtin as b
from xdsl.dialects import memref, vector
from xdsl.dialects.arith import AndIOp, ShRUIOp
from xdsl.ir import SSAValue

from tilewright.dialects.nv_tileas.types import TiledViewType
from tilewright.dialects.nvgpu.ops.matrix import LdMatrixOp
from tilewright.dialects.upstream.base.shapes import bit_width
from tilewright.dialects.upstream.llvm.calls import CallIntrinsicOp
from tilewright.layouts.layout import axis_bits
from tilewright.lowering.nvgpu.types import I32, SHARED_SPACE
from tilewright.lowering.nvgpu.vectors import reshaped
from tilewright.lowering.scheduled.conversions import SharedTile, storage_tile
from tilewright.lowering.scheduled.state import ScheduledKernel

_I16 = b.IntegerType(16)
#: Which of 8 bytes are the even ones, and the odd ones, of two registers, for threads of which the first
#: register has the smaller k, and the greater.
_SELECTORS = ((0x6420, 0x2064), (0x7531, 0x3175))
#: The bit of the thread's number that tells these apart.
_UPPER_HALF = 2
#: The bits of k that the rows of a matrix stand for, and the matrices: of the lanes with the upper half of k
#: the first matrix has the upper pairs, so that eight rows of a matrix lie in different banks.
_ROWS, _MATRICES = (1, 4, 10), (2, 16)


def is_transposed(operand: SSAValue, rows: int, along: int) -> bool:
    """Whether an operand of 8 bits in storage has neighbours along axis ``rows``, and not along k."""
    ty = operand.type
    if not isinstance(ty, TiledViewType) or bit_width(ty.element_type) != 8:
        return False
    ranges = axis_bits(ty.dims)
    places = [ty.shared.place(1 << ranges[axis].start) for axis in (rows, along)]
    return places[0] < places[1]


def transposed_words(
    low: ScheduledKernel, storage: SSAValue, along: range, warps: Sequence[int], number: int
) -> tuple[SSAValue, SSAValue]:
    """For the even and for the odd ones of 16 neighbours two registers each, of which each has four bytes
    along k; the first ones of 16 k, the others of the next 16.

    ``along`` are the bits of the element's number that are k, ``number`` is that of the first element, and
    ``warps`` those that bits of the warp's number stand for.
    """
    tile = _in_pairs(low, storage)
    lanes = [basis << along.start for basis in (*_ROWS, *_MATRICES)]
    targets = [tile.layout.place(basis) >> 1 for basis in (*lanes, *warps)]
    place = tile.index(targets, tile.layout.place(number) >> 1)
    properties = {
        "transpose": b.IntegerAttr(1, b.IntegerType(1)),
        "numTiles": b.IntegerAttr(4, I32),
    }
    loaded = low.one(LdMatrixOp, (tile.memory, place), b.VectorType(_I16, [4, 2]), properties)
    flat = reshaped(low, loaded, [8])
    words = low.one(vector.BitcastOp, (flat,), b.VectorType(I32, [4]))
    first, second = low.picked(words, (0, 2)), low.picked(words, (1, 3))
    even, odd = (_permuted(low, first, second, selectors) for selectors in _SELECTORS)
    return even, odd


def _permuted(
    low: ScheduledKernel, first: SSAValue, second: SSAValue, selectors: tuple[int, int]
) -> SSAValue:
    """Bytes of each two words, as a selector of the thread's says."""
    with low.building(low.prologue):
        is_upper = low.compare("ne", low.binary(AndIOp, low.thread(), _UPPER_HALF), 0)
        choice = low.select(is_upper, *(low.constant(n, I32) for n in reversed(selectors)))
    where = low.splat(choice, 2)
    properties = {
        "intrin": b.StringAttr("llvm.nvvm.prmt"),
        "op_bundle_sizes": b.DenseArrayBase.from_list(I32, []),
        "operandSegmentSizes": b.DenseArrayBase.from_list(I32, [3, 0]),
    }
    return low.one(CallIntrinsicOp, (first, second, where), first.type, properties)


def _in_pairs(low: ScheduledKernel, storage: SSAValue) -> SharedTile:
    """A storage of bytes, seen as pairs of them; its layout is still that of bytes."""
    tile = storage_tile(low, storage)
    view = tile.memory.owner
    assert isinstance(view, memref.ViewOp) and isinstance(tile.memory.type, b.MemRefType)
    count = prod(tile.memory.type.get_shape()) // 2
    with low.building(low.prologue):
        ty = b.MemRefType(_I16, [count], memory_space=SHARED_SPACE)
        memory = low.one(memref.ViewOp, (view.source, view.byte_shift), ty)
    start = None if tile.start is None else low.binary(ShRUIOp, tile.start, 1)
    return SharedTile(low, memory, tile.layout, start)
