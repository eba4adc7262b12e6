"""Which loop nests read the result of a load."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tilewright.cpu.codegen.analysis import cost_model
from tilewright.cpu.codegen.analysis.plan import Plan

#: So many values are looked at; what is read by more counts as read several times.
_MOST = 64


def is_read_once(plan: Plan, value: SSAValue) -> bool:
    """Whether one nest alone reads a value: all that is computed of it ends in one reduction or store, or in
    stores that are made together, and nothing of it in a buffer, from which others read."""
    if value in plan.kept:
        return False
    found: set[Operation] = set()
    pending, seen = [value], {value}
    while pending:
        if len(seen) > _MOST:
            return False
        for use in pending.pop().uses:
            user = use.operation
            if not cost_model.is_deferred(user):
                found.add(plan.leader(user))
                continue
            new = [result for result in user.results if result not in seen]
            if any(result in plan.kept for result in new):
                return False
            seen.update(new)
            pending += new
    return len(found) == 1
