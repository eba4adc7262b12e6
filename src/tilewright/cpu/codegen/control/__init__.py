"""Control flow, the grid, and where a kernel looks whether it is to stop."""
