"""Layouts of tiles while they are assigned: what each tile is held in so far, and tiles in other layouts where users want them."""

from __future__ import annotations

from math import prod

from xdsl.dialects import scf
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.analysis.tileaa import Facts
from tilewright.dialects.arith.constants import ConstantOp, ElementsAttr
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.extensions import InsertSliceOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.shapes import ExtractOp, ExtractSliceOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.types import SharedAttr, TiledViewType, with_layout
from tilewright.layouts import Layout
from tilewright.layouts.conversions import WIDEST
from tilewright.passes.base import inherit_location
from tilewright.passes.tileas import tile_ops
from tilewright.passes.tileas.access_layouts import (
    Shape,
    access_shape,
    coalesced,
    element_bytes,
)
from tilewright.passes.tileas.decisions import Decisions
from tilewright.passes.tileas.element_accesses import goes_by_element
from tilewright.passes.tileas.operand_layouts import operand_layouts
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.schedule_builder import put_behind
from tilewright.passes.tileas.target import Target
from tilewright.passes.tileas.tile_ops import is_tile

#: Operations without a rule of their own, whose elements change places.
_SLOW = (ExtractOp, ExtractSliceOp, InsertSliceOp)


def retype(value: SSAValue, layout: Layout) -> None:
    """Give a tile a layout, in place; a constant's value has its type, too."""
    ty = with_layout(value.type, layout)
    value._type = ty
    if isinstance(value.owner, ConstantOp):
        held = value.owner.properties["value"]
        assert isinstance(held, ElementsAttr)
        value.owner.properties["value"] = ElementsAttr(ty, held.data.data)


def default_layout(ty: Attribute, threads: int) -> Layout:
    """The layout that operations without one of their own work in: chunks of 4 elements, dealt to threads in turn."""
    return Layout.dealt(prod(T.dims_of(ty)), threads)


class TileLayouts:
    """The layouts that tiles of a function have so far. A tile without an entry in ``layouts`` is computed again in each
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
        self.shapes = {op: self._shape(op) for op in func.walk() if isinstance(op, Access)}
        #: Storage by the value that it holds, and by the block behind whose copy it does.
        self.stored: dict[tuple[SSAValue, Attribute, Block], SSAValue] = {}

    def _shape(self, op: Access) -> Shape:
        """How an access moves its elements, at most as wide as requested."""
        found = access_shape(self.facts, op)
        if self.decisions.width is None:
            return found
        return found.narrowed(max(self.decisions.width // element_bytes(op.moved.type), 1))

    def settle(self, value: SSAValue, layout: Layout, strength: int = 0) -> None:
        """Let a value be held in a layout, in place. ``strength`` decides which operand's layout a result takes."""
        self.layouts[value] = layout
        self.strength[value] = strength
        retype(value, layout)

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
                self._again(value, layout) if found is None else self.converted(value, layout)
            )
        return self.copies[key]

    def converted(self, value: SSAValue, layout: Layout) -> SSAValue:
        """The value converted to a layout, behind what makes it, whether or not it is there already."""
        op = S.ConvertLayoutOp.to(value, layout)
        put_behind(value, op)
        self.settle(op.results[0], layout, self.strength.get(value, 0))
        return op.results[0]

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
        """Make all operands that are tiles those in one layout."""
        self.give(op, {n: layout for n, value in enumerate(op.operands) if is_tile(value)})

    def elementwise(self, op: Operation) -> None:
        """Results have the layout of the operand whose layout is strongest; none where no operand has one."""
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

    def held(self, value: SSAValue) -> SSAValue:
        """The value in a layout: its own, or one with neighbours along its last axis."""
        if value in self.layouts:
            return value
        dims, chunk = T.dims_of(value.type), WIDEST // element_bytes(value.type)
        return self.wanted(value, coalesced(dims, self.threads, Shape(len(dims) - 1, chunk)))

    def from_storage(
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

    def stored_copy(self, op: Operation, value: SSAValue, places: SharedAttr) -> SSAValue:
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


def _before_loops(op: Operation, value: SSAValue) -> Operation:
    """The outermost loop around an operation in which a value is not made, else the operation."""
    home = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while op.parent is not home:
        outer = op.parent_op()
        if not isinstance(outer, scf.ForOp | scf.WhileOp):
            break
        op = outer
    return op
