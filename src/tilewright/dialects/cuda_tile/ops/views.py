"""Views: making them, asking their extents, loading and storing tiles through them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Attribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, NoMemoryEffect, Pure

from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile import constraints as K
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.base import TileOp, tile_op, tile_type
from tilewright.dialects.cuda_tile.directives import VOCABULARY, syntax
from tilewright.dialects.cuda_tile.enums import MemoryOrderingSemanticsAttr, MemoryScopeAttr
from tilewright.dialects.cuda_tile.ops.core import INDEX_COUNT
from tilewright.dialects.cuda_tile.ops.memory import (
    LOAD_ORDERS,
    MULTICAST_POINTER,
    POINTEE_TYPE,
    STORE_ORDERS,
    MemoryOp,
    check_ordering,
    is_multicast,
)
from tilewright.dialects.cuda_tile.ops.reductions import OPERAND_COUNT
from tilewright.dialects.cuda_tile.type_syntax import format_type, parse_type
from tilewright.dialects.declare import (
    Report,
    attr,
    bool_array,
    bool_values,
    examples,
    operand,
    type_of,
)
from tilewright.dialects.syntax.directives import (
    ATTR_DICT,
    Operand,
    parse_operand,
    parse_type_into,
)
from tilewright.dialects.syntax.engine import Directive, ParseState, values_of
from tilewright.dialects.syntax.tokens import (
    fail,
    is_value_name,
    previous_end,
    token_start,
)
from tilewright.dialects.versions import V13_3, V13_4

GROUP = "views"

VIEW_TYPE = define_code(
    "view-type", "An operation has the wrong kind of view, or a view of the wrong tensor_view."
)
VIEW_TILE = define_code(
    "view-tile-type", "The tile that moves through a view has the view's tile type."
)
INDEX_TYPE = define_code(
    "view-index-type",
    "The indices of a view have the wrong types.",
    "Indices of partition and strided views are integer scalars of one type. A gather_scatter_view "
    "takes a rank-1 integer tile, as long as the tile there, at its sparse dimension, and scalars "
    "of one type elsewhere.",
)
INBOUNDS_SIZE = define_code("inbounds-size", "inbounds has one boolean for each index.")
VIEW_OPERANDS = define_code(
    "view-operands",
    "The extents and strides given to make_tensor_view do not match its type.",
    "Each `?` of the type takes one operand, in order, all of one integer type; literals repeat "
    "the static extents and strides.",
)

_OUT_OF_BOUNDS = (
    "an index outside the index space",
    "an element outside the tensor along a dimension marked inbounds",
    "a conflicting access that is not ordered",
)


class TensorViewSyntax(Directive):
    """``, shape = [...], strides = [...] attr-dict : [dynamic types ->] type``

    Literals and values mix in the lists. Where the pointer has a ``ptr_attr`` its type comes first
    in the types.
    """

    def parse(self, parser: Parser, state: ParseState) -> None:
        lists: dict[str, list[int]] = {}
        for word, group in (("shape", "dynamicShape"), ("strides", "dynamicStrides")):
            parser.parse_punctuation(",")
            parser.parse_keyword(word)
            parser.parse_punctuation("=")
            lists[group] = self._parse_dims(parser, state, group)
        ATTR_DICT.parse(parser, state)
        parser.parse_punctuation(":")
        self._parse_types(parser, state)
        (view,) = state.types["result"]
        assert isinstance(view, T.TensorViewType)
        self._match(parser, state, "shape", lists["dynamicShape"], view.dims)
        self._match(parser, state, "strides", lists["dynamicStrides"], view.stride_dims)

    def _parse_dims(self, parser: Parser, state: ParseState, group: str) -> list[int]:
        dims: list[int] = []
        state.operands.setdefault(group, [])

        def entry() -> None:
            if is_value_name(parser):
                parse_operand(parser, state, group)
                dims.append(T.DYNAMIC)
            else:
                dims.append(parser.parse_integer(allow_boolean=False))

        parser.parse_comma_separated_list(parser.Delimiter.SQUARE, entry)
        return dims

    def _parse_types(self, parser: Parser, state: ParseState) -> None:
        types: list[Attribute] = []
        starts: list[tuple[int, int]] = []

        def one() -> None:
            start = token_start(parser)
            types.append(parse_type(parser))
            starts.append((start, previous_end(parser)))

        one()
        while parser.parse_optional_punctuation(","):
            one()
        if parser.parse_optional_punctuation("->"):
            one()
        if not isinstance(types[-1], T.TensorViewType):
            fail(
                parser,
                f"expected 'tensor_view' type, but got '{format_type(types[-1])}'",
                *starts[-1],
                code=VIEW_TYPE,
            )
        state.types["result"] = [types.pop()]
        state.mark(("type", "result", 0), *starts[-1])
        if types and isinstance(types[0], T.TileType) and types[0].element == "ptr":
            state.types["base"] = [types.pop(0)]
        dynamic = types[-1:] if types else []
        for group in ("dynamicShape", "dynamicStrides"):
            count = len(state.operands[group])
            if count and not dynamic:
                fail(
                    parser,
                    "expected the type of the dynamic extents and '->' before the result type",
                    *starts[-1],
                    code=VIEW_OPERANDS,
                )
            state.types[group] = dynamic * count

    def _match(
        self,
        parser: Parser,
        state: ParseState,
        what: str,
        given: list[int],
        wanted: tuple[int, ...],
    ) -> None:
        span = state.parts[("type", "result", 0)]
        if len(given) != len(wanted):
            fail(
                parser,
                f"expected {len(wanted)} {what} entries to match the tensor_view type, got "
                f"{len(given)}",
                *span,
                code=VIEW_OPERANDS,
            )
        noun = {"shape": "shape dimension", "strides": "stride"}[what]
        for index, (value, expected) in enumerate(zip(given, wanted, strict=True)):
            if value != expected:
                shown = ["?" if v == T.DYNAMIC else str(v) for v in (expected, value)]
                fail(
                    parser,
                    f"input {noun} {index} does not match tensor_view type (expected {shown[0]}, "
                    f"got {shown[1]})",
                    *span,
                    code=VIEW_OPERANDS,
                )

    def print(self, printer: Printer, op: TileOp) -> None:
        assert isinstance(op, MakeTensorViewOp)
        view = op.view_type
        for word, dims, values in (
            ("shape", view.dims, op.dynamicShape),
            ("strides", view.stride_dims, op.dynamicStrides),
        ):
            printer.print_string(f", {word} = [")
            dynamic = iter(values)
            for index, dim in enumerate(dims):
                printer.print_string(", " if index else "")
                if dim == T.DYNAMIC:
                    printer.print_ssa_value(next(dynamic))
                else:
                    printer.print_string(str(dim))
            printer.print_string("]")
        ATTR_DICT.print(printer, op)
        leading = (
            [op.base.type]
            if op.base.type != T.TensorViewType(view.element_type, (), ()).pointer
            else []
        )
        leading += [v.type for v in (*op.dynamicShape, *op.dynamicStrides)[:1]]
        prefix = ", ".join(map(format_type, leading)) + " -> " if leading else ""
        printer.print_string(f" : {prefix}{format_type(view)}")

    def grammar(self) -> str:
        return (
            "`,` `shape` `=` `[` DIMS `]` `,` `strides` `=` `[` DIMS `]` [attr-dict] `:` "
            "[type(%dynamic) `->`] type(%result)"
        )


def _base_pointer(state: ParseState) -> list[Attribute]:
    (view,) = state.types["result"]
    assert isinstance(view, T.TensorViewType)
    return [T.tile((), T.PtrType(view.element_type))]


@tile_op("make_tensor_view", opcode=0x43, group=GROUP)
class MakeTensorViewOp(TileOp):
    """A tensor view of the memory at ``base``; dynamic extents and strides are read unsigned."""

    base = operand_def(K.SCALAR_PTR)
    dynamicShape = var_operand_def(K.SCALAR_INT)
    dynamicStrides = var_operand_def(K.SCALAR_INT)
    result = result_def(K.TENSOR_VIEW)
    traits = traits_def(NoMemoryEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    RESULT_NAMES: ClassVar = ("tview",)
    SYNTAX: ClassVar = (Operand("base"), TensorViewSyntax())
    INFER: ClassVar = {"base": _base_pointer}
    EXAMPLES: ClassVar = examples(
        """
        %v = make_tensor_view %pf32, shape = [64, 32], strides = [32, 1] : tensor_view<64x32xf32, strides=[32,1]>
        %w = make_tensor_view %pf16, shape = [%n, 16], strides = [16, 1]
          : tile<i32> -> tensor_view<?x16xf16, strides=[16,1]>
        """,
    )

    @property
    def view_type(self) -> T.TensorViewType:
        """The type of the view: extents and strides, in elements."""
        ty = self.result.type
        assert isinstance(ty, T.TensorViewType)
        return ty

    def check(self, report: Report) -> None:
        view = self.result.type
        base = tile_type(self.base)
        if not isinstance(view, T.TensorViewType) or base is None:
            return
        pointer = base.element_type
        if isinstance(pointer, T.PtrType):
            self._check_pointer(report, view, pointer)
        for what, group, values, dims in (
            ("shape", "dynamicShape", self.dynamicShape, view.dims),
            ("stride", "dynamicStrides", self.dynamicStrides, view.stride_dims),
        ):
            wanted = sum(d == T.DYNAMIC for d in dims)
            if len(values) != wanted:
                report.error(
                    VIEW_OPERANDS,
                    f"expected {wanted} dynamic {what} operands, got {len(values)}",
                    operand(group),
                )
        types = {v.type for v in (*self.dynamicShape, *self.dynamicStrides)}
        if len(types) > 1:
            shown = ", ".join(sorted(map(format_type, types)))
            report.error(
                VIEW_OPERANDS,
                f"expected all dynamic values to be of the same type, got {shown}",
                operand("dynamicShape"),
            )

    def _check_pointer(self, report: Report, view: T.TensorViewType, pointer: T.PtrType) -> None:
        if pointer.pointee != view.element_type:
            report.error(
                POINTEE_TYPE,
                f"expected pointer to '{format_type(view.element_type)}' to build tensor_view of "
                f"this type, got '{format_type(pointer.pointee)}'",
                operand("base"),
            )
        if pointer.ptr_attr != view.ptr_attr:
            report.error(
                VIEW_TYPE,
                "tensor_view must preserve ptr_attr from base pointer: "
                f"'{format_type(pointer)}' gives '{format_type(view)}'",
                type_of("result"),
            )


@dataclass(frozen=True, slots=True)
class ViewTypeOnly(Directive):
    """The type of a made view, which also fixes that of its operand."""

    mnemonic: str

    def parse(self, parser: Parser, state: ParseState) -> None:
        start = token_start(parser)
        parse_type_into(parser, state, "result")
        (ty,) = state.types["result"]
        if not isinstance(ty, T.TileViewType) or self.mnemonic != ty.MNEMONIC:
            fail(
                parser,
                f"expected '{self.mnemonic}' type, but got '{format_type(ty)}'",
                start,
                previous_end(parser),
                code=VIEW_TYPE,
            )

    def print(self, printer: Printer, op: TileOp) -> None:
        printer.print_string(" " + format_type(op.results[0].type))

    def grammar(self) -> str:
        return f"type(%result: {self.mnemonic})"


def _tensor_view_of_result(state: ParseState) -> list[Attribute]:
    (view,) = state.types["result"]
    assert isinstance(view, T.TileViewType)
    return [view.tensor_view]


class MakeView(TileOp):
    """Rules that the three view makers share."""

    def check(self, report: Report) -> None:
        view, source = self.results[0].type, self.operands[0].type
        if isinstance(view, T.TileViewType) and view.tensor_view != source:
            report.error(
                VIEW_TYPE,
                f"expected an operand of type '{format_type(view.tensor_view)}', the tensor_view of "
                f"the result, got '{format_type(source)}'",
                operand("tensor_view"),
            )


@tile_op("make_partition_view", opcode=0x42, group=GROUP)
class MakePartitionViewOp(MakeView):
    """A view of non-overlapping tiles: index I covers elements from I * extent on."""

    tensor_view = operand_def(K.TENSOR_VIEW)
    result = result_def(K.PARTITION_VIEW)
    traits = traits_def(Pure())
    RESULT_NAMES: ClassVar = ("pview",)
    SYNTAX: ClassVar = syntax("$tensor_view attr-dict :", ViewTypeOnly("partition_view"))
    INFER: ClassVar = {"tensor_view": _tensor_view_of_result}
    EXAMPLES: ClassVar = examples(
        """
        %v = make_tensor_view %pf32, shape = [%n, 16], strides = [16, 1]
          : tile<i32> -> tensor_view<?x16xf32, strides=[16,1]>
        %p = make_partition_view %v : partition_view<tile=(4x8), padding_value = zero, tensor_view<?x16xf32, strides=[16,1]>>
        %q = make_partition_view %v : partition_view<tile=(8x4), tensor_view<?x16xf32, strides=[16,1]>, dim_map=[1, 0]>
        """,
    )


@tile_op("make_strided_view", opcode=0x74, since=V13_3, group=GROUP)
class MakeStridedViewOp(MakeView):
    """A view of tiles that start ``traversal_strides`` elements apart."""

    tensor_view = operand_def(K.TENSOR_VIEW)
    result = result_def(K.STRIDED_VIEW)
    traits = traits_def(Pure())
    RESULT_NAMES: ClassVar = ("sview",)
    SYNTAX: ClassVar = syntax("$tensor_view attr-dict :", ViewTypeOnly("strided_view"))
    INFER: ClassVar = {"tensor_view": _tensor_view_of_result}
    EXAMPLES: ClassVar = examples(
        """
        %v = make_tensor_view %pf32, shape = [%n, 16], strides = [16, 1]
          : tile<i32> -> tensor_view<?x16xf32, strides=[16,1]>
        // Tiles of 4 x 8 that start every 2 rows and every 8 columns.
        %s = make_strided_view %v : strided_view<tile=(4x8), traversal_strides=[2,8], tensor_view<?x16xf32, strides=[16,1]>>
        """,
    )


@tile_op("make_gather_scatter_view", opcode=0x73, since=V13_3, group=GROUP)
class MakeGatherScatterViewOp(MakeView):
    """A view whose coordinates along the sparse dimension come from an index tile.

    The other indices count elements.
    """

    tensor_view = operand_def(K.TENSOR_VIEW)
    result = result_def(K.GATHER_SCATTER_VIEW)
    traits = traits_def(Pure())
    RESULT_NAMES: ClassVar = ("gsview",)
    SYNTAX: ClassVar = syntax("$tensor_view attr-dict :", ViewTypeOnly("gather_scatter_view"))
    INFER: ClassVar = {"tensor_view": _tensor_view_of_result}
    EXAMPLES: ClassVar = examples(
        """
        %v = make_tensor_view %pf32, shape = [%n, 16], strides = [16, 1]
          : tile<i32> -> tensor_view<?x16xf32, strides=[16,1]>
        %g = make_gather_scatter_view %v : gather_scatter_view<tile=(4x8), tensor_view<?x16xf32, strides=[16,1]>, sparse_dim=0>
        %rows = constant <i32: [7, 0, 3, 3]> : tile<4xi32>
        %column = constant <i32: 8> : tile<i32>
        %x, %t = load_view_tko weak %g[%rows, %column]
          : gather_scatter_view<tile=(4x8), tensor_view<?x16xf32, strides=[16,1]>, sparse_dim=0>,
            tile<4xi32>, tile<i32> -> tile<4x8xf32>, token
        """,
    )


class ExtentTypes(Directive):
    """`` -> T``: the type of all results, one for each dimension of the view."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        start = token_start(parser)
        ty = parse_type(parser)
        (view,) = state.types["src"]
        state.types["result_"] = [ty] * getattr(view, "rank", 1)
        state.mark(("type", "result_", 0), start, previous_end(parser))

    def print(self, printer: Printer, op: TileOp) -> None:
        shown = format_type(op.results[0].type) if op.results else "tile<i32>"
        printer.print_string(f" {shown}")

    def grammar(self) -> str:
        return "type(%result)"


