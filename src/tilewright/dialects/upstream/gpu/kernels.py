"""Kernels, the modules that hold them, and their launches: operations of ``gpu``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, BlockArgument
from xdsl.irdl import (
    IRDLOperation,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    IsTerminator,
    NoTerminator,
    SymbolOpInterface,
    SymbolTable,
)

from tilewright.dialects.declare import Report, attr, examples
from tilewright.dialects.narrowing import is_array
from tilewright.dialects.syntax.directives import TypedValues, format_symbol
from tilewright.dialects.syntax.engine import (
    Directive,
    ParseState,
    parse_results,
    print_argument_location,
)
from tilewright.dialects.syntax.tokens import previous_end, token_start, token_text
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base import codes
from tilewright.dialects.upstream.base.constraints import ANY_VALUE, ARRAY, FUNCTION_TYPE, STRING
from tilewright.dialects.upstream.base.directives import ATTRIBUTES
from tilewright.dialects.upstream.base.operations import UpstreamOp, upstream_op

KERNEL = "gpu.kernel"
WORKGROUP_COUNT = "workgroup_attributions"
#: The attributes that fix the size of a cluster, each at a level of its own.
CLUSTER_SIZES = ("gpu.known_cluster_size", "known_cluster_size", "nvvm.cluster_dim")
_ARGUMENT_ATTRIBUTES = ("arg_attrs", "workgroup_attrib_attrs", "private_attrib_attrs")


class Symbol(Directive):
    """The symbol that the operation defines: ``@name``; a discardable attribute of functions."""

    def __init__(self, is_property: bool):
        self.is_property = is_property

    def parse(self, parser: Parser, state: ParseState) -> None:
        start = token_start(parser)
        into = state.properties if self.is_property else state.attributes
        into["sym_name"] = parser.parse_symbol_name()
        state.mark(("attr", "sym_name", 0), start, previous_end(parser))

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        name = op.get_attr_or_prop("sym_name")
        assert isinstance(name, StringAttr)
        printer.print_string(f" {format_symbol(name.data)}")

    def grammar(self) -> str:
        return "@NAME"


class ModuleTail(Directive):
    """``[targets] attributes {...} { ... }``"""

    def parse(self, parser: Parser, state: ParseState) -> None:
        if token_text(parser) == "[":
            state.read(parser, "targets", parser.parse_attribute)
        if parser.parse_optional_keyword("attributes"):
            ATTRIBUTES.parse(parser, state)
        start = token_start(parser)
        region = parser.parse_region()
        if not region.blocks:
            region.add_block(Block())
        state.mark(("region", "", 0), start, previous_end(parser))
        state.regions.append(region)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        if (targets := op.properties.get("targets")) is not None:
            printer.print_string(" ")
            printer.print_attribute(targets)
        printer.print_op_attributes(op.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(op.regions[0], print_empty_block=False)

    def grammar(self) -> str:
        return "[TARGETS] [`attributes` attr-dict] REGION"


@upstream_op("gpu", "module")
class ModuleOp(UpstreamOp):
    """Kernels, functions and memory that are compiled together, for ``targets``."""

    sym_name = prop_def(STRING)
    targets = opt_prop_def(ARRAY)
    body = region_def()

    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface(), SymbolTable())
    HIDDEN: ClassVar = frozenset({"sym_name", "targets"})
    SYNTAX: ClassVar = (Symbol(is_property=True), ModuleTail())
    EXAMPLES: ClassVar = examples(
        """
        module attributes {gpu.container_module} {
          gpu.module @kernels {
            gpu.func @nothing() kernel {
              gpu.return
            }
          }
        }
        """
    )

    def check(self, report: Report) -> None:
        seen: set[str] = set()
        for op in self.body.block.ops:
            name = op.get_attr_or_prop("sym_name")
            if isinstance(name, StringAttr):
                if name.data in seen:
                    report.error(
                        codes.DUPLICATE_SYMBOL,
                        f"redefinition of symbol '{format_symbol(name.data)}' in the module",
                        attr("sym_name"),
                        at=op,
                    )
                seen.add(name.data)


@upstream_op("gpu", "module_end")
class ModuleEndOp(UpstreamOp):
    """Ends a module, in generic forms of LLVM 19 and before."""

    SYNTAX: ClassVar = (ATTRIBUTES,)
    EXAMPLES: ClassVar = examples(
        """
        module {
          gpu.module @empty {
            gpu.module_end
          }
        }
        """
    )


class FunctionTail(Directive):
    """``(%a: T, ...) [-> (T, ...)] [workgroup(...)] [private(...)] [kernel] [attributes] {...}``"""

    def parse(self, parser: Parser, state: ParseState) -> None:
        arguments = self._arguments(parser, state, "arg_attrs")
        inputs = [argument.type for argument in arguments]
        results: list[Attribute] = []
        if parser.parse_optional_punctuation("->"):
            results = parse_results(parser, state)
        state.properties["function_type"] = FunctionType.from_lists(inputs, results)
        if parser.parse_optional_keyword("workgroup"):
            found = self._arguments(parser, state, "workgroup_attrib_attrs")
            arguments += found
            state.attributes[WORKGROUP_COUNT] = IntegerAttr(len(found), IntegerType(64))
        if parser.parse_optional_keyword("private"):
            arguments += self._arguments(parser, state, "private_attrib_attrs")
        if parser.parse_optional_keyword("kernel"):
            state.attributes[KERNEL] = UnitAttr()
        if parser.parse_optional_keyword("attributes"):
            ATTRIBUTES.parse(parser, state)
        start = token_start(parser)
        region = parser.parse_region(arguments)
        if not region.blocks:
            region.add_block(Block(arg_types=[argument.type for argument in arguments]))
        state.mark(("region", "", 0), start, previous_end(parser))
        state.regions.append(region)

    def _arguments(
        self, parser: Parser, state: ParseState, attributes: str
    ) -> list[Parser.Argument]:
        """Named arguments with their types; what is written in braces behind becomes a property."""
        arguments: list[Parser.Argument] = []
        dictionaries: list[DictionaryAttr] = []

        def argument() -> None:
            unresolved = parser.parse_argument(expect_type=False)
            parser.parse_punctuation(":")
            start = token_start(parser)
            arguments.append(unresolved.resolve(state.type_syntax.parse(parser)))
            state.mark(("type", attributes, len(arguments) - 1), start, previous_end(parser))
            dictionaries.append(DictionaryAttr(parser.parse_optional_attr_dict()))
            arguments[-1].location = parser.parse_optional_location()

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
        if any(dictionary.data for dictionary in dictionaries):
            state.properties[attributes] = ArrayAttr(dictionaries)
        return arguments

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        assert isinstance(op, FuncOp)
        self._print_arguments(printer, op, op.arguments, "arg_attrs")
        if results := op.signature.outputs.data:
            printer.print_string(" -> (" + ", ".join(map(format_type, results)) + ")")
        if op.workgroup:
            printer.print_string(" workgroup")
            self._print_arguments(printer, op, op.workgroup, "workgroup_attrib_attrs")
        if op.private:
            printer.print_string(" private")
            self._print_arguments(printer, op, op.private, "private_attrib_attrs")
        printer.print_string(" kernel" if op.is_kernel else "")
        hidden = {"sym_name", KERNEL, WORKGROUP_COUNT}
        rest = {name: value for name, value in op.attributes.items() if name not in hidden}
        printer.print_op_attributes(rest, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(op.body, print_entry_block_args=False, print_empty_block=False)

    def _print_arguments(
        self, printer: Printer, op: FuncOp, arguments: Sequence[BlockArgument], attributes: str
    ) -> None:
        found = op.properties.get(attributes)
        dictionaries = found.data if is_array(found) else ()
        printer.print_string("(")
        for index, argument in enumerate(arguments):
            printer.print_string(", " if index else "")
            printer.print_ssa_value(argument)
            # In front of the type of an attribution upstream has a space, and reads it without.
            printer.print_string(f": {format_type(argument.type)}")
            entries = dictionaries[index] if index < len(dictionaries) else None
            if isinstance(entries, DictionaryAttr):
                printer.print_op_attributes(entries.data)
            print_argument_location(printer, argument)
        printer.print_string(")")

    def grammar(self) -> str:
        arguments = "`(` [%a `:` TYPE {`,` %a `:` TYPE}] `)`"
        return (
            f"{arguments} [`->` TYPES] [`workgroup` {arguments}] [`private` {arguments}] "
            "[`kernel`] [`attributes` attr-dict] REGION"
        )


@upstream_op("gpu", "func")
class FuncOp(UpstreamOp):
    """A kernel, or a function that kernels call.

    ``workgroup`` arguments are memory that the block has, ``private`` ones memory of the thread.
    """

    function_type = prop_def(FUNCTION_TYPE)
    arg_attrs = opt_prop_def(ARRAY)
    workgroup_attrib_attrs = opt_prop_def(ARRAY)
    private_attrib_attrs = opt_prop_def(ARRAY)
    body = region_def()

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())
    CONTROL_FLOW_BODIES: ClassVar = frozenset({0})
    HIDDEN: ClassVar = frozenset({"function_type", *_ARGUMENT_ATTRIBUTES})
    SYNTAX: ClassVar = (Symbol(is_property=False), FunctionTail())
    EXAMPLES: ClassVar = examples(
        """
        module {
          gpu.module @kernels {
            gpu.func @scale(%a: memref<?xf32>) workgroup(%w: memref<32xf32, 3>) kernel attributes {gpu.known_block_size = array<i32: 128, 1, 1>} {
              gpu.return
            }
          }
        }
        """
    )

    @property
    def symbol(self) -> str:
        """The name of the function, without ``@``."""
        name = self.attributes["sym_name"]
        assert isinstance(name, StringAttr)
        return name.data

    @property
    def signature(self) -> FunctionType:
        """The types of parameters and results."""
        found = self.properties["function_type"]
        assert isinstance(found, FunctionType)
        return found

    @property
    def is_kernel(self) -> bool:
        """Whether it can be launched."""
        return KERNEL in self.attributes

    @property
    def arguments(self) -> Sequence[BlockArgument]:
        """What callers pass."""
        return self.body.blocks[0].args[: len(self.signature.inputs)]

    @property
    def workgroup(self) -> Sequence[BlockArgument]:
        """The memory of each block."""
        first = len(self.signature.inputs)
        return self.body.blocks[0].args[first : first + self._workgroup_count]

    @property
    def private(self) -> Sequence[BlockArgument]:
        """The memory of each thread."""
        return self.body.blocks[0].args[len(self.signature.inputs) + self._workgroup_count :]

    @property
    def _workgroup_count(self) -> int:
        found = self.attributes.get(WORKGROUP_COUNT)
        return found.value.data if isinstance(found, IntegerAttr) else 0

    def check(self, report: Report) -> None:
        if not isinstance(self.attributes.get("sym_name"), StringAttr):
            report.error(codes.KERNEL, "expected a string in 'sym_name'")
        parent = self.parent_op()
        if parent is not None and not isinstance(parent, ModuleOp):
            report.error(
                codes.KERNEL,
                f"expected 'gpu.func' inside 'gpu.module', got '{parent.name}' around it",
            )
        if self.is_kernel and self.signature.outputs.data:
            report.error(codes.KERNEL, "expected a kernel to return nothing", attr("function_type"))
        given = [argument.type for argument in self.arguments]
        if given != list(self.signature.inputs.data):
            report.error(
                codes.KERNEL,
                f"expected arguments of the types of {format_type(self.signature)}, got "
                f"({', '.join(map(format_type, given))})",
                ("region", "", 0),
            )


@upstream_op("gpu", "return")
class ReturnOp(UpstreamOp):
    """Ends a kernel, or a function with its results."""

    args = var_operand_def(ANY_VALUE)

    traits = traits_def(IsTerminator())
    SYNTAX: ClassVar = (ATTRIBUTES, TypedValues("args"))
    EXAMPLES: ClassVar = examples(
        """
        module {
          gpu.module @functions {
            gpu.func @same(%x: f32) -> f32 {
              gpu.return %x : f32
            }
          }
        }
        """
    )

    def check(self, report: Report) -> None:
        parent = self.parent_op()
        if not isinstance(parent, FuncOp):
            if parent is not None:
                report.error(
                    codes.KERNEL,
                    f"expected 'gpu.return' in 'gpu.func', got '{parent.name}' around it",
                )
            return
        given = [value.type for value in self.args]
        if given != list(parent.signature.outputs.data):
            wanted = ", ".join(map(format_type, parent.signature.outputs.data))
            report.error(
                codes.KERNEL,
                f"expected to return ({wanted}), got ({', '.join(map(format_type, given))})",
            )
