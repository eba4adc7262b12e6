"""Misses of L2: an LRU of what the blocks in flight load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pytest
from tests.model.support import kernels, requires_tools

from tilewright.model.l2 import BlockIndex, Loads, Misses, in_bands, misses
from tilewright.model.profile import Options, Profile
from tilewright.model.tables import GPUS
from tilewright.model.timing import profile
from tilewright.model.traces import Event
from tilewright.model.walk import LaunchShape, WarpPath, parameter_words

SIZE = 1024.0


@dataclass
class _Walker:
    """A kernel whose blocks load these places, one after the other."""

    places: Callable[[BlockIndex], Sequence[tuple[int | None, ...]]]

    def walk(self, warp: int, block: BlockIndex) -> WarpPath:
        events = [Event(0, True, None, None, where) for where in self.places(block)]
        return WarpPath([], Counter(), 0, events)


def _share(
    places: Callable[[BlockIndex], Sequence[tuple[int | None, ...]]],
    grid: BlockIndex,
    *,
    in_flight: int = 8,
    held: float = 1e9,
    band: int = 0,
) -> float:
    found = _misses(places, grid, in_flight, held, band)
    assert found is not None
    return found.share


def _misses(
    places: Callable[[BlockIndex], Sequence[tuple[int | None, ...]]],
    grid: BlockIndex,
    in_flight: int,
    held: float,
    band: int = 0,
) -> Misses | None:
    loads = Loads({0: len(places((0, 0, 0)))}, [SIZE], [0], in_flight, held * SIZE)
    return misses(grid, cast(Any, _Walker(places)), loads, band)


def test_what_no_other_block_loads_misses() -> None:
    assert _share(lambda b: [(b[0], k) for k in range(10)], (64, 1, 1)) == 1


def test_what_all_load_misses_once() -> None:
    assert _share(lambda b: [(k,) for k in range(10)], (8, 1, 1)) == 1 / 8
    # Of three rounds that are looked at only the first misses, and those behind are like the last.
    assert _share(lambda b: [(k,) for k in range(10)], (64, 1, 1)) == 1 / 64


def _product(b: BlockIndex) -> list[tuple[int, int, int]]:
    """The rows of one matrix and the columns of another."""
    return [each for k in range(16) for each in ((0, b[1], k), (1, b[0], k))]


def test_a_product_loads_each_panel_of_the_blocks_in_flight_once() -> None:
    """Two rows of eight blocks in flight: 2 panels of rows and 8 of columns for 16 blocks."""
    assert _share(_product, (8, 2, 1), in_flight=16) == (2 + 8) / 32
    # A cache that holds the columns needs only the rows of later rounds.
    later = _share(_product, (8, 64, 1), in_flight=16)
    assert later == pytest.approx(((2 + 8) + 31 * 2) / 32 / 32)
    # One that holds the blocks of one step, but not all columns, loads them in each round.
    small = _share(_product, (8, 64, 1), in_flight=16, held=20)
    assert small == pytest.approx((2 + 8) / 32)


def test_a_smaller_cache_misses_no_less() -> None:
    shares = [
        _share(_product, (16, 16, 1), in_flight=24, held=held) for held in (4, 16, 64, 256, 1024)
    ]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > shares[-1]


def test_blocks_in_groups_share_more() -> None:
    """Blocks that are taken in groups of 4 rows do not move evenly, and are walked through."""

    def grouped(b: BlockIndex) -> list[tuple[int, int, int]]:
        number = b[0]
        group, inside = divmod(number, 4 * 16)
        return _product((inside // 4, group * 4 + inside % 4, 0))

    def rows(b: BlockIndex) -> list[tuple[int, int, int]]:
        return _product((b[0] % 16, b[0] // 16, 0))

    in_groups, in_rows = (
        _share(each, (256, 1, 1), in_flight=16, held=100) for each in (grouped, rows)
    )
    # 4 rows and 4 columns for each 16 blocks, rather than 1 and 16.
    assert in_groups == pytest.approx(8 / 32)
    assert in_rows == pytest.approx(17 / 32)


def test_bands_are_another_order_of_the_same_blocks() -> None:
    """As if a block took the place that its number has there; the last band may be a narrow one."""
    grid = (10, 6, 2)
    for band in (1, 4, 16):
        order = [in_bands(number, grid, band) for number in range(120)]
        assert sorted(order) == list(range(120))
    assert [in_bands(number, grid, 4) for number in range(6)] == [0, 1, 2, 3, 10, 11]
    assert in_bands(10 * 6 - 1, grid, 4) == 59 and in_bands(60, grid, 4) == 60
    # 4 columns and 4 rows for each 16 blocks, rather than 16 and 1.
    grid = (16, 16, 1)
    assert _share(_product, grid, in_flight=16, held=100) == pytest.approx(17 / 32)
    assert _share(_product, grid, in_flight=16, held=100, band=4) == pytest.approx(8 / 32)

    def odd(block: BlockIndex) -> list[tuple[int, int]]:
        return [(block[0] * block[0], k) for k in range(4)]

    assert _misses(odd, grid, 16, 100, 4) is None


@requires_tools
@pytest.mark.oracle
@pytest.mark.rotates(2)
def test_another_order_is_named_where_memory_is_busy() -> None:
    """Blocks (x, y) read panel x of one array, which is 16 times larger than that of panels y."""
    place = "mov.u32 %r11, %ctaid.y; mad.lo.u32 %r5, %r4, 4096, %r3;"
    made = kernels({"own": _READ.format(place=place)}, threads=256)["own"]
    words = parameter_words(made, [(8, 1 << 40), (4, 1), (4, 1), (4, 1)])

    def hints(grid: BlockIndex) -> tuple[str, ...]:
        launch = LaunchShape(grid, (256, 1, 1), words)
        return profile(made, GPUS["h100"], launch, Options()).hints

    (found,) = hints((1024, 64, 1))
    assert "in L2, in bands of" in found
    assert hints((1024, 1, 1)) == hints((8, 64, 1)) == ()


def test_places_that_nobody_knows_say_nothing() -> None:
    assert _misses(lambda b: [(None, 3)], (8, 1, 1), 8, 100) is None
    half = _misses(lambda b: [(None,), (b[0],), (b[0],)], (8, 1, 1), 8, 100)
    assert half is not None and half.known == pytest.approx(2 / 3)


@dataclass
class _TwoInstructions:
    """Blocks of two warps that load 12 places of their own, then 12 that all load, by another instruction."""

    def walk(self, warp: int, block: BlockIndex) -> WarpPath:
        own = [Event(0, True, None, None, (0, block[0], warp, k)) for k in range(12)]
        same = [Event(1, True, None, None, (1, 0, warp, k)) for k in range(12)]
        return WarpPath([], Counter(), 0, [*own, *same])


def test_many_small_blocks_are_looked_at_to_their_last_instruction() -> None:
    """Of 6000 blocks' 288,000 loads fewer are looked at, but not only the first ones of blocks."""
    loads = Loads({0: 24, 1: 24}, [SIZE, SIZE], [0, 1], 2000, 1e9)
    found = misses((6000, 1, 1), cast(Any, _TwoInstructions()), loads)
    assert found is not None
    assert found.share == pytest.approx(1 / 2, abs=1e-3)


