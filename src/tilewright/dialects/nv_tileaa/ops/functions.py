"""Functions, launches, and code that the compiler does not look into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FunctionType,
    IntegerAttr,
    StringAttr,
)
from xdsl.ir import Attribute, Block, Operation
from xdsl.irdl import (
    IRDLOperation,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    IsTerminator,
    MemoryReadEffect,
    MemoryWriteEffect,
    NoMemoryEffect,
    SymbolOpInterface,
    SymbolTable,
)

from tilewright.dialects.cuda_tile.constants import TileConstantAttr
from tilewright.dialects.cuda_tile.types import DYNAMIC
from tilewright.dialects.declare import (
    Related,
    Report,
    attr,
    ensure_terminator,
    examples,
    operand,
    type_of,
)
from tilewright.dialects.facts import Ordering
from tilewright.dialects.narrowing import is_array, is_dense_array
from tilewright.dialects.nv_tileaa import codes
from tilewright.dialects.nv_tileaa import constraints as K
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import (
    ALL_SEGMENTS,
    TileAAOp,
    int_list,
    is_set,
    show_types,
    tileaa_op,
)
from tilewright.dialects.nv_tileaa.ops.bodies import check_arguments, check_end
from tilewright.dialects.nv_tileaa.ops.symbols import find_target
from tilewright.dialects.nv_tileaa.signature import (
    COMMON,
    DEFINITION,
    Arguments,
    Body,
    Dictionary,
    Types,
)
from tilewright.dialects.nv_tileaa.type_syntax import format_type
from tilewright.dialects.syntax.directives import SymbolField, format_symbol
from tilewright.dialects.syntax.engine import (
    Directive,
    ParseState,
    parse_results,
    print_argument_location,
    property_of,
)
from tilewright.dialects.syntax.tokens import fail, previous_end, token_start

GROUP = "structure"


class FunctionHead(Directive):
    """``@NAME(%a: T, ...) [-> (T, ...)] [attributes {...}] { ... }``"""

    def parse(self, parser: Parser, state: ParseState) -> None:
        DEFINITION.parse(parser, state)
        arguments: list[Parser.Argument] = []

        def argument() -> None:
            unresolved = parser.parse_argument(expect_type=False)
            parser.parse_punctuation(":")
            start = token_start(parser)
            arguments.append(unresolved.resolve(state.type_syntax.parse(parser)))
            state.mark(("type", "argument", len(arguments) - 1), start, previous_end(parser))
            arguments[-1].location = parser.parse_optional_location()

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
        results: list[Attribute] = []
        if parser.parse_optional_punctuation("->"):
            results = parse_results(parser, state)
        Dictionary("attributes").parse(parser, state)
        types = [a.type for a in arguments]
        state.properties["function_type"] = FunctionType.from_lists(types, results)
        start = token_start(parser)
        region = parser.parse_region(arguments)
        if not region.blocks:
            region.add_block(Block(arg_types=types))
        ensure_terminator(region, ReturnOp)
        state.mark(("region", "", 0), start, previous_end(parser))
        state.regions.append(region)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        assert isinstance(op, FuncOp)
        printer.print_string(f" {format_symbol(op.symbol)}(")
        for index, argument in enumerate(op.body.blocks[0].args):
            printer.print_string(", " if index else "")
            printer.print_ssa_value(argument)
            printer.print_string(f": {format_type(argument.type)}")
            print_argument_location(printer, argument)
        printer.print_string(")")
        if results := op.signature.outputs.data:
            printer.print_string(f" -> {show_types(results)}")
        Dictionary("attributes").print(printer, op)
        printer.print_string(" ")
        printer.print_region(op.body, print_entry_block_args=False, print_empty_block=False)

    def grammar(self) -> str:
        return (
            "@NAME `(` [%arg `:` type {`,` ...}] `)` [`->` types] [`attributes` `{` ... `}`] REGION"
        )


def is_module(op: Operation | None) -> bool:
    """Whether an operation holds symbols."""
    return op is not None and op.has_trait(SymbolTable, value_if_unregistered=False)


def check_in_module(op: TileAAOp, report: Report) -> None:
    """Report a symbol that does not stand right inside a module, or whose name is empty."""
    parent = op.parent_op()
    if parent is not None and not is_module(parent):
        report.error(
            codes.PARENT, f"'{op.name}' must be directly in a module, found '{parent.name}'"
        )
    name = op.properties.get("sym_name")
    if isinstance(name, StringAttr) and not name.data:
        report.error(codes.PARENT, "a symbol needs a name", attr("sym_name"))


#: The attribute of a kernel that promises the grid, three extents.
LAUNCH_GRID = "nv_tileaa.launch_grid"


@tileaa_op("func", group=GROUP)
class FuncOp(TileAAOp):
    """A function; with ``kernel`` or a ``kernel_spec``, what each block of a grid runs."""

    sym_name = prop_def(K.STRING)
    function_type = prop_def(K.FUNCTION_TYPE)
    kernel = opt_prop_def(K.FLAG)
    kernel_spec = opt_prop_def(K.KERNEL_SPEC)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())
    ORDERING: ClassVar = Ordering.NONE
    HIDDEN: ClassVar = frozenset({"sym_name", "function_type"})
    SYNTAX: ClassVar = (FunctionHead(),)
    EXAMPLES: ClassVar = examples(
        """
        module {
          nv_tileaa.func @k(%p: !nv_tileaa.ptr<f32, 1>, %f: tile<8xf32>) attributes
              {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, clusterDim = [2, 1, 1]>} {
            nv_tileaa.return
          }
          nv_tileaa.func @id(%x: f32) -> (f32) {
            nv_tileaa.return %x : f32
          }
        }
        """,
    )

    @property
    def symbol(self) -> str:
        """The name of the function, without ``@``."""
        found = self.properties["sym_name"]
        assert isinstance(found, StringAttr)
        return found.data

    @property
    def launch_grid(self) -> tuple[int, ...] | None:
        """The extents of every grid that the kernel is launched over, where it was told."""
        found = self.attributes.get(LAUNCH_GRID)
        return int_list(found) if is_dense_array(found) else None

    @property
    def block(self) -> Block:
        """The first block, whose arguments are the parameters."""
        return self.body.blocks[0]

    @property
    def signature(self) -> FunctionType:
        """The types of parameters and results."""
        found = self.properties["function_type"]
        assert isinstance(found, FunctionType)
        return found

    @property
    def is_kernel(self) -> bool:
        """Whether it can be launched: it is marked ``kernel``, or has a ``kernel_spec``."""
        return (
            is_set(self, "kernel")
            or "kernel_spec" in self.properties
            or "nv_tileaa.kernel_spec" in self.attributes
        )

    def check(self, report: Report) -> None:
        check_in_module(self, report)
        check_arguments(self, report, self.body, self.signature.inputs.data)
        if self.is_kernel and (results := self.signature.outputs.data):
            report.error(
                codes.FUNCTION,
                f"a kernel returns nothing, but its results are {show_types(results)}",
                attr("function_type"),
            )
        self._check_end(report)
        for inner in self.body.walk():
            if inner.name.startswith("cuda_tile."):
                report.error(
                    codes.LEFTOVER,
                    f"'{inner.name}' is left inside a function of nv_tileaa",
                    ("region", "", 0),
                    notes=(Related("this operation", inner),),
                )

    def _check_end(self, report: Report) -> None:
        last = self.body.blocks[0].last_op if self.body.blocks else None
        if last is not None and last.name != "nv_tileaa.return":
            report.error(
                codes.TERMINATOR,
                "expects regions to end with 'nv_tileaa.return'",
                ("region", "", 0),
                notes=(Related(f"the last operation is '{last.name}'", last),),
            )


def check_signature(
    op: TileAAOp, report: Report, target: Operation, arguments: Sequence[Attribute], group: str
) -> None:
    """Operands and results are those of the function."""
    signature = target.properties.get("function_type")
    if not isinstance(signature, FunctionType):
        return
    given = [v.type for v in op.results]
    for what, found, wanted, name in (
        ("operands", list(arguments), list(signature.inputs.data), group),
        ("results", given, list(signature.outputs.data), "results_"),
    ):
        if found != wanted:
            report.error(
                codes.SIGNATURE,
                f"expected {what} of types {show_types(wanted)} as the function has, got "
                f"{show_types(found)}",
                type_of(name),
                notes=(Related("the function", target),),
            )


@tileaa_op("call", group=GROUP)
class CallOp(TileAAOp):
    """Runs a function of the module; its results are the function's."""

    arguments = var_operand_def(K.ANY_VALUE)
    callee = prop_def(K.SYMBOL)
    results_ = var_result_def(K.ANY_VALUE)
    CALLS: ClassVar = True
    HIDDEN: ClassVar = frozenset({"callee"})
    SYNTAX: ClassVar = (SymbolField("callee"), Arguments(parens=True), Dictionary(), Types())
    EXAMPLES: ClassVar = examples("%r = nv_tileaa.call @twice(%n) : i32 -> i32")

    def check(self, report: Report) -> None:
        target = find_target(self, report, "callee", {"nv_tileaa.func"}, "a function")
        if target is not None:
            check_signature(self, report, target, [v.type for v in self.arguments], "arguments")


