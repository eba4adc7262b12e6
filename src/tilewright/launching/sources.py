"""Modules as they come from files: bytecode or text, read when somebody needs the operations."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from tilewright.diagnostics import Diagnostic

#: What a module can be read from: its bytes, or the path of a file.
Readable: TypeAlias = bytes | bytearray | memoryview | str | os.PathLike[str]
#: The same, for ``isinstance``.
READABLE = (bytes, bytearray, memoryview, str, os.PathLike)


class Source(Protocol):
    """Where a module comes from."""

    @property
    def identity(self) -> bytes:
        """All that decides on what ``read`` gives, except for names of files."""
        ...

    def read(self) -> Operation:
        """The verified module. Raises ``TileIRError`` with what is wrong with it."""
        ...


@dataclass(frozen=True, slots=True)
class ModuleSource:
    """The bytes of a module, and the name that diagnostics give them."""

    data: bytes
    name: str = "<bytes>"

    @classmethod
    def of(cls, given: Readable) -> ModuleSource:
        """The source in these bytes, or in the file of this path. Raises OSError if the file cannot be read."""
        if isinstance(given, bytes | bytearray | memoryview):
            return cls(bytes(given))
        if isinstance(given, str) and "\n" in given:
            what = (
                "expected a path or bytes, got the text of a module; `tilewright.parse` reads text"
            )
            raise FileNotFoundError(errno.ENOENT, what)
        return cls(Path(given).read_bytes(), os.fspath(given))

    @property
    def identity(self) -> bytes:
        """The bytes."""
        return self.data

    def read(self) -> Operation:
        """Read the module and verify it; the format is detected from the bytes. Raises ``TileIRError`` with what is
        wrong with it.
        """
        return self.read_with_warnings()[0]

    def read_with_warnings(self) -> tuple[Operation, list[Diagnostic]]:
        """The same, and what is odd about the module though it is valid."""
        from tilewright.analysis.verifier import verify
        from tilewright.bytecode import is_bytecode

        warnings: list[Diagnostic] = []
        if is_bytecode(self.data):
            from tilewright.bytecode import read

            module: Operation = read(self.data, self.name, warnings=warnings)
        else:
            from tilewright.text import parse

            module = parse(self.data, self.name)
        return module, [*warnings, *verify(module)]
