"""Reads Tile IR text: accepts every spelling, and reports every error of a file in one run.

After an error inside an operation, the values that it would have defined become poison, and parsing
continues with the next operation of the block. Uses of poison are never reported, so each diagnostic
stands for a separate mistake.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import MultipleSpansParseError, ParseError, VerifyException
from xdsl.utils.lexer import Span as LexerSpan
from xdsl.utils.mlir_lexer import MLIRTokenKind

from tilewright.diagnostics import (
    Diagnostic,
    Note,
    Severity,
    SourceFile,
    Span,
    define_code,
)
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.type_syntax import TYPE_SYNTAX as CUDA_TILE_TYPES
from tilewright.dialects.source_map import Part, TextSource, set_source
from tilewright.dialects.syntax.engine import SyntaxOp
from tilewright.dialects.syntax.tokens import SYNTAX, CodedParseError, fail
from tilewright.dialects.syntax.types import TypeSyntax
from tilewright.nesting import deep_recursion
from tilewright.text.aliases import BAD_ALIAS
from tilewright.text.attribute_parser import (
    FOREIGN_ERRORS,
    INVALID_ATTRIBUTE,
    NESTING_TOO_DEEP,
    TileAttrParser,
)
from tilewright.text.declarations import is_declaration, read_argument_attributes
from tilewright.text.generic_form import adopt_attributes, parse_generic_operation
from tilewright.text.lexer import NoToken, TileToken, lexical_problem
from tilewright.text.operations import (
    UNKNOWN_OPERATION,
    TileContext,
    find_operation,
    is_operation_name,
    suggest_operation,
)
from tilewright.text.recovery import find_resumption, names_between, result_names
from tilewright.text.values import (
    REDEFINITION,
    TYPE_CONFLICT,
    UNDEFINED_VALUE,
    Definition,
    ValueScope,
    poison,
)

RESULT_COUNT = define_code(
    "result-name-count", "The number of result names differs from the number of results."
)
UNDEFINED_BLOCK = define_code(
    "undefined-block",
    "A successor block is not defined in its region, or a block is defined twice.",
)
TOO_MANY_ERRORS = define_code("too-many-errors", "Parsing stopped after too many errors.")
INVALID_OPERATION = define_code(
    "invalid-operation", "An operation is well-formed but cannot be created."
)

MAX_ERRORS = 100

_BLOCK_ENDS = frozenset((MLIRTokenKind.R_BRACE, MLIRTokenKind.CARET_IDENT, MLIRTokenKind.EOF))
_OPERATION_STARTS = frozenset(
    (MLIRTokenKind.PERCENT_IDENT, MLIRTokenKind.BARE_IDENT, MLIRTokenKind.STRING_LIT)
)


class StopReading(Exception):
    """Ends the parsing of a text early, after the error that says why. Internal to this module."""


@dataclass(slots=True)
class _Frame:
    """State to restore when a region ends."""

    mark: int
    scope: ValueScope
    blocks: dict[str, tuple[Block, LexerSpan | None]]
    forward_blocks: dict[str, list[LexerSpan]]


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The depth of each stack at the start of a block, to which recovery returns."""

    frames: int
    dialects: int
    op_types: int
    depth: int


