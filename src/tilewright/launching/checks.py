"""Checks of a launch that run before the kernel; all errors are reported together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from xdsl.ir import Block, Operation, OpResult, SSAValue

from tilewright.analysis.preorder import operations
from tilewright.diagnostics import Collector, TileIRError, define_code
from tilewright.dialects.source_map import location_of
from tilewright.launching.accepted import Converted, check_grid
from tilewright.launching.accesses import may_write_anything, written_through
from tilewright.launching.arguments import convert, misaligned
from tilewright.launching.array_interchange import in_numpy
from tilewright.launching.codes import READ_ONLY_MEMORY, source_note
from tilewright.launching.entry_names import CallingConvention, calling_convention, mangled_name
from tilewright.launching.modules import KernelOp
from tilewright.launching.value_types import is_address
from tilewright.nesting import deep_recursion
from tilewright.numerics.arrays import Array

OVERLAPPING_ARGUMENTS = define_code(
    "overlapping-arguments",
    "Two arguments overlap in memory, and the kernel may write to one of them.",
    "Tile IR allows it, but few kernels are written for it, and results then depend on the order "
    "of tile blocks. Pass a copy, or `allow_overlap=True` if the kernel is meant for it. Arrays "
    "that the kernel surely only reads may overlap, and so may those that the name of a cuTile "
    "kernel puts into one alias group.",
)
# Searching for a common byte of two arrays is exponential for irregular strides; this limit takes milliseconds.
_MAX_OVERLAP_WORK = 100_000


@dataclass(frozen=True, slots=True)
class CheckedLaunch:
    """A launch that has passed the checks."""

    grid: tuple[int, int, int]
    arguments: Converted
    outputs: tuple[Array, ...]
    """The arrays among the arguments."""


_T = TypeVar("_T")


def convention_of(entry: KernelOp) -> CallingConvention | None:
    """The calling convention in a kernel's name, if it matches the kernel's parameter count; else None."""
    found = calling_convention(mangled_name(entry))
    if found is None or found.parameter_count != len(entry.block.args):
        return None
    return found


def check_launch(
    entry: KernelOp,
    grid: object,
    args: Sequence[object],
    *,
    allow_overlap: bool,
    writes: Mapping[int | None, Operation] | None = None,
) -> CheckedLaunch:
    """Check a launch; returns the grid and the converted arguments. Raises one ``TileIRError`` with all errors.

    Arrays of other libraries are accessed as NumPy arrays over the same memory. ``writes``: ``first_writes`` of the
    kernel, which callers that launch repeatedly can cache.
    """
    found = Collector()
    args = in_numpy(args, lambda: location_of(entry))
    promised = getattr(entry, "launch_grid", None)
    extents = _attempt(found, lambda: check_grid(grid, promised))
    arguments = _attempt(found, lambda: convert(entry, args))
    if arguments is not None:
        writes = first_writes(entry) if writes is None else writes
        _check_read_only(writes, arguments.arrays, found)
        if not allow_overlap:
            _check_overlaps(entry, writes.keys(), arguments.arrays, found)
    found.raise_if_errors()
    assert extents is not None and arguments is not None
    outputs = tuple(value for value in args if isinstance(value, np.ndarray))
    return CheckedLaunch(extents, arguments, outputs)


def check_alignment(entry: KernelOp, arrays: Mapping[int, Array]) -> None:
    """Raises one ``TileIRError`` (``bad-argument``) with all arrays, by parameter number, whose address is not a multiple
    of their element size.
    """
    found, place = Collector(), location_of(entry)
    for number, array in arrays.items():
        if (error := misaligned(number, array, array.ctypes.data, place)) is not None:
            found.diagnostics.extend(error.diagnostics)
    found.raise_if_errors()


def _attempt(found: Collector, check: Callable[[], _T]) -> _T | None:
    try:
        return check()
    except TileIRError as error:
        found.diagnostics.extend(error.diagnostics)
        return None


@deep_recursion()
def first_writes(entry: KernelOp) -> dict[int | None, Operation]:
    """The first operation that writes through each parameter; under None, through an unknown one."""
    found: dict[int | None, Operation] = {}
    for op in operations(entry):
        if (target := written_through(op)) is not None:
            found.setdefault(_parameter_behind(target, entry.block), op)
        elif may_write_anything(op):
            found.setdefault(None, op)
    return found


def _check_overlaps(
    entry: KernelOp, written: Set[int | None], arrays: Mapping[int, Array], found: Collector
) -> None:
    convention = convention_of(entry)
    promised = {} if convention is None else {a.parameter: a for a in convention.arrays}
    for (one, first), (other, second) in itertools.combinations(arrays.items(), 2):
        if one in promised and other in promised and promised[one].may_overlap(promised[other]):
            continue
        if not (first.flags.writeable or second.flags.writeable):
            continue
        if not written & {one, other, None}:
            continue
        if share_bytes(first, second):
            found.error(
                OVERLAPPING_ARGUMENTS,
                f"argument {one} and argument {other} overlap in memory",
                location_of(entry),
                help="pass a copy of one of them, or allow_overlap=True if the kernel is meant "
                "for it",
            )


def share_bytes(first: Array, second: Array) -> bool:
    """Whether two arrays share a byte, or the search for one exceeds its limit. Strides count: interleaved arrays may
    not.
    """
    try:
        return bool(np.shares_memory(first, second, max_work=_MAX_OVERLAP_WORK))  # pyright: ignore[reportArgumentType]
    except np.exceptions.TooHardError:
        return True


def _check_read_only(
    writes: Mapping[int | None, Operation], arrays: Mapping[int, Array], found: Collector
) -> None:
    for number, op in writes.items():
        if number is not None and number in arrays and not arrays[number].flags.writeable:
            found.error(
                READ_ONLY_MEMORY,
                f"argument {number} is a read-only array, but the kernel writes to it",
                location_of(op),
                notes=source_note(op),
                help="pass a copy of the array",
            )


def _parameter_behind(value: SSAValue, entry: Block) -> int | None:
    """The one parameter from which a pointer or view is derived, on every control path.

    None if there may be several, or if it passes through a region.
    """
    roots: set[SSAValue] = set()
    pending, seen = [value], {value}
    while pending:
        current = pending.pop()
        if isinstance(current, OpResult) and not current.op.regions:
            sources = [operand for operand in current.op.operands if is_address(operand.type)]
        else:
            sources = []
        if not sources:
            roots.add(current)
        pending += [source for source in sources if source not in seen]
        seen.update(sources)
    if len(roots) != 1:
        return None
    (root,) = roots
    return entry.args.index(root) if root in entry.args else None
