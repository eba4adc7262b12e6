"""Runs a kernel with all checks enabled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from xdsl.ir import Operation

from tilewright.diagnostics import Diagnostic, Note, TileIRError
from tilewright.diagnostics.render_html import preformatted, render_html
from tilewright.dialects.cuda_tile.ops.module import EntryOp
from tilewright.launching.checks import convention_of
from tilewright.launching.modules import cuda_kernel_of
from tilewright.launching.options import LaunchOptions, check_options, with_deprecated
from tilewright.machine.compile import Translator
from tilewright.machine.grid import Progress
from tilewright.machine.launch import Given, Program, RunResult, given_arguments
from tilewright.machine.sanitize import accesses, assumptions, guards, taint
from tilewright.machine.sanitize.alias_assumptions import broken_assumptions
from tilewright.machine.sanitize.races import RaceDetector
from tilewright.machine.sanitize.reporting import DiagnosticCollector, SanitizerDiagnostic
from tilewright.machine.sanitize.translator import SanitizingTranslator
from tilewright.machine.tensors import names_of_parameters
from tilewright.nesting import deep_recursion
from tilewright.numerics.arithmetic import REFERENCE, Arithmetic
from tilewright.numerics.arrays import is_array

#: The modules that fill the tables of hooks.
_RULES = (accesses, guards, assumptions, taint)


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

    findings: tuple[SanitizerDiagnostic, ...]
    seeds: tuple[int, ...]
    result: RunResult | None
    launch: Launch

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The findings as diagnostics, for the renderers."""
        return tuple(finding.diagnostic for finding in self.findings)

    @property
    def is_clean(self) -> bool:
        """Whether no launch broke a rule."""
        return not self.findings

    def summary(self) -> str:
        """What was run under how many schedules, and how much was found, on one line."""
        count = len(self.seeds)
        schedules = "1 schedule" if count == 1 else f"{count} schedules"
        found = len(self.findings)
        what = "no errors found" if not found else f"{found} finding{'s' * (found > 1)}"
        return f"{self.launch.entry}, grid {self.launch.grid}: {what} under {schedules}"

    def _repr_html_(self) -> str:
        """The findings with their lines of source, for notebooks; ``render_html`` makes a whole page."""
        return preformatted(self.summary()) + render_html(self.diagnostics)


class SanitizerError(TileIRError):
    """What the sanitizer found in a launch. The arrays are as the last schedule left them."""

    def __init__(self, report: SanitizeReport):
        super().__init__(report.diagnostics)
        self.report = report


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
        super().__init__(module, LaunchOptions(arithmetic=arithmetic))
        self.collector = DiagnosticCollector(self._machine, seed)
        self._detector = RaceDetector(self.collector.race) if races else None

    @property
    def can_wait(self) -> bool:
        """Whether the kernel that was launched has accesses by which tile blocks wait for each other."""
        assert self._latest is not None
        _, (_, body, _) = self._latest
        return body.suspends

    def _translator(self, global_addresses: dict[str, int]) -> Translator:
        return SanitizingTranslator(
            self._machine,
            global_addresses,
            self.arithmetic,
            collector=self.collector,
            detector=self._detector,
        )


def sanitize(
    module: Operation,
    entry: str | None = None,
    grid: int | Sequence[int] = (1, 1, 1),
    args: Sequence[object] = (),
    options: LaunchOptions | None = None,
    *,
    loaded: Program | None = None,
    **deprecated: Any,
) -> SanitizeReport:
    """Run a kernel under each schedule seed and report all undefined behaviour met.

    ``options``: ``seeds`` (by default four) and ``races`` are the sanitizer's own. A kernel without atomics
    and other accesses that order blocks runs once where that run is clean, searched for races: it stands for
    every schedule. Every run starts from the arrays as
    they are now; the array arguments keep what the last run wrote. ``loaded`` is a program of the
    module whose globals and mapped arrays are used in the same way. Findings of one kind at one
    operation are reported once. Undefined behaviour that makes going on impossible, such as an
    access outside memory, ends its run. ``progress`` is told the tile blocks of all runs. A
    TileIRError is raised only for a launch that cannot begin.
    """
    chosen = with_deprecated(options, deprecated, "sanitize")
    check_options(chosen, "reference")
    kernel = cuda_kernel_of(module, entry, "the sanitizer")
    # Where the name tells which arrays may overlap, others that do are findings.
    told = convention_of(kernel) is not None
    given = given_arguments(kernel, grid, args, chosen.allow_overlap or told)
    return sanitize_given(given, chosen, loaded or Program(module))


