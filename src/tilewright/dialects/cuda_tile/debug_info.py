"""Debug info: scopes, and locations in them.

Locations hang on operations as xDSL's ``location``: an unknown location, ``DILocAttr``, or a call
site of such; in text also MLIR's own, and named and fused locations that hold any of these.

Inlining and nested blocks make debug info deep, and parts are shared. So the hash of an attribute
is computed once, and nothing here recurses: any depth will do.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tilewright.diagnostics import define_code
from tilewright.dialects.narrowing import is_array
from tilewright.dialects.syntax.directives import quote
from tilewright.dialects.syntax.tokens import fail, previous_end, token_start, token_text

BAD_DEBUG_INFO = define_code(
    "bad-debug-info", "A debug info attribute is malformed or has parts of the wrong kind."
)


class DIAttr(ParametrizedAttribute):
    """Any debug info attribute."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_hash", hash((type(self), self.parameters)))

    def __hash__(self) -> int:
        found: int = self.__dict__["_hash"]
        return found

    def __eq__(self, other: object) -> bool:
        """Structural equality; each pair of parts is compared once, however often it is shared."""
        pairs: list[tuple[Attribute, object]] = [(self, other)]
        seen: set[tuple[int, int]] = set()
        while pairs:
            a, b = pairs.pop()
            if a is b or (id(a), id(b)) in seen:
                continue
            seen.add((id(a), id(b)))
            if is_array(a) and is_array(b):
                if len(a.data) != len(b.data):
                    return False
                pairs += zip(a.data, b.data, strict=True)
            elif not isinstance(a, DIAttr):
                if a != b:
                    return False
            elif not isinstance(b, DIAttr) or type(a) is not type(b) or hash(a) != hash(b):
                return False
            else:
                pairs += zip(a.parameters, b.parameters, strict=True)
        return True


_DIAttrT = TypeVar("_DIAttrT", bound=DIAttr)


def _of_any_depth(cls: type[_DIAttrT]) -> type[_DIAttrT]:
    """Give a class the hash and the equality that do not recurse; dataclasses make their own."""
    cls.__hash__ = DIAttr.__hash__
    cls.__eq__ = DIAttr.__eq__
    return cls


class DIScope(DIAttr):
    """What a location can lie in."""


class DILocalScope(DIScope):
    """A scope inside a function: a subprogram or a lexical block."""


@_of_any_depth
@irdl_attr_definition
class DIFileAttr(DIScope):
    """A source file: ``di_file<"k.py" in "dir">``."""

    name = "cuda_tile.di_file"
    file_name: StringAttr
    directory: StringAttr

    def __init__(self, file_name: str, directory: str = ""):
        super().__init__(StringAttr(file_name), StringAttr(directory))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            file_name = parser.parse_str_literal()
            parser.parse_keyword("in")
            directory = parser.parse_str_literal()
        return (StringAttr(file_name), StringAttr(directory))

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{quote(self.file_name.data)} in {quote(self.directory.data)}>")


def _parse_attribute(parser: AttrParser) -> Attribute:
    return parser.parse_attribute()


def _parse_as(cls: Callable[[], type[DIAttr]]) -> Callable[[AttrParser], Attribute]:
    """An attribute of a known class, which may be written without ``#cuda_tile.`` and name.

    The class comes from a function, since it may be the one that is being defined.
    """

    def parse(parser: AttrParser) -> Attribute:
        if token_text(parser) != "<":
            return parser.parse_attribute()
        return cls().new(list(cls().parse_parameters(parser)))

    return parse


def _parse_int(parser: AttrParser) -> Attribute:
    return IntAttr(parser.parse_integer(allow_boolean=False, allow_negative=False))


def _parse_string(parser: AttrParser) -> Attribute:
    return StringAttr(parser.parse_str_literal())


_Field = tuple[Callable[[AttrParser], Attribute], Attribute | None]


