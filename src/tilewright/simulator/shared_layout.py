"""The layout of a block's shared memory: static, dynamic, and barriers."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Alignment of memory that does not specify one, and of dynamic shared memory, in bytes.
DEFAULT_ALIGNMENT, DYNAMIC_ALIGNMENT = 16, 1024
_GRANULE = 1024


@dataclass(slots=True)
class SharedLayout:
    """Allocates byte offsets in ascending order."""

    dynamic_bytes: int = 0
    static_bytes: int = 0
    names: dict[str, int] = field(default_factory=dict)
    parts: list[tuple[int, int, str]] = field(default_factory=list)

    def reserve(self, size: int, alignment: int, name: str) -> int:
        """Allocate ``size`` bytes; returns their offset in bytes, a multiple of ``alignment``."""
        offset = -(-self.static_bytes // alignment) * alignment
        self.static_bytes = offset + size
        self.parts.append((offset, size, name))
        return offset

    def named(self, name: str, size: int, alignment: int) -> int:
        """The offset of the memory of this name, allocated on first use."""
        if name not in self.names:
            self.names[name] = self.reserve(size, alignment, name)
        return self.names[name]

    @property
    def dynamic_offset(self) -> int:
        """The offset of dynamic shared memory in bytes, after all static memory, aligned."""
        return -(-self.static_bytes // DYNAMIC_ALIGNMENT) * DYNAMIC_ALIGNMENT

    @property
    def total_bytes(self) -> int:
        """The shared memory of a block, in bytes."""
        return self.dynamic_offset + self.dynamic_bytes if self.dynamic_bytes else self.static_bytes

    @property
    def buffer_bytes(self) -> int:
        """``total_bytes``, rounded up so that accesses of any width stay within the buffer."""
        return -(-max(self.total_bytes, 1) // _GRANULE) * _GRANULE
