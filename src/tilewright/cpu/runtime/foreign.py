"""Calls of compiled kernels to functions on arrays that were given for foreign code."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from tilewright.cpu.abi import MemorySite, PluginSite
from tilewright.diagnostics import TileIRError
from tilewright.launching.codes import PLUGIN_RESULT
from tilewright.launching.plugins import Plugin, PluginResultError, plugin_results
from tilewright.launching.storage import storage_of
from tilewright.launching.value_types import TileLike
from tilewright.numerics.arrays import PTR, Array, dtype_of


def call_plugin(site: PluginSite, plugins: Mapping[str, Plugin], payload: int, count: int) -> None:
    """Call the function of a site, and put its results where the kernel wants them.

    A TileIRError where these do not fit; what the function raises goes on.
    """
    numbers = iter((ctypes.c_int64 * count).from_address(payload))
    operands = [
        _memory(kind, numbers) if isinstance(kind, MemorySite) else _operand(kind, next(numbers))
        for kind in site.operands
    ]
    found = plugins[site.name](*operands)
    try:
        results = plugin_results(site.name, found, site.results)
    except PluginResultError as error:
        raise TileIRError.single(
            PLUGIN_RESULT, str(error), site.source.place, notes=site.source.notes
        ) from None
    for kind, array in zip(site.results, results, strict=True):
        _put(kind, array, next(numbers))


def _bytes_at(address: int, size: int) -> Array:
    memory = memoryview((ctypes.c_uint8 * size).from_address(address))
    return np.frombuffer(memory, np.uint8)


def _operand(kind: TileLike, address: int) -> Array:
    """A tile in its buffer, as a read-only array."""
    if kind.element == PTR:
        array = _bytes_at(address, prod(kind.dims) * 8).view(np.uint64)
    else:
        storage = storage_of(kind.element)
        raw = _bytes_at(address, prod(kind.dims) * storage.raw.itemsize).view(storage.raw)
        if kind.element == "i4":
            raw = ((raw << 4).view(np.int8) >> 4).view(np.uint8)
        array = storage.to_tile(raw)
    array = array.reshape(kind.dims)
    array.flags.writeable = False
    return array


def _memory(kind: MemorySite, numbers: Iterator[int]) -> Array:
    """A memref as an array over its memory; raw bytes where elements share them."""
    base = next(numbers)
    shape = tuple(next(numbers) for _ in range(kind.rank))
    strides = tuple(next(numbers) for _ in range(kind.rank))
    storage, dtype = storage_of(kind.element), dtype_of(kind.element)
    pairs = zip(shape, strides, strict=True)
    reach = sum((extent - 1) * stride for extent, stride in pairs if extent) + 1
    memory = _bytes_at(base, reach * storage.size)
    steps = tuple(stride * storage.size for stride in strides)
    raw = np.ndarray(shape, storage.raw, memory, 0, steps)
    plain = storage.packed or dtype.itemsize != storage.raw.itemsize
    return raw if plain else raw.view(dtype)


def _put(kind: TileLike, array: Array, address: int) -> None:
    if kind.element == PTR:
        raw = array
    else:
        raw = storage_of(kind.element).from_tile(np.ascontiguousarray(array).reshape(array.shape))
        if kind.element == "i4":
            raw = raw & np.uint8(15)
    target = _bytes_at(address, raw.nbytes)
    target[:] = raw.reshape(-1).view(np.uint8)
