"""A launch that cannot begin is refused at once, with everything that is wrong, and changes nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.machine.kernels import checked

import tilewright
from tilewright import LaunchOptions
from tilewright.diagnostics import Diagnostic, Span, TileIRError
from tilewright.machine import Program

COPY = """
entry @copy(%x: tile<ptr<f32>>, %out: tile<ptr<f32>>, %n: tile<i32>) {
  %a, %t = load_ptr_tko weak %x : tile<ptr<f32>> -> tile<f32>, token
  %s = store_ptr_tko weak %out, %a token=%t : tile<ptr<f32>>, tile<f32> -> token
  return
}
"""
MODULE = checked(COPY)

Launch = Callable[..., object]


def _run(module: Any, *args: Any, **options: Any) -> object:
    return tilewright.run(module, *args, options=LaunchOptions(**options))


def _sanitize(module: Any, *args: Any, seed: Any = 0, **options: Any) -> object:
    return tilewright.sanitize(module, *args, options=LaunchOptions(seeds=[seed], **options))


def _sanitize_with(module: Any, *args: Any, **options: Any) -> object:
    return tilewright.sanitize(module, *args, options=LaunchOptions(**options))


def _sanitizing_run(module: Any, *args: Any, **options: Any) -> object:
    return tilewright.run(module, *args, options=LaunchOptions(sanitize=True, **options))


every_launch = pytest.mark.parametrize(
    "launch", [_run, _sanitize, _sanitizing_run], ids=["run", "sanitize", "checked run"]
)


def refused(
    launch: Launch, *arguments: Any, module: Any = MODULE, **options: Any
) -> list[Diagnostic]:
    with pytest.raises(TileIRError) as caught:
        launch(module, *arguments, **options)
    return list(caught.value.diagnostics)


def arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.full(4, 3, np.float32), np.full(4, 7, np.float32)


def frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def fields_of(dtype: str) -> np.ndarray:
    """A field of records of six bytes."""
    return np.zeros(4, [("x", dtype), ("rest", "i2")])["x"]


def shifted() -> np.ndarray:
    """A float array that begins at the second byte of another array."""
    return np.zeros(17, np.uint8)[1:].view(np.float32)


@every_launch
@pytest.mark.parametrize(
    ("entry", "grid", "args", "code", "message"),
    [
        ("copy", 1, lambda x, y: (x, y), "bad-argument", "'copy' takes 3 arguments, got 2"),
        ("copy", 1, lambda x, y: (x, y, 4, 4), "bad-argument", "takes 3 arguments, got 4"),
        ("copy", 1, lambda x, y: x, "bad-argument", "expected a list or tuple of arguments"),
        ("copy", 1, lambda x, y: None, "bad-argument", "got NoneType"),
        ("copy", 1, lambda x, y: "xyz", "bad-argument", "got str"),
        ("copy", 1, lambda x, y: (x.astype("f8"), y, 4), "bad-argument", "array of float64"),
        ("copy", 1, lambda x, y: (x.tolist(), y, 4), "bad-argument", "got list"),
        ("copy", 1, lambda x, y: (None, y, 4), "bad-argument", "got NoneType"),
        ("copy", 1, lambda x, y: (x[:0], y, 4), "bad-argument", "argument 0 has no elements"),
        ("copy", 1, lambda x, y: (x, np.zeros((3, 0), "f4"), 4), "bad-argument", "(3, 0)"),
        ("copy", 1, lambda x, y: (fields_of("f4"), y, 4), "bad-argument", "strides of (6,) bytes"),
        ("copy", 1, lambda x, y: (shifted(), y, 4), "bad-argument", "starts 1 bytes past"),
        ("copy", 1, lambda x, y: (x, y, math.nan), "bad-argument", "must be an integer"),
        ("copy", 1, lambda x, y: (x, y, 2**32), "bad-argument", "outside -2147483648"),
        ("copy", 1, lambda x, y: (x, frozen(y), 4), "read-only-memory", "argument 1 is a read-on"),
        ("copy", 1, lambda x, y: (x, x, 4), "overlapping-arguments", "argument 0 and argument 1"),
        ("copy", 1, lambda x, y: (y[1:], y[:2], 4), "overlapping-arguments", "overlap in memory"),
        ("copy", 1, lambda x, y: (y[::-1], y, 4), "overlapping-arguments", "overlap in memory"),
        ("copy", 0, lambda x, y: (x, y, 4), "bad-grid", "extent x is 0"),
        ("copy", (1, -1), lambda x, y: (x, y, 4), "bad-grid", "extent y is -1"),
        ("copy", (1, 1, 2**24), lambda x, y: (x, y, 4), "bad-grid", "1 to 16777215"),
        ("copy", (1, 1, 1, 1), lambda x, y: (x, y, 4), "bad-grid", "one to three"),
        ("copy", math.nan, lambda x, y: (x, y, 4), "bad-grid", "got nan"),
        ("copy", (2.0,), lambda x, y: (x, y, 4), "bad-grid", "integer extents"),
        ("paste", 1, lambda x, y: (x, y, 4), "unknown-entry", "'paste'"),
    ],
)
def test_bad_launches(
    launch: Launch, entry: str, grid: Any, args: Any, code: str, message: str
) -> None:
    x, out = arrays()
    (found,) = refused(launch, entry, grid, args(x, out))
    assert found.code == code
    assert message in found.message
    assert (x == 3).all() and (out == 7).all()


@every_launch
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_iterations": 0}, "max_iterations must be an integer of at least 1, not 0"),
        ({"max_iterations": math.nan}, "not nan"),
        ({"max_iterations": None}, "not None"),
        ({"seed": -1}, "seed must be an integer of at least 0, not -1"),
        ({"seed": 1.5}, "not 1.5"),
        ({"seed": True}, "not True"),
    ],
)
def test_bad_options(launch: Launch, options: dict[str, Any], message: str) -> None:
    x, out = arrays()
    (found,) = refused(launch, "copy", 1, (x, out, 4), **options)
    assert found.code == "bad-run-option"
    assert message in found.message
    assert (out == 7).all()


@pytest.mark.parametrize("seeds", [0, -1, (), [math.nan], math.nan, [None], "12", True])
def test_bad_seeds(seeds: Any) -> None:
    x, out = arrays()
    (found,) = refused(_sanitize_with, "copy", 1, (x, out, 4), seeds=seeds)
    assert found.code == "bad-run-option"
    assert (out == 7).all()


@every_launch
def test_everything_wrong_is_told_at_once(launch: Launch) -> None:
    x, out = arrays()
    found = refused(launch, "copy", (0,), (x, out.astype("i4"), 2.5))
    assert [d.code for d in found] == ["bad-grid", "bad-argument", "bad-argument"]
    found = refused(launch, "copy", (0,), (x, frozen(x[1:]), 4))
    assert [d.code for d in found] == ["bad-grid", "read-only-memory", "overlapping-arguments"]


@every_launch
def test_overlaps_that_are_meant(launch: Launch) -> None:
    _, out = arrays()
    out[2] = 9
    launch(MODULE, "copy", 1, (out[2:], out, 4), allow_overlap=True)
    assert out.tolist() == [9, 7, 9, 7]


@every_launch
def test_arrays_that_only_interleave_do_not_overlap(launch: Launch) -> None:
    both = np.arange(16, dtype=np.float32).reshape(4, 4)
    launch(MODULE, "copy", 1, (both[:, ::2], both[:, 1::2], 4))
    assert both[0].tolist() == [0, 0, 2, 3]
    launch(MODULE, "copy", 1, (both[2:], both[:2], 4))
    assert both[0, 0] == 8


ADD = """
entry @add(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %out: tile<ptr<f32>>) {
  %a, %t = load_ptr_tko weak %x : tile<ptr<f32>> -> tile<f32>, token
  %b, %u = load_ptr_tko weak %y : tile<ptr<f32>> -> tile<f32>, token
  %sum = addf %a, %b : tile<f32>
  %s = store_ptr_tko weak %out, %sum : tile<ptr<f32>>, tile<f32> -> token
  return
}
"""
CHOOSE = """
entry @choose(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %c: tile<i1>) {
  %p = if %c -> (tile<ptr<f32>>) {
    yield %x : tile<ptr<f32>>
  } else {
    yield %y : tile<ptr<f32>>
  }
  %zero = constant <f32: 0.0> : tile<f32>
  %s = store_ptr_tko weak %p, %zero : tile<ptr<f32>>, tile<f32> -> token
  return
}
"""


@every_launch
def test_arrays_that_are_only_read_may_overlap(launch: Launch) -> None:
    x, out = arrays()
    launch(checked(ADD), "add", 1, (x, x, out))
    assert out[0] == 6
    (found,) = refused(launch, "add", 1, (x, out, out), module=checked(ADD))
    assert "argument 1 and argument 2 overlap" in found.message


@every_launch
def test_arrays_that_may_be_written_may_not_overlap(launch: Launch) -> None:
    x, _ = arrays()
    (found,) = refused(launch, "choose", 1, (x, x, True), module=checked(CHOOSE))
    assert found.code == "overlapping-arguments"
    assert x[0] == 3
    frozen(x)
    launch(checked("entry @k(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>) {}"), "k", 1, (x, x[1:]))


def test_arrays_too_entangled_to_tell_apart_count_as_overlapping() -> None:
    # The example in NumPy's own documentation of a problem that takes minutes.
    whole = np.zeros(192_163_377, np.int8)
    strided = np.lib.stride_tricks.as_strided
    one = strided(whole, (1049, 1049, 1049), (36674, 61119, 85569))
    other = strided(whole[64_023_025:], (1049, 1049, 1), (12223, 12224, 1))
    module = checked(COPY.replace("f32", "i8"))
    (found,) = refused(tilewright.run, args=(one, other, 4), module=module)
    assert found.code == "overlapping-arguments"


def test_an_address_of_a_mapped_array_may_be_passed_twice() -> None:
    program = Program(MODULE)
    x, _ = arrays()
    address = program.map_array(x)
    program.launch(args=(address, address + 4, 4))
    program.launch(args=(x, address + 8, 4))
    assert x.tolist() == [3] * 4


WRITES = """
entry @k(%p: tile<ptr<i32>>, %q: tile<ptr<i32>>) {
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  BODY
  return
}
"""
VIEW = "tensor_view<4xi32, strides=[1]>"
PART = f"partition_view<tile=(4), {VIEW}>"


@pytest.mark.parametrize(
    "body",
    [
        "%s = store_ptr_tko weak %p, %one : tile<ptr<i32>>, tile<i32> -> token",
        "%r = offset %p, %one : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>\n"
        "%s = store_ptr_tko weak %r, %one : tile<ptr<i32>>, tile<i32> -> token",
        f"%v = make_tensor_view %p, shape = [4], strides = [1] : {VIEW}\n"
        f"%w = make_partition_view %v : {PART}\n"
        "%c = constant <i32: 5> : tile<4xi32>\n"
        f"%s = store_view_tko weak %c, %w[%zero] : tile<4xi32>, {PART}, tile<i32> -> token",
        "%o, %s = atomic_rmw_tko relaxed device %p, add, %one "
        ": tile<ptr<i32>>, tile<i32> -> tile<i32>, token",
        "%o, %s = atomic_cas_tko relaxed device %p, %zero, %one "
        ": tile<ptr<i32>>, tile<i32> -> tile<i32>, token",
        "for %i in (%zero to %one, step %one) : tile<i32> {\n"
        "%s = store_ptr_tko weak %p, %one : tile<ptr<i32>>, tile<i32> -> token }",
    ],
    ids=["store", "offset", "view", "atomic", "compare and swap", "loop"],
)
def test_writes_to_read_only_arrays_are_seen_beforehand(body: str) -> None:
    module = checked(WRITES.replace("BODY", body))
    one, other = np.zeros((2, 4), np.int32)
    (found,) = refused(tilewright.run, args=(frozen(one), other), module=module)
    assert found.code == "read-only-memory"
    assert isinstance(found.location, Span)
    assert found.location.text.startswith(("store", "atomic"))
    tilewright.run(module, args=(other, one))


def test_a_pointer_that_may_be_either_is_left_to_the_run() -> None:
    body = (
        "%c = cmpi equal %zero, %one, signed : tile<i32> -> tile<i1>\n"
        "%r = select %c, %p, %q : tile<i1>, tile<ptr<i32>>\n"
        "%s = store_ptr_tko weak %r, %one : tile<ptr<i32>>, tile<i32> -> token"
    )
    module = checked(WRITES.replace("BODY", body))
    one, other = np.zeros((2, 4), np.int32)
    frozen(one)
    tilewright.run(module, args=(one, other))
    assert other[0] == 1
    with pytest.raises(TileIRError, match="read-only-memory"):
        tilewright.run(module, args=(other, one))
