"""Launches that are ended from outside: inside one tile block, on every thread, wherever it loops."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import numpy as np
import pytest

import tilewright
from tilewright.cpu import Program
from tilewright.diagnostics import TileIRError
from tilewright.launching.options import LaunchOptions

WHOLE = 2_000_000_000
NONE = 99
"""No tile block has this number."""
HEAD = """entry @k(%out: tile<ptr<i32>>, %n: tile<i32>, %bad: tile<i32>) {
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %big = constant <i32: 2000000000> : tile<i32>
  %block, %by, %bz = get_tile_block_id : tile<i32>
  %mine = cmpi equal %block, %bad, signed : tile<i32> -> tile<i1>
  %count = select %mine, %n, %one : tile<i1>, tile<i32>
"""
TAIL = """
  %p = offset %out, %block : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
  %t = store_ptr_tko weak %p, %r : tile<ptr<i32>>, tile<i32> -> token
}
"""
#: A loop of each kind, which makes %count rounds, or none that ends; the line of the loop that takes long.
LOOPS = {
    "loop": (
        """%r = loop iter_values(%i = %zero) : tile<i32> -> tile<i32> {
    %c = cmpi greater_than_or_equal %i, %count, signed : tile<i32> -> tile<i1>
    if %c { break %i : tile<i32> }
    %j = addi %i, %one : tile<i32>
    continue %j : tile<i32>
  }""",
        8,
    ),
    "for": (
        """%r = for %a in (%zero to %count, step %one) : tile<i32> iter_values(%i = %zero) -> (tile<i32>) {
    %j = xori %i, %a : tile<i32>
    continue %j : tile<i32>
  }""",
        8,
    ),
    "inner for": (
        """%r = for %a in (%zero to %count, step %one) : tile<i32> iter_values(%i = %zero) -> (tile<i32>) {
    %s = for %b in (%zero to %count, step %one) : tile<i32> iter_values(%q = %i) -> (tile<i32>) {
      %j = xori %q, %b : tile<i32>
      continue %j : tile<i32>
    }
    continue %s : tile<i32>
  }""",
        9,
    ),
    "for of a constant": (
        """%r = if %mine -> (tile<i32>) {
    %s = for %a in (%zero to %big, step %one) : tile<i32> iter_values(%i = %zero) -> (tile<i32>) {
      %j = xori %i, %a : tile<i32>
      continue %j : tile<i32>
    }
    yield %s : tile<i32>
  } else {
    yield %one : tile<i32>
  }""",
        9,
    ),
    "tiles": (
        """%ones = constant <f32: 1.0> : tile<4096xf32>
  %v = for %a in (%zero to %count, step %one) : tile<i32> iter_values(%i = %ones) -> (tile<4096xf32>) {
    %j = exp %i : tile<4096xf32>
    continue %j : tile<4096xf32>
  }
  %f = reduce %v dim=0 identities=[0.0 : f32] : tile<4096xf32> -> tile<f32> (%x: tile<f32>, %y: tile<f32>) {
    %z = maxf %x, %y : tile<f32>
    yield %z : tile<f32>
  }
  %r = ftoi %f signed : tile<f32> -> tile<i32>""",
        9,
    ),
    "prints": (
        """%r = for %a in (%zero to %count, step %one) : tile<i32> iter_values(%i = %zero) -> (tile<i32>) {
    %pt = print_tko "%d\\n", %a : tile<i32> -> token
    continue %a : tile<i32>
  }""",
        8,
    ),
}

posix = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


def program_of(loop: str) -> Program:
    return Program(tilewright.parse(HEAD + LOOPS[loop][0] + TAIL, "loops.tileir"))


def launch(program: Program, grid: int, count: int, bad: int = 0, **options: object) -> list[int]:
    out = np.zeros(grid, np.int32)
    given = LaunchOptions(print_to=lambda text: None, **options)  # pyright: ignore[reportArgumentType]
    program.launch("k", grid, [out, count, bad], given)
    return out.tolist()


@contextmanager
def soon(number: int, handler: Callable[[int, FrameType | None], object] | None) -> Iterator[None]:
    """The process gets a signal in a while."""
    before = signal.getsignal(number)
    if handler is not None:
        signal.signal(number, handler)
    timer = threading.Timer(0.15, lambda: os.kill(os.getpid(), number))
    timer.start()
    try:
        yield
    finally:
        timer.join()
        signal.signal(number, before)


@posix
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("bad", [0, 1])
@pytest.mark.parametrize("loop", LOOPS)
def test_ctrl_c_ends_a_loop_in_one_tile_block(loop: str, bad: int, threads: int) -> None:
    program = program_of(loop)
    launch(program, 2, 3, NONE, threads=threads)
    with pytest.raises(KeyboardInterrupt), soon(signal.SIGINT, None):
        launch(program, 2, WHOLE, bad, threads=threads)
    # The threads of the pool are free again, and the program works.
    started = time.monotonic()
    launch(program, 2, 3, NONE, threads=threads)
    assert time.monotonic() - started < 1


@posix
def test_ctrl_c_takes_less_than_a_second_and_names_the_loop() -> None:
    program = program_of("inner for")
    launch(program, 1, 3)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt) as caught, soon(signal.SIGINT, None):
        launch(program, 1, WHOLE)
    assert time.monotonic() - started < 1.3
    (note,) = caught.value.__notes__
    assert note == "tilewright: tile block (0, 0, 0) was in the loop at loops.tileir:9"


@posix
@pytest.mark.parametrize("loop", ["for", "prints"])
def test_what_a_handler_raises_is_raised(loop: str) -> None:
    def handler(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("too long")

    program = program_of(loop)
    with pytest.raises(TimeoutError, match="too long"), soon(signal.SIGUSR1, handler):
        launch(program, 1, WHOLE)


@posix
def test_a_handler_that_raises_nothing_ends_nothing() -> None:
    seen: list[float] = []
    program = program_of("for")
    launch(program, 1, 3)
    started = time.monotonic()
    with soon(signal.SIGUSR1, lambda *_: seen.append(time.monotonic() - started)):
        assert launch(program, 1, 1_500_000_000) == [0]
        took = time.monotonic() - started
    assert len(seen) == 1
    assert took < 0.5 or seen[0] < took - 0.1, "it was handled while the kernel ran"


@posix
def test_a_handler_may_launch() -> None:
    results: list[list[int]] = []
    program = program_of("loop")
    launch(program, 1, 3)
    with soon(signal.SIGUSR1, lambda *_: results.append(launch(program, 3, 5, 7))):
        launch(program, 1, 1_000_000_000)
    assert results == [[1, 1, 1]]


class Dying:
    """Python forgets what a handler raises while this is freed."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


