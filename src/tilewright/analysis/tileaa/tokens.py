"""The order of memory effects given by tokens, as a graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.traits import IsTerminator

from tilewright.analysis.preorder import operations
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import ExecuteOp, FuncOp
from tilewright.dialects.nv_tileaa.ops.hints import CreateMemTokenOp, JoinMemTokenOp, PragmaOp

#: Operations on tokens without an effect of their own.
_PLAIN = (CreateMemTokenOp, JoinMemTokenOp, PragmaOp)
#: Operations through whose regions tokens are followed.
_FOLLOWED = (scf.ForOp, scf.WhileOp, scf.IfOp, FuncOp)


def is_token(value: SSAValue) -> bool:
    """Whether a value is a token of ``nv_tileaa``."""
    return isinstance(value.type, T.MemTokenType)


def is_effect(op: Operation) -> bool:
    """Whether an operation is ordered by tokens: it accesses memory, prints, asserts, or runs other
    code, possibly in a region, as ``execute`` does."""
    if isinstance(op, (*_PLAIN, *_FOLLOWED)):
        return False
    if op.has_trait(IsTerminator, value_if_unregistered=True):
        return False
    return any(map(is_token, (*op.operands, *op.results)))


@dataclass(frozen=True, slots=True)
class Edge:
    """``before`` happens before ``after``; ``around``: in an earlier iteration of a loop."""

    before: Operation
    after: Operation
    around: bool


@dataclass(slots=True)
class TokenGraph:
    """The partial order of the effects of a function.

    Nodes are effects. Joins, splits and control flow of tokens are contracted. An edge around a loop
    orders an iteration after an earlier one. The effects inside an ``execute`` come after the tokens
    it takes; whatever waits for its tokens waits for the operation as a whole.
    """

    function: FuncOp
    effects: tuple[Operation, ...] = ()
    _sources: dict[SSAValue, dict[Operation, bool]] = field(default_factory=dict)
    _reached: dict[tuple[Operation, bool], frozenset[Operation]] = field(default_factory=dict)
    _before: dict[Operation, dict[Operation, set[bool]]] = field(default_factory=dict)

    @classmethod
    def of(cls, function: FuncOp) -> TokenGraph:
        """Build the graph of a function, with an edge from each effect to those that wait for its token."""
        graph = cls(function, tuple(op for op in operations(function) if is_effect(op)))
        flow = _Flow(function)
        for op in graph.effects:
            found: dict[Operation, set[bool]] = defaultdict(set)
            for token in op.operands:
                if is_token(token):
                    for source, around in flow.effects_before(token):
                        found[source].add(around)
            graph._before[op] = dict(found)
        return graph

    def edges(self) -> Iterator[Edge]:
        """Yield every direct edge; both kinds if a loop has both."""
        for after, sources in self._before.items():
            for before, kinds in sources.items():
                for around in sorted(kinds):
                    yield Edge(before, after, around)

    def direct(self, op: Operation) -> Mapping[Operation, Collection[bool]]:
        """Return the effects whose tokens an effect takes, each with whether the edge goes around a
        loop; both if there are both kinds."""
        return self._before[op]

    def before(self, op: Operation, *, around: bool = True) -> frozenset[Operation]:
        """Return all effects that precede ``op``, transitively.

        Without ``around``, only those in the same iteration of every loop that contains both.
        """
        key = (op, around)
        if key not in self._reached:
            found: set[Operation] = set()
            waiting = [op]
            while waiting:
                for source, kinds in self._before[waiting.pop()].items():
                    if source not in found and (around or False in kinds):
                        found.add(source)
                        waiting.append(source)
            self._reached[key] = frozenset(found)
        return self._reached[key]

    def is_effect(self, op: Operation) -> bool:
        """Whether an operation is one of ``effects``."""
        return op in self._before

    def ordered(self, first: Operation, second: Operation, *, around: bool = False) -> bool:
        """Whether ``first`` must complete before ``second`` does."""
        return first in self.before(second, around=around)


class _Flow:
    """Tracks which tokens flow into each token value."""

    def __init__(self, function: FuncOp):
        self._feeds: dict[SSAValue, list[tuple[SSAValue, bool]]] = defaultdict(list)
        for op in operations(function):
            match op:
                case scf.ForOp():
                    body = op.body.block
                    self._loop(op.iter_args, body.args[1:], _ends(body), op.results)
                case scf.WhileOp():
                    self._while(op)
                case scf.IfOp():
                    for region in op.regions:
                        if region.blocks:
                            self._connect(_ends(region.block), op.results)
                case ExecuteOp() if op.body.blocks:
                    self._connect(op.arguments, op.body.block.args)
                case _ if not is_effect(op):
                    for result in filter(is_token, op.results):
                        self._connect_all(filter(is_token, op.operands), result)

    def _connect(
        self, sources: Iterable[SSAValue], targets: Iterable[SSAValue], around: bool = False
    ) -> None:
        for source, target in zip(sources, targets, strict=True):
            if is_token(target):
                self._feeds[target].append((source, around))

    def _connect_all(self, sources: Iterable[SSAValue], target: SSAValue) -> None:
        self._feeds[target] += [(source, False) for source in sources]

    def _loop(
        self,
        inits: Iterable[SSAValue],
        carried: Iterable[SSAValue],
        ends: Iterable[SSAValue],
        results: Iterable[SSAValue],
    ) -> None:
        inits, carried, ends = tuple(inits), tuple(carried), tuple(ends)
        self._connect(inits, carried)
        self._connect(ends, carried, around=True)
        self._connect(inits, results)
        self._connect(ends, results)

    def _while(self, op: scf.WhileOp) -> None:
        before, after = op.before_region.block, op.after_region.block
        condition = before.last_op
        assert isinstance(condition, scf.ConditionOp)
        self._connect(op.arguments, before.args)
        self._connect(_ends(after), before.args, around=True)
        self._connect(condition.operands[1:], after.args)
        self._connect(condition.operands[1:], op.results)

    def effects_before(self, token: SSAValue) -> set[tuple[Operation, bool]]:
        """Return the effects whose tokens reach a token, each with whether it came around a loop."""
        found: set[tuple[Operation, bool]] = set()
        seen: set[tuple[SSAValue, bool]] = {(token, False)}
        waiting = [(token, False)]
        while waiting:
            value, around = waiting.pop()
            if not isinstance(value, BlockArgument):
                owner = value.owner
                assert isinstance(owner, Operation)
                if is_effect(owner):
                    found.add((owner, around))
                    continue
            for source, again in self._feeds[value]:
                step = (source, around or again)
                if step not in seen:
                    seen.add(step)
                    waiting.append(step)
        return found


def _ends(block: Block) -> tuple[SSAValue, ...]:
    last = block.last_op
    return () if last is None else tuple(last.operands)
