"""What operations of all our dialects declare, and the relations between their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import dedent
from typing import Any, ClassVar, Generic, Protocol, TypedDict, Unpack

from typing_extensions import TypeVar
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType
from xdsl.ir import Attribute, AttributeCovT, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrConstraint,
    IntConstraint,
    IRDLOperation,
    OperandDef,
    OptionalDef,
    ResultDef,
    VariadicDef,
    VerificationContext,
    irdl_op_definition,
)
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from tilewright.diagnostics import define_code
from tilewright.dialects.facts import Elements, Ordering, Pointing
from tilewright.dialects.narrowing import is_dense_array, is_enum, is_integer, signless
from tilewright.dialects.source_map import Part
from tilewright.dialects.syntax.engine import (
    SyntaxOp,
    property_of,
    shown_type,
    value_constraint,
    values_of,
)

TYPE_RELATION = define_code(
    "type-relation",
    "Operands and results of an operation must agree in type, shape, rank or element type.",
    "A scalar is a tile of rank 0: it is reshaped before it can be broadcast.",
    wrong="%row = broadcast %n : tile<i32> -> tile<8xi32>",
    right="""
    %one = reshape %n : tile<i32> -> tile<1xi32>
    %row = broadcast %one : tile<1xi32> -> tile<8xi32>
    """,
)


@dataclass(frozen=True, slots=True)
class Related:
    """A further operation that a diagnostic points at."""

    message: str
    op: Operation
    part: Part | None = None


class Details(TypedDict, total=False):
    """What a diagnostic may have beside its message and part: ``at`` is an operation inside the one that is
    checked, ``label`` the short text beside the place."""

    at: Operation | None
    notes: Sequence[Related]
    help: str
    label: str


class Report(Protocol):
    """Takes the diagnostics about one operation."""

    def error(
        self, code: str, message: str, part: Part | None = None, **details: Unpack[Details]
    ) -> None:
        """An error with this code; ``part`` is what its span marks, the whole operation if None.
        Checks go on behind it."""

    def warning(
        self, code: str, message: str, part: Part | None = None, **details: Unpack[Details]
    ) -> None:
        """The same for what is legal and probably not meant."""


class FirstError:
    """A report that raises xDSL's exception at the first error: for stock tools."""

    def error(self, code: str, message: str, *details: object, **more: object) -> None:
        """Raises VerifyException with the message."""
        raise VerifyException(message)

    def warning(self, code: str, message: str, *details: object, **more: object) -> None:
        """Nothing: xDSL's verifier has no warnings."""
        return


@dataclass(frozen=True, slots=True)
class Relation:
    """Values of some groups that must agree in one respect."""

    what: str
    groups: tuple[str, ...]
    key: Callable[[Attribute], object]

    def check(self, op: IRDLOperation, report: Report) -> None:
        """Report the first value of each group that differs from the first one of all."""
        first: tuple[str, SSAValue] | None = None
        for group in self.groups:
            for index, value in enumerate(values_of(op, group)):
                if first is None:
                    first = (group, value)
                elif self.key(value.type) != self.key(first[1].type):
                    shown = [shown_type(op, v) for v in (first[1], value)]
                    report.error(
                        TYPE_RELATION,
                        f"'{op.name}' op failed to verify that all of {{{', '.join(self.groups)}}} "
                        f"have same {self.what}: '{first[0]}' is '{shown[0]}', '{group}' is "
                        f"'{shown[1]}'",
                        part_of(op, group, index),
                    )
                    return

    def __str__(self) -> str:
        return f"{', '.join(self.groups)} have the same {self.what}"


def same_type(*groups: str) -> Relation:
    """The relation that all values of these groups have one type."""
    return Relation("type", groups, lambda ty: ty)


def same_shape(*groups: str) -> Relation:
    """The relation that all values of these groups have one shape; their elements may differ."""
    return Relation("shape", groups, lambda ty: getattr(ty, "dims", None))


def same_rank(*groups: str) -> Relation:
    """The relation that all values of these groups have as many axes."""
    return Relation("rank", groups, lambda ty: getattr(ty, "rank", None))


