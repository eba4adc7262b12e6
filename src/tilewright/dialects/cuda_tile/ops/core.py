"""Making, reshaping, joining and cutting tiles; block coordinates; addresses of globals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, IntegerType, SymbolRefAttr
from xdsl.ir import Attribute
from xdsl.irdl import (
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure

from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile import constraints as K
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.base import TileOp, tile_op, tile_type, tile_types
from tilewright.dialects.cuda_tile.constants import TileConstantAttr, parse_literal_and_type
from tilewright.dialects.cuda_tile.directives import syntax
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.dialects.declare import (
    Related,
    Report,
    attr,
    examples,
    int_property,
    operand,
    same_element_type,
    same_rank,
    same_shape,
    same_type,
    type_of,
)
from tilewright.dialects.narrowing import integers_of
from tilewright.dialects.syntax.directives import (
    ATTR_DICT,
    IntField,
    Operand,
    Property,
    SymbolField,
    parse_integers,
)
from tilewright.dialects.syntax.engine import Directive, ParseState
from tilewright.dialects.versions import V13_3, V13_4
from tilewright.numerics.element_types import FORMATS

GROUP = "core"

SHAPE_RULE = define_code(
    "shape-mismatch",
    "The shapes of an operation's tiles do not match.",
    "`tilewright explain OP` lists which extents must match.",
    wrong="""
    %two = iota : tile<2xi32>
    %four = broadcast %two : tile<2xi32> -> tile<4xi32>
    """,
    right="""
    %one = reshape %n : tile<i32> -> tile<1xi32>
    %four = broadcast %one : tile<1xi32> -> tile<4xi32>
    """,
)
DIM_RULE = define_code("dim-out-of-range", "A dimension is out of range for the rank of the tile.")
INDEX_COUNT = define_code(
    "index-count", "The number of indices differs from the number of dimensions."
)
INDEX_RANGE = define_code(
    "index-out-of-range",
    "A constant index is outside the grid of sub-tiles; executing it is undefined behaviour.",
)
PERMUTATION_RULE = define_code(
    "bad-permutation", "A permutation names each dimension of the tile once."
)
PACK_RULE = define_code(
    "pack-size",
    "pack and unpack keep the number of bits, in whole bytes, and change the element width.",
)
IOTA_RULE = define_code("iota-range", "The last value of iota does not fit the element type.")
UNKNOWN_SYMBOL = define_code(
    "unknown-symbol", "A symbol reference does not name an operation of the required kind."
)
GLOBAL_TYPE = define_code(
    "global-type", "get_global returns a pointer to the element type of the global."
)
SUB_BYTE = define_code("sub-byte-elements", "The operation does not support f4E2M1FN elements.")

SOURCE_TO_RESULT = syntax("$source attr-dict : type($source) -> type($result)")


def _dims(dims: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, dims)) + "]"


@tile_op("broadcast", opcode=0x0B, group=GROUP)
class BroadcastOp(TileOp):
    """Repeats the elements along dimensions of extent 1; the rank stays."""

    source = operand_def(K.ANY_TILE)
    result = result_def(K.ANY_TILE)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_element_type("source", "result"), same_rank("source", "result"))
    RESULT_NAMES: ClassVar = ("bcast",)
    SYNTAX: ClassVar = SOURCE_TO_RESULT
    EXAMPLES: ClassVar = examples(
        """
        %row = iota : tile<8xi32>
        %m = reshape %row : tile<8xi32> -> tile<1x8xi32>
        %rows = broadcast %m : tile<1x8xi32> -> tile<4x8xi32>  // four equal rows
        """,
    )

    def check(self, report: Report) -> None:
        types = tile_types(self.source, self.result)
        if types is None or types[0].rank != types[1].rank:
            return
        for dim, (have, want) in enumerate(zip(types[0].dims, types[1].dims, strict=True)):
            if have not in (1, want):
                report.error(
                    SHAPE_RULE,
                    f"expects the shape of source tile to be compatible with that of the result "
                    f"tile: dimension {dim} is {have}, expected 1 or {want}",
                    type_of("result"),
                )


@tile_op("cat", opcode=0x0C, group=GROUP)
class CatOp(TileOp):
    """Joins two tiles along dimension ``dim``; the other extents are equal."""

    lhs = operand_def(K.ANY_TILE)
    rhs = operand_def(K.ANY_TILE)
    dim = prop_def(K.INT64)
    result = result_def(K.ANY_TILE)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (
        same_rank("lhs", "rhs", "result"),
        same_element_type("lhs", "rhs", "result"),
    )
    SYNTAX: ClassVar = syntax(
        "$lhs, $rhs", IntField("dim", 64), "attr-dict : type($lhs), type($rhs) -> type($result)"
    )
    EXAMPLES: ClassVar = examples(
        """
        %x = iota : tile<4xi32>
        %y = constant <i32: 9> : tile<4xi32>
        %z = cat %x, %y dim = 0 : tile<4xi32>, tile<4xi32> -> tile<8xi32>
        """,
    )

    def check(self, report: Report) -> None:
        types = tile_types(self.lhs, self.rhs, self.result)
        if types is None or len({ty.rank for ty in types}) != 1:
            return
        lhs, rhs, result = (ty.dims for ty in types)
        dim = int_property(self, "dim")
        if not 0 <= dim < len(lhs):
            report.error(DIM_RULE, f"expect dim to be [0, {len(lhs)}), but got {dim}", attr("dim"))
            return
        if result[dim] != lhs[dim] + rhs[dim]:
            report.error(
                SHAPE_RULE,
                f"invalid concat at position {dim}: expected {lhs[dim]} + {rhs[dim]} = "
                f"{lhs[dim] + rhs[dim]}, got {result[dim]}",
                type_of("result"),
            )
        for i, extents in enumerate(zip(lhs, rhs, result, strict=True)):
            if i != dim and len(set(extents)) != 1:
                report.error(
                    SHAPE_RULE,
                    f"expected lhs, rhs and result to match at non-concat position {i}, got "
                    f"{extents[0]}, {extents[1]} and {extents[2]}",
                    type_of("result"),
                )


def constant_of(value: Attribute) -> TileConstantAttr:
    """A constant's value, which is known to be one of ours."""
    assert isinstance(value, TileConstantAttr)
    return value


