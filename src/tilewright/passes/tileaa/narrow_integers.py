"""``narrow-integers``: computes in 8 or 16 bits what gives the same numbers there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Operation, SSAValue, Use
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.analysis.tileaa.ranges import Range, Ranges, all_of
from tilewright.dialects import arith
from tilewright.dialects.arith.base import ArithOp
from tilewright.dialects.arith.conversion import FromInteger
from tilewright.dialects.arith.integer import Division, IntegerBinary
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOrScan
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import Load, Store
from tilewright.dialects.nv_tileaa.ops.shapes import (
    ExtractOp,
    ExtractSliceOp,
    MakeRangeOp,
    Rearrangement,
)
from tilewright.passes.base import inherit_location
from tilewright.passes.tileaa.base import TileAAPass
from tilewright.passes.tileaa.matching import REPEATING, erase_with_sources, integer_of

_WIDTHS = (8, 16, 32)
#: The low bits of the result depend on nothing but those of the operands.
_MODULAR = (
    arith.AddiOp,
    arith.SubiOp,
    arith.MuliOp,
    arith.AndIOp,
    arith.OrIOp,
    arith.XOrIOp,
    arith.SelectOp,
    Rearrangement,
)
_SHIFTS = (arith.ShRSIOp, arith.ShRUIOp)
_EXTREMA = (arith.MaxSIOp, arith.MinSIOp, arith.MaxUIOp, arith.MinUIOp)
#: Divisions of numbers that are not negative, without their sign.
_UNSIGNED: dict[type[Operation], type[Operation]] = {
    arith.DivSIOp: arith.DivUIOp,
    arith.FloorDivSIOp: arith.DivUIOp,
    arith.CeilDivSIOp: arith.CeilDivUIOp,
    arith.RemSIOp: arith.RemUIOp,
    arith.MaxSIOp: arith.MaxUIOp,
    arith.MinSIOp: arith.MinUIOp,
    arith.ShRSIOp: arith.ShRUIOp,
}
#: What an operation on a byte takes in the units of one that processors have, as there are few for bytes; so for a quotient.
_BYTES: dict[type[Operation], int] = {
    arith.MuliOp: 4,
    arith.ShLIOp: 3,
    arith.ShRSIOp: 4,
    arith.ShRUIOp: 3,
}
_QUOTIENT, _BYTE_QUOTIENT, _WIDE_PRODUCT, _PACKING, _EXTENDING = 4, 16, 3, 2, 1.5


@dataclass(frozen=True)
class NarrowIntegers(TileAAPass):
    """Computes integers of tiles in 8, 16 or 32 bits where that gives the same numbers, and takes less.

    Sums, differences, products, selections, bitwise operations and shifts to the left by constants give the same low bits
    whatever stands above those of their operands. Shifts to the right, quotients by positive constants, extrema, absolute values,
    comparisons and conversions to floats are narrowed where the range of their operands fits, with or without sign. What others
    read is extended again, which its range must allow, or truncated further.

    Only what depends on numbers that were loaded, or made of floats, is narrowed, and nothing that says where an access goes:
    addresses and masks are formulas of places, which code generators take apart. An operation is narrowed only with all that
    read it, and a connected part of the function only where vectors of so many bits, with all conversions, are fewer than before.
    Cost: the analysis of ranges once for each width that something can have.
    """

    name: ClassVar[str] = "narrow-integers"

    def rewrite_function(self, function: FuncOp) -> None:
        narrow_integers(function)


def wide_integers(function: FuncOp) -> list[Operation]:
    """Return the operations of a function on integers that can be narrowed."""
    return [op for bits in _WIDTHS for part in narrowable(function, bits) for op in part.operations]


def narrow_integers(function: FuncOp) -> None:
    """Narrow integers of a function in place, and erase operations that become unused."""
    for bits in _WIDTHS:
        for part in narrowable(function, bits):
            part.rewrite()


def narrowable(function: FuncOp, bits: int) -> list[Part]:
    """Return the parts of a function that take less with integers of so many bits."""
    if not any(_is_wide(op, bits) and _is_leaf(op, bits) for op in function.walk()):
        return []
    apart = _addresses(function)
    wide = [op for op in _of_data(function) if _is_wide(op, bits) and op.results[0] not in apart]
    narrow = _Narrow(Ranges(function), bits)
    kept = dict.fromkeys(op for op in wide if not _is_leaf(op, bits) and narrow.gives_same(op))
    pending = list(kept)
    while pending:
        op = pending.pop()
        uses = op.results[0].uses
        if op in kept and not all(use.operation in kept or narrow.ends(use) for use in uses):
            del kept[op]
            pending += [
                made
                for value in op.operands
                if isinstance(made := value.owner, Operation) and made in kept
            ]
    return [part for part in _parts(kept, narrow) if part.gain > 0]


def _is_wide(op: Operation, bits: int) -> bool:
    """Whether an operation makes a tile of integers of more bits than that."""
    if len(op.results) != 1 or op.regions or not isinstance(op, ArithOp | Rearrangement):
        return False
    ty = op.results[0].type
    return isinstance(ty, T.TileType) and _width(op.results[0]) > bits


def _width(value: SSAValue) -> int:
    """The bits of a value's integers; 0 for other values."""
    element = T.element_of(value.type)
    return element.width.data if isinstance(element, IntegerType) else 0


