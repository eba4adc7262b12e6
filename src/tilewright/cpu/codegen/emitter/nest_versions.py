"""The versions of a loop nest: without checks of elements and with them, and what else is decided when the code runs.

Without checks there are two where what is written may bypass the caches. With them there are others where all formulas of
addresses hold, where only rows may end, and for elements at small distances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from tilewright.cpu.codegen.emitter.strides import Strides, by_stride
from tilewright.cpu.codegen.emitter.vector_lengths import UNROLL, depends_on_place
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.over_shapes import Body, Shape, over
from tilewright.cpu.codegen.loops.row_ends import Into, Limits, RowEnd, RowRange
from tilewright.cpu.codegen.loops.row_pieces import RowPieces
from tilewright.cpu.codegen.loops.row_spans import RowPart
from tilewright.cpu.codegen.loops.single_rows import SingleRows
from tilewright.cpu.codegen.loops.tiles import Tile, walk
from tilewright.cpu.target import CpuTarget

#: Of how many rows that a nest reads those of the next tile block are asked for: more streams the processor
#: follows better by itself.
_MOST_ROWS = 2
#: How many vectors an iteration handles at most in rows that end behind their array: code grows by a third as it is.
_CUT_ROUNDS = 2


class Emitter(Protocol):
    """What makes the code of a function."""

    builder: Builder

    @property
    def has_room(self) -> bool:
        """Whether the code is short enough for further versions of nests."""
        ...

    def row_part(
        self,
        tiles: Sequence[Tile],
        shape: tuple[Sequence[int], int, int],
        into: Into,
        guard: Sequence[Value],
    ) -> RowPart | RowPieces | None:
        """Where rows need no checks of what a nest reads and writes through pointers."""
        ...

    def row_range(
        self,
        tiles: Sequence[Tile],
        shape: tuple[Sequence[int], int, int],
        into: Into,
        guard: Sequence[Value],
    ) -> RowRange | None:
        """Which rows need no checks of what a nest reads and writes through pointers."""
        ...

    def row_end(
        self,
        tiles: Sequence[Tile],
        dims: Sequence[int],
        axis: int,
        width: int,
        rounds: int,
        ends: Sequence[Limits] | None = (),
    ) -> RowEnd | None:
        """Where rows end of what a nest reads and writes."""
        ...

    def cut_rows(self, end: RowEnd | None, make: Callable[[bool], list[Value]]) -> list[Value]:
        """``make(False)`` where nothing but rows ends behind its array, else ``make(True)``."""
        ...


@dataclass(slots=True)
class NestVersions:
    """What the versions of a nest share. ``shape``: with the vectors of an iteration without checks; ``fixed``: the length of vectors
    is given, not chosen; ``conditions``: where nothing needs checks, ``guard`` those of them that no tile gives; ``rows``: what is to
    be asked of each row; ``work``: the same number for all versions."""

    f: Emitter
    target: CpuTarget
    tiles: Sequence[Tile]
    body: Body
    shape: Shape
    fixed: bool
    conditions: Sequence[Value]
    guard: Sequence[Value]
    into: Into
    rows: SingleRows | None
    strides: Strides
    work: int
    in_words: int = 0
    """The lanes of vectors that are computed in the order of words; 0: none are."""
    follows: bool | None = None
    """Whether all formulas of addresses are known to hold, in code with checks."""

    def either(self, masked: bool) -> list[Value]:
        """The versions without checks, or with them."""
        if not masked:
            return self._with_non_temporal(self.into.non_temporal)
        for holds in self._formulas_hold():
            self.follows = holds
            if holds is False:
                self._one(True)
            else:
                self._checked()
        return []

    def edge(self, masked: bool, end: RowEnd | None) -> list[Value]:
        """The version for rows that end, or those with checks of every element."""
        if not masked:
            return self._one(False, end=end)
        checked = partial(self._one, True)
        by_stride(self.f.builder, self.conditions, self.strides, self._one, checked)
        return []

    def _one(
        self,
        masked: bool,
        stride: int = 1,
        *,
        beyond: bool = False,
        unroll: bool = False,
        **how: Any,
    ) -> list[Value]:
        known, b = self.strides.all_are(stride), self.f.builder
        nest = LoopNest(b, masked=masked, non_temporal=beyond, strides=known, work=self.work)
        nest.fits = self.follows if masked else None
        nest.in_words = self.in_words
        if rows_ahead(self.tiles) > _MOST_ROWS:
            nest.fetches = None
        rounds = self.shape.at_once
        at_once = 1 if masked and not unroll else rounds if stride == 1 else min(rounds, UNROLL)
        shape = self.shape._replace(at_once=at_once, columns=not self.target.has("avx512bw"))
        rows = None if self.follows is False else self.rows
        over(nest, shape, self.body, self.into.limits, rows=rows, **how)
        nest.close_all()
        return []

    def _checked(self) -> list[Value]:
        f, (dims, axis, width, rounds, short, _) = self.f, self.shape
        part = None
        if not (self.fixed or self.rows):
            shape = dims, axis, width
            rows = None if short else f.row_range(self.tiles, shape, self.into, self.guard)
            part = f.row_part(self.tiles, shape, self.into, self.guard)
            if rows is not None:
                return self._by_rows(rows, part)
        if part is not None:
            return self._one(True, part=part)
        cut = not (self.fixed or short or self.rows or depends_on_place(self.tiles))
        ends, at_once = self.into.all_ends(self.guard) if cut else None, min(rounds, _CUT_ROUNDS)
        end = f.row_end(self.tiles, dims, axis, width, at_once, ends)
        return f.cut_rows(end, partial(self.edge, end=end))

    def _by_rows(self, rows: RowRange, part: RowPart | RowPieces | None) -> list[Value]:
        """Without checks for some rows, if there are such; else, for parts of all."""
        b = self.f.builder
        if part is None:
            return self._one(True, unroll=True, part=rows)
        some = b.icmp_signed("<", rows.part.begin, rows.part.end)
        with b.if_else(some) as branches:
            for branch, chosen in zip(branches, (rows, part), strict=True):
                with branch:
                    self._one(True, unroll=chosen is rows, part=chosen)
        return []

    def _formulas_hold(self) -> Iterator[bool | None]:
        """Begin code with checks: where all formulas of addresses hold, and where one does not (False); None: each access
        asks for itself."""
        found = [each.fits for each in walk(*self.tiles)]
        asked = [*self.into.fits, *(each for each in found if each is not None)]
        b = self.f.builder
        fits = llvm.all_of(b, list({id(each): each for each in asked}.values()))
        if fits is None or not self.f.has_room:
            yield None
            return
        with b.if_else(fits, likely=True) as branches:
            for branch, holds in zip(branches, (True, False), strict=True):
                with branch:
                    yield holds

    def _with_non_temporal(self, non_temporal: Value | None) -> list[Value]:
        """What a nest without checks does, in two versions where its stores may be non-temporal."""
        one: Callable[..., list[Value]] = self._one
        if non_temporal is None:
            return one(False)
        with self.f.builder.if_else(non_temporal) as (large, small):
            with large:
                one(False, beyond=True)
            with small:
                one(False)
        return []


def rows_ahead(tiles: Sequence[Tile]) -> int:
    """How many rows of the next tile block could be fetched by a nest over these tiles."""
    return sum(tile.next_row is not None for tile in walk(*tiles))
