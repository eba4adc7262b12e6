"""Prefix sums of a long vector in three launches: sums of tiles, their prefix sums, the rest."""

import cuda.tile as ct
import torch

TILE = 128
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def sum_tiles(x, sums):
    i = ct.bid(0)
    ct.store(sums, (i,), ct.sum(ct.load(x, (i,), (TILE,), padding_mode=ZERO)))


@ct.kernel
def scan_sums(sums):
    tile = ct.load(sums, (0,), (TILE,), padding_mode=ZERO)
    ct.store(sums, (0,), ct.cumsum(tile))


@ct.kernel
def scan_tiles(x, sums, y):
    i = ct.bid(0)
    before = ct.gather(sums, i - 1)  # 0 before the first
    tile = ct.load(x, (i,), (TILE,), padding_mode=ZERO)
    ct.store(y, (i,), ct.cumsum(tile) + before)


def main() -> list[torch.Tensor]:
    torch.manual_seed(0)
    x = torch.randint(-100, 100, (3000,), device="cuda")
    tiles = ct.cdiv(3000, TILE)
    sums, y = torch.empty(tiles, device="cuda", dtype=x.dtype), torch.empty_like(x)
    stream = torch.cuda.current_stream()
    ct.launch(stream, (tiles,), sum_tiles, (x, sums))
    ct.launch(stream, (1,), scan_sums, (sums,))
    ct.launch(stream, (tiles,), scan_tiles, (x, sums, y))
    torch.testing.assert_close(y, x.cumsum(0))
    print("prefix sum: OK")
    return [y]


if __name__ == "__main__":
    main()
