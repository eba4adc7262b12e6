"""Random cuTile programs that gather by formulas of places: quotients, remainders, limits, sides, masks and paddings, in loops and
reductions, with results at places that no two elements share."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

KINDS = ("float32", "float32", "float64", "float16", "int32", "int8", "uint8", "int16", "int64")
TILES = (32, 64, 128, 256, 512, 1024)
SQUARES = ((4, 32), (8, 16), (2, 128), (16, 16), (1, 64), (32, 8), (8, 64))
_NUMBERS = (1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 60)


@dataclass
class Program:
    """The text of a program, and what it is launched with; all that it adds up in floats is exact."""

    seed: int
    lines: list[str] = field(default_factory=list)
    names: int = 0

    def __post_init__(self) -> None:
        r = self.random = random.Random(self.seed)
        self.kind, self.square = r.choice(KINDS), r.random() < 0.4
        self.tile, (self.rows, self.columns) = r.choice(TILES), r.choice(SQUARES)
        self.shape = f"({self.rows}, {self.columns})" if self.square else f"({self.tile},)"
        self.count, self.length = r.choice((1000, 1024, 777, 1500, 96)), r.choice((700, 1024, 333))
        self.width, self.rounds = r.choice((7, 16, 33, 64, 100)), r.choice((0, 1, 2, 5))
        self.w, self.h = r.choice((3, 5, 8, 16, 17, 24, 40, 64)), r.choice((2, 3, 5, 9, 12, 30))
        self.constant = r.random() < 0.5
        self.places = ["i"]
        self._body()

    @property
    def text(self) -> str:
        """The module, with the kernel ``k``."""
        sizes = ", ".join(f"{n}: ct.Constant[int]" if self.constant else n for n in ("w", "h"))
        head = f"import cuda.tile as ct\nDT = ct.{self.kind}\n\n\n@ct.kernel\n"
        head += f"def k(a, b, c, flat, matrix, counts, n, rounds, width, {sizes}):\n"
        return head + "\n".join(self.lines) + "\n"

    def arguments(self) -> tuple[tuple[int, int, int], list[Any]]:
        """The grid, and new arguments; the last arrays among them are results."""
        rng, dtype = np.random.default_rng(self.seed), np.dtype(self.kind)
        rows, gap = -(-self.count // self.width), 3 * (self.seed % 3 == 0)

        def array(*shape: int) -> np.ndarray:
            low = 0 if self.kind == "uint8" else -8
            whole = rng.integers(low, 9, (*shape[:-1], shape[-1] + gap)).astype(dtype)
            return whole[..., : shape[-1]]

        given = [array(self.length), array(rows, self.width), array(4, rows, 8)]
        results = [
            np.full(2 * self.count + 8, 1, dtype),
            np.full((rows, self.width), 2, dtype),
            np.zeros(50, dtype),
        ]
        if self.square:
            grid = (-(-self.width // self.columns), -(-(rows + 1) // self.rows), 1)
        else:
            grid = (-(-self.count // self.tile), 1, 1)
        numbers = [self.count, self.rounds, self.width, self.w, self.h]
        return grid, [*given, *results, *numbers]

    # -- text --------------------------------------------------------------------------------

    def _put(self, line: str, depth: int = 1) -> None:
        self.lines.append("    " * depth + line)

    def _new(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def _whole(self, text: str) -> str:
        return f"ct.broadcast_to({text}, {self.shape})"

    def _number(self) -> str:
        known = str(self.random.choice(_NUMBERS))
        return self.random.choice((known, "w", "h", "a.shape[0]", "b.shape[1]", "c.shape[2]"))

    def _place(self, depth: int = 0) -> str:
        """A formula of places."""
        r = self.random
        if depth > 2 or r.random() < 0.15:
            return r.choice(self.places)

        def inner() -> str:
            return self._place(depth + 1)

        ways: list[Callable[[], str]] = [
            lambda: f"({inner()} // {self._number()})",
            lambda: f"({inner()} % {self._number()})",
            lambda: f"({inner()} * {r.choice((1, 2, 3, 4, -1))} + {self._number()})",
            lambda: f"({inner()} + {r.choice((1, 2, -1, -2, 3, -5))})",
            lambda: f"({self._number()} - {inner()})",
            lambda: f"ct.minimum({inner()}, {self._number()})",
            lambda: f"ct.maximum({inner()}, {r.choice(('0', '1', 'w'))})",
            lambda: f"ct.where({inner()} < {self._number()}, {inner()}, {inner()})",
            lambda: f"({inner()} {r.choice('^&|')} {r.choice((1, 2, 3, 7, 15))})",
            lambda: f"({inner()} >> {r.choice((1, 2, 3))})",
            lambda: f"({inner()} + {inner()})",
            lambda: f"ct.abs({inner()})",
            lambda: self._mirrored(inner(), self._number()),
        ]
        return r.choice(ways)()

    def _mirrored(self, place: str, end: str) -> str:
        """Places from an end on, or below 0, as in a mirror there."""
        if self.random.random() < 0.4:
            place = f"ct.abs({place})"
        elif self.random.random() < 0.3:
            place = f"ct.where({place} < 0, -{place}, {place})"
        return f"ct.where({place} >= {end}, 2 * ({end} - 1) - {place}, {place})"

    def _split(self) -> list[str]:
        flat, by = self._place(1), self._number()
        parts = [f"({flat} // {by})", f"({flat} % {by})"]
        return parts if self.random.random() < 0.7 else parts[::-1]

    def _mask(self) -> str:
        r = self.random
        found = f"({self._place(1)} {r.choice(('<', '>=', '==', '!='))} {self._number()})"
        if r.random() < 0.3:
            found = f"({found} {r.choice('&|')} ({self._place(1)} < {self._number()}))"
        return found

    def _load(self, depth: int) -> str:
        r, name = self.random, self._new()
        rank = r.choice((1, 1, 2, 2, 3))
        at = [self._place()] if rank == 1 else self._split()
        if rank == 2 and r.random() < 0.5:
            at = [self._place(1), self._place(1)]
        if rank == 3:
            at.insert(r.randrange(3), self._place(1))
        extra = f", mask={self._whole(self._mask())}" if r.random() < 0.3 else ""
        extra += f", padding_value={r.choice((0, 1, 3))}" if r.random() < 0.6 else ""
        places = ", ".join([self._whole(at[0]), *at[1:]])
        self._put(f"{name} = ct.gather({'abc'[rank - 1]}, ({places},){extra})", depth)
        return name

    def _compute(self, values: list[str], depth: int) -> None:
        r, name = self.random, self._new()
        x, y = r.choice(values), r.choice(values)
        ways = (
            f"{x} + {y}",
            f"{x} - {y}",
            f"ct.where({self._mask()}, {x}, {y})",
            f"ct.where({x} < {y}, {x}, {y})",
            f"ct.maximum({x}, {y})",
            f"{x} + ct.astype({self._whole(self._place(1))} & 7, DT)",
        )
        self._put(f"{name} = {r.choice(ways)}", depth)
        values.append(name)

    def _some(self, values: list[str], count: int, depth: int) -> None:
        for _ in range(count):
            if self.random.random() < 0.45:
                values.append(self._load(depth))
            else:
                self._compute(values, depth)

    def _loop(self, values: list[str]) -> None:
        r, total, outside = self.random, self._new(), list(self.places)
        self._put(f"{total} = {r.choice(values)}")
        self._put(f"for k in range({r.choice(('rounds', '4'))}):")
        self.places += ["(i + k)", "(i * 2 + k)", "(i + k * w)"]
        inside = [*values, self._load(2)]
        self._some(inside, r.randrange(3), 2)
        last = inside[-1]
        ways = [f"ct.maximum({total}, {last})"]
        if self.kind != "float16":  # its sums would be rounded
            ways += [f"{total} + {last}", f"ct.where({last} > 0, {total} + {last}, {total})"]
        self._put(f"{total} = {r.choice(ways)}", 2)
        self.places = outside
        values.append(total)

    def _body(self) -> None:
        r = self.random
        if self.square:
            row = f"ct.bid(1) * {self.rows} + ct.arange({self.rows}, dtype=ct.int32)"
            column = f"ct.bid(0) * {self.columns} + ct.arange({self.columns}, dtype=ct.int32)"
            self._put(f"r = ct.reshape({row}, ({self.rows}, 1))")
            self._put(f"s = ct.reshape({column}, (1, {self.columns}))")
            self._put("i = r * width + s")
            self.places = ["r", "s", "i", "i"]
        else:
            self._put(f"i = ct.bid(0) * {self.tile} + ct.arange({self.tile}, dtype=ct.int32)")
        if r.random() < 0.5:
            self._put(f"q = {self._place(1)}")
            self.places.append("q")
        values = [self._load(1)]
        self._some(values, r.randrange(1, 4), 1)
        if r.random() < 0.5:
            self._loop(values)
        self._some(values, r.randrange(2), 1)
        self._result(self._reduced(values[-1]))

    def _reduced(self, value: str) -> str:
        r = self.random
        if not self.square or r.random() < 0.6:
            return value
        ways = ["max", "min", "argmax", "argmin"] + ["sum"] * (self.kind != "float16")
        found = f"ct.{r.choice(ways)}({value}, {r.randrange(2)}, keepdims=True)"
        each = f"ct.astype({self._whole(found)}, DT)"
        return f"({value} + {each})" if r.random() < 0.5 else each

    def _result(self, value: str) -> None:
        r = self.random
        masks = ["(s < width)"] * self.square + [self._mask()] * (r.random() < 0.4)
        extra = f", mask={self._whole(' & '.join(masks))}" if masks else ""
        to = r.choice(
            (
                "flat, (i,)",
                "flat, (n - 1 - i,)",
                "flat, (i * 2 + 1,)",
                "flat, ((i // w) * w + (w - 1 - i % w),)",
                "matrix, (i // matrix.shape[1], i % matrix.shape[1])",
                "matrix, (i % matrix.shape[0], i // matrix.shape[0])",
            )
        )
        self._put(f"ct.scatter({to}, {value}{extra})")
        if self.kind in ("int32", "int64") and r.random() < 0.4:
            self._put(f"ct.atomic_add(counts, ({self._whole(self._place(1))},), {value})")
