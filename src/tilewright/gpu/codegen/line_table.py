"""Line tables: LLVM debug information that says where each instruction comes from."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Operation

#: The first metadata number of the table; others count from 0.
_FIRST = 1 << 20
FILE_NAME = "kernel"
"""The file name of the lines in the table."""


class LineTable:
    """Debug metadata of a module with the lines of operations.

    It only produces line directives: no DWARF sections, and no other instructions. An operation without a line has that
    of the enclosing operation.
    """

    def __init__(self, lines: Mapping[Operation, int]) -> None:
        self._lines = lines
        self._numbers: dict[str, int] = {}
        self._file = self._number(f'!DIFile(filename: "{FILE_NAME}", directory: "")')
        unit = f"distinct !DICompileUnit(language: DW_LANG_C, file: !{self._file}, emissionKind: "
        self._unit = self._number(f"{unit}DebugDirectivesOnly)")
        empty = self._number("!{}")
        self._type = self._number(f"!DISubroutineType(types: !{empty})")
        self._version = self._number('!{i32 2, !"Debug Info Version", i32 3}')

    def _number(self, node: str) -> int:
        return self._numbers.setdefault(node, _FIRST + len(self._numbers))

    def function(self, name: str, op: Operation) -> int:
        """The metadata number of a function's scope."""
        return self._number(
            f'distinct !DISubprogram(name: "{name}", scope: !{self._file}, file: !{self._file}, '
            f"line: {self._lines.get(op, 1)}, type: !{self._type}, spFlags: DISPFlagDefinition, "
            f"unit: !{self._unit})"
        )

    def origin(self, op: Operation, function: int) -> str | None:
        """The suffix of an operation's instructions; None if it has no line."""
        line = self._lines.get(op)
        if line is None:
            return None
        return f", !dbg !{self._number(f'!DILocation(line: {line}, scope: !{function})')}"

    def text(self) -> list[str]:
        """The metadata, as lines of the module."""
        return [
            f"!llvm.dbg.cu = !{{!{self._unit}}}",
            f"!llvm.module.flags = !{{!{self._version}}}",
            *(f"!{number} = {node}" for node, number in self._numbers.items()),
        ]
