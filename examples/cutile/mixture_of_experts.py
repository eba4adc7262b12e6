"""A mixture of experts: each token goes through the two experts that its router rates highest."""
# $ tilewright run examples/cutile/mixture_of_experts.py

import math

import cuda.tile as ct
import numpy as np

TOKENS, EXPERTS, SIZE, HIDDEN, CHOICES = 40, 4, 32, 64, 2
TILE = 16


@ct.kernel
def route(tokens, router, chosen, weight):
    """The best experts of a tile of tokens, and softmax of their ratings."""
    i = ct.bid(0)
    x = ct.load(tokens, (i, 0), (TILE, SIZE), padding_mode=ct.PaddingMode.ZERO)
    ratings = ct.matmul(x, ct.load(router, (0, 0), (SIZE, EXPERTS)))
    lane = ct.arange(EXPERTS, dtype=ct.int32)[None, :]
    first = ct.argmax(ratings, 1, keepdims=True)
    top = ct.max(ratings, 1, keepdims=True)
    others = ct.where(lane == first, -math.inf, ratings)
    second, next_top = ct.argmax(others, 1, keepdims=True), ct.max(others, 1, keepdims=True)
    share = 1.0 / (1.0 + ct.exp(next_top - top))
    ct.store(chosen, (i, 0), ct.cat((first, second), 1))
    ct.store(weight, (i, 0), ct.cat((share, 1.0 - share), 1))


@ct.kernel
def apply_experts(tokens, order, expert_of_tile, weight, inner, outer, out):
    """A tile of (token, choice) pairs of one expert; pairs from ``TOKENS * CHOICES`` on are none."""
    i = ct.bid(0)
    expert = ct.load(expert_of_tile, (i,), ()).item()
    pair = ct.load(order, (i,), (TILE,))
    token = pair // CHOICES
    lane = ct.arange(SIZE, dtype=ct.int32)[None, :]
    x = ct.gather(tokens, (token[:, None], lane))
    hidden = ct.matmul(x, ct.load(inner, (expert, 0, 0), (1, SIZE, HIDDEN)).reshape((SIZE, HIDDEN)))
    active = hidden / (1.0 + ct.exp(-hidden))
    y = ct.matmul(active, ct.load(outer, (expert, 0, 0), (1, HIDDEN, SIZE)).reshape((HIDDEN, SIZE)))
    share = ct.gather(weight, (token, pair % CHOICES))
    ct.atomic_add(out, (token[:, None], lane), y * share[:, None])


def sorted_by_expert(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All pairs, those of one expert in whole tiles, and the expert of each tile."""
    nothing = TOKENS * CHOICES
    order, experts = [], []
    for expert in range(EXPERTS):
        pairs = np.flatnonzero(chosen.reshape(-1) == expert)
        count = ct.cdiv(len(pairs), TILE)
        order.append(np.pad(pairs, (0, count * TILE - len(pairs)), constant_values=nothing))
        experts += [expert] * count
    return np.concatenate(order).astype(np.int32), np.array(experts, np.int32)


def main() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((TOKENS, SIZE), np.float32)
    router = rng.standard_normal((SIZE, EXPERTS), np.float32)
    inner = rng.standard_normal((EXPERTS, SIZE, HIDDEN), np.float32) / 8
    outer = rng.standard_normal((EXPERTS, HIDDEN, SIZE), np.float32) / 8
    chosen = np.empty((TOKENS, CHOICES), np.int32)
    weight = np.empty((TOKENS, CHOICES), np.float32)
    out = np.zeros_like(tokens)
    ct.launch(0, (ct.cdiv(TOKENS, TILE),), route, (tokens, router, chosen, weight))
    order, experts = sorted_by_expert(chosen)
    arguments = tokens, order, experts, weight, inner, outer, out
    ct.launch(0, (len(experts),), apply_experts, arguments)

    ratings = tokens.astype(np.float64) @ router
    best = np.argsort(-ratings, 1)[:, :CHOICES]
    np.testing.assert_array_equal(chosen, best)
    powers = np.exp(np.take_along_axis(ratings, best, 1))
    shares = powers / powers.sum(1, keepdims=True)
    expected = np.zeros((TOKENS, SIZE))
    for choice in range(CHOICES):
        hidden = np.einsum("ts,tsh->th", tokens, inner[best[:, choice]], dtype=np.float64)
        y = np.einsum("th,ths->ts", hidden / (1 + np.exp(-hidden)), outer[best[:, choice]])
        expected += y * shares[:, choice, None]
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
    print("mixture of experts: OK")
    return [out]


if __name__ == "__main__":
    main()
