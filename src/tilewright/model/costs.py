"""Attributes the time of a launch: to instructions, to waits, and to what the warps of a block do when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tilewright.model.multiprocessor import LogEntry, WaitKey
from tilewright.model.opcodes import Unit, unit_of
from tilewright.model.profile import InstructionCost, Origin, Span, Stall, WarpRow
from tilewright.model.sass import Instruction, Kernel
from tilewright.model.work import PARTITIONS, Work

#: The log entries of a warp at most, and the shortest wait that is shown, in clocks.
MOST_LOGGED, _SHOWN_WAIT = 600, 8
#: Units that do too little to name a span.
_PLAIN = frozenset({Unit.CONTROL, Unit.OTHER, Unit.UNIFORM, Unit.LSU})

_REASONS = {
    Unit.GLOBAL: "global memory",
    Unit.SHARED: "shared memory",
    Unit.TENSOR: "tensor unit",
    Unit.SFU: "special functions and conversions",
    Unit.TMA: "bulk copies",
    Unit.LSU: "constants and special registers",
    Unit.UNIFORM: "uniform data path",
    Unit.DOUBLE: "units of f64",
}
_LOCAL = frozenset({"LDL", "STL"})
_ATOMICS = frozenset({"ATOM", "ATOMG", "ATOMS", "RED", "REDG"})


#: The reason of a wait for a busy unit, by its name.
_BUSY = {
    "issue": "issue of other warps",
    "tensor": "busy tensor unit",
    "shared": "busy banks of shared memory",
    "l1": "busy L1",
    "l2": "bytes from and to L2",
    "memory": "bytes of memory",
    "sfu": "busy special functions and conversions",
}


def reason(producer: Instruction, *, itself: bool, busy: str = "") -> str:
    """The reason, in words of the report, for which a warp waits for ``producer``, or for a ``busy`` unit.

    ``itself``: the waiting instruction is the producer, whose own latency or group it waits for.
    """
    if busy:
        return _BUSY.get(busy, "busy units of arithmetic")
    if producer.base == "BAR":
        return "barrier of the block"
    if itself:
        return "latency of arithmetic"
    if producer.base in _LOCAL:
        return "spilled registers"
    if producer.base in _ATOMICS:
        return "atomic updates"
    unit = unit_of(producer)
    return "barriers in memory" if unit is Unit.SYNC else _REASONS.get(unit, "arithmetic")


def asked_of(unit: str, work: Work, rates: Mapping[str, float]) -> float:
    """The demand of a warp instruction on a unit, in clocks, or on the GPU's memory or L2, in bytes.

    ``rates`` are the constants of the GPU; an unknown unit has the clocks of the instruction's pipe.
    """
    if unit == "issue":
        return PARTITIONS / rates["issue_rate"]
    if unit == "shared":
        return work.shared_bytes / rates["shared_rate"]
    if unit == "l1":
        return work.l1_bytes / rates["l1_rate"]
    if unit == "atomics":
        return work.updated_bytes
    if unit == "l2":
        moved = work.updated_bytes + work.returned_bytes
        return work.loaded_bytes + work.stored_bytes + moved
    if unit == "memory":
        return work.loaded_bytes + work.stored_bytes
    return work.pipe if work.unit.value == unit else 0.0


def instruction_costs(
    kernel: Kernel,
    executions: Sequence[float],
    asked: Sequence[float],
    waits: Mapping[WaitKey, float],
    busy: float,
    origins: Mapping[int, Origin],
) -> tuple[InstructionCost, ...]:
    """The costs of executed instructions, the most expensive first.

    ``asked``: the demand of each instruction on the busiest unit. ``busy``: the share of time for which that is busy.
    ``origins`` by line; without them lines are of source files.
    """
    stalls: Counter[int] = Counter()
    for (index, _, _), clocks in waits.items():
        stalls[index] += clocks  # pyright: ignore[reportArgumentType]
    whole_asked, whole_stalled = sum(asked), sum(stalls.values())
    # Without waits all time is the unit's, and without demand all time is waiting.
    of_unit = (busy if whole_stalled else 1.0) if whole_asked else 0.0
    of_waits = 1 - of_unit if whole_stalled else 0.0
    found = [
        InstructionCost(
            instruction.address,
            str(instruction).partition("*/ ")[2],
            _origin(instruction, origins),
            executions[index],
            of_unit * asked[index] / (whole_asked or 1)
            + of_waits * stalls[index] / (whole_stalled or 1),
            stalls[index],
        )
        for index, instruction in enumerate(kernel.instructions)
        if executions[index]
    ]
    return tuple(sorted(found, key=lambda cost: -cost.share))


def _origin(instruction: Instruction, origins: Mapping[int, Origin]) -> Origin:
    """The origin of an instruction, by its line."""
    if instruction.line is None:
        return Origin(instruction.base)
    file, line = instruction.line
    if origins:
        return origins.get(line, Origin(instruction.base))
    return Origin(instruction.base, file, line)


def stalls(kernel: Kernel, waits: Mapping[WaitKey, float]) -> tuple[Stall, ...]:
    """Waits by instruction and by what is waited for, the longest first, in clocks summed over warps."""
    code = kernel.instructions
    found = [
        Stall(
            code[index].address,
            code[producer].address,
            reason(code[producer], itself=index == producer, busy=busy),
            clocks,
        )
        for (index, producer, busy), clocks in waits.items()
    ]
    return tuple(sorted(found, key=lambda stall: -stall.clocks))


def warp_row(
    kernel: Kernel, warp: int, log: Sequence[LogEntry], end: float, works: Sequence[Work]
) -> WarpRow:
    """The timeline of a warp from its log, in clocks; ``end`` is the clock at which it ended.

    ``works`` is by instruction. Waits of less than 8 clocks are not shown.
    """
    units: Counter[Unit] = Counter()
    for number in {entry.block for entry in log if entry.wait is None}:
        block = kernel.blocks[number]
        units.update(works[index].unit for index in range(block.first, block.last + 1))
    spans: list[Span] = []
    kinds = {number: _kind(kernel, number) for number in {e.block for e in log if e.wait is None}}
    code, now, number = kernel.instructions, 0.0, log[0].block
    for entry in log:
        _add(spans, kinds[number], now, entry.start)
        now = max(now, entry.start)
        if entry.wait is None:
            number = entry.block
        elif entry.end - entry.start >= _SHOWN_WAIT:
            index, producer, _ = entry.wait
            who = code[producer].address
            spans.append(
                Span(round(entry.start), round(entry.end), "wait", code[index].address, who)
            )
            now = entry.end
    cut = len(log) >= MOST_LOGGED
    if not cut:
        _add(spans, kinds[number], now, end)
    return WarpRow(warp, _role(units), tuple(spans), cut)


def _kind(kernel: Kernel, number: int) -> tuple[str, int]:
    """The kind of a basic block, and its address."""
    block = kernel.blocks[number]
    code = kernel.instructions[block.first : block.last + 1]
    return _main_unit(code), code[0].address


def _add(spans: list[Span], what: tuple[str, int], begun: float, ended: float) -> None:
    """Append work, merged with preceding work of the same kind."""
    start, end, (kind, address) = round(begun), round(ended), what
    if end <= start:
        return
    last = spans[-1] if spans else None
    if last is not None and last.kind == kind and last.end == start:
        spans[-1] = Span(last.start, end, kind, last.address, None)
    else:
        spans.append(Span(start, end, kind, address, None))


def _main_unit(code: Sequence[Instruction]) -> str:
    """The kind of a basic block: tensor or TMA if it has such instructions, else the most frequent unit."""
    units = Counter(unit_of(i) for i in code)
    for unit in (Unit.TENSOR, Unit.TMA):
        if units[unit]:
            return unit.value
    plain = [unit for unit in units if unit not in _PLAIN]
    return max(plain, key=lambda unit: units[unit]).value if plain else "issue"


def _role(units: Counter[Unit]) -> str:
    """The main activity of a warp, in a word."""
    if units[Unit.TENSOR]:
        return "products"
    if units[Unit.TMA]:
        return "copies"
    if units[Unit.SFU] and units[Unit.SFU] * 4 > units[Unit.FMA]:
        return "functions"
    return "work"
