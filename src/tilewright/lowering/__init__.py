"""Steps between two levels: each takes verified IR of one level and gives verified IR of the next.

``tileaa``: from ``cuda_tile`` to ``nv_tileaa``.
"""

from tilewright.lowering.tileaa import Lowered, TileAAOptions, lower_to_tileaa

__all__ = ["Lowered", "TileAAOptions", "lower_to_tileaa"]
