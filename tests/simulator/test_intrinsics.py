"""Intrinsics and conversions on the simulator: what hardware gives, by other means than ``numerics``."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
from tests.simulator.kernels import kernel, run

from tilewright import LaunchOptions
from tilewright.diagnostics import TileIRError
from tilewright.dialects.upstream.llvm.intrinsics import INTRINSICS
from tilewright.numerics.arrays import dtype_of
from tilewright.simulator import Program
from tilewright.simulator.ops.intrinsics import MEANINGS

_ROUNDINGS = {
    "rn": ROUND_HALF_EVEN,
    "rz": ROUND_DOWN,
    "rm": ROUND_FLOOR,
    "rp": ROUND_CEILING,
}
_rng = np.random.default_rng(11)
#: One number for each lane: common ones, specials, subnormals.
_F32 = np.concatenate(
    [
        np.float32([0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -2.5, 2.5, np.inf, -np.inf, np.nan, 3e38]),
        np.float32([1e-40, -1e-40, 2**-126, 1 / 3, 7.0, 1e10]),
        _rng.normal(size=14).astype(np.float32),
    ]
)
_OTHER = np.roll(_F32, 12)


def call(name: str, *arrays: np.ndarray, width: int = 0) -> np.ndarray:
    """The results of an intrinsic for 32 lanes, with a number or a vector for each."""
    known = INTRINSICS[f"llvm.nvvm.{name}"]
    count = width or 1
    out = np.zeros(32 * count, dtype_of(known.result))
    shown = [f"vector<{width}x{ty}>" if width else ty for ty in (*known.operands, known.result)]
    lines = ["%t = arith.index_cast %tid : index to i64", f"%by = arith.constant {count} : i64"]
    lines.append("%at = arith.muli %t, %by : i64")
    for place, element in enumerate(known.operands):
        lines.append(
            f"%p{place} = llvm.getelementptr %a{place}[%at] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, "
            f"{element}\n%x{place} = llvm.load %p{place} {{alignment = 2 : i64}} : !llvm.ptr<1> -> "
            f"{shown[place]}"
        )
    names = ", ".join(f"%x{place}" for place in range(len(arrays)))
    lines.append(
        f'%y = llvm.call_intrinsic "llvm.nvvm.{known.name}"({names}) : '
        f"({', '.join(shown[:-1])}) -> {shown[-1]}"
    )
    lines.append(
        f"%q = llvm.getelementptr %out[%at] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, {known.result}\n"
        f"llvm.store %y, %q {{alignment = 2 : i64}} : {shown[-1]}, !llvm.ptr<1>"
    )
    parameters = [
        *(f"%a{place}: !llvm.ptr<1>" for place in range(len(arrays))),
        "%out: !llvm.ptr<1>",
    ]
    result = run("\n".join(lines), ", ".join(parameters), [*arrays, out])
    assert not result.diagnostics, result.diagnostics
    return out


def _flush(array: np.ndarray) -> np.ndarray:
    return np.where(np.abs(array) < np.float32(2**-126), np.copysign(np.float32(0), array), array)


def _neighbours(number: np.float32) -> tuple[np.float32, np.float32]:
    return np.nextafter(number, np.float32(-np.inf)), np.nextafter(number, np.float32(np.inf))


def _nearest(exact: Fraction, mode: str) -> np.float32:
    """An f32 for an exact number, found among the neighbours of a first guess."""
    guess = np.float32(float(exact))
    low, high = _neighbours(guess)
    known = [n for n in (low, guess, high) if np.isfinite(n)]
    below = max((n for n in known if Fraction(float(n)) <= exact), default=None)
    above = min((n for n in known if Fraction(float(n)) >= exact), default=None)
    assert below is not None and above is not None
    if below == above:
        return below
    if mode == "rz":
        return below if exact > 0 else above
    if mode in ("rm", "rp"):
        return below if mode == "rm" else above
    gaps = [exact - Fraction(float(below)), Fraction(float(above)) - exact]
    if gaps[0] == gaps[1]:
        return below if not int(np.abs(below).view(np.uint32)) & 1 else above
    return below if gaps[0] < gaps[1] else above


_EXACT: dict[str, Any] = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "fma": lambda x, y, z: x * y + z,
    "rcp": lambda x: 1 / x,
}


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("stem", _EXACT)
def test_arithmetic_is_rounded_once(stem: str, mode: str) -> None:
    """Against exact fractions, for numbers of moderate size."""
    count = {"rcp": 1, "fma": 3}.get(stem, 2)
    arrays = [_rng.normal(size=32).astype(np.float32) for _ in range(count)]
    found = call(f"{stem}.{mode}.f", *arrays)
    for lane in range(32):
        exact = _EXACT[stem](*(Fraction(float(a[lane])) for a in arrays))
        assert found[lane] == _nearest(exact, mode), (lane, exact)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_roots_are_rounded_once(mode: str) -> None:
    values = np.abs(_rng.normal(size=32)).astype(np.float32)
    for value, root in zip(values, call(f"sqrt.{mode}.f", values), strict=True):
        low, high = _neighbours(root)
        square = Fraction(float(value))
        below, at, above = (Fraction(float(n)) for n in (low, root, high))
        if mode in ("rz", "rm"):
            assert at * at <= square < above * above
        elif mode == "rp":
            assert below * below < square <= at * at
        else:
            assert ((below + at) / 2) ** 2 <= square <= ((at + above) / 2) ** 2


@pytest.mark.parametrize("stem", ["add", "mul", "div"])
def test_flushing_takes_subnormals_for_zero(stem: str) -> None:
    """Of operands, and of results."""
    function = {"add": np.add, "mul": np.multiply, "div": np.divide}[stem]
    with np.errstate(all="ignore"):
        wanted = _flush(function(_flush(_F32), _flush(_OTHER)))
        plain = function(_F32, _OTHER)
    assert np.array_equal(call(f"{stem}.rn.ftz.f", _F32, _OTHER), wanted, equal_nan=True)
    assert np.array_equal(call(f"{stem}.rn.f", _F32, _OTHER), plain, equal_nan=True)
    assert not np.array_equal(wanted, plain, equal_nan=True)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("ex2.approx.f", np.exp2),
        ("lg2.approx.f", np.log2),
        ("sin.approx.f", np.sin),
        ("cos.approx.f", np.cos),
        ("rsqrt.approx.f", lambda x: 1 / np.sqrt(x)),
        ("sqrt.approx.f", np.sqrt),
        ("tanh.approx.f32", np.tanh),
    ],
)
def test_approximations_are_the_nearest_numbers(name: str, function: Any) -> None:
    with np.errstate(all="ignore"):
        wanted = function(_F32.astype(np.float64)).astype(np.float32)
    assert np.array_equal(call(name, _F32), wanted, equal_nan=True)


def test_minima_and_nan() -> None:
    x, y = np.full(32, np.nan, np.float32), np.ones(32, np.float32)
    assert (call("fmin.f", x, y) == 1).all()
    assert np.isnan(call("fmin.nan.f", x, y)).all()
    zeros = np.zeros(32, np.float32)
    assert np.signbit(call("fmin.f", zeros, -zeros)).all()
    assert not np.signbit(call("fmax.f", zeros, -zeros)).any()
    half = np.arange(32).astype(np.float16)
    assert (call("fmax.nan.f16", half, half[::-1].copy()) == np.maximum(half, half[::-1])).all()


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize(
    ("word", "low", "high"), [("i", -(2**31), 2**31 - 1), ("ull", 0, 2**64 - 1)]
)
def test_floats_to_integers(word: str, low: int, high: int, mode: str) -> None:
    found = call(f"f2{word}.{mode}", _F32)
    for value, number in zip(_F32, found, strict=True):
        if np.isnan(value):
            wanted = 0 if word == "i" else 2**63
        elif np.isinf(value):
            wanted = high if value > 0 else low
        else:
            wanted = min(max(_whole(Fraction(float(value)), mode), low), high)
        assert int(number) % 2**64 == wanted % 2**64, value


def _whole(exact: Fraction, mode: str) -> int:
    low = floor(exact)
    if exact == low:
        return low
    if mode == "rm" or (mode == "rz" and exact > 0):
        return low
    if mode == "rp" or mode == "rz":
        return low + 1
    gap = exact - low
    return low + (gap > Fraction(1, 2) or (gap == Fraction(1, 2) and low % 2 == 1))


def test_nan_of_f64_is_the_sign_bit() -> None:
    nan = np.full(32, np.nan)
    assert (call("d2i.rz", nan) == -(2**31)).all()
    assert (call("d2ll.rz", nan) == -(2**63)).all()
    assert (call("f2i.rz", nan.astype(np.float32)) == 0).all()


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_integers_to_floats(mode: str) -> None:
    numbers = _rng.integers(-(2**63), 2**63, 32)
    for number, found in zip(numbers, call(f"ll2f.{mode}", numbers), strict=True):
        assert found == _nearest(Fraction(int(number)), mode)
    for number, found in zip(numbers, call(f"ull2f.{mode}", numbers), strict=True):
        assert found == _nearest(Fraction(int(number) % 2**64), mode)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_f64_to_f32(mode: str) -> None:
    numbers = _rng.normal(size=32)
    for number, found in zip(numbers, call(f"d2f.{mode}", numbers), strict=True):
        assert found == _nearest(Fraction(number), mode)


@pytest.mark.parametrize(
    ("letter", "dtype", "signed"),
    [
        ("s", np.int16, True),
        ("us", np.int16, False),
        ("i", np.int32, True),
        ("ui", np.int32, False),
        ("ll", np.int64, True),
        ("ull", np.int64, False),
    ],
)
def test_high_products(letter: str, dtype: Any, signed: bool) -> None:
    info = np.iinfo(dtype)
    x, y = (_rng.integers(info.min, info.max, 32, dtype, endpoint=True) for _ in range(2))
    found = call(f"mulhi.{letter}", x, y)
    for a, b, high in zip(x.tolist(), y.tolist(), found.tolist(), strict=True):
        if not signed:
            a, b = a % 2**info.bits, b % 2**info.bits
        assert high % 2**info.bits == (a * b >> info.bits) % 2**info.bits


def test_whole_numbers_and_saturation() -> None:
    values = np.resize(np.float32([-1.5, -0.5, 0.5, 1.5, 2.5, np.nan]), 32)
    assert np.array_equal(call("round.f", values), np.rint(values), equal_nan=True)
    assert np.array_equal(call("floor.f", values), np.floor(values), equal_nan=True)
    wanted = np.resize(np.float32([0, 0, 0.5, 1, 1, 0]), 32)
    assert (call("saturate.f", values) == wanted).all()


def test_vectors_go_by_element() -> None:
    x, y = (_rng.normal(size=128).astype(np.float32) for _ in range(2))
    found = call("add.rz.f", x, y, width=4)
    alone = np.concatenate(
        [call("add.rz.f", x[i : i + 32], y[i : i + 32]) for i in range(0, 128, 32)]
    )
    assert (found == alone).all()


def test_bytes_are_chosen_by_nibbles() -> None:
    x, y, choice = (_rng.integers(0, 1 << 32, 32, np.uint64).astype(np.uint32) for _ in range(3))
    choice[:2] = 0x6420, 0x3175
    found = call("prmt", *(a.view(np.int32) for a in (x, y, choice)))
    for low, high, selector, got in zip(x, y, choice, found.view(np.uint8).reshape(32, 4)):
        octets = int(low).to_bytes(4, "little") + int(high).to_bytes(4, "little")
        for place in range(4):
            nibble = int(selector) >> 4 * place & 15
            octet = octets[nibble & 7]
            assert got[place] == (octet if nibble < 8 else 255 * (octet >> 7))


def test_every_intrinsic_has_a_meaning() -> None:
    assert {known.stem for known in INTRINSICS.values()} == set(MEANINGS)
    for name, known in INTRINSICS.items():
        arrays = [np.ones(32, dtype_of(element)) for element in known.operands]
        assert call(name.removeprefix("llvm.nvvm."), *arrays).dtype == dtype_of(known.result)


def test_others_do_not_run() -> None:
    body = '%y = llvm.call_intrinsic "llvm.nvvm.odd.f"(%x) : (f32) -> f32'
    with pytest.raises(TileIRError, match=r"does not run the intrinsic .*odd"):
        Program.parse(kernel(body, "%x: f32")).launch(
            None, 1, [1.0], options=LaunchOptions(block=32)
        )


# Conversions between floats


def _convert(body: str, source: np.ndarray, out: np.ndarray) -> np.ndarray:
    parameters = "%p: !llvm.ptr<1>, %q: !llvm.ptr<1>"
    result = run(body, parameters, [source, out])
    assert not result.diagnostics, result.diagnostics
    return out


@pytest.mark.parametrize("target", ["f8E4M3FN", "f8E5M2", "f16", "bf16"])
def test_narrowing_saturates_or_overflows(target: str) -> None:
    """8-bit floats have a largest number, where others have infinity."""
    body = f"""\
