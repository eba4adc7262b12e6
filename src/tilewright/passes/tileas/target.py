"""What a schedule asks of a GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: The shared memory that a block may take on every architecture from sm_80 on.
LEAST_SHARED_BYTES = 99 << 10


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
    def has_tma(self) -> bool:
        """Whether boxes of tensors are copied by descriptors, and barriers count their bytes."""
        return self.compute >= 90 and self.maps
