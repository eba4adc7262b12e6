"""Programs as suites for GPUs have them, against what they compute in float64: each uses together what tests of
one feature use alone (pages looked up by index, online softmax, waits between tile blocks, counters as random
numbers, recurrences in chunks)."""

from __future__ import annotations

import math

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from tilewright.cutile import launch  # noqa: E402

Int = ct.Constant[int]
MACHINES = ("reference", "cpu", "sim:sm_80", "sim:sm_90a")


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    return request.param


@ct.kernel
def paged(
    q, keys, values, pages, lengths, sinks, out,
    size: Int, page_size: Int, window: Int, cap: ct.Constant[float],
):  # fmt: skip
    """One query that sees the last ``window`` keys, in pages, and a sink that takes a part of each softmax."""
    batch, head = ct.bid(0), ct.bid(1)
    query = ct.load(q, (batch, head, 0), (1, 1, size)).reshape((1, size)).astype(ct.float32)
    length = ct.load(lengths, (batch,), (1,)).item()
    first = max(length - window, 0)
    top = ct.load(sinks, (head,), (1,)).reshape((1, 1))
    total = ct.full((1, 1), 1.0, ct.float32)
    value = ct.zeros((1, size), ct.float32)
    shape = (1, page_size, 1, size)
    for j in range(first // page_size, ct.cdiv(length, page_size)):
        page = ct.gather(pages, (batch, j)).item()
        key = ct.load(keys, (page, 0, head, 0), shape).reshape((page_size, size))
        scores = ct.sum(query * key.astype(ct.float32), axis=1) * 0.25
        scores = cap * ct.tanh(scores / cap)
        at = j * page_size + ct.arange(page_size, dtype=ct.int32)
        seen = (at < length) & (at >= first)
        scores = ct.where(seen, scores, -math.inf).reshape((1, page_size))
        higher = ct.maximum(top, ct.max(scores, axis=1, keepdims=True))
        power, correction = ct.exp(scores - higher), ct.exp(top - higher)
        part = ct.load(values, (page, 0, head, 0), shape).reshape((page_size, size))
        part = ct.sum(
            power.reshape((page_size, 1)) * part.astype(ct.float32), axis=0, keepdims=True
        )
        total = total * correction + ct.sum(power, axis=1, keepdims=True)
        value = value * correction + part
        top = higher
    ct.store(out, (batch, head, 0), (value / total).reshape((1, 1, size)))


def test_paged_attention_with_sinks_windows_and_caps(machine: str) -> None:
    rng, heads, size, page, window = np.random.default_rng(4), 2, 16, 8, 20
    lengths = np.array([1, 19, 37], np.int32)
    pages = rng.permutation(15).reshape(3, 5).astype(np.int32)
    keys, values = (rng.standard_normal((15, page, heads, size)).astype(np.float16) for _ in "kv")
    q = rng.standard_normal((3, heads, size)).astype(np.float16)
    sinks, out = rng.standard_normal(heads).astype(np.float32), np.zeros(q.shape, np.float32)
    given = (q, keys, values, pages, lengths, sinks, out, size, page, window, 5.0)
    launch(0, (3, heads), paged, given, machine=machine)
    for batch, length in enumerate(lengths):
        seen = slice(max(length - window, 0), length)
        key, value = (
            x[pages[batch]].reshape(-1, heads, size)[seen].astype(float) for x in (keys, values)
        )
        for head in range(heads):
            scores = 5 * np.tanh(key[:, head] @ q[batch, head].astype(float) * 0.25 / 5)
            power = np.exp(scores)
            wanted = power @ value[:, head] / (power.sum() + np.exp(sinks[head]))
            np.testing.assert_allclose(out[batch, head], wanted, rtol=1e-5, atol=1e-5)


@ct.kernel
def stream_k(
    a,
    b,
    c,
    parts,
    ready,
    tm: Int,
    tn: Int,
    tk: Int,
    steps: Int,
    workers: Int,
    columns: Int,
    tiles: Int,
):
    """Every worker takes as many steps; who begins a tile adds what others have of it."""
    worker = ct.bid(0)
    share = ct.cdiv(tiles * steps, workers)
    at, end = worker * share, min(worker * share + share, tiles * steps)
    while at < end:
        tile, first = at // steps, at % steps
        last = min(steps, first + end - at)
        row, column = tile // columns, tile % columns
        total = ct.zeros((tm, tn), ct.float32)
        for k in range(first, last):
            left = ct.load(a, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
            right = ct.load(b, (k, column), (tk, tn), padding_mode=ct.PaddingMode.ZERO)
            total = ct.mma(left, right, total)
        if first == 0:
            done, other = last, worker + 1
            while done < steps:
                while ct.atomic_add(ready, (other,), 0, memory_order=ct.MemoryOrder.ACQUIRE) == 0:
                    pass
                total = total + ct.load(parts, (other, 0, 0), (1, tm, tn)).reshape((tm, tn))
                done, other = done + share, other + 1
            ct.store(c, (row, column), total)
        else:
            ct.store(parts, (worker, 0, 0), total.reshape((1, tm, tn)))
            ct.atomic_xchg(ready, (worker,), 1, memory_order=ct.MemoryOrder.RELEASE)
        at = at + last - first


def test_stream_k(machine: str) -> None:
    rng, workers = np.random.default_rng(14), 3
    a, b = (
        rng.standard_normal((30, 75)).astype(np.float16),
        rng.standard_normal((75, 20)).astype(np.float16),
    )
    c, ready = np.zeros((30, 20), np.float32), np.zeros(workers + 1, np.int32)
    parts = np.zeros((workers + 1, 16, 16), np.float32)
    launch(
        0,
        (workers,),
        stream_k,
        (a, b, c, parts, ready, 16, 16, 16, 5, workers, 2, 4),
        machine=machine,
    )
    np.testing.assert_allclose(c, a.astype(float) @ b.astype(float), rtol=1e-5, atol=1e-4)


@ct.kernel
def dropout(x, y, seed, share, count: Int):
    """Elements are dropped by Philox 4x32-10, whose counter is their number."""
    block = ct.bid(0)
    one = (block * count + ct.arange(count, dtype=ct.int32)).astype(ct.uint32)
    two = three = four = ct.zeros((count,), ct.uint32)
    low, high = ct.full((count,), seed, ct.uint32), ct.full((count,), 0x12345678, ct.uint32)
    for _ in ct.static_iter(range(10)):
        left, right = one.astype(ct.uint64) * 0xD2511F53, three.astype(ct.uint64) * 0xCD9E8D57
        one = (right >> 32).astype(ct.uint32) ^ two ^ low
        three = (left >> 32).astype(ct.uint32) ^ four ^ high
        two, four = right.astype(ct.uint32), left.astype(ct.uint32)
        low = low + ct.full((count,), 0x9E3779B9, ct.uint32)
        high = high + ct.full((count,), 0xBB67AE85, ct.uint32)
    chance = (one >> 8).astype(ct.float32) * 2.0**-24
    value = ct.load(x, (block,), (count,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(y, (block,), ct.where(chance >= share, value / (1 - share), 0.0))


def test_dropout_by_a_counter(machine: str) -> None:
    x = np.random.default_rng(5).standard_normal(300).astype(np.float32)
    y, words, mask = np.zeros_like(x), [np.arange(300), *[np.zeros(300, int)] * 3], 2**32 - 1
    launch(0, (3,), dropout, (x, y, 42, 0.3, 128), machine=machine)
    words, keys = [word.astype(object) for word in words], [42, 0x12345678]
    for _ in range(10):
        left, right = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
        words = [
            right >> 32 ^ words[1] ^ keys[0],
            right & mask,
            left >> 32 ^ words[3] ^ keys[1],
            left & mask,
        ]
        keys = [keys[0] + 0x9E3779B9 & mask, keys[1] + 0xBB67AE85 & mask]
    kept = (words[0] >> 8).astype(np.float32) * np.float32(2**-24) >= np.float32(0.3)
    np.testing.assert_allclose(y, np.where(kept, x / 0.7, 0), rtol=1e-6)


@ct.kernel
def delta_rule(q, k, v, beta, gate, out, length: Int, size: Int, chunks):
    """The gated delta rule in chunks: within one a triangular system, between them a state."""
    head, state = ct.bid(0), ct.zeros((size, size), ct.float32)
    row, column = (
        ct.arange(length, dtype=ct.int32)[:, None],
        ct.arange(length, dtype=ct.int32)[None, :],
    )
    for c in range(chunks):
        query, key, value = (
            ct.load(q, (head, c, 0), (1, length, size)).reshape((length, size)),
            ct.load(k, (head, c, 0), (1, length, size)).reshape((length, size)),
            ct.load(v, (head, c, 0), (1, length, size)).reshape((length, size)),
        )
        rate = ct.load(beta, (head, c), (1, length)).reshape((length, 1))
        decay = ct.cumsum(ct.load(gate, (head, c), (1, length)).reshape((length,)), axis=0)
        between = ct.exp(ct.where(row >= column, decay[:, None] - decay[None, :], 0.0))
        system = ct.where(
            row > column, ct.sum((rate * key)[:, None, :] * key[None, :, :], axis=2) * between, 0.0
        )
        since = ct.exp(decay)[:, None]
        right = rate * (value - since * ct.sum(key[:, :, None] * state[None, :, :], axis=1))
        solved = ct.zeros((length, size), ct.float32)
        for i in range(length):
            left = right - ct.sum(system[:, :, None] * solved[None, :, :], axis=1)
            solved = ct.where(
                row == i, ct.sum(ct.where(row == i, left, 0.0), axis=0, keepdims=True), solved
            )
        weights = ct.where(
            row >= column, ct.sum(query[:, None, :] * key[None, :, :], axis=2) * between, 0.0
        )
        found = since * ct.sum(query[:, :, None] * state[None, :, :], axis=1)
        found = found + ct.sum(weights[:, :, None] * solved[None, :, :], axis=1)
        ct.store(out, (head, c, 0), found.reshape((1, length, size)))
        last = ct.sum(ct.load(gate, (head, c), (1, length)))
        rest = (ct.exp(last - decay)[:, None] * key)[:, :, None]
        state = state * ct.exp(last) + ct.sum(rest * solved[:, None, :], axis=0)


def test_gated_delta_rule_in_chunks(machine: str) -> None:
    rng, heads, length, chunks, size = np.random.default_rng(8), 2, 4, 3, 8
    shape = (heads, length * chunks, size)
    q, k, v = (rng.standard_normal(shape).astype(np.float32) / 2 for _ in "qkv")
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    beta, gate = rng.random(shape[:2]).astype(np.float32), -rng.random(shape[:2]).astype(np.float32)
    out = np.zeros(shape, np.float32)
    launch(
        0, (heads,), delta_rule, (q, k, v, beta, gate, out, length, size, chunks), machine=machine
    )
    for head in range(heads):
        state = np.zeros((size, size))
        for t in range(shape[1]):
            state = state * np.exp(float(gate[head, t]))
            key = k[head, t].astype(float)
            state = state + np.outer(key, beta[head, t] * (v[head, t] - key @ state))
            np.testing.assert_allclose(out[head, t], q[head, t] @ state, rtol=1e-5, atol=1e-5)
