"""The wire layout of every operation at every version, derived from its declaration.

An operation is written as opcode, result types, flags, attributes, operands, regions. The encoding of
each part follows from the declared fields:

* **results**: if any group of operands or results is variadic, a count precedes the types;
* **flags**: a bit for each optional attribute, each unit attribute and, in operations with operand
  segments, each optional operand. Bits are ordered by the version of their field, then attributes
  before operands, then as declared, so newer versions only append. Without bits there is no flags field;
* **attributes**: in declaration order; optional ones only if their bit is set; a unit attribute is
  just its bit;
* **operands**: in declaration order. With segments, a variadic group has its own count and an
  optional operand its bit. Without, a single count of all operands comes first if any group is
  variadic or optional, and none if all are single;
* **regions**: a count, then the regions.

A field newer than the file's version is omitted and takes its default.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache

from xdsl.ir import Attribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    OpDef,
    OptOperandDef,
    OptPropertyDef,
    VarOperandDef,
    VarResultDef,
)

from tilewright.bytecode.format import MAX_OPCODE
from tilewright.dialects import cuda_tile
from tilewright.dialects.cuda_tile.base import OPERATIONS, TileOp
from tilewright.dialects.cuda_tile.constraints import FieldKind
from tilewright.dialects.syntax.engine import fixed_type
from tilewright.dialects.versions import BYTECODE_VERSIONS, Version

#: The property that records the sizes of operand groups in memory; never written.
SEGMENT_SIZES = "operandSegmentSizes"

#: Attributes whose default depends on the operation: one ``false`` for each operand of the group.
FALSE_FOR_EACH = {"inbounds": "index"}

#: Regions that may have no block: an ``if`` without else.
OPTIONAL_REGIONS = frozenset({("if", "else_region")})

#: Operations with an opcode that have their own sections and never occur in a body.
NOT_IN_BODIES = frozenset({"module", "entry", "global"})


class Arity(Enum):
    """The number of operands in a group."""

    ONE = ""
    OPTIONAL = "?"
    MANY = "*"


@dataclass(frozen=True, slots=True)
class AttributeField:
    """An attribute. ``bit`` is its mask in the flags if it is optional, else 0."""

    name: str
    kind: FieldKind
    bit: int


@dataclass(frozen=True, slots=True)
class OperandField:
    """A group of operands. ``bit`` is its mask in the flags if it has one, else 0.

    ``present`` is False for a group newer than the file's version, which is empty.
    """

    name: str
    arity: Arity
    bit: int
    present: bool


@dataclass(frozen=True, slots=True)
class AbsentField:
    """An attribute newer than the file's version; ``default`` is None if it is just not set."""

    name: str
    kind: FieldKind
    since: Version
    default: Attribute | None


@dataclass(frozen=True, slots=True)
class OpLayout:
    """The wire layout of one operation at one version."""

    op: type[TileOp]
    opcode: int
    #: Result groups on the wire; the last may be variadic.
    results: tuple[str, ...]
    has_variadic_results: bool
    #: Whether a count precedes the result types.
    counts_results: bool
    #: Results that exist in memory but not at this version: name and type.
    absent_results: tuple[tuple[str, Attribute], ...]
    #: Names by bit, from bit 0; empty if there is no flags field.
    flags: tuple[str, ...]
    #: Unit attributes: name and mask.
    units: tuple[tuple[str, int], ...]
    attributes: tuple[AttributeField, ...]
    absent: tuple[AbsentField, ...]
    operands: tuple[OperandField, ...]
    #: Whether one count of all operands precedes them.
    counts_operands: bool
    #: Whether the operation records the sizes of operand groups.
    has_segments: bool
    #: Name of each region, and whether it may have no block.
    regions: tuple[tuple[str, bool], ...]

    def __str__(self) -> str:
        """Return the layout on one line, for documentation and tests.

        ``types(a)`` or, with a count before, ``types#(a*)``; ``flags(x, y)`` from bit 0;
        ``name:kind`` and ``name?:kind``; ``%a``, ``%a?``, ``%a*`` or ``#(a, b*)``; ``regions(1)``.
        """
        words: list[str] = []
        if self.results or self.counts_results:
            shown = ["*"] if self.has_variadic_results else [plain(name) for name in self.results]
            words.append(f"types{'#' if self.counts_results else ''}({', '.join(shown)})")
        if self.flags:
            words.append(f"flags({', '.join(self.flags)})")
        for field in self.attributes:
            words.append(f"{field.name}{'?' if field.bit else ''}:{kind_name(field.kind)}")
        groups = [f"{plain(f.name)}{f.arity.value}" for f in self.operands if f.present]
        if self.counts_operands:
            words.append(f"#({', '.join(groups)})")
        else:
            words += [f"%{group}" for group in groups]
        if self.regions:
            words.append(f"regions({len(self.regions)})")
        return " ".join(words)


