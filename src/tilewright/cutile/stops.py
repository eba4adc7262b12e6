"""Breakpoints at lines of a kernel's Python source: tiles are arrays there."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from tilewright.cutile.errors import frames_of
from tilewright.cutile.parameters import ArrayValue, ListValue
from tilewright.diagnostics import TileIRError
from tilewright.dialects.cuda_tile.ops.misc import AssumeOp
from tilewright.dialects.cuda_tile.ops.reductions import Fold
from tilewright.dialects.cuda_tile.types import PtrType, TileType
from tilewright.machine.inspect.breakpoints import NOTHING_TO_STOP_AT, Breakpoint
from tilewright.machine.inspect.stats import tile_stats
from tilewright.machine.inspect.stops import StopRun, element_name, format_elements, look_at

if TYPE_CHECKING:
    from tilewright.cutile.parameters import Value
    from tilewright.dialects.cuda_tile.ops.module import EntryOp
    from tilewright.machine.compile import Translator
    from tilewright.machine.grid import BlockId
    from tilewright.machine.hooks import Hook
    from tilewright.machine.inspect.stops import When
    from tilewright.machine.values import Registers

_VARIABLE = re.compile(r"(?P<name>[^\W\d]\w*)(?:\.\d+)?")
_FEW = 8


@dataclass(frozen=True, slots=True, eq=False)
class LineStop:
    """A tile block that is about to execute a line of the kernel's Python source.

    ``variables`` are by the author's names: tiles as read-only arrays, numbers as arrays of rank 0,
    array arguments as arrays, constants as they are. ``hit`` counts the stops of the breakpoint from 1.
    """

    file: str
    line: int
    function: str
    block: tuple[int, int, int]
    hit: int
    variables: Mapping[str, Any]
    _elements: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def __getitem__(self, name: str) -> Any:
        """A variable by its name."""
        if name in self.variables:
            return self.variables[name]
        known = ", ".join(self.variables) or "none"
        raise KeyError(f"there is no variable '{name}' at line {self.line}; variables: {known}")

    def __str__(self) -> str:
        lines = [f"at {self.file}:{self.line} in {self.function}, tile block {self.block}"]
        lines += [f"  {name}: {self._described(name)}" for name in self.variables]
        return "\n".join(lines)

    def _described(self, name: str) -> str:
        value = self.variables[name]
        if not isinstance(value, np.ndarray):
            return repr(value)
        element = self._elements.get(name)
        if element is None:
            return f"array of {value.dtype}, {' x '.join(map(str, value.shape)) or 'a number'}"
        shape = "x".join(map(str, (*value.shape, element)))
        if value.size <= _FEW:
            return f"{shape} = {format_elements(value, element)}"
        return f"{shape} {tile_stats(value, element=element)}"


LineAction = Callable[[LineStop], object]


@dataclass(frozen=True, slots=True)
class LineBreakpoint:
    """Stops before a line of Python; of the file the last parts of the path are enough.

    ``action`` gets a :class:`LineStop`, and may raise ``StopRun`` to end the launch. By default it is
    :func:`debug`.
    """

    file: str
    line: int
    action: LineAction | None = None
    block: tuple[int, ...] | None = None


def debug(stop: LineStop) -> None:
    """Enter Python's debugger (``sys.breakpointhook``) at the line, with the kernel's variables.

    Where nobody could answer it, because standard input is no terminal, the stop is printed.
    """
    is_default = sys.breakpointhook is sys.__breakpointhook__
    if is_default and not (sys.stdin is not None and sys.stdin.isatty()):
        print(stop)
        return
    # A debugger stops at the line that follows the call.
    call = ast.Expr(ast.Call(ast.Name("breakpoint", ast.Load()), [], []))
    body: list[ast.stmt] = [call, ast.Pass()]
    for line, statement in zip((max(stop.line - 1, 1), stop.line), body, strict=True):
        for node in ast.walk(statement):
            if isinstance(node, ast.stmt | ast.expr):
                node.lineno = node.end_lineno = line
                node.col_offset = node.end_col_offset = 0
    code = compile(ast.Module(body, []), stop.file, "exec")
    exec(code, {**stop.variables, "stop": stop, "__name__": stop.function})


def split_breakpoints(
    given: Sequence[object],
) -> tuple[list[LineBreakpoint], list[Breakpoint]]:
    """Breakpoints at lines, and at operations. A TypeError for anything else.

    ``(file, line)`` and ``(file, line, action)`` are breakpoints at lines.
    """
    lines: list[LineBreakpoint] = []
    others: list[Breakpoint] = []
    for each in given:
        if isinstance(each, LineBreakpoint):
            lines.append(each)
        elif isinstance(each, Breakpoint):
            others.append(each)
        elif isinstance(each, tuple) and 2 <= len(each) <= 3:
            lines.append(LineBreakpoint(*each))
        else:
            raise TypeError(f"a breakpoint is (FILE, LINE) or a Breakpoint, not {each!r}")
    return lines, others


@dataclass(slots=True)
class LineStopper:
    """A breakpoint at a line in a launch: an observer of its operations."""

    given: LineBreakpoint
    entry: EntryOp
    values: Sequence[Value]
    constants: Mapping[str, object]
    starts: frozenset[Operation] = frozenset()
    hits: int = 0

    def __post_init__(self) -> None:
        self.starts = frozenset(_starts(self.entry, self.given))

    def hook(self, op: Operation, t: Translator, when: When) -> Hook | None:
        if when != "before" or op not in self.starts:
            return None
        frame = next(f for f in frames_of(op.location) if _is_at(f, self.given))
        seen = _visible(op)
        slots = {name: t.slot(value) for name, value in seen.items()}
        elements = {name: element_name(value.type) for name, value in seen.items()}
        machine, given = t.machine, self.given
        block = None if given.block is None else (*given.block, 0, 0, 0)[:3]
        fixed = self._fixed()

        def hook(regs: Registers) -> None:
            if block is not None and machine.block != block:
                return
            self.hits += 1
            found = {name: look_at(regs[slot]) for name, slot in slots.items()}
            tiles = {name: value for name, value in found.items() if value is not None}
            stop = LineStop(
                frame.file_name,
                frame.line,
                frame.what,
                machine.block,
                self.hits,
                {**fixed, **tiles},
                elements,
            )
            (given.action or debug)(stop)

        return hook

    def _fixed(self) -> dict[str, object]:
        """Arguments that are no tiles: arrays, lists of arrays, constants."""
        found: dict[str, object] = dict(self.constants)
        for value in self.values:
            if isinstance(value, ArrayValue):
                found[value.name] = value.as_numpy()
            elif isinstance(value, ListValue):
                found[value.name] = [item.as_numpy() for item in value.items]
        return {name: value for name, value in found.items() if name.isidentifier()}


def check_breakpoints(entry: EntryOp, given: Sequence[LineBreakpoint]) -> None:
    """A TileIRError for a line inside the kernel at which nothing happens."""
    lines: dict[str, set[int]] = {}
    for op in entry.walk():
        for frame in frames_of(op.location):
            lines.setdefault(frame.file_name, set()).add(frame.line)
    for each in given:
        for file, known in lines.items():
            inside = _is_file(file, each.file) and min(known) < each.line <= max(known)
            if inside and each.line not in known:
                near = sorted(known, key=lambda line: abs(line - each.line))[:2]
                raise TileIRError.single(
                    NOTHING_TO_STOP_AT,
                    f"nothing happens at line {each.line} of '{each.file}' in the kernel "
                    f"'{entry.symbol}'",
                    help=f"lines near it: {' and '.join(map(str, sorted(near)))}",
                )


def _starts(entry: EntryOp, given: LineBreakpoint) -> Iterator[Operation]:
    """The operations with which the line begins: the first in each of the innermost regions that have
    some. What was moved out of a loop is not where the line is executed."""
    found: dict[int, list[Operation]] = {}
    for op in entry.walk():
        if op is entry or isinstance(op, AssumeOp) or _in_fold(op):
            continue
        if any(_is_at(frame, given) for frame in frames_of(op.location)):
            found.setdefault(_depth(op), []).append(op)
    if not found:
        return
    blocks = set()
    for op in found[max(found)]:
        if op.parent not in blocks:
            blocks.add(op.parent)
            yield op


def _is_at(frame: Any, given: LineBreakpoint) -> bool:
    return frame.line == given.line and _is_file(frame.file_name, given.file)


def _is_file(name: str, wanted: str) -> bool:
    parts, last = PurePath(name).parts, PurePath(wanted).parts
    return bool(last) and parts[-len(last) :] == last


def _depth(op: Operation) -> int:
    depth, parent = 0, op.parent_op()
    while parent is not None:
        depth, parent = depth + 1, parent.parent_op()
    return depth


def _in_fold(op: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, Fold):
            return True
        parent = parent.parent_op()
    return False


def _visible(op: Operation) -> dict[str, SSAValue]:
    """The tiles that variables are before an operation, by name; the latest of each."""
    levels: list[list[SSAValue]] = []
    current: Operation | None = op
    while current is not None and (block := current.parent) is not None:
        own = list(block.args)
        for before in block.ops:
            if before is current:
                break
            own += before.results
        levels.append(own)
        current = block.parent_op()
    found: dict[str, SSAValue] = {}
    for value in (value for own in reversed(levels) for value in own):
        named = _VARIABLE.fullmatch(value.name_hint or "")
        ty = value.type
        if named and isinstance(ty, TileType) and not isinstance(ty.element_type, PtrType):
            found[named["name"]] = value
    return found


__all__ = ["LineBreakpoint", "LineStop", "StopRun", "debug"]
