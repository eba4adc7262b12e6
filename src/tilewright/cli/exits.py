"""The exit statuses of ``tilewright``."""

from enum import IntEnum


class Exit(IntEnum):
    """The exit statuses, which ``docs/cli.md`` and ``tilewright --help`` list."""

    OK = 0
    FINDINGS = 1
    USAGE = 2
    INTERNAL = 70
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141


EXIT_STATUS_HELP = """\
exit status:
  0    done; warnings may have been reported
  1    errors were found in the input, or an expected result was not met
  2    bad usage, a file that cannot be read, or an output that cannot be written
  70   internal error: a bug in tilewright
  130  interrupted
  141  the reader of the output went away
"""
