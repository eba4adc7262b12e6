"""Detects whether a waiting tile block can ever continue by itself.

What a block does next depends on its position, its values and memory. A block that returns to the same position with
the same values while memory is unchanged is in a cycle, and stays there until another block changes memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright.dialects.cuda_tile.types import TokenType
from tilewright.dialects.nv_tileaa.types import MemTokenType
from tilewright.machine.compile import Translator
from tilewright.machine.values import ARENA, Registers, TensorView


def deciding_slots(kernel: Translator) -> tuple[int, ...] | None:
    """Return the slots that determine what a block does next: those of all values but tokens, which
    have no run-time value. None for kernels whose blocks have further state: agents, calls, copies in
    flight.
    """
    if kernel.agents is not None or kernel.functions or kernel.block_state:
        return None
    return tuple(
        slot
        for value, slot in kernel.value_slots()
        if not isinstance(value.type, TokenType | MemTokenType)
    )


@dataclass(slots=True)
class Repeats:
    """The state of a block at a yield, to compare with its state at later yields.

    Brent's algorithm: the state is saved anew after 1, 2, 4, 8 ... turns. A cycle of any length is
    found within three times that many turns, with one comparison per turn.
    """

    _version: int = -1
    _is_proven: bool = False
    _place: Operation | None = None
    _kept: Sequence[Any] = ()
    _turns: int = 0

    def is_proven(self, version: int) -> bool:
        """Whether the block is in a cycle as long as memory has this version."""
        return self._is_proven and version == self._version

    def note(
        self, version: int, place: Operation | None, registers: Registers, slots: tuple[int, ...]
    ) -> None:
        """Record that the block yields after ``place`` with memory at this version."""
        if version != self._version:
            self._version, self._turns, self._is_proven = version, 0, False
        if self._is_proven:
            return
        state = [*registers[ARENA], *[registers[slot] for slot in slots]]
        if self._turns and place is self._place:
            self._is_proven = _same(self._kept, state)
        self._turns += 1
        if self._turns & (self._turns - 1) == 0:
            self._place, self._kept = place, state


def _same(kept: Sequence[Any], state: Sequence[Any]) -> bool:
    """Whether two states are equal; False if that cannot be determined."""
    return len(kept) == len(state) and all(map(_equal, kept, state))


def _equal(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and _content(one) == _content(other))


def _content(value: Any) -> object:
    """Return a comparable form of a value. A mutable value never equals another."""
    if isinstance(value, TensorView):
        return value
    if np.ndarray in type(value).__mro__:
        return value.dtype, value.shape, value.tobytes()
    return object()
