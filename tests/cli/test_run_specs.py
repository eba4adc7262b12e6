"""SPECs of ``tilewright run``: arrays and numbers from the command line."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tilewright.cli.run_specs import Parameter, bind
from tilewright.cli.session import UsageError

F32 = Parameter(0, "a", "f32", True)
N = Parameter(1, "n", "i32", False)


def pointer(element: str) -> Parameter:
    return Parameter(0, "p", element, True)


def one(parameter: Parameter, spec: str, seed: int = 0) -> object:
    (value,) = bind([parameter], [spec], seed)
    return value


@pytest.mark.parametrize(
    ("element", "spec", "expected"),
    [
        ("f32", "zeros:f32:2x3", np.zeros((2, 3), np.float32)),
        ("f64", "ones:f64:4", np.ones(4)),
        ("i32", "iota:i32:2x3", np.arange(6, dtype=np.int32).reshape(2, 3)),
        ("i8", "iota:i8:300", np.arange(300).astype(np.int8)),
        ("i64", "full:i64:2:-5", np.full(2, -5, np.int64)),
        ("i64", "full:i64:1:0x7fffffffffffffff", np.array([2**63 - 1])),
        ("i8", "full:i8:1:255", np.array([-1], np.int8)),
        ("f16", "full:f16:3:0.1", np.full(3, 0.1, np.float16)),
        ("f32", "full:f32:1:-inf", np.array([-np.inf], np.float32)),
        ("bf16", "full:bf16:2:1.5", np.full(2, 1.5, ml_dtypes.bfloat16)),
        ("f8E4M3FN", "iota:f8E4M3FN:4", np.arange(4).astype(ml_dtypes.float8_e4m3fn)),
        ("f8E8M0FNU", "ones:f8E8M0FNU:2", np.ones(2).astype(ml_dtypes.float8_e8m0fnu)),
        ("tf32", "full:tf32:1:1.0009765625", np.array([1 + 2**-10], np.float32)),
        ("i1", "ones:i1:3", np.ones(3, np.bool_)),
        ("i1", "full:i1:2:true", np.ones(2, np.bool_)),
    ],
)
def test_made_arrays(element: str, spec: str, expected: np.ndarray) -> None:
    value = one(pointer(element), spec)
    assert isinstance(value, np.ndarray)
    assert value.dtype == expected.dtype
    assert value.shape == expected.shape
    assert value.tobytes() == expected.tobytes()
    assert value.flags.writeable
    assert value.flags.c_contiguous


@pytest.mark.parametrize("kind", ["random", "normal"])
def test_random_arrays_depend_on_seed_and_position(kind: str) -> None:
    spec = f"{kind}:f32:64"
    two = [F32, Parameter(1, "b", "f32", True)]
    first, second = bind(two, [spec, spec], 1)
    again, _ = bind(two, [spec, spec], 1)
    other, _ = bind(two, [spec, spec], 2)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_a_seed_in_the_spec_decides_alone() -> None:
    two = [F32, Parameter(1, "b", "f32", True)]
    first, second = bind(two, ["random:f32:64:7", "random:f32:64:7"], 1)
    assert np.array_equal(first, second)
    assert np.array_equal(first, one(F32, "random:f32:64:7", seed=9))


def test_range_of_random_values() -> None:
    floats = one(F32, "random:f32:10000")
    assert isinstance(floats, np.ndarray)
    assert 0.0 <= floats.min() < 0.01
    assert 0.99 < floats.max() <= 1.0
    integers = one(pointer("i8"), "random:i8:10000")
    assert isinstance(integers, np.ndarray)
    assert (integers.min(), integers.max()) == (-128, 127)


def test_arrays_from_files(tmp_path: Path) -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save(tmp_path / "a.npy", np.asfortranarray(values))
    np.savez(tmp_path / "d.npz", x=values + 1, y=values)
    for spec, expected in (("a.npy", values), ("d.npz:x", values + 1)):
        value = one(F32, str(tmp_path / spec))
        assert isinstance(value, np.ndarray)
        assert np.array_equal(value, expected)
        assert value.flags.c_contiguous


def test_narrow_floats_come_back_from_files(tmp_path: Path) -> None:
    values = np.arange(8).astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "a.npy", values)
    value = one(pointer("bf16"), str(tmp_path / "a.npy"))
    assert isinstance(value, np.ndarray)
    assert value.dtype == values.dtype
    assert value.tobytes() == values.tobytes()


def test_unsigned_integers_fit_signless_parameters(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([2**32 - 1], np.uint32))
    value = one(pointer("i32"), str(tmp_path / "a.npy"))
    assert isinstance(value, np.ndarray)
    assert value.tolist() == [-1]


@pytest.mark.parametrize(
    ("element", "spec", "expected"),
    [
        ("i32", "5", 5),
        ("i32", "-0x10", -16),
        ("i32", "i32:7", 7),
        ("f32", "1.5", 1.5),
        ("f32", "3", 3.0),
        ("f16", "f16:-inf", -np.inf),
        ("i1", "true", 1),
    ],
)
def test_numbers(element: str, spec: str, expected: float) -> None:
    assert one(Parameter(0, "n", element, False), spec) == expected


def test_names_and_positions() -> None:
    parameters = [F32, N, Parameter(2, "b", "f32", True)]
    a, n, b = bind(parameters, ["b=ones:f32:2", "zeros:f32:2", "arg1=3"], 0)
    assert (a.tolist(), n, b.tolist()) == ([0, 0], 3, [1, 1])


def test_array_group_expands_to_pointer_extents_and_strides() -> None:
    group = [F32, *(Parameter(i, f"arg{i}", "i32", False) for i in range(1, 5)), N]
    parameters = [*group[:5], Parameter(5, "n", "i32", False)]
    array, *rest = bind(parameters, ["array:zeros:f32:4x8", "9"], 0)
    assert array.shape == (4, 8)
    assert rest == [4, 8, 8, 1, 9]


@pytest.mark.parametrize(
    ("parameters", "arguments", "message"),
    [
        ([F32], [], "no argument for parameter 'a: ptr<f32>'"),
        ([F32], ["b=zeros:f32:1"], "no parameter 'b'; parameters: a"),
        ([F32], ["zeros:f32:1", "5"], "too many arguments: '5'"),
        ([F32], ["zeros:f32:1", "a=zeros:f32:1"], "'a: ptr<f32>' gets two values"),
        ([F32], ["zeros:i32:1"], "does not fit parameter 'a: ptr<f32>'"),
        ([F32], ["zeros:f33:1"], "no element type 'f33'"),
        ([F32], ["zeros:f32:1xx2"], "expected extents"),
        ([F32], ["zeros:f32:"], "expected extents"),
        ([F32], ["zeros:f32:4:1"], "nothing can follow"),
        ([F32], ["full:f32:4"], "expected a number after the extents"),
        ([F32], ["full:f32:4:x"], "is not a number"),
        ([F32], ["random:f32:4:x"], "expected a seed"),
        ([F32], ["zeros:f32:999999999999999999999"], "cannot be created"),
        ([F32], ["5"], "is not an array"),
        ([pointer("i32")], ["normal:i32:4"], "only floats"),
        ([pointer("i8")], ["full:i8:1:256"], "does not fit i8"),
        ([N], ["zeros:i32:1"], "does not fit parameter 'n: i32'"),
        ([N], ["1.5"], "is not an integer"),
        ([N], ["f32:1"], "does not fit"),
        ([N], ["array:zeros:i32:1"], "is not a pointer"),
        ([F32, N], ["array:zeros:f32:4"], "needs 2 integer parameters after"),
    ],
)
def test_refusals(parameters: list[Parameter], arguments: list[str], message: str) -> None:
    numbered = [
        Parameter(index, p.name, p.element, p.is_pointer) for index, p in enumerate(parameters)
    ]
    with pytest.raises(UsageError) as caught:
        bind(numbered, arguments, 0)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "argument-spec"
    assert message in diagnostic.message


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "text.npy").write_text("no array")
    (tmp_path / "text.npz").write_text("no archive")
    np.save(tmp_path / "f64.npy", np.zeros(2))
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "d.npz", x=np.zeros(2, np.float32))
    for name, code, message in (
        ("missing.npy", "unreadable-input", "cannot read"),
        ("text.npy", "unreadable-input", "no NumPy file"),
        ("text.npz:x", "unreadable-input", "no NumPy file"),
        ("objects.npy", "unreadable-input", "no NumPy file"),
        ("d.npz:y", "argument-spec", "has no array 'y'; arrays: x"),
        ("f64.npy", "argument-spec", "dtype float64"),
    ):
        with pytest.raises(UsageError) as caught:
            one(F32, str(tmp_path / name))
        (diagnostic,) = caught.value.diagnostics
        assert (diagnostic.code, message in diagnostic.message) == (code, True), name


Q = Parameter(2, "q", "f32", True)


def test_parts_are_in_place() -> None:
    whole, number, part = bind([F32, N, Q], ["iota:f32:2x4", "1", "part:a:2:6"], 0)
    assert number == 1
    part[0] = 9
    assert whole.tolist() == [[0, 1, 9, 3], [4, 5, 6, 7]]
    assert part.tolist() == [9, 3, 4, 5]
    whole, _, same = bind([F32, N, Q], ["q=zeros:f32:4", "a=part:q", "1"], 0)
    assert whole is same


def test_a_part_as_a_group() -> None:
    group = [F32, N, Parameter(2, "s", "i32", False), Parameter(3, "b", "f32", True)]
    part, extent, stride, whole = bind(group, ["b=zeros:f32:8", "array:part:b:1:4"], 0)
    assert (extent, stride) == (3, 1)
    assert np.shares_memory(part, whole)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("part:q", "no array has been given for 'q'; arrays: a"),
        ("part:n", "no array has been given for 'n'"),
        ("part:a:4:4", "a range of the 8 elements"),
        ("part:a:4:9", "a range of the 8 elements"),
        ("part:a:4", "is not an array"),
        ("part:a:-1:2", "is not an array"),
    ],
)
def test_bad_parts(spec: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        bind([F32, N, Q], ["iota:f32:2x4", "1", spec], 0)


def test_a_part_of_other_elements() -> None:
    other = Parameter(1, "b", "i32", True)
    with pytest.raises(UsageError, match="which do not fit"):
        bind([F32, other], ["zeros:f32:4", "part:a"], 0)
