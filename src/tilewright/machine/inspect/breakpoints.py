"""Breakpoints: where a run stops, and what happens there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from xdsl.ir import Operation, SSAValue

from tilewright.diagnostics import SourceLocation, Span, TileIRError, define_code
from tilewright.dialects.cuda_tile.debug_info import source_position
from tilewright.dialects.cuda_tile.ops.misc import AssumeOp
from tilewright.dialects.cuda_tile.ops.module import EntryOp
from tilewright.dialects.cuda_tile.ops.reductions import ReduceOrScan
from tilewright.dialects.source_map import location_of, source_of
from tilewright.launching.entry_names import has_authors_names
from tilewright.machine.inspect.stops import Stop, When, print_stop
from tilewright.machine.schedules import BlockId
from tilewright.text.naming import as_python, name_values

NOTHING_TO_STOP_AT = define_code(
    "nothing-to-stop-at",
    "A breakpoint matches no operation of the kernel.",
    "A line is one at which an operation begins, in the text of the module or, where `file` says "
    "so, in the kernel's own source, which needs debug information. A name with % is that of a "
    "result, as `tilewright dis` prints it; one without is a mnemonic, such as addf.",
)
NO_SUCH_BLOCK = define_code(
    "no-such-block", "A traced tile block is not in the grid of the launch."
)

Target = Operation | str | Callable[[Operation], bool] | Iterable[Operation]
Action = Callable[[Stop], object]
BlockChoice = int | Sequence[int] | Callable[["BlockId"], bool] | None


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """Stops a run at operations and calls ``action``, which may raise ``StopRun`` to end the run.

    ``target``: an operation, or several; a mnemonic such as ``addf``; the name of a result such as
    ``%sum``; or a predicate. Does not stop inside the body of a reduce or scan, which runs on many
    elements at once.
    ``block``: stop only in this tile block, or in those that a predicate accepts.
    ``when``: ``after`` an operation, with its results, or ``before`` it. An operation that ends in a
    fault stops only before. One with regions ends when its regions have; it does not if a break or
    return leaves it from inside.
    ``skip``: the number of executions to pass first. ``limit``: the number of stops after those.
    """

    target: Target
    action: Action = print_stop
    block: BlockChoice = None
    when: When = "after"
    skip: int = 0
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.when not in ("before", "after"):
            raise ValueError(f"a breakpoint is 'before' or 'after', not {self.when!r}")


def break_at(
    module: Operation,
    action: Action = print_stop,
    *,
    line: int | None = None,
    file: str | None = None,
    op: str | None = None,
    result: str | None = None,
    block: BlockChoice = None,
    when: When = "after",
    skip: int = 0,
    limit: int | None = None,
) -> Breakpoint:
    """Return a breakpoint at the operations that meet every condition given.

    ``line`` counts from 1 in the text that the module was read from, or in ``file``: a file of the
    kernel's own source, for which the last parts of the path suffice. ``op`` is a mnemonic, ``result``
    a name with or without ``%``. A line in the body of a reduce or scan stands for that whole
    operation. The other arguments are those of :class:`Breakpoint`. Raises TileIRError if no operation matches,
    ValueError without a line, an op and a result.
    """
    candidates = tuple(dict.fromkeys(map(_outside_folds, operations_under(module))))
    described: list[str] = []
    if line is not None:
        known = _lines(module, file)
        chosen = {_outside_folds(o) for o, number in known.items() if number == line}
        if not chosen:
            raise _no_line(line, file, sorted(set(known.values())))
        candidates = tuple(o for o in candidates if o in chosen)
        described.append(f"line {line}")
    if op is not None:
        candidates = tuple(o for o in candidates if _mnemonic(o) == op)
        described.append(f"'{op}'")
    if result is not None:
        names = value_names(module)
        wanted = result if result.startswith("%") else f"%{result}"
        candidates = tuple(o for o in candidates if _defines(o, wanted, names))
        described.append(f"the result {wanted}")
    if not described:
        raise ValueError("break_at needs a line, an op or a result")
    if not candidates:
        raise _nothing(f"the module has no operation with {' and '.join(described)}")
    return Breakpoint(candidates, action, block, when, skip, limit)


def resolve(target: Target, kernel: EntryOp, names: Mapping[int, str]) -> frozenset[Operation]:
    """Return the operations of a kernel that a breakpoint targets. Raises TileIRError if there are none."""
    means, what = _meaning(target, names)
    meant = [o for o in operations_under(kernel) if means(o)]
    found = frozenset(o for o in meant if not _is_in_fold(o))
    if found:
        return found
    if meant:
        fold = _outside_folds(meant[0])
        raise _nothing(
            f"{what} the kernel '{kernel.symbol}', except in the body of a {_mnemonic(fold)}",
            f"that body runs on many elements at once; stop at the {_mnemonic(fold)}",
            location_of(meant[0]),
        )
    raise _nothing(f"{what} the kernel '{kernel.symbol}'")


def _meaning(target: Target, names: Mapping[int, str]) -> tuple[Callable[[Operation], bool], str]:
    """Return a predicate for a target, and the start of an error message about the kernel."""
    if isinstance(target, Operation):
        return lambda o: o is target, f"the operation '{target.name}' is not in"
    if isinstance(target, str):
        if target.startswith("%"):
            return lambda o: _defines(o, target, names), f"'{target}' is not in"
        return lambda o: _mnemonic(o) == target, f"'{target}' is not in"
    if callable(target):
        return target, "the predicate chooses nothing in"
    wanted = frozenset(target)
    return lambda o: o in wanted, "none of the operations is in"


def block_filter(choice: BlockChoice, grid: BlockId) -> Callable[[BlockId], bool]:
    """Return a predicate on tile blocks. Raises TileIRError for a block outside the grid."""
    if choice is None:
        return lambda block: True
    if callable(choice):
        return choice
    wanted = block_id(choice, grid)
    return lambda block: block == wanted


def block_id(given: int | Sequence[int], grid: BlockId) -> BlockId:
    """Return three coordinates. Raises TileIRError for a tile block outside the grid."""
    coordinates = (given,) if isinstance(given, int) else tuple(given)
    x, y, z = (*coordinates, 0, 0, 0)[:3]
    inside = all(0 <= c < extent for c, extent in zip((x, y, z), grid, strict=True))
    if not 1 <= len(coordinates) <= 3 or not inside:
        raise TileIRError.single(NO_SUCH_BLOCK, f"the grid {grid} has no tile block {coordinates}")
    return x, y, z


def value_names(module: Operation) -> Mapping[int, str]:
    """Return the name of every value by its id, as ``tilewright dis`` prints it."""
    return name_values([module], suggest=True).of


def names_for(module: Operation, kernel: EntryOp) -> Mapping[int, str]:
    """Return the name of every value by its id, as it is shown while the kernel runs.

    Like ``value_names``, but a kernel with its author's names shows them as in Python, and the result
    of an assumption has the name of its operand.
    """
    names = value_names(module)
    if not has_authors_names(kernel):
        return names
    found = {id(value): as_python(names[id(value)]) for value in _all_values(module)}
    for op in module.walk():
        if isinstance(op, AssumeOp):
            found[id(op.result)] = found[id(op.value)]
    return found


def _all_values(module: Operation) -> Iterator[SSAValue]:
    for op in module.walk():
        yield from op.results
        yield from (arg for region in op.regions for block in region.blocks for arg in block.args)


def operations_under(root: Operation) -> Iterator[Operation]:
    """Yield the operations in kernels, in program order."""
    entries = (
        [root] if isinstance(root, EntryOp) else [o for o in root.walk() if isinstance(o, EntryOp)]
    )
    for entry in entries:
        yield from (o for o in entry.walk() if o is not entry)


def _mnemonic(op: Operation) -> str:
    return op.name.rpartition(".")[2]


def _defines(op: Operation, name: str, names: Mapping[int, str]) -> bool:
    return any(names[id(value)] == name for value in op.results)


def _is_in_fold(op: Operation) -> bool:
    return _outside_folds(op) is not op


def _outside_folds(op: Operation) -> Operation:
    """Return the operation, or the reduce or scan whose body contains it."""
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, ReduceOrScan):
            op = parent
        parent = parent.parent_op()
    return op


def _lines(module: Operation, file: str | None) -> dict[Operation, int]:
    """Return the line of every operation that has one: in the module's text, or in ``file``."""
    found: dict[Operation, int] = {}
    for op in operations_under(module):
        location = location_of(op) if source_of(op) is not None else None
        if isinstance(location, Span) and (file is None or is_file(location.file_name, file)):
            found[op] = location.line
            continue
        position = source_position(op.location)
        if position is not None and (file is None or is_file(position[0], file)):
            found[op] = position[1]
    return found


def is_file(name: str, wanted: str) -> bool:
    """Whether a path ends with all components of another: ``src/k.py`` matches ``k.py``, not vice versa."""
    parts, last = PurePath(name).parts, PurePath(wanted).parts
    return bool(last) and parts[-len(last) :] == last


def _nothing(message: str, help: str = "", location: SourceLocation | None = None) -> TileIRError:
    return TileIRError.single(NOTHING_TO_STOP_AT, message, location, help=help)


def _no_line(line: int, file: str | None, known: list[int]) -> TileIRError:
    where = "" if file is None else f" of '{file}'"
    if not known:
        return _nothing(f"no operation has a known line{where}", "break at an op or a result")
    below = [number for number in known if number < line][-1:]
    above = [number for number in known if number > line][:1]
    near = " and ".join(map(str, below + above))
    return _nothing(f"no operation begins at line {line}{where}", f"operations near it: {near}")
