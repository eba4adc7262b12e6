"""Launches that a program makes again and again, without reading their arguments anew in Python.

A machine that can (``launching.machine.RepeatingProgram``) gives a function for a launch; it makes another one whose arguments differ
only in addresses and numbers, and tells whether it has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tilewright.cutile.parameters import ConstantKey, Key, Value
from tilewright.diagnostics.tracebacks import hides_frames
from tilewright.launching.described import ArrayValue, Given

__tracebackhide__ = hides_frames

#: As many kinds of launches of one kernel are kept. Each that does not fit costs some 0.5 us.
_MOST = 4
#: After as many kinds that cannot be repeated, no more are looked at.
_MOST_REFUSED = 4


Run = Callable[[tuple[Any, ...]], bool]
"""Makes a launch with these arguments if they are of its kind, and tells whether they are."""


class _Repeat(NamedTuple):
    """A kind of launches: their settings, their grid, and what makes one if it is given arguments of that kind."""

    settings: object
    grid: tuple[int, int, int]
    run: Run


class Repeats:
    """The launches of one kernel that can be repeated."""

    __slots__ = ("_before", "_known", "_refused")

    def __init__(self) -> None:
        self._known: tuple[_Repeat, ...] = ()
        self._before: object = None
        """The kind of the launch before."""
        self._refused = 0

    def launch(
        self, grid: tuple[int, int, int], kernel_args: tuple[Any, ...], settings: object
    ) -> bool:
        """Whether the launch was like one that is known, and has been made."""
        for wanted, extents, run in self._known:
            if wanted is settings and extents == grid and not _is_pretended() and run(kernel_args):
                return True
        return False

    def learn(
        self,
        grid: tuple[int, int, int],
        kernel_args: tuple[Any, ...],
        key: Key,
        values: Sequence[Value],
        settings: object,
        make: Callable[[tuple[int, int, int], Sequence[Given], Any], Run | None],
    ) -> None:
        """Told of a launch that was made in full. What comes twice in a row is kept for the third time: ``make`` gives what
        makes such launches under such settings, if there is a way."""
        # Tuples and lists have several items.
        if len(key) != len(kernel_args) or self._refused >= _MOST_REFUSED:
            return
        layouts = [each.layout for each in values if type(each) is ArrayValue]
        kind = grid, settings, key, layouts
        if kind != self._before:
            self._before = kind
            return
        self._before = None
        if _is_pretended():
            return
        rest = iter(values)
        given = [
            Given(argument, None if isinstance(item, ConstantKey) else next(rest))
            for argument, item in zip(kernel_args, key, strict=True)
        ]
        run = make(grid, given, settings)
        if run is None:
            self._refused += 1
        else:
            self._known = (_Repeat(settings, grid, run), *self._known)[:_MOST]


def _is_pretended() -> bool:
    """Whether arrays of torch may be said to be on a GPU, which only a launch in full looks at."""
    pretended = sys.modules.get("tilewright.cutile.torch_cuda")
    return pretended is not None and pretended.is_pretended()
