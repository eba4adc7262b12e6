"""The text of print_tko and of failed assertions.

A tile of rank 0 prints its conversion once. Of a larger tile every element prints, row-major,
separated by ``, ``, each dimension between ``[`` and ``]``, as NVIDIA's compiler lays it out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.dialects.print_formats import Conversion as Conversion
from tilewright.dialects.print_formats import parse_format as parse_format
from tilewright.numerics.arrays import PTR, Array, bits_of
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.rounding import to_float64

_UNSIGNED = frozenset("uoxXp")
_FLOAT = frozenset("eEfFgGaA")
# The largest float64 below 2**63.
_HUGE = float(2**63 - 1024)


def _numbers(tile: Array, element: str, letter: str) -> Any:
    """The elements as nested lists of Python numbers, read as the conversion wants them.

    A float for an integer conversion is truncated, an integer for a float conversion converted.
    """
    if element == PTR:
        numbers = tile
    elif FORMATS[element].is_float:
        numbers = to_float64(tile, element)
        if letter not in _FLOAT and letter not in "sS":
            numbers = np.clip(np.nan_to_num(numbers), -_HUGE, _HUGE).astype(np.int64)
    elif element == "i1":
        numbers = tile.astype(np.int8)
    elif letter in _UNSIGNED:
        numbers = bits_of(tile, element)
    else:
        numbers = tile
    return numbers.tolist()


def _layout(numbers: Any, convert: Callable[[Any], str]) -> str:
    if isinstance(numbers, list):
        return "[" + ", ".join([_layout(part, convert) for part in numbers]) + "]"
    return convert(numbers)


def format_tiles(
    pieces: Sequence[str | Conversion], tiles: Sequence[Array], elements: Sequence[str]
) -> str:
    """The text that a print gives for its operands."""
    operands = iter(zip(tiles, elements, strict=True))
    texts: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            texts.append(piece)
            continue
        tile, element = next(operands)
        texts.append(_layout(_numbers(tile, element, piece.letter), piece))
    return "".join(texts)
