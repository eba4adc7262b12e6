"""Which bits of positions come from which counters of loops.

All extents of tiles are powers of two, so that moving a position from shape to shape takes its bits apart and puts them together
again. Where it is known what they are bits of, that takes no instructions: the high bits of ``row * 64 + column`` are the row again, for
each vector of its columns, whatever the reshape between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tilewright.cpu.codegen.loops.indices import Lane

#: The width of positions.
WORD = 64


@dataclass(frozen=True, slots=True)
class Field:
    """Bits ``low`` up to ``high`` of a value, moved to ``shift``."""

    base: Lane
    low: int
    high: int
    shift: int

    @property
    def key(self) -> tuple[int, ...]:
        """The same for the same number."""
        return id(self.base.value), self.low, self.high, self.shift

    @property
    def mask(self) -> int:
        """The bits that it can set."""
        return ((1 << (self.high - self.low)) - 1) << self.shift

    def followed_by(self, other: Field) -> bool:
        """Whether the other has the next bits of the value, and in their place."""
        return (
            self.base.value is other.base.value
            and self.high == other.low
            and self.low - self.shift == other.low - other.shift
        )

    def after(self, op: str, amount: int) -> Field | None:
        """What ``mul`` by a power of two, ``and`` with one less than such, or ``lshr`` makes of it; None: nothing."""
        low, high, shift = self.low, self.high, self.shift
        if op == "mul":
            shift += amount.bit_length() - 1
        elif op == "and":
            high = min(high, low + amount.bit_length() - shift)
        else:
            low, shift = low + max(amount - shift, 0), max(shift - amount, 0)
        return Field(self.base, low, high, shift) if low < high else None


@dataclass(frozen=True, slots=True)
class Bits:
    """The sum of fields, the lowest first, and a known number. No two of them share a bit."""

    fields: tuple[Field, ...]
    known: int = 0

    @property
    def key(self) -> tuple[object, ...]:
        """The same for the same number."""
        return "bits", self.known, *(field.key for field in self.fields)

    @property
    def parts(self) -> int:
        """Of how many parts the number is put together."""
        return len(self.fields) + bool(self.known)

    @property
    def mask(self) -> int:
        """The bits that can be set."""
        found = self.known
        for field in self.fields:
            found |= field.mask
        return found

    def after(self, op: str, amount: int) -> Bits:
        """What an operation of ``Field.after`` makes of them."""
        made = [field.after(op, amount) for field in self.fields]
        known = {
            "mul": self.known * amount,
            "and": self.known & amount,
            "lshr": self.known >> amount if op == "lshr" else 0,
        }
        return Bits(tuple(field for field in made if field is not None), known[op])

    def plus(self, other: Bits) -> Bits | None:
        """The sum; None where bits meet."""
        if self.mask & other.mask:
            return None
        fields = sorted((*self.fields, *other.fields), key=lambda field: field.shift)
        return Bits(_joined(fields), self.known | other.known)


def bits_below(base: Lane, end: int, align: int) -> Bits:
    """A value from 0 up to ``end``, a multiple of ``align``."""
    low = min(align.bit_length() - 1, WORD - 1)
    return Bits((Field(base, low, max((end - 1).bit_length(), low + 1), low),))


def _joined(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Fields of which none follows another."""
    found = list(fields[:1])
    for last, field in pairwise(fields):
        if last.followed_by(field):
            found[-1] = Field(field.base, found[-1].low, field.high, found[-1].shift)
        else:
            found.append(field)
    return tuple(found)
