"""Vectors turned in registers, so that each lane holds neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.types import Builder, Value


@dataclass(frozen=True, slots=True)
class Turned:
    """How ``count`` vectors, one behind the other, are turned: the k-th one then holds the k-th of the ``count`` neighbours
    that are in each lane. Both numbers are powers of two, ``count`` the smaller one or the same.

    ``part``: how many lanes 128 bits have, within which most moves stay, as these take one instruction.
    """

    lanes: int
    count: int
    part: int

    @property
    def order(self) -> list[int]:
        """Which neighbours each lane holds: 0 the first ``count`` elements, 1 those behind them."""
        runs = self.lanes // self.count
        if self.count > self.part:
            return [lane % self.count * runs + lane // self.count for lane in range(self.lanes)]
        unit = self.part // self.count
        found: list[int] = []
        for lane in range(self.lanes):
            start, within = divmod(lane, self.part)
            vector, run = divmod(within, unit)
            found.append(vector * runs + start * unit + run)
        return found

    def turn(self, b: Builder, vectors: Sequence[Value]) -> list[Value]:
        """The vectors turned."""
        if self.count > self.part:
            return self._across_parts(b, self._within_parts(b, vectors, self.part, 1))
        unit = self.part // self.count
        held = [
            _moved(b, v, self.part, lambda i: i % unit * self.count + i // unit) for v in vectors
        ]
        return self._within_parts(b, held, self.count, unit)

    def back(self, b: Builder, vectors: Sequence[Value]) -> list[Value]:
        """Turned vectors as they were."""
        if self.count > self.part:
            return self._across_parts(b, self._within_parts(b, vectors, self.part, 1))
        unit = self.part // self.count
        held = self._within_parts(b, vectors, self.count, unit)
        return [
            _moved(b, v, self.part, lambda i: i % self.count * unit + i // self.count) for v in held
        ]

    def _within_parts(
        self, b: Builder, vectors: Sequence[Value], count: int, unit: int
    ) -> list[Value]:
        """Squares of so many units of lanes turned, of so many vectors: by interleaving halves, again and again."""
        found: list[Value] = []
        half = count // 2
        for start in range(0, len(vectors), count):
            square = list(vectors[start : start + count])
            for _ in range(count.bit_length() - 1):
                square = [
                    _interleaved(b, square[i], square[i + half], self.part, unit, upper)
                    for i in range(half)
                    for upper in (False, True)
                ]
            found += square
        return found

    def _across_parts(self, b: Builder, vectors: Sequence[Value]) -> list[Value]:
        """Squares of parts turned, by exchanges over larger and larger distances."""
        found = list(vectors)
        lanes, distance = range(self.lanes), self.part
        while distance < self.count:
            for one in range(self.count):
                if one & distance:
                    continue
                pair = found[one], found[one + distance]
                lower = [i if not i & distance else self.lanes + i - distance for i in lanes]
                upper = [i + distance if not i & distance else self.lanes + i for i in lanes]
                found[one], found[one + distance] = (
                    llvm.shuffle(b, *pair, order) for order in (lower, upper)
                )
            distance *= 2
        return found


def _moved(b: Builder, value: Value, part: int, source: Callable[[int], int]) -> Value:
    """The lanes of each part moved: where the i-th one comes from."""
    order = [lane // part * part + source(lane % part) for lane in range(llvm.lanes_of(value.type))]
    return value if order == list(range(len(order))) else llvm.shuffle(b, value, value, order)


def _interleaved(b: Builder, one: Value, other: Value, part: int, unit: int, upper: bool) -> Value:
    """The units of one half of each part of two vectors, in turn."""
    lanes = llvm.lanes_of(one.type)
    order = [
        vector + start + part // 2 * upper + at + lane
        for start in range(0, lanes, part)
        for at in range(0, part // 2, unit)
        for vector in (0, lanes)
        for lane in range(unit)
    ]
    return llvm.shuffle(b, one, other, order)
