"""Which products can start one iteration ahead, and what prevents the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue, Use
from xdsl.traits import is_side_effect_free

from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import int_list, is_set
from tilewright.dialects.nv_tileaa.ops.arithmetic import Exp2Op
from tilewright.dialects.nv_tileaa.ops.memory import GatherLoadOp, LoadOp, TiledLoadOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nv_tileas.agents import AgentSwitchOp
from tilewright.dialects.nv_tileas.asynchronous import AsyncTiledLoadOp
from tilewright.dialects.nv_tileas.base import is_within
from tilewright.dialects.nv_tileas.storage import base_of
from tilewright.dialects.nv_tileas.types import TiledViewType, layout_of
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.pipeline import copy_layout
from tilewright.passes.tileas.schedule import user_of
from tilewright.passes.tileas.warpgroup_products import ROWS, WARPS

#: Registers of a multiprocessor, the maximum per thread, and what an iteration needs in addition to its tiles.
_REGISTERS, _MOST, _BESIDE = 1 << 16, 255, 16
#: Registers that the assembler takes for powers of two that are single instructions, since it groups them. It does not
#: move those that are scaled for subnormal numbers.
_POWERS = 24


@dataclass(frozen=True, slots=True)
class ProductInFlight:
    """A second product of the loop, which stays in flight while the next iteration starts.

    Its accumulator is the loop-carried value ``number``; ``wait`` and ``release`` are of the stage that it reads.
    """

    dot: S.DotOp
    number: int
    wait: P.ConsumerWaitOp
    release: P.ConsumerReleaseOp


@dataclass(slots=True)
class Candidate:
    """A product of a loop that can start one iteration ahead.

    ``early``: the operations of the body that its operands depend on, in order. ``carried``: the numbers of the
    loop-carried values among these. ``releases``: the releases of the stages that it reads. ``overlaps``: registers
    suffice for ``in_flight`` to stay in flight until this iteration has reduced its accumulator.
    """

    dot: S.DotOp
    loop: scf.ForOp
    early: list[Operation]
    carried: list[int]
    releases: list[P.ConsumerReleaseOp]
    in_flight: ProductInFlight | None
    overlaps: bool = False

    @property
    def pipelines(self) -> list[SSAValue]:
        """The pipelines that the product reads."""
        return [op.pipeline for op in self.early if isinstance(op, P.ConsumerWaitOp)]

    def keeps(self, use: Use) -> bool:
        """Whether a use is the loop's, which carries the value for the product."""
        return _keeps(use, self.loop, self.carried)

    def lack_of_registers(self, warps: int) -> str:
        """Return why the registers of a thread cannot hold the accumulators of two iterations; empty if they can.

        An estimate: registers of 32 bits, with a fixed number for what the compiler needs beside them.
        """
        given = _registers_of(self.loop, warps)
        sums = _held(self.dot.result)
        carried = sum(_held(value) for value in self.loop.body.block.args[1:])
        loaded, addresses = _loaded(self.loop), _addresses(self.loop, warps)
        needed = 2 * sums + carried + loaded + _BESIDE
        if needed > given:
            beside = f", {loaded} for a tile that is loaded in the iteration" if loaded else ""
            return (
                f"2 x {sums} accumulator registers, {carried} for loop-carried values{beside} and "
                f"{_BESIDE} others exceed the {given} of a thread"
            )
        if self.in_flight is not None:
            # Its left operand stays in registers until it has completed; of the next accumulator, one block of rows
            # has been started by then.
            blocks = max(T.dims_of(self.dot.c.type)[-2] // ROWS * WARPS // _warps_down(self.dot), 1)
            needed += _held(self.in_flight.dot.a) - sums + sums // blocks + addresses
            if any(
                op.name == Exp2Op.name and is_set(op, "flush_to_zero") for op in self.loop.walk()
            ):
                needed += _POWERS
            self.overlaps = needed <= given and not any(
                fills(op) for op in self.loop.body.block.ops
            )
        return ""


def find_candidate(dot: S.DotOp, warps: int) -> Candidate | str:
    """Return the candidate for a product of a block of ``warps`` warps, or the reason why it is none.

    The reason is empty for products that no loop computes anew in each iteration.
    """
    loop = dot.parent_op()
    if not isinstance(loop, scf.ForOp) or is_within(dot.c, loop):
        return ""
    end = loop.body.block.last_op
    if T.element_name(T.element_of(dot.c.type)) == "f16":
        return "its accumulator is rounded to f16"
    if not dot.result.uses or any(use.operation is end for use in dot.result.uses):
        return "the iteration does not use its accumulator"
    if not isinstance(dot.a.type, TiledViewType) or not isinstance(dot.b.type, TiledViewType):
        return "an operand is in registers"
    closure = _Closure(dot, loop)
    why = closure.find() or closure.obstacle()
    if why:
        return why
    early, carried = closure.in_order, sorted(closure.carried)
    in_flight = _product_in_flight(dot, loop)
    found = Candidate(dot, loop, early, carried, closure.releases, in_flight)
    pipelines = (
        found.pipelines if in_flight is None else [*found.pipelines, in_flight.wait.pipeline]
    )
    if any(P.stages_of(pipeline) == 1 for pipeline in pipelines):
        return "its operand has a single stage, which is refilled as soon as it is read"
    return found.lack_of_registers(warps) or found


def _product_in_flight(first: S.DotOp, loop: scf.ForOp) -> ProductInFlight | None:
    """Return the second product of a loop if it can stay in flight into the next iteration."""
    body = loop.body.block
    end = body.last_op
    others = [op for op in loop.walk() if isinstance(op, S.Product) and op is not first]
    if len(others) != 1 or not isinstance(dot := others[0], S.DotOp) or dot.parent is not body:
        return None
    uses = list(dot.result.uses)
    if S.atom_of(dot) != "wgmma" or len(uses) != 1 or uses[0].operation is not end:
        return None
    if T.element_name(T.element_of(dot.c.type)) == "f16":
        return None
    number = uses[0].index
    if not body.args[1 + number].uses:
        return None
    read = dot.b.owner
    while isinstance(read, S.PermuteViewOp | S.ExtractSliceOp):
        read = read.source.owner
    if not isinstance(read, P.ConsumerReadOp) or read.parent is not body:
        return None
    if isinstance(dot.a.type, TiledViewType):
        return None
    views = [use.operation for view in read.views for use in view.uses]
    if any(user_of(user) is not dot for user in views):
        return None
    wait = read.stage.owner
    found = [
        use.operation for use in read.stage.uses if isinstance(use.operation, P.ConsumerReleaseOp)
    ]
    if not isinstance(wait, P.ConsumerWaitOp) or len(found) != 1 or found[0].parent is not body:
        return None
    (release,) = found
    assert isinstance(release, P.ConsumerReleaseOp)
    return ProductInFlight(dot, number, wait, release)


class _Closure:
    """What the operands of a product come from, in its loop."""

    def __init__(self, dot: S.DotOp, loop: scf.ForOp):
        self.dot, self.loop, self.body = dot, loop, loop.body.block
        self.ops: set[Operation] = set()
        self.carried: set[int] = set()
        self.releases: list[P.ConsumerReleaseOp] = []

    @property
    def in_order(self) -> list[Operation]:
        return [op for op in self.body.ops if op in self.ops]

    def find(self) -> str:
        """Find it; why the product cannot be ahead of it."""
        end = self.body.last_op
        assert end is not None
        waiting = [self.dot.a, self.dot.b]
        while waiting:
            value = waiting.pop()
            if not is_within(value, self.loop) or value is self.body.args[0]:
                continue
            owner = value.owner
            if isinstance(owner, Block):
                assert isinstance(value, BlockArgument)
                if isinstance(value.type, T.TileType):
                    return "an operand depends on a loop-carried tile"
                if value.index - 1 not in self.carried:
                    self.carried.add(value.index - 1)
                    waiting.append(end.operands[value.index - 1])
            elif owner not in self.ops:
                allowed = isinstance(owner, P.ConsumerWaitOp | P.ConsumerReadOp)
                if owner.regions or not (allowed or is_side_effect_free(owner)):
                    return f"an operand depends on '{owner.name}' in the loop"
                self.ops.add(owner)
                waiting += owner.operands
        return ""

    def obstacle(self) -> str:
        """Why the product may not leave its iteration, though what it comes from could."""
        reads = [op for op in self.ops if isinstance(op, P.ConsumerReadOp)]
        if not reads:
            return "no operand comes from a pipeline"
        for side in (self.dot.a, self.dot.b):
            if not is_within(side, self.loop) and _is_written(base_of(side), self.loop):
                return "the loop writes an operand"
            if is_within(side, self.loop) and not any(_leads_to(side, op) for op in reads):
                return "the loop may write an operand"
        for op in self.in_order:
            if isinstance(op, P.ConsumerWaitOp):
                found = [
                    use.operation
                    for use in op.result.uses
                    if isinstance(use.operation, P.ConsumerReleaseOp)
                ]
                if len(found) != 1 or found[0].parent is not self.body:
                    return "its stage is not released in the same iteration"
                self.releases += found
        return self._use_by_others()

    def _use_by_others(self) -> str:
        """Whether what remains in the iteration uses what goes ahead, and cannot compute it again."""
        own = {*self.ops, self.dot, *self.releases}
        also = set(shared(self.in_order, own, self.loop, self.carried))
        if any(isinstance(op, P.ConsumerWaitOp | P.ConsumerReadOp) for op in also):
            return "the iteration has another read of the stage"
        arguments = {self.body.args[1 + number] for number in self.carried}
        for argument in arguments:
            for use in argument.uses:
                kept = _keeps(use, self.loop, self.carried)
                if not kept and (use.operation not in own or use.operation in also):
                    return "the iteration has other uses of what addresses its operands"
        return ""


def shared(
    early: Sequence[Operation],
    own: set[Operation],
    loop: scf.ForOp,
    carried: Iterable[int],
) -> list[Operation]:
    """Those of the operations that others use as well, or what these come from; what the loop carries for the product
    does not count."""
    numbers = set(carried)
    found: set[Operation] = set()
    for op in reversed(early):
        for result in op.results:
            for use in result.uses:
                kept = _keeps(use, loop, numbers)
                if use.operation in found or (use.operation not in own and not kept):
                    found.add(op)
    return [op for op in early if op in found]


def _keeps(use: Use, loop: scf.ForOp, carried: Iterable[int]) -> bool:
    """Whether a use is that of the loop, which carries the value to the next iteration under one of these numbers."""
    return use.operation is loop.body.block.last_op and use.index in carried


def _is_written(storage: SSAValue, loop: scf.ForOp) -> bool:
    """Whether anything but a product uses a storage in a loop."""
    return any(
        isinstance(value.type, TiledViewType)
        and base_of(value) is storage
        and not isinstance(op, S.Product | S.PermuteViewOp | S.ExtractSliceOp)
        for op in loop.walk()
        for value in op.operands
    )


def _leads_to(view: SSAValue, read: Operation) -> bool:
    """Whether a view is one of a stage that was opened there."""
    owner = view.owner
    while isinstance(owner, S.PermuteViewOp | S.ExtractSliceOp):
        owner = owner.source.owner
    return owner is read


def fills(op: Operation) -> bool:
    """Whether an operation fills stages."""
    return any(isinstance(inner, P.ProducerAcquireOp) for inner in op.walk())


def _held(value: SSAValue) -> int:
    """The registers of a thread that a value takes: of tiles."""
    layout = layout_of(value.type)
    if layout is None:
        return 0
    return max(layout.registers * element_bytes(value.type) // 4, 1)


def _loaded(loop: scf.ForOp) -> int:
    """The registers of the largest tile that threads load in an iteration: what meets the sums while two of them are held."""
    loads = (S.LocalLoadOp, LoadOp, TiledLoadOp, GatherLoadOp)
    return max(
        (_held(op.results[0]) for op in loop.body.walk() if isinstance(op, loads)), default=0
    )


def _addresses(loop: scf.ForOp, warps: int) -> int:
    """The registers of the addresses from which threads copy tiles in an iteration."""
    copies = [op for op in loop.body.walk() if isinstance(op, AsyncTiledLoadOp)]
    return sum(
        2 * copy_layout(op, 32 * warps).registers // int_property(op, "vector") for op in copies
    )


def _warps_down(dot: S.DotOp) -> int:
    """The warps of a product along its rows."""
    return int_list(dot.properties["warps"])[0]


def _registers_of(op: Operation, warps: int) -> int:
    """The registers that a thread may have."""
    switch = op.parent_op()
    while switch is not None and not isinstance(switch, AgentSwitchOp):
        switch = switch.parent_op()
    if switch is None:
        return min(_REGISTERS // (32 * warps), _MOST)
    if switch.registers:
        return min(switch.registers[0], _MOST)
    return min(_REGISTERS // (32 * sum(switch.warps)) // 8 * 8, _MOST)
