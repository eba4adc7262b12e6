"""Reductions and scans along every axis, with commutative and other bodies."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.cpu.codegen import support
from tests.cpu.codegen.support import Given, on_tiles, same_bits, tile

from tilewright.cpu.codegen.reductions import reduce
from tilewright.cpu.compile import CompiledKernel
from tilewright.cpu.target import cpu_target
from tilewright.dialects.arith import OPERATIONS
from tilewright.dialects.arith.floating import FloatBinary, FloatUnary
from tilewright.passes.tileaa import mark_in_bounds

SHAPES = (
    *((64,), (4, 64), (64, 4), (2, 8, 32), (1, 256), (256, 1), (32, 128), (2, 16, 256)),
    *((256, 2), (8, 2), (4, 2, 32, 2), (2, 64, 4)),
)


def _cases() -> list[tuple[tuple[int, ...], int]]:
    return [(shape, axis) for shape in SHAPES for axis in range(len(shape))]


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def _reduce(body: str, element: str, shape: tuple[int, ...], axis: int, identity: str) -> str:
    rest = tile(element, _without(shape, axis))
    text = f"""
      %s = nv_tileaa.reduce %a0 {{axis = {axis} : i32, identities = [{identity} : {element}]}}
        : {tile(element, shape)} -> {rest} {{
      ^bb0(%acc: {element}, %e: {element}):
        %v = {body} : {element}
        nv_tileaa.yield %v : {element}
      }}
    """
    if _without(shape, axis):
        return text.replace("%s =", "%r0 =")
    return text + f"%r0 = nv_tileaa.splat %s : {element} -> {tile(element, (1,))}"


def _expect(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return array.reshape(shape or (1,))


@pytest.mark.rotates(2)
@pytest.mark.parametrize("shape, axis", _cases(), ids=str)
def test_integer_sums_and_extrema(shape: tuple[int, ...], axis: int):
    rng = np.random.default_rng(axis)
    source = rng.integers(-(2**31), 2**31, shape).astype(np.int32)
    rest = _without(shape, axis)
    out = [("i32", rest or (1,))]
    (total,) = on_tiles(
        _reduce("arith.addi %e, %acc", "i32", shape, axis, "0"), [Given("i32", source)], out
    )
    assert (total == _expect(source.sum(axis, dtype=np.int32), rest)).all()
    (top,) = on_tiles(
        _reduce("arith.maxsi %e, %acc", "i32", shape, axis, "-2147483648"),
        [Given("i32", source)],
        out,
    )
    assert (top == _expect(source.max(axis), rest)).all()


@pytest.mark.parametrize("shape, axis", _cases(), ids=str)
@pytest.mark.parametrize(
    "element, dtype, unit",
    [
        ("f32", np.float32, 2.0**-24),
        ("f16", np.float16, 2.0**-11),
        ("bf16", ml_dtypes.bfloat16, 2.0**-8),
    ],
)
def test_float_sums_within_the_bound_of_any_order(
    shape: tuple[int, ...], axis: int, element: str, dtype: type, unit: float
):
    rng = np.random.default_rng(axis)
    source = rng.standard_normal(shape).astype(dtype)
    rest = _without(shape, axis)
    (found,) = on_tiles(
        _reduce("nv_tileaa.addf %e, %acc", element, shape, axis, "0.0"),
        [Given(element, source)],
        [(element, rest or (1,))],
    )
    exact = source.astype(np.float64).sum(axis)
    bound = shape[axis] * unit * np.abs(source.astype(np.float64)).sum(axis)
    assert (np.abs(found.astype(np.float64) - _expect(exact, rest)) <= _expect(bound, rest)).all()


@pytest.mark.parametrize("axis", [0, 1])
def test_sums_of_bf16_are_rounded_once(axis: int):
    """Numbers that bf16 loses one by one beside their sum; zeros keep their sign."""
    source = np.ones((512, 64) if axis == 0 else (64, 512), ml_dtypes.bfloat16)
    source[(slice(None), 3) if axis == 0 else 3] = -0.0
    source[(slice(2), 5) if axis == 0 else (5, slice(2))] = [np.inf, -np.inf]
    (found,) = on_tiles(
        _reduce("nv_tileaa.addf %e, %acc", "bf16", source.shape, axis, "0.0"),
        [Given("bf16", source)],
        [("bf16", (64,))],
    )
    expected = np.full(64, 512, ml_dtypes.bfloat16)
    expected[3], expected[5] = -0.0, np.nan
    assert same_bits(found, expected).all()


def test_float_extrema_see_nan_and_signed_zeros():
    source = np.array([[-0.0] * 15 + [0.0] + [-0.0] * 16, [np.nan] * 31 + [-3.0]], np.float32)
    (loses,) = on_tiles(
        _reduce("arith.maxnumf %e, %acc", "f32", (2, 32), 1, "0xFF800000"),
        [Given("f32", source)],
        [("f32", (2,))],
    )
    assert loses.tolist() == [0.0, -3.0] and not np.signbit(loses[0])
    (wins,) = on_tiles(
        _reduce("arith.maximumf %e, %acc", "f32", (2, 32), 1, "0xFF800000"),
        [Given("f32", source)],
        [("f32", (2,))],
    )
    assert wins[0] == 0 and np.isnan(wins[1])


@pytest.mark.parametrize("shape, axis", _cases(), ids=str)
def test_the_first_largest_element(shape: tuple[int, ...], axis: int):
    """Associative but not commutative: of equal elements the first counts."""
    rng = np.random.default_rng(9)
    source = rng.integers(0, 5, shape).astype(np.int32)
    rest = _without(shape, axis)
    types = f"{tile('i32', rest)}, {tile('i32', rest)}"
    whole = tile("i32", shape)
    body = f"""
      %line = nv_tileaa.make_range {{start = 0, end = {shape[axis]}}} : tile<{shape[axis]}xi32>
      %column = nv_tileaa.view %line : tile<{shape[axis]}xi32> -> {tile("i32", tuple(n if a == axis else 1 for a, n in enumerate(shape)))}
      %numbers = nv_tileaa.broadcast %column : {tile("i32", tuple(n if a == axis else 1 for a, n in enumerate(shape)))} -> {whole}
      %m, %at = nv_tileaa.reduce %a0, %numbers {{axis = {axis} : i32, identities = [-1 : i32, -1 : i32]}}
        : {whole}, {whole} -> {types} {{
      ^bb0(%acc: i32, %e: i32, %j: i32, %i: i32):
        %larger = arith.cmpi sgt, %e, %acc : i32
        %x = arith.select %larger, %e, %acc : i32
        %y = arith.select %larger, %i, %j : i32
        nv_tileaa.yield %x, %y : i32, i32
      }}
    """
    if rest:
        body = body.replace("%m, %at", "%r0, %r1")
    else:
        body += "%r0 = nv_tileaa.splat %m : i32 -> tile<1xi32>\n%r1 = nv_tileaa.splat %at : i32 -> tile<1xi32>"
    out = ("i32", rest or (1,))
    top, where = on_tiles(body, [Given("i32", source)], [out, out])
    assert (top == _expect(source.max(axis), rest)).all()
    assert (where == _expect(source.argmax(axis), rest)).all()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape, axis", _cases(), ids=str)
def test_prefix_sums(shape: tuple[int, ...], axis: int, reverse: bool):
    rng = np.random.default_rng(1)
    source = rng.integers(-(2**31), 2**31, shape).astype(np.int32)
    whole = tile("i32", shape)
    body = f"""
      %r0 = nv_tileaa.scan %a0 {{axis = {axis} : i32, reverse = {str(reverse).lower()}, identities = [0 : i32]}}
        : {whole} -> {whole} {{
      ^bb0(%acc: i32, %e: i32):
        %v = arith.addi %e, %acc : i32
        nv_tileaa.yield %v : i32
      }}
    """
    (found,) = on_tiles(body, [Given("i32", source)], [("i32", shape)])
    ordered = np.flip(source, axis) if reverse else source
    expected = np.cumsum(ordered, axis, dtype=np.int32)
    assert (found == (np.flip(expected, axis) if reverse else expected)).all()


@pytest.mark.parametrize("shape, axis", [((64,), 0), ((8, 32), 1), ((32, 8), 0)], ids=str)
def test_scans_keep_the_order_of_elements(shape: tuple[int, ...], axis: int):
    """The composition of x -> a x + b, which does not commute."""
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-9, 9, shape).astype(np.int32) for _ in "ab")
    whole = tile("i32", shape)
    body = f"""
      %r0, %r1 = nv_tileaa.scan %a0, %a1 {{axis = {axis} : i32, identities = [1 : i32, 0 : i32]}}
        : {whole}, {whole} -> {whole}, {whole} {{
      ^bb0(%ta: i32, %a: i32, %tb: i32, %b: i32):
        %x = arith.muli %a, %ta : i32
        %y = arith.muli %a, %tb : i32
        %z = arith.addi %y, %b : i32
        nv_tileaa.yield %x, %z : i32, i32
      }}
    """
    found = on_tiles(body, [Given("i32", a), Given("i32", b)], [("i32", shape)] * 2)
    ta, tb = np.ones_like(np.take(a, 0, axis)), np.zeros_like(np.take(a, 0, axis))
    for index in range(shape[axis]):
        x, y = np.take(a, index, axis), np.take(b, index, axis)
        with np.errstate(over="ignore"):
            ta, tb = x * ta, x * tb + y
        assert (np.take(found[0], index, axis) == ta).all()
        assert (np.take(found[1], index, axis) == tb).all()


@pytest.mark.parametrize("shape, axis", _cases(), ids=str)
def test_reductions_keep_the_order_and_take_each_element_once(shape: tuple[int, ...], axis: int):
    """The composition of x -> a x + b: it neither commutes, nor is it the same when done twice."""
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-9, 9, shape).astype(np.int32) | 1 for _ in "ab")
    rest = _without(shape, axis)
    whole, less = tile("i32", shape), tile("i32", rest)
    body = f"""
      %m, %n = nv_tileaa.reduce %a0, %a1 {{axis = {axis} : i32, identities = [1 : i32, 0 : i32]}}
        : {whole}, {whole} -> {less}, {less} {{
      ^bb0(%ta: i32, %a: i32, %tb: i32, %b: i32):
        %x = arith.muli %a, %ta : i32
        %y = arith.muli %a, %tb : i32
        %z = arith.addi %y, %b : i32
        nv_tileaa.yield %x, %z : i32, i32
      }}
    """
    if rest:
        body = body.replace("%m, %n", "%r0, %r1")
    else:
        body += "%r0 = nv_tileaa.splat %m : i32 -> tile<1xi32>\n%r1 = nv_tileaa.splat %n : i32 -> tile<1xi32>"
    out = ("i32", rest or (1,))
    found = on_tiles(body, [Given("i32", a), Given("i32", b)], [out, out])
    ta, tb = np.ones(rest, np.int32), np.zeros(rest, np.int32)
    for index in range(shape[axis]):
        x, y = np.take(a, index, axis), np.take(b, index, axis)
        with np.errstate(over="ignore"):
            ta, tb = x * ta, x * tb + y
    assert (found[0] == _expect(ta, rest)).all()
    assert (found[1] == _expect(tb, rest)).all()


def _compiled(
    monkeypatch: pytest.MonkeyPatch, body: str, shape: tuple[int, ...], axis: int
) -> CompiledKernel:
    """The code of a reduction of f32."""
    kept: list[support.Loaded] = []
    load = support.load_text
    monkeypatch.setattr(
        support, "load_text", lambda *a, **o: kept.append(load(*a, **o)) or kept[-1]
    )
    on_tiles(
        _reduce(body, "f32", shape, axis, "0.0"),
        [Given("f32", np.ones(shape, np.float32))],
        [("f32", _without(shape, axis) or (1,))],
    )
    return kept[0].compiled


def test_rows_are_added_to_several_accumulators(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many chains of additions as the processor begins before the first one ends, two in each of four rows where those are
    read at once; one chain in the code for elements that may be masked off, which costs less than its masks."""

    def chains() -> int:
        found = _compiled(monkeypatch, "nv_tileaa.addf %e, %acc", (4, 4096), 1)
        made = dict(re.findall(r"(%\S+) = (?:tail )?(\w+)", found.llvm_ir))
        added = re.findall(r"= fadd <\d+ x float> (\S+),", found.llvm_ir)
        return [made[value] for value in added].count("load")

    each = 4 if cpu_target().has("avx512f") else 8
    assert chains() == each
    monkeypatch.setattr(mark_in_bounds, "_may_be_marked", lambda op: False)
    # Once for whole tiles, once for the whole vectors of rows that end behind their array.
    assert chains() == 2 * each


