"""``tilewright compile --remarks`` and ``--remarks-json``: the decisions of the compiler, as text and as data."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tilewright.cli.outputs import refuse_terminal, write_files
from tilewright.cli.session import Session, UsageError

if TYPE_CHECKING:
    from tilewright.passes.tileas.remarks import Remark

#: The version of the JSON form.
FORMAT = 1


def add_remark_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--remarks`` and ``--remarks-json``."""
    parser.add_argument(
        "--remarks",
        action="store_true",
        help="print the decisions of the compiler and their reasons to standard error",
    )
    parser.add_argument(
        "--remarks-json",
        metavar="FILE",
        help="write the same as JSON; - is standard output, if the code goes to a file (-o)",
    )


def check_remark_options(options: argparse.Namespace) -> None:
    """Raise ``UsageError`` if the code and the remarks would go to the same place."""
    if options.remarks_json is not None and options.remarks_json == (options.output or "-"):
        raise UsageError.because(
            "--remarks-json and the code have the same output",
            help="name files with -o and --remarks-json",
        )


class RemarkReport:
    """Collects the remarks on each compiled kernel, and writes them with the code."""

    def __init__(self, options: argparse.Namespace, session: Session) -> None:
        self._options = options
        self._session = session
        self._kernels: list[dict[str, object]] = []

    @property
    def is_wanted(self) -> bool:
        """Whether an option asks for remarks."""
        return self._options.remarks or self._options.remarks_json is not None

    def add(self, kernel: str, remarks: Iterable[Remark]) -> None:
        """Add the remarks on a kernel; prints them with ``--remarks``."""
        from tilewright.passes.tileas.remarks import to_json

        found = list(remarks)
        if self._options.remarks:
            for remark in found:
                self._session.say(shown(remark))
        self._kernels.append({"kernel": kernel, "remarks": to_json(found)})

    def write_with(self, code: str | bytes) -> None:
        """Write the code, and the remarks if ``--remarks-json`` is given: both or, on failure, neither.

        Raises UsageError if one cannot be written, or if an object would go to a terminal.
        """
        options = self._options
        if isinstance(code, bytes):
            refuse_terminal(options.output)
        contents: dict[str, str | bytes] = {options.output or "-": code}
        if options.remarks_json is not None:
            document = {"format": FORMAT, "target": options.target, "kernels": self._kernels}
            contents[options.remarks_json] = json.dumps(document, indent=2) + "\n"
        write_files(self._session, contents)


def shown(remark: Remark) -> str:
    """Format a remark as a line of text."""
    from tilewright.diagnostics.render_text import describe_location

    where = "" if remark.location is None else f"{describe_location(remark.location)}: "
    return f"{where}remark[{remark.kind}]: {remark.message}"
