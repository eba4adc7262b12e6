"""Rewrites of Tile IR: the passes, by name, and the pipelines made of them.

Names are imported when first used: those who rewrite without a pipeline need no pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.lazy import lazy_names

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

__getattr__, __dir__ = lazy_names(
    globals(),
    {
        "base": "CUDA_TILE NV_TILEAA TilePass",
        "canonicalize": "Rewrite",
        "loading": "load_passes",
        "pipelines": "PASSES PIPELINES PassTiming parse_pipeline passes_within run_pipeline",
    },
)
