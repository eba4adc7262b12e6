"""The Mandelbrot set, written as a PNG to the file that is named (or mandelbrot.png)."""
# $ tilewright run examples/cutile/mandelbrot.py

import struct
import sys
import zlib

import cuda.tile as ct
import numpy as np

TILE = 16
WIDTH, HEIGHT, STEPS = 96, 64, 50


@ct.kernel
def mandelbrot(counts):
    """How many steps each point stays near, from -2 - i to 1 + i."""
    i, j = ct.bid(0), ct.bid(1)
    rows = (i * TILE + ct.arange(TILE, dtype=ct.int32))[:, None].astype(ct.float32)
    columns = (j * TILE + ct.arange(TILE, dtype=ct.int32))[None, :].astype(ct.float32)
    shape = (TILE, TILE)
    re = ct.broadcast_to(columns * (3 / WIDTH) - 2.0, shape)
    im = ct.broadcast_to(rows * (2 / HEIGHT) - 1.0, shape)
    x, y = ct.zeros(shape, ct.float32), ct.zeros(shape, ct.float32)
    count = ct.zeros(shape, ct.int32)
    for _ in range(STEPS):
        near = x * x + y * y <= 4.0
        if ct.sum(near.astype(ct.int32)) == 0:
            break
        count += near.astype(ct.int32)
        x, y = ct.where(near, x * x - y * y + re, x), ct.where(near, 2.0 * x * y + im, y)
    ct.store(counts, (i, j), count)


def expected_counts() -> np.ndarray:
    re = np.arange(WIDTH) * (3 / WIDTH) - 2
    im = np.arange(HEIGHT) * (2 / HEIGHT) - 1
    c = re + 1j * im[:, None]
    z, count = np.zeros_like(c), np.zeros((HEIGHT, WIDTH), np.int32)
    for _ in range(STEPS):
        near = abs(z) <= 2
        count += near
        z = np.where(near, z * z + c, z)
    return count


def png(gray: np.ndarray) -> bytes:
    """An image of bytes as a PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = kind + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    height, width = gray.shape
    lines = b"".join(b"\0" + bytes(row) for row in gray.tolist())
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(lines)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def main(path: str = "mandelbrot.png") -> list[np.ndarray]:
    counts = np.empty((HEIGHT, WIDTH), np.int32)
    ct.launch(0, (HEIGHT // TILE, WIDTH // TILE), mandelbrot, (counts,))
    # Near the border of the set one rounding decides: some points may differ, but few.
    wrong = (counts != expected_counts()).mean()
    assert wrong < 0.01, wrong
    with open(path, "wb") as file:
        file.write(png(255 - 5 * counts))
    print("Mandelbrot: OK")
    return [counts]


if __name__ == "__main__":
    main(*sys.argv[1:])
