"""A mixture of experts: each token goes through the two experts that its router rates highest."""

import math

import cuda.tile as ct
import torch

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


def sorted_by_expert(chosen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """All pairs, those of one expert in whole tiles, and the expert of each tile."""
    nothing = TOKENS * CHOICES
    order, experts = [], []
    for expert in range(EXPERTS):
        pairs = (chosen.reshape(-1) == expert).nonzero()[:, 0]
        count = ct.cdiv(len(pairs), TILE)
        filler = pairs.new_full((count * TILE - len(pairs),), nothing)
        order.append(torch.cat([pairs, filler]))
        experts += [expert] * count
    return torch.cat(order).int(), torch.tensor(experts, dtype=torch.int32, device="cuda")


def main() -> list[torch.Tensor]:
    torch.manual_seed(0)
    tokens = torch.randn(TOKENS, SIZE, device="cuda")
    router = torch.randn(SIZE, EXPERTS, device="cuda")
    inner = torch.randn(EXPERTS, SIZE, HIDDEN, device="cuda") / 8
    outer = torch.randn(EXPERTS, HIDDEN, SIZE, device="cuda") / 8
    chosen = torch.empty(TOKENS, CHOICES, dtype=torch.int32, device="cuda")
    weight = torch.empty(TOKENS, CHOICES, device="cuda")
    out = torch.zeros_like(tokens)
    stream = torch.cuda.current_stream()
    ct.launch(stream, (ct.cdiv(TOKENS, TILE),), route, (tokens, router, chosen, weight))
    order, experts = sorted_by_expert(chosen)
    arguments = tokens, order, experts, weight, inner, outer, out
    ct.launch(stream, (len(experts),), apply_experts, arguments)

    ratings, best = (tokens @ router).topk(CHOICES, 1)
    assert (chosen.long() == best).all()
    shares = torch.softmax(ratings, 1)
    expected = torch.zeros_like(tokens)
    for choice in range(CHOICES):
        hidden = torch.einsum("ts,tsh->th", tokens, inner[best[:, choice]])
        y = torch.einsum("th,ths->ts", torch.nn.functional.silu(hidden), outer[best[:, choice]])
        expected += y * shares[:, choice, None]
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
    print("mixture of experts: OK")
    return [out]


if __name__ == "__main__":
    main()