def _is_leaf(op: Operation, bits: int) -> bool:
    """Whether an operation extends what has no more than so many bits."""
    return isinstance(op, arith.Extension) and _width(op.operands[0]) <= bits


def _of_data(function: FuncOp) -> Iterator[Operation]:
    """The operations that depend on more than places, constants and scalars, in program order."""
    places: set[SSAValue] = set()
    for op in function.walk():
        plain = isinstance(op, arith.ConstantOp | MakeRangeOp)
        if plain or (
            isinstance(op, ArithOp | Rearrangement)
            and all(value in places or not T.dims_of(value.type) for value in op.operands)
        ):
            places.update(op.results)
        else:
            yield op


def _addresses(function: FuncOp) -> set[SSAValue]:
    """What accesses, and all operations but arithmetic, take where to go from; comparisons end what is followed back."""
    pending = [
        value
        for op in function.walk()
        if not isinstance(op, ArithOp | Rearrangement | ReduceOrScan)
        for value in op.operands
        if _width(value) and not _is_moved(op, value)
    ]
    found: set[SSAValue] = set()
    while pending:
        value = pending.pop()
        if value not in found:
            found.add(value)
            if isinstance(value.owner, ArithOp | Rearrangement) and _width(value) > 1:
                pending += value.owner.operands
    return found


def _is_moved(op: Operation, value: SSAValue) -> bool:
    """Whether an operation writes, passes on or fills in a value, and no address or mask."""
    if isinstance(op, Store):
        return op.moved is value
    if isinstance(op, Load):
        return op.other is value
    return op.name == "scf.yield"


@dataclass(slots=True)
class _Narrow:
    """What holds of integers of a function in so many bits."""

    ranges: Ranges
    bits: int

    def gives_same(self, op: Operation) -> bool:
        """Whether an operation gives the low bits of its result in the narrow type."""
        if isinstance(op, _MODULAR):
            return True
        if isinstance(op, arith.Extension | arith.TruncIOp):
            return True
        if isinstance(op, arith.AbsIOp):
            return self.fits(op.operands[0], signed=True)
        if not isinstance(op, IntegerBinary | Division):
            return False
        lhs, number = op.lhs, integer_of(_repeated(op.rhs))
        if isinstance(op, _EXTREMA):
            return self.sign_of(*op.operands) is not None
        if number is None or number < 0:
            return False
        if isinstance(op, (*_SHIFTS, arith.ShLIOp)):
            exact = isinstance(op, arith.ShLIOp) or self._shifts(op, lhs)
            return number < self.bits and exact
        return number > 0 and self.fits(lhs, signed=False) and self.fits(op.rhs, signed=False)

    def _shifts(self, op: Operation, lhs: SSAValue) -> bool:
        signed = isinstance(op, arith.ShRSIOp) and self.fits(lhs, signed=True)
        return signed or self.fits(lhs, signed=False)

    def ends(self, use: Use) -> bool:
        """Whether the reader of a narrow number can have it: truncated further, compared, as a float, or extended."""
        op = use.operation
        if isinstance(op, arith.TruncIOp) and _width(op.results[0]) <= self.bits:
            return True
        if isinstance(op, arith.CmpiOp):
            return self.sign_of(*op.operands) is not None
        if isinstance(op, arith.UIToFPOp):
            return self.fits(op.source, signed=False)
        return self.sign_of(op.operands[use.index]) is not None

    def fits(self, value: SSAValue, *, signed: bool) -> bool:
        """Whether the numbers of a value are those of the narrow type, signed or not."""
        span = all_of(self.bits) if signed else Range(0, (1 << self.bits) - 1)
        return self.ranges.of(value).within(span)

    def sign_of(self, *values: SSAValue) -> bool | None:
        """Whether all the numbers of values are those of the signed type, or of the unsigned one; None for neither."""
        for signed in (True, False):
            if all(self.fits(value, signed=signed) for value in values):
                return signed
        return None


