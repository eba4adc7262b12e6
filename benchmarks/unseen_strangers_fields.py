"""Pictures, sounds, grids, particles and meshes, as a stranger writes them."""

from __future__ import annotations

import math
from collections.abc import Callable

import cuda.tile as ct
import torch
from torch.nn import functional

from benchmarks import strangers_fields_peers as peers
from benchmarks.unseen_rows import (
    Job,
    Row,
    array,
    beside_torch,
    by_numba,
    integers,
    normal,
    uniform,
)

_F32, _F64, _BF16 = torch.float32, torch.float64, torch.bfloat16
_I16, _I32, _U8 = torch.int16, torch.int32, torch.uint8


def _places(high: int, wide: int):
    """The rows and columns of this block's tile of a picture."""
    y = ct.bid(0) * high + ct.arange(high, dtype=ct.int32)
    x = ct.bid(1) * wide + ct.arange(wide, dtype=ct.int32)
    return ct.expand_dims(y, 1), ct.expand_dims(x, 0)


def _compiled(run, *held: torch.Tensor, fast: bool = True) -> dict[str, Job]:
    """A peer of numba: a function of arrays that it reads, works in, and writes."""

    def make(nb):
        job, arrays = nb.njit(parallel=True, fastmath=fast)(run), [array(each) for each in held]
        return lambda: job(*arrays)

    return by_numba(make)


