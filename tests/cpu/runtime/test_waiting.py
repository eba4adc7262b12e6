"""Blocks that wait for one another: they go on whatever the number of threads, and what waits for ever is told."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.machine.tileaa.support import checked as tileaa
from tests.machine.tileaa.support import kernel_text, one

import tilewright
from tilewright import LaunchOptions
from tilewright.cpu import Program
from tilewright.cpu.runtime import waiting
from tilewright.cpu.runtime.pool import POOL
from tilewright.diagnostics import TileIRError

THREADS = pytest.mark.parametrize("threads", [1, 2, 5])

HEAD = """entry @k(%lock: tile<ptr<i32>>, %out: tile<ptr<f32>>, %n: tile<i32>) {
  %c0 = constant <i32: 0> : tile<i32>
  %c1 = constant <i32: 1> : tile<i32>
  %width = constant <i32: 256> : tile<i32>
  %block, %by, %bz = get_tile_block_id : tile<i32>
  %grid, %gy, %gz = get_num_tile_blocks : tile<i32>
  %t0 = make_token : token
  %lanes = iota : tile<256xi32>
  %base1 = reshape %out : tile<ptr<f32>> -> tile<1xptr<f32>>
  %base = broadcast %base1 : tile<1xptr<f32>> -> tile<256xptr<f32>>
"""
#: Take a lock, add to an array that it protects, and give it back.
LOCK = """
  %held = loop : token {
    %old, %tt = atomic_cas_tko acquire device %lock, %c0, %c1 : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %won = cmpi equal %old, %c0, signed : tile<i32> -> tile<i1>
    if %won { break %tt : token }
  }
"""
ADD = """
  %p = offset %base, %lanes : tile<256xptr<f32>>, tile<256xi32> -> tile<256xptr<f32>>
  %v, %tl = load_ptr_tko weak %p token=%held : tile<256xptr<f32>> -> tile<256xf32>, token
  %ones = constant <f32: 1.0> : tile<256xf32>
  %sum = addf %v, %ones : tile<256xf32>
  %ts = store_ptr_tko weak %p, %sum token=%tl : tile<256xptr<f32>>, tile<256xf32> -> token
"""
UNLOCK = """
  %tu = store_ptr_tko release device %lock, %c0 token=%ts : tile<ptr<i32>>, tile<i32> -> token
}
"""


def _wait(name: str, where: str, wanted: str, how: str = "greater_than_or_equal") -> str:
    """A loop until what ``where`` points to is ``wanted``, or more."""
    return f"""
  %{name} = loop : token {{
    %{name}v, %{name}t = load_ptr_tko acquire device {where} : tile<ptr<i32>> -> tile<i32>, token
    %{name}c = cmpi {how} %{name}v, {wanted}, signed : tile<i32> -> tile<i1>
    if %{name}c {{ break %{name}t : token }}
  }}
"""


#: Each block keeps a tile across a barrier over the grid, %n times: it adds what the next block has stored.
BARRIERS = (
    HEAD
    + """
  %own = muli %block, %width : tile<i32>
  %next0 = addi %block, %c1 : tile<i32>
  %next = remi %next0, %grid signed : tile<i32>
  %other = muli %next, %width : tile<i32>
  %ownb0 = reshape %own : tile<i32> -> tile<1xi32>
  %ownb = broadcast %ownb0 : tile<1xi32> -> tile<256xi32>
  %otherb0 = reshape %other : tile<i32> -> tile<1xi32>
  %otherb = broadcast %otherb0 : tile<1xi32> -> tile<256xi32>
  %ownl = addi %ownb, %lanes : tile<256xi32>
  %otherl = addi %otherb, %lanes : tile<256xi32>
  %po = offset %base, %ownl : tile<256xptr<f32>>, tile<256xi32> -> tile<256xptr<f32>>
  %pn = offset %base, %otherl : tile<256xptr<f32>>, tile<256xi32> -> tile<256xptr<f32>>
  %twice = addi %n, %n : tile<i32>
  %end = for %i in (%c0 to %n, step %c1) : tile<i32> iter_values(%tok = %t0) -> (token) {
    %kept, %tk = load_ptr_tko weak %pn token=%tok : tile<256xptr<f32>> -> tile<256xf32>, token
    %mine, %tm = load_ptr_tko weak %po token=%tk : tile<256xptr<f32>> -> tile<256xf32>, token
    %a, %ta = atomic_rmw_tko acq_rel device %lock, add, %c1 token=%tm : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %round0 = addi %i, %i : tile<i32>
    %round1 = addi %round0, %c1 : tile<i32>
    %goal0 = muli %round1, %grid : tile<i32>
"""
    + _wait("read", "%lock", "%goal0")
    + """
    %sum = addf %kept, %mine : tile<256xf32>
    %ts = store_ptr_tko weak %po, %sum token=%read : tile<256xptr<f32>>, tile<256xf32> -> token
    %b, %tb = atomic_rmw_tko acq_rel device %lock, add, %c1 token=%ts : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %goal1 = addi %goal0, %grid : tile<i32>
"""
    + _wait("stored", "%lock", "%goal1")
    + """
    continue %stored : token
  }
}
"""
)
#: All blocks wait until block %n has set a flag.
FLAG = (
    HEAD
    + """
  %sets = cmpi equal %block, %n, signed : tile<i32> -> tile<i1>
  if %sets { store_ptr_tko release device %lock, %c1 token=%t0 : tile<ptr<i32>>, tile<i32> -> token }
