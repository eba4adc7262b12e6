"""Runs the command in this process, or as a process of its own."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tilewright.cli.main import main


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run of the command ended; ``out`` and ``err`` are what it wrote."""

    status: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()


Command = Callable[..., Ran]


@pytest.fixture
def command(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Command:
    """``command(*arguments, stdin=bytes)`` runs the command in this process."""

    def run(*arguments: object, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsysbinary.readouterr()
        status = main([str(argument) for argument in arguments])
        captured = capsysbinary.readouterr()
        return Ran(status, captured.out, captured.err.decode())

    return run


@pytest.fixture
def process() -> Command:
    """``process(*arguments, stdin=bytes)`` runs the command as a process of its own."""

    def run(*arguments: object, stdin: bytes = b"") -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "tilewright", *map(str, arguments)],
            input=stdin,
            capture_output=True,
            timeout=60,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr.decode())

    return run
