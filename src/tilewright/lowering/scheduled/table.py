"""The rules for tiles with layouts; what has none is lowered as without a schedule, on tiles in the
layout that those rules assume."""

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
