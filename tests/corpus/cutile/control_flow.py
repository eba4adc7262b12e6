"""Branches, counted and general loops, break, continue, early return, helper functions."""

from __future__ import annotations

from typing import Any

import cuda.tile as ct
import numpy as np
from tests.corpus import EXACT_INTEGERS, Arguments, Launch
from tests.corpus.cutile._table import KernelTable, array, canvas, integers, scalar

KERNELS = KernelTable("control_flow")


@KERNELS.add(
    array(ct.float32, 2),
    array(ct.float32),
    ops="for continue addf get_index_space_shape",
    launch=Launch(
        (4, 1, 1),
        lambda rng: {
            "x": integers(rng, (16, 50), -9, 9, np.float32),
            "out": canvas(16),
        },
        lambda given: {"out": given["x"].sum(axis=1)},
        EXACT_INTEGERS,
    ),
)
@ct.kernel
def accumulate_over_tiles(x, out):
    i = ct.bid(0)
    total = ct.zeros((4, 16), ct.float32)
    for j in range(ct.num_tiles(x, 1, shape=(4, 16))):
        total += ct.load(x, (i, j), (4, 16), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (i,), ct.sum(total, axis=1))


@KERNELS.add(
    scalar(ct.int32),
    scalar(ct.int32),
    scalar(ct.int32),
    array(ct.int32),
    ops="for continue addi muli",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "start": np.int32(-5),
            "stop": np.int32(40),
            "step": np.int32(7),
            "out": canvas(2, np.int32),
        },
        lambda given: {
            "out": np.array([sum(range(-5, 40, 7)), 1 + len(range(-5, 40, 7))], np.int32)
        },
    ),
)
@ct.kernel
def counted_loop(start, stop, step, out):
    total, count = 0, 1
    for i in range(start, stop, step):
        total += i
        count = count + 1
    for _ in range(stop, start):
        count = count * 100
    ct.store(out, (0,), total)
    ct.store(out, (1,), count)


def _collatz_steps(given: Arguments) -> dict[str, Any]:
    steps = []
    for value in given["x"].tolist():
        count = 0
        while value != 1:
            value = value // 2 if value % 2 == 0 else 3 * value + 1
            count += 1
        steps.append(count)
    return {"out": np.array(steps, np.int32)}


@KERNELS.add(
    array(ct.int32),
    array(ct.int32),
    ops="loop break continue if yield",
    launch=Launch(
        (8, 1, 1),
        lambda rng: {"x": integers(rng, 8, 1, 200), "out": canvas(8, np.int32)},
        _collatz_steps,
    ),
)
@ct.kernel
def collatz(x, out):
    value = ct.load(x, (ct.bid(0),), ()).item()
    steps = 0
    while value != 1:
        if value % 2 == 0:
            value = value // 2
        else:
            value = 3 * value + 1
        steps += 1
    ct.store(out, (ct.bid(0),), steps)


def _until_negative(given: Arguments) -> dict[str, Any]:
    out = given["out"].copy()
    for row, values in enumerate(given["x"]):
        total = 0
        for value in values.tolist():
            if value < 0:
                break
            if value % 3 == 0:
                continue
            total += value
        out[row] = total
    return {"out": out}


@KERNELS.add(
    array(ct.int32, 2),
    array(ct.int32),
    ops="for continue if cmpi",
    launch=Launch(
        (6, 1, 1),
        lambda rng: {"x": integers(rng, (6, 12), -1, 9), "out": canvas(6, np.int32)},
        _until_negative,
    ),
)
@ct.kernel
def break_and_continue(x, out):
    row = ct.bid(0)
    total = 0
    for j in range(x.shape[1]):
        value = ct.load(x, (row, j), ()).item()
        if value < 0:
            break
        if value % 3 == 0:
            continue
        total += value
    ct.store(out, (row,), total)


def _first_match(given: Arguments) -> dict[str, Any]:
    out = given["out"].copy()
    for row, values in enumerate(given["x"]):
        if row == 2:
            continue
        found = np.flatnonzero(values == 7)
        out[row] = found[0] if found.size else -1
    return {"out": out}


@KERNELS.add(
    array(ct.int32, 2),
    array(ct.int32),
    ops="return for if yield",
    cutile=(1, 7),
    launch=Launch(
        (6, 1, 1),
        lambda rng: {"x": integers(rng, (6, 12), 0, 9), "out": canvas(6, np.int32)},
        _first_match,
    ),
)
@ct.kernel
def return_from_loop(x, out):
    row = ct.bid(0)
    if row == 2:
        return
    for j in range(12):
        if ct.load(x, (row, j), ()).item() == 7:
            ct.store(out, (row,), j)
            return
    ct.store(out, (row,), -1)


