"""The performance model: estimates how long a launch would take on a GPU, from machine code. See docs/model.md."""