@posix
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_while_an_object_is_freed_ends_a_launch(threads: int) -> None:
    # Both blocks print on: a thread of the pool may be the first to look for blocks, and this one has one all the same.
    both = HEAD.replace("cmpi equal", "cmpi less_than_or_equal") + LOOPS["prints"][0] + TAIL
    program = Program(tilewright.parse(both, "loops.tileir"))
    out = np.zeros(2, np.int32)

    def show(text: str) -> None:
        if threading.current_thread() is threading.main_thread() and not freed:
            freed.append(text)
            Dying()

    freed: list[str] = []
    options = LaunchOptions(print_to=show, threads=threads, time_limit=20)
    with pytest.raises(KeyboardInterrupt):
        program.launch("k", 2, [out, WHOLE, 1], options)
    assert freed


@posix
def test_ctrl_c_ends_a_launch_whose_print_made_another() -> None:
    """The inner one has ended long ago when the signal comes."""
    loop = LOOPS["for"][0]
    text = HEAD + '%pt = print_tko "once\\n" -> token\n' + loop + TAIL
    outer, inner = Program(tilewright.parse(text, "outer.tileir")), program_of("loop")
    launch(outer, 1, 3)
    launch(inner, 1, 3)
    made: list[list[int]] = []
    options = LaunchOptions(print_to=lambda _: made.append(launch(inner, 1, 3)), time_limit=20)
    with pytest.raises(KeyboardInterrupt), soon(signal.SIGINT, None):
        outer.launch("k", 1, [np.zeros(1, np.int32), WHOLE, 0], options)
    assert made == [[3]]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("bad", [0, 1])
@pytest.mark.parametrize("loop", LOOPS)
def test_a_time_limit_names_the_loop(loop: str, bad: int, threads: int) -> None:
    program = program_of(loop)
    launch(program, 2, 3, NONE, threads=threads, time_limit=30)
    started = time.monotonic()
    with pytest.raises(TileIRError) as caught:
        launch(program, 2, WHOLE, bad, threads=threads, time_limit=0.2)
    assert time.monotonic() - started < 1.2
    (found,) = caught.value.diagnostics
    assert found.code == "time-limit"
    assert found.message == (
        f"the launch exceeded its time limit of 0.2 s: tile block ({bad}, 0, 0) was in this loop"
    )
    assert (found.file, found.line) == ("loops.tileir", LOOPS[loop][1])


def test_code_from_the_disk_knows_its_loops(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    text = (HEAD + LOOPS["inner for"][0] + TAIL).replace("xori", "ori")  # code of this test alone
    launch(Program(tilewright.parse(text, "loops.tileir")), 1, 3)
    again = Program(tilewright.parse(text, "loops.tileir"))
    assert again.prepare().compiled.loops is None, "it comes from the disk"
    with pytest.raises(TileIRError) as caught:
        launch(again, 1, WHOLE, time_limit=0.1)
    assert caught.value.diagnostics[0].line == 9


def test_a_limit_in_another_thread() -> None:
    found: list[BaseException] = []

    def run() -> None:
        try:
            launch(program_of("for"), 1, WHOLE, time_limit=0.2)
        except TileIRError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(10)
    assert [error.diagnostics[0].code for error in found] == ["time-limit"]  # pyright: ignore[reportAttributeAccessIssue]


def test_a_limit_of_blocks_that_wait_for_one_another() -> None:
    text = """entry @k(%flag: tile<ptr<i32>>) {
      %zero = constant <i32: 0> : tile<i32>
      loop {
        %v, %t = load_ptr_tko relaxed device %flag : tile<ptr<i32>> -> tile<i32>, token
        %c = cmpi not_equal %v, %zero, signed : tile<i32> -> tile<i1>
        if %c { break }
        continue
      }
    }"""
    program = Program(tilewright.parse(text, "waits.tileir"))
    with pytest.raises(TileIRError) as caught:
        program.launch("k", 3, [np.zeros(1, np.int32)], LaunchOptions(time_limit=0.2))
    (found,) = caught.value.diagnostics
    assert (found.code, found.line) == ("time-limit", 3)
