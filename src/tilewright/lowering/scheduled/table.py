"""Lowering rules for tiles with layouts. An operation without one takes the rule of the direct lowering, on tiles converted
to the layout that it expects."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright.dialects import nv_tileaa
from tilewright.dialects.backends import Table

if TYPE_CHECKING:
    from tilewright.lowering.scheduled.state import ScheduledKernel

Rule = Callable[["ScheduledKernel", Any], None]

RULES: Table[Rule] = Table("the lowering of scheduled tiles", dialect=nv_tileaa.NAME)
lowers = RULES.rule
