"""Atomic read-modify-write operations on pointers and views."""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile import constraints as K
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.base import TileOp, tile_op, tile_type
from tilewright.dialects.cuda_tile.directives import VOCABULARY, syntax
from tilewright.dialects.cuda_tile.enums import (
    AtomicRMWModeAttr,
    MemoryOrderingSemanticsAttr,
    MemoryScopeAttr,
)
from tilewright.dialects.cuda_tile.ops.memory import (
    MEMORY_ORDER,
    MULTICAST_POINTER,
    MemoryOp,
    check_pointers,
    check_same_shape_as,
    is_multicast,
)
from tilewright.dialects.cuda_tile.ops.views import (
    VIEW_TILE,
    ViewAccess,
    check_inbounds,
    check_indices,
)
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.dialects.declare import (
    Report,
    attr,
    enum_property,
    examples,
    same_shape,
    same_type,
    type_of,
)
from tilewright.dialects.syntax.directives import (
    EnumKeyword,
)
from tilewright.dialects.versions import V13_3, V13_5
from tilewright.numerics.element_types import FORMATS

GROUP = "atomics"

ATOMIC_TYPE = define_code(
    "atomic-type",
    "The atomic operation does not exist for this element type.",
    "Integer modes take i32 and i64; addf takes f16, bf16, f32 and f64; xchg and cas take integers "
    "and floats of 32 or 64 bits.",
)
ATOMIC_MODE = define_code("atomic-mode", "The mode does not exist for this operation.")

ATOMIC_ORDERS = ("relaxed", "acquire", "release", "acq_rel")
VOCABULARY.update(
    {
        "scope": EnumKeyword("memory_scope", MemoryScopeAttr, what="memory scope"),
        "atomic-mode": EnumKeyword("mode", AtomicRMWModeAttr),
    }
)
INTEGER_MODES = ("and", "or", "xor", "add", "max", "min", "umax", "umin")


def check_atomic_order(op: TileOp, report: Report) -> None:
    """Report a memory ordering that atomics do not have: ``weak`` is none."""
    ordering = enum_property(op, "memory_ordering_semantics")
    if ordering not in ATOMIC_ORDERS:
        report.error(
            MEMORY_ORDER,
            f"memory ordering semantics must be one of: {', '.join(ATOMIC_ORDERS)}, got: {ordering}",
            attr("memory_ordering_semantics"),
        )


def check_mode(op: TileOp, report: Report, element: str, group: str) -> None:
    """The mode exists for the element type: integers of 32 and 64 bits have all but ``addf``, which the base floats
    have. ``group`` is the operand with the elements.
    """
    mode = enum_property(op, "mode")
    if mode in INTEGER_MODES and element not in ("i32", "i64"):
        report.error(
            ATOMIC_TYPE,
            f"mode '{mode}' works only with integers i32 and i64, got {element}",
            type_of(group),
        )
    elif mode == "addf" and element not in T.BASE_FLOAT_NAMES:
        report.error(
            ATOMIC_TYPE,
            f"mode 'addf' works only with floats f16, bf16, f32 and f64, got {element}",
            type_of(group),
        )
    elif mode == "xchg":
        check_exchange(report, element, group)


def check_exchange(report: Report, element: str, group: str) -> None:
    """Report elements that hardware cannot compare and exchange: those of other than 32 or 64
    bits."""
    if element not in FORMATS or FORMATS[element].bits not in (32, 64):
        report.error(
            ATOMIC_TYPE,
            f"expected integers or floats of 32 or 64 bits, got {element}",
            type_of(group),
        )


@tile_op("atomic_cas_tko", opcode=0x07, group=GROUP)
class AtomicCASTkoOp(MemoryOp):
    """Through each pointer, atomically: writes ``val`` if the memory equals ``cmp`` bit for bit.

    Gives what was there before; masked-off elements give ``cmp``.
    """

    memory_ordering_semantics = prop_def(K.enum_field(MemoryOrderingSemanticsAttr))
    memory_scope = prop_def(K.enum_field(MemoryScopeAttr))
    pointers = operand_def(K.PTR_TILE)
    cmp = operand_def(K.ANY_TILE)
    val = operand_def(K.ANY_TILE)
    mask = opt_operand_def(K.I1_TILE)
    result = result_def(K.ANY_TILE)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    RELATIONS: ClassVar = (same_type("cmp", "val", "result"),)
    RESULT_NAMES: ClassVar = ("result", "result_token")
    SYNTAX: ClassVar = syntax(
        "ordering scope $pointers, $cmp, $val mask token-operand "
        "attr-dict : type($pointers), type($val) mask-type -> type($result), token-type"
    )
    INFER: ClassVar = {"cmp": "val"}
    EXAMPLES: ClassVar = examples(
        """
        %zero = constant <i32: 0> : tile<i32>
        %one = constant <i32: 1> : tile<i32>
        // Takes a lock: the old value is 0 where it was free.
        %old, %t = atomic_cas_tko acquire device %pi32, %zero, %one
          : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
        """,
    )

    def check(self, report: Report) -> None:
        check_atomic_order(self, report)
        check_pointers(self, report, "pointers", "val")
        check_same_shape_as(self, report, "mask", "pointers")
        ty = tile_type(self.val)
        if ty is not None:
            check_exchange(report, ty.element, "val")


