"""Modules, kernels and globals."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    StringAttr,
    UnitAttr,
)
from xdsl.dialects.builtin import i64 as builtin_i64
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.irdl import opt_prop_def, prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, NoTerminator, SymbolOpInterface, SymbolTable

from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile import constraints as K
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.attributes import OptimizationHintsAttr
from tilewright.dialects.cuda_tile.base import TileOp, tile_op
from tilewright.dialects.cuda_tile.constants import TileConstantAttr, parse_literal_and_type
from tilewright.dialects.cuda_tile.enums import SymbolVisibility, SymbolVisibilityAttr
from tilewright.dialects.cuda_tile.ops.control_flow import BODY_ARGUMENTS, ReturnOp, show_types
from tilewright.dialects.cuda_tile.ops.regions import (
    parse_body,
    parse_paren_types,
    print_body,
    print_typed_arguments,
)
from tilewright.dialects.cuda_tile.type_syntax import format_type, parse_type
from tilewright.dialects.declare import Report, attr, examples, type_of
from tilewright.dialects.narrowing import is_array
from tilewright.dialects.syntax.directives import ATTR_DICT, format_symbol
from tilewright.dialects.syntax.engine import Directive, ParseState
from tilewright.dialects.syntax.tokens import (
    fail,
    is_value_name,
    previous_end,
    token_start,
    token_text,
)
from tilewright.dialects.versions import V13_3, V13_5, V250_0

GROUP = "core"

ENTRY_RULE = define_code(
    "entry-signature",
    "A kernel takes scalar tiles and returns nothing.",
    "The arguments of an entry are tiles of rank 0: numbers and pointers.",
)
GLOBAL_RULE = define_code("global-rank", "A global holds a tile of rank 1.")
SYMBOL_PLACE = define_code(
    "wrong-parent", "Only entry and global may be directly in a cuda_tile.module."
)
EMPTY_SYMBOL = define_code("empty-symbol", "A symbol needs a name.")
ARGUMENT_ATTRIBUTES = define_code(
    "argument-attributes",
    "Parameter attributes are one dictionary per parameter, with dialect-prefixed names.",
    "Such a name has a dialect's prefix: `cuda_tile.noalias`, not `noalias`.",
)


def parse_symbol(parser: Parser, state: ParseState) -> None:
    """Read ``@name`` into ``sym_name``, and note where it lies."""
    state.read(parser, "sym_name", parser.parse_symbol_name)


def symbol_name(op: Operation) -> str:
    """The name that a symbol defines, without ``@``; empty where it has none."""
    found = op.properties.get("sym_name")
    return found.data if isinstance(found, StringAttr) else ""


class ModuleSyntax(Directive):
    """``@NAME [attributes {...}] { ... }``"""

    def parse(self, parser: Parser, state: ParseState) -> None:
        if token_text(parser).startswith("@"):
            parse_symbol(parser, state)
        else:
            fail(parser, f"expected a symbol name for the module, found '{token_text(parser)}'")
        attributes = parser.parse_optional_attr_dict_with_keyword()
        given: Mapping[str, Attribute] = attributes.data if attributes else {}
        for key, value in given.items():
            target = state.properties if key == "producer" else state.attributes
            target[key] = value
        parse_body(parser, state, None, None)
        if not state.regions[0].blocks:
            state.regions[0].add_block(Block())

    def print(self, printer: Printer, op: TileOp) -> None:
        printer.print_string(" " + format_symbol(symbol_name(op)))
        shown: dict[str, Attribute] = {}
        if (producer := op.properties.get("producer")) is not None:
            shown["producer"] = producer
        printer.print_op_attributes({**shown, **op.attributes}, print_keyword=True)
        print_body(printer, op.regions[0])

    def grammar(self) -> str:
        return "@NAME [`attributes` `{` ... `}`] REGION"


@tile_op("module", opcode=0x4B, group=GROUP)
class ModuleOp(TileOp):
    """Holds kernels and globals, with one name space."""

    sym_name = prop_def(K.STRING)
    producer = opt_prop_def(K.STRING)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolTable(), SymbolOpInterface())
    SINCE_OF: ClassVar = {"producer": V13_3}
    SYNTAX: ClassVar = (ModuleSyntax(),)
    EXAMPLES: ClassVar = examples(
        """
        cuda_tile.module @m attributes {producer = "hand"} {
          global @g <f32: [1.0, 2.0]> : tile<2xf32>
          entry @k() {
            return
          }
        }
        """,
    )

    @property
    def symbol(self) -> str:
        """The name of the module, without ``@``."""
        return symbol_name(self)

    @property
    def block(self) -> Block:
        """The only block, which holds globals and functions."""
        return self.regions[0].blocks[0]

    def _repr_html_(self) -> str:
        """The module as text, for notebooks."""
        # What shows a module is built on what it consists of.
        from tilewright.diagnostics.render_html import preformatted

        text: str = import_module("tilewright.text").print_text(self)
        return preformatted(text.rstrip("\n"))

    @property
    def producer_name(self) -> str | None:
        """What made the module, if it says so (13.2 and later)."""
        found = self.properties.get("producer")
        return found.data if isinstance(found, StringAttr) else None

    @property
    def entries(self) -> tuple[EntryOp, ...]:
        """The kernels, in the order of the module."""
        return tuple(op for op in self.block.ops if isinstance(op, EntryOp))

    @property
    def globals(self) -> tuple[GlobalOp, ...]:
        """The global variables, in the order of the module."""
        return tuple(op for op in self.block.ops if isinstance(op, GlobalOp))

    def entry(self, name: str | None = None) -> EntryOp:
        """The kernel of that name, or the only one. Raises KeyError where there is none or several."""
        found = [e for e in self.entries if name is None or e.symbol == name]
        if len(found) != 1:
            known = ", ".join(e.symbol for e in self.entries) or "none"
            wanted = "one kernel" if name is None else f"a kernel '{name}'"
            raise KeyError(f"expected {wanted} in the module; kernels: {known}")
        return found[0]

    @classmethod
    def make(cls, name: str = "kernels", producer: str | None = None) -> ModuleOp:
        """An empty module."""
        properties: dict[str, Attribute] = {"sym_name": StringAttr(name)}
        if producer is not None:
            properties["producer"] = StringAttr(producer)
        return cls.create(properties=properties, regions=[Region(Block())])

    def check(self, report: Report) -> None:
        allowed = (EntryOp, GlobalOp, FuncOp)
        for op in self.block.ops if self.regions[0].blocks else ():
            if isinstance(op, TileOp) and not isinstance(op, allowed):
                report.error(
                    SYMBOL_PLACE,
                    f"'{op.name}' cannot stand directly in a module: only entry and global can",
                    at=op,
                )


class FunctionSyntax(Directive):
    """``@NAME(args) [-> types] [optimization_hints=<...>] { ... }``"""

    def parse(self, parser: Parser, state: ParseState) -> None:
        parse_symbol(parser, state)
        arguments, types = _parse_signature(parser, state)
        results: list[Attribute] = []
        if parser.parse_optional_punctuation("->"):
            parse_paren_types(parser, state, "function_results")
            results = state.types["function_results"]
        state.properties["function_type"] = FunctionType.from_lists(types, results)
        if parser.parse_optional_keyword("optimization_hints"):
            parser.parse_punctuation("=")
            state.read(parser, "optimization_hints", lambda: OptimizationHintsAttr.read(parser))
        _parse_function_body(parser, state, arguments, types)

    def print(self, printer: Printer, op: TileOp) -> None:
        printer.print_string(" " + format_symbol(symbol_name(op)))
        print_typed_arguments(printer, op.regions[0].blocks[0], op.properties.get("arg_attrs"))
        function_type = op.properties["function_type"]
        assert isinstance(function_type, FunctionType)
        if results := function_type.outputs.data:
            shown = ", ".join(map(format_type, results))
            printer.print_string(f" -> {shown}" if len(results) == 1 else f" -> ({shown})")
        hints = op.properties.get("optimization_hints")
        if isinstance(hints, OptimizationHintsAttr) and hints.value.data:
            printer.print_string(" optimization_hints=")
            hints.print_parameters(printer)
        print_body(printer, op.regions[0])

    def grammar(self) -> str:
        return (
            "@NAME `(` [%arg `:` type {`,` ...}] `)` [`->` types] "
            "[`optimization_hints` `=` HINTS] REGION"
        )


def _parse_signature(
    parser: Parser, state: ParseState
) -> tuple[list[Parser.Argument], list[Attribute]]:
    """The parameter list: all named, or all types only."""
    arguments: list[Parser.Argument] = []
    types: list[Attribute] = []
    dictionaries: list[Attribute] = []

    def parameter() -> None:
        named = is_value_name(parser)
        if types and named != bool(arguments):
            fail(parser, "expected all parameters to be named, or none")
        unresolved = parser.parse_argument(expect_type=False) if named else None
        if named:
            parser.parse_punctuation(":")
        start = token_start(parser)
        ty = parse_type(parser)
        state.mark(("type", "argument", len(types)), start, previous_end(parser))
        types.append(ty)
        dictionaries.append(DictionaryAttr(parser.parse_optional_attr_dict()))
        location = parser.parse_optional_location()
        if unresolved is not None:
            arguments.append(unresolved.resolve(ty))
            arguments[-1].location = location

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, parameter)
    if any(d != DictionaryAttr({}) for d in dictionaries):
        state.properties["arg_attrs"] = ArrayAttr(dictionaries)
    return arguments, types


def _parse_function_body(
    parser: Parser, state: ParseState, arguments: list[Parser.Argument], types: list[Attribute]
) -> None:
    if arguments or not types:
        parse_body(parser, state, arguments, ReturnOp)
        return
    parse_body(parser, state, None, None)
    region = state.regions[-1]
    if not region.blocks:
        region.add_block(Block())
    block = region.blocks[0]
    for index, ty in enumerate(types):
        if index >= len(block.args):
            block.insert_arg(ty, index)
    if block.last_op is None or not isinstance(block.last_op, ReturnOp):
        block.add_op(ReturnOp.create())


class Function(TileOp):
    """What entry and testing$func share."""

    @property
    def symbol(self) -> str:
        """The name of the function, without ``@``."""
        return symbol_name(self)

    @property
    def function_type_value(self) -> FunctionType:
        """The types of parameters and results."""
        found = self.properties["function_type"]
        assert isinstance(found, FunctionType)
        return found

    @property
    def block(self) -> Block:
        """The first block, whose arguments are the parameters."""
        return self.regions[0].blocks[0]

    def check_body_arguments(self, report: Report) -> None:
        """Report a body whose arguments are not those of the function's type."""
        if not self.regions[0].blocks:
            return
        wanted = list(self.function_type_value.inputs.data)
        given = [a.type for a in self.block.args]
        if given != wanted:
            report.error(
                BODY_ARGUMENTS,
                f"expected body arguments of types {show_types(wanted)}, got {show_types(given)}",
                ("region", "", 0),
            )

    def check_argument_attributes(self, report: Report) -> None:
        """Report attributes that are not one dictionary for each argument or result, or of no dialect."""
        signature = self.function_type_value
        for name, what, values in (
            ("arg_attrs", "argument", signature.inputs.data),
            ("res_attrs", "result", signature.outputs.data),
        ):
            array = self.properties.get(name)
            if not is_array(array):
                continue
            if len(array.data) != len(values):
                report.error(
                    ARGUMENT_ATTRIBUTES,
                    f"expected one dictionary of attributes for each of {len(values)} {what}s, "
                    f"got {len(array.data)}",
                )
                continue
            for index, entry in enumerate(array.data):
                keys = entry.data if isinstance(entry, DictionaryAttr) else {str(entry): entry}
                for key in (k for k in keys if "." not in k):
                    report.error(
                        ARGUMENT_ATTRIBUTES,
                        f"{what}s may only have dialect attributes, got '{key}' for {what} {index}",
                    )

    def check_parent_module(self, report: Report) -> None:
        """Report a function outside of a module, or without a name."""
        parent = self.parent_op()
        if parent is not None and not isinstance(parent, ModuleOp):
            report.error(
                SYMBOL_PLACE, f"expects parent op 'cuda_tile.module', found '{parent.name}'"
            )
        if not self.symbol:
            report.error(EMPTY_SYMBOL, "symbol name must not be empty", attr("sym_name"))


