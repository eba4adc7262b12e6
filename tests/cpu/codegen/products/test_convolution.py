"""Convolutions of tiles and histograms, compared with the reference machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.cpu.codegen.differential import VARIANTS, agree, run, variants
from tests.machine.tileaa.support import checked, kernel_text, type_of

from tilewright import LaunchOptions
from tilewright.cpu import Program
from tilewright.cpu.codegen.emitter.table import UNSUPPORTED
from tilewright.diagnostics import TileIRError
from tilewright.machine import Program as Reference

F16, F32, F64 = np.float16, np.float32, np.float64
BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
LAYOUTS = ("nwc", "nhwc", "ndhwc", "ncw", "nchw", "ncdhw")
#: The bits of a result's mantissa, with the leading one.
PRECISION = {F16: 11, F32: 24, F64: 53}
#: What the bf16 instruction may lose by taking subnormal numbers for zeros, times the largest factor.
SUBNORMAL = 2.0**-125


@dataclasses.dataclass(frozen=True)
class Convolution:
    """A conv_dot; spatial fields have an entry for each axis, shapes are those of channels-last."""

    layout: str
    extents: tuple[int, ...]
    taps: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    low: tuple[int, ...]
    positions: tuple[int, ...]
    channels: tuple[int, int]
    batch: int = 1
    padding: str = "zero"
    types: tuple[type, type, type] = (F32, F32, F32)

    @property
    def high(self) -> tuple[int, ...]:
        """As much as it takes for the filter to fit that often, and a rest that no window sees."""
        return tuple(
            (count - 1) * step + far * (taps - 1) + 1 - extent - low + step - 1
            for count, step, far, taps, extent, low in zip(
                self.positions,
                self.stride,
                self.dilation,
                self.taps,
                self.extents,
                self.low,
                strict=True,
            )
        )

    @property
    def k(self) -> int:
        return prod(self.taps) * self.channels[0]

    def laid_out(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A channels-last shape in the order of the layout."""
        return shape if self.layout.endswith("c") else (shape[0], shape[-1], *shape[1:-1])

    def operands(self, seed: int = 0) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        shapes = (
            (self.batch, *self.extents, self.channels[0]),
            (self.channels[1], *self.taps, self.channels[0]),
            (self.batch, *self.positions, self.channels[1]),
        )
        return {
            name: rng.standard_normal(self.laid_out(shape)).astype(dtype)
            for name, shape, dtype in zip("xwc", shapes, self.types, strict=True)
        }

    def body(self, arrays: dict[str, np.ndarray]) -> str:
        x, w, c = (type_of(array) for array in arrays.values())
        lists = {
            "filter": self.taps,
            "stride": self.stride,
            "padding_low": self.low,
            "padding_high": self.high,
            "dilation": self.dilation,
        }
        params = ", ".join(f"{name} = {list(values)}" for name, values in lists.items())
        return (
            f"%r = nv_tileaa.conv_dot %x, %w, %c {{conv_params = #nv_tileaa.conv_params<{params}>, "
            f"activation_layout = {self.layout}, padding_value = {self.padding}}} "
            f": {x}, {w}, {c} -> {c}"
        )

    def check(self, ways: Sequence[dict[str, Any]] = VARIANTS) -> None:
        arrays = self.operands()
        result = {"r": np.zeros_like(arrays["c"])}
        module = checked(kernel_text(self.body(arrays), arrays, result))
        expected, _ = run(Reference(module), arrays | result)
        bound = self.bound(arrays)
        for options in ways:
            found, _ = run(Program(module, options=LaunchOptions(**options)), arrays | result)
            self.compare(found["r"].astype(F64), expected["r"].astype(F64), bound)

    def bound(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """How far two results may be apart: both sums have the error that docs/cpu.md allows, and are
        rounded once more."""
        finite = dataclasses.replace(self, padding="zero")
        wide = {name: np.abs(array.astype(F64)) for name, array in arrays.items()}
        result = {"r": np.zeros_like(wide["c"])}
        module = checked(kernel_text(finite.body(wide), wide, result))
        sums = run(Reference(module), wide | result)[0]["r"]
        unit = 2.0 ** -(53 if self.types[0] is F64 else 24)
        largest = max(1.0, *(float(wide[name].max()) for name in "xw"))
        lost = (self.k + 1) * SUBNORMAL * largest
        return 2 * ((2 * self.k + 2) * unit * sums + lost + 2.0 ** -PRECISION[self.types[2]] * sums)

    def compare(self, found: np.ndarray, expected: np.ndarray, bound: np.ndarray) -> None:
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(found[~finite], expected[~finite])
        error = np.abs(found[finite] - expected[finite])
        assert (error <= bound[finite]).all(), (error / bound[finite]).max()


def random_convolution(seed: int) -> Convolution:
    rng = np.random.default_rng(seed)
    layout = LAYOUTS[seed % len(LAYOUTS)]
    spatial = len(layout) - 2

    def several(choices: list[int]) -> tuple[int, ...]:
        return tuple(int(n) for n in rng.choice(choices, spatial))

    extents, taps = several([1, 2, 4, 8, 16]), several([1, 2, 4])
    stride, dilation, low = several([1, 2, 3]), several([1, 2, 3]), several([0, 1, 3])
    positions: list[int] = []
    for axis in range(spatial):
        # The least power of two for which nothing has to be taken away.
        needed = extents[axis] + low[axis] - dilation[axis] * (taps[axis] - 1) - stride[axis]
        count = 1
        while (count - 1) * stride[axis] < needed:
            count *= 2
        positions.append(count)
    channels = int(rng.choice([1, 2, 8, 32])), int(rng.choice([1, 4, 16, 64]))
    types = [
        (F32,) * 3,
        (F16, F16, F32),
        (F16,) * 3,
        (BF16, BF16, F32),
        (F64,) * 3,
        (E4M3, E5M2, F32),
    ]
    return Convolution(
        layout,
        extents,
        taps,
        stride,
        dilation,
        low,
        tuple(positions),
        channels,
        int(rng.choice([1, 2, 4])),
        str(rng.choice(["zero", "neg_zero"])),
        types[int(rng.integers(len(types)))],
    )


@pytest.mark.rotates(3)
@pytest.mark.parametrize("seed", range(12))
def test_random_convolutions(seed: int) -> None:
    random_convolution(seed).check(variants(seed))


@pytest.mark.parametrize("padding", ["nan", "pos_inf", "neg_inf"])
def test_padding_reaches_the_sums(padding: str) -> None:
    Convolution(
        "nhwc", (4, 4), (2, 2), (1, 1), (1, 1), (1, 0), (4, 4), (2, 8), padding=padding
    ).check()


def test_several_blocks_of_windows() -> None:
    Convolution(
        "nhwc", (32, 32), (4, 4), (1, 1), (1, 1), (1, 2), (32, 32), (32, 16), batch=2
    ).check()


def test_operands_that_are_computed() -> None:
    """Activation, filter and accumulator come from other operations, and the result goes on."""
    conv = Convolution("nchw", (8, 8), (2, 2), (2, 2), (1, 1), (0, 0), (4, 4), (4, 8))
    arrays = {name: np.rint(array * 4) for name, array in conv.operands().items()}
    x, w, c = (type_of(array) for array in arrays.values())
    body = conv.body(arrays).replace("%x, %w, %c", "%x1, %w1, %c1").replace("%r", "%r1")
    agree(
        f"""
%x1 = nv_tileaa.addf %x, %x : {x}
%w1 = nv_tileaa.permute %w {{permutation = array<i64: 0, 1, 3, 2>}} : {w} -> {w}
%c1 = arith.constant dense<0.0> : {c}
{body}
%r2 = nv_tileaa.addf %r1, %c : {c}
%r = nv_tileaa.permute %r2 {{permutation = array<i64: 0, 1, 3, 2>}} : {c} -> {c}
""",
        arrays,
        {"r": np.zeros_like(arrays["c"])},
    )


UNINITIALIZED = {
    "integers": ({"types": (np.int8, np.int8, np.int32)}, "integers"),
    "negative padding": ({"low": (-1,)}, "negative"),
    "other positions": ({"positions": (8,), "low": (0,)}, "fits"),
}


@pytest.mark.parametrize("what", UNINITIALIZED)
def test_what_is_not_determined_is_refused(what: str) -> None:
    changes, words = UNINITIALIZED[what]
    conv = Convolution("nwc", (8,), (2,), (1,), (1,), (1,), (8,), (2, 4))
    conv = dataclasses.replace(conv, **changes)
    arrays = conv.operands()
    body = conv.body(arrays)
    if what == "other positions":
        body = body.replace("padding_high = [1]", "padding_high = [3]")
    result = {"r": np.zeros_like(arrays["c"])}
    module = checked(kernel_text(body, arrays, result))
    for program in (Reference, Program):
        with pytest.raises(TileIRError, match=words) as caught:
            run(program(module), arrays | result)
    assert caught.value.diagnostics[0].code == UNSUPPORTED


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("shape", [(64,), (8, 16), (1,)])
def test_histograms(dtype: type, shape: tuple[int, ...]) -> None:
    """Numbers below zero and above the last count are not counted."""
    rng = np.random.default_rng(7)
    a, m = rng.integers(-3, 11, shape).astype(dtype), rng.random(shape) < 0.5
    numbers, mask = type_of(a), type_of(m)
    agree(
        f"""
%r = nv_tileaa.histogram %a : {numbers} -> tile<8xi32>
%s = nv_tileaa.histogram %a, %m : {numbers}, {mask} -> tile<8xi32>
%u = nv_tileaa.histogram %a, %m : {numbers}, {mask} -> tile<1xi32>
""",
        {"a": a, "m": m},
        {
            "r": np.zeros(8, np.int32),
            "s": np.zeros(8, np.int32),
            "u": np.zeros(1, np.int32),
        },
    )


def test_histograms_in_a_loop_count_anew() -> None:
    a = np.arange(16, dtype=np.int32) % 5
    agree(
        """
%one = arith.constant 1 : index
%three = arith.constant 3 : index
%start = arith.constant dense<0> : tile<8xi32>
%r = scf.for %i = %zero to %three step %one iter_args(%x = %start) -> (tile<8xi32>) {
  %h = nv_tileaa.histogram %a : tile<16xi32> -> tile<8xi32>
  %y = arith.addi %x, %h : tile<8xi32>
  scf.yield %y : tile<8xi32>
}
""",
        {"a": a},
        {"r": np.zeros(8, np.int32)},
    )
