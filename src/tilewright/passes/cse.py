"""The pass ``cse``: computes each value once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsolatedFromAbove

from tilewright.passes.base import TilePass
from tilewright.passes.dce import erase_dead
from tilewright.passes.effects import is_removable


@dataclass(frozen=True)
class CommonSubexpressionElimination(TilePass):
    """Replaces an effect-free operation by an equal one that dominates it.

    Operations are equal if they are of one kind and have the same operands, attributes and result
    types; if, for, reduce and scan also need bodies that are equal up to the names of values. The
    first of several equal operations stays and keeps its source location. Dead operations are erased
    first. Memory operations, assume, alloca, assert and print_tko are left alone. Cost: linear in
    the number of operations, times the nesting depth for those with bodies.
    """

    name: ClassVar[str] = "cse"

    def rewrite(self, root: Operation) -> None:
        erase_dead(root)
        merge_equal(root, is_removable)


def merge_equal(root: Operation, mergeable: Callable[[Operation], bool]) -> None:
    """Replace each mergeable operation below ``root`` by an equal one that dominates it.

    Equal are operations of one class with the same operands, properties, attributes and result types, and with bodies
    that are equal up to the names of values. ``mergeable`` must exclude those with effects.
    """
    known = _Known(mergeable)
    for region in root.regions:
        for block in region.blocks:
            for op, earlier in _repeated(block, known):
                _replace(op, earlier)


def any_equal(root: Operation, mergeable: Callable[[Operation], bool]) -> bool:
    """Whether ``merge_equal`` would replace an operation."""
    known = _Known(mergeable)
    return any(
        True for region in root.regions for block in region.blocks for _ in _repeated(block, known)
    )


@dataclass(slots=True)
class _Known:
    """The available operations by key. Those of a block are forgotten when the block ends."""

    mergeable: Callable[[Operation], bool]
    first: dict[Hashable, Operation] = field(default_factory=dict[Hashable, Operation])
    added: list[Hashable] = field(default_factory=list[Hashable])

    def forget_to(self, mark: int) -> None:
        while len(self.added) > mark:
            del self.first[self.added.pop()]


@dataclass(slots=True)
class _Frame:
    """A block being walked: the next operation, and what was available when the block began."""

    op: Operation | None
    known: _Known
    mark: int
    entered: bool = False


def _repeated(block: Block, known: _Known) -> Iterator[tuple[Operation, Operation]]:
    """The operations in a block and everything below it that an equal one dominates, with that one. Each may be erased once it is
    given. Uses a stack, not recursion."""
    frames = [_Frame(block.first_op, known, len(known.added))]
    while frames:
        frame = frames[-1]
        op = frame.op
        if op is None:
            frame.known.forget_to(frame.mark)
            frames.pop()
            continue
        if op.regions and not frame.entered:
            frame.entered = True
            isolated = op.has_trait(IsolatedFromAbove, value_if_unregistered=True)
            inner = _Known(frame.known.mergeable) if isolated else frame.known
            frames += [
                _Frame(b.first_op, inner, len(inner.added))
                for region in reversed(op.regions)
                for b in reversed(region.blocks)
            ]
            continue
        frame.op, frame.entered = op.next_op, False
        earlier = _earlier(op, frame.known)
        if earlier is not None:
            yield op, earlier


def _earlier(op: Operation, known: _Known) -> Operation | None:
    """An equal operation that dominates this one; where there is none, this one is known from here on."""
    if not known.mergeable(op):
        return None
    key = _key(op)
    earlier = known.first.get(key)
    if earlier is None:
        known.first[key] = op
        known.added.append(key)
    return earlier


def _replace(op: Operation, earlier: Operation) -> None:
    for old, new in zip(op.results, earlier.results, strict=True):
        old.replace_all_uses_with(new)
    assert op.parent is not None
    op.parent.erase_op(op)


def _key(op: Operation) -> Hashable:
    """Return a key that is equal for operations that compute the same values."""
    numbers: dict[SSAValue, int] = {}
    return tuple(_parts(op, numbers))


def _parts(op: Operation, numbers: dict[SSAValue, int]) -> Iterator[Hashable]:
    """Yield what identifies an operation and its regions. Values defined inside are numbered."""
    for inner in op.walk():
        yield type(inner), len(inner.operands), tuple(inner.result_types), len(inner.regions)
        yield from (numbers.get(value, value) for value in inner.operands)
        yield frozenset(inner.properties.items())
        yield frozenset(inner.attributes.items())
        for result in inner.results if inner is not op else ():
            numbers[result] = len(numbers)
        for region in inner.regions:
            yield len(region.blocks)
            for block in region.blocks:
                yield tuple(block.arg_types), len(block.ops)
                for argument in block.args:
                    numbers[argument] = len(numbers)
