"""cuTile kernels of our own, one module per theme."""
