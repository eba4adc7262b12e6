"""Peers as processes: started, asked, stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PYTHON = os.environ.get("TILEWRIGHT_PEERS", sys.executable)
"""The Python that has the peers installed."""

_PALLAS = "benchmarks.peers.pallas_interpreter"
_PEERS = {
    "Triton interpreter": ("benchmarks.peers.triton_interpreter",),
    "Pallas interpret mode, compiled by XLA": (_PALLAS, "xla"),
    "Pallas TPU interpret mode": (_PALLAS, "tpu"),
    "Pallas TPU interpret mode, detect_races": (_PALLAS, "races"),
}
#: With a thousand tile blocks its detector takes most of a minute.
_LEFT_OUT = {"Pallas TPU interpret mode, detect_races": frozenset({"vector_add"})}


class Peer:
    """A running peer; ``version`` is empty where it is not installed.

    ``left_out`` are the problems that it is not given.
    """

    def __init__(self, title: str, process: subprocess.Popen[str]):
        self.title = title
        self.left_out = _LEFT_OUT.get(title, frozenset())
        self.first: dict[str, float] = {}
        """Seconds of the first run of each kernel, once it has run."""
        self._process = process
        self.version: str = self._answer().get("version", "")

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.title} has ended; its messages are above")
        return json.loads(line)

    def job(self, name: str) -> Callable[[], float]:
        """A run of one of its kernels, which tells its seconds."""

        def run() -> float:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{name}\n")
            self._process.stdin.flush()
            answer = self._answer()
            self.first[name] = answer["first"]
            return answer["seconds"]

        return run


@contextmanager
def started() -> Iterator[list[Peer]]:
    """All peers, until the end of the block."""
    with ExitStack() as stack:
        peers: list[Peer] = []
        for title, arguments in _PEERS.items():
            process = subprocess.Popen(
                [PYTHON, "-m", *arguments],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            # Leaving it closes its input, at whose end it stops, and waits for it.
            stack.enter_context(process)
            peers.append(Peer(title, process))
        yield peers
