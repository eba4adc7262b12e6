"""What attributes of enumerations have in common: their values are written as keywords."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from xdsl.ir import Attribute
from xdsl.printer import Printer
from xdsl.utils.str_enum import StrEnum


class KeywordAttr(Attribute):
    """An attribute of one of an enumeration's values; goes before xDSL's ``EnumAttribute``."""

    enum_type: ClassVar[type[StrEnum]]

    if TYPE_CHECKING:
        data: Any

        def __init__(self, data: StrEnum) -> None: ...

    @classmethod
    def of(cls, keyword: str) -> Self:
        """The attribute of a keyword."""
        return cls(cls.enum_type(keyword))

    @property
    def keyword(self) -> str:
        """The value as it is written."""
        return self.data.value

    @property
    def number(self) -> int:
        """The position of the value in its enumeration."""
        return list(self.enum_type).index(self.data)


class AngledAttr(KeywordAttr):
    """One that is written ``<value>``."""

    def print_parameter(self, printer: Printer) -> None:
        """Write the value in angle brackets."""
        printer.print_string(f"<{self.keyword}>")