class ConstantLiteral(Directive):
    """``<elem: literal> : type``"""

    def parse(self, parser: Parser, state: ParseState) -> None:
        state.read(parser, "value", lambda: parse_literal_and_type(parser))
        state.types["result"] = [constant_of(state.properties["value"]).type]

    def print(self, printer: Printer, op: TileOp) -> None:
        value = constant_of(op.properties["value"])
        printer.print_string(f" <{value.literal()}> : {format_type(value.type)}")

    def grammar(self) -> str:
        return "`<` ELEM `:` LITERAL `>` `:` type(%result)"


class TileConstantLike(ConstantLike):
    """Tells xDSL's folding which attribute a constant stands for."""

    @classmethod
    def get_constant_value(cls, op: TileOp) -> Attribute | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return op.properties.get("value")


@tile_op("constant", opcode=0x10, group=GROUP)
class ConstantOp(TileOp):
    """A tile of fixed numbers; one number fills the whole tile."""

    value = prop_def(K.CONSTANT)
    result = result_def(K.NUMBER_TILE)
    traits = traits_def(Pure(), TileConstantLike())
    SYNTAX: ClassVar = (ConstantLiteral(), ATTR_DICT)
    EXAMPLES: ClassVar = examples(
        """
        %splat = constant <f32: 1.0> : tile<4x4xf32>
        %list = constant <i32: [[1, 2], [-3, 0xFF]]> : tile<2x2xi32>
        %scalar = constant <i1: true> : tile<i1>
        %nan = constant <f16: 0x7E00> : tile<f16>  // by its bit pattern
        """,
    )

    @property
    def constant(self) -> TileConstantAttr:
        """The value, as the attribute that holds it."""
        return constant_of(self.properties["value"])

    def check(self, report: Report) -> None:
        value = self.properties.get("value")
        if isinstance(value, TileConstantAttr) and value.type != self.result.type:
            report.error(
                SHAPE_RULE,
                f"the type of the value, '{format_type(value.type)}', differs from that of the "
                f"result, '{format_type(self.result.type)}'",
                type_of("result"),
            )

    def result_name(self, index: int) -> str | None:
        value = self.constant
        element = value.type.element
        spelled = format_type(value.type.element_type)
        if not value.is_splat:
            return f"cst_{spelled}"
        (number,) = value.values()
        if element == "i1":
            return "true" if number else "false"
        if FORMATS[element].is_int:
            return f"cst_{number}_{element}"
        if number != number:
            return f"cst_NaN_{spelled}"
        is_count = (
            number >= 0 and number == number // 1 and value.bits()[0] != _negative_zero(element)
        )
        return f"cst_{int(number)}_{spelled}" if is_count else f"cst_{spelled}"


