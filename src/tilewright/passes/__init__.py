"""Rewrites of Tile IR: the passes, by name, and the pipelines made of them."""

from tilewright.passes.base import CUDA_TILE, NV_TILEAA, TilePass
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
    "TilePass",
    "parse_pipeline",
    "passes_within",
    "run_pipeline",
]
