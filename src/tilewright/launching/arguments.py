"""Launch arguments: the values that each parameter type accepts, on any machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.ir import Attribute

from tilewright.diagnostics import SourceLocation, TileIRError
from tilewright.diagnostics.tracebacks import hides_frames
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.dialects.nv_tileaa.type_syntax import format_type as format_any_type
from tilewright.dialects.source_map import location_of
from tilewright.launching.accepted import ARRAY_DTYPES, Converted
from tilewright.launching.codes import BAD_ARGUMENT
from tilewright.launching.modules import KernelOp
from tilewright.launching.storage import storage_of
from tilewright.launching.value_types import TileLike, is_pointer, pointee_in, tile_like
from tilewright.numerics.arrays import Array, from_bits
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.floats import float_to_bits

__tracebackhide__ = hides_frames

_F4 = np.dtype(ml_dtypes.float4_e2m1fn)

#: The element types of tiles that are passed by value: those of whole bytes.
_TILE_ELEMENTS = frozenset(ARRAY_DTYPES) - {"f4E2M1FN"}


def convert(entry: KernelOp, args: Sequence[object]) -> Converted:
    """Convert the arguments to the types of a kernel's parameters. Raises one ``TileIRError`` with every mismatch.

    Arrays for pointers stay what they are, and their values are 0 until they have addresses; numbers become tiles of
    rank 0.
    """
    parameters = entry.block.args
    location = location_of(entry)
    if not isinstance(args, Sequence) or isinstance(args, str | bytes):
        raise TileIRError.single(
            BAD_ARGUMENT,
            f"expected a list or tuple of arguments, got {type(args).__name__}",
            location,
        )
    if len(args) != len(parameters):
        raise TileIRError.single(
            BAD_ARGUMENT,
            f"kernel '{entry.symbol}' takes {len(parameters)} arguments, got {len(args)}",
            location,
        )
    values: list[Array] = []
    arrays: dict[int, Array] = {}
    errors: list[TileIRError] = []
    for number, (parameter, value) in enumerate(zip(parameters, args, strict=True)):
        name = f"argument {number}"
        try:
            ty = _passable(parameter.type, name, location)
            if ty.rank:
                values.append(_tile(value, ty, name, location))
            elif isinstance(value, np.ndarray) and is_pointer(ty):
                check_array(value, ty, name, location)
                arrays[number] = value
                values.append(np.zeros((), np.uint64))
            else:
                values.append(_scalar(value, ty, name, location))
        except TileIRError as error:
            errors.append(error)
    if errors:
        raise TileIRError([d for error in errors for d in error.diagnostics])
    return Converted(values, arrays)


def _passable(ty: Attribute, name: str, location: SourceLocation | None) -> TileLike:
    """Return a parameter type that the host can pass: numbers, pointers and tiles of numbers. Raises ``TileIRError``
    for others.
    """
    found = tile_like(ty)
    if found is None or (found.rank and found.element not in _TILE_ELEMENTS):
        raise TileIRError.single(
            BAD_ARGUMENT,
            f"{name} cannot be passed: arguments cannot have the type '{format_any_type(ty)}'",
            location,
        )
    return found


def _tile(value: object, ty: TileLike, name: str, location: SourceLocation | None) -> Array:
    """Convert a tile that is passed by value: an array of its shape and dtype."""
    allowed = ARRAY_DTYPES[ty.element]
    if isinstance(value, np.ndarray) and value.shape == ty.dims and value.dtype in allowed:
        storage = storage_of(ty.element)
        return storage.to_tile(value.copy().view(storage.raw))
    given = (
        f"an array of {value.dtype} of shape {value.shape}"
        if isinstance(value, np.ndarray)
        else type(value).__name__
    )
    raise TileIRError.single(
        BAD_ARGUMENT,
        f"{name} must be an array of {' or '.join(map(str, allowed))} of shape {ty.dims}, got "
        f"{given}",
        location,
    )


def misaligned(
    number: int, array: Array, address: int, location: SourceLocation | None
) -> TileIRError | None:
    """The error if the array's address is not a multiple of its element size, else None."""
    if not address % array.itemsize:
        return None
    return TileIRError.single(
        BAD_ARGUMENT,
        f"argument {number} starts {address % array.itemsize} bytes past a multiple of its element "
        f"size, {array.itemsize} bytes",
        location,
        help="pass a copy of the array",
    )


