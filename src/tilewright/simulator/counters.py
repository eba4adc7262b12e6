"""Performance counters of a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from tilewright.numerics.arrays import Array
    from tilewright.simulator.state import Warp

_BANKS = 32
_BANK_BYTES = 4
#: The bytes that all banks transfer at once.
_WAVE_BYTES = _BANKS * _BANK_BYTES


@dataclass(slots=True)
class Counters:
    """Totals over all blocks. Bytes are those of active lanes; ``*_accesses`` count warps.

    ``shared_waves`` is the number of bank cycles, ``bank_conflicts`` how many of them exceed the minimum for the data.
    ``tensor_operations`` are multiplications and additions.
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

    def shared_access(
        self, addresses: Array, size: int, warp: Warp, op: Operation, count: int = 1
    ) -> None:
        """Count an access of ``size`` bytes at each address; ``addresses`` has equal shares for ``count`` warps.

        They are those of active lanes, in bytes (int64).
        """
        self.shared_accesses += count
        if not addresses.size:
            return
        base = int(addresses[0]) // _WAVE_BYTES * _WAVE_BYTES
        waves, more = _waves_of_all((addresses - base).tobytes(), size, count)
        self.shared_waves += waves
        self.bank_conflicts += more
        if warp.launch.recorder is not None:
            warp.launch.recorder.shared(warp, op, waves, waves - more, count)

    def as_dict(self) -> dict[str, int]:
        """The counters by name, as in reports and JSON."""
        return asdict(self)


@lru_cache(1 << 14)
def _waves_of_all(addresses: bytes, size: int, count: int) -> tuple[int, int]:
    """The totals of ``waves_of`` over the shares of the addresses, which are int64."""
    shares = np.split(np.frombuffer(addresses, np.int64), count)
    found = [waves_of(share, size) for share in shares]
    return sum(waves for waves, _ in found), sum(more for _, more in found)


def waves_of(addresses: Array, size: int) -> tuple[int, int]:
    """The waves of an access, and how many of them exceed the minimum.

    ``addresses`` are those of active lanes, in bytes, at each of which lie ``size`` bytes. A wave moves a word of 4
    bytes of each of the 32 banks; lanes that want the same word share it (CUDA C++ Programming Guide, shared memory).
    """
    # Accesses of 8 and 16 bytes are split into halves and quarters of the warp.
    lanes = max(1, min(addresses.size, _WAVE_BYTES // max(size, _BANK_BYTES)))
    waves = ideal = 0
    for first in range(0, addresses.size, lanes):
        part = addresses[first : first + lanes]
        offsets = np.arange(0, max(size, 1), _BANK_BYTES)
        words = np.unique((part[:, None] + offsets[None, :]) // _BANK_BYTES)
        waves += int(np.bincount(words % _BANKS).max())
        ideal += -(-words.size // _BANKS)
    return waves, waves - ideal
