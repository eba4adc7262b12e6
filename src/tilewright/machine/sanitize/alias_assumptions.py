"""No-alias assumptions about arrays, which cuTile encodes in a kernel's name.

cuTile omits tokens between accesses to arrays that cannot overlap, so arguments that violate such an assumption make races out
of ordinary code. The assumption is the caller's, so it is checked on the arguments, whatever the kernel then
touches.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.lib.stride_tricks import as_strided
from xdsl.ir import Operation

from tilewright.diagnostics import Diagnostic, Note, Severity, define_code
from tilewright.dialects.cuda_tile.ops.module import EntryOp
from tilewright.dialects.source_map import location_of
from tilewright.launching.accepted import Converted
from tilewright.launching.checks import convention_of, first_writes, share_bytes
from tilewright.launching.codes import source_note
from tilewright.launching.entry_names import NoaliasArray
from tilewright.machine.tensors import names_of_parameters
from tilewright.numerics.arrays import Array
from tilewright.numerics.int_ops import as_numbers

ALIAS_ASSUMPTION = define_code(
    "noalias-violation",
    "Arrays overlap although the kernel was compiled for arrays that do not.",
    "The name that cuTile gives a kernel says which arrays may share memory: those with a common "
    "alias group, and an array with itself if it `may alias internally`. The kernel was compiled "
    "without order between accesses to all others. Pass copies, or compile the kernel for "
    "arguments that alias.",
    was=("alias-promise",),
)

# Beyond it a set of element numbers takes too long.
_MAX_LISTED_ELEMENTS = 1 << 22
_MAX_REACH = 1 << 60


def broken_assumptions(entry: EntryOp, arguments: Converted) -> Iterator[Diagnostic]:
    """A diagnostic for each assumption of the calling convention that the arguments break, where memory is written."""
    convention = convention_of(entry)
    if convention is None:
        return
    writes = first_writes(entry)
    names = names_of_parameters(entry)
    regions = [
        (array, region)
        for array in convention.arrays
        if (region := _region(array, arguments)) is not None
    ]
    for array, region in regions:
        written = _write(writes, array.parameter)
        if written and not array.aliases_itself and _aliases_itself(region):
            yield _broken(
                entry,
                f"several indices of {names[array.parameter]}, with extents {list(region.shape)} "
                f"and strides {_element_strides(region)}, address the same element, but the kernel "
                "was compiled for an array without such indices",
                written,
                "pass a copy of the array, or compile the kernel for an array that may alias "
                "internally",
            )
    for (one, first), (other, second) in itertools.combinations(regions, 2):
        written = _write(writes, one.parameter, other.parameter)
        if written and not one.may_overlap(other) and share_bytes(first, second):
            yield _broken(
                entry,
                f"{names[one.parameter]} and {names[other.parameter]} overlap in memory, but the "
                "kernel was compiled for arrays that do not",
                written,
                "pass a copy of one of them, or compile the kernel for arrays of one alias group",
            )


def _region(array: NoaliasArray, arguments: Converted) -> Array | None:
    """The elements of an array argument with the extents and strides that the kernel is told.

    None where an address was passed, where nothing is in it, and where it cannot be memory.
    """
    given = arguments.arrays.get(array.parameter)
    if given is None:
        return None
    first = array.parameter + 1
    numbers = [
        int(as_numbers(value, "signed"))
        for value in arguments.values[first : first + 2 * array.rank]
    ]
    shape, strides = numbers[: array.rank], numbers[array.rank :]
    steps = [stride * given.itemsize for stride in strides]
    reach = sum(abs(extent * step) for extent, step in zip(shape, steps, strict=True))
    if min(shape, default=1) <= 0 or math.prod(shape) > _MAX_REACH or reach > _MAX_REACH:
        return None
    # NumPy does not stride arrays of element types that are not its own.
    return as_strided(given.view(f"u{given.itemsize}"), shape, steps)


def _element_strides(region: Array) -> list[int]:
    return [stride // region.itemsize for stride in region.strides]


def _aliases_itself(region: Array) -> bool:
    """Whether two indices are one element; False where there are too many to tell."""
    steps: list[tuple[int, int]] = sorted(
        (abs(stride), extent)
        for stride, extent in zip(_element_strides(region), region.shape, strict=True)
        if extent > 1
    )
    reach = 0
    for step, extent in steps:
        if step <= reach:
            break
        reach += step * (extent - 1)
    else:
        return False
    if any(step == 0 for step, _ in steps):
        return True
    if region.size > _MAX_LISTED_ELEMENTS:
        return False
    numbers = np.zeros((), np.int64)
    for step, extent in steps:
        numbers = np.add.outer(numbers, np.arange(extent) * step)
    return np.unique(numbers).size < numbers.size


def _write(writes: Mapping[int | None, Operation], *parameters: int) -> Operation | None:
    """The first operation that writes through one of the parameters, or perhaps does."""
    return next((writes[p] for p in (*parameters, None) if p in writes), None)


def _broken(entry: EntryOp, message: str, written: Operation, help: str) -> Diagnostic:
    notes = (Note("memory is written here", location_of(written)), *source_note(written))
    return Diagnostic(
        Severity.ERROR, ALIAS_ASSUMPTION, message, location_of(entry), notes=notes, help=help
    )
