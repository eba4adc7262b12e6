"""Prints a module for reading: without the assumptions about values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.ir import Operation, SSAValue

from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp
from tilewright.passes.base import clone_with_locations
from tilewright.text import Listing, list_text
from tilewright.text.naming import Names, as_python

_ASSUMPTIONS = frozenset({"cuda_tile.assume", AssumeOp.name})


def is_assumption(op: Operation) -> bool:
    """Whether an operation only states facts about its operand."""
    return op.name in _ASSUMPTIONS


def folded_listing(module: Operation) -> Listing:
    """Print a module without assumptions: their users refer to the underlying values instead.

    Names are shown as in Python (``%q.shape[0]``). An assumption counts as being on the line of the
    operation that defines its underlying value, and has its name.
    """
    values: dict[SSAValue, SSAValue] = {}
    copy = clone_with_locations(module, values)
    twins = dict(zip(module.walk(), copy.walk(), strict=True))
    for op, twin in twins.items():
        if is_assumption(op):
            twin.results[0].replace_all_uses_with(twin.operands[0])
    for op, twin in twins.items():
        if is_assumption(op):
            twin.detach()
            twin.erase()
    listing = list_text(copy)
    # Terminators that the text omits have no line.
    line_of = {op: listing.line_of[t] for op, t in twins.items() if t in listing.line_of}
    for op in twins:
        if is_assumption(op):
            line_of[op] = line_of[_definer(about(op.results[0]))]
    return Listing(as_python(listing.text), line_of, Names(dict(_names(values, listing))))


def about(value: SSAValue) -> SSAValue:
    """Return the value below all assumptions about it."""
    while isinstance(op := value.owner, Operation) and is_assumption(op):
        value = op.operands[0]
    return value


def _definer(value: SSAValue) -> Operation:
    """Return the operation on whose line a value is printed."""
    owner = value.owner
    if isinstance(owner, Operation):
        return owner
    parent = owner.parent_op()
    assert parent is not None
    return parent


def _names(values: Mapping[SSAValue, SSAValue], listing: Listing) -> Iterator[tuple[int, str]]:
    for old in values:
        yield id(old), as_python(listing.name(values[about(old)]))
