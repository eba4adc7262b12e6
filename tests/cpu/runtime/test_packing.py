"""Launch arguments as slots: the quick way and the careful one give the same."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright
from tilewright.cpu.runtime.modules import LaunchedKernel
from tilewright.cpu.runtime.packing import Packer
from tilewright.diagnostics import TileIRError
from tilewright.machine import Program

TEXT = """
entry @k(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %n: tile<i32>, %s: tile<f32>) {
  %one = constant <f32: 1.0> : tile<f32>
  %t = store_ptr_tko weak %y, %one : tile<ptr<f32>>, tile<f32> -> token
  return
}
"""


def packer(text: str) -> Packer:
    module = tilewright.parse(text)
    tilewright.verify(module)
    return Packer(LaunchedKernel.of(module.entry(None)))


def of_type(ty: str) -> Packer:
    return packer(f"entry @k(%x: tile<{ty}>) {{ return }}")


def error_of(given: Packer, *args: object, allow_overlap: bool = False) -> TileIRError:
    with pytest.raises(TileIRError) as error:
        given.pack((1, 1, 1), args, allow_overlap=allow_overlap)
    return error.value


@pytest.mark.parametrize(
    ("ty", "value", "slot"),
    [
        ("i32", 5, 5),
        ("i32", -1, 0xFFFFFFFF),
        ("i32", 0xFFFFFFFF, 0xFFFFFFFF),
        ("i32", np.int64(-2), 0xFFFFFFFE),
        ("i8", -128, 0x80),
        ("i64", -1, 2**64 - 1),
        ("i1", True, 1),
        ("i1", 0, 0),
        ("f32", 1.0, 0x3F800000),
        ("f32", 1, 0x3F800000),
        ("f32", 0.1, 0x3DCCCCCD),
        ("f32", np.float64(0.1), 0x3DCCCCCD),
        ("f32", float("inf"), 0x7F800000),
        ("f64", -2.0, 0xC000000000000000),
        ("f16", 1.5, 0x3E00),
        ("bf16", 1.0, 0x3F80),
        ("bf16", ml_dtypes.bfloat16(2), 0x4000),
        ("f8E4M3FN", 1.0, 0x38),
        ("ptr<f32>", 4096, 4096),
    ],
)
def test_scalars(ty: str, value: object, slot: int) -> None:
    assert of_type(ty).pack((1, 1, 1), [value], allow_overlap=False).slots == [slot]


@pytest.mark.parametrize("ty", ["f16", "f32", "f64", "bf16", "i8", "i32", "i64"])
def test_both_ways_agree_on_numbers(ty: str) -> None:
    given = of_type(ty)
    for value in (0, 1, -1, 3, 100, 127, -128):
        quick = given._quickly((1, 1, 1), [value])
        careful = given._carefully((1, 1, 1), [value], False)
        assert quick is None or quick.slots == careful.slots
    if ty in ("f16", "f32", "f64"):
        for value in (0.1, -2.5, 1e-45, 65504.0, 65519.0, 1e-8, 5e-324):
            quick = given._quickly((1, 1, 1), [value])
            careful = given._carefully((1, 1, 1), [value], False)
            assert quick is not None
            assert quick.slots == careful.slots


ARRAYS = [
    ("f32", np.dtype(np.float32)),
    ("f64", np.dtype(np.float64)),
    ("f16", np.dtype(np.float16)),
    ("bf16", np.dtype(ml_dtypes.bfloat16)),
    ("i8", np.dtype(np.uint8)),
    ("i32", np.dtype(np.int32)),
    ("i1", np.dtype(np.bool_)),
    ("f8E5M2", np.dtype(ml_dtypes.float8_e5m2)),
]


@pytest.mark.parametrize(("element", "dtype"), ARRAYS)
def test_arrays_are_passed_in_place(element: str, dtype: np.dtype) -> None:
    array = np.zeros((4, 6), dtype)
    for given in (array, array[1:], array.T, array[::2, ::-1]):
        packed = of_type(f"ptr<{element}>").pack((1, 1, 1), [given], allow_overlap=False)
        assert packed.slots == [given.ctypes.data]
        assert packed.distinct


def test_torch_tensors_are_passed_in_place() -> None:
    torch = pytest.importorskip("torch")
    for element, dtype in (
        ("f32", torch.float32),
        ("i64", torch.int64),
        ("bf16", torch.bfloat16),
        ("f8E4M3FN", torch.float8_e4m3fn),
        ("i1", torch.bool),
    ):
        tensor = torch.zeros(4, 4).to(dtype)
        packed = of_type(f"ptr<{element}>").pack((1, 1, 1), [tensor], allow_overlap=False)
        assert packed.slots == [tensor.data_ptr()]
    needs_gradient = torch.zeros(4, requires_grad=True)
    packed = of_type("ptr<f32>").pack((1, 1, 1), [needs_gradient], allow_overlap=False)
    assert packed.slots == [needs_gradient.data_ptr()]


def test_a_tensor_that_is_elsewhere() -> None:
    torch = pytest.importorskip("torch")
    error = error_of(of_type("ptr<f32>"), torch.zeros(4, device="meta"))
    assert error.diagnostics[0].code == "bad-argument"


def test_dlpack_is_passed_in_place() -> None:
    class Exporter:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **options: object) -> object:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    array = np.zeros(5, np.float32)
    packed = of_type("ptr<f32>").pack((1, 1, 1), [Exporter(array)], allow_overlap=False)
    assert packed.slots == [array.ctypes.data]


def test_overlaps() -> None:
    given = packer(TEXT)
    array = np.zeros(100, np.float32)
    apart = given.pack((1, 1, 1), (array[:50], array[50:], 1, 1.0), allow_overlap=False)
    assert apart.distinct
    error = error_of(given, array[:51], array[50:], 1, 1.0)
    assert error.diagnostics[0].code == "overlapping-arguments"
    allowed = given.pack((1, 1, 1), (array[:51], array[50:], 1, 1.0), allow_overlap=True)
    assert not allowed.distinct
    # Elements that only interleave do not overlap, but the compiler is not to count on it.
    woven = given.pack((1, 1, 1), (array[::2], array[1::2], 1, 1.0), allow_overlap=False)
    assert not woven.distinct
    bare = given.pack((1, 1, 1), (array.ctypes.data, array, 1, 1.0), allow_overlap=False)
    assert not bare.distinct


def test_bounds_are_those_of_the_elements() -> None:
    array = np.zeros((4, 6), np.float32)
    reversed_rows = array[::-2]
    start = array.ctypes.data
    given = packer(TEXT)
    packed = given.pack((1, 1, 1), (reversed_rows, start, 1, 1.0), allow_overlap=True)
    assert given.spans(packed) == [(start + 24, start + 96), (0, 2**64 - 1)]


def misaligned_array() -> np.ndarray:
    return np.zeros(41, np.uint8)[1:].view(np.float32)


def read_only_array() -> np.ndarray:
    array = np.zeros(4, np.float32)
    array.flags.writeable = False
    return array


F32 = np.zeros(4, np.float32)
BAD = {
    "too few": (F32,),
    "no sequence": "text",
    "dtype": (F32, np.zeros(4), 1, 1.0),
    "empty": (F32, np.zeros(0, np.float32), 1, 1.0),
    "read-only": (F32, read_only_array(), 1, 1.0),
    "range": (F32, F32.copy(), 2**32, 1.0),
    "kind": (F32, F32.copy(), 1.5, 1.0),
    "number": (F32, F32.copy(), 1, "x"),
    "beyond": (F32, F32.copy(), 1, 1e39),
    "nothing": (F32, None, 1, 1.0),
    "overlap": (F32, F32, 1, 1.0),
    "several": (np.zeros(3), None, 1.5, "x"),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_are_those_of_the_reference_machine(name: str) -> None:
    module = tilewright.parse(TEXT)
    with pytest.raises(TileIRError) as expected:
        Program(module).launch(None, 1, BAD[name])  # pyright: ignore[reportArgumentType]
    with pytest.raises(TileIRError) as found:
        kernel = LaunchedKernel.of(module.entry(None))
        Packer(kernel).pack((1, 1, 1), BAD[name], allow_overlap=False)  # pyright: ignore[reportArgumentType]
    assert found.value.diagnostics == expected.value.diagnostics


def test_a_misaligned_array() -> None:
    error = error_of(packer(TEXT), F32, misaligned_array(), 1, 1.0)
    assert "bytes past a multiple of its element size" in error.diagnostics[0].message


@pytest.mark.parametrize("grid", [0, (0, 1), (1, 2, 3, 4), "x", (1.5,), (2**24, 1, 1)])
def test_bad_grids(grid: object) -> None:
    with pytest.raises(TileIRError) as error:
        of_type("i32").pack(grid, [1], allow_overlap=False)
    assert error.value.diagnostics[0].code == "bad-grid"


@pytest.mark.parametrize(
    ("grid", "extents"),
    [(5, (5, 1, 1)), ((2, 3), (2, 3, 1)), ([4], (4, 1, 1)), (np.int64(7), (7, 1, 1))],
)
def test_grids(grid: object, extents: tuple[int, int, int]) -> None:
    assert of_type("i32").pack(grid, [1], allow_overlap=False).grid == extents
