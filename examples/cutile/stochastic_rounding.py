"""Rounding of f32 to bf16 by chance, so that the mean of many is right."""
# $ tilewright run examples/cutile/stochastic_rounding.py
#
# 16 random bits are added below the last bit that stays; what is carried rounds up. The bits are a
# hash of the place and a seed.

import cuda.tile as ct
import numpy as np
from ml_dtypes import bfloat16

TILE = 256


def hashed(bits):
    """A mixing of 32 bits in which each bit depends on all."""
    bits = (bits ^ (bits >> 16)) * ct.uint32(0x7FEB352D)
    bits = (bits ^ (bits >> 15)) * ct.uint32(0x846CA68B)
    return bits ^ (bits >> 16)


@ct.kernel
def round_by_chance(x, y, seed):
    i = ct.bid(0)
    place = (i * TILE + ct.arange(TILE, dtype=ct.int32)).astype(ct.uint32)
    chance = hashed(place ^ hashed(ct.astile(seed, dtype=ct.uint32))) & ct.uint32(0xFFFF)
    bits = ct.bitcast(ct.load(x, (i,), (TILE,)), ct.uint32) + chance
    kept = ct.bitcast(bits & ct.uint32(0xFFFF0000), ct.float32)
    ct.store(y, (i,), kept.astype(ct.bfloat16))


def main() -> list[np.ndarray]:
    x = np.full(4096, 1.0 + 0.3 / 128, np.float32)  # 0.3 of the way to the next bf16
    x[:64] = np.random.default_rng(0).standard_normal(64)
    y = np.empty(4096, bfloat16)
    ct.launch(0, (4096 // TILE,), round_by_chance, (x, y, 17))
    bits = x.view(np.int32) & -65536
    low, high = bits.view(np.float32), (bits + 65536).view(np.float32)
    found = y.astype(np.float32)
    assert ((found == low) | (found == high)).all()
    # A share of 0.3 of 4032 is rounded up, give or take five standard deviations.
    share = (found[64:] == high[64:]).mean()
    assert abs(share - 0.3) < 5 * (0.3 * 0.7 / 4032) ** 0.5, share
    print("stochastic rounding: OK")
    return [y]


if __name__ == "__main__":
    main()
