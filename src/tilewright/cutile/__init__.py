"""cuTile programs without a GPU: NVIDIA's own front end, our machines.

    tilewright.cutile.launch(stream, grid, kernel, args)

    with tilewright.cutile.on("reference"):
        cuda.tile.launch(stream, grid, kernel, args)

Importing this needs neither ``cuda-tile`` nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.cutile.compilation import Compiled, compile
    from tilewright.cutile.errors import KernelError, RefusedError
    from tilewright.cutile.frontend import FrontEndError
    from tilewright.cutile.launching import launch
    from tilewright.cutile.scope import on

_HOMES = {
    "Compiled": "compilation",
    "FrontEndError": "frontend",
    "KernelError": "errors",
    "RefusedError": "errors",
    "compile": "compilation",
    "launch": "launching",
    "on": "scope",
}

__all__ = [
    "Compiled",
    "FrontEndError",
    "KernelError",
    "RefusedError",
    "compile",
    "launch",
    "on",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
