"""How types of ``llvm`` are read: xDSL's types, under upstream's rules.

Each class here is what a name stands for in text. It makes a type of xDSL, which checks no element of a struct or
an array, and reads nothing of packed, opaque and recursive structs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    BoolAttr,
    IntAttr,
    NoneAttr,
    Signedness,
    StringAttr,
    VectorType,
    i1,
)
from xdsl.dialects.llvm import (
    LLVMArrayType,
    LLVMFunctionType,
    LLVMPointerType,
    LLVMStructType,
    LLVMVoidType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.utils.exceptions import VerifyException

from tilewright.dialects.narrowing import is_sized_integer_type, is_vector
from tilewright.dialects.syntax.tokens import (
    consume,
    fail,
    is_identifier,
    previous_end,
    token_start,
    token_text,
)
from tilewright.dialects.syntax.types import INVALID_TYPE, UNKNOWN_TYPE, format_type

#: What values of a struct or an array cannot be.
_NOT_IN_MEMORY = (LLVMVoidType, LLVMFunctionType)
_MAX_ADDRESS_SPACE = (1 << 32) - 1
_MAX_LENGTH = (1 << 64) - 1


class _Read(ParametrizedAttribute, TypeAttribute):
    """A name in text whose parameters are the one type that is meant."""

    @classmethod
    def new(cls, params: Sequence[Attribute]) -> Any:
        (ty,) = params
        return ty


def _broken(parser: AttrParser, message: str, start: int) -> NoReturn:
    fail(parser, message, start, previous_end(parser), code=INVALID_TYPE)


def _inner_type(parser: AttrParser) -> Attribute:
    """A type inside of another: ``!llvm.`` may be left out."""
    name = token_text(parser)
    reader = _READERS.get(f"llvm.{name}")
    if reader is not None:
        consume(parser)
        (ty,) = reader.parse_parameters(parser)
        return ty
    found = parser.parse_optional_type()
    if found is None:
        if is_identifier(parser):
            fail(parser, f"unknown type: !llvm.{name}", code=UNKNOWN_TYPE)
        fail(parser, "expected a type")
    return found


def _element_type(parser: AttrParser, what: str) -> Attribute:
    start = token_start(parser)
    ty = _inner_type(parser)
    if isinstance(ty, _NOT_IN_MEMORY) or (what == "an array" and _is_scalable(ty)):
        _broken(parser, f"the elements of {what} cannot be '{format_type(ty)}'", start)
    return ty


def _is_scalable(ty: Attribute) -> bool:
    """Whether a type is a vector of pointers whose length is a multiple of what is written."""
    return (
        is_vector(ty)
        and isinstance(ty.element_type, LLVMPointerType)
        and ty.get_num_scalable_dims() > 0
    )


def _length(parser: AttrParser) -> int:
    start = token_start(parser)
    number = parser.parse_integer(allow_boolean=False, allow_negative=False)
    if number > _MAX_LENGTH:
        _broken(parser, "lengths are integers of 64 bits", start)
    return number


@irdl_attr_definition
class ReadVoid(_Read):
    """``!llvm.void``"""

    name = "llvm.void"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        return [LLVMVoidType()]


@irdl_attr_definition
class ReadPointer(_Read):
    """``!llvm.ptr<3>``; memory space 0 is none."""

    name = "llvm.ptr"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        if token_text(parser) != "<":
            return [LLVMPointerType()]
        with parser.in_angle_brackets():
            start = token_start(parser)
            space = parser.parse_integer(allow_boolean=False, allow_negative=False)
            if space > _MAX_ADDRESS_SPACE:
                _broken(parser, "memory spaces are integers of 32 bits", start)
        return [LLVMPointerType(IntAttr(space) if space else NoneAttr())]


@irdl_attr_definition
class ReadArray(_Read):
    """``!llvm.array<4 x f32>``"""

    name = "llvm.array"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            length = _length(parser)
            parser.parse_keyword("x")
            return [LLVMArrayType(IntAttr(length), _element_type(parser, "an array"))]


@irdl_attr_definition
class ReadStruct(_Read):
    """``!llvm.struct<(i32, f32)>``, ``!llvm.struct<"name", (ptr)>``"""

    name = "llvm.struct"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            struct_name = parser.parse_optional_str_literal()
            if struct_name == "":
                _unread(parser, "a struct with an empty name")
            if struct_name is not None:
                if token_text(parser) == ">":
                    _unread(parser, "a struct that holds itself")
                parser.parse_punctuation(",")
            if token_text(parser) in ("packed", "opaque"):
                article = "a" if token_text(parser) == "packed" else "an"
                _unread(parser, f"{article} {token_text(parser)} struct")
            elements = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: _element_type(parser, "a struct")
            )
        return [LLVMStructType(StringAttr(struct_name or ""), ArrayAttr(elements))]


def _unread(parser: AttrParser, what: str) -> NoReturn:
    fail(parser, f"{what} is not supported", code=UNKNOWN_TYPE)


@irdl_attr_definition
class ReadFunction(_Read):
    """``!llvm.func<i32 (ptr, ...)>``"""

    name = "llvm.func"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        variadic = False

        def argument() -> Attribute | None:
            nonlocal variadic
            start = token_start(parser)
            if variadic:
                fail(parser, "nothing follows '...'")
            if parser.parse_optional_punctuation("..."):
                variadic = True
                return None
            ty = _inner_type(parser)
            if isinstance(ty, _NOT_IN_MEMORY):
                _broken(parser, f"no argument can be '{format_type(ty)}'", start)
            return ty

        with parser.in_angle_brackets():
            start = token_start(parser)
            result = _inner_type(parser)
            if isinstance(result, LLVMFunctionType):
                _broken(parser, f"no result can be '{format_type(result)}'", start)
            found = parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
        arguments = [ty for ty in found if ty is not None]
        try:
            return [LLVMFunctionType(arguments, result, variadic)]
        except VerifyException as error:
            _broken(parser, str(error), start)


@irdl_attr_definition
class ReadVector(_Read):
    """``!llvm.vec<8 x ptr<1>>``, ``!llvm.vec<? x 4 x ptr>``, as LLVM up to 20 writes vectors of pointers."""

    name = "llvm.vec"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            scalable = parser.parse_optional_punctuation("?") is not None
            if scalable:
                parser.parse_keyword("x")
            start = token_start(parser)
            length = _length(parser)
            parser.parse_shape_delimiter()
            if not 0 < length < 1 << 63:
                _broken(parser, "the extents of a vector are positive integers of 64 bits", start)
            start = token_start(parser)
            element = _inner_type(parser)
            if not isinstance(element, LLVMPointerType):
                _broken(parser, _not_in_vec(element), start)
        return [VectorType(element, [length], ArrayAttr([BoolAttr(scalable, i1)]))]


def _not_in_vec(element: Attribute) -> str:
    if isinstance(element, AnyFloat) or (
        is_sized_integer_type(element) and element.signedness.data is Signedness.SIGNLESS
    ):
        return f"a vector of '{format_type(element)}' is written 'vector<...>'"
    return f"the elements of a vector of llvm cannot be '{format_type(element)}'"


_READERS: dict[str, type[_Read]] = {
    cls.name: cls
    for cls in (ReadVoid, ReadPointer, ReadArray, ReadStruct, ReadFunction, ReadVector)
}
TYPES: tuple[type[_Read], ...] = tuple(_READERS.values())
