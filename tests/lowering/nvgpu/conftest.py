"""Fixtures of tests of the lowering to threads."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.simulator.launch import Program


@pytest.fixture
def verified_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the lowering makes of tiles is verified before the simulator runs it, as text of a user is."""

    def verified(module: Any, arch: str, *, is_verified: bool) -> Program:
        assert is_verified
        return Program(module, arch)

    monkeypatch.setattr("tilewright.simulator.tiles.Program", verified)
