"""The pass ``fuse-fma``: products with a sum become one operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Operation

from tilewright.dialects.cuda_tile.ops.floating_point import AddFOp
from tilewright.passes.base import TilePass, functions
from tilewright.passes.canonicalize import apply_rules
from tilewright.passes.laws import Rules
from tilewright.passes.matching import WORDS
from tilewright.passes.rules_values import product_to_the_left

RULES = Rules(WORDS)
# An fma rounds once, so this one changes results.
RULES.law("fuse_sum", "addf(p := mulf(a, b), c) -> fma(a, b, c) if rounds_alike(op, p)")
RULES.law(
    "fuse_difference", "subf(p := mulf(a, b), c) -> fma(a, b, negf(c)) if rounds_alike(op, p)"
)
RULES.on(AddFOp)(product_to_the_left)


@dataclass(frozen=True)
class FuseFma(TilePass):
    """Turns ``a * b + c`` and ``a * b - c`` into ``fma``. Changes results.

    An fma rounds once, mulf and addf twice, so results can differ in the last place. No pipeline
    contains this pass for that reason; users ask for it. The product must have no other use and the
    same rounding mode and flush_to_zero as the sum. ``c - a * b`` is left alone. A product on the
    right of a sum is moved to the left first. Cost: near-linear.
    """

    name: ClassVar[str] = "fuse-fma"

    def rewrite(self, root: Operation) -> None:
        for function in functions(root):
            apply_rules(function, RULES)
