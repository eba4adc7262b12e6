"""Decides, for a whole function before code is generated, which tiles get a buffer, and for how long.

A tile is *kept* (written to a buffer where it is defined) if recomputing it in each loop nest that reads it costs more, if
a reader needs its elements at scattered positions, or if the memory it was loaded from may change before it is read. All
others are functions of the position (``loops.tiles``), computed by the nests that read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tilewright.cpu.codegen.analysis import cost_model, effects, formulas, store_groups
from tilewright.cpu.codegen.analysis.indirect_rows import IndirectRows, find_indirect_rows
from tilewright.cpu.codegen.analysis.join_groups import find_join_groups
from tilewright.cpu.codegen.analysis.networks import Networks, find_networks
from tilewright.cpu.codegen.analysis.segments import Segments, find_segments
from tilewright.cpu.codegen.emitter.table import refuse
from tilewright.dialects import facts
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp
from tilewright.dialects.nv_tileaa.ops.memory import Load, LoadOp, TiledLoadOp
from tilewright.dialects.nv_tileaa.ops.shapes import BroadcastOp, CatOp, ExtractOp, ExtractSliceOp
from tilewright.dialects.nv_tileaa.type_syntax import format_type

#: What reading a tile again in another nest may cost, in units of one simple operation.
_RECOMPUTE_LIMIT = 8
#: What an element of a view costs that is read as it lies; reading a buffer instead is no gain.
_READ_COST = 6
#: What a number of a row costs that is worth a vector of such numbers, and what all of them may cost together.
_HEAVY, _ROWS_LIMIT = 20, 256
#: Rows of more elements take so long that a number for each of them does not count.
_SHORT_ROW = 64
#: How often a loop is taken to run.
_LOOP_WEIGHT = 8
_COST_LIMIT = 1 << 20
#: How deep regions may be nested.
_NESTING_LIMIT = 200
#: Rows of so many elements are read by whole vectors.
_LONG_ROW = 16
#: How many bytes of a tile stay in vector registers, where nothing is known of the processor.
_RUN_BYTES = 512
_ONCE_FOR_LOOP = "loops that read it do not change it"
_TOO_LONG = "its expression is too deep"


@dataclass(slots=True)
class Plan:
    """Positions of operations in program order, and what becomes of each tile."""

    position: dict[Operation, int] = field(default_factory=dict)
    last_inside: dict[Operation, int] = field(default_factory=dict)
    readers: dict[SSAValue, list[Operation]] = field(default_factory=dict)
    end: int = 0
    """The position behind the last operation."""
    size: int = 0
    """How many operations have to do with tiles."""
    kept: set[SSAValue] = field(default_factory=set)
    reasons: dict[SSAValue, str] = field(default_factory=dict)
    """Why each of them is memoized."""
    in_place: dict[SSAValue, SSAValue] = field(default_factory=dict)
    """Values that are computed in the buffer of a loop-carried tile: value to block argument."""
    handed_back: dict[SSAValue, SSAValue] = field(default_factory=dict)
    """Results of ``scf.while`` that share the buffer of what its next round begins with: result to argument of its first block."""
    remembered: set[SSAValue] = field(default_factory=set)
    """Masks that are kept, whose formulas are known as well."""
    non_temporal: set[Operation] = field(default_factory=set)
    """Stores of which nothing is read again, so that they need no place in caches."""
    arrays: list[SSAValue] = field(default_factory=list)
    """A memref of each array that is accessed through views: what has to have a place in caches, if anything is to stay there."""
    groups: dict[Operation, list[store_groups.AnyStore]] = field(default_factory=dict)
    """Stores that are made in the nest of the last one of them (``store_groups``), by each of them."""
    joins: dict[Operation, list[CatOp]] = field(default_factory=dict)
    """Joined tiles that are filled in one nest (``join_groups``), by what joins each of them."""
    indirect_rows: dict[Operation, IndirectRows] = field(default_factory=dict)
    """Rows that are asked for ahead of their time, by the operations that read them."""
    segments: Segments = field(default_factory=Segments)
    """Where long code is cut."""
    networks: Networks = field(default_factory=Networks)
    """Joined tiles that are computed in registers, some stages at once."""

    def leader(self, op: Operation) -> Operation:
        """In whose nest an operation does its work: its own, but for stores of a group, and for tiles
        that are kept in long code."""
        if op in self.groups:
            return self.groups[op][-1]
        return self.joins[op][-1] if op in self.joins else self.segments.leader(op)

    def nest_of(self, value: SSAValue) -> object:
        """Kept tiles for which this is the same may be filled in one nest; None for those alone."""
        owner = value.owner
        if not isinstance(owner, Operation):
            return None
        if self.segments.count > 1:
            return self.segments.run_of.get(owner)
        if owner in self.joins:
            return self.joins[owner][-1]
        first = min(self.readers[value], key=self.position.__getitem__, default=None)
        while first is not None and (kept := [r for r in first.results if r in self.kept]):
            # What is kept itself is filled where it is first read.
            first = min(self.readers[kept[0]], key=self.position.__getitem__, default=None)
        return first if isinstance(first, ReduceOp) and first.parent is owner.parent else None

    def last_use(self, value: SSAValue) -> int:
        """The position until which the buffer of a value that is made here must stay: its last reader, or the end of
        its loop.
        """
        home = value.owner if isinstance(value.owner, Block) else value.owner.parent
        last = self.position_of(value)
        for reader in self.readers.get(value, ()):
            last = max(last, self.until(reader, home))
        return last

    def position_of(self, value: SSAValue) -> int:
        """The number of the operation that makes a value; of an argument that of the operation
        around its block, -1 for the kernel's."""
        owner = value.owner
        if isinstance(owner, Operation):
            return self.position[owner]
        parent = owner.parent_op()
        return -1 if parent is None else self.position.get(parent, -1)

    def describe(self) -> str:
        """For each tile in program order where it is held, and which operations read it."""
        lines: list[str] = []
        for value, readers in sorted(
            self.readers.items(), key=lambda item: self.position_of(item[0])
        ):
            owner = value.owner
            lazy = isinstance(owner, Operation) and cost_model.is_lazy(owner)
            held = "buffer" if value in self.kept or not lazy else "computed where it is read"
            if value in self.in_place:
                held = "buffer of the loop's tile"
            if value in self.networks.inside and value not in self.kept:
                held = "registers, computed with the next stage"
            made = owner.name if isinstance(owner, Operation) else "block argument"
            places = ", ".join(f"{r.name} ({self.position[r]})" for r in readers) or "nothing"
            lines.append(
                f"{self.position_of(value):5} {made}: {format_type(value.type)}: {held}; "
                f"read by {places}"
            )
        for op, group in self.groups.items():
            if op is group[-1]:
                members = ", ".join(str(self.position[each]) for each in group)
                lines.append(f"{self.position[op]:5} {op.name}: one nest for the stores {members}")
        for op, joins in self.joins.items():
            if op is joins[-1]:
                members = ", ".join(str(self.position[each]) for each in joins)
                lines.append(f"{self.position[op]:5} {op.name}: one nest for the tiles {members}")
        for op, row in self.indirect_rows.items():
            lines.append(f"{self.position[op]:5} {op.name}: asked for {row.ahead} iterations ahead")
        return "\n".join(lines) + "\n"

    def until(self, reader: Operation, home: Block | None) -> int:
        """The position until which a reader may read a value of block ``home``: its own, or the end of the outermost
        loop in between.
        """
        last = self.position[reader]
        block = reader.parent
        while block is not None and block is not home:
            parent = block.parent_op()
            if parent is None:
                break
            if cost_model.repeats(parent):
                last = max(last, self.last_inside[parent])
            block = parent.parent
        return last


