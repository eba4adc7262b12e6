"""The values named so far in a text: definitions, forward references, poison.

A single table holds the visible names. A region removes its definitions when it ends, so entering a
region is free, however many values are visible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Attribute, Block, SSAValue
from xdsl.parser import ForwardDeclaredValue

from tilewright.diagnostics import define_code

UNDEFINED_VALUE = define_code(
    "undefined-value",
    "A value is used that is not defined in this scope.",
    "Values are visible from their definition to the end of the region that defines them, and in "
    "regions inside it. Kernels see no values from outside.",
)
REDEFINITION = define_code("redefined-value", "Two values have the same name in one scope.")
TYPE_CONFLICT = define_code(
    "value-type-mismatch",
    "The type written for a value differs from its type.",
    "The text of an operation repeats the types of its operands, which must match their "
    "definitions.",
)

#: (start, end) offsets in the text.
Range = tuple[int, int]


@dataclass(slots=True)
class Definition:
    """A visible name. ``values`` is None for poison: the result of an operation with an error."""

    values: Sequence[SSAValue] | None
    place: Range


#: The owner of values without a definition.
_NOWHERE = Block()


class PendingValue(ForwardDeclaredValue):
    """A value without a definition (yet). Rules that look at its owner see a block."""

    @property
    def owner(self) -> Block:
        return _NOWHERE


@dataclass(slots=True)
class Forward:
    """A value used before its definition; ``depth`` is that of the outermost region with a use."""

    value: PendingValue
    first_use: Range
    depth: int


@dataclass(slots=True)
class ValueScope:
    """The names of one isolated operation, or of the file."""

    visible: dict[str, Definition] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    forward: dict[str, dict[int, Forward]] = field(default_factory=dict)
    ended: dict[str, Range] = field(default_factory=dict)

    def define(self, name: str, definition: Definition) -> None:
        """Bind a name to its definition until the enclosing scope is left."""
        self.visible[name] = definition
        self.order.append(name)

    def leave(self, mark: int) -> None:
        """Remove the names defined since ``order`` had length ``mark``."""
        for name in self.order[mark:]:
            self.ended[name] = self.visible.pop(name).place
        del self.order[mark:]

    def refer(self, name: str, index: int, ty: Attribute, place: Range, depth: int) -> Forward:
        """Return the forward reference of a name, created at its first use."""
        uses = self.forward.setdefault(name, {})
        known = uses.get(index)
        if known is None:
            known = uses[index] = Forward(PendingValue(ty), place, depth)
        known.depth = min(known.depth, depth)
        return known


def poison(ty: Attribute) -> SSAValue:
    """Return a placeholder for a value that an error left undefined."""
    return PendingValue(ty)
