"""Lowerings from verified IR of one level to verified IR of the next.

``tileaa``: from ``cuda_tile`` to ``nv_tileaa``. ``nvgpu``: from ``nv_tileaa`` to per-thread code, with one layout per
size. ``scheduled``: from ``nv_tileas``, whose layouts and schedule passes have decided, to per-thread code.
"""

from tilewright.lowering.tileaa import Lowered, TileAAOptions, lower_to_tileaa

__all__ = ["Lowered", "TileAAOptions", "lower_to_tileaa"]
