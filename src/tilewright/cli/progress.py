"""Progress display during long work, on a terminal only."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from tilewright.cli.session import is_terminal

Progress = Callable[[int, int], object]
"""Called with the number of steps done and the total."""


@contextlib.contextmanager
def working(what: str) -> Iterator[Progress | None]:
    """Show a progress bar on standard error while the body runs, with the steps done and the remaining
    time. Yields None if that is not a terminal."""
    if not is_terminal(sys.stderr):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    console = Console(stderr=True)
    with Bar(
        *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
    ) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
