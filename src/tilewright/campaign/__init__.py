"""Runs many independent jobs on many processes or machines, and caches their results (docs/tuning.md).

A job is a function's name and picklable arguments (``jobs``); a store keeps outcomes by a hash of the job (``store``);
processes of this machine (``workers``) or of a Dask cluster (``dask_cluster``) run them; ``runner`` combines these.
"""
