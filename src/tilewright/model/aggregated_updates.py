"""Warp-aggregated atomic updates: ptxas sums what the lanes of a warp add to an address; one lane updates memory."""

from __future__ import annotations

from tilewright.model.sass import Instruction, Kernel

ATOMICS = frozenset({"ATOM", "ATOMG", "RED", "REDG"})
#: The distance of the lane selection from the update, in instructions, at most.
_NEAR = 64


def aggregated_lines(kernel: Kernel) -> frozenset[int]:
    """The lines of code whose atomic updates are all made by the first active lane for its warp.

    Read from machine code, where ptxas compares the lane with the first one of a vote before the update. Updates
    without line information are ignored.
    """
    found: dict[int, bool] = {}
    code = kernel.instructions
    for index, instruction in enumerate(code):
        if instruction.base in ATOMICS and instruction.line is not None:
            line = instruction.line[1]
            before = code[max(0, index - _NEAR) : index]
            found[line] = found.get(line, True) and _is_first_lane(instruction, before)
    return frozenset(line for line, joined in found.items() if joined)


def _is_first_lane(instruction: Instruction, before: tuple[Instruction, ...]) -> bool:
    """Whether the guard compares the lane with the first one (``FLO``) of a vote."""
    guard = instruction.predicate.removeprefix("@").removeprefix("!")
    chosen = next(
        (i for i in reversed(before) if i.base == "ISETP" and guard and guard in i.operands[:1]),
        None,
    )
    if chosen is None or "EQ" not in chosen.modifiers:
        return False
    firsts = {i.operands[0] for i in before if i.base in ("FLO", "UFLO")}
    return any(operand in firsts for operand in chosen.operands[1:])