def _parse_struct(parser: AttrParser, what: str, fields: dict[str, _Field]) -> list[Attribute]:
    """``<key = value, ...>`` in any order; a field without default must be there."""
    found: dict[str, Attribute] = {}
    start = token_start(parser)

    def entry() -> None:
        key = token_text(parser)
        if key not in fields or key in found:
            why = "is given twice" if key in found else "is unknown"
            fail(parser, f"field '{key}' of {what} {why}", code=BAD_DEBUG_INFO)
        parser.parse_identifier()
        parser.parse_punctuation("=")
        found[key] = fields[key][0](parser)

    parser.parse_comma_separated_list(parser.Delimiter.ANGLE, entry)
    values: list[Attribute] = []
    for key, (_, default) in fields.items():
        value = found.get(key, default)
        if value is None:
            fail(
                parser,
                f"field '{key}' of {what} is missing",
                start,
                previous_end(parser),
                code=BAD_DEBUG_INFO,
            )
        values.append(value)
    return values


@_of_any_depth
@irdl_attr_definition
class DICompileUnitAttr(DIScope):
    """A translation unit: ``di_compile_unit<file = #f>``."""

    name = "cuda_tile.di_compile_unit"
    file: DIFileAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        return _parse_struct(
            parser, "di_compile_unit", {"file": (_parse_as(lambda: DIFileAttr), None)}
        )

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("<file = ")
        printer.print_attribute(self.file)
        printer.print_string(">")


@_of_any_depth
@irdl_attr_definition
class DISubprogramAttr(DILocalScope):
    """A function of the source. Lines count from 1."""

    name = "cuda_tile.di_subprogram"
    file: DIFileAttr
    line: IntAttr
    function_name: StringAttr
    linkage_name: StringAttr
    compile_unit: DICompileUnitAttr
    scope_line: IntAttr

    @classmethod
    def make(
        cls,
        file: DIFileAttr,
        line: int,
        function_name: str,
        linkage_name: str,
        compile_unit: DICompileUnitAttr,
        scope_line: int = 0,
    ) -> DISubprogramAttr:
        """The attribute of a function from Python values; lines count from 1."""
        return cls(
            file,
            IntAttr(line),
            StringAttr(function_name),
            StringAttr(linkage_name),
            compile_unit,
            IntAttr(scope_line),
        )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        return _parse_struct(
            parser,
            "di_subprogram",
            {
                "file": (_parse_as(lambda: DIFileAttr), None),
                "line": (_parse_int, None),
                "name": (_parse_string, None),
                "linkageName": (_parse_string, None),
                "compileUnit": (_parse_as(lambda: DICompileUnitAttr), None),
                "scopeLine": (_parse_int, IntAttr(0)),
            },
        )

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("<file = ")
        printer.print_attribute(self.file)
        printer.print_string(f", line = {self.line.data}, name = {quote(self.function_name.data)}")
        printer.print_string(f", linkageName = {quote(self.linkage_name.data)}, compileUnit = ")
        printer.print_attribute(self.compile_unit)
        if self.scope_line.data:
            printer.print_string(f", scopeLine = {self.scope_line.data}")
        printer.print_string(">")


@_of_any_depth
@irdl_attr_definition
class DILexicalBlockAttr(DILocalScope):
    """A block inside a subprogram or another block."""

    name = "cuda_tile.di_lexical_block"
    scope: DILocalScope
    file: DIFileAttr
    line: IntAttr
    column: IntAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        return _parse_struct(
            parser,
            "di_lexical_block",
            {
                "scope": (_parse_attribute, None),
                "file": (_parse_as(lambda: DIFileAttr), None),
                "line": (_parse_int, None),
                "column": (_parse_int, IntAttr(0)),
            },
        )

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("<scope = ")
        printer.print_attribute(self.scope)
        printer.print_string(", file = ")
        printer.print_attribute(self.file)
        printer.print_string(f", line = {self.line.data}")
        if self.column.data:
            printer.print_string(f", column = {self.column.data}")
        printer.print_string(">")


@_of_any_depth
@irdl_attr_definition
class DILocAttr(DIAttr):
    """A source position in a scope: ``di_loc<loc("k.py":6:7) in #sp>``."""

    name = "cuda_tile.di_loc"
    source: Attribute
    scope: DILocalScope

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            source = parser.parse_optional_location() or parser.parse_attribute()
            parser.parse_keyword("in")
            scope = parser.parse_attribute()
        return (source, scope)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("<")
        printer.print_attribute(self.source)
        printer.print_string(" in ")
        printer.print_attribute(self.scope)
        printer.print_string(">")

    @property
    def position(self) -> tuple[str, int, int] | None:
        """(file name, line, column) as written; None where the source position is unknown."""
        return source_position(self.source)