def _parts(kept: Iterable[Operation], narrow: _Narrow) -> list[Part]:
    """Return the connected parts of operations."""
    home: dict[Operation, Operation] = {op: op for op in kept}

    def root(op: Operation) -> Operation:
        while home[op] is not op:
            home[op] = op = home[home[op]]
        return op

    for op in home:
        for value in op.operands:
            if isinstance(value.owner, Operation) and value.owner in home:
                home[root(value.owner)] = root(op)
    found: dict[Operation, Part] = {}
    for op in home:
        found.setdefault(root(op), Part(narrow)).operations[op] = None
    return list(found.values())


@dataclass(slots=True)
class Part:
    """Connected operations that are narrowed together, in program order."""

    narrow: _Narrow
    operations: dict[Operation, None] = field(default_factory=dict[Operation, None])
    _made: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    _extended: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    @property
    def gain(self) -> float:
        """How many bits of vectors fewer all that changes handles."""
        bits, inputs = self.narrow.bits, dict.fromkeys(self._inputs())
        gain = sum(_work(op, _width(op.results[0])) - _work(op, bits) for op in self.operations)
        for value in inputs:
            if isinstance(value.owner, Operation) and _is_leaf(value.owner, bits):
                alone = all(use.operation in self.operations for use in value.uses)
                gain += _size(value) * (_width(value) if alone else 0)
                gain -= _size(value) * (bits if _width(value.owner.operands[0]) < bits else 0)
            elif not isinstance(value.owner, arith.ConstantOp) and T.dims_of(_repeated(value).type):
                gain -= _PACKING * _size(value) * _width(value)
        for op in self.operations:
            (value,) = op.results
            ends = [use.operation for use in value.uses if use.operation not in self.operations]
            gain += sum(_work(end, _width(value)) - _work(end, bits) for end in ends)
            if any(not isinstance(end, arith.TruncIOp | arith.CmpiOp) for end in ends):
                gain -= _EXTENDING * _size(value) * _width(value)
        return gain

    def _inputs(self) -> Iterator[SSAValue]:
        """What operations read that is wide, and not made by them."""
        for op in self.operations:
            for value in _numbers(op):
                if value.owner not in self.operations:
                    yield value

    def rewrite(self) -> None:
        """Replace the operations, and what reads them."""
        for op in self.operations:
            self._made[op.results[0]] = self._narrowed(op)
        for op in self.operations:
            for use in list(op.results[0].uses):
                if use.operation not in self.operations and use.operation.parent is not None:
                    self._end(use)
        for op in reversed(self.operations):
            erase_with_sources(op, lambda each: isinstance(each, ArithOp | Rearrangement))

    def _narrowed(self, op: Operation) -> SSAValue:
        """Return the low bits of an operation's result."""
        (value,) = op.results
        if isinstance(op, arith.Extension | arith.TruncIOp):
            return self._low(op.operands[0], op)
        kind: type[Operation] = type(op)
        if kind in _UNSIGNED and not all(self.narrow.fits(v, signed=True) for v in op.operands):
            kind = _UNSIGNED[kind]
        elif isinstance(op, Division):
            kind = _UNSIGNED.get(kind, kind)
        numbers = _numbers(op)
        operands = [self._low(v, op) if v in numbers else v for v in op.operands]
        kept = {name: p for name, p in op.properties.items() if name != "overflowFlags"}
        ty = _typed(value, self.narrow.bits)
        return self._insert(kind.create(operands=operands, result_types=[ty], properties=kept), op)

    def _low(self, value: SSAValue, before: Operation) -> SSAValue:
        """Return the low bits of a value that an operation reads."""
        if value not in self._made:
            self._made[value] = self._make_low(value, before)
        return self._made[value]

    def _make_low(self, value: SSAValue, before: Operation) -> SSAValue:
        bits, owner = self.narrow.bits, value.owner
        ty = _typed(value, bits)
        if _width(value) == bits:
            return value
        assert _width(value) > bits
        if isinstance(owner, arith.ConstantOp):
            low = [number & (1 << bits) - 1 for number in owner.bits()]
            return self._insert(arith.ConstantOp.from_bits(ty, low), owner)
        if isinstance(owner, Operation) and (number := integer_of(_repeated(value))) is not None:
            return self._insert(arith.ConstantOp.from_bits(ty, [number & (1 << bits) - 1]), owner)
        if isinstance(owner, arith.Extension) and _is_leaf(owner, bits):
            (source,) = owner.operands
            if _width(source) == bits:
                return source
            return self._insert(type(owner).of(source, result=ty), owner)
        if isinstance(owner, Operation):
            return self._insert(arith.TruncIOp.of(value, result=ty), owner)
        made = arith.TruncIOp.of(value, result=ty)
        inherit_location(made, before)
        Rewriter.insert_op(made, InsertPoint.at_start(owner))
        return made.result

    def _end(self, use: Use) -> None:
        """Give the reader of a result what it reads now."""
        op, value = use.operation, use.operation.operands[use.index]
        if isinstance(op, arith.TruncIOp) and _width(op.results[0]) <= self.narrow.bits:
            low = self._made[value]
            same = _width(low) == _width(op.results[0])
            ty = op.results[0].type
            self._put(op, low if same else self._insert(arith.TruncIOp.of(low, result=ty), op))
        elif isinstance(op, arith.CmpiOp):
            signed = self.narrow.sign_of(*op.operands)
            name = op.predicate_name if signed else op.predicate_name.replace("s", "u", 1)
            low = [self._low(each, op) for each in op.operands]
            self._put(op, self._insert(arith.CmpiOp.compare(name, *low), op))
        elif isinstance(op, FromInteger):
            signed = self.narrow.sign_of(value) and isinstance(op, arith.SIToFPOp)
            kind = arith.SIToFPOp if signed else arith.UIToFPOp
            made = kind.of(self._made[value], result=op.results[0].type)
            self._put(op, self._insert(made, op))
        else:
            op.operands[use.index] = self._wide(value)

    def _put(self, op: Operation, value: SSAValue) -> None:
        """Put a value in the place of an operation."""
        op.results[0].replace_all_uses_with(value)
        Rewriter.erase_op(op)

    def _wide(self, value: SSAValue) -> SSAValue:
        """Return a result in its own type again."""
        low, owner = self._made[value], value.owner
        assert isinstance(owner, Operation)
        if value not in self._extended:
            kind = arith.ExtSIOp if self.narrow.sign_of(value) else arith.ExtUIOp
            # What was made of the operation stands behind it; what it extended, before it.
            behind = low.owner if isinstance(low.owner, Operation) else owner
            self._extended[value] = self._insert(kind.of(low, result=value.type), behind)
        return self._extended[value]

    def _insert(self, op: Operation, like: Operation) -> SSAValue:
        """Insert an operation behind another one, whose place in the program it has."""
        inherit_location(op, like)
        Rewriter.insert_op(op, InsertPoint.after(like))
        op.results[0].name_hint = like.results[0].name_hint
        return op.results[0]


