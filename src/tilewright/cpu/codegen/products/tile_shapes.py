"""Which products registers with two axes (AMX) take, and in which pieces.

A register holds 16 rows of 64 bytes.
"""

from __future__ import annotations

from tilewright.cpu.codegen.ir.elements import Element
from tilewright.cpu.target import CpuTarget

ROWS = 16
ROW_BYTES = 64
WORD = 4
"""The bytes of a group of neighbours along k, and of a result."""
COLUMNS = 32
"""Of one strip of the right operand at most: the groups of two registers."""
#: Shorter rows of the left operand are not worth setting registers up, in bytes.
_SHORTEST_ROW = 32
_FLOATS, _BYTES = "amx-bf16", "amx-int8"


def has(target: CpuTarget, product: str) -> bool:
    """Whether a target has such registers and this instruction for them; an empty name is none."""
    feature = _FLOATS if product == "tdpbf16ps" else _BYTES
    return bool(product) and target.has("amx-tile") and target.has(feature)


def fits(element: Element, m: int, n: int, k: int) -> bool:
    """Whether a product of such factors, of extents M, N, K, can be made in such registers."""
    whole = m % ROWS == 0 and n % min(n, COLUMNS) == 0 and n % (ROW_BYTES // WORD) == 0
    deep = k * element.buffer_bytes >= _SHORTEST_ROW and k % depth_of(element, k) == 0
    return whole and deep


def depth_of(element: Element, k: int) -> int:
    """How many terms one instruction adds in a product of ``k``: those that a row of a tile register holds."""
    return min(ROW_BYTES // element.buffer_bytes, k)
