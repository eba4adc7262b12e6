"""``split-carried``: a block works through its tiles part by part, where loops carry more of them than registers hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects.scf import ForOp
from xdsl.ir import Operation, SSAValue

from tilewright.analysis.tileaa.integers import is_splat
from tilewright.dialects.arith.base import numeric_element
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp, ScanOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import Load
from tilewright.dialects.nv_tileaa.ops.shapes import BroadcastOp, SplatOp
from tilewright.numerics.element_types import FORMATS
from tilewright.passes.tileaa.base import TileAAPass
from tilewright.passes.tileaa.matching import constant_iterations
from tilewright.passes.tileaa.unroll_loops import is_by_elements
from tilewright.passes.tileas.remarks import Remarks

#: Vector registers of AVX-512: 32 of 64 bytes.
REGISTER_BYTES = 2048
#: Into how many shares registers are divided, one of which a tile takes at most that stays in them.
SHARES = 4
#: A loop of fewer iterations reads and writes memory seldom enough.
_FEWEST_ROUNDS = 4
#: Of how many operations for each tile that it carries or reads, all else waits for memory: more of them take longer than that.
_MOST_OPERATIONS = 2


@dataclass(frozen=True)
class SplitCarried(TileAAPass):
    """Lets blocks work through their tiles in parts that stay in registers from iteration to iteration.

    That is where a loop computes what it carries element by element, reads no tiles, and what it carries and computes with would
    take more than ``register_bytes``. Each part then goes through all of the loop, as ``tileas-split-tiles`` has it for GPUs, with
    its proof. Kernels with products or scans stay, as do those in which some other loop reads tiles and carries some. Cost: one
    walk, and one more for a kernel that is split.
    """

    name: ClassVar[str] = "split-carried"

    register_bytes: int = REGISTER_BYTES

    def rewrite_function(self, function: FuncOp) -> None:
        if too_large(function, self.register_bytes):
            split_carried(function, Remarks(), self.register_bytes)


def too_large(function: FuncOp, register_bytes: int) -> list[Operation]:
    """Return the loops of a function because of which it is split, if it may be."""
    return [loop for loop, parts in _loops(function, register_bytes) if parts > 1]


def split_carried(function: FuncOp, remarks: Remarks, register_bytes: int) -> None:
    """Let the blocks of a kernel work through their tiles in as many parts as let what loops carry fit into registers, in place; a
    remark ``loop`` tells of it, or why that is not possible."""
    # Imported for kernels that need it: it takes longer than compiling a short one.
    from tilewright.passes.tileas.smaller_tiles import CannotSplitError
    from tilewright.passes.tileas.split_tiles import split_into

    loop, parts = max(_loops(function, register_bytes), key=lambda each: each[1])
    try:
        split_into(function, parts, loops_once=True)
    except CannotSplitError as error:
        told = f"tiles that it carries take more than the registers, and are not split: {error}"
    else:
        told = f"blocks work in {parts} parts, so that tiles that it carries stay in registers"
    remarks.add("loop", told, loop, parts=parts)


def _loops(function: FuncOp, register_bytes: int) -> list[tuple[ForOp, int]]:
    """Return the loops that compute by elements what they carry, and into how many parts this would have to be split; nothing for a
    kernel that should not be."""
    found: list[tuple[ForOp, int]] = []
    for op in function.walk():
        if isinstance(op, DotOp | ScanOp):
            return []
        if not isinstance(op, ForOp) or not any(map(_is_long, op.results)):
            continue
        inside = [inner for inner in op.walk() if inner is not op]
        if any(isinstance(inner, Load) and any(map(_is_long, inner.results)) for inner in inside):
            return []
        if all(map(is_by_elements, inside[:-1])):
            found.append((op, _parts(op, inside, register_bytes)))
    return found


def _parts(loop: ForOp, inside: list[Operation], register_bytes: int) -> int:
    rounds = constant_iterations(loop)
    if rounds is not None and len(rounds) < _FEWEST_ROUNDS:
        return 1
    read = _read(inside)
    held = sum(map(_is_long, [*loop.results, *read]))
    if sum(any(map(_is_long, op.results)) for op in inside) > _MOST_OPERATIONS * held:
        return 1
    carried = [_bytes_of(value) for value in loop.results]
    total = sum(carried) + sum(map(_bytes_of, read))
    parts = 1
    while max(carried) * SHARES > register_bytes * parts or total > register_bytes * parts:
        parts *= 2
    return parts


def _read(inside: Iterable[Operation]) -> list[SSAValue]:
    """Return the tiles from in front of a loop that it reads, each once, but those of one number."""
    within = set(inside)
    found = dict.fromkeys(value for op in within for value in op.operands)
    return [
        value
        for value in found
        if isinstance(owner := value.owner, Operation)
        and owner not in within
        and not (is_splat(owner) or isinstance(owner, SplatOp | BroadcastOp))
    ]


def _is_long(value: SSAValue) -> bool:
    return any(extent > 1 for extent in T.dims_of(value.type))


def _bytes_of(value: SSAValue) -> int:
    if not isinstance(value.type, T.TileType):
        return 0
    kind = FORMATS.get(numeric_element(value.type))
    return prod(value.type.dims) * (8 if kind is None else max(kind.bits // 8, 1))