def check_array(array: Array, ty: TileLike, name: str, location: SourceLocation | None) -> None:
    """Check an array against a pointer parameter: its dtype must match the pointee, and its layout be accessible.

    Raises ``TileIRError`` (``bad-argument``) if not; ``name`` is how the message calls the array.
    """
    element = pointee_in(ty)
    allowed = ARRAY_DTYPES[element]
    if array.dtype in allowed:
        _check_layout(array, name, location)
        return
    help = ""
    if element == "f4E2M1FN" and array.dtype == _F4:
        help = "pack two elements into each byte of a uint8 array, the first into the low bits"
    raise TileIRError.single(
        BAD_ARGUMENT,
        f"{name} is an array of {array.dtype}, but '{_shown(ty)}' takes "
        f"{' or '.join(map(str, allowed))}",
        location,
        help=help,
    )


def _check_layout(array: Array, name: str, location: SourceLocation | None) -> None:
    """Check that an array has elements, and that its strides are multiples of the element size."""
    if array.size == 0:
        raise TileIRError.single(
            BAD_ARGUMENT, f"{name} has no elements: its shape is {array.shape}", location
        )
    steps = [s for s, extent in zip(array.strides, array.shape, strict=True) if extent > 1]
    if any(step % array.itemsize for step in steps):
        raise TileIRError.single(
            BAD_ARGUMENT,
            f"{name} has strides of {array.strides} bytes, which are not multiples of its element "
            f"size, {array.itemsize} bytes",
            location,
            help="pass a copy of the array",
        )


def _shown(ty: TileLike) -> str:
    return format_type(ty) if isinstance(ty, T.TileType) else format_any_type(ty.element_type)


def _scalar(value: Any, ty: TileLike, name: str, location: SourceLocation | None) -> Array:
    def misfit(why: str) -> TileIRError:
        return TileIRError.single(BAD_ARGUMENT, f"{name} for '{_shown(ty)}' {why}", location)

    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if is_pointer(ty):
        if not isinstance(value, int | np.integer) or isinstance(value, bool):
            raise misfit(f"must be a NumPy array or an address, got {type(value).__name__}")
        if not 0 <= value < 2**64:
            raise misfit(f"is the address {value}, outside 0 to 2**64 - 1")
        return np.array(int(value), np.uint64)
    fmt = FORMATS[ty.element]
    if fmt.is_int:
        return _integer(value, ty.element, misfit)
    is_number = isinstance(value, int | float | np.number) or _is_narrow_float(value)
    if not is_number or isinstance(value, complex | np.complexfloating):
        raise misfit(f"must be a real number, got {type(value).__name__}")
    number = float(value)
    bits = float_to_bits(number, fmt)
    result = from_bits(np.array(bits, np.uint64), ty.element)
    if math.isfinite(number) and fmt.has_inf and bits & fmt.magnitude_mask == fmt.inf_bits:
        raise misfit(f"is {number}, beyond the largest number of {ty.element}")
    return result


def _is_narrow_float(value: object) -> bool:
    return isinstance(value, np.generic) and value.dtype in {
        dtype for dtypes in ARRAY_DTYPES.values() for dtype in dtypes
    }


def _integer(value: Any, element: str, misfit: Any) -> Array:
    fmt = FORMATS[element]
    if not isinstance(value, int | np.integer | np.bool_) or (
        isinstance(value, bool | np.bool_) and fmt.bits > 1
    ):
        raise misfit(f"must be an integer, got {type(value).__name__}")
    number = int(value)
    low = -(1 << (fmt.bits - 1)) if fmt.bits > 1 else 0
    if not low <= number <= fmt.mask:
        raise misfit(f"is {number}, outside {low} to {fmt.mask}")
    return from_bits(np.array(number & fmt.mask, np.uint64), element)
