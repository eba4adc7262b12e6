"""Profiles and the options of profiling: data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.model.tables import KNOWN_ERROR, MODEL_VERSION

BlockIndex = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class LineFacts:
    """Measurements of a run for the instructions of one line.

    ``wave_factor``: shared memory waves per wave that the data needs. ``sector_factor``: bytes of global memory sectors
    per byte that full warps request. ``bulk_bytes`` per bulk copy, None without any; ``copies``: their number in the
    block.
    """

    wave_factor: float = 1.0
    sector_factor: float = 1.0
    bulk_bytes: float | None = None
    copies: float = 0.0


@dataclass(frozen=True, slots=True)
class BlockFacts:
    """Measurements of a run of one block: lines by number, and iterations of loops by name.

    Atomic updates: ``updates`` of the most updated address; ``common`` updates of an address that another of the blocks
    also updates; ``own_bytes`` of the sectors updated, and ``common_bytes`` of those that another block also updates.
    """

    lines: Mapping[int, LineFacts] = field(default_factory=dict)
    trips: Mapping[str, int] = field(default_factory=dict)
    updates: float = 0
    common: float = 0
    own_bytes: float = 0
    common_bytes: float = 0


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a line of code: an operation, and its position in a source file, if known."""

    operation: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Options:
    """Information that the code does not have.

    ``trips``: iterations of loops by name. ``dynamic_shared_bytes`` per block. ``footprint_bytes``: size of the arrays
    of the launch, each counted once; None if every access is to come from memory. ``shared_factor``: the ratio of
    shared memory waves to those without bank conflicts, where ``facts`` do not have it. ``facts``: measurements of some
    blocks; other blocks are like the one with the same path, or the first. ``origins``: of the lines of code, by
    number. ``notes``: further limitations to report.
    """

    trips: Mapping[str, int] = field(default_factory=dict)
    dynamic_shared_bytes: int = 0
    footprint_bytes: int | None = None
    shared_factor: float = 1.0
    facts: Mapping[BlockIndex, BlockFacts] = field(default_factory=dict)
    origins: Mapping[int, Origin] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The resident blocks per multiprocessor, what limits them, and their warps out of the most it can hold."""

    blocks: int
    limit: str
    warps: int
    most_warps: int


@dataclass(frozen=True, slots=True)
class LoopCost:
    """An executed loop: iterations and instructions of the warps that execute it, in one block."""

    name: str
    address: int
    depth: int
    length: int
    turns: float
    instructions: float


@dataclass(frozen=True, slots=True)
class InstructionCost:
    """The cost of an instruction in one block.

    ``origin`` names the opcode if the operation is unknown. ``executions`` counts warps; ``share`` is that of the
    modelled time; ``stall`` is the clocks for which warps wait at it. Shares of the busy time of the busiest unit are
    proportional to the demand on it, and shares of the waiting time to the waits of warps. They add up to 1.
    """

    address: int
    text: str
    origin: Origin
    executions: float
    share: float
    stall: float


@dataclass(frozen=True, slots=True)
class Stall:
    """The clocks for which the warps of a block wait at an instruction for a reason.

    They wait for the result of the instruction at ``producer``, or for the instruction's own fixed latency.
    """

    address: int
    producer: int
    reason: str
    clocks: float


@dataclass(frozen=True, slots=True)
class Span:
    """What a warp does from ``start`` to ``end`` in a block that is alone.

    ``kind`` is a unit or `wait`; ``address`` is that of the instruction, ``producer`` that of the one waited for.
    """

    start: int
    end: int
    kind: str
    address: int
    producer: int | None


@dataclass(frozen=True, slots=True)
class WarpRow:
    """A warp in the timeline of a block: ``role`` is its main activity; ``cut`` if it continues after the last span."""

    warp: int
    role: str
    spans: tuple[Span, ...]
    cut: bool


@dataclass(frozen=True, slots=True)
class Profile:
    """The modelled performance of a launch.

    ``clocks`` of the multiprocessor that is busy the longest; ``seconds`` at the clock rate of the table. ``shares``:
    of the time for which each unit is busy, by name, and "waiting" for none; ``bound_by`` is the largest.
    ``roofline_seconds``: the lower bound by tensor units and memory. ``rounds``: the waves of blocks of a
    multiprocessor; ``tail``: the share of the slots of all waves that is used. ``loaded_bytes``, ``stored_bytes``:
    through L2; ``memory_bytes``: of DRAM. ``costs`` of executed instructions, the most expensive first; ``stalls``, the
    longest first. ``timeline``: the warps of one block. ``simulated``: the number of blocks with measured accesses.
    ``blind``: what the model does not know about this launch. ``at_least``: why it may take much longer than
    ``seconds``; empty if there is no indication. ``hints``: what would make it faster according to the model.
    """

    kernel: str
    gpu: str
    grid: BlockIndex
    threads: BlockIndex
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
    costs: tuple[InstructionCost, ...]
    stalls: tuple[Stall, ...]
    timeline: tuple[WarpRow, ...]
    simulated: int
    blind: tuple[str, ...]
    version: str = MODEL_VERSION
    known_error: str = KNOWN_ERROR
    at_least: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
