"""Loop nests over tiles, and tiles as functions of a position."""
