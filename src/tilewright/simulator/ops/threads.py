"""``gpu``: thread indices, shuffles, and printing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright.launching.printf import formatted
from tilewright.numerics.arrays import Array
from tilewright.simulator import codes
from tilewright.simulator.compile import Step, Translator, implements
from tilewright.simulator.faults import Fault
from tilewright.simulator.memory import MemRef
from tilewright.simulator.ops.elementwise import is_integer_scalar
from tilewright.simulator.ops.vectors import combine
from tilewright.simulator.state import WARP_SIZE, Block, Warp
from tilewright.simulator.values import element_of, lanes, uniform

_LANES = np.arange(WARP_SIZE)
MAX_PRINTED = 1 << 26
"""The calls of ``gpu.printf`` per launch that are shown: twice those of a tile of 2**24 elements."""


def collective(warp: Warp, op: Operation) -> None:
    """Raise ``Fault`` unless all lanes of the warp are active."""
    if not warp.full:
        absent = np.flatnonzero(~warp.mask)
        shown = ", ".join(map(str, absent[:8])) + (", ..." if absent.size > 8 else "")
        raise Fault(
            codes.DIVERGENT,
            f"'{op.name}' must be executed by whole warps, but lanes {shown} of {warp.name()} do not execute it",
            op,
            help="move it out of the branch or loop that only some lanes take",
        )


_OF_BLOCK: dict[str, Callable[[Block], tuple[int, int, int]]] = {
    "gpu.block_id": lambda block: block.index,
    "gpu.block_dim": lambda block: block.cluster.launch.block,
    "gpu.grid_dim": lambda block: block.cluster.launch.grid,
    "gpu.cluster_id": lambda block: block.cluster.index,
    "gpu.cluster_dim": lambda block: _clusters(block),
    "gpu.cluster_block_id": lambda block: _in_cluster(block),
    "gpu.cluster_dim_blocks": lambda block: block.cluster.launch.cluster,
}


def _clusters(block: Block) -> tuple[int, int, int]:
    launch = block.cluster.launch
    x, y, z = (g // c for g, c in zip(launch.grid, launch.cluster))
    return x, y, z


def _in_cluster(block: Block) -> tuple[int, int, int]:
    x, y, z = (i % c for i, c in zip(block.index, block.cluster.launch.cluster))
    return x, y, z


@implements(*_OF_BLOCK)
def _of_block(op: Any, t: Translator) -> None:
    """Indices and extents of blocks, grids and clusters along an axis, uniform in a block."""
    function, axis = _OF_BLOCK[op.name], op.axis
    t.each_block(op.results[0], lambda block: function(block)[axis])


@implements("gpu.thread_id", wide=True)
def _thread_id(op: Any, t: Translator) -> Step:
    """The index of the thread in its block along an axis."""
    result, axis = t.slot(op.results[0]), op.axis

    def step(warp: Warp) -> None:
        warp.regs[result] = warp.thread[axis]

    return step


@implements("gpu.global_id", wide=True)
def _global_id(op: Any, t: Translator) -> Step:
    """The index of the thread in the grid along an axis."""
    result, axis = t.slot(op.results[0]), op.axis

    def step(warp: Warp) -> None:
        base = warp.block.index[axis] * warp.launch.block[axis]
        warp.regs[result] = warp.thread[axis] + base

    return step


@implements("gpu.lane_id")
def _lane_id(op: Any, t: Translator) -> None:
    """The lane of the thread in its warp, 0 to 31."""
    t.preset(op.results[0], _LANES)


@implements("gpu.subgroup_size")
def _subgroup_size(op: Any, t: Translator) -> None:
    """32 on every architecture."""
    t.preset(op.results[0], WARP_SIZE)


@implements("gpu.subgroup_id", wide=True)
def _subgroup_id(op: Any, t: Translator) -> Step:
    """The number of the warp in its block; threads are assigned to warps by their linear index, x fastest."""
    result = t.slot(op.results[0])

    def step(warp: Warp) -> None:
        numbers = [member.index for member in warp.members]
        warp.regs[result] = numbers[0] if len(numbers) == 1 else np.repeat(numbers, WARP_SIZE)

    return step


@implements("gpu.num_subgroups")
def _num_subgroups(op: Any, t: Translator) -> None:
    """The number of warps of the block."""
    t.each_block(op.results[0], lambda block: len(block.warps))


@implements("gpu.dynamic_shared_memory")
def _dynamic(op: Any, t: Translator) -> None:
    """The dynamic shared memory of the launch, after all static memory."""
    size = element_of(op.results[0].type).size

    def make(block: Block) -> MemRef:
        start = t.shared.dynamic_offset // size
        return MemRef(block.shared, start, (t.shared.dynamic_bytes // size,), (1,), start)

    t.each_block(op.results[0], make)


@implements("nvvm.elect.sync")
def _elect(op: Any, t: Translator) -> Step:
    """True in the active lane with the lowest number."""
    result = t.slot(op.results[0])

    def step(warp: Warp) -> None:
        warp.regs[result] = warp.mask.argmax() == _LANES

    return step


@implements("nvvm.bar.warp.sync", "nvgpu.tma.prefetch.descriptor")
def _nothing(op: Operation, t: Translator) -> None:
    """Nothing: lanes of a warp run in lockstep, and caches are not modelled."""


@implements("nvgpu.tma.fence.descriptor")
def _fence_descriptor(op: Operation, t: Translator) -> None:
    """Nothing: tensor maps do not change during a run."""


# From the offset, the lane, the first lane of its segment and the segment's width: the lane read, and whether it is in
# the segment.
_Shuffle = Callable[["Array", "Array", "Array", int], "tuple[Array, Array]"]
_SHUFFLES: dict[str, _Shuffle] = {
    "xor": lambda o, lane, first, width: (lane ^ o, (lane ^ o) < first + width),
    "up": lambda o, lane, first, width: (lane - o, lane - o >= first),
    "down": lambda o, lane, first, width: (lane + o, lane + o < first + width),
    "idx": lambda o, lane, first, width: (first + (o & (width - 1)), np.ones_like(lane, np.bool_)),
}


@implements("gpu.shuffle", wide=True)
def _shuffle(op: Any, t: Translator) -> Step:
    """The value of another lane of a segment of ``width`` lanes, and whether there is one (PTX, ``shfl.sync``).

    Without one the result is the lane's own value. Raises ``Fault`` if lanes have diverged, or unless the width is a
    power of two up to 32.
    """
    value, offset, width = t.slots(op.operands)
    result, valid = t.slots(op.results)
    mode = _SHUFFLES[op.properties["mode"].keyword]
    element = element_of(op.results[0].type)

    def step(warp: Warp) -> None:
        collective(warp, op)
        r = warp.regs
        group = uniform(r[width], warp.mask)
        if group is None or not 0 < group <= WARP_SIZE or group & (group - 1):
            raise Fault(codes.UNDEFINED, f"gpu.shuffle among {group} lanes", op)
        every = np.arange(warp.size)
        lane = every & (WARP_SIZE - 1)
        offsets = lanes(r[offset], np.dtype(np.int32), warp.size).astype(np.int64)
        source, exists = mode(offsets, lane, lane & -group, group)
        source = np.where(exists, source & (WARP_SIZE - 1), lane) - lane + every
        r[result] = lanes(r[value], element.dtype, warp.size)[source]
        r[valid] = exists

    return step


@implements("gpu.subgroup_reduce", wide=True)
def _reduce(op: Any, t: Translator) -> Step:
    """Reduces over a warp by halves: lane i with lane i + 16, then 8, 4, 2, 1."""
    value, result = t.slot(op.operands[0]), t.slot(op.results[0])
    kind, element = op.properties["op"].keyword, element_of(op.results[0].type)
    whole = is_integer_scalar(op.results[0].type)

    def step(warp: Warp) -> None:
        collective(warp, op)
        array = lanes(warp.regs[value], element.dtype, warp.size)
        # With the lanes of a warp as first axis it can be halved.
        array = np.moveaxis(array.reshape(-1, WARP_SIZE, *array.shape[1:]), 1, 0)
        while array.shape[0] > 1:
            half = array.shape[0] // 2
            array = combine(kind, array[:half], array[half:], element.name)
        found = array[0]
        if whole and found.size == 1:
            warp.regs[result] = found.item()
        else:
            warp.regs[result] = found.repeat(WARP_SIZE, axis=0)

    return step


@implements("gpu.printf")
def _printf(op: Any, t: Translator) -> Step:
    """Prints for each active lane, in ascending order, as the C function does."""
    text = op.properties["format"].data
    sources = t.slots(op.operands)
    elements = [element_of(value.type) for value in op.operands]
    widths = [element.bits for element in elements]

    def step(warp: Warp) -> None:
        columns = [lanes(warp.regs[s], e.dtype) for s, e in zip(sources, elements)]
        launch = warp.launch
        for lane in np.flatnonzero(warp.mask):
            launch.printed += 1
            if launch.printed <= MAX_PRINTED:
                launch.print_to(
                    formatted(text, [column[lane].item() for column in columns], widths)
                )
            elif launch.printed == MAX_PRINTED + 1:
                launch.print_to(f"\n... (no more than {MAX_PRINTED} calls of printf are shown)\n")

    return step
