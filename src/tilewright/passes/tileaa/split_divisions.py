"""``split-divisions``: divides consecutive numbers once for each run of equal quotients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd, prod
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from tilewright.dialects import arith, facts
from tilewright.dialects.arith.base import ArithOp
from tilewright.dialects.arith.constants import ConstantOp
from tilewright.dialects.declare import int_property
from tilewright.dialects.facts import Elements
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.attributes import BoundedAttr, DivByAttr
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp
from tilewright.dialects.nv_tileaa.ops.shapes import (
    BroadcastOp,
    MakeRangeOp,
    SplatOp,
    ViewOp,
)
from tilewright.passes.base import inherit_location
from tilewright.passes.tileaa.base import TileAAPass
from tilewright.passes.tileaa.matching import (
    REPEATING,
    erase_with_sources,
    integer_of,
    is_plain_divisor,
)

#: Runs are as long as this at least, a short vector, and at most where a tile has several.
_SHORTEST, _LONGEST = 8, 64
_ANY = 1 << 62
#: How many operations are followed back from a dividend.
_DEPTH = 8
_FOLLOWED = (AssumeOp, arith.Extension, arith.AddiOp, arith.SubiOp, arith.MuliOp)
_DIVISIONS = (arith.FloorDivSIOp, arith.DivUIOp)


@dataclass(frozen=True)
class SplitDivisions(TileAAPass):
    """Computes quotients and remainders of consecutive numbers for whole runs of them.

    Flat indices are taken apart by divisions: ``i // width`` and ``i % width``, where ``i`` is
    ``start + make_range``. If the parts of the start that are not known are multiples of a power of two ``g``,
    and so is the divisor, then each ``g`` numbers that follow one another have one quotient, and
    consecutive remainders. The pass divides the first number of each run, in a tile of ``N / g`` by 1, and
    repeats the quotient along the run. A remainder becomes that of the first number plus the place in the
    run. Element-wise operations on such quotients, of integers and of floats (``i // area % channels``, a row as a
    fraction), are computed once for each run as well. Accesses then see which of their elements lie side by side, or are the same.

    Remainders of consecutive numbers whose runs are shorter, as of ``(i + 1) % width``, become ``x - floor(x / c) c``, also for
    a ``c`` that is only known when the kernel runs, if it is positive, and so do those of such quotients and of what they leave:
    between the places where a quotient changes the numbers are consecutive.

    Rewrites ``floordivsi``, ``divui``, ``remui`` and the remainder whose sign follows the divisor (``remsi`` and a
    correction) by a positive constant, on tiles of one axis; ``g`` is from 8 up to 64, or the whole tile. Cost: one walk.

    Proof. Let ``t``, a multiple of ``g``, be the first number of a run, and ``0 <= l < g``. ``t + l`` does not wrap, as
    ``g`` divides 2**n. With ``c = g d``: ``floor((t + l) / c) = floor((t / g + l / g) / d)``, which is
    ``floor(t / c)``, as ``t / g`` is an integer and ``l / g < 1``. So ``(t + l) mod c = t mod c + l``.
    """

    name: ClassVar[str] = "split-divisions"

    def rewrite_function(self, function: FuncOp) -> None:
        split_divisions(function)


def divisions(function: FuncOp) -> list[Operation]:
    """Return the quotients and remainders of a function that can be computed for runs."""
    found = (op for op in function.walk() if isinstance(op, ArithOp))
    return [
        op
        for op in found
        if ((it := _dividend(op)) is not None and _run_of(*it)) or _wrapped(op) is not None
    ]


def split_divisions(function: FuncOp) -> None:
    """Rewrite the divisions of a function in place, and what is computed of them, and erase operations that become
    unused."""
    splitting = _Splitting()
    for op in list(function.walk()):
        if _is_element_wise(op):
            splitting.operation(op)
    for op in reversed(splitting.replaced):
        erase_with_sources(op, _may_go)


def _is_element_wise(op: Operation) -> bool:
    """Whether an operation computes a tile of one axis element by element, and does nothing else."""
    if len(op.results) != 1 or isinstance(op, AssumeOp) or op.regions:
        return False
    if facts.elements(op) is not Elements.SAME_POSITION or not is_side_effect_free(op):
        return False
    dims = T.dims_of(op.results[0].type)
    return len(dims) == 1 and all(T.dims_of(v.type) in (dims, ()) for v in op.operands)


def _dividend(op: Operation) -> tuple[SSAValue, int] | None:
    """Return what an operation divides, and the divisor; None if it is no such division."""
    if len(op.results) != 1 or len(T.dims_of(op.results[0].type)) != 1:
        return None
    if isinstance(op, (*_DIVISIONS, arith.RemUIOp)):
        divided, by = op.operands
    elif isinstance(op, arith.SelectOp) and (rest := _corrected(op)) is not None:
        divided, by = rest.operands
    else:
        return None
    number = integer_of(by)
    return None if number is None or number <= 0 else (divided, number)


def _corrected(op: arith.SelectOp) -> arith.RemSIOp | None:
    """Return the remainder that a selection corrects to have the sign of its divisor: ``r + c`` where ``r`` is not zero
    and has another sign than ``c``, else ``r``."""
    condition, changed, rest = (value.owner for value in op.operands)
    if not isinstance(rest, arith.RemSIOp) or not isinstance(changed, arith.AddiOp):
        return None
    remainder, divisor = rest.results[0], rest.operands[1]
    if set(changed.operands) != {remainder, divisor} or not isinstance(condition, arith.AndIOp):
        return None
    sides = [value.owner for value in condition.operands]
    signs = [side for side in sides if isinstance(side, arith.XOrIOp)]
    inexact = [side for side in sides if _compares(side, remainder, "ne")]
    if len(signs) != 1 or len(inexact) != 1:
        return None
    compared = [value.owner for value in signs[0].operands]
    orders = ((remainder, divisor), (divisor, remainder))
    right = any(
        all(_compares(side, value, "slt") for side, value in zip(compared, order, strict=True))
        for order in orders
    )
    return rest if right else None


def _wrapped(op: Operation) -> arith.RemSIOp | arith.RemUIOp | None:
    """Return the remainder of consecutive numbers by a positive one not below their count, as far as that is known, that an
    operation gives; None if it is no such remainder."""
    if isinstance(op, arith.RemUIOp):
        rest = op
    elif isinstance(op, arith.SelectOp) and (found := _corrected(op)) is not None:
        rest = found
    else:
        return None
    divided, by = rest.operands
    dims = T.dims_of(divided.type)
    if len(dims) != 1 or not (_is_consecutive(divided) or _is_taken_apart(divided)):
        return None
    number = integer_of(by)
    if number is not None:
        return rest if number >= min(dims[0], _LONGEST) else None
    return rest if isinstance(rest, arith.RemUIOp) or _is_extent(by) else None


def _is_consecutive(value: SSAValue, depth: int = _DEPTH) -> bool:
    """Whether numbers are a range and what is equal in all elements."""
    owner = value.owner
    if isinstance(owner, MakeRangeOp):
        return not owner.bounds
    if not depth or not isinstance(owner, Operation):
        return False
    if isinstance(owner, arith.Extension):
        return _is_consecutive(owner.operands[0], depth - 1)
    parts = _range_and_rest(value)
    return parts is not None and _is_consecutive(parts[0], depth - 1)


def _is_taken_apart(value: SSAValue, depth: int = _DEPTH) -> bool:
    """Whether numbers are a quotient of consecutive ones, or what one leaves of them, and what is equal in all elements:
    consecutive in pieces."""
    owner = value.owner
    if not depth or not isinstance(owner, Operation):
        return False
    if isinstance(owner, arith.FloorDivSIOp | arith.DivUIOp):
        divided = owner.operands[0]
        return _is_consecutive(divided) or _is_taken_apart(divided, depth - 1)
    if (parts := _range_and_rest(value)) is not None:
        return _is_taken_apart(parts[0], depth - 1)
    if not isinstance(owner, arith.SubiOp) or not isinstance(owner.rhs.owner, arith.MuliOp):
        return False
    return any(
        isinstance(each.owner, arith.FloorDivSIOp | arith.DivUIOp)
        and each.owner.operands[0] is owner.lhs
        and _is_taken_apart(each, depth - 1)
        for each in owner.rhs.owner.operands
    )


def _is_extent(value: SSAValue) -> bool:
    """Whether all elements are one number that is assumed not to be negative: an extent, by which a division is undefined
    where it is zero."""
    while isinstance(value.owner, REPEATING):
        value = value.owner.operands[0]
    owner = value.owner
    if not isinstance(owner, AssumeOp) or T.dims_of(value.type):
        return False
    bounds = [p.bounds[0] for p in owner.predicates if isinstance(p, BoundedAttr)]  # pyright: ignore
    return any(low is not None and low >= 0 for low in bounds)


def _compares(op: object, value: SSAValue, predicate: str) -> bool:
    """Whether an operation compares a value with zero."""
    if not isinstance(op, arith.CmpiOp) or op.operands[0] is not value:
        return False
    return op.NAMES[op.predicate.value.data] == predicate and integer_of(op.operands[1]) == 0


def _run_of(dividend: SSAValue, divisor: int) -> int:
    """Return how long the runs of a dividend are that have one quotient each; 0 if too short."""
    (extent,) = T.dims_of(dividend.type)
    run = gcd(_alignment(dividend), divisor, extent)
    if run < extent:
        run = min(run, _LONGEST)
    return run if run >= _SHORTEST else 0


def _alignment(value: SSAValue, depth: int = _DEPTH) -> int:
    """Return the largest power of two of which all parts of consecutive numbers but the range are known to be multiples; 1
    if they are not consecutive."""
    owner = value.owner
    if isinstance(owner, MakeRangeOp):
        return 1 if owner.bounds else _factor_of(int_property(owner, "start"))
    if not depth:
        return 1
    if isinstance(owner, arith.Extension):
        return _alignment(owner.operands[0], depth - 1)
    parts = _range_and_rest(value)
    if parts is None:
        return 1
    consecutive, rest = parts
    return gcd(_alignment(consecutive, depth - 1), _power_of(rest))


def _range_and_rest(value: SSAValue) -> tuple[SSAValue, SSAValue] | None:
    """Return the operands of a sum or difference of which the second is equal in all elements."""
    owner = value.owner
    if not isinstance(owner, arith.AddiOp | arith.SubiOp):
        return None
    first, second = owner.operands
    if _power_of(second):
        return first, second
    return (second, first) if isinstance(owner, arith.AddiOp) and _power_of(first) else None


def _factor_of(number: int) -> int:
    """Return the largest power of two that divides a number."""
    return number & -number if number else _ANY


def _power_of(value: SSAValue, depth: int = _DEPTH) -> int:
    """Return a power of two that divides an integer that is equal in all elements; 0 if they may differ."""
    while isinstance(value.owner, REPEATING):
        value = value.owner.operands[0]
    if (number := integer_of(value)) is not None:
        return _factor_of(number)
    owner = value.owner
    tile_assumed = isinstance(owner, AssumeOp) and T.dims_of(value.type)
    if not depth or tile_assumed or not isinstance(owner, _FOLLOWED):
        return 0 if prod(T.dims_of(value.type)) > 1 else 1
    found = [_power_of(operand, depth - 1) for operand in owner.operands]
    if not all(found):
        return 0
    if isinstance(owner, AssumeOp):
        stated = [p for p in owner.predicates if is_plain_divisor(p)]  # pyright: ignore
        known = [_factor_of(p.divisor.data) for p in stated if isinstance(p, DivByAttr)]
        return max(found[0], *known, 1)
    return min(prod(found), _ANY) if isinstance(owner, arith.MuliOp) else gcd(*found)


@dataclass(frozen=True, slots=True)
class _Runs:
    """Numbers that are equal within each run: those of the runs as a tile of their count by 1, and the length of a run."""

    numbers: SSAValue
    length: int


@dataclass(slots=True)
class _Splitting:
    """The rewrites of one function, in program order."""

    runs: dict[SSAValue, _Runs] = field(default_factory=dict)
    replaced: list[Operation] = field(default_factory=list)
    uniform: set[SSAValue] = field(default_factory=set)
    """Results of operations whose elements are all equal, since those of their operands are."""
    _made: dict[tuple[SSAValue, int, Block | None], SSAValue] = field(default_factory=dict)
    """What was made of values for tiles of an extent, by the block in which it can be used."""
    _here: Operation | None = None

    def operation(self, op: Operation) -> None:
        """Rewrite an operation if it can be computed for each run."""
        self._here = op
        division = _dividend(op)
        if division is not None and (length := _run_of(*division)):
            self._divide(op, self._first(division[0], length), division[1], length)
        elif isinstance(op, arith.SelectOp) and division is not None and division[0] in self.runs:
            runs = self.runs[division[0]]
            rest = self._of_first(op, runs.numbers, division[1])
            self._replace(op, _Runs(rest, runs.length))
        elif length := self._common_run(op):
            self._compute(op, length)
        elif (rest := _wrapped(op)) is not None:
            self._put(op, self._rest_of_quotient(rest))
        elif all(self._is_uniform(value) for value in op.operands):
            self.uniform.add(op.results[0])

    def _divide(self, op: Operation, first: SSAValue, divisor: int, length: int) -> None:
        """Compute a quotient or a remainder of numbers of which the first of each run is given."""
        found = self._of_first(op, first, divisor)
        if isinstance(op, _DIVISIONS):
            self._replace(op, _Runs(found, length))
            return
        (extent,) = T.dims_of(op.results[0].type)
        shape = (extent // length, length)
        places = self._range(length, found.type)
        if length == extent:
            both = [self._repeated(self._reshaped(found, (1,)), (extent,)), places]
        else:
            both = [self._repeated(v, shape) for v in (found, self._reshaped(places, (1, length)))]
        total = self._insert(arith.AddiOp.of(*both))
        self._put(op, self._reshaped(total, (extent,)) if length < extent else total)

    def _of_first(self, op: Operation, first: SSAValue, divisor: int) -> SSAValue:
        """Return what an operation gives for the first number of each run."""
        by = self._insert(ConstantOp.from_value(first.type, divisor))
        if isinstance(op, (*_DIVISIONS, arith.RemUIOp)):
            return self._insert(type(op).of(first, by))
        quotient = self._insert(arith.FloorDivSIOp.of(first, by))
        whole = self._insert(arith.MuliOp.of(quotient, by))
        return self._insert(arith.SubiOp.of(first, whole))

    def _rest_of_quotient(self, rest: arith.RemSIOp | arith.RemUIOp) -> SSAValue:
        """Return a remainder as what the quotient leaves."""
        divided, by = rest.operands
        divide = arith.DivUIOp if isinstance(rest, arith.RemUIOp) else arith.FloorDivSIOp
        whole = self._insert(arith.MuliOp.of(self._insert(divide.of(divided, by)), by))
        return self._insert(arith.SubiOp.of(divided, whole))

    def _first(self, value: SSAValue, length: int) -> SSAValue:
        """Return the first number of each run of consecutive ones."""
        key = (value, length, self._block)
        if key not in self._made:
            self._made[key] = self._make_first(value, length)
        return self._made[key]

    def _make_first(self, value: SSAValue, length: int) -> SSAValue:
        owner = value.owner
        (extent,) = T.dims_of(value.type)
        shape = (extent // length, 1)
        if isinstance(owner, MakeRangeOp):
            numbers = self._reshaped(self._range(extent // length, value.type), shape)
            by = self._insert(ConstantOp.from_value(numbers.type, length))
            start = int_property(owner, "start")
            scaled = self._insert(arith.MuliOp.of(numbers, by))
            ahead = self._insert(ConstantOp.from_value(numbers.type, start))
            return self._insert(arith.AddiOp.of(scaled, ahead)) if start else scaled
        if isinstance(owner, arith.Extension):
            ty = T.tile_or_scalar(shape, T.element_of(value.type))
            return self._insert(type(owner).of(self._first(owner.operands[0], length), result=ty))
        parts = _range_and_rest(value)
        assert parts is not None and isinstance(owner, arith.AddiOp | arith.SubiOp)
        consecutive, rest = parts
        return self._insert(
            type(owner).of(self._first(consecutive, length), self._uniform(rest, shape))
        )

    def _common_run(self, op: Operation) -> int:
        """Return the length of the runs within which all operands are equal; 0 if there are none."""
        tiles = [value for value in op.operands if T.dims_of(value.type)]
        lengths = {self.runs[value].length for value in tiles if value in self.runs}
        if len(lengths) != 1 or len(op.results) != 1:
            return 0
        known = all(value in self.runs or self._is_uniform(value) for value in tiles)
        return lengths.pop() if known else 0

    def _is_uniform(self, value: SSAValue) -> bool:
        """Whether all elements of a value are equal."""
        while isinstance(value.owner, REPEATING) and value not in self.uniform:
            value = value.owner.operands[0]
        if not T.dims_of(value.type) or value in self.uniform:
            return True
        return isinstance(value.owner, ConstantOp) and len(value.owner.bits()) == 1

    def _compute(self, op: Operation, length: int) -> None:
        """Compute an operation once for each run."""
        (extent,) = T.dims_of(op.results[0].type)
        shape = (extent // length, 1)
        operands = [
            self.runs[value].numbers if value in self.runs else self._uniform(value, shape)
            for value in op.operands
        ]
        ty = T.tile_or_scalar(shape, T.element_of(op.results[0].type))
        made = type(op).create(operands=operands, result_types=[ty], properties=dict(op.properties))
        self._replace(op, _Runs(self._insert(made), length))

    def _replace(self, op: Operation, runs: _Runs) -> None:
        """Let the result of an operation be the numbers of runs, each repeated."""
        (extent,) = T.dims_of(op.results[0].type)
        if runs.length == extent:
            made = self._repeated(self._reshaped(runs.numbers, (1,)), (extent,))
        else:
            spread = self._repeated(runs.numbers, (extent // runs.length, runs.length))
            made = self._reshaped(spread, (extent,))
        self.runs[made] = runs
        self._put(op, made)

    def _put(self, op: Operation, value: SSAValue) -> None:
        value.name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(value)
        self.replaced.append(op)

    @property
    def _block(self) -> Block | None:
        return None if self._here is None else self._here.parent

    # -- operations --------------------------------------------------------------------------

    def _insert(self, op: Operation) -> SSAValue:
        assert self._here is not None
        inherit_location(op, self._here)
        Rewriter.insert_op(op, InsertPoint.before(self._here))
        return op.results[0]

    def _range(self, count: int, like: Attribute) -> SSAValue:
        """Return the numbers from zero up."""
        ends = {"start": IntegerAttr(0, i64), "end": IntegerAttr(count, i64)}
        ty = T.TileType((count,), T.element_of(like))
        return self._insert(MakeRangeOp.create(result_types=[ty], properties=ends))

    def _reshaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        ty = T.TileType(shape, T.element_of(value.type))
        return self._insert(ViewOp.create(operands=[value], result_types=[ty]))

    def _repeated(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        ty = T.TileType(shape, T.element_of(value.type))
        return self._insert(BroadcastOp.create(operands=[value], result_types=[ty]))

    def _uniform(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Return a value that is equal in all elements in another shape; a scalar operand of an operation on tiles stays."""
        if not T.dims_of(value.type):
            return value
        while isinstance(value.owner, REPEATING):
            value = value.owner.operands[0]
        key = (value, -shape[0], self._block)
        if key not in self._made:
            self._made[key] = self._make_uniform(value, shape)
        return self._made[key]

    def _make_uniform(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        ty = T.TileType(shape, T.element_of(value.type))
        owner = value.owner
        if isinstance(owner, ConstantOp):
            return self._insert(ConstantOp.from_bits(ty, owner.bits()))
        if not T.dims_of(value.type):
            return self._insert(SplatOp.create(operands=[value], result_types=[ty]))
        if prod(T.dims_of(value.type)) == 1:
            return self._repeated(self._reshaped(value, (1,) * len(shape)), shape)
        assert isinstance(owner, Operation)
        operands = [self._uniform(operand, shape) for operand in owner.operands]
        properties = dict(owner.properties)
        return self._insert(
            type(owner).create(operands=operands, result_types=[ty], properties=properties)
        )


def _may_go(op: Operation) -> bool:
    """Whether an operation that is used no more can be erased: one that computes tiles, and does nothing else."""
    return isinstance(op, (MakeRangeOp, *REPEATING)) or _is_element_wise(op)
