"""Which operation instructions are made of, as debug information: line n of one file is operation n.

The lines survive LLVM, PTX (`.loc`) and ptxas (`-lineinfo`), and change no instruction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.ir import Operation

#: The name of the file that lines are of.
FILE = "operations"
#: Numbers of metadata from here on are of lines; annotations of kernels have lower ones.
_FIRST = 1 << 20
_UNIT, _FILE, _VERSION, _TYPE, _SCOPE, _NOTHING = range(_FIRST, _FIRST + 6)
_LINES = _FIRST + 16


@dataclass(slots=True)
class Lines:
    """The numbers of operations, from 1 in the order in which code was written, where they are ``wanted``."""

    wanted: bool = False
    operations: list[Operation] = field(default_factory=list)
    _numbers: dict[Operation, int] = field(default_factory=dict)

    def mark(self, op: Operation) -> str:
        """What stands behind an instruction that is made of an operation."""
        number = self._numbers.get(op)
        if number is None:
            self.operations.append(op)
            number = self._numbers[op] = len(self.operations)
        return f", !dbg !{_LINES + number}"

    def scope(self) -> str:
        """What stands in the head of a function whose instructions have lines."""
        return f" !dbg !{_SCOPE}" if self.wanted else ""

    def metadata(self) -> Iterator[str]:
        """The metadata of the module."""
        if not self.wanted:
            return
        yield f"!llvm.dbg.cu = !{{!{_UNIT}}}"
        yield f"!llvm.module.flags = !{{!{_VERSION}}}"
        yield (
            f"!{_UNIT} = distinct !DICompileUnit(language: DW_LANG_C, file: !{_FILE}, isOptimized: true, "
            "runtimeVersion: 0, emissionKind: DebugDirectivesOnly)"
        )
        yield f'!{_FILE} = !DIFile(filename: "{FILE}", directory: "")'
        yield f'!{_VERSION} = !{{i32 2, !"Debug Info Version", i32 3}}'
        yield f"!{_NOTHING} = !{{}}"
        yield f"!{_TYPE} = !DISubroutineType(types: !{_NOTHING})"
        yield (
            f'!{_SCOPE} = distinct !DISubprogram(name: "kernel", scope: !{_FILE}, file: !{_FILE}, line: 0, '
            f"type: !{_TYPE}, scopeLine: 0, spFlags: DISPFlagDefinition, unit: !{_UNIT})"
        )
        for number in range(1, len(self.operations) + 1):
            yield f"!{_LINES + number} = !DILocation(line: {number}, scope: !{_SCOPE})"