class Extents(TileOp):
    """Rules that the two shape queries share."""

    WHAT: ClassVar[str]

    def check(self, report: Report) -> None:
        rank = getattr(self.operands[0].type, "rank", None)
        if rank is not None and len(self.results) != rank:
            report.error(
                OPERAND_COUNT,
                f"expected {rank} results due to {self.WHAT}, but got {len(self.results)}",
                type_of("result_"),
            )


@tile_op("get_tensor_shape", opcode=0x2F, group=GROUP)
class GetTensorShapeOp(Extents):
    """The extents of a tensor view, read unsigned."""

    src = operand_def(K.TENSOR_VIEW)
    result_ = var_result_def(K.SCALAR_INT)
    traits = traits_def(NoMemoryEffect())
    WHAT: ClassVar = "tensor rank"
    SYNTAX: ClassVar = syntax("$src attr-dict : type($src) ->", ExtentTypes())
    EXAMPLES: ClassVar = examples(
        """
        %v = make_tensor_view %pf32, shape = [%n, 16], strides = [16, 1]
          : tile<i32> -> tensor_view<?x16xf32, strides=[16,1]>
        %rows, %columns = get_tensor_shape %v : tensor_view<?x16xf32, strides=[16,1]> -> tile<i32>
        """,
    )
    UNDEFINED: ClassVar = ("an extent that does not fit the result type",)


