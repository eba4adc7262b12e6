"""Profiles of launches: what blocks that are run on the simulator add to the code."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.model.support import requires_tools
from tests.passes.tileas.test_tma import product
from tests.passes.tileas.test_tma_stores import product as rounded_product

import tilewright
from tilewright.diagnostics import TileIRError
from tilewright.model.timing import Profile
from tilewright.profiling import Asked, Profiler, profile_launch
from tilewright.simulator.launch import Program
from tilewright.simulator.recording import Recorder

pytestmark = [requires_tools, pytest.mark.oracle]


def _strided(stride: int, size: int = 4096) -> Any:
    """A kernel whose threads load and store words of shared and of global memory, so many apart."""
    return tilewright.parse(f"""
    module attributes {{gpu.container_module}} {{
      gpu.module @kernels {{
        gpu.func @strided(%a: memref<?xf32>, %n: index) workgroup(%s: memref<{size}xf32, 3>) kernel
            attributes {{gpu.known_block_size = array<i32: 32, 1, 1>}} {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %k = arith.constant {stride} : index
          %t = gpu.thread_id x
          %at = arith.muli %t, %k : index
          scf.for %i = %c0 to %n step %c1 {{
            %x = memref.load %a[%at] : memref<?xf32>
            memref.store %x, %s[%at] : memref<{size}xf32, 3>
            gpu.barrier
            %y = memref.load %s[%at] : memref<{size}xf32, 3>
            memref.store %y, %a[%at] : memref<?xf32>
            gpu.barrier
          }}
          gpu.return
        }}
      }}
    }}
    """)


@cache
def _strided_profile(stride: int) -> Profile:
    a = np.ones(32 * 32, np.float32)
    found = profile_launch(_strided(stride), "h100", 2048, [a, 50])
    assert (a == 1).all()
    return found


@pytest.mark.parametrize("stride", [1, 2, 8, 32])
def test_conflicts_and_sectors_are_those_of_the_addresses(stride: int) -> None:
    """Words n apart are n to a bank; of each sector of 32 bytes 8 / n words are wanted."""
    found = {n: _strided_profile(n) for n in (1, stride)}
    busy = {n: one.shares["shared"] * one.clocks for n, one in found.items()}
    assert busy[stride] == pytest.approx(stride * busy[1], rel=0.02)
    loaded = {n: one.loaded_bytes for n, one in found.items()}
    assert loaded[stride] == pytest.approx(min(stride, 8) * loaded[1])
    # The data come as many clocks later as waves are added, but where longer waits hide it at the ends of the loop.
    more = found[stride].block_latency - found[1].block_latency
    assert more >= 45 * (stride - 1)
    assert found[stride].seconds >= found[1].seconds


def test_lanes_that_are_not_active_move_nothing() -> None:
    module = tilewright.parse("""
    entry @copy(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %n: tile<i32>) {
      %x, %y, %z = get_tile_block_id : tile<i32>
      %from = make_tensor_view %a, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
      %to = make_tensor_view %b, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
      %ft = make_partition_view %from : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>
      %tt = make_partition_view %to : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>
      %v, %t = load_view_tko weak %ft[%x] : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
      %u = store_view_tko weak %v, %tt[%x] : tile<1024xf32>, partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
      return
    }
    """)
    sizes = (4096, 3 * 1024 + 256)
    found = [
        profile_launch(module, "a100", 4, [np.ones(n, np.float32), np.zeros(n, np.float32), n])
        for n in sizes
    ]
    for size, one in zip(sizes, found, strict=True):
        assert one.loaded_bytes == pytest.approx(4 * size)
        assert one.stored_bytes == pytest.approx(4 * size)


_UNTIL = """
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @until(%a: memref<?xi32>) kernel attributes {gpu.known_block_size = array<i32: 32, 1, 1>} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %zero = arith.constant 0 : i32
      %t = gpu.thread_id x
      %end = scf.while (%i = %c0) : (index) -> index {
        %x = memref.load %a[%i] : memref<?xi32>
        %goes = arith.cmpi ne, %x, %zero : i32
        scf.condition(%goes) %i : index
      } do {
      ^bb0(%i: index):
        %next = arith.addi %i, %c1 : index
        scf.yield %next : index
      }
      %found = arith.index_cast %end : index to i32
      memref.store %found, %a[%t] : memref<?xi32>
      gpu.return
    }
  }
}
"""


@pytest.mark.parametrize("turns", [5, 40])
def test_loops_on_data_run_as_often_as_the_data_say(turns: int) -> None:
    a = np.ones(64, np.int32)
    a[turns] = 0
    found = profile_launch(tilewright.parse(_UNTIL), "h100", 1, [a])
    (loop,) = found.loops
    assert abs(loop.turns - turns) <= 1
    assert a[turns] == 0 and a.sum() == 63


def test_loops_on_data_need_a_run_or_a_number() -> None:
    module = tilewright.parse(_UNTIL)
    a = np.ones(64, np.int32)
    with pytest.raises(TileIRError, match="how often loop L0 of"):
        profile_launch(module, "h100", 1, [a], asked=Asked(run_seconds=0))
    given = profile_launch(module, "h100", 1, [a], asked=Asked(run_seconds=0, trips={"L0": 9}))
    assert given.loops[0].turns == 9
    # It runs beyond the end of the array: the run ends, and nothing is known of the loop.
    with pytest.raises(TileIRError, match="how often loop L0 of"):
        profile_launch(module, "h100", 1, [a])


def _turns(program: Program, module: Any, period: int, n: int) -> Recorder:
    from tilewright.launching.options import LaunchOptions

    recorder = Recorder([(0, 0, 0)], period)
    program.simulate(
        program.kernel("strided"),
        (1, 1, 1),
        [np.ones(4096, np.float32), n],
        LaunchOptions(),
        block=32,
        memory=[],
        recorder=recorder,
    )
    return recorder


def test_loops_that_are_cut_short_count_as_if_they_were_not() -> None:
    module = _strided(4)
    program = Program(module)
    whole, short = (_turns(program, module, period, 200) for period in (0, 1))
    assert short.events < whole.events / 20
    (every,), (few,) = whole.records.values(), short.records.values()
    assert every.turns == few.turns
    assert every.accesses == few.accesses
    for period in (7, 48):
        (some,) = _turns(program, module, period, 200).records.values()
        assert some.accesses == every.accesses


def test_profiles_are_the_same_each_time_and_more_of_anything_is_no_slower() -> None:
    module, a = _strided(4), np.ones(4096, np.float32)
    first, again = (profile_launch(module, "h100", 512, [a, 64]) for _ in range(2))
    assert first == again
    assert profile_launch(module, "h200", 512, [a, 64]).seconds <= first.seconds
    assert profile_launch(module, "h100", 1024, [a, 64]).seconds > first.seconds
    assert first.seconds >= first.roofline_seconds


def test_what_cannot_be_profiled_is_refused() -> None:
    module, a = _strided(4), np.ones(4096, np.float32)
    with pytest.raises(TileIRError, match=r"\[model-unknown-gpu\]: .* no GPU 'gtx1080'"):
        profile_launch(module, "gtx1080", 1, [a, 1])
    with pytest.raises(TileIRError, match=r"\[profile-block\]: .* requires blocks of"):
        profile_launch(module, "h100", 1, [a, 1], asked=Asked(block=(64, 1, 1)))
    with pytest.raises(TileIRError, match="shared memory"):
        profile_launch(_strided(4, 1 << 17), "h100", 1, [a, 1])


def test_a_profiler_compiles_once() -> None:
    profiler = Profiler(_strided(2), "a100")
    a = np.ones(4096, np.float32)
    times = [profiler.profile(grid, [a, 10]).seconds for grid in (108, 1080)]
    assert times[0] < times[1]


@pytest.mark.parametrize(("gpu", "nested"), [("h100", False), ("h100", True), ("rtx5090", True)])
@pytest.mark.rotates(2)
def test_rings_are_cut_short_whoever_fills_them(
    gpu: str, nested: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rings with phases, also where warps of their own fill them, whose loops count ahead of their own variable."""
    # The smallest tiles whose rings warps of their own fill.
    side = 64 if gpu == "h100" else 128
    rows, steps, width = 2 * side, 40, 6400
    profiler = Profiler(tilewright.parse(product(side, side, 64, nested=nested)), gpu)
    a, b = (np.zeros((n, width), np.float16) for n in (rows, width))
    args = [a, b, np.zeros((rows, width), np.float32), rows, width, width, width, steps]
    made: list[tuple[Recorder, bool]] = []
    simulate = Program.simulate

    def noted(self: Program, *given: Any, recorder: Recorder, **more: Any) -> Any:
        result = simulate(self, *given, recorder=recorder, **more)
        made.append((recorder, result.completed))
        return result

    monkeypatch.setattr(Program, "simulate", noted)
    # Of a run that is cut short more blocks would be begun before as much has been seen of it.
    monkeypatch.setattr("tilewright.profiling.running._MOST_EVENTS", 0)
    found: list[Any] = []
    for period in (24, 0):
        monkeypatch.setattr("tilewright.profiling.running._PHASES", period)
        found.append(profiler.profile((2, 50), args, asked=Asked(run_seconds=600)))
    assert all(completed for _, completed in made)
    short, whole = (
        {place: record for recorder, _ in made if recorder.period == period for place, record in recorder.records.items()}
        for period in (made[0][0].period, 0)
    )  # fmt: skip
    assert short.keys() == whole.keys()
    for place, record in short.items():
        assert record.turns == whole[place].turns
        assert record.accesses == whole[place].accesses
    events = Counter[bool]()
    for recorder, _ in made:
        events[recorder.period == 0] += recorder.events
    assert events[False] < events[True]
    assert found[0] == found[1]


