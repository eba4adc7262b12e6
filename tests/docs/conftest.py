"""What the pages' programs run with."""

import pytest


@pytest.fixture(autouse=True)
def processes_are_lean(lean_processes: None) -> None:
    """No page's program that a test starts needs torch."""
