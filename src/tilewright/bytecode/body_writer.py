"""Writing the bodies of kernels: operations, blocks and regions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from xdsl.dialects.builtin import DenseArrayBase, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import IsTerminator

from tilewright.bytecode.attributes import FieldWriter, false_for_each, field_writer
from tilewright.bytecode.debug import DebugWriter
from tilewright.bytecode.encoding import ByteWriter
from tilewright.bytecode.format import (
    INVALID_IR,
    LOSSY_ATTRIBUTE,
    MAX_REGION_DEPTH,
    NOT_STORABLE,
)
from tilewright.bytecode.layout import (
    FALSE_FOR_EACH,
    SEGMENT_SIZES,
    AbsentField,
    Arity,
    OpLayout,
    layout_of,
    plain,
    stands_in_bodies,
)
from tilewright.bytecode.output import Output
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.constraints import FieldKind
from tilewright.dialects.cuda_tile.enums import TileEnumAttribute
from tilewright.dialects.declare import bool_values
from tilewright.dialects.versions import LATEST, Version

Operands = tuple[SSAValue, ...]


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    bit: int
    kind: FieldKind
    write: FieldWriter
    default: Attribute | None
    #: The position of the group with one operand for each element of the default, or -1.
    false_for_each: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """How to write an operation to files of one version."""

    layout: OpLayout
    name: str
    fields: tuple[_Field, ...]
    #: Every attribute that the operation can have.
    properties: frozenset[str]
    #: The minimum and maximum number of operands, if no sizes are recorded; -1 for no limit.
    operand_range: tuple[int, int]
    absent_results: frozenset[str]
    is_terminator: bool


def _make_plan(layout: OpLayout) -> _Plan:
    definition = layout.op.get_irdl_definition()
    positions = {field.name: index for index, field in enumerate(layout.operands)}
    arities = [field.arity for field in layout.operands]
    fields = tuple(
        _Field(
            field.name,
            field.bit,
            field.kind,
            field_writer(field.kind),
            getattr(definition.properties[field.name], "default_value", None),
            positions[FALSE_FOR_EACH[field.name]] if field.name in FALSE_FOR_EACH else -1,
        )
        for field in layout.attributes
    )
    return _Plan(
        layout=layout,
        name=layout.op.mnemonic(),
        fields=fields,
        properties=frozenset(definition.properties),
        operand_range=(
            arities.count(Arity.ONE),
            -1 if Arity.MANY in arities else len(arities),
        ),
        absent_results=frozenset(name for name, _ in layout.absent_results),
        is_terminator=layout.op.has_trait(IsTerminator),
    )


@cache
def _plan_of(op: type[Operation], version: Version) -> _Plan | None:
    """Return the plan of an operation, or None if a version has no form for it. Built on first use, since
    most modules have few kinds of operations."""
    if issubclass(op, TileOp) and stands_in_bodies(op, version):
        return _make_plan(layout_of(op, version))
    return None


class BodyWriter:
    """Writes the operations of one function and collects their locations."""

    def __init__(self, out: Output, debug: DebugWriter):
        self.buffer = ByteWriter()
        #: Debug indices of the operations so far, an operation before those in its regions.
        self.locations: list[int] = []
        self._out = out
        self._debug = debug
        self._indices: dict[SSAValue, int] = {}
        self._visible: list[SSAValue] = []
        self._depth = 0

    def write_body(self, block: Block) -> None:
        """Append the operations of an entry block."""
        self._show(block.args)
        self._operations(block)

    def _show(self, values: Operands) -> None:
        for value in values:
            self._indices[value] = len(self._visible)
            self._visible.append(value)

    def _hide(self, count: int) -> None:
        """Leave only the first ``count`` values visible."""
        for value in self._visible[count:]:
            del self._indices[value]
        del self._visible[count:]

    def _operations(self, block: Block) -> None:
        last: _Plan | None = None
        for op in block.ops:
            last = self._operation(op)
        if last is None or not last.is_terminator:
            self._out.at(block.parent_op())
            self._out.problem(INVALID_IR, "a block does not end with a terminator")

    def _operation(self, op: Operation) -> _Plan | None:
        out = self._out
        out.at(op)
        self.locations.append(self._debug.location(op.location))
        plan = _plan_of(type(op), self._out.version)
        if op.attributes:
            for name in op.attributes:
                out.problem(
                    LOSSY_ATTRIBUTE,
                    f"attribute '{name}' of {op.name} is none of its fields: bytecode cannot "
                    f"hold it",
                )
        if plan is None:
            self._refuse(op)
            self._show(op.results)
            return None
        layout = plan.layout
        sizes = self._group_sizes(op, plan)
        self.buffer.varint(layout.opcode)
        self._result_types(op, plan)
        self._flags_and_attributes(op, plan, sizes)
        self._operands(op, plan, sizes)
        if layout.regions:
            self._regions(op, plan)
        self._show(op.results[: len(op.results) - len(plan.absent_results)])
        return plan

    def _refuse(self, op: Operation) -> None:
        known = _plan_of(type(op), LATEST)
        if known is not None:
            self._out.needs(f"operation {known.name}", known.layout.op.SINCE)
        else:
            self._out.problem(NOT_STORABLE, f"bytecode has no form for the operation {op.name}")

    def _group_sizes(self, op: Operation, plan: _Plan) -> tuple[int, ...]:
        """Return the size of each operand group if the operation records them, else ()."""
        if not plan.layout.has_segments:
            return ()
        recorded = op.properties.get(SEGMENT_SIZES)
        sizes: tuple[int, ...] = ()
        if isinstance(recorded, DenseArrayBase):
            sizes = tuple(int(size) for size in recorded.get_values())
        if len(sizes) != len(plan.layout.operands) or sum(sizes) != len(op.operands):
            self._out.problem(
                INVALID_IR,
                f"the operand segment sizes of {plan.name} do not fit its operands",
            )
            return (0,) * len(plan.layout.operands)
        return sizes

    def _result_types(self, op: Operation, plan: _Plan) -> None:
        layout, buffer, types = plan.layout, self.buffer, self._out.types
        results = op.results
        absent = len(layout.absent_results)
        least = len(layout.results) - layout.has_variadic_results + absent
        if len(results) < least or (len(results) > least and not layout.has_variadic_results):
            self._out.problem(
                INVALID_IR, f"expected {plan.name} to have {least} results, got {len(results)}"
            )
            return
        if absent:
            for (name, _), result in zip(layout.absent_results, results[-absent:], strict=True):
                if result.uses.get_length():
                    self._out.part = ("result", "", result.index)
                    self._out.needs(
                        f"result '{name}' of {plan.name}",
                        layout.op.since_of(name),
                        ": it is used",
                    )
                    self._out.part = None
                    # Do not report its uses as well.
                    self._indices[result] = 0
            results = results[:-absent]
        if layout.counts_results:
            buffer.varint(len(results))
        names = layout.results
        for index, result in enumerate(results):
            group = min(index, len(names) - 1)
            self._out.part = ("type", names[group], index - group)
            buffer.varint(types.index(result.type))
        self._out.part = None

    def _flags_and_attributes(self, op: Operation, plan: _Plan, sizes: tuple[int, ...]) -> None:
        layout, buffer, properties = plan.layout, self.buffer, op.properties
        if not properties.keys() <= plan.properties:
            for name in sorted(properties.keys() - plan.properties):
                self._out.problem(
                    LOSSY_ATTRIBUTE,
                    f"attribute '{name}' of {plan.name} is none of its fields: bytecode cannot "
                    f"hold it",
                )
        for field in layout.absent:
            self._check_absent(plan, field, properties.get(field.name))
        if layout.flags:
            flags = 0
            for name, bit in layout.units:
                if name in properties:
                    flags |= bit
            for field in plan.fields:
                if field.bit and field.name in properties:
                    flags |= field.bit
            for group, size in zip(layout.operands, sizes, strict=False):
                if group.bit and size:
                    flags |= group.bit
            buffer.varint(flags)
        for field in plan.fields:
            self._attribute(plan, field, properties.get(field.name), sizes)

    def _attribute(
        self, plan: _Plan, field: _Field, value: Attribute | None, sizes: tuple[int, ...]
    ) -> None:
        if value is None and field.bit:
            return
        if value is None:
            value = field.default
        if value is None or not field.kind.accepts(value):
            self._out.problem(
                INVALID_IR,
                f"expected attribute '{field.name}' of {plan.name} to be "
                f"{field.kind.description}, got {value or 'nothing'}",
            )
            return
        if field.false_for_each >= 0 and not bool_values(value):
            value = false_for_each(sizes[field.false_for_each])
        self._out.part = ("attr", field.name, 0)
        field.write(self._out, self.buffer, value)
        self._out.part = None

    def _check_absent(self, plan: _Plan, field: AbsentField, value: Attribute | None) -> None:
        """Report the value of a field that the version does not have, unless it is the default."""
        if value is None or value == field.default:
            return
        if field.name in FALSE_FOR_EACH:
            if not any(bool_values(value)):
                return
            why = ": one of its elements is true"
        elif isinstance(value, UnitAttr):
            why = ": it is set"
        else:
            is_enum = isinstance(value, TileEnumAttribute)
            shown = value.data.value if is_enum else value
            why = f": the value {shown} is not the default"
        self._out.part = ("attr", field.name, 0)
        self._out.needs(f"attribute '{field.name}' of {plan.name}", field.since, why)
        self._out.part = None

    def _operands(self, op: Operation, plan: _Plan, sizes: tuple[int, ...]) -> None:
        layout, buffer = plan.layout, self.buffer
        operands = op.operands
        if not layout.has_segments:
            count = len(operands)
            least, most = plan.operand_range
            if count < least or (count > most >= 0):
                self._out.problem(INVALID_IR, f"{plan.name} cannot have {count} operands")
            if layout.counts_operands:
                buffer.varint(count)
            for value in operands:
                self._value(plan, value)
            return
        at = 0
        for group, size in zip(layout.operands, sizes, strict=True):
            if size and not group.present:
                self._out.part = ("operand", group.name, 0)
                self._out.needs(
                    f"operand '{plain(group.name)}' of {plan.name}",
                    layout.op.since_of(group.name),
                    ": it is given",
                )
                self._out.part = None
            elif group.arity is Arity.MANY:
                buffer.varint(size)
            elif size != 1 and not (size == 0 and group.arity is Arity.OPTIONAL):
                self._out.problem(
                    INVALID_IR, f"{plan.name} cannot have {size} operands '{plain(group.name)}'"
                )
            for value in operands[at : at + size]:
                self._value(plan, value)
            at += size

    def _value(self, plan: _Plan, value: SSAValue) -> None:
        index = self._indices.get(value)
        if index is None:
            self._out.problem(
                INVALID_IR,
                f"an operand of {plan.name} is not defined before it, in this or an enclosing "
                f"block",
            )
            return
        self.buffer.varint(index)

    def _regions(self, op: Operation, plan: _Plan) -> None:
        expected = plan.layout.regions
        if len(op.regions) != len(expected):
            self._out.problem(
                INVALID_IR,
                f"expected {plan.name} to have {len(expected)} regions, got {len(op.regions)}",
            )
            return
        if self._depth == MAX_REGION_DEPTH:
            self._out.problem(
                NOT_STORABLE, f"regions are nested deeper than {MAX_REGION_DEPTH} levels"
            )
            return
        self.buffer.varint(len(expected))
        self._depth += 1
        for region, (name, may_be_empty) in zip(op.regions, expected, strict=True):
            self._region(region, f"region '{name}' of {plan.name}", may_be_empty)
        self._depth -= 1

    def _region(self, region: Region, what: str, may_be_empty: bool) -> None:
        blocks = region.blocks
        count = len(blocks)
        if count != 1 and not (count == 0 and may_be_empty):
            self._out.problem(INVALID_IR, f"expected {what} to have one block, got {count}")
            return
        buffer = self.buffer
        buffer.varint(count)
        for block in blocks:
            visible = len(self._visible)
            self._show(block.args)
            buffer.varint(len(block.args))
            for argument in block.args:
                buffer.varint(self._out.types.index(argument.type))
            buffer.varint(sum(1 for _ in block.ops))
            self._operations(block)
            self._hide(visible)
