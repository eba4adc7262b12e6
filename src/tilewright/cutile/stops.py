"""Breakpoints at lines of a kernel's Python source: tiles are arrays there."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation

from tilewright.cutile.errors import frames_of
from tilewright.cutile.parameters import ArrayValue, ListValue
from tilewright.diagnostics import TileIRError
from tilewright.dialects.cuda_tile.ops.misc import AssumeOp
from tilewright.dialects.cuda_tile.ops.reductions import ReduceOrScan
from tilewright.dialects.nv_tileaa.base import ancestors
from tilewright.machine.inspect.breakpoints import NOTHING_TO_STOP_AT, Breakpoint, is_file
from tilewright.machine.inspect.stats import tile_stats
from tilewright.machine.inspect.stops import StopRun, element_name, format_elements, visible_tiles

if TYPE_CHECKING:
    from tilewright.cutile.parameters import Value
    from tilewright.dialects.cuda_tile.ops.module import EntryOp
    from tilewright.machine.inspect.stops import Stop

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


def resolved(
    given: Sequence[object],
    entry: EntryOp,
    values: Sequence[Value],
    constants: Mapping[str, object],
) -> list[Breakpoint]:
    """Breakpoints at lines as breakpoints at operations of a kernel; others as they are.

    ``(file, line)`` and ``(file, line, action)`` are breakpoints at lines, with a kernel or function for the
    file or cell of a notebook that it is written in; those of other files and kernels are left out. A TypeError for what is no breakpoint, a TileIRError for a line inside the
    kernel at which nothing happens.
    """
    found: list[Breakpoint] = []
    for each in given:
        if isinstance(each, Breakpoint):
            found.append(each)
            continue
        if isinstance(each, tuple) and 2 <= len(each) <= 3:
            each = LineBreakpoint(_file_of(each[0]), *each[1:])
        if not isinstance(each, LineBreakpoint):
            raise TypeError(f"a breakpoint is (FILE, LINE) or a Breakpoint, not {each!r}")
        check_line(entry, each)
        starts = tuple(_starts(entry, each))
        if starts:
            action = _LineAction(each, {**constants, **_arrays(values)})
            found.append(Breakpoint(starts, action, each.block, "before"))
    return found


def _file_of(given: Any) -> str:
    """A file by its path, or by a kernel or function that is written in it."""
    if isinstance(given, str):
        return given
    annotated = getattr(given, "_annotated_function", None)
    function = given if annotated is None else annotated.pyfunc
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        raise TypeError(f"a breakpoint is (FILE, LINE) or a Breakpoint; {given!r} is no function")
    return code.co_filename


@dataclass(slots=True)
class _LineAction:
    """What is done at the first operation of a line."""

    given: LineBreakpoint
    fixed: Mapping[str, object]

    def __call__(self, stop: Stop) -> None:
        frame = next(f for f in frames_of(stop.op.location) if _is_at(f, self.given))
        seen = visible_tiles(stop.op)
        there = {name: value for name, value in stop.variables.items() if name in seen}
        line_stop = LineStop(
            frame.file_name,
            frame.line,
            frame.what,
            stop.block,
            stop.hit,
            {**self.fixed, **there},
            {name: element_name(seen[name].type) for name in there},
        )
        (self.given.action or debug)(line_stop)


def _arrays(values: Sequence[Value]) -> dict[str, object]:
    """Arguments that are no tiles: arrays, and lists of arrays."""
    found: dict[str, object] = {}
    for value in values:
        if isinstance(value, ArrayValue):
            found[value.name] = value.as_numpy()
        elif isinstance(value, ListValue):
            found[value.name] = [item.as_numpy() for item in value.items]
    return {name: value for name, value in found.items() if name.isidentifier()}


def check_line(entry: EntryOp, each: LineBreakpoint) -> None:
    """A TileIRError for a line inside a function of the kernel at which nothing happens.

    Not for a line of a body that this specialisation leaves out, such as the branch of a constant that
    is false: another specialisation may have it.
    """
    lines: dict[tuple[str, str], set[int]] = {}
    for op in entry.walk():
        for frame in frames_of(op.location):
            lines.setdefault((frame.file_name, frame.what), set()).add(frame.line)
    for (file, _), known in lines.items():
        inside = is_file(file, each.file) and min(known) < each.line <= max(known)
        if inside and each.line not in known and not _is_left_out(file, each.line, known):
            near = sorted(known, key=lambda line: abs(line - each.line))[:2]
            raise TileIRError.single(
                NOTHING_TO_STOP_AT,
                f"nothing happens at line {each.line} of '{each.file}' in the kernel "
                f"'{entry.symbol}'",
                help=f"lines near it: {' and '.join(map(str, sorted(near)))}",
            )


def _is_left_out(file: str, line: int, known: set[int]) -> bool:
    """Whether the innermost body of statements around a line has none of the lines of the IR."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return False
    bodies = [
        range(body[0].lineno, (body[-1].end_lineno or body[-1].lineno) + 1)
        for node in ast.walk(tree)
        for name in ("body", "orelse")
        if isinstance(body := getattr(node, name, None), list) and body
    ]
    around = [body for body in bodies if line in body]
    return bool(around) and known.isdisjoint(min(around, key=len))


def _starts(entry: EntryOp, given: LineBreakpoint) -> Iterator[Operation]:
    """The operations with which the line begins: the first in each of the innermost regions that have
    some. What was moved out of a loop is not where the line is executed."""
    found: dict[int, list[Operation]] = {}
    for op in entry.walk():
        if op is entry or isinstance(op, AssumeOp) or _in_fold(op):
            continue
        if any(_is_at(frame, given) for frame in frames_of(op.location)):
            found.setdefault(sum(1 for _ in ancestors(op)), []).append(op)
    if not found:
        return
    blocks = set()
    for op in found[max(found)]:
        if op.parent not in blocks:
            blocks.add(op.parent)
            yield op


def _is_at(frame: Any, given: LineBreakpoint) -> bool:
    return frame.line == given.line and is_file(frame.file_name, given.file)


def _in_fold(op: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, ReduceOrScan):
            return True
        parent = parent.parent_op()
    return False


__all__ = ["LineBreakpoint", "LineStop", "StopRun", "debug"]
