"""The Mandelbrot set, written as a PNG to the file that is named (or mandelbrot.png)."""

import struct
import sys
import zlib

import cuda.tile as ct
import torch

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


def expected_counts() -> torch.Tensor:
    re = torch.arange(WIDTH, device="cuda") * (3 / WIDTH) - 2
    im = torch.arange(HEIGHT, device="cuda") * (2 / HEIGHT) - 1
    c = torch.complex(re.expand(HEIGHT, WIDTH), im[:, None].expand(HEIGHT, WIDTH))
    z, count = torch.zeros_like(c), torch.zeros(HEIGHT, WIDTH, dtype=torch.int32, device="cuda")
    for _ in range(STEPS):
        near = z.abs() <= 2
        count += near
        z = torch.where(near, z * z + c, z)
    return count


def png(gray: torch.Tensor) -> bytes:
    """An image of bytes as a PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = kind + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    height, width = gray.shape
    lines = b"".join(b"\0" + bytes(row) for row in gray.tolist())
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(lines)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def main(path: str = "mandelbrot.png") -> list[torch.Tensor]:
    counts = torch.empty(HEIGHT, WIDTH, dtype=torch.int32, device="cuda")
    grid = HEIGHT // TILE, WIDTH // TILE
    ct.launch(torch.cuda.current_stream(), grid, mandelbrot, (counts,))
    # Near the border of the set one rounding decides: some points may differ, but few.
    wrong = (counts != expected_counts()).float().mean().item()
    assert wrong < 0.01, wrong
    with open(path, "wb") as file:
        file.write(png(255 - 5 * counts.cpu()))
    print("Mandelbrot: OK")
    return [counts]


if __name__ == "__main__":
    main(*sys.argv[1:])
