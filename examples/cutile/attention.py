"""Fused attention, forward: causal or not, with groups of query heads that share keys and values."""
# $ tilewright run examples/cutile/attention.py  # needs torch

import math

import cuda.tile as ct
import torch

ZERO = ct.PaddingMode.ZERO
TM, TN = 16, 16


@ct.kernel
def forward(
    q, k, v, out, logsum, factor,
    size: ct.Constant[int], group: ct.Constant[int], causal: ct.Constant[bool],
):  # fmt: skip
    """One tile of queries. Softmax runs along with the keys: its maximum is corrected on the way."""
    i, head, batch = ct.bid(0), ct.bid(1), ct.bid(2)
    shared = head // group
    length = k.shape[2]
    query = ct.load(q, (batch, head, i, 0), (1, 1, TM, size), padding_mode=ZERO)
    query = query.reshape((TM, size))
    rows = i * TM + ct.arange(TM, dtype=ct.int32)[:, None]
    top = ct.full((TM, 1), -math.inf, ct.float32)
    total = ct.zeros((TM, 1), ct.float32)
    value = ct.zeros((TM, size), ct.float32)
    # Keys that lie after every query of this tile are not looked at.
    last = ct.cdiv(min((i + 1) * TM, length), TN) if causal else ct.cdiv(length, TN)
    for j in range(last):
        key = ct.load(k, (batch, shared, j, 0), (1, 1, TN, size), padding_mode=ZERO)
        scores = ct.matmul(query, key.reshape((TN, size)).transpose()).astype(ct.float32) * factor
        columns = j * TN + ct.arange(TN, dtype=ct.int32)[None, :]
        seen = columns < length
        if causal:
            seen = seen & (columns <= rows)
        scores = ct.where(seen, scores, -math.inf)
        higher = ct.maximum(top, ct.max(scores, 1, keepdims=True))
        power = ct.exp(scores - higher)
        correction = ct.exp(top - higher)
        total = total * correction + ct.sum(power, 1, keepdims=True)
        part = ct.load(v, (batch, shared, j, 0), (1, 1, TN, size), padding_mode=ZERO)
        value = ct.mma(power.astype(v.dtype), part.reshape((TN, size)), value * correction)
        top = higher
    result = (value / total).astype(out.dtype)
    ct.store(out, (batch, head, i, 0), result.reshape((1, 1, TM, size)))
    ct.store(logsum, (batch, head, i), (top + ct.log(total)).reshape((1, 1, TM)))


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of (batch, heads, length, size), and the logarithms of the sums of its powers."""
    batch, heads, length, size = q.shape
    out, logsum = torch.empty_like(q), torch.empty(batch, heads, length, device="cuda")
    ct.launch(
        torch.cuda.current_stream(),
        (ct.cdiv(length, TM), heads, batch),
        forward,
        (q, k, v, out, logsum, 1 / math.sqrt(size), size, heads // k.shape[1], causal),
    )
    return out, logsum


def main() -> list[torch.Tensor]:
    torch.manual_seed(0)
    results = []
    for heads, shared, causal in ((2, 2, False), (2, 2, True), (4, 2, True)):
        q = torch.randn(2, heads, 40, 32, device="cuda")
        k, v = torch.randn(2, 2, shared, 40, 32, device="cuda")
        out, _ = attend(q, k, v, causal=causal)
        expected = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=heads != shared
        )
        assert torch.allclose(out, expected, rtol=1e-5, atol=1e-5)
        results.append(out)
    print("attention (full, causal, grouped-query): OK")
    return results


if __name__ == "__main__":
    main()
