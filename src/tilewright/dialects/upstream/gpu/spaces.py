"""Memory spaces: the numbers of NVVM, and the names of the ``gpu`` dialect for the same."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, MemRefType, NoneAttr, UnrankedMemRefType
from xdsl.ir import Attribute

from tilewright.dialects.upstream.gpu.attributes import AddressSpaceAttr

GLOBAL, SHARED, LOCAL = 1, 3, 5
_NUMBERS = {"global": GLOBAL, "workgroup": SHARED, "private": LOCAL}


def space_number(space: Attribute) -> int | None:
    """The number of a memory space; 0 where none is given, None for one that is not known."""
    if isinstance(space, NoneAttr):
        return 0
    if isinstance(space, AddressSpaceAttr):
        return _NUMBERS[space.keyword]
    return space.value.data if isinstance(space, IntegerAttr) else None


def is_shared(memref: MemRefType | UnrankedMemRefType) -> bool:
    """Whether a memref lies in shared memory."""
    return space_number(memref.memory_space) == SHARED
