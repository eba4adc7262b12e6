"""Parses and prints operations from their ``SYNTAX``: a tuple of directives.

Parsing fills a :class:`ParseState`; at the end, types that the text does not show are inferred
and the operation is made. It works on any xDSL parser, so that stock tools read our text; where
the parser keeps spans (``records_spans``), each part's range is recorded too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeGuard, TypeVar

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.dialects.builtin import i32 as builtin_i32
from xdsl.ir import Attribute, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrConstraint,
    AttrSizedOperandSegments,
    IRDLOperation,
    OperandDef,
    ResultDef,
)
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer

from tilewright.diagnostics import define_code
from tilewright.dialects.source_map import Part
from tilewright.dialects.syntax.tokens import fail, previous_end, token_start, token_text
from tilewright.dialects.syntax.types import MLIR_TYPES, TypeSyntax

COUNT_MISMATCH = define_code(
    "operand-type-count",
    "The number of types differs from the number of operands or results.",
)


@dataclass(slots=True)
class ParseState:
    """What has been read of one operation so far."""

    op_class: type[SyntaxOp]
    start: int
    operands: dict[str, list[UnresolvedOperand]] = field(
        default_factory=dict[str, list[UnresolvedOperand]]
    )
    types: dict[str, list[Attribute]] = field(default_factory=dict[str, list[Attribute]])
    properties: dict[str, Attribute] = field(default_factory=dict[str, Attribute])
    attributes: dict[str, Attribute] = field(default_factory=dict[str, Attribute])
    regions: list[Region] = field(default_factory=list[Region])
    parts: dict[Part, tuple[int, int]] = field(default_factory=dict[Part, tuple[int, int]])

    @property
    def op_name(self) -> str:
        """The name of the operation that is read, with its dialect."""
        return self.op_class.name

    @property
    def type_syntax(self) -> TypeSyntax:
        """How types are spelled in it."""
        return self.op_class.TYPE_SYNTAX

    def mark(self, part: Part, start: int, end: int) -> None:
        """Note where a part lies, in characters from the beginning of the file."""
        self.parts[part] = (start, end)

    def read(self, parser: Parser, name: str, value: Callable[[], Attribute]) -> None:
        """Set a property to the value that is read here, and note where it lies."""
        start = token_start(parser)
        self.properties[name] = value()
        self.mark(("attr", name, 0), start, previous_end(parser))


class Directive(ABC):
    """One element of an operation's syntax."""

    @abstractmethod
    def parse(self, parser: Parser, state: ParseState) -> None:
        """Read the element from a parser into the state. Raises xDSL's ParseError where it does not
        stand there."""

    @abstractmethod
    def print(self, printer: Printer, op: Any) -> None:
        """Print the element of an operation, with the space that precedes it; what is at its
        default may print nothing."""

    @abstractmethod
    def grammar(self) -> str:
        """How the element is written, for people."""


#: Computes the types of an operand or result group from those read so far.
Inference = Callable[[ParseState], Sequence[Attribute]]


