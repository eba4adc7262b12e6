"""Which configuration of a kernel would be the fastest, by the performance model (docs/tuning.md).

``space`` has the configurations, ``hints`` puts compiler hints into kernels, ``launches`` has launches that another process
can look at, ``jobs`` what is done with them, ``ranking`` and ``report`` what came of it.
"""
