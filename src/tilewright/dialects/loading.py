"""Dialects that are loaded when somebody asks for them: by xDSL's tools, or by a name in a text."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from xdsl.ir import Dialect

#: Where dialects stand: a module, and in it the dialect or the function that gives it.
_PLACES = {
    "builtin": "xdsl.dialects.builtin.Builtin",
    "func": "xdsl.dialects.func.Func",
    "cf": "xdsl.dialects.cf.Cf",
    "math": "xdsl.dialects.math.Math",
    "ub": "xdsl.dialects.ub.UB",
    "cuda_tile": "tilewright.dialects.cuda_tile.load",
    "nv_tileaa": "tilewright.dialects.nv_tileaa.load",
    "nv_tileas": "tilewright.dialects.nv_tileas.load",
    "nvgpu": "tilewright.dialects.nvgpu.load",
    "nvvm": "tilewright.dialects.nvgpu.load_nvvm",
    "arith": "tilewright.dialects.upstream.arith.load",
    "gpu": "tilewright.dialects.upstream.gpu.load",
    "llvm": "tilewright.dialects.upstream.llvm.load",
    "memref": "tilewright.dialects.upstream.memref.load",
    "scf": "tilewright.dialects.upstream.scf.load",
    "vector": "tilewright.dialects.upstream.vector.load",
}


def dialect_loader(name: str) -> Callable[[], Dialect]:
    """A function that imports a dialect, as our texts have it, and gives it; a KeyError for one that
    they do not have."""
    module, _, member = _PLACES[name].rpartition(".")

    def load() -> Dialect:
        found: Dialect | Callable[[], Dialect] = getattr(import_module(module), member)
        return found if isinstance(found, Dialect) else found()

    return load
