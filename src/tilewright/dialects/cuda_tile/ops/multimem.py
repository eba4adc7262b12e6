"""Accesses to multicast memory: every replica at once (13.5)."""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import (
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile import constraints as K
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.base import TileOp, tile_op
from tilewright.dialects.cuda_tile.directives import VOCABULARY, syntax
from tilewright.dialects.cuda_tile.enums import (
    MemoryOrderingSemanticsAttr,
    MemoryScopeAttr,
    MultimemReductionKind,
    MultimemReductionKindAttr,
)
from tilewright.dialects.cuda_tile.ops.memory import (
    LOAD_ORDERS,
    MULTICAST_POINTER,
    STORE_ORDERS,
    check_ordering,
    is_multicast,
)
from tilewright.dialects.cuda_tile.ops.views import (
    VIEW_TILE,
    InBounds,
    ViewAccess,
    check_inbounds,
    check_indices,
)
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.dialects.declare import Report, attr, bool_values, enum_property, examples, type_of
from tilewright.dialects.syntax.directives import AttrDict
from tilewright.dialects.syntax.engine import Directive, ParseState, values_of
from tilewright.dialects.versions import V13_5

GROUP = "views"

MULTIMEM_TYPE = define_code(
    "multimem-type",
    "The multimem operation does not exist for this element type and reduction.",
    "Elements are i32, i64, f16, bf16, f32 or f64. Floats reduce by add; min and max exist for "
    "f16 and bf16 in multimem_load_reduce_view_tko only.",
)

ADD = MultimemReductionKindAttr(MultimemReductionKind.ADD)


class MultimemAttributes(Directive):
    """``attributes {reduction = #cuda_tile.multimem_reduction_kind<max>, ...}``; add is left out."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        AttrDict("attributes").parse(parser, state)
        state.properties["reduction"] = state.attributes.pop("reduction", ADD)

    def print(self, printer: Printer, op: TileOp) -> None:
        reduction = op.properties.get("reduction", ADD)
        shown = {} if reduction == ADD else {"reduction": reduction}
        printer.print_op_attributes({**shown, **op.attributes}, print_keyword=True)

    def grammar(self) -> str:
        return "[`attributes` `{` [`reduction` `=` KIND] ... `}`]"


class InBoundsSlot(InBounds):
    """``inbounds``, whose slot keeps its space when it is empty."""

    def print(self, printer: Printer, op: TileOp) -> None:
        if any(bool_values(op.properties.get("inbounds"))):
            super().print(printer, op)
        else:
            printer.print_string(" ")


VOCABULARY.update({"in-bounds-slot": InBoundsSlot(), "multimem-attributes": MultimemAttributes()})

_ELEMENTS = ("i32", "i64", "f16", "bf16", "f32", "f64")


class Multimem(ViewAccess):
    """Rules that the multimem operations share."""

    TILE: ClassVar[str] = "tile"
    WORD: ClassVar[str]
    ORDERS: ClassVar[tuple[str, ...]]
    FLOAT_MIN_MAX: ClassVar[tuple[str, ...]] = ()
    SINCE_OF: ClassVar = {}

    def check(self, report: Report) -> None:
        check_ordering(self, report, self.ORDERS, self.WORD)
        check_inbounds(self, report)
        view = values_of(self, "view")[0].type
        if not isinstance(view, T.PartitionViewType):
            return
        check_indices(self, report, view)
        if not is_multicast(view.tensor_view):
            report.error(
                MULTICAST_POINTER, "expected a multicast pointer, but got none", type_of("view")
            )
        found = getattr(self, self.TILE).type
        if found != view.tile_type:
            report.error(
                VIEW_TILE,
                f"expected tile type to be '{format_type(view.tile_type)}' (based on view type), "
                f"got '{format_type(found)}'",
                type_of(self.TILE),
            )
        self._check_elements(report, view.tile_type.element)

    def _check_elements(self, report: Report, element: str) -> None:
        if element not in _ELEMENTS:
            report.error(
                MULTIMEM_TYPE,
                f"requires elements of {', '.join(_ELEMENTS)}, got {element}",
                type_of("view"),
            )
            return
        reduction = enum_property(self, "reduction")
        if not reduction or element.startswith("i") or reduction == "add":
            return
        if reduction not in ("min", "max") or element not in self.FLOAT_MIN_MAX:
            supported = f"add, and min and max for {' and '.join(self.FLOAT_MIN_MAX)}"
            report.error(
                MULTIMEM_TYPE,
                f"supports only {supported if self.FLOAT_MIN_MAX else 'add'} for floating-point "
                f"element types, got {reduction} of {element}",
                attr("reduction"),
            )


@tile_op("multimem_load_reduce_view_tko", opcode=0x7B, since=V13_5, group=GROUP)
class MultimemLoadReduceViewTkoOp(Multimem):
    """Loads the tile at an index from every replica and combines them element by element."""

    memory_ordering_semantics = prop_def(K.enum_field(MemoryOrderingSemanticsAttr))
    memory_scope = opt_prop_def(K.enum_field(MemoryScopeAttr))
    reduction = prop_def(K.enum_field(MultimemReductionKindAttr), default_value=ADD)
    view = operand_def(K.PARTITION_VIEW)
    index = var_operand_def(K.INT_TILE)
    reduced_values = result_def(K.ANY_TILE)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    TILE: ClassVar = "reduced_values"
    WORD: ClassVar = "load"
    ORDERS: ClassVar = LOAD_ORDERS
    FLOAT_MIN_MAX: ClassVar = ("f16", "bf16")
    RESULT_NAMES: ClassVar = ("reduced_values", "result_token")
    SYNTAX: ClassVar = syntax(
        "ordering-and-scope $view[$index*] (token = $token)? in-bounds-slot multimem-attributes "
        ": type($view) token-and-index-types -> type($reduced_values), token-type"
    )
    EXAMPLES: ClassVar = examples(
        """
        %mc = ptr_to_ptr %pf32 : tile<ptr<f32>> -> tile<ptr<f32, <multicast>>>
        %v = make_tensor_view %mc, shape = [8, 16], strides = [16, 1]
          : tile<ptr<f32, <multicast>>> -> tensor_view<8x16xf32, strides=[16,1], #cuda_tile.ptr_attr<multicast>>
        %p = make_partition_view %v : partition_view<tile=(4x8), tensor_view<8x16xf32, strides=[16,1], #cuda_tile.ptr_attr<multicast>>>
        %i = constant <i32: 0> : tile<i32>
        %sum, %t = multimem_load_reduce_view_tko relaxed sys %p[%i, %i]
          : partition_view<tile=(4x8), tensor_view<8x16xf32, strides=[16,1], #cuda_tile.ptr_attr<multicast>>>, tile<i32> -> tile<4x8xf32>, token
        """,
    )


@tile_op("multimem_reduce_view_tko", opcode=0x7C, since=V13_5, group=GROUP)
class MultimemReduceViewTkoOp(Multimem):
    """Combines a tile into every replica, atomically."""

    memory_ordering_semantics = prop_def(K.enum_field(MemoryOrderingSemanticsAttr))
    memory_scope = prop_def(K.enum_field(MemoryScopeAttr))
    reduction = prop_def(K.enum_field(MultimemReductionKindAttr), default_value=ADD)
    view = operand_def(K.PARTITION_VIEW)
    tile = operand_def(K.ANY_TILE)
    index = var_operand_def(K.INT_TILE)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    WORD: ClassVar = "reduction"
    ORDERS: ClassVar = ("relaxed", "release")
    SYNTAX: ClassVar = syntax(
        "ordering scope $view, $tile[$index*] (token = $token)? in-bounds-slot "
        "multimem-attributes : type($view), type($tile) token-and-index-types -> token-type"
    )
    EXAMPLES: ClassVar = examples(
        """
        %mc = ptr_to_ptr %pf32 : tile<ptr<f32>> -> tile<ptr<f32, <multicast>>>
        %v = make_tensor_view %mc, shape = [8, 16], strides = [16, 1]
          : tile<ptr<f32, <multicast>>> -> tensor_view<8x16xf32, strides=[16,1], #cuda_tile.ptr_attr<multicast>>
        %p = make_partition_view %v : partition_view<tile=(4x8), tensor_view<8x16xf32, strides=[16,1], #cuda_tile.ptr_attr<multicast>>>
        %i = constant <i32: 0> : tile<i32>
        %x = constant <f32: 1.0> : tile<4x8xf32>
        %t = multimem_reduce_view_tko relaxed sys %p, %x[%i, %i] inbounds = [true, true]
          : partition_view<tile=(4x8), tensor_view<8x16xf32, strides=[16,1], #cuda_tile.ptr_attr<multicast>>>, tile<4x8xf32>, tile<i32> -> token
        """,
    )


@tile_op("multimem_store_view_tko", opcode=0x7D, since=V13_5, group=GROUP)
class MultimemStoreViewTkoOp(Multimem):
    """Writes a tile to every replica."""

    memory_ordering_semantics = prop_def(K.enum_field(MemoryOrderingSemanticsAttr))
    memory_scope = opt_prop_def(K.enum_field(MemoryScopeAttr))
    view = operand_def(K.PARTITION_VIEW)
    tile = operand_def(K.ANY_TILE)
    index = var_operand_def(K.INT_TILE)
    traits = traits_def(MemoryWriteEffect())
    WORD: ClassVar = "store"
    ORDERS: ClassVar = STORE_ORDERS
    SYNTAX: ClassVar = syntax(
        "ordering-and-scope $view, $tile[$index*] (token = $token)? in-bounds-slot "
        "attr-dict-with-keyword : type($view), type($tile) token-and-index-types -> token-type"
    )
    EXAMPLES: ClassVar = examples(
        """
        %mc = ptr_to_ptr %pf32 : tile<ptr<f32>> -> tile<ptr<f32, <multicast>>>
        %v = make_tensor_view %mc, shape = [8, 16], strides = [16, 1]
          : tile<ptr<f32, <multicast>>> -> tensor_view<8x16xf32, strides=[16,1], #cuda_tile.ptr_attr<multicast>>
        %p = make_partition_view %v : partition_view<tile=(4x8), tensor_view<8x16xf32, strides=[16,1], #cuda_tile.ptr_attr<multicast>>>
        %i = constant <i32: 0> : tile<i32>
        %x = constant <f32: 1.0> : tile<4x8xf32>
        %t = multimem_store_view_tko weak %p, %x[%i, %i]
          : partition_view<tile=(4x8), tensor_view<8x16xf32, strides=[16,1], #cuda_tile.ptr_attr<multicast>>>, tile<4x8xf32>, tile<i32> -> token
        """,
    )
