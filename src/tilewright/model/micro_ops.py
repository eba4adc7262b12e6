"""Prepares machine code for timing: instructions that need only issue slots and pipes are fused into one step.

Each step lists its demands on the multiprocessor (``multiprocessor``), in clocks and bytes, so that no text is parsed
while a block runs.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tilewright.model.opcodes import Unit
from tilewright.model.sass import Instruction, Kernel
from tilewright.model.scalars import announces_bytes, names_in, results_of
from tilewright.model.tables import Gpu
from tilewright.model.traces import is_traced
from tilewright.model.work import PARTITIONS, WARP, Work

#: The units of a quarter of a multiprocessor, by number.
QUARTER = (
    "issue", Unit.FMA, Unit.IMAD, Unit.ALU, Unit.HALF, Unit.DOUBLE, Unit.SFU, Unit.UNIFORM, Unit.TENSOR, Unit.LSU,
)  # fmt: skip
_NUMBER_OF = {unit: number for number, unit in enumerate(QUARTER)}
ISSUE, TENSOR = 0, QUARTER.index(Unit.TENSOR)
_INTEGER = re.compile(r"^0x[0-9a-f]+$")


@dataclass(slots=True)
class Step:
    """One instruction, or several that only need issue slots and pipes (``kind`` "plain").

    ``demand``: clocks of the quarter's units by number, in total and for the last instruction. ``issue``: clocks of the
    issue port. ``clocks``: from the first issue to that of the next step. ``shared``, ``l1``: clocks of the shared
    memory banks and of L1; ``loaded``, ``stored``: bytes. ``write``, ``read``: scoreboards, -1 for none. ``stalls``:
    fixed latencies by instruction.
    """

    index: int
    kind: str
    clocks: float
    issue: float = 1.0
    demand: tuple[tuple[int, float, float], ...] = ()
    waits: tuple[int, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    latency: float = 0
    unit: int = -1
    pipe: float = 0
    shared: float = 0
    l1: float = 0
    loaded: float = 0
    stored: float = 0
    write: int = -1
    read: int = -1
    read_after: float = 0
    group: int = 0
    barrier: str = ""
    parties: int = 0
    count: int = 1
    stalls: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class Text:
    """The part of an instruction's timing that does not depend on the GPU."""

    instruction: Instruction
    kind: str
    group: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]


def read_texts(kernel: Kernel) -> list[Text]:
    """What is read of each instruction of a kernel, in order: its kind, group, and the registers that it reads and
    writes.
    """
    products = {name for i in kernel.instructions if _kind(i) == "mma" for name in results_of(i)}
    return [Text(i, _kind(i), _group(i), *_registers(i, products)) for i in kernel.instructions]


def steps_of(
    kernel: Kernel, texts: Sequence[Text], works: Sequence[Work], gpu: Gpu
) -> list[list[Step]]:
    """The steps of each basic block, fused where nothing but issue slots and pipes is needed.

    ``texts`` and ``works`` are by instruction; times are in clocks.
    """
    return [
        _joined(_step(n, texts[n], works[n], gpu) for n in range(block.first, block.last + 1))
        for block in kernel.blocks
    ]


