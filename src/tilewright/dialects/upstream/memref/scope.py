"""The custom form of ``memref.alloca_scope``, whose end may be left out."""

from __future__ import annotations

from typing import Self

from xdsl.dialects import memref
from xdsl.ir import Block
from xdsl.parser import Parser
from xdsl.printer import Printer

from tilewright.dialects.upstream.scf import arrow_types


class AllocaScopeOp(memref.AllocaScopeOp):
    """``memref.alloca_scope [-> (types)] { ... }``"""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """``(-> (types))? region attr-dict``; a terminator without results is made where none is
        written."""
        types = arrow_types(parser)
        body = parser.parse_region()
        if not body.blocks:
            body.add_block(Block())
        last = body.blocks[-1].last_op
        if not isinstance(last, memref.AllocaScopeReturnOp) and not types:
            body.blocks[-1].add_op(memref.AllocaScopeReturnOp.create())
        attributes = parser.parse_optional_attr_dict()
        return cls.create(result_types=types, regions=[body], attributes=attributes)

    def print(self, printer: Printer) -> None:
        """What ``parse`` reads."""
        if self.res:
            printer.print_string(" -> ")
            with printer.in_parens():
                printer.print_list(self.res.types, printer.print_attribute)
        printer.print_string(" ")
        printer.print_region(self.scope, print_block_terminators=bool(self.res))
        printer.print_op_attributes(self.attributes)
