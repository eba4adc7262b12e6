"""MLIR's generic form of operations: ``"name"(%a) <{...}> ({...}) {...} : (T) -> U``.

The form itself guarantees little, so operations are checked against their definition here: counts of
operands, results and regions, and kinds of properties. Any operation that was read can therefore be
printed and inspected, whatever the verifier says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, IntegerType, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    OpDef,
    OptionalDef,
    OptOperandDef,
    OptResultDef,
    VariadicDef,
    VerificationContext,
)
from xdsl.parser import UnresolvedOperand
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind

from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.constants import scalar_bits
from tilewright.dialects.cuda_tile.constraints import FieldKind
from tilewright.dialects.cuda_tile.ops.control_flow import IfOp
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.dialects.cuda_tile.ops.reductions import ReduceOrScan, identity, parse_identity
from tilewright.dialects.source_map import Part
from tilewright.dialects.syntax.engine import COUNT_MISMATCH, SyntaxOp
from tilewright.dialects.syntax.tokens import fail, token_start
from tilewright.text.lexer import TileToken

if TYPE_CHECKING:
    from tilewright.text.parser import TileParser

BAD_PROPERTY = define_code(
    "bad-property",
    "A property of an operation is missing, unknown, duplicate, or of the wrong kind.",
)
OPERATION_SHAPE = define_code(
    "operation-shape",
    "An operation in generic form has the wrong number of operands, results or regions.",
)

SEGMENTS = AttrSizedOperandSegments.attribute_name

Range = tuple[int, int]


@dataclass(slots=True)
class _Generic:
    """The parsed parts of an operation in generic form."""

    op_type: type[Operation]
    name: TileToken
    operands: list[UnresolvedOperand]
    properties: dict[str, Attribute] = field(default_factory=dict)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    ranges: dict[str, Range] = field(default_factory=dict)
    inputs: list[Attribute] = field(default_factory=list)
    outputs: list[Attribute] = field(default_factory=list)
    input_ranges: list[Range] = field(default_factory=list)
    output_ranges: list[Range] = field(default_factory=list)


def parse_generic_operation(
    parser: TileParser, op_type: type[Operation], name: TileToken
) -> Operation:
    """Parse from the ``(`` after the quoted name up to the trailing location, which is not consumed.

    Raises CodedParseError where the signature does not fit the operands, or the fields the operation.
    """
    read = _Generic(op_type, name, parser.parse_op_args_list())
    successors: Sequence[Block] = parser.parse_optional_successors() or ()
    if parser.token.text == "<":
        with parser.in_angle_brackets():
            _parse_dictionary(parser, read, read.properties)
    regions, region_ranges = _parse_regions(parser)
    if parser.token.text == "{":
        _parse_dictionary(parser, read, read.attributes)
    parser.parse_characters(":", " before the type of the operation")
    _parse_signature(parser, read)
    if len(read.operands) != len(read.inputs):
        fail(
            parser,
            f"expected {len(read.operands)} operand types, got {len(read.inputs)}",
            read.name.start,
            parser.previous_end,
            code=COUNT_MISMATCH,
        )
    operands = [
        parser.resolve_operand(operand, ty)
        for operand, ty in zip(read.operands, read.inputs, strict=True)
    ]
    parts: dict[Part, Range] = {("region", "", i): r for i, r in enumerate(region_ranges)}
    if issubclass(op_type, IRDLOperation):
        definition = op_type.get_irdl_definition()
        _complete_properties(parser, read, definition)
        _check_regions(parser, read, definition, regions)
        parts |= _map_parts(parser, read, definition)
    op = op_type.create(
        operands=operands,
        result_types=read.outputs,
        properties=read.properties,
        attributes=read.attributes,
        successors=successors,
        regions=regions,
    )
    parser.record_parts(op, parts)
    return op


def _parse_dictionary(parser: TileParser, read: _Generic, into: dict[str, Attribute]) -> None:
    def entry() -> None:
        start = token_start(parser)
        key = parser.parse_optional_identifier_or_str_literal()
        if key is None:
            parser._expected("the name of an attribute")
        if key in into:
            end = parser.previous_end
            fail(parser, f"attribute '{key}' is given twice", start, end, code=BAD_PROPERTY)
        into[key] = _parse_value(parser, read.op_type, key)
        read.ranges[key] = (start, parser.previous_end)

    parser.parse_comma_separated_list(parser.Delimiter.BRACES, entry)


def _parse_value(parser: TileParser, op_type: type[Operation], key: str) -> Attribute:
    if parser.parse_optional_punctuation("=") is None:
        return UnitAttr()
    if issubclass(op_type, SyntaxOp) and (special := op_type.PROPERTY_PARSERS.get(key)):
        return special(parser)
    if key != "identities" or not issubclass(op_type, ReduceOrScan):
        return parser.parse_attribute()
    if parser.token.text == "[":
        values = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: _parse_identity(parser)
        )
        return _exact_identities(ArrayAttr(values))
    return _exact_identities(parser.parse_attribute())


def _parse_identity(parser: TileParser) -> Attribute:
    if parser.token.kind is MLIRTokenKind.HASH_IDENT:
        return parser.parse_attribute()
    return parse_identity(parser)


def _exact_identities(value: Attribute) -> Attribute:
    """Return identities given by an alias in the form that ``reduce`` stores."""
    if not isinstance(value, ArrayAttr):
        return value
    bits = [scalar_bits(item) for item in value.data]
    return ArrayAttr(
        [
            item if found is None else identity(*found)
            for item, found in zip(value.data, bits, strict=True)
        ]
    )


def _parse_regions(parser: TileParser) -> tuple[list[Region], list[Range]]:
    regions: list[Region] = []
    ranges: list[Range] = []
    # Not `parse_comma_separated_list`: these parentheses do not count as a nesting level.
    separator = "("
    while parser.parse_optional_characters(separator) is not None:
        start = token_start(parser)
        regions.append(parser.parse_region())
        ranges.append((start, parser.previous_end))
        separator = ","
    if regions:
        parser.parse_characters(")", " after the regions")
    return regions, ranges


def _parse_signature(parser: TileParser, read: _Generic) -> None:
    parse_type = parser.types_of(read.op_type).parse

    def one(types: list[Attribute], ranges: list[Range]) -> None:
        start = token_start(parser)
        types.append(parse_type(parser))
        ranges.append((start, parser.previous_end))

    parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: one(read.inputs, read.input_ranges)
    )
    parser.parse_characters("->", " before the result types")
    if parser.token.text == "(":
        parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: one(read.outputs, read.output_ranges)
        )
    else:
        one(read.outputs, read.output_ranges)


def _complete_properties(parser: TileParser, read: _Generic, definition: OpDef) -> None:
    """Move properties out of the attribute dictionary, and set defaults for absent ones."""
    names = list(definition.properties)
    if any(isinstance(o, AttrSizedOperandSegments) for o in definition.options):
        names.append(SEGMENTS)
    for name in names:
        if name in read.attributes:
            if name in read.properties:
                _bad_property(parser, read, name, f"'{name}' is given twice")
            read.properties[name] = read.attributes.pop(name)
    for name, prop in definition.properties.items():
        value = read.properties.get(name)
        if value is None:
            if prop.default_value is not None:
                read.properties[name] = prop.default_value
            elif not isinstance(prop, OptionalDef):
                _bad_property(parser, read, name, f"'{read.op_type.name}' needs '{name}'")
            continue
        value = read.properties[name] = _from_code(parser, read, name, prop.constr, value)
        try:
            prop.constr.verify(value, VerificationContext())
        except VerifyException as error:
            _bad_property(parser, read, name, f"'{name}' {error}")
    for name in read.properties:
        if issubclass(read.op_type, TileOp) and name not in names:
            _bad_property(parser, read, name, f"'{read.op_type.name}' has no property '{name}'")


def _from_code(
    parser: TileParser, read: _Generic, name: str, kind: object, value: Attribute
) -> Attribute:
    """Parse an enumeration member that NVIDIA's tools write as a number, such as ``0 : i32``."""
    if not isinstance(kind, FieldKind) or kind.wire != "enum":
        return value
    if not isinstance(value, IntegerAttr) or value.type != IntegerType(32):
        return value
    found = kind.enum.from_code(value.value.data)
    if found is None:
        text = f"'{name}' must be {kind.description}, but got the code {value.value.data}"
        _bad_property(parser, read, name, text)
    return found or value


def _bad_property(parser: TileParser, read: _Generic, name: str, message: str) -> None:
    start, end = read.ranges.get(name, (read.name.start, read.name.end))
    fail(parser, message.split("\n", 1)[0], start, end, code=BAD_PROPERTY)


def _check_regions(
    parser: TileParser, read: _Generic, definition: OpDef, regions: list[Region]
) -> None:
    if any(isinstance(region, VariadicDef) for _, region in definition.regions):
        return
    if len(regions) != len(definition.regions):
        _bad_shape(parser, read, "regions", len(definition.regions), len(regions))
    if not issubclass(read.op_type, TileOp):
        return
    for index, region in enumerate(regions):
        if region.blocks or (read.op_type is IfOp and index == 1):
            continue
        if read.op_type is not ModuleOp:
            _bad_shape(parser, read, "blocks in a region", "at least 1", 0)
        region.add_block(Block())


def _bad_shape(
    parser: TileParser, read: _Generic, what: str, expected: object, found: object
) -> None:
    fail(
        parser,
        f"'{read.op_type.name}' expects {expected} {what}, got {found}",
        read.name.start,
        read.name.end,
        code=OPERATION_SHAPE,
    )


def _map_parts(parser: TileParser, read: _Generic, definition: OpDef) -> dict[Part, Range]:
    """Return the text ranges of operands, types and properties, by group name."""
    parts: dict[Part, Range] = {("attr", key, 0): r for key, r in read.ranges.items()}
    sizes = _segments(parser, read, definition)
    at = 0
    for (group, _), size in zip(definition.operands, sizes, strict=True):
        for index in range(size):
            operand = read.operands[at].span
            parts["operand", group, index] = (operand.start, operand.end)
            parts["type", group, index] = read.input_ranges[at]
            at += 1
    at = 0
    counts = _group_sizes(parser, read, definition.results, len(read.outputs), "results")
    for (group, _), size in zip(definition.results, counts, strict=True):
        for index in range(size):
            parts["type", group, index] = read.output_ranges[at]
            at += 1
    return parts


def _segments(parser: TileParser, read: _Generic, definition: OpDef) -> list[int]:
    option = next((o for o in definition.options if isinstance(o, AttrSizedOperandSegments)), None)
    if option is None:
        return _group_sizes(parser, read, definition.operands, len(read.operands), "operands")
    # ``read`` has the properties and operands that the option looks for in an operation.
    found = option.container(read).get(SEGMENTS)  # pyright: ignore[reportArgumentType]
    if not isinstance(found, DenseArrayBase) or found.elt_type != IntegerType(32):
        _bad_property(parser, read, SEGMENTS, f"'{read.op_type.name}' needs '{SEGMENTS}'")
        return []
    sizes = [int(v) for v in found.iter_values()]
    groups = definition.operands
    fits = len(sizes) == len(groups) and sum(sizes) == len(read.operands)
    for (_, group), size in zip(groups, sizes, strict=False):
        most = 1 if isinstance(group, OptOperandDef) else size
        least = 0 if isinstance(group, VariadicDef) else 1
        fits = fits and least <= size <= (most if isinstance(group, VariadicDef) else 1)
    if not fits:
        text = f"'{SEGMENTS}' {sizes} does not divide {len(read.operands)} operands into groups"
        _bad_property(parser, read, SEGMENTS, text)
    return sizes


def _group_sizes(
    parser: TileParser,
    read: _Generic,
    groups: Sequence[tuple[str, object]],
    total: int,
    what: str,
) -> list[int]:
    """Return the size of each group, at most one of which is variadic."""
    variadic = [group for _, group in groups if isinstance(group, VariadicDef)]
    fixed = len(groups) - len(variadic)
    rest = total - fixed
    most = 1 if variadic and isinstance(variadic[0], OptOperandDef | OptResultDef) else rest
    if len(variadic) > 1:
        return [0] * len(groups)
    if not 0 <= rest <= (most if variadic else 0):
        _bad_shape(parser, read, what, f"at least {fixed}" if variadic else fixed, total)
    return [rest if isinstance(group, VariadicDef) else 1 for _, group in groups]


def adopt_attributes(parser: TileParser, op: Operation, name: TileToken) -> None:
    """Move properties that the custom form shows in its attribute dictionary to the properties.

    Raises CodedParseError (``bad-property``) for a value that the property does not hold.
    """
    assert isinstance(op, IRDLOperation)
    known = op.get_irdl_definition().properties
    for key in [key for key in op.attributes if key in known]:
        value = op.attributes.pop(key)
        try:
            known[key].constr.verify(value, VerificationContext())
        except VerifyException as error:
            text = f"'{key}' {error}".split("\n", 1)[0]
            fail(parser, text, name.start, parser.previous_end, code=BAD_PROPERTY)
        op.properties[key] = value
