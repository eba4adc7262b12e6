"""What one execution of a memory operation touches: elements at strides, or at any addresses.

Both kinds answer the same questions. Nothing is computed before it is asked for: without a race
detector and alloca memory, addresses are never looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tilewright.machine.accesses import AccessSite, allocations_of, chosen_lanes
from tilewright.machine.memory import Memory
from tilewright.machine.sanitize.events import Event, History
from tilewright.machine.sanitize.races import RaceDetector
from tilewright.machine.values import Registers
from tilewright.machine.view_access import StridedElements
from tilewright.numerics.arrays import Array

Unwritten = Mapping[int, Array]
"""For alloca memory by base address: which bytes nobody has written yet."""


class StridedArea:
    """The part of a view's tile that lies in the tensor."""

    def __init__(self, memory: Memory, elements: StridedElements, dims: tuple[int, ...], size: int):
        self._memory, self._elements = memory, elements
        self._dims, self._size = dims, size

    def without(self, mask: Array) -> LaneArea:
        """What is left without some elements: none, as one index moves all of them."""
        nowhere = np.zeros(self._dims, np.uint64)
        none = np.zeros(self._dims, np.bool_)
        return LaneArea(self._memory, nowhere, none, self._size, packed=False)

    def taking_part(self) -> Array | None:
        """Which elements of the tile are accessed; None for all."""
        inside = self._elements.inside
        if inside is None:
            return None
        mask = np.zeros(self._dims, np.bool_)
        mask[inside] = True
        return mask

    def record(
        self,
        detector: RaceDetector,
        event: Event,
        history: History,
        *,
        may_repeat: bool,
        wrote: Array | None,
    ) -> History:
        """Tell the detector; gives the history with what the event acquires."""
        assert wrote is None, "only accesses through pointers compare and swap"
        elements = self._elements
        return detector.access(event, history, elements.allocation, elements, may_repeat=may_repeat)

    def unwritten(self, unwritten: Unwritten) -> Array | None:
        """Which elements of the tile hold bytes that nobody wrote; None where none do."""
        content = unwritten.get(self._elements.allocation.base)
        if content is None:
            return None
        found = self._elements.over(content, 1, within=self._size).any(axis=-1)
        if not found.any():
            return None
        mask = np.zeros(self._dims, np.bool_)
        mask[self._elements.inside or ...] = found
        return mask

    def mark_written(self, unwritten: Unwritten) -> None:
        """Note that the bytes of these elements have been written."""
        content = unwritten.get(self._elements.allocation.base)
        if content is not None:
            self._elements.over(content, 1, within=self._size)[...] = False


class LaneArea:
    """Elements by address; ``lanes`` tells which take part, None for all."""

    def __init__(
        self, memory: Memory, addresses: Array, lanes: Array | None, size: int, *, packed: bool
    ):
        self._memory, self._addresses, self._lanes = memory, addresses, lanes
        self._size, self._packed = size, packed

    def without(self, mask: Array) -> LaneArea:
        """What is left without some elements, given by a mask that broadcasts to the tile."""
        rest = np.broadcast_to(~mask, self._addresses.shape)
        lanes = rest if self._lanes is None else rest & self._lanes
        return LaneArea(self._memory, self._addresses, lanes, self._size, packed=self._packed)

    def taking_part(self) -> Array | None:
        """Which elements of the tile are accessed, a mask of its shape; None for all."""
        lanes = self._lanes
        return None if lanes is None or lanes.all() else lanes

    def record(
        self,
        detector: RaceDetector,
        event: Event,
        history: History,
        *,
        may_repeat: bool,
        wrote: Array | None,
    ) -> History:
        """Tell the detector, once for each allocation; gives the history with what the event acquires.

        ``wrote`` marks, in the shape of the tile, the lanes in which a compare-and-swap has stored.
        """
        addresses = chosen_lanes(self._addresses, self._lanes)
        if wrote is not None:
            wrote = chosen_lanes(wrote, self._lanes)
        if self._packed:
            addresses = np.unique(addresses)
        for allocation, some in allocations_of(self._memory, addresses, self._size):
            part = addresses if some is None else addresses[some]
            history = detector.access(
                event,
                history,
                allocation,
                (part - np.uint64(allocation.base)).astype(np.int64),
                may_repeat=may_repeat,
                wrote=wrote if wrote is None or some is None else wrote[some],
            )
        return history

    def unwritten(self, unwritten: Unwritten) -> Array | None:
        """Which elements of the tile hold bytes that nobody wrote; None where none do."""
        addresses = chosen_lanes(self._addresses, self._lanes)
        found = np.zeros(addresses.shape, np.bool_)
        for some, content, bytes_of in self._contents(addresses, unwritten):
            found[some] |= content[bytes_of].any(axis=1)
        if not found.any():
            return None
        mask = np.zeros(self._addresses.shape, np.bool_)
        mask[... if self._lanes is None else self._lanes] = (
            found.reshape(mask.shape) if self._lanes is None else found
        )
        return mask

    def mark_written(self, unwritten: Unwritten) -> None:
        """Note that the bytes of the elements that take part have been written."""
        addresses = chosen_lanes(self._addresses, self._lanes)
        for _, content, bytes_of in self._contents(addresses, unwritten):
            content[bytes_of] = False

    def _contents(self, addresses: Array, unwritten: Unwritten) -> list[tuple[Array, Array, Array]]:
        """(which addresses, what is unwritten of their allocation, the bytes of each element)."""
        found: list[tuple[Array, Array, Array]] = []
        for allocation, some in allocations_of(self._memory, addresses, self._size):
            content = unwritten.get(allocation.base)
            if content is None:
                continue
            lanes = np.ones(addresses.shape, np.bool_) if some is None else some
            starts = (addresses[lanes] - np.uint64(allocation.base)).astype(np.int64)
            found.append((lanes, content, starts[:, None] + np.arange(self._size)))
        return found


Area = StridedArea | LaneArea


def area_finder(site: AccessSite, memory: Memory) -> Callable[[Registers], Area]:
    """A function that tells what the operation touches, from the values of its operands."""
    size, view = site.storage.size, site.view
    if view is not None and view.is_box:
        dims = view.tile_dims
        return lambda regs: StridedArea(memory, view.box(regs), dims, size)
    where, packed = site.where, site.storage.packed
    return lambda regs: LaneArea(memory, *where(regs), size, packed=packed)
