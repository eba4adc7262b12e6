"""Random programs of shape operations, element-wise operations, reductions and scans on i32 tiles,
against NumPy. They mix tiles that are computed where they are read with tiles in buffers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from random import Random

import numpy as np
import pytest
from tests.cpu.codegen.support import Given, on_tiles, tile

_MOST_ELEMENTS = 4096


@dataclass(frozen=True, slots=True)
class Known:
    """A tile of the program and what it must be."""

    name: str
    array: np.ndarray

    @property
    def type(self) -> str:
        return tile("i32", self.array.shape)


class Program:
    """Writes a program and computes it."""

    def __init__(self, seed: int):
        self.random = Random(seed)
        self.lines: list[str] = []
        rng = np.random.default_rng(seed)
        shapes = [self.shape() for _ in range(2)]
        self.given = [rng.integers(-(2**31), 2**31, s).astype(np.int32) for s in shapes]
        self.known = [Known(f"%a{i}", array) for i, array in enumerate(self.given)]

    def shape(self) -> tuple[int, ...]:
        rank = self.random.randint(1, 3)
        return tuple(2 ** self.random.randint(0, 6 if rank < 3 else 4) for _ in range(rank))

    def add(self, operation: str, array: np.ndarray) -> None:
        name = f"%v{len(self.lines)}"
        self.lines.append(operation.replace("%new", name))
        self.known.append(Known(name, np.ascontiguousarray(array, np.int32)))

    def pick(self) -> Known:
        return self.known[-1 - min(int(self.random.expovariate(0.5)), len(self.known) - 1)]

    def step(self) -> None:
        source = self.pick()
        kinds: list[Callable[[Known], None]] = [
            self.arithmetic,
            self.arithmetic,
            self.permute,
            self.reshape,
            self.broadcast,
            self.slice,
            self.cat,
            self.reduce,
            self.scan,
            self.insert,
        ]
        self.random.choice(kinds)(source)

    def arithmetic(self, x: Known) -> None:
        same = [k for k in self.known if k.array.shape == x.array.shape]
        y = self.random.choice(same)
        with np.errstate(over="ignore"):
            name, result = self.random.choice(
                [
                    ("addi", x.array + y.array),
                    ("subi", x.array - y.array),
                    ("muli", x.array * y.array),
                    ("maxsi", np.maximum(x.array, y.array)),
                    ("xori", x.array ^ y.array),
                ]
            )
        self.add(f"%new = arith.{name} {x.name}, {y.name} : {x.type}", result)

    def permute(self, x: Known) -> None:
        order = list(range(x.array.ndim))
        self.random.shuffle(order)
        result = x.array.transpose(order)
        listed = ", ".join(map(str, order))
        self.add(
            f"%new = nv_tileaa.permute {x.name} {{permutation = array<i64: {listed}>}} "
            f": {x.type} -> {tile('i32', result.shape)}",
            result,
        )

    def reshape(self, x: Known) -> None:
        bits = prod(x.array.shape).bit_length() - 1
        parts = sorted(self.random.randint(0, bits) for _ in range(self.random.randint(0, 2)))
        edges = [0, *parts, bits]
        shape = tuple(1 << (b - a) for a, b in pairwise(edges))
        self.add(
            f"%new = nv_tileaa.view {x.name} : {x.type} -> {tile('i32', shape)}",
            x.array.reshape(shape),
        )

    def broadcast(self, x: Known) -> None:
        shape = tuple(n if n > 1 else self.random.choice([1, 2, 8]) for n in x.array.shape)
        if prod(shape) <= _MOST_ELEMENTS:
            self.add(
                f"%new = nv_tileaa.broadcast {x.name} : {x.type} -> {tile('i32', shape)}",
                np.broadcast_to(x.array, shape),
            )

    def slice(self, x: Known) -> None:
        sizes = [2 ** self.random.randint(0, n.bit_length() - 1) for n in x.array.shape]
        starts = [self.random.randint(0, n - s) for n, s in zip(x.array.shape, sizes, strict=True)]
        part = tuple(slice(a, a + s) for a, s in zip(starts, sizes, strict=True))
        listed = ", ".join(map(str, starts))
        self.add(
            f"%new = nv_tileaa.extract_slice {x.name} {{offsets = array<i64: {listed}>}} "
            f": {x.type} -> {tile('i32', sizes)}",
            x.array[part],
        )

    def insert(self, x: Known) -> None:
        sizes = [2 ** self.random.randint(0, n.bit_length() - 1) for n in x.array.shape]
        starts = [self.random.randint(0, n - s) for n, s in zip(x.array.shape, sizes, strict=True)]
        fitting = [k for k in self.known if list(k.array.shape) == sizes]
        if not fitting:
            return
        y = self.random.choice(fitting)
        result = x.array.copy()
        result[tuple(slice(a, a + s) for a, s in zip(starts, sizes, strict=True))] = y.array
        listed = ", ".join(map(str, starts))
        self.add(
            f"%new = nv_tileaa.ext.insert_slice {x.name}, {y.name} {{offsets = array<i64: {listed}>}} "
            f": {x.type}, {y.type} -> {x.type}",
            result,
        )

    def cat(self, x: Known) -> None:
        same = [k for k in self.known if k.array.shape == x.array.shape]
        y, axis = self.random.choice(same), self.random.randrange(x.array.ndim)
        if x.array.size * 2 <= _MOST_ELEMENTS:
            result = np.concatenate([x.array, y.array], axis)
            self.add(
                f"%new = nv_tileaa.cat {x.name}, {y.name} {{axis = {axis} : i32}} "
                f": {x.type}, {y.type} -> {tile('i32', result.shape)}",
                result,
            )

    def reduce(self, x: Known) -> None:
        if x.array.ndim == 1:
            return
        axis = self.random.randrange(x.array.ndim)
        result = x.array.sum(axis, dtype=np.int32)
        self._fold("reduce", f"axis = {axis} : i32", x, result)

    def scan(self, x: Known) -> None:
        axis, reverse = self.random.randrange(x.array.ndim), self.random.random() < 0.5
        ordered = np.flip(x.array, axis) if reverse else x.array
        result = np.cumsum(ordered, axis, dtype=np.int32)
        attributes = f"axis = {axis} : i32, reverse = {str(reverse).lower()}"
        self._fold("scan", attributes, x, np.flip(result, axis) if reverse else result)

    def _fold(self, name: str, attributes: str, x: Known, result: np.ndarray) -> None:
        self.add(
            f"%new = nv_tileaa.{name} {x.name} {{{attributes}, identities = [0 : i32]}} "
            f": {x.type} -> {tile('i32', result.shape)} {{\n"
            "^bb0(%e: i32, %acc: i32):\n%s = arith.addi %e, %acc : i32\nnv_tileaa.yield %s : i32\n}",
            result,
        )


def check_seed(seed: int, cpu: str = "host") -> None:
    program = Program(seed)
    while len(program.lines) < 14:
        program.step()
    chosen = [program.known[-1], program.pick(), program.pick()]
    for number, known in enumerate(chosen):
        zero = f"%zero{number} = arith.constant dense<0> : {known.type}"
        program.lines += [
            zero,
            f"%r{number} = arith.ori {known.name}, %zero{number} : {known.type}",
        ]
    given = [Given("i32", array) for array in program.given]
    outputs = [("i32", known.array.shape) for known in chosen]
    found = on_tiles("\n".join(program.lines), given, outputs, cpu=cpu)
    for known, array in zip(chosen, found, strict=True):
        assert (array == known.array).all(), f"seed {seed}: {known.name}"


@pytest.mark.parametrize("seed", [*range(40), 1007, 1020, 1029, 1046, 1103, 1155])
def test_tiles_are_what_numpy_makes(seed: int) -> None:
    check_seed(seed, "host" if seed % 4 else "generic")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_many_tiles_are_what_numpy_makes(seed: int) -> None:
    check_seed(seed, "host" if seed % 4 else "generic")