%x = llvm.load %p {{alignment = 4 : i64}} : !llvm.ptr<1> -> vector<4xf32>
%y = arith.truncf %x : vector<4xf32> to vector<4x{target}>
%z = arith.extf %y : vector<4x{target}> to vector<4xf32>
llvm.store %z, %q {{alignment = 4 : i64}} : vector<4xf32>, !llvm.ptr<1>
"""
    largest = {"f8E4M3FN": 448.0, "f8E5M2": 57344.0}.get(target, np.inf)
    values = np.float32([3.4e38, -np.inf, 0.3, np.nan])
    found = _convert(body, values, np.zeros(4, np.float32))
    assert found[0] == (np.inf if target == "bf16" else largest)
    assert found[1] == -largest and np.isnan(found[3])
    assert found[2] == values[2].astype(dtype_of(target)).astype(np.float32)


def test_directed_narrowing() -> None:
    body = """\
%x = llvm.load %p : !llvm.ptr<1> -> f32
%a = arith.truncf %x toward_zero : f32 to f16
%b = arith.truncf %x upward : f32 to f16
%z = arith.constant dense<0.0> : vector<2xf16>
%v = vector.insert %a, %z[0] : f16 into vector<2xf16>
%w = vector.insert %b, %v[1] : f16 into vector<2xf16>
llvm.store %w, %q {alignment = 2 : i64} : vector<2xf16>, !llvm.ptr<1>
"""
    found = _convert(body, np.float32([1 / 3]), np.zeros(2, np.float16))
    assert found[0] < np.float32(1 / 3) < found[1]
    assert found[1] == np.nextafter(found[0], np.float16(1))


def test_four_bits_travel_in_pairs() -> None:
    """Two elements share a byte, the first in the low half."""
    body = """\
