"""``tileas-allocate``: each storage gets its place in a block's shared memory.

Storages that are needed at different times take the same bytes. Behind all of them is what conversions
and reductions need, which is not placed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import builtin as b
from xdsl.ir import SSAValue

from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.storage import lifetimes, storage_bytes
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.remarks import Remarks

#: What a storage begins at a multiple of: the period of the widest swizzle, in bytes.
ALIGNMENT = 1024


@dataclass(frozen=True)
class Allocate(FunctionPass):
    """Gives each storage an offset in shared memory."""

    name: ClassVar[str] = "tileas-allocate"

    def rewrite_function(self, func: FuncOp) -> None:
        allocate(func)


def allocate(func: FuncOp, remarks: Remarks | None = None) -> None:
    """Give each storage of a function its place: the first one that is free while it is needed."""
    placed = _places(func)
    for op in func.walk():
        if isinstance(op, S.AllocTensorOp):
            op.properties["offset"] = b.IntegerAttr(placed[op.result][0], b.i64)
    saved = sum(end - start for start, end in placed.values()) - peak(func)
    if saved and remarks is not None:
        remarks.add(
            "storage",
            f"storages that are needed at different times share {saved / 1024:g} KiB",
            func,
        )


def peak(func: FuncOp) -> int:
    """The bytes that the storages of a function take together, as ``allocate`` places them."""
    return max((end for _, end in _places(func).values()), default=0)


def end_of(func: FuncOp, storage: SSAValue) -> int:
    """The byte behind a storage, where ``allocate`` places it."""
    return _places(func)[storage][1]


def _places(func: FuncOp) -> dict[SSAValue, tuple[int, int]]:
    """Where each storage of a function begins and ends."""
    live = lifetimes(func)
    placed: dict[SSAValue, tuple[int, int]] = {}
    for op in func.walk():
        if isinstance(op, S.AllocTensorOp):
            own = op.result
            size = -(-storage_bytes(own) // ALIGNMENT) * ALIGNMENT
            taken = [place for other, place in placed.items() if live[other].meets(live[own])]
            offset = _first_free(sorted(taken), size)
            placed[own] = offset, offset + size
    return placed


def _first_free(taken: list[tuple[int, int]], size: int) -> int:
    """The lowest offset of ``size`` bytes that none of the ranges holds, given in order."""
    offset = 0
    for start, end in taken:
        if start - offset >= size:
            break
        offset = max(offset, end)
    return offset
