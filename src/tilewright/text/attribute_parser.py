"""Tokens, lists, literals, attributes and types: xDSL's attribute parser, made tolerant and exact.

It accepts more than its base class: aliases anywhere, exact float bit patterns, strings of arbitrary
bytes, tiles in ``dense<...>``. Any text either parses or ends in a parse error with a location, never
in another exception, and never takes unbounded time or memory.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from math import prod
from typing import NoReturn, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    ShapedType,
    StringAttr,
    UnregisteredAttr,
    i1,
    i64,
)
from xdsl.ir import Attribute, Data, ParametrizedAttribute, TypeAttribute
from xdsl.parser import AttrParser, GenericParser, ParserState
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRTokenKind

from tilewright.diagnostics import define_code
from tilewright.dialects import nv_tileaa
from tilewright.dialects.cuda_tile.constants import (
    exact_float,
    parse_literal_and_type,
    scalar_literal,
)
from tilewright.dialects.cuda_tile.type_syntax import TYPE_SYNTAX as CUDA_TILE_TYPES
from tilewright.dialects.cuda_tile.type_syntax import element_by_spelling
from tilewright.dialects.cuda_tile.types import Float8E5M3FNUType, TileType, element_name
from tilewright.dialects.syntax.tokens import fail, token_start
from tilewright.dialects.syntax.types import (
    INVALID_TYPE,
    UNKNOWN_TYPE,
    TypeMemos,
    TypeSyntax,
    read_once,
)
from tilewright.numerics.element_types import FORMATS
from tilewright.text.aliases import (
    BAD_ALIAS,
    MAX_ALIAS_LEVELS,
    MAX_EXPANSION,
    UNDEFINED_ALIAS,
    Alias,
    aliases_below,
    find_aliases,
)
from tilewright.text.builtin_types import broken_rule, canonical_type
from tilewright.text.lexer import TileLexer, TileToken
from tilewright.text.locations import parse_location_body
from tilewright.text.suggestions import did_you_mean

NESTING_TOO_DEEP = define_code(
    "nesting-too-deep",
    "Brackets, attributes, types or regions are nested too deeply.",
)
INVALID_ATTRIBUTE = define_code("invalid-attribute", "An attribute is well-formed but invalid.")
UNKNOWN_ATTRIBUTE = define_code("unknown-attribute", "No known attribute has this name.")

MAX_NESTING = 200
MAX_INTEGER_WIDTH = 4096
MAX_DENSE_ELEMENTS = 2**24

#: The exceptions that xDSL's parsers of builtin and foreign attributes raise on malformed text.
FOREIGN_ERRORS = (
    VerifyException,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    TypeError,
    ValueError,
    struct.error,
)

#: Words that begin MLIR's own types with a body.
_SHAPED = frozenset({"vector", "memref", "tensor", "tuple", "complex"})

_ItemT = TypeVar("_ItemT")
_DENSE_BODY = re.compile(r'<[^">]*+(?:"[^"\n]*+"[^">]*+)*+>')
_ESCAPE = re.compile(r'\\(?:([nt"\\])|([0-9A-Fa-f]{2}))')
_ESCAPED = {"n": b"\n", "t": b"\t", '"': b'"', "\\": b"\\"}


def unescape(literal: str) -> str:
    """Return the contents of a string literal; bytes that are not UTF-8 become surrogate escapes."""
    body = literal[1:-1]
    if "\\" not in body:
        return body
    pieces: list[bytes] = []
    at = 0
    for match in _ESCAPE.finditer(body):
        pieces.append(body[at : match.start()].encode())
        pieces.append(_ESCAPED[match[1]] if match[1] else bytes.fromhex(match[2]))
        at = match.end()
    pieces.append(body[at:].encode())
    return b"".join(pieces).decode("utf-8", "surrogateescape")


class TileAttrParser(AttrParser):
    """Parses attributes and types. ``previous_end`` is the offset after the last token consumed.

    ``foreign_types`` says how types are written in operations that xDSL declares.
    """

    def __init__(
        self,
        ctx: Context,
        text: str,
        filename: str,
        foreign_types: TypeSyntax = CUDA_TILE_TYPES,
    ):
        lexer = TileLexer(Input(text, filename))
        AttrParser.__init__(self, ParserState(lexer), ctx)
        self.foreign_types = foreign_types
        self.previous_end = 0
        self.depth = 0
        self.type_memos: TypeMemos = getattr(ctx, "type_memos", {})
        self.alias_definitions = find_aliases(text)
        self._aliases: dict[str, Alias] = {}
        for alias in self.alias_definitions.values():
            self._aliases.setdefault(alias.name, alias)
        self._open_aliases: list[Alias] = []
        self._in_order = False

    # Tokens

    @property
    def token(self) -> TileToken:
        """The current token."""
        return self._parser_state.current_token  # pyright: ignore[reportReturnType]

    def _consume_token(self, expected_kind: MLIRTokenKind | None = None) -> TileToken:  # pyright: ignore[reportIncompatibleMethodOverride]
        state = self._parser_state
        taken = state.current_token
        assert expected_kind is None or taken.kind is expected_kind
        self.previous_end = taken.end  # pyright: ignore[reportAttributeAccessIssue]
        state.current_token = state.lexer.lex()
        return taken  # pyright: ignore[reportReturnType]

    def _resume_from(self, pos: int) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        state = self._parser_state
        state.lexer.pos = pos
        self.previous_end = pos
        state.current_token = state.lexer.lex()

    def _parse_optional_token(self, expected_kind: MLIRTokenKind) -> TileToken | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self._parser_state.current_token.kind is expected_kind:
            return self._consume_token()
        return None

    def _parse_token(self, expected_kind: MLIRTokenKind, error_msg: str) -> TileToken:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self._parser_state.current_token.kind is not expected_kind:
            fail(self, f"{error_msg}, found {self.found()}")
        return self._consume_token()

    def parse_optional_characters(self, text: str) -> str | None:
        if self._parser_state.current_token.text == text:
            self._consume_token()
            return text
        return None

    def parse_optional_punctuation(self, punctuation: str) -> str | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self._parser_state.current_token.text == punctuation:
            self._consume_token()
            return punctuation
        return None

    def parse_optional_keyword(self, keyword: str) -> str | None:
        if self._parser_state.current_token.text == keyword:
            self._consume_token()
            return keyword
        return None

    def parse_characters(self, text: str, context_msg: str = "") -> str:
        if self._parser_state.current_token.text != text:
            self._expected(f"'{text}'", context_msg)
        self._consume_token()
        return text

    def parse_punctuation(self, punctuation: str, context_msg: str = "") -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.parse_characters(punctuation, context_msg)

    def parse_keyword(self, keyword: str, context_msg: str = "") -> str:
        return self.parse_characters(keyword, context_msg)

    def found(self) -> str:
        """Describe the current token for messages."""
        text = self.token.text
        if not text:
            return "the end of the file"
        return f"'{text if len(text) <= 40 else text[:37] + '...'}'"

    def _expected(self, what: str, context: str = "") -> NoReturn:
        fail(self, f"expected {what}{context.rstrip('!')}, found {self.found()}")

    # Nesting

    def nest(self) -> None:
        """Enter one more nesting level. Errors need not leave it, since recovery does.

        Raises CodedParseError (``nesting-too-deep``) beyond ``MAX_NESTING``.
        """
        self.depth += 1
        if self.depth > MAX_NESTING:
            fail(
                self,
                f"nested more than {MAX_NESTING} levels deep",
                code=NESTING_TOO_DEEP,
            )

    @contextmanager
    def delimited(self, start: str, end: str) -> Generator[None, None, None]:
        """Parse both delimiters around what is parsed inside, one nesting level deeper.

        Raises CodedParseError if either is missing.
        """
        self.parse_characters(start)
        self.nest()
        yield
        self.depth -= 1
        self.parse_characters(end)

    def parse_list(
        self,
        delimiter: GenericParser.Delimiter,
        parse: Callable[[], _ItemT],
        separator: str = ",",
        context_msg: str = "",
    ) -> list[_ItemT]:
        brackets = delimiter.value
        if brackets is not None:
            self.parse_characters(brackets[0], context_msg)
            if self.parse_optional_characters(brackets[1]) is not None:
                return []
        self.nest()
        items = [parse()]
        while self.parse_optional_characters(separator) is not None:
            items.append(parse())
        self.depth -= 1
        if brackets is not None:
            if self.token.text != brackets[1]:
                self._expected(f"'{separator}' or '{brackets[1]}'", context_msg)
            self._consume_token()
        return items

    def parse_optional_comma_separated_list(
        self,
        delimiter: GenericParser.Delimiter,
        parse: Callable[[], _ItemT],
        context_msg: str = "",
    ) -> list[_ItemT] | None:
        assert delimiter.value is not None
        if self.token.text != delimiter.value[0]:
            return None
        return self.parse_list(delimiter, parse, ",", context_msg)

    def parse_optional_type(self) -> TypeAttribute | None:
        token = self.token
        if token.text == "tile" and self.foreign_types is not CUDA_TILE_TYPES:
            return self.foreign_types.parse(self)  # pyright: ignore[reportReturnType]
        if token.text in _SHAPED or token.kind is MLIRTokenKind.EXCLAMATION_IDENT:
            return read_once(self, "mlir", super().parse_optional_type)
        return super().parse_optional_type()

    def _parse_optional_builtin_parametrized_type(self) -> TypeAttribute | None:
        self.nest()
        start = token_start(self)
        found = self._guarded(super()._parse_optional_builtin_parametrized_type)
        self.depth -= 1
        if found is None:
            return None
        if (problem := broken_rule(found)) is not None:
            fail(self, problem, start, self.previous_end, code=INVALID_TYPE)
        return canonical_type(found)

    def _parse_optional_builtin_parametrized_attr(self) -> Attribute | None:
        return self._guarded(super()._parse_optional_builtin_parametrized_attr)

    def _guarded(self, parse: Callable[[], _ItemT]) -> _ItemT:
        """Run one of xDSL's parsers, which may raise anything on malformed text."""
        start = token_start(self)
        try:
            return parse()
        except FOREIGN_ERRORS as error:
            self._invalid(error, start)

    def _invalid(self, error: Exception, start: int) -> NoReturn:
        reason = str(error).strip().split("\n", 1)[0][:200] or "it cannot be represented"
        fail(self, f"invalid attribute: {reason}", start, self.previous_end, code=INVALID_ATTRIBUTE)

    # Literals

    def parse_optional_str_literal(self) -> str | None:
        if self.token.kind is not MLIRTokenKind.STRING_LIT:
            return None
        return unescape(self._consume_token().text)

    def parse_optional_symbol_name(self) -> StringAttr | None:
        if self.token.kind is not MLIRTokenKind.AT_IDENT:
            return None
        text = self._consume_token().text
        return StringAttr(unescape(text[1:]) if text[1] == '"' else text[1:])

    def _parse_optional_integer_or_float_type(self) -> TypeAttribute | None:
        text = self.token.text
        digits = text.lstrip("siu")
        if digits.isdigit() and text != digits and int(digits[:9]) > MAX_INTEGER_WIDTH:
            fail(self, f"integer types have at most {MAX_INTEGER_WIDTH} bits", code=UNKNOWN_TYPE)
        found = super()._parse_optional_integer_or_float_type()
        if found is None and self.token.kind is MLIRTokenKind.BARE_IDENT:
            # Spellings of other tools, such as fnv8E5M3FNU.
            other = element_by_spelling(text)
            if other is not None:
                self._consume_token()
            return other  # pyright: ignore[reportReturnType]
        return found

    def parse_optional_builtin_int_or_float_attr(self) -> IntegerAttr | FloatAttr | None:
        """Parse a number with its type. Floats are rounded once, from the text to their type.

        Returns None where no number stands. Raises CodedParseError for one that is not of its type.
        """
        start = token_start(self)
        if (boolean := self.parse_optional_boolean()) is not None:
            return IntegerAttr(int(boolean), i1)
        sign = "-" if self._parse_optional_token(MLIRTokenKind.MINUS) is not None else ""
        kind = self.token.kind
        if kind not in (MLIRTokenKind.INTEGER_LIT, MLIRTokenKind.FLOAT_LIT):
            if sign:
                self._expected("a number after '-'")
            return None
        text = sign + self._consume_token().text
        ty: Attribute | None = None
        if self.parse_optional_characters(":") is not None:
            ty = self.parse_type()
        elif kind is MLIRTokenKind.FLOAT_LIT:
            ty = element_by_spelling("f64")
        else:
            ty = i64
        assert ty is not None
        if isinstance(ty, AnyFloat | Float8E5M3FNUType):
            return self._float_attribute(text, ty, start)
        if not isinstance(ty, IntegerType | IndexType) or kind is MLIRTokenKind.FLOAT_LIT:
            self._invalid(ValueError(f"'{text}' is not a value of its type"), start)
        try:
            return IntegerAttr(int(text, 16 if "0x" in text else 10), ty)
        except VerifyException as error:
            self._invalid(error, start)

    def _float_attribute(
        self, text: str, ty: AnyFloat | Float8E5M3FNUType, start: int
    ) -> FloatAttr:
        fmt = FORMATS.get(element_name(ty))
        if fmt is None:
            self._invalid(ValueError(f"floats of type {ty} are not supported"), start)
        # Where MLIR's attribute would lose bits, use one that keeps them.
        return exact_float(ty, scalar_literal(self, text, fmt, start))  # pyright: ignore[reportReturnType]

    def _parse_builtin_dense_attr(self) -> Attribute:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Parse ``dense<...> : T`` from the ``<`` on: a constant tile, or xDSL's dense attribute.

        The type after the literal decides, so it is parsed first.
        """
        literal, keyword = token_start(self), self.previous_end - len("dense")
        body = _DENSE_BODY.match(self.lexer.input.content, literal)
        if body is None:
            fail(self, "expected '<' and a literal that ends with '>' after 'dense'")
        self._resume_from(body.end())
        self.parse_characters(":", " after the literal")
        ty = self.foreign_types.parse(self)
        if isinstance(ty, TileType):
            self._resume_from(keyword)
            return parse_literal_and_type(self)
        if ty.name == nv_tileaa.TILE:
            from tilewright.dialects.arith.constants import parse_value

            self._resume_from(keyword)
            return parse_value(self)
        if isinstance(ty, ShapedType) and prod(ty.get_shape()) > MAX_DENSE_ELEMENTS:
            self._invalid(ValueError(f"more than {MAX_DENSE_ELEMENTS} elements"), keyword)
        self._resume_from(literal)
        return self.parse_dense_int_or_fp_elements_attr(None)

    # Dialect attributes and types, aliases

    def _parse_extended_type_or_attribute(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, attr_or_dialect_name: str, is_type: bool
    ) -> Attribute:
        name = attr_or_dialect_name
        opens_body = self.token.text == "<" and self.token.start == self.previous_end
        if "." not in name and not opens_body:
            return self._expand_alias(("!" if is_type else "#") + name)
        self.nest()
        start = self.previous_end - len(name) - 1
        opaque_body: int | None = None
        if "." not in name:
            self._consume_token()
            mnemonic = self._parse_token(MLIRTokenKind.BARE_IDENT, "expected an attribute name")
            name = f"{name}.{mnemonic.text}"
            opaque_body = self.previous_end
        found = self._parse_dialect_body(name, is_type, start, opaque_body)
        if opaque_body is not None:
            self.parse_characters(">")
        self.depth -= 1
        return found

    def _parse_dialect_body(
        self, name: str, is_type: bool, start: int, opaque_body: int | None
    ) -> Attribute:
        definition = self._find_definition(name, is_type, start)
        try:
            if issubclass(definition, UnregisteredAttr):
                body = self._unregistered_body(opaque_body)
                return definition(name, is_type, opaque_body is not None, body)
            if issubclass(definition, ParametrizedAttribute):
                return self._with_parameters(definition, "!" if is_type else "#", start)
            assert issubclass(definition, Data)
            return definition(definition.parse_parameter(self))
        except FOREIGN_ERRORS as error:
            if name.startswith("cuda_tile.") and not isinstance(error, VerifyException):
                raise
            self._invalid(error, start)

    def _with_parameters(
        self, definition: type[ParametrizedAttribute], sign: str, start: int
    ) -> Attribute:
        parameters = definition.parse_parameters(self)
        makes_itself = definition.new.__func__ is ParametrizedAttribute.new.__func__
        wanted = len(definition.get_irdl_definition().parameters)
        if makes_itself and len(parameters) != wanted:
            counted = f"{wanted} parameter{'s' * (wanted != 1)}" if wanted else "no parameters"
            what = f"{sign}{definition.name} takes {counted}, not {len(parameters)}"
            code = INVALID_TYPE if sign == "!" else INVALID_ATTRIBUTE
            fail(self, what, start, self.previous_end, code=code)
        return definition.new(parameters)

    def _find_definition(self, name: str, is_type: bool, start: int) -> type[Attribute]:
        context = self.ctx
        lookup = context.get_optional_type if is_type else context.get_optional_attr
        ours = name.startswith("cuda_tile.")
        loaded = context.loaded_types if is_type else context.loaded_attrs
        names = [cls.name for cls in loaded]
        found = lookup(name) if not ours or name in names else None
        if found is None:
            self._unknown(name, is_type, start, names)
        return found

    def _unknown(self, name: str, is_type: bool, start: int, names: list[str]) -> NoReturn:
        sign, what = ("!", "type") if is_type else ("#", "attribute")
        dialect = name.partition(".")[0]
        known = [known for known in names if known.startswith(f"{dialect}.")]
        known = known or [known for known in names if known.startswith("cuda_tile.")]
        fail(
            self,
            f"unknown {what}: {sign}{name}",
            start,
            start + len(name) + 1,
            code=UNKNOWN_TYPE if is_type else UNKNOWN_ATTRIBUTE,
            help=did_you_mean(name, known, sign),
        )

    def _unregistered_body(self, opaque_body: int | None) -> str:
        if opaque_body is None and self.token.text != "<":
            return ""
        body = token_start(self) + 1 if opaque_body is None else opaque_body
        end = self._raw_scan_balanced(body)
        self._resume_from(end + (opaque_body is None))
        return self.lexer.input.content[body:end]

    def _expand_alias(self, name: str) -> Attribute:
        alias = self._aliases.get(name)
        end = self.previous_end
        start = end - len(name)
        if alias is None:
            fail(
                self,
                f"undefined alias '{name}'",
                start,
                end,
                code=UNDEFINED_ALIAS,
                help=did_you_mean(name, [a for a in self._aliases if a[0] == name[0]]),
            )
        if alias.busy:
            fail(self, f"alias '{name}' is defined by itself", start, end, code=BAD_ALIAS)
        value = self.resolve_alias(alias)
        if self._open_aliases:
            outer = self._open_aliases[-1]
            outer.size += alias.size
            if outer.size > MAX_EXPANSION:
                fail(self, f"alias '{outer.name}' expands to too much", start, end, code=BAD_ALIAS)
        return value

    def resolve_alias(self, alias: Alias) -> Attribute:
        """Return the attribute of an alias. Parses it on first use, wherever the parser is.

        Raises the ParseError of its definition, the same each time.
        """
        if alias.value is not None:
            return alias.value
        if alias.error is not None:
            raise alias.error
        alias.busy = True
        if not self._in_order:
            self._resolve_parts(alias)
        position, previous_end, depth = token_start(self), self.previous_end, self.depth
        self._open_aliases.append(alias)
        try:
            self.nest()
            self._resume_from(alias.body)
            alias.value = self.parse_type() if alias.name[0] == "!" else self.parse_attribute()
            alias.body_end = self.previous_end
            alias.size += max(1, (alias.body_end - alias.body) // 8)
        except ParseError as error:
            alias.error = error
            raise
        finally:
            alias.busy = False
            self._open_aliases.pop()
            self._resume_from(position)
            self.previous_end, self.depth = previous_end, depth
        return alias.value

    def _resolve_parts(self, alias: Alias) -> None:
        """Parse the aliases in an alias's definition before itself.

        A chain of aliases then needs no recursion: debug info of inlined code has hundreds of links. The
        aliases are identified by the names on the definition's line. Those on further lines are parsed when
        encountered, and their errors are reported there.
        """
        self._in_order = True
        order = aliases_below(alias, self._aliases, self.lexer.input.content)
        try:
            for part, levels in order:
                if levels > MAX_ALIAS_LEVELS:
                    fail(
                        self,
                        f"aliases are nested more than {MAX_ALIAS_LEVELS} levels deep",
                        part.start,
                        part.body,
                        code=NESTING_TOO_DEEP,
                    )
                with suppress(ParseError):
                    self.resolve_alias(part)
        finally:
            self._in_order = False

    def parse_optional_location(self) -> Attribute | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Parse ``loc(...)`` if present."""
        if self._parser_state.current_token.text != "loc":
            return None
        self._consume_token()
        with self.in_parens():
            return parse_location_body(self)
