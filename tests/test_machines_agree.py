"""Kernels that once gave another result on one machine than on the others, and their siblings."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest
from tests.every_machine import ARCHITECTURES, MACHINES, run
from tests.machine.kernels import checked, kernel_text, tile_of
from xdsl.dialects.builtin import ModuleOp

from tilewright.diagnostics import TileIRError
from tilewright.numerics.element_types import CONSTANT_TYPES, FORMATS

OTHERS = [name for name in MACHINES if name != "reference"]


def same(found: np.ndarray, expected: np.ndarray) -> bool:
    """Whether all bits are the same; any NaN equals any other."""
    bits = f"u{expected.itemsize}"
    equal = found.view(bits) == expected.view(bits)
    if expected.dtype.kind not in "iub":
        equal |= np.isnan(found.astype(np.float64)) & np.isnan(expected.astype(np.float64))
    return bool(np.all(equal))


# -- constants as masks ----------------------------------------------------------------------------

COUNT = 64
MASKS = {
    "off": "false",
    "on": "true",
    "mixed": str([n % 3 == 0 for n in range(COUNT)]).lower(),
    "first": str([n == 0 for n in range(COUNT)]).lower(),
}
#: How far apart the lanes are, in elements: side by side, apart, and all at one address.
STEPS = (1, 3, 0)


def _masked(mask: str, step: int, far: int) -> str:
    """Loads and stores ``COUNT`` elements under a constant mask. Addresses are ``far`` elements away
    where the mask is off, which for no mask but "off" is nowhere."""
    tile, pointers = f"tile<{COUNT}xi32>", f"tile<{COUNT}xptr<i32>>"
    return f"""
    cuda_tile.module @m {{
      entry @k(%x: tile<ptr<i32>>, %y: tile<ptr<i32>>) {{
        %n = iota : {tile}
        %by = constant <i32: {step}> : {tile}
        %far = constant <i32: {far}> : {tile}
        %near = muli %n, %by : {tile}
        %at = addi %near, %far : {tile}
        %on = constant <i1: {mask}> : tile<{COUNT}xi1>
        %none = constant <i32: -7> : {tile}
        %x1 = reshape %x : tile<ptr<i32>> -> tile<1xptr<i32>>
        %xb = broadcast %x1 : tile<1xptr<i32>> -> {pointers}
        %xp = offset %xb, %at : {pointers}, {tile} -> {pointers}
        %y1 = reshape %y : tile<ptr<i32>> -> tile<1xptr<i32>>
        %yb = broadcast %y1 : tile<1xptr<i32>> -> {pointers}
        %yq = offset %yb, %at : {pointers}, {tile} -> {pointers}
        %yp = offset %yb, %n : {pointers}, {tile} -> {pointers}
        %v, %t = load_ptr_tko weak %xp, %on, %none
          : {pointers}, tile<{COUNT}xi1>, {tile} -> {tile}, token
        %w, %u = load_ptr_tko weak %xp, %on : {pointers}, tile<{COUNT}xi1> -> {tile}, token
        %s = store_ptr_tko weak %yq, %v, %on token = %t
          : {pointers}, {tile}, tile<{COUNT}xi1> -> token
        %end = constant <i32: {4 * COUNT}> : {tile}
        %zp = offset %yp, %end : {pointers}, {tile} -> {pointers}
        %r = store_ptr_tko weak %zp, %v token = %s : {pointers}, {tile} -> token
        return
      }}
    }}
    """


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("machine", OTHERS)
def test_a_constant_mask_is_what_it_says(machine: str, mask: str, step: int) -> None:
    x = np.arange(1, 4 * COUNT + 1, dtype=np.int32)
    y = np.full(5 * COUNT, -1, np.int32)
    module = checked(_masked(MASKS[mask], step, 0))
    expected = run("reference", module, [x, y])
    if step:
        on = np.resize(np.array(eval(MASKS[mask].title())), COUNT)
        assert (expected[1][4 * COUNT :] == np.where(on, x[: step * COUNT][::step], -7)).all()
    for found, array in zip(run(machine, module, [x, y]), expected, strict=True):
        assert (found == array).all()


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("machine", OTHERS)
def test_what_a_constant_mask_turns_off_is_not_touched(machine: str, step: int) -> None:
    """Addresses without memory behind them."""
    x, y = np.arange(4 * COUNT, dtype=np.int32), np.full(5 * COUNT, -1, np.int32)
    module = checked(_masked("false", step, 1 << 28))
    found = run(machine, module, [x, y])[1]
    assert (found[: 4 * COUNT] == -1).all() and (found[4 * COUNT :] == -7).all()


# -- constants of every type -----------------------------------------------------------------------

_NUMBERS = {"int": ["1", "0", "-1", "3"], "float": ["1.5", "-2.0", "0.5", "3.0"]}
_DIRECT = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip


def _numbers(element: str) -> list[str]:
    if element == "i1":
        return ["true", "false", "false", "true"]
    numbers = list(_NUMBERS[FORMATS[element].kind])
    if not FORMATS[element].signed:
        numbers = ["1.0", "2.0", "0.5", "4.0"]
    return numbers


def _special(element: str) -> list[str]:
    """Patterns of NaN, infinities, the largest and the smallest number."""
    fmt = FORMATS[element]
    if not fmt.is_float or fmt.nan == "none":
        return []
    bits = [fmt.nan_bits, fmt.max_finite_bits, 1, *([fmt.inf_bits] if fmt.has_inf else [])]
    return [f"{number:#0{2 + (fmt.bits + 3) // 4}x}" for number in bits]


def _constants(element: str, numbers: Sequence[str], n: int) -> str:
    count = len(numbers)
    tile = f"tile<{count}x{element}>"
    text = f"%c{n} = constant <{element}: {numbers[0] if len(set(numbers)) == 1 else list(numbers)}> : {tile}\n"
    text = text.replace("'", "")
    if element in _DIRECT:
        return text + f"%r{n} = reshape %c{n} : {tile} -> {tile}\n"
    return text + f"%r{n} = ftof %c{n} : {tile} -> tile<{count}xf32>\n"


@functools.cache
def _all_constants(element: str) -> tuple[ModuleOp, list[list[str]], list[np.ndarray]]:
    """A kernel with a constant for each list of numbers, the lists, and what the reference machine stores."""
    values, special = _numbers(element), _special(element)
    rows = [[v, v] for v in (*values, *special)] + [values, [values[0]] * 4, values * 64]
    if special:
        rows.append((special + values)[:4])
    kind = _DIRECT.get(element, np.float32)
    results = {f"r{n}": np.zeros(len(numbers), kind) for n, numbers in enumerate(rows)}
    text = "".join(_constants(element, numbers, n) for n, numbers in enumerate(rows))
    module = checked(kernel_text(text, {}, results))
    return module, rows, run("reference", module, list(results.values()))


@pytest.mark.parametrize("element", CONSTANT_TYPES)
@pytest.mark.parametrize("machine", OTHERS)
def test_constants_of_every_type(machine: str, element: str) -> None:
    module, rows, expected = _all_constants(element)
    results = [np.zeros_like(array) for array in expected]
    for numbers, array, nothing in zip(rows, expected, results, strict=True):
        assert not same(array, nothing) or set(numbers) <= {"0", "false"}
    try:
        found = run(machine, module, results)
    except TileIRError as error:
        assert machine.startswith("sim") and _lacks(element), error
        return
    for numbers, one, other in zip(rows, found, expected, strict=True):
        assert same(one, other), (numbers, one, other)


def _lacks(element: str) -> bool:
    """Whether the threads of some architectures lack a type."""
    return element in ("f4E2M1FN", "f8E8M0FNU", "f8E5M3FNU", "f8E4M3FN", "f8E5M2")


# -- rows without numbers --------------------------------------------------------------------------

_PLACES = """
(%s: tile<{t}>, %e: tile<{t}>, %j: tile<i32>, %i: tile<i32>) {{
  %c = cmpf {compare} ordered %e, %s : tile<{t}> -> tile<i1>
  %v = select %c, %e, %s : tile<i1>, tile<{t}>
  %w = select %c, %i, %j : tile<i1>, tile<i32>
  yield %v, %w : tile<{t}>, tile<i32>
}}
"""


def _extremes(
    x: np.ndarray, op: str, axis: int, propagate: bool
) -> tuple[str, dict[str, np.ndarray]]:
    """A body, and its results; the names of values end in the operation and ``propagate``."""
    t = tile_of(x).removesuffix(">").rpartition("x")[2]
    size, sign = 8 * x.itemsize, op == "minf"
    lowest = {"f16": 0xFC00, "bf16": 0xFF80, "f32": 0xFF800000, "f64": 0xFFF0 << 48}[t]
    identity = f"{lowest ^ (1 << size - 1) if sign else lowest:#x} : {t}"
    rest = x.shape[:axis] + x.shape[axis + 1 :]
    folded = np.zeros(rest, x.dtype)
    flag = "propagate_nan" if propagate else ""
    body = f"(%s: tile<{t}>, %e: tile<{t}>) {{ %n = {op} %e, %s {flag} : tile<{t}> yield %n : tile<{t}> }}\n"
    along = "x".join(map(str, x.shape))
    ones = "x".join(str(n if a == axis else 1) for a, n in enumerate(x.shape))
    text = f"""
    %r = reduce %x dim={axis} identities=[{identity}] : {tile_of(x)} -> {tile_of(folded)} {body}
    %u = scan %x dim={axis} reverse=false identities=[{identity}] : {tile_of(x)} -> {tile_of(x)} {body}
    %d = scan %x dim={axis} reverse=true identities=[{identity}] : {tile_of(x)} -> {tile_of(x)} {body}
    %line = iota : tile<{x.shape[axis]}xi32>
    %column = reshape %line : tile<{x.shape[axis]}xi32> -> tile<{ones}xi32>
    %at = broadcast %column : tile<{ones}xi32> -> tile<{along}xi32>
    %b, %p = reduce %x, %at dim={axis} identities=[{identity}, -1 : i32]
      : {tile_of(x)}, tile<{along}xi32> -> {tile_of(folded)}, {tile_of(np.zeros(rest, np.int32))}
    """ + _PLACES.format(t=t, compare="greater_than" if op == "maxf" else "less_than")
    results = {
        "r": folded, "u": np.zeros_like(x), "d": np.zeros_like(x),
        "b": folded, "p": np.zeros(rest, np.int32),
    }  # fmt: skip
    end = f"_{op}_{int(propagate)}"
    text = re.sub(r"%(r|u|d|line|column|at|b|p)\b", rf"%\1{end}", text)
    return text, {name + end: array for name, array in results.items()}


def _all_extremes(
    x: np.ndarray, axis: int, wanted: str = "rudbp"
) -> tuple[ModuleOp, list[np.ndarray]]:
    """A kernel of all of them, and the arrays that it takes."""
    bodies, results = "", dict[str, np.ndarray]()
    for op in ("maxf", "minf"):
        for propagate in (False, True):
            text, more = _extremes(x, op, axis, propagate)
            bodies += text
            results |= {name: array for name, array in more.items() if name[0] in wanted}
    module = checked(kernel_text(bodies, {"x": x}, results))
    return module, [x, *(np.atleast_1d(result) for result in results.values())]


@pytest.mark.rotates(6)
@pytest.mark.parametrize(
    "shape, axis", [((1,), 0), ((64,), 0), ((4, 32), 1), ((32, 4), 0), ((2, 1), 1)]
)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("machine", MACHINES)
def test_the_largest_of_nothing_but_nan_is_nan(
    machine: str, dtype: type, shape: tuple[int, ...], axis: int
) -> None:
    """No identity takes part: not in reductions, not in scans, not where the place is asked for."""
    x = np.full(shape, np.nan, dtype)
    module, arrays = _all_extremes(x, axis)
    for found in run(machine, module, arrays)[1:]:
        if found.dtype == np.int32:
            # The first element stays: nothing compares as larger.
            assert (found == 0).all()
        else:
            assert np.isnan(found.astype(np.float64)).all()


@pytest.mark.parametrize("shape, axis", [((64,), 0), ((4, 32), 1), ((32, 4), 0)])
@pytest.mark.parametrize("machine", OTHERS)
def test_extremes_of_rows_with_some_nan(machine: str, shape: tuple[int, ...], axis: int) -> None:
    rng = np.random.default_rng(5)
    pool = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 1.5, -2.0], np.float32)
    x = rng.choice(pool, shape).astype(np.float32)
    x[..., :2] = np.nan
    # Which of several NaN or equal elements is first is the order's to say.
    module, arrays = _all_extremes(x, axis, "rud")
    expected = run("reference", module, arrays)
    for found, array in zip(run(machine, module, arrays), expected, strict=True):
        assert same(found, array)


@pytest.mark.parametrize("machine", MACHINES)
def test_sums_and_products_have_nothing_but_the_elements(machine: str) -> None:
    """-0 stays -0 in a sum, whatever number stands as the identity; one element is itself."""
    for count in (1, 2, 64):
        x = np.full(count, -0.0, np.float32)
        body = (
            "(%e: tile<f32>, %s: tile<f32>) {{ %n = {} %e, %s : tile<f32> yield %n : tile<f32> }}\n"
        )
        text = "".join(
            f"%{name} = reduce %x dim=0 identities=[{identity} : f32] : {tile_of(x)} -> tile<f32> "
            + body.format(op)
            for name, op, identity in (("r", "addf", "0.0"), ("q", "addf", "5.0"))
        )
        results = {"r": np.zeros((), np.float32), "q": np.zeros((), np.float32)}
        module = checked(kernel_text(text, {"x": x}, results))
        _, *found = run(machine, module, [x, np.zeros(1, np.float32), np.zeros(1, np.float32)])
        assert all((array == 0).all() and np.signbit(array).all() for array in found)


@pytest.mark.parametrize("machine", OTHERS)
def test_integers_become_numbers_of_tf32(machine: str) -> None:
    """Rounded to its 11 bits, once; threads hold such numbers as those of f32."""
    for dtype in (np.int8, np.int16, np.int32):
        numbers = [0, 1, 127, -128] if dtype == np.int8 else [4097, -4099, 32767, 6150]
        x, result = np.array(numbers, dtype), np.zeros(4, np.float32)
        text = (
            f"%t = itof %x signed : {tile_of(x)} -> tile<4xtf32>\n"
            f"%r = ftof %t : tile<4xtf32> -> {tile_of(result)}\n"
        )
        module = checked(kernel_text(text, {"x": x}, {"r": result}))
        _, expected = run("reference", module, [x, result])
        assert dtype == np.int8 or list(expected) == [4096, -4100, 32768, 6152]
        _, found = run(machine, module, [x, result])
        assert same(found, expected)


@pytest.mark.parametrize("machine", OTHERS)
@pytest.mark.parametrize("how", ["signed", "unsigned"])
@pytest.mark.parametrize("width", [32, 64])
def test_integers_beyond_f32_become_numbers_of_tf32(width: int, how: str, machine: str) -> None:
    """Halves of tf32's last place, and their neighbours: through f32 they would be rounded twice."""
    halves = [2**power + 2 ** (power - 11) for power in range(12, width - (how == "signed"))]
    odd = [half + 2 ** (half.bit_length() - 11) for half in halves]
    numbers = [n + more for n in (*halves, *odd) for more in (-1, 0, 1)] + [2**24, 2**24 + 1]
    if how == "signed":
        numbers += [-n for n in numbers] + [-(2 ** (width - 1))]
    numbers += [1] * (-len(numbers) % 512)
    x = np.array(numbers, f"{'u' if how == 'unsigned' else ''}int{width}").view(f"int{width}")
    x, result = x[:512], np.zeros(512, np.float32)
    text = (
        f"%t = itof %x {how} : {tile_of(x)} -> tile<512xtf32>\n"
        f"%r = ftof %t : tile<512xtf32> -> {tile_of(result)}\n"
    )
    module = checked(kernel_text(text, {"x": x}, {"r": result}))
    _, expected = run("reference", module, [x, result])
    _, found = run(machine, module, [x, result])
    assert same(found, expected)


