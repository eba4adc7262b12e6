"""The state of making the code of a function, and which function makes code of which operation."""
