"""What a nest reads at some positions, behind all that is computed of it element by element."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.cpu.codegen.ir.types import Builder
from tilewright.cpu.codegen.loops.indices import Coords, lanes_in
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Mapped, Tile


class NoPatternError(Exception):
    """Positions follow no pattern, so that each lane goes by itself."""


def leaves(
    b: Builder, tiles: Sequence[Tile], coords: Coords, *, behind: bool = True
) -> Iterator[tuple[Tile, Coords]]:
    """The tiles of which tiles are computed at these positions, each with its own ones, where these have lanes; ``behind``: and what
    those read themselves. Raises ``NoPatternError``."""
    nest = LoopNest(b)
    # Operands are shared; positions stay, as their names do.
    seen: dict[tuple[int, ...], Coords] = {}
    pending = [(tile, coords) for tile in tiles]
    while pending:
        tile, at = pending.pop()
        key = (id(tile), *map(id, at))
        if key in seen or not lanes_in(at):
            continue
        seen[key] = at
        if isinstance(tile, Mapped):
            inner = tile.mapping(nest, at)
            if inner is None:
                raise NoPatternError
            pending.append((tile.source, inner))
            continue
        if not tile.goes_by_lanes:
            yield tile, at
            if not behind:
                continue
        pending += [(source, at) for source in tile.sources]
