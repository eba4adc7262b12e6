"""Finds the configuration of a kernel that is fastest by the performance model (docs/tuning.md).

``space`` defines configurations, ``hints`` sets compiler hints of kernels, ``launches`` holds launches that can be sent
to other processes, ``jobs`` models or measures them, ``ranking`` and ``report`` have the results.
"""