_READ = """
  mov.u32 %r3, %tid.x; mov.u32 %r4, %ctaid.x; {place} mul.wide.u32 %rd1, %r5, 16; add.u64 %rd2, %rd0, %rd1; mov.u32 %r10, 0;
  .pragma "nounroll"; L: ld.global.v4.u32 {{%r6,%r7,%r8,%r9}}, [%rd2]; st.global.v4.u32 [%rd2+1073741824], {{%r6,%r7,%r8,%r9}};
  add.u64 %rd2, %rd2, 4096; add.u32 %r10, %r10, 1; setp.lt.u32 %p0, %r10, 16; @%p0 bra L;
"""


@dataclass
class _TwoLoops:
    """A kernel that goes over a row of its own, and then once more."""

    count: int

    def walk(self, warp: int, block: BlockIndex) -> WarpPath:
        events = [
            Event(loop, True, None, None, (block[0], k))
            for loop in (0, 1)
            for k in range(self.count)
        ]
        return WarpPath([], Counter(), 0, events)


@pytest.mark.parametrize("in_flight", [4, 64, 1000])
@pytest.mark.parametrize(("room", "wanted"), [(1.1, 0.5), (0.9, 1.0)])
def test_a_second_loop_finds_what_the_first_has_loaded(
    room: float, wanted: float, in_flight: int
) -> None:
    """If L2 has room for the rows of the blocks in flight, also where these have too many loads to look at all."""
    count = 300
    held = room * count * in_flight
    loads = Loads({0: count, 1: count}, [SIZE, SIZE], [0], in_flight, held * SIZE)
    found = misses((4 * in_flight, 1, 1), cast(Any, _TwoLoops(count)), loads)
    assert found is not None
    assert found.share == pytest.approx(wanted, abs=0.02)


@requires_tools
@pytest.mark.oracle
def test_blocks_that_load_the_same_need_less_memory() -> None:
    own = _READ.format(place="mad.lo.u32 %r5, %r4, 4096, %r3;")
    made = kernels({"own": own, "same": _READ.format(place="mov.u32 %r5, %r3;")}, threads=256)

    def found(name: str) -> Profile:
        words = parameter_words(made[name], [(8, 1 << 40), (4, 1), (4, 1), (4, 1)])
        launch = LaunchShape((1056, 1, 1), (256, 1, 1), words)
        return profile(made[name], GPUS["h100"], launch, Options())

    own_bytes, same_bytes = (found(name).memory_bytes for name in ("own", "same"))
    stored = 1056 * 16 * 4096
    assert own_bytes == 2 * stored
    # What is stored counts in full.
    assert same_bytes == pytest.approx(stored + 16 * 4096, rel=0.01)
    assert any("LRU" in text for text in found("own").blind)
