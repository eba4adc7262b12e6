"""Launch arguments: what may be passed for a parameter, and how arrays become memory."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.diagnostics import Place, TileIRError
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.ops.module import EntryOp
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.dialects.source_map import place_of
from tilewright.machine.faults import BAD_ARGUMENT, BAD_GRID
from tilewright.machine.memory import Allocation, Memory
from tilewright.numerics.arrays import Array, dtype_of, from_bits
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.floats import float_to_bits

_MAX_GRID_EXTENT = 2**24 - 1

_F4 = np.dtype(ml_dtypes.float4_e2m1fn)

#: The dtypes of arrays that a pointer to elements may be given.
ARRAY_DTYPES: Mapping[str, tuple[np.dtype[Any], ...]] = MappingProxyType(
    {
        "i1": (np.dtype(np.bool_),),
        **{
            f"i{bits}": (np.dtype(f"i{bits // 8}"), np.dtype(f"u{bits // 8}"))
            for bits in (8, 16, 32, 64)
        },
        **{
            name: (dtype_of(name),)
            for name in ("f16", "bf16", "f32", "tf32", "f64", "f8E4M3FN", "f8E5M2", "f8E8M0FNU")
        },
        "f8E5M3FNU": (np.dtype(np.uint8),),
        # Two elements in a byte, the first in the low bits.
        "f4E2M1FN": (np.dtype(np.uint8), np.dtype(np.int8)),
    }
)


def check_grid(grid: object) -> tuple[int, int, int]:
    """The grid with three extents; missing ones are 1."""
    given = (grid,) if isinstance(grid, int | np.integer) else grid
    extents = tuple(given) if isinstance(given, Sequence) else ()
    whole = all(isinstance(e, int | np.integer) and not isinstance(e, bool) for e in extents)
    if not 1 <= len(extents) <= 3 or not whole:
        raise TileIRError.single(
            BAD_GRID, f"expected a grid of one to three integer extents, got {grid!r}"
        )
    for axis, extent in zip("xyz", extents, strict=False):
        if not 1 <= extent <= _MAX_GRID_EXTENT:
            raise TileIRError.single(
                BAD_GRID,
                f"the grid extent {axis} is {extent}; expected 1 to {_MAX_GRID_EXTENT}",
            )
    x, y, z = (*(int(e) for e in extents), 1, 1)[:3]
    return x, y, z


@dataclass(frozen=True, slots=True)
class _Extent:
    """The host bytes of an array, and those of the array that it is a part of."""

    low: int
    high: int
    owner_low: int
    owner_high: int
    array: Array
    name: str


@dataclass(slots=True)
class ArrayMap:
    """Host memory that is mapped into the address space."""

    memory: Memory
    _mapped: list[tuple[int, int, Allocation]] = field(default_factory=list)
    _kept: list[Array] = field(default_factory=list)

    def map(self, arrays: Sequence[tuple[str, Array]]) -> list[int]:
        """Map arrays; gives the address of the first element of each.

        Arrays that share host memory share addresses, and keep their distances: an array that is
        part of another one, as a slice, is as aligned as its place in that one.
        """
        extents = [_extent(name, array) for name, array in arrays]
        new = [extent for extent in extents if self._address(extent.low, extent.high) is None]
        for cluster in _overlapping(new):
            self._map_cluster(cluster)
        self._kept.extend(array for _, array in arrays)
        addresses: list[int] = []
        for extent in extents:
            address = self._address(extent.low, extent.high)
            assert address is not None
            addresses.append(address + _first_byte(extent.array) - extent.low)
        return addresses

    def _address(self, low: int, high: int) -> int | None:
        for mapped_low, mapped_high, allocation in self._mapped:
            if mapped_low <= low and high <= mapped_high:
                return allocation.base + low - mapped_low
        return None

    def _map_cluster(self, cluster: list[_Extent]) -> None:
        owner_low = min(extent.owner_low for extent in cluster)
        owner_high = max(extent.owner_high for extent in cluster)
        base = self.memory.reserve(owner_high - owner_low)
        runs: list[list[_Extent]] = []
        for extent in sorted(cluster, key=lambda e: (e.low, e.high)):
            if runs and extent.low < max(e.high for e in runs[-1]):
                runs[-1].append(extent)
            else:
                runs.append([extent])
        for run in runs:
            low, high = run[0].low, max(extent.high for extent in run)
            # Memory that one of them may write cannot be kept from changing.
            writable = any(extent.array.flags.writeable for extent in run)
            name = " and ".join(extent.name for extent in run)
            allocation = self.memory.place(
                base + low - owner_low, _host_bytes(low, high - low), name, writable=writable
            )
            self._mapped.append((low, high, allocation))

    def mark(self) -> tuple[int, int]:
        return len(self._mapped), len(self._kept)

    def release(self, mark: tuple[int, int]) -> None:
        """Forget what was mapped since ``mark``."""
        del self._mapped[mark[0] :]
        del self._kept[mark[1] :]


def _host_bytes(address: int, size: int) -> Array:
    if size == 0:
        return np.empty(0, np.uint8)
    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), np.uint8)


def _first_byte(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _bounds(array: Array) -> tuple[int, int]:
    """The lowest address of the array's elements and the one after the last."""
    low = high = _first_byte(array)
    if array.size == 0:
        return low, low
    for extent, stride in zip(array.shape, array.strides, strict=True):
        reach = (extent - 1) * stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high + array.itemsize