def _triangle(given: Arguments) -> dict[str, Any]:
    rows = np.arange(8)
    return {"out": np.array([[r * 10 + c if c <= r else -1 for c in rows] for r in rows], np.int32)}


@KERNELS.add(
    array(ct.int32, 2),
    ops="for continue",
    launch=Launch(
        (1, 1, 1), lambda rng: {"out": np.full((8, 8), -1, np.int32)}, _triangle, EXACT_INTEGERS
    ),
)
@ct.kernel
def nested_loops(out):
    for row in range(8):
        for column in range(row + 1):
            ct.store(out, (row, column), row * 10 + column)


def _fibonacci(given: Arguments) -> dict[str, Any]:
    out = []
    for count in given["n"].tolist():
        a, b = 0, 1
        for _ in range(count):
            a, b = b, a + b
        out.append(a)
    return {"out": np.array(out, np.int64)}


@KERNELS.add(
    array(ct.int32),
    array(ct.int64),
    ops="for continue addi",
    launch=Launch(
        (5, 1, 1),
        lambda rng: {"n": integers(rng, 5, 0, 60), "out": canvas(5, np.int64)},
        _fibonacci,
    ),
)
@ct.kernel
def carried_values(n, out):
    a = ct.full((), 0, ct.int64)
    b = ct.full((), 1, ct.int64)
    for _ in range(ct.load(n, (ct.bid(0),), ()).item()):
        a, b = b, a + b
    ct.store(out, (ct.bid(0),), a)


def _branches(given: Arguments) -> dict[str, Any]:
    out = []
    for x in given["x"].tolist():
        if x > 5 and x % 2 == 0:
            y = x * 2
        elif x < 0 or x == 3:
            y = -1 if x < -3 else 0
        else:
            y = x
        out.append(y + (10 if not x > 0 else 1))
    return {"out": np.array(out, np.int32)}


@KERNELS.add(
    array(ct.int32),
    array(ct.int32),
    ops="if yield",
    launch=Launch(
        (16, 1, 1),
        lambda rng: {"x": np.arange(-6, 10, dtype=np.int32), "out": canvas(16, np.int32)},
        _branches,
    ),
)
@ct.kernel
def branches(x, out):
    value = ct.load(x, (ct.bid(0),), ()).item()
    if value > 5 and value % 2 == 0:
        result = value * 2
    elif value < 0 or value == 3:
        result = -1 if value < -3 else 0
    else:
        result = value
    ct.store(out, (ct.bid(0),), result + (10 if not value > 0 else 1))


def _clamp(x, low, high):
    return min(max(x, low), high)


def _apply_twice(function, x):
    return function(function(x))


@KERNELS.add(
    array(ct.int32),
    scalar(ct.int32),
    array(ct.int32),
    ops="mini maxi addi",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": integers(rng, 16, -50, 50),
            "shift": np.int32(4),
            "out": canvas(16, np.int32),
        },
        lambda given: {"out": np.clip(given["x"], -9, 9) + np.int32(8)},
    ),
)
@ct.kernel
def functions_and_closures(x, shift, out):
    def moved(tile):
        return tile + shift

    tile = _clamp(ct.load(x, (0,), (16,)), -9, 9)
    ct.store(out, (0,), _apply_twice(moved, tile))


def _powers(given: Arguments) -> dict[str, Any]:
    modulus = 1000
    return {
        "out": np.array(
            [pow(int(b), int(e), modulus) for b, e in zip(given["base"], given["exponent"])],
            np.int64,
        )
    }


@KERNELS.add(
    array(ct.int64),
    array(ct.int64),
    array(ct.int64),
    ops="loop if shri andi muli",
    launch=Launch(
        (6, 1, 1),
        lambda rng: {
            "base": integers(rng, 6, 1, 900, np.int64),
            "exponent": integers(rng, 6, 0, 500, np.int64),
            "out": canvas(6, np.int64),
        },
        _powers,
    ),
)
@ct.kernel
def modular_power(base, exponent, out):
    i = ct.bid(0)
    square = ct.load(base, (i,), ()).item()
    bits = ct.load(exponent, (i,), ()).item()
    result = ct.full((), 1, ct.int64)
    while True:
        if bits == 0:
            break
        if bits & 1 != 0:
            result = result * square % 1000
        square = square * square % 1000
        bits = bits >> 1
    ct.store(out, (i,), result)