@tileaa_op("return", group=GROUP)
class ReturnOp(TileAAOp):
    """Ends a function; the operands are its results."""

    values = var_operand_def(K.ANY_VALUE)
    traits = traits_def(IsTerminator(), NoMemoryEffect())
    EXAMPLES: ClassVar = examples(
        """
        module {
          nv_tileaa.func @two(%x: f32, %n: i32) -> (f32, i32) {
            nv_tileaa.return %x, %n : f32, i32
          }
        }
        """,
    )

    def check(self, report: Report) -> None:
        parent = self.parent_op()
        if not isinstance(parent, FuncOp):
            found = f"it is in '{parent.name}'" if parent is not None else ""
            report.error(codes.TERMINATOR, "expects parent op 'nv_tileaa.func'", label=found)
            return
        given, wanted = [v.type for v in self.values], list(parent.signature.outputs.data)
        if given != wanted:
            report.error(
                codes.YIELD_TYPES,
                f"expected operands of the types that the function returns, {show_types(wanted)}, "
                f"got {show_types(given)}",
                operand("values"),
                notes=(Related("the function", parent),),
            )


#: What ``yield`` ends.
_YIELDING = ("reduce", "scan", "generate", "execute")


@tileaa_op("yield", group=GROUP)
class YieldOp(TileAAOp):
    """Ends the region of reduce, scan, generate or execute with what it computes."""

    values = var_operand_def(K.ANY_VALUE)
    traits = traits_def(IsTerminator(), NoMemoryEffect())
    EXAMPLES: ClassVar = examples(
        """
        %r = nv_tileaa.generate : tile<8xf32> {
        ^bb0(%l: index):
          nv_tileaa.yield %x : f32
        }
        """,
    )

    def check(self, report: Report) -> None:
        check_terminator_parent(self, report, _YIELDING)


