"""Records and reports the launches of a program."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tilewright.cli.exits import Exit
from tilewright.cli.outputs import write_files
from tilewright.cli.programs import choose, labelled, save_ir
from tilewright.cli.session import Session

if TYPE_CHECKING:
    from tilewright.cutile import Compiled
    from tilewright.cutile.launching import Dispatcher, Specialisation
    from tilewright.cutile.settings import Launched
    from tilewright.cutile.stops import LineBreakpoint, LineStop
    from tilewright.machine.inspect.trace import Trace
    from tilewright.machine.sanitize import SanitizeReport

FORMAT = 1
"""The version of the JSON output."""


@dataclass(slots=True)
class Sanitized:
    """The sanitizer's results: the launches with findings, and how many were checked."""

    launches: int = 0
    reports: list[tuple[SanitizeReport, Any]] = field(default_factory=list[Any])

    def keep(self, module: Any, report: SanitizeReport | None) -> None:
        """Count a launch, and store its report if it has findings."""
        self.launches += 1
        if report is not None:
            self.reports.append((report, module))


class LaunchLog:
    """Collects and writes the requested outputs of a program run other than the program's own."""

    def __init__(self, options: argparse.Namespace, session: Session):
        self._options, self._session = options, session
        self._stdout = sys.stdout
        self._kernels: list[Compiled] = []
        self._launches: list[Launched] = []
        self._traced: list[Trace] = []
        self._stopped: set[LineBreakpoint] = set()
        self.sanitized = Sanitized()

    @property
    def owns_stdout(self) -> bool:
        """Whether our output goes to standard output, so that the program's must go elsewhere."""
        options = self._options
        is_report = options.command == "sanitize" and options.format != "text"
        return is_report or options.trace == "-" or getattr(options, "json", False)

    @property
    def wants_launches(self) -> bool:
        """Whether an option reports on launches, so that they must be recorded."""
        options = self._options
        return bool(options.counters or options.timeline or getattr(options, "json", False))

    @property
    def trace(self) -> Trace:
        """The trace settings of a launch: all tile blocks, unless some are named."""
        from tilewright.machine.inspect.trace import Trace

        options = self._options
        blocks: list[Any] = options.trace_block or ["all"]
        limits = {} if options.trace_limit is None else {"limit": options.trace_limit}
        return Trace(
            "all" if "all" in blocks else blocks, options.trace_values or "summary", **limits
        )

    def keep_kernel(
        self,
        dispatcher: Dispatcher,
        made: Specialisation,
        grid: tuple[int, int, int],
        args: tuple[Any, ...],
    ) -> None:
        """Record a compiled kernel, once, without its arguments."""
        from tilewright.cutile.compilation import of_specialisation

        if not any(known.is_of(made) for known in self._kernels):
            # Only the kinds of arguments matter here; keeping arrays would extend their lifetime.
            self._kernels.append(of_specialisation(dispatcher, made, grid, ()))

    def stops(self) -> tuple[LineBreakpoint, ...]:
        """Return the breakpoints of the command line, which record whether a launch reached them."""
        return tuple(map(self._noted, self._options.breakpoints))

    def _noted(self, given: LineBreakpoint) -> LineBreakpoint:
        from tilewright.cutile.stops import debug

        def stopped(stop: LineStop) -> None:
            self._stopped.add(given)
            debug(stop)

        return replace(given, action=stopped)

    def keep_launch(self, launched: Launched) -> None:
        """Record a launch, and print its counters immediately if requested."""
        self._launches.append(launched)
        if self._options.counters:
            self._session.say(_counted(launched))

    def keep_trace(self, trace: Trace) -> None:
        """Append a launch's trace to the file; the first one truncates it."""
        options = self._options
        as_text = options.trace_format == "text"
        text = trace.to_text() if as_text else trace.to_json_lines()
        if options.trace == "-":
            # The program's output is redirected meanwhile.
            with redirect_stdout(self._stdout):
                self._session.write_stdout(text)
        else:
            with open(options.trace, "a" if self._traced else "w", encoding="utf-8") as stream:
                stream.write(text)
        self._traced.append(trace)

    def finish(self, script: str, status: int) -> int:
        """Write the requested outputs. Returns the exit status. Raises UsageError if one cannot be written, and for a
        kernel that the program did not launch.
        """
        from tilewright.cutile.children import has_children

        options, session = self._options, self._session
        kernels = labelled(self._kernels)
        if options.kernel is not None and kernels:
            choose(kernels, options.kernel, script)
        if not kernels and status == 0 and not has_children():
            session.say(f"note: '{script}' launched no cuTile kernel")
        if options.save_ir is not None and kernels:
            save_ir(choose(kernels, options.kernel, script), options, session)
        if kernels:
            for each in options.breakpoints:
                if each not in self._stopped:
                    session.say(f"note: no launch reached line {each.line} of '{each.file}'")
        if options.timeline:
            self._draw(options.timeline)
        if getattr(options, "json", False):
            data = {"format": FORMAT, "program": script, "status": status}
            launches = [_as_json(launched) for launched in self._launches]
            session.write_stdout(json.dumps({**data, "launches": launches}, indent=2) + "\n")
        if options.command == "sanitize":
            return self._report(status, bool(kernels))
        return status

    def _draw(self, path: str) -> None:
        timed = [each for each in self._launches if each.result is not None]
        number = self._options.timeline_launch or 1
        if number > len(timed):
            of = f"launch {number} of {len(timed)}" if timed else "launch"
            self._session.say(f"note: there is no {of} to draw: '{path}' is not written")
            return
        drawn = timed[number - 1]
        timeline = drawn.result.timeline
        text = timeline.to_svg() if path.endswith(".svg") else timeline.to_html(drawn.kernel)
        write_files(self._session, {path: text})
        which = f", launch {number} of {len(timed)}; --timeline-launch N draws another"
        self._session.say(f"wrote {path}: {drawn.kernel}{which * (len(timed) > 1)}")

    def _report(self, status: int, launched: bool) -> int:
        from tilewright.cutile.errors import diagnostics_in_python
        from tilewright.diagnostics import to_json, to_sarif

        options, session, found = self._options, self._session, self.sanitized.reports
        told = [
            diagnostic
            for report, module in found
            for diagnostic in diagnostics_in_python(report.diagnostics, module)
        ]
        told = list({(d.code, d.message, d.location): d for d in told}.values())
        if options.format == "text":
            session.report(told)
        elif options.format == "sarif":
            session.write_stdout(json.dumps(to_sarif(told), indent=2) + "\n")
        else:
            data = {
                "format": FORMAT,
                "launches": self.sanitized.launches,
                "findings": to_json(told),
            }
            session.write_stdout(json.dumps(data, indent=2) + "\n")
        if options.html is not None:
            self._write_pages(options.html)
        if launched and not told:
            count = self.sanitized.launches
            session.say(f"no errors found in {count} launch{'es' * (count != 1)}")
        return status or (Exit.FINDINGS if told or not launched else Exit.OK)

    def _write_pages(self, path: str) -> None:
        """Write a page for each launch with findings; the first has the given name."""
        from tilewright.machine.sanitize import render_html

        stem, suffix = os.path.splitext(path)
        pages: dict[str, bytes | str] = {}
        for number, (report, module) in enumerate(self.sanitized.reports, 1):
            name = path if number == 1 else f"{stem}.{number}{suffix}"
            pages[name] = render_html(report, module)
        if not pages:
            self._session.say(f"note: no errors found; '{path}' is not written")
            return
        write_files(self._session, pages)
        self._session.say(f"wrote {', '.join(pages)}")


def _as_json(launched: Launched) -> dict[str, object]:
    data: dict[str, object] = {
        "kernel": launched.kernel,
        "specialisation": launched.number,
        "compiled_for": dict(launched.kind),
        "machine": launched.machine,
        "grid": list(launched.grid),
        "seconds": launched.seconds,
    }
    if (counters := getattr(launched.result, "counters", None)) is not None:
        data["counters"] = counters.as_dict()
        data["occupancy"] = str(launched.result.occupancy)
    return data


def _counted(launched: Launched) -> str:
    result = launched.result
    lines = [f"{launched.kernel}, grid {launched.grid}:"]
    lines += [f"  {name}: {count}" for name, count in result.counters.as_dict().items() if count]
    lines.append(f"  shared memory of a block: {result.shared_bytes} bytes")
    lines.append(f"  occupancy: {result.occupancy}")
    return "\n".join(lines)
