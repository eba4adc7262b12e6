"""What a failed assertion compared: the elements on both sides, noted while the kernel runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tilewright.diagnostics import Note, TileIRError
from tilewright.dialects.cuda_tile.base import enum_property
from tilewright.dialects.cuda_tile.enums import ComparisonPredicate, Signedness
from tilewright.dialects.cuda_tile.ops.control_flow import AssertOp
from tilewright.dialects.cuda_tile.ops.floating_point import CmpFOp
from tilewright.dialects.cuda_tile.ops.integer import CmpIOp
from tilewright.dialects.cuda_tile.types import TileType
from tilewright.launching.assertions import AssertionFailure
from tilewright.launching.assertions import assertion_error as plain_error
from tilewright.machine.inspect.stops import format_elements
from tilewright.numerics.arrays import Array

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from tilewright.machine.compile import Translator
    from tilewright.machine.hooks import Hook
    from tilewright.machine.inspect.stops import When
    from tilewright.machine.values import Registers

_SYMBOLS: Mapping[str, str] = {
    ComparisonPredicate.EQUAL: "==",
    ComparisonPredicate.NOT_EQUAL: "!=",
    ComparisonPredicate.LESS_THAN: "<",
    ComparisonPredicate.LESS_THAN_OR_EQUAL: "<=",
    ComparisonPredicate.GREATER_THAN: ">",
    ComparisonPredicate.GREATER_THAN_OR_EQUAL: ">=",
}


@dataclass(slots=True)
class AssertionWatcher:
    """Looks at the operands of a comparison when an assertion of it has failed.

    ``compared`` has the text of the comparison for each failure of the launch, by number.
    """

    compared: dict[int, str] = field(default_factory=dict)
    _seen: int = 0

    def clear(self) -> None:
        self.compared.clear()
        self._seen = 0

    def hook(self, op: Operation, t: Translator, when: When) -> Hook | None:
        if not isinstance(op, AssertOp) or when != "after":
            return None
        comparison = op.condition.owner
        if not isinstance(comparison, CmpIOp | CmpFOp):
            return None
        machine = t.machine
        left, right = t.slot(comparison.lhs), t.slot(comparison.rhs)

        def hook(regs: Registers) -> None:
            for number in range(self._seen, len(machine.failures)):
                index = machine.failures[number].index
                self.compared[number] = _shown(comparison, regs[left][index], regs[right][index])
            self._seen = len(machine.failures)

        return hook


def _shown(comparison: CmpIOp | CmpFOp, left: Array, right: Array) -> str:
    ty = comparison.lhs.type
    assert isinstance(ty, TileType)
    sides = [np.asarray(left), np.asarray(right)]
    if (
        isinstance(comparison, CmpIOp)
        and enum_property(comparison, "signedness") == Signedness.UNSIGNED
    ):
        sides = [s.view(f"u{s.itemsize}") if s.dtype.kind == "i" else s for s in sides]
    one, two = (format_elements(side, ty.element) for side in sides)
    return (
        f"{one} {_SYMBOLS[enum_property(comparison, 'comparison_predicate')]} {two} does not hold"
    )


def assertion_error(
    failures: Sequence[AssertionFailure], compared: Mapping[int, str]
) -> TileIRError:
    """The error for failed assertions, with what they compared."""
    error = plain_error(failures)
    return TileIRError(
        diagnostic.with_notes(Note(compared[number])) if number in compared else diagnostic
        for number, diagnostic in enumerate(error.diagnostics)
    )
