"""Many matrix products in one launch: a batch of one shape, and a group of different shapes."""

import cuda.tile as ct
import torch

ZERO = ct.PaddingMode.ZERO
TM, TN, TK = 16, 16, 16


@ct.kernel
def batched(a, b, c):
    n, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.zeros((1, TM, TN), ct.float32)
    for k in range(ct.num_tiles(a, 2, (1, TM, TK))):
        x = ct.load(a, (n, i, k), (1, TM, TK), padding_mode=ZERO)
        y = ct.load(b, (n, k, j), (1, TK, TN), padding_mode=ZERO)
        total = ct.mma(x, y, total)
    ct.store(c, (n, i, j), total.astype(c.dtype))


@ct.kernel
def grouped(xs, ys, outs):
    blocks = ct.num_blocks(0)
    start = 0
    for group in range(len(xs)):
        x, y, out = xs[group], ys[group], outs[group]
        across = ct.num_tiles(out, 1, (TM, TN))
        count = ct.num_tiles(out, 0, (TM, TN)) * across
        # The tiles of all groups are dealt to the blocks in turn.
        for tile in range((ct.bid(0) - start) % blocks, count, blocks):
            i, j = tile // across, tile % across
            total = ct.zeros((TM, TN), ct.float32)
            for k in range(ct.num_tiles(x, 1, (TM, TK))):
                left = ct.load(x, (i, k), (TM, TK), padding_mode=ZERO)
                right = ct.load(y, (k, j), (TK, TN), padding_mode=ZERO)
                total = ct.mma(left, right, total)
            ct.store(out, (i, j), total.astype(out.dtype))
        start += count


def main() -> list[torch.Tensor]:
    torch.manual_seed(0)
    stream = torch.cuda.current_stream()
    a = torch.randn(3, 40, 24, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(3, 24, 20, device="cuda", dtype=torch.bfloat16)
    c = torch.empty(3, 40, 20, device="cuda", dtype=torch.bfloat16)
    grid = 3, ct.cdiv(40, TM), ct.cdiv(20, TN)
    ct.launch(stream, grid, batched, (a, b, c))
    torch.testing.assert_close(c, (a.float() @ b.float()).bfloat16())

    shapes = [(40, 24, 20), (8, 50, 33), (16, 16, 16)]
    xs = [torch.randn(m, k, device="cuda", dtype=torch.float16) for m, k, _ in shapes]
    ys = [torch.randn(k, n, device="cuda", dtype=torch.float16) for _, k, n in shapes]
    outs = [torch.empty(m, n, device="cuda", dtype=torch.float16) for m, _, n in shapes]
    ct.launch(stream, (4,), grouped, (xs, ys, outs))
    for x, y, out in zip(xs, ys, outs, strict=True):
        torch.testing.assert_close(out, (x.float() @ y.float()).half(), rtol=2e-3, atol=1e-4)
    print("matrix product (batched, grouped): OK")
    return [c, *outs]


if __name__ == "__main__":
    main()
