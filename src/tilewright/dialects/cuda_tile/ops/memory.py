"""Tokens, loads and stores through pointers, stack memory and fences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.irdl import (
    AttrSizedOperandSegments,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile import constraints as K
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.attributes import OptimizationHintsAttr
from tilewright.dialects.cuda_tile.base import TileOp, tile_op, tile_type
from tilewright.dialects.cuda_tile.directives import VOCABULARY, syntax
from tilewright.dialects.cuda_tile.enums import (
    MemoryOrderingSemanticsAttr,
    MemoryScope,
    MemoryScopeAttr,
    PtrAttr,
    PtrAttrAttr,
)
from tilewright.dialects.cuda_tile.ops.core import SHAPE_RULE
from tilewright.dialects.cuda_tile.ops.reductions import OPERAND_COUNT
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.dialects.declare import Report, attr, enum_property, examples, int_property, type_of
from tilewright.dialects.syntax.directives import (
    EnumKeyword,
    Flag,
    IntField,
    Operands,
    parse_enum_keyword,
    parse_operand,
    parse_type_into,
)
from tilewright.dialects.syntax.engine import Directive, ParseState, values_of
from tilewright.dialects.syntax.tokens import (
    fail,
    is_value_name,
    token_text,
)
from tilewright.dialects.versions import V13_3, V13_4
from tilewright.numerics.element_types import FORMATS

GROUP = "memory"

MEMORY_ORDER = define_code(
    "memory-order",
    "The memory ordering or scope does not exist for this operation.",
    "Loads are weak, relaxed or acquire; stores weak, relaxed or release; atomics relaxed, "
    "acquire, release or acq_rel. weak takes no scope, every other ordering needs one: tl_blk, "
    "device or sys.",
    wrong="%x, %t = load_ptr_tko weak device %pf32 : tile<ptr<f32>> -> tile<f32>, token",
    right="%x, %t = load_ptr_tko relaxed device %pf32 : tile<ptr<f32>> -> tile<f32>, token",
)
POINTEE_TYPE = define_code(
    "pointee-type", "The pointee type must be the element type of the accessed value."
)
ALLOCA_RULE = define_code(
    "alloca-alignment",
    "An alloca needs an alignment that is a power of two and at least the size of an element.",
)
MULTICAST_POINTER = define_code(
    "multicast-pointer", "Only multimem operations access memory through multicast pointers."
)

ORDERING = EnumKeyword(
    "memory_ordering_semantics", MemoryOrderingSemanticsAttr, what="memory ordering semantics"
)
TOKEN_TAIL = syntax("attr-dict : token-type")
LOAD_ORDERS = ("weak", "relaxed", "acquire")
STORE_ORDERS = ("weak", "relaxed", "release")


class OrderingAndScope(Directive):
    """``weak``, or an ordering and a scope."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        ORDERING.parse(parser, state)
        text = token_text(parser)
        if text in tuple(MemoryScope) or text == f"#{MemoryScopeAttr.name}":
            parse_enum_keyword(parser, state, "memory_scope", MemoryScopeAttr)

    def print(self, printer: Printer, op: TileOp) -> None:
        for name in ("memory_ordering_semantics", "memory_scope"):
            if keyword := enum_property(op, name):
                printer.print_string(f" {keyword}")

    def grammar(self) -> str:
        return f"{ORDERING.grammar()} [`tl_blk` | `device` | `sys`]"


@dataclass(frozen=True, slots=True)
class Hints(Directive):
    """``optimization_hints = <...>``"""

    def parse(self, parser: Parser, state: ParseState) -> None:
        if not parser.parse_optional_keyword("optimization_hints"):
            return
        parser.parse_punctuation("=")
        state.read(parser, "optimization_hints", lambda: OptimizationHintsAttr.read(parser))

    def print(self, printer: Printer, op: TileOp) -> None:
        hints = op.properties.get("optimization_hints")
        if isinstance(hints, OptimizationHintsAttr):
            printer.print_string(" optimization_hints = ")
            hints.print_parameters(printer)

    def grammar(self) -> str:
        return "[`optimization_hints` `=` HINTS]"


_NO_COMMA = (
    "commas are allowed before operands only: `%p, %mask token=%t optimization_hints = <...>`"
)


