"""Kernels that use all of cuTile's public interface, one module per theme."""
