"""Which frames of a traceback pytest and IPython leave out: an error in a user's kernel or call ends, in
the report of a test and in a notebook, at the user's own line."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

_PACKAGE = "tilewright."
_OURS = str(Path(__file__).resolve().parent.parent)
#: Parts of paths of files whose frames run the cells of notebooks.
_RUNNERS = tuple(f"{os.sep}{name}{os.sep}" for name in ("IPython", "ipykernel"))


def hides_frames(caught: Any) -> bool:
    """What modules call ``__tracebackhide__``: whether pytest leaves out their frames.

    ``caught`` is pytest's ``ExceptionInfo``. A failed assertion of ours is a bug of ours, and keeps
    its frames.
    """
    innermost = caught.tb
    while innermost.tb_next is not None:
        innermost = innermost.tb_next
    is_ours = innermost.tb_frame.f_code.co_filename.startswith(_OURS)
    return not (is_ours and isinstance(caught.value, AssertionError))


def hide_callers() -> None:
    """Mark our modules that an error passes which is made here. Errors are made anywhere in the package;
    that all of its modules had to say so themselves would be forgotten in some."""
    if "pytest" not in sys.modules:
        return
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(_PACKAGE):
            frame.f_globals.setdefault("__tracebackhide__", hides_frames)
        frame = frame.f_back


def cell_traceback(error: BaseException) -> list[str]:
    """The lines of an exception's traceback as a notebook is to show them: from the cell on, without our
    frames. Those of a failed assertion of ours stay."""
    import traceback

    described = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = described
    raised: BaseException | None = error  # of which part tells; ``part.exc_type`` is deprecated
    while part is not None:
        is_bug = type(raised) is AssertionError
        part.stack[:] = [
            frame
            for frame in part.stack
            if not any(runner in frame.filename for runner in _RUNNERS)
            and (is_bug or not frame.filename.startswith(_OURS))
        ]
        if part.__cause__ is not None:
            part, raised = part.__cause__, raised and raised.__cause__
        else:
            part = None if part.__suppress_context__ else part.__context__
            raised = raised and raised.__context__
    return "".join(described.format()).rstrip("\n").split("\n")
