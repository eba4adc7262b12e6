"""``tileas-avoid-conflicts``: choose the layout in which threads compute a product's operand so that writing it to shared
memory, in the order the product requires, is free of bank conflicts.

Take bytes that are converted to 16-bit floats: a thread loads 16 of them and writes two 16-byte vectors. The lanes of one
phase then write every other vector of a row, and some of them hit the same banks in another panel. If lanes are spread
over rows instead of over panels, the swizzle separates them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import ClassVar

from xdsl.ir import SSAValue

from tilewright.analysis.tileaa import Facts
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.types import TiledViewType, layout_of
from tilewright.layouts import Layout, SharedLayout, gf2
from tilewright.layouts.conversions import WIDEST, ordered_for, waves_of
from tilewright.layouts.layout import bits_of
from tilewright.layouts.shared import ROW_BYTES
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.cleanup import erase_unused
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.rematerialize import Rematerialization

#: The bytes of each lane that shared memory moves in a wave.
BYTES_OF_LANE = ROW_BYTES // 32


@dataclass(frozen=True)
class AvoidConflicts(FunctionPass):
    """Changes layouts so that product operands are written to shared memory without bank conflicts."""

    name: ClassVar[str] = "tileas-avoid-conflicts"

    def rewrite_function(self, func: FuncOp) -> None:
        avoid_conflicts(func)


def avoid_conflicts(func: FuncOp) -> None:
    """Let copies to storage write it without bank conflicts, in place, where that is worth it.

    That is, where what they write can be computed in another layout by fewer instructions than it saves waves. Tiles
    must have layouts (``tileas-assign-layouts``).
    """
    facts = Facts(func)
    made: dict[tuple[SSAValue, Layout], SSAValue] = {}
    for op in list(func.walk()):
        if not isinstance(op, S.CopyOp):
            continue
        own, target = layout_of(op.source.type), op.target.type
        assert isinstance(target, TiledViewType)
        size = element_bytes(op.source.type)
        if own is None or waves_of(own, target.shared, size) == 1:
            continue
        saved = (waves_of(own, target.shared, size) - 1) * own.registers * size // BYTES_OF_LANE
        for layout in _others(own, target.shared, size):
            again = Rematerialization(facts, made)
            if again.find(op.source, layout) and again.cost < max(saved, 1):
                op.operands[0] = again.make(op.source, layout)
                break
    if made:
        erase_unused(list(func.walk()))


def _others(own: Layout, shared: SharedLayout, size: int) -> Iterator[Layout]:
    """Layouts in which threads hold as much side by side, and the lanes of a phase write to different banks."""
    ordered, _ = ordered_for(own, shared, size)
    vector = shared.vector(ordered, WIDEST // size)
    banks = bits_of(ROW_BYTES // (vector * size))
    run = 0
    while run < len(own.register) and shared.place(own.register[run]) == 1 << run:
        run += 1
    threads = [basis for basis in own.thread if basis]
    free = [*threads, *own.register[run:]]

    def bank(basis: int) -> int:
        return shared.place(basis) % (ROW_BYTES // size) // vector

    for chosen in combinations(free, min(banks, len(threads))):
        if len(gf2.independent(bank(basis) for basis in chosen)) < len(chosen):
            continue
        thread = [*chosen, *(basis for basis in threads if basis not in chosen)][: len(threads)]
        register = (*own.register[:run], *(basis for basis in free if basis not in thread))
        thread += [0] * (len(own.thread) - len(thread))
        found = replace(own, register=register, lane=tuple(thread[:5]), warp=tuple(thread[5:]))
        if waves_of(found, shared, size) == 1:
            yield found
