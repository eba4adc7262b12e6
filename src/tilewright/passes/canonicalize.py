"""The pass ``canonicalize``: brings programs into the normal form of Tile IR."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern

from tilewright.diagnostics import SourceLocation
from tilewright.dialects.cuda_tile.ops.control_flow import IfOp
from tilewright.dialects.source_map import location_of
from tilewright.passes.base import TilePass
from tilewright.passes.effects import is_dead
from tilewright.passes.laws import Rule
from tilewright.passes.rules_if import IF_RULES
from tilewright.passes.rules_values import VALUE_RULES

#: Every rule, by the operation that it looks at, in the order in which they are tried.
RULES: dict[type[Operation], tuple[Rule, ...]] = {**VALUE_RULES, IfOp: IF_RULES}


class Rewrite(NamedTuple):
    """A rule that was applied: its name, the operation that it has rewritten, and where that stood."""

    rule: str
    op: str
    location: SourceLocation | None


#: Where rules that are applied are noted; None where nobody asks.
TRACE: ContextVar[list[Rewrite] | None] = ContextVar("TRACE", default=None)


@dataclass(eq=False, repr=False)
class FirstRule(RewritePattern):
    """Erases a dead operation, or applies the first rule of a table that fits."""

    rules: dict[type[Operation], tuple[Rule, ...]]
    dead: Callable[[Operation], bool]
    trace: list[Rewrite] | None

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if self.dead(op):
            rewriter.erase(op)
            return
        location = None if self.trace is None else location_of(op)
        for rule in self.rules.get(type(op), ()):
            rule(op, rewriter)
            if rewriter.has_done_action:
                if self.trace is not None:
                    self.trace.append(Rewrite(rule.__name__, op.name, location))
                return


def apply_rules(
    root: Operation,
    rules: dict[type[Operation], tuple[Rule, ...]],
    dead: Callable[[Operation], bool] = is_dead,
) -> None:
    """Apply rules below an operation until none fits; operations left ``dead`` are erased."""
    walker = PatternRewriteWalker(FirstRule(rules, dead, TRACE.get()))
    for region in root.regions:
        walker.rewrite_region(region)


@dataclass(frozen=True)
class Canonicalize(TilePass):
    """Applies the folds and rewrites of assume, addf, select and if until none fits.

    What it does: merges repeated assumptions, puts the product of a sum on the left, simplifies
    selects and ifs, and erases operations whose results nothing uses. Integers and floats are not
    computed at compile time. Values stay exactly the same. Cost: near-linear; each rewrite makes
    the program smaller or brings it closer to the form.
    """

    name: ClassVar[str] = "canonicalize"

    def rewrite(self, root: Operation) -> None:
        apply_rules(root, RULES)
