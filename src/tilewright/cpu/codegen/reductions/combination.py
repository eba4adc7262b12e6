"""What reductions and scans combine, and how: a body, on the elements of tiles along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir
from xdsl.ir import Operation, SSAValue

from tilewright.analysis.tileaa.choices import choice_of, rising_operands
from tilewright.cpu.codegen.elementwise.float_keys import Keys
from tilewright.cpu.codegen.elementwise.floats import canonical_nan
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I32, Element, bits_constant, element_of
from tilewright.cpu.codegen.ir.types import Builder, Constant, Value
from tilewright.cpu.codegen.loops.indices import Coords, Index, Lane
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Elementwise, Strided, Tile, store_at
from tilewright.cpu.codegen.reductions.extrema import as_keys, keys_of
from tilewright.cpu.codegen.reductions.vector_bodies import ElementBody
from tilewright.dialects import facts
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa.base import is_set
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp, ScanOp
from tilewright.numerics.floats import float_to_bits

_LONG_BODY = 64
_CHEAP = frozenset({"addf", "mulf", "addi", "andi", "ori", "xori"})
_DROPPING_NAN = frozenset({"arith.maxnumf", "arith.minnumf"})


@dataclass(frozen=True, slots=True)
class Combination:
    """What a reduce or scan works on."""

    tiles: tuple[Tile, ...]
    axis: int
    body: Callable[..., list[Value]]
    """``body(builder, accumulators and elements, in_order=...)``."""
    neutral: tuple[Constant, ...] | None
    """What the accumulators may begin with, where the body is one commutative operation for each."""
    chooses: bool = False
    """Whether the body gives one of two elements, the same from either side: in any order, and an
    element as often as one likes."""

    size: int = 0
    """How many operations the body has."""
    is_cheap: bool = False
    """Whether the body is one instruction for each operand."""
    keys: tuple[Keys, ...] | None = None
    """Which integers the tiles hold in the place of floats."""

    @property
    def is_long(self) -> bool:
        """Whether the body has so many operations that it should not be repeated to have several at once."""
        return self.size > _LONG_BODY

    @property
    def commutes(self) -> bool:
        """Whether elements may be taken in any order."""
        return self.neutral is not None or self.chooses

    @property
    def dims(self) -> tuple[int, ...]:
        """The extents of the tiles, which all have the same."""
        return self.tiles[0].dims

    @property
    def elements(self) -> tuple[Element, ...]:
        """The element type of each tile."""
        return tuple(tile.element for tile in self.tiles)

    @property
    def has_floats(self) -> bool:
        """Whether there are floats in registers among what is accumulated."""
        return any(not isinstance(tile.element.register, ir.IntType) for tile in self.tiles)

    def finished(self, b: Builder, values: Sequence[Value]) -> list[Value]:
        """The results of accumulated values."""
        if self.keys is None:
            return list(values)
        return [key.decode(b, value) for key, value in zip(self.keys, values, strict=True)]

    def start(self, lanes: int) -> list[Value]:
        """What the accumulators hold before the first element."""
        if self.neutral is not None:
            return [llvm.splat_constant(value, lanes) for value in self.neutral]
        return [llvm.splat_constant(bits_constant(e, 0), lanes) for e in self.elements]

    def first_or_step(
        self,
        b: Builder,
        elements: Sequence[Value],
        state: Sequence[Value],
        index: Index,
        *,
        looped: bool,
    ) -> list[Value]:
        """The accumulated values after the elements of an iteration: at index 0 the elements alone."""
        if not looped:
            return list(elements)
        # One that chooses begins with its first elements, and then takes them in the order of the axis.
        after = self.step(b, elements, state, in_order=self.chooses)
        if self.neutral is not None or self.chooses:
            return after
        assert isinstance(index.base, Lane)
        counter = index.base.value
        is_first = b.icmp_unsigned("==", counter, ir.Constant(counter.type, 0))
        pairs = zip(elements, after, strict=True)
        return [
            b.select(is_first, llvm.splat(b, element, llvm.lanes_of(found.type)), found)
            for element, found in pairs
        ]

    def step(
        self,
        b: Builder,
        elements: Sequence[Value],
        state: Sequence[Value],
        *,
        in_order: bool = False,
    ) -> list[Value]:
        """The accumulated values after one more element; ``in_order``: none that comes before."""
        lanes = max(llvm.lanes_of(v.type) for v in (*elements, *state))
        pairs = zip(state, elements, strict=True)
        spread = [llvm.splat(b, v, lanes) for pair in pairs for v in pair]
        return self.body(b, spread, in_order=in_order)

    def across_lanes(self, b: Builder, state: Sequence[Value]) -> list[Value]:
        """The lanes combined into scalars: halves if the body commutes, else neighbours, the lower ones first."""
        values = list(state)
        while (lanes := llvm.lanes_of(values[0].type)) > 1:
            halves = (
                (range(lanes // 2), range(lanes // 2, lanes))
                if self.commutes
                else (range(0, lanes, 2), range(1, lanes, 2))
            )
            lower, upper = ([llvm.shuffle(b, v, v, half) for v in values] for half in halves)
            values = self.step(b, upper, lower)
        if llvm.lanes_of(values[0].type):
            values = [b.extract_element(v, ir.Constant(I32, 0)) for v in values]
        return values


def combination_of(
    f: FunctionEmitter, op: ReduceOp | ScanOp, tiles: Sequence[Tile], *, by_keys: bool = True
) -> Combination:
    """How the elements of these tiles are combined; a remark tells why where they keep their order. ``by_keys``: extrema of
    floats may be taken of integers."""
    block = op.regions[0].blocks[0]
    ascending = isinstance(op, ReduceOp) or not is_set(op, "reverse")
    body = ElementBody(f, block, rising_operands(op) if ascending else frozenset())
    axis = int_property(op, "axis")
    neutral = _neutral(body)
    chooses = False
    if neutral is None:
        choice = choice_of(op)
        chooses = choice.any_order
        if not chooses and isinstance(op, ReduceOp):
            message = f"a reduction keeps the order of its elements: {choice.reason}"
            f.unit.remarks.add("reduction", message, op)
    if neutral is not None:
        *extrema, _ = block.ops
        if by_keys and (keys := keys_of(extrema, f.unit.target)) is not None:
            return _by_keys(tiles, axis, keys)
        tiles = _canonical(f, op, tiles, body)
    size = sum(1 for _ in block.walk())
    is_cheap = neutral is not None and all(facts.meaning(op) in _CHEAP for op in [*block.ops][:-1])
    return Combination(tuple(tiles), axis, body, neutral, chooses, size, is_cheap)


def _by_keys(tiles: Sequence[Tile], axis: int, keys: tuple[Keys, ...]) -> Combination:
    def combine(b: Builder, values: Sequence[Value], **_: object) -> list[Value]:
        pairs = zip(keys, values[::2], values[1::2], strict=True)
        return [key.combine(b, *pair) for key, *pair in pairs]

    held = tuple(as_keys(key, tile) for key, tile in zip(keys, tiles, strict=True))
    return Combination(
        held, axis, combine, tuple(key.neutral for key in keys), size=len(keys), keys=keys
    )


def _canonical(
    f: FunctionEmitter, op: ReduceOp | ScanOp, tiles: Sequence[Tile], body: ElementBody
) -> list[Tile]:
    """The tiles, and for extrema that drop NaN with the canonical one for every other: then no step has to
    ask what the accumulator holds, which begins with that one."""
    known: set[SSAValue] = set()
    found: list[Tile] = []
    for number, (combine, tile) in enumerate(zip(body.block.ops, tiles, strict=False)):
        if combine.name in _DROPPING_NAN and tile.element.name in ("f32", "f64"):
            known.update(body.block.args[2 * number : 2 * number + 2])
            if op.operands[number] not in f.canonical:
                tile = Elementwise(tile.element, tile.dims, (tile,), canonical_nan)
        found.append(tile)
    body.canonical = known
    return found


def _neutral(body: ElementBody) -> tuple[Constant, ...] | None:
    """The numbers that a body leaves all others as they are with: one commutative operation for each
    pair of its arguments."""
    *ops, end = body.block.ops
    arguments = body.block.args
    if 2 * len(ops) != len(arguments) or list(end.operands) != [op.results[0] for op in ops]:
        return None
    pairs = [set(arguments[i : i + 2]) for i in range(0, len(arguments), 2)]
    found: list[Constant] = []
    for op, pair in zip(ops, pairs, strict=True):
        value = _neutral_of(op) if set(op.operands) == pair else None
        if value is None:
            return None
        found.append(value)
    return tuple(found)


def _neutral_of(only: Operation) -> Constant | None:
    """The number that a commutative operation leaves every other as it is with."""
    element = element_of(only.results[0].type)
    number = facts.neutral(only, element.format.bits)
    if number is None:
        return None
    is_float = element.format.is_float
    return bits_constant(
        element, float_to_bits(number, element.format) if is_float else int(number)
    )


def with_axis(coords: Sequence[Index], axis: int, index: Index) -> Coords:
    """The places along all axes, of those along the others and one along this axis."""
    return (*coords[:axis], index, *coords[axis:])


def elements_at(
    nest: LoopNest, combination: Combination, coords: Sequence[Index], index: Index
) -> list[Value]:
    """The elements of each operand at places along the axis."""
    at = with_axis(coords, combination.axis, index)
    return [nest.vector(tile, at) for tile in combination.tiles]


def put_at(
    nest: LoopNest, targets: Sequence[Strided], coords: Coords, values: Sequence[Value]
) -> None:
    """Write the values at a place of each target."""
    for target, value in zip(targets, values, strict=True):
        store_at(nest, target.pointer, target.element, target.offset(nest, coords), value)


def together(nest: LoopNest, combination: Combination, after: list[Value]) -> list[Value]:
    """The accumulators of several rounds combined into those of one."""
    b, count = nest.inner, len(combination.tiles)
    rounds = len(after) // count
    while rounds > 1:
        half = rounds // 2 * count
        pairs = [
            combination.step(b, after[half + i : half + i + count], after[i : i + count])
            for i in range(0, half, count)
        ]
        after, rounds = [value for pair in pairs for value in pair], rounds // 2
    return after
