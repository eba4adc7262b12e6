"""Checked code against the reference machine, on kernels whose extents, strides and indices are anything:
what the one refuses the other refuses, and nothing outside of the arrays is touched."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import ml_dtypes
import numpy as np
import pytest
from tests.machine.kernels import checked

from tilewright.cpu import Program
from tilewright.diagnostics import TileIRError
from tilewright.launching.options import LaunchOptions
from tilewright.machine import Program as Reference

_DTYPES = {
    "i8": np.int8,
    "i32": np.int32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "f4E2M1FN": np.uint8,
}
#: Numbers at which something wraps: of 32 and 64 bits, in elements or bytes, or by a tile's extent.
_EDGES = [
    1 << 31,
    1 << 32,
    1 << 58,
    1 << 60,
    1 << 61,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
]
#: Bytes of an array, and of what lies before and behind it.
ARRAY, ROOM = 512, 4096


@dataclass(frozen=True)
class Kernel:
    """A kernel over one array; ``numbers`` counts the i64 that it takes behind it."""

    text: str
    element: str
    numbers: int


def _views(rng: Random) -> Kernel:
    """An access to a tile of a view whose extents, strides and place are arguments."""
    element, rank = rng.choice(list(_DTYPES)), rng.choice([1, 1, 2, 3])
    tile = [rng.choice([1, 2, 4, 8]) for _ in range(rank)]
    tile[-1] = max(tile[-1], 2)
    writes, sparse = rng.random() < 0.5, rng.random() < 0.4
    names = [f"{kind}{axis}" for kind in "est" for axis in range(rank)]
    numbers = ", ".join(f"%{name}: tile<i64>" for name in names)
    extents, strides = (", ".join(f"%{kind}{axis}" for axis in range(rank)) for kind in "es")
    dims, whole = "x".join("?" * rank), "x".join(map(str, tile))
    tensor = f"tensor_view<{dims}x{element}, strides=[{','.join('?' * rank)}]>"
    kind = "partition"
    lines, indices, types = "", [f"%t{axis}" for axis in range(rank)], ["tile<i64>"] * rank
    before = after = ""
    if sparse:
        kind, axis = "gather_scatter", rng.randrange(rank)
        after = f", sparse_dim={axis}"
        lines = (
            f"%n = iota : tile<{tile[axis]}xi64>\n"
            f"%f1 = reshape %t{axis} : tile<i64> -> tile<1xi64>\n"
            f"%f = broadcast %f1 : tile<1xi64> -> tile<{tile[axis]}xi64>\n"
            f"%two = constant <i64: {rng.choice([1, 2, 3])}> : tile<{tile[axis]}xi64>\n"
            f"%m = muli %n, %two : tile<{tile[axis]}xi64>\n"
            f"%g = addi %f, %m : tile<{tile[axis]}xi64>\n"
        )
        indices[axis], types[axis] = "%g", f"tile<{tile[axis]}xi64>"
    elif rng.random() < 0.4:
        kind = "strided"
        before = f", traversal_strides=[{','.join(str(rng.choice([1, 2, 5])) for _ in tile)}]"
    if not sparse and rank > 1 and rng.random() < 0.4:
        after = f", dim_map=[{', '.join(map(str, rng.sample(range(rank), rank)))}]"
    padding = "" if element == "f4E2M1FN" and writes else ", padding_value = zero"
    view = f"{kind}_view<tile=({whole}){before}{padding}, {tensor}{after}>"
    held = f"tile<{whole}x{element}>"
    bounds = ""
    if rng.random() < 0.2:
        bounds = f" inbounds = [{', '.join(rng.choice(['true', 'false']) for _ in tile)}]"
    listed = ", ".join(types) if sparse else "tile<i64>"
    if writes:
        value = f"%v = constant <{element}: 1{'' if element[0] == 'i' else '.0'}> : {held}\n"
        access = (
            value
            + f"%r = store_view_tko weak %v, %p[{', '.join(indices)}]{bounds} : {held}, {view}, {listed} -> token\n"
        )
    else:
        access = (
            f"%v, %r = load_view_tko weak %p[{', '.join(indices)}]{bounds} : {view}, {listed} -> {held}, token\n"
            f"%out = make_tensor_view %y, shape = [{', '.join(map(str, tile))}], "
            f"strides = [{', '.join(map(str, _row_major(tile)))}] "
            f": tensor_view<{whole}x{element}, strides=[{','.join(map(str, _row_major(tile)))}]>\n"
            f"%outs = make_partition_view %out : partition_view<tile=({whole}), "
            f"tensor_view<{whole}x{element}, strides=[{','.join(map(str, _row_major(tile)))}]>>\n"
            f"%zero = constant <i64: 0> : tile<i64>\n"
            f"%w = store_view_tko weak %v, %outs[{', '.join(['%zero'] * rank)}] : {held}, "
            f"partition_view<tile=({whole}), tensor_view<{whole}x{element}, "
            f"strides=[{','.join(map(str, _row_major(tile)))}]>>, tile<i64> -> token\n"
        )
    text = f"""
    cuda_tile.module @m {{
      entry @k(%x: tile<ptr<{element}>>, %y: tile<ptr<{element}>>, {numbers}) {{
        {lines}
        %a = make_tensor_view %x, shape = [{extents}], strides = [{strides}] : tile<i64> -> {tensor}
        %p = make_{kind}_view %a : {view}
        {access}
        return
      }}
    }}
    """
    return Kernel(text, element, len(names))


def _row_major(dims: list[int]) -> list[int]:
    steps = [1]
    for extent in reversed(dims[1:]):
        steps.append(steps[-1] * extent)
    return steps[::-1]


def _pointers(rng: Random) -> Kernel:
    """An access through pointers at a start and a distance that are arguments, under a mask."""
    element = rng.choice([name for name in _DTYPES if name != "f4E2M1FN"])
    index, count = rng.choice(["i32", "i64"]), rng.choice([1, 4, 16, 64])
    kind = rng.choice(["load", "store", "atomic" if element == "i32" else "load"])
    tile, pointers, held = (
        f"tile<{count}x{index}>",
        f"tile<{count}xptr<{element}>>",
        f"tile<{count}x{element}>",
    )

    def spread(name: str, ty: str) -> str:
        return (
            f"%{name}1 = reshape %{name} : tile<{ty}> -> tile<1x{ty}>\n"
            f"%{name}n = broadcast %{name}1 : tile<1x{ty}> -> tile<{count}x{ty}>\n"
        )

    narrow = (
        ""
        if index == "i64"
        else "".join(
            f"%{name} = trunci %{name}0 : tile<i64> -> tile<i32>\n" for name in ("s", "d", "c")
        )
    )
    names = ("s", "d", "c") if index == "i64" else ("s0", "d0", "c0")
    value = f"%v = constant <{element}: 1{'' if element[0] == 'i' else '.0'}> : {held}\n"
    access = {
        "store": value
        + f"%r = store_ptr_tko weak %q, %v, %on : {pointers}, {held}, tile<{count}xi1> -> token\n",
        "atomic": value
        + f"%o, %r = atomic_rmw_tko relaxed device %q, add, %v, %on : {pointers}, {held}, tile<{count}xi1> -> {held}, token\n",
        "load": f"%l, %r = load_ptr_tko weak %q, %on : {pointers}, tile<{count}xi1> -> {held}, token\n"
        + spread("y", f"ptr<{element}>")
        + f"%z = offset %yn, %i : {pointers}, {tile} -> {pointers}\n"
        + f"%w = store_ptr_tko weak %z, %l : {pointers}, {held} -> token\n",
    }[kind]
    text = f"""
    cuda_tile.module @m {{
      entry @k(%x: tile<ptr<{element}>>, %y: tile<ptr<{element}>>, {", ".join(f"%{n}: tile<i64>" for n in names)}) {{
        {narrow}
        %i = iota : {tile}
        {spread("s", index)} {spread("d", index)} {spread("c", index)} {spread("x", f"ptr<{element}>")}
        %by = muli %i, %dn : {tile}
        %at = addi %sn, %by : {tile}
        %on = cmpi less_than %i, %cn, unsigned : {tile} -> tile<{count}xi1>
        %q = offset %xn, %at : {pointers}, {tile} -> {pointers}
        {access}
        return
      }}
    }}
    """
    return Kernel(text, element, 3)


def _planes(rng: Random) -> Kernel:
    """An access through a tile of pointers to rows and columns, under a mask that compares them with extents, or others."""
    element = rng.choice(["i8", "i32", "f64"])
    index, shape = rng.choice(["i32", "i64"]), rng.choice(["4x16", "2x64", "8x8", "1x32"])
    rows, columns = map(int, shape.split("x"))
    ty = f"tile<{shape}x{index}>"
    pointers, held, bits = (
        f"tile<{shape}xptr<{element}>>",
        f"tile<{shape}x{element}>",
        f"tile<{shape}xi1>",
    )
    names = ["s", "t", "w", "h", "c"]
    lines = [f"%{n}i = trunci %{n} : tile<i64> -> tile<i32>" for n in names if index == "i32"]

    def spread(name: str, kind: str) -> list[str]:
        return [
            f"%{name}1 = reshape %{name} : tile<{kind}> -> tile<1x1x{kind}>",
            f"%{name}n = broadcast %{name}1 : tile<1x1x{kind}> -> tile<{shape}x{kind}>",
        ]

    suffix = "i" if index == "i32" else ""
    for name in names:
        lines += spread(f"{name}{suffix}", index)
    lines += [
        *spread("x", f"ptr<{element}>"),
        f"%i0 = iota : tile<{rows}x{index}>",
        f"%i1 = reshape %i0 : tile<{rows}x{index}> -> tile<{rows}x1x{index}>",
        f"%i = broadcast %i1 : tile<{rows}x1x{index}> -> {ty}",
        f"%j0 = iota : tile<{columns}x{index}>",
        f"%j1 = reshape %j0 : tile<{columns}x{index}> -> tile<1x{columns}x{index}>",
        f"%j = broadcast %j1 : tile<1x{columns}x{index}> -> {ty}",
        f"%sr = broadcast %s{suffix}1 : tile<1x1x{index}> -> tile<{rows}x1x{index}>",
        f"%hr = broadcast %h{suffix}1 : tile<1x1x{index}> -> tile<{rows}x1x{index}>",
        f"%rr = addi %i1, %sr : tile<{rows}x1x{index}>",
        f"%row0 = broadcast %rr : tile<{rows}x1x{index}> -> {ty}"
        if rng.random() < 0.5
        else f"%row0 = addi %i, %s{suffix}n : {ty}",
        f"%mr = cmpi {rng.choice(['less_than', 'greater_than'])} %rr, %hr, "
        f"{rng.choice(['signed', 'unsigned'])} : tile<{rows}x1x{index}> -> tile<{rows}x1xi1>",
        f"%col0 = {rng.choice(['addi', 'subi'])} %j, %t{suffix}n : {ty}",
        f"%zero = constant <{index}: 0> : {ty}",
        rng.choice(
            [
                f"%row = maxi %row0, %zero signed : {ty}",
                f"%row = mini %row0, %zero signed : {ty}",
                f"%row = addi %row0, %zero : {ty}",
                f"%row = addi %row0, %zero : {ty}",
            ]
        ),
        f"%col = addi %col0, %zero : {ty}",
        f"%by = muli %row, %w{suffix}n : {ty}",
        *_places(rng, element, index, shape),
        f"%q = offset %xn, %at : {pointers}, {ty} -> {pointers}",
    ]
    masks = [f"constant <i1: true> : {bits}"]
    if rng.random() < 0.5:
        masks.append(f"broadcast %mr : tile<{rows}x1xi1> -> {bits}")
    for number, limit in (("row", "h"), ("col", "c"), ("at", "c"), ("row", "c")):
        if rng.random() < 0.6:
            predicate = rng.choice(
                ["less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal"]
            )
            other = f"%{limit}{suffix}n" if rng.random() < 0.8 else "%zero"
            sign = rng.choice(["signed", "unsigned"])
            masks.append(f"cmpi {predicate} %{number}, {other}, {sign} : {ty} -> {bits}")
    for count, mask in enumerate(masks):
        lines.append(f"%m{count} = {mask}")
        both = f"andi %on{count - 1}, %m{count} : {bits}" if count else f"andi %m0, %m0 : {bits}"
        lines.append(f"%on{count} = {both}")
    on = f"%on{len(masks) - 1}"
    value = "1" if element[0] == "i" else "1.0"
    lines += [
        f"%v = constant <{element}: {value}> : {held}",
        f"%r = store_ptr_tko weak %q, %v, {on} : {pointers}, {held}, {bits} -> token",
    ]
    numbers = ", ".join(f"%{name}: tile<i64>" for name in names)
    body = "\n".join(lines)
    text = f"""
    cuda_tile.module @m {{
      entry @k(%x: tile<ptr<{element}>>, %y: tile<ptr<{element}>>, {numbers}) {{
        {body}
        return
      }}
    }}
    """
    return Kernel(text, element, len(names))


def _places(rng: Random, element: str, index: str, shape: str) -> list[str]:
    """Which elements: a formula, or numbers that are read from the second array, a few bits of each."""
    ty, read, places = (f"tile<{shape}x{each}>" for each in (index, "i32", "ptr<i32>"))
    if element != "i32" or rng.random() < 0.4:
        return [f"%at = addi %by, %col : {ty}"]
    rows, columns = map(int, shape.split("x"))
    return [
        "%y1 = reshape %y : tile<ptr<i32>> -> tile<1x1xptr<i32>>",
        f"%yn = broadcast %y1 : tile<1x1xptr<i32>> -> {places}",
        f"%l0 = iota : tile<{rows * columns}xi32>",
        f"%l = reshape %l0 : tile<{rows * columns}xi32> -> {read}",
        f"%yq = offset %yn, %l : {places}, {read} -> {places}",
        f"%held, %ty = load_ptr_tko weak %yq : {places} -> {read}, token",
        f"%bits = constant <i32: {rng.choice([23, 25, 27])}> : {read}",
        f"%few = shri %held, %bits signed : {read}",
        f"%at = exti %few signed : {read} -> {ty}"
        if index == "i64"
        else f"%at = addi %few, %few : {read}",
    ]


def make(rng: Random) -> Kernel:
    kind = rng.random()
    return (_views if kind < 0.5 else _planes if kind < 0.75 else _pointers)(rng)


def _number(rng: Random) -> int:
    kind = rng.random()
    if kind < 0.7:
        return rng.choice([0, 1, 1, 1, 2, 3, 4, 4, 7, 8, 16, 31, 64])
    number = rng.choice(_EDGES) + rng.choice([0, 0, -1, 1, -4, 4, 7])
    return number % (1 << 64)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _outcome(
    program: Reference | Program, kernel: Kernel, numbers: list[int]
) -> tuple[bool, list[bytes]]:
    """Whether a launch is let through, and the bytes around both arrays; those in them, too, if it is."""
    rooms = [
        (np.arange(ARRAY + 2 * ROOM, dtype=np.uint32) * 7 % 251).astype(np.uint8) for _ in "xy"
    ]
    arrays = [room[ROOM : ROOM + ARRAY].view(_DTYPES[kernel.element]) for room in rooms]
    runs = True
    try:
        program.launch("k", 1, [*arrays, *map(_signed, numbers)])
    except TileIRError:
        runs = False
        for room in rooms:
            room[ROOM : ROOM + ARRAY] = 0
    return runs, [room.tobytes() for room in rooms]


def compare(seed: int, launches: int = 40) -> tuple[int, int]:
    """How many launches of a kernel ran, and how many were refused, alike on both machines."""
    rng = Random(seed)
    kernel = make(rng)
    module = checked(kernel.text)
    reference, program = Reference(module), Program(module, options=LaunchOptions(checked=True))
    ran = 0
    for _ in range(launches):
        numbers = [_number(rng) for _ in range(kernel.numbers)]
        expected, found = (_outcome(p, kernel, numbers) for p in (reference, program))
        assert found[0] == expected[0], (
            seed,
            numbers,
            f"reference runs: {expected[0]}",
            kernel.text,
        )
        assert found == expected, (seed, numbers, kernel.text)
        ran += expected[0]
    return ran, launches - ran


@pytest.mark.rotates(2)
@pytest.mark.parametrize("seed", range(30))
def test_checked_code_refuses_what_the_reference_machine_refuses(seed: int) -> None:
    compare(seed)


@pytest.mark.long
@pytest.mark.parametrize("start", range(1000, 1400, 50))
def test_the_same_for_many_kernels(start: int) -> None:
    for seed in range(start, start + 50):
        compare(seed)


def test_both_outcomes_are_seen() -> None:
    found = [compare(seed) for seed in (1, 2, 3, 4, 5)]
    assert sum(ran for ran, _ in found) > 10 and sum(refused for _, refused in found) > 10
