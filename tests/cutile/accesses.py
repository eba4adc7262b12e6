"""Random cuTile programs of ordered accesses: each tile block loads, stores, gathers, scatters and updates a
row of a few arrays, over what it has written before, in and between loops and branches that may not be
entered. All numbers are small integers, floats too, so that every machine leaves the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import numpy as np

ROWS, EXTENT, DEPTH = 2, 128, 2
#: The arrays, by the names of their parameters.
TYPES = {"a": "float32", "i": "int32", "c": "int8", "h": "float16", "w": "int64", "s": "int16"}
_INTEGERS = "icws"
Tile = tuple[str, int, str]


class AccessWriter:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.lines = ["import cuda.tile as ct", "@ct.kernel", f"def k({', '.join(TYPES)}):"]
        self.tiles: list[Tile] = []
        self.numbers = ["b", "0"]
        self.depth = self.count = 0
        self.put("b = ct.bid(0)")

    def text(self) -> str:
        self.statements(self.random.choice((5, 10, 20)))
        for name, count, array in self.tiles[-4:]:
            self.put(f"ct.scatter({array}, (b, ct.arange({count}, dtype=ct.int32)), {name})")
        return "\n".join(self.lines) + "\n"

    def put(self, line: str) -> None:
        self.lines.append("    " * (self.depth + 1) + line)

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def statements(self, count: int) -> None:
        kinds: list[Callable[[], None]] = [self.load] * 4 + [self.store] * 4 + [self.compute] * 4
        kinds += [self.update] * 2 + [self.number] + [self.loop, self.loop, self.branch]
        for _ in range(count):
            self.random.choice(kinds)()

    def tile(self, count: int, array: str) -> str:
        """A tile to store: one at hand, or a new one."""
        held = [name for name, n, of in self.tiles if (n, of) == (count, array)]
        if held and self.random.random() < 0.8:
            return self.random.choice(held[-6:])
        self.let(
            f"ct.astype(ct.arange({count}, dtype=ct.int32) % 5 + 1, ct.{TYPES[array]})",
            count,
            array,
        )
        return self.tiles[-1][0]

    def let(self, expression: str, count: int, array: str) -> None:
        name = self.name()
        self.put(f"{name} = {expression}")
        self.tiles.append((name, count, array))

    def start(self) -> str:
        number = str(self.random.randrange(EXTENT))
        return (
            number
            if self.random.random() < 0.5
            else f"({self.random.choice(self.numbers)} + {number})"
        )

    def places(self, count: int, *, apart: bool) -> str:
        """Indices of elements, each another one where they are to be ``apart``."""
        lanes, start = f"ct.arange({count}, dtype=ct.int32)", self.start()
        forms = [f"{lanes} * {self.random.choice((1, 3, 127))} + {start}", f"{start} - {lanes}"]
        if not apart:
            forms += [f"{lanes} // 2 + {start}", f"{lanes} * 0 + {start}"]
        return f"(({self.random.choice(forms)}) & {EXTENT - 1})"

    def shape(self) -> tuple[str, int]:
        return self.random.choice(list(TYPES)), self.random.choice((1, 2, 4, 8, 16, 32, 64))

    def mask(self, count: int) -> str:
        limit = f"ct.arange({count}, dtype=ct.int32) < {self.random.randrange(count + 1)}"
        return self.random.choice(("", "", f", mask={limit}", ", mask=False", ", mask=True"))

    def load(self) -> None:
        array, count = self.shape()
        if self.random.random() < 0.5:
            at = f"{self.start()} & {EXTENT // count - 1}"
            self.let(f"ct.load({array}, (b, {at}), (1, {count})).reshape(({count},))", count, array)
        else:
            at = self.places(count, apart=False)
            self.let(f"ct.gather({array}, (b, {at}){self.mask(count)})", count, array)

    def store(self) -> None:
        array, count = self.shape()
        value = self.tile(count, array)
        if self.random.random() < 0.5:
            at = f"{self.start()} & {EXTENT // count - 1}"
            self.put(f"ct.store({array}, (b, {at}), {value}.reshape((1, {count})))")
        else:
            at = self.places(count, apart=True)
            self.put(f"ct.scatter({array}, (b, {at}), {value}{self.mask(count)})")

    def update(self) -> None:
        array, (_, count) = self.random.choice("iiwa"), self.shape()
        kind = "add" if array == "a" else self.random.choice(("add", "max", "min", "and", "xor"))
        order = self.random.choice(("RELAXED", "RELAXED", "ACQ_REL", "ACQUIRE", "RELEASE"))
        at, value = self.places(count, apart=False), self.tile(count, array)
        self.put(
            f"ct.atomic_{kind}({array}, (b, {at}), {value}, memory_order=ct.MemoryOrder.{order})"
        )

    def compute(self) -> None:
        if not self.tiles:
            return
        name, count, array = self.random.choice(self.tiles[-6:])
        other, ty = self.tile(count, array), f"ct.{TYPES[array]}"
        plain = f"ct.minimum(ct.maximum({name} - {other}, -50), 50)"
        if array in _INTEGERS:
            plain = f"ct.astype(({name} + {other}) % 61, {ty})"
        kind = self.random.randrange(5)
        if kind == 0 and count < 64:
            self.let(f"ct.cat(({name}, {other}), 0)", 2 * count, array)
        elif kind == 1 and count > 1:
            self.let(
                f"ct.extract({name}, ({self.random.randrange(2)},), ({count // 2},))",
                count // 2,
                array,
            )
        elif kind == 2:
            wanted = self.random.choice(list(TYPES))
            self.let(f"ct.astype({name}, ct.{TYPES[wanted]})", count, wanted)
        elif kind == 3:
            self.let(f"ct.where({name} < {other}, {name}, {other})", count, array)
        else:
            self.let(plain, count, array)

    def number(self) -> None:
        """A number that was in memory."""
        name = self.name()
        self.put(f"{name} = ct.gather(i, (b, {self.start()} & {EXTENT - 1})).item() & {EXTENT - 1}")
        self.numbers.append(name)

    @contextmanager
    def inner(self) -> Iterator[None]:
        tiles, numbers = list(self.tiles), list(self.numbers)
        self.depth += 1
        yield
        self.depth -= 1
        self.tiles, self.numbers = tiles, numbers

    def loop(self) -> None:
        if self.depth >= DEPTH:
            return
        turns = self.random.choice(("0", "1", "2", "3", f"{self.random.choice(self.numbers)} & 3"))
        counter = self.name()
        waits = self.random.random() < 0.25
        if waits:
            self.put(f"{counter} = 0")
        self.put(f"while {counter} < ({turns}):" if waits else f"for {counter} in range({turns}):")
        with self.inner():
            self.numbers.append(counter)
            self.statements(self.random.randrange(1, 5))
            self.put(f"{counter} = {counter} + 1" if waits else "pass")

    def branch(self) -> None:
        if self.depth >= DEPTH:
            return
        self.put(f"if {self.random.choice(self.numbers)} % {self.random.choice((2, 3))} == 0:")
        for word in ("", "else:"):
            if word:
                self.put(word)
            with self.inner():
                self.statements(self.random.randrange(1, 4))
                self.put("pass")


def access_program(seed: int) -> str:
    """The source of a module with a kernel ``k``, for a grid of ``ROWS`` tile blocks."""
    return AccessWriter(seed).text()


def access_arguments(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-20, 20, (ROWS, EXTENT)).astype(name) for name in TYPES.values()]