def _step(index: int, text: Text, work: Work, gpu: Gpu) -> Step:
    control, instruction = text.instruction.control, text.instruction
    unit = _NUMBER_OF.get(work.unit, -1)
    kind = text.kind
    on_quarter = unit >= 0 and work.pipe > 0
    write = -1 if control.write_barrier is None else control.write_barrier
    read = -1 if control.read_barrier is None else control.read_barrier
    parties = 0
    if kind == "barrier" and len(instruction.operands) > 1:
        count = instruction.operands[-1]
        parties = int(count, 16) // WARP if _INTEGER.match(count) else 0
    issue = PARTITIONS / gpu["issue_rate"]
    made = Step(
        index,
        kind or "timed",
        max(issue, control.stall),
        issue,
        waits=control.waits,
        reads=text.reads,
        writes=text.writes,
        latency=work.latency,
        unit=unit if on_quarter else -1,
        pipe=work.pipe if on_quarter else 0,
        shared=work.shared_bytes / gpu["shared_rate"],
        l1=work.l1_bytes / gpu["l1_rate"],
        loaded=work.loaded_bytes + work.updated_bytes + work.returned_bytes,
        stored=work.stored_bytes,
        write=write,
        read=read,
        read_after=min(work.latency, gpu["operand_latency"]),
        group=text.group,
        barrier=next(iter(instruction.operands), "") if kind in ("barrier", "arrive") else "",
        parties=parties,
        stalls=((index, control.stall - 1),) if control.stall > 1 else (),
    )
    moves = made.shared or made.l1 or made.loaded or made.stored
    if kind or made.waits or made.reads or write >= 0 or read >= 0 or moves:
        return made
    demand: tuple[tuple[int, float, float], ...] = ((ISSUE, made.issue, made.issue),)
    if on_quarter:
        demand += ((unit, work.pipe, work.pipe),)
    return replace(made, kind="plain", demand=demand, unit=-1, pipe=0)


def _joined(steps: Iterator[Step]) -> list[Step]:
    found: list[Step] = []
    for step in steps:
        last = found[-1] if found else None
        if last is None or last.kind != "plain" or step.kind != "plain":
            found.append(step)
            continue
        totals: Counter[int] = Counter()
        own: dict[int, float] = {}
        for unit, clocks, _ in last.demand + step.demand:
            totals[unit] += clocks  # pyright: ignore[reportArgumentType]
            own[unit] = min(clocks, own.get(unit, math.inf))
        demand = tuple((unit, clocks, own[unit]) for unit, clocks in totals.items())
        found[-1] = replace(
            last,
            clocks=last.clocks + step.clocks,
            demand=demand,
            count=last.count + 1,
            stalls=last.stalls + step.stalls,
        )
    return found


def _kind(instruction: Instruction) -> str:
    base, words = instruction.base, instruction.modifiers
    if base.endswith("GMMA"):
        return "wgmma"
    if base.endswith("MMA"):
        return "mma"
    if base == "WARPGROUP":
        return "wait products" if "DEPBAR" in words else ""
    if base == "DEPBAR":
        return "wait copies" if "LE" in words else ""
    if base == "SYNCS":
        if "PHASECHK" in words:
            return "wait phase"
        if "EXCH" in words:
            return "begin phases"
        return "announce" if announces_bytes(instruction) else "arrive phase"
    if base == "BAR":
        return "arrive" if "ARV" in words else "barrier"
    if is_traced(instruction):
        return "bulk" if base != "ARRIVES" else "arrive phase"
    return {
        "LDGSTS": "copy",
        "UTMASTG": "copy",
        "UTMAREDG": "copy",
        "UBLKRED": "copy",
        "LDGDEPBAR": "commit",
        "UTMACMDFLUSH": "commit",
    }.get(base, "")


def _group(instruction: Instruction) -> int:
    """The number of groups that may be pending after a wait; for `wgmma` 0 at the end of a group, else -1."""
    if instruction.base.endswith("GMMA"):
        return 0 if any(operand.startswith("gsb") for operand in instruction.operands) else -1
    found = [operand for operand in instruction.operands if _INTEGER.match(operand)]
    return int(found[0], 16) if found else 0


def _registers(
    instruction: Instruction, products: set[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The product registers that an instruction reads, and those that it writes.

    Only the first register of each operand counts, as accumulators are aligned.
    """
    kind = _kind(instruction)
    writes = tuple(results_of(instruction)) if kind == "mma" else ()
    stores = instruction.base.startswith("ST") or kind == "mma"
    read = instruction.operands[1:] if kind == "mma" or not stores else instruction.operands
    reads = [name for operand in read for name in names_in(operand) if name in products]
    return tuple(dict.fromkeys(reads)), writes
