"""Histograms and scatters: atomic updates in cuTile's default order, of which nobody reads a result."""

from __future__ import annotations

from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch

from benchmarks.unseen_rows import Row, array, integers, normal

_TILE = 1024
_LENGTH = 1 << 21


@ct.kernel
def count(numbers, bins, tile: ct.Constant[int]):
    held = ct.load(numbers, (ct.bid(0),), (tile,))
    ct.atomic_add(bins, held, 1)


@ct.kernel
def largest(places, values, out, tile: ct.Constant[int]):
    where = ct.load(places, (ct.bid(0),), (tile,))
    ct.atomic_max(out, where, ct.load(values, (ct.bid(0),), (tile,)))


@ct.kernel
def scatter_add(places, values, out, tile: ct.Constant[int]):
    where = ct.load(places, (ct.bid(0),), (tile,))
    ct.atomic_add(out, where, ct.load(values, (ct.bid(0),), (tile,)))


@ct.kernel
def scatter_weights(places, values, out, tile: ct.Constant[int]):
    where = ct.load(places, (ct.bid(0),), (tile,))
    value = ct.load(values, (ct.bid(0),), (tile,))
    ct.atomic_add(out, where, ct.tanh(value) * ct.exp(-value * value))


@ct.kernel
def add_rows(tokens, gradients, table, width: ct.Constant[int]):
    row = ct.bid(0)
    token = ct.gather(tokens, row)
    columns = ct.arange(width, dtype=ct.int32)
    found = ct.load(gradients, (row, 0), (1, width)).reshape((width,))
    ct.atomic_add(table, (token, columns), found)


@ct.kernel
def column_sums(matrix, out, rows: ct.Constant[int], width: ct.Constant[int]):
    held = ct.load(matrix, (ct.bid(0), ct.bid(1)), (rows, width))
    columns = ct.bid(1) * width + ct.arange(width, dtype=ct.int32)
    ct.atomic_add(out, columns, ct.sum(held, axis=0))


def _histogram(bins: int, name: str) -> Row:
    numbers, out = integers(bins, 2 * _LENGTH), torch.zeros(bins, dtype=torch.int32)
    flat = array(numbers)
    return Row(
        name,
        count,
        (2 * _LENGTH // _TILE,),
        (numbers, out, _TILE),
        (out,),
        lambda: (torch.bincount(numbers, minlength=bins),),
        {
            "NumPy": lambda: np.bincount(flat, minlength=bins),
            "torch": lambda: torch.bincount(numbers, minlength=bins),
        },
    )


def _scatter_max() -> Row:
    size = 4096
    places, values = integers(size, _LENGTH), integers(1 << 20, _LENGTH)
    out, theirs = torch.zeros(size, dtype=torch.int32), torch.zeros(size, dtype=torch.int32)
    wide = places.long()

    def right() -> tuple[torch.Tensor, ...]:
        made = torch.zeros(size, dtype=torch.int32)
        return (made.scatter_reduce_(0, wide, values, "amax"),)

    return Row(
        "scatter-max of 2M i32 into 4096",
        largest,
        (_LENGTH // _TILE,),
        (places, values, out, _TILE),
        (out,),
        right,
        {
            "NumPy": lambda: np.maximum.at(array(theirs), array(places), array(values)),
            "torch": lambda: theirs.scatter_reduce_(0, wide, values, "amax"),
        },
    )


def _adders(
    theirs: torch.Tensor, places: torch.Tensor, values: torch.Tensor
) -> dict[str, Callable[[], object]]:
    """Those that add values to the places of an array; NumPy has no bf16."""
    wide, size = places.long(), len(theirs)
    found: dict[str, Callable[[], object]] = {"torch": lambda: theirs.index_add_(0, wide, values)}
    if theirs.dtype != torch.bfloat16:
        found["NumPy"] = lambda: np.add.at(array(theirs), array(places), array(values))
        found["NumPy bincount"] = lambda: np.bincount(array(places), array(values), size)
    return found


def _scatter_add(dtype: torch.dtype, size: int, name: str, bound: float = 1e-5) -> Row:
    places, values = integers(size, _LENGTH), normal(_LENGTH, dtype=dtype)
    out, theirs = torch.zeros(size, dtype=dtype), torch.zeros(size, dtype=dtype)
    wide = places.long()
    return Row(
        name,
        scatter_add,
        (_LENGTH // _TILE,),
        (places, values, out, _TILE),
        (out,),
        lambda: (torch.zeros(size, dtype=torch.float64).index_add_(0, wide, values.double()),),
        _adders(theirs, places, values),
        bound=bound,
        clear=out.zero_,
    )


def _weighted() -> Row:
    """Work beside the updates: on several threads they are gathered."""
    size = 4096
    places, values = integers(size, _LENGTH), normal(_LENGTH)
    out, theirs, wide = torch.zeros(size), torch.zeros(size), places.long()

    def peer() -> torch.Tensor:
        weights = torch.tanh(values) * torch.exp(-values * values)
        return theirs.index_add_(0, wide, weights)

    def right() -> tuple[torch.Tensor, ...]:
        exact = values.double()
        weights = torch.tanh(exact) * torch.exp(-exact * exact)
        return (torch.zeros(size, dtype=torch.float64).index_add_(0, wide, weights),)

    return Row(
        "scatter-add of 2M weights into 4096 f32",
        scatter_weights,
        (_LENGTH // _TILE,),
        (places, values, out, _TILE),
        (out,),
        right,
        {"torch": peer},
        bound=1e-5,
        clear=out.zero_,
    )


def _embedding() -> Row:
    rows, width, words = 8192, 256, 1024
    tokens, gradients = integers(words, rows), normal(rows, width)
    out, theirs = torch.zeros(words, width), torch.zeros(words, width)
    wide = tokens.long()
    return Row(
        "gradient of an embedding, 8192 x 256 f32 into 1024",
        add_rows,
        (rows,),
        (tokens, gradients, out, width),
        (out,),
        lambda: (torch.zeros(words, width).double().index_add_(0, wide, gradients.double()),),
        {"torch": lambda: theirs.index_add_(0, wide, gradients)},
        bound=1e-5,
    )


def _columns() -> Row:
    matrix, rows, width = normal(8192, 1024), 32, 256
    out = torch.zeros(1024)
    return Row(
        "sums of columns by atomics, 8192 x 1024 f32",
        column_sums,
        (8192 // rows, 1024 // width),
        (matrix, out, rows, width),
        (out,),
        lambda: (matrix.double().sum(0),),
        {"NumPy": lambda: array(matrix).sum(0), "torch": lambda: matrix.sum(0)},
        bound=1e-4,
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _histogram(256, "histogram of 4M i32 into 256"),
        lambda: _histogram(4096, "histogram of 4M i32 into 4096"),
        _scatter_max,
        lambda: _scatter_add(torch.int32, 4096, "scatter-add of 2M i32 into 4096"),
        lambda: _scatter_add(torch.float32, 1 << 16, "scatter-add of 2M f32 into 64K"),
        lambda: _scatter_add(torch.float32, 256, "scatter-add of 2M f32 into 256"),
        lambda: _scatter_add(torch.float64, 1 << 16, "scatter-add of 2M f64 into 64K"),
        lambda: _scatter_add(torch.float16, 4096, "scatter-add of 2M f16 into 4096", 0.03),
        lambda: _scatter_add(torch.bfloat16, 4096, "scatter-add of 2M bf16 into 4096", 0.3),
        _weighted,
        _embedding,
        _columns,
    ]
