"""What every operation of ``cuda_tile`` declares beyond what operations of all dialects do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, TypeVar

from xdsl.ir import SSAValue

from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.type_syntax import TYPE_SYNTAX
from tilewright.dialects.declare import (
    DeclaredOp,
    declare_op,
)
from tilewright.dialects.versions import V13_1, Version


class TileOp(DeclaredOp):
    """An operation of ``cuda_tile``.

    Operands, results, properties and regions are xDSL fields, in bytecode order. Beside what
    every declared operation has:

    * ``OPCODE`` and ``SINCE``: the bytecode number and the first version that has it;
    * ``SINCE_OF``: fields younger than the operation;
    * ``RESULT_NAMES``: the value names that the reference tools print;
    * ``ALIASES``: older mnemonics.

    ``EXAMPLES`` are bodies of an entry that use the operation, in the setting of ``examples.wrap``.
    """

    TYPE_SYNTAX: ClassVar = TYPE_SYNTAX
    OPCODE: ClassVar[int | None] = None
    SINCE: ClassVar[Version] = V13_1
    SINCE_OF: ClassVar[Mapping[str, Version]] = {}
    RESULT_NAMES: ClassVar[tuple[str, ...]] = ()
    ALIASES: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def since_of(cls, field: str) -> Version:
        """The first version that has a field of the operation."""
        return cls.SINCE_OF.get(field, cls.SINCE)

    def result_name(self, index: int) -> str | None:
        """The name that the reference tools give a result, or None for a number."""
        if not self.RESULT_NAMES:
            return None
        return self.RESULT_NAMES[min(index, len(self.RESULT_NAMES) - 1)]


_OpT = TypeVar("_OpT", bound=type[TileOp])

#: Every operation, by mnemonic, in the order of definition.
OPERATIONS: dict[str, type[TileOp]] = {}


def tile_op(
    mnemonic: str, *, opcode: int | None, since: Version = V13_1, group: str
) -> Callable[[_OpT], _OpT]:
    """Declare an operation: its name, bytecode number, first version and chapter of the specification.

    ``opcode`` is None for one that no bytecode has. Enters the class into ``OPERATIONS``.
    """

    def declare(cls: _OpT) -> _OpT:
        defined = declare_op(cls, "cuda_tile", mnemonic, group)
        defined.OPCODE = opcode
        defined.SINCE = since
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
