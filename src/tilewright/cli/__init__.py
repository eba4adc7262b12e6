"""The ``tilewright`` command. Importing this package loads nothing."""
