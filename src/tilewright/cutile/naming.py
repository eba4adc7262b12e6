"""The author's names in a compiled kernel: of the kernel, its parameters and its variables.

cuTile's bytecode has none: the entry is mangled, values have numbers. The parameters follow from the
Python function. A variable is named where it is assigned: debug information tells the position of
the expression that an operation comes from, and Python's syntax tree tells which name it is given to.
"""

from __future__ import annotations

import ast
import linecache
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue

from tilewright.cutile.errors import frames_of
from tilewright.dialects.cuda_tile.debug_info import DISubprogramAttr
from tilewright.dialects.cuda_tile.ops.control_flow import ContinueOp, ForOp, IfOp, LoopOp, YieldOp
from tilewright.dialects.cuda_tile.ops.core import GetTileBlockIdOp
from tilewright.dialects.cuda_tile.ops.misc import AssumeOp
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.dialects.cuda_tile.ops.views import MakePartitionViewOp, MakeTensorViewOp
from tilewright.dialects.cuda_tile.types import TokenType
from tilewright.launching.entry_names import remember_mangled_name

_Position = tuple[int, int]
"""A line, from 1, and a column, from 1."""


def use_authors_names(
    module: ModuleOp, symbol: str, kernel_name: str, parameters: Sequence[str]
) -> None:
    """Call the entry ``symbol``, its parameters and its values as the author of the kernel does.

    ``parameters`` are the names of all parameters of the entry, in order.
    """
    entry = module.entry(symbol)
    remember_mangled_name(entry, symbol)
    entry.properties["sym_name"] = StringAttr(kernel_name)
    _rename_in_locations(entry, symbol, kernel_name)
    for argument, name in zip(entry.block.args, parameters, strict=True):
        argument.name_hint = name
    _Naming().run(entry)


def _rename_in_locations(entry: Operation, symbol: str, kernel_name: str) -> None:
    """Debug information names the function too, in the scope of every location."""
    made: dict[int, Attribute] = {}

    def renamed(attribute: Attribute) -> Attribute:
        if not isinstance(attribute, ParametrizedAttribute):
            return attribute
        found = made.get(id(attribute))
        if found is None:
            parts = [renamed(part) for part in attribute.parameters]
            if isinstance(attribute, DISubprogramAttr) and attribute.linkage_name.data == symbol:
                parts = [
                    StringAttr(kernel_name) if p is attribute.linkage_name else p for p in parts
                ]
            same = all(a is b for a, b in zip(parts, attribute.parameters, strict=True))
            found = made[id(attribute)] = attribute if same else type(attribute).new(parts)
        return found

    # The originals live as long as the operations that have them: until all are renamed.
    locations = [(op, op.location) for op in entry.walk()]
    for op, location in locations:
        op.location = renamed(location)  # pyright: ignore[reportAttributeAccessIssue]


@dataclass(slots=True)
class _Assignments:
    """What a file of Python assigns: names by the position of the expression that they stand for.

    ``ids`` are names of tile block ids, by the position of the call and the axis; ``loops`` has for
    each ``for`` its own variable and all that its body assigns.
    """

    names: dict[_Position, str] = field(default_factory=dict)
    ids: dict[_Position, tuple[int, str]] = field(default_factory=dict)
    loops: dict[_Position, tuple[str, frozenset[str]]] = field(default_factory=dict)


class _Naming:
    """Gives the values of one kernel their names."""

    def run(self, entry: Operation) -> None:
        last: dict[tuple[str, _Position], SSAValue] = {}
        for op in entry.walk():
            self._follow_assumption(op)
            for file, position in _positions(op):
                known = _assignments(file)
                if isinstance(op, GetTileBlockIdOp) and position in known.ids:
                    axis, name = known.ids[position]
                    op.results[axis].name_hint = name
                elif (value := _main_result(op)) is not None and position in known.names:
                    # What comes last at a position has the value of the whole expression.
                    last[file, position] = value
        for (file, position), value in last.items():
            value.name_hint = _assignments(file).names[position]
        for op in entry.walk():
            if isinstance(op, ForOp | LoopOp):
                _name_loop(op)
            elif isinstance(op, IfOp):
                _name_if(op)
            elif isinstance(op, MakeTensorViewOp | MakePartitionViewOp):
                _name_view(op)
        _tell_apart(entry)

    def _follow_assumption(self, op: Operation) -> None:
        """What is assumed of a value is no value of its own."""
        if isinstance(op, AssumeOp):
            op.result.name_hint = op.value.name_hint


def _positions(op: Operation) -> Iterator[tuple[str, _Position]]:
    for frame in frames_of(op.location):
        yield frame.file_name, (frame.line, frame.column)


