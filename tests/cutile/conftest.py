"""The command's fixtures, for what it does with cuTile programs."""

import pytest
from tests.cli.conftest import command as command
from tests.cli.conftest import process as process


@pytest.fixture(autouse=True)
def processes_are_lean(lean_processes: None) -> None:
    """Most tests here start processes, and few of them for torch."""
