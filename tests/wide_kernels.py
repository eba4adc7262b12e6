"""Kernels that go down strips of columns, for the tests of what makes their blocks wider."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.builder import Builder, ModuleBuilder, Value, ptr

ROWS, COLUMNS = 16, 8
"""The tile of a block."""


class Strip:
    """A kernel over the columns ``[columns * block, ...)`` of ``x``, ``m`` by ``n``, that writes to ``y``."""

    def __init__(self, k: Builder, dtype: str, axis: int, columns: int) -> None:
        self.k, self.dtype, self.columns = k, dtype, columns
        self.here = k.get_tile_block_id()[axis]
        m, n = k.args.m, k.args.n
        self.whole = k.make_tensor_view(k.args.x, [m, n], [n, 1])
        self.x = k.partition(self.whole, tile=(ROWS, self.columns), padding="zero")
        self.rounds = (m + (ROWS - 1)) // ROWS

    def load(self, row: Any) -> Value:
        return self.k.load_view_tko(self.x, [row, self.here])[0]

    def one(self) -> Any:
        return 1.0 if self.dtype.startswith(("f", "bf")) else 1

    def row(self, value: Value) -> None:
        """Store what there is for each column."""
        k = self.k
        view = k.make_tensor_view(k.args.y, [k.args.n], [1])
        k.store_view_tko(value, k.partition(view, tile=(self.columns,)), [self.here])

    def tile(self, value: Value, row: Any) -> None:
        """Store a tile of an ``y`` like ``x``."""
        k = self.k
        view = k.make_tensor_view(k.args.y, [k.args.m, k.args.n], [k.args.n, 1])
        k.store_view_tko(value, k.partition(view, tile=(ROWS, self.columns)), [row, self.here])

    def weights(self) -> Value:
        """A tile that is the same in all blocks: the first column of ``x``."""
        k = self.k
        column = k.partition(self.whole, tile=(ROWS, 1))
        found = k.load_view_tko(column, [0, 0])[0]
        return k.broadcast(found, shape=(ROWS, self.columns))


def sums(s: Strip) -> None:
    with s.k.for_(s.rounds, total=s.k.zeros((s.columns,), s.dtype)) as loop:
        loop.total = loop.total + s.load(loop.index).sum(axis=0)
    s.row(loop.total)


def sums_of_tiles(s: Strip) -> None:
    with s.k.for_(s.rounds, total=s.k.zeros((ROWS, s.columns), s.dtype)) as loop:
        loop.total = loop.total + s.load(loop.index)
    s.row(loop.total.sum(axis=0))


def maxima(s: Strip) -> None:
    s.row(s.load(0).max(axis=0))


def weighted(s: Strip) -> None:
    s.row((s.load(0) * s.weights() + s.one()).sum(axis=0))


def less_the_sum(s: Strip) -> None:
    x = s.load(0)
    s.tile(x - x.sum(axis=0, keepdims=True), 0)


def up_from_below(s: Strip) -> None:
    body: Callable[..., Any] = lambda b, element, total: element + total  # noqa: E731
    found = s.k.scan(s.load(0), 0, [0 * s.one()], body)
    s.row(s.k.reduce(found, 0, [0 * s.one()], body))


def transposed(s: Strip) -> None:
    k = s.k
    turned = k.permute(s.load(0), permutation=[1, 0])
    s.row((turned + turned).sum(axis=1))


def reshaped(s: Strip) -> None:
    k = s.k
    found = k.reshape(s.load(0), shape=(ROWS // 2, 2, s.columns)).sum(axis=0)
    s.row(found.max(axis=0))


def _columns(s: Strip, step: int) -> Value:
    """The number of each column, if blocks begin so many apart."""
    k = s.k
    here = k.broadcast(k.reshape(s.here * step, shape=(1,)), shape=(s.columns,))
    return here + k.iota(shape=(s.columns,), to="i32")


def below_the_diagonal(s: Strip) -> None:
    k = s.k
    x, shape = s.load(0), (ROWS, s.columns)
    column = k.broadcast(k.reshape(_columns(s, s.columns), shape=(1, s.columns)), shape=shape)
    row = k.broadcast(k.reshape(k.iota(shape=(ROWS,), to="i32"), shape=(ROWS, 1)), shape=shape)
    s.tile(k.select(column <= row * 3, x, x * s.one() + s.one()), 0)


CASES: dict[str, Callable[[Strip], None]] = {
    each.__name__: each
    for each in (
        *(sums, sums_of_tiles, maxima, weighted, less_the_sum, up_from_below, transposed),
        reshaped,
        below_the_diagonal,
    )
}


def kernel(
    case: Callable[[Strip], None], dtype: str = "f32", axis: int = 0, columns: int = COLUMNS
) -> Any:
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr(dtype), "y": ptr(dtype), "m": "i32", "n": "i32"}) as k:
        case(Strip(k, dtype, axis, columns))
    return module.build()


def _row_sums(s: Strip) -> None:
    k = s.k
    rows = k.partition(k.make_tensor_view(k.args.y, [k.args.m], [1]), tile=(ROWS,))
    k.store_view_tko(s.load(0).sum(axis=1), rows, [s.here])


def _told(s: Strip) -> None:
    s.row(s.load(0).sum(axis=0) + s.k.broadcast(s.k.reshape(s.here, shape=[1]), shape=[COLUMNS]))


def _same_place(s: Strip) -> None:
    k = s.k
    view = k.make_tensor_view(k.args.y, [k.args.n], [1])
    k.store_view_tko(s.load(0).sum(axis=0), k.partition(view, tile=(COLUMNS,)), [0])


def _printed(s: Strip) -> None:
    s.k.print_tko([s.k.constant(1, "i32")], str="%d")
    maxima(s)


def _counted(s: Strip) -> None:
    one = s.k.constant(1, "i32")
    order: dict[str, Any] = {"memory_ordering_semantics": "relaxed", "memory_scope": "device"}
    s.k.atomic_rmw_tko(s.k.args.y, one, mode="add", **order)
    maxima(s)


def _shifted(s: Strip) -> None:
    """The tile behind the block's own."""
    k = s.k
    found, _ = k.load_view_tko(s.x, [0, s.here + 1])
    s.row(found.sum(axis=0))


