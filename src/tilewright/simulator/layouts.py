"""Register fragments of matrices, and swizzles of shared memory, as the hardware defines them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from tilewright.numerics.arrays import Array
from tilewright.simulator.state import WARP_SIZE

_LANE = np.arange(WARP_SIZE)
_ROW, _PLACE = _LANE >> 2, _LANE & 3

#: The mask of the address bits above the 128-byte line that a swizzle XORs into the 16-byte chunk number.
SWIZZLE_MASKS = {"none": 0, "swizzle_32b": 1, "swizzle_64b": 3, "swizzle_128b": 7}
#: The period of a swizzle, in bytes.
PATTERN_BYTES = {"none": 16, "swizzle_32b": 256, "swizzle_64b": 512, "swizzle_128b": 1024}


def swizzled(address: Array, swizzle: str) -> Array:
    """The swizzled address of a linear byte address (PTX ISA, tensors, swizzling modes).

    Bits 7 and up, as many as the mode has, are XORed into the number of the 16-byte chunk. Address 0 is where the
    pattern starts.
    """
    return address ^ (((address >> 7) & SWIZZLE_MASKS[swizzle]) << 4)


def _grid(registers: int, per_register: int) -> tuple[Array, Array]:
    """Register and element numbers that broadcast with lanes: (1, r, 1) and (1, 1, e)."""
    return np.arange(registers)[None, :, None], np.arange(per_register)[None, None, :]


def a_positions(rows: int, depth: int, per_register: int) -> tuple[Array, Array]:
    """Row and k of each element of a fragment of A, as lanes x registers x elements (PTX ISA, matrix fragments for
    ``mma``).

    ``rows`` is 8 or 16, ``depth`` the extent of k, ``per_register`` the elements in 32 bits; it is 1 for f64, whose
    only shape is 8 x 4.
    """
    registers = rows * depth // (WARP_SIZE * per_register)
    r, e = _grid(registers, per_register)
    g, t = _ROW[:, None, None], _PLACE[:, None, None]
    if rows == 8:
        return np.broadcast_arrays(g + 0 * r, per_register * t + e + 0 * r)  # pyright: ignore[reportReturnType]
    row, k = g + 8 * (r & 1), 4 * per_register * (r >> 1) + per_register * t + e
    return np.broadcast_arrays(row, k)  # pyright: ignore[reportReturnType]


def b_positions(depth: int, per_register: int) -> tuple[Array, Array]:
    """k and column of each element of a fragment of B, depth x 8, as lanes x registers x elements."""
    registers = depth * 8 // (WARP_SIZE * per_register)
    r, e = _grid(registers, per_register)
    g, t = _ROW[:, None, None], _PLACE[:, None, None]
    k = 4 * per_register * r + per_register * t + e
    return np.broadcast_arrays(k, g)  # pyright: ignore[reportReturnType]


def c_positions(rows: int) -> tuple[Array, Array]:
    """Row and column of each element of a fragment of C or the result, rows x 8, as lanes x registers x elements."""
    r, e = _grid(rows // 8, 2)
    g, t = _ROW[:, None, None], _PLACE[:, None, None]
    return np.broadcast_arrays(g + 8 * r, 2 * t + e)  # pyright: ignore[reportReturnType]


def _sources(positions: tuple[Array, Array], shape: tuple[int, int]) -> Array:
    """For each element of a matrix, its position in the flattened fragments of the warp."""
    row, column = positions
    found = np.empty(shape, np.int64)
    found[row.reshape(-1), column.reshape(-1)] = np.arange(row.size)
    return found


@cache
def a_sources(rows: int, depth: int, per_register: int) -> Array:
    """The position of each element of A in the flattened fragments, by row and column."""
    return _sources(a_positions(rows, depth, per_register), (rows, depth))


@cache
def b_sources(depth: int, per_register: int) -> Array:
    """The same for B: ``depth`` rows, 8 columns."""
    return _sources(b_positions(depth, per_register), (depth, 8))


@cache
def c_sources(rows: int) -> Array:
    """The same for C and the result: 8 columns."""
    return _sources(c_positions(rows), (rows, 8))


@cache
def c_targets(rows: int) -> Array:
    """For each element of the fragments, its position in the flattened matrix."""
    row, column = c_positions(rows)
    return row * 8 + column


@dataclass(frozen=True, slots=True)
class FragmentTables:
    """The positions of matrix elements in the flattened fragments of several warps.

    ``a`` is k x 1 x warps x rows, ``b`` k x columns x warps x 1, ``c`` columns x warps x rows. ``result`` has, for each
    element of the fragments, its position in flattened matrices with the shape of ``c``.
    """

    a: Array
    b: Array
    c: Array
    result: Array


@cache
def fragment_tables(rows: int, depth: int, per_register: int, warps: int) -> FragmentTables:
    """The tables for several consecutive warps, each with its own matrices. Parameters are those of ``a_positions``."""
    warp = np.arange(warps)[:, None]
    of_a, of_b = a_sources(rows, depth, per_register), b_sources(depth, per_register)
    of_c = c_sources(rows)
    a = of_a.T[:, None, None, :] + warp * of_a.size
    b = of_b[:, :, None, None] + warp * of_b.size
    c = of_c.T[:, None, :] + warp * of_c.size
    result = np.empty(c.size, np.int64)
    result[c.reshape(-1)] = np.arange(c.size)
    return FragmentTables(a, b, c, result)


@cache
def tile_offsets(extent: int, depth: int, size: int, is_k_major: bool, slab_bytes: int) -> Array:
    """Byte offsets of the elements of a ``wgmma`` operand, extent x depth, in its tile (PTX ISA, asynchronous
    warpgroup level matrix shared memory layout).

    ``size`` is the bytes of an element. The tile has the 128-byte swizzle and starts where the pattern does. K-major:
    rows of 128 bytes along k. Otherwise slabs of 128 bytes along the extent, ``slab_bytes`` apart, with a line for
    each k.
    """
    outer, k = np.arange(extent)[:, None], np.arange(depth)[None, :]
    if is_k_major:
        linear = 128 * (outer % 8) + 1024 * (outer // 8) + k * size
    else:
        along = outer * size
        linear = along % 128 + slab_bytes * (along // 128) + 128 * (k % 8) + 1024 * (k // 8)
    return swizzled(np.asarray(linear), "swizzle_128b")


@cache
def box_chunks(chunks: int, swizzle: str) -> Array:
    """The position of each 16-byte chunk of a box in a tile that starts where the pattern does."""
    return swizzled(np.arange(chunks) * 16, swizzle) // 16
