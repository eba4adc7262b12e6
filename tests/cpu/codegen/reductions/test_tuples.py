"""Reductions and scans of several tiles at once, by bodies that keep the order of elements or choose among them, against the
reference machine: tiles of all shapes, mixed element types, both directions, rows that end within their tile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.cpu.codegen.differential import agree
from tests.cpu.codegen.support import same_bits
from tests.machine.kernels import ELEMENTS

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import ModuleBuilder, ptr
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I32
from tilewright.cpu.codegen.ir.types import Value
from tilewright.cpu.codegen.reductions import turned
from tilewright.cpu.codegen.reductions.turned import Turned

#: Shapes with the axis: rows in one vector, in some, in many blocks; a few rows and many; axes in the middle and of two elements.
_CASES = (
    *(((16,), 0), ((64,), 0), ((2048,), 0), ((4, 256), 1), ((256, 2), 1), ((2, 32, 1), 1)),
    *(((64, 4), 0), ((16, 128), 0), ((2, 64), 0), ((2, 32, 64), 1), ((4, 2, 8), 1), ((256, 1), 0)),
)


@dataclass(frozen=True, slots=True)
class _Body:
    """What combines two tuples: types, numbers for the elements, and the text."""

    types: tuple[str, ...]
    numbers: Callable[[np.random.Generator, tuple[int, ...]], list[np.ndarray]]
    text: str


def _restarting(rng: np.random.Generator, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Flags, some of them up, and numbers whose sums are exact in any order."""
    flags = (rng.integers(0, 9, shape) == 0).astype(np.int32)
    return [flags, rng.integers(-64, 64, shape).astype(np.float32)]


def _mixed(rng: np.random.Generator, shape: tuple[int, ...]) -> list[np.ndarray]:
    types = (np.int16, np.float64, np.int8, np.int32)
    found = [rng.integers(-9, 9, shape).astype(ty) for ty in types]
    found[0] = (rng.integers(0, 5, shape) == 0).astype(np.int16)
    return found


def _small(rng: np.random.Generator, shape: tuple[int, ...]) -> list[np.ndarray]:
    return [rng.integers(-9, 9, shape).astype(np.int32) | 1 for _ in range(3)]


def _bytes(rng: np.random.Generator, shape: tuple[int, ...]) -> list[np.ndarray]:
    return [rng.integers(-128, 128, shape).astype(np.int8) | 1 for _ in "ab"]


_BODIES = {
    "sums that restart": _Body(
        ("i32", "f32"),
        _restarting,
        """
        %zero_f = arith.constant 0.0 : f32
        %zero_i = arith.constant 0 : i32
        %f = arith.ori %s0, %e0 : i32
        %up = arith.cmpi ne, %e0, %zero_i : i32
        %kept = arith.select %up, %zero_f, %s1 : f32
        %sum = nv_tileaa.addf %kept, %e1 : f32
        nv_tileaa.yield %f, %sum : i32, f32
        """,
    ),
    "four types": _Body(
        ("i16", "f64", "i8", "i32"),
        _mixed,
        """
        %none = arith.constant 0 : i16
        %up = arith.cmpi ne, %e0, %none : i16
        %f = arith.ori %s0, %e0 : i16
        %sum = nv_tileaa.addf %s1, %e1 : f64
        %v = arith.select %up, %e1, %sum : f64
        %product = arith.muli %s2, %e2 : i8
        nv_tileaa.yield %f, %v, %product, %e3 : i16, f64, i8, i32
        """,
    ),
    "triangular matrices": _Body(
        ("i32", "i32", "i32"),
        _small,
        """
        %a = arith.muli %s0, %e0 : i32
        %l = arith.muli %s1, %e0 : i32
        %r = arith.muli %s2, %e1 : i32
        %b = arith.addi %l, %r : i32
        %c = arith.muli %s2, %e2 : i32
        nv_tileaa.yield %a, %b, %c : i32, i32, i32
        """,
    ),
    "functions of bytes": _Body(
        ("i8", "i8"),
        _bytes,
        """
        %a = arith.muli %s0, %e0 : i8
        %l = arith.muli %s1, %e0 : i8
        %b = arith.addi %l, %e1 : i8
        nv_tileaa.yield %a, %b : i8, i8
        """,
    ),
}