@dataclass(frozen=True, slots=True)
class ExtraOperands(Directive):
    """Optional operands, each after a comma, that their types tell apart.

    With fewer types than ``groups``, a tile of i1 is a mask; the types follow the same order.
    """

    groups: tuple[str, ...]
    TEMPORARY: ClassVar = "extra_"

    def parse(self, parser: Parser, state: ParseState) -> None:
        while parser.parse_optional_punctuation(","):
            if len(state.operands.get(self.TEMPORARY, ())) == len(self.groups):
                fail(parser, f"expected at most {len(self.groups)} optional operands here")
            if not is_value_name(parser):
                fail(parser, self._expected(token_text(parser)), help=_NO_COMMA)
            parse_operand(parser, state, self.TEMPORARY)

    def _expected(self, found: str) -> str:
        wanted = " or ".join(f"'{group}'" for group in self.groups)
        return f"expected an SSA operand for {wanted}, found '{found or 'the end of the file'}'"

    def print(self, printer: Printer, op: TileOp) -> None:
        for group in self.groups:
            for value in values_of(op, group):
                printer.print_string(", ")
                printer.print_ssa_value(value)

    def grammar(self) -> str:
        return " ".join(f"[`,` %{group}]" for group in self.groups)


@dataclass(frozen=True, slots=True)
class ExtraTypes(Directive):
    """The types of the operands that an :class:`ExtraOperands` read."""

    groups: tuple[str, ...]

    def parse(self, parser: Parser, state: ParseState) -> None:
        name = ExtraOperands.TEMPORARY
        operands = state.operands.pop(name, [])
        for _ in operands:
            parser.parse_punctuation(",")
            parse_type_into(parser, state, name)
        types = state.types.pop(name, [])
        groups = self.groups
        if len(operands) < len(groups) and types and not _is_mask(types[0]):
            groups = groups[1:]
        for index, (group, value, ty) in enumerate(zip(groups, operands, types, strict=False)):
            state.operands[group] = [value]
            state.types[group] = [ty]
            for kind in ("operand", "type"):
                if (span := state.parts.pop((kind, name, index), None)) is not None:
                    state.parts[(kind, group, 0)] = span

    def print(self, printer: Printer, op: TileOp) -> None:
        for group in self.groups:
            for value in values_of(op, group):
                printer.print_string(f", {format_type(value.type)}")

    def grammar(self) -> str:
        return " ".join(f"[`,` type(%{group})]" for group in self.groups)


VOCABULARY.update(
    {
        "ordering": ORDERING,
        "ordering-and-scope": OrderingAndScope(),
        "hints": Hints(),
        "mask": ExtraOperands(("mask",)),
        "mask-type": ExtraTypes(("mask",)),
        "mask-and-padding": ExtraOperands(("mask", "paddingValue")),
        "mask-and-padding-types": ExtraTypes(("mask", "paddingValue")),
    }
)


def _is_mask(ty: object) -> bool:
    return isinstance(ty, T.TileType) and ty.element == "i1"


def check_ordering(op: TileOp, report: Report, allowed: tuple[str, ...], what: str) -> None:
    """The ordering is one of ``allowed``, with a scope unless it is weak (the specification's memory model). ``what``
    names the operation in messages.
    """
    ordering = enum_property(op, "memory_ordering_semantics")
    scope = enum_property(op, "memory_scope")
    if ordering not in allowed:
        report.error(
            MEMORY_ORDER,
            f"expect one of: {', '.join(allowed)}, but got: {ordering}",
            attr("memory_ordering_semantics"),
        )
    elif ordering == "weak" and scope:
        report.error(
            MEMORY_ORDER,
            f"weak {what} must not have memory scope, got {scope}",
            attr("memory_scope"),
        )
    elif ordering != "weak" and not scope:
        report.error(
            MEMORY_ORDER,
            f"memory scope is required for {ordering} {what}",
            attr("memory_ordering_semantics"),
            help="write tl_blk, device or sys after the ordering",
        )


