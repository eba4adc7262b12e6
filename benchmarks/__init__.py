"""Measurements beside named peers; ``python -m benchmarks`` runs them and records the results."""
