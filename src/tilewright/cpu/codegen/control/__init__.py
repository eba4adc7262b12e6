"""Control flow, the grid, and stop flags."""
