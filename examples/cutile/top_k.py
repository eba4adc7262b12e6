"""The largest elements of each row and their places, one after the other."""

import math

import cuda.tile as ct
import torch

K = 8


@ct.kernel
def top_k(x, values, places, width: ct.Constant[int]):
    row = ct.bid(0)
    tile = ct.load(x, (row, 0), (1, width), padding_mode=ct.PaddingMode.NEG_INF)
    lane = ct.arange(width, dtype=ct.int32)[None, :]
    for i in range(K):
        at = ct.argmax(tile, 1, keepdims=True)
        ct.store(values, (row, i), ct.max(tile, 1, keepdims=True))
        ct.store(places, (row, i), at)
        tile = ct.where(lane == at, -math.inf, tile)


def main() -> list[torch.Tensor]:
    torch.manual_seed(0)
    x = torch.randn(6, 100, device="cuda")
    values = torch.empty(6, K, device="cuda")
    places = torch.empty(6, K, device="cuda", dtype=torch.int32)
    ct.launch(torch.cuda.current_stream(), (6,), top_k, (x, values, places, 128))
    expected, indices = x.topk(K, 1)
    torch.testing.assert_close(values, expected, rtol=0, atol=0)
    torch.testing.assert_close(places.long(), indices)
    print("top-k: OK")
    return [values, places]


if __name__ == "__main__":
    main()
