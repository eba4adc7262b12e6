"""Loop nests over tiles whose elements may lie at equal distances, which only shows when the code runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I64
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.strided_lanes import ANY_STRIDE, SMALL_STRIDES
from tilewright.cpu.codegen.loops.tiles import Loose, Tile, walk

#: What is told of a nest that ``by_stride`` makes.
STRIDED = "elements may be strided: there are versions for strides 2, 3 and 4, and for any stride"
#: What is told of one for which there is too much code already.
NOT_STRIDED = "elements may be strided and are gathered then: the limit of versions is reached"


class Strides(NamedTuple):
    """Tiles whose elements may lie at equal distances, and those that code is made for."""

    loose: Sequence[Loose]
    numbers: Sequence[int] = SMALL_STRIDES
    gathers: bool = False
    """Whether there is code without checks for other strides, too."""

    def all_are(self, number: int) -> dict[int, int]:
        """What a nest for this stride knows, by the ``id`` of each of the tiles; for 1 guards tell it."""
        return {} if number == 1 else {id(each): number for each in self.loose}


def by_stride(
    b: Builder,
    conditions: Sequence[Value],
    asked: Strides,
    strided: Callable[[bool, int], object],
    otherwise: Callable[[], object],
    *,
    edges: bool = True,
) -> None:
    """``strided(masked, n)`` where all loose tiles have the stride ``n``, one of those asked for, masked if
    another condition does not hold; else ``otherwise()``. Without ``edges`` that also where it would be masked."""
    if not asked.loose or not asked.numbers:
        otherwise()
        return
    where = {id(each.inside): each for each in asked.loose}
    rest = llvm.all_of(
        b, [c for each in conditions for c in _without_stride(where.get(id(each)), each)]
    )
    strides = list({id(each.stride): each.stride for each in where.values()}.values())
    after = b.append_basic_block("strides")
    for number in asked.numbers:
        equal = [b.icmp_signed("==", each, ir.Constant(I64, number)) for each in strides]
        if not edges and rest is not None:
            equal.append(rest)
        with b.if_then(llvm.all_of(b, equal)):
            if edges and rest is not None:
                with b.if_else(rest) as (inside, edge):
                    with inside:
                        strided(False, number)
                    with edge:
                        strided(True, number)
            else:
                strided(False, number)
            b.branch(after)
    if asked.gathers and rest is not None:
        with b.if_then(rest):
            strided(False, ANY_STRIDE)
            b.branch(after)
    otherwise()
    b.branch(after)
    b.position_at_end(after)


def _without_stride(loose: Loose | None, condition: Value) -> list[Value]:
    if loose is None:
        return [condition]
    return [] if loose.fits is None else [loose.fits]


def loose_of(tiles: Sequence[Tile]) -> list[Loose]:
    """Those of the tiles, and of what they are computed from, that may lie at equal distances."""
    return [tile.loose for tile in walk(*tiles) if tile.loose is not None]


def numbers_of(tiles: Sequence[Tile]) -> int:
    """How many tiles a nest reads or computes, without those that addresses are computed from."""
    found: set[int] = set()
    pending = list(tiles)
    while pending:
        tile = pending.pop()
        if id(tile) not in found:
            found.add(id(tile))
            loose = tile.loose
            pending += () if loose is not None and loose.gathers else tile.sources
    return len(found)