def _loops_as_often(s: Strip) -> None:
    with s.k.for_(s.here, total=s.k.zeros((COLUMNS,), s.dtype)) as loop:
        loop.total = loop.total + s.load(loop.index).sum(axis=0)
    s.row(loop.total)


def _repeats(s: Strip) -> None:
    """A tile that differs from column to column, and not from block to block."""
    k = s.k
    first, _ = k.load_view_tko(s.x, [0, 0])
    s.row((s.load(0) + first).sum(axis=0))


def _numbered(s: Strip) -> None:
    """Columns are told by their numbers within the block, which no memory holds."""
    s.row(s.load(0).sum(axis=0) + s.k.iota(shape=(s.columns,), to="i32"))


def _gapped(s: Strip) -> None:
    """Between the columns of two blocks are others, by their numbers."""
    s.row(s.load(0).sum(axis=0) + _columns(s, 2 * s.columns))


def _begins(s: Strip) -> None:
    """Where a block begins is all that is told."""
    k = s.k
    begin = k.broadcast(k.reshape(s.here * s.columns, shape=(1,)), shape=(s.columns,))
    s.row(s.load(0).sum(axis=0) + begin)


def _folds_by_number(s: Strip) -> None:
    """What elements are combined by differs from block to block."""
    s.row(s.k.reduce(s.load(0), 0, 0, lambda k, a, b: a + b + s.here))


REFUSED: dict[str, Callable[[Strip], None]] = {
    "a sum along the strip's rows": _row_sums,
    "the number of the block in arithmetic": _told,
    "a store to one place": _same_place,
    "a print": _printed,
    "an atomic update": _counted,
    "the tile of another block": _shifted,
    "rounds by the number of the block": _loops_as_often,
    "a tile that is the same everywhere": _repeats,
    "the numbers of the columns of a block": _numbered,
    "columns that do not follow": _gapped,
    "where a block begins": _begins,
    "a combination by the number of the block": _folds_by_number,
}
