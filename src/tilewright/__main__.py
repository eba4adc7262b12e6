"""``python -m tilewright``: the ``tilewright`` command."""

import sys

from tilewright.cli.main import command

if __name__ == "__main__":
    sys.exit(command())
