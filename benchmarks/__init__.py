"""Measurements beside named peers; ``python -m benchmarks`` runs them and records the results.

Products of NumPy use as many threads as ours do, unless told else: its BLAS reads that when it is loaded.
"""

import os

if "TILEWRIGHT_THREADS" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", os.environ["TILEWRIGHT_THREADS"])