def _numbers(op: Operation) -> list[SSAValue]:
    """The operands that an operation makes its result of, and neither chooses by nor says by where: conditions and offsets."""
    if isinstance(op, ExtractOp | ExtractSliceOp):
        return [op.source]
    return [value for value in op.operands if _width(value) > 1]


def _typed(value: SSAValue, bits: int) -> Attribute:
    element = IntegerType(bits)
    return T.tile_or_scalar(T.dims_of(value.type), element)


def _repeated(value: SSAValue) -> SSAValue:
    """What a value repeats, itself if nothing."""
    while isinstance(value.owner, REPEATING):
        value = value.owner.operands[0]
    return value


def _size(value: SSAValue) -> int:
    return prod(T.dims_of(value.type))


def _work(op: Operation, bits: int) -> int:
    """How many bits of vectors an operation handles whose numbers have so many, in units of an addition."""
    if isinstance(op, Rearrangement | arith.Extension):
        return 0
    size = _size(op.results[0]) if op.results else 0
    if isinstance(op, arith.TruncIOp):
        same = bits == _width(op.results[0])
        return 0 if same else _PACKING * size * bits
    if isinstance(op, Division):
        return size * bits * (_BYTE_QUOTIENT if bits == 8 else _QUOTIENT)
    if isinstance(op, arith.MuliOp) and bits == 64:
        return size * bits * _WIDE_PRODUCT
    if isinstance(op, ArithOp) and (isinstance(op, arith.CmpiOp) or _width(op.results[0])):
        return size * bits * (_BYTES.get(type(op), 1) if bits == 8 else 1)
    return 0
