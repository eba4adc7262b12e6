"""The types of ``nvgpu``: tokens, barriers, tensor maps, and operands of warpgroup products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import IntAttr, MemRefType, VectorType
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from tilewright.diagnostics import define_code
from tilewright.dialects.narrowing import is_int
from tilewright.dialects.nvgpu.enums import (
    TensorMapInterleaveKindAttr,
    TensorMapL2PromoKindAttr,
    TensorMapOOBKindAttr,
    TensorMapSwizzleKindAttr,
)
from tilewright.dialects.syntax.tokens import consume, fail, previous_end, token_start, token_text
from tilewright.dialects.upstream.base.enums import BareEnumAttr, parse_keyword

TYPE_PARAMETER = define_code(
    "nvgpu-type-parameter",
    "A parameter of an nvgpu type is unknown, repeated, missing or of the wrong kind.",
    "Types are written `!nvgpu.NAME<parameter = value, ...>`, with every parameter that has no "
    "usual value.",
)


class NvgpuType(ParametrizedAttribute, TypeAttribute):
    """A type with named parameters, in any order: ``!nvgpu.NAME<parameter = value, ...>``.

    ``READERS`` gives the parser of each parameter, ``OPTIONAL`` those that may be left out and the
    value which that means.
    """

    READERS: ClassVar[Mapping[str, Callable[[AttrParser], Attribute]]] = {}
    OPTIONAL: ClassVar[Mapping[str, Attribute]] = {}

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        if not cls.READERS:
            return ()
        found: dict[str, Attribute] = {}
        start = token_start(parser)

        def parameter() -> None:
            name = token_text(parser)
            if name not in cls.READERS or name in found:
                why = (
                    "is written twice" if name in found else f"is not a parameter of '!{cls.name}'"
                )
                known = ", ".join(cls.READERS)
                fail(
                    parser,
                    f"'{name}' {why}",
                    code=TYPE_PARAMETER,
                    help=f"its parameters are: {known}",
                )
            consume(parser)
            parser.parse_punctuation("=")
            found[name] = cls.READERS[name](parser)

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parameter)
        for name in cls.READERS:
            if name not in found and name not in cls.OPTIONAL:
                fail(
                    parser,
                    f"'!{cls.name}' needs the parameter '{name}'",
                    start,
                    previous_end(parser),
                    code=TYPE_PARAMETER,
                )
        return [found[name] if name in found else cls.OPTIONAL[name] for name in cls.READERS]

    def print_parameters(self, printer: Printer) -> None:
        if not self.READERS:
            return
        shown = [
            (name, value)
            for name, value in zip(self.READERS, self.parameters, strict=True)
            if self.OPTIONAL.get(name) != value
        ]
        with printer.in_angle_brackets():
            printer.print_list(shown, lambda item: _print_parameter(printer, *item))


def _print_parameter(printer: Printer, name: str, value: Attribute) -> None:
    printer.print_string(f"{name} = ")
    if isinstance(value, BareEnumAttr):
        printer.print_string(value.keyword)
    elif is_int(value):
        printer.print_string(str(value.data))
    else:
        printer.print_attribute(value)


def _type_reader(cls: type[Attribute], what: str) -> Callable[[AttrParser], Attribute]:
    def read(parser: AttrParser) -> Attribute:
        start = token_start(parser)
        found = parser.parse_type()
        if not isinstance(found, cls):
            fail(
                parser,
                f"expected {what}, got '{found}'",
                start,
                previous_end(parser),
                code=TYPE_PARAMETER,
            )
        return found

    return read


def _enum_reader(cls: type[BareEnumAttr]) -> Callable[[AttrParser], Attribute]:
    what = cls.name.removeprefix("nvgpu.")

    def read(parser: AttrParser) -> Attribute:
        member: StrEnum = parse_keyword(parser, cls.enum_type, what)
        make: Any = cls
        return make(member)

    return read


def _read_count(parser: AttrParser) -> Attribute:
    return IntAttr(parser.parse_integer(allow_boolean=False, allow_negative=False))


_read_memref = _type_reader(MemRefType, "a memref")


@irdl_attr_definition
class DeviceAsyncTokenType(NvgpuType):
    """Links asynchronous copies to their group, and groups to those who wait for them."""

    name = "nvgpu.device.async.token"


@irdl_attr_definition
class MBarrierGroupType(NvgpuType):
    """``num_barriers`` barriers of 8 bytes each, one behind the other, in ``memorySpace``."""

    name = "nvgpu.mbarrier.group"
    memorySpace: Attribute
    num_barriers: IntAttr

    READERS: ClassVar = {
        "memorySpace": lambda parser: parser.parse_attribute(),
        "num_barriers": _read_count,
    }
    OPTIONAL: ClassVar = {"num_barriers": IntAttr(1)}

    def __init__(self, memorySpace: Attribute, num_barriers: int = 1):
        super().__init__(memorySpace, IntAttr(num_barriers))

    @property
    def count(self) -> int:
        """How many barriers there are."""
        return self.num_barriers.data

    def verify(self) -> None:
        if not 1 <= self.count < 2**32:
            raise VerifyException(
                f"num_barriers must be at least 1 and fit 32 bits, got {self.count}"
            )


@irdl_attr_definition
class MBarrierBarrierType(NvgpuType):
    """The name of the group in older texts; reading it makes a group."""

    name = "nvgpu.mbarrier.barrier"
    memorySpace: Attribute
    num_barriers: IntAttr

    READERS: ClassVar = MBarrierGroupType.READERS
    OPTIONAL: ClassVar = MBarrierGroupType.OPTIONAL

    @classmethod
    def new(cls, params: Sequence[Attribute]) -> Any:
        return MBarrierGroupType.new(params)


@irdl_attr_definition
class MBarrierTokenType(NvgpuType):
    """The state of a barrier at an arrival: which phase that arrival belongs to."""

    name = "nvgpu.mbarrier.token"


@irdl_attr_definition
class TensorMapDescriptorType(NvgpuType):
    """How boxes of a global tensor are copied; ``tensor`` is the box in shared memory.

    A value is the address of an object of 128 bytes.
    """

    name = "nvgpu.tensormap.descriptor"
    tensor: MemRefType
    swizzle: TensorMapSwizzleKindAttr
    l2promo: TensorMapL2PromoKindAttr
    oob: TensorMapOOBKindAttr
    interleave: TensorMapInterleaveKindAttr

    READERS: ClassVar = {
        "tensor": _read_memref,
        "swizzle": _enum_reader(TensorMapSwizzleKindAttr),
        "l2promo": _enum_reader(TensorMapL2PromoKindAttr),
        "oob": _enum_reader(TensorMapOOBKindAttr),
        "interleave": _enum_reader(TensorMapInterleaveKindAttr),
    }

    def __init__(
        self,
        tensor: MemRefType,
        swizzle: str = "none",
        l2promo: str = "none",
        oob: str = "zero",
        interleave: str = "none",
    ):
        super().__init__(
            tensor,
            TensorMapSwizzleKindAttr.of(swizzle),
            TensorMapL2PromoKindAttr.of(l2promo),
            TensorMapOOBKindAttr.of(oob),
            TensorMapInterleaveKindAttr.of(interleave),
        )


@irdl_attr_definition
class WarpgroupAccumulatorType(NvgpuType):
    """A matrix spread over the registers of a warpgroup: ``fragmented`` is the whole matrix."""

    name = "nvgpu.warpgroup.accumulator"
    fragmented: VectorType

    READERS: ClassVar = {"fragmented": _type_reader(VectorType, "a vector")}


@irdl_attr_definition
class WarpgroupMatrixDescriptorType(NvgpuType):
    """A matrix in shared memory as an operand of warpgroup products, in 64 bits."""

    name = "nvgpu.warpgroup.descriptor"
    tensor: MemRefType

    READERS: ClassVar = {"tensor": _read_memref}


DEVICE_ASYNC_TOKEN = DeviceAsyncTokenType()
MBARRIER_TOKEN = MBarrierTokenType()

TYPES = (
    DeviceAsyncTokenType,
    MBarrierGroupType,
    MBarrierBarrierType,
    MBarrierTokenType,
    TensorMapDescriptorType,
    WarpgroupAccumulatorType,
    WarpgroupMatrixDescriptorType,
)
