"""Tiles that loads give again: never an old one."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.kernels import checked

from tilewright import LaunchOptions
from tilewright.machine import Program
from tilewright.machine.inspect import Breakpoint, run_with

_VIEW = "tensor_view<4xi32, strides=[1]>"
_PART = f"partition_view<tile=(4), {_VIEW}>"
_OUT_VIEW = "tensor_view<16xi32, strides=[1]>"
_OUT_PART = f"partition_view<tile=(4), {_OUT_VIEW}>"

_CHANGES = {
    "nothing": "",
    "view": f"""
        %y_view = make_tensor_view %y, shape = [4], strides = [1] : {_VIEW}
        %y_part = make_partition_view %y_view : {_PART}
        %more = addi %tile, %ones : tile<4xi32>
        store_view_tko weak %more, %y_part[%zero] : tile<4xi32>, {_PART}, tile<i32> -> token
    """,
    "pointer": """
        store_ptr_tko weak %y, %i : tile<ptr<i32>>, tile<i32> -> token
    """,
    "pointers": """
        %p0 = reshape %y : tile<ptr<i32>> -> tile<1xptr<i32>>
        %p1 = broadcast %p0 : tile<1xptr<i32>> -> tile<4xptr<i32>>
        %lane = iota : tile<4xi32>
        %p = offset %p1, %lane : tile<4xptr<i32>>, tile<4xi32> -> tile<4xptr<i32>>
        %more = addi %tile, %ones : tile<4xi32>
        store_ptr_tko weak %p, %more : tile<4xptr<i32>>, tile<4xi32> -> token
    """,
    "atomic": """
        %old, %done = atomic_rmw_tko relaxed device %y, add, %one
          : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    """,
}


def _kernel(change: str):
    """Four times: load a tile of ``%x``, store it to the next row of ``%out``, change ``%y``."""
    return checked(f"""
      entry @k(%x: tile<ptr<i32>>, %y: tile<ptr<i32>>, %out: tile<ptr<i32>>) {{
        %zero = constant <i32: 0> : tile<i32>
        %one = constant <i32: 1> : tile<i32>
        %four = constant <i32: 4> : tile<i32>
        %ones = constant <i32: 1> : tile<4xi32>
        %x_view = make_tensor_view %x, shape = [4], strides = [1] : {_VIEW}
        %x_part = make_partition_view %x_view : {_PART}
        %out_view = make_tensor_view %out, shape = [16], strides = [1] : {_OUT_VIEW}
        %out_part = make_partition_view %out_view : {_OUT_PART}
        for %i in (%zero to %four, step %one) : tile<i32> {{
          %tile, %loaded = load_view_tko weak %x_part[%zero]
            : {_PART}, tile<i32> -> tile<4xi32>, token
          store_view_tko weak %tile, %out_part[%i] : tile<4xi32>, {_OUT_PART}, tile<i32> -> token
          {_CHANGES[change]}
          continue
        }}
      }}""")


def _expected(change: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The rows of ``out``; changes ``x`` and ``y`` as the kernel does."""
    rows = []
    for number in range(4):
        rows.append(x.copy())
        if change in ("view", "pointers"):
            y[:4] = x + 1
        elif change == "pointer":
            y[0] = number
        elif change == "atomic":
            y[0] += 1
    return np.concatenate(rows)


@pytest.mark.parametrize("distance", [0, 2, 4])
@pytest.mark.parametrize("change", _CHANGES)
def test_writes_are_seen(change: str, distance: int):
    """``y`` is ``x``, shares half of it, or lies behind it."""
    memory, twin = np.arange(8, dtype=np.int32), np.arange(8, dtype=np.int32)
    out = np.zeros(16, np.int32)
    program = Program(_kernel(change))
    for _ in range(3):
        args = (memory[:4], memory[distance:], out)
        program.launch("k", 1, args, options=LaunchOptions(allow_overlap=True))
        assert np.array_equal(out, _expected(change, twin[:4], twin[distance:]))
        assert np.array_equal(memory, twin)
        # What the caller changes between launches is seen too.
        memory += 5
        twin += 5


@pytest.mark.parametrize("change", ["view", "pointer", "atomic"])
def test_writes_to_memory_that_is_mapped_twice(change: str):
    memory, twin = np.arange(8, dtype=np.int32), np.arange(8, dtype=np.int32)
    out = np.zeros(16, np.int32)
    program = Program(_kernel(change))
    address = program.map_array(memory[:6])
    # Bytes 8 to 24 of the array are in both.
    program.launch("k", 1, (memory[2:], address + 4, out))
    assert np.array_equal(out, _expected(change, twin[2:6], twin[1:]))
    assert np.array_equal(memory, twin)


