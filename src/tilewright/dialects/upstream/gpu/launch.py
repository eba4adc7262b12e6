"""Launches of kernels by the host: ``gpu.launch_func``."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IndexType
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_operand_def,
    opt_result_def,
    prop_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer

from tilewright.dialects.declare import examples
from tilewright.dialects.syntax.directives import parse_operand, parse_type_into
from tilewright.dialects.syntax.engine import Directive, ParseState, shown_type, values_of
from tilewright.dialects.upstream.base import constraints as K
from tilewright.dialects.upstream.base.directives import (
    infer_types,
    syntax,
)
from tilewright.dialects.upstream.base.operations import SEGMENTS, UpstreamOp, upstream_op

_ARGUMENTS = "kernelOperands"
_EXTENTS = [f"{what}Size{axis}" for what in ("grid", "block", "cluster") for axis in "XYZ"]


class Callee(Directive):
    """``@module::@kernel``"""

    def parse(self, parser: Parser, state: ParseState) -> None:
        state.read(parser, "kernel", parser.parse_attribute)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        printer.print_string(" ")
        printer.print_attribute(op.properties["kernel"])

    def grammar(self) -> str:
        return "@MODULE::@KERNEL"


class Extents(Directive):
    """``clusters in (%x, %y, %z) blocks in (...) threads in (...) [: TYPE]``"""

    WORDS: ClassVar = {"clusters": "clusterSize", "blocks": "gridSize", "threads": "blockSize"}

    def parse(self, parser: Parser, state: ParseState) -> None:
        for word, prefix in self.WORDS.items():
            if not parser.parse_optional_keyword(word):
                if word != "clusters":
                    parser.parse_keyword(word)
                continue
            parser.parse_keyword("in")
            parser.parse_punctuation("(")
            for index, axis in enumerate("XYZ"):
                if index:
                    parser.parse_punctuation(",")
                parse_operand(parser, state, prefix + axis)
            parser.parse_punctuation(")")
        if parser.parse_optional_punctuation(":"):
            parse_type_into(parser, state, _EXTENTS[0])
            for name in _EXTENTS[1:]:
                state.types[name] = list(state.types[_EXTENTS[0]])

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        for word, prefix in self.WORDS.items():
            if values := [v for axis in "XYZ" for v in values_of(op, prefix + axis)]:
                printer.print_string(f" {word} in ")
                with printer.in_parens():
                    printer.print_list(values, printer.print_ssa_value)
        shown = shown_type(op, values_of(op, _EXTENTS[0])[0])
        printer.print_string("" if shown == "index" else f" : {shown}")

    def grammar(self) -> str:
        extents = "`in` `(` %x `,` %y `,` %z `)`"
        return f"[`clusters` {extents}] `blocks` {extents} `threads` {extents} [`:` TYPE]"


class Arguments(Directive):
    """``args(%a : T, ...)``"""

    def parse(self, parser: Parser, state: ParseState) -> None:
        state.operands[_ARGUMENTS], state.types[_ARGUMENTS] = [], []
        if not parser.parse_optional_keyword("args"):
            return

        def one() -> None:
            parse_operand(parser, state, _ARGUMENTS)
            parser.parse_punctuation(":")
            parse_type_into(parser, state, _ARGUMENTS)

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, one)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        values = values_of(op, _ARGUMENTS)
        for index, value in enumerate(values):
            printer.print_string(", " if index else " args(")
            printer.print_ssa_value(value)
            printer.print_string(f" : {shown_type(op, value)}")
        printer.print_string(")" if values else "")

    def grammar(self) -> str:
        return "[`args` `(` %a `:` TYPE {`,` ...} `)`]"


@upstream_op("gpu", "launch_func")
class LaunchFuncOp(UpstreamOp):
    """Launches a kernel with so many blocks, of so many threads each, and waits for it.

    Asynchronous launches have a generic form only.
    """

    asyncDependencies = var_operand_def(K.GPU_TOKEN)
    gridSizeX = operand_def(K.SIZE)
    gridSizeY = operand_def(K.SIZE)
    gridSizeZ = operand_def(K.SIZE)
    blockSizeX = operand_def(K.SIZE)
    blockSizeY = operand_def(K.SIZE)
    blockSizeZ = operand_def(K.SIZE)
    clusterSizeX = opt_operand_def(K.SIZE)
    clusterSizeY = opt_operand_def(K.SIZE)
    clusterSizeZ = opt_operand_def(K.SIZE)
    dynamicSharedMemorySize = opt_operand_def(K.I32)
    kernelOperands = var_operand_def(K.ANY_VALUE)
    asyncObject = opt_operand_def(K.ANY_VALUE)
    kernel = prop_def(K.SYMBOL)
    asyncToken = opt_result_def(K.GPU_TOKEN)

    irdl_options = (SEGMENTS,)
    HIDDEN: ClassVar = frozenset({"kernel"})
    INFER: ClassVar = {
        **{name: infer_types(IndexType()) for name in _EXTENTS},
        "asyncToken": infer_types(),
    }
    SYNTAX: ClassVar = syntax(
        Callee(),
        Extents(),
        "(dynamic_shared_memory_size $dynamicSharedMemorySize)?",
        Arguments(),
        "attr-dict",
    )
    EXAMPLES: ClassVar = examples(
        """
        module attributes {gpu.container_module} {
          gpu.module @kernels {
            gpu.func @scale(%a: memref<?xf32>) kernel {
              gpu.return
            }
          }
          func.func @host(%n: index, %one: index, %a: memref<?xf32>) {
            gpu.launch_func @kernels::@scale blocks in (%n, %one, %one) threads in (%n, %one, %one) args(%a : memref<?xf32>)
            func.return
          }
        }
        """
    )