def check_terminator_parent(op: TileAAOp, report: Report, allowed: Sequence[str]) -> None:
    """Report a terminator whose parent is none of these operations, which are given without the
    dialect."""
    parent = op.parent_op()
    if parent is None or parent.name not in {f"nv_tileaa.{name}" for name in allowed}:
        names = ", ".join(f"'nv_tileaa.{name}'" for name in allowed)
        found = f", found '{parent.name}'" if parent is not None else ""
        report.error(codes.TERMINATOR, f"expects parent op to be one of {names}{found}")


CONTENTS = K.PropertyKind(
    "a dense array or a constant", (DenseArrayBase, DenseIntOrFPElementsAttr, TileConstantAttr)
)


def _contents(value: Attribute) -> tuple[Attribute, int]:
    """The element type and the number of elements of an initial value."""
    match value:
        case DenseArrayBase():
            return value.elt_type, len(value)
        case DenseIntOrFPElementsAttr():
            return value.get_element_type(), prod(value.get_shape())
        case TileConstantAttr():
            return value.type.element_type, value.type.element_count
        case _:
            raise TypeError(f"no initial value: {value}")


class GlobalHead(Directive):
    """``: MEMREF``, the type of the global."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        parser.parse_punctuation(":")
        start = token_start(parser)
        state.read(parser, "type", lambda: state.type_syntax.parse(parser))
        if not isinstance(ty := state.properties["type"], T.MemrefType):
            end = previous_end(parser)
            fail(
                parser, f"expected a memref, got '{format_type(ty)}'", start, end, code=codes.GLOBAL
            )

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        printer.print_string(f" : {format_type(op.properties['type'])}")

    def grammar(self) -> str:
        return "`:` type"


@tileaa_op("global", group=GROUP)
class GlobalOp(TileAAOp):
    """Memory of a module, of the type and with the initial value given; zeros without one."""

    sym_name = prop_def(K.STRING)
    type = prop_def(K.TYPE)
    value = opt_prop_def(CONTENTS)
    alignment = opt_prop_def(K.INT64)
    constant = opt_prop_def(K.FLAG)
    traits = traits_def(SymbolOpInterface())
    ORDERING: ClassVar = Ordering.NONE
    HIDDEN: ClassVar = frozenset({"sym_name", "type"})
    SYNTAX: ClassVar = (DEFINITION, Dictionary(), GlobalHead())
    EXAMPLES: ClassVar = examples(
        """
        module {
          nv_tileaa.global @counter {value = array<i32: 0>, alignment = 16} : !nv_tileaa.memref<1xi32, 1>
          nv_tileaa.global @scratch : !nv_tileaa.memref<64x64xf32, 1>
        }
        """,
    )
    UNDEFINED: ClassVar = ("a kernel that writes to a constant global",)

    def check(self, report: Report) -> None:
        check_in_module(self, report)
        ty = self.properties["type"]
        if not isinstance(ty, T.MemrefType) or DYNAMIC in ty.dims:
            report.error(
                codes.GLOBAL,
                f"expected a memref of static extents, got '{format_type(ty)}'",
                attr("type"),
            )
            return
        alignment = self.properties.get("alignment")
        if isinstance(alignment, IntegerAttr):
            given = alignment.value.data
            if given <= 0 or given & (given - 1):
                report.error(
                    codes.GLOBAL,
                    f"alignment must be a positive power of two, got {given}",
                    attr("alignment"),
                )
        value = self.properties.get("value")
        if value is None:
            return
        element, count = _contents(value)
        if element != ty.element_type or count not in (1, prod(ty.dims)):
            report.error(
                codes.GLOBAL,
                f"expected {prod(ty.dims)} initial values of type '{format_type(ty.element_type)}', "
                f"or one for all, got {count} of '{format_type(element)}'",
                attr("value"),
            )


@tileaa_op("launch_func", group=GROUP)
class LaunchFuncOp(TileAAOp):
    """Starts a kernel, on the host, over a grid of three extents, in clusters if three are given."""

    grid = var_operand_def(K.INDEX)
    cluster = var_operand_def(K.INDEX)
    arguments = var_operand_def(K.ANY_VALUE)
    kernel = prop_def(K.SYMBOL)
    irdl_options = (ALL_SEGMENTS,)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    CALLS: ClassVar = True
    HIDDEN: ClassVar = frozenset({"kernel"})
    SYNTAX: ClassVar = (SymbolField("kernel"), *COMMON)
    EXAMPLES: ClassVar = examples(
        """
        module {
          nv_tileaa.func @k(%n: i32) attributes {kernel} {
            nv_tileaa.return
          }
          nv_tileaa.func @host(%x: index, %n: i32) {
            nv_tileaa.launch_func @k %x, %x, %x, %n : index, index, index, i32
            nv_tileaa.return
          }
        }
        """,
    )

    @classmethod
    def fits(cls, sizes: Mapping[str, int], results: Sequence[Attribute]) -> bool:
        return sizes["grid"] == 3 and sizes["cluster"] in (0, 3)

    def check(self, report: Report) -> None:
        for group, values, counts in (
            ("grid", self.grid, (3,)),
            ("cluster", self.cluster, (0, 3)),
        ):
            if len(values) not in counts:
                report.error(
                    codes.RESOURCES,
                    f"expected {' or '.join(map(str, counts))} extents of the {group}, got "
                    f"{len(values)}",
                    operand(group),
                )
        target = find_target(self, report, "kernel", {"nv_tileaa.func"}, "a kernel")
        if not isinstance(target, FuncOp):
            return
        if not target.is_kernel:
            report.error(
                codes.SIGNATURE,
                f"'{target.symbol}' is not a kernel: it has neither the attribute kernel nor a kernel_spec",
                attr("kernel"),
                notes=(Related("the function", target),),
            )
        check_signature(self, report, target, [v.type for v in self.arguments], "arguments")


#: What a region or plugin needs of the machine; each must be positive where it is given.
RESOURCES = ("num_warps", "registers", "shared_bytes", "tmem_columns", "named_barriers")


class ExternalCode(TileAAOp):
    """What execute and plugin share: values in and out, the resources of the code that they stand for, and the
    layouts in which it takes and gives its values."""

    arguments = var_operand_def(K.ANY_VALUE)
    symbol = opt_prop_def(K.SYMBOL)
    num_warps = opt_prop_def(K.INT32)
    registers = opt_prop_def(K.INT32)
    shared_bytes = opt_prop_def(K.INT32)
    tmem_columns = opt_prop_def(K.INT32)
    named_barriers = opt_prop_def(K.INT32)
    operand_layouts = opt_prop_def(K.ARRAY)
    result_layouts = opt_prop_def(K.ARRAY)
    results_ = var_result_def(K.ANY_VALUE)
    CALLS: ClassVar = True

    def check_resources(self, report: Report) -> None:
        """Report resources (``RESOURCES``) of which the code wants none or less."""
        for name in RESOURCES:
            found = self.properties.get(name)
            if isinstance(found, IntegerAttr) and found.value.data <= 0:
                report.error(
                    codes.RESOURCES, f"{name} must be positive, got {found.value.data}", attr(name)
                )
        for name, values in (("operand_layouts", self.operands), ("result_layouts", self.results)):
            layouts = self.properties.get(name)
            if is_array(layouts) and len(layouts.data) != len(values):
                report.error(
                    codes.RESOURCES,
                    f"expected a layout for each of {len(values)} values in {name}, got "
                    f"{len(layouts.data)}",
                    attr(name),
                )

    def check_target(self, report: Report) -> None:
        """Report a symbol that names no code, or a function of another signature."""
        kinds = {"nv_tileaa.func", "nv_tileaa.inject_ir"}
        target = find_target(self, report, "symbol", kinds, "a function or injected code")
        if target is not None:
            check_signature(self, report, target, [v.type for v in self.arguments], "arguments")

    def check_one_of(self, report: Report, given: Mapping[str, bool]) -> bool:
        """Exactly one of two ways to say what runs."""
        if sum(given.values()) != 1:
            found = ", ".join(name for name, there in given.items() if there) or "neither"
            report.error(codes.FUNCTION, f"expected either {' or '.join(given)}, got {found}")
            return False
        return True


@tileaa_op("execute", group=GROUP)
class ExecuteOp(ExternalCode):
    """Runs a region, or the function or plugin that ``symbol`` names, on a group of warps.

    The region sees its operands as arguments. Shared and tensor memory are accessible inside.
    """

    agent = opt_prop_def(K.STRING)
    body = region_def()
    OPTIONAL_BODIES: ClassVar = frozenset({0})
    SYNTAX: ClassVar = (Arguments(), Dictionary(), Types(before_body=True), Body(optional=True))
    EXAMPLES: ClassVar = examples(
        """
        %r = nv_tileaa.execute %f {agent = "producer", num_warps = 4, registers = 64}
          : tile<8xf32> -> tile<8xf32> {
        ^bb0(%v: !nv_tileaa.tile<8xf32>):
          nv_tileaa.yield %v : tile<8xf32>
        }
        """,
        "%r = nv_tileaa.execute %n {symbol = @twice} : i32 -> i32",
    )

    def check(self, report: Report) -> None:
        self.check_resources(report)
        has_body = bool(self.body.blocks)
        if not self.check_one_of(
            report, {"a region": has_body, "a symbol": "symbol" in self.properties}
        ):
            return
        if not has_body:
            self.check_target(report)
            return
        check_arguments(self, report, self.body, [v.type for v in self.arguments])
        results = [v.type for v in self.results]
        check_end(self, report, self.body, "nv_tileaa.yield", results)


@tileaa_op("plugin", group=GROUP)
class PluginOp(ExternalCode):
    """Runs code that the compiler does not look into: given in ``code``, or named by ``symbol``."""

    code = opt_prop_def(K.STRING)
    EXAMPLES: ClassVar = examples(
        """
        %r = nv_tileaa.plugin %f {code = "fast_softmax", shared_bytes = 4096}
          : tile<8xf32> -> tile<8xf32>
        """,
        "%r = nv_tileaa.plugin %n {symbol = @twice} : i32 -> i32",
    )

    def check(self, report: Report) -> None:
        self.check_resources(report)
        given = {"code": "code" in self.properties, "a symbol": "symbol" in self.properties}
        if self.check_one_of(report, given) and given["a symbol"]:
            self.check_target(report)


@tileaa_op("inject_ir", group=GROUP)
class InjectIROp(TileAAOp):
    """Text of a lower level that goes into the module as it is; others may name it as a symbol."""

    sym_name = opt_prop_def(K.STRING)
    language = prop_def(K.STRING)
    code = prop_def(K.STRING)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    CALLS: ClassVar = True
    EXAMPLES: ClassVar = examples(
        """
        module {
          nv_tileaa.inject_ir {sym_name = "helper", language = "ptx", code = ".func helper() { }"}
        }
        """,
        'nv_tileaa.inject_ir {language = "nvvm", code = "nvvm.barrier0"}',
    )

    def check(self, report: Report) -> None:
        if "sym_name" in self.properties:
            check_in_module(self, report)
        for name in ("language", "code"):
            if not property_of(self, name, StringAttr).data:
                report.error(codes.FUNCTION, f"'{name}' must not be empty", attr(name))