def same_element_type(*groups: str) -> Relation:
    """The relation that all values of these groups have one element type; their shapes may
    differ."""
    return Relation("element type", groups, lambda ty: getattr(ty, "element_type", None))


def part_of(op: IRDLOperation, group: str, index: int = 0) -> Part:
    """The part that names a value of an operand or result group."""
    definition = op.get_irdl_definition()
    kind = "operand" if any(name == group for name, _ in definition.operands) else "type"
    return (kind, group, index)


def operand(group: str, index: int = 0) -> Part:
    """The part of an operation that a value of an operand group is, for spans of diagnostics."""
    return ("operand", group, index)


def type_of(group: str, index: int = 0) -> Part:
    """The part that the type of a value is, of an operand or result group."""
    return ("type", group, index)


def attr(name: str) -> Part:
    """The part that a property is."""
    return ("attr", name, 0)


@dataclass(frozen=True)
class NamedConstraint(AttrConstraint[AttributeCovT], Generic[AttributeCovT]):
    """A constraint that says in words what it accepts; the parameter is what a property then holds."""

    description: str

    def accepts(self, attr: Attribute) -> bool:
        """Whether the constraint holds for an attribute or type; pure, and total: never an
        exception."""
        raise NotImplementedError

    def shown(self, attr: Attribute) -> str:
        """What is refused, as messages show it: types in the dialect's own spelling."""
        return f"'{attr}'"

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if not self.accepts(attr):
            raise VerifyException(f"must be {self.description}, but got {self.shown(attr)}")

    def mapping_type_vars(
        self, type_var_mapping: Mapping[TypeVar, AttrConstraint | IntConstraint]
    ) -> NamedConstraint[AttributeCovT]:
        return self

    @property
    def only_type(self) -> Attribute | None:
        """The one type that is accepted, where there is just one."""
        return None


@dataclass(frozen=True)
class PropertyKind(NamedConstraint[AttributeCovT], Generic[AttributeCovT]):
    """What a property holds; integers and arrays of integers have ``width`` bits, any where 0."""

    classes: tuple[type[AttributeCovT], ...]
    width: int = 0

    def accepts(self, attr: Attribute) -> bool:
        if not isinstance(attr, self.classes):
            return False
        if self.width and is_integer(attr):
            return attr.type == signless(self.width)
        if self.width and is_dense_array(attr):
            return attr.elt_type == signless(self.width)
        return True

    def shown(self, attr: Attribute) -> str:
        return str(attr)


@dataclass(frozen=True, slots=True)
class Group:
    """Consecutive operands or results under one name. ``most`` is None if unbounded."""

    name: str
    constraint: NamedConstraint
    least: int
    most: int | None

    @staticmethod
    def of(name: str, definition: OperandDef | ResultDef) -> Group:
        """The group that a field of an operation class declares."""
        constraint = value_constraint(definition)
        assert isinstance(constraint, NamedConstraint), name
        if isinstance(definition, OptionalDef):
            return Group(name, constraint, 0, 1)
        if isinstance(definition, VariadicDef):
            return Group(name, constraint, 0, None)
        return Group(name, constraint, 1, 1)