@_of_any_depth
@irdl_attr_definition
class CallSiteAttr(DIAttr):
    """A location inside an inlined call: ``callsite(callee at caller)``.

    xDSL's own call site takes builtin locations only.
    """

    name = "cuda_tile.call_site"
    callee: Attribute
    caller: Attribute

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            callee = parser.parse_attribute()
            parser.parse_keyword("at")
            caller = parser.parse_attribute()
        return (callee, caller)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("<")
        printer.print_attribute(self.callee)
        printer.print_string(" at ")
        printer.print_attribute(self.caller)
        printer.print_string(">")


@_of_any_depth
@irdl_attr_definition
class NamedLocAttr(DIAttr):
    """A location with a name, ``"name"(child)``, for any child.

    xDSL's own takes builtin locations only, and its hash recurses.
    """

    name = "cuda_tile.named_loc"
    desc: StringAttr
    location: Attribute


@_of_any_depth
@irdl_attr_definition
class FusedLocAttr(DIAttr):
    """Several locations of any kind as one: ``fused<metadata>[a, b]``."""

    name = "cuda_tile.fused_loc"
    locations: ArrayAttr
    metadata: Attribute


#: Locations with one or several inside, of xDSL and ours.
CALL_SITES = (CallSiteAttr, CallSiteLoc)
NAMED = (NamedLocAttr, NameLoc)
FUSED = (FusedLocAttr, FusedLoc)


def fused_parts(location: FusedLoc | FusedLocAttr) -> tuple[Attribute, ...]:
    """The locations that a fused one is made of."""
    parts = location.locations
    assert is_array(parts)
    return tuple(parts.data)


def _leaves(location: Attribute) -> Iterator[Attribute]:
    """The locations that one leads to, the most telling first.

    Through call sites that is the caller's, of a fused location its parts in order, of a named one
    its child. A part that is shared counts once.
    """
    stack, seen = [location], set[int]()
    while stack:
        found = stack.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, CALL_SITES):
            stack.append(found.caller)
        elif isinstance(found, NAMED):
            stack.append(found.location)
        elif isinstance(found, FUSED):
            stack += reversed(fused_parts(found))
        else:
            yield found


def debug_location(location: Attribute) -> DILocAttr | None:
    """The position in a scope that a location leads to, at any depth; None if it leads to none.

    Through call sites it is the caller's, of a fused location the first, of a named one its child.
    """
    return next((leaf for leaf in _leaves(location) if isinstance(leaf, DILocAttr)), None)


def source_position(location: Attribute) -> tuple[str, int, int] | None:
    """(file name, line, column) of any location, or None where there is none.

    Of several it is that of the debug info, or else the first.
    """
    inner = debug_location(location)
    for leaf in _leaves(location if inner is None else inner.source):
        if isinstance(leaf, FileLineColLoc):
            return leaf.filename.data, leaf.line.data, leaf.column.data
    return None


def file_position(path: str, line: int, column: int = 0) -> FileLineColLoc:
    """A position in a source file; one without a name is ``-``, as in MLIR."""
    return FileLineColLoc(StringAttr(path or "-"), IntAttr(line), IntAttr(column))


def function_scope(path: str, line: int, symbol: str) -> DISubprogramAttr:
    """The scope of a function that begins at a line (from 1) of a file, which is a unit of its own."""
    directory, base = posixpath.split(path)
    file = DIFileAttr(base, directory)
    return DISubprogramAttr.make(file, line, symbol, symbol, DICompileUnitAttr(file))


def subprogram_of(scope: Attribute) -> DISubprogramAttr | None:
    """The subprogram that a local scope lies in; None for what is no scope."""
    while isinstance(scope, DILexicalBlockAttr):
        scope = scope.scope
    return scope if isinstance(scope, DISubprogramAttr) else None


def is_known(location: Attribute) -> bool:
    """Whether a location says anything."""
    return not isinstance(location, UnknownLoc | NoneAttr)


ATTRIBUTES = (
    DIFileAttr,
    DICompileUnitAttr,
    DISubprogramAttr,
    DILexicalBlockAttr,
    DILocAttr,
    CallSiteAttr,
    NamedLocAttr,
    FusedLocAttr,
)
