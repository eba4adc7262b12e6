"""Lanes of a warp that write different values to one address in one instruction.

Which value remains is undefined. Equal values are fine: that is how lanes set a flag together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from xdsl.ir import Operation

from tilewright.numerics.arrays import Array, unsigned_view
from tilewright.simulator import codes
from tilewright.simulator.state import WARP_SIZE, Warp

if TYPE_CHECKING:
    from tilewright.simulator.memory import MemRef


def check_lanes(
    warp: Warp, memref: MemRef, place: Array, values: Array, op: Operation, lanes: Array | None
) -> None:
    """Report the first conflict within a store: two lanes that write different values to one element.

    ``place`` are the positions in the buffer and ``values`` what is written there: one element or a row per lane, or
    single elements. ``lanes`` are the lanes of the rows; None for all lanes of the warp or group.
    """
    width, span, first = 1, 1, place
    if place.ndim == 2:
        width, first = place.shape[1], place[:, 0]
        span = int(place[0, -1] - place[0, 0]) + 1
    if first.size < 2 or int((first[1:] - first[:-1]).min()) >= span:
        return
    flat = place.reshape(-1)
    order = np.argsort(flat, kind="stable")
    ordered, bits = flat[order], unsigned_view(np.ascontiguousarray(values)).reshape(-1)[order]
    who = order // width if lanes is None else lanes[order // width]
    bad = (ordered[1:] == ordered[:-1]) & (bits[1:] != bits[:-1]) & (who[1:] != who[:-1])
    # Conflicts between warps of a group are checked elsewhere.
    bad &= who[1:] // WARP_SIZE == who[:-1] // WARP_SIZE
    if bad.any():
        _report(warp, memref, op, int(ordered[bad.argmax()]), who[bad.argmax() :][:2], values)


def _report(
    warp: Warp, memref: MemRef, op: Operation, place: int, who: Array, values: Array
) -> None:
    member = warp.members[int(who[0]) // WARP_SIZE]
    one, other = (int(lane) % WARP_SIZE for lane in who)
    warp.launch.collector.add(
        codes.RACE,
        f"lanes {one} and {other} of {member.name()} write different values to byte "
        f"{place * values.itemsize} of {memref.buffer.name} in one {op.name}; which one remains is "
        "undefined",
        op,
        help="let one lane write, or give each lane its own address",
        key="lanes",
    )
