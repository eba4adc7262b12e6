"""``tileas-specialize``: split a block into producer warps, which fill the pipelines, and consumer warps, which compute.

A kernel whose loops fill a stage ahead in each iteration is split into two agents. The consumer keeps everything but the
fills. The producer gets the same loops and branches with only the fills and the computation of their coordinates, of loop
bounds and conditions. Loads that these come from are made by both agents if no token orders them with a write. Pipelines
synchronize the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import ClassVar, TypeGuard

from xdsl.dialects import builtin as b
from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from tilewright.analysis.tileaa.tokens import TokenGraph
from tilewright.dialects.narrowing import integers_of
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import Load
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nv_tileas.agents import AgentSwitchOp, AgentYieldOp, agent_switch
from tilewright.dialects.nv_tileas.storage import at_level
from tilewright.dialects.nv_tileas.types import is_held_whole
from tilewright.model.choices import WORTH, clocks_per_iteration, gpu_of, resident_blocks
from tilewright.passes.base import inherit_location
from tilewright.passes.tileas.allocate import peak
from tilewright.passes.tileas.carried_values import Around, ops_around, with_results
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.product_costs import registers_of, scheduled_product_cost
from tilewright.passes.tileas.remarks import Alternative, Comparison, Remarks
from tilewright.passes.tileas.shared_conversions import fewest_exchanged_bytes
from tilewright.passes.tileas.target import REGISTERS, RESERVED_BYTES, Target
from tilewright.passes.tileas.warp_counts import DEFAULT_WARPS, block_warps
from tilewright.passes.tileas.warpgroup_products import ROWS

#: The registers of a thread: the most that it has, and takes; what is left to one of a producer; what it holds beside
#: sums.
_MOST, _MOST_TAKEN, _LEFT, _BESIDE_SUMS, _MANY_SUMS = 255, 240, 24, 88, 64
#: What threads of producers would have to leave beside that, for those of consumers to count on it.
_SPARE = 16
#: What ptxas asks for beside the sums of one ``wgmma``, of all threads alike (it told 154 for 128 sums).
_BESIDE_INSTRUCTION = 26
#: The registers that operands of ``mma.sync`` take, which those of ``wgmma`` do not.
_OPERANDS = 16
_WARPGROUP = 4
#: What ends the blocks of loops and branches.
_ENDS = (scf.YieldOp, scf.ConditionOp)


@dataclass(frozen=True, slots=True)
class Agents:
    """The consumer and producer warps of a block; where they trade them, registers of a thread of each."""

    warps: tuple[int, int]
    registers: tuple[int, int] | None = None
    compared: Comparison | None = field(default=None, compare=False)

    def describe(self) -> str:
        """As remarks call it."""
        consumers, producers = (
            "1 {} warp" if count == 1 else f"{count} {{}} warps" for count in self.warps
        )
        found = f"{consumers.format('consumer')} and {producers.format('producer')}"
        if self.registers is not None:
            found += ", with {} and {} registers per thread".format(*self.registers)
        return found if self.compared is None else f"{found}; {self.compared}"


def agents_for(
    warps: int, sums: int, shared_bytes: int, target: Target, widest: int = 0
) -> Agents | None:
    """How a block is split of which ``warps`` compute, each thread with this many registers of sums, and
    that takes these bytes of shared memory; None where there are not registers enough. ``widest``: the sums of one
    instruction, for which there must be registers before they are traded, too.

    The assembler counts the warps of a block in fours. One producer warp is enough, where
    consumers have as many registers as before; else a warpgroup of producers gives most of its own to them. A block
    of several warpgroups with many sums has a multiprocessor for itself (``block_warps``).
    """
    blocks = max(target.multiprocessor_bytes // (shared_bytes + RESERVED_BYTES), 1)
    if warps > _WARPGROUP and sums >= _MANY_SUMS:
        blocks = 1
    all_warps = warps + _WARPGROUP
    share = REGISTERS // (32 * blocks * all_warps) // 8 * 8
    if share >= _MOST or warps % _WARPGROUP:
        return Agents((warps, 1))
    taken, sure = (
        min((share * all_warps - left * _WARPGROUP) // warps // 8 * 8, _MOST_TAKEN)
        for left in (_LEFT, _LEFT + _SPARE)
    )
    if not target.trades_registers or sure < sums + _BESIDE_SUMS or share < _LEFT:
        return None
    if share < widest + _BESIDE_INSTRUCTION:
        return None
    return Agents((warps, _WARPGROUP), (taken, _LEFT))


@dataclass(frozen=True)
class Specialize(FunctionPass):
    """Gives the copies of pipelines to producer warps.

    ``num_warps``: the warps of a block of kernels without a hint. ``target``: the architecture.
    """

    name: ClassVar[str] = "tileas-specialize"

    num_warps: int = DEFAULT_WARPS
    target: str = "sm_90a"

    def rewrite_function(self, func: FuncOp) -> None:
        specialize(func, block_warps(func, self.num_warps), Target(self.target))


def specialize(
    func: FuncOp,
    warps: int,
    target: Target,
    remarks: Remarks | None = None,
    wanted: bool | None = None,
) -> None:
    """Split a function of ``warps`` warps into agents in place, where that can be done, and pays or is ``wanted``.

    Its loops must fill pipelines already. A remark ``agents`` says what was done, or why not.
    """
    remarks = Remarks() if remarks is None else remarks
    if agent_switch(func) is not None or not any(_fills(op) for op in func.walk()):
        return
    chosen = _choose(func, warps, target, wanted)
    why = _split(func, chosen) if isinstance(chosen, Agents) else chosen
    if why:
        compared = why if isinstance(why, Comparison) else None
        remarks.add("agents", f"no producer warps: {why}", func, compared)
    elif isinstance(chosen, Agents):
        consumers, producers = chosen.warps
        figures = {"consumer_warps": consumers, "producer_warps": producers}
        remarks.add("agents", chosen.describe(), func, chosen.compared, **figures)


def _choose(
    func: FuncOp, warps: int, target: Target, wanted: bool | None
) -> Agents | Comparison | str:
    """How to split a function, or why it stays whole."""
    if wanted is False:
        return "as decided"
    if any(_fills(op) and ops_around(op) is None for op in func.walk()):
        return "a loop that prefetches is in something other than loops and branches"
    products = [op for op in func.walk() if isinstance(op, S.Product)]
    sums = max((_sums_together(op) for op in products), default=0) // (32 * warps)
    if any(S.atom_of(op) != "wgmma" for op in products):
        sums += _OPERANDS
    widest = max((_sums_of_instruction(op) for op in products), default=0)
    found = agents_for(warps, sums, peak(func), target, widest)
    if found is None:
        return f"a multiprocessor has not registers enough for {warps + _WARPGROUP} warps per block"
    lacking = _beside_rings(func, 32 * warps, target)
    if lacking:
        return f"{lacking} bytes of shared memory are rearranged while producers would fill the ring again"
    return found if wanted else _asked(products, warps, found, peak(func), target)


def _beside_rings(func: FuncOp, threads: int, target: Target) -> int:
    """The bytes of the largest exchange for which there is no room while rings are filled: in a loop around theirs, for whose
    next iteration producers fill them already. 0 if all have room."""
    room, lacking = target.shared_bytes - peak(func), 0
    around = {at_level(op, func.body.block) for op in func.walk() if _fills(op)}
    for op in (inner for outer in around for inner in outer.walk()):
        size = fewest_exchanged_bytes(op, threads) or 0
        lacking = max(lacking, size if size > room else 0)
    return lacking


def _asked(
    products: Sequence[S.Product], warps: int, agents: Agents, shared: int, target: Target
) -> Agents | Comparison:
    """The agents, unless the tables of the performance model say that a block without them is faster. Without, a warp that
    computes fills stages, too: it waits until one is empty, and tells how many bytes will come."""
    gpu = gpu_of(target.compute)
    turns = [scheduled_product_cost(op) for op in products if isinstance(op.parent_op(), scf.ForOp)]
    if gpu is None or not turns:
        return agents
    sums = max(_sums_together(op) for op in products)
    registers = registers_of(sums, warps, all(turn.by_warpgroups for turn in turns))
    whole = resident_blocks(gpu, warps, registers, shared)
    # Of the registers that a block with agents has, no thread that computes has fewer.
    share = agents.registers[0] if agents.registers is not None else registers
    all_warps = sum(agents.warps) if agents.registers is None else warps
    split = min(whole, resident_blocks(gpu, all_warps, share, shared))
    waits = gpu["barrier_latency"] + 2 * gpu["mbarrier_latency"]
    with_agents = sum(clocks_per_iteration(gpu, turn, split) for turn in turns)
    without = sum(clocks_per_iteration(gpu, turn, whole, waits) for turn in turns)
    alternatives = (
        Alternative("with them", with_agents, split),
        Alternative("without", without, whole),
    )
    compared = Comparison(gpu.title, alternatives)
    return compared if without < WORTH * with_agents else replace(agents, compared=compared)


def _sums_of_instruction(op: S.Product) -> int:
    """The sums of a thread that one instruction adds to: of 64 rows and the columns of its warpgroup."""
    if S.atom_of(op) != "wgmma":
        return 0
    _, across = integers_of(op.warps)
    return T.dims_of(op.c.type)[-1] // across * ROWS // (32 * _WARPGROUP)


def _sums_together(op: S.Product) -> int:
    """The sums of a product, and of those beside it in one block."""
    block = op.parent
    assert block is not None
    beside = [other for other in block.ops if isinstance(other, S.Product)]
    return sum(prod(T.dims_of(other.c.type)) for other in beside)


def _fills(op: Operation) -> bool:
    """Whether an operation fills a stage, where there is one to fill, and does nothing else."""
    return isinstance(op, scf.IfOp) and any(
        isinstance(inner, P.ProducerAcquireOp) for inner in op.true_region.block.ops
    )


def _is_split(op: Operation) -> TypeGuard[Around]:
    """Whether an operation is a loop or a branch around the filling of stages, which both agents have."""
    if not isinstance(op, Around) or _fills(op):
        return False
    return any(isinstance(inner, P.ProducerAcquireOp) for inner in op.walk())


def _split(func: FuncOp, agents: Agents) -> str:
    """Split a function; why not, if it cannot be done, and it stays as it was."""
    body = func.body.block
    may = _Repeatable(func).why_not
    inside = _of_agents(body)
    values: dict[SSAValue, SSAValue] = {}
    originals: dict[Operation, Operation] = {}
    producer = Block()
    for op in inside:
        producer.add_op(_copy(op, values, originals))
    needs = _Needs(_fills, lambda op: may(originals.get(op, op)))
    why = needs.of_block(producer)
    if why:
        producer.erase()
        return why
    end = body.last_op
    assert end is not None
    consumer = Block()
    for op in inside:
        op.detach()
        consumer.add_op(op)
    rest = _Needs(lambda op: not _fills(op) and not is_side_effect_free(op))
    rest.of_block(consumer)
    for block, found in ((consumer, rest), (producer, needs)):
        found.keep(block)
        block.add_op(AgentYieldOp.create())
    properties = {"num_warps": b.DenseArrayBase.from_list(b.i64, list(agents.warps))}
    if agents.registers is not None:
        properties["max_regs"] = b.DenseArrayBase.from_list(b.i64, list(agents.registers))
    switch = AgentSwitchOp.create(
        properties=properties,
        regions=[Region(consumer), Region(producer)],
    )
    inherit_location(switch, func)
    Rewriter.insert_op(switch, InsertPoint.before(end))
    return ""


def _copy(
    op: Operation, values: dict[SSAValue, SSAValue], originals: dict[Operation, Operation]
) -> Operation:
    """A copy of an operation, from the same places of the program; ``originals`` gets what each part is a copy of."""
    new = op.clone(values)
    for mine, other in zip(new.walk(), op.walk(), strict=True):
        inherit_location(mine, other)
        originals[mine] = other
    return new


class _Repeatable:
    """What a producer may do that the consumer does, too: what has no effects, and loads that no token orders with a write.
    (Whatever else wrote where they read would race with them.) It has no tiles but those that each thread holds whole."""

    def __init__(self, func: FuncOp):
        self.tokens = TokenGraph.of(func)
        self.writes = [op for op in self.tokens.effects if not isinstance(op, Load)]

    def why_not(self, op: Operation) -> str:
        """Why an operation of the function may not be repeated; empty where it may."""
        if not is_side_effect_free(op) and not self._is_free(op):
            return f"where its tiles lie comes from '{op.name}'"
        if not all(is_held_whole(result.type) for result in op.results):
            return f"where its tiles lie comes from '{op.name}', of a tile that threads share"
        return ""

    def _is_free(self, op: Operation) -> bool:
        if not isinstance(op, Load) or not op.is_weak:
            return False
        return self.tokens.is_effect(op) and not any(
            self.tokens.ordered(op, write, around=True)
            or self.tokens.ordered(write, op, around=True)
            for write in self.writes
        )


def _of_agents(body: Block) -> list[Operation]:
    """The operations of a function that agents do: all from which or on which tiles or effects depend."""
    found: dict[Operation, None] = {}
    for op in body.ops:
        if op is body.last_op:
            break
        makes = isinstance(op, S.AllocTensorOp | P.CreatePipelineOp)
        stays = not op.regions and (makes or is_side_effect_free(op))
        stays = stays and not any(isinstance(value.type, T.TileType) for value in op.results)
        owners = (value.owner for value in op.operands)
        if not stays or any(owner in found for owner in owners):
            found[op] = None
    return list(found)


class _Needs:
    """What of a block is needed for its ``roots``: loops and branches that fill stages are looked into, and keep what they
    carry as far as it is needed; all else is needed as a whole. Where ``may`` is given, beside the roots it says why an
    operation cannot be had, or nothing."""

    def __init__(
        self, roots: Callable[[Operation], bool], may: Callable[[Operation], str] | None = None
    ):
        self.roots, self.may = roots, may
        self.ops: set[Operation] = set()
        self.values: set[SSAValue] = set()
        self.waiting: list[SSAValue] = []
        self.why = ""

    def of_block(self, block: Block) -> str:
        """Find what is needed; why it cannot be had, where something has effects."""
        self.block = block
        for op in _all_of(block):
            if not _is_split(op) and self.roots(op):
                self._need(op, is_root=True)
        while self.waiting:
            self._need_value(self.waiting.pop())
        return self.why

    def _need(self, op: Operation, *, is_root: bool = False) -> None:
        if op in self.ops or not self._is_in_block(op):
            return
        self.ops.add(op)
        parent = op.parent_op()
        if parent is not None and _is_split(parent):
            self._need(parent)
        if _is_split(op):
            self.waiting += _deciding(op)
            return
        if self.may is not None and not is_root:
            self.why = self.why or self.may(op)
        self.waiting += _outside(op)

    def _is_in_block(self, op: Operation) -> bool:
        block = op.parent
        while block is not None and block is not self.block:
            outer = block.parent_op()
            block = None if outer is None or not _is_split(outer) else outer.parent
        return block is not None

    def _need_value(self, value: SSAValue) -> None:
        if value in self.values:
            return
        self.values.add(value)
        owner = value.owner
        if isinstance(owner, Operation):
            self._need(owner)
        else:
            owner = owner.parent_op()
        if owner is None or not _is_split(owner) or not self._is_in_block(owner):
            return
        self._need(owner)
        for slot in _slots(owner):
            if value in slot.made:
                self.waiting += slot.given
                self.waiting += slot.made

    def keep(self, block: Block) -> None:
        """Leave nothing in the block but what is needed."""
        for op in reversed(list(block.ops)):
            if isinstance(op, _ENDS):
                continue
            if op not in self.ops:
                op.detach()
                op.erase()
            elif _is_split(op):
                self._keep_carried(op)

    def _keep_carried(self, op: Around) -> None:
        """Leave a loop or branch what it carries of what is needed."""
        dropped = [slot for slot in _slots(op) if self.values.isdisjoint(slot.made)]
        results = {result for slot in dropped for result in slot.results}
        _drop_operands(use for slot in dropped for use in slot.uses if use[0] is not op)
        for region in op.regions:
            for block in region.blocks:
                self.keep(block)
        for slot in dropped:
            for argument in slot.arguments:
                argument.block.erase_arg(argument)
        _drop_operands(use for slot in dropped for use in slot.uses if use[0] is op)
        if results:
            with_results(op, op.operands, [r for r in op.results if r not in results])


@dataclass(frozen=True, slots=True)
class _Slot:
    """A value that a loop or branch carries: the operands that give it, each of an operation at an index, and what
    stands for it."""

    uses: tuple[tuple[Operation, int], ...]
    arguments: tuple[BlockArgument, ...] = ()
    results: tuple[OpResult, ...] = ()

    @property
    def given(self) -> list[SSAValue]:
        """The values of the operands."""
        return [op.operands[index] for op, index in self.uses]

    @property
    def made(self) -> list[SSAValue]:
        """The block arguments and results."""
        return [*self.arguments, *self.results]


def _slots(op: Around) -> list[_Slot]:
    """What a loop or branch carries. A ``while`` carries two lists: into its condition, and from there into its body."""
    if isinstance(op, scf.ForOp):
        body = op.body.block
        return [
            _Slot(((op, 3 + n), (_end(body), n)), (body.args[1 + n],), (result,))
            for n, result in enumerate(op.results)
        ]
    if isinstance(op, scf.IfOp):
        ends = [_end(region.block) for region in op.regions if region.blocks]
        return [
            _Slot(tuple((end, n) for end in ends), (), (result,))
            for n, result in enumerate(op.results)
        ]
    before, after = op.before_region.block, op.after_region.block
    return [
        *(
            _Slot(((op, n), (_end(after), n)), (argument,))
            for n, argument in enumerate(before.args)
        ),
        *(
            _Slot(((_end(before), 1 + n),), (after.args[n],), (result,))
            for n, result in enumerate(op.results)
        ),
    ]


def _deciding(op: Around) -> list[SSAValue]:
    """What says how often a loop runs, or which way a branch goes."""
    if isinstance(op, scf.ForOp):
        return list(op.operands[:3])
    return [
        op.operands[0] if isinstance(op, scf.IfOp) else _end(op.before_region.block).operands[0]
    ]


def _end(block: Block) -> Operation:
    end = block.last_op
    assert end is not None
    return end


def _drop_operands(uses: Iterable[tuple[Operation, int]]) -> None:
    dropped: dict[Operation, set[int]] = {}
    for op, index in uses:
        dropped.setdefault(op, set()).add(index)
    for op, indices in dropped.items():
        op.operands = [value for n, value in enumerate(op.operands) if n not in indices]


def _all_of(block: Block) -> Iterator[Operation]:
    """The operations of a block, and of the loops and branches in it that fill stages, but no terminators."""
    for op in block.ops:
        if isinstance(op, _ENDS):
            continue
        yield op
        if _is_split(op):
            for region in op.regions:
                for inner in region.blocks:
                    yield from _all_of(inner)


def _outside(op: Operation) -> Iterable[SSAValue]:
    """The values from outside that an operation, and what is in it, uses."""
    own: set[SSAValue] = set()
    used: list[SSAValue] = []
    for inner in op.walk():
        own.update(inner.results)
        for region in inner.regions:
            for block in region.blocks:
                own.update(block.args)
        used += inner.operands
    return [value for value in used if value not in own]
