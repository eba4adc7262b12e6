"""State shared by all parts of the writer: the pools, and the list of problems."""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.bytecode.format import NEEDS_VERSION, NOT_STORABLE
from tilewright.bytecode.tables import Pool
from tilewright.bytecode.types import TypeWriter
from tilewright.diagnostics import Collector
from tilewright.dialects.cuda_tile.enums import TileEnumAttribute
from tilewright.dialects.source_map import Part, location_of
from tilewright.dialects.versions import Version, format_version


class Output:
    """A file being written: its version, its pools, and the problems found.

    After a problem, writing continues with a meaningless number to find further problems.
    """

    def __init__(self, version: Version):
        self.version = version
        self.strings = Pool()
        self.constants = Pool()
        self.types = TypeWriter(version, self.problem)
        self.collector = Collector()
        #: The operation and part being written, for the locations of problems.
        self.op: Operation | None = None
        self.part: Part | None = None

    def at(self, op: Operation | None, part: Part | None = None) -> None:
        """Set the operation and part being written, for the locations of problems."""
        self.op, self.part = op, part

    def problem(self, code: str, message: str) -> None:
        """Report an error at what is being written. Writing continues, but fails at the end."""
        location = None if self.op is None else location_of(self.op, self.part)
        self.collector.error(code, message, location)

    def needs(self, what: str, since: Version, why: str = "") -> None:
        """Report that something needs a newer version, ``since`` (``needs-version``)."""
        self.problem(NEEDS_VERSION, needs_message(what, since, self.version) + why)

    def string(self, text: str) -> int:
        """Return the index of a string; lone surrogates stand for bytes that are not UTF-8."""
        try:
            return self.strings.index(text.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:
            self.problem(NOT_STORABLE, f"the string {text!r} has no form in UTF-8")
            return 0

    def enum_code(self, value: TileEnumAttribute) -> int:
        """Return the number of an enumeration value. Reports one newer than the version (``needs-version``)."""
        member = value.data
        since = value.SINCE.get(member)
        if since is not None and since > self.version:
            self.needs(f"{member.value} of {value.enum_type.__name__}", since)
        return value.code


def needs_message(what: str, since: Version, version: Version) -> str:
    """Return the message about something newer than the requested version."""
    return f"{what} needs {format_version(since)}, but {format_version(version)} was asked for"