def _blocks(h: int, w: int, high: int, wide: int) -> tuple[int, int]:
    return -(-h // high), -(-w // wide)


@ct.kernel
def smeared(sines, cosine, sine, out, high: ct.Constant[int], wide: ct.Constant[int]):
    """Projections [angle, bin] smeared back over a picture, linearly between bins."""
    y, x = _places(high, wide)
    v = y.astype(ct.float32) - (out.shape[0] - 1) * 0.5
    u = x.astype(ct.float32) - (out.shape[1] - 1) * 0.5
    middle = (sines.shape[1] - 1) * 0.5
    total = ct.zeros((high, wide), ct.float32)
    for a in range(sines.shape[0]):
        s = u * ct.gather(cosine, a) + v * ct.gather(sine, a) + middle
        low = ct.floor(s)
        at, part = low.astype(ct.int32), s - low
        total += (1.0 - part) * ct.gather(sines, (a, at)) + part * ct.gather(sines, (a, at + 1))
    ct.store(out, (ct.bid(0), ct.bid(1)), total * (math.pi / sines.shape[0]))


def _smeared(h: int, w: int, angles: int, bins: int) -> Row:
    sines, turn = normal(angles, bins), torch.arange(angles, dtype=_F64) * (math.pi / angles)
    cosine, sine = turn.cos().float(), turn.sin().float()

    def theirs(sines, cosine, sine):
        v = (torch.arange(h, dtype=sines.dtype) - (h - 1) / 2)[:, None]
        u = torch.arange(w, dtype=sines.dtype) - (w - 1) / 2
        s = u * cosine[:, None, None] + v * sine[:, None, None] + (bins - 1) / 2
        low = s.floor()
        part, at = s - low, low.int() + (torch.arange(angles, dtype=_I32) * bins)[:, None, None]
        flat = sines.view(-1)
        return ((1 - part) * flat[at] + part * flat[at + 1]).sum(0) * (math.pi / angles)

    given, out = (sines, cosine, sine), torch.empty(h, w)
    name = f"{angles} projections of {bins} bins back over {h} x {w} float32"
    more = _compiled(peers.smeared(h, w, angles, bins), *given, torch.empty(h, w))
    held = (*given, out, 16, 64)
    grid = _blocks(h, w, 16, 64)
    return beside_torch(name, smeared, grid, held, theirs, *given, bound=1e-4, more=more)


@ct.kernel
def listened(wr, wi, xr, xi, out, ta: ct.Constant[int], tk: ct.Constant[int], tn: ct.Constant[int]):
    """Powers from each direction: weights [band, angle, sensor] conjugated, samples [band, sensor, n]."""
    band, a = ct.bid(0), ct.bid(1)
    zero = ct.PaddingMode.ZERO
    re, im = ct.zeros((ta, tn), ct.float32), ct.zeros((ta, tn), ct.float32)
    for k in range(ct.cdiv(wr.shape[2], tk)):
        p = ct.load(wr, (band, a, k), (1, ta, tk), padding_mode=zero).reshape((ta, tk))
        q = ct.load(wi, (band, a, k), (1, ta, tk), padding_mode=zero).reshape((ta, tk))
        r = ct.load(xr, (band, k, 0), (1, tk, tn), padding_mode=zero).reshape((tk, tn))
        s = ct.load(xi, (band, k, 0), (1, tk, tn), padding_mode=zero).reshape((tk, tn))
        re = ct.mma(q, s, ct.mma(p, r, re))
        im = ct.mma(-q, r, ct.mma(p, s, im))
    power = ct.sum(re * re + im * im, axis=1) / xr.shape[2]
    ct.store(out, (band, a), power.reshape((1, ta)))


def _listened(bands: int, angles: int, sensors: int, many: int) -> Row:
    phase = uniform(bands, angles, sensors) * 6.28
    wr, wi = phase.cos(), phase.sin()
    xr, xi = normal(bands, sensors, many), normal(bands, sensors, many + 1)[..., 1:].contiguous()

    def theirs(wr, wi, xr, xi):
        re = torch.baddbmm(torch.bmm(wr, xr), wi, xi)
        im = torch.baddbmm(torch.bmm(wr, xi), wi, xr, alpha=-1)
        return (re * re + im * im).mean(2)

    given, grid = (wr, wi, xr, xi), (bands, -(-angles // 64))
    name = f"powers of {bands} bands from {angles} directions, {sensors} sensors x {many} f32"
    held = (*given, torch.empty(bands, angles), 64, 16, 32)
    return beside_torch(name, listened, grid, held, theirs, *given, bound=1e-5)


@ct.kernel
def echoed(echoes, places, out, pitch, rate, tp: ct.Constant[int], tc: ct.Constant[int]):
    """Echoes i16 [sensor, time] delayed and added for each pixel, sensors beside it weigh most."""
    pixel = ct.bid(0) * tp + ct.arange(tp, dtype=ct.int32)
    row, column = pixel // out.shape[1], pixel % out.shape[1]
    z = ((row + 20).astype(ct.float32) * pitch).reshape((tp, 1))
    x = (column.astype(ct.float32) * pitch).reshape((tp, 1))
    total, weights = ct.zeros((tp,), ct.float32), ct.zeros((tp,), ct.float32)
    for c in range(ct.cdiv(places.shape[0], tc)):
        sensor = (c * tc + ct.arange(tc, dtype=ct.int32)).reshape((1, tc))
        aside = x - ct.gather(places, sensor, padding_value=1e6)
        s = (z + ct.sqrt(z * z + aside * aside)) * rate
        weight = ct.maximum(1.0 - ct.abs(aside) / z, 0.0)
        at = s.astype(ct.int32)
        part = s - at.astype(ct.float32)
        low = ct.gather(echoes, (sensor, at)).astype(ct.float32)
        high = ct.gather(echoes, (sensor, at + 1)).astype(ct.float32)
        total += ct.sum(weight * (low + part * (high - low)), 1)
        weights += ct.sum(weight, 1)
    ct.scatter(out, (row, column), total / weights)


def _echoed(h: int, w: int, sensors: int, times: int) -> Row:
    pitch, rate = 0.25, 9.5
    echoes = (normal(sensors, times) * 1000).to(_I16)
    places = torch.arange(sensors) * (w * pitch / sensors)

    def theirs(echoes, places):
        z = (torch.arange(20, h + 20, dtype=places.dtype) * pitch)[:, None, None]
        aside = (torch.arange(w, dtype=places.dtype) * pitch)[:, None] - places
        s = (z + (z * z + aside * aside).sqrt()) * rate
        weight = (1 - aside.abs() / z).clamp(min=0)
        at = s.int()
        part = s - at
        at = (at + torch.arange(sensors, dtype=_I32) * times).clamp(max=sensors * times - 2)
        low, high = echoes.view(-1)[at].to(z.dtype), echoes.view(-1)[at + 1].to(z.dtype)
        return (weight * (low + part * (high - low))).sum(2) / weight.sum(2)

    given, grid = (echoes, places), (-(-h * w // 64),)
    name = f"echoes of {sensors} sensors x {times} int16 at {h} x {w} places"
    more = _compiled(peers.echoed(h, w, pitch, sensors, rate), *given, torch.empty(h, w))
    held = (*given, torch.empty(h, w), pitch, rate, 64, 16)
    return beside_torch(name, echoed, grid, held, theirs, *given, bound=1e-3, more=more)


def _scene(x, y, z):
    """How far a ball that melts into a ring and a floor are."""
    ball = ct.sqrt(x * x + (y - 0.5) * (y - 0.5) + z * z) - 0.7
    across = ct.sqrt(x * x + z * z) - 1.2
    ring = ct.sqrt(across * across + y * y) - 0.25
    mixed = ct.minimum(ct.maximum(0.5 + (ring - ball), 0.0), 1.0)
    solid = ring + (ball - ring) * mixed - 0.5 * mixed * (1.0 - mixed)
    return ct.minimum(solid, y + 0.5)


@ct.kernel
def marched(out, far, most: ct.Constant[int], high: ct.Constant[int], wide: ct.Constant[int]):
    """How deep a scene is at each pixel: steps along rays until none gets further."""
    j, i = _places(high, wide)
    v = (0.5 * out.shape[0] - j.astype(ct.float32)) / out.shape[1] - 0.35
    u = (i.astype(ct.float32) - 0.5 * out.shape[1]) / out.shape[1]
    over = ct.rsqrt(u * u + v * v + 1.0)
    dx, dy, dz = u * over, v * over, over
    t = ct.zeros((high, wide), ct.float32)
    n, moved = 0, far
    while n < most and moved > 0.00001:
        d = _scene(dx * t, 1.5 + dy * t, dz * t - 3.5)
        t = ct.minimum(t + d, far)
        moved = ct.max(ct.where(t < far, ct.abs(d), 0.0))
        n += 1
    ct.store(out, (ct.bid(0), ct.bid(1)), t)


def _marched(h: int, w: int, most: int) -> Row:
    def theirs(v, u):
        over = torch.rsqrt(u * u + v * v + 1)
        t = torch.zeros_like(over)
        for _ in range(most):
            x, y, z = u * over * t, 1.5 + v * over * t, over * t - 3.5
            ball = (x * x + (y - 0.5) ** 2 + z * z).sqrt() - 0.7
            across = (x * x + z * z).sqrt() - 1.2
            ring = (across * across + y * y).sqrt() - 0.25
            mixed = (0.5 + (ring - ball)).clamp(0, 1)
            solid = ring + (ball - ring) * mixed - 0.5 * mixed * (1 - mixed)
            t = (t + torch.minimum(solid, y + 0.5)).clamp(max=20)
        return t

    v = ((0.5 * h - torch.arange(h)) / w - 0.35)[:, None]
    u = ((torch.arange(w) - 0.5 * w) / w)[None]
    name = f"depth of a scene of distances, {h} x {w}, up to {most} steps float32"
    held, grid = (torch.empty(h, w), 20.0, most, 8, 32), _blocks(h, w, 8, 32)
    return beside_torch(name, marched, grid, held, theirs, v, u, bound=1e-4)


@ct.kernel
def relaxed(source, u, share, colour, high: ct.Constant[int], wide: ct.Constant[int]):
    """Successive over-relaxation of the cells of one colour of a board, in place."""
    y, k = _places(high, wide)
    x = 2 * k + (y + colour) % 2
    inside = (y > 0) & (y < u.shape[0] - 1) & (x > 0) & (x < u.shape[1] - 1)
    around = ct.gather(u, (y - 1, x), mask=inside) + ct.gather(u, (y + 1, x), mask=inside)
    around += ct.gather(u, (y, x - 1), mask=inside) + ct.gather(u, (y, x + 1), mask=inside)
    middle = ct.gather(u, (y, x), mask=inside)
    new = 0.25 * (around - ct.gather(source, (y, x), mask=inside))
    ct.scatter(u, (y, x), middle + share * (new - middle), mask=inside)


def _relaxed(h: int, w: int) -> Row:
    first, source, share = normal(h, w, dtype=_F64), normal(h, w, dtype=_F64), 1.5
    u = first.clone()

    def theirs(u, source):
        for top, left in ((1, 1), (2, 2)):
            rows, columns = slice(top, h - 1, 2), slice(left, w - 1, 2)
            new = u[top - 1 : h - 2 : 2, columns] + u[top + 1 : h : 2, columns]
            new += u[rows, left - 1 : w - 2 : 2]
            new += u[rows, left + 1 : w : 2]
            new -= source[rows, columns]
            u[rows, columns] = u[rows, columns].lerp(new * 0.25, share)
        return u

    def clear():
        u.copy_(first)

    name = f"relaxation of the red cells of {h} x {w} float64 in place"
    grid = (-(-h // 8), -(-w // 128))
    more = _compiled(peers.relaxed(h, w, share), first.clone(), source)
    held = (source, u, share, 0, 8, 64)
    return beside_torch(
        name, relaxed, grid, held, theirs, first, source, bound=1e-14, clear=clear, more=more
    )


@ct.kernel
def flooded(seeds, out, step, high: ct.Constant[int], wide: ct.Constant[int]):
    """A pass of jump flooding: the nearest of the seeds that nine pixels know, -1 for none."""
    y, x = _places(high, wide)
    w = seeds.shape[1]
    best = ct.full((high, wide), -1, ct.int32)
    least = ct.full((high, wide), 1 << 30, ct.int32)
    for j in range(-1, 2):
        for i in range(-1, 2):
            seed = ct.gather(seeds, (y + j * step, x + i * step), padding_value=-1)
            dy, dx = seed // w - y, seed % w - x
            far = ct.where(seed < 0, 1 << 30, dy * dy + dx * dx)
            best = ct.where(far < least, seed, best)
            least = ct.minimum(far, least)
    ct.store(out, (ct.bid(0), ct.bid(1)), best)


def _flooded(h: int, w: int, step: int) -> Row:
    own = torch.arange(h * w, dtype=_I32).view(h, w)
    seeds = torch.where(integers(100, h, w) == 0, own, -1)

    def theirs(seeds):
        y, x = torch.arange(h, dtype=_I32)[:, None], torch.arange(w, dtype=_I32)
        padded = functional.pad(seeds, (step,) * 4, value=-1)
        best, least = torch.full_like(seeds, -1), torch.full_like(seeds, 1 << 30)
        for j in range(0, 2 * step + 1, step):
            for i in range(0, 2 * step + 1, step):
                seed = padded[j : j + h, i : i + w]
                row = torch.div(seed, w, rounding_mode="floor")
                dy, dx = row - y, seed - row * w - x
                far = torch.where(seed < 0, 1 << 30, dy * dy + dx * dx)
                best = torch.where(far < least, seed, best)
                least = torch.minimum(far, least)
        return best

    name, grid = f"a pass of jump flooding of {h} x {w} int32, {step} apart", _blocks(h, w, 16, 64)
    more = _compiled(peers.flooded(h, w, step), seeds, seeds + 0, fast=False)
    held = (seeds, seeds + 0, step, 16, 64)
    return beside_torch(name, flooded, grid, held, theirs, seeds, more=more)


@ct.kernel
def rimmed(x, offsets, out, high: ct.Constant[int], wide: ct.Constant[int]):
    """The most less the least under a shape: offsets i32 [n, 2], edges repeated."""
    row, column = _places(high, wide)
    most, least = ct.zeros((high, wide), ct.uint8), ct.full((high, wide), 255, ct.uint8)
    for n in range(offsets.shape[0]):
        j = ct.maximum(ct.minimum(row + ct.gather(offsets, (n, 0)), x.shape[0] - 1), 0)
        i = ct.maximum(ct.minimum(column + ct.gather(offsets, (n, 1)), x.shape[1] - 1), 0)
        held = ct.gather(x, (j, i))
        most, least = ct.maximum(most, held), ct.minimum(least, held)
    ct.store(out, (ct.bid(0), ct.bid(1)), most - least)


def _rimmed(h: int, w: int, radius: int) -> Row:
    x, span = integers(256, h, w, dtype=_U8), range(-radius, radius + 1)
    each = [(j, i) for j in span for i in span if j * j + i * i <= radius * radius + 1]
    offsets = torch.tensor(each, dtype=_I32)

    def theirs(x):
        wide = functional.pad(x[None], (radius,) * 4, mode="replicate")[0]
        most, least = x, x
        for j, i in each:
            held = wide[j + radius : j + radius + h, i + radius : i + radius + w]
            most, least = torch.maximum(most, held), torch.minimum(least, held)
        return most - least

    room = torch.empty(h + 2 * radius, w + 2 * radius, dtype=_U8)
    name, grid = f"most less least in discs of {len(each)}, {h} x {w} uint8", _blocks(h, w, 16, 64)
    more = _compiled(peers.rimmed(h, w, radius), x, offsets, room, x + 0, x + 0, fast=False)
    return beside_torch(name, rimmed, grid, (x, offsets, x + 0, 16, 64), theirs, x, more=more)


@ct.kernel
def away(marks, out, rows: ct.Constant[int], tile: ct.Constant[int]):
    """How far the nearest mark of each row is, by scans from both sides."""
    marked = ct.load(marks, (ct.bid(0), 0), (rows, tile), padding_mode=ct.PaddingMode.ZERO)
    place = ct.broadcast_to(ct.arange(tile, dtype=ct.int32), (rows, tile))
    left = ct.scan(ct.where(marked, place, -20000), 1, ct.maximum, -20000)
    right = ct.scan(ct.where(marked, place, 20000), 1, ct.minimum, 20000, reverse=True)
    ct.store(out, (ct.bid(0), 0), ct.minimum(place - left, right - place).astype(ct.int16))


def _away(rows: int, width: int) -> Row:
    marks = integers(40, rows, width) == 0
    marks[:, 500] = True

    def theirs(marks):
        place = torch.arange(width, dtype=_I32)
        left = torch.where(marks, place, -20000).cummax(1).values
        right = torch.where(marks, place, 20000).flip(1).cummin(1).values.flip(1)
        return torch.minimum(place - left, right - place).to(_I16)

    name = f"distances to marks along rows of {rows} x {width} bool"
    out, grid = torch.empty(rows, width, dtype=_I16), (-(-rows // 4),)
    more = _compiled(peers.away(rows, width), marks, out.clone(), fast=False)
    return beside_torch(name, away, grid, (marks, out, 4, 1024), theirs, marks, more=more)


@ct.kernel
def swung(volume, turn, out, tile: ct.Constant[int]):
    """A volume i16 seen through a matrix [3, 4] of places, linearly, zero outside; places in turn."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    plane = out.shape[1] * out.shape[2]
    k, j, i = i // plane, i % plane // out.shape[2], i % out.shape[2]
    z, y, x = k.astype(ct.float32), j.astype(ct.float32), i.astype(ct.float32)
    p = ct.gather(turn, (0, 0)) * z + ct.gather(turn, (0, 1)) * y + ct.gather(turn, (0, 2)) * x
    q = ct.gather(turn, (1, 0)) * z + ct.gather(turn, (1, 1)) * y + ct.gather(turn, (1, 2)) * x
    r = ct.gather(turn, (2, 0)) * z + ct.gather(turn, (2, 1)) * y + ct.gather(turn, (2, 2)) * x
    p, q, r = p + ct.gather(turn, (0, 3)), q + ct.gather(turn, (1, 3)), r + ct.gather(turn, (2, 3))
    a, b, c = ct.floor(p), ct.floor(q), ct.floor(r)
    total = ct.zeros((tile,), ct.float32)
    for n in range(8):
        da, db, dc = n >> 2, (n >> 1) & 1, n & 1
        share = (1.0 - ct.abs(a + da - p)) * (1.0 - ct.abs(b + db - q)) * (1.0 - ct.abs(c + dc - r))
        at = (a.astype(ct.int32) + da, b.astype(ct.int32) + db, c.astype(ct.int32) + dc)
        total += share * ct.gather(volume, at).astype(ct.float32)
    ct.scatter(out, (k, j, i), total)


def _swung(d: int, h: int, w: int) -> Row:
    volume = integers(2000, d, h, w, dtype=_I16)
    c, s = math.cos(0.3), math.sin(0.3)
    turn = torch.tensor([[1.0, 0.1, 0, -2], [0, c, -s, 11], [0, s, c, -6]])

    def theirs(volume, turn):
        base = [torch.arange(n, dtype=turn.dtype) for n in (d, h, w)]
        p = torch.stack(torch.meshgrid(*base, indexing="ij"), -1) @ turn[:, :3].T + turn[:, 3]
        size = torch.tensor([d - 1, h - 1, w - 1], dtype=turn.dtype)
        grid = (p * (2 / size) - 1).flip(-1)[None]
        return functional.grid_sample(volume.to(turn.dtype)[None, None], grid, align_corners=True)[
            0, 0
        ]

    given, grid = (volume, turn), (-(-d * h * w // 256),)
    name = f"a volume of {d} x {h} x {w} int16 turned, linearly"
    more = _compiled(peers.swung(d, h, w), *given, torch.empty(d, h, w))
    held = (*given, torch.empty(d, h, w), 256)
    return beside_torch(name, swung, grid, held, theirs, *given, bound=1e-4, more=more)


@ct.kernel
def tinted(pixels, table, out, tile: ct.Constant[int]):
    """Colours u8 by a table of 17 x 17 x 17, by the tetrahedron that each is in: table [place, 3]."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    r = ct.gather(pixels, (i, 0)).astype(ct.float32) * (16.0 / 255.0)
    g = ct.gather(pixels, (i, 1)).astype(ct.float32) * (16.0 / 255.0)
    b = ct.gather(pixels, (i, 2)).astype(ct.float32) * (16.0 / 255.0)
    ir, ig = ct.minimum(ct.floor(r), 15.0), ct.minimum(ct.floor(g), 15.0)
    ib = ct.minimum(ct.floor(b), 15.0)
    at = ir.astype(ct.int32) * 289 + ig.astype(ct.int32) * 17 + ib.astype(ct.int32)
    r, g, b = r - ir, g - ig, b - ib
    first = ct.where((r >= g) & (r >= b), 289, ct.where(g >= b, 17, 1))
    last = ct.where((b <= r) & (b <= g), 1, ct.where(g <= r, 17, 289))
    most, least = ct.maximum(ct.maximum(r, g), b), ct.minimum(ct.minimum(r, g), b)
    middle = r + g + b - most - least
    for c in range(3):
        found = (1.0 - most) * ct.gather(table, (at, c)) + least * ct.gather(table, (at + 307, c))
        found += (most - middle) * ct.gather(table, (at + first, c))
        found += (middle - least) * ct.gather(table, (at + 307 - last, c))
        ct.scatter(out, (i, c), (found + 0.5).astype(ct.uint8))


def _tinted(many: int) -> Row:
    pixels, table = integers(256, many, 3, dtype=_U8), uniform(17**3, 3) * 255

    def theirs(pixels, table):
        place = pixels.to(table.dtype) * (16 / 255)
        low = place.floor().clamp(max=15)
        strides = torch.tensor([289, 17, 1], dtype=_I32)
        at = (low.int() * strides).sum(1, dtype=_I32)
        part, order = (place - low).sort(1, descending=True)
        step = strides[order]
        one, two = at + step[:, 0], at + step[:, 0] + step[:, 1]
        found = (1 - part[:, :1]) * table[at] + (part[:, :1] - part[:, 1:2]) * table[one]
        found += (part[:, 1:2] - part[:, 2:]) * table[two] + part[:, 2:] * table[at + 307]
        return (found + 0.5).to(_U8)

    given, grid = (pixels, table), (-(-many // 256),)
    name = f"{many} pixels of three uint8 by a table of colours and its tetrahedra"
    more, held = _compiled(peers.tinted(many), *given, pixels + 0), (*given, pixels + 0, 256)
    return beside_torch(name, tinted, grid, held, theirs, *given, bound=0.005, more=more)


def _held(x, row, p):
    """What stands at places of rows that are mirrored at both ends."""
    p = ct.abs(p)
    p = ct.where(p >= x.shape[1], 2 * (x.shape[1] - 1) - p, p)
    return ct.gather(x, (row, p)).astype(ct.int32)


def _detail(x, row, p):
    return _held(x, row, p) - ((_held(x, row, p - 1) + _held(x, row, p + 1)) >> 1)


@ct.kernel
def lifted(x, low, high, rows: ct.Constant[int], tile: ct.Constant[int]):
    """A step of JPEG 2000's wavelet of 5 and 3 taps along rows of odd widths, without loss."""
    row, k = _places(rows, tile)
    before, after = _detail(x, row, ct.abs(2 * k - 1)), _detail(x, row, 2 * k + 1)
    after = ct.where(2 * k + 1 < x.shape[1], after, before)
    smooth = _held(x, row, 2 * k) + ((before + after + 2) >> 2)
    ct.scatter(low, (row, k), smooth.astype(ct.int16))
    ct.scatter(high, (row, k), after.astype(ct.int16))


def _lifted(rows: int, width: int) -> Row:
    x, half = integers(4000, rows, width, dtype=_I16), width // 2

    def theirs(x):
        even, odd = x[:, ::2], x[:, 1::2]
        high = odd - ((even[:, :-1] + even[:, 1:]) >> 1)
        both = torch.cat([high[:, :1], high, high[:, -1:]], 1)
        return even + ((both[:, :-1] + both[:, 1:] + 2) >> 2), high

    name = f"wavelets of 5 and 3 taps along rows of {rows} x {width} int16"
    more = _compiled(peers.lifted(rows, half), x, x[:, ::2] + 0, x[:, 1::2] + 0, fast=False)
    grid = _blocks(rows, half + 1, 4, 256)
    held = (x, x[:, ::2].contiguous(), x[:, 1::2].contiguous(), 4, 256)
    return beside_torch(name, lifted, grid, held, theirs, x, outputs=2, more=more)


@ct.kernel
def moved(new, old, cost, which, side: ct.Constant[int], reach: ct.Constant[int]):
    """Where each block of a picture was before: the least sum of differences, a row of places at a time."""
    y, x = ct.bid(0), ct.bid(1)
    here = ct.load(new, (y, x), (side, side)).astype(ct.int16).reshape((1, side, side))
    step = ct.arange(2 * reach, dtype=ct.int32).reshape((2 * reach, 1, 1)) - reach
    j = y * side + ct.arange(side, dtype=ct.int32).reshape((1, side, 1))
    i = x * side + ct.arange(side, dtype=ct.int32).reshape((1, 1, side)) + step
    i = ct.minimum(ct.maximum(i, 0), old.shape[1] - 1)
    best, place = 1 << 30, 0
    for dy in range(-reach, reach):
        held = ct.gather(old, (ct.minimum(ct.maximum(j + dy, 0), old.shape[0] - 1), i))
        off = ct.sum(ct.abs(held.astype(ct.int16) - here).astype(ct.int32), (1, 2))
        least = ct.min(off)
        if least < best:
            best = least
            place = (dy + reach) * 2 * reach + ct.argmin(off)
    ct.scatter(cost, (y, x), best)
    ct.scatter(which, (y, x), place)


def _moved(h: int, w: int, side: int, reach: int) -> Row:
    old, many = integers(256, h, w, dtype=_U8), 2 * reach
    new = (old.roll((3, -2), (0, 1)).int() * 3 // 4 + integers(50, h, w)).to(_U8)

    def theirs(new, old):
        wide = functional.pad(old[None], (reach, reach - 1) * 2, mode="replicate")[0]
        held = wide.unfold(0, h, 1).unfold(1, w, 1).to(_I16)
        off = (held - new).abs().reshape(many * many, h // side, side, w // side, side)
        cost = off.sum((2, 4), dtype=_I32)
        return tuple(each.to(_I32) for each in cost.min(0))

    name = f"where blocks of {side} of {h} x {w} uint8 were before, {many * many} places"
    grid, room = (h // side, w // side), torch.empty(h + many - 1, w + many - 1, dtype=_U8)
    out = [torch.empty(grid, dtype=_I32) for _ in range(4)]
    more = _compiled(peers.moved(h, w, side, many, reach), new, old, room, *out[2:], fast=False)
    held = (new, old, *out[:2], side, reach)
    return beside_torch(name, moved, grid, held, theirs, new, old, outputs=2, more=more)


def _ones(v):
    """How many bits of words u32 are set."""
    v = v - ((v >> 1) & 0x55555555)
    v = (v & 0x33333333) + ((v >> 2) & 0x33333333)
    return (((v + (v >> 4)) & 0x0F0F0F0F) * 0x01010101) >> 24


@ct.kernel
def apart(left, right, out, cost, most: ct.Constant[int], tile: ct.Constant[int]):
    """How far apart both eyes see each pixel: words of bits that differ least."""
    y = ct.bid(0)
    x = ct.bid(1) * tile + ct.arange(tile, dtype=ct.int32)
    here = ct.bitcast(ct.gather(left, (y, x)), ct.uint32)
    best, least = ct.zeros((tile,), ct.uint8), ct.full((tile,), 99, ct.uint8)
    for d in range(most):
        there = ct.bitcast(ct.gather(right, (y, x - d)), ct.uint32)
        off = ct.where(x >= d, _ones(here ^ there), 99).astype(ct.uint8)
        best = ct.where(off < least, ct.astile(d, dtype=ct.uint8), best)
        least = ct.minimum(off, least)
    ct.scatter(out, (y, x), best)
    ct.scatter(cost, (y, x), least)


def _apart(h: int, w: int, most: int) -> Row:
    right = integers(1 << 31, h, w)
    left = right.roll(7, 1) ^ (integers(1 << 30, h, w) & integers((1 << 30) - 1, h, w))

    def theirs(left, right):
        best, least = torch.zeros(h, w, dtype=_U8), torch.full((h, w), 99, dtype=_U8)
        for d in range(most):
            off = _ones(left[:, d:] ^ right[:, : w - d]).to(_U8)
            off = functional.pad(off, (d, 0), value=99)
            best = torch.where(off < least, d, best)
            least = torch.minimum(off, least)
        return best, least

    name = f"{most} distances between two pictures of {h} x {w} words of 32 bits"
    out, grid = [torch.empty(h, w, dtype=_U8) for _ in range(4)], (h, -(-w // 256))
    more = _compiled(peers.apart(h, w, most), left, right, *out[2:], fast=False)
    held = (left, right, *out[:2], most, 256)
    return beside_torch(name, apart, grid, held, theirs, left, right, outputs=2, more=more)


@ct.kernel
def streamed(f, way, weight, out, share, tile: ct.Constant[int]):
    """A step of a lattice of 19 speeds that goes round in space: f32 [speed, z, y, x], then collisions."""
    cell = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    d, h, w = f.shape[1], f.shape[2], f.shape[3]
    z, y, x = cell // (h * w), cell // w % h, cell % w
    zero = ct.zeros((tile,), ct.float32)
    much, jz, jy, jx = zero, zero, zero, zero
    for q in range(19):
        cz, cy, cx = ct.gather(way, (q, 0)), ct.gather(way, (q, 1)), ct.gather(way, (q, 2))
        came = ct.gather(f, (q, (z - cz + d) % d, (y - cy + h) % h, (x - cx + w) % w))
        much, jz, jy, jx = much + came, jz + came * cz, jy + came * cy, jx + came * cx
    uz, uy, ux = jz / much, jy / much, jx / much
    still = 1.0 - 1.5 * (uz * uz + uy * uy + ux * ux)
    for q in range(19):
        cz, cy, cx = ct.gather(way, (q, 0)), ct.gather(way, (q, 1)), ct.gather(way, (q, 2))
        came = ct.gather(f, (q, (z - cz + d) % d, (y - cy + h) % h, (x - cx + w) % w))
        along = 3.0 * (uz * cz + uy * cy + ux * cx)
        calm = ct.gather(weight, q) * much * (still + along + 0.5 * along * along)
        ct.scatter(out, (q, z, y, x), came + share * (calm - came))


def _streamed(d: int, h: int, w: int) -> Row:
    ways = [(z, y, x) for z in (0, 1, -1) for y in (0, 1, -1) for x in (0, 1, -1) if x * y * z == 0]
    weights = [(1 / 3, 1 / 18, 1 / 36)[sum(map(abs, way))] for way in ways]
    way, weight, share = torch.tensor(ways, dtype=_I32), torch.tensor(weights), 1.25
    f = weight[:, None, None, None] * (1 + 0.1 * uniform(19, d, h, w))

    def theirs(f, weight):
        came = torch.stack([f[q].roll(each, (0, 1, 2)) for q, each in enumerate(ways)])
        much, each = came.sum(0), way.to(f.dtype)
        u = torch.einsum("qc,qzyx->czyx", each, came) / much
        along = 3 * torch.einsum("qc,czyx->qzyx", each, u)
        calm = 1 - 1.5 * (u * u).sum(0) + along + 0.5 * along * along
        return came.lerp(weight[:, None, None, None] * much * calm, share)

    name = f"a step of a lattice of 19 speeds, {d} x {h} x {w} float32"
    grid = (-(-d * h * w // 128),)
    more = _compiled(peers.streamed(d, h, w, share), f, way, weight, f + 0)
    held = (f, way, weight, f + 0, share, 128)
    return beside_torch(name, streamed, grid, held, theirs, f, weight, bound=1e-5, more=more)


def _crossed(ax, ay, az, bx, by, bz):
    return ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx


@ct.kernel
def shaded(points, faces, normals, tile: ct.Constant[int]):
    """Normals of faces added at the corners of each, by atomics: points [n, 3], faces [m, 3]."""
    face = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    a = ct.gather(faces, (face, 0), padding_value=-1)
    b = ct.gather(faces, (face, 1), padding_value=-1)
    c = ct.gather(faces, (face, 2), padding_value=-1)
    x, y, z = ct.gather(points, (a, 0)), ct.gather(points, (a, 1)), ct.gather(points, (a, 2))
    nx, ny, nz = _crossed(
        ct.gather(points, (b, 0)) - x,
        ct.gather(points, (b, 1)) - y,
        ct.gather(points, (b, 2)) - z,
        ct.gather(points, (c, 0)) - x,
        ct.gather(points, (c, 1)) - y,
        ct.gather(points, (c, 2)) - z,
    )
    for corner in ct.static_iter((a, b, c)):
        ct.atomic_add(normals, (corner, 0), nx)
        ct.atomic_add(normals, (corner, 1), ny)
        ct.atomic_add(normals, (corner, 2), nz)


def _shaded(h: int, w: int) -> Row:
    points, normals = normal(h * w, 3), torch.zeros(h * w, 3)
    at = torch.arange(h * w, dtype=_I32).view(h, w)
    upper = torch.stack([at[:-1, :-1], at[:-1, 1:], at[1:, :-1]], -1).view(-1, 3)
    lower = torch.stack([at[1:, 1:], at[1:, :-1], at[:-1, 1:]], -1).view(-1, 3)
    faces = torch.cat([upper, lower], 1).view(-1, 3)

    def theirs(points, faces):
        a, b, c = points[faces].unbind(1)
        each = torch.linalg.cross(b - a, c - a)
        out = torch.zeros_like(points)
        return out.index_add_(0, faces.view(-1), each.repeat_interleave(3, 0))

    given, name = (points, faces), f"normals of {len(faces)} faces at {h * w} points float32"
    more, grid = _compiled(peers.shaded(), *given, normals.clone()), (-(-len(faces) // 128),)
    held, clear = (*given, normals, 128), normals.zero_
    return beside_torch(
        name, shaded, grid, held, theirs, *given, bound=1e-5, clear=clear, more=more
    )


def _nearer(apart, side):
    """The way to the nearest of the images of what stands that far off."""
    return apart - side * ct.floor(apart / side + 0.5)


@ct.kernel
def pushed(places, others, force, energy, side, reach, ta: ct.Constant[int], tn: ct.Constant[int]):
    """Lennard-Jones forces from lists of neighbours, -1 behind the last: some atoms at a time."""
    atom = (ct.bid(0) * ta + ct.arange(ta, dtype=ct.int32)).reshape((ta, 1))
    slot = ct.arange(tn, dtype=ct.int32).reshape((1, tn))
    other = ct.gather(others, (atom, slot), padding_value=-1)
    x = _nearer(ct.gather(places, (atom, 0)) - ct.gather(places, (other, 0)), side)
    y = _nearer(ct.gather(places, (atom, 1)) - ct.gather(places, (other, 1)), side)
    z = _nearer(ct.gather(places, (atom, 2)) - ct.gather(places, (other, 2)), side)
    square = x * x + y * y + z * z
    near = (other >= 0) & (square < reach * reach)
    over = 1.0 / ct.where(near, square, 1.0)
    cube = over * over * over
    pull = ct.where(near, 24.0 * over * cube * (2.0 * cube - 1.0), 0.0)
    ct.scatter(force, (atom, 0), ct.sum(pull * x, 1, keepdims=True))
    ct.scatter(force, (atom, 1), ct.sum(pull * y, 1, keepdims=True))
    ct.scatter(force, (atom, 2), ct.sum(pull * z, 1, keepdims=True))
    total = ct.sum(ct.where(near, 2.0 * cube * (cube - 1.0), 0.0), 1, keepdims=True)
    ct.scatter(energy, atom, total)


def _pushed(many: int, slots: int) -> Row:
    side, reach = 16 * 1.125, 2.0
    at = torch.arange(many)
    places = torch.stack([at // 256, at // 16 % 16, at % 16], 1) * 1.125
    places = places.double() + 0.2 * uniform(many, 3, dtype=_F64)
    off = places.float()[:, None] - places.float()
    square = (off - side * (off / side).round()).square_().sum(2).fill_diagonal_(99)
    least, others = square.topk(slots, largest=False)
    others = torch.where(least < 5, others, -1).to(_I32)

    def theirs(places, others):
        off = places[:, None] - places[others]
        off = off - side * (off / side + 0.5).floor()
        square = (off * off).sum(2)
        near = (others >= 0) & (square < reach * reach)
        over = torch.where(near, 1 / square, 0)
        cube = over**3
        pull = 24 * over * cube * (2 * cube - 1)
        return (pull[..., None] * off).sum(1), (2 * cube * (cube - 1)).sum(1)

    given, grid = (places, others), (-(-many // 16),)
    name = f"forces on {many} atoms from lists of up to {slots} neighbours float64"
    more = _compiled(peers.pushed(side, many, slots, reach), *given, places + 0, places[:, 0] + 0)
    held = (*given, places + 0, places[:, 0] + 0, side, reach, 16, slots)
    return beside_torch(name, pushed, grid, held, theirs, *given, outputs=2, bound=1e-12, more=more)


@ct.kernel
def oriented(x, out):
    """Histograms of nine directions of slopes in cells of 8 x 8, each slope between two of them."""
    row, column = _places(8, 64)
    up, down = ct.maximum(row - 1, 0), ct.minimum(row + 1, x.shape[0] - 1)
    left, right = ct.maximum(column - 1, 0), ct.minimum(column + 1, x.shape[1] - 1)
    dy = ct.gather(x, (down, column)).astype(ct.float32) - ct.gather(x, (up, column))
    dx = ct.gather(x, (row, right)).astype(ct.float32) - ct.gather(x, (row, left))
    size = ct.sqrt(dx * dx + dy * dy)
    turn = ct.atan2(dy, dx) * (9.0 / math.pi)
    turn = ct.where(turn < 0.0, turn + 9.0, turn)
    cell = ct.bid(1) * 8 + ct.arange(8, dtype=ct.int32)
    for n in range(9):
        off = ct.abs(turn - (n + 0.5))
        share = ct.maximum(1.0 - ct.minimum(off, 9.0 - off), 0.0)
        ct.scatter(out, (ct.bid(0), cell, n), ct.sum((size * share).reshape((8, 8, 8)), (0, 2)))


def _oriented(h: int, w: int) -> Row:
    x = integers(256, h, w, dtype=_U8)

    def theirs(x, middles):
        wide = functional.pad(x[None].to(middles.dtype), (1, 1, 1, 1), mode="replicate")[0]
        dy, dx = wide[2:, 1:-1] - wide[:-2, 1:-1], wide[1:-1, 2:] - wide[1:-1, :-2]
        turn = torch.atan2(dy, dx) * (9 / math.pi)
        off = (torch.where(turn < 0, turn + 9, turn)[..., None] - middles).abs()
        share = (1 - torch.minimum(off, 9 - off)).clamp(min=0)
        each = (dx * dx + dy * dy).sqrt()[..., None] * share
        return each.view(h // 8, 8, w // 8, 8, 9).sum((1, 3))

    name, middles = f"histograms of slopes in cells of {h} x {w} uint8", torch.arange(9) + 0.5
    more = _compiled(peers.oriented(h, w), x, torch.empty(h // 8, w // 8, 9))
    out = torch.empty(h // 8, w // 8, 9)
    grid = h // 8, -(-w // 64)
    return beside_torch(name, oriented, grid, (x, out), theirs, x, middles, bound=1e-5, more=more)


@ct.kernel
def alike(one, two, out, reach: ct.Constant[int], depth: ct.Constant[int], tile: ct.Constant[int]):
    """Means of products of features of two pictures at places up to so far apart: [feature, y, x]."""
    y = ct.bid(0)
    x = (ct.bid(1) * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    feature = ct.arange(depth, dtype=ct.int32).reshape((depth, 1))
    here = ct.gather(one, (feature, y, x)).astype(ct.float32)
    n = 0
    for j in range(-reach, reach + 1):
        for i in range(-reach, reach + 1):
            there = ct.gather(two, (feature, y + j, x + i)).astype(ct.float32)
            mean = ct.sum(here * there, 0, keepdims=True) / one.shape[0]
            ct.scatter(out, (n, y, x), mean.astype(out.dtype))
            n += 1


def _alike(depth: int, h: int, w: int, reach: int) -> Row:
    one, two = normal(depth, h, w, dtype=_BF16), normal(depth, h, w + 1, dtype=_BF16)
    two, many = two[..., 1:].contiguous(), 2 * reach + 1

    def theirs(one, two):
        wide = torch.promote_types(one.dtype, _F32)
        one, two = one.to(wide), functional.pad(two.to(wide), (reach,) * 4)
        each = [
            (one * two[:, j : j + h, i : i + w]).mean(0) for j in range(many) for i in range(many)
        ]
        return torch.stack(each).to(_BF16 if wide == _F32 else wide)

    name = f"products of {depth} features of {h} x {w} bfloat16 at {many * many} places"
    held = (one, two, torch.empty(many * many, h, w, dtype=_BF16), reach, 64, 64)
    return beside_torch(name, alike, (h, -(-w // 64)), held, theirs, one, two, bound=8e-3)


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _smeared(200, 250, 60, 331),
        lambda: _listened(40, 361, 48, 30),
        lambda: _echoed(150, 101, 48, 1200),
        lambda: _marched(150, 201, 48),
        lambda: _relaxed(601, 799),
        lambda: _flooded(300, 401, 8),
        lambda: _rimmed(300, 401, 4),
        lambda: _away(600, 1000),
        lambda: _swung(40, 50, 61),
        lambda: _tinted(50_001),
        lambda: _lifted(600, 1001),
        lambda: _moved(144, 176, 16, 8),
        lambda: _apart(200, 401, 32),
        lambda: _streamed(20, 27, 33),
        lambda: _shaded(101, 150),
        lambda: _pushed(4001, 64),
        lambda: _oriented(200, 328),
        lambda: _alike(48, 40, 70, 3),
    ]
