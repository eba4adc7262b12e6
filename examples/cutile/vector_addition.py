"""Vector addition: a first kernel. The last tile may reach beyond the vectors."""

import cuda.tile as ct
import torch

TILE = 256


@ct.kernel
def add(a, b, c):
    i = ct.bid(0)
    tile = ct.load(a, (i,), (TILE,)) + ct.load(b, (i,), (TILE,))
    ct.store(c, (i,), tile)


def main() -> list[torch.Tensor]:
    torch.manual_seed(0)
    a, b = torch.rand(2, 1000, device="cuda")
    c = torch.empty_like(a)
    ct.launch(torch.cuda.current_stream(), (ct.cdiv(1000, TILE),), add, (a, b, c))
    torch.testing.assert_close(c, a + b, rtol=0, atol=0)
    print("vector addition: OK")
    return [c]


if __name__ == "__main__":
    main()
