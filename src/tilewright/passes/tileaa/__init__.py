"""Rewrites of ``nv_tileaa``."""