@tile_op("get_index_space_shape", opcode=0x2D, group=GROUP)
class GetIndexSpaceShapeOp(Extents):
    """The number of indices along each dimension of a view, read unsigned."""

    src = operand_def(K.TILE_VIEW)
    result_ = var_result_def(K.SCALAR_INT)
    traits = traits_def(NoMemoryEffect())
    WHAT: ClassVar = "view index space rank"
    SYNTAX: ClassVar = syntax("$src attr-dict : type($src) ->", ExtentTypes())
    EXAMPLES: ClassVar = examples(
        """
        %v = make_tensor_view %pf32, shape = [%n, 16], strides = [16, 1]
          : tile<i32> -> tensor_view<?x16xf32, strides=[16,1]>
        %p = make_partition_view %v : partition_view<tile=(4x8), tensor_view<?x16xf32, strides=[16,1]>>
        %s:2 = get_index_space_shape %p : partition_view<tile=(4x8), tensor_view<?x16xf32, strides=[16,1]>> -> tile<i32>
        """,
    )
    UNDEFINED: ClassVar = ("a number that does not fit the result type",)


@dataclass(frozen=True, slots=True)
class ViewIndexTypes(Directive):
    """``, T``: one type for all indices, or one for each.

    ``lists_token``: the type of the token operand, where there is one, follows.
    """

    lists_token: bool = False

    def parse(self, parser: Parser, state: ParseState) -> None:
        state.types["index"] = []
        count = len(state.operands["index"])
        while parser.parse_optional_punctuation(","):
            parse_type_into(parser, state, "index")
        types = state.types["index"]
        if self.lists_token and state.operands.get("token") and types[-1:] == [T.TOKEN]:
            types.pop()
        if count and not types:
            fail(parser, "index types must be specified when indices are present", code=INDEX_TYPE)
        if len(types) == 1:
            state.types["index"] = types * count
        elif len(types) != count:
            fail(parser, f"expected {count} index types, got {len(types)}", code=INDEX_TYPE)

    def print(self, printer: Printer, op: TileOp) -> None:
        types = [format_type(v.type) for v in values_of(op, "index")]
        if len(set(types)) == 1:
            types = types[:1]
        if self.lists_token and values_of(op, "token"):
            types = [*types, "token"]
        printer.print_string("".join(f", {ty}" for ty in types))

    def grammar(self) -> str:
        return "[`,` index types]" + (" [`,` `token`]" if self.lists_token else "")


