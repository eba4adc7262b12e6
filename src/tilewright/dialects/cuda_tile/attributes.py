"""Attributes that are neither enumerations, constants nor debug info: hints and assumptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    DictionaryAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    NoneAttr,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile.types import DimsAttr
from tilewright.dialects.narrowing import is_float, is_int, is_integer
from tilewright.dialects.syntax.directives import parse_integers
from tilewright.dialects.syntax.tokens import (
    consume,
    fail,
    previous_end,
    token_start,
    token_text,
)

BAD_HINTS = define_code(
    "bad-hints",
    "The optimization hints are not a dictionary of dictionaries with distinct keys.",
    "Hints are written `<target = {hint = value, ...}, ...>`, where a target is `sm_NN` or "
    "`default`.",
)
BAD_PREDICATE = define_code(
    "bad-predicate", "An assume predicate is expected: div_by, same_elements or bounded."
)

#: The largest divisor that ``div_by`` can state.
MAX_DIVISOR = 2**62


@irdl_attr_definition
class OptimizationHintsAttr(ParametrizedAttribute):
    """Hints by target: ``{"sm_100": {"occupancy": 2}}``. They never change results."""

    name = "cuda_tile.optimization_hints"
    value: DictionaryAttr

    def __init__(self, value: DictionaryAttr | Mapping[str, Mapping[str, Attribute]]):
        if not isinstance(value, DictionaryAttr):
            value = DictionaryAttr({key: DictionaryAttr(dict(sub)) for key, sub in value.items()})
        super().__init__(value)

    def verify(self) -> None:
        for key, entry in self.value.data.items():
            if not isinstance(entry, DictionaryAttr):
                raise VerifyException(
                    f"expected dictionary attribute for optimization_hints entry `{key}` got "
                    f"value={entry}"
                )

    @property
    def targets(self) -> dict[str, dict[str, Attribute]]:
        """The hints by target (``sm_100``), each by name; entries that are no dictionaries, which
        the verifier reports, are left out."""
        return {
            key: dict(entry.data)
            for key, entry in self.value.data.items()
            if isinstance(entry, DictionaryAttr)
        }

    def lookup(self, target: str, hint: str) -> Attribute | None:
        """The value of a hint for a target such as ``sm_100``: its own entry, then ``default``; None if neither has
        it.
        """
        for key in (target, "default"):
            if (found := self.targets.get(key, {}).get(hint)) is not None:
                return found
        return None

    @classmethod
    def read(cls, parser: AttrParser) -> OptimizationHintsAttr:
        """The hints that stand here, ``<sm_100 = {...}, ...>``."""
        return cls(_parse_hints(parser))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        return (_parse_hints(parser),)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("<")
        for index, (key, entry) in enumerate(sorted(self.value.data.items())):
            printer.print_string(", " if index else "")
            printer.print_identifier_or_string_literal(key)
            printer.print_string(" = ")
            _print_hint_value(printer, entry)
        printer.print_string(">")


def _parse_hints(parser: AttrParser) -> DictionaryAttr:
    entries: dict[str, Attribute] = {}

    def parse_entry() -> None:
        start = token_start(parser)
        key = parser.parse_identifier_or_str_literal()
        if key in entries:
            fail(
                parser,
                f"duplicate optimization_hints key `{key}`",
                start,
                previous_end(parser),
                code=BAD_HINTS,
            )
        parser.parse_punctuation("=")
        start = token_start(parser)
        value = parser.parse_attribute()
        if not isinstance(value, DictionaryAttr):
            fail(
                parser,
                f"expected dictionary attribute for optimization_hints entry `{key}` got "
                f"value={value}",
                start,
                previous_end(parser),
                code=BAD_HINTS,
            )
        entries[key] = _narrow(value)

    with parser.in_angle_brackets():
        if token_text(parser) == "{":  # as Tile IR 13.1 spells it: <{sm_100 = {...}}>
            parser.parse_comma_separated_list(parser.Delimiter.BRACES, parse_entry)
        elif token_text(parser) != ">":
            parser.parse_comma_separated_list(parser.Delimiter.NONE, parse_entry)
    return DictionaryAttr({key: _sorted(entries[key]) for key in sorted(entries)})


def _narrow(target: DictionaryAttr) -> DictionaryAttr:
    """Bare integers are 32-bit where they fit, as producers of bytecode write them."""
    return DictionaryAttr(
        {
            key: IntegerAttr(value.value.data, 32)
            if is_integer(value)
            and value.type == IntegerType(64)
            and -(2**31) <= value.value.data < 2**31
            else value
            for key, value in target.data.items()
        }
    )


def _sorted(value: Attribute) -> Attribute:
    """Dictionaries in MLIR are ordered by key, at every level."""
    if isinstance(value, DictionaryAttr):
        return DictionaryAttr({k: _sorted(v) for k, v in sorted(value.data.items())})
    return value


def _print_hint_value(printer: Printer, entry: Attribute) -> None:
    """The hints of one target; their own values stand without types, as in the reference tools."""
    assert isinstance(entry, DictionaryAttr)
    printer.print_string("{")
    for index, (key, value) in enumerate(sorted(entry.data.items())):
        printer.print_string(", " if index else "")
        printer.print_identifier_or_string_literal(key)
        printer.print_string(" = ")
        if is_integer(value) and value.type != IntegerType(1):
            printer.print_string(str(value.value.data))
        elif is_float(value):
            value.print_without_type(printer)
        else:
            printer.print_attribute(value)
    printer.print_string("}")


class AssumePredicateAttr(ParametrizedAttribute):
    """A statement about a value that the producer promises; a false one is undefined behaviour."""


def optional_int(value: int | None) -> Attribute:
    """A number as an attribute; NoneAttr for none."""
    return NoneAttr() if value is None else IntAttr(value)


def number_of(value: Attribute) -> int | None:
    """The number that ``optional_int`` was given, or None."""
    return value.data if is_int(value) else None


def parse_int_list(parser: AttrParser) -> DimsAttr:
    """Integers in brackets."""
    return DimsAttr(tuple(parse_integers(parser)))


class Bounds(ParametrizedAttribute):
    """``<LB, UB>``, of which either may be open."""

    if TYPE_CHECKING:
        lower: Attribute
        upper: Attribute

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        """The least and the greatest value, both included; None where there is no limit."""
        return number_of(self.lower), number_of(self.upper)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def bound() -> Attribute:
            if parser.parse_optional_punctuation("?"):
                return NoneAttr()
            return IntAttr(parser.parse_integer(allow_boolean=False))

        with parser.in_angle_brackets():
            lower = bound()
            parser.parse_punctuation(",")
            upper = bound()
        return (lower, upper)

    def print_parameters(self, printer: Printer) -> None:
        lower, upper = ("?" if b is None else str(b) for b in self.bounds)
        printer.print_string(f"<{lower}, {upper}>")


class SameElements(ParametrizedAttribute):
    """``<[c0, c1]>``: extents of blocks."""

    if TYPE_CHECKING:
        values: DimsAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return (parse_int_list(parser),)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<[{', '.join(map(str, self.values.data))}]>")


@irdl_attr_definition
class DivByAttr(AssumePredicateAttr):
    """``div_by<D>``: the value is divisible by ``D``.

    With ``every E along A`` the values of dimension A come in groups of E: the first of a group
    is divisible, the others follow it by steps of one element.
    """

    name = "cuda_tile.div_by"
    divisor: IntAttr
    every: Attribute
    along: Attribute

    def __init__(self, divisor: int, every: int | None = None, along: int | None = None):
        super().__init__(IntAttr(divisor), optional_int(every), optional_int(along))

    @property
    def group(self) -> tuple[int, int] | None:
        """``(every, along)`` where given."""
        if is_int(self.every) and is_int(self.along):
            return self.every.data, self.along.data
        return None

    def verify(self) -> None:
        divisor = self.divisor.data
        if divisor <= 0 or divisor & (divisor - 1):
            raise VerifyException(f"divisor must be a power of 2, got {divisor}")
        if divisor > MAX_DIVISOR:
            raise VerifyException(f"divisor is too large, got {divisor}, at most {MAX_DIVISOR}")
        if isinstance(self.every, IntAttr) != isinstance(self.along, IntAttr):
            raise VerifyException("expected either both or none of 'every' and 'along'")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            divisor = parser.parse_integer(allow_boolean=False)
            every: Attribute = NoneAttr()
            along: Attribute = NoneAttr()
            if parser.parse_optional_punctuation(","):
                parser.parse_keyword("every")
                every = IntAttr(parser.parse_integer(allow_boolean=False))
                parser.parse_keyword("along")
                along = IntAttr(parser.parse_integer(allow_boolean=False))
        return (IntAttr(divisor), every, along)

    def print_parameters(self, printer: Printer) -> None:
        group = "" if self.group is None else ", every {} along {}".format(*self.group)
        printer.print_string(f"<{self.divisor.data}{group}>")


@irdl_attr_definition
class SameElementsAttr(SameElements, AssumePredicateAttr):
    """``same_elements<[c0, c1]>``: each block of c0 x c1 elements is constant."""

    name = "cuda_tile.same_elements"
    values: DimsAttr

    def __init__(self, values: Sequence[int]):
        super().__init__(DimsAttr(tuple(values)))


@irdl_attr_definition
class BoundedAttr(Bounds, AssumePredicateAttr):
    """``bounded<LB, UB>``: every element lies in [LB, UB], read signed; ``?`` leaves a side open."""

    name = "cuda_tile.bounded"
    lower: Attribute
    upper: Attribute

    def __init__(self, lower: int | None, upper: int | None):
        super().__init__(optional_int(lower), optional_int(upper))

    def verify(self) -> None:
        lower, upper = self.bounds
        if lower is not None and upper is not None and lower > upper:
            raise VerifyException(
                f"expected lower bound to be at most the upper bound, got {lower} and {upper}"
            )


PREDICATES: dict[str, type[AssumePredicateAttr]] = {
    cls.name.removeprefix("cuda_tile."): cls for cls in (DivByAttr, SameElementsAttr, BoundedAttr)
}


def parse_predicate(parser: AttrParser) -> AssumePredicateAttr:
    """An assume predicate, short or with its ``#cuda_tile.`` prefix.

    Raises CodedParseError (``bad-predicate``) for another attribute, and for parameters that break its rules.
    """
    start = token_start(parser)
    text = token_text(parser)
    cls = PREDICATES.get(text.removeprefix("#cuda_tile."))
    if cls is None:
        if text.startswith(("#", '"', "{", "[")):
            fail(parser, f"expected assume predicate attribute, found '{text}'", code=BAD_PREDICATE)
        fail(
            parser,
            f"unknown assume predicate attribute: {text} (expected 'div_by', 'same_elements', or "
            f"'bounded')",
            code=BAD_PREDICATE,
        )
    consume(parser)
    parameters = cls.parse_parameters(parser)
    try:
        return cls.new(list(parameters))
    except VerifyException as error:
        fail(parser, str(error), start, previous_end(parser), code=BAD_PREDICATE)


def print_predicate(printer: Printer, predicate: Attribute) -> None:
    """Print a predicate of ``assume`` as the operation shows it: without ``#cuda_tile.``, its
    parameters behind the name."""
    printer.print_string(predicate.name.removeprefix("cuda_tile."))
    assert isinstance(predicate, AssumePredicateAttr)
    predicate.print_parameters(printer)


ATTRIBUTES = (OptimizationHintsAttr, DivByAttr, SameElementsAttr, BoundedAttr)
