"""Rewrites of Tile IR: the passes, by name, and the pipelines made of them.

Names are imported when first used: those who rewrite without a pipeline need no pass.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.passes.base import CUDA_TILE, NV_TILEAA, TilePass
    from tilewright.passes.canonicalize import Rewrite
    from tilewright.passes.loading import load_passes
    from tilewright.passes.pipelines import (
        PASSES,
        PIPELINES,
        PassTiming,
        parse_pipeline,
        passes_within,
        run_pipeline,
    )

__all__ = [
    "CUDA_TILE",
    "NV_TILEAA",
    "PASSES",
    "PIPELINES",
    "PassTiming",
    "Rewrite",
    "TilePass",
    "load_passes",
    "parse_pipeline",
    "passes_within",
    "run_pipeline",
]
_BASE = frozenset({"CUDA_TILE", "NV_TILEAA", "TilePass"})


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    where = "base" if name in _BASE else "loading" if name == "load_passes" else "pipelines"
    value: object = getattr(import_module(f"tilewright.passes.{where}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
