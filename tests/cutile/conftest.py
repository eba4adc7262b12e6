"""The command's fixtures, for what it does with cuTile programs."""

from tests.cli.conftest import command as command
from tests.cli.conftest import process as process
