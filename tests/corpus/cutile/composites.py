"""Whole kernels as people write them: normalisation, attention, filters, block-wise algorithms."""

from __future__ import annotations

from typing import Any

import cuda.tile as ct
import numpy as np
from tests.corpus import EXACT_INTEGERS, Arguments, Launch, Tolerance
from tests.corpus.cutile._table import KernelTable, array, canvas, integers, scalar, uniform

KERNELS = KernelTable("composites")


def _softmax(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


@KERNELS.add(
    array(ct.float32, 2),
    array(ct.float32, 2),
    ops="reduce exp divf subf maxf",
    launch=Launch(
        (5, 1, 1),
        lambda rng: {"x": uniform(rng, (5, 50), -4, 4), "out": canvas((5, 50))},
        lambda given: {"out": _softmax(given["x"].astype(np.float64)).astype(np.float32)},
        Tolerance(
            90.0,
            "in units of 2**-24 relative, which are at most one ulp: x - max is below 8 and rounded "
            "once (8), exp within 2 ulp (4), so each weight 12; a sum of 64 positive terms in any "
            "order 63 more; one division (1): 12 + 12 + 63 + 1, and half an ulp for the expected",
        ),
    ),
)
@ct.kernel
def softmax(x, out):
    i = ct.bid(0)
    tile = ct.load(x, (i, 0), (1, 64), padding_mode=ct.PaddingMode.NEG_INF)
    weights = ct.exp(tile - ct.max(tile, axis=1, keepdims=True))
    ct.store(out, (i, 0), weights / ct.sum(weights, axis=1, keepdims=True))


def _layer_norm(given: Arguments) -> dict[str, Any]:
    x = given["x"].astype(np.float64)
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred**2).mean(axis=1, keepdims=True)
    scaled = centred / np.sqrt(variance + 2.0**-10) * given["weight"] + given["bias"]
    return {"out": scaled.astype(np.float32)}


def _layer_norm_magnitude(given: Arguments) -> dict[str, np.ndarray]:
    out = _layer_norm(dict(given) | {"bias": np.zeros_like(given["bias"])})["out"]
    return {"out": np.abs(out) + np.abs(given["bias"])}


@KERNELS.add(
    array(ct.float32, 2),
    array(ct.float32),
    array(ct.float32),
    array(ct.float32, 2),
    ops="reduce rsqrt fma mulf",
    launch=Launch(
        (3, 1, 1),
        lambda rng: {
            "x": integers(rng, (6, 32), -3, 3, np.float32),
            "weight": uniform(rng, 32, 0.5, 2),
            "bias": uniform(rng, 32),
            "out": canvas((6, 32)),
        },
        _layer_norm,
        Tolerance(
            9.0,
            "the inputs are small integers and 32 a power of two, so mean and variance are exact; "
            "in units of 2**-24 of |y * weight| + |bias|, at most one ulp each: variance plus "
            "epsilon (1, halved by the root), rsqrt within 2 ulp (4), two products (2), the sum "
            "(1), and half an ulp for the expected value",
            _layer_norm_magnitude,
        ),
    ),
)
@ct.kernel
def layer_norm(x, weight, bias, out):
    i = ct.bid(0)
    tile = ct.load(x, (i, 0), (2, 32))
    centred = tile - ct.sum(tile, 1, keepdims=True) * (1 / 32)
    variance = ct.sum(centred * centred, 1, keepdims=True) * (1 / 32)
    normal = centred * ct.rsqrt(variance + 2.0**-10)
    scaled = normal * ct.load(weight, (0,), (32,)) + ct.load(bias, (0,), (32,))
    ct.store(out, (i, 0), scaled)


def _attention(given: Arguments) -> dict[str, Any]:
    scores = 0.5 * (given["q"] @ given["k"].T)
    return {"out": _softmax(scores) @ given["v"]}


def _attention_magnitude(given: Arguments) -> dict[str, np.ndarray]:
    return _attention(dict(given) | {"v": np.abs(given["v"])})


@KERNELS.add(
    *[array(ct.float64, 2)] * 4,
    ops="mmaf reduce exp for fma maxf",
    launch=Launch(
        (2, 1, 1),
        lambda rng: {
            "q": integers(rng, (16, 8), -2, 2, np.float64),
            "k": integers(rng, (48, 8), -2, 2, np.float64),
            "v": uniform(rng, (48, 8), dtype=np.float64),
            "out": canvas((16, 8), np.float64),
        },
        _attention,
        Tolerance(
            400.0,
            "in units of 2**-53 of sum(p * |v|), at most one ulp each: scores and their maxima are "
            "exact; a weight within 1 ulp (2), rescaled three times by a factor within 1 ulp (9); "
            "sums of 48 products and of 48 weights in any order (96 + 48); one division (1); the "
            "expected value, computed alike in f64, no more than that again",
            _attention_magnitude,
        ),
    ),
)
@ct.kernel
def attention(q, k, v, out):
    i = ct.bid(0)
    query = ct.load(q, (i, 0), (8, 8))
    best = ct.full((8, 1), -1e30, ct.float64)
    weight = ct.zeros((8, 1), ct.float64)
    total = ct.zeros((8, 8), ct.float64)
    for j in range(ct.num_tiles(k, 0, shape=(16, 8))):
        key = ct.load(k, (0, j), (8, 16), order="F")
        scores = ct.mma(query, key, ct.zeros((8, 16), ct.float64)) * 0.5
        # Not ct.max: cuTile 1.7 loses the sign of its identity, -inf, for float64.
        new_best = ct.maximum(best, -ct.min(-scores, 1, keepdims=True))
        shrink = ct.exp(best - new_best)
        p = ct.exp(scores - new_best)
        weight = weight * shrink + ct.sum(p, 1, keepdims=True)
        total = ct.mma(p, ct.load(v, (j, 0), (16, 8)), total * shrink)
        best = new_best
    ct.store(out, (i, 0), total / weight)


