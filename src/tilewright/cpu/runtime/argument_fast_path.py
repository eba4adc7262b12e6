"""Packs the usual arguments of a kernel in a few microseconds.

Most launches pass only contiguous arrays and plain numbers of the right types. Each kernel has a generated function for them,
specialised to its parameters and without loops: after a large kernel the caches are cold, and everything that a launch
touches costs time.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from tilewright.launching.accepted import ARRAY_DTYPES
from tilewright.launching.interfaces import PassedType
from tilewright.numerics.arrays import Array
from tilewright.numerics.element_types import FORMATS

Span = tuple[int, int]
"""The address of a first byte, and that behind a last one."""

Slots = tuple[list[int], bool]
"""The slots, and whether no array that the kernel may write to shares memory with another one."""

_LISTS = frozenset({tuple, list})
_STRUCT_FLOATS = {"f16": "<e", "f32": "<f", "f64": "<d"}


def fast_path(
    types: Sequence[PassedType], written: Collection[int]
) -> Callable[[Sequence[Any]], Slots | None]:
    """A function that packs arguments for parameters of these types, of which those with the numbers
    ``written`` point to what the kernel may write. It gives None for what is out of the ordinary."""
    if not all(map(_is_usual, types)):
        return lambda _: None
    names: dict[str, Any] = {
        "lists": _LISTS,
        "ndarray": np.ndarray,
        "address_of": address_of,
        "are_apart": are_apart,
    }
    arguments = [f"a{number}" for number in range(len(types))]
    lines = [
        "def pack(args):",
        f" if type(args) not in lists or len(args) != {len(types)}: return None",
        f" [{', '.join(arguments)}] = args",
    ]
    slots: list[str] = []
    spans: list[str] = []
    for number, ty in enumerate(types):
        if ty.is_pointer:
            lines += _array_lines(number, ty, names, is_written=number in written)
            slots.append(f"p{number}")
            spans.append(f"(p{number}, e{number}, {number in written})")
        else:
            lines += _number_lines(number, ty, names)
            slots.append(f"s{number}")
    apart = f"are_apart([{', '.join(spans)}])" if len(spans) > 1 else "True"
    lines.append(f" return [{', '.join(slots)}], {apart}")
    exec(compile("\n".join(lines), "<packing of arguments>", "exec"), names)
    return names["pack"]


def _array_lines(
    number: int, ty: PassedType, names: dict[str, Any], *, is_written: bool
) -> list[str]:
    """Code that gives the addresses of an array's first byte, and of that behind its last one."""
    dtypes = ARRAY_DTYPES[ty.pointee]
    (size,) = {dtype.itemsize for dtype in dtypes}
    names[f"dtypes{number}"] = frozenset(dtypes)
    argument, flags = f"a{number}", "not flags.c_contiguous"
    if is_written:
        flags += " or not flags.writeable"
    return [
        f" if type({argument}) is not ndarray or {argument}.dtype not in dtypes{number}: return None",
        f" flags = {argument}.flags",
        f" if {flags}: return None",
        f" p{number} = address_of({argument})",
        f" e{number} = p{number} + {argument}.nbytes",
        f" if p{number} == e{number} or p{number} % {size}: return None",
    ]


def _number_lines(number: int, ty: PassedType, names: dict[str, Any]) -> list[str]:
    """Code that gives the bits of a number."""
    fmt = FORMATS[ty.element]
    argument = f"a{number}"
    if fmt.is_float:
        names[f"bits{number}"] = _bits_of_float(_STRUCT_FLOATS[ty.element])
        return [
            f" s{number} = bits{number}({argument})",
            f" if s{number} is None: return None",
        ]
    low, mask = -(1 << (fmt.bits - 1)), fmt.mask
    return [
        f" if type({argument}) is not int or not {low} <= {argument} <= {mask}: return None",
        f" s{number} = {argument} & {mask}",
    ]


def _is_usual(ty: PassedType) -> bool:
    """Whether a parameter takes an array, an integer or a float that Python knows."""
    if ty.is_pointer or ty.dims:
        return not ty.dims
    fmt = FORMATS[ty.element]
    return ty.element in _STRUCT_FLOATS if fmt.is_float else fmt.bits > 1


def _bits_of_float(form: str) -> Callable[[Any], int | None]:
    pack = struct.Struct(form).pack

    def bits(value: Any) -> int | None:
        if type(value) is not float and type(value) is not int:
            return None
        try:
            return int.from_bytes(pack(value), "little")
        except (OverflowError, struct.error):
            return None

    return bits


def are_apart(spans: Sequence[tuple[int, int, bool]]) -> bool:
    """Whether no range of addresses that may be written, as its third item says, has a byte in common with another
    one. Ranges that are only read may overlap, as where an array is passed twice."""
    reach = written_reach = 0
    for start, end, is_written in sorted(spans):
        if start < written_reach or (is_written and start < reach):
            return False
        reach = max(reach, end)
        if is_written:
            written_reach = end
    return True


def _address_by_interface(array: Array) -> int:
    return array.__array_interface__["data"][0]


def _address_by_layout(array: Array) -> int:
    return ctypes.c_void_p.from_address(id(array) + object.__basicsize__).value or 0


def _quickest_address() -> Callable[[Array], int]:
    """How the address of an array's first element is found: where NumPy's ABI puts it, right behind
    the head of the object. Its other ways make a dozen objects, which take longer than all the rest of
    packing."""
    sample = np.zeros(3)[1:]
    is_native = sys.implementation.name == "cpython"
    if is_native and _address_by_layout(sample) == _address_by_interface(sample):
        return _address_by_layout
    return _address_by_interface


address_of = _quickest_address()