class InBounds(Directive):
    """``inbounds = [true, false]``; all false is not printed."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        values = [False] * len(state.operands.get("index", ()))
        if parser.parse_optional_keyword("inbounds"):
            parser.parse_punctuation("=")
            start = token_start(parser)
            values = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_boolean
            )
            state.mark(("attr", "inbounds", 0), start, previous_end(parser))
        state.properties["inbounds"] = bool_array(values)

    def print(self, printer: Printer, op: TileOp) -> None:
        values = bool_values(op.properties.get("inbounds"))
        if any(values):
            shown = ", ".join("true" if v else "false" for v in values)
            printer.print_string(f" inbounds = [{shown}]")

    def grammar(self) -> str:
        return "[`inbounds` `=` `[` BOOL {`,` BOOL} `]`]"


VOCABULARY.update(
    {
        "view-index-types": ViewIndexTypes(),
        "token-and-index-types": ViewIndexTypes(lists_token=True),
        "in-bounds": InBounds(),
    }
)


def check_inbounds(op: TileOp, report: Report) -> None:
    """Report ``inbounds`` that does not have one flag for each index."""
    values, indices = bool_values(op.properties.get("inbounds")), values_of(op, "index")
    if len(values) != len(indices):
        report.error(
            INBOUNDS_SIZE,
            f"inbounds size ({len(values)}) must match the number of index dimensions "
            f"({len(indices)})",
            attr("inbounds"),
        )


def check_indices(
    op: TileOp, report: Report, view: T.TileViewType, *, one_type: bool = True
) -> None:
    """Number and types of the indices fit the view; scalar ones share ``one_type``."""
    indices = values_of(op, "index")
    if len(indices) != view.rank:
        report.error(
            INDEX_COUNT,
            f"expected {view.rank} index operands (based on view type), got {len(indices)}",
            operand("index") if len(indices) else None,
        )
        return
    sparse = view.sparse_dim.data if isinstance(view, T.GatherScatterViewType) else None
    first: T.TileType | None = None
    for position, value in enumerate(indices):
        ty = tile_type(value)
        if ty is None:
            continue
        if position == sparse:
            _check_sparse_index(report, ty, position, view.tile_dims[position])
        elif ty.rank:
            report.error(
                INDEX_TYPE,
                f"expected index type to be a scalar tile, got '{format_type(ty)}' for index "
                f"{position}",
                operand("index", position),
            )
        elif one_type and first is not None and ty != first:
            report.error(
                INDEX_TYPE,
                f"expected index type {position} to be the same as other index types: expected "
                f"'{format_type(first)}', got '{format_type(ty)}'",
                operand("index", position),
            )
        else:
            first = first or ty


def _check_sparse_index(report: Report, ty: T.TileType, position: int, extent: int) -> None:
    if ty.rank != 1:
        report.error(
            INDEX_TYPE,
            f"expected index at sparse_dim position {position} to be a 1D tensor, got "
            f"'{format_type(ty)}'",
            operand("index", position),
        )
    elif ty.dims[0] != extent:
        report.error(
            INDEX_TYPE,
            f"expected gather/scatter index size ({ty.dims[0]}) to match tile shape at "
            f"gather/scatter dimension {position} ({extent})",
            operand("index", position),
        )


class ViewAccess(MemoryOp):
    """What accesses through views share."""

    inbounds = prop_def(K.BOOL_ARRAY, default_value=bool_array(()))
    SINCE_OF: ClassVar = {"inbounds": V13_4}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not bool_values(self.properties.get("inbounds")):
            self.properties["inbounds"] = bool_array([False] * len(values_of(self, "index")))


def check_view_access(
    op: TileOp, report: Report, tile_group: str, orders: tuple[str, ...], what: str
) -> None:
    """What view loads and stores have in common."""
    check_ordering(op, report, orders, what)
    check_inbounds(op, report)
    view = values_of(op, "view")[0].type
    if not isinstance(view, T.TileViewType):
        return
    check_indices(op, report, view)
    if is_multicast(view.tensor_view):
        report.error(MULTICAST_POINTER, "multicast ptr_attr is not allowed", type_of("view"))
    found = getattr(op, tile_group).type
    if found != view.tile_type:
        report.error(
            VIEW_TILE,
            f"expected tile type to be '{format_type(view.tile_type)}' (based on view type), got "
            f"'{format_type(found)}'",
            type_of(tile_group),
        )


@tile_op("load_view_tko", opcode=0x3E, group=GROUP)
class LoadViewTkoOp(ViewAccess):
    """The tile at an index of a view; elements outside the tensor take the view's padding."""

    memory_ordering_semantics = prop_def(K.enum_field(MemoryOrderingSemanticsAttr))
    memory_scope = opt_prop_def(K.enum_field(MemoryScopeAttr))
    optimization_hints = opt_prop_def(K.HINTS)
    view = operand_def(K.TILE_VIEW)
    index = var_operand_def(K.INT_TILE)
    tile = result_def(K.ANY_TILE)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    RESULT_NAMES: ClassVar = ("tile", "result_token")
    SYNTAX: ClassVar = syntax(
        "ordering-and-scope $view[$index*] (token = $token)? hints in-bounds "
        "attr-dict-with-keyword : type($view) view-index-types -> type($tile), token-type"
    )
    EXAMPLES: ClassVar = examples(
        """
        %v = make_tensor_view %pf32, shape = [%n, 16], strides = [16, 1]
          : tile<i32> -> tensor_view<?x16xf32, strides=[16,1]>
        %p = make_partition_view %v : partition_view<tile=(4x8), padding_value = zero, tensor_view<?x16xf32, strides=[16,1]>>
        %i = constant <i32: 1> : tile<i32>
        %x, %t = load_view_tko weak %p[%i, %i] : partition_view<tile=(4x8), padding_value = zero, tensor_view<?x16xf32, strides=[16,1]>>, tile<i32> -> tile<4x8xf32>, token
        %y, %u = load_view_tko relaxed device %p[%i, %i] token = %t optimization_hints = <sm_100 = {allow_tma = true, latency = 4}> inbounds = [true, true]
          : partition_view<tile=(4x8), padding_value = zero, tensor_view<?x16xf32, strides=[16,1]>>, tile<i32> -> tile<4x8xf32>, token
        """,
    )
    UNDEFINED: ClassVar = (
        *_OUT_OF_BOUNDS,
        "use of an element outside the tensor where the view has no padding value",
    )

    def check(self, report: Report) -> None:
        check_view_access(self, report, "tile", LOAD_ORDERS, "load")


