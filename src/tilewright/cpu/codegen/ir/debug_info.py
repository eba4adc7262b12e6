"""LLVM debug information: which operation each instruction comes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from llvmlite import ir
from xdsl.ir import Operation

from tilewright.cpu.codegen.ir.types import Builder, Value

NumberOf: TypeAlias = Callable[[Operation], int | None]
"""The number of an operation, from 0; None for one that has none."""


class Origins:
    """The numbers of operations, each plus one, as the lines of one module of LLVM.

    What belongs to no operation is in line 0, which LLVM takes for no line. Only directives that tell
    lines come of it, no sections of DWARF.
    """

    def __init__(self, module: ir.Module, number_of: NumberOf) -> None:
        self._module, self._number_of = module, number_of
        self._places: dict[tuple[str, int], Value] = {}
        # Tiles are kept, so that no other gets the number of one.
        self._tiles: dict[int, tuple[object, int]] = {}
        self._file = module.add_debug_info("DIFile", {"filename": "kernel", "directory": ""})
        self._unit = module.add_debug_info(
            "DICompileUnit",
            {
                "language": ir.DIToken("DW_LANG_C"),
                "file": self._file,
                "emissionKind": ir.DIToken("DebugDirectivesOnly"),
            },
            is_distinct=True,
        )
        types = module.add_metadata([])
        self._type = module.add_debug_info("DISubroutineType", {"types": types})
        module.add_named_metadata("llvm.dbg.cu", self._unit)
        i32 = ir.IntType(32)
        flag = [ir.Constant(i32, 2), "Debug Info Version", ir.Constant(i32, 3)]
        module.add_named_metadata("llvm.module.flags", module.add_metadata(flag))

    def enter(self, builder: Builder, op: Operation) -> None:
        """Have what a builder makes from here on belong to an operation, if it has a number."""
        number = self._number_of(op)
        if number is not None:
            builder.debug_metadata = self.place(builder, number + 1)

    def leave(self, builder: Builder) -> None:
        """Have what a builder makes from here on belong to nothing."""
        builder.debug_metadata = self.place(builder, 0)

    def place(self, builder: Builder, line: int) -> Value:
        """A line in the function that a builder works on."""
        function = builder.function
        key = function.name, line
        if key not in self._places:
            self._places[key] = self._module.add_debug_info(
                "DILocation", {"line": line, "scope": self._scope(function)}
            )
        return self._places[key]

    def _scope(self, function: ir.Function) -> Value:
        key = function.name, -1
        if key not in self._places:
            self._places[key] = self._module.add_debug_info(
                "DISubprogram",
                {
                    "name": function.name,
                    "scope": self._file,
                    "file": self._file,
                    "line": 1,
                    "type": self._type,
                    "spFlags": ir.DIToken("DISPFlagDefinition"),
                    "unit": self._unit,
                },
                is_distinct=True,
            )
            function.set_metadata("dbg", self._places[key])
        return self._places[key]

    def note(self, tile: object, op: Operation) -> None:
        """Remember that a tile is what an operation computes, wherever its elements are asked for."""
        number = self._number_of(op)
        if number is not None:
            self._tiles.setdefault(id(tile), (tile, number + 1))

    def line_of(self, tile: object) -> int | None:
        """The line of the operation that computes a tile; None where that is not known."""
        found = self._tiles.get(id(tile))
        return None if found is None else found[1]
