"""The performance model: how long a launch would take on a GPU, read from machine code. See docs/model.md."""
