"""Lanes in the order of words: the even ones of a run, then the odd ones.

A number of bf16 is the upper half of one of f32. A vector of them, taken as words, gives the odd ones by a mask and the even ones by
a shift, and takes two such vectors back by a shift and one move; lane by lane it is a move across the vector and a shift for each half of
them, either way. A nest that computes with them in f32 therefore does so in this order (``LoopNest.in_words``): vectors are as long as two of
f32, what they are computed from is put in order where it is read, and results go back to the order of memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I16, I32
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, Index

#: What is told of nests that go this way.
REMARK = "bf16 is computed in the order of words: the even lanes of a vector, then the odd ones"


def of_words(lanes: int) -> tuple[int, ...]:
    """The places of a run in the order of words."""
    return (*range(0, lanes, 2), *range(1, lanes, 2))


def in_words(coords: Coords, lanes: int) -> Coords | None:
    """The positions of a run of so many lanes along one axis, in the order of words; None where they are something else."""
    return _replaced(coords, tuple(range(lanes)), of_words(lanes))


def in_run(coords: Coords, lanes: int) -> Coords | None:
    """The positions, in the order of words, as a run; None where they are something else."""
    return _replaced(coords, of_words(lanes), tuple(range(lanes)))


def _replaced(coords: Coords, before: Sequence[int], after: Sequence[int]) -> Coords | None:
    moving = [axis for axis, index in enumerate(coords) if index.offsets is not None]
    if len(moving) != 1:
        return None
    (axis,) = moving
    index = coords[axis]
    offsets = list(index.offsets or ())
    if len(offsets) != len(before):
        return None
    first = offsets[0]
    if any(offset != first + place for offset, place in zip(offsets, before, strict=True)):
        return None
    moved = Index(index.base, tuple(first + place for place in after), index.align)
    return (*coords[:axis], moved, *coords[axis + 1 :])


def to_words(b: Builder, run: Value) -> Value:
    """The lanes of a run in the order of words."""
    lanes = llvm.lanes_of(run.type)
    if llvm.scalar_of(run.type) != I16:
        return llvm.shuffle(b, run, run, of_words(lanes))
    words = b.bitcast(run, llvm.vector(I32, lanes // 2))
    halves = llvm.vector(I16, lanes // 2)
    even = b.trunc(words, halves)
    odd = b.trunc(b.lshr(words, llvm.number(words.type, 16)), halves)
    return llvm.shuffle(b, even, odd, range(lanes))


def to_run(b: Builder, words: Value) -> Value:
    """Lanes in the order of words as a run."""
    lanes = llvm.lanes_of(words.type)
    half = lanes // 2
    if llvm.scalar_of(words.type) != I16:
        order = [lane % 2 * half + lane // 2 for lane in range(lanes)]
        return llvm.shuffle(b, words, words, order)
    ty = llvm.vector(I32, half)
    even, odd = (
        b.zext(llvm.shuffle(b, words, words, range(first, first + half)), ty) for first in (0, half)
    )
    found = b.or_(even, b.shl(odd, llvm.number(ty, 16)))
    return b.bitcast(found, llvm.vector(I16, lanes))
