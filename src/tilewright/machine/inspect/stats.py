"""Statistics of a tile, in numbers and in one line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.numerics.arrays import PTR, Array
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.rounding import to_float64

DEFAULT_BINS = 8


@dataclass(frozen=True, slots=True)
class TileStats:
    """Statistics of a tile's elements.

    ``minimum``, ``maximum``, ``mean`` and the histogram cover the finite elements, and are None or
    empty if there are none; the mean is computed in float64. ``bin_edges`` has one entry more than
    ``bin_counts``: bin ``i`` counts the elements from edge ``i`` up to, but excluding, edge ``i + 1``;
    the last bin includes its upper edge. Signed zeros count as ``zeros``.
    """

    shape: tuple[int, ...]
    element: str
    count: int
    minimum: int | float | None
    maximum: int | float | None
    mean: float | None
    nans: int
    infinities: int
    zeros: int
    bin_edges: tuple[float, ...]
    bin_counts: tuple[int, ...]

    def __str__(self) -> str:
        """Return text such as ``min 0, max 127, mean 63.5, 1 zero``."""
        if self.minimum is None:
            parts = ["no finite element" if self.count else "no element"]
        else:
            parts = [
                f"min {_number(self.minimum)}",
                f"max {_number(self.maximum)}",
                f"mean {_number(self.mean)}",
            ]
        if self.zeros:
            parts.append(f"{self.zeros} zero" + "s" * (self.zeros > 1))
        if self.nans:
            parts.append(f"{self.nans} NaN")
        if self.infinities:
            parts.append(f"{self.infinities} infinite")
        return ", ".join(parts)

    def to_json(self) -> dict[str, object]:
        """Return the informative fields as JSON values, without the histogram."""
        fields = ("minimum", "maximum", "mean", "nans", "infinities", "zeros")
        return {name: getattr(self, name) for name in fields}


def _number(value: int | float | None) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def numbers_of(array: Array, element: str = "") -> Array:
    """Return the values as NumPy numbers: narrow floats as float64, pointers and integers unchanged.

    ``element`` gives the element type if the dtype does not: f8E5M3FNU is held as uint8.
    """
    if element and element != PTR and FORMATS[element].is_float:
        return to_float64(array, element)
    # The dtypes of ml_dtypes are not built in.
    return array if array.dtype.isbuiltin == 1 else array.astype(np.float64)


def tile_stats(array: Array, *, element: str = "", bins: int = DEFAULT_BINS) -> TileStats:
    """Compute the statistics of a tile. ``element`` is its Tile IR element type, by default its dtype.

    The histogram has ``bins`` bins of equal width from the smallest to the largest finite element, or
    one bin if these are equal. Raises ValueError if ``bins`` is less than 1.
    """
    if bins < 1:
        raise ValueError(f"a histogram needs at least one bin, not {bins}")
    array = np.asarray(array)
    numbers = numbers_of(array, element)
    is_float = numbers.dtype.kind == "f"
    finite = numbers[np.isfinite(numbers)] if is_float else numbers.ravel()
    low, high = (finite.min().item(), finite.max().item()) if finite.size else (None, None)
    edges, counts = _histogram(finite, bins)
    return TileStats(
        shape=array.shape,
        element=element or str(array.dtype),
        count=array.size,
        minimum=low if is_float or low is None else int(low),
        maximum=high if is_float or high is None else int(high),
        # Dividing each element first prevents overflow of the sum.
        mean=float((finite.astype(np.float64) / finite.size).sum()) if finite.size else None,
        nans=int(np.isnan(numbers).sum()) if is_float else 0,
        infinities=int(np.isinf(numbers).sum()) if is_float else 0,
        zeros=int(numbers.size - np.count_nonzero(numbers)),
        bin_edges=edges,
        bin_counts=counts,
    )


def _histogram(finite: Array, bins: int) -> tuple[tuple[float, ...], tuple[int, ...]]:
    if not finite.size:
        return (), ()
    values = finite.astype(np.float64)
    low, high = float(values.min()), float(values.max())
    if low == high:
        return (low, high), (values.size,)
    # Interpolating the ends avoids a width, which could overflow. NumPy's histogram rejects ranges
    # that are too narrow for the number of bins.
    weights = np.arange(bins + 1) / bins
    edges = np.maximum.accumulate(low * (1 - weights) + high * weights)
    edges[0], edges[-1] = low, high
    places = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, bins - 1)
    counts = np.bincount(places, minlength=bins)
    return tuple(edges.tolist()), tuple(counts.tolist())
