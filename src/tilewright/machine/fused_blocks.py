"""Fuses consecutive steps into one generated function.

A Python call costs as much as many a step does. A step may therefore be an :class:`Inline`: a few lines of source,
written next to the operation they implement. :func:`fused_block` concatenates the lines of a block's steps into one
function, and calls the steps that have none.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from xdsl.ir import Operation

from tilewright.machine.faults import Fault
from tilewright.machine.values import Registers

Signal = int | None
Step = Callable[[Registers], Signal]

_PART = re.compile(r"\{(\w+)\}")


class Inline:
    """A step given as lines of Python over ``regs``; ``signal`` is its return value.

    ``{name}`` in the text stands for the part of that name. Integers, such as slots, are written
    literally; other objects get a unique name. Local variables are valid until the step ends.
    """

    __slots__ = ("_function", "parts", "signal", "text")

    def __init__(self, text: str, parts: Mapping[str, object], signal: Signal = None):
        self.text, self.parts, self.signal = text, parts, signal
        self._function: Step | None = None

    @property
    def function(self) -> Step:
        """The step as a function."""
        if self._function is None:
            self._function = fused_block([self], [None])
        return self._function

    def __call__(self, regs: Registers) -> Signal:
        return self.function(regs)

    def lines(self, number: int, names: dict[str, object]) -> list[str]:
        """Return the lines as those of step ``number``, and add the objects they name to ``names``."""

        def written(match: re.Match[str]) -> str:
            part = self.parts[match[1]]
            if type(part) is int:
                return str(part)
            name = f"{match[1]}_{number}"
            names[name] = part
            return name

        return _PART.sub(written, self.text).splitlines()


def inline(text: str, signal: Signal = None, /, **parts: object) -> Inline:
    """Return a step made of these lines; see :class:`Inline`."""
    return Inline(text, parts, signal)


def joined(*pieces: Inline) -> Inline:
    """Concatenate the lines of several steps. The signal is the last one that any returns."""
    texts: list[str] = []
    parts: dict[str, object] = {}
    signal: Signal = None
    for number, piece in enumerate(pieces):
        texts.append(_PART.sub(rf"{{\1_{number}}}", piece.text))
        parts |= {f"{name}_{number}": part for name, part in piece.parts.items()}
        signal = signal if piece.signal is None else piece.signal
    return Inline("\n".join(texts), parts, signal)


def as_inline(step: Step) -> Inline:
    """Return a step without a signal as lines; a call if it has none."""
    return step if isinstance(step, Inline) else inline("{step}(regs)", step=step)


def called(step: Step) -> Step:
    """Return a step in the form that is cheapest to call."""
    return step.function if isinstance(step, Inline) else step


OP_AT = "op_at"
"""The global of generated code that maps its lines to operations."""


def fused_block(steps: Sequence[Step], ops: Sequence[Operation | None]) -> Step:
    """Return a function that runs steps in order until one returns a signal, and returns that.

    A fault without a location is given the operation of its step.
    """
    names: dict[str, Any] = {"Fault": Fault}
    source = ["def run(regs):", "    try:", "        pass"]
    starts: list[int] = []
    for number, step in enumerate(steps):
        starts.append(len(source) + 1)
        if isinstance(step, Inline):
            lines = step.lines(number, names)
            if step.signal is not None:
                lines.append(f"return {step.signal}")
        else:
            names[f"step_{number}"] = step
            lines = [f"signal = step_{number}(regs)", "if signal is not None: return signal"]
        source += ["        " + line for line in lines]
    source += ["    except Fault as fault:", "        blame(fault)", "        raise"]

    def op_at(line: int) -> Operation | None:
        return ops[bisect_right(starts, line) - 1]

    def blame(fault: Fault) -> None:
        # The traceback starts at the frame that caught the fault: the generated function.
        if fault.op is None and fault.__traceback__ is not None:
            fault.op = op_at(fault.__traceback__.tb_lineno)

    names["blame"], names[OP_AT] = blame, op_at
    exec(_compiled("\n".join(source)), names)
    return names["run"]


@lru_cache(maxsize=1024)
def _compiled(source: str) -> CodeType:
    # Objects and slots appear as names and numbers, so translating the same kernel again, as the
    # sanitizer does for each launch, yields the same source.
    return compile(source, "<steps of a block>", "exec")
