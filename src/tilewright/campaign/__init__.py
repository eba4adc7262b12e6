"""Many independent jobs, on many processes or machines, with results that are kept (docs/tuning.md).

A job is a function by its name and arguments that can be pickled (``jobs``); a store keeps outcomes by the
content of jobs (``store``); processes of this machine (``workers``) or of a Dask cluster (``dask_cluster``) run them; ``runner``
puts these together.
"""
