"""What lanes hand to one another when a tile changes its layout, against tables of who holds what."""

import random

import pytest

from tilewright.layouts import Layout, plan_conversion
from tilewright.layouts.lane_moves import LaneMoves, plan_lane_moves, spread_out

Held = list[list[int]]
"""For each thread the elements in its registers."""


def held(layout: Layout) -> Held:
    return [
        [layout.element(register, thread) for register in range(layout.registers)]
        for thread in range(layout.threads)
    ]


def moved(given: Held, moves: LaneMoves) -> Held:
    """What threads hold after the moves, by the description of these."""
    for swap in moves.swaps:
        given = [[mine[number] for number in swap.order] for mine in given]
        bit, lane = 1 << swap.register, 1 << swap.thread
        found: Held = []
        for thread, mine in enumerate(given):
            if swap.drops:
                half = [n for n in range(len(mine)) if bool(n & bit) == bool(thread & lane)]
                found.append([mine[n] for n in half])
                continue
            row: list[int] = []
            for number in range(len(mine)):
                # The number's bit tells the lane, and the lane's bit the number.
                source = thread & ~lane | (lane if number & bit else 0)
                row.append(given[source][number & ~bit | (bit if thread & lane else 0)])
            found.append(row)
        given = found
    take = moves.take
    result: Held = []
    for thread in range(len(given)):
        own = 0
        for position, target in enumerate(take.thread):
            own ^= target if thread >> position & 1 else 0
        warp = thread & ~31
        result.append(
            [
                given[warp | (own ^ lane)][register]
                for register, lane in zip(take.registers, take.lanes, strict=True)
            ]
        )
    return result


def shuffled(rng: random.Random, layout: Layout, *, mixed: bool) -> Layout:
    """The same elements in each warp, otherwise distributed."""
    bases = [*layout.register, *layout.lane]
    rng.shuffle(bases)
    if mixed:
        for _ in range(4):
            one, other = rng.sample(range(len(bases)), 2)
            if bases[other]:
                bases[one] ^= bases[other]
    count = len(layout.register)
    return Layout(layout.size, tuple(bases[:count]), tuple(bases[count:]), layout.warp)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("size", [32, 128, 512, 2048])
def test_moves_bring_every_element_where_it_belongs(size: int, mixed: bool) -> None:
    rng = random.Random(size + mixed)
    planned = 0
    for _ in range(150):
        source = shuffled(rng, Layout.dealt(size, 128), mixed=mixed)
        target = shuffled(rng, source, mixed=False)
        if rng.random() < 0.5:
            # Few bits change, as between neighbouring stages of a network.
            lanes, registers = list(source.lane), list(source.register)
            lane = rng.randrange(5)
            if registers and rng.random() < 0.7:
                place = rng.randrange(len(registers))
                lanes[lane], registers[place] = registers[place], lanes[lane]
            else:
                other = rng.randrange(5)
                lanes[lane], lanes[other] = lanes[other], lanes[lane]
            target = Layout(size, tuple(registers), tuple(lanes), source.warp)
        moves = plan_lane_moves(source, target)
        if moves is not None:
            planned += 1
            assert moved(held(source), moves) == held(target)
    assert planned > 20


@pytest.mark.parametrize("lane", range(5))
@pytest.mark.parametrize("size", [128, 512])
def test_pairs_of_lanes_get_what_both_have_by_one_shuffle(size: int, lane: int) -> None:
    source = Layout.dealt(size, 128)
    cleared = list(source.lane)
    basis, cleared[lane] = cleared[lane], 0
    target = Layout(size, (*source.register, basis), tuple(cleared), source.warp)
    moves = plan_conversion(source, target, 4).lanes
    assert moves is not None and not moves.swaps
    assert moves.take.both == lane
    assert moves.take.count == source.registers
    assert moved(held(source), moves) == held(target)
    # The way back only chooses.
    back = plan_conversion(target, source, 4).lanes
    assert back is not None
    assert back.words(target.registers) == 0
    assert moved(held(target), back) == held(source)


def test_warps_that_hold_other_elements_need_shared_memory() -> None:
    source = Layout.dealt(1024, 128)
    target = Layout(1024, source.register, source.lane, source.warp[::-1])
    assert plan_lane_moves(source, target) is None
    assert plan_conversion(source, target, 4).shared_conversion is not None


@pytest.mark.parametrize("free", [(0,), (4,), (5,), (1, 3, 6), (0, 1, 2, 3, 4, 5, 6)])
def test_copies_are_given_up_without_moving_anything(free: tuple[int, ...]) -> None:
    bits = [1 << bit for bit in range(7)]
    threads = [0 if bit in free else bits.pop() for bit in range(7)]
    whole, size = bits, 1 << 7
    layout = Layout(size, tuple(whole), tuple(threads[:5]), tuple(threads[5:]))
    spread = spread_out(layout)
    assert not spread.is_replicated
    assert spread.registers == layout.registers >> len(free)
    moves = plan_conversion(layout, spread, 4).lanes
    assert moves is not None
    assert moves.words(layout.registers) == 0
    assert moved(held(layout), moves) == held(spread)
