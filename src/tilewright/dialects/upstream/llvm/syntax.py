"""How operations of ``llvm`` that reach memory are written, and which types they take."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    VectorType,
    i32,
    i64,
)
from xdsl.dialects.llvm import LLVMPointerType, LLVMStructType
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer

from tilewright.dialects.narrowing import is_sized_integer_type
from tilewright.dialects.syntax.directives import (
    NumberedWord,
    parse_integers,
    parse_operand,
    parse_type_into,
    quote,
)
from tilewright.dialects.syntax.engine import Directive, ParseState, shown_type, values_of
from tilewright.dialects.syntax.tokens import (
    fail,
    is_value_name,
    token_start,
)
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base.constraints import Kind
from tilewright.dialects.upstream.base.shapes import element_of

#: The numbers of memory orderings, by keyword; 0 is an access that is not atomic.
ORDERINGS = {
    "unordered": 1,
    "monotonic": 2,
    "acquire": 4,
    "release": 5,
    "acq_rel": 6,
    "seq_cst": 7,
}
#: The operations of ``atomicrmw``; their places are their numbers.
BIN_OPS = (
    *("xchg", "add", "sub", "_and", "nand", "_or", "_xor", "max", "min", "umax", "umin"),
    *("fadd", "fsub", "fmax", "fmin", "uinc_wrap", "udec_wrap"),
)


# Types


def lane_count(ty: Attribute) -> int | None:
    """How many elements a vector has; None of what is no vector."""
    return ty.get_shape()[0] if isinstance(ty, VectorType) else None


def is_flat(ty: Attribute) -> bool:
    """Whether a type is no vector, or one of one dimension of known length."""
    if not isinstance(ty, VectorType):
        return True
    return ty.get_num_dims() == 1 and not ty.get_num_scalable_dims() and ty.get_shape()[0] > 0


def is_integer(ty: Attribute) -> bool:
    """Whether a type is one of LLVM's integers: of a known width, and without a sign of its own."""
    return is_sized_integer_type(ty) and ty.signedness.data == Signedness.SIGNLESS


def is_value(ty: Attribute) -> bool:
    """Whether memory can hold values of a type: numbers, pointers, and vectors of these."""
    element = element_of(ty)
    return is_flat(ty) and (is_integer(element) or isinstance(element, AnyFloat | LLVMPointerType))


POINTER = Kind("an !llvm.ptr", LLVMPointerType)
POINTERS = Kind(
    "an !llvm.ptr or a vector of such",
    Attribute,
    lambda ty: is_flat(ty) and isinstance(element_of(ty), LLVMPointerType),
)
INTEGERS = Kind(
    "an integer or a vector of such",
    Attribute,
    lambda ty: is_flat(ty) and is_integer(element_of(ty)),
)
POINTER_VECTOR = Kind(
    "a vector of !llvm.ptr",
    VectorType,
    lambda ty: is_flat(ty) and isinstance(element_of(ty), LLVMPointerType),
)
MASK = Kind(
    "a vector of i1",
    VectorType,
    lambda ty: is_flat(ty) and element_of(ty) == IntegerType(1),
)
VALUE = Kind("a number, a pointer, or a vector of such", Attribute, is_value)
VALUE_VECTOR = Kind(
    "a vector of numbers or pointers",
    VectorType,
    is_value,
)
STRUCT = Kind("an !llvm.struct", LLVMStructType)
ORDERING = Kind(
    "the number of a memory ordering",
    IntegerAttr,
    lambda a: isinstance(a, IntegerAttr) and a.value.data in (0, *ORDERINGS.values()),
)
BIN_OP = Kind(
    "the number of an atomic operation",
    IntegerAttr,
    lambda a: isinstance(a, IntegerAttr) and 0 <= a.value.data < len(BIN_OPS),
)


def ordering_of(op: IRDLOperation, name: str = "ordering") -> str:
    """The keyword of the memory ordering of an operation; empty where it is not atomic."""
    found = op.properties.get(name)
    number = found.value.data if isinstance(found, IntegerAttr) else 0
    return next((word for word, known in ORDERINGS.items() if known == number), "")


def scope_of(op: IRDLOperation) -> str:
    """The scope of an atomic operation; empty for the whole system."""
    found = op.properties.get("syncscope")
    return found.data if isinstance(found, StringAttr) else ""


# Text


ORDERING_WORD = NumberedWord("ordering", ORDERINGS)
BIN_OP_WORD = NumberedWord("bin_op", {word: number for number, word in enumerate(BIN_OPS)})


