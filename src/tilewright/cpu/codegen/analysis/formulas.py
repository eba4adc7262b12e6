"""Integer tiles given by a formula: sums, products and limits of iotas and scalars, compared, chosen and concatenated.

Where they only say which elements an access goes to, they remain functions of the position: their lane stride shows that
neighbours are contiguous, which a buffer would hide (``loops.lane_strides``, ``loops.value_ranges``). So are numbers that
are repeated along rows, whatever they are, quotients by a constant that are, and those that seldom change along a row.
What takes no more than a few operations remains so too where others read it beside such accesses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Block, Operation, SSAValue

from tilewright.cpu.codegen.analysis import cost_model
from tilewright.dialects.arith import ArithOp, ConstantOp
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops import memory as M
from tilewright.dialects.nv_tileaa.ops import shapes as O
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp
from tilewright.dialects.nv_tileaa.ops.pointers import AddPtrOp

_MEANINGS = frozenset({"addi", "subi", "muli", "shli", "exti", "cmpi", "andi", "maxi", "mini"})
#: What an element costs that may be computed again wherever it is read, in units of one simple operation.
_CHEAP = 8
#: Element types of numbers of which a comparison chooses one.
_CHOSEN = frozenset({"i16", "i32", "i64"})
_INTEGERS = _CHOSEN | {"i1", "i8"}
_MOVES = (
    O.SplatOp,
    O.BroadcastOp,
    O.ExpandDimsOp,
    O.ViewOp,
    O.MakeRangeOp,
    AddPtrOp,
    AssumeOp,
)
_OF_POSITIONS = (ArithOp, ConstantOp, O.ExtractOp, O.ExtractSliceOp, O.CatOp, *_MOVES)


def of_addresses(ops: Sequence[Operation], costs: Mapping[SSAValue, int]) -> set[SSAValue]:
    """The tiles of a function, given its operations in program order, that formulas give and that
    accesses read, as their addresses or masks; nothing else does, or they cost little. ``costs``: what an
    element of a tile costs."""
    formulas: set[SSAValue] = set()
    for op in ops:
        if _is_formula(op, formulas):
            formulas.update(op.results)
    found: set[SSAValue] = set()
    for op in reversed(ops):
        for value in op.results:
            if value not in formulas:
                continue
            said = [_goes_to_addresses(use.operation, value, found) for use in value.uses]
            if all(said) or (any(said) and _is_cheap_anywhere(value, costs)):
                found.add(value)
    return found


def of_positions(ops: Sequence[Operation]) -> set[SSAValue]:
    """The tiles of a function, given its operations in program order, that are computed of the positions of elements and of scalars
    alone, by integers. Code of which positions are constants computes nothing for them."""
    found: set[SSAValue] = set()
    for op in ops:
        if isinstance(op, _OF_POSITIONS) and all(
            value in found for value in op.operands if isinstance(value.type, T.TileType)
        ):
            found.update(
                result
                for result in op.results
                if isinstance(result.type, T.TileType)
                and T.element_name(T.element_of(result.type)) in _INTEGERS
            )
    return found


def _is_cheap_anywhere(value: SSAValue, costs: Mapping[SSAValue, int]) -> bool:
    """Whether whatever reads a value may as well compute it."""
    return costs.get(value, _CHEAP) < _CHEAP and not any(
        cost_model.needs_buffer(use.operation) for use in value.uses
    )


def _goes_to_addresses(user: Operation, value: SSAValue, found: set[SSAValue]) -> bool:
    """Whether an operation that reads a value accesses memory there, or computes what only says where."""
    if _addresses(user, value):
        return True
    return bool(user.results) and all(result in found for result in user.results)


def _is_formula(op: Operation, formulas: set[SSAValue]) -> bool:
    if not cost_model.is_lazy(op) or not any(isinstance(r.type, T.TileType) for r in op.results):
        return False
    if isinstance(op, ConstantOp):
        return len(set(op.bits())) == 1
    if isinstance(op, O.BroadcastOp) and T.dims_of(op.source.type)[-1:] == (1,):
        return T.dims_of(op.result.type)[-1] > 1
    if isinstance(op, ArithOp):
        known = (
            op.MEANING in _MEANINGS
            or (op.MEANING == "divi" and _is_known_quotient(op))
            or (
                op.MEANING == "select"
                and T.element_name(T.element_of(op.results[0].type)) in _CHOSEN
            )
        )
    else:
        known = isinstance(op, _MOVES)
    return known and all(
        value in formulas for value in op.operands if isinstance(value.type, T.TileType)
    )


def _is_known_quotient(op: ArithOp) -> bool:
    """Whether an operation divides by a constant, in a tile whose elements are repeated along rows, or by a power of two, or by one
    number, of which it does not seem that quotients change within most rows, to be computed again in each round of a loop."""
    by, extent = op.operands[1].owner, T.dims_of(op.results[0].type)[-1:]
    if isinstance(by, ConstantOp):
        (number, *others) = sorted(set(by.bits()))
        if extent == (1,) or others:
            return extent == (1,)
        return number >= extent[0] or number.bit_count() == 1
    while isinstance(by, O.SplatOp | O.BroadcastOp | O.ExpandDimsOp | O.ViewOp):
        if not T.dims_of(by.operands[0].type):
            return not (_is_spaced(op.operands[0]) and _is_read_in_loops(op.results[0], op.parent))
        by = by.operands[0].owner
    return False


def _is_read_in_loops(value: SSAValue, home: Block | None) -> bool:
    """Whether operations inside of others read a value, or what is computed of it outside."""
    pending, seen = [value], set[SSAValue]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            if use.operation.parent is not home:
                return True
            if isinstance(use.operation, (ArithOp, *_MOVES)):
                pending += use.operation.results
    return False


def _is_spaced(value: SSAValue) -> bool:
    """Whether neighbours along a row lie several apart, by a constant: their quotients seldom stay the same."""
    pending, seen = [value], set[SSAValue]()
    while pending:
        value = pending.pop()
        owner, extent = value.owner, T.dims_of(value.type)[-1:]
        if value in seen or extent in ((), (1,)):
            continue
        seen.add(value)
        if isinstance(owner, O.ViewOp | O.BroadcastOp):
            pending.append(owner.operands[0])
        elif isinstance(owner, ArithOp) and owner.MEANING in ("addi", "subi", "exti"):
            pending += owner.operands
        elif isinstance(owner, ArithOp) and owner.MEANING in _FACTORS:
            factors = [
                by.owner.bits()[0] for by in owner.operands if isinstance(by.owner, ConstantOp)
            ]
            if any(factor >= _FACTORS[owner.MEANING] for factor in factors):
                return True
    return False


#: From which constant on neighbours lie apart that are multiplied, or shifted, by it.
_FACTORS = {"muli": 2, "shli": 1}


def _addresses(op: Operation, value: SSAValue) -> bool:
    """Whether an operation accesses memory where a value says."""
    if isinstance(op, M.LoadOp | M.StoreOp):
        return value is op.base or value is op.mask
    return False