class TileParser(TileAttrParser, Parser):  # pyright: ignore[reportIncompatibleMethodOverride]
    """xDSL's parser with Tile IR's spellings, spans, and error recovery.

    ``errors`` holds the diagnostics so far; the caller raises them at the end.
    """

    def __init__(
        self, ctx: TileContext, file: SourceFile, foreign_types: TypeSyntax = CUDA_TILE_TYPES
    ):
        TileAttrParser.__init__(self, ctx, file.text, file.name, foreign_types)
        self.file = file
        self._context = ctx
        self.errors: list[Diagnostic] = []
        self.scope = ValueScope()
        self.blocks = {}
        self.forward_block_references = defaultdict(list)
        self._frames: list[_Frame] = []
        self._op_types: list[type[Operation]] = []
        self._isolated: dict[type[Operation], bool] = {}
        self._known_ops: dict[tuple[str, str, bool], type[Operation]] = {}
        self._parts: dict[Part, tuple[int, int]] = {}
        self._reported: set[int] = set()

    # Files

    def parse_file(self) -> list[Operation]:
        """Parse the operations at file level. Errors are left in ``errors``."""
        block = Block()
        try:
            with deep_recursion():
                while self.token.kind is not MLIRTokenKind.EOF:
                    self._parse_file_item(block)
            self._report_undefined(self.scope)
        except RecursionError:
            at = self.token
            self._add_at(NESTING_TOO_DEEP, "nested too deeply to be read", at.start, at.end)
        except StopReading:
            pass
        operations = list(block.ops)
        for op in operations:
            op.detach()
        return operations

    def _parse_file_item(self, block: Block) -> None:
        token = self.token
        snapshot = self._snapshot()
        try:
            if token.start in self.alias_definitions:
                self._parse_alias_definition(token)
            elif token.kind is MLIRTokenKind.FILE_METADATA_BEGIN:
                self._guarded(self._parse_file_metadata_dictionary)
            elif token.kind in _BLOCK_ENDS:
                self._consume_token()
                message = f"unexpected '{token.text}' at file level"
                self._add_at(SYNTAX, message, token.start, token.end)
            else:
                self._parse_block_body(block, until_alias=True)
        except ParseError as error:
            self._recover(token.start, error, snapshot)

    def _parse_alias_definition(self, token: TileToken) -> None:
        alias = self.alias_definitions[token.start]
        first = self._aliases[alias.name]
        if first is not alias:
            note = ("first defined here", LexerSpan(first.start, first.body, token.input))
            fail(self, f"alias '{alias.name}' is defined twice", code=BAD_ALIAS, notes=(note,))
        self.resolve_alias(alias)
        self._resume_from(alias.body_end)

    # Errors

    def _report_error(self, error: ParseError) -> None:
        """Record an error, once per location."""
        token, start, message = self.token, error.span.start, error.msg
        code, help_text = SYNTAX, ""
        notes: list[Note] = []
        if isinstance(error, CodedParseError):
            code, help_text, message = error.code, error.help, error.message
            notes = [Note(text, self._span(span)) for text, span in error.notes]
        elif isinstance(error, MultipleSpansParseError):
            notes = [
                Note(text or "here", Span(self.file, span.start, span.end))
                for span, text in error.refs
            ]
        else:
            message = message[:1].lower() + message[1:].rstrip("!.")
        if token.kind is NoToken.UNKNOWN and start == token.start:
            code, message, help_text = SYNTAX, lexical_problem(token), ""
        if start in self._reported:
            return
        self._reported.add(start)
        place = Span(self.file, start, max(start, error.span.end))
        self._add(Diagnostic(Severity.ERROR, code, message, place, "", tuple(notes), help_text))
        if code == NESTING_TOO_DEEP:
            raise StopReading

    def _add(self, diagnostic: Diagnostic) -> None:
        self.errors.append(diagnostic)
        if len(self.errors) >= MAX_ERRORS:
            location = diagnostic.location
            text = f"stopped after {MAX_ERRORS} errors"
            self.errors.append(Diagnostic(Severity.ERROR, TOO_MANY_ERRORS, text, location))
            raise StopReading

    def _add_at(self, code: str, message: str, start: int, end: int, *notes: Note) -> None:
        place = Span(self.file, start, end)
        self._add(Diagnostic(Severity.ERROR, code, message, place, "", notes))

    def _span(self, span: LexerSpan | None) -> Span | None:
        return None if span is None else Span(self.file, span.start, span.end)

    def _snapshot(self) -> _Snapshot:
        return _Snapshot(
            len(self._frames),
            len(self._parser_state.dialect_stack),
            len(self._op_types),
            self.depth,
        )

    def _recover(self, start: int, error: ParseError, snapshot: _Snapshot) -> None:
        """Record an error in the operation at ``start``, and skip to the next operation."""
        self._report_error(error)
        op_types = self._op_types[snapshot.op_types :]
        while len(self._frames) > snapshot.frames:
            self._close_frame()
        del self._parser_state.dialect_stack[snapshot.dialects :]
        del self._op_types[snapshot.op_types :]
        self.depth = snapshot.depth
        text = self.file.text
        self._poison(result_names(text, start), start)
        # Not the location of the error, which may be in an alias elsewhere, or after the current token.
        failed_at = self.token.start
        header = start
        stops = () if snapshot.frames else self.alias_definitions
        while True:
            found = find_resumption(text, header, failed_at, is_operation_name, stops)
            if found.body is None:
                self._resume_from(found.offset)
                return
            names = names_between(text, header, found.body)
            self._read_orphan_body(found.body, names, op_types[0] if op_types else None)
            header = failed_at = self.previous_end

    def _read_orphan_body(
        self, start: int, names: list[str], op_type: type[Operation] | None
    ) -> None:
        """Parse a region whose operation has an error, to report errors in the region itself."""
        snapshot = self._snapshot()
        if op_type is not None:
            self._op_types.append(op_type)
            self._parser_state.dialect_stack.append(op_type.dialect_name())
        self._resume_from(start)
        self._consume_token()
        self._open_frame()
        self._poison(names, start)
        try:
            self.nest()
            self._parse_region_blocks(Region(), start)
        except ParseError as error:
            self._report_error(error)
        while len(self._frames) > snapshot.frames:
            self._close_frame()
        del self._parser_state.dialect_stack[snapshot.dialects :]
        del self._op_types[snapshot.op_types :]
        self.depth = snapshot.depth

    def _poison(self, names: Iterable[str], start: int) -> None:
        for name in names:
            if name not in self.scope.visible:
                self.scope.define(name, Definition(None, (start, start)))
                self.scope.forward.pop(name, None)

    # Values

    def resolve_operand(self, operand: UnresolvedOperand, type: Attribute) -> SSAValue:
        span = operand.span
        name = span.text[1:]
        known = self.scope.visible.get(name)
        if known is None:
            place = (span.start, span.end)
            value: SSAValue = self.scope.refer(
                name, operand.index, type, place, len(self._frames)
            ).value
        elif known.values is None:
            return poison(type)
        elif operand.index >= len(known.values):
            self._add_at(
                UNDEFINED_VALUE,
                f"'%{name}' has no value number {operand.index}: it has {len(known.values)}",
                span.start,
                span.end,
                Note("defined here", Span(self.file, *known.place)),
            )
            return poison(type)
        else:
            value = known.values[operand.index]
        if value.type is not type and value.type != type:
            self._report_type_conflict(span, known, value.type, type)
            return poison(type)
        return value

    def _report_type_conflict(
        self, span: LexerSpan, known: Definition | None, prior: Attribute, written: Attribute
    ) -> None:
        note = () if known is None else (Note("defined here", Span(self.file, *known.place)),)
        show = self.foreign_types.format
        self._add_at(
            TYPE_CONFLICT,
            f"use of value '{span.text}' expects different type than prior uses: "
            f"'{show(written)}' vs '{show(prior)}'",
            span.start,
            span.end,
            *note,
        )

    def parse_optional_unresolved_operand(self) -> UnresolvedOperand | None:
        token = self.token
        if token.kind is not MLIRTokenKind.PERCENT_IDENT:
            return None
        self._consume_token()
        index = 0
        suffix = self.token
        if suffix.kind is MLIRTokenKind.HASH_IDENT and suffix.start == token.end:
            digits = suffix.text[1:]
            if not digits.isdigit() or len(digits) > 9:
                fail(self, f"expected a number after '#', found '{digits}'")
            self._consume_token()
            index = int(digits)
        return UnresolvedOperand(token, index)

    def parse_unresolved_operand(self, msg: str = "operand expected") -> UnresolvedOperand:
        found = self.parse_optional_unresolved_operand()
        if found is None:
            self._expected("a value")
        return found

    def _register_ssa_definition(
        self, name: str, values: Sequence[SSAValue], span: LexerSpan
    ) -> None:
        scope = self.scope
        if (first := scope.visible.get(name)) is not None:
            if first.values is not None:
                note = Note("first defined here", Span(self.file, *first.place))
                message = f"redefinition of value '%{name}'"
                self._add_at(REDEFINITION, message, span.start, span.end, note)
            return
        scope.define(name, Definition(values, (span.start, span.end)))
        if name in scope.forward:
            self._bind_forward_uses(name, values, span)
        if not name[0].isdigit():
            for value in values:
                # xDSL's setter of `name_hint` strips numeric suffixes.
                value._name = name

    def _bind_forward_uses(self, name: str, values: Sequence[SSAValue], span: LexerSpan) -> None:
        definition = Note("defined here", Span(self.file, span.start, span.end))
        show = self.foreign_types.format
        for index, forward in self.scope.forward.pop(name).items():
            if index >= len(values):
                message = f"'%{name}' has no value number {index}: it has {len(values)}"
                self._add_at(UNDEFINED_VALUE, message, *forward.first_use, definition)
                continue
            value = values[index]
            if forward.depth < len(self._frames):
                # It may even belong to the operation that holds this region, which does not exist yet.
                message = f"use of undefined value '%{name}'"
                note = Note(
                    "a value of this name is defined here, in a region inside", definition.location
                )
                self._add_at(UNDEFINED_VALUE, message, *forward.first_use, note)
                continue
            if forward.value.type != value.type:
                message = (
                    f"use of value '%{name}' expects different type than its definition: "
                    f"'{show(forward.value.type)}' vs '{show(value.type)}'"
                )
                self._add_at(TYPE_CONFLICT, message, *forward.first_use, definition)
                continue
            forward.value.replace_all_uses_with(value)

    def _report_undefined(self, scope: ValueScope) -> None:
        """Report the values of a scope that were used but never defined."""
        for name, uses in scope.forward.items():
            place = min(forward.first_use for forward in uses.values())
            notes: tuple[Note, ...] = ()
            if (ended := scope.ended.get(name)) is not None:
                text = "a value of this name is defined here, in a region that has ended"
                notes = (Note(text, Span(self.file, *ended)),)
            self._add_at(UNDEFINED_VALUE, f"use of undefined value '%{name}'", *place, *notes)
        scope.forward.clear()

    # Regions and blocks

    def _open_frame(self) -> None:
        frame = _Frame(
            len(self.scope.order), self.scope, self.blocks, self.forward_block_references
        )
        self._frames.append(frame)
        self.blocks = {}
        self.forward_block_references = defaultdict(list)
        if self._op_types and self._is_isolated(self._op_types[-1]):
            self.scope = ValueScope()

    def _close_frame(self) -> None:
        frame = self._frames.pop()
        self.blocks, self.forward_block_references = frame.blocks, frame.forward_blocks
        if self.scope is frame.scope:
            self.scope.leave(frame.mark)
        else:
            self._report_undefined(self.scope)
            self.scope = frame.scope

    def _is_isolated(self, op_type: type[Operation]) -> bool:
        known = self._isolated.get(op_type)
        if known is None:
            known = op_type.has_trait(IsolatedFromAbove, value_if_unregistered=False)
            self._isolated[op_type] = known
        return known

    def parse_optional_region(
        self, arguments: Iterable[Parser.Argument] | None = None
    ) -> Region | None:
        if self.token.text != "{":
            return None
        opening = self._consume_token().start
        self.nest()
        region = Region()
        self._open_frame()
        if arguments is not None:
            if self.token.kind is MLIRTokenKind.CARET_IDENT:
                fail(self, "the first block of this region takes no label: its arguments are named")
            named = list(arguments)
            entry = Block(arg_types=[argument.type for argument in named])
            region.add_block(entry)
            self._name_arguments(entry, named)
            self._parse_block_body(entry)
        self._parse_region_blocks(region, opening)
        self._close_frame()
        self.depth -= 1
        return region

    def _parse_region_blocks(self, region: Region, opening: int) -> None:
        """Parse blocks up to and including the closing brace."""
        if not region.blocks and self.token.kind not in _BLOCK_ENDS:
            block = Block()
            region.add_block(block)
            self._parse_block_body(block)
        while self.token.text != "}":
            if self.token.kind is MLIRTokenKind.EOF:
                brace = LexerSpan(opening, opening + 1, self.lexer.input)
                fail(
                    self,
                    "expected '}' at the end of the region, found the end of the file",
                    notes=(("the region starts here", brace),),
                )
            self._parse_labelled_block(region)
        for name, uses in self.forward_block_references.items():
            span = uses[0]
            self._add_at(UNDEFINED_BLOCK, f"undefined block '^{name}'", span.start, span.end)
        self._consume_token()

    def parse_region(self, arguments: Iterable[Parser.Argument] | None = None) -> Region:
        region = self.parse_optional_region(arguments)
        if region is None:
            self._expected("'{' and a region")
        return region

    def _parse_labelled_block(self, region: Region) -> None:
        label = self._parse_token(MLIRTokenKind.CARET_IDENT, "expected a block label or '}'")
        name = label.text[1:]
        arguments: list[Parser.Argument] = []
        if self.token.text == "(":
            arguments = self.parse_comma_separated_list(
                self.Delimiter.PAREN, self._parse_block_argument
            )
        self.parse_characters(":", " after a block label")
        block, defined = self.blocks.get(name, (None, None))
        if defined is not None:
            note = Note("first defined here", self._span(defined))
            message = f"redefinition of block '^{name}'"
            self._add_at(UNDEFINED_BLOCK, message, label.start, label.end, note)
            block = None
        types = [argument.type for argument in arguments]
        if block is None:
            block = Block(arg_types=types)
        else:
            for ty in types:
                block.insert_arg(ty, len(block.args))
        self.blocks[name] = (block, label)
        self._name_arguments(block, arguments)
        self.forward_block_references.pop(name, None)
        if Block.is_valid_name(name) and not Block.is_default_block_name(name):
            block.name_hint = name
        set_source(block, TextSource(self.file, label.start, label.end))
        region.add_block(block)
        self._parse_block_body(block)

    def _parse_block_argument(self) -> Parser.Argument:
        name = self._parse_token(MLIRTokenKind.PERCENT_IDENT, "expected a block argument")
        self.parse_characters(":")
        op_type = self._op_types[-1] if self._op_types else None
        ty = self.types_of(op_type).parse(self)
        return self.Argument(name, ty, self.parse_optional_location())  # pyright: ignore[reportArgumentType]

    def _name_arguments(self, block: Block, arguments: Sequence[Parser.Argument]) -> None:
        for value, argument in zip(block.args, arguments, strict=True):
            name = argument.name
            self._register_ssa_definition(name.text[1:], (value,), name)
            if argument.location is not None:
                value.location = argument.location

    def _parse_block_body(self, block: Block, until_alias: bool = False) -> None:
        """Parse operations up to the end of the block; those with errors are left out."""
        snapshot = self._snapshot()
        while True:
            token = self.token
            kind = token.kind
            if kind in _BLOCK_ENDS or (until_alias and token.start in self.alias_definitions):
                return
            try:
                if kind not in _OPERATION_STARTS:
                    self._expected("an operation")
                block.add_op(self.parse_operation())
            except ParseError as error:
                self._recover(token.start, error, snapshot)
            if until_alias and self.token.kind is MLIRTokenKind.FILE_METADATA_BEGIN:
                return

    # Operations

    def types_of(self, op_type: type[Operation] | None) -> TypeSyntax:
        """Return how types are written in operations of a class; None at file level."""
        if op_type is not None and issubclass(op_type, SyntaxOp):
            return op_type.TYPE_SYNTAX
        return self.foreign_types

    def record_parts(self, op: Operation, parts: dict[Part, tuple[int, int]]) -> None:
        """Record the text ranges of an operation's parts. Called by the syntax engine."""
        self._parts = parts

    def parse_operation(self) -> Operation:
        names = self._parse_result_names()
        name_token = self.token
        kind = name_token.kind
        if kind is MLIRTokenKind.BARE_IDENT:
            op_type = self._operation_type(name_token.text, generic=False)
            self._consume_token()
        elif kind is MLIRTokenKind.STRING_LIT:
            op_type = self._operation_type(name_token.text[1:-1], generic=True)
            self._consume_token()
        else:
            self._expected("the name of an operation")
        dialects = self._parser_state.dialect_stack
        dialects.append("cuda_tile" if issubclass(op_type, TileOp) else op_type.dialect_name())
        self._op_types.append(op_type)
        self._parts = {}
        if kind is MLIRTokenKind.STRING_LIT:
            op = parse_generic_operation(self, op_type, name_token)
        else:
            op = self._parse_custom(op_type, name_token)
        parts = self._parts
        dialects.pop()
        self._op_types.pop()
        if (location := self.parse_optional_location()) is not None:
            op.location = location  # pyright: ignore[reportAttributeAccessIssue]
        if names:
            self._bind_results(op, names, parts)
        set_source(op, TextSource(self.file, name_token.start, self.previous_end, parts))
        return op

    def _parse_custom(self, op_type: type[Operation], name: TileToken) -> Operation:
        if issubclass(op_type, TileOp):
            if not op_type.SYNTAX:
                fail(
                    self,
                    f"'{op_type.name}' has a generic form only: write \"{op_type.name}\"(...)",
                    name.start,
                    name.end,
                )
            try:
                op = op_type.parse(self)
            except VerifyException as error:
                fail(self, str(error), name.start, name.end, code=INVALID_OPERATION)
            if op.attributes:
                adopt_attributes(self, op, name)
            return op
        try:
            if op_type.name.startswith("scf."):
                from tilewright.dialects.upstream.scf import CUSTOM_FORMS

                return CUSTOM_FORMS.get(op_type.name, op_type.parse)(self)
            op = op_type.parse(self)
            if is_declaration(op):
                read_argument_attributes(self, op, name.end)
            return op
        except FOREIGN_ERRORS as error:
            reason = str(error).split("\n", 1)[0]
            fail(self, f"malformed '{op_type.name}': {reason}", name.start, name.end)

    def _operation_type(self, name: str, generic: bool) -> type[Operation]:
        dialects = self._parser_state.dialect_stack
        key = (dialects[-1], name, generic)
        known = self._known_ops.get(key)
        if known is None:
            known = find_operation(self._context, name, dialects, generic)
            if known is None:
                fail(
                    self,
                    f"unknown operation '{name}'",
                    code=UNKNOWN_OPERATION,
                    help=suggest_operation(self._context, name, generic),
                )
            self._known_ops[key] = known
        return known

    def _parse_result_names(self) -> list[tuple[TileToken, int]]:
        """Parse ``%a, %b:2 =`` if present. Returns the names and their numbers of results."""
        names: list[tuple[TileToken, int]] = []
        if self.token.kind is not MLIRTokenKind.PERCENT_IDENT:
            return names
        while True:
            name = self._parse_token(MLIRTokenKind.PERCENT_IDENT, "expected a result name")
            count = 1
            if self.parse_optional_characters(":") is not None:
                count = self.parse_integer(allow_boolean=False, allow_negative=False)
            names.append((name, count))
            if self.parse_optional_characters(",") is None:
                break
        self.parse_characters("=", " after the result names")
        return names

    def _bind_results(
        self,
        op: Operation,
        names: list[tuple[TileToken, int]],
        parts: dict[Part, tuple[int, int]],
    ) -> None:
        total = sum(count for _, count in names)
        if total != len(op.results):
            message = f"'{op.name}' has {len(op.results)} results, {total} are named"
            start, end = names[0][0].start, names[-1][0].end
            self._add_at(RESULT_COUNT, message, start, end)
            self._poison([name.text[1:] for name, _ in names], start)
            return
        first = 0
        for name, count in names:
            self._register_ssa_definition(name.text[1:], op.results[first : first + count], name)
            for index in range(first, first + count):
                parts[("result", "", index)] = (name.start, name.end)
            first += count


__all__ = ["INVALID_ATTRIBUTE", "TileParser"]
