"""Layouts and their conversions, against tables of what each thread holds."""

import random
from math import prod

import pytest

from tilewright.layouts import (
    Fragment,
    Layout,
    accumulator,
    gf2,
    operand_a,
    operand_b,
    plan_conversion,
)
from tilewright.layouts.conversions import plan_shared_conversion
from tilewright.layouts.layout import coordinates_of
from tilewright.layouts.shared import SharedLayout

SHAPES = [(1,), (8,), (128,), (1, 256), (16, 16), (64, 32), (4, 8, 16), (128, 128)]


def random_layout(rng: random.Random, size: int, threads: int) -> Layout:
    """A layout whose bases are random but span the tile."""
    bits, over = size.bit_length() - 1, threads.bit_length() - 1
    while True:
        own = rng.randint(max(bits - over, 0), bits)
        bases = [rng.randrange(size) for _ in range(own + over)]
        if len(gf2.Space(bases)) == bits and len(gf2.Space(bases[:own])) == own:
            return Layout(
                size, tuple(bases[:own]), tuple(bases[own : own + 5]), tuple(bases[own + 5 :])
            )


def held(layout: Layout) -> dict[tuple[int, int], int]:
    return {
        (register, thread): layout.element(register, thread)
        for register in range(layout.registers)
        for thread in range(layout.threads)
    }


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("threads", [32, 128])
def test_every_element_has_one_owner(shape: tuple[int, ...], threads: int) -> None:
    size = prod(shape)
    rng = random.Random(size * threads)
    layouts = [
        Layout.dealt(size, threads),
        Layout.blocked(shape, threads, range(len(shape))[::-1], 8),
        random_layout(rng, size, threads),
    ]
    for layout in layouts:
        owned = [
            element
            for (_, thread), element in held(layout).items()
            if not thread & layout.free_thread_bits
        ]
        assert sorted(owned) == list(range(size))


def test_a_layout_that_leaves_elements_out_is_refused() -> None:
    with pytest.raises(ValueError, match="held by no thread"):
        Layout(64, (1,), (2, 4, 8, 0, 0), ())
    with pytest.raises(ValueError, match="power of two"):
        Layout(48, (1,), (2, 4, 8, 0, 0), ())


def test_permutation_and_slice_hold_what_they_say() -> None:
    shape, order = (8, 16, 4), (2, 0, 1)
    rng = random.Random(3)
    layout = random_layout(rng, prod(shape), 128)
    turned = layout.permuted(shape, order)
    wanted = tuple(shape[axis] for axis in order)
    for key, element in held(layout).items():
        place = coordinates_of(element, shape)
        assert coordinates_of(turned.element(*key), wanted) == tuple(place[axis] for axis in order)
    for axis in range(3):
        rest = tuple(extent for at, extent in enumerate(shape) if at != axis)
        sliced = layout.sliced(shape, axis)
        for thread in range(128):
            mine = {
                coordinates_of(layout.element(r, thread), shape) for r in range(layout.registers)
            }
            left = {tuple(c for at, c in enumerate(place) if at != axis) for place in mine}
            assert left == {
                coordinates_of(sliced.element(r, thread), rest) for r in range(sliced.registers)
            }


F16 = Fragment(16, 8, 16, 16)


def test_fragments_are_those_of_ptx() -> None:
    """From the PTX instruction set: m16n8k16 with f16 operands."""
    sums, left, right = (
        accumulator((16, 8), F16, (1, 1)),
        operand_a((16, 16), F16, (1, 1)),
        operand_b((16, 8), F16, (1, 1)),
    )
    for lane in range(32):
        group, place = lane >> 2, lane & 3
        for i in range(4):
            row, column = group + 8 * (i >= 2), place * 2 + (i & 1)
            assert coordinates_of(sums.element(i, lane), (16, 8)) == (row, column)
            along = place * 2 + (i & 1) + 8 * (i >= 2)
            assert coordinates_of(right.element(i, lane), (16, 8)) == (along, group)
        for i in range(8):
            row = group + 8 * (i in (2, 3, 6, 7))
            column = place * 2 + (i & 1) + 8 * (i >= 4)
            assert coordinates_of(left.element(i, lane), (16, 16)) == (row, column)


@pytest.mark.parametrize("warps", [(1, 1), (2, 2), (4, 1), (1, 8)])
def test_warps_share_operands_of_their_rows_and_columns(warps: tuple[int, int]) -> None:
    sums = accumulator((64, 64), F16, warps)
    left, right = operand_a((64, 32), F16, warps), operand_b((32, 64), F16, warps)
    for warp in range(warps[0] * warps[1]):
        threads = range(32 * warp, 32 * warp + 32)
        mine = {
            coordinates_of(sums.element(r, t), (64, 64))
            for r in range(sums.registers)
            for t in threads
        }
        rows, columns = {row for row, _ in mine}, {column for _, column in mine}
        assert rows == {
            coordinates_of(left.element(r, t), (64, 32))[0]
            for r in range(left.registers)
            for t in threads
        }
        assert columns == {
            coordinates_of(right.element(r, t), (32, 64))[1]
            for r in range(right.registers)
            for t in threads
        }


