"""llvmlite, which generates native code and PTX; nothing else in Tilewright needs it.

Modules that use llvmlite import it from here, or import this module first, so that a missing package is a one-line
error that says what to install.
"""

from __future__ import annotations

from tilewright.diagnostics import TileIRError
from tilewright.launching.codes import LLVMLITE_MISSING

try:
    from llvmlite import binding, ir
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "llvmlite":
        raise
    raise TileIRError.single(
        LLVMLITE_MISSING,
        "native code and PTX need llvmlite, which is not installed: pip install llvmlite",
    ) from None

__all__ = ["binding", "ir"]
