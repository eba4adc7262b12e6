"""``constant-powers``: which powers become products and roots, and that no result is further off."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright
from tilewright.builder import ModuleBuilder, ptr
from tilewright.dialects.arith import FPowIOp, PowFOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.lowering import lower_to_tileaa
from tilewright.passes import run_pipeline
from tilewright.passes.tileaa.constant_powers import constant_powers
from tilewright.passes.tileas.remarks import Remarks

TILE = 64
DTYPES: dict[str, Any] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
#: Bits of the significand, and the exponent of the smallest subnormal number.
FORMS = {"f16": (11, -24), "bf16": (8, -133), "f32": (24, -149), "f64": (53, -1074)}
EXPONENTS = (0.0, 1.0, 2.0, 3.0, 4.0, 0.5, 1.5, 2.5, -0.5, -1.0, -2.0)
#: Only where there is a wider format.
HIGHER = (5.0, 7.0, 12.0, 63.0, 64.0)
INTEGERS = (0, 1, 2, 3, 4, -1, -2)


def _kernel(element: str, exponent: Any, blocks: int = 1, *, integral: bool = False) -> Any:
    """``out = x ** exponent``; a string is the name of a parameter with the exponents."""
    module = ModuleBuilder()
    parameters = {"x": ptr(element), "out": ptr(element), "given": ptr(element)}
    with module.entry("k", parameters) as k:
        block, _, _ = k.get_tile_block_id()

        def tiles(base: Any) -> Any:
            view = k.make_tensor_view(base, shape=[TILE * blocks], strides=[1])
            return k.partition(view, tile=(TILE,))

        x, _ = k.load_view_tko(tiles(k.args.x), [block])
        if exponent == "given":
            power, _ = k.load_view_tko(tiles(k.args.given), [block])
        else:
            scalar = k.constant(exponent, "i32" if integral else element)
            power = k.broadcast(k.reshape(scalar, shape=(1,)), shape=(TILE,))
        made = k.fpowi(x, power) if integral else k.fpowf(x, power)
        k.store_view_tko(made, tiles(k.args.out), [block])
    return module.build()


def _after(module: Any) -> tuple[int, str]:
    """How many powers the pass leaves, and its remarks."""
    lowered = lower_to_tileaa(module).module
    remarks = Remarks()
    for op in list(lowered.walk()):
        if isinstance(op, FuncOp):
            constant_powers(op, remarks)
    left = sum(isinstance(op, PowFOp | FPowIOp) for op in lowered.walk())
    return left, "; ".join(remark.message for remark in remarks.found)


@pytest.mark.parametrize("element", DTYPES)
def test_fires(element: str):
    for exponent in EXPONENTS:
        assert _after(_kernel(element, exponent)) == (0, "")
    for exponent in HIGHER if element != "f64" else ():
        assert _after(_kernel(element, exponent)) == (0, "")
    for exponent in INTEGERS:
        assert _after(_kernel(element, exponent, integral=True)) == (0, "")


def test_fires_for_scalars():
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32")}) as k:
        x, _ = k.load_ptr_tko(k.args.x, memory_ordering_semantics="weak")
        k.store_ptr_tko(
            k.args.x, k.fpowf(x, k.constant(2.0, "f32")), memory_ordering_semantics="weak"
        )
    assert _after(module.build()) == (0, "")


@pytest.mark.parametrize(
    ("element", "exponent", "reason"),
    [
        ("f32", 1.25, "by 1.25"),
        ("f64", 5.0, "by 5"),
        ("f32", 65.0, "by 65"),
        ("f32", -5.0, "by -5"),
        ("f64", -3.0, "by -3"),
        ("f32", float("nan"), "not a uniform constant"),
        ("f32", float("inf"), "not a uniform constant"),
        ("f32", "given", "not a uniform constant"),
    ],
)
def test_stays(element: str, exponent: Any, reason: str):
    left, remarks = _after(_kernel(element, exponent))
    assert left == 1 and reason in remarks


def _numbers(element: str) -> np.ndarray:
    """Special values, the ends of the range, and numbers of all sizes."""
    dtype = DTYPES[element]
    generator = np.random.default_rng(1)
    if dtype.itemsize == 2:
        return np.arange(1 << 16, dtype=np.uint16).view(dtype)
    raw = generator.integers(0, 1 << 64, 4096, np.uint64, endpoint=False)
    words = raw.view(np.uint32) if element == "f32" else raw
    near = generator.standard_normal(2048).astype(dtype)
    info = np.finfo(dtype)
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, info.max, info.tiny, -info.max]
    ends += [info.smallest_subnormal, -info.smallest_subnormal, 2.0, -2.0, 3.0]
    # About where squares, cubes and fourth powers leave the range.
    for root in (2, 3, 4):
        for end in (float(info.max), float(info.smallest_subnormal), float(info.tiny)):
            at = end ** (1 / root)
            ends += [at * (1 + i / 64) for i in range(-3, 4)] + [-at, 1 / at, -1 / at]
    found = np.concatenate([np.array(ends, dtype), words.view(dtype), near])
    return found[: len(found) // TILE * TILE]


def _right(x: np.ndarray, exponent: float) -> np.ndarray:
    """The power in 64 bits of significand, with the special values of C."""
    wide = x.astype(np.float64) if x.dtype.itemsize == 2 else x
    return np.power(wide.astype(np.longdouble), np.longdouble(exponent))


def _check(
    element: str, found: np.ndarray, right: np.ndarray, bound: float, loose_below: float
) -> None:
    """That each result is within so many ulp, and has the right sign, infinity or NaN; below
    ``loose_below`` one ulp is allowed."""
    bits, lowest = FORMS[element]
    with np.errstate(all="ignore"):
        wide = found.astype(np.float64).astype(np.longdouble)
    nan = np.isnan(right)
    assert (np.isnan(wide) == nan).all()
    largest = np.longdouble(float(ml_dtypes.finfo(DTYPES[element]).max))
    found_, right_ = wide[~nan], right[~nan]
    assert (np.signbit(found_) == np.signbit(right_)).all()
    found_, right_ = abs(found_), abs(right_)
    over = np.isinf(found_)
    step = np.ldexp(np.longdouble(1), np.frexp(largest)[1] - bits)
    assert (right_[over] >= largest + (1 - bound) * step).all()
    assert not np.isinf(right_[~over]).any()
    found_, right_ = found_[~over], right_[~over]
    assert len(right_)
    ulp = np.ldexp(np.longdouble(1), np.maximum(np.frexp(right_)[1] - bits, lowest))
    if bound < 1:
        # What is added to a product as small as that has been rounded there itself.
        assert (abs(found_ - right_) <= ulp).all()
        normal = right_ >= loose_below
        found_, right_, ulp = found_[normal], right_[normal], ulp[normal]
    assert (abs(found_ - right_) <= bound * ulp).all()


BOUNDS = {0.0: 0, 1.0: 0, 2.0: 0.5, 3.0: 0.51, 4.0: 0.51, 0.5: 0.5, -1.0: 0.5, -2.0: 0.51, -0.5: 1}
BOUNDS |= dict.fromkeys((1.5, 2.5, *HIGHER), 0.51)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("machine", ["reference", "cpu"])
@pytest.mark.parametrize(
    ("element", "exponent"),
    [(e, x) for e in DTYPES for x in (*EXPONENTS, *HIGHER) if e != "f64" or x not in HIGHER],
)
def test_results_are_within_the_bound_of_a_power(element: str, exponent: float, machine: str):
    x = _numbers(element)
    bound, loose_below = BOUNDS[exponent], 0.0
    if element == "f64" or (element, exponent) == ("f32", -2.0):
        loose_below = float(np.finfo(DTYPES[element]).tiny) * (256 if exponent == -2.0 else 1)
    if exponent in (1.5, 2.5):
        loose_below = float(ml_dtypes.finfo(DTYPES[element]).tiny) * 2.0**24
    blocks = len(x) // TILE
    with np.errstate(all="ignore"):
        right = _right(x, exponent)
    for integral in (False, True) if exponent == int(exponent) else (False,):
        value = int(exponent) if integral else exponent
        module = run_pipeline(
            _kernel(element, value, blocks, integral=integral),
            "lower-cuda-tile-to-tileaa,constant-powers",
            verify_each=True,
        )
        out = np.empty_like(x)
        tilewright.run(module, "k", (blocks,), (x, out, x), machine=machine)
        _check(element, out, right, bound + 1e-3, loose_below)


@pytest.mark.parametrize("element", DTYPES)
def test_before_and_after_agree_on_the_reference_machine(element: str):
    """NaN, infinities, zeros and their signs are those of the operation itself."""
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, -2.0, 0.25]
    x = np.resize(np.array(ends, DTYPES[element]), TILE)
    for exponent in EXPONENTS:
        found = []
        for pipeline in ("lower-cuda-tile-to-tileaa", "lower-cuda-tile-to-tileaa,constant-powers"):
            module, out = run_pipeline(_kernel(element, exponent), pipeline), np.empty_like(x)
            tilewright.run(module, "k", (1,), (x, out, x), machine="reference")
            found.append(out.astype(np.float64))
        np.testing.assert_allclose(*found, rtol=2.0**-51 if element == "f64" else 0)
        assert (np.signbit(found[0]) == np.signbit(found[1]))[~np.isnan(found[0])].all()