@tile_op("entry", opcode=0x16, group=GROUP)
class EntryOp(Function):
    """A kernel: what each tile block of the grid runs. Arguments are scalar tiles."""

    sym_name = prop_def(K.STRING)
    function_type = prop_def(K.FUNCTION_TYPE)
    arg_attrs = opt_prop_def(K.DICT_ARRAY)
    res_attrs = opt_prop_def(K.DICT_ARRAY)
    optimization_hints = opt_prop_def(K.HINTS)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())
    SINCE_OF: ClassVar = {"arg_attrs": V13_5}
    SYNTAX: ClassVar = (FunctionSyntax(), ATTR_DICT)
    EXAMPLES: ClassVar = examples(
        """
        cuda_tile.module @m {
          entry @scale(%p: tile<ptr<f32>>, %n: tile<i32>)
              optimization_hints=<sm_100 = {num_cta_in_cga = 2, occupancy = 4}> {
            %x, %y, %z = get_tile_block_id : tile<i32>
            return
          }
        }
        """,
    )

    @property
    def hints(self) -> OptimizationHintsAttr | None:
        """The optimization hints, if any."""
        found = self.properties.get("optimization_hints")
        return found if isinstance(found, OptimizationHintsAttr) else None

    @classmethod
    def make(
        cls,
        name: str,
        argument_types: list[Attribute],
        hints: OptimizationHintsAttr | None = None,
    ) -> EntryOp:
        """A kernel with an empty body, to be filled and ended with a return."""
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "function_type": FunctionType.from_lists(argument_types, []),
        }
        if hints is not None:
            properties["optimization_hints"] = hints
        region = Region(Block(arg_types=argument_types))
        return cls.create(properties=properties, regions=[region])

    def check(self, report: Report) -> None:
        self.check_parent_module(report)
        signature = self.function_type_value
        if signature.outputs.data:
            report.error(
                ENTRY_RULE,
                f"entry op must not return values, got {show_types(signature.outputs.data)}",
                type_of("function_results"),
            )
        for index, ty in enumerate(signature.inputs.data):
            if not isinstance(ty, T.TileType):
                report.error(
                    ENTRY_RULE,
                    f"expected a rank-0 !cuda_tile.tile type for argument {index}, got "
                    f"'{format_type(ty)}'",
                    type_of("argument", index),
                )
            elif ty.rank:
                report.error(
                    ENTRY_RULE,
                    f"entry op must have scalar types (rank 0 !cuda_tile.tile): argument {index} is "
                    f"'{format_type(ty)}'",
                    type_of("argument", index),
                )
        self.check_body_arguments(report)
        self.check_argument_attributes(report)


