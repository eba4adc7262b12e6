"""How a peer process talks: one line of JSON for each line that it gets.

It begins by telling its ``version``, or which package is ``missing``. A line with the name of a
problem makes it run that kernel once and tell the ``seconds``, and those of the ``first`` run ever,
which compiles what there is to compile and whose output is checked.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np

from benchmarks.peers.problems import Array, Problem, problems

Kernel = Callable[[], object]
"""Runs a kernel to its end."""
Prepared = tuple[Kernel, Callable[[], Array]]
"""A kernel whose inputs are in place, and a function that fetches its output."""


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def serve(version: str, prepare: dict[str, Callable[[Problem], Prepared]]) -> None:
    """Answer requests until the input ends."""
    say(version=version)
    known = problems()
    ready: dict[str, tuple[Kernel, float]] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in ready:
            kernel, output = prepare[name](known[name])
            ready[name] = kernel, _seconds(kernel)
            known[name].check(np.asarray(output()))
        kernel, first = ready[name]
        say(seconds=_seconds(kernel), first=first)


def _seconds(kernel: Kernel) -> float:
    start = time.perf_counter()
    kernel()
    return time.perf_counter() - start
