"""The matrix-product part of the state of generating a kernel, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from xdsl.ir import Operation

from tilewright.cpu.codegen.ir.elements import Element
from tilewright.cpu.codegen.ir.types import Value
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.memory import TiledLoadOp, TiledStoreOp


class Side(Enum):
    """The operands of a product."""

    LEFT = "left"
    RIGHT = "right"

    @property
    def other(self) -> Side:
        """The one that this one is multiplied by."""
        return Side.RIGHT if self is Side.LEFT else Side.LEFT


OperandOf = tuple[DotOp, Side]
"""An operand of a product."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """A product of a loop, and of how many iterations it is made at once at most.

    ``left_bytes`` and ``right_bytes`` are the sizes of one tile of each factor in the form that the
    kernel reads.
    """

    loop: Operation
    most: int
    left_bytes: int
    right_bytes: int


@dataclass(frozen=True, slots=True)
class Gathered:
    """The iterations of a loop that a product still has to be made of.

    ``count``, ``begun`` and ``cut`` are cells: how many there are, whether some have been multiplied,
    and whether some have fewer terms than their tiles.
    ``left`` and ``right``: room for copies of the factors, one of each for every round; None where the
    right one lies elsewhere.
    """

    table: Value
    count: Value
    begun: Value
    cut: Value
    left: Value
    right: Value | None


@dataclass(frozen=True, slots=True)
class PackedOperand:
    """The panels of one operand of a product: where tags and panels begin in the arena, and how many there are.

    ``loop`` is that whose rounds have slots of their own, ``load`` where the operand comes from.
    """

    load: TiledLoadOp
    loop: Operation | None
    slots: int
    words: int
    panel_bytes: int
    tags_at: int
    panels_at: int


@dataclass(frozen=True, slots=True)
class RunningSum:
    """A product that adds to what its loop hands on at a position; without a loop one that is made at once.

    ``fresh``: the loop begins with zero, which only the product reads. ``store``: takes the sum when
    the loop is over, and nothing else does.
    """

    loop: Operation | None
    position: int
    fresh: bool
    store: TiledStoreOp | None


Axes = tuple[int | None, int | None]
"""Which axes of a tile are the rows and the columns of a product; None for one that has a single element."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The stores that alone observe a product, with the axes of what they store; ``anchor``: the operation
    of their block that the product is in."""

    stores: tuple[tuple[TiledStoreOp, Axes], ...]
    anchor: Operation


@dataclass(frozen=True, slots=True)
class Extents:
    """How many rows, columns and terms of a product there are to compute, one at least; None where that is
    all."""

    rows: Value | None = None
    columns: Value | None = None
    depth: Value | None = None


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the last product of a loop writes elements of a type, to which it rounds its sums.

    ``there`` is a cell that says, when the loop is over, whether it did; it does if ``possible``.
    """

    element: Element
    pointer: Value
    step: Value
    possible: Value
    there: Value


@dataclass(frozen=True, slots=True)
class Round:
    """The induction value of the iteration that a loop is in, and its range."""

    counter: Value
    lower: Value
    upper: Value
    step: Value
