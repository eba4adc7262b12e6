"""Chooses the order in which a thread runs the tile blocks of a grid.

Tile blocks may run in any order, so the order is chosen in which consecutive blocks access adjacent memory, along rows
rather than down columns of short pieces.

For each access, the distance is computed by which one step along an axis of the grid moves it. A distance is a product of
known numbers and of numbers known only at launch, which count as large; of those that are arguments of the kernel in a row, as the
strides of an array are, the first ones as the largest. The axis with the shorter distance should run
faster. Accesses that disagree are weighted by the bytes of their tiles, and stores count more than loads for an axis that
goes along the rows they write: a line that two blocks write in part is fetched and written back for each of them unless they
follow one another. On a tie, and in kernels that can observe the order of blocks, x runs fastest.

Products come first: they pack the right operand, so blocks that share it follow one another, and those that share
nothing (the matrices of a batch) are furthest apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations, takewhile
from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.traits import IsTerminator, is_side_effect_free

from tilewright.analysis.tileaa.geometry import Extent, memref_axes, view_axes
from tilewright.analysis.tileaa.integers import known_integers
from tilewright.cpu.codegen.analysis import effects
from tilewright.cpu.codegen.ir.elements import element_of
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import Load, Store
from tilewright.dialects.nv_tileaa.ops.queues import GetProgramIdOp
from tilewright.dialects.syntax.engine import values_of

Order = tuple[int, int, int]
"""The axes of the grid, from the one that runs fastest."""
ROW_BY_ROW: Order = (0, 1, 2)

_ORDERS: tuple[Order, ...] = (ROW_BY_ROW, (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
"""All there are; of equally good ones the first is taken."""

_Distance = tuple[int, int]
"""How many factors only the launch knows, and the product of the others."""
_Steps = dict[int, _Distance]
"""By axis of the grid: how far a step along it moves a number or an address."""
_NOWHERE: _Steps = {}
_WEIGHT = (2, 3)
"""What a byte of an access counts, and one of a store for an axis that goes along its rows."""
_FURTHER = 1 << 20
"""An axis of a memref whose stride is not known, to those behind it."""


def order_of_blocks(ops: Sequence[Operation]) -> Order:
    """The order in which a thread runs the blocks of a kernel; all operations in program order are given.

    x runs fastest where something could tell: atomics, accesses that are not weak, prints, and what
    else orders memory.
    """
    if is_observed(ops):
        return ROW_BY_ROW
    nearer: dict[tuple[int, int], int] = {}
    steps = _steps(ops)
    if moves := _moves_of_products(ops, steps):
        return _order_of_products(moves)
    for op in ops:
        if isinstance(op, Access):
            found, size, along = _moves(op, steps), _bytes(op), _along_written_rows(op, steps)
            for one, other in permutations(found, 2):
                if found[one] < found[other]:
                    nearer[one, other] = nearer.get((one, other), 0) + size * _WEIGHT[one in along]
    if not nearer:
        return ROW_BY_ROW

    def agreement(order: Order) -> int:
        return sum(nearer.get(pair, 0) for pair in _pairs(order))

    return max(_ORDERS, key=agreement)


def is_observed(ops: Iterable[Operation]) -> bool:
    """Whether something in a kernel could tell the order in which blocks run."""
    return any(_tells_order(op) for op in ops)


def moves_of_products(ops: Sequence[Operation]) -> list[tuple[set[int], set[int]]]:
    """For each product the axes of the grid that move its left operand, and those that move the right one."""
    return _moves_of_products(ops, _steps(ops))


def axes_of_rights(ops: Sequence[Operation]) -> dict[DotOp, set[int]]:
    """The axes of the grid that move the right operand of each product."""
    products = [op for op in ops if isinstance(op, DotOp)]
    return dict(zip(products, (right for _, right in moves_of_products(ops)), strict=True))


def _moves_of_products(
    ops: Sequence[Operation], steps: dict[SSAValue, _Steps]
) -> list[tuple[set[int], set[int]]]:
    products = [op for op in ops if isinstance(op, DotOp)]
    return [(_moves_of_tile(op.a, steps), _moves_of_tile(op.b, steps)) for op in products]


def _order_of_products(moves: Sequence[tuple[set[int], set[int]]]) -> Order:
    """Of the axes that move an operand of a product, those that move the fewest right ones run fastest, and of
    these those that move the fewest left ones."""

    def moved(axis: int) -> tuple[bool, int, int]:
        left, right = (sum(axis in found for found in side) for side in zip(*moves, strict=True))
        return not left and not right, right, left if right else 0

    x, y, z = sorted(ROW_BY_ROW, key=moved)
    return x, y, z


def _moves_of_tile(value: SSAValue, steps: dict[SSAValue, _Steps]) -> set[int]:
    """The axes of the grid a step along which changes the memory that a tile is computed from."""
    pending, seen, found = [value], {value}, set[int]()
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, Access):
            found.update(_moves(owner, steps))
        elif isinstance(owner, Operation) and not owner.regions:
            tiles = [v for v in owner.operands if isinstance(v.type, T.TileType) and v not in seen]
            pending += tiles
            seen.update(tiles)
    return found


def _pairs(order: Order) -> Iterator[tuple[int, int]]:
    x, y, z = order
    yield from ((x, y), (x, z), (y, z))


def _tells_order(op: Operation) -> bool:
    if isinstance(op, GetProgramIdOp):
        return op.program_id is not None
    if isinstance(op, Load | Store):
        return effects.may_synchronise(op)
    if effects.is_barrier(op) or effects.waits(op):
        return True
    return not op.regions and not is_side_effect_free(op) and not op.has_trait(IsTerminator)


# -- distances -----------------------------------------------------------------------------------


def _steps(ops: Iterable[Operation]) -> dict[SSAValue, _Steps]:
    """What a step along each axis does to the numbers and addresses of a function."""
    found: dict[SSAValue, _Steps] = {}
    for op in ops:
        if isinstance(op, scf.ForOp):
            arguments = op.body.blocks[0].args[1:]
            for argument, begin in zip(arguments, op.iter_args, strict=True):
                found[argument] = found.get(begin, _NOWHERE)
        elif isinstance(op, GetProgramIdOp):
            found[op.result] = {int_property(op, "axis"): (0, 1)}
        elif not op.regions and any(_counts(result) for result in op.results):
            moved = _moved(op, found)
            found.update((result, moved) for result in op.results if _counts(result))
    return {value: steps for value, steps in found.items() if steps}


def _counts(value: SSAValue) -> bool:
    return isinstance(T.element_of(value.type), (IntegerType, IndexType, T.PtrType))


def _moved(op: Operation, known: dict[SSAValue, _Steps]) -> _Steps:
    """What a step does to the result of an operation, by what it does to the operands."""
    if not is_side_effect_free(op):
        return _NOWHERE  # what is read from memory may be anything
    parts = [known.get(operand, _NOWHERE) for operand in op.operands]
    if op.name == "arith.muli":
        factors = [_factor(operand) for operand in op.operands]
        return _union([_times(parts[0], factors[1]), _times(parts[1], factors[0])])
    return _union(parts)


def _factor(value: SSAValue) -> _Distance:
    """A number as a factor: known if it is the same constant in all elements. An argument of the kernel may be the stride of an array,
    which is larger than those of the axes behind, and these follow it."""
    while isinstance(owner := value.owner, Operation):
        if len(owner.operands) != 1 or owner.regions:
            break
        value = owner.operands[0]
    if isinstance(owner, Operation):
        numbers = known_integers(owner)
        return (0, abs(numbers[0]) or 1) if numbers is not None and len(numbers) == 1 else (1, 1)
    if not isinstance(value, BlockArgument) or not isinstance(owner.parent_op(), FuncOp):
        return (1, 1)
    numbers_behind = takewhile(
        lambda each: isinstance(each.type, IntegerType), owner.args[value.index + 1 :]
    )
    return (1, _FURTHER ** sum(1 for _ in numbers_behind))


def _of_extent(stride: Extent, behind: int) -> _Distance:
    """A stride as a factor, of an axis with so many behind it."""
    return (0, stride) if isinstance(stride, int) else (1, _FURTHER**behind)


def _times(steps: _Steps, factor: _Distance) -> _Steps:
    return {axis: (many + factor[0], by * factor[1]) for axis, (many, by) in steps.items()}


def _union(parts: Iterable[_Steps]) -> _Steps:
    found: _Steps = {}
    for part in parts:
        for axis, distance in part.items():
            found[axis] = max(distance, found.get(axis, distance))
    return found


# -- accesses ------------------------------------------------------------------------------------


def _moves(op: Access, steps: dict[SSAValue, _Steps]) -> _Steps:
    """How far a step along each axis moves an access."""
    where = op.operands[0]
    if not isinstance(where.type, T.MemrefType | T.TiledViewType):
        return steps.get(where, _NOWHERE)
    indices = values_of(op, "indices")
    parts = [steps.get(where, _NOWHERE)]
    for index, factor in zip(indices, _strides(op, len(indices)), strict=True):
        parts.append(_times(steps.get(index, _NOWHERE), factor))
    return _union(parts)


def _along_written_rows(op: Access, steps: dict[SSAValue, _Steps]) -> _Steps:
    """The axes of the grid that count tiles along the rows of a store."""
    if not isinstance(op, Store) or not isinstance(op.operands[0].type, T.TiledViewType):
        return _NOWHERE
    indices = values_of(op, "indices")
    return steps.get(indices[-1], _NOWHERE) if indices else _NOWHERE


def _strides(op: Access, count: int) -> list[_Distance]:
    """What each index of an access counts in."""
    where = op.operands[0]
    if isinstance(where.type, T.MemrefType):
        strides = [stride for _, stride in memref_axes(where)]
        steps = [1] * len(strides)
    else:
        axes = view_axes(where, ()) or ()
        strides, steps = [axis.stride for axis in axes], [axis.step for axis in axes]
    if len(strides) != count:
        return [(1, _FURTHER ** (count - 1 - number)) for number in range(count)]
    factors = [_of_extent(stride, count - 1 - number) for number, stride in enumerate(strides)]
    return [(many, by * step) for (many, by), step in zip(factors, steps, strict=True)]


def _bytes(op: Access) -> int:
    """The size of what an access moves."""
    moved = op.results[0] if isinstance(op, Load) else values_of(op, "value")[0]
    return prod(T.dims_of(moved.type)) * element_of(moved.type).memory_bytes