def _extent(name: str, array: Array) -> _Extent:
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    low, high = _bounds(array)
    owner_low, owner_high = _bounds(owner)
    return _Extent(low, high, min(low, owner_low), max(high, owner_high), array, name)


def _overlapping(extents: list[_Extent]) -> list[list[_Extent]]:
    """Groups of arrays whose owners share memory, in the order of their first arrays."""
    clusters: list[list[_Extent]] = []
    reach = 0
    order = {id(extent): number for number, extent in enumerate(extents)}
    for extent in sorted(extents, key=lambda e: (e.owner_low, e.owner_high)):
        if clusters and extent.owner_low < reach:
            clusters[-1].append(extent)
        else:
            clusters.append([extent])
        reach = max(reach, extent.owner_high)
    return sorted(clusters, key=lambda cluster: min(order[id(e)] for e in cluster))


@dataclass(frozen=True, slots=True)
class Converted:
    """Arguments that fit their parameters: scalars as rank-0 tiles, and arrays by position."""

    values: list[Array]
    arrays: dict[int, Array]


def convert(entry: EntryOp, args: Sequence[object]) -> Converted:
    """The arguments of a kernel as it takes them; a TileIRError with every misfit."""
    parameters = entry.block.args
    place = place_of(entry)
    if not isinstance(args, Sequence) or isinstance(args, str | bytes):
        raise TileIRError.single(
            BAD_ARGUMENT, f"expected a list or tuple of arguments, got {type(args).__name__}", place
        )
    if len(args) != len(parameters):
        raise TileIRError.single(
            BAD_ARGUMENT,
            f"kernel '{entry.symbol}' takes {len(parameters)} arguments, got {len(args)}",
            place,
        )
    values: list[Array] = []
    arrays: dict[int, Array] = {}
    errors: list[TileIRError] = []
    for number, (parameter, value) in enumerate(zip(parameters, args, strict=True)):
        ty = parameter.type
        assert isinstance(ty, T.TileType)
        name = f"argument {number}"
        try:
            if isinstance(value, np.ndarray) and isinstance(ty.element_type, T.PtrType):
                check_array(value, ty, name, place)
                arrays[number] = value
                values.append(np.zeros((), np.uint64))
            else:
                values.append(_scalar(value, ty, name, place))
        except TileIRError as error:
            errors.append(error)
    if errors:
        raise TileIRError([d for error in errors for d in error.diagnostics])
    return Converted(values, arrays)


def bind(converted: Converted, arrays: ArrayMap, place: Place | None = None) -> list[Array]:
    """The parameters of a kernel as rank-0 tiles, with arrays mapped."""
    given = converted.arrays
    addresses = arrays.map([(f"argument {number}", array) for number, array in given.items()])
    bound = list(converted.values)
    errors: list[TileIRError] = []
    for (number, array), address in zip(given.items(), addresses, strict=True):
        if address % array.itemsize:
            errors.append(
                TileIRError.single(
                    BAD_ARGUMENT,
                    f"argument {number} starts {address % array.itemsize} bytes behind a multiple "
                    f"of its element size, {array.itemsize} bytes",
                    place,
                    help="pass a copy of the array",
                )
            )
        bound[number] = np.array(address, np.uint64)
    if errors:
        raise TileIRError([d for error in errors for d in error.diagnostics])
    return bound


def check_array(array: Array, ty: T.TileType, name: str, place: Place | None) -> None:
    """An array fits a pointer parameter: its elements have the size and kind of the pointee."""
    pointer = ty.element_type
    assert isinstance(pointer, T.PtrType)
    element = T.element_name(pointer.pointee)
    allowed = ARRAY_DTYPES[element]
    if array.dtype in allowed:
        _check_layout(array, name, place)
        return
    help = ""
    if element == "f4E2M1FN" and array.dtype == _F4:
        help = "pack two elements into each byte of a uint8 array, the first into the low bits"
    raise TileIRError.single(
        BAD_ARGUMENT,
        f"{name} is an array of {array.dtype}, but '{format_type(ty)}' takes "
        f"{' or '.join(map(str, allowed))}",
        place,
        help=help,
    )


def _check_layout(array: Array, name: str, place: Place | None) -> None:
    """There are elements, and a kernel, which counts in elements, can step from one to the next."""
    if array.size == 0:
        raise TileIRError.single(
            BAD_ARGUMENT, f"{name} has no elements: its shape is {array.shape}", place
        )
    steps = [s for s, extent in zip(array.strides, array.shape, strict=True) if extent > 1]
    if any(step % array.itemsize for step in steps):
        raise TileIRError.single(
            BAD_ARGUMENT,
            f"{name} has strides of {array.strides} bytes, which are no multiples of its element "
            f"size, {array.itemsize} bytes",
            place,
            help="pass a copy of the array",
        )


def _scalar(value: Any, ty: T.TileType, name: str, place: Place | None) -> Array:
    def misfit(why: str) -> TileIRError:
        return TileIRError.single(BAD_ARGUMENT, f"{name} for '{format_type(ty)}' {why}", place)

    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(ty.element_type, T.PtrType):
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
