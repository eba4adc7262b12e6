"""Compares what a kernel computed with the expected results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.numerics import FORMATS
from tilewright.numerics.arrays import Array, bits_of
from tilewright.numerics.convert import ftof

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How much an element may differ from the expected one.

    With ``ulp``: by that many error in units in the last place. With ``atol`` or ``rtol``: by at most
    ``atol + rtol * abs(expected)``. With none of them: bits must be equal. All NaNs are equal.
    """

    atol: float | None = None
    rtol: float | None = None
    ulp: float | None = None

    def __str__(self) -> str:
        if self.ulp is not None:
            return f"{self.ulp:g} ulp"
        if self.atol is None and self.rtol is None:
            return "exact"
        return f"atol {self.atol or 0:g}, rtol {self.rtol or 0:g}"

    @property
    def is_numeric(self) -> bool:
        """Whether elements are compared as numbers, so that their types may differ."""
        return self.ulp is None and not (self.atol is None and self.rtol is None)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result for one array. ``first`` holds the first differing elements as (index, expected,
    found). The maxima are over all elements, infinite if only one side is NaN or infinite."""

    name: str
    tolerance: Tolerance
    elements: int
    differing: int
    max_abs: float
    max_rel: float
    worst: tuple[int, ...]
    first: tuple[tuple[tuple[int, ...], Any, Any], ...]

    @property
    def ok(self) -> bool:
        """Whether no element differs by more than the tolerance."""
        return self.differing == 0

    def to_json(self) -> dict[str, object]:
        """Return the comparison in the form of ``run.schema.json``."""
        return {
            "name": self.name,
            "ok": self.ok,
            "tolerance": str(self.tolerance),
            "elements": self.elements,
            "differing": self.differing,
            "max_abs_error": _finite(self.max_abs),
            "max_rel_error": _finite(self.max_rel),
            "worst_index": list(self.worst),
            "first": [
                {"index": list(index), "expected": str(expected), "found": str(found)}
                for index, expected, found in self.first
            ],
        }


def compare(
    name: str,
    found: Array,
    expected: Array,
    element: str,
    tolerance: Tolerance,
    *,
    expected_element: str = "",
) -> Comparison:
    """Compare arrays of one shape.

    ``expected_element`` is the type of the expected elements if it is not ``element``; that requires a
    tolerance that compares elements as numbers.
    """
    one, other = numbers_of(found, element), numbers_of(expected, expected_element or element)
    difference = _difference(one, other)
    if tolerance.ulp is not None:
        wrong = _ulp_distance(found, expected, element) > tolerance.ulp
    elif tolerance.is_numeric:
        limit = (tolerance.atol or 0.0) + (tolerance.rtol or 0.0) * np.abs(_floats(other))
        # An infinite limit would accept everything; equal infinities have the difference 0.
        wrong = ~(difference <= np.where(np.isfinite(limit), limit, 0.0))
    else:
        both_nan = _is_nan(one) & _is_nan(other)
        wrong = (bits_of(found, element) != bits_of(expected, element)) & ~both_nan
    wrong = np.asarray(wrong)
    relative = _relative(difference, other)
    worst = np.unravel_index(int(difference.argmax()), difference.shape) if difference.size else ()
    return Comparison(
        name,
        tolerance,
        int(wrong.size),
        int(np.count_nonzero(wrong)),
        float(difference.max(initial=0.0)),
        float(relative.max(initial=0.0)),
        tuple(int(at) for at in worst),
        tuple(
            (tuple(map(int, at)), other[tuple(at)], one[tuple(at)])
            for at in np.argwhere(wrong)[:_SHOWN]
        ),
    )


def report(comparison: Comparison) -> list[str]:
    """Return the differing elements, one line each, and the largest errors."""
    lines = [
        f"at {list(index)}: expected {expected}, found {found}"
        for index, expected, found in comparison.first
    ]
    if comparison.differing > len(comparison.first):
        lines.append(f"and {comparison.differing - len(comparison.first)} more")
    lines.append(
        f"largest absolute error {comparison.max_abs:.6g} at {list(comparison.worst)}, "
        f"largest relative error {comparison.max_rel:.6g}"
    )
    return lines


def _finite(value: float) -> float | None:
    """Return None for infinity, which JSON lacks."""
    return value if np.isfinite(value) else None


def numbers_of(array: Array, element: str) -> Array:
    """Return the values: floats widened to float64, integers unchanged. The result may be the array itself."""
    if FORMATS[element].is_float:
        return ftof(array, element, to="f64")
    return array


def _floats(numbers: Array) -> Array:
    return numbers.astype(np.float64)


def _is_nan(numbers: Array) -> Array:
    return np.asarray(numbers != numbers)


def _difference(one: Array, other: Array) -> Array:
    """Return the distance of each pair as float64: 0 for equal values and for two NaNs, infinite if only
    one is NaN or infinite."""
    if one.dtype.kind != "f" and other.dtype.kind != "f":
        wide_one, wide_other = one.astype(np.int64), other.astype(np.int64)
        low, high = np.minimum(wide_one, wide_other), np.maximum(wide_one, wide_other)
        # The difference of two int64 always fits uint64.
        return (high.astype(np.uint64) - low.astype(np.uint64)).astype(np.float64)
    one, other = _floats(one), _floats(other)
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.where(one == other, 0.0, np.abs(one - other))
    both_nan = _is_nan(one) & _is_nan(other)
    return np.where(both_nan, 0.0, np.where(_is_nan(distance), np.inf, distance))


def _relative(difference: Array, expected: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        relative = difference / np.abs(_floats(expected))
    return np.where(difference == 0.0, 0.0, np.where(_is_nan(relative), np.inf, relative))


def _ulp_distance(found: Array, expected: Array, element: str) -> Array:
    """Return the number of steps of the type between each pair, as float64; for integers the difference.

    0 for two NaNs and for zeros of either sign, infinite if only one side is NaN.
    """
    form = FORMATS[element]
    one, other = numbers_of(found, element), numbers_of(expected, element)
    if form.is_int:
        return _difference(one, other)
    bits = [bits_of(array, element).astype(np.uint64) for array in (found, expected)]
    magnitudes = [pattern & np.uint64(form.magnitude_mask) for pattern in bits]
    negative = [pattern & np.uint64(form.sign_bit) != 0 for pattern in bits]
    low, high = np.minimum(*magnitudes), np.maximum(*magnitudes)
    distance = np.where(negative[0] == negative[1], high - low, high + low).astype(np.float64)
    nan = _is_nan(one), _is_nan(other)
    return np.where(nan[0] & nan[1], 0.0, np.where(nan[0] | nan[1], np.inf, distance))
