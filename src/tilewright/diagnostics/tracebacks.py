"""Hides our frames in the tracebacks of pytest and IPython.

In a test report and in a notebook, an error in a user's kernel or call ends at the user's own line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traceback import TracebackException

_PACKAGE = "tilewright."
_OURS = str(Path(__file__).resolve().parent.parent)
#: Path components of files whose frames run notebook cells.
_RUNNERS = tuple(f"{os.sep}{name}{os.sep}" for name in ("IPython", "ipykernel"))


def hides_frames(caught: Any) -> bool:
    """Whether pytest leaves out a module's frames; the value of ``__tracebackhide__``.

    ``caught`` is pytest's ``ExceptionInfo``. A failed assertion of ours is a bug of ours, and keeps its
    frames.
    """
    innermost = caught.tb
    while innermost.tb_next is not None:
        innermost = innermost.tb_next
    is_ours = innermost.tb_frame.f_code.co_filename.startswith(_OURS)
    return not (is_ours and isinstance(caught.value, AssertionError))


def hide_callers() -> None:
    """Set ``__tracebackhide__`` in our modules on the current call stack.

    Called when an error is created, which happens anywhere in the package; setting it in every module by hand
    would be forgotten in some.
    """
    if "pytest" not in sys.modules:
        return
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(_PACKAGE):
            frame.f_globals.setdefault("__tracebackhide__", hides_frames)
        frame = frame.f_back


def cell_traceback(error: BaseException) -> list[str]:
    """Return the lines of an exception's traceback for a notebook: from the cell on, without our frames.

    A failed assertion of ours keeps its frames.
    """
    import traceback

    described = traceback.TracebackException.from_exception(error)
    for part, raised in parts_of(described, error):
        is_bug = type(raised) is AssertionError
        part.stack[:] = [
            frame
            for frame in part.stack
            if not any(runner in frame.filename for runner in _RUNNERS)
            and (is_bug or not frame.filename.startswith(_OURS))
        ]
    return "".join(described.format()).rstrip("\n").split("\n")


def parts_of(
    described: TracebackException | None, error: BaseException | None
) -> Iterator[tuple[TracebackException, BaseException | None]]:
    """Yield an exception, and those it is chained to or groups, each as formatted and as raised.

    The formatted form alone does not suffice: reading its class raises a warning in Python 3.13 and newer.
    """
    if described is None:
        return
    yield described, error
    yield from parts_of(described.__cause__, error and error.__cause__)
    yield from parts_of(described.__context__, error and error.__context__)
    grouped: Sequence[BaseException] = getattr(error, "exceptions", ())
    for part, raised in zip_longest(described.exceptions or (), grouped):
        yield from parts_of(part, raised)
