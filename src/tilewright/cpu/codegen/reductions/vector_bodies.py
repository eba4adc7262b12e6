"""Bodies of reduce, scan and generate as vector code.

If every operation in it is element-wise, a body runs on many elements at once. Both sides of an ``scf.if`` are then computed and one
is selected, which is safe because they have no effects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from llvmlite import ir
from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tilewright.analysis.tileaa.choices import ELEMENT, holds_for_later
from tilewright.cpu.codegen.analysis import cost_model
from tilewright.cpu.codegen.elementwise.operations import alias_emitter, emitter_of
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.emitter.table import lowers
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, bits_constant, element_of
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, Lane, lanes_in
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Tile
from tilewright.cpu.codegen.reductions.relations import Relation
from tilewright.cpu.codegen.reductions.scalar_bodies import generate_each
from tilewright.dialects.arith import ArithOp, CmpfOp, CmpiOp, ConstantOp
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import YieldOp
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp
from tilewright.dialects.nv_tileaa.ops.shapes import GenerateOp

_ENDS = (YieldOp, scf.YieldOp)


class ElementBody:
    """A body, ready to be emitted at any place for any number of lanes.

    ``rising``: the operands of a reduction that hold larger numbers for elements that come later.
    """

    def __init__(self, f: FunctionEmitter, block: Block, rising: frozenset[int] = frozenset()):
        self.block = block
        self.canonical: Collection[SSAValue] = ()
        """Arguments that hold no NaN but the canonical one."""
        self._f = f
        self._known = dict(_known_comparisons(block, rising))

    def __call__(
        self, b: Builder, arguments: Sequence[Value], *, in_order: bool = False
    ) -> list[Value]:
        """What the body yields for these arguments; ``in_order``: the elements come later than what they
        are combined with, or are the same elements."""
        values: dict[SSAValue, Value] = dict(zip(self.block.args, arguments, strict=True))
        self._relations: dict[SSAValue, Relation | bool] = {}
        if in_order:
            values.update(self._known)
            self._relations.update(
                (value, bool(found.constant)) for value, found in self._known.items()
            )
        lanes = max((llvm.lanes_of(a.type) for a in arguments), default=0)
        return self._run(b, self.block, values, lanes)

    def _run(
        self, b: Builder, block: Block, values: dict[SSAValue, Value], lanes: int
    ) -> list[Value]:
        for op in block.ops:
            if isinstance(op, _ENDS):
                return [self._value(b, v, values, lanes) for v in op.operands]
            if op.name == "scf.if":
                self._choose(b, op, values, lanes)
            else:
                self._element(b, op, values, lanes)
        raise AssertionError("a body ends in a terminator")

    def _value(
        self, b: Builder, value: SSAValue, values: dict[SSAValue, Value], lanes: int
    ) -> Value:
        found = values.get(value)
        return llvm.splat(b, self._f.scalar(value) if found is None else found, lanes)

    def _element(
        self, b: Builder, op: Operation, values: dict[SSAValue, Value], lanes: int
    ) -> None:
        result = op.results[0]
        if result in values:
            return
        if isinstance(op, ConstantOp):
            values[result] = bits_constant(element_of(result.type), op.bits()[0])
            return
        if op.name == "ub.poison":
            values[result] = llvm.undefined(element_of(result.type).register)
            return
        if isinstance(op, AssumeOp):
            values[result] = self._value(b, op.operands[0], values, lanes)
            return
        if (relation := Relation.of(op, self._relations.get)) is not None:
            self._relations[result] = relation
            if isinstance(relation, Relation) and not isinstance(op, CmpfOp):
                asked = relation.emit(b, lambda value: self._value(b, value, values, lanes))
                if asked is not None:
                    values[result] = asked
                    return
        is_plain = isinstance(op, ArithOp)
        emit = emitter_of(op, self.canonical, self._f.quiet) if is_plain else alias_emitter(op)
        values[result] = emit(b, *(self._value(b, v, values, lanes) for v in op.operands))

    def _choose(self, b: Builder, op: Operation, values: dict[SSAValue, Value], lanes: int) -> None:
        condition = self._value(b, op.operands[0], values, lanes)
        sides = [
            self._run(b, region.blocks[0], values, lanes) for region in op.regions if region.blocks
        ]
        for position, result in enumerate(op.results):
            values[result] = b.select(condition, *(side[position] for side in sides))


def _known_comparisons(block: Block, rising: frozenset[int]) -> Iterator[tuple[SSAValue, Value]]:
    """The comparisons of a body that have one outcome for elements in order, and that."""
    for op in block.walk() if rising else ():
        if not isinstance(op, CmpiOp):
            continue
        lhs, rhs = op.operands
        if not isinstance(lhs, BlockArgument) or not isinstance(rhs, BlockArgument):
            continue
        own = lhs.owner is block and rhs.owner is block
        operand = lhs.index // 2
        if own and lhs is not rhs and operand == rhs.index // 2 and operand in rising:
            outcome = holds_for_later(op, later_first=lhs.index % 2 == ELEMENT)
            yield op.results[0], ir.Constant(I1, int(outcome))


@dataclass(frozen=True, slots=True, eq=False)
class Generated(Tile):
    """What a body gives for the positions of the elements."""

    body: ElementBody

    def at(self, nest: LoopNest, coords: Coords) -> Lane:
        lanes = lanes_in(coords)
        numbers = [nest.widened(nest.numbers(index), lanes) for index in coords]
        return nest.emit(numbers, lambda b, *values: self.body(b, values)[0])


@lowers("generate")
def generate(f: FunctionEmitter, op: GenerateOp) -> None:
    """A tile computed where it is read, by its body; one whose body is not of elements is filled element by element."""
    result = op.result
    if not cost_model.is_body_of_elements(op):
        generate_each(f, op)
        return
    body = ElementBody(f, op.body.blocks[0])
    f.define(result, Generated(element_of(result.type), T.dims_of(result.type), body))
