"""``tileaa-canonicalize``: brings ``nv_tileaa`` into its normal form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Operation

from tilewright.dialects import arith
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.passes.canonicalize import Rule, apply_rules
from tilewright.passes.tileaa.base import TileAAPass
from tilewright.passes.tileaa.cleanup import erase_dead
from tilewright.passes.tileaa.effects import is_dead
from tilewright.passes.tileaa.rules_control import CONTROL_RULES
from tilewright.passes.tileaa.rules_folding import FOLDING_RULES, fold_constants
from tilewright.passes.tileaa.rules_memory import MEMORY_RULES
from tilewright.passes.tileaa.rules_queues import QUEUE_RULES
from tilewright.passes.tileaa.rules_shapes import SHAPE_RULES


def _all_rules() -> dict[type[Operation], tuple[Rule, ...]]:
    """Return the rules for each operation class, in the order in which they are tried."""
    rules: dict[type[Operation], tuple[Rule, ...]] = {
        cls: (fold_constants,) for cls in arith.OPERATIONS.values() if cls is not arith.ConstantOp
    }
    for table in (FOLDING_RULES, SHAPE_RULES, MEMORY_RULES, QUEUE_RULES, CONTROL_RULES):
        for cls, more in table.items():
            rules[cls] = (*rules.get(cls, ()), *more)
    return rules


RULES = _all_rules()


@dataclass(frozen=True)
class TileAACanonicalize(TileAAPass):
    """Applies the folds of ``nv_tileaa`` and its arithmetic until none matches.

    Folds constants; merges consecutive splats, views, permutations, assumptions, casts and pointer
    offsets; extracts elements before doing arithmetic on them; drops constant masks and unused queue
    values; turns atomics that write nothing into reads; flattens token joins; takes the branch of a
    constant condition, and puts the body of a loop that runs once in its place. Results are
    bit-identical. Cost: near-linear, since each rewrite shrinks the program or moves it closer to
    the normal form.
    """

    name: ClassVar[str] = "tileaa-canonicalize"

    def rewrite_function(self, function: FuncOp) -> None:
        apply_rules(function, RULES, is_dead)
        erase_dead(function)
