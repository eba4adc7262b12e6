"""Layer normalisation, forward and backward."""
# $ tilewright run examples/cutile/layer_norm.py  # needs torch

import cuda.tile as ct
import torch

ZERO = ct.PaddingMode.ZERO
EPSILON = 1e-5


@ct.kernel
def forward(x, weight, bias, y, mean, scale, width: ct.Constant[int]):
    row = ct.bid(0)
    count = x.shape[1]
    inside = ct.arange(width, dtype=ct.int32) < count
    tile = ct.load(x, (row, 0), (1, width), padding_mode=ZERO).reshape((width,))
    center = ct.sum(tile) / count
    centered = ct.where(inside, tile - center, 0.0)
    factor = ct.rsqrt(ct.sum(centered * centered) / count + EPSILON)
    w = ct.load(weight, (0,), (width,), padding_mode=ZERO)
    b = ct.load(bias, (0,), (width,), padding_mode=ZERO)
    ct.store(y, (row, 0), (centered * factor * w + b)[None, :])
    ct.store(mean, (row,), center)
    ct.store(scale, (row,), factor)


@ct.kernel
def backward(dy, x, weight, mean, scale, dx, dweight, dbias, width: ct.Constant[int]):
    count = x.shape[1]
    lane = ct.arange(width, dtype=ct.int32)
    w = ct.load(weight, (0,), (width,), padding_mode=ZERO)
    dw, db = ct.zeros((width,), ct.float32), ct.zeros((width,), ct.float32)
    # Each block takes a part of the rows, so that there are few additions to the shared sums.
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        tile = ct.load(x, (row, 0), (1, width), padding_mode=ZERO).reshape((width,))
        upper = ct.load(dy, (row, 0), (1, width), padding_mode=ZERO).reshape((width,))
        center, factor = ct.load(mean, (row,), ()), ct.load(scale, (row,), ())
        normal = ct.where(lane < count, (tile - center) * factor, 0.0)
        dw += upper * normal
        db += upper
        inner = upper * w
        part = normal * (ct.sum(inner * normal) / count) + ct.sum(inner) / count
        ct.store(dx, (row, 0), ((inner - part) * factor)[None, :])
    ct.atomic_add(dweight, lane, dw)
    ct.atomic_add(dbias, lane, db)


def main() -> list[torch.Tensor]:
    torch.manual_seed(0)
    rows, columns, width = 10, 48, 64
    x = torch.randn(rows, columns, device="cuda")
    dy = torch.randn(rows, columns, device="cuda")
    weight, bias = torch.rand(2, columns, device="cuda")
    y, dx = torch.empty_like(x), torch.empty_like(x)
    mean, scale = torch.empty(rows, device="cuda"), torch.empty(rows, device="cuda")
    dweight, dbias = torch.zeros_like(weight), torch.zeros_like(bias)
    stream = torch.cuda.current_stream()
    ct.launch(stream, (rows,), forward, (x, weight, bias, y, mean, scale, width))
    gradients = dx, dweight, dbias
    ct.launch(stream, (3,), backward, (dy, x, weight, mean, scale, *gradients, width))

    leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
    expected = torch.nn.functional.layer_norm(leaves[0], (columns,), *leaves[1:], EPSILON)
    expected.backward(dy)
    torch.testing.assert_close(y, expected.detach())
    for found, leaf in zip(gradients, leaves, strict=True):
        torch.testing.assert_close(found, leaf.grad)
    print("layer norm (forward, backward): OK")
    return [y, *gradients]


if __name__ == "__main__":
    main()
