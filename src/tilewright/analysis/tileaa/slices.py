"""How operations act on slices of tiles: which slices of the operands make a slice of the results.

Both directions are asked. ``passes/tileas/split_tiles.py`` works through a tile part by part and goes from results to operands;
``passes/tileaa/wide_blocks.py`` puts the tiles of several blocks side by side and goes from operands to results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation
from xdsl.traits import IsTerminator, is_side_effect_free

from tilewright.dialects import facts
from tilewright.dialects.declare import int_property
from tilewright.dialects.facts import Elements
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import int_list
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp, ReduceOp, ScanOp
from tilewright.dialects.nv_tileaa.ops.shapes import (
    BroadcastOp,
    CatOp,
    ExtractOp,
    ExtractSliceOp,
    PermuteOp,
)


@dataclass(frozen=True, slots=True)
class Slicing:
    """A slice of each result along axis ``result`` is what the operation makes of slices, in the same range, of the operands along
    the axes in ``operands``. Operands with None there are taken whole."""

    result: int
    operands: tuple[int | None, ...]


def slicings(op: Operation) -> list[Slicing]:
    """Return how an operation that makes tiles of tiles acts on slices, by ascending axis of the results; nothing for one that has
    effects, or makes its results of whole tiles only."""
    for kind, rule in _RULES:
        if isinstance(op, kind):
            return list(rule(op))
    if op.regions or not is_side_effect_free(op):
        return []
    rule = _BY_ELEMENTS.get(facts.elements(op))
    return [] if rule is None else list(rule(op))


def _broadcast(op: Operation) -> Iterator[Slicing]:
    source, result = (T.dims_of(value.type) for value in (op.operands[0], op.results[0]))
    for axis, extents in enumerate(zip(source, result, strict=True)):
        yield Slicing(axis, (axis if extents[0] == extents[1] else None,))


def _permuted(op: Operation) -> Iterator[Slicing]:
    for axis, before in enumerate(int_list(op.properties["permutation"])):
        yield Slicing(axis, (before,))


def _reduced(op: Operation) -> Iterator[Slicing]:
    """Reductions and scans, along the other axes."""
    inside = (inner for inner in op.walk() if inner is not op)
    if not all(is_side_effect_free(inner) or inner.has_trait(IsTerminator) for inner in inside):
        return
    along, reduces = int_property(op, "axis"), isinstance(op, ReduceOp)  # pyright: ignore[reportArgumentType]
    for axis in range(len(T.dims_of(op.results[0].type))):
        if reduces or axis != along:
            yield Slicing(axis, (axis + (reduces and axis >= along),) * len(op.operands))


def _product(op: Operation) -> Iterator[Slicing]:
    assert isinstance(op, DotOp)
    if op.sfa is not None:
        return
    rank = len(T.dims_of(op.c.type))
    if rank == 3:
        yield Slicing(0, (0, 0, 0))
    yield Slicing(rank - 2, (rank - 2, None, rank - 2))
    yield Slicing(rank - 1, (None, rank - 1, rank - 1))


def _joined(op: Operation) -> Iterator[Slicing]:
    """Two tiles behind one another, along the other axes."""
    for axis in range(len(T.dims_of(op.results[0].type))):
        if axis != int_property(op, "axis"):  # pyright: ignore[reportArgumentType]
            yield Slicing(axis, (axis, axis))


def _cut(op: Operation) -> Iterator[Slicing]:
    """A part of a tile, along the axes that it has whole."""
    source, result = (T.dims_of(value.type) for value in (op.operands[0], op.results[0]))
    for axis, extents in enumerate(zip(source, result, strict=True)):
        if extents[0] == extents[1]:
            yield Slicing(axis, (axis, *(None,) * (len(op.operands) - 1)))


def _selected(op: Operation) -> Iterator[Slicing]:
    """A part of a tile at an index of its first axes, along the others."""
    indices = len(op.operands) - 1
    if isinstance(op.results[0].type, T.TileType):
        for axis in range(len(T.dims_of(op.results[0].type))):
            yield Slicing(axis, (axis + indices, *(None,) * indices))


def _at_position(op: Operation) -> Iterator[Slicing]:
    tiles = [isinstance(value.type, T.TileType) for value in op.operands]
    dims = T.dims_of(op.results[0].type)
    values = (*op.operands, *op.results)
    if any(T.dims_of(v.type) != dims for v in values if isinstance(v.type, T.TileType)):
        return
    for axis in range(len(dims)):
        yield Slicing(axis, tuple(axis if tile else None for tile in tiles))


def _reshaped(op: Operation) -> Iterator[Slicing]:
    """An axis stays one where as many elements are in front of it as before."""
    source, result = (T.dims_of(value.type) for value in (op.operands[0], op.results[0]))
    for axis, extent in enumerate(result):
        for before, other in enumerate(source):
            if extent == other and prod(result[:axis]) == prod(source[:before]):
                yield Slicing(axis, (before,))


_Rule = Callable[[Operation], Iterator[Slicing]]
_RULES: tuple[tuple[type[Operation] | tuple[type[Operation], ...], _Rule], ...] = (
    (BroadcastOp, _broadcast),
    (PermuteOp, _permuted),
    ((ReduceOp, ScanOp), _reduced),
    (DotOp, _product),
    (CatOp, _joined),
    (ExtractSliceOp, _cut),
    (ExtractOp, _selected),
)
_BY_ELEMENTS: dict[Elements, _Rule] = {
    Elements.SAME_POSITION: _at_position,
    Elements.RESHAPED: _reshaped,
}