@tile_op("atomic_rmw_tko", opcode=0x08, group=GROUP)
class AtomicRMWTkoOp(MemoryOp):
    """Through each pointer, atomically: combines the memory with ``arg``; gives the old value.

    What masked-off elements give is implementation-defined.
    """

    memory_ordering_semantics = prop_def(K.enum_field(MemoryOrderingSemanticsAttr))
    memory_scope = prop_def(K.enum_field(MemoryScopeAttr))
    mode = prop_def(K.enum_field(AtomicRMWModeAttr))
    pointers = operand_def(K.PTR_TILE)
    arg = operand_def(K.ANY_TILE)
    mask = opt_operand_def(K.I1_TILE)
    result = result_def(K.ANY_TILE)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    RELATIONS: ClassVar = (same_type("arg", "result"), same_shape("pointers", "arg", "result"))
    RESULT_NAMES: ClassVar = ("result", "result_token")
    SYNTAX: ClassVar = syntax(
        "ordering scope $pointers, atomic-mode, $arg mask token-operand "
        "attr-dict : type($pointers), type($arg) mask-type -> type($result), token-type"
    )
    EXAMPLES: ClassVar = examples(
        """
        %one = constant <i32: 1> : tile<i32>
        %old, %t = atomic_rmw_tko relaxed device %pi32, add, %one
          : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
        """,
        """
        %base = reshape %pf32 : tile<ptr<f32>> -> tile<1xptr<f32>>
        %all = broadcast %base : tile<1xptr<f32>> -> tile<8xptr<f32>>
        %i = iota : tile<8xi32>
        %p = offset %all, %i : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>>
        %x = constant <f32: 0.5> : tile<8xf32>
        %mask = constant <i1: true> : tile<8xi1>
        %old, %t = atomic_rmw_tko acq_rel sys %p, addf, %x, %mask
          : tile<8xptr<f32>>, tile<8xf32>, tile<8xi1> -> tile<8xf32>, token
        """,
    )

    def check(self, report: Report) -> None:
        check_atomic_order(self, report)
        check_pointers(self, report, "pointers", "arg")
        check_same_shape_as(self, report, "mask", "pointers")
        ty = tile_type(self.arg)
        if ty is not None:
            check_mode(self, report, ty.element, "arg")


@tile_op("atomic_red_view_tko", opcode=0x75, since=V13_3, group=GROUP)
class AtomicRedViewTkoOp(ViewAccess):
    """Combines each element of a tile into the memory of a view, atomically; gives no values.

    Elements outside the tensor are left out.
    """

    memory_ordering_semantics = prop_def(K.enum_field(MemoryOrderingSemanticsAttr))
    memory_scope = prop_def(K.enum_field(MemoryScopeAttr))
    mode = prop_def(K.enum_field(AtomicRMWModeAttr))
    view = operand_def(K.TILE_VIEW)
    index = var_operand_def(K.INT_TILE)
    value = operand_def(K.ANY_TILE)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    SINCE_OF: ClassVar = {"inbounds": V13_5}
    SYNTAX: ClassVar = syntax(
        "ordering scope $view[$index*], atomic-mode, $value (token = $token)? in-bounds "
        "attr-dict-with-keyword : type($value), type($view) view-index-types -> token-type"
    )
    EXAMPLES: ClassVar = examples(
        """
        %v = make_tensor_view %pf32, shape = [%n, 16], strides = [16, 1]
          : tile<i32> -> tensor_view<?x16xf32, strides=[16,1]>
        %p = make_partition_view %v : partition_view<tile=(4x8), tensor_view<?x16xf32, strides=[16,1]>>
        %i = constant <i32: 0> : tile<i32>
        %x = constant <f32: 1.0> : tile<4x8xf32>
        %t = atomic_red_view_tko relaxed device %p[%i, %i], addf, %x
          : tile<4x8xf32>, partition_view<tile=(4x8), tensor_view<?x16xf32, strides=[16,1]>>, tile<i32> -> token
        """,
    )

    def check(self, report: Report) -> None:
        if enum_property(self, "memory_ordering_semantics") != "relaxed":
            report.error(
                MEMORY_ORDER,
                f"memory ordering semantics must be relaxed, got: "
                f"{enum_property(self, 'memory_ordering_semantics')}",
                attr("memory_ordering_semantics"),
            )
        if enum_property(self, "memory_scope") == "sys":
            report.error(MEMORY_ORDER, "memory scope 'sys' is not supported", attr("memory_scope"))
        mode = enum_property(self, "mode")
        if mode == "xchg":
            report.error(ATOMIC_MODE, "mode 'xchg' is not supported", attr("mode"))
        check_inbounds(self, report)
        view = self.view.type
        if isinstance(view, T.GatherScatterViewType):
            report.error(
                VIEW_TILE,
                "gather_scatter_view is not supported; use partition_view instead",
                type_of("view"),
            )
            return
        if not isinstance(view, T.TileViewType):
            return
        # The reference tools let the index types differ here, unlike on loads and stores.
        check_indices(self, report, view, one_type=False)
        if is_multicast(view.tensor_view):
            report.error(MULTICAST_POINTER, "multicast ptr_attr is not allowed", type_of("view"))
        if self.value.type != view.tile_type:
            report.error(
                VIEW_TILE,
                f"expected a value of the view's tile type '{format_type(view.tile_type)}', got "
                f"'{format_type(self.value.type)}'",
                type_of("value"),
            )
        elif mode != "xchg":
            check_mode(self, report, view.tile_type.element, "value")
