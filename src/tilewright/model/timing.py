"""How long a launch would take: the performance model, read from machine code.

    time = max(blocks of a multiprocessor / throughput of its resident blocks,
               bytes of the launch / bandwidth of the memory of the GPU)

The work of a block is the sum over its warps of what each instruction on their paths costs (``walk``,
``work``), for each unit; its latency is that of the warp that takes longest alone (``chain``). Resident blocks
share the unit that has most to do as customers share a server between times of thinking (mean value
analysis of a closed queueing network): one block takes its latency, many take what the unit needs. Blocks that differ
are represented by a few of them. What the model does not see is in ``Profile.blind``.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.diagnostics import TileIRError
from tilewright.model.chain import Chain
from tilewright.model.codes import CANNOT_RUN, OTHER_ARCHITECTURE
from tilewright.model.opcodes import Unit, unit_of, unknown_opcodes
from tilewright.model.sass import Kernel, Loop
from tilewright.model.tables import KNOWN_ERROR, MODEL_VERSION, Gpu
from tilewright.model.walk import LaunchShape, Walker, WarpPath
from tilewright.model.work import PARTITIONS, WARP, Work, work_of

#: Blocks of the grid that are looked at, at most.
_SAMPLES = 6
_REGISTER_UNIT, _WARP_REGISTERS = 8, 32
_SHARED_UNIT = 128
_WAVE = 128


@dataclass(frozen=True, slots=True)
class Options:
    """What the code does not say.

    ``trips``: turns of loops by name. ``dynamic_shared_bytes`` of a block. ``footprint_bytes``: of the arrays of the
    launch, each counted once; None: every byte of every block comes from the memory of the GPU.
    ``shared_factor``: how many times more waves of shared memory are needed than without bank conflicts.
    """

    trips: Mapping[str, int] = field(default_factory=dict)
    dynamic_shared_bytes: int = 0
    footprint_bytes: int | None = None
    shared_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Blocks that a multiprocessor holds at once, what limits them, and warps out of those it could hold."""

    blocks: int
    limit: str
    warps: int
    most_warps: int


@dataclass(frozen=True, slots=True)
class LoopCost:
    """A loop that runs: turns and instructions of the warps that run it, in one block."""

    name: str
    address: int
    depth: int
    length: int
    turns: float
    instructions: float


@dataclass(frozen=True, slots=True)
class Profile:
    """What the model says of a launch; every number is modelled.

    ``clocks`` of the multiprocessor that is busy longest; ``seconds`` at the clock of the table. ``shares``: how
    much of that each unit is busy, by the name of the unit, and "waiting" for what none is; ``bound_by`` is
    the largest. ``rounds``: how
    often a multiprocessor is filled with blocks, the last time maybe in part (``tail``: the share of it that is used).
    ``loaded_bytes``, ``stored_bytes``: through L2; ``memory_bytes``: of the GPU's memory. ``blind``: what the model
    does not know about this launch.
    """

    kernel: str
    gpu: str
    clocks: float
    seconds: float
    bound_by: str
    shares: dict[str, float]
    roofline_seconds: float
    occupancy: Occupancy
    rounds: float
    tail: float
    block_latency: int
    instructions: float
    registers: int
    spills: int
    shared_bytes: int
    loaded_bytes: float
    stored_bytes: float
    memory_bytes: float
    flops: float
    loops: tuple[LoopCost, ...]
    blind: tuple[str, ...]
    version: str = MODEL_VERSION
    known_error: str = KNOWN_ERROR


def _sums() -> defaultdict[str, float]:
    """Clocks by the names of units."""
    return defaultdict(float)


@dataclass(slots=True)
class _BlockWork:
    """The work of one block: clocks of units of the busiest quarter, and of the whole multiprocessor."""

    units: defaultdict[str, float] = field(default_factory=_sums)
    instructions: float = 0
    loaded: float = 0
    stored: float = 0
    flops: float = 0
    guesses: int = 0
    turns: Counter[int] = field(default_factory=Counter)
    inside: Counter[int] = field(default_factory=Counter)


def profile(
    kernel: Kernel, gpu: Gpu, launch: LaunchShape, options: Options | None = None
) -> Profile:
    """The modelled time of a launch.

    Raises TileIRError: code of another architecture, blocks that do not fit, loops whose number of turns is
    not known.
    """
    options = options or Options()
    if not gpu.runs(kernel.compute):
        raise TileIRError.single(
            OTHER_ARCHITECTURE,
            f"'{kernel.name}' is code for sm_{kernel.compute}, which the {gpu.title} "
            f"(sm_{gpu.compute}) does not run",
            help=f"compile for sm_{gpu.compute}, or name another GPU",
        )
    shared = kernel.file.shared_bytes + options.dynamic_shared_bytes
    occupancy = _occupancy(kernel, gpu, launch, shared)
    return _Timing(kernel, gpu, launch, options, occupancy, shared).profile()


