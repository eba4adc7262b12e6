"""The text of print_tko and of failed assertions.

A tile of rank 0 prints one conversion. For larger tiles every element prints in row-major order, separated by ``, ``,
each dimension in ``[`` and ``]``, as with NVIDIA's compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.dialects.print_formats import Conversion as Conversion
from tilewright.dialects.print_formats import number_letter
from tilewright.dialects.print_formats import parse_format as parse_format
from tilewright.numerics.arrays import PTR, Array, bits_of
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.rounding import to_float64

_UNSIGNED = frozenset("uoxXp")
_FLOAT = frozenset("eEfFgGaA")
_INT64 = np.iinfo(np.int64)


def _numbers(tile: Array, element: str, letter: str) -> Any:
    """The elements as nested lists of Python numbers of the type that the conversion requires.

    Floats for an integer conversion are truncated, to the nearest number of 64 bits; integers for a float conversion are
    converted.
    """
    if element == PTR:
        numbers = tile
    elif FORMATS[element].is_float:
        numbers = to_float64(tile, element)
        if letter not in _FLOAT:
            whole = _truncated(numbers)
            numbers = whole.view(np.uint64) if letter in _UNSIGNED else whole
    elif element == "i1":
        numbers = tile.astype(np.int8)
    elif letter in _UNSIGNED:
        numbers = bits_of(tile, element)
    else:
        numbers = tile
    return numbers.tolist()


def _truncated(numbers: Array) -> Array:
    with np.errstate(invalid="ignore"):
        whole = np.nan_to_num(numbers).astype(np.int64)
    return np.where(
        numbers >= 2.0**63, _INT64.max, np.where(numbers < -(2.0**63), _INT64.min, whole)
    )


def _layout(numbers: Any, convert: Callable[[Any], str]) -> str:
    if isinstance(numbers, list):
        return "[" + ", ".join([_layout(part, convert) for part in numbers]) + "]"
    return convert(numbers)


def format_tiles(
    pieces: Sequence[str | Conversion], tiles: Sequence[Array], elements: Sequence[str]
) -> str:
    """The text of a print with these operands: a tile for each conversion among the pieces, of the element type
    beside it.
    """
    operands = iter(zip(tiles, elements, strict=True))
    texts: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            texts.append(piece)
            continue
        tile, element = next(operands)
        is_float = element != PTR and FORMATS[element].is_float
        piece = replace(piece, letter=number_letter(piece.letter, is_float=is_float))
        texts.append(_layout(_numbers(tile, element, piece.letter), piece))
    return "".join(texts)
