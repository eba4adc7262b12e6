"""The process that makes pages while a program runs makes the same ones."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

import cuda.tile as ct

from tilewright.cli import explain_program
from tilewright.cutile import Compiled, compile
from tilewright.explain import stages, worker
from tilewright.explain.about import About
from tilewright.explain.page import render_page
from tilewright.explain.worker import PageWorker

WANTED = {"target": "sm_90a", "passes": "tileaa"}
ABOUT = About("here.py:3", {"n": "= 16"}, [("other", "other.html", "")])


@ct.kernel
def scaled(q, out, factors, n: ct.Constant[int]):
    i = ct.bid(0)
    total = ct.load(q, (i,), (n,)) * factors[0] + q.shape[0]
    ct.store(out, (i,), ct.exp(total))


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    q = np.zeros(64, np.float32)
    return compile(scaled, (q, np.zeros_like(q), (2.0, 3), 16), grid=(4,))


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_cores", lambda: (0, 1))


def _timeless(page: str) -> str:
    return re.sub(r"[\d.]+ ms", "", page)


def test_pages_are_those_of_this_process(compiled: Compiled) -> None:
    with PageWorker() as ahead:
        ahead.begin(0, compiled.module, compiled.name, **WANTED)
        ahead.begin(3, compiled.module, compiled.name, target="sm_80", passes="")
        made = [ahead.page(number, ABOUT) for number in (0, 3, 1)]
    again = render_page(compiled.explain(**WANTED), about=ABOUT)
    other = render_page(compiled.explain(target="sm_80", passes=""), about=ABOUT)
    assert made[0] is not None and made[1] is not None
    assert _timeless(made[0]) == _timeless(again)
    assert _timeless(made[1]) == _timeless(other)
    assert made[2] is None
    assert "q.shape[0]" in made[0] and 'id="level-nv_tileas"' in made[0]


def test_a_worker_that_ends_has_no_pages(
    compiled: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_START", "raise SystemExit")
    with PageWorker() as ahead:
        ahead.begin(0, compiled.module, compiled.name, **WANTED)
        assert ahead.page(0, ABOUT) is None
        assert ahead.page(0, ABOUT) is None


@pytest.mark.parametrize("why", ["one core", "no interpreter"])
def test_without_a_worker(compiled: Compiled, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if why == "one core":
        monkeypatch.setattr(worker, "_cores", lambda: (0,))
    else:
        monkeypatch.setattr(sys, "executable", "")
    with PageWorker() as ahead:
        ahead.begin(0, compiled.module, compiled.name, **WANTED)
        assert ahead.page(0, ABOUT) is None


def test_the_command_asks_for_what_pages_have() -> None:
    assert explain_program._TARGET == stages.DEFAULT_TARGET
    assert explain_program._PASSES == stages.TILEAA_PASSES