def _negative_zero(element: str) -> int:
    return FORMATS[element].sign_bit or -1


@tile_op("extract", opcode=0x26, group=GROUP)
class ExtractOp(TileOp):
    """The sub-tile at a position in the grid of sub-tiles that the source divides into.

    Indices count whole sub-tiles and are read unsigned.
    """

    source = operand_def(K.ANY_TILE)
    indices = var_operand_def(K.SCALAR_I32)
    result = result_def(K.ANY_TILE)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_rank("source", "result"), same_element_type("source", "result"))
    SYNTAX: ClassVar = syntax("$source[$indices*] attr-dict : type($source) -> type($result)")
    EXAMPLES: ClassVar = examples(
        """
        %x = iota : tile<8xi32>
        %i = constant <i32: 1> : tile<i32>
        %y = extract %x[%i] : tile<8xi32> -> tile<4xi32>  // 4, 5, 6, 7
        """,
    )
    UNDEFINED: ClassVar = ("an index outside the grid of sub-tiles",)

    def check(self, report: Report) -> None:
        check_sub_tiles(self, report, "source", "result")


@tile_op("insert", opcode=0x76, since=V13_4, group=GROUP)
class InsertOp(TileOp):
    """The destination with one sub-tile replaced by the source; the inverse of extract."""

    source = operand_def(K.ANY_TILE)
    destination = operand_def(K.ANY_TILE)
    indices = var_operand_def(K.SCALAR_I32)
    result = result_def(K.ANY_TILE)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (
        same_rank("source", "destination"),
        same_element_type("source", "destination"),
        same_type("destination", "result"),
    )
    SYNTAX: ClassVar = syntax(
        "$source, $destination[$indices*] attr-dict : type($source), type($destination)"
    )
    INFER: ClassVar = {"result": "destination"}
    EXAMPLES: ClassVar = examples(
        """
        %x = iota : tile<8xi32>
        %y = constant <i32: -1> : tile<4xi32>
        %i = constant <i32: 1> : tile<i32>
        %z = insert %y, %x[%i] : tile<4xi32>, tile<8xi32>  // 0, 1, 2, 3, -1, -1, -1, -1
        """,
    )
    UNDEFINED: ClassVar = ("an index outside the grid of sub-tiles",)

    def check(self, report: Report) -> None:
        check_sub_tiles(self, report, "destination", "source")


def check_sub_tiles(op: ExtractOp | InsertOp, report: Report, whole: str, part: str) -> None:
    """``part`` divides ``whole``, with one index for each dimension, in range where constant."""
    types = tile_types(getattr(op, whole), getattr(op, part))
    if types is None or types[0].rank != types[1].rank:
        return
    dims, parts = types[0].dims, types[1].dims
    what = "result" if part == "result" else "source"
    for dim, (extent, step) in enumerate(zip(dims, parts, strict=True)):
        if extent % step:
            report.error(
                SHAPE_RULE,
                f"{whole} dimension {dim} ({extent}) must be evenly divisible by {what} dimension "
                f"({step})",
                type_of(part),
            )
            return
    if len(op.indices) != len(dims):
        report.error(
            INDEX_COUNT,
            f"expected {len(dims)} indices, but got {len(op.indices)}",
            operand("indices") if op.indices else None,
        )
        return
    for dim, index in enumerate(op.indices):
        owner = index.owner
        if not isinstance(owner, ConstantOp) or not owner.constant.is_splat:
            continue
        value, count = int(owner.constant.values()[0]), dims[dim] // parts[dim]
        if not 0 <= value < count:
            report.warning(
                INDEX_RANGE,
                f"index {value} of dimension {dim} is outside of [0, {count})",
                operand("indices", dim),
                notes=(Related("the index is this constant", owner),),
            )


