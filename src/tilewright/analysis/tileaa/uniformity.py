"""Uniformity: values that are the same for all elements of a tile, and for all blocks of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue
from xdsl.traits import is_side_effect_free

from tilewright.analysis.tileaa.flow import ForwardAnalysis
from tilewright.analysis.tileaa.integers import is_splat
from tilewright.dialects.facts import Elements, Pointing, elements, points
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.extensions import AllocaOp
from tilewright.dialects.nv_tileaa.ops.memory import GetGlobalOp
from tilewright.dialects.nv_tileaa.ops.queues import GetNumProgramsOp, GetProgramIdOp
from tilewright.dialects.nv_tileaa.ops.shapes import SplatOp


@dataclass(frozen=True, slots=True)
class Uniformity:
    """``lanes``: all elements are equal. ``blocks``: the value is the same in every block."""

    lanes: bool
    blocks: bool

    def __str__(self) -> str:
        return (
            f"{'uniform' if self.lanes else 'per lane'}, "
            f"{'same in all blocks' if self.blocks else 'differs between blocks'}"
        )


_BOTH = Uniformity(True, True)
_OF_THE_BLOCK = (GetProgramIdOp, AllocaOp)
_SAME_FOR_ALL = (GetNumProgramsOp, GetGlobalOp)
#: Operations of these kinds yield tiles with equal elements if their operands' elements are equal.
_KEEPS_EQUAL = frozenset({Elements.SAME_POSITION, Elements.RESHAPED, Elements.MOVED})


class Uniformities(ForwardAnalysis[Uniformity]):
    """``of(value)``: whether a value varies between elements, and between blocks."""

    def unknown(self, value: SSAValue) -> Uniformity:
        return Uniformity(not T.dims_of(value.type), False)

    def argument(self, value: SSAValue) -> Uniformity:
        return Uniformity(not T.dims_of(value.type), True)

    def join(self, one: Uniformity, other: Uniformity) -> Uniformity:
        return Uniformity(one.lanes and other.lanes, one.blocks and other.blocks)

    def induction(self, loop: scf.ForOp) -> Uniformity:
        bounds = [self.of(value).blocks for value in (loop.lb, loop.ub, loop.step)]
        return Uniformity(True, all(bounds))

    def _if(self, op: scf.IfOp) -> None:
        super()._if(op)
        if not self.of(op.cond).blocks:
            self._differ(op.results)

    def _for(self, op: scf.ForOp) -> None:
        super()._for(op)
        if not self.induction(op).blocks:
            self._differ(op.results)

    def _while(self, op: scf.WhileOp) -> None:
        super()._while(op)
        condition = op.before_region.block.last_op
        assert isinstance(condition, scf.ConditionOp)
        if not self.of(condition.operands[0]).blocks:
            self._differ(op.results)

    def _differ(self, results: Sequence[SSAValue]) -> None:
        """Mark results as different between blocks: they depend on whether, or how often, a region ran."""
        for result in results:
            self._facts[result] = Uniformity(self.of(result).lanes, False)

    def transfer(self, op: Operation) -> Sequence[Uniformity] | None:
        facts = [self.of(operand) for operand in op.operands]
        blocks = all(fact.blocks for fact in facts)
        if isinstance(op, _OF_THE_BLOCK):
            return [Uniformity(True, False)]
        if isinstance(op, _SAME_FOR_ALL):
            return [_BOTH]
        if op.name == "arith.constant":
            return [Uniformity(is_splat(op), True)]
        if points(op) is Pointing.EACH:
            return facts if is_side_effect_free(op) else None
        if op.regions or not is_side_effect_free(op):
            return None
        if isinstance(op, SplatOp):
            return [Uniformity(True, blocks)]
        tiles = sum(isinstance(operand.type, T.TileType) for operand in op.operands)
        mixed = elements(op) is Elements.MOVED and tiles > 1
        lanes = elements(op) in _KEEPS_EQUAL and not mixed and all(fact.lanes for fact in facts)
        return [Uniformity(lanes or not T.dims_of(r.type), blocks) for r in op.results]