def _main_result(op: Operation) -> SSAValue | None:
    """The result that an expression stands for; constants that only help have names of their own."""
    if isinstance(op, ForOp | LoopOp | IfOp | AssumeOp | GetTileBlockIdOp):
        return None
    return next((r for r in op.results if not isinstance(r.type, TokenType)), None)


def _name_loop(op: ForOp | LoopOp) -> None:
    """Variables that a loop changes: called as what they are before the loop, or in its end."""
    block = op.regions[0].block
    assigned: frozenset[str] = frozenset()
    for file, position in _positions(op):
        if position in (loops := _assignments(file).loops):
            own, assigned = loops[position]
            if isinstance(op, ForOp) and own:
                block.args[0].name_hint = own
            break
    carried = block.args[1:] if isinstance(op, ForOp) else block.args
    end = block.last_op
    final = end.operands if isinstance(end, ContinueOp) else (None,) * len(carried)
    for argument, before, after in zip(carried, op.initValues, final, strict=True):
        hints = [value.name_hint for value in (before, after) if value is not None]
        name = next((hint for hint in hints if hint in assigned), None)
        if name is not None:
            argument.name_hint = name
    if isinstance(op, ForOp):
        for result, argument in zip(op.results, carried, strict=True):
            result.name_hint = argument.name_hint


def _name_if(op: IfOp) -> None:
    """Variables that both branches assign."""
    ends = [region.block.last_op for region in op.regions if region.blocks]
    yielded = [end.operands for end in ends if isinstance(end, YieldOp)]
    for number, result in enumerate(op.results):
        hints = {values[number].name_hint for values in yielded if number < len(values)}
        if len(hints) == 1:
            result.name_hint = hints.pop()


def _name_view(op: MakeTensorViewOp | MakePartitionViewOp) -> None:
    """Views of an array ``q``: ``q.view``, and ``q.tiles`` where it is cut into tiles."""
    hint = op.operands[0].name_hint
    if hint is not None and op.results[0].name_hint is None:
        what = "view" if isinstance(op, MakeTensorViewOp) else "tiles"
        op.results[0].name_hint = f"{hint.removesuffix('.view')}.{what}"


def _tell_apart(entry: Operation) -> None:
    """The values that a variable has one after the other: ``top``, ``top.1``, ``top.2``."""
    met: Counter[str] = Counter()
    for op in entry.walk():
        arguments = [arg for region in op.regions for block in region.blocks for arg in block.args]
        for value in (*op.results, *arguments):
            if (name := value.name_hint) is not None:
                if met[name]:
                    value.name_hint = f"{name}.{met[name]}"
                met[name] += 1


def _assignments(file: str) -> _Assignments:
    return _read(file, tuple(linecache.getlines(file)))


@lru_cache(maxsize=64)
def _read(file: str, lines: tuple[str, ...]) -> _Assignments:
    found = _Assignments()
    try:
        tree = ast.parse("".join(lines), file)
    except (SyntaxError, ValueError):  # no Python, or changed since it was run
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                _assign(target, node.value, found)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            _assign(node.target, node.value, found)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found.names[_start(node)] = node.target.id
        elif isinstance(node, ast.For | ast.While):
            target = node.target if isinstance(node, ast.For) else None
            own = target.id if isinstance(target, ast.Name) else ""
            found.loops[_start(node)] = own, frozenset(_stored(node.body))
    return found


def _assign(target: ast.expr, value: ast.expr, found: _Assignments) -> None:
    if isinstance(target, ast.Tuple | ast.List):
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
            for one, part in zip(target.elts, value.elts, strict=True):
                _assign(one, part, found)
    elif isinstance(target, ast.Name):
        axis = _axis_of_id(value)
        if axis is not None:
            found.ids[_start(value)] = axis, target.id
        for position in _results_of(value):
            found.names.setdefault(position, target.id)


def _results_of(value: ast.expr) -> Iterator[_Position]:
    """Where an operation may come from that has the value of an expression: its own position, and
    those of what it hands on."""
    if isinstance(value, ast.IfExp):
        yield from _results_of(value.body)
        yield from _results_of(value.orelse)
        return
    yield _start(value)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        # A method that changes nothing, such as a conversion to the type that a tile has.
        inner = value.func.value
        if not isinstance(inner, ast.Name):
            yield from _results_of(inner)


def _axis_of_id(value: ast.expr) -> int | None:
    """The axis of ``ct.bid(axis)``."""
    if isinstance(value, ast.Call) and len(value.args) == 1:
        name = value.func.attr if isinstance(value.func, ast.Attribute) else ""
        axis = value.args[0]
        if name == "bid" and isinstance(axis, ast.Constant) and axis.value in (0, 1, 2):
            return int(axis.value)
    return None


def _stored(body: Iterable[ast.stmt]) -> Iterator[str]:
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _start(node: ast.expr | ast.stmt) -> _Position:
    return node.lineno, node.col_offset + 1