%x = llvm.load %p {alignment = 4 : i64} : !llvm.ptr<1> -> vector<4xf32>
%y = arith.truncf %x : vector<4xf32> to vector<4xf4E2M1FN>
%o = vector.bitcast %y : vector<4xf4E2M1FN> to vector<2xi8>
%back = vector.bitcast %o : vector<2xi8> to vector<4xf4E2M1FN>
%z = arith.extf %back : vector<4xf4E2M1FN> to vector<4xf32>
llvm.store %o, %p {alignment = 1 : i64} : vector<2xi8>, !llvm.ptr<1>
llvm.store %z, %q {alignment = 4 : i64} : vector<4xf32>, !llvm.ptr<1>
"""
    source = np.float32([0.5, -1.0, 5.1, 100.0])
    found = _convert(body, source, np.zeros(4, np.float32))
    assert found.tolist() == [0.5, -1.0, 6.0, 6.0]
    assert source.view(np.uint8)[:2].tolist() == [0xA1, 0x77]


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        ("rnd = #nvvm.fp_rnd_mode<rn>", [1.0, 1 + 2**-9, -1 - 2**-9, np.inf]),
        ("rnd = #nvvm.fp_rnd_mode<rna>", [1 + 2**-10, 1 + 2**-9, -1 - 2**-9, np.inf]),
        ("rnd = #nvvm.fp_rnd_mode<rz>", [1.0, 1 + 2**-10, -1 - 2**-10, 3.4011621e38]),
        ("relu = true, rnd = #nvvm.fp_rnd_mode<rz>", [1.0, 1 + 2**-10, 0.0, 3.4011621e38]),
        (
            "rnd = #nvvm.fp_rnd_mode<rna>, sat = #nvvm.sat_mode<satfinite>",
            [1 + 2**-10, 1 + 2**-9, -1 - 2**-9, 3.4011621e38],
        ),
    ],
)
def test_tf32_by_name(attributes: str, wanted: list[float]) -> None:
    lines = ["%z = arith.constant dense<0> : vector<4xi32>"]
    for place in range(4):
        lines.append(
            f"%p{place} = llvm.getelementptr %p[{place}] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32\n"
            f"%x{place} = llvm.load %p{place} : !llvm.ptr<1> -> f32\n"
            f"%y{place} = nvvm.cvt.float.to.tf32 %x{place} {{{attributes}}}\n"
            f"%q{place} = llvm.getelementptr %q[{place}] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i32\n"
            f"llvm.store %y{place}, %q{place} : i32, !llvm.ptr<1>"
        )
    values = np.float32([1 + 2**-11, 1 + 3 * 2**-11, -1 - 3 * 2**-11, 3.4028e38])
    found = _convert("\n".join(lines), values, np.zeros(4, np.float32))
    assert found.tolist() == np.float32(wanted).tolist()


@pytest.mark.parametrize(
    ("body", "arch", "first"),
    [
        ("%t = nvvm.cvt.float.to.tf32 %x {rnd = #nvvm.fp_rnd_mode<rn>}", "sm_80", "sm_90"),
        ('llvm.fence syncscope("cluster") acq_rel', "sm_89", "sm_90"),
        ("%t = nvvm.cvt.float.to.tf32 %x {rnd = #nvvm.fp_rnd_mode<rna>}", "sm_75", "sm_80"),
    ],
)
def test_what_an_architecture_lacks(body: str, arch: str, first: str) -> None:
    program = Program.parse(kernel(body, "%x: f32"))
    with pytest.raises(TileIRError, match=rf"does not exist on {arch}; .*{first}"):
        program.launch(None, 1, [1.0], arch=arch, options=LaunchOptions(block=32))
    program.launch(None, 1, [1.0], arch=first, options=LaunchOptions(block=32))
