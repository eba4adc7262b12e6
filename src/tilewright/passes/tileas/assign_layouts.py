"""``tileas-assign-layouts``: decide which thread holds which element of every tile.

Accesses, products and reductions are anchors: each proposes the layout it works in, and layouts propagate along values.
Where two different layouts meet, the cheaper conversion is inserted. Constants, iotas, broadcasts and what is computed
from them alone have no layout of their own; they are rematerialized in each layout that a user needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import int_list
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.extensions import InsertSliceOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.pointers import BitcastOp
from tilewright.dialects.nv_tileaa.ops.shapes import CatOp, ExtractSliceOp
from tilewright.layouts import Layout
from tilewright.layouts.lane_moves import spread_out
from tilewright.layouts.layout import axis_bits
from tilewright.layouts.parts import joined_layout, part_layout, says_bits, with_all_parts
from tilewright.layouts.repacking import narrow_layout, wide_layout
from tilewright.passes.tileas import tile_ops
from tilewright.passes.tileas.access_layouts import Shape, coalesced, element_bytes, fills_sectors
from tilewright.passes.tileas.decisions import FREE, Decisions
from tilewright.passes.tileas.element_accesses import goes_by_element, updates_in_place
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.part_layouts import can_repack, repacked_bits, static_part
from tilewright.passes.tileas.product_layouts import ProductLayouts
from tilewright.passes.tileas.reduction_layouts import scan_layout, scans_well
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.target import Target
from tilewright.passes.tileas.tile_layouts import default_layout
from tilewright.passes.tileas.tile_ops import is_tile
from tilewright.passes.tileas.warp_counts import DEFAULT_WARPS, block_warps


@dataclass(frozen=True)
class AssignLayouts(FunctionPass):
    """Assigns a layout to every tile, and inserts layout conversions.

    ``num_warps``: the warps of a block of kernels without a hint. ``target``: the architecture whose instructions
    products use, such as ``sm_90a``.
    """

    name: ClassVar[str] = "tileas-assign-layouts"

    num_warps: int = DEFAULT_WARPS
    target: str = "sm_80"

    def rewrite_function(self, func: FuncOp) -> None:
        threads = 32 * block_warps(func, self.num_warps)
        assign_layouts(func, threads, Target(self.target))


def assign_layouts(
    func: FuncOp,
    threads: int,
    target: Target | None = None,
    remarks: Remarks | None = None,
    decisions: Decisions = FREE,
) -> None:
    """Give every tile of a function a layout, in place, for a block of ``threads`` threads, 32 for each warp.

    A layout says for each thread and register of a tile which element it holds; the shape of the tile stays. The rules visit
    operations in program order. An access proposes the layout in which its transactions are widest, a product that of its
    instruction on ``target``, of ``Target()`` where none is given; element-wise operations and reductions take the layout of the
    operand whose proposal is strongest, so that conversions stand where tiles are smaller or cheaper to move. Adds
    ``convert_layout``, storage in shared memory for operands that products read from there, and clones of constants and other
    sources; erases what nothing uses afterwards.

    ``decisions`` replaces choices: ``width`` limits accesses to so many bytes per thread, ``grid`` says how warps share a product.
    ``remarks`` gets the kinds ``layout``, ``rule``, ``product`` and ``grid``. An operation without a rule is no error: it works in
    the default layout, in which threads hold chunks of 4 elements in turn (``Layout.dealt``).
    """
    told = Remarks() if remarks is None else remarks
    _Assigner(func, threads, target or Target(), told, decisions).run()


class _Assigner(ProductLayouts):
    """The rules, by the names of operations (``_RULES``)."""

    def run(self) -> None:
        block = self.func.body.block
        for argument in block.args:
            if is_tile(argument):
                self.settle(argument, default_layout(argument.type, self.threads))
        self.block(block)
        self._erase_dead(block)

    def _erase_dead(self, block: Block) -> None:
        for op in reversed(list(block.ops)):
            for region in op.regions:
                for inner in region.blocks:
                    self._erase_dead(inner)
            unused = all(result.first_use is None for result in op.results)
            if op.results and unused and is_side_effect_free(op):
                op.detach()
                op.erase()

    # Operations.

    def block(self, block: Block) -> None:
        for op in list(block.ops):
            self.visit(op)

    def visit(self, op: Operation) -> None:
        rule = _RULES.get(op.name)
        if rule is not None:
            rule(self, op)
        elif tile_ops.is_elementwise(op):
            self.elementwise(op)
        elif not tile_ops.is_source(op) or any(map(is_tile, op.operands)):
            self.by_default(op)

    def broadcast(self, op: Operation) -> None:
        """Has a layout where it is asked for one."""

    def permute(self, op: Operation) -> None:
        source = op.operands[0]
        if source in self.layouts:
            order = int_list(op.properties["permutation"])
            layout = self.layouts[source].permuted(T.dims_of(source.type), order)
            self.settle(op.results[0], layout, self.strength[source])

    def reshape(self, op: Operation) -> None:
        source, result = op.operands[0], op.results[0]
        if not T.is_scalar_or_tile(source.type):
            return
        if is_tile(source) and not is_tile(result):
            self.all_in(op, default_layout(source.type, self.threads))
        elif source in self.layouts:
            self.settle(result, self.layouts[source], self.strength[source])

    def bitcast(self, op: Operation) -> None:
        """Elements of another width are packed from what a thread holds, or taken apart by it."""
        assert isinstance(op, BitcastOp)
        bits, source, result = repacked_bits(op), op.source, op.result
        if not bits or not can_repack(op):
            (self.by_default if bits else self.elementwise)(op)
            return
        own = self.layouts.get(source) or default_layout(source.type, self.threads)
        if bits < 0:
            layout = narrow_layout(own, -bits)
        else:
            layout = wide_layout(own, bits)
            if layout is None:
                wide = default_layout(result.type, self.threads)
                own, layout = narrow_layout(wide, bits), wide
        self.give(op, {0: own})
        self.settle(result, layout, self.strength.get(source, 0))

    def load(self, op: Operation) -> None:
        assert isinstance(op, Access)
        result = op.moved
        if not is_tile(result) or goes_by_element(op):
            self.by_default(op)
            return
        layout = coalesced(T.dims_of(result.type), self.threads, self.shapes[op])
        self.all_in(op, layout)
        self.settle(result, layout, 1)
        self.as_left_operand(op)
        self.as_right_operand(op)

    def store(self, op: Operation) -> None:
        assert isinstance(op, Access)
        value = op.moved
        if not is_tile(value) or goes_by_element(op):
            self.by_default(op)
            return
        dims, shape = T.dims_of(value.type), self.shapes[op]
        layout = coalesced(dims, self.threads, shape)
        own = self.layouts.get(value)
        if own is not None and fills_sectors(own, dims, shape, element_bytes(value.type)):
            layout = own
        self.all_in(op, layout)

    def atomic(self, op: Operation) -> None:
        assert isinstance(op, Access)
        value = op.moved
        if not is_tile(value):
            self.by_default(op)
            return
        own = self.layouts.get(value)
        if own is None:
            own = coalesced(T.dims_of(value.type), self.threads, self.shapes[op])
        layout = spread_out(own)
        if not updates_in_place(op, layout):
            self.by_default(op)
            return
        self.all_in(op, layout)
        self.settle(op.results[0], layout, 1)

    def reduce(self, op: Operation) -> None:
        settled = [value for value in op.operands if value in self.layouts]
        dims = T.dims_of(op.operands[0].type)
        if settled:
            best = max(settled, key=lambda value: self.strength[value])
            layout, strength = self.layouts[best].without_copies(), self.strength[best]
        else:
            shape = Shape(len(dims) - 1, 4)
            layout, strength = coalesced(dims, self.threads, shape), 0
        self.all_in(op, layout)
        axis = int_property(op, "axis")  # pyright: ignore[reportArgumentType]
        for result in tile_ops.tiles_of(op.results):
            self.settle(result, layout.sliced(dims, axis), strength)

    def scan(self, op: Operation) -> None:
        dims = T.dims_of(op.operands[0].type)
        axis = int_property(op, "axis")  # pyright: ignore[reportArgumentType]
        settled = [value for value in op.operands if value in self.layouts]
        layout, strength = scan_layout(dims, axis, self.threads), 0
        if settled:
            best = max(settled, key=lambda value: self.strength[value])
            own = self.layouts[best].without_copies()
            if scans_well(own, dims, axis):
                layout, strength = own, self.strength[best]
        self.all_in(op, layout)
        for result in tile_ops.tiles_of(op.results):
            self.settle(result, layout, strength)

    # Parts of tiles.

    def extract_slice(self, op: Operation) -> None:
        source, result = op.operands[0], op.results[0]
        part = static_part(op, source, result)
        for layout in self._own_or_default(source):
            whole = None if part is None else with_all_parts(layout, part.mask)
            if part is not None and whole is not None:
                self.give(op, {0: whole})
                strength = self.strength.get(source, 0)
                self.settle(result, part_layout(whole, part), strength)
                return
        self.by_default(op)

    def insert_slice(self, op: Operation) -> None:
        whole, source = op.operands[:2]
        part = static_part(op, whole, source)
        for layout in self._own_or_default(whole):
            if part is not None and says_bits(layout, part.mask):
                self.give(op, {0: layout, 1: part_layout(layout, part)})
                self.settle(op.results[0], layout, self.strength.get(whole, 0))
                return
        self.by_default(op)

    def cat(self, op: Operation) -> None:
        settled = [value for value in op.operands if value in self.layouts]
        best = max(settled, key=lambda value: self.strength[value], default=op.operands[0])
        layout, result = self._own_or_default(best)[0], op.results[0]
        axis = int_property(op, "axis")  # pyright: ignore[reportArgumentType]
        self.all_in(op, layout)
        bit = axis_bits(T.dims_of(result.type))[axis].stop - 1
        self.settle(result, joined_layout(layout, bit), self.strength.get(best, 0))

    def _own_or_default(self, value: SSAValue) -> list[Layout]:
        """The layout that a tile has, where it has one, and the one by default."""
        own = self.layouts.get(value)
        default = default_layout(value.type, self.threads)
        return [default] if own is None else [own.without_copies(), default]

    # Control flow.

    def loop(self, op: Operation) -> None:
        assert isinstance(op, scf.ForOp)
        body = op.body.block
        carried = body.args[1:]
        end = body.last_op
        assert end is not None
        for argument, yielded in zip(carried, end.operands, strict=True):
            # What adds up products is held as these are, also where an iteration first uses it for something else.
            made = yielded.owner
            sums = self.planned_accumulator(made) if isinstance(made, DotOp) else None
            if sums is not None and made.parent is body:
                self.settle(argument, sums, 3)
        self.block(body)
        for number, argument in enumerate(carried):
            if not is_tile(argument):
                continue
            yielded = end.operands[number]
            if argument not in self.layouts:
                layout = self.layouts.get(yielded)
                self.settle(argument, layout or default_layout(argument.type, self.threads))
            layout = self.layouts[argument]
            strength = max(self.strength.get(yielded, 0), self.strength[argument])
            end.operands[number] = self.wanted(yielded, layout)
            op.operands[3 + number] = self.wanted(op.operands[3 + number], layout)
            self.settle(op.results[number], layout, strength)

    def branch(self, op: Operation) -> None:
        ends: list[Operation] = []
        for region in op.regions:
            for block in region.blocks:
                self.block(block)
                if block.last_op is not None:
                    ends.append(block.last_op)
        for number, result in enumerate(op.results):
            if not is_tile(result):
                continue
            given = [end.operands[number] for end in ends]
            best = max(
                (value for value in given if value in self.layouts),
                key=lambda value: self.strength[value],
                default=None,
            )
            layout = (
                default_layout(result.type, self.threads) if best is None else self.layouts[best]
            )
            for end in ends:
                end.operands[number] = self.wanted(end.operands[number], layout)
            self.settle(result, layout, 0 if best is None else self.strength[best])

    def while_loop(self, op: Operation) -> None:
        assert isinstance(op, scf.WhileOp)
        before, after = op.before_region.block, op.after_region.block
        self.block(before)
        condition = before.last_op
        assert condition is not None
        for number, argument in enumerate(after.args):
            if is_tile(argument):
                given = condition.operands[1 + number]
                layout = self.layouts.get(given) or default_layout(argument.type, self.threads)
                condition.operands[1 + number] = self.wanted(given, layout)
                self.settle(argument, layout)
                self.settle(op.results[number], layout)
        self.block(after)
        end = after.last_op
        assert end is not None
        for number, argument in enumerate(before.args):
            if is_tile(argument):
                given = end.operands[number]
                if argument not in self.layouts:
                    layout = self.layouts.get(given)
                    self.settle(argument, layout or default_layout(argument.type, self.threads))
                layout = self.layouts[argument]
                end.operands[number] = self.wanted(given, layout)
                op.operands[number] = self.wanted(op.operands[number], layout)

    def leave(self, op: Operation) -> None:
        """What control flow does with its ends, the loop or branch has seen to."""


_Rule = Callable[[_Assigner, Operation], None]
_RULES: dict[str, _Rule] = {
    tile_ops.BROADCAST: _Assigner.broadcast,
    tile_ops.PERMUTE: _Assigner.permute,
    **dict.fromkeys(tile_ops.RESHAPES, _Assigner.reshape),
    BitcastOp.name: _Assigner.bitcast,
    **dict.fromkeys(tile_ops.LOADS, _Assigner.load),
    **dict.fromkeys(tile_ops.STORES, _Assigner.store),
    **dict.fromkeys(tile_ops.ATOMICS, _Assigner.atomic),
    tile_ops.REDUCE: _Assigner.reduce,
    tile_ops.SCAN: _Assigner.scan,
    ExtractSliceOp.name: _Assigner.extract_slice,
    InsertSliceOp.name: _Assigner.insert_slice,
    CatOp.name: _Assigner.cat,
    tile_ops.DOT: _Assigner.dot,
    "scf.for": _Assigner.loop,
    "scf.if": _Assigner.branch,
    "scf.while": _Assigner.while_loop,
    "scf.yield": _Assigner.leave,
    "scf.condition": _Assigner.leave,
}
