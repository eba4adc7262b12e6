"""The array elements that each tile block accesses, recorded on the reference machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
from xdsl.ir import Operation

from tilewright.launching.accepted import check_grid
from tilewright.launching.modules import cuda_kernel_of
from tilewright.launching.options import LaunchOptions
from tilewright.machine.accesses import access_site, allocations_of
from tilewright.machine.compile import Translator
from tilewright.machine.grid import BlockId, Progress
from tilewright.machine.hooks import Hook
from tilewright.machine.inspect.runner import InspectingProgram
from tilewright.machine.inspect.stops import When
from tilewright.machine.launch import DEFAULT_MAX_ITERATIONS
from tilewright.machine.memory import Allocation
from tilewright.machine.tensors import ArrayNames, Box, Elements
from tilewright.machine.values import Registers
from tilewright.numerics.arithmetic import REFERENCE
from tilewright.numerics.arrays import Array

MAX_ACCESSES = 20_000
"""The limit of recorded accesses; further ones are only counted."""


@dataclass(slots=True, eq=False)
class Footprint:
    """The elements of one tensor that one operation accesses.

    ``kind``: ``load``, ``store`` or ``atomic``. ``boxes``: for each tile block, in the order of first access.
    ``is_exact`` is False if some boxes include elements that were not accessed, because the accessed ones are
    scattered.
    """

    op: Operation
    kind: str
    tensor: str
    shape: tuple[int, ...]
    boxes: dict[BlockId, dict[Box, None]] = field(default_factory=dict)
    is_exact: bool = True


@dataclass(frozen=True, slots=True)
class Footprints:
    """The accesses of a run. ``left_out``: the number of accesses that were not recorded."""

    grid: BlockId
    blocks: tuple[BlockId, ...]
    accesses: tuple[Footprint, ...]
    left_out: int


@dataclass(slots=True)
class _Recorder:
    """An observer that records accesses."""

    arrays: ArrayNames
    found: dict[tuple[Operation, str], Footprint] = field(default_factory=dict)
    recorded: int = 0
    left_out: int = 0
    _located: dict[tuple[int, int, bytes], Elements] = field(default_factory=dict)

    def hook(self, op: Operation, t: Translator, when: When) -> Hook | None:
        site = access_site(op, t) if when == "after" else None
        if site is None:
            return None
        machine, size, kind = t.machine, site.storage.size, site.kind

        def hook(regs: Registers) -> None:
            if self.recorded >= MAX_ACCESSES:
                self.left_out += 1
                return
            self.recorded += 1
            addresses = site.addresses(regs)
            for allocation, lanes in allocations_of(machine.memory, addresses, size):
                some = addresses if lanes is None else addresses[lanes]
                offsets = (some - np.uint64(allocation.base)).astype(np.int64)
                elements = self._locate(allocation, offsets, size)
                new = Footprint(op, kind, elements.tensor, elements.shape)
                footprint = self.found.setdefault((op, elements.tensor), new)
                footprint.boxes.setdefault(machine.block, {}).update(dict.fromkeys(elements.boxes))
                footprint.is_exact &= elements.is_exact

        return hook

    def _locate(self, allocation: Allocation, offsets: Array, size: int) -> Elements:
        # Cached because locating elements sorts them, and tile blocks often access the same ones.
        key = allocation.base, size, blake2b(offsets.tobytes(), digest_size=16).digest()
        found = self._located.get(key)
        if found is None:
            found = self._located[key] = self.arrays.locate(allocation, offsets, size)
        return found


def record_footprints(
    module: Operation,
    entry: str | None,
    grid: int | Sequence[int],
    args: Sequence[object],
    *,
    max_iterations: int = DEFAULT_MAX_ITERATIONS,
    progress: Progress | None = None,
) -> Footprints:
    """Run a kernel of ``cuda_tile`` over a grid, and return what its tile blocks access, in program order.

    Array arguments are updated as by ``machine.run``; what is printed is dropped. Raises ``TileIRError`` as a launch
    does, and for a kernel of another level.
    """
    kernel = cuda_kernel_of(module, entry, "memory footprints")
    extents = check_grid(grid)
    recorder = _Recorder(ArrayNames.of_launch(kernel, args))
    program = InspectingProgram(module, REFERENCE)
    program.observers = (recorder,)
    program.launch(
        kernel.symbol,
        grid,
        args,
        options=LaunchOptions(
            max_iterations=max_iterations,
            allow_overlap=True,
            print_to=lambda text: None,
            progress=progress,
        ),
    )
    order = {op: number for number, op in enumerate(kernel.walk())}
    accesses = sorted(recorder.found.values(), key=lambda found: order[found.op])
    touched = {block for found in accesses for block in found.boxes}
    blocks = sorted(touched, key=lambda block: block[::-1])
    return Footprints(extents, tuple(blocks), tuple(accesses), recorder.left_out)
