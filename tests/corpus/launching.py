"""Launches of corpus kernels: their flat Tile IR arguments, and the check of what they computed."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from tests.corpus import Arguments, CorpusKernel, Launch, Tolerance

from tilewright.numerics.element_types import FORMATS, ElementFormat

_FORMATS: Mapping[np.dtype[Any], ElementFormat] = {
    np.dtype(dtype): FORMATS[name]
    for dtype, name in (
        (np.float16, "f16"),
        (np.float32, "f32"),
        (np.float64, "f64"),
        (ml_dtypes.bfloat16, "bf16"),
        (ml_dtypes.float8_e4m3fn, "f8E4M3FN"),
        (ml_dtypes.float8_e5m2, "f8E5M2"),
        (ml_dtypes.float8_e8m0fnu, "f8E8M0FNU"),
    )
}


@dataclass(slots=True)
class FlatArguments:
    """What a kernel's entry takes, by cuTile's calling convention.

    ``map_array`` gives the address of an array in the memory of the machine: a list of arrays is
    passed as a table of addresses, extents and strides.
    """

    map_array: Callable[[np.ndarray], int]
    values: list[Any] = field(default_factory=list)

    def add(self, constraint: Any, value: Any) -> None:
        from cuda.tile.compilation import (
            ArrayConstraint,
            ListConstraint,
            ScalarConstraint,
            TupleConstraint,
        )

        if isinstance(constraint, ArrayConstraint):
            self.values += [value, *value.shape, *_element_strides(value)]
        elif isinstance(constraint, ScalarConstraint):
            self.values.append(value)
        elif isinstance(constraint, TupleConstraint):
            for part, inner in zip(constraint.items, value, strict=True):
                self.add(part, inner)
        elif isinstance(constraint, ListConstraint):
            records = [
                [self.map_array(array), *array.shape, *_element_strides(array)] for array in value
            ]
            self.values += [np.array(records, np.int64).reshape(-1), len(value)]


def _element_strides(array: np.ndarray) -> list[int]:
    return [stride // array.itemsize for stride in array.strides]


def flat_arguments(
    kernel: CorpusKernel, arguments: Arguments, map_array: Callable[[np.ndarray], int]
) -> list[Any]:
    """The entry's arguments; compile-time constants are none of them."""
    names = list(inspect.signature(kernel.kernel._pyfunc).parameters)
    flat = FlatArguments(map_array)
    for name, constraint in zip(names, kernel.parameters, strict=True):
        if name in arguments:
            flat.add(constraint, arguments[name])
    return flat.values


def arrays_in(value: Any, name: str) -> Iterator[tuple[str, np.ndarray]]:
    """Every array of an argument, with a name that tells its place."""
    if isinstance(value, np.ndarray):
        yield name, value
    elif isinstance(value, list | tuple):
        for position, part in enumerate(value):
            yield from arrays_in(part, f"{name}[{position}]")


def ulp_at(magnitude: np.ndarray, fmt: ElementFormat) -> np.ndarray:
    """The distance between neighbouring elements of a format at these magnitudes, as float64."""
    finite = np.where(np.isfinite(magnitude), np.abs(magnitude), 0.0)
    _, exponent = np.frexp(finite)
    exponent = np.where(finite == 0, fmt.min_exponent, np.maximum(exponent - 1, fmt.min_exponent))
    return np.ldexp(1.0, exponent - fmt.mantissa_bits)


def differences(
    name: str,
    found: np.ndarray,
    expected: np.ndarray,
    tolerance: Tolerance,
    magnitude: np.ndarray | None = None,
) -> list[str]:
    """What is wrong with an output, in words; nothing where it is within the tolerance."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return [
            f"{name}: expected {expected.dtype}{expected.shape}, got {found.dtype}{found.shape}"
        ]
    fmt = _FORMATS.get(found.dtype)
    if fmt is None:
        wrong = found != expected
        distance = np.asarray(wrong, np.float64)
    else:
        wide, wanted = found.astype(np.float64), expected.astype(np.float64)
        both_nan = np.isnan(wide) & np.isnan(wanted)
        same = (_bits(found) == _bits(expected)) | both_nan
        scale = np.abs(wanted)
        if magnitude is not None:
            scale = np.maximum(scale, np.abs(magnitude.astype(np.float64)))
        with np.errstate(invalid="ignore", over="ignore"):
            distance = np.abs(wide - wanted) / ulp_at(scale, fmt)
        close = (
            np.isfinite(distance) & (distance <= tolerance.ulp) & (np.asarray(tolerance.ulp) > 0)
        )
        wrong = ~(same | close)
    if not wrong.any():
        return []
    index = tuple(int(i[0]) for i in np.nonzero(wrong)) if wrong.ndim else ()
    return [
        f"{name}: {int(wrong.sum())} of {wrong.size} elements are wrong; at {list(index)}: "
        f"expected {expected[index]}, got {found[index]}, {distance[index]:.4g} ulp apart"
    ]


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.itemsize}").reshape(array.shape)


def check_outputs(launch: Launch, before: Arguments, after: Arguments) -> list[str]:
    """What is wrong with the arguments after a launch, given fresh ones from before it."""
    expected = {
        place: array
        for name, value in launch.expected(copy.deepcopy(before)).items()
        for place, array in arrays_in(value, name)
    }
    magnitude = launch.tolerance.magnitude
    magnitudes = (
        {}
        if magnitude is None
        else {
            place: array
            for name, value in magnitude(copy.deepcopy(before)).items()
            for place, array in arrays_in(value, name)
        }
    )
    unchanged = Tolerance(0.0, "the kernel does not write there")
    problems: list[str] = []
    for name, value in after.items():
        original = dict(arrays_in(before[name], name))
        for place, array in arrays_in(value, name):
            if place in expected:
                problems += differences(
                    place, array, expected.pop(place), launch.tolerance, magnitudes.get(place)
                )
            else:
                problems += differences(place, array, original[place], unchanged)
    return [*problems, *(f"there is no argument {place}" for place in expected)]