@pytest.mark.parametrize("machine", ["nv_tileaa", "cpu", "cpu-generic", "sim:sm_120a"])
@pytest.mark.parametrize("mode", ["zero", "positive_inf"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_scales_take_the_magnitude(dtype: type, mode: str, machine: str) -> None:
    """Powers of two without a sign: the magnitude is what is rounded, also where the way is by f32."""
    eps = np.finfo(dtype).eps
    numbers = [scale * (1 + k * eps) for scale in (0.5, 2.0, 4.0) for k in (-1, 0, 1)]
    x = np.array([sign * n for n in (*numbers, 0.0, 3.0, 1e-6) for sign in (1, -1)], dtype)
    x = np.concatenate([x, x[:8]])
    result = np.zeros(32, np.float32)
    text = (
        f"%t = ftof %x rounding<{mode}> : {tile_of(x)} -> tile<32xf8E8M0FNU>\n"
        f"%r = ftof %t : tile<32xf8E8M0FNU> -> {tile_of(result)}\n"
    )
    module = checked(kernel_text(text, {"x": x}, {"r": result}))
    (_, expected), (_, found) = (run(name, module, [x, result]) for name in ("reference", machine))
    assert expected[0::2][:12].tolist() == expected[1::2][:12].tolist()
    assert same(found, expected)


#: What a view reads outside of its tensor, by element type and in the order of ``PADDINGS``: types without infinities
#: have their largest value, those without a sign their smallest.
PADDINGS = ("zero", "neg_zero", "nan", "pos_inf", "neg_inf")
PADDED: dict[str, tuple[type, tuple[int, ...]]] = {
    "f16": (np.float16, (0x0000, 0x8000, 0x7E00, 0x7C00, 0xFC00)),
    "f8E5M2": (ml_dtypes.float8_e5m2, (0x00, 0x80, 0x7E, 0x7C, 0xFC)),
    "f8E4M3FN": (ml_dtypes.float8_e4m3fn, (0x00, 0x80, 0x7F, 0x7E, 0xFE)),
    "f8E8M0FNU": (ml_dtypes.float8_e8m0fnu, (0x00, 0x00, 0xFF, 0xFE, 0x00)),
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("element", PADDED)
def test_what_is_read_outside_of_a_tensor(element: str, machine: str) -> None:
    """The reference took the largest value for a negative infinity also where there is no sign."""
    dtype, expected = PADDED[element]
    tensor = f"tensor_view<1x{element}, strides=[1]>"
    out = f"partition_view<tile=(2), tensor_view<10x{element}, strides=[1]>>"
    body = ""
    for number, padding in enumerate(PADDINGS):
        view = f"partition_view<tile=(2), padding_value = {padding}, {tensor}>"
        body += f"""
        %p{number} = make_partition_view %v : {view}
        %x{number}, %t{number} = load_view_tko weak %p{number}[%z]
          : {view}, tile<i32> -> tile<2x{element}>, token
        %i{number} = constant <i32: {number}> : tile<i32>
        %u{number} = store_view_tko weak %x{number}, %q[%i{number}]
          : tile<2x{element}>, {out}, tile<i32> -> token
        """
    module = checked(f"""entry @k(%a: tile<ptr<{element}>>, %o: tile<ptr<{element}>>) {{
      %z = constant <i32: 0> : tile<i32>
      %v = make_tensor_view %a, shape = [1], strides = [1] : {tensor}
      %w = make_tensor_view %o, shape = [10], strides = [1] : tensor_view<10x{element}, strides=[1]>
      %q = make_partition_view %w : {out}
      {body}
      return
    }}""")
    _, found = run(machine, module, [np.ones(1, dtype), np.zeros(10, dtype)])
    assert tuple(found.view(f"u{found.itemsize}")[1::2].tolist()) == expected


def test_every_machine_is_there() -> None:
    assert {f"sim:{arch}" for arch in ARCHITECTURES} < set(MACHINES)
