"""What is decided before code is generated: buffers, the order of effects, costs."""