@pytest.mark.rotates(2)
def test_what_a_launch_takes_is_profiled() -> None:
    """Where arrays have no tensor maps, threads copy; a grid of many rows is folded to one."""
    profiler = Profiler(tilewright.parse(product(64, 64, 64)), "h100")
    a, b = np.zeros((256, 256), np.float16), np.zeros((256, 256), np.float16)
    c = np.zeros((256, 256), np.float32)

    def opcodes(grid: tuple[int, ...], *arrays: Any) -> tuple[bool, float]:
        args = [*arrays, 256, 256, 256, 256, 4]
        found = profiler.profile(grid, args)
        assert found.grid[1:] == (1, 1) or found.grid == (*grid, 1)
        return "UTMALDG" in profiler.code_for(grid, args).kernel.mix, found.seconds

    assert opcodes((4, 4), a, b, c)[0]
    assert not opcodes((4, 4), a[:, :200], b, c)[0]
    assert opcodes((1, 65536), a, b, c)[1] > opcodes((1, 65535), a, b, c)[1] / 2


_LOCK = """
entry @locked(%lock: tile<ptr<i32>>, %sum: tile<ptr<i32>>, %n: tile<i32>) {
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  loop {
    %old, %t = atomic_cas_tko acquire device %lock, %zero, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %free = cmpi equal %old, %zero, signed : tile<i32> -> tile<i1>
    if %free {
      break
    }
    continue
  }
  %before, %t1 = atomic_rmw_tko relaxed device %sum, add, %n : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
  %last, %t2 = atomic_rmw_tko release device %lock, xchg, %zero : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
  return
}
"""