def test_rows_of_two_arrays_are_read_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two arrays are streams enough: four accumulators for one row."""
    kept: list[support.Loaded] = []
    load = support.load_text
    monkeypatch.setattr(
        support, "load_text", lambda *a, **o: kept.append(load(*a, **o)) or kept[-1]
    )
    wide, rest = tile("f32", (4, 4096)), tile("f32", (4,))
    (sums,) = on_tiles(
        f"""
        %p = nv_tileaa.mulf %a0, %a1 : {wide}
        %r0 = nv_tileaa.reduce %p {{axis = 1 : i32, identities = [0.0 : f32]}} : {wide} -> {rest} {{
        ^bb0(%e: f32, %acc: f32):
          %v = nv_tileaa.addf %e, %acc : f32
          nv_tileaa.yield %v : f32
        }}
        """,
        [Given("f32", np.full((4, 4096), x, np.float32)) for x in (2, 3)],
        [("f32", (4,))],
    )
    assert sums.tolist() == [4096 * 6.0] * 4
    text = kept[0].compiled.llvm_ir
    made = dict(re.findall(r"(%\S+) = (?:tail )?(\w+)", text))
    added = re.findall(r"= fadd <\d+ x float> (\S+),", text)
    assert [made[value] for value in added].count("phi") == 4


@pytest.mark.parametrize(
    ("shape", "axis", "way"),
    [
        ((4, 4096), 1, "_along_rows"),
        ((4, 64, 1), 1, "_along_rows"),
        ((64, 4), 0, "_across_rows"),
        ((4, 64, 2), 1, "_across_rows"),
        ((4096, 2), 1, "_across_rows"),  # several rows to a vector
        ((64, 4096), 0, "_row_by_row"),
    ],
)
def test_memory_is_read_in_its_order(
    shape: tuple[int, ...], axis: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: set[str] = set()

    def noting(name: str, combine: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: taken.add(name) or combine(*given)

    for name in ("_along_rows", "_across_rows", "_row_by_row"):
        monkeypatch.setattr(reduce, name, noting(name, getattr(reduce, name)))
    _compiled(monkeypatch, "nv_tileaa.addf %e, %acc", shape, axis)
    assert taken == {way}


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "body, keeps", [("nv_tileaa.addf %e, %acc", False), ("arith.remf %e, %acc", True)]
)
def test_what_keeps_its_order_is_told(
    monkeypatch: pytest.MonkeyPatch, axis: int, body: str, keeps: bool
) -> None:
    remarks = _compiled(monkeypatch, body, (4, 64), axis).remarks
    assert any("keeps the order" in str(remark) for remark in remarks) == keeps


def test_two_sums_at_once_take_their_elements_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each begins with what it leaves as it is, and no round asks whether it is the first."""
    kept: list[support.Loaded] = []
    load = support.load_text
    monkeypatch.setattr(
        support, "load_text", lambda *a, **o: kept.append(load(*a, **o)) or kept[-1]
    )
    ones = np.ones((64, 4), np.float32)
    type_, rest = tile("f32", (64, 4)), tile("f32", (4,))
    sums = on_tiles(
        f"""
        %r0, %r1 = nv_tileaa.reduce %a0, %a1 {{axis = 0 : i32, identities = [0.0 : f32, 0.0 : f32]}}
          : {type_}, {type_} -> {rest}, {rest} {{
        ^bb0(%e: f32, %x: f32, %g: f32, %y: f32):
          %v = nv_tileaa.addf %e, %x : f32
          %w = nv_tileaa.addf %g, %y : f32
          nv_tileaa.yield %v, %w : f32, f32
        }}
        """,
        [Given("f32", ones), Given("f32", 2 * ones)],
        [("f32", (4,)), ("f32", (4,))],
    )
    assert [found.tolist() for found in sums] == [[64.0] * 4, [128.0] * 4]
    (compiled,) = [one.compiled for one in kept]
    assert not any("keeps the order" in str(remark) for remark in compiled.remarks)
    assert not re.search(r"select\s+i1 \S+, (<\d+ x )?float", compiled.llvm_ir)


