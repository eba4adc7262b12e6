"""Quotients of vectors of integers by one number: products with its inverse, which constants tell beforehand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.differential import VARIANTS

from tilewright import LaunchOptions
from tilewright.builder import ModuleBuilder, ptr
from tilewright.cpu import Program
from tilewright.cpu.compile import compile_kernel
from tilewright.lowering import lower_to_tileaa
from tilewright.machine import Program as Reference

COUNT = 512
ROUNDINGS = ["zero", "negative_inf", "positive_inf"]


def _kernel(kind: str, signedness: Any, rounding: Any) -> Any:
    module = ModuleBuilder()
    given = {"x": ptr(kind), "q": ptr(kind), "r": ptr(kind), "d": kind}
    with module.entry("k", given) as k:

        def tiles(base: Any) -> Any:
            view = k.make_tensor_view(base, shape=[COUNT], strides=[1])
            return k.partition(view, tile=(COUNT,))

        x, _ = k.load_view_tko(tiles(k.args.x), [0])
        divisor = k.broadcast(k.reshape(k.args.d, shape=(1,)), shape=(COUNT,))
        quotient = k.divi(x, divisor, signedness=signedness, rounding=rounding)
        k.store_view_tko(quotient, tiles(k.args.q), [0])
        k.store_view_tko(k.remi(x, divisor, signedness=signedness), tiles(k.args.r), [0])
    return module.build()


def _numbers(dtype: Any, divisor: int) -> Any:
    """Around multiples of the divisor, and at the ends of the type."""
    info, rng = np.iinfo(dtype), np.random.default_rng(abs(divisor))
    ends = [info.min, info.min + 1, -1, 0, 1, info.max - 1, info.max]
    times = info.max // max(abs(divisor), 1)
    chosen = [int(rng.integers(-times - 1, times + 1)) * divisor for _ in range(COUNT)]
    near = [number + by for number in chosen for by in (-1, 0, 1)]
    least = info.min + 1 if divisor == -1 else info.min  # whose quotient would not fit
    found = [n for n in (*ends, *near, times * divisor) if least <= n <= info.max]
    return np.array(found[:COUNT] + found[:1] * (COUNT - len(found[:COUNT])), dtype)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int16, np.uint8], ids=str)
def test_quotients_are_those_of_the_reference(dtype: Any, rounding: str) -> None:
    kind = f"i{8 * np.dtype(dtype).itemsize}"
    signed, info = np.issubdtype(dtype, np.signedinteger), np.iinfo(dtype)
    if not signed and rounding == "negative_inf":
        rounding = "zero"
    module = _kernel(kind, "signed" if signed else "unsigned", rounding)
    programs = [Program(module, options=LaunchOptions(**options)) for options in VARIANTS]
    for divisor in (1, -1, 2, 3, -3, 7, 10, 100, -127, 641, 1001, 65537, info.min, info.max):
        if divisor == 0 or not info.min <= divisor <= info.max:
            continue
        x, d = _numbers(dtype, divisor), dtype(divisor)
        expected = np.zeros((2, COUNT), dtype)
        Reference(module).launch("k", 1, (x, *expected, d))
        for program in programs:
            found = np.zeros((2, COUNT), dtype)
            program.launch("k", 1, (x, *found, d))
            assert (found == expected).all(), divisor


def _by_constants(kind: str, divisors: list[int]) -> Any:
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr(kind), "q": ptr(kind)}) as k:
        x = k.make_tensor_view(k.args.x, shape=[len(divisors), COUNT], strides=[COUNT, 1])
        q = k.make_tensor_view(k.args.q, shape=[len(divisors), COUNT], strides=[COUNT, 1])
        for row, divisor in enumerate(divisors):
            held, _ = k.load_view_tko(k.partition(x, tile=(1, COUNT)), [row, 0])
            by = k.full((1, COUNT), divisor, kind)
            found = k.divi(held, by, signedness="signed", rounding="negative_inf")
            k.store_view_tko(found, k.partition(q, tile=(1, COUNT)), [row, 0])
    return module.build()


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64], ids=str)
def test_quotients_by_constants_are_rounded_down(dtype: Any) -> None:
    info = np.iinfo(dtype)
    known = (1, 2, 3, 5, 7, 9, 64, 100, 127, 641, 1001, 36524, 146097, 65536, 65537)
    ends = (info.min, -7, -2, info.max // 2 + 1, info.max - 1, info.max)
    divisors = [divisor for divisor in (*known, *ends) if divisor <= info.max]
    module = _by_constants(f"i{info.bits}", divisors)
    x = np.stack([_numbers(dtype, divisor) for divisor in divisors])
    expected = np.zeros_like(x)
    Reference(module).launch("k", 1, (x, expected))
    assert (
        expected[:, 0] == [int(row[0]) // by for row, by in zip(x, divisors, strict=True)]
    ).all()
    for options in VARIANTS:
        found = np.zeros_like(x)
        Program(module, options=LaunchOptions(**options)).launch("k", 1, (x, found))
        assert (found == expected).all()


def test_vectors_are_not_divided() -> None:
    module = lower_to_tileaa(_kernel("i32", "signed", "negative_inf")).module
    divisions = [line for line in compile_kernel(module).llvm_ir.splitlines() if "fdiv" in line]
    assert divisions and not any("fdiv <" in line for line in divisions)
