"""Calls from compiled kernels to the Python functions that implement external functions."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping

from tilewright.cpu.abi import MemorySite, PluginSite
from tilewright.cpu.runtime.buffers import bytes_at, read_tile, tile_bytes
from tilewright.diagnostics import TileIRError
from tilewright.launching.codes import PLUGIN_RESULT
from tilewright.launching.plugins import (
    Plugin,
    PluginResultError,
    array_over,
    plugin_results,
    reach_of,
)
from tilewright.launching.storage import storage_of
from tilewright.numerics.arrays import Array


def call_plugin(site: PluginSite, plugins: Mapping[str, Plugin], payload: int, count: int) -> None:
    """Call the function of a site, and put its results where the kernel wants them.

    ``payload`` is the address of ``count`` words that describe operands, then addresses for the results. Raises
    ``TileIRError`` (``plugin-result``) where the results do not fit; what the function raises goes on.
    """
    numbers = iter((ctypes.c_int64 * count).from_address(payload))
    operands = [
        _memory(kind, numbers) if isinstance(kind, MemorySite) else read_tile(kind, next(numbers))
        for kind in site.operands
    ]
    found = plugins[site.name](*operands)
    try:
        results = plugin_results(site.name, found, site.results)
    except PluginResultError as error:
        raise TileIRError.single(
            PLUGIN_RESULT, str(error), site.source.location, notes=site.source.notes
        ) from None
    for kind, array in zip(site.results, results, strict=True):
        data = tile_bytes(kind, array)
        bytes_at(next(numbers), data.size)[:] = data


def _memory(kind: MemorySite, numbers: Iterator[int]) -> Array:
    """A memref as an array over its memory."""
    base = next(numbers)
    shape = tuple(next(numbers) for _ in range(kind.rank))
    strides = tuple(next(numbers) for _ in range(kind.rank))
    memory = bytes_at(base, reach_of(shape, strides) * storage_of(kind.element).size)
    return array_over(memory, 0, kind.element, shape, strides)