def make_plan(
    body: Block,
    *,
    distinct_arguments: bool,
    groups: bool = True,
    run_bytes: int = _RUN_BYTES,
    grid_axis: int = 0,
) -> Plan:
    """The plan of a function. ``distinct_arguments``: no array that is written shares memory with that of another pointer argument.
    ``groups``: stores may wait for others. ``grid_axis``: along which tile blocks follow one another. ``run_bytes``: how much of a
    tile stays in vector registers."""
    plan = Plan()
    ops = _number(body, plan)
    plan.end, plan.size = len(ops), sum(map(_has_tiles, ops))
    cut = _cut_again(ops)
    costs = _costs(ops)
    joined: set[SSAValue] = {r for op in ops if _is_cut(op, cut) for r in op.results}
    plan.segments = find_segments(ops, joined)
    plan.networks = find_networks(ops, joined, run_bytes)
    if plan.segments.count == 1:
        alone = {*plan.networks.runs, *plan.networks.inside}
        for joins in find_join_groups(ops, joined, alone):
            plan.joins |= dict.fromkeys(joins, joins)
    plan.non_temporal = effects.stores_never_read(ops, distinct_arguments)
    plan.arrays = effects.arrays_behind_views(ops)
    plan.indirect_rows = find_indirect_rows(ops, grid_axis)
    if groups:
        for group in store_groups.find_groups(
            ops, plan.non_temporal, distinct_arguments=distinct_arguments
        ):
            plan.groups |= dict.fromkeys(group, group)
    memory = effects.Memory(ops, plan, distinct_arguments)
    known = _Known(
        costs, memory, formulas.of_addresses(ops, costs), formulas.of_positions(ops), joined
    )
    for op in reversed(ops):
        for result in op.results:
            if isinstance(result.type, T.TileType):
                plan.readers[result] = list(_readers(result, plan))
                reason = _reason(op, result, plan, known) if cost_model.is_lazy(op) else ""
                if reason:
                    plan.kept.add(result)
                    plan.reasons[result] = reason
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    if isinstance(argument.type, T.TileType):
                        plan.readers[argument] = list(_readers(argument, plan))
    for op in ops:
        if op.name == "scf.for":
            _share_carried_buffers(op, plan)
        elif op.name == "scf.while":
            _share_handed_buffers(op, plan)
    return plan


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a function's tiles: the ``costs`` of an element, what may change in ``memory``, those that say where
    accesses go (``addresses``), those that are computed of ``positions`` alone, and those that parts are read of; ``repeated``: how
    many rows of a nest read an element; ``spread``: whether it stands for a short row, or what is computed of it without much ado does."""

    costs: dict[SSAValue, int]
    memory: effects.Memory
    addresses: set[SSAValue]
    positions: set[SSAValue]
    joined: set[SSAValue]
    repeated: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    spread: dict[SSAValue, bool] = field(default_factory=dict[SSAValue, bool])


def _reason(op: Operation, result: SSAValue, plan: Plan, known: _Known) -> str:
    """Why a tile that could be computed where it is read must have a buffer; empty where it need not."""
    costs, reason = known.costs, ""
    if result not in known.addresses:
        known.repeated[result] = _repeated(result, plan, known.repeated)
        again = _of_places(costs[result]) if result in known.positions else sum
        reason = _why_kept(op, result, plan, costs, known.memory, again)
        reason = reason or _why_not_again(op, result, costs, known.repeated[result])
        known.spread[result] = _is_spread(result, plan, known.spread)
        if result not in known.positions and known.spread[result]:
            reason = reason or _why_not_by_rows(op, result, costs)
    elif _is_handed_on(op, result, plan, costs):
        reason = _TOO_LONG
    elif _is_mask_of_loops(op, result, plan, costs):
        reason = _ONCE_FOR_LOOP
        plan.remembered.add(result)
    return reason or plan.networks.why_kept(result, cut=result in known.joined)


def _number(body: Block, plan: Plan) -> list[Operation]:
    ops: list[Operation] = []

    def visit(block: Block, depth: int) -> None:
        for op in block.ops:
            if depth > _NESTING_LIMIT:
                raise refuse(op, f"regions are nested more than {_NESTING_LIMIT} deep")
            plan.position[op] = len(ops)
            ops.append(op)
            if not cost_model.is_body_of_elements(op) and not cost_model.is_agent(op):
                for region in op.regions:
                    for inner in region.blocks:
                        visit(inner, depth + 1)
            plan.last_inside[op] = len(ops) - 1

    visit(body, 0)
    return ops


def _has_tiles(op: Operation) -> bool:
    return any(isinstance(value.type, T.TileType) for value in (*op.operands, *op.results))


def _costs(ops: list[Operation]) -> dict[SSAValue, int]:
    """What an element of each tile costs if everything that it depends on is computed again."""
    costs: dict[SSAValue, int] = {}
    for op in ops:
        if not cost_model.is_lazy(op):
            continue
        total = facts.cost(op) + sum(costs.get(operand, 1) for operand in op.operands)
        for result in op.results:
            if isinstance(result.type, T.TileType):
                costs[result] = min(total, _COST_LIMIT)
    return costs


def _cut_again(ops: list[Operation]) -> dict[SSAValue, int]:
    """Tiles of which parts are taken, up to tiles that are joined of others, with the shortest rows of
    such a part."""
    found: dict[SSAValue, int] = {}
    for op in reversed(ops):
        for result in op.results:
            for use in result.uses:
                user = use.operation
                rows = None
                if isinstance(user, ExtractOp | ExtractSliceOp):
                    rows = min(
                        found.get(user.results[0], _LONG_ROW),
                        *T.dims_of(user.results[0].type)[-1:],
                        _LONG_ROW,
                    )
                elif not isinstance(user, CatOp) and cost_model.is_lazy(user):
                    rows = found.get(user.results[0])
                if rows is not None:
                    found[result] = min(found.get(result, _LONG_ROW), rows)
    return found


def _is_cut(op: Operation, cut: dict[SSAValue, int]) -> bool:
    """Whether parts of a tile are read that it should be computed for only once: of a joined one, or
    of one from memory by short rows."""
    rows = cut.get(op.results[0]) if op.results else None
    if rows is None:
        return False
    return isinstance(op, CatOp) or (isinstance(op, TiledLoadOp) and rows < _LONG_ROW)


def _readers(value: SSAValue, plan: Plan) -> Iterator[Operation]:
    """The operations whose loop nests compute a value, if it is not kept: those of a mask that is remembered, too, whose
    formula is asked where it is read."""
    seen: set[Operation] = set()
    for use in value.uses:
        user = _planned(use.operation, plan)
        if user is None:
            continue
        kept = any(r in plan.kept for r in user.results)
        found = [plan.leader(user)] if kept or not cost_model.is_deferred(user) else []
        if not found or any(r in plan.remembered for r in user.results):
            found += [r for result in user.results for r in plan.readers.get(result, ())]
        for reader in found:
            if reader not in seen:
                seen.add(reader)
                yield reader


def _planned(op: Operation | None, plan: Plan) -> Operation | None:
    """The operation itself, or the one that it is part of."""
    while op is not None and op not in plan.position:
        op = op.parent_op()
    return op


def _why_kept(
    op: Operation,
    value: SSAValue,
    plan: Plan,
    costs: dict[SSAValue, int],
    memory: effects.Memory,
    together: Callable[[Iterable[int]], int],
) -> str:
    """Why a tile must have a buffer; empty where it is computed where it is read. ``together``: what readers make, that run so many
    times as often as the tile is computed."""
    readers = plan.readers[value]
    if not readers or cost_model.is_free(op):
        return ""
    if isinstance(op, Load) and memory.may_change(op, readers):
        return "the memory that it was loaded from may change before its use"
    if any(cost_model.needs_buffer(use.operation) for use in value.uses):
        return "an operation reads its elements in another order"
    if _is_handed_on(op, value, plan, costs):
        return _TOO_LONG
    if isinstance(op, BroadcastOp):
        return ""  # what it repeats is kept instead, which is smaller and takes no more to read
    weight = together(_weights(op, readers))
    if (weight - 1) * costs[value] <= _RECOMPUTE_LIMIT:
        return ""
    names = ", ".join(sorted({reader.name for reader in readers}))
    return f"recomputing it at its uses ({len(readers)} times: {names}) costs more"


def _weights(op: Operation, readers: Iterable[Operation]) -> list[int]:
    """How often readers run for each time that an operation does; of those in both branches of an ``scf.if`` the ones in one
    branch count."""
    found, branches = list[int](), dict[Operation, dict[Region, int]]()
    for reader in readers:
        weight, region = _LOOP_WEIGHT ** _loops_between(op, reader), _branch_around(op, reader)
        if region is None:
            found.append(weight)
            continue
        branch = region.parent_op()
        assert branch is not None
        held = branches.setdefault(branch, {})
        held[region] = held.get(region, 0) + weight
    return [*found, *(max(held.values()) for held in branches.values())]


def _branch_around(op: Operation, reader: Operation) -> Region | None:
    """The outermost branch that holds a reader and not an operation."""
    found, block = None, reader.parent
    while block is not None and block is not op.parent:
        region, parent = block.parent, block.parent_op()
        if isinstance(parent, scf.IfOp):
            found = region
        block = None if parent is None else parent.parent
    return found


def _of_places(cost: int) -> Callable[[Iterable[int]], int]:
    """How readers count of what is computed of places alone: not at all where that takes no longer than reading, and else those of
    one nest, as if each had its own."""
    if cost <= _READ_COST:
        return lambda weights: 1
    return max if cost <= _RECOMPUTE_LIMIT else sum


def _is_mask_of_loops(
    op: Operation, value: SSAValue, plan: Plan, costs: dict[SSAValue, int]
) -> bool:
    """Whether a mask is made before loops that read it again and again, and takes longer to make than to read."""
    return (
        T.element_name(T.element_of(value.type)) == "i1"
        and max(T.dims_of(value.type), default=1) > 1
        and costs[value] >= _READ_COST
        and any(_loops_between(op, reader) for reader in plan.readers[value])
    )


def _repeated(value: SSAValue, plan: Plan, repeated: dict[SSAValue, int]) -> int:
    """How many rows of one nest read an element, at most: those that a row of it is repeated for."""
    most = 1
    for use in value.uses:
        user = use.operation
        if not cost_model.is_lazy(user) or not user.results or user.results[0] in plan.kept:
            continue
        rows = repeated.get(user.results[0], 1)
        if isinstance(user, BroadcastOp):
            rows *= _rows_of_rows(T.dims_of(user.source.type), T.dims_of(user.result.type))
        most = max(most, rows)
    return most


def _rows_of_rows(source: tuple[int, ...], result: tuple[int, ...]) -> int:
    """How often a tile is repeated along axes outside of one that it has itself."""
    rows, inner = 1, False
    for old, new in zip(reversed(source), reversed(result), strict=True):
        if old > 1:
            inner = True
        elif inner:
            rows *= new
    return rows


def _why_not_again(op: Operation, value: SSAValue, costs: dict[SSAValue, int], rows: int) -> str:
    """Why a tile that a nest reads once for each of so many rows must have a buffer; empty where it is computed
    for each of them. A number that stands for a whole row is computed once for it."""
    more = costs[value] - _READ_COST
    free = cost_model.is_free(op) or isinstance(op, BroadcastOp)
    if free or (rows - 1) * more <= _RECOMPUTE_LIMIT:
        return ""
    return f"recomputing it for each of {rows} rows costs more"


def _why_not_by_rows(op: Operation, value: SSAValue, costs: dict[SSAValue, int]) -> str:
    """Why what stands for rows, and is gathered or takes long, must have a buffer, where vectors hold it; empty where each may be
    computed when its row is."""
    rows = prod(T.dims_of(value.type))
    if not isinstance(op, LoadOp) and facts.cost(op) < _RECOMPUTE_LIMIT:
        return ""
    if costs[value] < _HEAVY or (rows - 1) * costs[value] <= _ROWS_LIMIT:
        return ""
    return f"computing it for {rows} rows one by one costs more"


def _is_spread(value: SSAValue, plan: Plan, spread: dict[SSAValue, bool]) -> bool:
    """Whether single elements, or what is computed of them without much ado, are repeated along short rows."""
    for use in value.uses:
        user = use.operation
        if isinstance(user, BroadcastOp):
            source, result = (T.dims_of(each.type) for each in (user.source, user.result))
            often = prod(result) // prod(source)
            if source[-1:] != (1,) or result[-1] == 1:
                continue
            if result[-1] <= often <= _SHORT_ROW or _is_read_down(user.result, plan):
                return True
        elif (
            cost_model.is_lazy(user)
            and spread.get(user.results[0], False)
            and user.results[0] not in plan.kept
            and not isinstance(user, Load)
            and facts.cost(user) < _RECOMPUTE_LIMIT
            and prod(T.dims_of(user.results[0].type)) == prod(T.dims_of(value.type))
        ):
            return True
    return False


def _is_read_down(value: SSAValue, plan: Plan) -> bool:
    """Whether a reduction goes through the rows of a tile, which then asks for the number of a row again for each vector of columns."""
    return any(
        isinstance(reader, ReduceOp)
        and int_property(reader, "axis") < len(T.dims_of(reader.operands[0].type)) - 1
        for reader in plan.readers.get(value, ())
    )


def _is_handed_on(op: Operation, value: SSAValue, plan: Plan, costs: dict[SSAValue, int]) -> bool:
    """Whether another part of long code reads a tile that is costly to compute again."""
    return costs[value] > _RECOMPUTE_LIMIT and any(
        plan.segments.crosses(op, user)
        for use in value.uses
        if (user := _planned(use.operation, plan)) is not None
    )


def _loops_between(op: Operation, reader: Operation) -> int:
    """How many loops around ``reader`` do not hold ``op``."""
    home, block, count = op.parent, reader.parent, 0
    while block is not None and block is not home:
        parent = block.parent_op()
        if parent is None:
            break
        count += cost_model.repeats(parent)
        block = parent.parent
    return min(count, 3)


def _share_carried_buffers(loop: Operation, plan: Plan) -> None:
    """Let what a loop hands on be computed in the buffer of what it was handed.

    That holds for results of operations that fill a buffer of their own, of branches, and of loops that begin with
    what was handed, if nothing reads the old value after them.
    """
    block = loop.regions[0].blocks[0]
    last = block.last_op
    assert last is not None
    for argument, following in zip(block.args[1:], last.operands, strict=True):
        owner = following.owner
        if (
            isinstance(argument, BlockArgument)
            and isinstance(owner, Operation)
            and owner.parent is block
            and following not in plan.in_place
            and (
                _is_read_until(plan.last_inside[owner], argument, plan)
                if _is_chosen_tile(following, block)
                else (cost_model.works_in_place(owner) or _goes_on_with(owner, following, argument))
                and _is_read_until(plan.position[owner], argument, plan)
            )
        ):
            plan.in_place[following] = argument


def _share_handed_buffers(loop: Operation, plan: Plan) -> None:
    """Let what the first block of ``scf.while`` hands on, tiles of branches, be computed where the second one finds it, and be
    what the next round begins with where the second one hands it back.
    """
    before, after = (region.blocks[0] for region in loop.regions)
    condition, last = before.last_op, after.last_op
    assert condition is not None
    assert last is not None
    begins: dict[SSAValue, SSAValue] = {}
    for argument, following in zip(before.args, last.operands, strict=True):
        if isinstance(argument.type, T.TileType) and following in after.args:
            begins.setdefault(following, argument)
    for argument, result, handed in zip(
        after.args, loop.results, condition.operands[1:], strict=True
    ):
        if argument in begins:
            plan.handed_back[result] = begins[argument]
        if handed in plan.in_place or not _is_chosen_tile(handed, before):
            continue
        owner, first = handed.owner, begins.get(argument)
        assert isinstance(owner, Operation)
        if first is None or _is_read_until(plan.last_inside[owner], first, plan):
            plan.in_place[handed] = argument


def _is_chosen_tile(value: SSAValue, block: Block) -> bool:
    """Whether a value is a tile that one side or the other of a branch in a block gives."""
    owner = value.owner
    if not isinstance(owner, Operation) or not isinstance(value.type, T.TileType):
        return False
    return owner.name == "scf.if" and owner.parent is block


def _is_read_until(position: int, value: SSAValue, plan: Plan) -> bool:
    """Whether nothing behind a position reads a tile."""
    return all(plan.position[reader] <= position for reader in plan.readers[value])


def _goes_on_with(owner: Operation, result: SSAValue, argument: BlockArgument) -> bool:
    """Whether a result of a loop inside is what becomes of a tile that the loop outside was handed."""
    if owner.name != "scf.for" or not isinstance(result.type, T.TileType):
        return False
    first = len(owner.operands) - len(owner.results)
    number = next(number for number, each in enumerate(owner.results) if each is result)
    return owner.operands[first + number] is argument
