"""Deeply nested programs, from callers that are deep in Python's stack themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import sanitize, verify
from tilewright.bytecode import read, write
from tilewright.cpu import Program as CpuProgram
from tilewright.diagnostics import TileIRError
from tilewright.lowering import lower_to_tileaa
from tilewright.machine import Program
from tilewright.passes.pipelines import run_pipeline
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse, print_text
from tilewright.text.attribute_parser import MAX_NESTING
from tilewright.text.equivalence import same_module

_STORE = "%t = store_ptr_tko weak %p, %v : tile<ptr<i32>>, tile<i32> -> token\n"
_NESTS = {
    "if": ("if %c {\n", "yield }\n"),
    "loop": ("loop {\n", "break }\n"),
    "for": ("for %i in (%z to %v, step %v) : tile<i32> {\n", "continue }\n"),
}


def _text(kind: str, depth: int) -> str:
    opened, closed = _NESTS[kind]
    # A name of its own for the variable of each loop.
    levels = "".join(opened.replace("%i", f"%i{level}") for level in range(depth))
    return (
        "entry @k(%c: tile<i1>, %p: tile<ptr<i32>>) {\n%z = constant <i32: 0> : tile<i32>\n"
        f"%v = constant <i32: 5> : tile<i32>\n{levels}{_STORE}{closed * depth}return }}"
    )


def _called_deep(frames: int, function: Callable[[], Any]) -> Any:
    return _called_deep(frames - 1, function) if frames else function()


def _stores(launch: Callable[[str, int, list[Any]], object]) -> None:
    found = np.zeros(1, np.int32)
    launch("k", 1, [True, found])
    assert found[0] == 5


def _through_everything(text: str) -> None:
    module = parse(text)
    verify(module)
    assert same_module(parse(print_text(module)), module) is None
    _stores(Program(read(write(module))).launch)
    _stores(lambda *launch: sanitize(module, *launch))
    _stores(CpuProgram(module).launch)
    _stores(TileProgram(module, "sm_80").launch)
    lowered = lower_to_tileaa(module).module
    run_pipeline(lowered, "tileaa,tileas")
    _stores(Program(lowered).launch)


@pytest.mark.rotates(1)
@pytest.mark.parametrize("kind", _NESTS)
def test_frames_of_the_caller_do_not_count(kind: str) -> None:
    limit = sys.getrecursionlimit()
    frames = limit - 200 - len(_stack())
    _called_deep(frames, lambda: _through_everything(_text(kind, 60)))
    assert sys.getrecursionlimit() == limit


def _stack() -> list[Any]:
    frame, found = sys._getframe(), list[Any]()
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


@pytest.mark.rotates(1)
@pytest.mark.parametrize("kind", _NESTS)
def test_what_can_be_read_as_text_can_be_stored_and_run(kind: str) -> None:
    module = parse(_text(kind, MAX_NESTING - 1))
    data = write(module)
    assert write(read(data)) == data
    _stores(Program(module).launch)
    _stores(lambda *launch: sanitize(module, *launch))
    with pytest.raises(TileIRError, match="nested"):
        parse(_text(kind, MAX_NESTING))


def test_the_simulator_refuses_what_is_too_deep_for_it() -> None:
    module = parse(_text("loop", 160))
    with pytest.raises(TileIRError, match="nested"):
        TileProgram(module, "sm_80").launch("k", 1, [True, np.zeros(1, np.int32)])
