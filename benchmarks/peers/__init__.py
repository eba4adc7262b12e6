"""The same kernels for other interpreters; each peer is a process of its own.

A peer may have its own Python, named by the environment variable ``TILEWRIGHT_PEERS``, and needs
nothing of Tilewright.
"""
