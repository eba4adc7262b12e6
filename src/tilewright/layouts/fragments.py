"""Layouts of the operands and accumulator of ``mma.sync``.

From the PTX instruction set, "Matrix Fragments for mma": with ``group = lane / 4`` and ``place = lane % 4``, a 32-bit
register of A holds adjacent elements along k of row ``group``, from ``place * per_register`` on; further registers are
8 rows further down, then 4 registers further along k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tilewright.layouts.layout import Layout, axis_bits, bits_of


@dataclass(frozen=True, slots=True)
class Fragment:
    """An ``m x n x k`` instruction whose operands have ``bits`` bits; accumulators have 32 or 64."""

    m: int
    n: int
    k: int
    bits: int

    @property
    def per_register(self) -> int:
        """The number of adjacent elements along k in a register."""
        return max(32 // self.bits, 1)


def _batch_bits(shape: Sequence[int]) -> list[int]:
    """The bits of all axes but the last two, lowest first."""
    return [bit for bits in reversed(axis_bits(shape)[:-2]) for bit in bits]


def accumulator(
    shape: Sequence[int],
    fragment: Fragment,
    warps: Sequence[int],
    turned: tuple[bool, bool] = (False, False),
    spread: int = 0,
) -> Layout:
    """The layout of an accumulator of shape ``(..., m, n)`` over a grid of ``warps``: rows, columns.

    Each warp has a contiguous part. Registers run along the columns of a fragment, its rows, then fragments along n,
    m, and the batch. ``turned``: 8-bit operands that are not contiguous along k, of which threads load adjacent
    pairs: the halves of a fragment have the even and the odd rows of 16, or the first of two fragments has the even
    columns of 16. ``spread``: of ``2**(3 + spread)`` columns, fragment i has those congruent to i modulo
    ``2**spread``, so that a thread holds adjacent elements of the right operand. Raises ``ValueError`` if an extent
    or a count is not a power of two.
    """
    ranges = axis_bits(shape)
    rows, columns = list(ranges[-2]), list(ranges[-1])
    inner_rows, inner_columns = bits_of(fragment.m), bits_of(fragment.n)
    if turned[0]:
        rows[:4] = [*rows[1:4], rows[0]]
    spread = max(spread, int(turned[1]))
    columns[: 3 + spread] = [*columns[spread : 3 + spread], *columns[:spread]]
    register = [1 << columns[0]]
    register += [1 << bit for bit in rows[3:inner_rows]]
    lane = [1 << bit for bit in columns[1:3]] + [1 << bit for bit in rows[:3]]
    left_rows, left_columns = rows[inner_rows:], columns[inner_columns:]
    across, down = bits_of(warps[1]), bits_of(warps[0])
    pair, left_columns = left_columns[:spread], left_columns[spread:]
    warp_columns, left_columns = _upper(left_columns, across)
    left_columns = [*pair, *left_columns]
    warp_rows, left_rows = _upper(left_rows, down)
    register += [1 << bit for bit in (*left_columns, *left_rows, *_batch_bits(shape))]
    warp = [1 << bit for bit in warp_columns] + [0] * (across - len(warp_columns))
    warp += [1 << bit for bit in warp_rows] + [0] * (down - len(warp_rows))
    return Layout(prod(shape), tuple(register), tuple(lane), tuple(warp))


def _upper(bits: list[int], count: int) -> tuple[list[int], list[int]]:
    """Split off the upper ``count`` bits, or all; returns them and the rest."""
    count = min(count, len(bits))
    return bits[len(bits) - count :], bits[: len(bits) - count]


def operand_a(
    shape: Sequence[int], fragment: Fragment, warps: Sequence[int], is_transposed: bool = False
) -> Layout:
    """The layout of the left operand, ``(..., m, k)``, of a product with the result ``accumulator((..., m, n))``.

    ``fragment`` and ``warps`` are the accumulator's, ``is_transposed`` its ``turned[0]``. Warps along n hold copies.
    """
    ranges = axis_bits(shape)
    rows, along = list(ranges[-2]), list(ranges[-1])
    if is_transposed:
        rows[:4] = [*rows[1:4], rows[0]]
    pack = bits_of(fragment.per_register)
    inner_rows, inner_k = bits_of(fragment.m), bits_of(fragment.k)
    register = [1 << bit for bit in along[:pack]]
    register += [1 << bit for bit in rows[3:inner_rows]]
    register += [1 << bit for bit in along[pack + 2 : inner_k]]
    lane = [1 << bit for bit in along[pack : pack + 2]] + [1 << bit for bit in rows[:3]]
    across, down = bits_of(warps[1]), bits_of(warps[0])
    warp_rows, left_rows = _upper(rows[inner_rows:], down)
    register += [1 << bit for bit in (*along[inner_k:], *left_rows, *_batch_bits(shape))]
    warp = [0] * across + [1 << bit for bit in warp_rows] + [0] * (down - len(warp_rows))
    return Layout(prod(shape), tuple(register), tuple(lane), tuple(warp))


def operand_b(
    shape: Sequence[int],
    fragment: Fragment,
    warps: Sequence[int],
    is_transposed: bool = False,
    spread: int = 0,
) -> Layout:
    """The layout of the right operand, ``(..., k, n)``, of a product with the result ``accumulator((..., m, n))``.

    ``fragment``, ``warps`` and ``spread`` are the accumulator's, ``is_transposed`` its ``turned[1]``. Warps along m
    hold copies.
    """
    ranges = axis_bits(shape)
    along, columns = list(ranges[-2]), list(ranges[-1])
    spread = max(spread, int(is_transposed))
    columns[: 3 + spread] = [*columns[spread : 3 + spread], *columns[:spread]]
    pack = bits_of(fragment.per_register)
    inner_columns, inner_k = bits_of(fragment.n), bits_of(fragment.k)
    register = [1 << bit for bit in along[:pack]]
    register += [1 << bit for bit in along[pack + 2 : inner_k]]
    lane = [1 << bit for bit in along[pack : pack + 2]] + [1 << bit for bit in columns[:3]]
    across, down = bits_of(warps[1]), bits_of(warps[0])
    left_columns = columns[inner_columns:]
    pair, left_columns = left_columns[:spread], left_columns[spread:]
    warp_columns, left_columns = _upper(left_columns, across)
    left_columns = [*pair, *left_columns]
    register += [1 << bit for bit in (*along[inner_k:], *left_columns, *_batch_bits(shape))]
    warp = [1 << bit for bit in warp_columns] + [0] * (across - len(warp_columns)) + [0] * down
    return Layout(prod(shape), tuple(register), tuple(lane), tuple(warp))


def warpgroup_accumulator(shape: Sequence[int], groups: Sequence[int]) -> Layout:
    """The layout of an accumulator of ``wgmma`` over a grid of warpgroups: rows, columns.

    Each group has contiguous rows and columns; of every 64 rows its warp i has 16, from 16 i on, as fragments of 16 x
    8. Registers run along the columns of a fragment, its rows, then along n and m. From the PTX instruction set,
    "Register Fragments for wgmma", matrix D.
    """
    rows, columns = (list(bits) for bits in axis_bits(shape)[-2:])
    group_columns, left_columns = _upper(columns[3:], bits_of(groups[1]))
    group_rows, left_rows = _upper(rows[6:], bits_of(groups[0]))
    register = [columns[0], rows[3], *left_columns, *left_rows]
    lane = [*columns[1:3], *rows[:3]]
    warp = [*rows[4:6], *group_columns, *group_rows]
    return Layout(
        prod(shape), *(tuple(1 << bit for bit in held) for held in (register, lane, warp))
    )


def warpgroup_operand_a(shape: Sequence[int], bits: int, groups: Sequence[int]) -> Layout:
    """The layout of a left operand of ``wgmma`` in registers, for ``warpgroup_accumulator((..., m, n), groups)``.

    ``shape`` is ``(m, k)``; elements have ``bits`` bits, 8 to 32. Groups along n hold copies. From the PTX
    instruction set, "Register Fragments for wgmma", matrix A.
    """
    rows, along = (list(found) for found in axis_bits(shape)[-2:])
    pack = bits_of(32 // bits)
    step = pack + 3
    group_rows, left_rows = _upper(rows[6:], bits_of(groups[0]))
    register = [*along[:pack], rows[3], *along[pack + 2 : step], *along[step:], *left_rows]
    lane = [*along[pack : pack + 2], *rows[:3]]
    warp = [1 << bit for bit in rows[4:6]] + [0] * bits_of(groups[1])
    warp += [1 << bit for bit in group_rows]
    return Layout(
        prod(shape),
        tuple(1 << bit for bit in register),
        tuple(1 << bit for bit in lane),
        tuple(warp),
    )