def _counting(apart: int) -> str:
    """1024 updates by each block, of words so many apart."""
    tile = "tile<1024xi32>"
    return f"""
entry @count(%a: tile<ptr<i32>>) {{
  %x, %y, %z = get_tile_block_id : tile<i32>
  %width = constant <i32: 1024> : tile<i32>
  %start = muli %x, %width : tile<i32>
  %lane = iota : {tile}
  %apart = constant <i32: {apart}> : {tile}
  %one = constant <i32: 1> : {tile}
  %row = reshape %start : tile<i32> -> tile<1xi32>
  %rows = broadcast %row : tile<1xi32> -> {tile}
  %at = addi %lane, %rows : {tile}
  %place = muli %at, %apart : {tile}
  %p = reshape %a : tile<ptr<i32>> -> tile<1xptr<i32>>
  %ps = broadcast %p : tile<1xptr<i32>> -> tile<1024xptr<i32>>
  %q = offset %ps, %place : tile<1024xptr<i32>>, {tile} -> tile<1024xptr<i32>>
  %old, %t = atomic_rmw_tko relaxed device %q, add, %one : tile<1024xptr<i32>>, {tile} -> {tile}, token
  return
}}
"""


def test_where_the_time_is_a_least_one_it_says_so() -> None:
    """Loops that wait for other blocks, and updates that meet; not those of many addresses."""
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    found = profile_launch(tilewright.parse(_LOCK), "h100", 512, [lock, total, 3])
    assert any("what other blocks write" in why for why in found.at_least)
    from tilewright.model.report import Launch, as_data, as_text
    from tilewright.model.tables import GPUS

    text = as_text([Launch("locked", found)], GPUS["h100"])
    assert "locked on H100 SXM: modelled at least" in text
    assert as_data([Launch("locked", found)])["launches"][0]["at_least"] == list(found.at_least)
    a = np.zeros(1024 * 64, np.int32)
    meeting, apart = (
        profile_launch(tilewright.parse(_counting(n)), "h100", 64, [a]) for n in (0, 1)
    )
    # Lanes that add one number to one address are joined by ptxas: 32 of them are one update.
    assert meeting.at_least == ("about 2,048 atomic updates of one address are serialized",)
    assert apart.at_least == ()


