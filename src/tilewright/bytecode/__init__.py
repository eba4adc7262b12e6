"""Tile IR bytecode, versions 13.1 to 13.5: ``read``, ``write`` and ``is_bytecode``.

The functions are loaded on first use, so importing this package is nearly free.
"""

from typing import TYPE_CHECKING

from tilewright.lazy import lazy_names

if TYPE_CHECKING:
    from tilewright.bytecode.format import is_bytecode
    from tilewright.bytecode.reader import read
    from tilewright.bytecode.writer import write


__all__ = ["is_bytecode", "read", "write"]

__getattr__, __dir__ = lazy_names(
    globals(), {"format": "is_bytecode", "reader": "read", "writer": "write"}
)
