"""Floats as integers in the same order.

Tile IR orders zeros, and says what becomes of NaN. Processors that do neither take seven instructions for the extremum of two
floats; integers in the order of the floats take three or four, once for each element, and one for each extremum.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import ELEMENTS, Element, bits_constant
from tilewright.cpu.codegen.ir.types import Builder, Constant, Value
from tilewright.cpu.target import CpuTarget

_HALVES = frozenset({"f16", "bf16"})


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

    def encode(self, b: Builder, x: Value) -> Value:
        """The keys of floats."""
        words = llvm.shaped(self.integer.register, x.type)
        ordered = llvm.key_of(b, x)
        if ordered is None:
            ordered = _ordered(b, x if x.type == words else b.bitcast(x, words))
        return b.add(ordered, llvm.number(words, self._moved))

    def combine(self, b: Builder, x: Value, y: Value) -> Value:
        """The extremum of two keys."""
        return llvm.intrinsic(b, "smax" if self.larger else "smin", [x, y])

    def decode(self, b: Builder, key: Value) -> Value:
        """The floats of keys; the canonical NaN of all that are NaN."""
        fmt, words = self.element.format, key.type
        ordered = b.sub(key, llvm.number(words, self._moved))
        if self._nan_above:
            is_nan = b.icmp_signed(">", key, llvm.number(words, fmt.inf_bits + self._moved))
        else:
            is_nan = b.icmp_signed("<", key, llvm.number(words, ~fmt.inf_bits + self._moved))
        found = b.select(is_nan, llvm.number(words, fmt.nan_bits), _ordered(b, ordered))
        register = llvm.shaped(self.element.register, words)
        found = found if register == words else b.bitcast(found, register)
        # Another extremum goes on with the key, in whatever order it asks for, as moving it is one addition.
        llvm.set_key(b, found, ordered)
        return found


def extremum(keys: Keys, b: Builder, x: Value, y: Value) -> Value:
    """An extremum of floats that is one of many on the same values."""
    return keys.decode(b, keys.combine(b, keys.encode(b, x), keys.encode(b, y)))


def has_keys(element: Element, target: CpuTarget) -> bool:
    """Whether extrema of keys are cheaper than those of the floats: AVX-512 has an instruction that orders zeros of f32, other
    processors than x86 have one that does it all, and AVX2 has no extrema of 64 bits."""
    if not target.is_x86:
        return False
    return element.name in _HALVES or (element.name == "f32" and not target.has("avx512dq"))


def _ordered(b: Builder, bits: Value) -> Value:
    """All bits but the sign flipped where the sign is set, which is what turns them back, too."""
    scalar = llvm.scalar_of(bits.type)
    assert isinstance(scalar, ir.IntType)
    sign = b.ashr(bits, llvm.number(bits.type, scalar.width - 1))
    return b.xor(bits, b.lshr(sign, llvm.number(bits.type, 1)))
