"""Attributes of ``nv_tileaa`` that are records or statements about values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr, NoneAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile.attributes import (
    Bounds,
    SameElements,
    number_of,
    optional_int,
    parse_int_list,
)
from tilewright.dialects.cuda_tile.types import DimsAttr
from tilewright.dialects.narrowing import is_array, is_int
from tilewright.dialects.syntax.directives import quote
from tilewright.dialects.syntax.tokens import consume, fail, token_start, token_text

BAD_RECORD = define_code(
    "bad-record",
    "A record attribute has an unknown, repeated or missing field.",
    "target_spec, kernel_spec and conv_params are written `#nv_tileaa.NAME<field = value, ...>`.",
)


class RecordAttr(ParametrizedAttribute):
    """Named fields: ``#nv_tileaa.NAME<field = value, ...>``.

    ``FIELDS`` gives the kind of each field: int, ints (a list), str, or words (a list of bare
    keywords). ``REQUIRED`` fields cannot be left out.
    """

    FIELDS: ClassVar[dict[str, str]]
    REQUIRED: ClassVar[frozenset[str]] = frozenset()

    value: DictionaryAttr

    @classmethod
    def of(cls, **fields: int | str | Sequence[int | str]) -> Self:
        """The record with these Python values."""
        return cls(
            DictionaryAttr(
                {name: _encoded(cls.FIELDS[name], value) for name, value in fields.items()}
            )
        )

    def integer(self, name: str, default: int = 0) -> int:
        """The integer of a name, or ``default`` where there is none."""
        found = self.value.data.get(name)
        return found.data if is_int(found) else default

    def integers(self, name: str) -> tuple[int, ...]:
        """The integers of a name; none where there is no list of them."""
        found = self.value.data.get(name)
        return found.data if isinstance(found, DimsAttr) else ()

    def text(self, name: str) -> str:
        """The string of a name; empty where there is none."""
        found = self.value.data.get(name)
        return found.data if isinstance(found, StringAttr) else ""

    def words(self, name: str) -> tuple[str, ...]:
        """The strings in the list of a name; none where there is no list."""
        found = self.value.data.get(name)
        items = found.data if is_array(found) else ()
        return tuple(item.data for item in items if isinstance(item, StringAttr))

    def has(self, name: str) -> bool:
        """Whether the record has an entry of this name, of any kind."""
        return name in self.value.data

    def verify(self) -> None:
        for name in self.value.data:
            if name not in self.FIELDS:
                raise VerifyException(f"'{name}' is not a field of '{self.name}'")
        if missing := sorted(self.REQUIRED - set(self.value.data)):
            raise VerifyException(f"'{self.name}' needs the field '{missing[0]}'")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        fields: dict[str, Attribute] = {}
        start = token_start(parser)

        def field() -> None:
            name = token_text(parser)
            if name not in cls.FIELDS or name in fields:
                why = "is written twice" if name in fields else f"is not a field of '{cls.name}'"
                known = ", ".join(cls.FIELDS)
                fail(parser, f"'{name}' {why}", code=BAD_RECORD, help=f"fields are: {known}")
            consume(parser)
            parser.parse_punctuation("=")
            fields[name] = _DECODERS[cls.FIELDS[name]](parser)

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, field)
        if missing := sorted(cls.REQUIRED - set(fields)):
            fail(parser, f"'{cls.name}' needs the field '{missing[0]}'", start, code=BAD_RECORD)
        return (DictionaryAttr({name: fields[name] for name in cls.FIELDS if name in fields}),)

    def print_parameters(self, printer: Printer) -> None:
        shown = [
            f"{name} = {_show(self.value.data[name])}"
            for name in self.FIELDS
            if name in self.value.data
        ]
        printer.print_string(f"<{', '.join(shown)}>")


def _encoded(kind: str, value: int | str | Sequence[int | str]) -> Attribute:
    if isinstance(value, int):
        return IntAttr(value)
    if isinstance(value, str):
        return StringAttr(value)
    if kind == "words":
        return ArrayAttr([StringAttr(word) for word in value if isinstance(word, str)])
    return DimsAttr(tuple(number for number in value if isinstance(number, int)))


def _parse_words(parser: AttrParser) -> Attribute:
    words = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: StringAttr(parser.parse_identifier())
    )
    return ArrayAttr(words)


_DECODERS: dict[str, Callable[[AttrParser], Attribute]] = {
    "int": lambda parser: IntAttr(parser.parse_integer(allow_boolean=False)),
    "ints": parse_int_list,
    "str": lambda parser: StringAttr(parser.parse_str_literal()),
    "words": _parse_words,
}


def _show(value: Attribute) -> str:
    match value:
        case IntAttr():
            return str(value.data)
        case DimsAttr():
            return f"[{', '.join(map(str, value.data))}]"
        case StringAttr():
            return quote(value.data)
        case ArrayAttr():
            words = [item.data for item in value.data if isinstance(item, StringAttr)]
            return f"[{', '.join(words)}]"
        case _:
            raise TypeError(f"no field of a record holds {value}")


@irdl_attr_definition
class TargetSpecAttr(RecordAttr):
    """What a module is compiled for: ``capability`` is 10 * major + minor, memory is in bytes."""

    name = "nv_tileaa.target_spec"
    value: DictionaryAttr
    FIELDS: ClassVar = {
        "arch": "str",
        "capability": "int",
        "features": "words",
        "shared_memory": "int",
    }
    REQUIRED: ClassVar = frozenset({"capability"})


@irdl_attr_definition
class KernelSpecAttr(RecordAttr):
    """How a kernel is launched: warps of a block, blocks of a cluster, registers of a thread."""

    name = "nv_tileaa.kernel_spec"
    value: DictionaryAttr
    FIELDS: ClassVar = {
        "numWarps": "int",
        "clusterDim": "ints",
        "num_ctas": "int",
        "occupancy": "int",
        "maxRegs": "int",
    }
    REQUIRED: ClassVar = frozenset({"numWarps", "clusterDim"})

    def verify(self) -> None:
        super().verify()
        cluster = self.integers("clusterDim")
        if len(cluster) != 3 or any(extent <= 0 for extent in cluster):
            raise VerifyException(f"clusterDim must be three positive extents, got {list(cluster)}")
        for name in ("numWarps", "num_ctas", "occupancy", "maxRegs"):
            if self.has(name) and self.integer(name) <= 0:
                raise VerifyException(f"{name} must be positive, got {self.integer(name)}")


@irdl_attr_definition
class ConvParamsAttr(RecordAttr):
    """A convolution: one entry for each spatial axis in every list."""

    name = "nv_tileaa.conv_params"
    value: DictionaryAttr
    FIELDS: ClassVar = {
        "filter": "ints",
        "stride": "ints",
        "padding_low": "ints",
        "padding_high": "ints",
        "dilation": "ints",
    }
    REQUIRED: ClassVar = frozenset(FIELDS)


class PredicateAttr(ParametrizedAttribute):
    """A statement about a value that the producer promises; a false one is undefined behaviour.

    The numbers in it are checked by assume, which knows the value.
    """


@irdl_attr_definition
class DivByAttr(PredicateAttr):
    """``div_by<D>``: divisible by D; with ``every E along A``, the first of each group of E
    elements along axis A, the others following it by steps of one."""

    name = "nv_tileaa.div_by"
    divisor: IntAttr
    every: Attribute
    along: Attribute

    def __init__(self, divisor: int, every: int | None = None, along: int | None = None):
        super().__init__(IntAttr(divisor), optional_int(every), optional_int(along))

    @property
    def group(self) -> tuple[int | None, int | None]:
        """``(every, along)``, None for what is not written."""
        return number_of(self.every), number_of(self.along)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        found: dict[str, Attribute] = {}
        with parser.in_angle_brackets():
            divisor = IntAttr(parser.parse_integer(allow_boolean=False))
            if parser.parse_optional_punctuation(","):
                for word in ("every", "along"):
                    if parser.parse_optional_keyword(word):
                        found[word] = IntAttr(parser.parse_integer(allow_boolean=False))
                if not found:
                    fail(parser, f"expected 'every' or 'along', found '{token_text(parser)}'")
        return (divisor, found.get("every", NoneAttr()), found.get("along", NoneAttr()))

    def print_parameters(self, printer: Printer) -> None:
        words = [f"{w} {n}" for w, n in zip(("every", "along"), self.group) if n is not None]
        group = ", " + " ".join(words) if words else ""
        printer.print_string(f"<{self.divisor.data}{group}>")


@irdl_attr_definition
class BoundedAttr(Bounds, PredicateAttr):
    """``bounded<LB, UB>``: every element lies in [LB, UB], read signed; ``?`` leaves a side open."""

    name = "nv_tileaa.bounded"
    lower: Attribute
    upper: Attribute

    def __init__(self, lower: int | None, upper: int | None):
        super().__init__(optional_int(lower), optional_int(upper))


@irdl_attr_definition
class SameElementsAttr(SameElements, PredicateAttr):
    """``same_elements<[c0, c1]>``: each block of c0 x c1 elements is constant."""

    name = "nv_tileaa.same_elements"
    values: DimsAttr

    def __init__(self, values: Sequence[int]):
        super().__init__(DimsAttr(tuple(values)))


ATTRIBUTES = (
    TargetSpecAttr,
    KernelSpecAttr,
    ConvParamsAttr,
    DivByAttr,
    BoundedAttr,
    SameElementsAttr,
)
