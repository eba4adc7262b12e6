"""Running a kernel with every check on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation

from tilewright.diagnostics import Diagnostic, Note, TileIRError
from tilewright.machine.compile import Translator
from tilewright.machine.launch import DEFAULT_MAX_ITERATIONS, Program, RunResult
from tilewright.machine.memory import Allocation
from tilewright.machine.sanitize import accesses, promises, taint
from tilewright.machine.sanitize.findings import Findings
from tilewright.machine.sanitize.races import RaceDetector
from tilewright.machine.sanitize.translator import SanitizingTranslator
from tilewright.numerics.arrays import Array

#: The modules that fill the tables of hooks.
_RULES = (accesses, promises, taint)


@dataclass(frozen=True, slots=True)
class SanitizeReport:
    """What the launches found: ``diagnostics`` of all seeds, and the last run's result.

    ``result`` is None where that run was ended by a fault, which is among the diagnostics.
    """

    diagnostics: tuple[Diagnostic, ...]
    seeds: tuple[int, ...]
    result: RunResult | None

    @property
    def is_clean(self) -> bool:
        return not self.diagnostics


class SanitizingProgram(Program):
    """A program whose kernels are translated with checks, for one launch."""

    def __init__(self, module: Operation, seed: int, *, races: bool):
        super().__init__(module)
        self.findings = Findings(self._machine, seed)
        self._detector = RaceDetector(self.findings.race) if races else None

    def _translator(self, global_addresses: dict[str, int]) -> Translator:
        return SanitizingTranslator(
            self._machine, global_addresses, findings=self.findings, detector=self._detector
        )


def sanitize(
    module: Operation,
    entry: str | None = None,
    grid: int | Sequence[int] = (1, 1, 1),
    args: Sequence[object] = (),
    *,
    seeds: int | Sequence[int] = 1,
    races: bool = True,
    max_iterations: int = DEFAULT_MAX_ITERATIONS,
) -> SanitizeReport:
    """Run a kernel under each schedule seed and report all undefined behaviour met.

    ``seeds``: how many schedules (0, 1, 2, ...), or which. Every run starts from the arrays as they
    are now; the array arguments keep what the last run wrote. Findings of one kind at one
    operation are reported once. Undefined behaviour that makes going on impossible, such as an
    access outside memory, ends its run. A TileIRError is raised only for arguments that do not fit.
    """
    numbers = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    initial = [a.copy() for a in arrays]
    found: dict[tuple[object, ...], Diagnostic] = {}
    result: RunResult | None = None
    for position, seed in enumerate(numbers):
        if position:
            for array, content in zip(arrays, initial, strict=True):
                if array.flags.writeable:
                    array[...] = content
        program = SanitizingProgram(module, seed, races=races)
        program.findings.describe = _describer(program, entry, args)
        diagnostics, result = _launch(program, entry, grid, args, seed, max_iterations)
        for diagnostic in diagnostics:
            found.setdefault(_identity(diagnostic), diagnostic)
    return SanitizeReport(tuple(found.values()), numbers, result)


def _identity(diagnostic: Diagnostic) -> tuple[object, ...]:
    return diagnostic.code, diagnostic.place, tuple(n.place for n in diagnostic.notes[:1])


def _launch(
    program: SanitizingProgram,
    entry: str | None,
    grid: int | Sequence[int],
    args: Sequence[object],
    seed: int,
    max_iterations: int,
) -> tuple[list[Diagnostic], RunResult | None]:
    """One run: its findings, and the fault or failed assertions that ended it."""
    try:
        result = program.launch(entry, grid, args, seed=seed, max_iterations=max_iterations)
    except TileIRError as error:
        if not program.started:
            raise
        note = (Note(f"found with schedule seed {seed}"),) if seed else ()
        ended = [d.with_notes(*note) for d in error.diagnostics]
        return [*program.findings.diagnostics, *ended], None
    return program.findings.diagnostics, result


def _describer(program: Program, entry: str | None, args: Sequence[object]):
    """Names bytes of the array arguments by parameter and element ranges."""
    try:
        parameters = program.module.entry(entry).block.args
    except KeyError:
        parameters = ()
    named = [
        (f"%{p.name_hint}" if p.name_hint else f"argument {number}", arg)
        for number, (p, arg) in enumerate(zip(parameters, args, strict=False))
        if isinstance(arg, np.ndarray)
    ]

    def describe(allocation: Allocation, offsets: Array, size: int) -> str:
        start = int(allocation.buffer.__array_interface__["data"][0])
        for name, array in named:
            ranges = element_ranges(array, start + offsets)
            if ranges is not None:
                return f"{name}[{ranges}]" if ranges else name
        last = int(offsets[-1]) + size
        return f"bytes {int(offsets[0])} to {last} of {allocation.name}"

    return describe


def element_ranges(array: Array, addresses: Array) -> str | None:
    """``96:128, 0:64``: the box of elements that host addresses lie in.

    None where they are not all in the array; empty for an array of rank 0.
    """
    low = int(array.__array_interface__["data"][0])
    left = addresses.astype(np.int64) - low
    ranges: dict[int, str] = {}
    if (left < 0).any():
        return None
    for axis in sorted(range(array.ndim), key=lambda a: -array.strides[a]):
        stride, extent = array.strides[axis], array.shape[axis]
        if stride <= 0:
            return None
        index = left // stride
        left = left - index * stride
        if (index >= extent).any():
            return None
        first, last = int(index.min()), int(index.max()) + 1
        ranges[axis] = str(first) if last == first + 1 else f"{first}:{last}"
    if (left >= array.itemsize).any():
        return None
    return ", ".join(ranges[axis] for axis in range(array.ndim))