"""
    + _wait("seen", "%lock", "%c1")
    + """
  %po = offset %out, %block : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
  %f = constant <f32: 1.0> : tile<f32>
  store_ptr_tko weak %po, %f token=%seen : tile<ptr<f32>>, tile<f32> -> token
}
"""
)


def _launch(
    text: str, grid: int, n: int = 0, *, size: int = 0, **options: Any
) -> tuple[np.ndarray, np.ndarray]:
    lock, out = np.zeros(4, np.int32), np.zeros(size or 256, np.float32)
    program = Program(tilewright.parse(text, "waiting.tileir"))
    program.launch("k", grid, (lock, out, n), LaunchOptions(**options))
    return lock, out


@THREADS
@pytest.mark.parametrize("checked", [False, True])
def test_a_lock_protects_what_it_should(threads: int, checked: bool) -> None:
    lock, out = _launch(HEAD + LOCK + ADD + UNLOCK, 700, threads=threads, checked=checked)
    assert (out == 700).all()
    assert lock[0] == 0


@THREADS
@pytest.mark.parametrize("grid", [2, 7, 300])
def test_tiles_are_kept_across_barriers(threads: int, grid: int) -> None:
    rounds = 3
    program = Program(tilewright.parse(BARRIERS, "barriers.tileir"))
    lock = np.zeros(1, np.int32)
    out = np.arange(256 * grid, dtype=np.float32)
    expected = out.reshape(grid, 256).copy()
    program.launch("k", grid, (lock, out, rounds), LaunchOptions(threads=threads))
    for _ in range(rounds):
        expected += np.roll(expected, -1, axis=0)
    np.testing.assert_array_equal(out.reshape(grid, 256), expected)
    assert lock[0] == 2 * rounds * grid


@THREADS
@pytest.mark.parametrize("grid", [1, 2, 64, 2000])
def test_all_wait_for_the_last(threads: int, grid: int) -> None:
    _, out = _launch(FLAG, grid, grid - 1, size=grid, threads=threads)
    assert (out == 1).all()


@THREADS
def test_a_work_queue_is_emptied_once(threads: int) -> None:
    """A loop that works and whose atomic operation tells when it is to end."""
    body = """
  loop {
    %i, %ti = atomic_rmw_tko relaxed device %lock, add, %c1 : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %over = cmpi greater_than_or_equal %i, %n, signed : tile<i32> -> tile<i1>
    if %over { break }
    %p = offset %out, %i : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
    %v, %tl = load_ptr_tko weak %p token=%ti : tile<ptr<f32>> -> tile<f32>, token
    %f = constant <f32: 1.0> : tile<f32>
    %s = addf %v, %f : tile<f32>
    store_ptr_tko weak %p, %s token=%tl : tile<ptr<f32>>, tile<f32> -> token
  }
}
"""
    _, out = _launch(HEAD + body, 9, 5000, size=5000, threads=threads)
    assert (out == 1).all()


@THREADS
@pytest.mark.parametrize("grid", [2, 4, 600])
def test_a_deadlock_is_reported_and_ended(threads: int, grid: int) -> None:
    with pytest.raises(TileIRError) as error:
        _launch(FLAG, grid, grid + 1, size=grid, threads=threads, deadlock_timeout=0.05)
    (found,) = error.value.diagnostics
    assert found.code == "deadlock"
    assert f"0 of {grid} tile blocks have ended, and {grid} appear deadlocked" in found.message
    # The same threads run the next launch.
    _, out = _launch(FLAG, 4, 3, size=4, threads=threads)
    assert (out == 1).all()


def test_locks_taken_in_opposite_orders_are_a_deadlock() -> None:
    """Each block holds one lock when it asks for the other's."""
    body = """
  %other = subi %c1, %block : tile<i32>
  %outer = offset %lock, %block : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
  %inner = offset %lock, %other : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
  %x, %tx = atomic_cas_tko acquire device %outer, %c0, %c1 : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
"""
    body += _wait("there", "%inner", "%c1")
    body += LOCK.replace("%lock,", "%inner,") + "\n}\n"
    with pytest.raises(TileIRError, match="2 appear deadlocked") as error:
        _launch(HEAD + body, 2, threads=2, deadlock_timeout=0.05)
    assert error.value.diagnostics[0].code == "deadlock"