def is_multicast(ty: object) -> bool:
    """Whether a pointer, a tile of pointers or a tensor view is marked multicast."""
    if isinstance(ty, T.TileType):
        ty = ty.element_type
    found = getattr(ty, "ptr_attr", None)
    return isinstance(found, PtrAttrAttr) and found.data is PtrAttr.MULTICAST


def check_pointers(op: TileOp, report: Report, pointers: str, value: str) -> None:
    """The pointers have the value's shape and point at its element type."""
    pointer_type = tile_type(values_of(op, pointers)[0])
    value_type = tile_type(values_of(op, value)[0])
    if pointer_type is None or value_type is None:
        return
    pointee = pointer_type.element_type
    if not isinstance(pointee, T.PtrType):
        return
    if is_multicast(pointer_type):
        report.error(
            MULTICAST_POINTER, f"multicast pointer is not allowed for {op.name}", type_of(pointers)
        )
    if pointee.pointee != value_type.element_type:
        report.error(
            POINTEE_TYPE,
            f"expected '{pointers}' to point at '{format_type(value_type.element_type)}', the "
            f"element type of '{value}', got '{format_type(pointee.pointee)}'",
            type_of(pointers),
        )
    if pointer_type.dims != value_type.dims:
        report.error(
            SHAPE_RULE,
            f"shape of '{pointers}' ({format_type(pointer_type)}) must match the shape of '{value}' "
            f"({format_type(value_type)})",
            type_of(pointers),
        )


def check_same_shape_as(op: TileOp, report: Report, group: str, other: str) -> None:
    """Report values of a group that have another shape than the first value of ``other``."""
    for value in values_of(op, group):
        ty, wanted = tile_type(value), tile_type(values_of(op, other)[0])
        if ty is not None and wanted is not None and ty.dims != wanted.dims:
            report.error(
                SHAPE_RULE,
                f"shape of '{group}' must match the shape of '{other}': expected "
                f"{list(wanted.dims)}, got {list(ty.dims)}",
                type_of(group),
            )


@tile_op("alloca", opcode=0x71, since=V13_3, group=GROUP)
class AllocaOp(TileOp):
    """Fresh memory for ``num_elem`` elements, until the enclosing block ends; contents undefined.

    ``global`` lets other tile blocks use the address.
    """

    num_elem = prop_def(K.INT64)
    alignment = prop_def(K.INT64)
    global_ = opt_prop_def(K.UNIT, prop_name="global")
    result = result_def(K.SCALAR_PTR)
    SYNTAX: ClassVar = syntax(
        IntField("num_elem", 64),
        ",",
        IntField("alignment", 64),
        Flag("global"),
        "attr-dict : type($result)",
    )
    EXAMPLES: ClassVar = examples(
        """
        %p = alloca num_elem = 8, alignment = 16 : tile<ptr<f32>>
        %x = constant <f32: 1.0> : tile<f32>
        %t = store_ptr_tko weak %p, %x : tile<ptr<f32>>, tile<f32> -> token
        """,
    )
    UNDEFINED: ClassVar = (
        "use of the memory after its block has ended",
        "without global: use by another tile block",
        "reading an element before it is written",
    )

    def check(self, report: Report) -> None:
        count, alignment = int_property(self, "num_elem"), int_property(self, "alignment")
        if count < 0:
            report.error(
                ALLOCA_RULE, f"'num_elem' must be at least 0, got {count}", attr("num_elem")
            )
        if alignment <= 0 or alignment & (alignment - 1):
            report.error(
                ALLOCA_RULE, f"'alignment' must be power of two, got {alignment}", attr("alignment")
            )
            return
        ty = tile_type(self.result)
        if ty is None or not isinstance(ty.element_type, T.PtrType):
            return
        element = T.element_name(ty.element_type.pointee)
        if element in FORMATS and alignment < (size := natural_size(element)):
            report.error(
                ALLOCA_RULE,
                f"'alignment' must be at least the natural size ({size} bytes) for element type "
                f"'{element}', got {alignment}",
                attr("alignment"),
            )


def natural_size(element: str) -> int:
    """Bytes of the significant bits of an element: 3 for tf32, 1 for everything below a byte."""
    return (FORMATS[element].bits + 7) // 8


