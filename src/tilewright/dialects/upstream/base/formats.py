"""Custom forms for operations of xDSL that have none."""

from __future__ import annotations

from typing import Self

from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.parser import Parser
from xdsl.printer import Printer


def with_format(cls: type[Operation], form: str) -> type[Operation]:
    """A subclass that is read and printed in a declarative format.

    Its instances are instances of the class, so whoever knows that knows them.
    """
    assert issubclass(cls, IRDLOperation)
    program = FormatProgram.from_str(form, cls.get_irdl_definition())

    class Formatted(cls):
        @classmethod
        def parse(cls, parser: Parser) -> Self:
            return program.parse(parser, cls)

        def print(self, printer: Printer) -> None:
            program.print(printer, self)

    Formatted.__name__ = Formatted.__qualname__ = cls.__name__
    Formatted.__doc__ = cls.__doc__
    return Formatted
