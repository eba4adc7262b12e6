"""Lowers scheduled kernels (``nv_tileas``) to per-thread code."""

from tilewright.lowering.scheduled.driver import lower_scheduled

__all__ = ["lower_scheduled"]
