"""Fused attention, backward: probabilities are computed again, not kept."""
# $ tilewright run examples/cutile/attention_backward.py  # needs torch

import math

import cuda.tile as ct
import torch
from attention import TM, TN, ZERO, attend


def tile_of(array, batch, head, i, rows, size):
    """Rows of one head."""
    tile = ct.load(array, (batch, head, i, 0), (1, 1, rows, size), padding_mode=ZERO)
    return tile.reshape((rows, size))


def column_of(array, batch, head, i, rows):
    """One number for each row of one head."""
    return ct.load(array, (batch, head, i), (1, 1, rows), padding_mode=ZERO).reshape((rows, 1))


def probabilities(query, key, logsum, factor, i, j, length, causal):
    """The attention of a tile of queries to a tile of keys."""
    rows = i * TM + ct.arange(TM, dtype=ct.int32)[:, None]
    columns = j * TN + ct.arange(TN, dtype=ct.int32)[None, :]
    seen = (rows < length) & (columns < length)
    if causal:
        seen = seen & (columns <= rows)
    scores = ct.matmul(query, key.transpose()) * factor
    return ct.where(seen, ct.exp(scores - logsum), 0.0)


@ct.kernel
def dot_of_rows(out, dout, delta, size: ct.Constant[int]):
    i, head, batch = ct.bid(0), ct.bid(1), ct.bid(2)
    product = tile_of(out, batch, head, i, TM, size) * tile_of(dout, batch, head, i, TM, size)
    ct.store(delta, (batch, head, i), ct.sum(product, 1).reshape((1, 1, TM)))


@ct.kernel
def to_keys(
    q, k, v, dout, logsum, delta, dk, dv, factor, size: ct.Constant[int], causal: ct.Constant[bool]
):
    j, head, batch = ct.bid(0), ct.bid(1), ct.bid(2)
    length = k.shape[2]
    key, value = tile_of(k, batch, head, j, TN, size), tile_of(v, batch, head, j, TN, size)
    key_sum, value_sum = ct.zeros((TN, size), ct.float32), ct.zeros((TN, size), ct.float32)
    first = j * TN // TM if causal else 0
    for i in range(first, ct.cdiv(length, TM)):
        query, upper = tile_of(q, batch, head, i, TM, size), tile_of(dout, batch, head, i, TM, size)
        sums = column_of(logsum, batch, head, i, TM)
        p = probabilities(query, key, sums, factor, i, j, length, causal)
        value_sum = ct.mma(p.transpose(), upper, value_sum)
        slope = ct.matmul(upper, value.transpose()) - column_of(delta, batch, head, i, TM)
        key_sum = ct.mma((p * slope * factor).transpose(), query, key_sum)
    ct.store(dk, (batch, head, j, 0), key_sum.reshape((1, 1, TN, size)))
    ct.store(dv, (batch, head, j, 0), value_sum.reshape((1, 1, TN, size)))


@ct.kernel
def to_queries(
    q, k, v, dout, logsum, delta, dq, factor, size: ct.Constant[int], causal: ct.Constant[bool]
):
    i, head, batch = ct.bid(0), ct.bid(1), ct.bid(2)
    length = k.shape[2]
    query, upper = tile_of(q, batch, head, i, TM, size), tile_of(dout, batch, head, i, TM, size)
    sums, dots = column_of(logsum, batch, head, i, TM), column_of(delta, batch, head, i, TM)
    total = ct.zeros((TM, size), ct.float32)
    last = ct.cdiv(min((i + 1) * TM, length), TN) if causal else ct.cdiv(length, TN)
    for j in range(last):
        key, value = tile_of(k, batch, head, j, TN, size), tile_of(v, batch, head, j, TN, size)
        p = probabilities(query, key, sums, factor, i, j, length, causal)
        slope = ct.matmul(upper, value.transpose()) - dots
        total = ct.mma(p * slope * factor, key, total)
    ct.store(dq, (batch, head, i, 0), total.reshape((1, 1, TM, size)))


def main() -> list[torch.Tensor]:
    torch.manual_seed(0)
    results = []
    for causal in (False, True):
        q, k, v, dout = torch.randn(4, 1, 2, 40, 32, device="cuda")
        out, logsum = attend(q, k, v, causal=causal)
        delta = torch.empty_like(logsum)
        dq, dk, dv = (torch.empty_like(t) for t in (q, k, v))
        stream, factor = torch.cuda.current_stream(), 1 / math.sqrt(32)
        rows, columns = (ct.cdiv(40, TM), 2, 1), (ct.cdiv(40, TN), 2, 1)
        inputs = q, k, v, dout, logsum, delta
        ct.launch(stream, rows, dot_of_rows, (out, dout, delta, 32))
        ct.launch(stream, columns, to_keys, (*inputs, dk, dv, factor, 32, causal))
        ct.launch(stream, rows, to_queries, (*inputs, dq, factor, 32, causal))

        leaves = [t.clone().requires_grad_() for t in (q, k, v)]
        attention = torch.nn.functional.scaled_dot_product_attention
        attention(*leaves, is_causal=causal).backward(dout)
        for found, leaf in zip((dq, dk, dv), leaves, strict=True):
            torch.testing.assert_close(found, leaf.grad, rtol=1e-4, atol=1e-5)
        results += [dq, dk, dv]
    print("attention, backward (full, causal): OK")
    return results


if __name__ == "__main__":
    main()
