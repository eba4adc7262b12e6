"""Forward dataflow from definitions to uses, through structured control flow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, Region, SSAValue

from tilewright.dialects.facts import same_value
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp

Fact = TypeVar("Fact")

#: Iterations of a loop's fixpoint before facts that still change are widened.
_ROUNDS = 3
#: Loop-carried values of loops nested deeper are unknown, since each level multiplies iterations.
_DEEP = 5


class ForwardAnalysis(ABC, Generic[Fact]):
    """A fact for each value of an ``nv_tileaa`` function, true in every run without undefined behaviour.

    A subclass defines the transfer function of operations. This class passes facts through
    ``scf.for``, ``scf.if`` and ``scf.while``: a loop starts from the facts before it and is iterated
    until nothing changes; facts that change for too long are widened (``widen``).
    """

    def __init__(self, function: FuncOp):
        self.function = function
        self._facts: dict[SSAValue, Fact] = {}
        self._depth = 0
        for argument in function.body.block.args:
            self._facts[argument] = self.argument(argument)
        self._block(function.body.block)

    def of(self, value: SSAValue) -> Fact:
        """Return the fact about a value; what is known of any value of its type if the analysis has not reached it."""
        found = self._facts.get(value)
        return self.unknown(value) if found is None else found

    @abstractmethod
    def unknown(self, value: SSAValue) -> Fact:
        """Return the fact that holds for any value of this type: what the analysis falls back to."""

    @abstractmethod
    def join(self, one: Fact, other: Fact) -> Fact:
        """Return the strongest fact implied by either: what holds where control flow meets."""

    @abstractmethod
    def transfer(self, op: Operation) -> Sequence[Fact] | None:
        """Return one fact for each result of an operation; it may call ``of``. None if nothing is known.

        The bodies of loops are visited several times, so the answer must depend on nothing but facts.
        """

    def argument(self, value: SSAValue) -> Fact:
        """Return the fact about an argument of the function."""
        return self.unknown(value)

    def induction(self, loop: scf.ForOp) -> Fact:
        """Return the fact about a loop's induction variable in all iterations."""
        return self.unknown(loop.body.block.args[0])

    def widen(self, value: SSAValue, old: Fact, new: Fact) -> Fact:
        """Return the fact to keep when a loop has changed ``old`` to ``new`` once too often.

        It must be implied by both, and must not change for ever.
        """
        return self.unknown(value)

    def _block(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case scf.ForOp():
                    self._for(op)
                case scf.WhileOp():
                    self._while(op)
                case scf.IfOp():
                    self._if(op)
                case _:
                    self._other(op)

    def _other(self, op: Operation) -> None:
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    self._facts.setdefault(argument, self.unknown(argument))
                self._block(block)
        if (same := same_value(op)) is not None:
            self._facts[op.results[0]] = self.of(same)
            return
        facts = self.transfer(op) if op.results else None
        for index, result in enumerate(op.results):
            self._facts[result] = self.unknown(result) if facts is None else facts[index]

    def _if(self, op: scf.IfOp) -> None:
        ends = [self._region(region) for region in op.regions if region.blocks]
        for result, facts in zip(op.results, zip(*ends, strict=True), strict=False):
            fact = facts[0]
            for other in facts[1:]:
                fact = self.join(fact, other)
            self._facts[result] = fact

    def _region(self, region: Region) -> list[Fact]:
        """Return the facts about the values that a region yields."""
        block = region.block
        self._block(block)
        last = block.last_op
        return [] if last is None else [self.of(value) for value in last.operands]

    def _for(self, op: scf.ForOp) -> None:
        block = op.body.block
        self._facts[block.args[0]] = self.induction(op)
        carried = block.args[1:]
        state = [self.of(value) for value in op.iter_args]
        self._iterate(carried, state, lambda: self._region(op.body))
        for result, argument in zip(op.results, carried, strict=True):
            self._facts[result] = self.of(argument)

    def _while(self, op: scf.WhileOp) -> None:
        before, after = op.before_region.block, op.after_region.block

        def around() -> list[Fact]:
            passed = self._region(op.before_region)[1:]
            for argument, fact in zip(after.args, passed, strict=True):
                self._facts[argument] = fact
            return self._region(op.after_region)

        self._iterate(before.args, [self.of(value) for value in op.arguments], around)
        condition = before.last_op
        assert isinstance(condition, scf.ConditionOp)
        for result, value in zip(op.results, condition.operands[1:], strict=True):
            self._facts[result] = self.of(value)

    def _iterate(
        self, carried: Sequence[SSAValue], state: list[Fact], around: Callable[[], list[Fact]]
    ) -> None:
        """Compute facts about loop-carried values that hold before every iteration."""
        rounds = 0
        self._depth += 1
        if self._depth > _DEEP:
            state = [self.unknown(argument) for argument in carried]
        while True:
            for argument, fact in zip(carried, state, strict=True):
                self._facts[argument] = fact
            following = [self.join(s, f) for s, f in zip(state, around(), strict=True)]
            if following == state or self._depth > _DEEP:
                break
            if rounds >= _ROUNDS:
                following = [
                    old if new == old else self.widen(value, old, new)
                    for value, old, new in zip(carried, state, following, strict=True)
                ]
            state = following
            rounds += 1
        self._depth -= 1


RuleT = TypeVar("RuleT", bound=Callable[..., object])


def rule_of(table: dict[str, RuleT]) -> Callable[..., Callable[[RuleT], RuleT]]:
    """Return a decorator that registers a rule in a table, for operations by class or by name."""

    def rule(*kinds: str | type[Operation]) -> Callable[[RuleT], RuleT]:
        def enter(function: RuleT) -> RuleT:
            names = (kind if isinstance(kind, str) else kind.name for kind in kinds)
            table.update(dict.fromkeys(names, function))
            return function

        return enter

    return rule
