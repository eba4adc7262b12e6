"""Lowers ``cuda_tile`` to ``nv_tileaa``: one table of rules, with one module per family of operations."""

from tilewright.lowering.tileaa.driver import Lowered, lower_to_tileaa
from tilewright.lowering.tileaa.options import TileAAOptions

__all__ = ["Lowered", "TileAAOptions", "lower_to_tileaa"]