@tile_op("store_view_tko", opcode=0x66, group=GROUP)
class StoreViewTkoOp(ViewAccess):
    """Writes a tile at an index of a view; elements outside the tensor are dropped."""

    memory_ordering_semantics = prop_def(K.enum_field(MemoryOrderingSemanticsAttr))
    memory_scope = opt_prop_def(K.enum_field(MemoryScopeAttr))
    optimization_hints = opt_prop_def(K.HINTS)
    tile = operand_def(K.ANY_TILE)
    view = operand_def(K.TILE_VIEW)
    index = var_operand_def(K.INT_TILE)
    traits = traits_def(MemoryWriteEffect())
    SYNTAX: ClassVar = syntax(
        "ordering-and-scope $tile, $view[$index*] (token = $token)? hints in-bounds "
        "attr-dict-with-keyword : type($tile), type($view) view-index-types -> token-type"
    )
    EXAMPLES: ClassVar = examples(
        """
        %v = make_tensor_view %pf32, shape = [%n, 16], strides = [16, 1]
          : tile<i32> -> tensor_view<?x16xf32, strides=[16,1]>
        %p = make_partition_view %v : partition_view<tile=(4x8), padding_value = zero, tensor_view<?x16xf32, strides=[16,1]>>
        %i = constant <i32: 1> : tile<i32>
        %x = constant <f32: 2.0> : tile<4x8xf32>
        %t = store_view_tko weak %x, %p[%i, %i] : tile<4x8xf32>, partition_view<tile=(4x8), padding_value = zero, tensor_view<?x16xf32, strides=[16,1]>>, tile<i32> -> token
        """,
    )
    UNDEFINED: ClassVar = (*_OUT_OF_BOUNDS, "weak: two elements of the tile at one address")

    def check(self, report: Report) -> None:
        check_view_access(self, report, "tile", STORE_ORDERS, "store")