class Scope(Directive):
    """``syncscope("NAME")``, or nothing for the whole system."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        if not parser.parse_optional_keyword("syncscope"):
            return
        with parser.in_parens():
            state.read(parser, "syncscope", lambda: StringAttr(parser.parse_str_literal()))

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        if "syncscope" in op.properties:
            printer.print_string(f" syncscope({quote(scope_of(op))})")

    def grammar(self) -> str:
        return "[`syncscope` `(` STRING `)`]"


class Atomic(Directive):
    """``atomic [syncscope("NAME")] ORDERING``, or nothing for an access that is not atomic."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        state.properties["ordering"] = IntegerAttr(0, i64)
        if parser.parse_optional_keyword("atomic"):
            Scope().parse(parser, state)
            ORDERING_WORD.parse(parser, state)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        if ordering_of(op):
            printer.print_string(" atomic")
            Scope().print(printer, op)
            ORDERING_WORD.print(printer, op)

    def grammar(self) -> str:
        return f"[`atomic` {Scope().grammar()} {ORDERING_WORD.grammar()}]"


@dataclass(frozen=True, slots=True)
class FunctionType(Directive):
    """``: (T, U) -> V``: the types of operands that there are, and of the result."""

    operands: tuple[str, ...]
    result: str

    def parse(self, parser: Parser, state: ParseState) -> None:
        parser.parse_punctuation(":")
        parser.parse_punctuation("(")
        given = [name for name in self.operands for _ in state.operands.get(name, ())]
        for position, name in enumerate(given):
            if position:
                parser.parse_punctuation(",")
            parse_type_into(parser, state, name)
        parser.parse_punctuation(")")
        parser.parse_punctuation("->")
        parse_type_into(parser, state, self.result)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        types = [shown_type(op, v) for name in self.operands for v in values_of(op, name)]
        result = shown_type(op, values_of(op, self.result)[0])
        printer.print_string(f" : ({', '.join(types)}) -> {result}")

    def grammar(self) -> str:
        listed = " `,` ".join(f"type(%{name})" for name in self.operands)
        return f"`:` `(` {listed} `)` `->` type(%{self.result})"


#: Stands among the numbers of a place for one that is an operand.
DYNAMIC_INDEX = -(1 << 31)


class GepIndices(Directive):
    """``[%i, 3]``: operands ``dynamicIndices``, and numbers."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        numbers: list[int] = []
        state.operands["dynamicIndices"] = []

        def place() -> None:
            if is_value_name(parser):
                parse_operand(parser, state, "dynamicIndices")
                numbers.append(DYNAMIC_INDEX)
                return
            start, number = token_start(parser), parser.parse_integer(allow_boolean=False)
            if not DYNAMIC_INDEX < number < -DYNAMIC_INDEX:
                fail(parser, f"{number} does not fit a signed 32-bit integer", start)
            numbers.append(number)

        def places() -> Attribute:
            parser.parse_comma_separated_list(parser.Delimiter.SQUARE, place)
            return DenseArrayBase.from_list(i32, numbers)

        state.read(parser, "rawConstantIndices", places)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        values = iter(values_of(op, "dynamicIndices"))
        found = op.properties["rawConstantIndices"]
        assert isinstance(found, DenseArrayBase)

        def place(number: int) -> None:
            if number == DYNAMIC_INDEX:
                printer.print_ssa_value(next(values))
            else:
                printer.print_string(str(number))

        with printer.in_square_brackets():
            printer.print_list(found.get_values(), place)

    def grammar(self) -> str:
        return "`[` (%dynamicIndices | INT) {`,` ...} `]`"


class ElementType(Directive):
    """``, TYPE``: what the places count."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        parser.parse_punctuation(",")
        state.read(parser, "elem_type", lambda: state.type_syntax.parse(parser))

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        printer.print_string(f", {format_type(op.properties['elem_type'])}")

    def grammar(self) -> str:
        return "`,` TYPE"


class Member(Directive):
    """``%container[NUMBER] : STRUCT``, with the type of the member as that of the result."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        state.read(
            parser, "position", lambda: DenseArrayBase.from_list(i64, parse_integers(parser))
        )

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        found = op.properties["position"]
        assert isinstance(found, DenseArrayBase)
        printer.print_string(f"[{', '.join(map(str, found.get_values()))}]")

    def grammar(self) -> str:
        return "`[` INT `]`"


class MemberType(Directive):
    """The type of a struct; that of the result is the member's."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        start = token_start(parser)
        parse_type_into(parser, state, "container")
        ty = state.types["container"][0]
        position = state.properties["position"]
        member = member_type(ty, position)
        if member is None:
            fail(parser, f"'{format_type(ty)}' has no member {_shown(position)}", start)
        state.types["res"] = [member]

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        printer.print_string(" " + shown_type(op, values_of(op, "container")[0]))

    def grammar(self) -> str:
        return "type(%container)"


def _shown(position: Attribute) -> str:
    assert isinstance(position, DenseArrayBase)
    return str(list(position.get_values()))


def member_type(ty: Attribute, position: Attribute) -> Attribute | None:
    """The type of the member of a struct at a position; None where there is none."""
    if not isinstance(position, DenseArrayBase):
        return None
    for number in position.get_values():
        if not isinstance(ty, LLVMStructType) or not 0 <= number < len(ty.types.data):
            return None
        ty = ty.types.data[int(number)]
    return ty
