"""What is decided before code is made: buffers, the order of effects, costs."""
