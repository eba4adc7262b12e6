"""Who costs the time of a launch: instructions, waits, and what the warps of a block do when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tilewright.model.chain import Chain, Piece
from tilewright.model.opcodes import Unit, unit_of
from tilewright.model.profile import InstructionCost, Origin, Span, Stall, WarpRow
from tilewright.model.sass import Instruction, Kernel
from tilewright.model.work import PARTITIONS, Work

#: Spans of a warp that a timeline has at most, and clocks of a wait that are shown.
_MOST_SPANS, _SHOWN_WAIT = 400, 8
#: Units that do so little that a span is not named after them.
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


def reason(producer: Instruction, *, itself: bool) -> str:
    """What a wait for an instruction is a wait for."""
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
    """What an instruction of one warp asks of a unit, in clocks, or of the memory of the GPU, in bytes."""
    if unit == "issue":
        return PARTITIONS / rates["issue_rate"]
    if unit == "shared":
        return work.shared_bytes / rates["shared_rate"]
    if unit == "l1":
        return work.l1_bytes / rates["l1_rate"]
    if unit in ("l2", "memory"):
        return work.loaded_bytes + work.stored_bytes
    return work.pipe if work.unit.value == unit else 0.0


def instruction_costs(
    kernel: Kernel,
    executions: Sequence[float],
    asked: Sequence[float],
    waits: Mapping[tuple[int, int], float],
    busy: float,
    origins: Mapping[int, Origin],
) -> tuple[InstructionCost, ...]:
    """The costs of what is executed, the dearest first. ``asked``: of the busiest unit, by each instruction;
    ``busy``: the share of the time for which it is. ``origins`` of lines; other lines are of source files."""
    stalls: Counter[int] = Counter()
    for (index, _), clocks in waits.items():
        stalls[index] += clocks  # pyright: ignore[reportArgumentType]
    whole_asked, whole_stalled = sum(asked), sum(stalls.values())
    # Where nothing waits, all time is that of the unit, and the other way round.
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
    """Where an instruction comes from, as far as its line says it."""
    if instruction.line is None:
        return Origin(instruction.base)
    file, line = instruction.line
    if origins:
        return origins.get(line, Origin(instruction.base))
    return Origin(instruction.base, file, line)


def stalls(kernel: Kernel, waits: Mapping[tuple[int, int], float]) -> tuple[Stall, ...]:
    """Waits by instruction and by what is waited for, the longest first."""
    code = kernel.instructions
    found = [
        Stall(
            code[index].address,
            code[producer].address,
            reason(code[producer], itself=index == producer),
            clocks,
        )
        for (index, producer), clocks in waits.items()
    ]
    return tuple(sorted(found, key=lambda stall: -stall.clocks))


def warp_row(
    kernel: Kernel, warp: int, chain: Chain, path: Sequence[int], works: Sequence[Work]
) -> WarpRow:
    """What a warp does alone."""
    spans: list[Span] = []
    units: Counter[Unit] = Counter()
    for number in set(path):
        block = kernel.blocks[number]
        units.update(works[index].unit for index in range(block.first, block.last + 1))
    now, cut = 0, False
    for piece in chain.pieces(path):
        cut = len(spans) >= _MOST_SPANS
        if cut:
            break
        _extend(spans, kernel, piece, now)
        now += piece.clocks
    return WarpRow(warp, _role(units), tuple(spans[:_MOST_SPANS]), cut)


def _extend(spans: list[Span], kernel: Kernel, piece: Piece, start: int) -> None:
    """Add what happens in a basic block: work, and long waits between it."""
    code, block = kernel.instructions, kernel.blocks[piece.number]
    kind = _main_unit(code[block.first : block.last + 1])
    at = 0
    for wait in piece.waits:
        if wait.clocks < _SHOWN_WAIT:
            continue
        address = code[wait.index].address
        _add(spans, Span(start + at, start + wait.start, kind, address, None))
        at = wait.start + wait.clocks
        waiting = Span(start + wait.start, start + at, "wait", address, code[wait.producer].address)
        spans.append(waiting)
    _add(spans, Span(start + at, start + piece.clocks, kind, code[block.first].address, None))


def _add(spans: list[Span], new: Span) -> None:
    """Append work, to work of the same kind if it goes on."""
    if new.end <= new.start:
        return
    last = spans[-1] if spans else None
    if last is not None and last.kind == new.kind and last.end == new.start:
        spans[-1] = Span(last.start, new.end, last.kind, last.address, None)
    else:
        spans.append(new)


def _main_unit(code: Sequence[Instruction]) -> str:
    """What a basic block does: products if it has any, else what it has most of."""
    units = Counter(unit_of(i) for i in code)
    for unit in (Unit.TENSOR, Unit.TMA):
        if units[unit]:
            return unit.value
    plain = [unit for unit in units if unit not in _PLAIN]
    return max(plain, key=lambda unit: units[unit]).value if plain else "issue"


def _role(units: Counter[Unit]) -> str:
    """What a warp mostly does, in a word."""
    if units[Unit.TENSOR]:
        return "products"
    if units[Unit.TMA]:
        return "copies"
    if units[Unit.SFU] and units[Unit.SFU] * 4 > units[Unit.FMA]:
        return "functions"
    return "work"
