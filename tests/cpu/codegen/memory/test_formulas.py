"""Loads and stores at places that formulas give, behind reshapes, transpositions and cuts: vectors that begin at
a second half, cross rows, or lie near one another."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.differential import variants
from tests.cpu.codegen.support import same_bits

from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.dialects.cuda_tile.types import TileType
from tilewright.machine import Program as Reference

_KINDS = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "f16": np.float16, "i32": np.int32}
_STEPS = (1, 1, 2, 3, 4, 5)
_MOST_CUTS = 2


def _dims(tile: Value) -> tuple[int, ...]:
    assert isinstance(tile.type, TileType)
    return tile.type.dims


def _shape(rng: random.Random, size: int) -> tuple[int, ...]:
    """Extents whose product is ``size``, a power of two."""
    dims = [1] * rng.randint(1, 4)
    for _ in range(size.bit_length() - 1):
        dims[rng.randrange(len(dims))] *= 2
    return tuple(dims)


def _turned(rng: random.Random, k: Builder, tile: Value) -> Value:
    """The elements of a tile in another order and shape."""
    for _ in range(rng.randint(0, 3)):
        dims = _dims(tile)
        if len(dims) > 1 and rng.random() < 0.5:
            tile = k.permute(tile, permutation=rng.sample(range(len(dims)), len(dims)))
        else:
            tile = k.reshape(tile, shape=_shape(rng, math.prod(dims)))
    return tile


def _half(rng: random.Random, k: Builder, tile: Value) -> Value:
    """One half of a tile along an axis."""
    dims = _dims(tile)
    along = rng.choice([axis for axis, extent in enumerate(dims) if extent > 1])
    at = [k.constant(int(axis == along and rng.random() < 0.6), "i32") for axis in range(len(dims))]
    after = [extent // 2 if axis == along else extent for axis, extent in enumerate(dims)]
    return k.extract(tile, at, shape=after)


def _places(rng: random.Random, k: Builder, size: int) -> Value:
    """A tile of ``size`` different numbers below the length of the arrays."""
    width, cuts = rng.choice(("i32", "i64")), rng.randint(0, _MOST_CUTS)
    numbers = k.iota(shape=(size << cuts,), to=width) * rng.choice(_STEPS)
    if rng.random() < 0.3:
        numbers = (_length(size) - 1) - numbers
    numbers = _turned(rng, k, numbers)
    for _ in range(cuts):
        numbers = _turned(rng, k, _half(rng, k, numbers))
    return numbers


def _at(k: Builder, base: Value, places: Value) -> Value:
    dims = _dims(places)
    one = k.reshape(base, shape=[1] * len(dims))
    return k.offset(k.broadcast(one, shape=dims), places)


def _below(rng: random.Random, k: Builder, places: Value, size: int) -> Value | None:
    """A mask for some of the kernels."""
    return places < rng.randrange(_length(size)) if rng.random() < 0.3 else None


def _length(size: int) -> int:
    return (size << _MOST_CUTS) * max(_STEPS)


def _kernel(seed: int, kind: str, size: int) -> Any:
    """``y[places] = x[other places]``."""
    rng = random.Random(seed)
    module = ModuleBuilder()
    with module.entry("turn", {"x": ptr(kind), "y": ptr(kind)}) as k:
        read, written = _places(rng, k, size), _places(rng, k, size)
        mask = _below(rng, k, read, size)
        held, _ = k.load_ptr_tko(_at(k, k.args.x, read), mask, None if mask is None else 0)
        held = k.reshape(_turned(rng, k, held), shape=_dims(written))
        k.store_ptr_tko(_at(k, k.args.y, written), held, _below(rng, k, written, size))
    return module.build()


def check_seed(seed: int) -> None:
    rng = random.Random(seed)
    kind, size = rng.choice(list(_KINDS)), rng.choice((8, 32, 64, 256))
    module, length = _kernel(seed, kind, size), _length(size)
    numbers = np.random.default_rng(seed).integers(-60, 60, 2 * length).astype(_KINDS[kind])
    x, y = numbers[:length], numbers[length:]
    expected = y.copy()
    Reference(module).launch("turn", 1, (x, expected))
    for options in variants(seed):
        found = y.copy()
        Program(module, options=LaunchOptions(**options)).launch("turn", 1, (x, found))
        assert same_bits(found, expected).all(), (seed, kind, size, options)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("seed", range(60))
def test_places_by_formula_are_those_of_the_reference(seed: int) -> None:
    check_seed(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 3000, 100))
def test_more_places_by_formula_are_those_of_the_reference(first: int) -> None:
    for seed in range(first, first + 100):
        check_seed(seed)
