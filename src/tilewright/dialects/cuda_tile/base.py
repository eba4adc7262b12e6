"""What every operation of ``cuda_tile`` declares, and the relations between its values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

from xdsl.dialects.builtin import DenseArrayBase, IntegerType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.dialects.source_map import Part
from tilewright.dialects.syntax.engine import SyntaxOp, values_of
from tilewright.dialects.versions import V13_1, Version

TYPE_RELATION = define_code(
    "type-relation",
    "Operands and results of an operation must agree in type, shape, rank or element type.",
)


@dataclass(frozen=True, slots=True)
class Related:
    """A further operation that a finding points at."""

    message: str
    op: Operation
    part: Part | None = None


class Report(Protocol):
    """Takes the findings about one operation."""

    def error(
        self,
        code: str,
        message: str,
        part: Part | None = None,
        *,
        notes: Sequence[Related] = (),
        help: str = "",
    ) -> None: ...

    def warning(
        self,
        code: str,
        message: str,
        part: Part | None = None,
        *,
        notes: Sequence[Related] = (),
        help: str = "",
    ) -> None: ...


class FirstError:
    """A report that raises xDSL's exception at the first error: for stock tools."""

    def error(
        self,
        code: str,
        message: str,
        part: Part | None = None,
        *,
        notes: Sequence[Related] = (),
        help: str = "",
    ) -> None:
        raise VerifyException(message)

    def warning(
        self,
        code: str,
        message: str,
        part: Part | None = None,
        *,
        notes: Sequence[Related] = (),
        help: str = "",
    ) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Relation:
    """Values of some groups that must agree in one respect."""

    what: str
    groups: tuple[str, ...]
    key: Callable[[Attribute], object]

    def check(self, op: IRDLOperation, report: Report) -> None:
        first: tuple[str, SSAValue] | None = None
        for group in self.groups:
            for index, value in enumerate(values_of(op, group)):
                if first is None:
                    first = (group, value)
                elif self.key(value.type) != self.key(first[1].type):
                    report.error(
                        TYPE_RELATION,
                        f"'cuda_tile.{op.name.removeprefix('cuda_tile.')}' op failed to verify "
                        f"that all of {{{', '.join(self.groups)}}} have same {self.what}: "
                        f"'{first[0]}' is '{format_type(first[1].type)}', '{group}' is "
                        f"'{format_type(value.type)}'",
                        part_of(op, group, index),
                    )
                    return

    def __str__(self) -> str:
        return f"{', '.join(self.groups)} have the same {self.what}"


def same_type(*groups: str) -> Relation:
    return Relation("type", groups, lambda ty: ty)


def same_shape(*groups: str) -> Relation:
    return Relation("shape", groups, lambda ty: getattr(ty, "dims", None))


def same_rank(*groups: str) -> Relation:
    return Relation("rank", groups, lambda ty: getattr(ty, "rank", None))


def same_element_type(*groups: str) -> Relation:
    return Relation("element type", groups, lambda ty: getattr(ty, "element_type", None))


def part_of(op: IRDLOperation, group: str, index: int = 0) -> Part:
    """The part that names a value of an operand or result group."""
    definition = op.get_irdl_definition()
    kind = "operand" if any(name == group for name, _ in definition.operands) else "type"
    return (kind, group, index)


def operand(group: str, index: int = 0) -> Part:
    return ("operand", group, index)


def type_of(group: str, index: int = 0) -> Part:
    return ("type", group, index)


def attr(name: str) -> Part:
    return ("attr", name, 0)


