"""Profiles and the options of profiling: data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.model.tables import KNOWN_ERROR, MODEL_VERSION

BlockIndex = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class LineFacts:
    """What a run showed of the instructions of one line.

    ``wave_factor``: waves of shared memory for each one that the data needs; ``sector_factor``: bytes of sectors
    of global memory for each byte that full warps ask for; ``bulk_bytes`` of each bulk copy, None where there
    was none; ``copies``: of these in the block.
    """

    wave_factor: float = 1.0
    sector_factor: float = 1.0
    bulk_bytes: float | None = None
    copies: float = 0.0


@dataclass(frozen=True, slots=True)
class BlockFacts:
    """What a run of a block showed: of lines of the code by number, and turns of loops by name. Of atomic updates: ``updates`` of
    the address that has most of them, ``common`` ones of an address that another block which was run updates as well;
    ``own_bytes`` of the sectors of memory that they are of, and ``common_bytes`` of those that another block's are of, too."""

    lines: Mapping[int, LineFacts] = field(default_factory=dict)
    trips: Mapping[str, int] = field(default_factory=dict)
    updates: float = 0
    common: float = 0
    own_bytes: float = 0
    common_bytes: float = 0


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a line of the code comes from: the name of an operation, and its place in a source file, if it has one."""

    operation: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Options:
    """What the code does not say.

    ``trips``: turns of loops by name. ``dynamic_shared_bytes`` of a block. ``footprint_bytes``: of the arrays of the
    launch, each counted once; None: every byte of every block comes from the memory of the GPU.
    ``shared_factor``: how many times more waves of shared memory are needed than without bank conflicts, where
    ``facts`` do not say it. ``facts``: what runs of some blocks showed; others are like the block of them that goes
    the same way, or like the first. ``origins``: of the lines of the code by number, where they come from.
    ``notes``: further things that are not known.
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
class InstructionCost:
    """An instruction in one block: where it comes from (its opcode, where that is not known), how many warps execute it in all, its ``share`` of the modelled time, and the
    clocks for which warps wait at it.

    Shares are of the unit that is busiest, in proportion to what each instruction asks of it, and of the time in which
    it waits, in proportion to where warps wait; together they are 1.
    """

    address: int
    text: str
    origin: Origin
    executions: float
    share: float
    stall: float


@dataclass(frozen=True, slots=True)
class Stall:
    """Clocks for which the warps of a block wait at an instruction, by what is waited for: a result of the instruction
    at the address ``producer``, or its own fixed latency."""

    address: int
    producer: int
    reason: str
    clocks: float


@dataclass(frozen=True, slots=True)
class Span:
    """What a warp of one block does from ``start`` to ``end`` if the block is alone: ``kind`` is a unit or `wait`;
    the addresses of the instruction and of what is waited for."""

    start: int
    end: int
    kind: str
    address: int
    producer: int | None


@dataclass(frozen=True, slots=True)
class WarpRow:
    """A warp in the timeline of a block: ``role`` is what it mostly does; ``cut``: it goes on beyond the last span."""

    warp: int
    role: str
    spans: tuple[Span, ...]
    cut: bool


@dataclass(frozen=True, slots=True)
class Profile:
    """What the model says of a launch; every number is modelled.

    ``clocks`` of the multiprocessor that is busy longest; ``seconds`` at the clock of the table. ``shares``: how
    much of that each unit is busy, by the name of the unit, and "waiting" for what none is; ``bound_by`` is
    the largest. ``roofline_seconds``: what tensor units and memory need at least. ``rounds``: how
    often a multiprocessor is filled with blocks, the last time maybe in part (``tail``: the share of it that is used).
    ``loaded_bytes``, ``stored_bytes``: through L2; ``memory_bytes``: of the GPU's memory. ``costs`` of instructions that
    are executed, the dearest first; ``stalls``, the longest first. ``timeline``: warps of one block.
    ``simulated``: the blocks whose accesses are known from a run. ``blind``: what the model
    does not know about this launch. ``at_least``: why it may take much longer than ``seconds``; empty where nothing says so.
    ``hints``: what would make it faster by the model.
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
