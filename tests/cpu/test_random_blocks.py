"""Random kernels whose blocks change their own tiles of three arrays: in place, in branches, by masks of places."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.cpu.levels import runnable

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.numerics.arrays import dtype_of

TILES = [(1, 64), (4, 16), (8, 32), (16, 16), (32, 64), (2, 128), (1, 256)]
LIMIT = 2
#: Levels of x86 with other vectors than the host's, if it is one.
LEVELS: list[dict[str, Any]] = [
    {"threads": 1, "cpu": cpu} for cpu in runnable("x86-64-v2", "x86-64-v3")
]


class Kernel:
    """A random kernel; all that it computes with in f32 are multiples of a small power of two, and exact."""

    def __init__(self, seed: int, element: str) -> None:
        self.random = random.Random(seed)
        self.element = element
        self.tile = self.random.choice(TILES)
        self.rows_first = self.random.random() < 0.3
        self.token: Any = None
        module = ModuleBuilder()
        arrays = dict.fromkeys(("x", "y", "z"), ptr(element))
        with module.entry("k", {**arrays, "m": "i32", "n": "i32", "limit": "i32"}) as k:
            x, y, _ = k.get_tile_block_id()
            self.k, self.here = k, (x, y) if self.rows_first else (y, x)
            self.arrays = [k.args.x, k.args.y, k.args.z]
            tiles = [self.load()]
            for _ in range(self.random.randrange(3, 10)):
                self.statement(tiles)
            self.store(tiles[-1])
        self.module = module.build()

    def grid(self, rows: int, columns: int) -> tuple[int, int]:
        i, j = -(-rows // self.tile[0]), -(-columns // self.tile[1])
        return (i, j) if self.rows_first else (j, i)

    def view(self, *, padded: bool) -> Any:
        k = self.k
        m, n = k.args.m, k.args.n
        whole = k.make_tensor_view(self.random.choice(self.arrays), shape=[m, n], strides=[n, 1])
        return k.partition(whole, tile=self.tile, **({"padding": "zero"} if padded else {}))

    def ordered(self) -> dict[str, Any]:
        return {} if self.token is None else {"token": self.token}

    def load(self) -> Value:
        view = self.view(padded=self.random.random() < 0.8)
        value, self.token = self.k.load_view_tko(view, list(self.here), **self.ordered())
        return value

    def store(self, value: Value) -> None:
        view = self.view(padded=self.random.random() < 0.2)
        self.token = self.k.store_view_tko(value, view, list(self.here), **self.ordered())

    def place(self, axis: int) -> Value:
        """The number of each row, or column, in the array."""
        k, extent = self.k, self.tile[axis]
        begin = k.broadcast(k.reshape(self.here[axis] * extent, shape=(1,)), shape=(extent,))
        numbers = begin + k.iota(shape=(extent,), to="i32")
        shape = (extent, 1) if axis == 0 else (1, extent)
        return k.broadcast(k.reshape(numbers, shape=shape), shape=self.tile)

    def computed(self, tiles: Sequence[Value]) -> Value:
        k, (rows, columns) = self.k, self.tile
        x, y = self.random.choice(tiles), self.random.choice(tiles)
        match self.random.randrange(7 if self.element == "f32" else 9):
            case 0:
                found = x + y
            case 1:
                found = x - y
            case 2:
                found = x * 0.5 + 1.0
            case 3:
                slope, shift = self.random.choice([1, 2, 3]), self.random.randrange(9)
                found = k.select(self.place(1) <= self.place(0) * slope + shift, x, y)
            case 4:
                edge = k.args.n - self.random.randrange(5)
                found = k.select(self.place(1) < edge, x, x * 0.0 - 3.0)
            case 5:
                flat = k.reshape(x, shape=(rows * columns,))
                found = k.reshape(flat + flat, shape=self.tile)
            case 6:
                most = k.reduce(x, 1, -100.0, lambda k, a, b: k.maxf(a, b))
                most = k.broadcast(k.reshape(most, shape=(rows, 1)), shape=self.tile)
                found = x - most + y
            case 7:
                wide = k.ftof(x, to="f32") * 1.25 + k.ftof(y, to="f32")
                found = k.ftof(wide, to=self.element)
            case _:
                found = k.select(x < y, x * y, k.maxf(x, y * 0.75))
        return found * 0.5

    def statement(self, tiles: list[Value]) -> None:
        match self.random.randrange(5):
            case 0:
                tiles.append(self.load())
            case 1 | 2:
                tiles.append(self.computed(tiles))
            case 3:
                self.store(self.random.choice(tiles))
            case _:
                self.branches(tiles)

    def branches(self, tiles: list[Value]) -> None:
        before = self.token

        def branch(k: Builder) -> tuple[Value, Value, Value]:
            self.token, own = before, list(tiles)
            for _ in range(self.random.randrange(1, 4)):
                kind = self.random.random()
                if kind < 0.3:
                    own.append(self.load())
                elif kind < 0.85:
                    own.append(self.computed(own))
                else:
                    self.store(self.random.choice(own))
            return self.random.choice(own), self.random.choice(own), self.token

        i, j = self.here
        limit = self.k.args.limit
        condition = self.random.choice([i < limit, (i + j) % 2 == 0, limit > 3])
        *made, self.token = self.k.if_(condition, branch, branch)
        tiles += made
        for value in made:
            if self.random.random() < 0.7:
                self.store(value)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("seed", range(48))
def test_the_reference_machine_agrees(seed: int, element: str) -> None:
    kernel = Kernel(seed, element)
    rows, columns = kernel.tile
    reference = tilewright.load(kernel.module, "reference")
    ways = [{"threads": 1}, {"threads": 2}, {"threads": 1, "checked": True}, *LEVELS]
    programs = [Program(kernel.module, options=LaunchOptions(**how)) for how in ways]
    for m, n in ((3 * rows, 5 * columns), (2 * rows + 1, 33 * columns - 3), (rows, columns)):
        given = np.random.default_rng(seed).integers(-8, 8, (3, m, n)).astype(dtype_of(element))
        found: list[bytes] = []
        for program in (reference, *programs):
            held = given.copy()
            program.launch("k", kernel.grid(m, n), (*held, m, n, LIMIT))
            found.append(held.tobytes())
        assert found == [found[0]] * len(found)
