"""A histogram: each block counts for itself and adds its counts to the shared ones at once."""

import cuda.tile as ct
import torch

TILE, BINS = 128, 16


@ct.kernel
def histogram(x, counts):
    lane = ct.arange(BINS, dtype=ct.int32)
    own = ct.zeros((BINS,), ct.int32)
    for i in range(ct.bid(0), ct.num_tiles(x, 0, (TILE,)), ct.num_blocks(0)):
        tile = ct.load(x, (i,), (TILE,), padding_mode=ct.PaddingMode.NEG_INF)
        # Numbers from 0 to 1; those of the padding are in no bin.
        bins = ct.floor(tile * BINS)
        own += ct.sum((bins[:, None] == lane[None, :].astype(ct.float32)).astype(ct.int32), 0)
    ct.atomic_add(counts, lane, own)


def main() -> list[torch.Tensor]:
    torch.manual_seed(0)
    x = torch.rand(3000, device="cuda") ** 2
    counts = torch.zeros(BINS, device="cuda", dtype=torch.int32)
    ct.launch(torch.cuda.current_stream(), (5,), histogram, (x, counts))
    expected = torch.histc(x, BINS, 0, 1).int()
    torch.testing.assert_close(counts, expected)
    print("histogram: OK")
    return [counts]


if __name__ == "__main__":
    main()
