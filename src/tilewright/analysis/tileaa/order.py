"""The token order that a program needs, as opposed to the order it states."""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.analysis.tileaa.provenance import Aliases
from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa.base import is_set
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.memory import Load


def synchronises(op: Operation) -> bool:
    """Whether other effects may be ordered through this one, whatever memory they touch."""
    if not isinstance(op, Access):
        return True
    semantic = enum_property(op, "mem_semantic") or op.SEMANTICS[0]
    return semantic != "weak" or is_set(op, "volatile")


def writes(op: Operation) -> bool:
    """Whether an effect may change memory; of accesses, all but loads."""
    return not isinstance(op, Load)


def must_stay(first: Operation, second: Operation, aliases: Aliases) -> bool:
    """Whether an order that tokens give to two effects has a meaning.

    It has none between weak accesses that only read, or that never touch a common byte. Anything
    that other blocks can wait for, and every print and assertion, keeps its place.
    """
    if synchronises(first) or synchronises(second):
        return True
    return (writes(first) or writes(second)) and aliases.may_alias(first, second)
