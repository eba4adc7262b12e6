"""cuTile programs without a GPU: NVIDIA's own front end, our machines.

    tilewright.cutile.launch(stream, grid, kernel, args)

    with tilewright.cutile.on("reference"):
        cuda.tile.launch(stream, grid, kernel, args)

Importing this needs neither ``cuda-tile`` nor torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.lazy import lazy_names

if TYPE_CHECKING:
    from tilewright.cutile.compilation import Compiled, compile
    from tilewright.cutile.errors import KernelError, RefusedError
    from tilewright.cutile.frontend import FrontEndError
    from tilewright.cutile.launching import launch
    from tilewright.cutile.settings import on


__all__ = [
    "Compiled",
    "FrontEndError",
    "KernelError",
    "RefusedError",
    "compile",
    "launch",
    "on",
]

__getattr__, __dir__ = lazy_names(
    globals(),
    {
        "compilation": "Compiled compile",
        "errors": "KernelError RefusedError",
        "frontend": "FrontEndError",
        "launching": "launch",
        "settings": "on",
    },
)
