"""How long a warp would take alone: its path, issued in order, waiting as its control codes say.

Scoreboards are released when the latency of what holds them is over. Beside them wait: products of
`mma.sync` for their accumulators, `wgmma` and `cp.async` for the groups that are committed, bulk copies
for the barrier that the same warp waits on: for the oldest stage, one of which begins with each announcement of bytes.
What is repeated is computed once: a basic block that begins in a
state that was met before takes as long as then.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tilewright.model.opcodes import Unit
from tilewright.model.sass import SCOREBOARDS, Instruction, Kernel
from tilewright.model.scalars import announces_bytes, names_in, results_of
from tilewright.model.work import Work

#: When something is over, in clocks from now, and the number of the instruction that began it.
_Due = tuple[int, int]
#: All that is pending: scoreboards, tensor unit, groups of cp.async, of wgmma, stages of bulk
#: copies, and registers that a product has yet to write.
_State = tuple[
    tuple[_Due, ...],
    _Due,
    tuple[_Due, ...],
    tuple[_Due, ...],
    tuple[_Due, ...],
    tuple[tuple[str, _Due], ...],
]
_OVER: _Due = (0, -1)
_EMPTY: _State = ((_OVER,) * SCOREBOARDS, _OVER, (), (), (), ())
#: More groups and copies than this are never waited for in practice; older ones are over.
_MOST_PENDING = 16


@dataclass(slots=True)
class _Code:
    """What the chain needs of an instruction."""

    instruction: Instruction
    kind: str
    group: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """A warp waits at an instruction, from a clock of its basic block on, for the one that is ``producer``; for its own
    latency where they are the same."""

    start: int
    clocks: int
    index: int
    producer: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A basic block that was executed: its clocks, and the waits in it."""

    number: int
    clocks: int
    waits: tuple[Wait, ...]


@dataclass(slots=True)
class _Step:
    """A basic block while it is executed: the clock, and the waits so far."""

    now: int = 0
    waits: list[Wait] = field(default_factory=list)

    def until(self, due: _Due, index: int) -> None:
        """Wait at an instruction until something is over."""
        if due[0] > self.now:
            self.waits.append(Wait(self.now, due[0] - self.now, index, due[1]))
            self.now = due[0]

    def left(self, due: _Due) -> _Due:
        """What remains after this block."""
        return (due[0] - self.now, due[1]) if due[0] > self.now else _OVER


