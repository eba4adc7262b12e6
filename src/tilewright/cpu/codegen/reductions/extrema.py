"""Extrema of floats as those of integers.

Tile IR orders zeros, and says what becomes of NaN. Processors that do neither take eight instructions for a minimum of two
floats; the bits of a float as an integer in the same order take three or four, once for each element, and one for a minimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir
from xdsl.ir import Operation

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import ELEMENTS, Element, bits_constant, element_of
from tilewright.cpu.codegen.ir.types import Builder, Constant, Value
from tilewright.cpu.codegen.loops.tiles import Elementwise, Tile, walk
from tilewright.cpu.target import CpuTarget
from tilewright.dialects.arith import MaximumfOp, MaxnumfOp, MinimumfOp, MinnumfOp
from tilewright.dialects.nv_tileaa.base import is_set

_LARGER, _PROPAGATING = (MaximumfOp, MaxnumfOp), (MaximumfOp, MinimumfOp)
_EXTREMA = (MaximumfOp, MaxnumfOp, MinimumfOp, MinnumfOp)
_HALVES = frozenset({"f16", "bf16"})


class Bits(Elementwise):
    """Elements as integers. Of those that are only read and moved, vectors hold as many as there are bits for."""

    __slots__ = ()

    @property
    def computed(self) -> tuple[Tile, ...]:
        """The sources, if something is computed of floats."""
        return self.sources if any(isinstance(t, Elementwise) for t in walk(*self.sources)) else ()


@dataclass(frozen=True, slots=True)
class Keys:
    """Integers in the order of the numbers of a float type, -0 below +0, for an extremum; NaN is above or below all numbers, so
    that it wins where it ``propagates``, and else loses."""

    element: Element
    larger: bool
    propagates: bool

    @property
    def integer(self) -> Element:
        """Their type."""
        return ELEMENTS[f"i{self.element.format.bits}"]

    @property
    def neutral(self) -> Constant:
        """What loses to every other one."""
        bits = self.element.format.bits
        return bits_constant(self.integer, 1 << bits - 1 if self.larger else (1 << bits - 1) - 1)

    @property
    def _nan_above(self) -> bool:
        return self.larger == self.propagates

    @property
    def _moved(self) -> int:
        """By how much integers in the order of the bits are moved, around the end of their range, so that NaN of both signs are
        on one side."""
        fmt = self.element.format
        by = (1 << fmt.bits - 1) - 1 - fmt.inf_bits
        return -by if self._nan_above else by

    def of(self, tile: Tile) -> Tile:
        """The keys of a tile."""
        return Bits(self.integer, tile.dims, (tile,), self.encode)

    def encode(self, b: Builder, x: Value) -> Value:
        """The keys of floats."""
        words = llvm.shaped(self.integer.register, x.type)
        key = _ordered(b, x if x.type == words else b.bitcast(x, words))
        return b.add(key, llvm.number(words, self._moved))

    def combine(self, b: Builder, x: Value, y: Value) -> Value:
        """The extremum of two keys."""
        return llvm.intrinsic(b, "smax" if self.larger else "smin", [x, y])

    def decode(self, b: Builder, key: Value) -> Value:
        """The floats of keys; the canonical NaN of all that are NaN."""
        fmt, words = self.element.format, key.type
        bits = _ordered(b, b.sub(key, llvm.number(words, self._moved)))
        if self._nan_above:
            is_nan = b.icmp_signed(">", key, llvm.number(words, fmt.inf_bits + self._moved))
        else:
            is_nan = b.icmp_signed("<", key, llvm.number(words, ~fmt.inf_bits + self._moved))
        found = b.select(is_nan, llvm.number(words, fmt.nan_bits), bits)
        register = llvm.shaped(self.element.register, words)
        return found if register == words else b.bitcast(found, register)


def keys_of(ops: Sequence[Operation], target: CpuTarget) -> tuple[Keys, ...] | None:
    """The keys for a body that is one extremum for each operand, where they are cheaper: AVX-512 has an instruction that orders
    zeros in f32, and other processors one that does both."""
    found: list[Keys] = []
    for op in ops:
        if not isinstance(op, _EXTREMA) or is_set(op, "flush_to_zero") or not target.is_x86:
            return None
        element = element_of(op.results[0].type)
        if element.name not in _HALVES and (element.name != "f32" or target.has("avx512dq")):
            return None
        found.append(Keys(element, isinstance(op, _LARGER), isinstance(op, _PROPAGATING)))
    return tuple(found)


def _ordered(b: Builder, bits: Value) -> Value:
    """All bits but the sign flipped where the sign is set, which is what turns them back, too."""
    scalar = llvm.scalar_of(bits.type)
    assert isinstance(scalar, ir.IntType)
    sign = b.ashr(bits, llvm.number(bits.type, scalar.width - 1))
    return b.xor(bits, b.lshr(sign, llvm.number(bits.type, 1)))
