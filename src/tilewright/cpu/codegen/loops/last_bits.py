"""The last bits of integers in the first lane of a vector, where their formula tells: positions are multiples of vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import gcd

from llvmlite import ir

from tilewright.cpu.codegen.ir.elements import I64, VOID
from tilewright.cpu.codegen.ir.types import Value
from tilewright.cpu.codegen.loops.indices import Coords, Index, Lane
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import (
    Elementwise,
    Mapped,
    Mapping,
    Range,
    Tile,
    Uniform,
)

Rest = tuple[int, int]
"""A remainder, and the power of two by which a number leaves it."""

_MOST = 1 << 12
#: How many operations are followed back.
_DEPTH = 24
_UNKNOWN: Rest = (0, 1)


def last_bits(tile: Tile, coords: Coords, path: Sequence[Mapping] = ()) -> Rest:
    """What the number of a tile in the first lane of a vector leaves by a power of two, which is 1 where nothing is known.

    ``coords`` are positions in a tile from which this one is reached by the mappings of ``path``. Numbers may wrap: the last
    bits stay. No code is made.
    """
    builder = ir.IRBuilder(
        ir.Function(ir.Module(), ir.FunctionType(VOID, []), "none").append_basic_block()
    )
    nest = LoopNest(builder)
    here: Coords | None = tuple(
        index if isinstance(index.base, int) else Index(_somewhere(), index.offsets, index.align)
        for index in coords
    )
    for mapping in path:
        here = None if here is None else mapping(nest, here)
    return _UNKNOWN if here is None else _of(tile, here, nest, _DEPTH)


def _somewhere() -> Lane:
    """A base of which nothing but its alignment is known; another one each time, as a nest remembers how each is aligned."""
    return Lane(ir.Constant(I64, 0))


def _of(tile: Tile, coords: Coords, nest: LoopNest, depth: int) -> Rest:
    """The same, no more bits of it than the elements have: what is above them is lost."""
    rest, modulus = _computed(tile, coords, nest, depth) if depth else _UNKNOWN
    register = tile.element.register
    bits = register.width if isinstance(register, ir.IntType) else 0
    return _reduced(rest, min(modulus, 1 << bits))


def _computed(tile: Tile, coords: Coords, nest: LoopNest, depth: int) -> Rest:
    if isinstance(tile, Uniform):
        return _of_scalar(tile.value)
    if isinstance(tile, Range):
        (index,) = coords
        first = 0 if index.offsets is None else index.offsets[0]
        base = index.base if isinstance(index.base, int) else 0
        start, modulus = _of_scalar(tile.start)
        align = modulus if isinstance(index.base, int) else index.align
        return _reduced(start + base + first, gcd(modulus, align))
    if isinstance(tile, Mapped):
        inner = tile.mapping(nest, coords)
        return _UNKNOWN if inner is None else _of(tile.source, inner, nest, depth - 1)
    if not isinstance(tile, Elementwise):
        return _UNKNOWN
    of = partial(_of, coords=coords, nest=nest, depth=depth - 1)
    if tile.name == "divi":
        return _quotient(of(tile.operands[0]), divisor_of(tile))
    if tile.name == "shli":
        by = constant_of(tile.operands[1])
        return _UNKNOWN if by is None else _shifted(of(tile.operands[0]), by)
    rule = _RULES.get(tile.name)
    return _UNKNOWN if rule is None else rule(*map(of, tile.operands))


def constant_of(tile: Tile) -> int | None:
    """The one known number of all elements of a tile."""
    while isinstance(tile, Mapped):
        tile = tile.source
    if isinstance(tile, Uniform) and isinstance(tile.value, ir.Constant):
        number = tile.value.constant
        return number if isinstance(number, int) else None
    return None


def divisor_of(tile: Elementwise) -> int:
    """The positive constant by which a tile of quotients divides, rounding down; 0 where it does not."""
    words = tile.emit.keywords if isinstance(tile.emit, partial) else {}
    signed = words.get("signedness", "signed") == "signed"
    if signed and words.get("rounding") != "negative_inf":
        return 0
    number = constant_of(tile.operands[1])
    return number if number is not None and number > 0 else 0


def _reduced(number: int, modulus: int) -> Rest:
    modulus = min(modulus, _MOST)
    return number % modulus, modulus


def _of_scalar(value: Value, depth: int = _DEPTH) -> Rest:
    if isinstance(value, ir.Constant):
        number = value.constant
        return _reduced(number, _MOST) if isinstance(number, int) else _UNKNOWN
    if not depth or not isinstance(value, ir.Instruction):
        return _UNKNOWN
    if value.opname == "shl":
        number, by = value.operands
        known = isinstance(by, ir.Constant) and isinstance(by.constant, int)
        return _shifted(_of_scalar(number, depth - 1), by.constant) if known else _UNKNOWN
    rule = _OF_OPCODES.get(value.opname)
    if rule is None:
        return _UNKNOWN
    rest, modulus = rule(*(_of_scalar(v, depth - 1) for v in value.operands))
    return _reduced(rest, min(modulus, 1 << min(v.type.width for v in value.operands)))


def _sum(lhs: Rest, rhs: Rest) -> Rest:
    return _reduced(lhs[0] + rhs[0], gcd(lhs[1], rhs[1]))


def _difference(lhs: Rest, rhs: Rest) -> Rest:
    return _reduced(lhs[0] - rhs[0], gcd(lhs[1], rhs[1]))


def _product(lhs: Rest, rhs: Rest) -> Rest:
    """``(r + m i) (s + n j)`` is ``r s`` and multiples of ``r n``, ``s m`` and ``m n``."""
    (r, m), (s, n) = lhs, rhs
    modulus = gcd(r * n, s * m, m * n)
    modulus &= -modulus
    return _reduced(r * s, modulus)


def _shifted(number: Rest, by: int) -> Rest:
    return _product(number, (1 << by, _MOST)) if 0 <= by < _MOST.bit_length() - 1 else _UNKNOWN


def _quotient(number: Rest, divisor: int) -> Rest:
    rest, modulus = number
    if not divisor or modulus % divisor:
        return _UNKNOWN
    return _reduced(rest // divisor, modulus // divisor)


def _same(number: Rest) -> Rest:
    return number


_RULES: dict[str, Callable[..., Rest]] = {
    "addi": _sum,
    "subi": _difference,
    "muli": _product,
    "exti": _same,
    "trunci": _same,
}
_OF_OPCODES: dict[str, Callable[..., Rest]] = {
    "add": _sum,
    "sub": _difference,
    "mul": _product,
    "sext": _same,
    "zext": _same,
}
