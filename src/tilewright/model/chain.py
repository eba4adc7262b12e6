"""How long a warp would take alone: its path, issued in order, waiting as its control codes say.

Scoreboards are released when the latency of what holds them is over. Beside them wait: products of
`mma.sync` for their accumulators, `wgmma` and `cp.async` for the groups that are committed, bulk copies
for the barrier that the same warp waits on. What is repeated is computed once: a basic block that begins in a
state that was met before takes as long as then.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.model.opcodes import Unit
from tilewright.model.sass import SCOREBOARDS, Instruction, Kernel
from tilewright.model.scalars import names_in, results_of
from tilewright.model.work import Work

#: All that is pending, in clocks from now: scoreboards, tensor unit, groups of cp.async, of wgmma, bulk
#: copies, and registers that a product has yet to write.
_State = tuple[
    tuple[int, ...],
    int,
    tuple[int, ...],
    tuple[int, ...],
    tuple[int, ...],
    tuple[tuple[str, int], ...],
]
_EMPTY: _State = ((0,) * SCOREBOARDS, 0, (), (), (), ())
#: More groups and copies than this are never waited for in practice; older ones are over.
_MOST_PENDING = 16


@dataclass(slots=True)
class _Code:
    """What the chain needs of an instruction."""

    instruction: Instruction
    work: Work
    kind: str
    group: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]


class Chain:
    """The latency of paths through a kernel. ``works``: of each instruction. ``bulk_latency``: of a copy
    that the warp itself waits for; 0 where others do."""

    def __init__(self, kernel: Kernel, works: Sequence[Work], bulk_latency: int) -> None:
        self._kernel, self._bulk = kernel, bulk_latency
        products = {
            name for i in kernel.instructions if _kind(i) == "mma" for name in results_of(i)
        }
        self._code = [
            _Code(i, work, _kind(i), _group(i), *_registers(i, products))
            for i, work in zip(kernel.instructions, works, strict=True)
        ]
        self._known: dict[tuple[int, _State], tuple[int, _State]] = {}

    def clocks(self, blocks: Sequence[int]) -> int:
        """The clocks of a path of basic blocks."""
        total, state = 0, _EMPTY
        for number in blocks:
            key = number, state
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = self._block(number, state)
            total += found[0]
            state = found[1]
        return total

    def _block(self, number: int, state: _State) -> tuple[int, _State]:
        boards, tensor, copies, products, bulk, registers = state
        now = 0
        board = list(boards)
        groups, commits, bulks, pending = list(copies), list(products), list(bulk), dict(registers)
        copied = 0
        block = self._kernel.blocks[number]
        for code in self._code[block.first : block.last + 1]:
            control = code.instruction.control
            for wait in control.waits:
                now = max(now, board[wait])
            for name in code.reads:
                if name in pending:
                    now = max(now, pending.pop(name) if code.kind != "mma" else pending[name])
            done = now + code.work.latency + _occupies(code.work)
            if code.kind == "mma":
                now = max(now, tensor - _AHEAD)
                tensor = max(tensor, now) + round(code.work.pipe)
                done = max(tensor, now + code.work.latency)
                for name in code.writes:
                    pending[name] = done
            elif code.kind == "wgmma":
                tensor = max(tensor, now) + round(code.work.pipe)
                done = tensor
                if code.group >= 0:
                    commits.append(done)
            elif code.kind == "copy":
                copied = done
            elif code.kind == "commit":
                groups.append(max(copied, now))
            elif code.kind in ("wait copies", "wait products"):
                held = groups if code.kind == "wait copies" else commits
                while len(held) > code.group:
                    now = max(now, held.pop(0))
            elif code.kind == "bulk" and self._bulk:
                bulks.append(now + self._bulk)
            elif code.kind == "wait bulk" and bulks:
                now = max(now, *bulks)
                bulks.clear()
            elif code.kind == "barrier":
                now += code.work.latency
            if control.write_barrier is not None:
                board[control.write_barrier] = max(board[control.write_barrier], done)
            if control.read_barrier is not None:
                read = now + min(code.work.latency, _READ)
                board[control.read_barrier] = max(board[control.read_barrier], read)
            now += max(control.stall, 1)
        after: _State = (
            tuple(max(0, clock - now) for clock in board),
            max(0, tensor - now),
            tuple(max(0, clock - now) for clock in groups[-_MOST_PENDING:]),
            tuple(max(0, clock - now) for clock in commits[-_MOST_PENDING:]),
            tuple(max(0, clock - now) for clock in bulks[-_MOST_PENDING:]),
            tuple((name, clock - now) for name, clock in pending.items() if clock > now),
        )
        return now, after


#: Clocks after which operands of memory accesses have been read.
_READ = 12
#: Clocks that a warp may be ahead of the tensor unit.
_AHEAD = 16


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
        return "wait bulk" if "PHASECHK" in words else ""
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
