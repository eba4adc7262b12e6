"""Rematerialization: computing a value again in another layout, from its loads down."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.analysis.tileaa import Facts
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.memory import Load
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.types import layout_of
from tilewright.layouts import Layout, plan_conversion
from tilewright.layouts.conversions import WIDEST
from tilewright.passes.base import inherit_location
from tilewright.passes.tileas import tile_ops
from tilewright.passes.tileas.access_layouts import access_shape, element_bytes, fills_sectors
from tilewright.passes.tileas.element_accesses import goes_by_element
from tilewright.passes.tileas.operand_layouts import operand_layouts
from tilewright.passes.tileas.schedule_builder import put_behind
from tilewright.passes.tileas.tile_layouts import retype

#: The cost of a load in instructions: its address and its wait.
_LOAD = 4
#: The bytes per thread up to which a tile may be loaded twice, or in a layout that does not fill whole sectors.
FEW_BYTES = 32
#: The maximum number of rematerialized operations.
_MOST = 16


class Rematerialization:
    """The operations that must be computed again to have a value in another layout.

    ``order`` lists them in dependency order; ``cost`` is in instructions of a thread. ``made`` holds the values that
    were rematerialized before, by value and layout.
    """

    def __init__(self, facts: Facts, made: dict[tuple[SSAValue, Layout], SSAValue]):
        self.facts, self._made = facts, made
        self.cost = 0
        self.order: list[Operation] = []
        self._seen: dict[SSAValue, Layout] = {}
        #: Conversions whose target layout changes instead.
        self._instead: set[Operation] = set()

    def find(self, value: SSAValue, layout: Layout, *, moves: bool = True) -> bool:
        """Whether a value can be computed in a layout without shared memory; adds to ``cost`` and ``order``.

        ``moves``: a value with a single user is then computed in the new layout only, so that the old computation is saved.
        """
        own = layout_of(value.type)
        if own is None or not tile_ops.is_tile(value) or value in self._seen:
            return not tile_ops.is_tile(value) or self._seen.get(value) == layout
        if own == layout or (value, layout) in self._made:
            return True
        self._seen[value] = layout
        moves = moves and value.has_one_use()
        op = value.owner
        size = min(element_bytes(value.type), WIDEST)
        if moves and isinstance(op, S.ConvertLayoutOp):
            source = layout_of(op.source.type)
            words = None if source is None else _words(source, layout, size)
            if source is not None and words is not None:
                self.cost += max(words - (_words(source, own, size) or 0), 0)
                self._instead.add(op)
                return True
        if plan_conversion(own, layout, size).shared_conversion is None:
            self.cost += layout.registers
            return True
        if not isinstance(op, Operation) or op.regions or len(self.order) >= _MOST:
            return False
        if isinstance(op, S.ConvertLayoutOp):
            return self.find(op.source, layout, moves=moves)
        wanted = self._operands(op, value, layout, moves)
        if wanted is None:
            return False
        found = all(
            self.find(op.operands[position], each, moves=moves) for position, each in wanted.items()
        )
        self.order.append(op)
        return found

    def _operands(
        self, op: Operation, value: SSAValue, layout: Layout, moves: bool
    ) -> dict[int, Layout] | None:
        """The layouts in which an operation takes tiles to give its result in one; None where it cannot."""
        if isinstance(op, Load):
            cost = self._of_load(op, value, layout, moves)
            if cost is None:
                return None
            self.cost += cost
            tiles = [n for n, operand in enumerate(op.operands) if tile_ops.is_tile(operand)]
            return dict.fromkeys(tiles, layout)
        if len(op.results) != 1 or not _keeps_layouts(op):
            return None
        self.cost += 0 if moves or op.name in tile_ops.RESHAPES else layout.registers
        return operand_layouts(op, layout)

    def _of_load(self, op: Load, value: SSAValue, layout: Layout, moves: bool) -> int | None:
        """What it costs to load a tile in another layout; None where that cannot be done, or memory would move more
        than it has to."""
        if value is not op.moved or goes_by_element(op):
            return None
        dims, size = T.dims_of(value.type), element_bytes(value.type)
        shape = access_shape(self.facts, op)
        if layout.registers * size > FEW_BYTES and not (
            moves and not layout.is_replicated and fills_sectors(layout, dims, shape, size)
        ):
            return None
        accesses = [
            each.registers // max(min(shape.width, each.run(dims, shape.axis)), 1)
            for each in (layout, layout_of(value.type))
            if each is not None
        ]
        return _LOAD * (max(accesses[0] - accesses[1], 0) if moves else accesses[0])

    def make(self, value: SSAValue, layout: Layout) -> SSAValue:
        """Return the value in the layout; ``find`` must have accepted them."""
        if not tile_ops.is_tile(value) or layout_of(value.type) == layout:
            return value
        if (value, layout) in self._made:
            return self._made[value, layout]
        op = value.owner
        if isinstance(op, S.ConvertLayoutOp) and op in self._instead:
            made = _converted(op.source, layout)
        elif isinstance(op, S.ConvertLayoutOp) and op not in self.order:
            made = self.make(op.source, layout)
        elif isinstance(op, Operation) and op in self.order:
            made = self._copy(op, value, layout)
        else:
            made = _converted(value, layout)
        self._made[value, layout] = made
        return made

    def _copy(self, op: Operation, value: SSAValue, layout: Layout) -> SSAValue:
        wanted = operand_layouts(op, layout)
        if isinstance(op, Load):
            tiles = [n for n, operand in enumerate(op.operands) if tile_ops.is_tile(operand)]
            wanted = dict.fromkeys(tiles, layout)
        new = op.clone({})
        for position, each in wanted.items():
            new.operands[position] = self.make(op.operands[position], each)
        inherit_location(new, op)
        Rewriter.insert_op(new, InsertPoint.after(op))
        if isinstance(op, Load) and isinstance(new, Load):
            _follow(op, new)
        made = new.results[list(op.results).index(value)]  # pyright: ignore[reportArgumentType]
        retype(made, layout)
        made.name_hint = value.name_hint
        return made


def _words(source: Layout, target: Layout, size: int) -> int | None:
    """Return the registers that a thread exchanges with its warp in a conversion; None if that needs shared memory."""
    plan = plan_conversion(source, target, size)
    if plan.shared_conversion is not None:
        return None
    return 0 if plan.lanes is None else plan.lanes.words(source.registers)


def _follow(op: Load, again: Load) -> None:
    """Order a repeated load after the first one, and what follows the first one after both."""
    if op.result_token is None or again.result_token is None:
        return
    op.result_token.replace_all_uses_with(again.result_token)
    if again.token is not None:
        again.operands[list(again.operands).index(again.token)] = op.result_token


def _keeps_layouts(op: Operation) -> bool:
    """Whether the layouts of an operation's operands follow from that of its result."""
    moves = op.name in (tile_ops.BROADCAST, tile_ops.PERMUTE, *tile_ops.RESHAPES)
    return moves or tile_ops.is_source(op) or tile_ops.is_elementwise(op)


def _converted(value: SSAValue, layout: Layout) -> SSAValue:
    """Convert a value to a layout that needs no shared memory."""
    new = S.ConvertLayoutOp.to(value, layout)
    put_behind(value, new)
    return new.results[0]
