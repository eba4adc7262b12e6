"""Operations of test builds and previews: read and printed, never written to bytecode."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.builtin import i32 as builtin_i32
from xdsl.irdl import (
    AttrSizedOperandSegments,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer

from tilewright.dialects.cuda_tile import constraints as K
from tilewright.dialects.cuda_tile.base import TileOp, tile_op
from tilewright.dialects.declare import int_property
from tilewright.dialects.syntax.directives import ATTR_DICT, Flag
from tilewright.dialects.syntax.engine import Directive, ParseState
from tilewright.dialects.versions import V13_5, V250_0, V250_1

GROUP = "testing"


class OptionalInt(Directive):
    """``[new_param = N]``, printed when it is not the default."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        value = 42
        if parser.parse_optional_keyword("new_param"):
            parser.parse_punctuation("=")
            value = parser.parse_integer(allow_boolean=False)
        state.properties["new_param"] = IntegerAttr(value, builtin_i32)

    def print(self, printer: Printer, op: TileOp) -> None:
        value = int_property(op, "new_param")
        if value != 42:
            printer.print_string(f" new_param = {value}")

    def grammar(self) -> str:
        return "[`new_param` `=` INT]"


@tile_op("testing$bytecode_test_new_attribute", opcode=0x3000, since=V250_0, group=GROUP)
class BytecodeNewAttributeOp(TileOp):
    """Exercises attributes that came in a later version than their operation."""

    new_flag = opt_prop_def(K.UNIT)
    new_param = prop_def(K.INT32, default_value=IntegerAttr(42, builtin_i32))
    SINCE_OF: ClassVar = {"new_flag": V250_1, "new_param": V250_1}
    SYNTAX: ClassVar = (Flag("new_flag"), OptionalInt(), ATTR_DICT)


@tile_op("testing$bytecode_test_evolution", opcode=0x3002, since=V250_0, group=GROUP)
class BytecodeEvolutionOp(TileOp):
    """Exercises operands, results and attributes of later versions; generic form only."""

    inputs = var_operand_def(K.ANY_TILE)
    optional_token = opt_operand_def(K.TOKEN)
    new_attr = opt_prop_def(K.INT32)
    result_token = result_def(K.TOKEN)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    SINCE_OF: ClassVar = {"optional_token": V250_1, "new_attr": V250_1}


@tile_op("preview$call", opcode=0x4002, since=V13_5, group="misc")
class PreviewCallOp(TileOp):
    """Calls a function of a SIMT library (developer preview); generic form only."""

    operands_ = var_operand_def(K.ANY_VALUE)
    callee = prop_def(K.STRING)
    const_args = prop_def(K.ARRAY)
    arg_attrs = opt_prop_def(K.ARRAY)
    res_attrs = opt_prop_def(K.ARRAY)
    results_ = var_result_def(K.ANY_VALUE)


@tile_op("preview$extern_impl", opcode=None, since=V13_5, group="misc")
class PreviewExternImplOp(TileOp):
    """Ties an external function to a SIMT library (developer preview); generic form only."""