class _State:
    """What the threads of a launch say of it."""

    total, begun, finished, stalled = 8, 8, 0, (2, 2)


@pytest.mark.parametrize(
    ("stalled", "finished", "seconds", "over"),
    [
        ((2, 2), 0, 2.0, True),
        ((2, 1), 0, 2.0, False),  # one thread works
        ((2, 1), 0, 9.0, True),  # for so long that its loop must be one that waits
        ((2, 2), 1, 2.0, False),  # a block has ended meanwhile
        ((0, 0), 0, 9.0, False),  # nobody has begun
    ],
)
def test_what_counts_as_a_deadlock(
    monkeypatch: pytest.MonkeyPatch,
    stalled: tuple[int, int],
    finished: int,
    seconds: float,
    over: bool,
) -> None:
    now, state = [100.0], _State()
    monkeypatch.setattr(waiting.time, "process_time", lambda: now[0])
    watch = waiting._DeadlockWatch(state, 1.0)  # pyright: ignore[reportArgumentType]
    state.stalled = stalled
    assert not watch.is_over()
    assert not watch.is_over()
    now[0] += seconds
    state.finished = finished
    assert watch.is_over() is over


def test_a_deadlock_is_found_where_others_take_the_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting.time, "process_time", lambda: 100.0)
    watch = waiting._DeadlockWatch(_State(), 1.0)  # pyright: ignore[reportArgumentType]
    looks = next(number for number in range(1000) if watch.is_over())
    assert 20 <= looks <= 60


def test_a_time_limit_ends_blocks_that_wait() -> None:
    with pytest.raises(TileIRError) as error:
        _launch(FLAG, 8, 99, size=8, threads=2, time_limit=0.2)
    assert error.value.diagnostics[0].code == "time-limit"


@pytest.fixture
def quiet_collector() -> Iterator[None]:
    """No callbacks of the garbage collector, such as hypothesis's: a KeyboardInterrupt within one is printed and lost."""
    held = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = held


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.usefixtures("quiet_collector")
def test_ctrl_c(threads: int) -> None:
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        _launch(FLAG, 8, 99, size=8, threads=threads, deadlock_timeout=1e6)
    assert time.monotonic() - started < 30


@THREADS
def test_a_failed_check_ends_those_that_wait(threads: int) -> None:
    """Block 5 accesses memory that is none of its array's, and never sets the flag that all others want."""
    body = """
  %five = constant <i32: 5> : tile<i32>
  %far = constant <i32: 1000000> : tile<i32>
  %bad = cmpi equal %block, %five, signed : tile<i32> -> tile<i1>
  if %bad {
    %p = offset %out, %far : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
    %f = constant <f32: 1.0> : tile<f32>
    store_ptr_tko weak %p, %f token=%t0 : tile<ptr<f32>>, tile<f32> -> token
    store_ptr_tko release device %lock, %c1 token=%t0 : tile<ptr<i32>>, tile<i32> -> token
  }
"""
    text = HEAD + body + _wait("seen", "%lock", "%c1") + "\n}\n"
    with pytest.raises(TileIRError) as error:
        _launch(text, 40, threads=threads, checked=True)
    assert error.value.diagnostics[0].code == "cpu-outside-memory"