@tile_op("testing$func", opcode=0x3001, since=V250_0, group="testing")
class FuncOp(Function):
    """A function of any signature, for tests of tools; bytecode cannot hold it.

    Spelled ``experimental$func`` in old documents.
    """

    sym_name = prop_def(K.STRING)
    function_type = prop_def(K.FUNCTION_TYPE)
    arg_attrs = opt_prop_def(K.DICT_ARRAY)
    res_attrs = opt_prop_def(K.DICT_ARRAY)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())
    ALIASES: ClassVar = ("experimental$func",)
    SYNTAX: ClassVar = (FunctionSyntax(), ATTR_DICT)

    def check(self, report: Report) -> None:
        self.check_parent_module(report)
        self.check_body_arguments(report)
        self.check_argument_attributes(report)


FUNCTIONS = (EntryOp, FuncOp)


class GlobalSyntax(Directive):
    """``[public|private] [constant] @NAME [alignment = N] [attr-dict] <ELEM: LITERAL> : type``"""

    def parse(self, parser: Parser, state: ParseState) -> None:
        keyword = parser.parse_optional_keyword_in([str(m) for m in SymbolVisibility])
        visibility = SymbolVisibility(keyword or "public")
        state.properties["symbol_visibility"] = SymbolVisibilityAttr(visibility)
        if parser.parse_optional_keyword("constant"):
            state.properties["constant"] = UnitAttr()
        parse_symbol(parser, state)
        alignment = 0
        if parser.parse_optional_keyword("alignment"):
            parser.parse_punctuation("=")
            alignment = parser.parse_integer(allow_boolean=False, allow_negative=False)
        state.properties["alignment"] = IntegerAttr(alignment, builtin_i64)
        ATTR_DICT.parse(parser, state)
        state.read(parser, "value", lambda: parse_literal_and_type(parser))

    def print(self, printer: Printer, op: TileOp) -> None:
        assert isinstance(op, GlobalOp)
        # The reference tools print one space for each keyword slot, used or not.
        visibility = " private" if op.is_private else ""
        constant = "constant " if op.is_constant else ""
        printer.print_string(f"{visibility}  {constant}{format_symbol(op.symbol)}")
        if op.alignment_value:
            printer.print_string(f" alignment = {op.alignment_value}")
        ATTR_DICT.print(printer, op)
        value = op.value_constant
        printer.print_string(f" <{value.literal()}> : {format_type(value.type)}")

    def grammar(self) -> str:
        return (
            "[`public` | `private`] [`constant`] @NAME [`alignment` `=` INT] [attr-dict] "
            "`<` ELEM `:` LITERAL `>` `:` type"
        )


