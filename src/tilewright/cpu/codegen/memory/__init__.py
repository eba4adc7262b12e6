"""Loads, stores and atomic updates: through views, pointers and index tiles."""
