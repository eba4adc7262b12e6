"""Control flow: conditionals, loops, their terminators, and assertions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, Operation, Region
from xdsl.irdl import (
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure, RecursiveMemoryEffect

from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile import constraints as K
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.base import TileOp, tile_op
from tilewright.dialects.cuda_tile.directives import syntax
from tilewright.dialects.cuda_tile.ops.regions import (
    IterValues,
    parse_body,
    parse_iter_values,
    parse_paren_types,
    parse_type_list,
    print_body,
    print_iter_values,
    type_list,
)
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.dialects.declare import Related, Report, examples, operand, same_type, type_of
from tilewright.dialects.syntax.directives import (
    ATTR_DICT,
    StringField,
    TypedValues,
    parse_operand,
    parse_type_into,
)
from tilewright.dialects.syntax.engine import Directive, ParseState
from tilewright.dialects.syntax.tokens import fail, token_text
from tilewright.dialects.versions import V13_2

GROUP = "control_flow"

TERMINATOR_PLACE = define_code(
    "terminator-place",
    "A terminator is in the wrong place.",
    "break ends a loop; continue a for or loop; yield an if, reduce or scan; return an entry, or "
    "an if or loop in it, but not inside a for. Only ifs may enclose a terminator between it and "
    "the operation that it ends.",
    wrong="""
    for %i in (%n to %n, step %n) : tile<i32> {
      break
    }
    """,
    right="""
    loop {
      break
    }
    """,
)
CARRIED_TYPES = define_code(
    "carried-types",
    "The types of values passed through a region do not match.",
    "A for has equally many initial values, body arguments, continue operands and results of "
    "equal types. The operands of a loop's continue become its body arguments, those of its break "
    "its results.",
)
VIEW_CARRIED = define_code(
    "view-carried",
    "Views cannot be carried by loops nor be results of if.",
    "Make the view inside the region from its pointer, shape and strides.",
    wrong="""
    %v = make_tensor_view %pf32, shape = [8], strides = [1] : tensor_view<8xf32, strides=[1]>
    %r = loop : tensor_view<8xf32, strides=[1]> {
      break %v : tensor_view<8xf32, strides=[1]>
    }
    """,
    right="""
    %p = loop : tile<ptr<f32>> {
      break %pf32 : tile<ptr<f32>>
    }
    %v = make_tensor_view %p, shape = [8], strides = [1] : tensor_view<8xf32, strides=[1]>
    """,
)
ELSE_MISSING = define_code("else-missing", "An if with results needs an else branch.")
BODY_ARGUMENTS = define_code("body-arguments", "The body of an operation has the wrong arguments.")

_VIEW_KINDS = (
    (T.TensorViewType, "is a tensor_view, which is not supported"),
    (T.TileViewType, "is a tile view, which is not supported"),
)


def check_no_views(report: Report, types: Sequence[Attribute], what: str, group: str) -> None:
    """Report values of view types, which cannot go from one round of a loop to the next nor out of
    a branch; ``what`` names them in the message."""
    for index, ty in enumerate(types):
        for cls, message in _VIEW_KINDS:
            if isinstance(ty, cls):
                report.error(
                    VIEW_CARRIED,
                    f"{what} {index} {message}: '{format_type(ty)}'",
                    type_of(group, index),
                )


def show_types(types: Sequence[Attribute]) -> str:
    """Types for a message, in parentheses."""
    return "(" + ", ".join(map(format_type, types)) + ")"


def enclosing(op: Operation, *through: type[TileOp]) -> Operation | None:
    """The nearest ancestor that is none of ``through``."""
    parent = op.parent_op()
    while isinstance(parent, through):
        parent = parent.parent_op()
    return parent


def check_parent(op: TileOp, report: Report, allowed: tuple[type[TileOp], ...]) -> bool:
    """Whether a terminator stands right inside one of these operations; reported if not."""
    parent = op.parent_op()
    if isinstance(parent, allowed):
        return True
    names = ", ".join(cls.name for cls in allowed)
    found = f", found '{parent.name}'" if parent is not None else ""
    report.error(TERMINATOR_PLACE, f"expects parent op to be one of '{names}'{found}")
    return False


@tile_op("assert", opcode=0x05, group=GROUP)
class AssertOp(TileOp):
    """Reports each false element of the condition with the message; the kernel may go on."""

    condition = operand_def(K.I1_TILE)
    message = prop_def(K.STRING)
    SYNTAX: ClassVar = syntax("$condition,", StringField("message"), "attr-dict : type($condition)")
    EXAMPLES: ClassVar = examples(
        """
        %zero = constant <i32: 0> : tile<i32>
        %c = cmpi greater_than %n, %zero, signed : tile<i32> -> tile<i1>
        assert %c, "n must be positive" : tile<i1>
        """,
    )


@tile_op("break", opcode=0x0A, group=GROUP)
class BreakOp(TileOp):
    """Ends the innermost loop; the operands become its results."""

    operands_ = var_operand_def(K.CUDA_TILE_VALUE)
    traits = traits_def(IsTerminator())
    SYNTAX: ClassVar = (ATTR_DICT, TypedValues("operands_"))
    EXAMPLES: ClassVar = examples(
        """
        %zero = constant <i32: 0> : tile<i32>
        %one = constant <i32: 1> : tile<i32>
        %last = loop iter_values(%i = %zero) : tile<i32> -> tile<i32> {
          %c = cmpi equal %i, %n, signed : tile<i32> -> tile<i1>
          if %c {
            break %i : tile<i32>
          }
          %next = addi %i, %one : tile<i32>
          continue %next : tile<i32>
        }
        """,
    )

    def check(self, report: Report) -> None:
        if not check_parent(self, report, (IfOp, LoopOp)):
            return
        loop = enclosing(self, IfOp)
        if not isinstance(loop, LoopOp):
            report.error(
                TERMINATOR_PLACE,
                "can only be nested within a ancestor chain of 'cuda_tile.loop', 'cuda_tile.if' "
                "operations",
            )
            return
        given, wanted = [v.type for v in self.operands], [r.type for r in loop.results]
        if given != wanted:
            report.error(
                CARRIED_TYPES,
                f"operand types must correspond to the parent loop result types: expected "
                f"{show_types(wanted)}, got {show_types(given)}",
                operand("operands_"),
                notes=(Related("the loop", loop),),
            )


@tile_op("continue", opcode=0x11, group=GROUP)
class ContinueOp(TileOp):
    """Starts the next iteration of the innermost loop with the operands as carried values."""

    operands_ = var_operand_def(K.CUDA_TILE_VALUE)
    traits = traits_def(IsTerminator())
    SYNTAX: ClassVar = (ATTR_DICT, TypedValues("operands_"))
    EXAMPLES: ClassVar = examples(
        """
        %zero = constant <i32: 0> : tile<i32>
        %one = constant <i32: 1> : tile<i32>
        %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%s = %zero) -> (tile<i32>) {
          %odd = trunci %i : tile<i32> -> tile<i1>
          if %odd {
            continue %s : tile<i32>
          }
          %t = addi %s, %i : tile<i32>
          continue %t : tile<i32>
        }
        """,
    )

    def check(self, report: Report) -> None:
        if not check_parent(self, report, (ForOp, IfOp, LoopOp)):
            return
        loop = enclosing(self, IfOp)
        if not isinstance(loop, ForOp | LoopOp):
            report.error(
                TERMINATOR_PLACE,
                "can only be nested within a ancestor chain of 'cuda_tile.for', 'cuda_tile.loop', "
                "'cuda_tile.if' operations",
            )
            return
        given = [v.type for v in self.operands]
        if isinstance(loop, ForOp):
            wanted, what = [r.type for r in loop.results], "return types"
        else:
            wanted, what = [v.type for v in loop.initValues], "iter_values"
        if given != wanted:
            word = loop.mnemonic()
            report.error(
                CARRIED_TYPES,
                f"`{word}` is missing a valid terminator. `continue` op should have operand types "
                f"that match the parent loop {what}: {show_types(wanted)}, but found: "
                f"{show_types(given)}",
                operand("operands_"),
                notes=(Related("the loop", loop),),
            )


@tile_op("return", opcode=0x5C, group=GROUP)
class ReturnOp(TileOp):
    """Ends the tile block."""

    operands_ = var_operand_def(K.ANY_VALUE)
    traits = traits_def(IsTerminator())
    SYNTAX: ClassVar = (ATTR_DICT, TypedValues("operands_"))
    EXAMPLES: ClassVar = examples(
        """
        %x, %y, %z = get_tile_block_id : tile<i32>
        %outside = cmpi greater_than_or_equal %x, %n, signed : tile<i32> -> tile<i1>
        if %outside {
          return
        }
        """,
    )

    def check(self, report: Report) -> None:
        from tilewright.dialects.cuda_tile.ops.module import FUNCTIONS

        if not check_parent(self, report, (*FUNCTIONS, IfOp, LoopOp)):
            return
        function = enclosing(self, IfOp, LoopOp)
        if not isinstance(function, FUNCTIONS):
            report.error(
                TERMINATOR_PLACE,
                "must be used within a cuda_tile.entry, cuda_tile.if, or cuda_tile.loop operation, "
                "and never under a cuda_tile.for",
            )
            return
        wanted = list(function.function_type_value.outputs.data)
        given = [v.type for v in self.operands]
        if given != wanted:
            report.error(
                CARRIED_TYPES,
                f"expected the operand types of return to be the results of the function: "
                f"{show_types(wanted)}, got {show_types(given)}",
                operand("operands_"),
            )


@tile_op("yield", opcode=0x6D, group=GROUP)
class YieldOp(TileOp):
    """Ends a region of if, reduce or scan; the operands become its results."""

    operands_ = var_operand_def(K.CUDA_TILE_VALUE)
    traits = traits_def(IsTerminator(), Pure())
    SYNTAX: ClassVar = (ATTR_DICT, TypedValues("operands_"))
    EXAMPLES: ClassVar = examples(
        """
        %c = constant <i1: true> : tile<i1>
        %r = if %c -> (tile<i32>) {
          yield %n : tile<i32>
        } else {
          %zero = constant <i32: 0> : tile<i32>
          yield %zero : tile<i32>
        }
        """,
    )

    def check(self, report: Report) -> None:
        from tilewright.dialects.cuda_tile.ops.reductions import ReduceOp, ScanOp

        check_parent(self, report, (IfOp, ReduceOp, ScanOp))


class IfSyntax(Directive):
    """``[-> (types)] { ... } [else { ... }]``"""

    def parse(self, parser: Parser, state: ParseState) -> None:
        state.types["results_"] = []
        if parser.parse_optional_punctuation("->"):
            parse_paren_types(parser, state, "results_")
        parse_body(parser, state, (), YieldOp)
        if parser.parse_optional_keyword("else"):
            parse_body(parser, state, (), YieldOp)
        else:
            state.regions.append(Region())

    def print(self, printer: Printer, op: TileOp) -> None:
        if op.results:
            printer.print_string(f" -> ({type_list(op.results)})")
        print_body(printer, op.regions[0], YieldOp)
        if op.regions[1].blocks:
            printer.print_string(" else")
            print_body(printer, op.regions[1], YieldOp)

    def grammar(self) -> str:
        return "[`->` `(` types(%results) `)`] REGION [`else` REGION]"


@tile_op("if", opcode=0x32, group=GROUP)
class IfOp(TileOp):
    """Runs one of two regions; the values that it yields become the results.

    A region may also end in break, continue or return.
    """

    condition = operand_def(K.SCALAR_I1)
    then_region = region_def()
    else_region = region_def()
    results_ = var_result_def(K.ANY_VALUE)
    traits = traits_def(RecursiveMemoryEffect())
    OPTIONAL_BODIES: ClassVar = frozenset({1})
    SYNTAX: ClassVar = syntax("$condition", IfSyntax(), "attr-dict")
    EXAMPLES: ClassVar = examples(
        """
        %limit = constant <i32: 4> : tile<i32>
        %c = cmpi less_than %n, %limit, signed : tile<i32> -> tile<i1>
        %least = if %c -> (tile<i32>) {
          yield %n : tile<i32>
        } else {
          yield %limit : tile<i32>
        }
        """,
        """
        %c = constant <i1: false> : tile<i1>
        if %c {
          %t = print_tko "never" -> token
        }
        """,
    )

    def check(self, report: Report) -> None:
        wanted = [r.type for r in self.results]
        check_no_views(report, wanted, "result", "results_")
        if wanted and not self.else_region.blocks:
            report.error(ELSE_MISSING, "has non-empty return type, must define else branch")
        for name, region in (("then", self.then_region), ("else", self.else_region)):
            last = region.blocks[-1].last_op if region.blocks else None
            if isinstance(last, YieldOp):
                _check_yield(report, name, wanted, last, self)


def _check_yield(
    report: Report, branch: str, wanted: list[Attribute], last: YieldOp, op: IfOp
) -> None:
    given = [v.type for v in last.operands]
    if given == wanted:
        return
    if not wanted:
        message = f"does not return a value, but {branch} branch yields {show_types(given)}"
    elif not given:
        message = (
            f"has return type of {show_types(wanted)} but {branch} branch does not yield anything"
        )
    else:
        message = (
            f"type does not match yield type, {branch} branch yields {show_types(given)} but op "
            f"result type is {show_types(wanted)}"
        )
    report.error(
        CARRIED_TYPES, message, operand("operands_"), at=last, notes=(Related("the if", op),)
    )


class ForSyntax(Directive):
    """``[unsigned] %iv in (%lb to %ub, step %st) : T [iter_values(...) -> (types)] { ... }``"""

    def parse(self, parser: Parser, state: ParseState) -> None:
        if parser.parse_optional_keyword("unsigned"):
            state.properties["unsignedCmp"] = UnitAttr()
        variable = parser.parse_argument(expect_type=False)
        parser.parse_keyword("in")
        parser.parse_punctuation("(")
        parse_operand(parser, state, "lowerBound")
        parser.parse_keyword("to")
        parse_operand(parser, state, "upperBound")
        parser.parse_punctuation(",")
        parser.parse_keyword("step")
        parse_operand(parser, state, "step")
        parser.parse_punctuation(")")
        parser.parse_punctuation(":")
        parse_type_into(parser, state, "lowerBound")
        state.types["resultValues"] = []
        carried = parse_iter_values(parser, state)
        if carried.names:
            parser.parse_punctuation("->")
            parse_paren_types(parser, state, "resultValues")
            _check_type_count(parser, state, carried, "resultValues")
        arguments = [variable.resolve(state.types["lowerBound"][0])]
        arguments += [
            name.resolve(ty)
            for name, ty in zip(carried.names, state.types["resultValues"], strict=True)
        ]
        parse_body(parser, state, arguments, ContinueOp)

    def print(self, printer: Printer, op: TileOp) -> None:
        assert isinstance(op, ForOp)
        if "unsignedCmp" in op.properties:
            printer.print_string(" unsigned")
        printer.print_string(" ")
        printer.print_ssa_value(op.body.blocks[0].args[0])
        for text, value in (
            (" in (", op.lowerBound),
            (" to ", op.upperBound),
            (", step ", op.step),
        ):
            printer.print_string(text)
            printer.print_ssa_value(value)
        printer.print_string(f") : {format_type(op.lowerBound.type)}")
        print_iter_values(printer, op, 1)
        if op.initValues:
            printer.print_string(f" -> ({type_list(op.results)})")
        print_body(printer, op.body, ContinueOp)

    def grammar(self) -> str:
        return (
            "[`unsigned`] %iv `in` `(` %lowerBound `to` %upperBound `,` `step` %step `)` `:` type(%iv) "
            "[`iter_values` `(` %arg `=` %init {`,` ...} `)` `->` `(` types `)`] REGION"
        )


def _check_type_count(parser: Parser, state: ParseState, carried: IterValues, group: str) -> None:
    types = state.types[group]
    if len(types) != len(carried.names):
        fail(
            parser,
            f"mismatch in number of loop-carried values and types: {len(carried.names)} values, "
            f"{len(types)} types",
            state.start,
            code=CARRIED_TYPES,
        )


@tile_op("for", opcode=0x29, group=GROUP)
class ForOp(TileOp):
    """Counts from lowerBound by step while below upperBound, with carried values.

    Compared signed, or unsigned with the flag. Cannot be left early.
    """

    lowerBound = operand_def(K.SCALAR_INT)
    upperBound = operand_def(K.SCALAR_INT)
    step = operand_def(K.SCALAR_INT)
    initValues = var_operand_def(K.ANY_VALUE)
    unsignedCmp = opt_prop_def(K.UNIT)
    body = region_def()
    resultValues = var_result_def(K.ANY_VALUE)
    traits = traits_def(RecursiveMemoryEffect())
    SINCE_OF: ClassVar = {"unsignedCmp": V13_2}
    RELATIONS: ClassVar = (same_type("lowerBound", "upperBound", "step"),)
    RESULT_NAMES: ClassVar = ("for",)
    SYNTAX: ClassVar = (ForSyntax(), ATTR_DICT)
    INFER: ClassVar = {
        "upperBound": "lowerBound",
        "step": "lowerBound",
        "initValues": "resultValues",
    }
    EXAMPLES: ClassVar = examples(
        """
        %zero = constant <i32: 0> : tile<i32>
        %one = constant <i32: 1> : tile<i32>
        %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%s = %zero) -> (tile<i32>) {
          %t = addi %s, %i : tile<i32>
          continue %t : tile<i32>
        }
        """,
        """
        %zero = constant <i32: 0> : tile<i32>
        %two = constant <i32: 2> : tile<i32>
        for unsigned %i in (%zero to %n, step %two) : tile<i32> {
          %t = print_tko "%d ", %i : tile<i32> -> token
        }
        """,
    )
    UNDEFINED: ClassVar = (
        "a step of 0 or less",
        "an induction value that leaves its type before it reaches upperBound",
    )

    def check(self, report: Report) -> None:
        initial = [v.type for v in self.initValues]
        check_no_views(report, initial, "loop-carried value", "initValues")
        results = [r.type for r in self.results]
        if initial != results:
            report.error(
                CARRIED_TYPES,
                f"expected the results to have the types of the initial values: "
                f"{show_types(initial)}, got {show_types(results)}",
                type_of("resultValues"),
            )
        check_arguments(self, report, [self.lowerBound.type, *initial])


def check_arguments(op: TileOp, report: Report, wanted: list[Attribute]) -> None:
    """Report a first block whose arguments have other types than these."""
    region = op.regions[0]
    if not region.blocks:
        return
    given = [a.type for a in region.blocks[0].args]
    if given != wanted:
        report.error(
            BODY_ARGUMENTS,
            f"expected body arguments of types {show_types(wanted)}, got {show_types(given)}",
            ("region", "", 0),
        )


class LoopSyntax(Directive):
    """``[iter_values(...)] [: types [-> types]] { ... }``"""

    def parse(self, parser: Parser, state: ParseState) -> None:
        carried = parse_iter_values(parser, state)
        state.types["initValues"] = []
        state.types["resultValues"] = []
        if parser.parse_optional_punctuation(":"):
            if carried.names:
                parse_type_list(parser, state, "initValues")
                _check_type_count(parser, state, carried, "initValues")
                if parser.parse_optional_punctuation("->"):
                    parse_type_list(parser, state, "resultValues")
            else:
                parse_type_list(parser, state, "resultValues")
        elif carried.names:
            fail(
                parser,
                f"expected ':' and the types of the carried values, found '{token_text(parser)}'",
            )
        arguments = [
            name.resolve(ty)
            for name, ty in zip(carried.names, state.types["initValues"], strict=True)
        ]
        parse_body(parser, state, arguments, ContinueOp)

    def print(self, printer: Printer, op: TileOp) -> None:
        assert isinstance(op, LoopOp)
        print_iter_values(printer, op, 0)
        if op.initValues:
            printer.print_string(f" : {type_list(op.initValues)}")
        if op.results:
            printer.print_string(" -> " if op.initValues else " : ")
            printer.print_string(type_list(op.results))
        print_body(printer, op.body, ContinueOp)

    def grammar(self) -> str:
        return "[`iter_values` `(` %arg `=` %init {`,` ...} `)`] [`:` types [`->` types]] REGION"


@tile_op("loop", opcode=0x41, group=GROUP)
class LoopOp(TileOp):
    """Repeats its body until a break, whose operands become the results."""

    initValues = var_operand_def(K.ANY_VALUE)
    body = region_def()
    resultValues = var_result_def(K.ANY_VALUE)
    traits = traits_def(RecursiveMemoryEffect())
    SYNTAX: ClassVar = (LoopSyntax(), ATTR_DICT)
    EXAMPLES: ClassVar = examples(
        """
        %one = constant <i32: 1> : tile<i32>
        %power = loop iter_values(%p = %one) : tile<i32> -> tile<i32> {
          %stop = cmpi greater_than %p, %n, signed : tile<i32> -> tile<i1>
          if %stop {
            break %p : tile<i32>
          }
          %next = addi %p, %p : tile<i32>
          continue %next : tile<i32>
        }
        """,
    )

    def check(self, report: Report) -> None:
        initial = [v.type for v in self.initValues]
        check_no_views(report, initial, "loop-carried value", "initValues")
        check_no_views(report, [r.type for r in self.results], "result", "resultValues")
        check_arguments(self, report, initial)