class TileOp(SyntaxOp):
    """An operation of ``cuda_tile``.

    Operands, results, properties and regions are xDSL fields, in bytecode order. Beside them:

    * ``OPCODE`` and ``SINCE``: the bytecode number and the first version that has it;
    * ``SINCE_OF``: fields younger than the operation;
    * ``GROUP``: the chapter of the specification;
    * ``RELATIONS``: what operands and results must have in common;
    * ``RESULT_NAMES``: the value names that the reference tools print;
    * ``EXAMPLES``: bodies of an entry that use the operation;
    * ``UNDEFINED``: in words, when executing it is undefined behaviour;
    * ``check``: the verifier rules that fields and relations do not say.

    The docstring is the operation's meaning; ``tilewright explain`` prints all of this.
    """

    OPCODE: ClassVar[int | None] = None
    SINCE: ClassVar[Version] = V13_1
    SINCE_OF: ClassVar[Mapping[str, Version]] = {}
    GROUP: ClassVar[str] = ""
    RELATIONS: ClassVar[tuple[Relation, ...]] = ()
    RESULT_NAMES: ClassVar[tuple[str, ...]] = ()
    EXAMPLES: ClassVar[tuple[str, ...]] = ()
    UNDEFINED: ClassVar[tuple[str, ...]] = ()
    ALIASES: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def mnemonic(cls) -> str:
        return cls.name.removeprefix("cuda_tile.")

    @classmethod
    def since_of(cls, field: str) -> Version:
        """The first version that has a field of the operation."""
        return cls.SINCE_OF.get(field, cls.SINCE)

    def check(self, report: Report) -> None:
        """Report what is wrong beyond types of operands and relations."""

    def result_name(self, index: int) -> str | None:
        """The name that the reference tools give a result, or None for a number."""
        if not self.RESULT_NAMES:
            return None
        return self.RESULT_NAMES[min(index, len(self.RESULT_NAMES) - 1)]

    def verify_(self) -> None:
        report = FirstError()
        for relation in self.RELATIONS:
            relation.check(self, report)
        self.check(report)


_OpT = TypeVar("_OpT", bound=type[TileOp])

#: Every operation, by mnemonic, in the order of definition.
OPERATIONS: dict[str, type[TileOp]] = {}


def tile_op(
    mnemonic: str, *, opcode: int | None, since: Version = V13_1, group: str
) -> Callable[[_OpT], _OpT]:
    """Declare an operation: its name, bytecode number, first version and chapter."""

    def declare(cls: _OpT) -> _OpT:
        cls.name = f"cuda_tile.{mnemonic}"
        defined = irdl_op_definition(cls)
        defined.OPCODE = opcode
        defined.SINCE = since
        defined.GROUP = group
        OPERATIONS[mnemonic] = defined
        return defined

    return declare


def tile_type(value: SSAValue) -> T.TileType | None:
    """The tile type of a value, or None where another rule reports that it is none."""
    ty = value.type
    return ty if isinstance(ty, T.TileType) else None


def tile_types(*values: SSAValue) -> tuple[T.TileType, ...] | None:
    """The tile types of values, or None unless all are tiles."""
    found = tuple(ty for v in values if (ty := tile_type(v)) is not None)
    return found if len(found) == len(values) else None


def int_property(op: IRDLOperation, name: str) -> int:
    return op.properties[name].value.data  # pyright: ignore[reportAttributeAccessIssue]


def enum_property(op: IRDLOperation, name: str) -> str:
    """The keyword of an enumeration property; empty where it is absent."""
    found = op.properties.get(name)
    return "" if found is None else found.data.value  # pyright: ignore[reportAttributeAccessIssue]


def bool_array(values: Sequence[bool]) -> DenseArrayBase:
    return DenseArrayBase.from_list(IntegerType(1), [int(v) for v in values])


def bool_values(attribute: Attribute | None) -> tuple[bool, ...]:
    if attribute is None:
        return ()
    assert isinstance(attribute, DenseArrayBase)
    return tuple(bool(v) for v in attribute.iter_values())


def is_terminator(op: Operation | None) -> bool:
    return op is not None and op.has_trait(IsTerminator, value_if_unregistered=False)


def ensure_terminator(region: Region, terminator: type[TileOp]) -> None:
    """Append the implicit terminator, without operands, where the region's block has none."""
    if not region.blocks:
        region.add_block(Block())
    block = region.blocks[-1]
    if not is_terminator(block.last_op):
        block.add_op(terminator.create())