@KERNELS.add(
    array(ct.float32),
    array(ct.float32),
    array(ct.float32),
    ops="load_ptr_tko fma for",
    launch=Launch(
        (4, 1, 1),
        lambda rng: {
            "x": integers(rng, 60, -9, 9, np.float32),
            "taps": integers(rng, 5, -3, 3, np.float32),
            "out": canvas(60),
        },
        lambda given: {"out": np.convolve(given["x"], given["taps"], "same")},
        EXACT_INTEGERS,
    ),
)
@ct.kernel
def convolution(x, taps, out):
    position = ct.bid(0) * 16 + ct.arange(16, dtype=ct.int32)
    total = ct.zeros((16,), ct.float32)
    for j in range(5):
        total += ct.gather(x, position + 2 - j) * ct.gather(taps, j)
    ct.scatter(out, position, total)


@KERNELS.add(
    array(ct.int32),
    array(ct.int32),
    array(ct.int32),
    ops="scan atomic_rmw_tko",
    launch=Launch(
        (5, 1, 1),
        lambda rng: {
            "x": integers(rng, 40, -9, 9),
            "prefix": canvas(40, np.int32),
            "total": np.zeros(1, np.int32),
        },
        lambda given: {
            "prefix": given["x"].reshape(5, 8).cumsum(axis=1).reshape(40).astype(np.int32),
            "total": given["x"].sum(keepdims=True).astype(np.int32),
        },
        EXACT_INTEGERS,
    ),
)
@ct.kernel
def block_scan_with_total(x, prefix, total):
    i = ct.bid(0)
    running = ct.cumsum(ct.load(x, (i,), (8,)))
    ct.store(prefix, (i,), running)
    ct.atomic_add(total, 0, ct.extract(running, (7,), (1,)).item())


@KERNELS.add(
    array(ct.int32, 2),
    array(ct.int32, 2),
    ops="cmpi load_ptr_tko",
    launch=Launch(
        (2, 2, 1),
        lambda rng: {
            "x": integers(rng, (14, 12), 0, 1),
            "out": canvas((14, 12), np.int32),
        },
        lambda given: {"out": _life(given["x"])},
    ),
)
@ct.kernel
def game_of_life(x, out):
    row = (ct.bid(0) * 8 + ct.arange(8, dtype=ct.int32))[:, None]
    column = (ct.bid(1) * 8 + ct.arange(8, dtype=ct.int32))[None, :]
    count = ct.zeros((8, 8), ct.int32)
    for i, j in ct.static_iter(_NEIGHBOURS):
        count += ct.gather(x, (row + i, column + j))
    alive = ct.gather(x, (row, column))
    born = (count == 3) | ((count == 2) & (alive == 1))
    ct.scatter(out, (row, column), ct.where(born, 1, 0))


_NEIGHBOURS = tuple((i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))


def _life(x: np.ndarray) -> np.ndarray:
    padded = np.pad(x, 1)
    rows, columns = x.shape
    count = sum(padded[1 + i : 1 + i + rows, 1 + j : 1 + j + columns] for i, j in _NEIGHBOURS)
    return ((count == 3) | ((count == 2) & (x == 1))).astype(x.dtype)


@KERNELS.add(
    array(ct.float32, 2),
    scalar(ct.int32),
    array(ct.float32, 2),
    ops="for load_view_tko store_view_tko",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": integers(rng, (8, 8), 0, 1, np.float32),
            "steps": np.int32(4),
            "out": canvas((8, 8)),
        },
        lambda given: {
            "out": np.linalg.matrix_power(given["x"].astype(np.int64), 5).astype(np.float32)
        },
        EXACT_INTEGERS,
    ),
)
@ct.kernel
def matrix_power(x, steps, out):
    tile = ct.load(x, (0, 0), (8, 8))
    ct.store(out, (0, 0), tile)
    for _ in range(steps):
        # Each step reads back what the step before has stored.
        product = ct.mma(ct.load(out, (0, 0), (8, 8)), tile, ct.zeros((8, 8), ct.float32))
        ct.store(out, (0, 0), product)
