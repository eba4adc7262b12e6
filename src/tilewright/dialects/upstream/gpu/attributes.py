"""Attributes of ``gpu`` that xDSL lacks."""

from __future__ import annotations

from enum import auto

from xdsl.dialects.builtin import AnyFloat
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import Attribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.str_enum import StrEnum

from tilewright.dialects.upstream.base.enums import BareEnumAttr, parse_keyword


class AddressSpace(StrEnum):
    GLOBAL = auto()
    WORKGROUP = auto()
    PRIVATE = auto()


class ShuffleMode(StrEnum):
    XOR = auto()
    UP = auto()
    DOWN = auto()
    IDX = auto()


class AllReduceOperation(StrEnum):
    ADD = auto()
    MUL = auto()
    MINUI = auto()
    MINSI = auto()
    MINNUMF = auto()
    MAXUI = auto()
    MAXSI = auto()
    MAXNUMF = auto()
    AND = auto()
    OR = auto()
    XOR = auto()
    MINIMUMF = auto()
    MAXIMUMF = auto()


@irdl_attr_definition
class AddressSpaceAttr(EnumAttribute[AddressSpace]):
    """A memory space by name: ``#gpu.address_space<workgroup>`` is shared memory."""

    name = "gpu.address_space"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> AddressSpace:
        with parser.in_angle_brackets():
            return AddressSpace(parse_keyword(parser, AddressSpace, "the address space"))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data.value}>")

    @property
    def keyword(self) -> str:
        """How the space is written."""
        return str(self.data)


@irdl_attr_definition
class ShuffleModeAttr(BareEnumAttr, EnumAttribute[ShuffleMode]):
    name = "gpu.shuffle_mode"


@irdl_attr_definition
class AllReduceOperationAttr(BareEnumAttr, EnumAttribute[AllReduceOperation]):
    name = "gpu.all_reduce_op"


#: How numbers are combined, of either kind, of floats only; the rest is for integers.
_BOTH, _FLOATS_ONLY = ("add", "mul"), ("minnumf", "maxnumf", "minimumf", "maximumf")


def combines(kind: str, element: Attribute) -> bool:
    """Whether numbers of a type can be combined so, by the keyword of `gpu` and `vector`."""
    return kind in _BOTH or (kind in _FLOATS_ONLY) == isinstance(element, AnyFloat)


WORKGROUP = AddressSpaceAttr(AddressSpace.WORKGROUP)

ATTRIBUTES = (AddressSpaceAttr, ShuffleModeAttr, AllReduceOperationAttr)
