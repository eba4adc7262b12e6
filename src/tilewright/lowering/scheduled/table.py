"""The rules for tiles with layouts; what has none is lowered as without a schedule, on tiles in the
layout that those rules assume."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tilewright.lowering.scheduled.state import ScheduledKernel

Rule = Callable[["ScheduledKernel", Any], None]

#: By the full name of the operation.
RULES: dict[str, Rule] = {}
_R = TypeVar("_R", bound=Rule)


def lowers(*names: str) -> Callable[[_R], _R]:
    """Enter a rule for the operations of these full names."""

    def enter(rule: _R) -> _R:
        for name in names:
            assert name not in RULES, name
            RULES[name] = rule
        return rule

    return enter