_BODIES = {
    **{
        cls.name: f"%w = {cls.name} %e : TYPE"
        for cls in OPERATIONS.values()
        if issubclass(cls, FloatUnary)
    },
    **{
        cls.name: f"%w = {cls.name} %e, %acc : TYPE"
        for cls in OPERATIONS.values()
        if issubclass(cls, FloatBinary)
    },
    **{
        f"nv_tileaa.{name}": f"%w = nv_tileaa.{name} %e : TYPE"
        for name in ("sqrt", "rsqrt", "exp2")
    },
    "nv_tileaa.divf": "%w = nv_tileaa.divf %e, %e : TYPE",
    "math.fpowi": "%w = math.fpowi %e, %three : TYPE, i32",
}
_DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16}


@pytest.mark.rotates(4)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("element", ["f32", "f64", "f16"])
@pytest.mark.parametrize("name", _BODIES)
def test_bodies_compute_with_any_function(name: str, element: str, axis: int) -> None:
    """Also of the last two lanes, of which vectors of one lane are left."""
    body = _BODIES[name].replace("TYPE", element)
    shape = (4, 16)
    values = np.random.default_rng(1).uniform(0.2, 0.9, shape).astype(_DTYPES[element])
    rest, wide = (shape[1 - axis],), tile(element, shape)
    (found,) = on_tiles(
        f"""
        %none = arith.constant 0.0 : {element}
        %three = arith.constant 3 : i32
        %r0 = nv_tileaa.reduce %a0 {{axis = {axis} : i32, identities = [0.0 : {element}]}}
          : {wide} -> {tile(element, rest)} {{
        ^bb0(%e: {element}, %acc: {element}):
          {body}
          %nothing = nv_tileaa.mulf %w, %none : {element}
          %most = arith.maximumf %e, %acc : {element}
          %v = nv_tileaa.addf %most, %nothing : {element}
          nv_tileaa.yield %v : {element}
        }}
        """,
        [Given(element, values)],
        [(element, rest)],
    )
    assert (found == values.max(axis)).all()
