"""What anybody may ask of an operation: the facts that it declares on its class.

What an operation does not declare is taken at its worst, and so is an operation of another dialect:
its elements may come from anywhere, it may point anywhere, and nothing may be moved across it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from xdsl.traits import IsTerminator, NoMemoryEffect, RecursiveMemoryEffect

if TYPE_CHECKING:
    from xdsl.ir import Operation, SSAValue


class Elements(Enum):
    """Where an element of the results comes from. All but ``UNKNOWN`` can be computed one position
    at a time, where they are read."""

    UNKNOWN = "anywhere"
    SAME_POSITION = "the elements of the operands at the same place"
    MADE = "its position, and operands that are scalars"
    RESHAPED = "an element of an operand, in the same row-major order"
    MOVED = "an element of an operand at another place"
    READ = "memory"


class Pointing(Enum):
    """Into whose memory the pointers among the results point."""

    ANYWHERE = "any memory"
    OPERANDS = "that of the operands that point"
    EACH = "that of the operand at the same position"
    GLOBAL = "that of the global which the operation names"
    NEW = "memory that the operation makes"
    ADDRESS = "that at an address which is computed"


class Ordering(Enum):
    """What an operation means to the accesses around it."""

    BARRIER = "accesses keep their side of it: it orders them, or runs or releases other code"
    ACCESS = "it accesses memory itself, and orders others as its semantic says"
    NONE = "it touches no memory that others access, and orders nothing"


class Extreme(Enum):
    """A number that depends on the width of the elements."""

    LOWEST = "the least signed integer"
    HIGHEST = "the greatest signed integer"

    def of(self, bits: int) -> int:
        """The number among integers of so many bits."""
        return -(1 << bits - 1) if self is Extreme.LOWEST else (1 << bits - 1) - 1


def elements(op: Operation) -> Elements:
    """Where the elements of the results come from."""
    return getattr(op, "ELEMENTS", Elements.UNKNOWN)


def same_value(op: Operation) -> SSAValue | None:
    """The operand that the only result of an operation is, as it is of a tile that other threads hold; None where the
    operation computes."""
    name: str | None = getattr(op, "SAME", None)
    return None if name is None else getattr(op, name)


def points(op: Operation) -> Pointing:
    """Into whose memory the results point."""
    return getattr(op, "POINTS", Pointing.ANYWHERE)


def meaning(op: Operation) -> str:
    """The function of ``numerics.semantics`` that gives each element; empty if there is none."""
    return getattr(op, "MEANING", "")


def cost(op: Operation) -> int:
    """What an element of the result takes, given those of the operands, where an addition is 1.

    ``ValueError`` where elements are not computed one by one.
    """
    declared: int | None = getattr(op, "COST", None)
    if declared is None:
        raise ValueError(f"'{op.name}' declares no cost")
    less: int | None = getattr(op, "COST_BY_POWER_OF_TWO", None)
    return declared if less is None or not _is_power_of_two(op.operands[-1]) else less


def _is_power_of_two(value: SSAValue) -> bool:
    """Whether a value is one, the same in all elements."""
    bits: Callable[[], Sequence[int]] | None = getattr(value.owner, "bits", None)
    numbers: set[int] = set() if bits is None else set(bits())
    return len(numbers) == 1 and all(number.bit_count() == 1 for number in numbers)


def neutral(op: Operation, bits: int) -> float | None:
    """The number that leaves every other as it is, on either side of an operation whose elements have so many
    bits: the operation commutes, and a reduction by it may begin there. NaN for those that drop a NaN.

    None where there is none, or nobody has declared it. Integers are signed: -1 has all bits set.
    """
    rounded: dict[str, float] = getattr(op, "NEUTRAL_BY_ROUNDING", {})
    mode = op.properties.get("rounding_mode")
    declared: float | Extreme | None = getattr(op, "NEUTRAL", None)
    if rounded and mode is not None:
        declared = rounded.get(str(getattr(mode, "data", mode)), declared)
    return declared.of(bits) if isinstance(declared, Extreme) else declared


def right_neutral(op: Operation, bits: int) -> float | None:
    """The number that, on the right, leaves the left operand as it is; of operations that commute :func:`neutral`.

    None where there is none. ``bits`` is the width of an element.
    """
    declared: int | None = getattr(op, "RIGHT_NEUTRAL", None)
    return neutral(op, bits) if declared is None else declared


def ordering(op: Operation) -> Ordering:
    """What an operation means to the accesses around it; regions speak for themselves."""
    declared: Ordering | None = getattr(op, "ORDERING", None)
    if declared is not None:
        return declared
    harmless = (NoMemoryEffect, RecursiveMemoryEffect, IsTerminator)
    if any(op.has_trait(trait, value_if_unregistered=False) for trait in harmless):
        return Ordering.NONE
    return Ordering.BARRIER


def runs_elsewhere(op: Operation) -> bool:
    """Whether an operation runs code that is not inside it."""
    return bool(getattr(op, "CALLS", False)) and not any(region.blocks for region in op.regions)
