"""The memory order that a program needs, as opposed to the order its tokens state."""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.analysis.tileaa.provenance import Aliases
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.memory import Load


def synchronises(op: Operation) -> bool:
    """Whether other effects may be ordered through this one, whatever memory they access."""
    return not isinstance(op, Access) or not op.is_weak


def writes(op: Operation) -> bool:
    """Whether an effect may change memory; among accesses, all but loads."""
    return not isinstance(op, Load)


def must_stay(first: Operation, second: Operation, aliases: Aliases) -> bool:
    """Whether an order that tokens impose on two effects must be kept.

    It need not be kept between weak accesses that only read, or that never touch a common byte. Anything
    that other blocks can synchronize with, and every print and assertion, keeps its order.
    """
    if synchronises(first) or synchronises(second):
        return True
    return (writes(first) or writes(second)) and aliases.may_alias(first, second)