@THREADS
def test_prints_of_blocks_that_wait_in_turn(threads: int) -> None:
    """Each block waits for the one before it, prints, and lets the next one go on."""
    body = _wait("turn", "%lock", "%block", "equal")
    body += """
  %tp = print_tko "%d;", %block token=%turn : tile<i32> -> token
  %next = addi %block, %c1 : tile<i32>
  store_ptr_tko release device %lock, %next token=%tp : tile<ptr<i32>>, tile<i32> -> token
}
"""
    program = Program(tilewright.parse(HEAD + body, "turns.tileir"))
    args = (np.zeros(1, np.int32), np.zeros(256, np.float32), 0)
    found = program.launch("k", 50, args, LaunchOptions(threads=threads))
    assert found.text == "".join(f"{i};" for i in range(50))


def test_launches_of_several_threads_at_once() -> None:
    program = Program(tilewright.parse(BARRIERS, "barriers.tileir"))
    outs = [np.ones(256 * 20, np.float32) for _ in range(4)]

    def run(out: np.ndarray) -> None:
        program.launch("k", 20, (np.zeros(1, np.int32), out, 2), LaunchOptions(threads=2))

    threads = [threading.Thread(target=run, args=(out,)) for out in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((out == 4).all() for out in outs)


P = "!nv_tileaa.ptr<i32, 1>"
AWAIT = f"""
%none = arith.constant 0 : i32
%seen = scf.while (%v = %none) : (i32) -> (i32) {{
  %flag = nv_tileaa.load %ptr_f {{mem_semantic = acquire, mem_scope = gpu}} : {P} -> i32
  %go = arith.cmpi eq, %flag, %none : i32
  scf.condition(%go) %flag : i32
}} do {{
^bb0(%v: i32):
  scf.yield %v : i32
}}
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_agents_wait_for_other_blocks(threads: int) -> None:
    """Block 0 has two agents, of which one waits for what block 1 sets, after it has fed the other one."""
    body = f"""
%x = nv_tileaa.get_program_id {{axis = 0 : i32}} : i32
%zero32 = arith.constant 0 : i32
%first = arith.cmpi eq, %x, %zero32 : i32
scf.if %first {{
  nv_tileaa.execute {{agent = "waiter"}} : () -> () {{
    {AWAIT}
    nv_tileaa.store %ptr_r, %seen : {P}, i32
    nv_tileaa.yield
  }}
}} else {{
  %seven = arith.constant 7 : i32
  nv_tileaa.store %ptr_f, %seven {{mem_semantic = release, mem_scope = gpu}} : {P}, i32
}}
"""
    flag, result = one(0, np.int32).reshape(1), one(0, np.int32).reshape(1)
    text = kernel_text(body, {"f": flag.reshape(()), "r": result.reshape(())}, {})
    Program(tileaa(text)).launch("k", 2, (flag, result), LaunchOptions(threads=threads))
    assert result[0] == 7


@pytest.mark.parametrize("threads", [1, 2])
def test_a_plugin_may_launch_blocks_that_wait(threads: int) -> None:
    """A launch within a launch: the threads are taken, so that all of its blocks run on one."""
    inner: list[np.ndarray] = []

    def plugin(given: np.ndarray) -> np.ndarray:
        inner.append(_launch(FLAG, 6, 5, size=6, threads=2)[1])
        return given

    array, result = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    call = '%r = nv_tileaa.plugin %a {code = "p"} : tile<4xf32> -> tile<4xf32>'
    program = Program(tileaa(kernel_text(call, {"a": array}, {"r": result})))
    options = LaunchOptions(threads=threads, plugins={"p": plugin})
    program.launch("k", 1, (array, result), options)
    assert (inner[0] == 1).all()


def test_threads_are_not_made_for_blocks() -> None:
    _launch(FLAG, 2000, 1999, size=2000, threads=2)
    before = threading.active_count()
    _launch(FLAG, 4000, 3999, size=4000, threads=2)
    assert threading.active_count() <= before
    assert not POOL._busy.locked()
