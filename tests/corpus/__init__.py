"""Kernels that every machine runs, and what each of them must compute.

A corpus kernel is a cuTile Python kernel with the signature it is exported for, the Tile IR
ops it is there to reach and, for most, a launch: grid, inputs and expected outputs. Importing
this package needs neither cuTile nor a GPU; `cutile_kernels` does need cuTile:

    for kernel in cutile_kernels():
        bytecode = kernel.export("13.4")

Exports are kept in memory for the life of the process, and the workers of one run of the tests have
them from each other. Their debug information holds the path of
the checkout; nothing else in them differs between machines.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import io
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

VERSIONS = ("13.1", "13.2", "13.3", "13.4", "13.5")

# Below this version a file names one GPU; the oldest that has every element type is taken.
_FIRST_PORTABLE_VERSION = "13.3"
_GPU_BELOW_PORTABLE = "sm_100"

_THEMES = (
    "elementwise",
    "mathematics",
    "conversions",
    "constants",
    "memory",
    "gathers",
    "views",
    "shapes",
    "control_flow",
    "reductions",
    "matrix",
    "atomics",
    "parameters",
    "effects",
    "composites",
)

Arguments = Mapping[str, Any]
"""Launch arguments by Python parameter name: NumPy arrays (their strides count), NumPy scalars,
tuples of arguments, or lists of arrays. A parameter that is a compile-time constant is in the
signature and not here; inside a tuple it keeps its place."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far an output may be from the expected one, and why exactly so far.

    `ulp` counts units in the last place of the output's element type, measured at the expected
    value or, where larger, at the value `magnitude(arguments)` gives for that output (for sums
    that cancel). 0 demands the same bits, except that any NaN equals any other. An array of bounds
    is broadcast against the output.
    """

    ulp: float | np.ndarray
    derivation: str
    magnitude: Callable[[Arguments], Mapping[str, np.ndarray]] | None = None


EXACT = Tolerance(0.0, "every step is exact or correctly rounded, in one defined order")
EXACT_INTEGERS = Tolerance(
    0.0, "all values, sums of any subset included, are integers the element type holds exactly"
)


@dataclass(frozen=True, slots=True)
class Launch:
    """A run of a corpus kernel.

    `inputs` makes all arguments, outputs with their first contents included; `expected` gives
    the final contents of every array that the kernel writes, by parameter name (a list of arrays
    gives a list), and must not change its argument. Arrays not named must stay as they were.
    The result must not depend on the order in which blocks run.
    """

    grid: tuple[int, int, int]
    inputs: Callable[[np.random.Generator], dict[str, Any]]
    expected: Callable[[Arguments], dict[str, Any]]
    tolerance: Tolerance = EXACT
    prints: tuple[str, ...] = ()
    """The lines that the kernel prints, in no defined order."""

    def arguments(self, seed: int = 0) -> dict[str, Any]:
        """Fresh arguments; the same seed gives the same values."""
        return self.inputs(np.random.default_rng(seed))


@dataclass(frozen=True)
class CorpusKernel:
    """One cuTile kernel with one signature.

    `parameters` are the `cuda.tile.compilation` constraints in parameter order; `since` is the
    oldest bytecode version it can be exported at; `ops` are the mnemonics it is there to reach
    at one version or another. Where `refusal` is not empty, cuTile writes the kernel but Tile IR's
    verifier refuses it, in a message that contains those words.
    """

    name: str
    theme: str
    kernel: Any
    parameters: tuple[Any, ...]
    ops: frozenset[str]
    since: str = VERSIONS[0]
    launch: Launch | None = None
    refusal: str = ""
    _exports: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    @property
    def versions(self) -> tuple[str, ...]:
        """The bytecode versions that it can be exported at, oldest first."""
        return VERSIONS[VERSIONS.index(self.since) :]

    def signature(self) -> Any:
        """The `KernelSignature`, with the entry name it is exported under."""
        from cuda.tile.compilation import CallingConvention, KernelSignature

        unnamed = KernelSignature(self.parameters, CallingConvention.cutile_python_v2())
        return unnamed.with_mangled_symbol(self.kernel._pyfunc.__name__)

    def export(self, version: str = VERSIONS[-1]) -> bytes:
        """Tile IR bytecode of this kernel at `version`; a `cuda.tile.TileError` if cuTile refuses."""
        if version not in self._exports:
            self._exports[version] = _shared_export(self, version)
        return self._exports[version]


def cutile_available() -> bool:
    """Whether cuTile can be imported; a test that needs it skips on `CUTILE_MISSING` otherwise."""
    return (
        importlib.util.find_spec("cuda") is not None
        and importlib.util.find_spec("cuda.tile") is not None
    )


def cutile_release() -> tuple[int, ...]:
    """The first two numbers of the version of cuTile; (0, 0) where it is not installed."""
    if not cutile_available():
        return 0, 0
    return tuple(map(int, importlib.metadata.version("cuda-tile").split(".")[:2]))


CUTILE_MISSING = "cuTile is not installed (pip install cuda-tile)"


@cache
def cutile_kernels() -> Sequence[CorpusKernel]:
    """All cuTile kernels of the corpus, in a fixed order, under names that occur once.

    Raises `ModuleNotFoundError` where cuTile is not installed.
    """
    if not cutile_available():
        raise ModuleNotFoundError(CUTILE_MISSING, name="cuda.tile")
    found: dict[str, CorpusKernel] = {}
    for theme in _THEMES:
        for kernel in importlib.import_module(f"{__name__}.cutile.{theme}").KERNELS:
            assert kernel.name not in found, f"two corpus kernels are called {kernel.name}"
            found[kernel.name] = kernel
    return tuple(found.values())


def cutile_kernel(name: str) -> CorpusKernel:
    """The cuTile kernel called `name`; `KeyError` if there is none."""
    return {kernel.name: kernel for kernel in cutile_kernels()}[name]


#: Where the workers of one run leave exports for each other; None in a process of its own.
shared_exports: Path | None = None


def _shared_export(kernel: CorpusKernel, version: str) -> bytes:
    if shared_exports is None:
        return _export(kernel, version)
    path = shared_exports / f"{kernel.name}-{version}"
    if not path.exists():
        own = shared_exports / f"{path.name}-{os.getpid()}"
        own.write_bytes(_export(kernel, version))
        own.replace(path)
    return path.read_bytes()


def _export(kernel: CorpusKernel, version: str) -> bytes:
    from cuda.tile._bytecode.version import BytecodeVersion
    from cuda.tile._compile import compile_tile
    from cuda.tile.compilation import export_kernel

    portable = VERSIONS.index(version) >= VERSIONS.index(_FIRST_PORTABLE_VERSION)
    gpu_name = None if portable else _GPU_BELOW_PORTABLE
    with warnings.catch_warnings():
        # Hints that an old version cannot hold are dropped with a warning, which is expected here.
        warnings.filterwarnings("ignore", message=".*is ignored: requires tileiras.*")
        if version != "13.5":
            buffer = io.BytesIO()
            export_kernel(
                kernel.kernel,
                [kernel.signature()],
                buffer,
                gpu_code=gpu_name,
                output_format="tileir_bytecode",
                bytecode_version=version,
            )
            return buffer.getvalue()
        # cuTile 1.7 writes 13.5 but its public entry point does not accept that version yet.
        result = compile_tile(
            kernel.kernel._annotated_function,
            [kernel.signature()],
            sm_arch=gpu_name,
            compiler_options=kernel.kernel._compiler_options,
            bytecode_version=BytecodeVersion.V_13_5,
            return_bytecode=True,
            return_cubin=False,
        )
        return bytes(result.bytecode)