def plain(name: str) -> str:
    """Return a field's name without the underscore that avoids a clash with a Python name."""
    return name.removesuffix("_")


def kind_name(kind: FieldKind) -> str:
    """Return the documented name of a field's kind: ``int32``, an enumeration's name, or its wire form."""
    if kind.wire == "enum":
        return kind.enum.__name__.removesuffix("Attr")
    return f"int{kind.width}" if kind.wire == "int" else kind.wire


def _property_kinds(definition: OpDef) -> dict[str, FieldKind]:
    """Return the declared attributes, without operand segment sizes."""
    return {
        name: prop.constr
        for name, prop in definition.properties.items()
        if isinstance(prop.constr, FieldKind)
    }


def _flag_names(op: type[TileOp], definition: OpDef, version: Version) -> tuple[str, ...]:
    optional = [
        name
        for name in _property_kinds(definition)
        if isinstance(definition.properties[name], OptPropertyDef)
    ]
    if _has_segments(definition):
        optional += [name for name, d in definition.operands if isinstance(d, OptOperandDef)]
    known = [name for name in optional if op.since_of(name) <= version]
    return tuple(sorted(known, key=op.since_of))


def _has_segments(definition: OpDef) -> bool:
    return any(isinstance(option, AttrSizedOperandSegments) for option in definition.options)


def _type_of_younger_result(op: type[TileOp], name: str) -> Attribute:
    """Return the type of a result that older files do not write; its declaration determines it."""
    only = fixed_type(op, name)
    assert only is not None, f"result {name} of {op.name} is younger and has one possible type"
    return only


def _arity(definition: object) -> Arity:
    if isinstance(definition, OptOperandDef):
        return Arity.OPTIONAL
    return Arity.MANY if isinstance(definition, VarOperandDef) else Arity.ONE


@cache
def layout_of(op: type[TileOp], version: Version) -> OpLayout:
    """Return the layout of an operation at a version. The operation must have an opcode and exist there.

    It follows from the class: fields in the order of their declaration, and those newer than the version left out.
    """
    assert op.OPCODE is not None and version >= op.SINCE
    definition = op.get_irdl_definition()
    flags = _flag_names(op, definition, version)
    bit_of = {name: 1 << index for index, name in enumerate(flags)}
    kinds = _property_kinds(definition)
    here = {name: kind for name, kind in kinds.items() if op.since_of(name) <= version}
    arities = {name: _arity(d) for name, d in definition.operands}
    has_segments = _has_segments(definition)
    results = [name for name, _ in definition.results]
    has_variadic_results = any(isinstance(d, VarResultDef) for _, d in definition.results)
    return OpLayout(
        op=op,
        opcode=op.OPCODE,
        results=tuple(name for name in results if op.since_of(name) <= version),
        has_variadic_results=has_variadic_results,
        counts_results=has_variadic_results or Arity.MANY in arities.values(),
        absent_results=tuple(
            (name, _type_of_younger_result(op, name))
            for name in results
            if op.since_of(name) > version
        ),
        flags=flags,
        units=tuple((name, bit_of[name]) for name, kind in here.items() if kind.wire == "unit"),
        attributes=tuple(
            AttributeField(name, kind, bit_of.get(name, 0))
            for name, kind in here.items()
            if kind.wire != "unit"
        ),
        absent=tuple(
            AbsentField(
                name,
                kind,
                op.since_of(name),
                getattr(definition.properties[name], "default_value", None),
            )
            for name, kind in kinds.items()
            if name not in here
        ),
        operands=tuple(
            OperandField(name, arity, bit_of.get(name, 0), op.since_of(name) <= version)
            for name, arity in arities.items()
        ),
        counts_operands=not has_segments and set(arities.values()) - {Arity.ONE} != set(),
        has_segments=has_segments,
        regions=tuple(
            (name, (op.mnemonic(), name) in OPTIONAL_REGIONS) for name, _ in definition.regions
        ),
    )


@cache
def body_operations(version: Version) -> dict[int, type[TileOp]]:
    """Return the operations that can occur in a body at a version, by opcode."""
    assert version in BYTECODE_VERSIONS
    cuda_tile.load()
    return {
        op.OPCODE: op
        for op in OPERATIONS.values()
        if op.OPCODE is not None and stands_in_bodies(op, version)
    }


def stands_in_bodies(op: type[TileOp], version: Version) -> bool:
    """Whether an operation can occur in a body at a version, so that ``layout_of`` accepts it."""
    return (
        op.OPCODE is not None
        and version >= op.SINCE
        and MAX_OPCODE[version] >= op.OPCODE
        and op.mnemonic() not in NOT_IN_BODIES
    )
