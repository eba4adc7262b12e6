"""Accesses of ``llvm`` operations to global memory: which array, which element, and whether it is legal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects import builtin as b
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute, Operation

from tilewright.dialects.upstream.base.shapes import element_of as element_type
from tilewright.numerics.arrays import Array
from tilewright.simulator import codes
from tilewright.simulator.address_space import Region
from tilewright.simulator.faults import Fault
from tilewright.simulator.memory import GLOBAL
from tilewright.simulator.state import Warp
from tilewright.simulator.values import Element, element_of

ADDRESS = np.dtype(np.int64)
"""The dtype of the addresses of lanes."""


def check_space(ty: Attribute) -> None:
    """Raise ``Fault`` for pointers that are not to global memory."""
    pointer = element_type(ty)
    assert isinstance(pointer, LLVMPointerType)
    space = pointer.addr_space
    if not isinstance(space, b.NoneAttr) and space.data not in (0, GLOBAL):
        raise Fault(
            codes.UNSUPPORTED,
            f"the simulator accesses global memory through pointers, and other memory through memrefs: '{ty}'",
        )


def in_memory(element: Element) -> np.dtype[Any]:
    """The dtype of an element in memory: i1 is a byte. Raises ``Fault`` for elements that share bytes."""
    if element.bits == 1:
        return np.dtype(np.uint8)
    if element.bits != 8 * element.size:
        raise Fault(
            codes.UNSUPPORTED, f"the simulator has no memory of {element.bits}-bit elements"
        )
    return element.dtype


def _natural_alignment(size: int) -> int:
    """The alignment in bytes of a value of ``size`` bytes without an ``alignment`` property."""
    return 1 << (size - 1).bit_length()


#: The usual alignment of allocations on the host and on a GPU, in bytes.
_HOST_ALIGNMENT, _DEVICE_ALIGNMENT = 16, 256


class Access:
    """The accesses of an operation: element type, alignment, and messages about invalid ones.

    ``size`` is the bytes of an element, ``whole`` the bytes at each pointer.
    """

    def __init__(self, op: Operation, pointer: Attribute, value: Attribute, verb: str):
        check_space(pointer)
        self.op, self.verb = op, verb
        self.element = element_of(value)
        self.dtype = in_memory(self.element)
        self.size = self.dtype.itemsize
        stated = op.properties.get("alignment")
        self.whole = self.size
        if not isinstance(pointer, b.VectorType) and isinstance(value, b.VectorType):
            self.whole = self.size * value.get_shape()[0]
        self.alignment = (
            stated.value.data
            if isinstance(stated, b.IntegerAttr)
            else _natural_alignment(self.whole)
        )

    # Below, ``addresses`` is a flat array with those of active elements, and ``who`` returns the lane of each.

    def check_aligned(self, warp: Warp, addresses: Array, who: Callable[[], Array]) -> None:
        """Raise ``Fault`` for the first address that is not a multiple of the alignment, in bytes."""
        if self.alignment > 1:
            bad = addresses & (self.alignment - 1)
            if bad.any():
                place = int(bad.argmax())
                raise Fault(
                    codes.MISALIGNED,
                    f"{self._who(warp, int(who()[place]))} {self.verb} {self.whole} bytes at "
                    f"{int(addresses[place]):#x}, which is not a multiple of {self.alignment}",
                    self.op,
                )

    def _who(self, warp: Warp, lane: int) -> str:
        thread = tuple(int(n[lane]) if isinstance(n, np.ndarray) else n for n in warp.thread)
        return f"{self.op.name} of {warp.name()}, lane {lane}, thread {thread}"

    def regions(
        self, warp: Warp, addresses: Array, who: Callable[[], Array]
    ) -> list[tuple[Region, Array | slice]]:
        """The regions that contain the elements, each with the positions of its elements in ``addresses``.

        Raises ``Fault`` if an element is in no region.
        """
        space = warp.launch.addresses
        whole = space.region(int(addresses.min()), int(addresses.max()) + self.size)
        if whole is not None:
            return [(whole, slice(None))]
        numbers = space.places(addresses, self.size)
        if (numbers < 0).any():
            place = int((numbers < 0).argmax())
            address = int(addresses[place])
            raise Fault(
                codes.OUT_OF_BOUNDS,
                f"{self._who(warp, int(who()[place]))} {self.verb} {self.size} bytes at "
                f"{address:#x}, {space.whereabouts(address, self.size)}",
                self.op,
            )
        return [(space.regions[n], np.flatnonzero(numbers == n)) for n in np.unique(numbers)]

    def read(self, warp: Warp, addresses: Array, who: Callable[[], Array]) -> Array:
        """Load the elements, in the type of registers. Raises ``Fault`` for addresses in no array."""
        found = np.empty(addresses.shape, self.dtype)
        targets = self.regions(warp, addresses, who)
        for region, places in targets:
            view, at = self._places(region, addresses[places])
            if view is None:
                found[places] = region.data[at].view(self.dtype)[:, 0]
            else:
                found[places] = view[at]
                self._note(warp, region, addresses[places], who()[places])
        warp.launch.counters.global_bytes_read += addresses.size * self.size
        warp.asked = self.op, addresses, found
        if warp.launch.proxies is not None:
            warp.launch.proxies.read(warp, self.op, addresses)
        if warp.launch.recorder is not None:
            self._record(warp, addresses, targets, who)
        return found != 0 if self.element.bits == 1 else found

    def write(self, warp: Warp, addresses: Array, values: Array, who: Callable[[], Array]) -> None:
        """Store the elements; later ones overwrite earlier ones at the same address.

        Raises ``Fault`` for addresses in no array and for read-only ones.
        """
        values = np.ascontiguousarray(values.astype(self.dtype, copy=False))
        warp.launch.version += 1
        if warp.launch.proxies is not None:
            warp.launch.proxies.read(warp, self.op, addresses)
            warp.launch.proxies.wrote(warp, self.op, addresses, who)
        targets = self.regions(warp, addresses, who)
        for region, _ in targets:
            if region.read_only and warp.launch.recorder is None:
                raise Fault(
                    codes.ARGUMENT,
                    f"{self.op.name} writes to {region.name}, which is read-only",
                    self.op,
                )
        warp.launch.counters.global_bytes_written += addresses.size * self.size
        if warp.launch.recorder is not None:
            self._record(warp, addresses, targets, who)
            targets = [target for target in targets if not target[0].read_only]
        for region, places in targets:
            view, at = self._places(region, addresses[places])
            chosen = values[places]
            if view is None:
                region.data[at] = chosen.view(np.uint8).reshape(-1, self.size)
            else:
                view[at] = chosen
                self._note(warp, region, addresses[places], who()[places], chosen)

    def update(
        self, warp: Warp, addresses: Array, old: Array, new: Array, who: Callable[[], Array]
    ) -> None:
        """Store the results of an atomic update. Memory counts as unchanged if they equal the old values.

        Raises ``Fault`` as ``write`` does.
        """
        version = warp.launch.version
        self.write(warp, addresses, new, who)
        if old.tobytes() == new.astype(old.dtype, copy=False).tobytes():
            warp.launch.version = version

    def _record(
        self,
        warp: Warp,
        addresses: Array,
        targets: list[tuple[Region, Array | slice]],
        who: Callable[[], Array],
    ) -> None:
        """Record an access as if arrays were aligned as on a GPU, to 256 bytes, unless the host array is misaligned."""
        assert warp.launch.recorder is not None
        each, found, starts = max(1, self.whole // self.size), who(), addresses.copy()
        for region, places in targets:
            if region.start % _HOST_ALIGNMENT == 0:
                starts[places] -= region.start % _DEVICE_ALIGNMENT
        lanes = found if found.size == addresses.size else None
        warp.launch.recorder.global_elements(warp, self.op, starts, lanes, self.size, each)

    def _note(
        self,
        warp: Warp,
        region: Region,
        addresses: Array,
        lanes: Array,
        values: Array | None = None,
    ) -> None:
        """Note an access for the check of conflicts between warps."""
        log = warp.block.global_log
        if log.is_open is not False:
            place = (addresses - region.origin) // self.size
            log.note(warp, region, place, self.size, self.op, values, lanes)

    def _places(self, region: Region, addresses: Array) -> tuple[Array | None, Array]:
        """The elements of a region and their positions; for unaligned addresses None and the positions of bytes."""
        if self.size > 1 and (addresses & (self.size - 1)).any():
            return None, (addresses - region.start)[:, None] + np.arange(self.size)
        first, view = region.elements(self.dtype)
        return view, (addresses - first) // self.size


def lanes_of(active: Array) -> Callable[[], Array]:
    """Returns a function that computes the lane of each active element."""
    return lambda: np.nonzero(active)[0]