def test_sums_become_an_operand_by_renaming() -> None:
    """What chained products, as those of attention, rest on."""
    sums = accumulator((64, 64), F16, (4, 1))
    operand = operand_a((64, 64), F16, (4, 1))
    plan = plan_conversion(sums, operand, 2)
    assert plan.registers is not None
    for register, origin in enumerate(plan.registers):
        for thread in range(128):
            assert operand.element(register, thread) == sums.element(origin, thread)


def run_exchange(source: Layout, target: Layout, element_bytes: int) -> None:
    plan = plan_shared_conversion(source, target, element_bytes)
    memory: dict[int, int] = {}
    place = [plan.shared.place(element) for element in range(plan.source.size)].__getitem__
    for thread in range(source.threads):
        for register in range(0, plan.source.registers, plan.write):
            first = place(plan.source.element(register, thread))
            assert first % plan.write == 0
            for at in range(plan.write):
                element = plan.source.element(register + at, thread)
                assert element == source.element(plan.source_order[register + at], thread)
                assert memory.setdefault(first + at, element) == element
    for thread in range(target.threads):
        for register in range(0, plan.target.registers, plan.read):
            first = place(plan.target.element(register, thread))
            for at in range(plan.read):
                wanted = target.element(plan.target_order[register + at], thread)
                assert memory[first + at] == wanted
    assert sorted(plan.source_order) == list(range(source.registers))


@pytest.mark.parametrize("element_bytes", [1, 2, 4, 8])
@pytest.mark.rotates(2)
def test_an_exchange_moves_every_element(element_bytes: int) -> None:
    rng = random.Random(element_bytes)
    for _ in range(40):
        size = 1 << rng.randint(0, 12)
        threads = rng.choice([32, 64, 128, 256])
        run_exchange(
            random_layout(rng, size, threads), random_layout(rng, size, threads), element_bytes
        )


#: Conversions that products, reductions and transpositions need.
NAMED = {
    "transpose": lambda: (
        Layout.blocked((128, 128), 128, (1, 0), 8),
        Layout.blocked((128, 128), 128, (0, 1), 8),
        2,
    ),
    "transpose f32": lambda: (
        Layout.blocked((64, 64), 128, (1, 0), 4),
        Layout.blocked((64, 64), 128, (0, 1), 4),
        4,
    ),
    "sums to rows": lambda: (
        accumulator((128, 128), F16, (2, 2)),
        Layout.blocked((128, 128), 128, (1, 0), 4),
        4,
    ),
    "sums to rows f16": lambda: (
        accumulator((128, 128), F16, (2, 2)),
        Layout.blocked((128, 128), 128, (1, 0), 8),
        2,
    ),
    "rows to operand": lambda: (
        Layout.blocked((128, 64), 128, (1, 0), 8),
        operand_a((128, 64), F16, (2, 2)),
        2,
    ),
}


@pytest.mark.parametrize("name", NAMED)
def test_exchanges_have_no_bank_conflicts(name: str) -> None:
    source, target, element_bytes = NAMED[name]()
    run_exchange(source, target, element_bytes)
    plan = plan_shared_conversion(source, target, element_bytes)
    assert plan.shared.waves(plan.source, plan.write, element_bytes) == 1
    assert plan.shared.waves(plan.target, plan.read, element_bytes) == 1


@pytest.mark.parametrize(
    ("shape", "bytes_each"),
    [
        ((64, 64), 2),
        ((64, 32), 2),
        ((64, 16), 2),
        ((32, 128), 2),
        ((64, 32), 4),
        ((16, 256), 1),
        ((16, 8), 2),
    ],
)
def test_swizzled_rows_are_read_in_columns_without_conflicts(
    shape: tuple[int, int], bytes_each: int
) -> None:
    """Eight chunks of 16 bytes below one another, as ldmatrix reads them."""
    shared = SharedLayout.swizzled(shape, 1, bytes_each)
    chunk = 16 // bytes_each
    for column in range(0, shape[1], chunk):
        for row in range(0, shape[0], 8):
            places = [
                shared.place((row + lane) * shape[1] + column) * bytes_each for lane in range(8)
            ]
            assert all(place % 16 == 0 for place in places)
            assert len({place % 128 // 16 for place in places}) == 8
