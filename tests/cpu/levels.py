"""Processors as parameters of tests that run code for them: those that this machine is not are skipped, and say so."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.cpu.target import cpu_target, missing_features
from tilewright.diagnostics import TileIRError


def level(cpu: str, *before: Any) -> Any:
    """A set of parameters that ends with a processor's name, as ``cpu_target`` takes it."""
    return pytest.param(*before, cpu, marks=_marks(cpu))


def levels(*cpus: str) -> list[Any]:
    """A parameter for each processor."""
    return [level(cpu) for cpu in cpus]


def runnable(*cpus: str) -> list[str]:
    """Those of some processors for which code runs on this machine."""
    return [cpu for cpu in cpus if not _marks(cpu)]


def _marks(cpu: str) -> tuple[pytest.MarkDecorator, ...]:
    try:
        missing = missing_features(cpu_target(cpu))
    except TileIRError:
        return (pytest.mark.skip(reason=f"{cpu} is of another architecture"),)
    if missing:
        reason = f"code for {cpu} cannot run here: this processor lacks {', '.join(missing)}"
        return (pytest.mark.skip(reason=reason),)
    return ()
