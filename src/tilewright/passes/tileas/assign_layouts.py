"""``tileas-assign-layouts``: decide which thread holds which element of every tile.

Accesses, products and reductions are anchors: each proposes the layout it works in, and layouts propagate along values.
Where two different layouts meet, the cheaper conversion is inserted. Constants, iotas, broadcasts and what is computed
from them alone have no layout of their own; they are rematerialized in each layout that a user needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from xdsl.dialects import builtin as b
from xdsl.dialects import scf
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from tilewright.analysis.tileaa import Facts
from tilewright.dialects.arith.constants import ConstantOp, ElementsAttr
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.attributes import KernelSpecAttr
from tilewright.dialects.nv_tileaa.base import CAPABILITY, int_list
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.extensions import InsertSliceOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.pointers import BitcastOp, FpToFpOp
from tilewright.dialects.nv_tileaa.ops.shapes import CatOp, ExtractOp, ExtractSliceOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.types import (
    SharedAttr,
    TiledViewType,
    with_layout,
)
from tilewright.dialects.upstream.nvvm.conversions import ROUNDS_TO_TF32
from tilewright.layouts import Layout, SharedLayout, plan_conversion
from tilewright.layouts.conversions import shared_between
from tilewright.layouts.lane_moves import spread_out
from tilewright.layouts.layout import axis_bits
from tilewright.layouts.parts import joined_layout, part_layout, says_bits, with_all_parts
from tilewright.layouts.repacking import narrow_layout, wide_layout
from tilewright.passes.base import inherit_location
from tilewright.passes.tileas import tile_ops
from tilewright.passes.tileas.access_layouts import (
    WIDEST,
    Shape,
    access_shape,
    coalesced,
    element_bytes,
    fills_sectors,
)
from tilewright.passes.tileas.decisions import FREE, Decisions
from tilewright.passes.tileas.element_accesses import goes_by_element, updates_in_place
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.left_operands import computed_left
from tilewright.passes.tileas.operand_layouts import fastest_axis, operand_layouts, operand_storage
from tilewright.passes.tileas.part_layouts import can_repack, repacked_bits, static_part
from tilewright.passes.tileas.product_grids import P, arranged, other_grids
from tilewright.passes.tileas.products import WIDENED, WIDER, Plan, chained_products, plan_product
from tilewright.passes.tileas.reduction_layouts import scan_layout, scans_well
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.right_operands import (
    MOST_ROWS,
    RightOperand,
    may_be_right,
    plan_right,
)
from tilewright.passes.tileas.target import Target
from tilewright.passes.tileas.thread_products import FMA, plan_threads, waves_of
from tilewright.passes.tileas.tile_ops import is_tile
from tilewright.passes.tileas.warp_counts import check_warps
from tilewright.passes.tileas.warpgroup_products import WarpgroupPlan, plan_warpgroups

DEFAULT_WARPS = 4


def retype(value: SSAValue, layout: Layout) -> None:
    """Give a tile a layout, in place; a constant's value has its type, too."""
    ty = with_layout(value.type, layout)
    value._type = ty
    if isinstance(value.owner, ConstantOp):
        held = value.owner.properties["value"]
        assert isinstance(held, ElementsAttr)
        value.owner.properties["value"] = ElementsAttr(ty, held.data.data)


def capability_of(func: FuncOp) -> int:
    """The compute capability, times ten, that a function is lowered for; that of Ampere where its module
    does not say."""
    module = func.parent_op()
    found = None if module is None else module.attributes.get(CAPABILITY)
    return found.value.data if isinstance(found, b.IntegerAttr) else 80


def block_warps(func: FuncOp, default: int = DEFAULT_WARPS) -> int:
    """The warps of a block of a kernel; a ``TileIRError`` where a block cannot have so many."""
    spec = func.properties.get("kernel_spec")
    warps = spec.integer("numWarps") if isinstance(spec, KernelSpecAttr) else default
    check_warps(warps)
    return warps


def default_layout(ty: Attribute, threads: int) -> Layout:
    """The layout that operations without one of their own work in."""
    return Layout.dealt(prod(T.dims_of(ty)), threads)


@dataclass(frozen=True)
class AssignLayouts(FunctionPass):
    """Assigns a layout to every tile, and inserts layout conversions."""

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


