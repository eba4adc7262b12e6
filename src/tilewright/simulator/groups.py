"""Groups of warps of a block that execute the same steps together, with all their lanes on one axis.

A group holds the registers of its warps side by side. Steps that support any number of lanes run once for all; the
others run warp by warp, on slices of these registers. If one warp would do something that another does not (a branch
that suspends, a wait), the group splits, and warps that wait at the same barrier form a group again afterwards. Clocks,
copies, products and counters are per warp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.numerics.arrays import Array
from tilewright.simulator.faults import OneByOne
from tilewright.simulator.memory import MemRef
from tilewright.simulator.state import WARP_SIZE, Block, Launch, Warp


class Apart(tuple[Any, ...]):
    """Objects that differ between the warps of a group: thread-local memory, accumulators."""

    def __getattr__(self, name: str) -> Any:
        raise OneByOne


def part(value: Any, number: int) -> Any:
    """The part of a group's value that belongs to one of its warps."""
    if isinstance(value, np.ndarray):
        found = value[number * WARP_SIZE : (number + 1) * WARP_SIZE]
        return _number(found) if found.ndim == 1 and found.dtype.kind in "bi" else found
    if isinstance(value, Apart):
        return value[number]
    if isinstance(value, MemRef) and not (type(value.offset) is type(value.base) is int):
        offset, base = part(value.offset, number), part(value.base, number)
        return MemRef(value.buffer, offset, value.sizes, value.strides, base)
    return value


def _number(found: Array) -> Any:
    """Lanes as a number if they are all the same."""
    first = found[0]
    if (found == first).all():
        return first.item()
    return found


def join(values: Sequence[Any]) -> Any:
    """The value of a group from those of its warps; None if one of them has none."""
    first = values[0]
    if not isinstance(first, np.ndarray):
        if all(value is first for value in values):
            return first
        if all(isinstance(value, int | np.ndarray) for value in values):
            return _joined_numbers(values)
        if any(value is None for value in values):
            return None
        if isinstance(first, MemRef):
            return _joined_memrefs(values)
        return Apart(values)
    if any(value is None for value in values):
        return None
    return _joined_numbers(values)


def _joined_numbers(values: Sequence[Any]) -> Any:
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    if not arrays:
        if all(value == values[0] for value in values):
            return values[0]
        dtype: Any = np.bool_ if isinstance(values[0], bool) else np.int64
        return np.repeat(np.array(values, dtype), WARP_SIZE)
    dtype = arrays[0].dtype
    return np.concatenate(
        [v if isinstance(v, np.ndarray) else np.full(WARP_SIZE, v, dtype) for v in values]
    )


def _joined_memrefs(values: Sequence[Any]) -> Any:
    first = values[0]
    for value in values:
        same = isinstance(value, MemRef) and value.buffer is first.buffer
        if not same or (value.sizes, value.strides) != (first.sizes, first.strides):
            return Apart(values)
    offset = join([value.offset for value in values])
    base = join([value.base for value in values])
    return MemRef(first.buffer, offset, first.sizes, first.strides, base)


def widened(value: Any, warps: int) -> Any:
    """A value that ``warps`` warps have in common, as a group holds it: arrays with the lane axis repeated."""
    return np.concatenate([value] * warps) if isinstance(value, np.ndarray) else value


class Group(Warp):
    """Full warps of a block, in ascending order, that run together.

    ``time`` is what has passed since the last ``settle``.
    """

    __slots__ = ("_masked", "_present", "clock_indices", "rows")

    def __init__(
        self,
        launch: Launch,
        block: Block,
        members: tuple[Warp, ...],
        registers: list[Any],
    ):
        size = WARP_SIZE * len(members)
        everyone = np.ones(size, np.bool_)
        first = members[0]
        super().__init__(
            launch, block, first.index, first.clock_index, registers, everyone, everyone, size,
            first.clock, first.fenced,
        )  # fmt: skip
        self.members, self.size = members, size
        self.steps = max(member.steps for member in members)
        self.weight = first.weight
        x, y, z = (join([member.thread[axis] for member in members]) for axis in range(3))
        self.thread = x, y, z
        self.clock_indices = tuple(member.clock_index for member in members)
        self.rows = np.array([m.clock_index - block.shadow.first_clock_index for m in members])
        self._present: Sequence[tuple[int, Warp]] = tuple(enumerate(members))
        self._masked = False

    def set_weight(self, weight: float) -> None:
        """Set how many iterations the members represent in counts."""
        self.weight = weight
        for member in self.members:
            member.weight = weight

    def set_mask(self, mask: Array) -> None:
        """Set the active lanes of all members, concatenated."""
        self.settle()
        super().set_mask(mask)
        self._masked = True

    def settle(self) -> None:
        """Add the time that has passed to the members."""
        if self.time:
            for _, member in self.present():
                member.time += self.time
            self.time = 0.0

    def present(self) -> Sequence[tuple[int, Warp]]:
        """The numbers and members that have active lanes, with their masks set."""
        if self._masked:
            parts = self.mask.reshape(len(self.members), WARP_SIZE)
            found: list[tuple[int, Warp]] = []
            for number, (member, own) in enumerate(zip(self.members, parts)):
                member.set_mask(own)
                if member.active:
                    found.append((number, member))
            self._present, self._masked = found, False
        return self._present

    def clock_version(self) -> int:
        """A number that changes whenever a member's clock does."""
        return sum([member.version for member in self.members])

    def fall_apart(self, fixed: set[int]) -> tuple[Warp, ...]:
        """Copy registers that may change back to the members, and reset their positions."""
        self.settle()
        self.present()
        for slot, value in enumerate(self.regs):
            if slot not in fixed and value is not None:
                for number, member in enumerate(self.members):
                    member.regs[slot] = part(value, number)
        for member in self.members:
            member.steps = self.steps
            member.path, member.passed = [], None
        return self.members


def gather(members: tuple[Warp, ...], fixed: set[int], registers: list[Any]) -> Group:
    """Form a group of warps at the same position. ``registers`` holds the values that never change."""
    for slot, value in enumerate(members[0].regs):
        if value is not None and slot not in fixed:
            registers[slot] = join([member.regs[slot] for member in members])
    return Group(members[0].launch, members[0].block, members, registers)


def one_by_one(
    step: Callable[[Warp], None], inputs: Sequence[int], outputs: Sequence[int]
) -> Callable[[Warp], None]:
    """A step that runs ``step`` for each warp of a group.

    ``inputs`` are the slots that it reads, without those that never change; ``outputs`` those that it sets.
    """

    def run(group: Warp) -> None:
        assert isinstance(group, Group)
        regs = group.regs
        group.settle()
        present = group.present()
        for slot in inputs:
            value = regs[slot]
            for number, member in present:
                member.regs[slot] = part(value, number)
        for _, member in present:
            step(member)
        for slot in outputs:
            regs[slot] = _gathered(group, present, slot)

    return run


def _gathered(group: Group, present: Sequence[tuple[int, Warp]], slot: int) -> Any:
    if len(present) == len(group.members):
        return join([member.regs[slot] for member in group.members])
    # The values of inactive warps do not matter.
    values: list[Any] = [present[0][1].regs[slot]] * len(group.members)
    for number, member in present:
        values[number] = member.regs[slot]
    return join(values)