class SyntaxOp(IRDLOperation, ABC):
    """An operation whose text is given by ``SYNTAX``.

    ``INFER`` maps the name of an operand or result group whose types the text leaves out to the
    group whose type it shares, or to a function of the state. ``TYPE_SYNTAX`` reads and writes the
    types in it. ``PROPERTY_PARSERS`` read the values of properties in the generic form that no
    ordinary attribute keeps.
    """

    TYPE_SYNTAX: ClassVar[TypeSyntax] = MLIR_TYPES
    SYNTAX: ClassVar[tuple[Directive, ...]] = ()
    INFER: ClassVar[Mapping[str, str | Inference]] = {}
    PROPERTY_PARSERS: ClassVar[Mapping[str, Callable[[AttrParser], Attribute]]] = {}

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """The operation that the text behind its name says, as ``SYNTAX`` reads it."""
        state = ParseState(cls, token_start(parser))
        for directive in cls.SYNTAX:
            directive.parse(parser, state)
        return cls.from_state(parser, state)

    def print(self, printer: Printer) -> None:
        """Print all behind the name, so that ``parse`` reads the same operation."""
        for directive in self.SYNTAX:
            directive.print(printer, self)

    @classmethod
    def group_types(cls, state: ParseState, name: str) -> Sequence[Attribute]:
        """The types of a group: as read, or as inferred."""
        if (types := state.types.get(name)) is not None:
            return types
        rule = cls.INFER.get(name)
        if isinstance(rule, str):
            types = list(cls.group_types(state, rule))
        elif rule is not None:
            types = list(rule(state))
        else:
            fixed = fixed_type(cls, name)
            assert fixed is not None, f"{cls.name}: no type and no rule for {name}"
            count = len(state.operands[name]) if name in state.operands else 1
            types = [fixed] * count
        state.types[name] = types
        return types

    @classmethod
    def from_state(cls, parser: Parser, state: ParseState) -> Self:
        """The operation described by a fully read state.

        Raises CodedParseError (``operand-type-count``) if a group has another number of types than operands.
        """
        definition = cls.get_irdl_definition()
        operands: list[SSAValue] = []
        segments: list[int] = []
        for name, _ in definition.operands:
            unresolved = state.operands.get(name, ())
            segments.append(len(unresolved))
            if not unresolved:
                continue
            types = cls.group_types(state, name)
            if len(types) == 1 and len(unresolved) > 1 and _shares_one_type(cls, name):
                types = list(types) * len(unresolved)
            if len(types) != len(unresolved):
                fail(
                    parser,
                    f"expected {len(unresolved)} types for the operands '{name}', got {len(types)}",
                    state.start,
                    previous_end(parser),
                    code=COUNT_MISMATCH,
                )
            operands += [
                parser.resolve_operand(operand, ty)
                for operand, ty in zip(unresolved, types, strict=True)
            ]
        if any(isinstance(o, AttrSizedOperandSegments) for o in definition.options):
            state.properties["operandSegmentSizes"] = DenseArrayBase.from_list(
                builtin_i32, segments
            )
        result_types: list[Attribute] = []
        for name, _ in definition.results:
            result_types += cls.group_types(state, name)
        op = cls.create(
            operands=operands,
            result_types=result_types,
            properties=state.properties,
            attributes=state.attributes,
            regions=state.regions,
        )
        if (record := getattr(parser, "record_parts", None)) is not None:
            record(op, state.parts)
        return op


def _shares_one_type(cls: type[SyntaxOp], name: str) -> bool:
    return name in getattr(cls, "ONE_TYPE_FOR_ALL", ())


def fixed_type(cls: type[IRDLOperation], name: str) -> Attribute | None:
    """The only type that the constraint of a group allows, if it is one type only."""
    definition = cls.get_irdl_definition()
    for group, group_def in (*definition.operands, *definition.results):
        if group == name:
            return getattr(value_constraint(group_def), "only_type", None)
    return None


def value_constraint(group_def: OperandDef | ResultDef) -> AttrConstraint:
    """The constraint on each value of an operand or result group, without its count."""
    constraint: object = group_def.constr
    while not _is_constraint(constraint):
        constraint = getattr(constraint, "constraint", None) or getattr(constraint, "constr")  # noqa: B009
    return constraint


def _is_constraint(value: object) -> TypeGuard[AttrConstraint]:
    return isinstance(value, AttrConstraint)


def parse_results(parser: Parser, state: ParseState) -> list[Attribute]:
    """The types of results behind an arrow: one, or any number in parentheses."""
    if token_text(parser) != "(":
        return [state.type_syntax.parse(parser)]
    return parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: state.type_syntax.parse(parser)
    )


def print_argument_location(printer: Printer, argument: BlockArgument) -> None:
    """The location of an argument behind its type, where locations are printed; printers of others have none."""
    print_location = getattr(printer, "print_argument_location", None)
    if print_location is not None:
        print_location(argument)


def type_syntax_of(cls: type[Operation]) -> TypeSyntax:
    """How types stand in the text of operations of a class."""
    return cls.TYPE_SYNTAX if issubclass(cls, SyntaxOp) else MLIR_TYPES


def shown_type(op: Operation, value: SSAValue) -> str:
    """The type of a value as it stands in a type slot of the operation."""
    return type_syntax_of(type(op)).format(value.type)


def values_of(op: Operation, name: str) -> Sequence[SSAValue]:
    """The values of an operand or result group, always as a sequence."""
    value: SSAValue | Sequence[SSAValue] | None = getattr(op, name)
    if value is None:
        return ()
    return (value,) if isinstance(value, SSAValue) else value


AttributeT = TypeVar("AttributeT", bound=Attribute)


def property_of(op: Operation, name: str, kind: type[AttributeT]) -> AttributeT:
    """A property that an operation must have, of this class; AssertionError where it is of another."""
    found = op.properties[name]
    assert isinstance(found, kind), f"{op.name}.{name}"
    return found
