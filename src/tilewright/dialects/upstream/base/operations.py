"""What every operation of an upstream dialect declares, and the dialects that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import AttrSizedOperandSegments

from tilewright.dialects.declare import DeclaredOp, declare_op

SEGMENTS = AttrSizedOperandSegments(as_property=True)


class UpstreamOp(DeclaredOp):
    """An operation of a dialect of upstream MLIR."""


_OpT = TypeVar("_OpT", bound=type[UpstreamOp])

#: The operations of each dialect, by mnemonic, in the order of definition.
OPERATIONS: dict[str, dict[str, type[UpstreamOp]]] = {}


def upstream_op(dialect: str, mnemonic: str) -> Callable[[_OpT], _OpT]:
    """Declare an operation of a dialect."""

    def declare(cls: _OpT) -> _OpT:
        defined = declare_op(cls, dialect, mnemonic, dialect)
        OPERATIONS.setdefault(dialect, {})[mnemonic] = defined
        return defined

    return declare


def extended(
    base: Dialect,
    operations: Iterable[type[Operation]] = (),
    attributes: Iterable[type[Attribute]] = (),
) -> Dialect:
    """A dialect with further operations and attributes, which take the place of those of the same name.

    What is declared here for the dialect, by :func:`upstream_op`, is among them.
    """
    declared = OPERATIONS.get(base.name, {}).values()
    ops = {op.name: op for op in (*base.operations, *operations, *declared)}
    attrs = {attribute.name: attribute for attribute in (*base.attributes, *attributes)}
    return Dialect(base.name, list(ops.values()), list(attrs.values()))
