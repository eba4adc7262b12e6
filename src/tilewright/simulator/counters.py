"""What a run counts."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tilewright.numerics.arrays import Array

_BANKS = 32
_BANK_BYTES = 4
#: What all banks bring at once.
_WAVE_BYTES = _BANKS * _BANK_BYTES


@dataclass(slots=True)
class Counters:
    """Totals over all blocks. Bytes are those of active lanes; ``*_accesses`` count warps.

    ``shared_waves`` is how many times the banks were used, ``bank_conflicts`` how many of these
    more than the amount of data needs. ``tensor_operations`` are multiplications and additions.
    """

    global_bytes_read: int = 0
    global_bytes_written: int = 0
    shared_bytes_read: int = 0
    shared_bytes_written: int = 0
    local_bytes: int = 0
    async_copy_bytes: int = 0
    tma_bytes_loaded: int = 0
    tma_bytes_stored: int = 0
    shared_accesses: int = 0
    shared_waves: int = 0
    bank_conflicts: int = 0
    mma_instructions: int = 0
    wgmma_instructions: int = 0
    tensor_operations: int = 0
    barriers: int = 0
    mbarrier_waits: int = 0
    _waves: dict[bytes, tuple[int, int]] = field(default_factory=dict, repr=False)

    def shared_access(self, addresses: Array, size: int) -> None:
        """A warp accesses ``size`` bytes at each byte address of active lanes."""
        self.shared_accesses += 1
        if not addresses.size:
            return
        base = int(addresses[0]) // _WAVE_BYTES * _WAVE_BYTES
        key = (addresses - base).tobytes() + bytes([size])
        found = self._waves.get(key)
        if found is None:
            found = self._waves[key] = _waves_of(addresses, size)
        self.shared_waves += found[0]
        self.bank_conflicts += found[1]

    def as_dict(self) -> dict[str, int]:
        return {k: v for k, v in asdict(self).items() if not k.startswith("_")}


def _waves_of(addresses: Array, size: int) -> tuple[int, int]:
    """How many waves an access takes, and how many more than the words that it needs."""
    # Accesses of 8 and 16 bytes go by halves and quarters of the warp.
    lanes = max(1, min(addresses.size, _WAVE_BYTES // max(size, _BANK_BYTES)))
    waves = ideal = 0
    for first in range(0, addresses.size, lanes):
        part = addresses[first : first + lanes]
        offsets = np.arange(0, max(size, 1), _BANK_BYTES)
        words = np.unique((part[:, None] + offsets[None, :]) // _BANK_BYTES)
        waves += int(np.bincount(words % _BANKS).max())
        ideal += -(-words.size // _BANKS)
    return waves, waves - ideal
