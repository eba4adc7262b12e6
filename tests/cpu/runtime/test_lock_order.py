"""Blocks that may wait for one another run on one thread, in their order, where the address of a lock tells which."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from tests.cpu.runtime.test_waiting import HEAD, LOCK

import tilewright
from tilewright import LaunchOptions
from tilewright.cpu import Program
from tilewright.cpu.compile import compile_kernel
from tilewright.cpu.runtime.driver import LaunchState
from tilewright.cpu.runtime.lock_order import arranged_by_key
from tilewright.lowering import lower_to_tileaa

THREADS = pytest.mark.parametrize("threads", [1, 2, 3, 16])

#: %n locks, each for 256 numbers.
SLOT = """
  %slot = remi %block, %n signed : tile<i32>
  %mine = offset %lock, %slot : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
"""
ADD = """
  %first = muli %slot, %width : tile<i32>
  %first1 = reshape %first : tile<i32> -> tile<1xi32>
  %firsts = broadcast %first1 : tile<1xi32> -> tile<256xi32>
  %places = addi %firsts, %lanes : tile<256xi32>
  %p = offset %base, %places : tile<256xptr<f32>>, tile<256xi32> -> tile<256xptr<f32>>
  %v, %tl = load_ptr_tko weak %p token=%held : tile<256xptr<f32>> -> tile<256xf32>, token
  %ones = constant <f32: 1.0> : tile<256xf32>
  %sum = addf %v, %ones : tile<256xf32>
  %ts = store_ptr_tko weak %p, %sum token=%tl : tile<256xptr<f32>>, tile<256xf32> -> token
"""
RELEASE = """
  %tu = store_ptr_tko release device {}, %c0 token=%ts : tile<ptr<i32>>, tile<i32> -> token
"""
KERNEL = HEAD + SLOT + LOCK.replace("%lock,", "%mine,") + ADD
LOCKS = KERNEL + RELEASE.format("%mine") + "\n}\n"


def _has_keys(text: str) -> bool:
    module = lower_to_tileaa(tilewright.parse(text, "keys.tileir")).module
    return compile_kernel(module, "k").has_keys


@THREADS
@pytest.mark.parametrize(("grid", "groups"), [(700, 64), (65, 64), (5, 7), (300, 1), (40, 2)])
def test_locks_of_groups_protect_what_they_should(threads: int, grid: int, groups: int) -> None:
    locks, out = np.zeros(groups, np.int32), np.zeros((groups, 256), np.float32)
    program = Program(tilewright.parse(LOCKS, "locks.tileir"))
    for launches in (1, 2):
        program.launch("k", grid, (locks, out, groups), LaunchOptions(threads=threads))
        counts = np.bincount(np.arange(grid) % groups, minlength=groups)
        np.testing.assert_array_equal(out, np.repeat(launches * counts[:, None], 256, axis=1))
    assert not locks.any()


def test_the_key_is_the_address_of_the_lock() -> None:
    assert _has_keys(LOCKS)
    # The formula of the address may be written anew where the lock is given back.
    again = SLOT.replace("%slot", "%slot2").replace("%mine", "%mine2")
    assert _has_keys(KERNEL + again + RELEASE.format("%mine2") + "\n}\n")


@pytest.mark.parametrize(
    "text",
    [
        # One lock for all.
        LOCKS.replace("%mine = offset %lock, %slot", "%mine = offset %lock, %c1"),
        # What another block waits for.
        KERNEL
        + "  %next = offset %mine, %c1 : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>\n"
        + RELEASE.format("%next")
        + "\n}\n",
        # A lock whose number is read from memory.
        LOCKS.replace("remi %block, %n signed : tile<i32>", "addi %read, %c0 : tile<i32>").replace(
            "  %slot = ",
            "  %at = offset %lock, %block : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>\n"
            "  %read, %tr = load_ptr_tko weak %at token=%t0 : tile<ptr<i32>> -> tile<i32>, token\n"
            "  %slot = ",
        ),
    ],
    ids=["constant", "other address", "read from memory"],
)
def test_others_have_no_keys(text: str) -> None:
    assert not _has_keys(text)


_KEYS = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
)


@pytest.mark.parametrize("threads", [2, 3, 8, 11])
@pytest.mark.parametrize("kind", ["in turn", "one after the other", "skewed", "random"])
def test_threads_get_whole_keys(threads: int, kind: str) -> None:
    total = 360
    blocks = np.arange(total)
    keys = {
        "in turn": blocks % 24,
        "one after the other": blocks // 15,
        "skewed": np.where(blocks < 200, 3, blocks % 24),
        "random": np.random.default_rng(0).integers(0, 24, total),
    }[kind].astype(np.int64) * 4

    def give(slots: int, grid: int, begin: int, end: int, out: int) -> None:
        ctypes.memmove(out, keys[begin:end].tobytes(), 8 * (end - begin))

    function = _KEYS(give)
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    state = LaunchState(0, [], (total, 1, 1), threads=threads)
    arranged_by_key(state, threads, address)
    order, ranges = state.arranged
    assert sorted(order) == list(blocks)
    assert ranges[0][0] == 0
    assert ranges[-1][1] == total
    owners = [{*keys[order[begin:end]]} for begin, end in ranges]
    assert sum(map(len, owners)) == len(set(keys)), "a key has two owners"
    for begin, end in ranges:
        assert order[begin:end] == sorted(order[begin:end])
    assert state.begun == 0


def test_fewer_keys_than_threads_change_nothing() -> None:
    function = _KEYS(lambda slots, grid, begin, end, out: None)
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    state = LaunchState(0, [], (1, 1, 1), threads=2)
    arranged_by_key(state, 2, address)
    assert state.arranged == ([], [])
