"""How long a launch would take: the performance model, read from machine code.

    time = max(blocks of a multiprocessor / throughput of its resident blocks,
               bytes of the launch / bandwidth of the memory of the GPU)

The work of a block is the sum over its warps of the cost of each instruction on their paths (``walk``, ``work``), for
each unit; its latency is that of an event-driven run of the block alone (``multiprocessor``). Resident blocks share the
busiest unit as customers share a server between think times (``queueing``): one block takes its latency, many take the
time that the unit needs. Distinct blocks are represented by a sample (``sampling``), about which a run may have shown
more than the code determines (``Options.facts``). ``Profile.blind`` lists what the model does not cover.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilewright.diagnostics import TileIRError
from tilewright.model.block_times import BlockTimes, time_blocks
from tilewright.model.choices import BANDS, BUSY, WORTH_OF_ORDER, memory_rate
from tilewright.model.codes import CANNOT_RUN, OTHER_ARCHITECTURE, UNKNOWN_TRIPS
from tilewright.model.costs import MOST_LOGGED, asked_of, instruction_costs, stalls, warp_row
from tilewright.model.l2 import LONG, SHORT, Loads, Misses, is_late, misses
from tilewright.model.micro_ops import Step, read_texts, steps_of
from tilewright.model.multiprocessor import BlockProgram, Rates, Result, Route, WaitKey
from tilewright.model.opcodes import Unit, unknown_opcodes
from tilewright.model.profile import (
    BlockFacts,
    InstructionCost,
    LineFacts,
    LoopCost,
    Occupancy,
    Options,
    Profile,
    Span,
    Stall,
    WarpRow,
)
from tilewright.model.queueing import clocks_of_a_block
from tilewright.model.report import byte_text
from tilewright.model.sampling import samples
from tilewright.model.sass import Instruction, Kernel, Loop
from tilewright.model.tables import NO_FASTER, Gpu
from tilewright.model.traces import BULK_LOADS, is_load
from tilewright.model.walk import LaunchShape, Walker, WarpPath
from tilewright.model.work import PARTITIONS, WARP, Work, work_of

__all__ = [
    "BlockFacts",
    "InstructionCost",
    "LineFacts",
    "LoopCost",
    "Occupancy",
    "Options",
    "Profile",
    "Span",
    "Stall",
    "WarpRow",
    "clocks_of_a_block",
    "hot_loop_name",
    "profile",
]

_BULK_STORES = ("UTMASTG", "UTMAREDG", "UBLKRED")
#: Instructions that read shared memory through the async proxy: bulk stores and warpgroup products.
_ASYNC_READERS = frozenset({*_BULK_STORES, "HGMMA", "IGMMA", "QGMMA", "BGMMA", "UTCHMMA"})
#: Opcodes that access shared memory.
_IN_SHARED = frozenset({"LDS", "STS", "LDSM", "STSM", "ATOMS", "LDGSTS", "UTMALDG", "UBLKCP"})
#: The share of time from which on contended updates are reported.
_MUCH = 0.1


def _sums() -> defaultdict[str, float]:
    """Clocks by unit."""
    return defaultdict(float)


@dataclass(slots=True)
class _Block:
    """A sampled block: the paths of its warps, the work of its instructions, and ``weight``, the number of blocks that
    it represents.
    """

    weight: float
    paths: list[WarpPath]
    facts: BlockFacts | None
    works: list[Work] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Meeting:
    """Contended atomic ``updates`` of one address, and the memory bytes that updates have ``written``."""

    updates: float
    written: float


@dataclass(slots=True)
class _BlockWork:
    """The work of one block: clocks of units of the busiest quarter, and of the whole multiprocessor."""

    units: defaultdict[str, float] = field(default_factory=_sums)
    instructions: float = 0
    loaded: float = 0
    stored: float = 0
    updated: float = 0
    returned: float = 0
    flops: float = 0
    guesses: int = 0
    turns: Counter[int] = field(default_factory=Counter)
    inside: Counter[int] = field(default_factory=Counter)


def profile(
    kernel: Kernel, gpu: Gpu, launch: LaunchShape, options: Options | None = None
) -> Profile:
    """Model the time of a launch.

    Raises ``TileIRError`` for code of another architecture, blocks that do not fit, and loops with unknown trip counts.
    """
    options = options or Options()
    if not gpu.runs(kernel.compute):
        raise TileIRError.single(
            OTHER_ARCHITECTURE,
            f"'{kernel.name}' is code for sm_{kernel.compute}, which cannot run on the {gpu.title} "
            f"(sm_{gpu.compute})",
            help=f"compile for sm_{gpu.compute}, or name another GPU",
        )
    shared = kernel.file.shared_bytes + options.dynamic_shared_bytes
    occupancy = _occupancy(kernel, gpu, launch, shared)
    return _Timing(kernel, gpu, launch, options, occupancy, shared).profile()


def block_limits(gpu: Gpu, registers: int, threads: int, shared: int) -> dict[str, int]:
    """The resident blocks per multiprocessor that each resource permits.

    The blocks have ``threads`` threads with ``registers`` each, and ``shared`` bytes of shared memory.
    """
    warps = -(-threads // WARP)
    of_registers, of_shared = int(gpu["register_unit"]), int(gpu["shared_unit"])
    per_warp = -(-registers * WARP // of_registers) * of_registers
    taken = -(-(shared + int(gpu["reserved_shared_bytes"])) // of_shared) * of_shared
    fits = shared <= gpu["block_shared_bytes"]
    return {
        "registers": int(gpu["registers"]) // max(1, per_warp * warps),
        "shared memory": int(gpu["shared_bytes"]) // taken if fits else 0,
        "threads": int(gpu["warps"]) // warps,
        "blocks": int(gpu["blocks"]),
    }


def _occupancy(kernel: Kernel, gpu: Gpu, launch: LaunchShape, shared: int) -> Occupancy:
    warps = -(-math.prod(launch.threads) // WARP)
    limits = block_limits(gpu, kernel.file.registers, warps * WARP, shared)
    limit = min(limits, key=lambda name: limits[name])
    if not limits[limit]:
        needs = {
            "registers": f"{kernel.file.registers} registers of {warps * WARP} threads",
            "shared memory": f"{shared} bytes of shared memory",
            "threads": f"{warps * WARP} threads",
        }
        raise TileIRError.single(
            CANNOT_RUN,
            f"a block of '{kernel.name}' does not fit on the {gpu.title}: {needs[limit]}",
        )
    blocks = limits[limit]
    return Occupancy(blocks, limit, blocks * warps, int(gpu["warps"]))


class _Timing:
    def __init__(
        self,
        kernel: Kernel,
        gpu: Gpu,
        launch: LaunchShape,
        options: Options,
        occupancy: Occupancy,
        shared: int,
    ) -> None:
        self._kernel, self._gpu, self._launch, self._options = kernel, gpu, launch, options
        self._occupancy, self._shared = occupancy, shared
        self._texts = read_texts(kernel)
        self._programs: dict[tuple[int, int], BlockProgram] = {}
        self._steps: dict[int, list[list[Step]]] = {}
        self._left_out: list[str] = []
        self._loads: tuple[Walker, Loads] | None = None
        self._warps = -(-math.prod(launch.threads) // WARP)
        self._bulk_stores = [
            number
            for number, instruction in enumerate(kernel.instructions)
            if instruction.base in _BULK_STORES
        ]
        self._stored_by_bulk = _stored_by_bulk(kernel.instructions)

    def profile(self) -> Profile:
        gpu, grid = self._gpu, math.prod(self._launch.grid)
        blocks = self._sampled()
        self._cost(blocks, int(gpu["hbm_latency"]))
        found = [self._block(block) for block in blocks]
        weights = [block.weight for block in blocks]
        loaded = _mean([work.loaded for work in found], weights) * grid
        stored = _mean([work.stored for work in found], weights) * grid
        missed = self._misses(blocks[0])
        meeting = self._meeting(blocks)
        memory, loads, late = self._memory(loaded, stored + meeting.written, missed)
        latency = round(gpu["l2_latency"] + (gpu["hbm_latency"] - gpu["l2_latency"]) * late)
        self._cost(blocks, latency)
        sms = min(int(gpu["sms"]), grid)
        each = math.ceil(grid / sms)
        units = _units(found, weights)
        times = {name: clocks * each for name, clocks in units.items()}
        resident = min(self._occupancy.blocks, each)
        rate, stores = memory_rate(gpu), loads if missed is None else 1.0
        rates = self._rates(rate / sms, loads, stores, latency)
        timed = time_blocks(self._programs_of(blocks), rates, MOST_LOGGED)
        alone = timed.latency + self._first_touch(missed)
        running = each * clocks_of_a_block(max(units.values()), alone, resident)
        times["memory"] = memory / rate
        times["contention"] = meeting.updates * gpu["update_clocks"]
        clocks = max(running, times["memory"], times["contention"], 1.0)
        busiest = max(times, key=lambda name: times[name])
        busy, times["waiting"] = times[busiest] / clocks, clocks - times[busiest]
        return Profile(
            self._kernel.name,
            gpu.name,
            self._launch.grid,
            self._launch.threads,
            clocks,
            clocks / (gpu["clock"] * 1e9),
            max(times, key=lambda name: times[name]),
            _shares(times, clocks),
            max(times.get("tensor", 0.0), times["memory"]) / (gpu["clock"] * 1e9),
            self._occupancy,
            each / resident,
            grid / (math.ceil(grid / (sms * resident)) * sms * resident),
            round(timed.heaviest.end),
            _mean([work.instructions for work in found], weights),
            self._kernel.file.registers,
            self._kernel.spills,
            self._shared,
            loaded,
            stored,
            memory,
            _mean([work.flops for work in found], weights) * grid,
            tuple(self._loops(found, weights)),
            self._costs(blocks, busiest, timed.waits, busy),
            stalls(self._kernel, timed.waits),
            self._timeline(blocks[0], timed.heaviest),
            len(self._options.facts),
            (*self._blind(found, timed, missed), *self._options.notes),
            at_least=tuple(self._at_least(clocks, meeting.updates)),
            hints=tuple(self._hints(times["memory"] / clocks, loaded, stored, meeting, memory)),
        )

    def _meeting(self, blocks: Sequence[_Block]) -> _Meeting:
        """The atomic updates of the launch that contend for one address, and the bytes of their sectors written to
        memory.

        They are derived from measured blocks. If two of those update the same address, all blocks are assumed to.
        """
        grid = math.prod(self._launch.grid)
        facts = self._options.facts
        if not facts:
            size = _mean(
                [
                    sum(
                        work.updated_bytes * count
                        for work, count in zip(block.works, self._executions(block), strict=True)
                    )
                    for block in blocks
                ],
                [block.weight for block in blocks],
            )
            footprint = self._options.footprint_bytes
            size *= grid
            return _Meeting(0.0, size if footprint is None else min(size, footprint))
        most = max(each.updates for each in facts.values())
        common = max(each.common for each in facts.values())
        own = sum(each.own_bytes for each in facts.values()) / len(facts)
        shared = max(each.common_bytes for each in facts.values())
        return _Meeting(max(most, common * grid), own * grid + shared)

    def _executions(self, block: _Block) -> list[float]:
        """How often the warps of a block execute each instruction."""
        times: Counter[int] = Counter()
        for path in block.paths:
            times.update(path.counts())
        found = [0.0] * len(self._kernel.instructions)
        for number, count in times.items():
            basic = self._kernel.blocks[number]
            for index in range(basic.first, basic.last + 1):
                found[index] += count
        return found

    def _skipped(self, blocks: Sequence[_Block]) -> list[str]:
        """Loops that no warp reaches, if unknown branches may have skipped them."""
        paths = [path for block in blocks for path in block.paths]
        if not any(path.guesses.total() for path in paths):
            return []
        seen = {number for path in paths for number in path.blocks}
        loops = (loop for loop in self._kernel.loops if not loop.waits)
        return [loop.name for loop in loops if loop.head not in seen]

    def _check_skipped(self, blocks: Sequence[_Block]) -> None:
        """Raises ``TileIRError`` if loops are skipped because arguments are missing."""
        self._left_out = self._skipped(blocks)
        if self._left_out and self._lacks_numbers():
            names = ", ".join(self._left_out)
            raise TileIRError.single(
                UNKNOWN_TRIPS,
                f"whether '{self._kernel.name}' reaches its loops {names} is unknown: it depends "
                "on missing arguments",
                help="give the launch arguments with --arg",
            )

    def _lacks_numbers(self) -> bool:
        """Whether parameters are missing, or any 4-byte number among them. Addresses need not be known."""
        parameters, given = self._kernel.file.parameters, self._launch.parameters
        word = 4
        return bool(parameters) and (
            not given or any(p.size == word and p.offset not in given for p in parameters)
        )

    def _rates(self, memory: float, loads: float, stores: float, latency: float) -> Rates:
        gpu = self._gpu
        queues = (gpu[name] for name in ("pipe_queue", "bank_queue", "memory_queue"))
        return Rates(gpu["l2_rate"], memory, gpu["shared_rate"], loads, stores, latency, *queues)

    def _misses(self, block: _Block) -> Misses | None:
        """The L2 misses, as far as the addresses of loads are known."""
        code = self._kernel.instructions
        sizes = [work.loaded_bytes for work in block.works]
        executed: Counter[int] = Counter()
        for path in block.paths:
            executed.update(
                e.index for e in path.events if e.executed and code[e.index].base in BULK_LOADS
            )
        announced = sum(path.loaded_bytes for path in block.paths)
        for index in executed:
            sizes[index] = announced / executed.total()
        loading = {n for n, size in enumerate(sizes) if size and is_load(code[n])}
        homes = {b.number for b in self._kernel.blocks if loading & set(range(b.first, b.last + 1))}
        warps = [n for n, path in enumerate(block.paths) if homes & set(path.blocks)]
        if not loading:
            return None
        executions: Counter[int] = Counter()
        for path in block.paths:
            for number, often in path.counts().items():
                held = self._kernel.blocks[number]
                for index in loading.intersection(range(held.first, held.last + 1)):
                    executions[index] += often
        walker = self._walker_of_loads(block, warps, set(executions))
        in_flight = int(self._gpu["sms"]) * self._occupancy.blocks
        loads = Loads(executions, sizes, warps, in_flight, self._gpu["l2_bytes"])
        self._loads = walker, loads
        return misses(self._launch.grid, walker, loads)

    def _walker_of_loads(self, block: _Block, warps: Sequence[int], loading: set[int]) -> Walker:
        """A walker through the first basic blocks; through more if some load comes late.

        A long loop before such a load may have brought its data into L2.
        """
        own = block.facts.trips if block.facts is not None else {}
        first, longer = (
            Walker(self._kernel, self._launch, self._options.trips, own, True, count)
            for count in (SHORT, LONG)
        )
        for warp in warps:
            events = first.walk(warp, (0, 0, 0)).events
            new = {e.index: number for number, e in reversed(list(enumerate(events)))}
            if is_late(max(new.values(), default=0), len(events)):
                return longer
            loading -= set(new)
        return longer if loading else first

    def _hints(
        self, share: float, loaded: float, stored: float, meeting: _Meeting, memory: float
    ) -> Iterator[str]:
        """What would help according to the model: another order of blocks, if memory is busy.

        ``share`` is the share of time for which memory is busy, ``memory`` the bytes that it transfers.
        """
        x, y, _ = grid = self._launch.grid
        if self._loads is None or min(x, y) < 2 or share < BUSY:
            return
        best, chosen = memory, 0
        stored += meeting.written
        for band in (band for band in BANDS if band < x):
            missed = misses(grid, *self._loads, band)
            if missed is None:
                return
            best, chosen = min((best, chosen), (self._memory(loaded, stored, missed)[0], band))
        if best < WORTH_OF_ORDER * memory:
            yield (
                f"a block order with more reuse in L2, in bands of {chosen} along the first axis "
                f"of the grid: {byte_text(best)} of memory instead of {byte_text(memory)}"
            )

    def _first_touch(self, missed: Misses | None) -> float:
        """The extra clocks for which blocks wait for memory once, until their data is in L2."""
        further = self._gpu["hbm_latency"] - self._gpu["l2_latency"]
        return further * max(0.0, missed.first - missed.late) if missed is not None else 0.0

    def _memory(
        self, loaded: float, stored: float, missed: Misses | None
    ) -> tuple[float, float, float]:
        """The memory bytes, the share of loaded bytes that miss L2, and the share of loads that wait for them.

        Each byte of the arrays is transferred at least once.
        """
        whole, footprint = loaded + stored, self._options.footprint_bytes
        memory = (whole if footprint is None else min(whole, footprint)) or footprint or 0.0
        once = min(1.0, memory / whole) if whole else 1.0
        if missed is None:
            return memory, once, once
        # Loads with unknown addresses transfer each byte once.
        share, late = (
            part * missed.known + once * (1 - missed.known) for part in (missed.share, missed.late)
        )
        memory = max(loaded * share + stored, min(footprint or 0, whole))
        return memory, share, late

    def _sampled(self) -> list[_Block]:
        """Some blocks with the paths of all warps. Blocks whose first warps take the same path share their paths."""
        found: list[_Block] = []
        like: dict[tuple[int, ...], tuple[list[WarpPath], BlockFacts | None]] = {}
        walkers: dict[int, Walker] = {}
        facts = self._options.facts
        known = next(iter(facts.values()), None)
        weights = samples(self._launch.grid)
        # Measured blocks first, as they represent those with the same path.
        for place in sorted(weights, key=lambda place: place not in facts):
            own = facts.get(place, known)
            walker = walkers.get(id(own))
            if walker is None:
                otherwise = own.trips if own is not None else {}
                walker = Walker(self._kernel, self._launch, self._options.trips, otherwise)
                walkers[id(own)] = walker
            first = walker.walk(0, place)
            key = tuple(first.blocks)
            if key not in like:
                others = [walker.walk(warp, place) for warp in range(1, self._warps)]
                like[key] = [first, *others], own
            paths, similar = like[key]
            chosen = facts.get(place, similar)
            found.append(_Block(weights[place], paths, chosen))
        self._check_skipped(found)
        return sorted(found, key=lambda block: -block.weight)

    def _cost(self, blocks: Sequence[_Block], latency: int) -> None:
        """Set the work of each instruction of the blocks. Blocks with the same facts and paths share a list."""
        plain = [work_of(i, self._gpu, latency) for i in self._kernel.instructions]
        known: dict[tuple[int, int], list[Work]] = {}
        for block in blocks:
            key = id(block.facts), id(block.paths)
            if key not in known:
                copying = self._copying(block)
                known[key] = [
                    self._as_run(work, instruction, block.facts, copying)
                    for work, instruction in zip(plain, self._kernel.instructions, strict=True)
                ]
            block.works = known[key]

    def _copying(self, block: _Block) -> dict[int, float]:
        """How often warps of a block reach the bulk stores of each line, which only one of them executes."""
        found: dict[int, float] = defaultdict(float)
        if self._bulk_stores:
            executions = self._executions(block)
            for index in self._bulk_stores:
                line = self._kernel.instructions[index].line
                found[line[1] if line is not None else 0] += executions[index]
        return found

    def _as_run(
        self,
        work: Work,
        instruction: Instruction,
        facts: BlockFacts | None,
        copying: Mapping[int, float],
    ) -> Work:
        """The work as measured, if it was."""
        line = instruction.line
        if work.unit not in (Unit.SHARED, Unit.GLOBAL, Unit.TMA):
            return work
        found = facts.lines.get(line[1]) if facts is not None and line is not None else None
        if found is None:
            factor = self._options.shared_factor
            return work if factor == 1 else replace(work, shared_bytes=work.shared_bytes * factor)
        if work.unit is Unit.TMA:
            if not instruction.base.startswith(_BULK_STORES):
                return work
            # Most warps that reach it have a false guard.
            come = copying[line[1]] if line is not None else 0.0
            part = min(1.0, found.copies / come) if come else 1.0
            size = (found.bulk_bytes or 0) * part
            return replace(work, stored_bytes=size, shared_bytes=size)
        return replace(
            work,
            shared_bytes=work.shared_bytes * found.wave_factor,
            l1_bytes=work.l1_bytes * found.sector_factor,
            loaded_bytes=work.loaded_bytes * found.sector_factor,
            stored_bytes=work.stored_bytes * found.sector_factor,
            updated_bytes=work.updated_bytes * found.sector_factor,
            returned_bytes=work.returned_bytes * found.sector_factor,
        )

    def _block(self, block: _Block) -> _BlockWork:
        """The work of a block, summed over warps; a warp runs in the quarter of its number modulo four."""
        quarters = [_sums() for _ in range(PARTITIONS)]
        whole = _sums()
        total = _BlockWork()
        gpu = self._gpu
        block_works = self._summed(block.works)
        stored_in_shared = 0.0
        for number, path in enumerate(block.paths):
            quarter = quarters[number % PARTITIONS]
            counts = path.counts()
            for basic, times in counts.items():
                piece = block_works[basic]
                for name, clocks in piece.units.items():
                    quarter[name] += clocks * times
                whole["shared"] += piece.shared / gpu["shared_rate"] * times
                whole["l1"] += piece.l1 / gpu["l1_rate"] * times
                total.loaded += piece.loaded * times
                total.stored += piece.stored * times
                total.updated += piece.updated * times
                total.returned += piece.returned * times
                total.flops += piece.flops * times
                total.instructions += piece.count * times
                stored_in_shared += piece.stored_in_shared * times
            for loop in self._kernel.loops:
                total.turns[loop.number] = max(total.turns[loop.number], counts[loop.head])
                total.inside[loop.number] += sum(
                    counts[b] * block_works[b].count for b in loop.blocks
                )
            total.loaded += path.loaded_bytes
            whole["shared"] += path.loaded_bytes / gpu["shared_rate"]
            total.guesses += sum(path.guesses.values())
        sizes = [block.works[number].stored_bytes for number in self._bulk_stores]
        if sizes and not any(sizes):
            total.stored += stored_in_shared
            whole["shared"] += stored_in_shared / gpu["shared_rate"]
        moved = total.loaded + total.stored + total.updated + total.returned
        whole["l2"] = moved / gpu["l2_rate"]
        if total.updated:
            whole["atomics"] = total.updated / gpu["update_rate"]
        for quarter in quarters:
            for name, clocks in quarter.items():
                total.units[name] = max(total.units[name], clocks)
        for name, clocks in whole.items():
            total.units[name] += clocks
        return total

    def _summed(self, works: Sequence[Work]) -> list[_Piece]:
        """The work of one execution of each basic block."""
        issue = PARTITIONS / self._gpu["issue_rate"]
        pieces: list[_Piece] = []
        for block in self._kernel.blocks:
            piece = _Piece()
            for index in range(block.first, block.last + 1):
                work = works[index]
                piece.units["issue"] += issue
                if work.pipe:
                    piece.units[work.unit.value] += work.pipe
                piece.shared += work.shared_bytes
                piece.l1 += work.l1_bytes
                piece.loaded += work.loaded_bytes
                piece.stored += work.stored_bytes
                piece.updated += work.updated_bytes
                piece.returned += work.returned_bytes
                piece.flops += work.flops
                piece.count += 1
                if index in self._stored_by_bulk:
                    piece.stored_in_shared += work.shared_bytes
            pieces.append(piece)
        return pieces

    def _programs_of(self, blocks: Sequence[_Block]) -> list[tuple[BlockProgram, float]]:
        """The programs of blocks, with their weights."""
        return [(self._program(block), block.weight) for block in blocks]

    def _program(self, block: _Block) -> BlockProgram:
        key = id(block.works), id(block.paths)
        if key not in self._programs:
            if key[0] not in self._steps:
                self._steps[key[0]] = steps_of(self._kernel, self._texts, block.works, self._gpu)
            routes = [Route(path.blocks, path.events) for path in block.paths]
            self._programs[key] = BlockProgram(self._steps[key[0]], routes)
        return self._programs[key]

    def _costs(
        self,
        blocks: Sequence[_Block],
        busiest: str,
        waits: Mapping[WaitKey, float],
        busy: float,
    ) -> tuple[InstructionCost, ...]:
        """The mean costs of instructions in a block. Bulk loads share the bytes announced to barriers."""
        code = self._kernel.instructions
        executions, asked = [0.0] * len(code), [0.0] * len(code)
        whole = sum(block.weight for block in blocks)
        rates = {name: self._gpu[name] for name in ("issue_rate", "shared_rate", "l1_rate")}
        for block in blocks:
            times: Counter[int] = Counter()
            for path in block.paths:
                times.update(path.counts())
            for number, count in times.items():
                basic = self._kernel.blocks[number]
                for index in range(basic.first, basic.last + 1):
                    executed = count * block.weight / whole
                    executions[index] += executed
                    asked[index] += asked_of(busiest, block.works[index], rates) * executed
        if busiest in ("l2", "memory", "shared"):
            size = _mean(
                [sum(p.loaded_bytes for p in b.paths) for b in blocks], [b.weight for b in blocks]
            )
            rate = self._gpu["shared_rate"] if busiest == "shared" else 1
            loads = [n for n, i in enumerate(code) if i.base in BULK_LOADS and executions[n]]
            executed = sum(executions[index] for index in loads)
            for index in loads:
                asked[index] += size / rate * executions[index] / executed
        origins = self._options.origins
        return instruction_costs(self._kernel, executions, asked, waits, busy, origins)

    def _timeline(self, block: _Block, alone: Result) -> tuple[WarpRow, ...]:
        """The timeline of the warps of a block that is alone."""
        return tuple(
            warp_row(self._kernel, number, log, end, block.works)
            for number, (log, end) in enumerate(zip(alone.logs, alone.warp_ends, strict=True))
        )

    def _loops(self, found: Sequence[_BlockWork], weights: Sequence[float]) -> Iterator[LoopCost]:
        for loop in self._kernel.loops:
            turns = _mean([block.turns[loop.number] for block in found], weights)
            if turns and not loop.waits:
                yield LoopCost(
                    loop.name,
                    self._address(loop),
                    loop.depth,
                    len(self._kernel.body(loop)),
                    turns,
                    _mean([block.inside[loop.number] for block in found], weights),
                )

    def _address(self, loop: Loop) -> int:
        return self._kernel.instructions[self._kernel.blocks[loop.head].first].address

    def _at_least(self, clocks: float, updates: float) -> Iterator[str]:
        """Why the launch may take much longer than ``clocks``."""
        facts = self._options.facts
        waiting = {name for each in facts.values() for name in each.trips} - set(
            self._options.trips
        )
        for loop in self._kernel.loops:
            polls = next((i for i in self._kernel.body(loop) if _sees_others(i)), None)
            if loop.name in waiting and polls is not None:
                place = self._options.origins.get(polls.line[1] if polls.line is not None else 0)
                where = (
                    f" ({place.file.rpartition('/')[2]}:{place.line})"
                    if place and place.line
                    else ""
                )
                turns = max(each.trips.get(loop.name, 1) for each in facts.values())
                often = "once" if turns == 1 else f"{turns} times"
                yield (
                    f"how often loop {loop.name}{where} runs depends on what other blocks write; a "
                    f"block that ran alone executed it {often}"
                )
        constant = self._gpu.constants["update_clocks"]
        if updates * constant.value > _MUCH * clocks and NO_FASTER in constant.source:
            yield f"about {updates:,.0f} atomic updates of one address are serialized"

    def _blind(
        self, found: Sequence[_BlockWork], timed: BlockTimes, missed: Misses | None
    ) -> Iterator[str]:
        """What the model does not know about this launch."""
        mix = self._kernel.mix
        if unknown := unknown_opcodes(self._kernel.instructions):
            names = ", ".join(f"{name} ({count})" for name, count in unknown.items())
            yield f"opcodes without a known unit, counted as issue only: {names}"
        if any(block.guesses for block in found):
            most = max(block.guesses for block in found)
            yield f"{most} branches depend on data and are assumed to fall through"
        if self._left_out:
            yield f"loops {', '.join(self._left_out)}: assumed not executed, as the data-dependent branches fall through"
        if not self._shared and mix.keys() & _IN_SHARED:
            yield "dynamic shared memory: assumed none, so the occupancy may be overestimated"
        if not self._options.facts:
            if self._options.shared_factor == 1.0 and mix["LDS"] + mix["STS"]:
                yield "shared-memory bank conflicts: assumed none"
            if mix["LDG"] + mix["STG"]:
                yield "coalescing: all global accesses are assumed coalesced, with all lanes active"
        if mix["ATOMG"] + mix["RED"] + mix["REDG"] + mix["ATOM"]:
            if self._options.facts:
                yield "addresses of atomic updates in blocks that were not run: assumed alike"
            else:
                yield "atomics that contend for one address"
        if self._bulk_stores and not self._options.facts:
            yield "sizes of bulk stores: assumed equal to what was written to shared memory before"
        if missed is not None:
            yield "L2 hits other than those of an LRU over the loads of blocks in grid order"
        elif self._options.footprint_bytes is None:
            yield "L2 reuse: every byte is assumed to come from memory; give the footprint"
        else:
            yield "misses of L2 beyond the first touch of each byte"
        if timed.forced:
            yield f"what ends {timed.forced} waits of warps for each other: assumed to end at once"
        if timed.cut:
            yield "the rest of long loops: extrapolated from their first iterations"


def _units(found: Sequence[_BlockWork], weights: Sequence[float]) -> dict[str, float]:
    """The mean clocks of units in a block."""
    names = dict.fromkeys(name for work in found for name in work.units)
    return {name: _mean([work.units.get(name, 0.0) for work in found], weights) for name in names}


def _shares(times: Mapping[str, float], clocks: float) -> dict[str, float]:
    """The shares of the clocks for which units are busy, the busiest first, without contention if there is none."""
    ordered = sorted(times.items(), key=lambda each: -each[1])
    return {name: time / clocks for name, time in ordered if time or name != "contention"}


def _sees_others(instruction: Instruction) -> bool:
    """Whether an instruction may observe writes of other blocks."""
    if instruction.base in ("ATOM", "ATOMG"):
        return True
    return instruction.base in ("LD", "LDG") and "STRONG" in instruction.modifiers


@dataclass(slots=True)
class _Piece:
    units: defaultdict[str, float] = field(default_factory=_sums)
    shared: float = 0
    l1: float = 0
    loaded: float = 0
    stored: float = 0
    updated: float = 0
    returned: float = 0
    flops: float = 0
    count: int = 0
    stored_in_shared: float = 0


def _stored_by_bulk(code: Sequence[Instruction]) -> frozenset[int]:
    """The instructions that write to shared memory what bulk stores read.

    These are the stores between a proxy fence and the barrier or fence before it, unless the first reader after the
    fence is a warpgroup product. All stores to shared memory, if there are none of those.
    """
    bases = [instruction.base for instruction in code]
    written = [number for number, base in enumerate(bases) if base in ("STS", "STSM")]
    found: set[int] = set()
    before = -1
    for number, instruction in enumerate(code):
        fence = instruction.base == "FENCE" and "ASYNC" in instruction.modifiers
        if fence:
            readers = (base for base in bases[number:] if base in _ASYNC_READERS)
            if next(readers, "") in _BULK_STORES:
                found |= {index for index in written if before < index < number}
        if fence or instruction.base == "BAR":
            before = number
    return frozenset(found or (written if set(bases) & set(_BULK_STORES) else ()))


def hot_loop_name(found: Profile) -> str | None:
    """The innermost loop with most of the executed instructions; None if loops have less than half of them."""
    best: LoopCost | None = None
    for loop in found.loops:
        whole = best.instructions if best is not None else found.instructions / 2
        deeper = best is None or loop.depth > best.depth
        if loop.instructions > (whole / 2 if best is not None and deeper else whole):
            best = loop
    return best.name if best is not None else None


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    whole = sum(weights)
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / whole