def _cases() -> list[tuple[str, tuple[int, ...], int, bool]]:
    """Each body with every other shape, in either direction."""
    return [
        (name, *case, (number // 2 + place) % 2 == 1)
        for place, name in enumerate(_BODIES)
        for number, case in enumerate(_CASES)
        if (number + place) % 2 == 0
    ]


def _type(array: np.ndarray) -> str:
    dims = "".join(f"{extent}x" for extent in array.shape)
    return f"tile<{dims}{ELEMENTS[array.dtype]}>" if array.ndim else ELEMENTS[array.dtype]


def _text(
    kind: str, body: _Body, given: list[np.ndarray], results: list[np.ndarray], more: str
) -> str:
    names = [f"%a{number}" for number in range(len(given))]
    identities = ", ".join(f"{'0' if t[0] == 'i' else '0.0'} : {t}" for t in body.types)
    arguments = ", ".join(f"%s{n}: {t}, %e{n}: {t}" for n, t in enumerate(body.types))
    outs = ", ".join(f"%r{n}" for n in range(len(results)))
    return f"""
      {outs} = nv_tileaa.{kind} {", ".join(names)} {{{more}, identities = [{identities}]}}
        : {", ".join(map(_type, given))} -> {", ".join(map(_type, results))} {{
      ^bb0({arguments}):
        {body.text}
      }}
    """


@pytest.mark.parametrize("name, shape, axis, reverse", _cases(), ids=str)
def test_scans_of_tuples(name: str, shape: tuple[int, ...], axis: int, reverse: bool) -> None:
    body = _BODIES[name]
    given = body.numbers(np.random.default_rng(len(shape)), shape)
    results = [np.zeros_like(array) for array in given]
    more = f"axis = {axis} : i32, reverse = {str(reverse).lower()}"
    agree(
        _text("scan", body, given, results, more),
        {f"a{n}": array for n, array in enumerate(given)},
        {f"r{n}": array for n, array in enumerate(results)},
        case=(name, shape, axis, reverse),
    )


@pytest.mark.parametrize("name, shape, axis, _", _cases(), ids=str)
def test_reductions_of_tuples(name: str, shape: tuple[int, ...], axis: int, _: bool) -> None:
    body = _BODIES[name]
    given = body.numbers(np.random.default_rng(len(shape)), shape)
    results = [np.zeros_like(array.take(0, axis)) for array in given]
    results = [np.zeros((), array.dtype) if not array.ndim else array for array in results]
    agree(
        _text("reduce", body, given, results, f"axis = {axis} : i32"),
        {f"a{n}": array for n, array in enumerate(given)},
        {f"r{n}": array for n, array in enumerate(results)},
        case=(name, shape, axis),
    )


_LATER = """
  %more = arith.cmpf ogt, %e0, %s0 : {t}
  %same = arith.cmpf oeq, %e0, %s0 : {t}
  %behind = arith.cmpi {order}, %e1, %s1 : i32
  %tie = arith.andi %same, %behind : i1
  %better = arith.ori %more, %tie : i1
  %x = arith.select %better, %e0, %s0 : {t}
  %j = arith.select %better, %e1, %s1 : i32
  nv_tileaa.yield %x, %j : {t}, i32
"""


@pytest.mark.parametrize("order, reverse", [("sgt", False), ("slt", False), ("sgt", True)])
@pytest.mark.parametrize("shape, axis", _CASES[::2], ids=str)
def test_running_maxima_with_their_places(
    shape: tuple[int, ...], axis: int, reverse: bool, order: str
) -> None:
    """The last or first of equals, zeros of both signs among them; places are numbered by a range."""
    element, dtype = ("f64", np.float64) if len(shape) == 2 else ("f32", np.float32)
    rng = np.random.default_rng(7)
    held = rng.choice(np.array([-2, -1, -0.0, 0.0, 1], dtype), shape)
    held[..., : shape[-1] // 2] -= 1
    ones = tuple(n if place == axis else 1 for place, n in enumerate(shape))
    dims, column = ("x".join(map(str, s)) for s in (shape, ones))
    numbers = f"""
      %line = nv_tileaa.make_range {{start = 0, end = {shape[axis]}}} : tile<{shape[axis]}xi32>
      %column = nv_tileaa.view %line : tile<{shape[axis]}xi32> -> tile<{column}xi32>
      %a1 = nv_tileaa.broadcast %column : tile<{column}xi32> -> tile<{dims}xi32>
    """
    body = _Body((element, "i32"), lambda *_: [], _LATER.format(t=element, order=order))
    places = np.zeros(shape, np.int32)
    results = [np.zeros_like(held), places]
    more = f"axis = {axis} : i32, reverse = {str(reverse).lower()}"
    agree(
        numbers + _text("scan", body, [held, places], results, more),
        {"a0": held},
        {"r0": results[0], "r1": results[1]},
    )


_EXTREMA = ("maximumf", "maxnumf", "minimumf", "minnumf")
_FLOATS: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}


def hard_floats(dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Zeros of both signs, infinities, NaN of both signs and all kinds; rows with nothing else, too."""
    word = f"u{np.dtype(dtype).itemsize}"
    infinity = int(np.array(np.inf, dtype).view(word))
    sign = 1 << 8 * np.dtype(dtype).itemsize - 1
    rng = np.random.default_rng(5)
    numbers = [0, sign, 1, sign | 1, infinity - 1, infinity, sign | infinity]
    nans = [infinity + 1, infinity + 3, sign - 1, sign | infinity + 1, 2 * sign - 1]
    found = rng.choice(np.array([*numbers, *nans], word), shape)
    rows = found.reshape(-1, shape[-1])
    rows[0] = rng.choice(np.array(nans, word), shape[-1])
    rows[1 % len(rows)] = rng.choice(np.array([0, sign], word), shape[-1])
    rows[2 % len(rows)] = rng.choice(np.array([sign, sign | infinity, nans[0]], word), shape[-1])
    rows[3 % len(rows)] = rng.choice(np.array([sign | infinity, nans[3]], word), shape[-1])
    return found.view(dtype)


@pytest.mark.parametrize("kind", ["reduce", "scan"])
@pytest.mark.parametrize(
    "shape, axis", [((8, 64), 1), ((8, 512), 1), ((16, 64), 0), ((8, 4), 1)], ids=str
)
@pytest.mark.parametrize("element", _FLOATS)
def test_extrema_of_zeros_and_nan(
    element: str, shape: tuple[int, ...], axis: int, kind: str
) -> None:
    """Of two tiles at once, by all four."""
    held = [hard_floats(_FLOATS[element], shape), hard_floats(_FLOATS[element], shape)[::-1].copy()]
    for one, other in zip(_EXTREMA, _EXTREMA[1:] + _EXTREMA[:1], strict=True):
        text = f"""
          %x = arith.{one} %s0, %e0 : {element}
          %y = arith.{other} %s1, %e1 : {element}
          nv_tileaa.yield %x, %y : {element}, {element}
        """
        body = _Body((element,) * 2, lambda *_: [], text)
        results = [np.zeros_like(a if kind == "scan" else a.take(0, axis)) for a in held]
        more = f"axis = {axis} : i32" + (", reverse = false" if kind == "scan" else "")
        agree(
            _text(kind, body, held, results, more),
            {"a0": held[0], "a1": held[1]},
            {"r0": results[0], "r1": results[1]},
            case=(element, shape, kind, one),
        )


def _compositions(k: Any, shape: tuple[int, int], axis: int, scans: bool) -> None:
    """Linear functions, one after the other, of what two views with padding give; their sums go to a third one."""
    i, _, _ = k.get_tile_block_id()

    def tiles(base: Any) -> Any:
        view = k.make_tensor_view(base, [k.args.m, k.args.n], [k.args.n, 1])
        return k.partition(view, tile=shape, padding="zero")

    def composed(b: Any, *values: Any) -> Any:
        slope, other_slope, offset, other_offset = values
        return b.muli(slope, other_slope), b.addi(b.muli(offset, other_slope), other_offset)

    loaded = [k.load_view_tko(tiles(base), [i, 0])[0] for base in (k.args.x, k.args.y)]
    if scans:
        first, second = k.scan(loaded, axis, [1, 0], composed)
    else:
        ones = tuple(1 if place == axis else n for place, n in enumerate(shape))
        first, second = (
            k.broadcast_to(each.reshape(*ones), shape)
            for each in k.reduce(loaded, axis, [1, 0], composed)
        )
    k.store_view_tko(first + second, tiles(k.args.out), [i, 0])


@pytest.mark.parametrize("scans", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("height, width", [(8, 256), (7, 200), (13, 3), (16, 255)])
def test_rows_that_end_within_their_tile(height: int, width: int, axis: int, scans: bool) -> None:
    """Nothing is read or written outside, and padding takes part as the zeros that it is."""
    module = ModuleBuilder()
    names = dict.fromkeys(("x", "y", "out"), ptr("i32"))
    with module.entry("k", names | dict.fromkeys(("m", "n"), "i32")) as k:
        _compositions(k, (8, 256), axis, scans)
    built = module.build()
    rng = np.random.default_rng(width)
    x, y = (rng.integers(-9, 9, (height, width)).astype(np.int32) for _ in "xy")
    grid = -(-height // 8)
    found = {}
    for machine in ("reference", "cpu"):
        out = np.full((height + 1, width), -7, np.int32)
        args = (x.copy(), y.copy(), out[:height], height, width)
        tilewright.run(built, "k", (grid,), args, machine=machine, options=LaunchOptions())
        found[machine] = out
    assert same_bits(found["cpu"], found["reference"]).all()


class _Lanes:
    """A vector as a list."""

    def __init__(self, lanes: list[int]) -> None:
        self.lanes, self.type = lanes, llvm.vector(I32, len(lanes))


#: Lanes, how many neighbours each takes, and how many lanes move at once: neither are more than lanes.
TURNED = [
    (lanes, count, part)
    for lanes, count, part in product((2, 4, 8, 16, 32), (1, 2, 4, 8), (2, 4, 8, 16))
    if max(count, part) <= lanes
]


@pytest.mark.parametrize("lanes, count, part", TURNED)
def test_turned_lanes_hold_neighbours(
    lanes: int, count: int, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shuffle(b: object, one: Any, other: Any, order: list[int]) -> Any:
        both = one.lanes + other.lanes
        return _Lanes([both[lane] for lane in order])

    monkeypatch.setattr(turned.llvm, "shuffle", shuffle)
    way = Turned(lanes, count, part)
    vectors: list[Any] = [
        _Lanes(list(range(at, at + lanes))) for at in range(0, lanes * count, lanes)
    ]
    builder: Any = None
    found: list[Value] = way.turn(builder, vectors)
    expected = [[run * count + k for run in way.order] for k in range(count)]
    assert [each.lanes for each in found] == expected  # pyright: ignore[reportAttributeAccessIssue]
    back: list[Any] = way.back(builder, found)
    assert [each.lanes for each in back] == [each.lanes for each in vectors]
