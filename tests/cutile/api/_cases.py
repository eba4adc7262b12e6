"""How a module of this package declares its kernels, and what runs them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from tests.corpus import EXACT, Arguments, Launch, Tolerance, cutile_release
from tests.cutile.api.recording import dtypes_in, recording

from tilewright.cutile import launch
from tilewright.cutile.frontend import front_end
from tilewright.cutile.launching import Dispatcher

#: The simulator of an architecture that has all that cuTile writes.
SIMULATOR = "sim:sm_100a"
THEMES = (
    "arithmetic",
    "fast_math",
    "memory",
    "atomics",
    "reductions",
    "shapes",
    "matrix",
    "language",
    "parameters",
    "effects",
)


@dataclass(frozen=True)
class Case:
    """A kernel, a launch of it and what must come out.

    ``launch.inputs`` names the arguments as the kernel does, constants included. ``prints``: whole
    lines, in any order. ``refused`` gives for a machine words of the reason why it does not run it.
    """

    name: str
    kernel: Any
    launch: Launch
    refused: Mapping[str, str] = field(default_factory=dict)

    def run(self, machine: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arguments before and after a launch; on the machine in use where none is named."""
        before, after = self.launch.arguments(), self.launch.arguments()
        launch(0, self.launch.grid, self.kernel, self._ordered(after), machine=machine)
        return before, after

    def _ordered(self, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
        names = inspect.signature(self.kernel._pyfunc).parameters
        return tuple(arguments[name] for name in names)

    def used(self) -> frozenset[str]:
        """What of cuTile the kernel uses (see ``recording``)."""
        arguments = self._ordered(self.launch.arguments())
        front = front_end()
        with recording() as used:
            front.compile(self.kernel, Dispatcher(self.kernel, front).constraints(arguments))
        return frozenset(used | dtypes_in(arguments))


class Cases(list[Case]):
    """The kernels of one module, in the order in which they stand there."""

    def add(
        self,
        inputs: Callable[[np.random.Generator], dict[str, Any]],
        expected: Callable[[Arguments], dict[str, Any]],
        *,
        grid: tuple[int, ...] = (1,),
        tolerance: Tolerance = EXACT,
        prints: tuple[str, ...] = (),
        refused: Mapping[str, str] | None = None,
        name: str | None = None,
        cutile: tuple[int, ...] = (1, 6),
    ) -> Callable[[Any], Any]:
        """A decorator above ``@ct.kernel``; the name of the kernel is that of the case by default.

        ``cutile``: the first release that compiles the kernel; with an older one there is no case.
        """

        def decorate(kernel: Any) -> Any:
            if cutile_release() < cutile:
                return kernel
            self.append(
                Case(
                    name or kernel._pyfunc.__name__,
                    kernel,
                    Launch((*grid, 1, 1)[:3], inputs, expected, tolerance, prints),
                    refused or {},
                )
            )
            return kernel

        return decorate


@cache
def all_cases() -> tuple[Case, ...]:
    """The cases of all modules."""
    modules = [import_module(f"tests.cutile.api.{theme}") for theme in THEMES]
    return tuple(case for module in modules for case in module.CASES)
