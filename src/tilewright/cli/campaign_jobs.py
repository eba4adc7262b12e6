"""Jobs of ``tilewright check --campaign``: one program or file on one machine under one seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.diagnostics import Diagnostic, NamedLocation, TileIRError
from tilewright.launching.described import ArrayValue, Layout, Value
from tilewright.numerics.arrays import Array

if TYPE_CHECKING:
    from tilewright.cutile.kept_programs import KeptProgram
    from tilewright.cutile.launching import Specialisation
    from tilewright.launching.options import LaunchOptions

REFERENCE = "reference"
#: The default tolerance without --rtol and --atol, in units of the element type's precision.
UNITS = 32


@dataclass(frozen=True, slots=True)
class Task:
    """The parameters of a job. ``compares``: compare results with the reference machine, instead of enabling checks.
    ``rtol``, ``atol``: None for the defaults of element types."""

    machine: str
    seed: int
    compares: bool
    rtol: float | None = None
    atol: float | None = None
    time_limit: float | None = None

    @property
    def data(self) -> list[object]:
        """The parameters, for the key of a job."""
        return [
            self.machine,
            self.seed,
            self.compares,
            self.rtol,
            self.atol,
            self.time_limit,
        ]


@dataclass(slots=True)
class _Found:
    """The results of a job so far: ``findings`` without duplicates, the number of launches, and ``notes``."""

    findings: dict[tuple[str, str, str], None] = field(default_factory=dict[Any, None])
    launches: int = 0
    notes: dict[str, None] = field(default_factory=dict[str, None])

    def add(self, diagnostic: Diagnostic) -> None:
        if diagnostic.is_error:
            location = diagnostic.location
            where = (
                f"{location.file_name}:{location.line}"
                if isinstance(location, NamedLocation)
                else ""
            )
            if not where and diagnostic.line:
                where = f"line {diagnostic.line}"
            self.say(str(diagnostic.code), diagnostic.message, where)

    def say(self, code: str, message: str, place: str = "") -> None:
        self.findings.setdefault((code, message, place))

    @property
    def value(self) -> dict[str, Any]:
        findings = [{"code": c, "message": m, "place": p} for c, m, p in self.findings]
        return {"findings": findings, "launches": self.launches, "notes": list(self.notes)}


def options_for(task: Task) -> LaunchOptions:
    """Return launch options: all checks of the machine, or none if results are compared.

    Raises TileIRError for an unknown machine.
    """
    from dataclasses import replace

    from tilewright.launching.machine import machine_named
    from tilewright.launching.options import LaunchOptions, options_of_kind

    known = options_of_kind(machine_named(task.machine).capabilities.kind)
    options = LaunchOptions(time_limit=task.time_limit if "time_limit" in known else None)
    if "seed" in known:
        options = replace(options, seed=task.seed)
    if not task.compares and "sanitize" in known:
        return replace(options, sanitize=True, seeds=range(task.seed, task.seed + 1))
    if not task.compares and "checked" in known:
        return replace(options, checked=True)
    return options


def check_program(program: KeptProgram, task: Task) -> dict[str, Any]:
    """Check all launches of a cuTile program. Returns the findings and how the program ended."""
    from tilewright.cutile.errors import diagnostics_in_python
    from tilewright.cutile.kept_programs import run_kept
    from tilewright.cutile.settings import Settings

    found = _Found()

    def report(module: Any, report: Any) -> None:
        found.launches += 1
        if report is not None:
            for diagnostic in diagnostics_in_python(report.diagnostics, module):
                found.add(diagnostic)

    options = options_for(task)
    settings = Settings(task.machine, options)
    if task.compares:
        twin = _Twin(task, found)
        settings = Settings(
            task.machine, options, instead=twin.before, on_launch=lambda launched: twin.after()
        )
    elif options.sanitize:
        settings = Settings(task.machine, options, on_report=report)
    else:
        settings = Settings(task.machine, options, on_launch=lambda launched: _count(found))
    run = run_kept(program, settings)
    if isinstance(run.error, TileIRError):
        for diagnostic in run.error.diagnostics:
            found.add(diagnostic)
    elif run.error is not None:
        message = " ".join(str(run.error).split())
        found.say("program-failed", f"{type(run.error).__name__}: {message}"[:500])
    elif run.status:
        found.say("program-failed", f"it ended with status {run.status}")
    return found.value


def _count(found: _Found) -> None:
    found.launches += 1


class _Twin:
    """Runs each launch on the reference machine as well, on copies, and compares the results."""

    def __init__(self, task: Task, found: _Found):
        self._task, self._found = task, found
        self._name, self._pairs = "", list[tuple[ArrayValue, Array]]()

    def before(
        self, compiled: Specialisation, grid: tuple[int, int, int], values: Sequence[Value]
    ) -> bool:
        """Run the launch on the reference machine first. Returns True: it is to run here as well."""
        from tilewright.launching.described import ListValue, arrays_of, row_of
        from tilewright.launching.machine import machine_named
        from tilewright.launching.options import LaunchOptions

        self._name, self._pairs = compiled.entry, []
        if _overlap([row_of(value) for value in arrays_of(values)]):
            self._found.notes[f"{compiled.entry} is not compared: its arrays overlap"] = None
            return True
        copies: dict[tuple[int, Layout], Array] = {}

        def copied(value: Value) -> Value:
            if isinstance(value, ListValue):
                return ListValue(value.name, [self._copied(item, copies) for item in value.items])
            return self._copied(value, copies) if isinstance(value, ArrayValue) else value

        options = LaunchOptions(print_to=lambda text: None, time_limit=self._task.time_limit)
        given = [copied(value) for value in values]
        program = machine_named(REFERENCE).load(compiled.module)
        program.launch_described(compiled.entry, grid, given, options)
        return True

    def _copied(self, value: ArrayValue, copies: dict[tuple[int, Layout], Array]) -> ArrayValue:
        """Return a copy of the array in other memory."""
        from tilewright.launching.described import row_of

        place = value.address, value.layout
        if place not in copies:
            copies[place] = row_of(value).copy()
            self._pairs.append((value, copies[place]))
        copy = copies[place]
        address = copy.__array_interface__["data"][0] - value.layout.low
        return value._replace(address=address, owner=copy)

    def after(self) -> None:
        """Compare the results after the launch."""
        from tilewright.launching.described import row_of

        self._found.launches += 1
        names = [f"{self._name}: {value.name}" for value, _ in self._pairs]
        rows = [row_of(value) for value, _ in self._pairs]
        _compare(names, rows, [copy for _, copy in self._pairs], self._task, self._found)


def _overlap(rows: Sequence[Array]) -> bool:
    """Whether two different arrays share memory."""
    spans = sorted({(row.__array_interface__["data"][0], row.nbytes) for row in rows if row.size})
    return any(first + size > second for (first, size), (second, _) in pairwise(spans))


def _compare(
    names: Sequence[str],
    rows: Sequence[Array],
    expected: Sequence[Array],
    task: Task,
    found: _Found,
) -> None:
    """Report the arrays that differ by more than the tolerance."""
    for name, one, other in zip(names, rows, expected, strict=True):
        differing, worst = difference(one, other, task.rtol, task.atol)
        if differing:
            found.say(
                "campaign-differs",
                f"{name}: {differing} of {one.size} elements differ from the reference machine, by {worst:.6g} at most",
            )


def difference(
    found: Array, expected: Array, rtol: float | None, atol: float | None
) -> tuple[int, float]:
    """Return how many elements differ by more than ``atol + rtol * abs(expected)``, and the largest difference.

    Integers must be equal. By default both tolerances are ``UNITS`` units of the element type's precision: relative
    to an element, and to the largest one. All NaNs are equal, and an infinity equals only itself.
    """
    if found.dtype.kind in "iub":
        wrong = found != expected
        worst = np.abs(found.astype(np.float64) - expected.astype(np.float64)).max(initial=0.0)
        return int(np.count_nonzero(wrong)), float(worst)
    import ml_dtypes

    unit = float(ml_dtypes.finfo(found.dtype).eps) * UNITS
    one, other = found.astype(np.float64), expected.astype(np.float64)
    finite = np.abs(other[np.isfinite(other)])
    most = unit * float(finite.max(initial=0.0)) if atol is None else atol
    with np.errstate(invalid="ignore"):
        apart = np.where(
            (one == other) | (np.isnan(one) & np.isnan(other)), 0.0, np.abs(one - other)
        )
        bound = most + (unit if rtol is None else rtol) * np.abs(other)
        # No finite number is close to an infinity.
        wrong = ~(apart <= np.where(np.isfinite(bound), bound, 0.0))
    worst = apart[wrong]
    return int(np.count_nonzero(wrong)), float(np.nan_to_num(worst, nan=np.inf).max(initial=0.0))


def check_file(
    name: str,
    source: bytes,
    entry: str | None,
    grid: tuple[int, int, int],
    arguments: Sequence[str],
    task: Task,
) -> dict[str, Any]:
    """Check one launch of a Tile IR kernel, with the SPECs of ``tilewright run``. Returns the findings.

    What the launch raises is among them. Raises TileIRError for a file or a kernel that is none.
    """
    from tilewright.cli.modules import machine_module
    from tilewright.cli.run import entry_of
    from tilewright.cli.run_specs import bind, parameters_of
    from tilewright.launching.machine import run

    module = machine_module(verified(name, source), name)
    op = entry_of(module, entry)
    parameters = parameters_of(op)
    found = _Found(launches=1)
    options = options_for(task)

    def launch(machine: str, options: LaunchOptions) -> list[Any]:
        values = bind(parameters, arguments, 0)
        run(module, op.symbol, grid, values, machine, options)
        return values

    try:
        values = launch(task.machine, options)
        if task.compares:
            from dataclasses import replace

            expected = launch(REFERENCE, options_for(replace(task, machine=REFERENCE)))
            arrays = [n for n, one in enumerate(values) if isinstance(one, np.ndarray) and one.ndim]
            names = [parameters[n].name for n in arrays]
            ones, others = ([held[n] for n in arrays] for held in (values, expected))
            _compare(names, ones, others, task, found)
    except TileIRError as error:
        for diagnostic in error.diagnostics:
            found.add(diagnostic)
    return found.value


def verify_file(name: str, source: bytes) -> dict[str, Any]:
    """Verify a file. Returns the findings."""
    from tilewright.cli.modules import all_diagnostics

    found = _Found()
    try:
        verified(name, source)
    except TileIRError as error:
        for diagnostic in all_diagnostics(error):
            found.add(diagnostic)
    return found.value


def verified(name: str, source: bytes) -> Any:
    """Return the verified module of a file. Raises TileIRError if it is not one."""
    from tilewright import bytecode, text
    from tilewright.analysis import verifier

    if bytecode.is_bytecode(source):
        module: Any = bytecode.read(source, name)
    else:
        module = text.parse(source, name)
    verifier.verify(module)
    return module