@tile_op("get_global", opcode=0x2C, group=GROUP)
class GetGlobalOp(TileOp):
    """The address of the first element of a global."""

    name_ = prop_def(K.SYMBOL, prop_name="name")
    result = result_def(K.SCALAR_PTR)
    traits = traits_def(Pure())
    SYNTAX: ClassVar = syntax(SymbolField("name"), "attr-dict : type($result)")
    EXAMPLES: ClassVar = examples(
        """
        %p = get_global @table : tile<ptr<f32>>
        %v, %t = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
        """,
    )

    @property
    def symbol(self) -> str:
        """The name of the global, without ``@``."""
        reference = self.properties["name"]
        assert isinstance(reference, SymbolRefAttr)
        return reference.root_reference.data


@tile_op("get_num_tile_blocks", opcode=0x2E, group=GROUP)
class GetNumTileBlocksOp(TileOp):
    """The extents of the grid along x, y and z, each at least 1."""

    gridSize_x = result_def(K.SCALAR_I32)
    gridSize_y = result_def(K.SCALAR_I32)
    gridSize_z = result_def(K.SCALAR_I32)
    traits = traits_def(Pure())
    RESULT_NAMES: ClassVar = ("gridSize_x", "gridSize_y", "gridSize_z")
    SYNTAX: ClassVar = syntax("attr-dict : type($gridSize_x)")
    INFER: ClassVar = {"gridSize_y": "gridSize_x", "gridSize_z": "gridSize_x"}
    EXAMPLES: ClassVar = examples(
        """
        %nx, %ny, %nz = get_num_tile_blocks : tile<i32>
        """,
    )


@tile_op("get_tile_block_id", opcode=0x30, group=GROUP)
class GetTileBlockIdOp(TileOp):
    """The coordinates of this tile block in the grid, from 0."""

    blockId_x = result_def(K.SCALAR_I32)
    blockId_y = result_def(K.SCALAR_I32)
    blockId_z = result_def(K.SCALAR_I32)
    traits = traits_def(Pure())
    RESULT_NAMES: ClassVar = ("blockId_x", "blockId_y", "blockId_z")
    SYNTAX: ClassVar = syntax("attr-dict : type($blockId_x)")
    INFER: ClassVar = {"blockId_y": "blockId_x", "blockId_z": "blockId_x"}
    EXAMPLES: ClassVar = examples(
        """
        %x, %y, %z = get_tile_block_id : tile<i32>
        """,
    )


@tile_op("iota", opcode=0x3A, group=GROUP)
class IotaOp(TileOp):
    """0, 1, 2, ... up to the extent less 1, read unsigned."""

    result = result_def(K.INT_TILE)
    traits = traits_def(Pure())
    SYNTAX: ClassVar = syntax("attr-dict : type($result)")
    EXAMPLES: ClassVar = examples(
        """
        %x = iota : tile<8xi32>  // 0, 1, 2, ... 7
        """,
    )

    def check(self, report: Report) -> None:
        ty = tile_type(self.result)
        if ty is None or ty.element not in FORMATS:
            return
        if ty.rank != 1:
            report.error(
                IOTA_RULE,
                f"expects result type to be 1-d tile, got rank {ty.rank}",
                type_of("result"),
            )
        elif ty.element_count > 1 << FORMATS[ty.element].bits:
            report.error(
                IOTA_RULE,
                f"the number of elements {ty.element_count} exceeds the maximum value of element "
                f"type {ty.element}",
                type_of("result"),
            )


