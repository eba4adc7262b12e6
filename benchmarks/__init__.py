"""Measurements beside named peers; ``python -m benchmarks`` runs them and records the results.

Peers use as many threads as ours do, unless told else. NumPy's BLAS, numba and what torch compiles read that when they are loaded.
"""

import os

if "TILEWRIGHT_THREADS" in os.environ:
    for library in ("OPENBLAS", "OMP", "NUMBA"):
        os.environ.setdefault(f"{library}_NUM_THREADS", os.environ["TILEWRIGHT_THREADS"])
