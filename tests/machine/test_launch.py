"""Arguments, grids, globals, assertions, and what stays between launches."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.machine.kernels import checked, run_body

from tilewright import LaunchOptions, run
from tilewright.diagnostics import TileIRError
from tilewright.machine import Program

IDENTITY = "entry @k(%p: tile<ptr<{0}>>, %x: tile<{0}>) {{\n%t = store_ptr_tko weak %p, %x : tile<ptr<{0}>>, tile<{0}> -> token\nreturn\n}}"


def _error(module: Any, **launch: Any) -> list[str]:
    with pytest.raises(TileIRError) as caught:
        run(module, **launch)
    return [f"{d.code}: {d.message}" for d in caught.value.diagnostics]


@pytest.mark.parametrize(
    ("element", "dtype", "value", "stored"),
    [
        ("i1", np.bool_, True, True),
        ("i8", np.uint8, 200, 200),
        ("i8", np.int8, 200, -56),
        ("i16", np.int16, np.int16(-3), -3),
        ("i32", np.uint32, -1, 2**32 - 1),
        ("i64", np.int64, np.uint64(2**64 - 1), -1),
        ("f16", np.float16, 0.1, np.float16(0.1)),
        ("bf16", ml_dtypes.bfloat16, np.float32(1.01), ml_dtypes.bfloat16(1.01)),
        ("f32", np.float32, 3, 3.0),
        ("tf32", np.float32, 1 + 2.0**-10, 1 + 2.0**-10),
        ("f64", np.float64, np.array(0.1), 0.1),
        ("f8E4M3FN", ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fn(-448), -448),
        ("f8E5M2", ml_dtypes.float8_e5m2, 57344, 57344),
        ("f8E8M0FNU", ml_dtypes.float8_e8m0fnu, 0.25, 0.25),
    ],
)
def test_scalars_and_arrays_of_every_type(element: str, dtype: Any, value: Any, stored: Any):
    array = np.zeros(1, dtype)
    run(checked(IDENTITY.format(element)), args=(array, value))
    assert array[0] == np.array(stored, dtype)


@pytest.mark.parametrize(
    ("element", "array", "value", "message"),
    [
        ("i32", np.zeros(1, np.int64), 0, "argument 0 is an array of int64"),
        ("i32", np.zeros(1, np.float32), 0, "takes int32 or uint32"),
        ("f32", np.zeros(1, np.int32), 0, "takes float32"),
        ("f32", np.zeros(1, ">f4"), 0, "takes float32"),
        ("f32", [0.0], 0, "must be a NumPy array or an address, got list"),
        ("f32", -1, 0, "outside 0 to 2**64 - 1"),
        ("i8", np.zeros(1, np.int8), 256, "is 256, outside -128 to 255"),
        ("i8", np.zeros(1, np.int8), -129, "is -129, outside -128 to 255"),
        ("i1", np.zeros(1, np.bool_), 2, "is 2, outside 0 to 1"),
        ("i32", np.zeros(1, np.int32), 1.0, "must be an integer, got float"),
        ("i32", np.zeros(1, np.int32), True, "must be an integer, got bool"),
        ("f16", np.zeros(1, np.float16), 1e6, "beyond the largest number of f16"),
        ("f32", np.zeros(1, np.float32), 1j, "must be a real number, got complex"),
        ("f32", np.zeros(1, np.float32), "1", "must be a real number, got str"),
    ],
)
def test_arguments_that_do_not_fit(element: str, array: Any, value: Any, message: str):
    (error,) = _error(checked(IDENTITY.format(element)), args=(array, value))
    assert error.startswith("bad-argument")
    assert message in error


def test_every_wrong_argument_is_reported():
    errors = _error(checked(IDENTITY.format("i32")), args=(np.zeros(1, np.int8), 2.5))
    assert len(errors) == 2
    (error,) = _error(checked(IDENTITY.format("i32")), args=(np.zeros(1, np.int32),))
    assert "takes 2 arguments, got 1" in error


def test_four_bit_arrays_are_packed():
    module = checked("entry @k(%p: tile<ptr<f4E2M1FN>>) { return }")
    run(module, args=(np.zeros(1, np.uint8),))
    with pytest.raises(TileIRError) as caught:
        run(module, args=(np.zeros(1, ml_dtypes.float4_e2m1fn),))
    assert "pack two elements" in caught.value.diagnostics[0].help


@pytest.mark.parametrize(
    "grid", [0, (1, 0), (2**24,), (1, 1, 1, 1), (), (1.0,), "1", (True,), None]
)
def test_bad_grids(grid: Any):
    (error,) = _error(checked("entry @k() { return }"), grid=grid)
    assert error.startswith("bad-grid")


@pytest.mark.parametrize("grid", [3, (3,), (3, 1), np.int64(3), [3, 1, 1]])
def test_grids(grid: Any):
    done: list[int] = []
    run(
        checked("entry @k() { return }"),
        grid=grid,
        options=LaunchOptions(progress=lambda finished, count: done.append(count)),
    )
    assert done == [3, 3, 3]


def test_kernel_names():
    module = checked("entry @a() { return }\nentry @b() { return }")
    run(module, "b")
    for name in (None, "c"):
        (error,) = _error(module, entry=name)
        assert error.startswith("unknown-entry")
        assert "a, b" in error


def test_overlapping_arrays_share_memory():
    module = checked(
        "entry @k(%p: tile<ptr<i32>>, %q: tile<ptr<i32>>, %r: tile<ptr<i32>>, %d: tile<ptr<i64>>) {\n"
        "%x, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token\n"
        "%y, %u = load_ptr_tko weak %q : tile<ptr<i32>> -> tile<i32>, token\n"
        "%s = store_ptr_tko weak %q, %x token=%u : tile<ptr<i32>>, tile<i32> -> token\n"
        "%v = store_ptr_tko weak %r, %y : tile<ptr<i32>>, tile<i32> -> token\n"
        "%a = ptr_to_int %p : tile<ptr<i32>> -> tile<i64>\n"
        "%b = ptr_to_int %q : tile<ptr<i32>> -> tile<i64>\n"
        "%c = subi %b, %a : tile<i64>\n"
        "%w = store_ptr_tko weak %d, %c : tile<ptr<i64>>, tile<i64> -> token\nreturn\n}"
    )
    whole = np.arange(10, dtype=np.int32)
    distance = np.zeros(1, np.int64)
    arguments = (whole, whole[6:8], whole[::-1], distance)
    result = run(module, args=arguments, options=LaunchOptions(allow_overlap=True))
    assert whole.tolist() == [0, 1, 2, 3, 4, 5, 0, 7, 8, 6]
    assert distance[0] == 24
    assert result.outputs[0] is whole


def test_a_slice_is_mapped_alone_and_keeps_its_alignment():
    module = checked(
        "entry @k(%p: tile<ptr<i32>>, %d: tile<ptr<i64>>) {\n"
        "%one = constant <i32: 1> : tile<i32>\n"
        "%q = offset %p, %one : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>\n"
        "%a = ptr_to_int %p : tile<ptr<i32>> -> tile<i64>\n"
        "%w = store_ptr_tko weak %d, %a : tile<ptr<i64>>, tile<i64> -> token\n"
        "%x, %t = load_ptr_tko weak %q : tile<ptr<i32>> -> tile<i32>, token\nreturn\n}"
    )
    whole, address = np.arange(10, dtype=np.int32), np.zeros(1, np.int64)
    run(module, args=(whole[3:5], address))
    assert address[0] % 256 == 12
    (error,) = _error(module, args=(whole[3:4], address))
    assert error.startswith("invalid-address")


def test_addresses_are_the_same_in_every_launch():
    body = """%n = ptr_to_int %ptr_m : tile<ptr<i32>> -> tile<i64>
    %t = print_tko "%p", %n : tile<i64> -> token"""
    texts = {run_body(body, {}, {"m": np.zeros(size, np.int32)})[1].text for size in (4, 9, 4)}
    assert len(texts) == 1


def test_mapped_arrays_hold_addresses_of_one_another():
    module = checked(
        "entry @k(%table: tile<ptr<i64>>) {\n"
        "%n, %t = load_ptr_tko weak %table : tile<ptr<i64>> -> tile<i64>, token\n"
        "%p = int_to_ptr %n : tile<i64> -> tile<ptr<f32>>\n"
        "%x, %u = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token\n"
        "%y = addf %x, %x : tile<f32>\n"
        "%v = store_ptr_tko weak %p, %y token=%u : tile<ptr<f32>>, tile<f32> -> token\nreturn\n}"
    )
    program = Program(module)
    hidden = np.array([2.5], np.float32)
    table = np.array([program.map_array(hidden)], np.int64)
    program.launch(args=(table,))
    program.launch(args=(program.map_array(table),))
    assert hidden[0] == 10


GLOBALS = checked("""
global @count <i32: [5, 6]> : tile<2xi32>
global private @hidden alignment = 1024 <i8: [1]> : tile<1xi8>
global @halves <bf16: [1.5, -2.0]> : tile<2xbf16>
entry @k(%out: tile<ptr<i64>>) {
  %one = constant <i32: 1> : tile<i32>
  %p = get_global @count : tile<ptr<i32>>
  %old, %t = atomic_rmw_tko relaxed device %p, add, %one
    : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
  %h = get_global @hidden : tile<ptr<i8>>
  %n = ptr_to_int %h : tile<ptr<i8>> -> tile<i64>
  %s = store_ptr_tko weak %out, %n : tile<ptr<i64>>, tile<i64> -> token
  return
}""")


def test_globals_live_as_long_as_the_program():
    program, out = Program(GLOBALS), np.zeros(1, np.int64)
    program.launch(args=(out,))
    program.launch(args=(out,), grid=(2,))
    assert program.global_array("count").tolist() == [8, 6]
    assert out[0] % 1024 == 0
    program.global_array("count")[0] = 100
    program.launch(args=(out,))
    assert program.global_array("count")[0] == 101
    assert Program(GLOBALS).global_array("count")[0] == 5
    assert program.global_array("halves").tolist() == [1.5, -2.0]
    for name in ("hidden", "nothing"):
        with pytest.raises(KeyError):
            program.global_array(name)


ASSERTING = """%c = cmpi less_than %a, %b, signed : tile<2x2xi32> -> tile<2x2xi1>
    assert %c, "too large" : tile<2x2xi1>
    %r = addi %a, %b : tile<2x2xi32>"""


def test_assertions():
    inputs = {"a": np.array([[1, 9], [2, 3]], np.int32), "b": np.full((2, 2), 3, np.int32)}
    results = {"r": np.zeros((2, 2), np.int32)}
    with pytest.raises(TileIRError) as caught:
        run_body(ASSERTING, inputs, results)
    messages = [d.message for d in caught.value.diagnostics]
    assert {d.code for d in caught.value.diagnostics} == {"assertion-failed"}
    assert messages == [
        "assertion failed in tile block (0, 0, 0) at element [0, 1]: too large",
        "assertion failed in tile block (0, 0, 0) at element [1, 1]: too large",
    ]
    found, outcome, _ = run_body(ASSERTING, inputs, results, check_asserts=False)
    assert [failure.index for failure in outcome.failures] == [(0, 1), (1, 1)]
    assert found["r"].tolist() == [[4, 12], [5, 6]]


def test_many_failed_assertions_are_summed_up():
    body = """%c = constant <i1: false> : tile<64xi1>
    assert %c, "no" : tile<64xi1>"""
    with pytest.raises(TileIRError) as caught:
        run_body(body, {}, {})
    assert len(caught.value.diagnostics) == 20
    assert caught.value.diagnostics[-1].notes[-1].message == "44 more elements failed"


def test_printed_text_is_handed_on_at_once():
    seen: list[str] = []
    _, outcome, _ = run_body(
        '%t = print_tko "hi\\n" -> token', {}, {}, grid=(2,), print_to=seen.append
    )
    assert seen == ["hi\n", "hi\n"]
    assert outcome.text == "hi\nhi\n"


def test_refused_operations_are_told_before_anything_runs():
    module = checked('entry @k() {\n%t = print_tko "x" -> token\nreturn\n}')
    from tilewright.dialects.cuda_tile.ops.testing import BytecodeNewAttributeOp

    block = module.entry("k").block
    assert block.last_op is not None
    block.insert_op_before(BytecodeNewAttributeOp.create(), block.last_op)
    seen: list[str] = []
    (error,) = _error(module, options=LaunchOptions(print_to=seen.append))
    assert error.startswith("machine-unsupported")
    assert seen == []
