"""Which values can hold no NaN but the canonical one, and which no signalling NaN.

By Tile IR, the minimum and maximum of two NaNs are the canonical NaN. If the operands' NaNs are canonical already, the
processor's instruction gives that by itself. For a signalling NaN and a number, however, it gives a NaN where Tile IR has
the number; arithmetic never produces a signalling NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isnan

from xdsl.dialects import scf
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from tilewright.dialects import facts
from tilewright.dialects.arith import ConstantOp, SelectOp
from tilewright.dialects.facts import Elements
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp, ScanOp
from tilewright.numerics import FORMATS
from tilewright.numerics.floats import bits_to_float

_EXTREMA = frozenset({"maxf", "minf"})
_MOVES = frozenset({Elements.RESHAPED, Elements.MOVED})


def find_canonical(ops: Iterable[Operation]) -> set[SSAValue]:
    """The values made by extrema, constants that are numbers, and what operations only choose, move, or hand from iteration to
    iteration of them. The operations must come in an order in which values stand before their uses, and operations before those
    that they hold."""
    return _found(list(ops), _is_canonical, of_bodies=False)


#: What rounds, and so gives no NaN that signals.
_ARITHMETIC = frozenset({"addf", "subf", "mulf", "divf", "fma", "sqrt", "itof"})
_FEW = 1024


def find_quiet(ops: Iterable[Operation]) -> set[SSAValue]:
    """The values that can hold no NaN that signals: those that arithmetic or extrema made, constants that are
    numbers, and what operations only choose, move, or hand from iteration to iteration of them. The operations must come in an
    order in which values stand before their uses, and operations before those that they hold."""
    return _found(list(ops), _is_quiet, of_bodies=True)


def _is_canonical(op: Operation) -> bool:
    """Whether the results of an operation are so, whatever its operands are."""
    return facts.meaning(op) in _EXTREMA or (isinstance(op, ConstantOp) and _is_number(op))


def _is_quiet(op: Operation) -> bool:
    if facts.meaning(op) in _ARITHMETIC:
        # LLVM takes out what changes no number, such as a product by one.
        return not any(_is_neutral(value) for value in op.operands)
    return _is_canonical(op)


def _found(
    ops: Sequence[Operation], makes: Callable[[Operation], bool], *, of_bodies: bool
) -> set[SSAValue]:
    """The values that operations make so, or pass on: what a loop carries is so if it begins so, and goes on so if it was.
    ``of_bodies``: what reductions hand to their bodies is so if their operands are."""
    carried = {
        argument: (loop.operands[3 + n], loop.results[n])
        for loop in ops
        if isinstance(loop, scf.ForOp)
        for n, argument in enumerate(loop.body.block.args[1:])
        if isinstance(argument.type, T.TileType | AnyFloat)
    }
    for _ in range(_ROUNDS):
        found = _passed_on(ops, makes, carried, of_bodies=of_bodies)
        wrong = [
            argument
            for argument, (first, _) in carried.items()
            if first not in found or _handed_back(argument) not in found
        ]
        if not wrong:
            return found
        for argument in wrong:
            del carried[argument]
    return _passed_on(ops, makes, {}, of_bodies=of_bodies)


_ROUNDS = 8
"""How often it may turn out that something else is not carried so."""


def _handed_back(argument: BlockArgument) -> SSAValue:
    """What an iteration hands to the next one."""
    last = argument.owner.last_op
    assert last is not None
    return last.operands[argument.index - 1]


def _passed_on(
    ops: Sequence[Operation],
    makes: Callable[[Operation], bool],
    carried: Mapping[BlockArgument, tuple[SSAValue, SSAValue]],
    *,
    of_bodies: bool,
) -> set[SSAValue]:
    found: set[SSAValue] = set()
    for argument, (_, result) in carried.items():
        found |= {argument, result}
    for op in ops:
        if makes(op):
            found.update(op.results)
        elif isinstance(op, SelectOp):
            if all(value in found for value in op.operands[1:]):
                found.update(op.results)
        elif facts.elements(op) in _MOVES:
            taken = [v for v in op.operands if isinstance(v.type, T.TileType | AnyFloat)]
            if taken and all(value in found for value in taken):
                found.update(op.results)
        elif isinstance(op, ReduceOp | ScanOp) and of_bodies:
            if all(value in found for value in op.operands):
                found.update(op.regions[0].block.args)
        elif isinstance(op, scf.YieldOp) and isinstance(chooses := op.parent_op(), scf.IfOp):
            _chosen(op, chooses, found)
    return found


def _chosen(op: scf.YieldOp, chooses: scf.IfOp, found: set[SSAValue]) -> None:
    """What both sides of a branch give, at the end of the second one."""
    if not chooses.results or op.parent is not chooses.regions[1].block:
        return
    first = chooses.regions[0].block.last_op
    assert first is not None
    for one, other, result in zip(first.operands, op.operands, chooses.results, strict=True):
        if one in found and other in found:
            found.add(result)


def _floats(op: ConstantOp) -> set[float]:
    """The numbers of a constant; of more than a few nothing is said, nor of integers."""
    bits = op.bits()
    fmt = FORMATS.get(T.element_name(T.element_of(op.results[0].type)))
    if fmt is None or not fmt.is_float or len(bits) > _FEW:
        return set()
    return {bits_to_float(word, fmt) for word in bits}


def _is_number(op: ConstantOp) -> bool:
    return bool(found := _floats(op)) and not any(map(isnan, found))


def _is_neutral(value: SSAValue) -> bool:
    """Whether a value may be, for every element, a zero or one that arithmetic is left out with."""
    while isinstance(value, OpResult) and facts.elements(value.op) in _MOVES:
        value = value.op.operands[0]
    if not isinstance(value, OpResult) or not isinstance(value.op, ConstantOp):
        return False
    return _floats(value.op) <= {0.0, 1.0, -1.0}
