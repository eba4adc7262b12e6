"""Root mean square normalisation, forward and backward."""
# $ tilewright run examples/cutile/rms_norm.py  # needs torch

import cuda.tile as ct
import torch

ZERO = ct.PaddingMode.ZERO
EPSILON = 1e-6


@ct.kernel
def forward(x, weight, y, scale, width: ct.Constant[int]):
    row = ct.bid(0)
    tile = ct.load(x, (row, 0), (1, width), padding_mode=ZERO).reshape((width,))
    factor = ct.rsqrt(ct.sum(tile * tile) / x.shape[1] + EPSILON)
    w = ct.load(weight, (0,), (width,), padding_mode=ZERO)
    ct.store(y, (row, 0), (tile * factor * w)[None, :])
    ct.store(scale, (row,), factor)


@ct.kernel
def backward(dy, x, weight, scale, dx, dweight, width: ct.Constant[int]):
    lane = ct.arange(width, dtype=ct.int32)
    w = ct.load(weight, (0,), (width,), padding_mode=ZERO)
    dw = ct.zeros((width,), ct.float32)
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        tile = ct.load(x, (row, 0), (1, width), padding_mode=ZERO).reshape((width,))
        upper = ct.load(dy, (row, 0), (1, width), padding_mode=ZERO).reshape((width,))
        factor = ct.load(scale, (row,), ())
        normal = tile * factor
        dw += upper * normal
        inner = upper * w
        mean = ct.sum(inner * normal) / x.shape[1]
        ct.store(dx, (row, 0), ((inner - normal * mean) * factor)[None, :])
    ct.atomic_add(dweight, lane, dw)


def main() -> list[torch.Tensor]:
    torch.manual_seed(0)
    rows, columns, width = 10, 48, 64
    x = torch.randn(rows, columns, device="cuda")
    dy = torch.randn(rows, columns, device="cuda")
    weight = torch.rand(columns, device="cuda")
    y, dx = torch.empty_like(x), torch.empty_like(x)
    scale = torch.empty(rows, device="cuda")
    dweight = torch.zeros_like(weight)
    stream = torch.cuda.current_stream()
    ct.launch(stream, (rows,), forward, (x, weight, y, scale, width))
    ct.launch(stream, (3,), backward, (dy, x, weight, scale, dx, dweight, width))

    leaves = [t.clone().requires_grad_() for t in (x, weight)]
    expected = torch.nn.functional.rms_norm(leaves[0], (columns,), leaves[1], EPSILON)
    expected.backward(dy)
    torch.testing.assert_close(y, expected.detach())
    torch.testing.assert_close(dx, leaves[0].grad)
    torch.testing.assert_close(dweight, leaves[1].grad)
    print("RMS norm (forward, backward): OK")
    return [y, dx, dweight]


if __name__ == "__main__":
    main()