@tile_op("global", opcode=0x31, group=GROUP)
class GlobalOp(TileOp):
    """A row of numbers in global memory from the loading of the module to its unloading.

    ``constant``: not written by kernels. ``private``: not visible to the host.
    """

    sym_name = prop_def(K.STRING)
    value = prop_def(K.CONSTANT)
    alignment = prop_def(K.INT64, default_value=IntegerAttr(0, builtin_i64))
    constant = opt_prop_def(K.UNIT)
    symbol_visibility = prop_def(
        K.enum_field(SymbolVisibilityAttr),
        default_value=SymbolVisibilityAttr(SymbolVisibility.PUBLIC),
    )
    traits = traits_def(SymbolOpInterface())
    SINCE_OF: ClassVar = {"constant": V13_3, "symbol_visibility": V13_3}
    SYNTAX: ClassVar = (GlobalSyntax(),)
    EXAMPLES: ClassVar = examples(
        """
        cuda_tile.module @m {
          global @counter <i32: 0> : tile<1xi32>
          global private constant @table alignment = 16 <f32: [1.0, 2.0]> : tile<2xf32>
          entry @k() {
            %p = get_global @table : tile<ptr<f32>>
            return
          }
        }
        """,
    )
    UNDEFINED: ClassVar = ("a kernel that writes to a constant global",)

    @property
    def symbol(self) -> str:
        """The name of the global, without ``@``."""
        return symbol_name(self)

    @property
    def value_constant(self) -> TileConstantAttr:
        """What the global holds before the first launch."""
        found = self.properties["value"]
        assert isinstance(found, TileConstantAttr)
        return found

    @property
    def alignment_value(self) -> int:
        """The alignment in bytes that is asked for; 0 for that of the element type."""
        found = self.properties.get("alignment")
        return found.value.data if isinstance(found, IntegerAttr) else 0

    @property
    def is_constant(self) -> bool:
        """Whether kernels only read it."""
        return "constant" in self.properties

    @property
    def is_private(self) -> bool:
        """Whether its name is for this module alone."""
        found = self.properties.get("symbol_visibility")
        return isinstance(found, SymbolVisibilityAttr) and found.data is SymbolVisibility.PRIVATE

    def check(self, report: Report) -> None:
        parent = self.parent_op()
        if parent is not None and not isinstance(parent, ModuleOp):
            report.error(
                SYMBOL_PLACE, f"expects parent op 'cuda_tile.module', found '{parent.name}'"
            )
        if not self.symbol:
            report.error(EMPTY_SYMBOL, "symbol name must not be empty", attr("sym_name"))
        ty = self.value_constant.type
        if ty.rank != 1:
            report.error(
                GLOBAL_RULE,
                f"type must have rank 1, got '{format_type(ty)}' of rank {ty.rank}",
                attr("value"),
            )
