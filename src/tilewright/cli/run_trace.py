"""``tilewright run --trace``: writes what tile blocks did to a file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tilewright.cli.session import Session, UsageError

if TYPE_CHECKING:
    from tilewright.machine.inspect import Trace

_DEFAULT_LIMIT = 10_000


def add_trace_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what to record of a run, and where to write it."""
    group = parser.add_argument_group("trace")
    group.add_argument(
        "--trace",
        metavar="FILE",
        help="trace every operation of a tile block with its results and memory accesses; - is "
        "standard output",
    )
    group.add_argument(
        "--trace-block",
        action="append",
        type=_block,
        metavar="X[,Y[,Z]]|all",
        help="a tile block to trace (default: the first); may be repeated",
    )
    group.add_argument(
        "--trace-values",
        choices=("none", "summary", "full"),
        help="how to record results (default summary)",
    )
    group.add_argument(
        "--trace-limit",
        type=int,
        metavar="N",
        help=f"maximum number of recorded operations (default {_DEFAULT_LIMIT})",
    )
    group.add_argument("--trace-format", choices=("jsonl", "text"), help="format (default jsonl)")


def _block(text: str) -> tuple[int, ...] | str:
    parts = text.split(",")
    if text == "all":
        return text
    if len(parts) > 3 or not all(part.strip().isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"expected one to three numbers, or all, found '{text}'")
    return tuple(map(int, parts))


def trace_of(options: argparse.Namespace) -> Trace | None:
    """Return the trace that the options request, or None.

    Raises ``UsageError`` for conflicting options.
    """
    chosen = ("block", "values", "limit", "format")
    if options.trace is None:
        given = [name for name in chosen if getattr(options, f"trace_{name}") is not None]
        if given:
            raise UsageError.because(f"--trace-{given[0]} needs --trace FILE")
        return None
    if options.trace == "-" and options.json:
        raise UsageError.because("--json and --trace - both write to standard output")
    return _trace(options)


@contextmanager
def written(trace: Trace | None, options: argparse.Namespace, session: Session) -> Iterator[None]:
    """Write the trace, if there is one, when a run is over, however it ends."""
    try:
        yield
    finally:
        if trace is not None:
            _write(trace, options, session)


def _trace(options: argparse.Namespace) -> Trace:
    from tilewright.machine.inspect import Trace

    limit = _DEFAULT_LIMIT if options.trace_limit is None else options.trace_limit
    if limit < 1:
        raise UsageError.because(f"--trace-limit: expected at least 1, found {limit}")
    blocks = options.trace_block or [(0, 0, 0)]
    return Trace(
        "all" if "all" in blocks else blocks, options.trace_values or "summary", limit=limit
    )


def _write(trace: Trace, options: argparse.Namespace, session: Session) -> None:
    from tilewright.cli.outputs import write_text

    if not trace.launch:  # the launch was rejected before anything ran
        return
    as_text = options.trace_format == "text"
    write_text(session, options.trace, trace.to_text() if as_text else trace.to_json_lines())
    for notice in trace.notices:
        session.say(f"note: {notice}; see --trace-block, --trace-limit and --trace-values")
