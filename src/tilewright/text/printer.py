"""Prints Tile IR text, in the reference disassembler's layout or in MLIR's generic form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from io import StringIO

from xdsl.dialects import builtin
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.printer import Printer
from xdsl.traits import IsTerminator

from tilewright.diagnostics.display import printable
from tilewright.dialects import nv_tileaa
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.constants import (
    FloatBitsAttr,
    TileConstantAttr,
    format_elements,
)
from tilewright.dialects.cuda_tile.debug_info import is_known
from tilewright.dialects.cuda_tile.enums import INTEGERS_ELSEWHERE
from tilewright.dialects.cuda_tile.ops.control_flow import ForOp, LoopOp
from tilewright.dialects.cuda_tile.ops.module import EntryOp, FuncOp, ModuleOp
from tilewright.dialects.cuda_tile.ops.reductions import format_identity
from tilewright.dialects.cuda_tile.types import element_name
from tilewright.dialects.syntax.directives import format_symbol, quote
from tilewright.garbage import rare_collections
from tilewright.nesting import deep_recursion
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.floats import float_to_bits, format_float
from tilewright.text.declarations import has_lost_attributes, is_function
from tilewright.text.layout_aliases import with_layout_aliases
from tilewright.text.location_printing import AliasTable, alias_name, location_text
from tilewright.text.locations import LOCATIONS
from tilewright.text.naming import Names, name_values

_I1, _I64 = IntegerType(1), IntegerType(64)
_PREFIX = "cuda_tile."
#: For operations of scf: how many operands have no corresponding argument in the first body.
_CARRIED = {"scf.for": 2, "scf.while": 0, "scf.if": 1}


@rare_collections
def print_text(
    module: Operation,
    *,
    generic: bool = False,
    reference: bool = False,
    locations: bool = False,
    bare: bool = False,
    generic_for: Set[Operation] = frozenset(),
) -> str:
    """Print a module, or any operation, so that ``parse`` returns an equal module.

    * ``bare``: the contents of the module without the module's own line, as ``tileirdisasm`` prints
      them, byte for byte, except that constants of more than 100 elements are lists of numbers.
    * ``locations``: ``loc(...)`` after each operation, and aliases at the end.
    * ``generic``: MLIR's generic form, which stock xDSL tools read through our entry point.
    * ``reference``: with ``generic``, attributes as NVIDIA's tools write them: constants as
      ``dense<...>`` of tiles; memory orderings, scopes and modes of atomics as integers.
    * ``generic_for``: operations to print in generic form in any case. Operations that do not verify
      may have no other form: ``tilewright.analysis.verifier.without_custom_form`` finds them.

    Ends with a newline.
    """
    printer = TilePrinter(
        generic=generic,
        reference=reference,
        locations=locations,
        bare=bare,
        generic_for=generic_for,
    )
    with deep_recursion():
        printer.print_whole(module)
    return with_layout_aliases(printer.text())


@dataclass(frozen=True, slots=True)
class Listing:
    """A text, and the line of each operation in it, from 0."""

    text: str
    line_of: Mapping[Operation, int]
    _names: Names

    def name(self, value: SSAValue) -> str:
        """Return the name of a value in the text, with its ``%``."""
        return self._names.of[id(value)]


def list_text(module: Operation) -> Listing:
    """Like ``print_text``, with line numbers, for showing the text beside something else.

    Layouts have aliases here, so that lines stay short.
    """
    printer = TilePrinter(records_starts=True)
    with deep_recursion():
        printer.print_whole(module)
    return printer.listing()


class TilePrinter(Printer):
    """xDSL's printer with short operation names, MLIR's value names, and aliases of locations.

    The text is collected in pieces; columns are not tracked.
    """

    def __init__(
        self,
        *,
        generic: bool = False,
        reference: bool = False,
        locations: bool = False,
        bare: bool = False,
        generic_for: Set[Operation] = frozenset(),
        records_starts: bool = False,
    ) -> None:
        super().__init__(StringIO(), print_generic_format=generic, print_debuginfo=locations)
        self.bare = bare
        # With operations in custom form, no stock parser reads the text anyway.
        self._reference = reference or not generic
        self._generic_for = generic_for
        self._starts: list[tuple[Operation, int]] | None = [] if records_starts else None
        self._pieces: list[str] = []
        self._line = "\n"
        self._elides = False
        # Whether the head of a function of upstream is printed, where locations are those of its arguments.
        self._in_head = False
        self._format_tile: Callable[[Attribute], str] | None = None
        self._names = Names()
        self._aliases: dict[Attribute, str] = {}
        self._visited: list[Attribute] = []
        self._collecting = False
        self._spellings: dict[type[Operation], str] = {}

    def text(self) -> str:
        """The text printed so far."""
        return "".join(self._pieces)

    def listing(self) -> Listing:
        """Return the text printed so far with the line of each operation; layouts get names."""
        printed, lines = self.text(), dict[Operation, int]()
        text = with_layout_aliases(printed)
        # The definitions precede the text.
        line, counted = text.count("\n") - printed.count("\n"), 0
        for op, start in self._starts or ():
            line += sum(piece.count("\n") for piece in self._pieces[counted:start])
            counted = start
            lines[op] = line
        return Listing(text, lines, self._names)

    def print_whole(self, module: Operation) -> None:
        """Print an operation with its aliases, from the start of the text."""
        holder = module if self.bare and isinstance(module, ModuleOp | builtin.ModuleOp) else None
        roots = (
            [module] if holder is None else [op for b in holder.regions[0].blocks for op in b.ops]
        )
        self._names = name_values(roots, suggest=not self.print_generic_format)
        self._elides = isinstance(holder, ModuleOp)
        if not self.print_generic_format and any(map(_is_of_tileaa, roots)):
            from tilewright.dialects.nv_tileaa.type_syntax import format_type

            self._format_tile = format_type
        if self.print_debuginfo:
            # Only printing determines which locations are shown, and all aliases depend on them.
            self._collecting = True
            self._print_roots(roots)
            self._collecting = False
            self._pieces.clear()
            table = AliasTable()
            for location in self._visited:
                table.add(location)
            self._aliases = table.assign()
        if isinstance(holder, ModuleOp) and (producer := holder.producer_name) is not None:
            # Keep it on one line, whatever the bytecode contains: further lines would be parsed.
            self.print_string(f"// Producer: {printable(producer)}\n", indent=0)
        self._print_roots(roots)
        self._print_alias_definitions()

    def _print_roots(self, roots: Sequence[Operation]) -> None:
        for op in roots:
            self.print_op(op)
            self._pieces.append("\n")
        if not roots:
            self._pieces.append("\n")

    # Layout

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        if "\n" in text and indent != 0:
            text = text.replace("\n", self._line)
        self._pieces.append(text)

    def _print_new_line(self, indent: int | None = None, print_message: bool = True) -> None:
        self._pieces.append(self._line)

    def print_list(self, elems: Iterable[object], print_fn: object, delimiter: str = ", ") -> None:
        """Print each element by ``print_fn``, separated by the delimiter."""
        pieces = self._pieces
        first = True
        for item in elems:
            if not first:
                pieces.append(delimiter)
            first = False
            print_fn(item)  # pyright: ignore[reportCallIssue]

    # Values

    def print_ssa_value(self, value: SSAValue) -> str:
        name = self._names.of.get(id(value))
        if name is None:
            name = self._names.of[id(value)] = f"%outside_{len(self._names.of)}"
        self._pieces.append(name)
        return name

    # Regions

    def print_region(
        self,
        region: Region,
        print_entry_block_args: bool = True,
        print_empty_block: bool = True,
        print_block_terminators: bool = True,
    ) -> None:
        pieces = self._pieces
        pieces.append("{")
        block = region.first_block
        if block is not None and block.next_block is not None:
            for index, each in enumerate(region.blocks):
                self._blocks[each] = each.name_hint or f"bb{index}"
            self._make_block_names_unique(region)
        elif block is not None:
            self._blocks[block] = block.name_hint or "bb0"
        outer_line = self._line
        if block is not None:
            labelled = (print_entry_block_args and bool(block.args)) or (
                print_empty_block and block.first_op is None
            )
            self.print_block(block, labelled, print_block_terminators)
            while (block := block.next_block) is not None:
                self.print_block(block, True, print_block_terminators)
        self._line = outer_line
        pieces.append(outer_line)
        pieces.append("}")

    def _make_block_names_unique(self, region: Region) -> None:
        taken: set[str] = set()
        for block in region.blocks:
            name = base = self._blocks[block]
            suffix = 0
            while name in taken:
                name = f"{base}_{suffix}"
                suffix += 1
            taken.add(name)
            self._blocks[block] = name

    def print_block(
        self,
        block: Block,
        print_block_args: bool = True,
        print_block_terminator: bool = True,
    ) -> None:
        pieces, line = self._pieces, self._line
        if print_block_args:
            pieces.append(line)
            self.print_block_name(block)
            if block.args:
                with self.in_parens():
                    self.print_list(block.args, self.print_block_argument)
            pieces.append(":")
        inner = self._line = line + "  "
        last = block.last_op
        for op in block.ops:
            if op is last and not print_block_terminator and self._hides(op):
                continue
            pieces.append(inner)
            self.print_op(op)
        self._line = line

    def _hides(self, terminator: Operation) -> bool:
        """Whether to omit an optional terminator: not if its location would be lost."""
        if not terminator.has_trait(IsTerminator, value_if_unregistered=False):
            return False
        return self.bare or not self.print_debuginfo or not is_known(terminator.location)

    def print_block_argument(self, arg: BlockArgument, print_type: bool = True) -> None:
        self.print_ssa_value(arg)
        if print_type:
            self._pieces.append(": ")
            self.print_attribute(arg.type)
            self.print_argument_location(arg)

    def print_argument_location(self, argument: BlockArgument) -> None:
        """Print the location of an argument, if it is known and locations are printed."""
        if self.print_debuginfo and is_known(argument.location):
            self._visited.append(argument.location)
            self._pieces.append(f" {self._location(argument.location)}")

    # Operations

    def print_op(self, op: Operation) -> None:
        """Print an operation: results, its custom or generic form, and its location if these are shown."""
        pieces = self._pieces
        if self._starts is not None:
            self._starts.append((op, len(pieces)))
        located = self.print_debuginfo and _shows_location(op)
        if located:
            self._visited.append(op.location)
        results = self._names.results.get(id(op))
        if results is not None:
            pieces.append(results)
        outer = self._elides
        self._in_head = False
        if isinstance(op, TileOp) and self._prints_custom_form(op):
            kind = type(op)
            name = self._spellings.get(kind)
            if name is None:
                name = self._spellings[kind] = kind.name.removeprefix(_PREFIX)
            pieces.append(name if outer else kind.name)
            self._elides = True
            for directive in op.SYNTAX:
                directive.print(self, op)
        else:
            self._print_foreign_or_generic(op)
        self._elides = outer
        if located:
            pieces.append(f" {self._location(op.location)}")

    def _prints_custom_form(self, op: TileOp) -> bool:
        if self.print_generic_format or op in self._generic_for:
            return False
        return _has_custom_form(op)

    def _print_foreign_or_generic(self, op: Operation) -> None:
        self._elides = isinstance(op, TileOp)
        custom = (
            not isinstance(op, TileOp | UnregisteredOp)
            and type(op).print is not Operation.print
            and op not in self._generic_for
            and _has_foreign_form(op)
        )
        if custom and not self.print_generic_format:
            self._pieces.append(op.name)
            if op.name == "scf.while":
                from tilewright.dialects.upstream.scf import print_while

                print_while(self, op)  # pyright: ignore[reportArgumentType]
            else:
                self._in_head = is_function(op)
                op.print(self)
                self._in_head = False
            return
        name = op.op_name.data if isinstance(op, UnregisteredOp) else op.name
        self._pieces.append(quote(name))
        debug, self.print_debuginfo = self.print_debuginfo, False
        self.print_operands(op.operands)
        self.print_successors(op.successors)
        self._print_op_properties(op.properties)
        self.print_debuginfo = debug
        self.print_regions(op.regions)
        self.print_op_attributes(op.attributes, reserved_attr_names=("op_name__",))
        self._pieces.append(" : ")
        self.print_function_type(op.operand_types, op.result_types)

    # Attributes

    def print_attribute(self, attribute: Attribute) -> None:
        """Print an attribute by its alias, as the reference tools do, or as xDSL does."""
        alias = self._aliases.get(attribute) if self._aliases else None
        if self._in_head and isinstance(attribute, LOCATIONS):
            self._pieces.append(self._location(attribute))
        elif alias is not None:
            self._pieces.append(alias)
        elif isinstance(attribute, LOCATIONS) and alias_name(attribute) is not None:
            self._pieces.append(self._inline_location(attribute))
        elif isinstance(attribute, StringAttr):
            self.print_string_literal(attribute.data)
        elif (text := _plain_text(attribute)) is not None:
            self._pieces.append(text)
        elif isinstance(attribute, ArrayAttr):
            self._pieces.append("[")
            self.print_list(attribute.data, self._print_element)
            self._pieces.append("]")
        elif isinstance(attribute, DictionaryAttr):
            self.print_attr_dict(attribute.data)
        elif attribute.name == nv_tileaa.TILE and self._format_tile is not None:
            self._pieces.append(self._format_tile(attribute))
        elif attribute.name == "arith.elements":
            self._pieces.append(f"{attribute.literal()} : ")  # pyright: ignore[reportAttributeAccessIssue]
            self.print_attribute(attribute.type)  # pyright: ignore[reportAttributeAccessIssue]
        elif isinstance(attribute, FloatBitsAttr) and self._reference:
            self._pieces.append(format_identity(attribute))
        elif isinstance(attribute, TileConstantAttr) and self._reference:
            self._pieces.append(f"dense<{format_elements(attribute, attribute.type.dims)}> : ")
            self.print_attribute(attribute.type)
        else:
            super().print_attribute(attribute)

    def _print_op_properties(self, properties: dict[str, Attribute]) -> None:
        if self._reference and self.print_generic_format:
            properties = {key: _as_reference(value) for key, value in properties.items()}
        super()._print_op_properties(properties)

    def _print_element(self, attribute: Attribute) -> None:
        """Print an item of a list. MLIR omits the type of i64 numbers there."""
        text = _plain_text(attribute)
        if text is not None and isinstance(attribute, IntegerAttr | FloatAttr):
            text = text.removesuffix(" : i64")
            if not text.startswith("0x"):
                text = text.removesuffix(" : f64")
            self._pieces.append(text)
        else:
            self.print_attribute(attribute)

    def print_attr_dict(self, attr_dict: Mapping[str, Attribute]) -> None:
        """Print ``{name = value, ...}``, sorted by name."""
        with self.in_braces():
            self.print_list(sorted(attr_dict.items()), self._print_attr_string)

    def print_float(self, value: float, type: AnyFloat) -> None:
        """Print a float so that it reads back to the same bits; in hexadecimal if it has no decimal form."""
        text = _float_text(value, type)
        if text is None:
            super().print_float(value, type)
        else:
            self._pieces.append(text)

    def print_string_literal(self, string: str) -> None:
        """Print a string in quotes, escaped as the reference tools do in reference form, else readably."""
        # With non-ASCII escapes, xDSL's lexer reads bytes instead of a string.
        raw = not self._reference and string.isprintable() and not {*string} & {'"', "\\"}
        self._pieces.append(f'"{string}"' if raw else quote(string))

    def print_symbol_name(self, sym_name: str) -> None:
        self._pieces.append(format_symbol(sym_name))

    # Locations

    def _location(self, location: Attribute) -> str:
        if self._collecting:
            # Printed in full, it may be as long as the square of its depth, and it is not shown.
            return ""
        return f"loc({self._aliases.get(location) or location_text(location, self._show)})"

    def _show(self, attribute: Attribute) -> str:
        """Return an attribute's text, by its alias if it has one."""
        pieces, self._pieces = self._pieces, []
        self.print_attribute(attribute)
        shown, self._pieces = "".join(self._pieces), pieces
        return shown

    def _inline_location(self, location: Attribute) -> str:
        if location.name.startswith(f"{_PREFIX}di_"):
            pieces, self._pieces = self._pieces, []
            super().print_attribute(location)
            shown, self._pieces = "".join(self._pieces), pieces
            return shown
        return f"loc({location_text(location, self._show)})"

    def _print_alias_definitions(self) -> None:
        for attribute, alias in self._aliases.items():
            if isinstance(attribute, LOCATIONS):
                body = self._inline_location(attribute)
            else:
                pieces, self._pieces = self._pieces, []
                super().print_attribute(attribute)
                body, self._pieces = "".join(self._pieces), pieces
            self._pieces.append(f"{alias} = {body}\n")