@deep_recursion()
def sanitize_given(given: Given, options: LaunchOptions, loaded: Program) -> SanitizeReport:
    """:func:`sanitize`, with arguments that have been checked.

    The arrays keep what the last run wrote. Raises ``TileIRError`` for a kernel of another level than ``cuda_tile``.
    """
    kernel = cuda_kernel_of(loaded.module, given.kernel.symbol, "the sanitizer")
    options = replace(options, sanitize=True)
    numbers = options.schedules
    arrays = [*given.outputs, *loaded.own_memory]
    initial = [a.copy() for a in arrays]
    found: dict[tuple[object, ...], SanitizerDiagnostic] = {}
    for diagnostic in broken_assumptions(kernel, given.arguments):
        found[(diagnostic.code, diagnostic.message)] = SanitizerDiagnostic(diagnostic, numbers[0])
    result: RunResult | None = None
    for position, seed in enumerate(numbers):
        if position:
            for array, content in zip(arrays, initial, strict=True):
                if array.flags.writeable:
                    array[...] = content
        program = SanitizingProgram(
            loaded.module, seed, races=options.races, arithmetic=options.arithmetic
        )
        program.share_memory_of(loaded)
        program.collector.names = given.names
        once = replace(
            options,
            seed=seed,
            progress=_one_of(options.progress, position, len(numbers)),
            # What a kernel prints is printed once, whatever the number of schedules.
            print_to=None if position else options.print_to,
        )
        findings, result = _run(program, given, once)
        for finding in findings:
            found.setdefault(_identity(finding.diagnostic), finding)
        if options.races and not findings and result and not program.can_wait:
            # Blocks that meet nowhere but in plain accesses, and do not race, do the same in any order.
            if options.progress is not None:
                blocks = len(numbers) * prod(given.grid)
                options.progress(blocks, blocks)
            break
    return SanitizeReport(tuple(found.values()), numbers, result, _describe_launch(kernel, given))


def _one_of(progress: Progress | None, position: int, count: int) -> Progress | None:
    """The progress of one run among several with as many tile blocks each."""
    if progress is None:
        return None
    return lambda done, blocks: progress(position * blocks + done, count * blocks)


def _identity(diagnostic: Diagnostic) -> tuple[object, ...]:
    return diagnostic.code, diagnostic.location, tuple(n.location for n in diagnostic.notes[:1])


def _run(
    program: SanitizingProgram, given: Given, options: LaunchOptions
) -> tuple[list[SanitizerDiagnostic], RunResult | None]:
    """One run: its findings, and the fault or failed assertions that ended it."""
    try:
        result = program.start(given, options)
    except TileIRError as error:
        if not program.started:
            raise
        seed = options.seed
        note = (Note(f"found with schedule seed {seed}"),) if seed else ()
        collector = program.collector
        # An access that is at fault is the one thing that its run ended for.
        stray = collector.stray
        accesses, conflict = ((stray.access,), stray.outside) if stray else ((), ())
        ended = [
            SanitizerDiagnostic(d.with_notes(*note), seed, accesses, conflict)
            for d in error.diagnostics
        ]
        return [*collector.found, *ended], None
    return program.collector.found, result


def _describe_launch(entry: EntryOp, given: Given) -> Launch:
    names = names_of_parameters(entry)
    described = tuple(zip(names, map(_describe_argument, given.args), strict=True))
    return Launch(entry.symbol, given.grid, described)


def _describe_argument(value: object) -> str:
    if is_array(value) and value.ndim:
        return f"array of {value.dtype}, {' x '.join(map(str, value.shape))}"
    return str(value)
