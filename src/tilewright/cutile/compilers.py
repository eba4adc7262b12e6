"""What cuTile asks NVIDIA's compiler, where that is not installed.

Launches need no compiler. Programs and test suites look for one all the same: for its version, to
decide what to skip, or for Tile IR as text. Those are answered. What cannot be done without it, a
cubin, is refused where it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from tilewright.cutile.errors import RefusedError

_MISSING = (
    "a cubin takes NVIDIA's compiler tileiras, which is not installed "
    "(pip install 'cuda-tile[tileiras]'); launches and Tile IR bytecode do without it"
)
#: What stands for the file of the compiler; there is none of that name.
_NO_FILE = "tileiras"


def find_compiler(native: Callable[[], Any]) -> Any:
    """cuTile's compiler; where there is none, one without a version, which refuses to compile."""
    try:
        return native()
    except OSError:  # there is no such file, or no folder to look into
        return _no_compiler()


@cache
def _no_compiler() -> Any:
    binary: Any = import_module("cuda.tile._compile")._CompilerBinary

    class NoCompiler(binary):
        """Has the fields of a compiler, and compiles nothing."""

        def run(self, *args: Any, **keywords: Any) -> None:
            raise RefusedError(_MISSING)

    return NoCompiler(_NO_FILE, "", "", False)


def to_text(native: Callable[..., str], bytecode: bytes | bytearray, **options: Any) -> str:
    """Tile IR as text: by NVIDIA's disassembler, or by our printer where there is none.

    Raises TileIRError for bytecode that our reader refuses.
    """
    try:
        return native(bytecode, **options)
    except OSError:
        from tilewright.bytecode import read
        from tilewright.text import print_text

        return print_text(read(bytes(bytecode), "<bytecode>"))
