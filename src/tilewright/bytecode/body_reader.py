"""Reading the bodies of kernels: operations, blocks and regions.

For each operation and version, the layout is compiled once into a ``_Plan``, whose fields are in
reading order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

from xdsl.dialects.builtin import DenseArrayBase, UnitAttr
from xdsl.dialects.builtin import i32 as builtin_i32
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.traits import IsTerminator

from tilewright.bytecode.attributes import FieldReader, false_for_each, field_reader
from tilewright.bytecode.debug import DebugTable
from tilewright.bytecode.encoding import Cursor, DecodeError
from tilewright.bytecode.format import (
    BAD_BLOCK,
    BAD_COUNT,
    BAD_FLAGS,
    FIRST_PREVIEW_OPCODE,
    MAX_REGION_DEPTH,
    PREVIEW,
    TOO_DEEP,
    UNKNOWN_OPCODE,
)
from tilewright.bytecode.layout import (
    FALSE_FOR_EACH,
    SEGMENT_SIZES,
    Arity,
    OpLayout,
    body_operations,
    layout_of,
)
from tilewright.bytecode.tables import Tables, bad_index
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.source_map import BytecodeSource, set_source
from tilewright.dialects.versions import LATEST, Version, format_version

_UNIT = UnitAttr()


@dataclass(frozen=True, slots=True)
class _Plan:
    """How to read an operation from files of one version."""

    op: type[TileOp]
    name: str
    counts_results: bool
    #: The minimum number of results; also the maximum, unless the last group is variadic.
    result_count: int
    has_variadic_results: bool
    absent_results: tuple[Attribute, ...]
    #: The mask of all defined flags; 0 if there is no flags field.
    flags: int
    units: tuple[tuple[str, int], ...]
    #: Name, mask of the flag or 0, reader.
    attributes: tuple[tuple[str, int, FieldReader], ...]
    defaults: tuple[tuple[str, Attribute], ...]
    #: Attributes with one ``false`` for each operand of a group, by the group's position.
    false_for_each: tuple[tuple[str, int], ...]
    counts_operands: bool
    #: The minimum and maximum number of operands, if they are counted; -1 for no limit.
    operand_range: tuple[int, int]
    #: Arity and mask of each group; None for one absent at this version.
    groups: tuple[tuple[Arity, int] | None, ...]
    has_segments: bool
    #: For each region, whether it may have no block.
    regions: tuple[bool, ...]
    is_terminator: bool


@cache
def _plans(version: Version) -> dict[int, _Plan]:
    """The plans of a version by opcode, made when an operation is met first."""
    return {}


def _make_plan(layout: OpLayout, version: Version) -> _Plan:
    op = layout.op
    positions = {field.name: index for index, field in enumerate(layout.operands)}
    arities = [field.arity for field in layout.operands]
    least = arities.count(Arity.ONE)
    most = -1 if Arity.MANY in arities else len(arities)
    return _Plan(
        op=op,
        name=op.mnemonic(),
        counts_results=layout.counts_results,
        result_count=len(layout.results) - layout.has_variadic_results,
        has_variadic_results=layout.has_variadic_results,
        absent_results=tuple(ty for _, ty in layout.absent_results),
        flags=(1 << len(layout.flags)) - 1,
        units=layout.units,
        attributes=tuple(
            (field.name, field.bit, field_reader(field.kind, version))
            for field in layout.attributes
        ),
        defaults=tuple(
            (field.name, field.default)
            for field in layout.absent
            if field.default is not None and field.name not in FALSE_FOR_EACH
        ),
        false_for_each=tuple(
            (field.name, positions[FALSE_FOR_EACH[field.name]])
            for field in layout.absent
            if field.name in FALSE_FOR_EACH
        ),
        counts_operands=layout.counts_operands,
        operand_range=(least, most),
        groups=tuple(
            (field.arity, field.bit) if field.present else None for field in layout.operands
        ),
        has_segments=layout.has_segments,
        regions=tuple(optional for _, optional in layout.regions),
        is_terminator=op.has_trait(IsTerminator),
    )


@lru_cache(maxsize=1024)
def segment_sizes(sizes: tuple[int, ...]) -> DenseArrayBase:
    """Return the property with the sizes of operand or result groups, shared by equal sizes."""
    return DenseArrayBase.from_list(builtin_i32, sizes)


class BodyReader:
    """Reads the operations of one function."""

    def __init__(
        self,
        cursor: Cursor,
        tables: Tables,
        debug: DebugTable,
        first_location: int | None,
        filename: str,
        symbol: str,
    ):
        self._cursor = cursor
        self._tables = tables
        self._plans = _plans(tables.version)
        self._debug = debug
        self._first_location = first_location
        self._filename = filename
        self._symbol = symbol
        self._values: list[SSAValue] = []
        self._depth = 0
        #: The number of operations begun so far.
        self._count = 0
        #: Number and name of the operation being read.
        self._current: tuple[int, str] | None = None

    def describe(self) -> str:
        """Describe the current position for messages."""
        if self._current is None:
            return f"function @{self._symbol}"
        number, name = self._current
        return f"function @{self._symbol}, op #{number} ({name})"

    def read_body(self, block: Block) -> None:
        """Fill the entry block with operations until the bytes are used up.

        Raises ``DecodeError`` where they are malformed, and where the last operation is no terminator.
        """
        cursor = self._cursor
        start = cursor.pos
        self._values.extend(block.args)
        ends_well = False
        while cursor.pos < cursor.end:
            ends_well = self._operation(block)
        self._current = None
        if not ends_well:
            raise self._no_terminator(block, start)

    def _no_terminator(self, block: Block, start: int) -> DecodeError:
        last = block.last_op
        found = "an empty block" if last is None else f"'{last.name}'"
        return DecodeError(
            BAD_BLOCK,
            f"expected a block to end with a terminator, got {found}",
            start,
            self._cursor.pos,
        )

    def _operation(self, block: Block) -> bool:
        """Read an operation and append it to a block. Returns whether it is a terminator."""
        cursor = self._cursor
        start = cursor.pos
        number = self._count
        self._count = number + 1
        opcode = cursor.varint()
        plan = self._plans.get(opcode) or self._new_plan(number, opcode, start)
        self._current = (number, plan.name)
        result_types = self._result_types(plan)
        properties: dict[str, Attribute] = dict(plan.defaults)
        flags = self._attributes(plan, properties, result_types)
        operands = self._operands(plan, flags, properties)
        location = None
        if self._first_location is not None:
            location = self._debug.location(self._first_location + 1 + number, start)
        regions = self._regions(plan, number) if plan.regions else ()
        op = plan.op.create(
            operands=operands,
            result_types=result_types,
            properties=properties,
            location=location,  # pyright: ignore[reportArgumentType]
            regions=regions,
        )
        results = op.results
        self._values.extend(results[: len(results) - len(plan.absent_results)])
        what = f"function @{self._symbol}, op #{number} ({plan.name})"
        set_source(op, BytecodeSource(self._filename, start, cursor.pos, what))
        block.add_op(op)
        return plan.is_terminator

    def _new_plan(self, number: int, opcode: int, start: int) -> _Plan:
        version = self._tables.version
        op = body_operations(version).get(opcode)
        if op is None:
            raise self._unknown_opcode(number, opcode, start)
        plan = self._plans[opcode] = _make_plan(layout_of(op, version), version)
        return plan

    def _unknown_opcode(self, number: int, opcode: int, start: int) -> DecodeError:
        self._current = (number, "?")
        end = self._cursor.pos
        version = self._tables.version
        if opcode >= FIRST_PREVIEW_OPCODE:
            return DecodeError(
                PREVIEW,
                f"opcode {opcode:#x} is that of preview content, which is not supported",
                start,
                end,
            )
        newer = body_operations(LATEST).get(opcode)
        if newer is not None:
            known = f"; {newer.mnemonic()} needs version {format_version(newer.SINCE)}"
        else:
            known = ""
        return DecodeError(
            UNKNOWN_OPCODE,
            f"no operation of bytecode version {format_version(version)} has the opcode "
            f"{opcode:#x}{known}",
            start,
            end,
        )

    def _result_types(self, plan: _Plan) -> list[Attribute]:
        cursor, table = self._cursor, self._tables.types
        count = plan.result_count
        if plan.counts_results:
            start = cursor.pos
            found = cursor.count("results")
            if found != count and (found < count or not plan.has_variadic_results):
                raise DecodeError(
                    BAD_COUNT, f"expected {count} results, got {found}", start, cursor.pos
                )
            count = found
        types = [table.type(cursor) for _ in range(count)]
        types.extend(plan.absent_results)
        return types

    def _attributes(
        self, plan: _Plan, properties: dict[str, Attribute], result_types: list[Attribute]
    ) -> int:
        """Read flags and attributes into ``properties``. Returns the flags."""
        cursor, tables = self._cursor, self._tables
        flags = 0
        if plan.flags:
            start = cursor.pos
            flags = cursor.varint()
            if flags & ~plan.flags:
                raise DecodeError(
                    BAD_FLAGS,
                    f"expected flags within {plan.flags:#x}, got {flags:#x}",
                    start,
                    cursor.pos,
                )
            for name, bit in plan.units:
                if flags & bit:
                    properties[name] = _UNIT
        if plan.attributes:
            first_result = result_types[0] if result_types else None
            for name, bit, read in plan.attributes:
                if not bit or flags & bit:
                    properties[name] = read(cursor, tables, first_result)
        return flags

    def _operands(
        self, plan: _Plan, flags: int, properties: dict[str, Attribute]
    ) -> list[SSAValue]:
        cursor = self._cursor
        operands: list[SSAValue] = []
        if plan.has_segments:
            sizes: list[int] = []
            for group in plan.groups:
                size = self._group_size(group, flags)
                sizes.append(size)
                for _ in range(size):
                    operands.append(self._value())
            properties[SEGMENT_SIZES] = segment_sizes(tuple(sizes))
            for name, position in plan.false_for_each:
                properties[name] = false_for_each(sizes[position])
            return operands
        count, most = plan.operand_range
        if plan.counts_operands:
            start = cursor.pos
            found = cursor.count("operands")
            if found < count or (most >= 0 and found > most):
                wanted = f"at least {count}" if most < 0 else f"{count} to {most}"
                raise DecodeError(
                    BAD_COUNT, f"expected {wanted} operands, got {found}", start, cursor.pos
                )
            count = found
        for _ in range(count):
            operands.append(self._value())
        return operands

    def _group_size(self, group: tuple[Arity, int] | None, flags: int) -> int:
        if group is None:
            return 0
        arity, bit = group
        if arity is Arity.ONE:
            return 1
        if arity is Arity.MANY:
            return self._cursor.count("operands")
        return 1 if flags & bit else 0

    def _value(self) -> SSAValue:
        start = self._cursor.pos
        index = self._cursor.varint()
        try:
            return self._values[index]
        except IndexError:
            limit = len(self._values)
            raise bad_index("value", index, limit, start, self._cursor.pos) from None

    def _regions(self, plan: _Plan, number: int) -> list[Region]:
        cursor = self._cursor
        start = cursor.pos
        count = cursor.varint()
        if count != len(plan.regions):
            raise DecodeError(
                BAD_COUNT, f"expected {len(plan.regions)} regions, got {count}", start, cursor.pos
            )
        if self._depth == MAX_REGION_DEPTH:
            raise DecodeError(
                TOO_DEEP,
                f"regions are nested deeper than {MAX_REGION_DEPTH} levels",
                start,
                cursor.pos,
            )
        self._depth += 1
        regions = [self._region(may_be_empty) for may_be_empty in plan.regions]
        self._depth -= 1
        self._current = (number, plan.name)
        return regions

    def _region(self, may_be_empty: bool) -> Region:
        cursor = self._cursor
        start = cursor.pos
        count = cursor.varint()
        if not count and may_be_empty:
            return Region()
        if count != 1:
            raise DecodeError(
                BAD_BLOCK, f"expected a region of one block, got {count}", start, cursor.pos
            )
        types = self._tables.types
        block = Block(arg_types=[types.type(cursor) for _ in range(cursor.count("arguments"))])
        values = self._values
        visible = len(values)
        values.extend(block.args)
        ends_well = False
        for _ in range(cursor.count("operations")):
            ends_well = self._operation(block)
        if not ends_well:
            raise self._no_terminator(block, start)
        del values[visible:]
        return Region(block)
