"""Running a kernel with every check on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright.diagnostics import Diagnostic, Note, TileIRError
from tilewright.dialects.cuda_tile.ops.module import EntryOp
from tilewright.launching.arguments import check_grid
from tilewright.launching.checks import check_launch, check_resident, check_seeds, convention_of
from tilewright.launching.modules import cuda_kernel_of
from tilewright.machine.compile import Translator
from tilewright.machine.grid import Progress
from tilewright.machine.launch import DEFAULT_MAX_ITERATIONS, Program, RunResult
from tilewright.machine.sanitize import accesses, guards, promises, taint
from tilewright.machine.sanitize.alias_promises import broken_promises
from tilewright.machine.sanitize.findings import Finding, Findings
from tilewright.machine.sanitize.races import RaceDetector
from tilewright.machine.sanitize.translator import SanitizingTranslator
from tilewright.machine.tensors import ArrayNames, names_of_parameters
from tilewright.numerics.arithmetic import REFERENCE, Arithmetic

#: The modules that fill the tables of hooks.
_RULES = (accesses, guards, promises, taint)


@dataclass(frozen=True, slots=True)
class Launch:
    """What was run; ``arguments`` names and describes what was passed for each parameter."""

    entry: str
    grid: tuple[int, int, int]
    arguments: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SanitizeReport:
    """What the launches found: the findings of all seeds, and the last run's result.

    ``result`` is None where that run was ended by a fault, which is among the findings.
    """

    findings: tuple[Finding, ...]
    seeds: tuple[int, ...]
    result: RunResult | None
    launch: Launch

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return tuple(finding.diagnostic for finding in self.findings)

    @property
    def is_clean(self) -> bool:
        return not self.findings


class SanitizingProgram(Program):
    """A program whose kernels are translated with checks, for one launch."""

    def __init__(
        self,
        module: Operation,
        seed: int,
        *,
        races: bool,
        arithmetic: Arithmetic = REFERENCE,
    ):
        super().__init__(module, arithmetic=arithmetic)
        self.findings = Findings(self._machine, seed)
        self._detector = RaceDetector(self.findings.race) if races else None

    def _translator(self, global_addresses: dict[str, int]) -> Translator:
        return SanitizingTranslator(
            self._machine,
            global_addresses,
            self.arithmetic,
            findings=self.findings,
            detector=self._detector,
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
    allow_overlap: bool = False,
    progress: Progress | None = None,
    arithmetic: Arithmetic = REFERENCE,
    resident: int | None = None,
) -> SanitizeReport:
    """Run a kernel under each schedule seed and report all undefined behaviour met.

    ``seeds``: how many schedules (0, 1, 2, ...), or which. Every run starts from the arrays as they
    are now; the array arguments keep what the last run wrote. Findings of one kind at one
    operation are reported once. Undefined behaviour that makes going on impossible, such as an
    access outside memory, ends its run. ``progress`` is told the tile blocks of all runs. The other
    options are those of ``run``. A TileIRError is raised only for a launch that cannot begin.
    """
    numbers = check_seeds(seeds)
    kernel = cuda_kernel_of(module, entry, "the sanitizer")
    # Where the name tells which arrays may overlap, others that do are findings.
    told = convention_of(kernel) is not None
    checks = {"max_iterations": max_iterations, "allow_overlap": allow_overlap or told}
    launch = check_launch(kernel, grid, args, seed=0, **checks)
    check_resident(resident)
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    initial = [a.copy() for a in arrays]
    found: dict[tuple[object, ...], Finding] = {}
    for diagnostic in broken_promises(kernel, launch.arguments):
        found[(diagnostic.code, diagnostic.message)] = Finding(diagnostic, numbers[0])
    result: RunResult | None = None
    for position, seed in enumerate(numbers):
        if position:
            for array, content in zip(arrays, initial, strict=True):
                if array.flags.writeable:
                    array[...] = content
        program = SanitizingProgram(module, seed, races=races, arithmetic=arithmetic)
        program.findings.names = ArrayNames.of_launch(kernel, args)
        part = _one_of(progress, position, len(numbers))
        findings, result = _run(
            program, entry, grid, args, seed=seed, progress=part, resident=resident, **checks
        )
        for finding in findings:
            found.setdefault(_identity(finding.diagnostic), finding)
    described = _describe_launch(kernel, grid, args)
    return SanitizeReport(tuple(found.values()), numbers, result, described)


def _one_of(progress: Progress | None, position: int, count: int) -> Progress | None:
    """The progress of one run among several with as many tile blocks each."""
    if progress is None:
        return None
    return lambda done, blocks: progress(position * blocks + done, count * blocks)


def _identity(diagnostic: Diagnostic) -> tuple[object, ...]:
    return diagnostic.code, diagnostic.place, tuple(n.place for n in diagnostic.notes[:1])


def _run(
    program: SanitizingProgram,
    entry: str | None,
    grid: int | Sequence[int],
    args: Sequence[object],
    **options: Any,
) -> tuple[list[Finding], RunResult | None]:
    """One run: its findings, and the fault or failed assertions that ended it."""
    try:
        result = program.launch(entry, grid, args, **options)
    except TileIRError as error:
        if not program.started:
            raise
        seed = options["seed"]
        note = (Note(f"found with schedule seed {seed}"),) if seed else ()
        findings = program.findings
        # An access that is at fault is the one thing that its run ended for.
        stray = findings.stray
        accesses, conflict = ((stray.access,), stray.outside) if stray else ((), ())
        ended = [Finding(d.with_notes(*note), seed, accesses, conflict) for d in error.diagnostics]
        return [*findings.found, *ended], None
    return program.findings.found, result


def _describe_launch(entry: EntryOp, grid: int | Sequence[int], args: Sequence[object]) -> Launch:
    names = names_of_parameters(entry)
    return Launch(
        entry.symbol,
        check_grid(grid),
        tuple(zip(names, map(_describe_argument, args), strict=True)),
    )


def _describe_argument(value: object) -> str:
    if isinstance(value, np.ndarray) and value.ndim:
        return f"array of {value.dtype}, {' x '.join(map(str, value.shape))}"
    return str(value)
