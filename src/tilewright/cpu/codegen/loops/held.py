"""Tiles of a few vectors that loops hand from iteration to iteration, in registers.

They have buffers like others, but on the stack, and nests that read them are written out. No address varies then, so that LLVM
makes values of them. A reduction over a short row then neither clears memory nor waits until what it has stored can be read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I8, Element
from tilewright.cpu.codegen.ir.types import Builder
from tilewright.cpu.codegen.loops.tiles import Strided, Tile, buffer_tile, walk
from tilewright.cpu.target import CpuTarget
from tilewright.passes.tileaa.split_carried import SHARES

#: How many tiles a nest that is written out may read, once for each vector.
_MOST_WRITTEN = 200


def _most_vectors(target: CpuTarget) -> int:
    return target.vector_registers // SHARES


def fits(target: CpuTarget, element: Element, dims: Sequence[int]) -> bool:
    """Whether a tile takes so few vectors that registers may hold it."""
    room = _most_vectors(target) * target.vector_bits // 8
    return prod(dims) * element.buffer_bytes <= room


def on_stack(b: Builder, element: Element, dims: Sequence[int], number: int) -> Strided:
    """The buffer with that number, from 1, of those on the stack."""
    align = llvm.target_of(b).vector_bits // 8
    with b.goto_entry_block():
        pointer = llvm.stack(b, ir.ArrayType(I8, prod(dims) * element.buffer_bytes), align)
    return buffer_tile(element, dims, pointer, -number)  # Slots of the arena are not negative.


def vectors(target: CpuTarget, tiles: Sequence[Tile]) -> int:
    """Nests of how many vectors are written out in all versions, as they read tiles on the stack; 0 for those that do not.
    The more is computed for each, the fewer, so that code does not grow without bound."""
    found = list(walk(*tiles))
    if not any(isinstance(tile, Strided) and tile.is_on_stack for tile in found):
        return 0
    return min(_most_vectors(target), _MOST_WRITTEN // len(found))


def masks_are_free(target: CpuTarget, tiles: Sequence[Tile]) -> bool:
    """Whether masks of a few vectors cost less than asking whether they are on everywhere: beside gathers, from where numbers in
    memory say. How far these go is often in memory, too, and a branch on it is mispredicted."""
    return target.has("avx512f") and any(tile.gathers for tile in walk(*tiles))