def _is_of_tileaa(root: Operation) -> bool:
    """Whether an operation is of nv_tileaa or contains one; the text then names its dialect."""
    if isinstance(root, TileOp):
        return False
    return any(op.dialect_name() == nv_tileaa.NAME for op in root.walk())


def _shows_location(op: Operation) -> bool:
    """Whether to print a location: modules have none in bytecode, so an unknown one is omitted."""
    return is_known(op.location) or not isinstance(op, ModuleOp | builtin.ModuleOp)


def _has_custom_form(op: TileOp) -> bool:
    """Whether an operation has a custom form, and its bodies have the arguments the form implies."""
    if not op.SYNTAX:
        return False
    regions = op.regions
    if not regions:
        return True
    block = regions[0].first_block
    if block is None:
        return False
    if isinstance(op, ForOp):
        return len(block.args) == len(op.operands) - 2
    if isinstance(op, LoopOp):
        return len(block.args) == len(op.operands)
    if isinstance(op, EntryOp | FuncOp):
        return len(block.args) == len(op.function_type_value.inputs.data)
    return True


def _has_foreign_form(op: Operation) -> bool:
    """Whether a module, or a loop or branch of scf, has the bodies that its custom form implies, and a function
    has nothing that the form omits."""
    if isinstance(op, builtin.ModuleOp):
        return len(op.body.blocks) == 1
    carried = _CARRIED.get(op.name)
    if carried is None:
        return not has_lost_attributes(op)
    counts = [len(region.blocks) for region in op.regions]
    if counts != [1] * len(counts) and (op.name != "scf.if" or counts != [1, 0]):
        return False
    return len(op.regions[0].blocks[0].args) == len(op.operands) - carried


def _float_text(value: float, ty: Attribute) -> str | None:
    fmt = FORMATS.get(element_name(ty))
    return None if fmt is None else format_float(float_to_bits(value, fmt), fmt)


def _as_reference(attribute: Attribute) -> Attribute:
    """Return a property as NVIDIA's dialect declares it; some enumerations are integers there."""
    if isinstance(attribute, INTEGERS_ELSEWHERE):
        return IntegerAttr(attribute.code, IntegerType(32))
    return attribute


def _plain_text(attribute: Attribute) -> str | None:
    """Return the text of a number or an array of booleans; None for other attributes."""
    if isinstance(attribute, IntegerAttr):
        if attribute.type == _I1:
            return "true" if attribute.value.data else "false"
        return f"{attribute.value.data} : {attribute.type}"
    if isinstance(attribute, FloatAttr):
        text = _float_text(attribute.value.data, attribute.type)
        return None if text is None else f"{text} : {attribute.type}"
    if isinstance(attribute, DenseArrayBase) and attribute.elt_type == _I1 and len(attribute):
        values = ("true" if v else "false" for v in attribute.iter_values())
        return f"array<i1: {', '.join(values)}>"
    return None
