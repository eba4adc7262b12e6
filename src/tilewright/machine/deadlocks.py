"""Reports what tile blocks wait for when none of them can continue."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Operation

from tilewright.diagnostics import Note
from tilewright.dialects.source_map import location_of
from tilewright.launching.codes import DEADLOCK
from tilewright.launching.storage import Storage
from tilewright.machine.accesses import access_site
from tilewright.machine.compile import Translator
from tilewright.machine.faults import Fault
from tilewright.machine.schedules import BlockId
from tilewright.machine.tensors import ArrayNames
from tilewright.machine.values import Registers
from tilewright.numerics.arrays import Array

_MAX_SHOWN_BLOCKS = 8
_MAX_NOTES = 4
_MAX_SHOWN_ELEMENTS = 4

Waiting = tuple["BlockId", "Operation | None", Registers]
"""A tile block, the access after which it last yielded, and its registers."""


def deadlock(
    waiting: Sequence[Waiting], kernel: Translator, names: ArrayNames, last: Operation | None
) -> Fault:
    """Return the fault of a launch in which all these blocks wait. ``last``: where the last one waits.

    A note for each location tells which memory its blocks poll, and what it holds.
    """
    groups: dict[tuple[Operation, str], list[BlockId]] = {}
    for block, op, registers in waiting:
        if op is not None:
            seen = _looked_at(op, kernel, registers, names)
            groups.setdefault((op, seen), []).append(block)
    blocks = [block for block, _, _ in waiting]
    fault = Fault(
        DEADLOCK,
        f"{_counted(len(blocks))} forever, and memory does not change: "
        f"{_listed(blocks, _MAX_SHOWN_BLOCKS)}",
        notes=[
            Note(_told(members, seen), location_of(op))
            for (op, seen), members in list(groups.items())[:_MAX_NOTES]
        ],
    )
    fault.op = last
    return fault


def _counted(count: int) -> str:
    return "1 tile block waits" if count == 1 else f"{count} tile blocks wait"


def _told(blocks: Sequence[BlockId], seen: str) -> str:
    who = "tile block" if len(blocks) == 1 else "tile blocks"
    verb = "waits" if len(blocks) == 1 else "wait"
    return f"{who} {_listed(blocks, _MAX_SHOWN_ELEMENTS)} {verb} here{seen}"


def _listed(blocks: Sequence[BlockId], limit: int) -> str:
    more = f" and {len(blocks) - limit} more" if len(blocks) > limit else ""
    return ", ".join(map(str, blocks[:limit])) + more


def _looked_at(op: Operation, kernel: Translator, registers: Registers, names: ArrayNames) -> str:
    """Return text such as `` for %flags[1], which is 0``; empty for operations that touch no memory."""
    site = access_site(op, kernel)
    if site is None:
        return ""
    addresses = site.addresses(registers)
    if not addresses.size:
        return ""
    size = site.storage.size
    # Not looked up as an access: the memory may belong to another block, or be freed.
    allocation = kernel.machine.memory.nearest(int(addresses[0]))
    if allocation is None:
        return ""
    inside = addresses[(addresses >= allocation.base) & (addresses < allocation.end)]
    if not inside.size:
        return ""
    offsets = inside - np.uint64(allocation.base)
    elements = names.locate(allocation, offsets, size)
    return f" for {elements}, which {_held(allocation.buffer, offsets, site.storage)}"


def _held(buffer: Array, offsets: Array, storage: Storage) -> str:
    few = offsets[:_MAX_SHOWN_ELEMENTS].astype(np.int64)
    raw = buffer[few[:, None] + np.arange(storage.size)].view(storage.raw)[:, 0]
    values = list(map(str, storage.to_tile(raw).tolist()))
    if offsets.size == 1:
        return f"is {values[0]}"
    return f"are {', '.join(values)}" + (", ..." if offsets.size > few.size else "")
