"""The layout of a block's shared memory: static, dynamic, and barriers."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Of memory that says nothing itself: as compilers align it, and where dynamic memory begins.
DEFAULT_ALIGNMENT, DYNAMIC_ALIGNMENT = 16, 1024
_GRANULE = 1024


@dataclass(slots=True)
class SharedLayout:
    """Byte offsets, given out one after the other."""

    dynamic_bytes: int = 0
    static_bytes: int = 0
    names: dict[str, int] = field(default_factory=dict)
    parts: list[tuple[int, int, str]] = field(default_factory=list)

    def reserve(self, size: int, alignment: int, name: str) -> int:
        """The offset of new memory."""
        offset = -(-self.static_bytes // alignment) * alignment
        self.static_bytes = offset + size
        self.parts.append((offset, size, name))
        return offset

    def named(self, name: str, size: int, alignment: int) -> int:
        """The offset of the memory of that name, which is reserved once."""
        if name not in self.names:
            self.names[name] = self.reserve(size, alignment, name)
        return self.names[name]

    @property
    def dynamic_offset(self) -> int:
        """Where dynamic shared memory begins, in bytes: behind all that is known, aligned."""
        return -(-self.static_bytes // DYNAMIC_ALIGNMENT) * DYNAMIC_ALIGNMENT

    @property
    def total_bytes(self) -> int:
        """What a block needs."""
        return self.dynamic_offset + self.dynamic_bytes if self.dynamic_bytes else self.static_bytes

    @property
    def buffer_bytes(self) -> int:
        """The same, rounded up for accesses of any width."""
        return -(-max(self.total_bytes, 1) // _GRANULE) * _GRANULE
