"""What the scheduling passes need to know about a GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

#: The shared memory that a block may take on every architecture from sm_80 on.
LEAST_SHARED_BYTES = 99 << 10
#: The registers of a multiprocessor, of 32 bits.
REGISTERS = 1 << 16
#: What each block takes of a multiprocessor's shared memory beside its own.
RESERVED_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Target:
    """An architecture by its name (``sm_90a``), the shared memory that a block may take there, and whether
    a launch can make tensor ``maps``."""

    arch: str = "sm_80"
    shared_bytes: int = LEAST_SHARED_BYTES
    maps: bool = True

    @property
    def compute(self) -> int:
        """The compute capability, times ten."""
        found = re.match(r"sm_(\d+)", self.arch)
        return int(found[1]) if found else 0

    @property
    def has_wgmma(self) -> bool:
        """Whether warpgroups make products of matrices in shared memory."""
        return self.arch == "sm_90a"

    @property
    def trades_registers(self) -> bool:
        """Whether warpgroups give registers to one another (``setmaxnreg``)."""
        return self.compute >= 90 and self.arch.endswith("a")

    @property
    def multiprocessor_bytes(self) -> int:
        """The shared memory of a multiprocessor, which the blocks on it share."""
        if self.compute in (86, 89) or self.compute >= 120:
            return 100 << 10
        return (164 if self.compute < 90 else 228) << 10

    def shared_by(self, blocks: int) -> Target:
        """The target with what shared memory a block may take if ``blocks`` of them share a multiprocessor.

        In steps of 128 bytes, less what the system takes of each block (CUDA C++ Programming Guide, compute
        capabilities).
        """
        each = self.multiprocessor_bytes // max(blocks, 1) // 128 * 128 - RESERVED_BYTES
        return replace(self, shared_bytes=max(min(self.shared_bytes, each), 0))

    def byte_floats(self, fast: bool) -> str:
        """How ``mma.sync`` makes products of floats of 8 bits, as ``nv_tileas.dot`` says it: by itself,
        by f16 to which threads widen them, or (empty) not, for lack of an instruction that converts them.

        Ada keeps 13 bits below the largest of 16 products, and 14 of a sum, which is less than what
        products promise, unless they are ``fast``. From sm_90 to sm_103 the instruction is made of
        conversions and products of f16.
        """
        if self.compute >= 120 or (fast and self.compute == 89):
            return "mma_sync"
        return "mma_sync_f16" if self.compute >= 89 else ""

    @property
    def adds_coarsely(self) -> bool:
        """Whether there are products of floats of 8 bits that keep fewer bits than f32 has."""
        return self.compute == 89 or self.has_wgmma

    @property
    def has_tma(self) -> bool:
        """Whether boxes of tensors are copied by descriptors, and barriers count their bytes."""
        return self.compute >= 90 and self.maps