def test_alloca_memory_of_another_block():
    """Its addresses are the same in every iteration, its contents are not."""
    module = checked(f"""
      entry @k(%out: tile<ptr<i32>>) {{
        %zero = constant <i32: 0> : tile<i32>
        %one = constant <i32: 1> : tile<i32>
        %four = constant <i32: 4> : tile<i32>
        %out_view = make_tensor_view %out, shape = [16], strides = [1] : {_OUT_VIEW}
        %out_part = make_partition_view %out_view : {_OUT_PART}
        for %i in (%zero to %four, step %one) : tile<i32> {{
          %area = alloca num_elem = 4, alignment = 4 : tile<ptr<i32>>
          store_ptr_tko weak %area, %i : tile<ptr<i32>>, tile<i32> -> token
          %view = make_tensor_view %area, shape = [4], strides = [1] : {_VIEW}
          %part = make_partition_view %view : {_PART}
          %tile, %loaded = load_view_tko weak %part[%zero]
            : {_PART}, tile<i32> -> tile<4xi32>, token
          store_view_tko weak %tile, %out_part[%i] : tile<4xi32>, {_OUT_PART}, tile<i32> -> token
          continue
        }}
      }}""")
    out = np.full(16, -1, np.int32)
    Program(module).launch("k", 1, (out,))
    assert out.reshape(4, 4).tolist() == [[i, 0, 0, 0] for i in range(4)]


def test_a_breakpoint_may_change_an_array():
    x, y, out = np.zeros(4, np.int32), np.zeros(4, np.int32), np.zeros(16, np.int32)

    def add_one(_: object) -> None:
        x[...] += 1

    stop = Breakpoint("store_view_tko", add_one)
    run_with(_kernel("nothing"), "k", 1, (x, y, out), options=LaunchOptions(breakpoints=[stop]))
    assert out.reshape(4, 4)[:, 0].tolist() == [0, 1, 2, 3]


def _widening_kernel(rows: int):
    """``c[i, j] = a[i] @ b[j]`` for every pair of tiles."""
    view = f"tensor_view<{rows * 16}x16xf16, strides=[16,1]>"
    part = f"partition_view<tile=(16x16), {view}>"
    out = f"tensor_view<{rows * 16}x{rows * 16}xf32, strides=[{rows * 16},1]>"
    out_part = f"partition_view<tile=(16x16), {out}>"
    return checked(f"""
      entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>) {{
        %i, %j, %z = get_tile_block_id : tile<i32>
        %zero = constant <i32: 0> : tile<i32>
        %start = constant <f32: 0.0> : tile<16x16xf32>
        %a_view = make_tensor_view %a, shape = [{rows * 16}, 16], strides = [16, 1] : {view}
        %b_view = make_tensor_view %b, shape = [{rows * 16}, 16], strides = [16, 1] : {view}
        %c_view = make_tensor_view %c, shape = [{rows * 16}, {rows * 16}],
          strides = [{rows * 16}, 1] : {out}
        %a_part = make_partition_view %a_view : {part}
        %b_part = make_partition_view %b_view : {part}
        %c_part = make_partition_view %c_view : {out_part}
        %lhs, %t0 = load_view_tko weak %a_part[%i, %zero]
          : {part}, tile<i32> -> tile<16x16xf16>, token
        %rhs, %t1 = load_view_tko weak %b_part[%j, %zero]
          : {part}, tile<i32> -> tile<16x16xf16>, token
        %sum = mmaf %lhs, %rhs, %start : tile<16x16xf16>, tile<16x16xf16>, tile<16x16xf32>
        store_view_tko weak %sum, %c_part[%i, %j] : tile<16x16xf32>, {out_part}, tile<i32> -> token
      }}""")


@pytest.mark.parametrize("limit", [1 << 20, 2000, 600, 0])
def test_products_of_kept_tiles(monkeypatch: pytest.MonkeyPatch, limit: int):
    """The same bits as of tiles read anew, also where tiles have to be let go."""
    monkeypatch.setattr("tilewright.machine.load_memo._MAX_BYTES", limit)
    random = np.random.default_rng(3)
    a, b = (random.standard_normal((64, 16)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    program = Program(_widening_kernel(4))
    for _ in range(3):
        program.launch("k", (4, 4), (a, b, c))
        wide_a, wide_b = (x.astype(np.float32).reshape(4, 16, 16) for x in (a, b))
        expected = np.matmul(wide_a[:, None], wide_b[None, :]).transpose(0, 2, 1, 3)
        assert np.array_equal(c, expected.reshape(64, 64))
        a += np.float16(1)
