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

#: The rules for each operation class, in the order in which they are tried.
RULES: dict[type[Operation], tuple[Rule, ...]] = {**VALUE_RULES, IfOp: IF_RULES}


class Rewrite(NamedTuple):
    """A rule application: the rule's name, the rewritten operation and its source location."""

    rule: str
    op: str
    location: SourceLocation | None


#: Records the rules that are applied; None disables recording.
TRACE: ContextVar[list[Rewrite] | None] = ContextVar("TRACE", default=None)


@dataclass(eq=False, repr=False)
class FirstRule(RewritePattern):
    """Erases a dead operation, or applies the first rule of a table that matches."""

    rules: dict[type[Operation], tuple[Rule, ...]]
    dead: Callable[[Operation], bool]
    trace: list[Rewrite] | None

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if self.dead(op):
            self._erase(op, rewriter)
            return
        location = None if self.trace is None else location_of(op)
        for rule in self.rules.get(type(op), ()):
            rule(op, rewriter)
            if rewriter.has_done_action:
                if self.trace is not None:
                    self.trace.append(Rewrite(rule.__name__, op.name, location))
                return

    def _erase(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Erase a dead operation, and what is dead without it.

        The walker would come back to an operand's operation only if that had one use: a chain of squares took as many
        walks over the module as it is long.
        """
        waiting = [op]
        while waiting:
            found = waiting.pop()
            if found.parent is None or not self.dead(found):
                continue
            owners = dict.fromkeys(operand.owner for operand in found.operands)
            rewriter.erase(found)
            waiting += [owner for owner in owners if isinstance(owner, Operation)]


def apply_rules(
    root: Operation,
    rules: dict[type[Operation], tuple[Rule, ...]],
    dead: Callable[[Operation], bool] = is_dead,
) -> None:
    """Apply rules below an operation until none matches, and erase ``dead`` operations.

    ``rules`` are by class; the first that changes anything counts. They must terminate: nothing limits their number.
    """
    walker = PatternRewriteWalker(FirstRule(rules, dead, TRACE.get()))
    for region in root.regions:
        walker.rewrite_region(region)


@dataclass(frozen=True)
class Canonicalize(TilePass):
    """Applies the folds and rewrites of assume, addf, select and if until none matches.

    Merges repeated assumptions, moves the product in a sum to the left, simplifies selects and ifs,
    and erases operations whose results are unused. Does not fold integer or float arithmetic.
    Results are bit-identical. Cost: near-linear, since each rewrite shrinks the program or moves it
    closer to the normal form.
    """

    name: ClassVar[str] = "canonicalize"

    def rewrite(self, root: Operation) -> None:
        apply_rules(root, RULES)
