"""Runs blocks of a launch on the simulator, and derives facts about the lines of the machine code."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tilewright.diagnostics import TileIRError
from tilewright.dialects.nv_tileaa.base import ancestors
from tilewright.launching.options import LaunchOptions
from tilewright.launching.time_limits import TIME_LIMIT
from tilewright.model.aggregated_updates import aggregated_lines
from tilewright.model.profile import BlockFacts, BlockIndex, LineFacts
from tilewright.model.sampling import samples
from tilewright.model.sass import Kernel
from tilewright.model.walk import LaunchShape
from tilewright.numerics.arrays import Array
from tilewright.simulator.launch import Program, SimulationResult
from tilewright.simulator.recording import SECTOR, BlockRecord, Recorder

if TYPE_CHECKING:
    from tilewright.profiling.launch import Asked, Code

#: With mbarriers, the skipped iterations of a loop are a multiple of this: of twice 1, 2, 3, 4, 6 and 8 slots.
_PHASES = 48
#: The share of the grid represented by blocks that were run at which further runs add little.
_ENOUGH = 0.97
#: The recorded events after which no further block is started: about a second.
_MOST_EVENTS = 10_000
_LOOPS = frozenset({"scf.for", "scf.while"})
#: The share of a machine loop's instructions that must come from a loop of the kernel for the two to match.
_MOSTLY = 0.6


@dataclass(frozen=True, slots=True)
class Found:
    """The facts found by running blocks, and notes about what could not be run."""

    facts: Mapping[BlockIndex, BlockFacts]
    notes: tuple[str, ...]


def run_blocks(
    code: Code,
    launch: LaunchShape,
    given: Sequence[object],
    own: int,
    memory: Sequence[Array],
    asked: Asked,
) -> Found:
    """Run representative blocks of the grid, the heaviest first, until they represent nearly all of it or enough
    events were recorded.

    The first ``own`` values of ``given`` are the caller's, whose arrays are passed read-only. What cannot be run is
    told in notes, not raised.
    """
    runner = _Runner(code, launch, [*_read_only(given[:own]), *given[own:]], memory, asked)
    weights = samples(launch.grid)
    whole, done = sum(weights.values()), 0.0
    records: dict[BlockIndex, BlockRecord] = {}
    notes: list[str] = []
    for place, weight in weights.items():
        enough = runner.events >= _MOST_EVENTS or done >= _ENOUGH * whole
        # Whether updates of different blocks collide takes two blocks to see.
        meets = len(records) == 1 and any(map(_has_updates, records.values()))
        if records and enough and not meets:
            break
        try:
            record, stopped = runner.run(place, asked.run_seconds)
        except TileIRError as error:
            notes.append(f"block {place} could not be run: {error.diagnostics[0].message}")
            break
        records[place] = record
        done += weight
        if stopped:
            notes.append(stopped)
            break
    names = {op.name for record in records.values() for op in record.accesses}
    loops = _loops(code.kernel, code.compiled.operations)
    joined = aggregated_lines(code.kernel)
    by_warps = {op for n, op in enumerate(code.compiled.operations, 1) if n in joined}
    updated = {place: _updated(record, by_warps) for place, record in records.items()}
    facts = {
        place: replace(
            _facts(record, code.compiled.operations, names, loops),
            **_meeting(updated[place], [updated[p] for p in updated if p != place]),
        )
        for place, record in records.items()
    }
    return Found(facts, tuple(notes))


def _updated(record: BlockRecord, by_warps: Collection[Operation]) -> Counter[int]:
    """The atomic updates of a block by address; operations that combine the lanes of a warp count one per warp."""
    found: Counter[int] = Counter()
    for op, accesses in record.accesses.items():
        most = round(accesses.updating) if op in by_warps else None
        for address, count in accesses.updates.items():
            found[address] += count if most is None else min(count, most)
    return found


def _has_updates(record: BlockRecord) -> bool:
    return any(accesses.updates for accesses in record.accesses.values())


def _meeting(own: Counter[int], others: Sequence[Counter[int]]) -> dict[str, float]:
    """The fields of ``BlockFacts`` about updates: those of a block, and those it shares with others."""
    common = {
        address: min(count, other[address])
        for other in others
        for address, count in own.items()
        if address in other
    }
    shared = {address // SECTOR for address in common}
    return {
        "updates": max(own.values(), default=0),
        "common": max(common.values(), default=0),
        "own_bytes": len({address // SECTOR for address in own} - shared) * SECTOR,
        "common_bytes": len(shared) * SECTOR,
    }


def _read_only(values: Sequence[object]) -> Iterator[object]:
    for value in values:
        if isinstance(value, np.ndarray):
            view = value.view()
            view.flags.writeable = False
            yield view
        else:
            yield value


class _Runner:
    """Runs single blocks of a launch."""

    def __init__(
        self,
        code: Code,
        launch: LaunchShape,
        given: Sequence[object],
        memory: Sequence[Array],
        asked: Asked,
    ):
        function = code.function
        module: Operation = function
        while (around := module.parent_op()) is not None:
            module = around
        assert isinstance(module, ModuleOp)
        self._program = Program(module, code.compiled.arch.name, is_verified=True)
        self._function, self._launch, self._asked = function, launch, asked
        self._given = given
        self.events = 0
        self._memory = [array for array in _read_only(memory) if isinstance(array, np.ndarray)]
        has_phases = any("mbarrier" in op.name for op in module.walk())
        self._period = _PHASES if has_phases else 1

    def run(self, place: BlockIndex, seconds: float) -> tuple[BlockRecord, str]:
        """The record of a block, and the reason if it is incomplete. Raises ``TileIRError`` if there is none."""
        started = time.monotonic()
        recorder, result = self._run(place, self._period, seconds)
        first = result.errors[0] if result.errors else None
        if not result.completed and (first is None or first.code != TIME_LIMIT) and self._period:
            # Skipping iterations may have caused the error.
            left = max(0.5, seconds - (time.monotonic() - started))
            recorder, result = self._run(place, 0, left)
            self._period = 0 if result.completed else self._period
        record = next(iter(recorder.records.values()))
        if result.completed:
            return record, ""
        why = result.errors[0].message if result.errors else "it did not end"
        return record, f"the rest of block {place}, whose run was cut short ({why})"

    def _run(
        self, place: BlockIndex, period: int, seconds: float
    ) -> tuple[Recorder, SimulationResult]:
        recorder = Recorder([place], period)
        options = LaunchOptions(
            strict=False,
            time_limit=seconds,
            dynamic_shared_bytes=self._asked.dynamic_shared_bytes,
            cluster=self._asked.cluster,
            timeline_blocks=0,
        )
        result = self._program.simulate(
            self._function,
            self._launch.grid,
            self._given,
            options,
            block=self._launch.threads,
            memory=self._memory,
            recorder=recorder,
        )
        self.events += recorder.events
        return recorder, result


def _facts(
    record: BlockRecord,
    operations: Sequence[Operation],
    names: set[str],
    loops: Mapping[str, Operation],
) -> BlockFacts:
    """The facts that a record has about lines and loops of the machine code."""
    lines: dict[int, LineFacts] = {}
    for number, op in enumerate(operations, 1):
        found = record.accesses.get(op)
        if found is not None:
            bulk = found.bulk / found.count if found.bulk else None
            copies = found.count if found.bulk else 0.0
            lines[number] = LineFacts(found.wave_factor, found.sector_factor, bulk, copies)
        elif record.complete and op.name in names:
            # No lane reached it, as at the end of an array.
            lines[number] = LineFacts(sector_factor=0.0)
    trips: dict[str, int] = {}
    if record.complete:
        for name, op in loops.items():
            if (turns := record.turns_of(op)) is not None:
                # The condition of a `while` runs once more than its body.
                trips[name] = max(1, round(turns - (op.name == "scf.while")))
    return BlockFacts(lines, trips)


def _loops(kernel: Kernel, operations: Sequence[Operation]) -> dict[str, Operation]:
    """The loop of the kernel for each loop of the machine code, matched by the origins of its instructions."""
    found: dict[str, Operation] = {}
    for loop in kernel.loops:
        around: Counter[Operation] = Counter()
        count = 0
        for instruction in kernel.body(loop):
            number = instruction.line[1] if instruction.line is not None else 0
            if not 1 <= number <= len(operations):
                continue
            count += 1
            op: Operation | None = operations[number - 1]
            while op is not None:
                if op.name in _LOOPS:
                    around[op] += 1
                op = op.parent_op()
        likely = [op for op, times in around.items() if times >= _MOSTLY * count]
        if likely:
            found[loop.name] = max(likely, key=lambda op: sum(1 for _ in ancestors(op)))
    return found