@tile_op("join_tokens", opcode=0x3C, group=GROUP)
class JoinTokensOp(TileOp):
    """A token that comes after all the given tokens."""

    tokens = var_operand_def(K.TOKEN)
    result = result_def(K.TOKEN)
    traits = traits_def(Pure())
    SYNTAX: ClassVar = (Operands("tokens"), *TOKEN_TAIL)
    EXAMPLES: ClassVar = examples(
        """
        %x, %a = load_ptr_tko weak %pf32 : tile<ptr<f32>> -> tile<f32>, token
        %y, %b = load_ptr_tko weak %pi32 : tile<ptr<i32>> -> tile<i32>, token
        %both = join_tokens %a, %b : token
        %t = store_ptr_tko weak %pf32, %x token=%both : tile<ptr<f32>>, tile<f32> -> token
        """,
    )

    def check(self, report: Report) -> None:
        if len(self.tokens) < 2:
            report.error(OPERAND_COUNT, f"expect two or more tokens, got {len(self.tokens)}")


@tile_op("make_token", opcode=0x44, group=GROUP)
class MakeTokenOp(TileOp):
    """A token that comes after nothing."""

    result = result_def(K.TOKEN)
    traits = traits_def(Pure())
    SYNTAX: ClassVar = TOKEN_TAIL
    EXAMPLES: ClassVar = examples(
        """
        %start = make_token : token
        %x, %t = load_ptr_tko weak %pf32 token=%start : tile<ptr<f32>> -> tile<f32>, token
        """,
    )


class TokenOrdered(TileOp):
    """An operation that tokens order; its own operands and results come before them."""

    token = opt_operand_def(K.TOKEN)
    result_token = result_def(K.TOKEN)


class MemoryOp(TokenOrdered):
    """The same with further operands of any number."""

    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@tile_op("load_ptr_tko", opcode=0x3D, group=GROUP)
class LoadPtrTkoOp(MemoryOp):
    """Reads one element through each pointer; masked-off elements take the padding value.

    The result token is ordered after the load; the token operand before it.
    """

    memory_ordering_semantics = prop_def(K.enum_field(MemoryOrderingSemanticsAttr))
    memory_scope = opt_prop_def(K.enum_field(MemoryScopeAttr))
    optimization_hints = opt_prop_def(K.HINTS)
    source = operand_def(K.PTR_TILE)
    mask = opt_operand_def(K.I1_TILE)
    paddingValue = opt_operand_def(K.NUMBER_TILE)
    result = result_def(K.ANY_TILE)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    RESULT_NAMES: ClassVar = ("result", "result_token")
    SYNTAX: ClassVar = syntax(
        "ordering-and-scope $source mask-and-padding token-operand hints "
        "attr-dict : type($source) mask-and-padding-types -> type($result), token-type"
    )
    EXAMPLES: ClassVar = examples(
        """
        %x, %t = load_ptr_tko weak %pf32 : tile<ptr<f32>> -> tile<f32>, token
        %y, %u = load_ptr_tko acquire device %pi32 token=%t : tile<ptr<i32>> -> tile<i32>, token
        """,
        """
        %base = reshape %pf32 : tile<ptr<f32>> -> tile<1xptr<f32>>
        %all = broadcast %base : tile<1xptr<f32>> -> tile<8xptr<f32>>
        %i = iota : tile<8xi32>
        %p = offset %all, %i : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>>
        %five = constant <i32: 5> : tile<8xi32>
        %mask = cmpi less_than %i, %five, signed : tile<8xi32> -> tile<8xi1>
        %padding = constant <f32: -1.0> : tile<8xf32>
        %x, %t = load_ptr_tko weak %p, %mask, %padding optimization_hints = <sm_90 = {latency = 3}>
          : tile<8xptr<f32>>, tile<8xi1>, tile<8xf32> -> tile<8xf32>, token
        """,
    )
    UNDEFINED: ClassVar = (
        "an address outside live memory, or not a multiple of the element size",
        "use of a masked-off element without padding value",
        "a conflicting access that is not ordered",
    )

    def check(self, report: Report) -> None:
        check_ordering(self, report, LOAD_ORDERS, "load")
        check_pointers(self, report, "source", "result")
        check_same_shape_as(self, report, "mask", "source")
        if self.paddingValue is not None and self.paddingValue.type != self.result.type:
            report.error(
                POINTEE_TYPE,
                f"type of 'paddingValue' must match the type of the result: expected "
                f"'{format_type(self.result.type)}', got '{format_type(self.paddingValue.type)}'",
                type_of("paddingValue"),
            )


