"""``tileas-insert-barriers``: insert a barrier exactly where one thread may touch bytes that another thread has touched.

Shared-memory footprints are compared by offset, global ones by tokens and aliasing. For each block of operations the
pass computes what it touches before its first barrier and what is still pending at its end. If the pending footprint
of the predecessors conflicts with the first one, a barrier goes in front of the block. A loop therefore has no barrier
inside for conflicts with code before it, and one for its own iterations only if consecutive iterations conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from xdsl.dialects import builtin as b
from xdsl.dialects import scf
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.analysis.tileaa import Facts, must_stay
from tilewright.analysis.tileaa.order import writes
from tilewright.dialects.nv_tileaa.base import is_set
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.extensions import FenceOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import Atomic
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nv_tileas.agents import AgentSwitchOp
from tilewright.dialects.nv_tileas.asynchronous import (
    AsyncCopy,
    AsyncDotOp,
    AsyncWaitOp,
    BarrierOp,
    FutureWaitOp,
    waits_for_products,
)
from tilewright.dialects.nv_tileas.stores import AsyncStoreWaitOp, AsyncTiledTmaStoreOp
from tilewright.dialects.nv_tileas.types import TiledViewType, layout_of
from tilewright.passes.base import inherit_location
from tilewright.passes.tileas.allocate import ALLOCATED, allocate
from tilewright.passes.tileas.footprints import (
    Bytes,
    Footprint,
    Memory,
    PipelineUse,
    footprint_of,
    needs_no_barrier,
    overlap,
)
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.pipeline import copy_layout
from tilewright.passes.tileas.shared_conversions import scratch_of, threads_of

#: The discardable attribute of a function that has its barriers.
SYNCHRONISED = "nv_tileas.synchronised"
#: Behind the last byte of shared memory.
_END = 1 << 30


@dataclass(frozen=True)
class InsertBarriers(FunctionPass):
    """Inserts barriers between accesses of different threads to the same shared memory."""

    name: ClassVar[str] = "tileas-insert-barriers"

    def rewrite_function(self, func: FuncOp) -> None:
        insert_barriers(func)


def insert_barriers(func: FuncOp, threads: int | None = None) -> None:
    """Put barriers into a function, where there are none that would do.

    What has no place in shared memory gets one (``allocate``). ``threads`` are those of a block that have tiles, by
    default those that layouts speak of. No pass may move accesses afterwards.
    """
    threads = threads or threads_of(func)
    if ALLOCATED not in func.attributes:
        allocate(func, threads=threads)
    for op, fenced in _Walk(func, threads).run().items():
        barrier = op
        if not isinstance(op, BarrierOp):
            barrier = BarrierOp.create()
            inherit_location(barrier, op)
            Rewriter.insert_op(barrier, InsertPoint.before(op))
        if fenced:
            barrier.properties["fence"] = b.UnitAttr()
    func.attributes[SYNCHRONISED] = b.UnitAttr()


NEVER, PLAIN, FENCED = range(3)
"""How threads have met: not at all, without a fence, with one."""


@dataclass(slots=True)
class Summary:
    """What a piece of the program does to memory that others share.

    ``first``: what it touches, and how threads have met in it before that. ``left``: what is not done for all threads
    when it ends, and whether they have met since, without a fence. ``meets``: how threads have met in it, at least.
    ``barriers``: the operations in front of which they meet, barriers among them, and whether with a fence.
    """

    first: dict[tuple[Footprint, int], None] = field(default_factory=dict)
    left: dict[Footprint, bool] = field(default_factory=dict)
    meets: int = NEVER
    barriers: dict[Operation, bool] = field(default_factory=dict)


class _Walk:
    """Goes over the blocks of a function. What an operation with blocks does is found once, for it does not depend on
    what comes before it."""

    def __init__(self, func: FuncOp, threads: int):
        self.func, self.threads = func, threads
        self.facts = Facts(func)
        self.known: dict[Operation, list[Summary]] = {}
        self.copied: list[Footprint] = []
        self.started: list[Bytes] = []
        self.read_by_proxy: set[SSAValue | None] = set()
        for op in func.walk():
            found = [
                footprint for footprint in self._footprints(op)[0] if isinstance(footprint, Bytes)
            ]
            # Of any iteration: a value that is the number of a stage is another one there.
            self.copied += [
                replace(footprint, stage=None) for footprint in found if footprint.by_copy
            ]
            if isinstance(op, AsyncCopy) and is_set(op, "ordered"):
                self.copied.append(Memory(op, copy=True))
            if isinstance(op, AsyncDotOp):
                self.started += [footprint for footprint in found if footprint.ring is None]
            self.read_by_proxy |= {footprint.base for footprint in found if footprint.by_proxy}

    def run(self) -> dict[Operation, bool]:
        """The operations in front of which threads meet, and barriers, and whether with a fence."""
        return self._block(self.func.body.block, {}).barriers

    # Blocks and regions.

    def _block(self, block: Block, left: dict[Footprint, bool]) -> Summary:
        """What a block does, before which ``left`` is not done for all threads."""
        here = Summary(left=dict(left))
        for op in block.ops:
            self._step(here, op)
        return here

    def _step(self, here: Summary, op: Operation) -> None:
        if isinstance(op, BarrierOp):
            self._meet(here, op)
        elif isinstance(op, FenceOp):
            self._clear(here, PLAIN)
        elif isinstance(op, scf.IfOp | scf.ForOp | scf.WhileOp | AgentSwitchOp):
            if op not in self.known:
                self.known[op] = self._ways(op)
            self._choose(here, op, self.known[op])
        else:
            self._do(here, op)

    def _ways(self, op: Operation) -> list[Summary]:
        """What an operation with blocks may do: one of these."""
        if isinstance(op, scf.ForOp):
            return [self._rounds([op.body]), Summary()]
        if isinstance(op, scf.WhileOp):
            return [self._rounds([op.before_region, op.after_region])]
        return [
            self._block(region.block, {}) if region.blocks else Summary() for region in op.regions
        ]

    def _rounds(self, regions: Sequence[Region]) -> Summary:
        """What the iterations of a loop do, each of which goes through the regions in order; a loop ends behind the first."""
        left: dict[Footprint, bool] = {}
        while True:
            parts = [self._block(regions[0].block, left)]
            for region in regions[1:]:
                parts.append(self._block(region.block, parts[-1].left))
            merged = dict(left)
            _add(merged, _of_any_round(parts[-1].left))
            if merged == left:
                break
            left = merged
        found = parts[0]
        for part in parts[1:]:
            found.first |= dict.fromkeys((t, max(met, found.meets)) for t, met in part.first)
            found.barriers |= part.barriers
        found.left = _of_any_round(found.left)
        return found

    def _choose(self, here: Summary, op: Operation, ways: Sequence[Summary]) -> None:
        self._before(here, op, [pair for way in ways for pair in way.first])
        self._clear(here, min(way.meets for way in ways))
        for way in ways:
            _add(here.left, way.left)
            here.barriers |= way.barriers

    # Single operations.

    def _do(self, here: Summary, op: Operation) -> None:
        begins, ends = self._footprints(op)
        self._before(here, op, [(footprint, NEVER) for footprint in begins])
        if (scratch := scratch_of(op)) is not None and scratch[1] is not None:
            # Threads meet between what they write there and what they read.
            self._clear(here, PLAIN)
        _add(here.left, dict.fromkeys(ends, False))
        if isinstance(op, AsyncWaitOp) and not waits_for_products(op.token):
            # What threads have waited for, others may read when they have met; what they copied it from, change.
            _add(here.left, dict.fromkeys(self.copied, False))
        if isinstance(op, FutureWaitOp | AsyncWaitOp):
            # Until then products may have read, and those of other threads may still.
            _add(here.left, dict.fromkeys(self.started, False))
        if isinstance(op, Atomic) and scratch_of(op) is None and _acquires(op):
            following = op.next_op
            assert following is not None
            self._meet(here, following)

    def _before(self, here: Summary, op: Operation, first: Iterable[tuple[Footprint, int]]) -> None:
        """Let threads meet in front of an operation where what it touches first is in conflict with what is left."""
        first = list(first)
        if any(
            self._conflict(old, has_met, new, met)
            for new, met in first
            for old, has_met in here.left.items()
        ):
            self._meet(here, op)
        for footprint, met in first:
            met = max(met, here.meets)
            if met == NEVER or (
                met == PLAIN and isinstance(footprint, Bytes) and footprint.by_proxy
            ):
                here.first[footprint, met] = None

    def _meet(self, here: Summary, op: Operation) -> None:
        fenced = _has_fence(op) or any(self._needs_fence(footprint) for footprint in here.left)
        here.barriers[op] = fenced = fenced or here.barriers.get(op, False)
        self._clear(here, FENCED if fenced else PLAIN)

    def _clear(self, here: Summary, meets: int) -> None:
        """Threads have met: what they did is done for all of them, save what needs a fence."""
        if meets == FENCED:
            here.left = {}
        elif meets == PLAIN:
            here.left = {footprint: True for footprint in here.left if self._needs_fence(footprint)}
        here.meets = max(here.meets, meets)

    def _needs_fence(self, footprint: Footprint) -> bool:
        """Whether threads write what is read past them elsewhere in the kernel: the same storage. What lies in its bytes at
        other times is written over before it is read."""
        return (
            isinstance(footprint, Bytes)
            and footprint.writes
            and footprint.base in self.read_by_proxy
        )

    def _conflict(self, old: Footprint, has_met: bool, new: Footprint, met: int) -> bool:
        """Whether threads must meet between what is left of ``old`` and ``new``, before which they have met so far."""
        if isinstance(old, Memory) and isinstance(new, Memory):
            return met == NEVER and self._must_wait(old, new)
        if isinstance(old, PipelineUse) and isinstance(new, PipelineUse):
            return met == NEVER and old.pipeline is new.pipeline and old.writes and not new.writes
        if not isinstance(old, Bytes) or not isinstance(new, Bytes) or not overlap(old, new):
            return False
        if has_met or met == PLAIN:
            return new.by_proxy and self._needs_fence(old)
        if met == FENCED or not (old.writes or new.writes):
            return False
        return old.ring is None or old.ring is not new.ring or not needs_no_barrier(old, new)

    def _must_wait(self, old: Memory, new: Memory) -> bool:
        first, second = old.op, new.op
        if new.copy:
            return not old.copy and writes(first)
        aliases = self.facts.aliases
        if old.copy:
            return writes(second) and aliases.bases_may_alias(
                *(op.operands[0] for op in (first, second))
            )
        if not must_stay(first, second, aliases):
            return False
        # Accesses without tokens keep the order of the program.
        tokens = self.facts.tokens
        without = not (tokens.is_effect(first) and tokens.is_effect(second))
        return without or tokens.ordered(first, second, around=True)

    def _footprints(self, op: Operation) -> tuple[list[Footprint], list[Footprint]]:
        """What an operation touches before all, and what may be left of it when threads go on."""
        if isinstance(op, S.CopyOp):
            both = [footprint_of(op.target, writes=True)]
        elif isinstance(op, S.LocalLoadOp):
            both = [footprint_of(op.source, layout=layout_of(op.result.type))]
        elif isinstance(op, S.Product):
            proxy = S.atom_of(op) == "wgmma"
            both = [footprint_of(value, by_proxy=proxy) for value in _stored(op.operands)]
        elif isinstance(op, AsyncTiledTmaStoreOp):
            both = [footprint_of(op.source, by_proxy=True)]
        elif isinstance(op, AsyncStoreWaitOp):
            return [], [footprint_of(op.storage)]
        elif isinstance(op, AsyncCopy):
            ordered: list[Footprint] = [Memory(op, copy=True)] if is_set(op, "ordered") else []
            layout = copy_layout(op, self.threads)
            copied = footprint_of(op.target, writes=True, layout=layout, by_copy=True)
            return [copied, *ordered], []
        elif isinstance(op, P.AsyncTiledTmaLoadOp):
            return [footprint_of(op.target, writes=True)], []
        else:
            return self._of_others(op)
        return [*both], [*both]

    def _of_others(self, op: Operation) -> tuple[list[Footprint], list[Footprint]]:
        if isinstance(op, P.CreatePipelineOp):
            return [], [PipelineUse(op.result, writes=True)]
        if isinstance(op, P.CreateIteratorOp | P.IncIterOp):
            return [], []
        begins: list[Footprint] = [
            PipelineUse(value, writes=False)
            for value in op.operands
            if isinstance(value.type, P.PipelineType)
        ]
        ends: list[Footprint] = []
        if isinstance(op, Access):
            begins.append(Memory(op))
            ends.append(Memory(op))
        if (scratch := scratch_of(op)) is not None:
            start, end = scratch
            begins.append(Bytes(start, end or _END, writes=True))
            ends.append(Bytes(start, end or _END, writes=end is None))
        return begins, ends


def _add(left: dict[Footprint, bool], more: dict[Footprint, bool]) -> None:
    for footprint, has_met in more.items():
        left[footprint] = has_met and left.get(footprint, True)


def _of_any_round(left: dict[Footprint, bool]) -> dict[Footprint, bool]:
    """The same when another iteration may have begun: a value that is the number of a stage is another one there."""
    found: dict[Footprint, bool] = {}
    for footprint, has_met in left.items():
        if isinstance(footprint, Bytes) and footprint.stage is not None:
            footprint = replace(footprint, stage=None)
        _add(found, {footprint: has_met})
    return found


def _has_fence(op: Operation) -> bool:
    return isinstance(op, BarrierOp) and is_set(op, "fence")


def _acquires(op: Atomic) -> bool:
    """Whether what follows an update comes behind it, for all threads: something depends on it."""
    orders = op.semantic in ("acquire", "acq_rel")
    return orders and any(value.first_use is not None for value in op.results)


def _stored(values: Iterable[SSAValue]) -> list[SSAValue]:
    return [value for value in values if isinstance(value.type, TiledViewType)]