class _Assigner:
    """The rules, by the names of operations (``_RULES``). A tile without an entry in ``layouts`` is computed again in each
    layout that a user asks for; ``strength`` says how much a layout has in its favour where several meet: 0 nothing, 1 an
    access, 2 an operand that threads compute, 3 a product."""

    def __init__(
        self, func: FuncOp, threads: int, target: Target, remarks: Remarks, decisions: Decisions
    ):
        self.func, self.threads, self.target, self.remarks = func, threads, target, remarks
        self.decisions = decisions
        self.facts = Facts(func)
        self.layouts: dict[SSAValue, Layout] = {}
        self.strength: dict[SSAValue, int] = {}
        self.copies: dict[tuple[SSAValue, Layout], SSAValue] = {}
        self.chained = chained_products(func)
        self.shapes = {op: self._shape(op) for op in func.walk() if isinstance(op, Access)}
        self.staged: dict[tuple[SSAValue, int], SSAValue] = {}
        #: Products, and grids of warps, whose right operand threads compute: how, where they do.
        self.rights: dict[tuple[Operation, tuple[int, int]], RightOperand | None] = {}
        #: Storage by the value that it holds, and by the block behind whose copy it does.
        self.stored: dict[tuple[SSAValue, Attribute, Block], SSAValue] = {}

    def _shape(self, op: Access) -> Shape:
        """How an access moves its elements, at most as wide as requested."""
        found = access_shape(self.facts, op)
        if self.decisions.width is None:
            return found
        return found.narrowed(max(self.decisions.width // element_bytes(op.moved.type), 1))

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

    # Values.

    def settle(self, value: SSAValue, layout: Layout, strength: int = 0) -> None:
        """Let a value be held in a layout."""
        self.layouts[value] = layout
        self.strength[value] = strength
        retype(value, layout)

    def floats(self, value: SSAValue) -> bool:
        return is_tile(value) and value not in self.layouts

    def wanted(self, value: SSAValue, layout: Layout) -> SSAValue:
        """The value in a layout."""
        if not is_tile(value):
            return value
        found = self.layouts.get(value)
        if found == layout:
            return value
        if found is None and isinstance(value, BlockArgument):
            # Nobody has said how a loop should carry it, so that the first one does.
            self.settle(value, layout)
            return value
        key = (value, layout)
        if key not in self.copies:
            self.copies[key] = (
                self._again(value, layout) if found is None else self._converted(value, layout)
            )
        return self.copies[key]

    def _converted(self, value: SSAValue, layout: Layout) -> SSAValue:
        op = S.ConvertLayoutOp.create(
            operands=(value,), result_types=(with_layout(value.type, layout),)
        )
        self._behind(value, op)
        self.settle(op.results[0], layout, self.strength.get(value, 0))
        return op.results[0]

    def _behind(self, value: SSAValue, op: Operation) -> None:
        """Put a new operation behind what makes a value."""
        owner = value.owner
        if isinstance(owner, Operation):
            inherit_location(op, owner)
            Rewriter.insert_op(op, InsertPoint.after(owner))
        else:
            parent = owner.parent_op()
            if parent is not None:
                inherit_location(op, parent)
            Rewriter.insert_op(op, InsertPoint.at_start(owner))

    def _again(self, value: SSAValue, layout: Layout) -> SSAValue:
        """What a value without a layout is, computed in one."""
        op = value.owner
        assert isinstance(op, Operation)
        new = op.clone({})
        for position, wanted in operand_layouts(op, layout).items():
            new.operands[position] = self.wanted(op.operands[position], wanted)
        inherit_location(new, op)
        Rewriter.insert_op(new, InsertPoint.after(op))
        (result,) = new.results
        self.settle(result, layout)
        result.name_hint = value.name_hint
        return result

    def give(self, op: Operation, layouts: dict[int, Layout]) -> None:
        """Make operands, by position, those in these layouts."""
        for position, layout in layouts.items():
            op.operands[position] = self.wanted(op.operands[position], layout)

    def all_in(self, op: Operation, layout: Layout) -> None:
        self.give(op, {n: layout for n, value in enumerate(op.operands) if is_tile(value)})

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

    def elementwise(self, op: Operation) -> None:
        tiles = tile_ops.tiles_of(op.operands)
        settled = [value for value in tiles if value in self.layouts]
        if not settled:
            return
        best = max(settled, key=lambda value: self.strength[value])
        layout = self.layouts[best]
        self.all_in(op, layout)
        for result in op.results:
            self.settle(result, layout, self.strength[best])

    def by_default(self, op: Operation) -> None:
        """Operations for which threads have no layout of their own."""
        one = isinstance(op, ExtractOp) and prod(T.dims_of(op.source.type)) == 1
        if op.regions or (isinstance(op, _SLOW) and not one):
            self.remarks.add("layout", f"'{op.name}' goes through shared memory", op)
        elif isinstance(op, Access) and goes_by_element(op):
            self.remarks.add(
                "rule",
                f"'{op.name}' accesses one element at a time: it is ordered or gathers rows",
                op,
            )
        elif any(map(is_tile, (*op.operands, *op.results))):
            self.remarks.add(
                "rule", f"'{op.name}' has no scheduled lowering: it uses the default layout", op
            )
        layouts = {
            n: default_layout(value.type, self.threads)
            for n, value in enumerate(op.operands)
            if is_tile(value)
        }
        self.give(op, layouts)
        for result in tile_ops.tiles_of(op.results):
            self.settle(result, default_layout(result.type, self.threads))

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
        self._access(op, layout)
        self.settle(result, layout, 1)
        self._as_left_operand(op)
        self._as_right_operand(op)

    def _as_right_operand(self, op: Access) -> None:
        """Where a product takes as its right operand what is computed from a loaded tile of bytes, and no two warps need the
        same of it, threads compute in registers what they multiply."""
        block, result = op.parent, op.moved
        if block is None or not may_be_right(op):
            return
        for product in block.ops:
            plan = self._planned(product) if isinstance(product, DotOp) else None
            right = self._right(product, plan) if isinstance(plan, Plan) else None
            if right is None or right.load is not op:
                continue
            self.remarks.add("product", "the right operand is computed in registers", op)
            users = list(result.uses)
            held = self._converted(result, right.layout)
            self.strength[held] = 2
            for use in users:
                use.operation.operands[use.index] = held

    def _right(self, op: Operation, plan: Plan) -> RightOperand | None:
        """How threads compute the right operand of a product, as was found before its load had a layout."""
        key = op, plan.warps
        if key not in self.rights:
            assert isinstance(op, DotOp)
            self.rights[key] = plan_right(op, plan, self.shapes, self.layouts)
        return self.rights[key]

    def _as_left_operand(self, op: Access) -> None:
        """Where products of the iteration take as their left operand what is computed from a loaded tile, each thread computes what
        it multiplies: the tile lies in shared memory as it was loaded, where it can come without the threads."""
        result, shape = op.moved, self.shapes[op]
        dims, size = T.dims_of(result.type), element_bytes(result.type)
        plans = [self._planned(product) for product in computed_left(op)]
        fragments = {None if plan is None else plan.a for plan in plans}
        fragment = fragments.pop() if len(fragments) == 1 else None
        if fragment is None or fragment.is_replicated or shape.axis != len(dims) - 1:
            return
        behind = op.next_op
        assert behind is not None
        self.remarks.add(
            "product",
            "the left operand is computed in registers, in the layout in which its tile is loaded",
            op,
        )
        users = list(result.uses)
        places = SharedLayout.swizzled(dims, shape.axis, size)
        storage = self._stored(behind, result, SharedAttr.of(places))
        loaded = self._from_storage(behind, result, storage, fragment, 2)
        for use in users:
            use.operation.operands[use.index] = loaded

    def _from_storage(
        self, op: Operation, value: SSAValue, storage: SSAValue, layout: Layout, strength: int
    ) -> SSAValue:
        """A tile that lies in storage, loaded from there in front of an operation."""
        new = S.LocalLoadOp.create(
            operands=(storage,), result_types=(with_layout(value.type, layout),)
        )
        inherit_location(new, op)
        Rewriter.insert_op(new, InsertPoint.before(op))
        self.settle(new.results[0], layout, strength)
        new.results[0].name_hint = value.name_hint
        return new.results[0]

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
        self._access(op, layout)

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
        self._access(op, layout)
        self.settle(op.results[0], layout, 1)

    def _access(self, op: Access, layout: Layout) -> None:
        """All tiles of an access in one layout."""
        self.all_in(op, layout)

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

    # Products.

    def dot(self, op: Operation) -> None:
        assert isinstance(op, DotOp)
        if self._by_warpgroups(op):
            return
        plan = plan_product(op, self.threads // 32, op in self.chained, self.target)
        if plan is None:
            self._by_threads(op)
            return
        turned = self._transposed(op, plan)
        if any(turned):
            plan = plan.with_turned(turned, op in self.chained)
        plan = self._arranged(op, plan)
        self.remarks.add("product", plan.describe(), op)
        if plan.atom == WIDENED and "fast_acc" not in op.attributes and self.target.adds_coarsely:
            self.remarks.add(
                "product",
                "f8 tensor cores accumulate with 14 bits, which requires fast_acc",
                op,
            )
        sums = plan.accumulator
        operands = [self._operand(op, plan, side) for side in (0, 1)]
        properties: dict[str, Attribute] = {}
        if plan.atom != "mma_sync":
            properties["atom"] = b.StringAttr(plan.atom)
        self._product(op, operands, sums, plan.warps, properties)

    def _arranged(self, op: DotOp, plan: P, remarks: Remarks | None = None) -> P:
        """A plan with the grid of warps that is best; where sums of another product go on in this one, with theirs."""
        is_chained, grid = op in self.chained, self.decisions.grid
        if grid is None and not is_chained and (own := self.layouts.get(op.c)) is not None:
            for each in (plan, *other_grids(plan)):
                if (spread := self._spread(op, each)).accumulator == own:
                    return spread
        told = self.remarks if remarks is None else remarks
        if grid is None and not is_chained and isinstance(plan, Plan):
            for each in (plan, *other_grids(plan)):
                if each.dims[-2] <= MOST_ROWS and self._right(op, each) is not None:
                    return self._spread(op, each)
        return self._spread(op, arranged(op, plan, is_chained, self.target, told, grid))

    def _spread(self, op: DotOp, plan: P) -> P:
        """A plan with as many neighbours in a thread as are best for a right operand that threads compute."""
        right = self._right(op, plan) if isinstance(plan, Plan) else None
        return plan if right is None else replace(plan, spread=right.spread)

    def _planned_accumulator(self, op: DotOp) -> Layout | None:
        """The layout that the sums of a product will have, which is that of the product whose sums go on in it; None where
        it depends on how operands lie."""
        while isinstance(before := op.c.owner, DotOp) and before.parent is op.parent:
            op = before
        plan = self._planned(op)
        return None if plan is None or plan.bits != 16 else plan.accumulator

    def _planned(self, op: DotOp) -> Plan | WarpgroupPlan | None:
        """How a product will be made, as far as that does not depend on how its operands lie."""
        warps = self.threads // 32
        if self.target.has_wgmma and (groups := plan_warpgroups(op, warps)) is not None:
            return self._arranged(op, groups, Remarks())
        plan = plan_product(op, warps, op in self.chained, self.target)
        return None if plan is None else self._arranged(op, plan, Remarks())

    def _transposed(self, op: DotOp, plan: Plan) -> tuple[bool, bool]:
        """Which operands of 8 bits stay along the rows or columns of the result, as they come."""
        found: list[bool] = []
        for value, layout, can in zip(
            (op.a, op.b), (plan.a, plan.b), plan.can_transpose, strict=True
        ):
            own, dims = self.layouts.get(value), T.dims_of(value.type)
            other = len(dims) - 2 if value is op.a else len(dims) - 1
            can = can and own is not None and self._inner_axis(value) == other
            held = own is not None and plan_conversion(own, layout, 1).registers is not None
            found.append(can and not held)
        return found[0], found[1]

    def _by_warpgroups(self, op: DotOp) -> bool:
        """Make a product one of ``wgmma``, where the GPU has it, and in the layouts that operands
        have."""
        plan = plan_warpgroups(op, self.threads // 32) if self.target.has_wgmma else None
        if plan is None:
            return False
        plan = self._arranged(op, plan)
        along_k = len(plan.a_dims) - 1
        own = self.layouts.get(op.a)
        in_registers = (
            own is not None and plan_conversion(own, plan.a, plan.bits // 8).registers is not None
        )
        if plan.bits != 16:
            # Elements of other sizes lie along k, and tiles stay as they are in memory.
            k_inner = [self._inner_axis(value) for value in (op.a, op.b)]
            if (not in_registers and k_inner[0] != along_k) or k_inner[1] != along_k - 1:
                self.remarks.add(
                    "product", f"no wgmma: an operand of {plan.name} is not contiguous along k", op
                )
                return False
        self.remarks.add("product", plan.describe(), op)
        a = None
        if plan.name == "tf32" and not in_registers:
            # Rounded on its way to registers, it is not written to shared memory again.
            a = self._rounded_behind(op, op.a, plan.a)
        if a is None:
            a = (
                self.wanted(op.a, plan.a)
                if in_registers
                else self._in_shared(op, op.a, plan, along_k)
            )
        right = self._in_shared(op, op.b, plan, along_k - 1)
        self._product(op, (a, right), plan.accumulator, plan.warps, {"atom": b.StringAttr("wgmma")})
        return True

    def _by_threads(self, op: DotOp) -> None:
        """Let threads multiply, for lack of an instruction of the tensor cores."""
        plan = plan_threads(op, self.threads)
        if plan is None:
            self.remarks.add("product", "no tensor-core instruction has these types and shapes", op)
            self.by_default(op)
            return
        self.remarks.add("product", plan.describe(), op)
        operands: list[SSAValue] = []
        for side, given in enumerate((op.a, op.b)):
            value = self._held(given)
            own, dims = self.layouts[value], T.dims_of(value.type)
            places = plan.storage(own, dims, fastest_axis(own, dims), side)
            operands.append(self._stored(op, value, SharedAttr.of(places)))
        self._product(op, operands, plan.accumulator, plan.warps, {"atom": b.StringAttr(FMA)})

    def _held(self, value: SSAValue) -> SSAValue:
        """The value in a layout: its own, or one with neighbours along its last axis."""
        if value in self.layouts:
            return value
        dims, chunk = T.dims_of(value.type), WIDEST // element_bytes(value.type)
        return self.wanted(value, coalesced(dims, self.threads, Shape(len(dims) - 1, chunk)))

    def _inner_axis(self, value: SSAValue) -> int:
        """The axis along which a tile comes from memory."""
        dims = T.dims_of(value.type)
        layout = self.layouts.get(value)
        return len(dims) - 1 if layout is None else fastest_axis(layout, dims)

    def _product(
        self,
        op: DotOp,
        operands: Sequence[SSAValue],
        sums: Layout,
        warps: Sequence[int],
        properties: dict[str, Attribute],
    ) -> None:
        """Put a product with layouts in the place of one without."""
        c = self.wanted(op.c, sums)
        properties["warps"] = b.DenseArrayBase.from_list(b.i64, list(warps))
        for name in ("signedness_a", "signedness_b", "propagate_nan"):
            if name in op.properties:
                properties[name] = op.properties[name]
        new = S.DotOp.create(operands=(*operands, c), result_types=(c.type,), properties=properties)
        inherit_location(new, op)
        Rewriter.insert_op(new, InsertPoint.before(op))
        new.result.name_hint = op.result.name_hint
        op.result.replace_all_uses_with(new.result)
        op.detach()
        op.erase()
        self.layouts[new.result], self.strength[new.result] = sums, 3

    def _operand(self, op: DotOp, plan: Plan, side: int) -> SSAValue:
        """The left or right operand as the tensor cores take it: in registers where it is there, or where
        they have no other way; else in shared memory."""
        value, layout = ((op.a, plan.a), (op.b, plan.b))[side]
        is_transposed = plan.turned[side]
        if plan.name not in WIDER:
            value = self._widened(op, value, plan.name)
        own = self.layouts.get(value)
        size = plan.fragment.bits // 8
        if plan.name == "tf32" and capability_of(self.func) >= ROUNDS_TO_TF32:
            found = self._rounded_behind(op, value, layout)
            if found is not None:
                return found
        if plan.fragment.bits == 64:
            return self.wanted(value, layout)
        held = own is not None and plan_conversion(own, layout, size).registers is not None
        if held and not is_transposed:
            return self.wanted(value, layout)
        last = len(T.dims_of(value.type)) - 1
        # Along k, which is the last axis of A and the one before of B, unless it is turned.
        return self._in_shared(op, value, plan, last - (side != is_transposed))

    def _rounded_behind(self, op: Operation, value: SSAValue, layout: Layout) -> SSAValue | None:
        """A loaded tile of f32 that is rounded to tf32: it lies in shared memory as it was loaded, so that
        it can come there without the threads, and each thread rounds what it takes from there."""
        rounding = value.owner
        if not isinstance(rounding, FpToFpOp) or rounding.parent is not op.parent:
            return None
        given = rounding.operands[0]
        if given not in self.layouts or not isinstance(given.owner, Access):
            return None
        if T.element_name(T.element_of(given.type)) != "f32":
            return None
        own, access = self.layouts[given], self.shapes[given.owner]
        dims = T.dims_of(given.type)
        bits = list(axis_bits(dims)[access.axis])[: own.run(dims, access.axis).bit_length() - 1]
        swizzled = SharedLayout.swizzled(dims, access.axis, 4)
        places = min(
            (swizzled, shared_between(own, layout, 4, [1 << bit for bit in bits[:2]])),
            key=lambda found: max(waves_of(each, found, 4) for each in (own, layout)),
        )
        storage = self._stored(op, given, SharedAttr.of(places))
        loaded = self._from_storage(op, given, storage, layout, 3)
        new = rounding.clone({given: loaded})
        inherit_location(new, op)
        Rewriter.insert_op(new, InsertPoint.before(op))
        self.settle(new.results[0], layout, 3)
        return new.results[0]

    def _widened(self, op: Operation, value: SSAValue, name: str) -> SSAValue:
        """The operand in the type that the tensor cores have."""
        if T.element_name(T.element_of(value.type)) == name:
            return value
        ty = T.TileType(T.dims_of(value.type), b.f16)
        new = FpToFpOp.create(operands=(value,), result_types=(ty,))
        inherit_location(new, op)
        Rewriter.insert_op(new, InsertPoint.before(op))
        self.elementwise(new)
        return new.results[0]

    def _in_shared(
        self, op: Operation, value: SSAValue, plan: Plan | WarpgroupPlan, inner: int
    ) -> SSAValue:
        dims, value = T.dims_of(value.type), self._held(value)
        if plan.bits == 16:
            inner = fastest_axis(self.layouts[value], dims)
            if inner < len(dims) - 2:
                inner = len(dims) - 1
        if isinstance(plan, WarpgroupPlan):
            places = SharedLayout.swizzled(dims, inner, plan.bits // 8)
        else:
            places = operand_storage(self.layouts[value], dims, inner, plan.bits // 8)
        return self._stored(op, value, SharedAttr.of(places))

    def _stored(self, op: Operation, value: SSAValue, places: SharedAttr) -> SSAValue:
        """Storage with a copy of a value, made in front of the loops that do not change it."""
        ty = TiledViewType(T.dims_of(value.type), T.element_of(value.type), "smem", places)
        op = _before_loops(op, value)
        block = op.parent
        assert block is not None
        if (found := self.stored.get((value, ty, block))) is not None:
            return found
        storage = S.AllocTensorOp.create(result_types=(ty,))
        inherit_location(storage, op)
        Rewriter.insert_op(storage, InsertPoint.at_start(self.func.body.block))
        copy = S.CopyOp.create(operands=(value, storage.results[0]))
        inherit_location(copy, op)
        Rewriter.insert_op(copy, InsertPoint.before(op))
        self.stored[value, ty, block] = storage.results[0]
        return storage.results[0]

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
            sums = self._planned_accumulator(made) if isinstance(made, DotOp) else None
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


def _before_loops(op: Operation, value: SSAValue) -> Operation:
    """The outermost loop around an operation in which a value is not made, else the operation."""
    home = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while op.parent is not home:
        outer = op.parent_op()
        if not isinstance(outer, scf.ForOp | scf.WhileOp):
            break
        op = outer
    return op


#: Operations without a rule of their own, whose elements change places.
_SLOW = (ExtractOp, ExtractSliceOp, InsertSliceOp)


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