class DeclaredOp(SyntaxOp):
    """An operation with its rules, examples and meaning in one class.

    Operands, results, properties and regions are xDSL fields. Beside them:

    * ``GROUP``: the chapter of the specification;
    * ``RELATIONS``: what operands and results must have in common;
    * ``OPTIONAL_BODIES``: positions of regions that may be empty;
    * ``CONTROL_FLOW_BODIES``: positions of regions that may have several blocks;
    * ``HIDDEN``: properties that the text shows elsewhere than in a dictionary of all others;
    * ``EXAMPLES``: programs that use the operation, in a setting that the dialect gives;
    * ``UNDEFINED``: in words, when executing it is undefined behaviour; ``UNDEFINED_AT_USE``: only together with
      what uses its results, so that it may be executed where nothing does;
    * ``check``: the verifier rules that fields and relations do not say;
    * the facts of ``dialects/facts.py``, which say what its values and absence mean: ``ELEMENTS``,
      ``POINTS``, ``ORDERING``, ``CALLS``, ``MEANING`` and ``COST``.

    The docstring is the operation's meaning; ``tilewright explain`` prints all of this.
    """

    GROUP: ClassVar[str] = ""
    RELATIONS: ClassVar[tuple[Relation, ...]] = ()
    OPTIONAL_BODIES: ClassVar[frozenset[int]] = frozenset()
    CONTROL_FLOW_BODIES: ClassVar[frozenset[int]] = frozenset()
    HIDDEN: ClassVar[frozenset[str]] = frozenset()
    EXAMPLES: ClassVar[tuple[str, ...]] = ()
    UNDEFINED: ClassVar[tuple[str, ...]] = ()
    UNDEFINED_AT_USE: ClassVar[bool] = False
    ELEMENTS: ClassVar[Elements] = Elements.UNKNOWN
    POINTS: ClassVar[Pointing] = Pointing.ANYWHERE
    ORDERING: ClassVar[Ordering | None] = None
    CALLS: ClassVar[bool] = False
    MEANING: ClassVar[str] = ""
    COST: ClassVar[int | None] = None

    @classmethod
    def mnemonic(cls) -> str:
        """The name of the operation without its dialect."""
        return cls.name.partition(".")[2]

    def check(self, report: Report) -> None:
        """Report what is wrong beyond types of operands and relations."""

    def verify_(self) -> None:
        """The rules of the class for xDSL's verifier, which ends at the first one that is broken;
        ours (``analysis``) reports all."""
        report = FirstError()
        for relation in self.RELATIONS:
            relation.check(self, report)
        self.check(report)


_OpT = TypeVar("_OpT", bound=type[DeclaredOp])


def declare_op(cls: _OpT, dialect: str, mnemonic: str, group: str) -> _OpT:
    """The defined operation class: its name and chapter set, its fields compiled by xDSL."""
    cls.name = f"{dialect}.{mnemonic}"
    defined = irdl_op_definition(cls)
    defined.GROUP = group
    return defined


@dataclass(frozen=True, slots=True)
class Declaring:
    """A decorator that declares an operation of a dialect: its name and its family."""

    dialect: str
    operations: dict[str, Any]  # the classes by mnemonic, in the order of definition

    def __call__(self, mnemonic: str, *, group: str) -> Callable[[_OpT], _OpT]:
        def declare(cls: _OpT) -> _OpT:
            defined = self.operations[mnemonic] = declare_op(cls, self.dialect, mnemonic, group)
            return defined

        return declare


def examples(*texts: str) -> tuple[str, ...]:
    """Kernel bodies or whole modules (see ``examples.wrap``), freed of the indentation in Python."""
    return tuple(dedent(text).strip() for text in texts)


def int_property(op: IRDLOperation, name: str) -> int:
    """The number of an integer property."""
    return property_of(op, name, IntegerAttr).value.data


def enum_property(op: Operation, name: str) -> str:
    """The keyword of an enumeration property; empty where it is absent."""
    found = op.properties.get(name)
    return found.data.value if is_enum(found) else ""


def bool_array(values: Sequence[bool]) -> DenseArrayBase:
    """Booleans as a dense array of i1, which is how MLIR stores them."""
    return DenseArrayBase.from_list(IntegerType(1), [int(v) for v in values])


def bool_values(attribute: Attribute | None) -> tuple[bool, ...]:
    """The booleans of a dense array of i1; none for no attribute."""
    if attribute is None:
        return ()
    assert isinstance(attribute, DenseArrayBase)
    return tuple(bool(v) for v in attribute.iter_values())


def is_terminator(op: Operation | None) -> bool:
    """Whether an operation ends its block; not for None, nor for operations that nobody has
    declared."""
    return op is not None and op.has_trait(IsTerminator, value_if_unregistered=False)


def ensure_terminator(region: Region, terminator: type[DeclaredOp]) -> None:
    """Append the implicit terminator, without operands, where the region's block has none."""
    if not region.blocks:
        region.add_block(Block())
    block = region.blocks[-1]
    if not is_terminator(block.last_op):
        block.add_op(terminator.create())