@tile_op("store_ptr_tko", opcode=0x65, group=GROUP)
class StorePtrTkoOp(MemoryOp):
    """Writes one element through each pointer; masked-off elements are left alone."""

    memory_ordering_semantics = prop_def(K.enum_field(MemoryOrderingSemanticsAttr))
    memory_scope = opt_prop_def(K.enum_field(MemoryScopeAttr))
    optimization_hints = opt_prop_def(K.HINTS)
    destination = operand_def(K.PTR_TILE)
    value = operand_def(K.ANY_TILE)
    mask = opt_operand_def(K.I1_TILE)
    traits = traits_def(MemoryWriteEffect())
    SYNTAX: ClassVar = syntax(
        "ordering-and-scope $destination, $value mask token-operand hints "
        "attr-dict : type($destination), type($value) mask-type -> token-type"
    )
    EXAMPLES: ClassVar = examples(
        """
        %base = reshape %pf32 : tile<ptr<f32>> -> tile<1xptr<f32>>
        %all = broadcast %base : tile<1xptr<f32>> -> tile<8xptr<f32>>
        %i = iota : tile<8xi32>
        %p = offset %all, %i : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>>
        %x = itof %i signed : tile<8xi32> -> tile<8xf32>
        %five = constant <i32: 5> : tile<8xi32>
        %mask = cmpi less_than %i, %five, signed : tile<8xi32> -> tile<8xi1>
        %t = store_ptr_tko weak %p, %x, %mask : tile<8xptr<f32>>, tile<8xf32>, tile<8xi1> -> token
        """,
        """
        %x = constant <i32: 1> : tile<i32>
        %t = store_ptr_tko release device %pi32, %x : tile<ptr<i32>>, tile<i32> -> token
        """,
    )
    UNDEFINED: ClassVar = (
        "an address outside live memory, or not a multiple of the element size",
        "weak: two elements with the same address",
        "a conflicting access that is not ordered",
    )

    def check(self, report: Report) -> None:
        check_ordering(self, report, STORE_ORDERS, "store")
        check_pointers(self, report, "destination", "value")
        check_same_shape_as(self, report, "mask", "destination")


@tile_op("gdc_launch_dependents_tko", opcode=0x77, since=V13_4, group=GROUP)
class GdcLaunchDependentsTkoOp(TokenOrdered):
    """Lets grids that depend on this one be scheduled. Orders no memory."""

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    SYNTAX: ClassVar = syntax("(token = $token)? attr-dict -> token-type")
    EXAMPLES: ClassVar = examples(
        """
        %x, %t = load_ptr_tko weak %pf32 : tile<ptr<f32>> -> tile<f32>, token
        %u = gdc_launch_dependents_tko token = %t -> token
        """,
    )


@tile_op("gdc_wait_tko", opcode=0x78, since=V13_4, group=GROUP)
class GdcWaitTkoOp(TokenOrdered):
    """Waits for the grids that this one depends on; what they wrote is visible after it."""

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    SYNTAX: ClassVar = syntax("(token = $token)? attr-dict -> token-type")
    EXAMPLES: ClassVar = examples(
        """
        %t = gdc_wait_tko -> token
        %x, %u = load_ptr_tko weak %pf32 token=%t : tile<ptr<f32>> -> tile<f32>, token
        """,
    )


@tile_op("memory_fence_alias_tko", opcode=0x7A, since=V13_4, group=GROUP)
class MemoryFenceAliasTkoOp(TileOp):
    """Orders accesses that reach one location through different addresses."""

    token = operand_def(K.TOKEN)
    result_token = result_def(K.TOKEN)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    SYNTAX: ClassVar = syntax("$token attr-dict")
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: 1.0> : tile<f32>
        %t = store_ptr_tko weak %pf32, %x : tile<ptr<f32>>, tile<f32> -> token
        %u = memory_fence_alias_tko %t
        """,
    )