def block_limits(gpu: Gpu, registers: int, threads: int, shared: int) -> dict[str, int]:
    """How many blocks a multiprocessor holds by each of its resources, for blocks of ``threads`` with so many
    registers each and ``shared`` bytes of shared memory."""
    warps = -(-threads // WARP)
    per_warp = -(-registers * _WARP_REGISTERS // 256) * 256
    taken = -(-(shared + int(gpu["reserved_shared_bytes"])) // _SHARED_UNIT) * _SHARED_UNIT
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
        self._walker = Walker(kernel, launch, options.trips)
        self._warps = -(-math.prod(launch.threads) // WARP)
        names = {instruction.base for instruction in kernel.instructions}
        self._has_bulk_stores = "UTMASTG" in names
        self._has_bulk_loads = bool(names & {"UTMALDG", "UBLKCP"})

    def profile(self) -> Profile:
        gpu, grid = self._gpu, math.prod(self._launch.grid)
        paths = self._sampled()
        latency = int(gpu["hbm_latency"])
        works = [work_of(i, gpu, latency) for i in self._kernel.instructions]
        found = [self._block(path, works) for path in paths.values()]
        traffic = _mean([block.loaded + block.stored for block in found]) * grid
        memory = traffic
        if self._options.footprint_bytes is not None:
            memory = min(traffic, self._options.footprint_bytes) or self._options.footprint_bytes
        hits = 1 - memory / traffic if traffic else 0.0
        latency = round(gpu["l2_latency"] + (gpu["hbm_latency"] - gpu["l2_latency"]) * (1 - hits))
        works = [work_of(i, gpu, latency) for i in self._kernel.instructions]
        chains = self._latencies(list(paths.values()), works, latency)
        sms = min(int(gpu["sms"]), grid)
        each = math.ceil(grid / sms)
        units = _sums()
        for block in found:
            for name, busy in block.units.items():
                units[name] += busy / len(found)
        times = {name: clocks * each for name, clocks in units.items()}
        resident = min(self._occupancy.blocks, each)
        busiest = max(units.values())
        running = each * clocks_of_a_block(busiest, _mean(chains), resident)
        times["memory"] = memory / (gpu["hbm_rate"] * gpu["hbm_share"] / gpu["clock"])
        clocks = max(running, times["memory"], 1.0)
        times["waiting"] = clocks - max(times.values())
        bound = max(times, key=lambda name: times[name])
        rooflines = [times[name] for name in ("tensor", "memory") if name in times]
        rounds = each / resident
        return Profile(
            self._kernel.name,
            gpu.name,
            clocks,
            clocks / (gpu["clock"] * 1e9),
            bound,
            {name: time / clocks for name, time in sorted(times.items(), key=lambda t: -t[1])},
            max(rooflines, default=0.0) / (gpu["clock"] * 1e9),
            self._occupancy,
            rounds,
            grid / (math.ceil(grid / (sms * resident)) * sms * resident),
            round(_mean(chains)),
            _mean([block.instructions for block in found]),
            self._kernel.file.registers,
            self._kernel.spills,
            self._shared,
            _mean([block.loaded for block in found]) * grid,
            _mean([block.stored for block in found]) * grid,
            memory,
            _mean([block.flops for block in found]) * grid,
            tuple(self._loops(found)),
            tuple(self._blind(found)),
        )

    def _sampled(self) -> dict[tuple[int, int, int], list[WarpPath]]:
        """The paths of all warps of some blocks; those whose first warp goes the same way are alike."""
        found: dict[tuple[int, int, int], list[WarpPath]] = {}
        like: dict[tuple[int, ...], list[WarpPath]] = {}
        for block in _samples(self._launch.grid):
            first = self._walker.walk(0, block)
            key = tuple(first.blocks)
            if key not in like:
                others = [self._walker.walk(warp, block) for warp in range(1, self._warps)]
                like[key] = [first, *others]
            found[block] = like[key]
        return found

    def _block(self, paths: Sequence[WarpPath], works: Sequence[Work]) -> _BlockWork:
        """Sums over warps; a warp runs in the quarter of its number modulo four."""
        quarters = [_sums() for _ in range(PARTITIONS)]
        whole = _sums()
        total = _BlockWork()
        gpu, factor = self._gpu, self._options.shared_factor
        block_works = self._summed(works)
        stored_in_shared = 0.0
        for number, path in enumerate(paths):
            quarter = quarters[number % PARTITIONS]
            counts = path.counts()
            for block, times in counts.items():
                piece = block_works[block]
                for name, clocks in piece.units.items():
                    quarter[name] += clocks * times
                whole["shared"] += piece.shared * factor / gpu["shared_rate"] * times
                whole["l1"] += piece.l1 / gpu["l1_rate"] * times
                total.loaded += piece.loaded * times
                total.stored += piece.stored * times
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
        if self._has_bulk_stores and not total.stored:
            total.stored = stored_in_shared
            whole["shared"] += stored_in_shared / gpu["shared_rate"]
        whole["l2"] = (total.loaded + total.stored) / gpu["l2_rate"]
        for quarter in quarters:
            for name, clocks in quarter.items():
                total.units[name] = max(total.units[name], clocks)
        for name, clocks in whole.items():
            total.units[name] += clocks
        return total

    def _summed(self, works: Sequence[Work]) -> list[_Piece]:
        """The work of each basic block, executed once."""
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
                piece.flops += work.flops
                piece.count += 1
                if self._kernel.instructions[index].base in ("STS", "STSM"):
                    piece.stored_in_shared += work.shared_bytes
            pieces.append(piece)
        return pieces

    def _latencies(
        self, sampled: Sequence[Sequence[WarpPath]], works: Sequence[Work], latency: int
    ) -> list[float]:
        """The latency of each block that is looked at: that of its longest warp, and one bulk copy where
        others than those who wait issue them."""
        own = Chain(self._kernel, works, latency)
        others = Chain(self._kernel, works, 0)
        known: dict[tuple[int, ...], int] = {}
        found: list[float] = []
        for paths in sampled:
            longest, handed = 0, False
            for path in paths:
                key = tuple(path.blocks)
                if key not in known:
                    alone = self._serves_itself(path)
                    known[key] = (own if alone else others).clocks(path.blocks)
                longest = max(longest, known[key])
                handed = handed or path.loaded_bytes > 0
            found.append(longest + (latency if handed else 0))
        return found

    def _serves_itself(self, path: WarpPath) -> bool:
        """Whether a warp works on what it copies, rather than copying for others."""
        if not self._has_bulk_loads:
            return False
        units = {
            unit_of(i)
            for number in set(path.blocks)
            for i in self._kernel.instructions[
                self._kernel.blocks[number].first : self._kernel.blocks[number].last + 1
            ]
        }
        return Unit.TMA in units and bool(units & {Unit.TENSOR, Unit.SHARED})

    def _loops(self, found: Sequence[_BlockWork]) -> Iterator[LoopCost]:
        for loop in self._kernel.loops:
            turns = _mean([block.turns[loop.number] for block in found])
            if turns and not loop.waits:
                yield LoopCost(
                    loop.name,
                    self._address(loop),
                    loop.depth,
                    len(self._kernel.body(loop)),
                    turns,
                    _mean([block.inside[loop.number] for block in found]),
                )

    def _address(self, loop: Loop) -> int:
        return self._kernel.instructions[self._kernel.blocks[loop.head].first].address

    def _blind(self, found: Sequence[_BlockWork]) -> Iterator[str]:
        """What the model does not know of this launch."""
        mix = self._kernel.mix
        if unknown := unknown_opcodes(self._kernel.instructions):
            names = ", ".join(f"{name} ({count})" for name, count in unknown.items())
            yield f"opcodes without a unit, which count as issued only: {names}"
        if any(block.guesses for block in found):
            most = max(block.guesses for block in found)
            yield f"{most} branches of a block depend on data; they are taken to fall through"
        if self._options.shared_factor == 1.0 and mix["LDS"] + mix["STS"]:
            yield "bank conflicts of shared memory: none are assumed"
        if mix["LDG"] + mix["STG"]:
            yield "global accesses are taken to be coalesced, by all lanes"
        if mix["ATOMG"] + mix["RED"] + mix["REDG"] + mix["ATOM"]:
            yield "atomics that meet at one address"
        if self._has_bulk_stores:
            yield "sizes of bulk stores: what is written to shared memory is taken to be stored"
        if self._options.footprint_bytes is None:
            yield "reuse in L2: every byte is taken to come from memory; give the footprint"
        else:
            yield "misses of L2 beyond the first touch of each byte"
        if self._has_bulk_loads:
            yield "waits of producers and consumers for each other beyond the first copy"


@dataclass(slots=True)
class _Piece:
    units: defaultdict[str, float] = field(default_factory=_sums)
    shared: float = 0
    l1: float = 0
    loaded: float = 0
    stored: float = 0
    flops: float = 0
    count: int = 0
    stored_in_shared: float = 0


def hot_loop_name(found: Profile) -> str | None:
    """The innermost loop in which most instructions are executed, if half of them are in loops."""
    best: LoopCost | None = None
    for loop in found.loops:
        whole = best.instructions if best is not None else found.instructions / 2
        deeper = best is None or loop.depth > best.depth
        if loop.instructions > (whole / 2 if best is not None and deeper else whole):
            best = loop
    return best.name if best is not None else None


def clocks_of_a_block(busy: float, latency: float, resident: int) -> float:
    """The clocks between two ends of blocks on a multiprocessor that holds so many at a time.

    ``busy``: clocks that each needs the unit that has most to do; ``latency``: clocks of one alone. Exact for
    one block; tends to ``busy`` for many, and lies above both ``busy`` and ``latency / resident``.
    """
    thinking = max(0.0, latency - busy)
    queued = throughput = 0.0
    for count in range(1, resident + 1):
        served = busy * (1 + queued)
        throughput = count / (thinking + served) if thinking + served else math.inf
        queued = throughput * served
    return 1 / throughput


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _samples(grid: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    """A few blocks, spread evenly over the grid: the first, the last, and some between."""
    count = math.prod(grid)
    take = min(count, _SAMPLES)
    numbers = {round(i * (count - 1) / max(1, take - 1)) for i in range(take)}
    x, y, _ = grid
    return [(n % x, n // x % y, n // (x * y)) for n in sorted(numbers)]