@tile_op("offset", opcode=0x51, group=GROUP)
class OffsetOp(TileOp):
    """Each address moved by ``offset`` elements of its pointee; offsets are read signed."""

    ptr = operand_def(K.PTR_TILE)
    offset = operand_def(K.INT_TILE)
    result = result_def(K.PTR_TILE)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("ptr", "result"), same_shape("ptr", "offset", "result"))
    SYNTAX: ClassVar = syntax(
        "$ptr, $offset attr-dict : type($ptr), type($offset) -> type($result)"
    )
    EXAMPLES: ClassVar = examples(
        """
        %base = reshape %pf32 : tile<ptr<f32>> -> tile<1xptr<f32>>
        %all = broadcast %base : tile<1xptr<f32>> -> tile<8xptr<f32>>
        %i = iota : tile<8xi32>
        %p = offset %all, %i : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>>
        """,
    )
    UNDEFINED: ClassVar = ("an address that does not fit 64 bits",)
    UNDEFINED_AT_USE: ClassVar = True


@tile_op("pack", opcode=0x6F, since=V13_3, group=GROUP)
class PackOp(TileOp):
    """The bytes of a 1-d tile, little-endian; elements below a byte fill it from the low bits."""

    source = operand_def(K.NUMBER_OR_I4_TILE_1D)
    result = result_def(K.I8_TILE_1D)
    traits = traits_def(Pure())
    SYNTAX: ClassVar = SOURCE_TO_RESULT
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <i32: [1, 256]> : tile<2xi32>
        %bytes = pack %x : tile<2xi32> -> tile<8xi8>  // 1, 0, 0, 0, 0, 1, 0, 0
        """,
    )

    def check(self, report: Report) -> None:
        _check_pack(self, report, self.source.type, self.result.type)


@tile_op("unpack", opcode=0x70, since=V13_3, group=GROUP)
class UnpackOp(TileOp):
    """Elements read from the bytes of a 1-d tile; the inverse of pack."""

    source = operand_def(K.I8_TILE_1D)
    result = result_def(K.NUMBER_OR_I4_TILE_1D)
    traits = traits_def(Pure())
    SYNTAX: ClassVar = SOURCE_TO_RESULT
    EXAMPLES: ClassVar = examples(
        """
        %bytes = constant <i8: [1, 0, 0, 0, 0, 1, 0, 0]> : tile<8xi8>
        %x = unpack %bytes : tile<8xi8> -> tile<2xi32>  // 1, 256
        """,
    )

    def check(self, report: Report) -> None:
        _check_pack(self, report, self.result.type, self.source.type)


def _check_pack(op: TileOp, report: Report, elements: Attribute, packed: Attribute) -> None:
    if not isinstance(elements, T.TileType) or not isinstance(packed, T.TileType):
        return
    if elements.element not in FORMATS or packed.element != "i8":
        return
    fmt = FORMATS[elements.element]
    if fmt.bits == 8:
        report.error(
            PACK_RULE,
            f"element widths must differ, but both tiles have 8-bit elements ({fmt.name} and i8)",
            type_of("source"),
        )
        return
    width = 32 if fmt.name == "tf32" else fmt.bits
    bits, packed_bits = width * elements.element_count, 8 * packed.element_count
    if bits % 8 or bits != packed_bits:
        report.error(
            PACK_RULE,
            f"expected both tiles to have the same number of bits, a multiple of 8, got {bits} "
            f"and {packed_bits}",
            type_of("result"),
        )


def _parse_axes(parser: Parser) -> Attribute:
    bounded = [max(-(2**31), min(2**31 - 1, axis)) for axis in parse_integers(parser)]
    return DenseArrayBase.from_list(IntegerType(32), bounded)


PERMUTATION = Property(
    "permutation", _parse_axes, lambda axes: _dims(integers_of(axes)), "`[` INT {`,` INT} `]`"
)


@tile_op("permute", opcode=0x53, group=GROUP)
class PermuteOp(TileOp):
    """Reorders dimensions: result extent i is source extent permutation[i]."""

    source = operand_def(K.ANY_TILE)
    permutation = prop_def(K.I32_ARRAY)
    result = result_def(K.ANY_TILE)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_element_type("source", "result"), same_rank("source", "result"))
    SYNTAX: ClassVar = (Operand("source"), PERMUTATION, *SOURCE_TO_RESULT[1:])
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <i32: [[1, 2, 3, 4], [5, 6, 7, 8]]> : tile<2x4xi32>
        %y = permute %x [1, 0] : tile<2x4xi32> -> tile<4x2xi32>  // transposed
        """,
    )

    @property
    def axes(self) -> tuple[int, ...]:
        """For each axis of the result the axis of the source that it is."""
        return integers_of(self.properties["permutation"])

    def check(self, report: Report) -> None:
        types = tile_types(self.source, self.result)
        if types is None or types[0].rank != types[1].rank:
            return
        source, result = types[0].dims, types[1].dims
        axes, rank = self.axes, len(source)
        place = attr("permutation")
        if rank < 2:
            report.error(PERMUTATION_RULE, f"expects at least rank 2, got rank {rank}", place)
        elif len(axes) != rank:
            report.error(
                PERMUTATION_RULE,
                f"expected permutation to have {rank} entries, one for each dimension, got "
                f"{len(axes)}",
                place,
            )
        elif sorted(axes) != list(range(rank)):
            report.error(
                PERMUTATION_RULE,
                f"expected permutation to name each dimension in [0, {rank}) once, got {_dims(axes)}",
                place,
            )
        elif tuple(source[a] for a in axes) != result:
            report.error(
                SHAPE_RULE,
                f"expected result shape {_dims([source[a] for a in axes])}, got {_dims(result)}",
                type_of("result"),
            )


