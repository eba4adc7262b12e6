"""``tilewright opt``: run passes and show their effects."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.cli.exits import Exit
from tilewright.cli.modules import (
    add_generic_options,
    add_reading_options,
    add_version_option,
    is_bytecode,
    one_module,
    parse_source,
    requested_version,
)
from tilewright.cli.outputs import refuse_terminal, write_binary, write_text
from tilewright.cli.session import InputFile, Session, UsageError
from tilewright.diagnostics import Diagnostic, SourceFile, TileIRError

if TYPE_CHECKING:
    from tilewright.cli.modules import Module
    from tilewright.passes import PassTiming, Rewrite, TilePass

_SEPARATOR = "// -----"
_LEVELS = ("O0", "O1", "O2", "O3")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="text or bytecode; - is standard input"
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="output file (default: stdout)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "-p",
        "--passes",
        default="",
        metavar="PIPELINE",
        help="comma-separated passes or pipelines, such as canonicalize,loop-split{split-threshold=2}",
    )
    for level in _LEVELS:
        what.add_argument(
            f"-{level}",
            dest="passes",
            action="store_const",
            const=level,
            help=f"the pipeline {level}",
        )
    parser.add_argument(
        "--load",
        action="append",
        default=[],
        metavar="FILE.py|MODULE",
        help="register the passes of a Python file or an importable module; may be repeated",
    )
    what.add_argument(
        "--list-passes", action="store_true", help="list passes with their options, and pipelines"
    )
    _add_watching_options(parser.add_argument_group("pass debugging"))
    _add_analysis_options(parser.add_argument_group("analyses of nv_tileaa"))
    _add_form_options(parser.add_argument_group("input and output"))
    add_version_option(parser)
    add_reading_options(parser)


def _add_watching_options(group: argparse._ArgumentGroup) -> None:
    for when in ("before", "after"):
        group.add_argument(
            f"--print-{when}",
            action="append",
            default=[],
            metavar="PASS|all",
            help=f"print the module to standard error {when} a pass",
        )
    group.add_argument("--stop-after", metavar="PASS", help="stop after this pass")
    group.add_argument(
        "--verify-each",
        action="store_true",
        help="verify the module after every pass; for nv_tileaa also the order of memory effects",
    )
    group.add_argument("--timing", action="store_true", help="report the time of each pass")
    group.add_argument(
        "--trace-rewrites",
        action="store_true",
        help="report each rewrite by rule name and location",
    )


def _add_analysis_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--print-analysis",
        action="append",
        default=[],
        metavar="NAME|all|list",
        help="annotate the output with the results of an analysis; `list` lists the names",
    )
    group.add_argument(
        "--analysis-format",
        choices=("text", "dot", "svg"),
        default="text",
        help="format; dot and svg draw the token graph of the first function",
    )
    group.add_argument("--grid", metavar="X[,Y[,Z]]", help="the grid that analyses may assume")


def _add_form_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--emit", choices=("text", "bytecode"), default="text")
    add_generic_options(group)
    group.add_argument(
        "-g", "--print-locations", action="store_true", help="print debug information"
    )
    group.add_argument(
        "--bare", action="store_true", help="print only the contents of the module, as `dis` does"
    )
    group.add_argument(
        "--split-input-file",
        action="store_true",
        help=f"process the parts between lines `{_SEPARATOR}` as separate files",
    )
    group.add_argument(
        "--verify-diagnostics",
        action="store_true",
        help="check diagnostics against `// expected-error {{code: text}}` comments; print no "
        "output",
    )


def execute(options: argparse.Namespace, session: Session) -> int:
    _load(options.load)
    if options.list_passes:
        session.write_stdout(_pass_list())
        return Exit.OK
    if "list" in options.print_analysis:
        session.write_stdout(_analysis_list())
        return Exit.OK
    if options.file is None:
        raise UsageError.because("expected a FILE, --list-passes or --print-analysis=list")
    _check_analyses(options)
    if options.emit == "bytecode" and not options.verify_diagnostics:
        refuse_terminal(options.output)
    passes = _passes(options)
    source = session.read(options.file)
    parts = _split(source) if options.split_input_file else [source]
    driver = _Driver(options, session, passes)
    if options.verify_diagnostics:
        return driver.verify_diagnostics(parts)
    return driver.transform(parts)


class _Driver:
    """Runs the passes on each part of the input."""

    def __init__(
        self, options: argparse.Namespace, session: Session, passes: Sequence[TilePass]
    ) -> None:
        self._options = options
        self._session = session
        self._passes = passes
        self._timings: list[PassTiming] = []
        self._rewrites: list[Rewrite] | None = [] if options.trace_rewrites else None

    def transform(self, parts: Sequence[InputFile]) -> int:
        """Write the transformed parts; nothing if one of them has an error."""
        options, session = self._options, self._session
        if options.emit == "bytecode" and len(parts) > 1:
            raise UsageError.because("--emit bytecode takes a file with one part")
        modules: list[Module] = []
        found: list[Diagnostic] = []
        for part in parts:
            module, diagnostics = self._run(part)
            found += diagnostics
            if module is not None:
                modules.append(module)
        session.report(found)
        if self._rewrites:
            session.say(_rewrite_list(self._rewrites))
        if options.timing:
            session.say(_timing_table(self._timings))
        if len(modules) < len(parts):
            return Exit.FINDINGS
        if options.emit == "bytecode":
            from tilewright import bytecode

            module = one_module(modules[0], options.file)
            data = bytecode.write(module, requested_version(options))
            write_binary(session, options.output, data)
        else:
            texts = [self._text(module) for module in modules]
            write_text(session, options.output, f"{_SEPARATOR}\n".join(texts))
        return Exit.OK

    def verify_diagnostics(self, parts: Sequence[InputFile]) -> int:
        """Compare the diagnostics of each part with the expectations in its comments."""
        from tilewright.diagnostics import check_expectations

        mismatches: list[Diagnostic] = []
        for part in parts:
            _, diagnostics = self._run(part)
            text = part.data.decode("utf-8", "replace")
            mismatches += check_expectations(SourceFile(part.name, text), diagnostics)
        self._session.report(mismatches)
        return Exit.FINDINGS if mismatches else Exit.OK

    def _run(self, part: InputFile) -> tuple[Module | None, list[Diagnostic]]:
        """Return the transformed module, or None if there were errors, and all diagnostics."""
        from tilewright.analysis import verifier
        from tilewright.passes import run_pipeline

        warnings: list[Diagnostic] = []
        try:
            module = parse_source(part, self._options, warnings)
            warnings += verifier.verify(module, allow_unregistered=self._options.allow_unregistered)
            module = run_pipeline(
                module,
                self._passes,
                verify_each=self._options.verify_each,
                allow_unregistered=self._options.allow_unregistered,
                before_pass=self._before,
                after_pass=self._after,
                timings=self._timings,
                rewrites=self._rewrites,
            )
        except TileIRError as error:
            return None, [*warnings, *error.diagnostics]
        return module, warnings

    def _before(self, done: TilePass, module: Module) -> None:
        self._show(done, module, "before")

    def _after(self, done: TilePass, module: Module) -> bool:
        self._show(done, module, "after")
        return done.name == self._options.stop_after

    def _show(self, done: TilePass, module: Module, when: str) -> None:
        wanted = getattr(self._options, f"print_{when}")
        if done.name in wanted or "all" in wanted:
            self._session.say(f"// {when} {done}\n{self._text(module)}".rstrip())

    def _text(self, module: Module) -> str:
        from tilewright import text
        from tilewright.dialects.cuda_tile.ops.module import ModuleOp

        options = self._options
        if options.print_analysis:
            return _analysed(options, module)
        return text.print_text(
            module,
            generic=options.generic is not None,
            reference=options.generic == "nvidia",
            locations=options.print_locations,
            bare=options.bare and isinstance(module, ModuleOp),
        )


def _split(source: InputFile) -> list[InputFile]:
    """Split a text into parts, which keep the line numbers of the whole."""
    from tilewright.diagnostics import split_input

    if is_bytecode(source):
        raise UsageError.because("--split-input-file takes text, not bytecode")
    # Bytes that are not UTF-8 are preserved, for the parser to report.
    text = source.data.decode("utf-8", "surrogateescape")
    return [
        InputFile(source.name, part.encode("utf-8", "surrogateescape"))
        for part in split_input(text, _SEPARATOR)
    ]


def _load(sources: Sequence[str]) -> None:
    """Register the passes of ``--load``. Raises ``UsageError`` if there are none."""
    from tilewright.passes import PASSES, load_passes

    try:
        for source in sources:
            for cls in load_passes(source):
                PASSES.add(cls)
    except TileIRError as error:
        raise UsageError(error.diagnostics) from error


def _passes(options: argparse.Namespace) -> list[TilePass]:
    """Return the passes to run. Raises ``UsageError`` for an unknown pass or option."""
    from tilewright.passes import PASSES, parse_pipeline

    try:
        passes = parse_pipeline(options.passes)
    except TileIRError as error:
        raise UsageError(error.diagnostics) from error
    names = [*options.print_before, *options.print_after]
    names += [options.stop_after] if options.stop_after is not None else []
    for name in names:
        if name not in PASSES and (name != "all" or name == options.stop_after):
            raise UsageError.because(
                f"there is no pass '{name}'", help=f"known passes: {', '.join(PASSES)}"
            )
    return passes


def _pass_list() -> str:
    import dataclasses

    from tilewright.passes import PASSES, PIPELINES

    lines = ["Passes"]
    for name, cls in PASSES.items():
        summary = (cls.__doc__ or "").strip().partition("\n")[0]
        lines.append(f"  {name:<30}  {summary}")
        for field in dataclasses.fields(cls):
            option = f"{name}{{{field.name.replace('_', '-')}={field.default}}}"
            lines.append(f"    {option}")
    lines += ["", "Pipelines"]
    lines += [f"  {name:<4} {','.join(members)}".rstrip() for name, members in PIPELINES.items()]
    return "\n".join(lines) + "\n"


def _analysis_list() -> str:
    from tilewright.explain.analyses import ANALYSES

    return "".join(f"{name:<14} {analysis.summary}\n" for name, analysis in ANALYSES.items())


def _check_analyses(options: argparse.Namespace) -> None:
    """Reject names of unknown analyses, and conflicting options."""
    if not options.print_analysis:
        if options.grid is not None or options.analysis_format != "text":
            raise UsageError.because("--grid and --analysis-format require --print-analysis")
        return
    from tilewright.explain.analyses import ANALYSES

    for name in options.print_analysis:
        if name not in ANALYSES and name != "all":
            known = ", ".join(ANALYSES)
            raise UsageError.because(f"there is no analysis '{name}'", help=f"known: {known}")
    if options.emit == "bytecode":
        raise UsageError.because("--print-analysis prints text, not bytecode")
    if options.analysis_format != "text" and options.print_analysis != ["tokens"]:
        raise UsageError.because(
            f"--analysis-format {options.analysis_format} draws --print-analysis=tokens only"
        )


def _analysed(options: argparse.Namespace, module: Module) -> str:
    from tilewright.explain.analyses import ANALYSES, annotate, draw_tokens, functions

    if not functions(module):
        raise UsageError.because(
            "analyses need nv_tileaa, but the module has no function of it",
            help="add --passes lower-cuda-tile-to-tileaa",
        )
    if options.analysis_format != "text":
        return draw_tokens(module, options.analysis_format)
    grid = None if options.grid is None else _grid(options.grid)
    names = list(ANALYSES) if "all" in options.print_analysis else options.print_analysis
    return annotate(module, names, grid=grid)


def _grid(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(part.isdecimal() and int(part) for part in parts):
        raise UsageError.because(f"expected one to three positive extents, got '{text}'")
    return tuple(int(part) for part in parts)


def _rewrite_list(rewrites: Sequence[Rewrite]) -> str:
    """Return a line for each rule that was applied, in order."""
    from tilewright.diagnostics.render_text import describe_location

    return "\n".join(
        f"{'' if where is None else f'{describe_location(where)}: '}{rule} rewrites {op}"
        for rule, op, where in rewrites
    )


def _timing_table(timings: Sequence[PassTiming]) -> str:
    """Return a table of the passes that ran, in order, with milliseconds and share."""
    total = sum(timing.seconds for timing in timings)
    rows = [(timing.name, timing.seconds) for timing in timings]
    lines = [
        f"{seconds * 1000:9.2f} ms {100 * seconds / total if total else 0:5.1f}%  {name}"
        for name, seconds in [*rows, ("total", total)]
    ]
    return "\n".join(lines)
