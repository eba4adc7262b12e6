"""Tile IR bytecode, versions 13.1 to 13.5: ``read``, ``write`` and ``is_bytecode``.

The functions are loaded when first used, so that importing this package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.bytecode.format import is_bytecode
    from tilewright.bytecode.reader import read
    from tilewright.bytecode.writer import write

_LAZY = {
    "is_bytecode": "tilewright.bytecode.format",
    "read": "tilewright.bytecode.reader",
    "write": "tilewright.bytecode.writer",
}

__all__ = ["is_bytecode", "read", "write"]


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
