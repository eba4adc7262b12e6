"""Small kernels in text, around a body: inputs are loaded and results are stored whole."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tilewright import LaunchOptions, run
from tilewright.analysis.verifier import verify
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.machine import RunResult
from tilewright.text import parse

ELEMENTS = {
    np.dtype(dtype): name
    for dtype, name in (
        (np.bool_, "i1"),
        (np.int8, "i8"),
        (np.int16, "i16"),
        (np.int32, "i32"),
        (np.int64, "i64"),
        (np.float16, "f16"),
        (np.float32, "f32"),
        (np.float64, "f64"),
        (ml_dtypes.bfloat16, "bf16"),
        (ml_dtypes.float8_e4m3fn, "f8E4M3FN"),
        (ml_dtypes.float8_e5m2, "f8E5M2"),
        (ml_dtypes.float8_e8m0fnu, "f8E8M0FNU"),
    )
}


def checked(text: str) -> ModuleOp:
    """The module of a text, which the verifier accepts."""
    module = parse(text)
    verify(module)
    assert isinstance(module, ModuleOp)
    return module


def tile_of(array: np.ndarray) -> str:
    """The tile type that holds an array."""
    return "tile<" + "".join(f"{e}x" for e in array.shape) + ELEMENTS[array.dtype] + ">"


def view_types(array: np.ndarray, padding: str = "") -> tuple[str, str]:
    """A tensor view of the whole array, and a partition view with one tile."""
    dims = "x".join(map(str, array.shape))
    strides = ",".join(str(s // array.itemsize) for s in np.empty(array.shape, array.dtype).strides)
    tensor = f"tensor_view<{dims}x{ELEMENTS[array.dtype]}, strides=[{strides}]>"
    return tensor, f"partition_view<tile=({dims}){padding}, {tensor}>"


def _whole_view(name: str, array: np.ndarray) -> tuple[str, str, str]:
    tensor, partition = view_types(array)
    shape = list(array.shape)
    strides = [s // array.itemsize for s in array.strides]
    lines = (
        f"%view_{name} = make_tensor_view %ptr_{name}, shape = {shape}, strides = {strides} "
        f": {tensor}\n"
        f"%part_{name} = make_partition_view %view_{name} : {partition}\n"
    )
    indices = ", ".join(["%zero"] * array.ndim)
    return lines, partition, indices


def _load(name: str, array: np.ndarray) -> str:
    if array.ndim == 0:
        element = ELEMENTS[array.dtype]
        return (
            f"%{name}, %token_{name} = load_ptr_tko weak %ptr_{name} "
            f": tile<ptr<{element}>> -> tile<{element}>, token\n"
        )
    lines, partition, indices = _whole_view(name, array)
    return (
        f"{lines}%{name}, %token_{name} = load_view_tko weak %part_{name}[{indices}] "
        f": {partition}, tile<i32> -> {tile_of(array)}, token\n"
    )


def _store(name: str, array: np.ndarray) -> str:
    if array.ndim == 0:
        element = ELEMENTS[array.dtype]
        return (
            f"%stored_{name} = store_ptr_tko weak %ptr_{name}, %{name} "
            f": tile<ptr<{element}>>, tile<{element}> -> token\n"
        )
    lines, partition, indices = _whole_view(name, array)
    return (
        f"{lines}%stored_{name} = store_view_tko weak %{name}, %part_{name}[{indices}] "
        f": {tile_of(array)}, {partition}, tile<i32> -> token\n"
    )


def _names(body: str, value: str) -> bool:
    return re.search(rf"%{value}\b", body) is not None


def kernel_text(
    body: str,
    inputs: Mapping[str, np.ndarray],
    results: Mapping[str, np.ndarray],
    globals: str = "",
) -> str:
    """An entry that loads ``%name`` for each input that the body names, runs the body, and stores
    ``%name`` for each result that it names.

    In the body every array has its pointer as ``%ptr_name``; ``%zero`` is an i32 zero.
    """
    arrays = {**inputs, **results}
    parameters = ", ".join(
        f"%ptr_{name}: tile<ptr<{ELEMENTS[array.dtype]}>>" for name, array in arrays.items()
    )
    loads = "".join(_load(name, a) for name, a in inputs.items() if _names(body, name))
    stores = "".join(_store(name, a) for name, a in results.items() if _names(body, name))
    return (
        f"cuda_tile.module @m {{\n{globals}\nentry @k({parameters}) {{\n"
        f"%zero = constant <i32: 0> : tile<i32>\n{loads}{body}\n{stores}return\n}}\n}}\n"
    )


def run_body(
    body: str,
    inputs: Mapping[str, Any],
    results: Mapping[str, np.ndarray],
    globals: str = "",
    grid: Sequence[int] = (1,),
    **options: Any,
) -> tuple[dict[str, np.ndarray], RunResult, ModuleOp]:
    """Run such a kernel; ``results`` hold the arrays' first contents and stay as they are."""
    given = {name: np.asarray(value).copy() for name, value in inputs.items()}
    found = {name: np.array(value) for name, value in results.items()}
    module = checked(kernel_text(body, given, found, globals))
    outcome = run(
        module,
        "k",
        tuple(grid),
        [*given.values(), *found.values()],
        options=LaunchOptions(**options),
    )
    return found, outcome, module
