"""The address space: accesses that meet several allocations, and what becomes of freed ones."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.launching.storage import storage_of
from tilewright.machine.faults import Fault
from tilewright.machine.memory import Allocation, Memory

I32 = storage_of("i32")


def _filled(memory: Memory, *values: int, name: str = "memory") -> Allocation:
    return memory.allocate(np.array(values, np.int32).view(np.uint8), name)


def _addresses(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def test_lanes_in_several_allocations():
    memory = Memory()
    one, two, three = (_filled(memory, 10 * n, 10 * n + 1) for n in (1, 2, 3))
    where = _addresses(three.base, one.base + 4, two.base, one.base)
    assert memory.load(where, I32).tolist() == [30, 11, 20, 10]
    memory.store(where, I32, np.array([1, 2, 3, 4], np.int32))
    assert [a.buffer.view(np.int32).tolist() for a in (one, two, three)] == [
        [4, 2],
        [3, 21],
        [1, 31],
    ]


@pytest.mark.parametrize("wrong", [-4, 8, 2**20])
def test_one_stray_lane_among_several_allocations_writes_nothing(wrong: int):
    memory = Memory()
    one, two = _filled(memory, 1, 2), _filled(memory, 3, 4)
    where = _addresses(one.base, two.base, two.base + wrong)
    with pytest.raises(Fault) as caught:
        memory.store(where, I32, np.array([7, 8, 9], np.int32))
    assert caught.value.code == "invalid-address"
    assert one.buffer.view(np.int32).tolist() == [1, 2]
    assert two.buffer.view(np.int32).tolist() == [3, 4]


def test_of_equal_addresses_the_last_lane_stays():
    memory = Memory()
    one = _filled(memory, 0)
    memory.store(_addresses(one.base, one.base), I32, np.array([1, 2], np.int32))
    assert memory.load(_addresses(one.base), I32).tolist() == [2]


def test_freed_memory_is_named():
    memory = Memory()
    one, two = _filled(memory, 0, name="first"), _filled(memory, 0, name="second")
    memory.free(one)
    with pytest.raises(Fault) as caught:
        memory.find(one.base, 4, 4)
    assert caught.value.code == "freed-memory"
    assert "first" in caught.value.message
    assert memory.find(two.base, 4, 4) is two


def test_addresses_are_used_again_after_release():
    memory = Memory()
    kept = _filled(memory, 5)
    mark = memory.mark()
    base = _filled(memory, 6).base
    memory.release(mark)
    with pytest.raises(Fault):
        memory.find(base, 4, 4)
    assert _filled(memory, 7).base == base
    assert memory.find(kept.base, 4, 4) is kept


def test_elements_of_memory_at_an_odd_address():
    memory = Memory()
    base = memory.reserve(12)
    memory.place(base + 1, np.arange(11, dtype=np.uint8), "bytes")
    loaded = memory.load(_addresses(base + 4, base + 8), I32)
    assert loaded.tobytes() == bytes([3, 4, 5, 6, 7, 8, 9, 10])
    with pytest.raises(Fault) as caught:
        memory.load(_addresses(base + 1), I32)
    assert caught.value.code == "misaligned-access"


def test_the_address_space_can_be_full():
    memory = Memory()
    memory.reserve(1, alignment=2**62)
    memory.reserve(1, alignment=2**62)
    memory.reserve(1, alignment=2**62)
    with pytest.raises(Fault) as caught:
        memory.reserve(1, alignment=2**62)
    assert caught.value.code == "invalid-address"
