"""Layouts of products and their operands: the instruction for each product, the grid of its warps, and whether an operand comes
through registers or shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects import builtin as b
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import CAPABILITY
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.pointers import FpToFpOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.types import SharedAttr
from tilewright.dialects.upstream.nvvm.conversions import ROUNDS_TO_TF32
from tilewright.layouts import Layout, SharedLayout, plan_conversion
from tilewright.layouts.conversions import shared_between, waves_of
from tilewright.layouts.layout import axis_bits
from tilewright.passes.base import inherit_location
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.decisions import Decisions
from tilewright.passes.tileas.left_operands import computed_left
from tilewright.passes.tileas.operand_layouts import fastest_axis, operand_storage
from tilewright.passes.tileas.product_grids import P, arranged, other_grids
from tilewright.passes.tileas.products import WIDENED, WIDER, Plan, chained_products, plan_product
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.right_operands import (
    MOST_ROWS,
    RightOperand,
    may_be_right,
    plan_right,
)
from tilewright.passes.tileas.target import Target
from tilewright.passes.tileas.thread_products import FMA, plan_threads
from tilewright.passes.tileas.tile_layouts import TileLayouts
from tilewright.passes.tileas.warpgroup_products import WarpgroupPlan, plan_warpgroups


def capability_of(func: FuncOp) -> int:
    """The compute capability, times ten, that a function is lowered for; that of Ampere where its module
    does not say."""
    module = func.parent_op()
    found = None if module is None else module.attributes.get(CAPABILITY)
    return found.value.data if isinstance(found, b.IntegerAttr) else 80


class ProductLayouts(TileLayouts):
    """The rule for products, and what other rules ask about them before they are visited."""

    def __init__(
        self, func: FuncOp, threads: int, target: Target, remarks: Remarks, decisions: Decisions
    ):
        super().__init__(func, threads, target, remarks, decisions)
        self.chained = chained_products(func)
        #: Products, and grids of warps, whose right operand threads compute: how, where they do.
        self.rights: dict[tuple[Operation, tuple[int, int]], RightOperand | None] = {}

    def as_right_operand(self, op: Access) -> None:
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
            held = self.converted(result, right.layout)
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

    def as_left_operand(self, op: Access) -> None:
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
        storage = self.stored_copy(behind, result, SharedAttr.of(places))
        loaded = self.from_storage(behind, result, storage, fragment, 2)
        for use in users:
            use.operation.operands[use.index] = loaded

    def dot(self, op: Operation) -> None:
        """Settle a product by the instruction that the target has for its types and shapes, else by threads."""
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

    def planned_accumulator(self, op: DotOp) -> Layout | None:
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
            value = self.held(given)
            own, dims = self.layouts[value], T.dims_of(value.type)
            places = plan.storage(own, dims, fastest_axis(own, dims), side)
            operands.append(self.stored_copy(op, value, SharedAttr.of(places)))
        self._product(op, operands, plan.accumulator, plan.warps, {"atom": b.StringAttr(FMA)})

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
        storage = self.stored_copy(op, given, SharedAttr.of(places))
        loaded = self.from_storage(op, given, storage, layout, 3)
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
        dims, value = T.dims_of(value.type), self.held(value)
        if plan.bits == 16:
            inner = fastest_axis(self.layouts[value], dims)
            if inner < len(dims) - 2:
                inner = len(dims) - 1
        if isinstance(plan, WarpgroupPlan):
            places = SharedLayout.swizzled(dims, inner, plan.bits // 8)
        else:
            places = operand_storage(self.layouts[value], dims, inner, plan.bits // 8)
        return self.stored_copy(op, value, SharedAttr.of(places))
