"""Vectors put together and taken apart: operations of ``vector`` that xDSL lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
    i64,
)
from xdsl.dialects.vector import CombiningKindAttr, CombiningKindFlag
from xdsl.ir import Attribute
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from tilewright.dialects.declare import Report, attr, enum_property, examples, same_type, type_of
from tilewright.dialects.narrowing import integers_of, is_dense_array, is_vector
from tilewright.dialects.source_map import Part
from tilewright.dialects.syntax.directives import (
    Property,
    parse_integers,
    parse_operand,
    parse_type_into,
)
from tilewright.dialects.syntax.engine import Directive, ParseState, shown_type, values_of
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base import codes
from tilewright.dialects.upstream.base.constraints import ANY_VALUE, I64_ARRAY, VECTOR, Kind
from tilewright.dialects.upstream.base.directives import syntax
from tilewright.dialects.upstream.base.enums import parse_keyword
from tilewright.dialects.upstream.base.operations import UpstreamOp, upstream_op
from tilewright.dialects.upstream.base.shapes import element_of, show_shape
from tilewright.dialects.upstream.gpu.attributes import combines

_DENSE = Kind(
    "an array of 64-bit integers",
    DenseArrayBase,
    lambda a: is_dense_array(a) and a.elt_type == i64,
)
_INDICES = Kind(
    "a vector of index of one dimension",
    VectorType,
    lambda t: is_vector(t) and isinstance(t.element_type, IndexType) and t.get_num_dims() == 1,
)
_MASK = Kind("a vector of i1", VectorType, lambda t: element_of(t) == IntegerType(1))


def _is_list(value: Attribute) -> bool:
    """Whether an attribute is a list of integers, as LLVM 19 has it, or as later ones do."""
    return I64_ARRAY.accepts(value) or _DENSE.accepts(value)


def shape_of(ty: Attribute) -> tuple[int, ...]:
    """The extents of a vector; none for a number."""
    return tuple(ty.get_shape()) if isinstance(ty, VectorType) else ()


def numbers_of(op: IRDLOperation, name: str) -> tuple[int, ...]:
    """The integers of an array property, of either kind of array."""
    return integers_of(op.properties[name])


def number_list(name: str, *, dense: bool = False) -> Property:
    """A property of integers in brackets: ``[1, 0]``; ``dense`` as upstream keeps some of them."""

    def value(parser: Parser) -> Attribute:
        numbers = parse_integers(parser)
        if dense:
            return DenseArrayBase.from_list(i64, numbers)
        return ArrayAttr([IntegerAttr(n, i64) for n in numbers])

    return Property(name, value, lambda array: str([*integers_of(array)]), "`[` INT {`,` INT} `]`")


@dataclass(frozen=True, slots=True)
class Position(Directive):
    """``[%i : T]`` behind a vector, empty for one without dimensions."""

    name: str = "position"

    def parse(self, parser: Parser, state: ParseState) -> None:
        parser.parse_punctuation("[")
        state.operands[self.name], state.types[self.name] = [], []
        if not parser.parse_optional_punctuation("]"):
            parse_operand(parser, state, self.name)
            parser.parse_punctuation(":")
            parse_type_into(parser, state, self.name)
            parser.parse_punctuation("]")

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        with printer.in_square_brackets():
            for value in values_of(op, self.name):
                printer.print_ssa_value(value)
                printer.print_string(f" : {shown_type(op, value)}")

    def grammar(self) -> str:
        return f"`[` [%{self.name} `:` TYPE] `]`"


def _combining_kind(parser: Parser) -> Attribute:
    with parser.in_angle_brackets():
        return CombiningKindAttr(
            CombiningKindFlag(parse_keyword(parser, CombiningKindFlag, "the kind"))
        )


#: How elements are combined: ``<add>``.
COMBINING_KIND = Property(
    "kind", _combining_kind, lambda kind: f"<{kind.data.value}>", "`<` KIND `>`"
)


def _expect(report: Report, op: UpstreamOp, group: str, shape: Sequence[int], like: str) -> None:
    """Report a group whose shape or element type is another than that of ``like`` asks for."""
    (value,), (source,) = values_of(op, group), values_of(op, like)
    element = element_of(source.type)
    if shape_of(value.type) != tuple(shape) or element_of(value.type) != element:
        wanted = format_type(VectorType(element, list(shape)) if shape else element)
        report.error(
            codes.VECTOR_SHAPE,
            f"expected '{group}' to be '{wanted}', got '{format_type(value.type)}'",
            type_of(group),
        )


def _check_slice(
    op: UpstreamOp, report: Report, extents: Sequence[int], shape: Sequence[int]
) -> bool:
    """Whether a slice of these extents lies within a shape; its steps must be 1."""
    offsets, steps = numbers_of(op, "offsets"), numbers_of(op, "strides")
    if any(step != 1 for step in steps):
        report.error(
            codes.VECTOR_SHAPE, f"expected strides of 1, got {list(steps)}", attr("strides")
        )
        return False
    for axis, (offset, extent, size) in enumerate(zip(offsets, extents, shape)):
        if not (0 <= offset < size and 0 < extent <= size - offset):
            report.error(
                codes.VECTOR_SHAPE,
                f"the slice takes elements {offset} to {offset + extent} of dimension {axis}, "
                f"which has {size}",
                attr("offsets"),
            )
            return False
    return True


@upstream_op("vector", "extract_strided_slice")
class ExtractStridedSliceOp(UpstreamOp):
    """A part of a vector: ``sizes`` elements from ``offsets`` on along its first dimensions."""

    vector = operand_def(VECTOR)
    offsets = prop_def(I64_ARRAY)
    sizes = prop_def(I64_ARRAY)
    strides = prop_def(I64_ARRAY)
    result = result_def(VECTOR)

    traits = traits_def(Pure())
    SYNTAX: ClassVar = syntax("$vector attr-dict : type($vector) to type($result)")
    EXAMPLES: ClassVar = examples(
        "%part = vector.extract_strided_slice %a {offsets = [1], sizes = [2], strides = [1]} : "
        "vector<4x2xf16> to vector<2x2xf16>"
    )

    def check(self, report: Report) -> None:
        shape, sizes = shape_of(self.vector.type), numbers_of(self, "sizes")
        counts = {len(numbers_of(self, name)) for name in ("offsets", "sizes", "strides")}
        if len(counts) > 1 or len(sizes) > len(shape):
            report.error(
                codes.VECTOR_SHAPE,
                f"expected offsets, sizes and strides for up to {len(shape)} dimensions, as many "
                "of each",
                attr("offsets"),
            )
        elif _check_slice(self, report, sizes, shape):
            _expect(report, self, "result", (*sizes, *shape[len(sizes) :]), "vector")


@upstream_op("vector", "insert_strided_slice")
class InsertStridedSliceOp(UpstreamOp):
    """``dest`` with the elements of ``source`` from ``offsets`` on, along the last dimensions of
    source."""

    source = operand_def(VECTOR)
    dest = operand_def(VECTOR)
    offsets = prop_def(I64_ARRAY)
    strides = prop_def(I64_ARRAY)
    res = result_def(VECTOR)

    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("dest", "res"),)
    INFER: ClassVar = {"res": "dest"}
    SYNTAX: ClassVar = syntax("$source, $dest attr-dict : type($source) into type($dest)")
    EXAMPLES: ClassVar = examples(
        "%whole = vector.insert_strided_slice %b, %a {offsets = [1, 0], strides = [1, 1]} : "
        "vector<2x2xf16> into vector<4x2xf16>"
    )

    def check(self, report: Report) -> None:
        source, dest = shape_of(self.source.type), shape_of(self.dest.type)
        offsets, steps = numbers_of(self, "offsets"), numbers_of(self, "strides")
        if len(offsets) != len(dest) or len(steps) != len(source) or len(source) > len(dest):
            report.error(
                codes.VECTOR_SHAPE,
                f"expected {len(dest)} offsets and {len(source)} strides, got {len(offsets)} and "
                f"{len(steps)}",
                attr("offsets"),
            )
            return
        leading = (1,) * (len(dest) - len(source))
        if element_of(self.source.type) != element_of(self.dest.type):
            _expect(report, self, "source", source, "dest")
        else:
            _check_slice(self, report, (*leading, *source), dest)


@upstream_op("vector", "transpose")
class TransposeOp(UpstreamOp):
    """A vector with its dimensions in another order: those of the result, by numbers of the source."""

    vector = operand_def(VECTOR)
    permutation = prop_def(_DENSE)
    result = result_def(VECTOR)

    traits = traits_def(Pure())
    HIDDEN: ClassVar = frozenset({"permutation"})
    SYNTAX: ClassVar = syntax(
        "$vector,",
        number_list("permutation", dense=True),
        "attr-dict : type($vector) to type($result)",
    )
    EXAMPLES: ClassVar = examples(
        "%t = vector.transpose %a, [1, 0] : vector<4x2xf16> to vector<2x4xf16>"
    )

    def check(self, report: Report) -> None:
        shape, order = shape_of(self.vector.type), numbers_of(self, "permutation")
        if sorted(order) != list(range(len(shape))):
            report.error(
                codes.VECTOR_SHAPE,
                f"expected each of {len(shape)} dimensions once, got {list(order)}",
                attr("permutation"),
            )
        else:
            _expect(report, self, "result", [shape[axis] for axis in order], "vector")


def _shuffled(state: ParseState) -> list[Attribute]:
    """The type of a shuffle: as many rows as the mask has places."""
    (first,), mask = state.types["v1"], state.properties["mask"]
    return [VectorType(element_of(first), [len(integers_of(mask)), *shape_of(first)[1:]])]


@upstream_op("vector", "shuffle")
class ShuffleOp(UpstreamOp):
    """Rows of two vectors, by their places in both, one behind the other; -1 for any row."""

    v1 = operand_def(VECTOR)
    v2 = operand_def(VECTOR)
    mask = prop_def(Kind("an array of 64-bit integers", Attribute, _is_list))
    result = result_def(VECTOR)

    traits = traits_def(Pure())
    HIDDEN: ClassVar = frozenset({"mask"})
    INFER: ClassVar = {"result": _shuffled}
    SYNTAX: ClassVar = syntax("$v1, $v2", number_list("mask"), "attr-dict : type($v1), type($v2)")
    EXAMPLES: ClassVar = examples(
        "%w = vector.shuffle %a, %b [0, 5, 1] : vector<4x2xf16>, vector<2x2xf16>"
    )

    def check(self, report: Report) -> None:
        first, second = shape_of(self.v1.type) or (1,), shape_of(self.v2.type) or (1,)
        if first[1:] != second[1:] or element_of(self.v1.type) != element_of(self.v2.type):
            report.error(
                codes.VECTOR_SHAPE,
                f"expected rows of one type, got '{format_type(self.v1.type)}' and "
                f"'{format_type(self.v2.type)}'",
                type_of("v2"),
            )
            return
        places, count = numbers_of(self, "mask"), first[0] + second[0]
        if not places or any(not -1 <= place < count for place in places):
            report.error(
                codes.VECTOR_SHAPE,
                f"expected places among {count} rows, got {list(places)}",
                attr("mask"),
            )
            return
        _expect(report, self, "result", (len(places), *first[1:]), "v1")


def _check_position(
    op: UpstreamOp, report: Report, vector: Attribute, part: Part = ("operand", "position", 0)
) -> None:
    rank, given = len(shape_of(vector)), len(values_of(op, "position"))
    if rank > 1 or rank != given:
        report.error(
            codes.VECTOR_SHAPE,
            f"expected a vector of one dimension and a position, or neither, got "
            f"'{format_type(vector)}' and {given} positions",
            part if given else type_of("vector"),
        )


_WHOLE = Kind("an index or integer", Attribute, lambda t: isinstance(t, IndexType | IntegerType))


def _element_of_vector(group: str) -> Callable[[ParseState], list[Attribute]]:
    return lambda state: [element_of(state.types[group][0])]


@upstream_op("vector", "extractelement")
class ExtractElementOp(UpstreamOp):
    """An element of a vector of one dimension, at a place that is computed."""

    vector = operand_def(VECTOR)
    position = opt_operand_def(_WHOLE)
    result = result_def(ANY_VALUE)

    traits = traits_def(Pure())
    INFER: ClassVar = {"result": _element_of_vector("vector")}
    SYNTAX: ClassVar = syntax("$vector", Position(), "attr-dict : type($vector)")
    UNDEFINED: ClassVar = ("the place lies outside of the vector",)
    EXAMPLES: ClassVar = examples(
        """
        %flat = vector.shape_cast %v : vector<2x2xf32> to vector<4xf32>
        %x = vector.extractelement %flat[%i : index] : vector<4xf32>
        """
    )

    def check(self, report: Report) -> None:
        _check_position(self, report, self.vector.type)
        if self.result.type != element_of(self.vector.type):
            _expect(report, self, "result", (), "vector")


@upstream_op("vector", "insertelement")
class InsertElementOp(UpstreamOp):
    """A vector of one dimension with another element, at a place that is computed."""

    source = operand_def(ANY_VALUE)
    dest = operand_def(VECTOR)
    position = opt_operand_def(_WHOLE)
    result = result_def(VECTOR)

    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("dest", "result"),)
    INFER: ClassVar = {"result": "dest", "source": _element_of_vector("dest")}
    SYNTAX: ClassVar = syntax("$source, $dest", Position(), "attr-dict : type($dest)")
    UNDEFINED: ClassVar = ("the place lies outside of the vector",)
    EXAMPLES: ClassVar = examples(
        """
        %x = arith.constant 1.0 : f32
        %flat = vector.shape_cast %v : vector<2x2xf32> to vector<4xf32>
        %w = vector.insertelement %x, %flat[%i : index] : vector<4xf32>
        """
    )

    def check(self, report: Report) -> None:
        _check_position(self, report, self.dest.type)
        if self.source.type != element_of(self.dest.type):
            _expect(report, self, "source", (), "dest")


@upstream_op("vector", "constant_mask")
class ConstantMaskOp(UpstreamOp):
    """A mask that holds at the places below ``mask_dim_sizes`` along every dimension."""

    mask_dim_sizes = prop_def(I64_ARRAY)
    result = result_def(_MASK)

    traits = traits_def(Pure())
    HIDDEN: ClassVar = frozenset({"mask_dim_sizes"})
    SYNTAX: ClassVar = syntax(number_list("mask_dim_sizes"), "attr-dict : type($result)")
    EXAMPLES: ClassVar = examples("%mask = vector.constant_mask [2, 3] : vector<4x4xi1>")

    def check(self, report: Report) -> None:
        sizes, shape = numbers_of(self, "mask_dim_sizes"), shape_of(self.result.type)
        fits = len(sizes) == len(shape) and all(0 <= n <= m for n, m in zip(sizes, shape))
        if not shape:
            fits = sizes in ((0,), (1,))
        if not fits or (0 in sizes and any(sizes)):
            report.error(
                codes.VECTOR_SHAPE,
                f"expected numbers up to {show_shape(shape)}, all of them zero or none, got "
                f"{list(sizes)}",
                attr("mask_dim_sizes"),
            )


def _one_for_each(state: ParseState) -> list[Attribute]:
    (ty,) = state.types["result"]
    return [element_of(ty)] * len(state.operands["elements"])


@upstream_op("vector", "from_elements")
class FromElementsOp(UpstreamOp):
    """A vector of its elements, in order."""

    elements = var_operand_def(ANY_VALUE)
    result = result_def(VECTOR)

    traits = traits_def(Pure())
    INFER: ClassVar = {"elements": _one_for_each}
    SYNTAX: ClassVar = syntax("$elements* attr-dict : type($result)")
    EXAMPLES: ClassVar = examples(
        """
        %x = arith.constant 1.0 : f32
        %w = vector.from_elements %x, %x, %x, %x : vector<2x2xf32>
        """
    )

    def check(self, report: Report) -> None:
        ty = self.result.type
        count = prod(shape_of(ty))
        if len(self.elements) != count or any(v.type != element_of(ty) for v in self.elements):
            report.error(
                codes.VECTOR_SHAPE,
                f"expected {count} elements of '{format_type(element_of(ty))}' for "
                f"'{format_type(ty)}', got {len(self.elements)}",
                type_of("result"),
            )


@upstream_op("vector", "interleave")
class InterleaveOp(UpstreamOp):
    """The elements of two vectors in turn, along the last dimension."""

    lhs = operand_def(VECTOR)
    rhs = operand_def(VECTOR)
    result = result_def(VECTOR)

    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("lhs", "rhs"),)
    INFER: ClassVar = {"rhs": "lhs"}
    SYNTAX: ClassVar = syntax("$lhs, $rhs attr-dict : type($lhs) -> type($result)")
    EXAMPLES: ClassVar = examples(
        "%w = vector.interleave %b, %b : vector<2x2xf16> -> vector<2x4xf16>"
    )

    def check(self, report: Report) -> None:
        shape = shape_of(self.lhs.type) or (1,)
        _expect(report, self, "result", (*shape[:-1], 2 * shape[-1]), "lhs")


@upstream_op("vector", "deinterleave")
class DeinterleaveOp(UpstreamOp):
    """The elements of a vector at even and at odd places, along the last dimension."""

    source = operand_def(VECTOR)
    res1 = result_def(VECTOR)
    res2 = result_def(VECTOR)

    traits = traits_def(Pure())
    INFER: ClassVar = {"res2": "res1"}
    SYNTAX: ClassVar = syntax("$source attr-dict : type($source) -> type($res1)")
    EXAMPLES: ClassVar = examples(
        "%even, %odd = vector.deinterleave %a : vector<4x2xf16> -> vector<4x1xf16>"
    )

    def check(self, report: Report) -> None:
        shape = shape_of(self.source.type)
        if not shape or shape[-1] % 2:
            report.error(
                codes.VECTOR_SHAPE,
                "expected an even number of elements along the last dimension, got "
                f"'{format_type(self.source.type)}'",
                type_of("source"),
            )
            return
        for group in ("res1", "res2"):
            _expect(report, self, group, (*shape[:-1], shape[-1] // 2), "source")


@upstream_op("vector", "step")
class StepOp(UpstreamOp):
    """The numbers from 0 on."""

    result = result_def(_INDICES)

    traits = traits_def(Pure())
    SYNTAX: ClassVar = syntax("attr-dict : type($result)")
    EXAMPLES: ClassVar = examples("%numbers = vector.step : vector<4xindex>")


@upstream_op("vector", "multi_reduction")
class MultiReductionOp(UpstreamOp):
    """The elements of a vector along some dimensions combined, together with ``acc``."""

    source = operand_def(VECTOR)
    acc = operand_def(ANY_VALUE)
    kind = prop_def(Kind("a combining kind", CombiningKindAttr))
    reduction_dims = prop_def(I64_ARRAY)
    dest = result_def(ANY_VALUE)

    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("acc", "dest"),)
    HIDDEN: ClassVar = frozenset({"kind", "reduction_dims"})
    INFER: ClassVar = {"acc": "dest"}
    SYNTAX: ClassVar = syntax(
        COMBINING_KIND,
        ", $source, $acc",
        number_list("reduction_dims"),
        "attr-dict : type($source) to type($dest)",
    )
    EXAMPLES: ClassVar = examples(
        """
        %zero = arith.constant dense<0.0> : vector<2xf32>
        %sums = vector.multi_reduction <add>, %v, %zero [1] : vector<2x2xf32> to vector<2xf32>
        """
    )

    def check(self, report: Report) -> None:
        shape, reduced = shape_of(self.source.type), numbers_of(self, "reduction_dims")
        kept = [extent for axis, extent in enumerate(shape) if axis not in reduced]
        if any(not 0 <= axis < len(shape) for axis in reduced):
            report.error(
                codes.VECTOR_SHAPE,
                f"expected numbers of {len(shape)} dimensions, got {list(reduced)}",
                attr("reduction_dims"),
            )
        else:
            _expect(report, self, "dest", kept, "source")
        kind = enum_property(self, "kind")
        if not combines(kind, element_of(self.source.type)):
            report.error(
                codes.REDUCTION,
                f"'{kind}' does not combine values of '{format_type(self.source.type)}'",
                attr("kind"),
            )
