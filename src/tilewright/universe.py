"""The entry point through which stock xDSL tools find our dialects and passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xdsl.universe import Universe

from tilewright.dialects.loading import dialect_loader

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

#: Prefixes our passes' names in xDSL's tools, which have passes of the same names.
PASS_PREFIX = "cuda-tile-"

_PASS_NAMES = (
    "canonicalize",
    "cse",
    "dce",
    "licm",
    "fuse-fma",
    "loop-split",
    "synthesize-debug-info-scopes",
)
#: Passes between levels, whose names are unique.
_LOWERINGS = ("lower-cuda-tile-to-tileaa", "lower-tileaa-to-nvgpu", "convert-tileas-to-nvgpu")


def _pass(name: str, prefix: str = "") -> Callable[[], type[ModulePass]]:
    """Return a loader of a pass; xDSL requires the class to have the listed name."""

    def load_pass() -> type[ModulePass]:
        from tilewright.passes import PASSES

        cls = PASSES[name]
        return type(cls.__name__, (cls,), {"name": prefix + name, "__doc__": cls.__doc__})

    return load_pass


UNIVERSE = Universe(
    all_dialects={
        name: dialect_loader(name) for name in ("cuda_tile", "nv_tileaa", "nv_tileas", "nvgpu")
    },
    all_passes={PASS_PREFIX + name: _pass(name, PASS_PREFIX) for name in _PASS_NAMES}
    | {name: _pass(name) for name in _LOWERINGS},
)
