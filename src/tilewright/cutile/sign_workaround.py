"""Negative f64 attributes as cuTile 1.7 writes them: with a sign that readers do not find.

cuTile doubles the 64 bits of the number where the format wants a zigzag code, so that the sign is bit 64
of a varint, which all readers drop, NVIDIA's included. The identities of ``ct.max`` and ``ct.argmax``
of float64 are such numbers: plus instead of minus infinity. Neither NVIDIA's compiler nor the machines
here make use of identities, so that no result is wrong; but what is shown of a kernel would be.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.bytecode.encoding import zigzag
from tilewright.bytecode.format import DROPPED_BITS
from tilewright.diagnostics import ByteSpan, Diagnostic
from tilewright.numerics.element_types import signed


def with_signs(bytecode: bytes, warnings: Iterable[Diagnostic]) -> bytes | None:
    """The bytecode with its signs where readers find them; None where none is lost.

    ``warnings`` are those of reading it.
    """
    found = bytearray(bytecode)
    for warning in warnings:
        if warning.code == DROPPED_BITS and isinstance(warning.location, ByteSpan):
            start, end = warning.location.offset, warning.location.end
            bits = _varint(bytecode[start:end]) >> 1
            found[start:end] = _varint_of_size(zigzag(signed(bits, 64)), end - start)
    return None if found == bytecode else bytes(found)


def _varint(data: bytes) -> int:
    return sum((byte & 0x7F) << 7 * position for position, byte in enumerate(data))


def _varint_of_size(value: int, size: int) -> bytes:
    """A varint of that many bytes, the upper ones perhaps without bits."""
    parts = [value >> 7 * position & 0x7F | 0x80 for position in range(size)]
    parts[-1] &= 0x7F
    return bytes(parts)
