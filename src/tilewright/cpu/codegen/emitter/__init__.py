"""The state of generating a function's code, and the table of generators."""
