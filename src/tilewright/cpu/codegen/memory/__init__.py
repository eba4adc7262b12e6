"""Loads, stores and atomic updates: through views, pointers and tiles of indices."""