class Chain:
    """The latency of paths through a kernel. ``works``: of each instruction. ``bulk_latency``: of a copy
    that the warp itself waits for; 0 where others do. ``like``: a chain of the same kernel, which has read it."""

    def __init__(
        self,
        kernel: Kernel,
        works: Sequence[Work],
        bulk_latency: int,
        like: Chain | None = None,
    ) -> None:
        self._kernel, self._works, self._bulk = kernel, works, bulk_latency
        self._code = _read(kernel) if like is None else like._code
        self._known: dict[tuple[int, _State], tuple[Piece, _State]] = {}

    def clocks(self, blocks: Sequence[int]) -> int:
        """The clocks of a path of basic blocks."""
        return sum(piece.clocks for piece in self.pieces(blocks))

    def waits(self, blocks: Sequence[int]) -> Counter[tuple[int, int]]:
        """The clocks of all waits on a path, by the instruction that waits and that which is waited for."""
        found: Counter[tuple[int, int]] = Counter()
        times: dict[int, int] = {}
        pieces: dict[int, Piece] = {}
        for piece in self.pieces(blocks):
            key = id(piece)
            pieces[key] = piece
            times[key] = times.get(key, 0) + 1
        for key, piece in pieces.items():
            for wait in piece.waits:
                found[wait.index, wait.producer] += wait.clocks * times[key]
        return found

    def pieces(self, blocks: Sequence[int]) -> Iterator[Piece]:
        """What is executed on a path, in order."""
        state = _EMPTY
        for number in blocks:
            key = number, state
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = self._block(number, state)
            yield found[0]
            state = found[1]

    def _block(self, number: int, state: _State) -> tuple[Piece, _State]:
        boards, tensor, copies, products, bulk, registers = state
        step = _Step()
        board = list(boards)
        groups, commits, stages, pending = list(copies), list(products), list(bulk), dict(registers)
        copied = _OVER
        block = self._kernel.blocks[number]
        for index in range(block.first, block.last + 1):
            code, work = self._code[index], self._works[index]
            control = code.instruction.control
            for wait in control.waits:
                step.until(board[wait], index)
            for name in code.reads:
                if name in pending:
                    due = pending[name]
                    if code.kind != "mma":
                        del pending[name]
                    step.until(due, index)
            done = step.now + work.latency + _occupies(work)
            if code.kind == "mma":
                step.until((tensor[0] - _AHEAD, tensor[1]), index)
                tensor = max(tensor[0], step.now) + round(work.pipe), index
                done = max(tensor[0], step.now + work.latency)
                for name in code.writes:
                    pending[name] = done, index
            elif code.kind == "wgmma":
                tensor = max(tensor[0], step.now) + round(work.pipe), index
                done = tensor[0]
                if code.group >= 0:
                    commits.append(tensor)
            elif code.kind == "copy":
                copied = done, index
            elif code.kind == "commit":
                groups.append(max(copied, (step.now, index)))
            elif code.kind in ("wait copies", "wait products"):
                held = groups if code.kind == "wait copies" else commits
                while len(held) > code.group:
                    step.until(held.pop(0), index)
            elif code.kind == "stage" and self._bulk:
                stages.append(_OVER)
            elif code.kind == "bulk" and self._bulk:
                stages[-1:] = [(step.now + self._bulk, index)]
            elif code.kind == "wait bulk" and stages:
                step.until(stages.pop(0), index)
            elif code.kind == "barrier" and work.latency:
                step.until((step.now + work.latency, index), index)
            if control.write_barrier is not None:
                board[control.write_barrier] = max(board[control.write_barrier], (done, index))
            if control.read_barrier is not None:
                read = step.now + min(work.latency, _READ), index
                board[control.read_barrier] = max(board[control.read_barrier], read)
            step.now += 1
            if control.stall > 1:
                step.until((step.now + control.stall - 1, index), index)
        after: _State = (
            tuple(step.left(due) for due in board),
            step.left(tensor),
            tuple(step.left(due) for due in groups[-_MOST_PENDING:]),
            tuple(step.left(due) for due in commits[-_MOST_PENDING:]),
            tuple(step.left(due) for due in stages[-_MOST_PENDING:]),
            tuple((name, step.left(due)) for name, due in pending.items() if due[0] > step.now),
        )
        return Piece(number, step.now, tuple(step.waits)), after


#: Clocks after which operands of memory accesses have been read.
_READ = 12
#: Clocks that a warp may be ahead of the tensor unit.
_AHEAD = 16


def _read(kernel: Kernel) -> list[_Code]:
    products = {name for i in kernel.instructions if _kind(i) == "mma" for name in results_of(i)}
    return [_Code(i, _kind(i), _group(i), *_registers(i, products)) for i in kernel.instructions]


def _occupies(work: Work) -> int:
    """Clocks that data takes beside the latency of its first part."""
    return max(0, round(work.shared_bytes / 128) - 1) if work.unit is Unit.SHARED else 0


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
        return (
            "wait bulk" if "PHASECHK" in words else "stage" if announces_bytes(instruction) else ""
        )
    return {
        "LDGSTS": "copy",
        "LDGDEPBAR": "commit",
        "UTMALDG": "bulk",
        "UBLKCP": "bulk",
        "BAR": "barrier",
    }.get(base, "")


_NUMBER = re.compile(r"^0x[0-9a-f]+$")


def _group(instruction: Instruction) -> int:
    """How many groups may be pending after a wait; of `wgmma` 0 where a group ends, else -1."""
    if instruction.base.endswith("GMMA"):
        return 0 if any(operand.startswith("gsb") for operand in instruction.operands) else -1
    found = [operand for operand in instruction.operands if _NUMBER.match(operand)]
    return int(found[0], 16) if found else 0


def _registers(
    instruction: Instruction, products: set[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The registers of products that an instruction reads, and those that it writes as one.

    Of the operands of a product only the first register of each counts: accumulators are aligned.
    """
    kind = _kind(instruction)
    writes = tuple(results_of(instruction)) if kind == "mma" else ()
    reads: list[str] = []
    stores = instruction.base.startswith("ST") or kind == "mma"
    for operand in instruction.operands if stores else instruction.operands[1:]:
        reads += [name for name in names_in(operand) if name in products]
    if kind == "mma":
        reads = [name for operand in instruction.operands[1:] for name in names_in(operand)]
        reads = [name for name in reads if name in products]
    return tuple(dict.fromkeys(reads)), writes
