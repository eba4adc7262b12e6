"""Rewrites of Tile IR: the passes, by name, and the pipelines made of them."""

from tilewright.passes.base import TilePass
from tilewright.passes.pipelines import (
    PASSES,
    PIPELINES,
    PassTiming,
    parse_pipeline,
    run_pipeline,
)

__all__ = ["PASSES", "PIPELINES", "PassTiming", "TilePass", "parse_pipeline", "run_pipeline"]