def _adding(places: int) -> str:
    """1024 sums by each block, of floats, into so many places; no two lanes add the same."""
    tile, floats = "tile<1024xi32>", "tile<1024xf32>"
    return f"""
entry @add(%a: tile<ptr<f32>>) {{
  %lane = iota : {tile}
  %places = constant <i32: {places}> : {tile}
  %at = remi %lane, %places unsigned : {tile}
  %own = itof %lane signed : {tile} -> {floats}
  %p = reshape %a : tile<ptr<f32>> -> tile<1xptr<f32>>
  %ps = broadcast %p : tile<1xptr<f32>> -> tile<1024xptr<f32>>
  %q = offset %ps, %at : tile<1024xptr<f32>>, {tile} -> tile<1024xptr<f32>>
  %old, %t = atomic_rmw_tko relaxed device %q, addf, %own : tile<1024xptr<f32>>, {floats} -> {floats}, token
  return
}}
"""


@pytest.mark.rotates(2)
def test_updates_of_one_address_take_their_time() -> None:
    """As many clocks as there are updates of the address that has most, one a clock; memory sees each sector once."""
    from tilewright.model.tables import GPUS, load_constants

    a = np.zeros(1024, np.float32)

    @cache
    def of(places: int, blocks: int) -> Any:
        return profile_launch(tilewright.parse(_adding(places)), "h100", blocks, [a])

    def told(constants: str) -> Any:
        gpu = load_constants(f'{{"gpu": "h100", "constants": {constants}}}', GPUS["h100"])
        return profile_launch(tilewright.parse(_adding(1)), gpu, 16, [a])

    for blocks in (16, 64):
        found = of(1, blocks)
        assert found.clocks == 1024 * blocks and found.bound_by == "contention"
        assert found.shares["contention"] == 1.0 and found.shares["atomics"] < 1.0
        assert found.at_least and "in blocks that were not run" in " ".join(found.blind)
    times = [of(places, 64).clocks for places in (1, 4, 64, 1024)]
    assert times == sorted(times, reverse=True) and times[1] == times[0] / 4
    spread = of(1024, 64)
    assert "contention" not in spread.bound_by and not spread.at_least
    assert spread.memory_bytes == a.nbytes
    # A rate that was measured is the time, not the least one.
    measured = told('{"update_clocks": {"value": 2, "source": "measured"}}')
    assert measured.clocks == 2 * 1024 * 16 and measured.at_least == ()
    assert told('{"hbm_rate": {"value": 9999}}').clocks == of(1, 16).clocks


def test_updates_are_no_memory_traffic() -> None:
    """Blocks that update the same words write them once, however many there are."""
    a = np.zeros(1024, np.float32)
    module = tilewright.parse(_adding(1024))
    few, many = (profile_launch(module, "h100", blocks, [a]) for blocks in (8, 512))
    assert few.memory_bytes == many.memory_bytes == a.nbytes
    assert many.stored_bytes == many.loaded_bytes == 0
    assert many.clocks > few.clocks and many.shares["atomics"] > 0.5


def test_stores_by_tensor_maps_count_once() -> None:
    """All warps come to a store that one of them makes."""
    a, b, c = (np.zeros((256, 256), np.float16) for _ in range(3))
    profiler = Profiler(tilewright.parse(rounded_product((128, 128, 64))), "h100")
    found = profiler.profile((2, 2), [a, b, c, 256, 256, 256, 256, 4, 1])
    assert "UTMASTG" in profiler.code.kernel.mix
    assert found.stored_bytes == c.nbytes
