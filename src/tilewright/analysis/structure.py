"""Structural rules of every operation: number and types of operands and results, properties, regions.

The declaration of each operation class is compiled once into tuples, which the checks iterate over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from xdsl.dialects.builtin import DenseArrayBase, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    OptPropertyDef,
    VarRegionDef,
)
from xdsl.traits import IsTerminator, NoTerminator

from tilewright.analysis.reports import OpReport
from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile.ops.reductions import OPERAND_COUNT
from tilewright.dialects.declare import DeclaredOp, Group, NamedConstraint, Relation
from tilewright.dialects.source_map import Part

OPERAND_TYPE = define_code(
    "operand-type",
    "An operand has a type that the operation does not accept.",
    "Arithmetic takes i1 to i64 and f16, bf16, f32 and f64; narrower types must be converted "
    "first. `tilewright explain OP` lists what each operand may be.",
    wrong="""
    %x = constant <f8E4M3FN: 1.0> : tile<4xf8E4M3FN>
    %y = negf %x : tile<4xf8E4M3FN>
    """,
    right="""
    %x = constant <f8E4M3FN: 1.0> : tile<4xf8E4M3FN>
    %wide = ftof %x : tile<4xf8E4M3FN> -> tile<4xf32>
    %y = negf %wide : tile<4xf32>
    """,
)
RESULT_TYPE = define_code("result-type", "A result has a type that the operation cannot have.")
RESULT_COUNT = define_code("result-count", "An operation has the wrong number of results.")
SEGMENTS = define_code(
    "operand-segments",
    "operandSegmentSizes does not divide the operands into the operation's groups.",
    "Operations with optional operands say in this property how many operands each group has. "
    "Only the generic form shows it.",
)
MISSING_PROPERTY = define_code("missing-property", "A required property is missing.")
PROPERTY_KIND = define_code("property-kind", "A property holds the wrong kind of attribute.")
UNKNOWN_PROPERTY = define_code("unknown-property", "The operation has no property of this name.")
MISPLACED_PROPERTY = define_code(
    "misplaced-property",
    "A property of the operation is among its discardable attributes.",
    "It would have no effect there.",
)
REGION_COUNT = define_code("region-count", "An operation has the wrong number of regions.")
BLOCK_COUNT = define_code(
    "block-count",
    "A region has a number of blocks that its operation does not allow.",
    "Control flow in Tile IR is structured: every region is a single block, and only the else "
    "region of an if may be empty.",
)
SUCCESSORS = define_code("successors", "No operation of Tile IR branches to a block.")
EMPTY_BLOCK = define_code("empty-block", "A block is empty; it needs at least a terminator.")
MISSING_TERMINATOR = define_code("missing-terminator", "A block does not end with a terminator.")
TERMINATOR_NOT_LAST = define_code(
    "terminator-not-last", "A terminator is not the last operation of its block."
)

_SEGMENTS_PROPERTY = "operandSegmentSizes"


@dataclass(frozen=True, slots=True)
class Structure:
    """The compiled declaration of an operation class.

    ``relations`` pairs each relation with the positions of its values, operands before results. The
    positions are None if they differ between operations of the class.
    """

    operands: tuple[Group, ...]
    results: tuple[Group, ...]
    segments: AttrSizedOperandSegments | None
    required: tuple[tuple[str, NamedConstraint], ...]
    optional: dict[str, NamedConstraint]
    defaults: dict[str, str]
    regions: tuple[str, ...]
    any_regions: bool
    """Whether the single declared region stands for any number of regions."""
    optional_bodies: frozenset[int]
    control_flow_bodies: frozenset[int]
    needs_terminators: bool
    is_terminator: bool
    relations: tuple[tuple[Relation, tuple[int, ...] | None], ...]
    has_check: bool

    @property
    def segmented(self) -> bool:
        """Whether a property gives the size of each operand group."""
        return self.segments is not None

    def knows(self, name: str) -> bool:
        """Whether a property of that name is declared."""
        return name in self.optional or any(name == known for known, _ in self.required)


@cache
def structure_of(cls: type[DeclaredOp]) -> Structure:
    """Return the compiled declaration of a class."""
    definition = cls.get_irdl_definition()
    operands = tuple(Group.of(name, d) for name, d in definition.operands)
    results = tuple(Group.of(name, d) for name, d in definition.results)
    required: list[tuple[str, NamedConstraint]] = []
    optional: dict[str, NamedConstraint] = {}
    defaults: dict[str, str] = {}
    for name, prop in definition.properties.items():
        if name == _SEGMENTS_PROPERTY:
            continue
        assert isinstance(prop.constr, NamedConstraint), f"{cls.name}.{name}"
        if isinstance(prop, OptPropertyDef):
            optional[name] = prop.constr
        else:
            required.append((name, prop.constr))
        if prop.default_value is not None:
            defaults[name] = str(prop.default_value)
    return Structure(
        operands,
        results,
        next((o for o in definition.options if isinstance(o, AttrSizedOperandSegments)), None),
        tuple(required),
        optional,
        defaults,
        tuple(name for name, _ in definition.regions),
        any(isinstance(region, VarRegionDef) for _, region in definition.regions),
        cls.OPTIONAL_BODIES,
        cls.CONTROL_FLOW_BODIES,
        bool(definition.regions) and not cls.has_trait(NoTerminator),
        cls.has_trait(IsTerminator),
        tuple((r, _positions(r, operands, results)) for r in cls.RELATIONS),
        cls.check is not DeclaredOp.check,
    )


def _positions(
    relation: Relation, operands: tuple[Group, ...], results: tuple[Group, ...]
) -> tuple[int, ...] | None:
    groups = (*operands, *results)
    if any(group.most != 1 or group.least != 1 for group in groups):
        return None
    names = [group.name for group in groups]
    return tuple(names.index(name) for name in relation.groups)


def segment_sizes(op: Operation, structure: Structure) -> list[int] | None:
    """Return the size of each operand group, or None if the operation does not state them correctly."""
    if structure.segments is not None:
        sizes = structure.segments.container(op).get(_SEGMENTS_PROPERTY)
        if not isinstance(sizes, DenseArrayBase) or not isinstance(sizes.elt_type, IntegerType):
            return None
        values = [int(v) for v in sizes.iter_values()]
        fits = len(values) == len(structure.operands) and sum(values) == len(op.operands)
        allowed = fits and all(
            group.least <= n and (group.most is None or n <= group.most)
            for group, n in zip(structure.operands, values, strict=True)
        )
        return values if allowed else None
    return _spread(structure.operands, len(op.operands))


def _spread(groups: Sequence[Group], count: int) -> list[int] | None:
    """Distribute ``count`` values over groups, at most one of them variadic. Returns their sizes, or None."""
    spare = count - sum(group.least for group in groups)
    if spare < 0:
        return None
    sizes: list[int] = []
    for group in groups:
        extra = 0 if group.most == group.least else spare
        if group.most is not None:
            extra = min(extra, group.most - group.least)
        sizes.append(group.least + extra)
        spare -= extra
    return sizes if spare == 0 else None


def operand_part(op: Operation, index: int) -> Part | None:
    """Return the part that names an operand, or None if its group cannot be determined."""
    if not isinstance(op, DeclaredOp):
        return None
    structure = structure_of(type(op))
    sizes = segment_sizes(op, structure)
    for group, size in zip(structure.operands, sizes or (), strict=False):
        if index < size:
            return ("operand", group.name, index)
        index -= size
    return None


class StructureChecker:
    """Checks operations one by one, and caches which types each constraint accepts.

    Types are cached by identity, so they must outlive the checker.
    """

    def __init__(self) -> None:
        self._accepted: set[tuple[int, int]] = set()

    def is_sound(self, op: DeclaredOp, report: OpReport) -> bool:
        """Report what is wrong with the structure of an operation. Returns whether it is sound.

        Further rules may rely on the structure of sound operations only.
        """
        structure = structure_of(type(op))
        sound = self._values_fit(op, structure, report)
        sound &= _properties_fit(op, structure, report)
        if structure.regions or op.regions:
            sound &= _regions_fit(op, structure, report)
        if op.successors:
            report.error(SUCCESSORS, f"'{op.name}' has no successors, got {len(op.successors)}")
            sound = False
        return sound

    def _values_fit(self, op: DeclaredOp, structure: Structure, report: OpReport) -> bool:
        operands, results = tuple(op.operands), op.results
        operand_sizes = segment_sizes(op, structure)
        result_sizes = _spread(structure.results, len(results))
        if operand_sizes is None:
            _report_operand_count(op, structure, report)
        if result_sizes is None:
            wanted = _expected_count(structure.results)
            report.error(RESULT_COUNT, f"expected {wanted} results, got {len(results)}")
        if operand_sizes is None or result_sizes is None:
            return False
        rejected = self._rejected("operand", structure.operands, operand_sizes, operands)
        rejected += self._rejected("result", structure.results, result_sizes, results)
        if rejected:
            _report_types(op, rejected, report)
        return not rejected

    def _rejected(
        self, what: str, groups: tuple[Group, ...], sizes: list[int], values: Sequence[SSAValue]
    ) -> list[_Rejected]:
        """Return the values whose types their groups do not accept."""
        found: list[_Rejected] = []
        accepted, position = self._accepted, 0
        for group, size in zip(groups, sizes, strict=True):
            constraint = group.constraint
            for index in range(size):
                ty = values[position].type
                key = (id(constraint), id(ty))
                if key not in accepted:
                    if constraint.accepts(ty):
                        accepted.add(key)
                    else:
                        found.append(_Rejected(what, position, group, index, ty))
                position += 1
        return found


@dataclass(frozen=True, slots=True)
class _Rejected:
    """A value of a type that its group does not accept; ``index`` counts within the group."""

    what: str
    position: int
    group: Group
    index: int
    type: Attribute


def _report_types(op: DeclaredOp, rejected: list[_Rejected], report: OpReport) -> None:
    """Report one error for all values of one type and one rule, since the text often shows their type once."""
    seen: list[tuple[NamedConstraint, Attribute]] = []
    for value in rejected:
        group = value.group
        if (group.constraint, value.type) in seen:
            continue
        seen.append((group.constraint, value.type))
        report.error(
            OPERAND_TYPE if value.what == "operand" else RESULT_TYPE,
            f"{value.what} #{value.position} ('{group.name}') must be "
            f"{group.constraint.description}, but got '{op.TYPE_SYNTAX.format(value.type)}'",
            ("type", group.name, value.index),
        )


def _expected_count(groups: Sequence[Group]) -> str:
    least = sum(group.least for group in groups)
    if any(group.most is None for group in groups):
        return f"at least {least}"
    most = sum(group.most or 0 for group in groups)
    return str(least) if least == most else f"{least} to {most}"


def _report_operand_count(op: DeclaredOp, structure: Structure, report: OpReport) -> None:
    if not structure.segmented:
        wanted = _expected_count(structure.operands)
        report.error(OPERAND_COUNT, f"expected {wanted} operands, got {len(op.operands)}")
        return
    groups = ", ".join(
        f"'{g.name}' ({_expected_count([g]) if g.most else 'any number'})"
        for g in structure.operands
    )
    found = op.properties.get(_SEGMENTS_PROPERTY)
    shown = "none" if found is None else str(found)
    report.error(
        SEGMENTS,
        f"expected {_SEGMENTS_PROPERTY} to divide {len(op.operands)} operands into the groups "
        f"{groups}, got {shown}",
    )


def _properties_fit(op: DeclaredOp, structure: Structure, report: OpReport) -> bool:
    fits, properties = True, op.properties
    known = structure.segmented
    for name, kind in structure.required:
        value = properties.get(name)
        if value is None:
            fits = False
            default = structure.defaults.get(name)
            report.error(
                MISSING_PROPERTY,
                f"property '{name}' is missing: it must be {kind.description}",
                help=f"its usual value is {default}" if default else "",
            )
            continue
        known += 1
        if not kind.accepts(value):
            fits = False
            report.error(
                PROPERTY_KIND,
                f"property '{name}' must be {kind.description}, but got {value}",
                ("attr", name, 0),
            )
    if known != len(properties):
        fits &= _other_properties_fit(op, structure, report)
    for name in op.attributes:
        if structure.knows(name):
            report.error(
                MISPLACED_PROPERTY,
                f"'{name}' is a property of '{op.name}' and has no effect in the attribute "
                "dictionary",
            )
    return fits


def _other_properties_fit(op: DeclaredOp, structure: Structure, report: OpReport) -> bool:
    """Check that optional properties are of the declared kind, and that none is undeclared."""
    fits = True
    required = {name for name, _ in structure.required}
    for name, value in op.properties.items():
        if name in required or (structure.segmented and name == _SEGMENTS_PROPERTY):
            continue
        kind = structure.optional.get(name)
        if kind is None:
            fits = False
            names = sorted(required | structure.optional.keys())
            report.error(
                UNKNOWN_PROPERTY,
                f"'{op.name}' has no property '{name}'; its properties are: "
                f"{', '.join(names) or 'none'}",
            )
        elif not kind.accepts(value):
            fits = False
            report.error(
                PROPERTY_KIND,
                f"property '{name}' must be {kind.description}, but got {value}",
                ("attr", name, 0),
            )
    return fits


def _regions_fit(op: DeclaredOp, structure: Structure, report: OpReport) -> bool:
    names = structure.regions * len(op.regions) if structure.any_regions else structure.regions
    if len(op.regions) != len(names):
        report.error(
            REGION_COUNT, f"expected {len(structure.regions)} regions, got {len(op.regions)}"
        )
        return False
    fits = True
    for index, region in enumerate(op.regions):
        count = len(region.blocks)
        if count > 1 and index in structure.control_flow_bodies:
            continue
        if count != 1 and not (count == 0 and index in structure.optional_bodies):
            fits = False
            wanted = "at most one block" if index in structure.optional_bodies else "one block"
            report.error(
                BLOCK_COUNT,
                f"region #{index} ('{names[index]}') must have {wanted}, got {count}",
                ("region", "", index),
            )
    return fits


def check_terminators(op: DeclaredOp, report: OpReport) -> None:
    """Check that each block of the operation ends in a terminator and has no other."""
    for index, region in enumerate(op.regions):
        for block in region.blocks:
            last = block.last_op
            if last is None:
                report.error(EMPTY_BLOCK, "expects a non-empty block", ("region", "", index))
            elif not last.has_trait(IsTerminator, value_if_unregistered=True):
                report.collector.error(
                    MISSING_TERMINATOR,
                    f"block with no terminator, has '{last.name}' as its last operation",
                    last,
                )


def check_terminator_is_last(op: DeclaredOp, report: OpReport) -> None:
    """Report a terminator with operations after it."""
    if op.next_op is not None:
        report.error(
            TERMINATOR_NOT_LAST,
            f"'{op.name}' must be the last operation in its block, but '{op.next_op.name}' follows",
        )
