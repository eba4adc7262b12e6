"""Presents the compiler's knowledge of a kernel: analyses as comments, graphs, and HTML pages."""