@tile_op("reshape", opcode=0x5B, group=GROUP)
class ReshapeOp(TileOp):
    """The same elements in row-major order under another shape."""

    source = operand_def(K.ANY_TILE)
    result = result_def(K.ANY_TILE)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_element_type("source", "result"),)
    RESULT_NAMES: ClassVar = ("reshape",)
    SYNTAX: ClassVar = SOURCE_TO_RESULT
    EXAMPLES: ClassVar = examples(
        """
        %x = iota : tile<8xi32>
        %y = reshape %x : tile<8xi32> -> tile<2x4xi32>
        %z = reshape %n : tile<i32> -> tile<1x1xi32>
        """,
    )

    def check(self, report: Report) -> None:
        types = tile_types(self.source, self.result)
        if types is not None and types[0].element_count != types[1].element_count:
            report.error(
                SHAPE_RULE,
                f"expected source tile and result tile to have the same number of elements, got "
                f"{types[0].element_count} and {types[1].element_count}",
                type_of("result"),
            )


@tile_op("select", opcode=0x5F, group=GROUP)
class SelectOp(TileOp):
    """Element by element: val_if_true where cond is true, else val_if_false."""

    cond = operand_def(K.I1_TILE)
    val_if_true = operand_def(K.ANY_TILE)
    val_if_false = operand_def(K.ANY_TILE)
    result = result_def(K.ANY_TILE)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (
        same_type("val_if_true", "val_if_false", "result"),
        same_shape("cond", "val_if_true", "val_if_false", "result"),
    )
    SYNTAX: ClassVar = syntax(
        "$cond, $val_if_true, $val_if_false attr-dict : type($cond), type($result)"
    )
    INFER: ClassVar = {"val_if_true": "result", "val_if_false": "result"}
    EXAMPLES: ClassVar = examples(
        """
        %x = iota : tile<4xi32>
        %two = constant <i32: 2> : tile<4xi32>
        %c = cmpi less_than %x, %two, signed : tile<4xi32> -> tile<4xi1>
        %y = select %c, %x, %two : tile<4xi1>, tile<4xi32>  // 0, 1, 2, 2
        """,
    )

    def check(self, report: Report) -> None:
        ty = tile_type(self.result)
        if ty is not None and ty.element == "f4E2M1FN":
            report.error(SUB_BYTE, "cannot operate on sub-byte type F4E2M1FN", type_of("result"))
