"""Kernels of nv_tileaa in text around a body, and what they compute."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from textwrap import indent
from typing import Any

import numpy as np
from tests.machine.kernels import ELEMENTS

from tilewright import LaunchOptions
from tilewright.analysis.verifier import verify
from tilewright.machine import Program, RunResult
from tilewright.text import parse

_INDEX = "index"


def element(array: np.ndarray) -> str:
    return ELEMENTS[array.dtype]


def type_of(array: np.ndarray) -> str:
    """The scalar or tile type that holds an array."""
    dims = "".join(f"{extent}x" for extent in array.shape)
    return f"tile<{dims}{element(array)}>" if array.ndim else element(array)


def memref_of(array: np.ndarray) -> str:
    dims = "".join(f"{extent}x" for extent in array.shape)
    steps = np.empty(array.shape, array.dtype).strides
    strides = ", ".join(str(stride // array.itemsize) for stride in steps)
    return f"!nv_tileaa.memref<{dims}{element(array)}, strides = [{strides}], 1>"


def _memory(name: str, array: np.ndarray) -> str:
    return (
        f"%mem_{name} = nv_tileaa.make_memref %ptr_{name} "
        f": (!nv_tileaa.ptr<{element(array)}, 1>) -> {memref_of(array)}\n"
    )


def _load(name: str, array: np.ndarray) -> str:
    pointer = f"!nv_tileaa.ptr<{element(array)}, 1>"
    if not array.ndim:
        return f"%{name} = nv_tileaa.load %ptr_{name} : {pointer} -> {type_of(array)}\n"
    zeros = ", ".join(["%zero"] * array.ndim)
    types = ", ".join([memref_of(array), *[_INDEX] * array.ndim])
    return f"%{name} = nv_tileaa.tiled_load %mem_{name}[{zeros}] : {types} -> {type_of(array)}\n"


def _store(name: str, array: np.ndarray) -> str:
    pointer = f"!nv_tileaa.ptr<{element(array)}, 1>"
    if not array.ndim:
        return f"nv_tileaa.store %ptr_{name}, %{name} : {pointer}, {type_of(array)}\n"
    zeros = ", ".join(["%zero"] * array.ndim)
    types = ", ".join([memref_of(array), type_of(array), *[_INDEX] * array.ndim])
    return f"nv_tileaa.tiled_store %mem_{name}[{zeros}], %{name} : {types}\n"


def kernel_text(
    body: str,
    inputs: Mapping[str, np.ndarray],
    results: Mapping[str, np.ndarray],
    symbols: str = "",
    capability: int = 100,
) -> str:
    """A kernel that loads ``%name`` for each input that the body names, runs the body, and stores
    ``%name`` for each result that the body defines.

    In the body every array has its pointer as ``%ptr_name`` and, unless it is of rank 0, a memref
    as ``%mem_name``; ``%zero`` is an index.
    """
    arrays = {**inputs, **results}
    parameters = ", ".join(
        f"%ptr_{name}: !nv_tileaa.ptr<{element(array)}, 1>" for name, array in arrays.items()
    )
    lines = "%zero = arith.constant 0 : index\n"
    lines += "".join(_memory(name, array) for name, array in arrays.items() if array.ndim)
    used = [name for name in inputs if re.search(rf"%{name}\b", body)]
    lines += "".join(_load(name, inputs[name]) for name in used)
    lines += body.strip() + "\n"
    made = [name for name in results if re.search(rf"%{name}\b", body)]
    lines += "".join(_store(name, results[name]) for name in made)
    return (
        f"module attributes {{nv_tileaa.compute_capability = {capability} : i32}} {{\n"
        f"{indent(symbols.strip(), '  ')}\n"
        f"  nv_tileaa.func @k({parameters}) attributes {{kernel}} {{\n"
        f"{indent(lines, '    ')}"
        "    nv_tileaa.return\n"
        "  }\n"
        "}\n"
    )


def checked(text: str) -> Any:
    """The module of a text, which the verifier accepts."""
    module = parse(text)
    verify(module)
    return module


def launch(
    text: str,
    *arrays: object,
    grid: int | tuple[int, ...] = 1,
    seed: int = 0,
    plugins: Mapping[str, Callable[..., object]] | None = None,
    **options: Any,
) -> RunResult:
    """Check and run the kernel ``k`` of a text."""
    program = Program(checked(text), options=LaunchOptions(plugins=plugins))
    return program.launch("k", grid, arrays, options=LaunchOptions(seed=seed, **options))


@dataclass(frozen=True)
class Case:
    """A body, what it reads, and what it must leave in each result."""

    op: str
    body: str
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    expected: Mapping[str, np.ndarray] = field(default_factory=dict)
    symbols: str = ""
    plugins: Mapping[str, Callable[..., object]] = field(default_factory=dict)
    grid: int | tuple[int, ...] = 1
    prints: str = ""
    failures: tuple[str, ...] = ()

    def run(self, seed: int = 0) -> tuple[RunResult, dict[str, np.ndarray]]:
        """Results begin as zeros."""
        inputs = {name: array.copy() for name, array in self.inputs.items()}
        results = {name: np.zeros_like(array) for name, array in self.expected.items()}
        results |= {name: inputs[name] for name in results.keys() & inputs.keys()}
        arrays = {**inputs, **results}
        fresh = {name: array for name, array in results.items() if name not in inputs}
        text = kernel_text(self.body, inputs, fresh, self.symbols)
        result = launch(
            text,
            *arrays.values(),
            grid=self.grid,
            seed=seed,
            plugins=self.plugins,
            check_asserts=False,
        )
        return result, results


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int64).astype(np.int32)


def i1(*values: int) -> np.ndarray:
    return np.array(values, np.bool_)


def one(value: float, dtype: Any) -> np.ndarray:
    """A scalar."""
    return np.array(value, dtype)
