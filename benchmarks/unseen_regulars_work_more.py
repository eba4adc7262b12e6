"""More of tables, codes, prices and pictures, as a regular writes them.

``unseen_regulars_work`` lists these rows, too.
"""

from __future__ import annotations

import cuda.tile as ct
import numpy as np
import torch
from torch.nn import functional

from benchmarks.unseen_rows import Row, array, beside_torch, by_numba, integers, normal, uniform

_I32, _I64, _I8, _U8 = torch.int32, torch.int64, torch.int8, torch.uint8


@ct.kernel
def bloomed(keys, words, hashes: ct.Constant[int], tile: ct.Constant[int]):
    """Keys put into a Bloom filter of bits, by two halves of one hash."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    inside = i < keys.shape[0]
    mixed = ct.gather(keys, i, mask=inside) * -7046029254386353131
    mixed = mixed ^ ((mixed >> 29) & 0x7FFFFFFFF)
    a, b = mixed & 0xFFFFFFFF, ((mixed >> 32) & 0xFFFFFFFF) | 1
    bits = words.shape[0] * 32
    for n in range(hashes):
        place = (a + n * b).astype(ct.int32) & (bits - 1)
        ct.atomic_or(words, ct.where(inside, place >> 5, -1), 1 << (place & 31))


def bloomed_row(many: int, words: int, hashes: int) -> Row:
    keys = integers(1 << 40, many, dtype=_I64)
    out = torch.zeros(words, dtype=_I32)
    mask = (1 << 32) - 1

    def theirs(keys):
        mixed = keys * -7046029254386353131
        mixed = mixed ^ ((mixed >> 29) & 0x7FFFFFFFF)
        a, b = mixed & mask, ((mixed >> 32) & mask) | 1
        bits = torch.zeros(words * 32, dtype=torch.bool)
        for n in range(hashes):
            bits[(a + n * b) & (words * 32 - 1)] = True
        return (bits.view(words, 32).long() << torch.arange(32)).sum(1).to(_I32)

    def make(nb):
        @nb.njit
        def run(keys, out):
            out[:] = 0
            for i in range(keys.size):
                mixed = keys[i] * np.uint64(11400714819323198485)
                mixed ^= mixed >> np.uint64(29)
                a, b = mixed & np.uint64(mask), (mixed >> np.uint64(32)) | np.uint64(1)
                for _ in range(hashes):
                    place = np.uint32(a) & np.uint32(words * 32 - 1)
                    out[place >> np.uint32(5)] |= np.uint32(1) << (place & np.uint32(31))
                    a += b

        made = np.empty(words, np.int32)
        return lambda: run(array(keys).view(np.uint64), made.view(np.uint32))

    return beside_torch(
        f"{many} int64 in a Bloom filter of {words} words by {hashes} hashes",
        bloomed,
        (-(-many // 512),),
        (keys, out, hashes, 512),
        theirs,
        keys,
        clear=lambda: out.zero_(),
        more=by_numba(make),
    )


@ct.kernel
def dealt(keys, starts, out, places, shift: ct.Constant[int], tile: ct.Constant[int]):
    """Keys in the order of four of their bits, and where each was: starts[block, digit]."""
    block = ct.bid(0)
    i = block * tile + ct.arange(tile, dtype=ct.int32)
    inside = i < keys.shape[0]
    key = ct.gather(keys, i, mask=inside)
    digit = (key >> shift) & 15
    equal = (digit[:, None] == ct.arange(16, dtype=ct.int32)[None, :]) & inside[:, None]
    before = ct.cumsum(equal.astype(ct.int32), 0)
    rank = ct.sum(ct.where(equal, before, 0), 1) - 1
    to = ct.gather(starts, (block, digit)) + rank
    ct.scatter(out, to, key, mask=inside)
    ct.scatter(places, to, i, mask=inside)


def dealt_row(many: int, shift: int, tile: int) -> Row:
    keys = integers(1 << 20, many)
    blocks = -(-many // tile)
    digits = functional.pad((keys >> shift) & 15, (0, blocks * tile - many), value=16)
    counts = functional.one_hot(digits.view(blocks, tile).long(), 17).sum(1)[:, :16].T.reshape(-1)
    starts = (counts.cumsum(0) - counts).view(16, blocks).T.contiguous().to(_I32)

    def theirs(keys):
        order = ((keys >> shift) & 15).to(_U8).argsort(stable=True)
        return keys[order], order.to(_I32)

    def by_numpy():
        order = ((array(keys) >> shift) & 15).astype(np.uint8).argsort(kind="stable")
        return array(keys)[order], order.astype(np.int32)

    def make(nb):
        @nb.njit(parallel=True)
        def run(keys, starts, out, places):
            for block in nb.prange(blocks):
                to = starts[block].copy()
                for i in range(block * tile, min(block * tile + tile, many)):
                    digit = (keys[i] >> shift) & 15
                    out[to[digit]], places[to[digit]] = keys[i], i
                    to[digit] += 1

        made = [np.empty(many, np.int32) for _ in range(2)]
        return lambda: run(array(keys), array(starts), *made)

    return beside_torch(
        f"{many} int32 dealt by four bits, and where they were, tiles of {tile}",
        dealt,
        (blocks,),
        (keys, starts, torch.empty_like(keys), torch.empty_like(keys), shift, tile),
        theirs,
        keys,
        outputs=2,
        more={"NumPy": by_numpy} | by_numba(make),
    )


@ct.kernel
def letters(text, counts, wrong, tile: ct.Constant[int]):
    """How many letters of UTF-8 begin in each block of bytes, and how many bytes are not as they must be."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    byte = ct.gather(text, i)
    one, two, three = ct.gather(text, i - 1), ct.gather(text, i - 2), ct.gather(text, i - 3)
    follows = (byte & 0xC0) == 0x80
    bad = follows != ((one >= 0xC0) | (two >= 0xE0) | (three >= 0xF0))
    bad = bad | (byte == 0xC0) | (byte == 0xC1) | (byte > 0xF4)
    bad = bad | ((one == 0xE0) & (byte < 0xA0)) | ((one == 0xED) & (byte > 0x9F))
    bad = bad | ((one == 0xF0) & (byte < 0x90)) | ((one == 0xF4) & (byte > 0x8F))
    inside = i < text.shape[0]
    ct.scatter(counts, ct.bid(0), ct.sum((inside & ~follows).astype(ct.int32)))
    ct.scatter(wrong, ct.bid(0), ct.sum((inside & bad).astype(ct.int32)))


def letters_row(many: int) -> Row:
    kinds, each = integers(4, many), integers(1 << 16, many)
    ranges = ((32, 127), (128, 2048), (2048, 0xD800), (0x10000, 0x110000))
    ends = [ranges[kind] for kind in kinds.tolist()]
    made = "".join(
        chr(low + n % (high - low)) for n, (low, high) in zip(each.tolist(), ends, strict=True)
    )
    text = torch.frombuffer(bytearray(made.encode()), dtype=_U8).clone()
    text[:: many // 50] = 0xC0
    blocks = -(-len(text) // 1024)
    tail = blocks * 1024 - len(text)

    def theirs(text):
        one, two, three = (functional.pad(text, (n, 0))[:-n] for n in (1, 2, 3))
        follows = (text & 0xC0) == 0x80
        bad = follows != ((one >= 0xC0) | (two >= 0xE0) | (three >= 0xF0))
        bad = bad | (text == 0xC0) | (text == 0xC1) | (text > 0xF4)
        bad = bad | ((one == 0xE0) & (text < 0xA0)) | ((one == 0xED) & (text > 0x9F))
        bad = bad | ((one == 0xF0) & (text < 0x90)) | ((one == 0xF4) & (text > 0x8F))
        return tuple(
            functional.pad(x, (0, tail)).view(blocks, 1024).sum(1, dtype=_I32)
            for x in (~follows, bad)
        )

    def make(nb):
        @nb.njit(inline="always")
        def off(byte, one, two, three):
            bad = ((byte & 0xC0) == 0x80) != ((one >= 0xC0) | (two >= 0xE0) | (three >= 0xF0))
            bad |= (byte == 0xC0) | (byte == 0xC1) | (byte > 0xF4)
            bad |= ((one == 0xE0) & (byte < 0xA0)) | ((one == 0xED) & (byte > 0x9F))
            return bad | ((one == 0xF0) & (byte < 0x90)) | ((one == 0xF4) & (byte > 0x8F))

        @nb.njit(parallel=True)
        def run(text, counts, wrong):
            for block in nb.prange(blocks):
                count, bad = np.int32(0), np.int32(0)
                first = block * 1024
                for i in range(first, min(first + 3, text.size)):
                    p, q = text[i - 1] if i > 0 else 0, text[i - 2] if i > 1 else 0
                    bad += off(text[i], p, q, text[i - 3] if i > 2 else 0)
                    count += (text[i] & 0xC0) != 0x80
                last = min(first + 1024, text.size)
                here, one, two = text[first + 3 : last], text[first + 2 :], text[first + 1 :]
                three = text[first:]
                for k in range(here.size):
                    bad += np.int32(off(here[k], one[k], two[k], three[k]))
                    count += np.int32((here[k] & 0xC0) != 0x80)
                counts[block], wrong[block] = count, bad

        made = [np.empty(blocks, np.int32) for _ in range(2)]
        return lambda: run(array(text), *made)

    out = [torch.empty(blocks, dtype=_I32) for _ in range(2)]
    return beside_torch(
        f"letters and wrong bytes of {len(text)} bytes of UTF-8",
        letters,
        (blocks,),
        (text, *out, 1024),
        theirs,
        text,
        outputs=2,
        more=by_numba(make),
    )


def two_least(a, b, c, d):
    """The two least of two pairs in order."""
    return ct.minimum(a, c), ct.minimum(ct.maximum(a, c), ct.minimum(b, d))


@ct.kernel
def checked(sums, old, links, out, edges: ct.Constant[int], tile: ct.Constant[int]):
    """A round of decoding by the least of each parity check, a word for each lane: old[check, edge, word]."""
    check = ct.bid(0)
    word = (ct.bid(1) * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    edge = ct.arange(edges, dtype=ct.int32).reshape((edges, 1))
    bit = ct.gather(links, (check, edge))
    held = ct.gather(sums, (bit, word)).astype(ct.int16)
    held = held - ct.gather(old, (check, edge, word)).astype(ct.int16)
    size = ct.abs(held)
    least, second = ct.reduce(
        (size, ct.full((edges, tile), 999, ct.int16)), 0, two_least, (999, 999), keepdims=True
    )
    odd = (ct.sum((held < 0).astype(ct.int16), 0, keepdims=True) & 1) == 1
    found = ct.minimum(ct.where(size == least, second, least) * 3 >> 2, 127)
    ct.scatter(out, (check, edge, word), ct.where(odd != (held < 0), -found, found).astype(ct.int8))


def checked_row(checks: int, edges: int, bits: int, words: int) -> Row:
    sums = (normal(bits, words) * 40).clamp(-127, 127).to(_I8)
    old = (normal(checks, edges, words) * 10).clamp(-127, 127).to(_I8)
    links = (
        torch.rand(checks, bits, generator=torch.Generator().manual_seed(1))
        .argsort(1)[:, :edges]
        .to(_I32)
    )

    def theirs(sums, old, links):
        held = sums[links].short() - old
        size, minus = held.abs(), held < 0
        low = size.topk(2, 1, largest=False).values
        odd = (minus.sum(1, keepdim=True) & 1) == 1
        found = (torch.where(size == low[:, :1], low[:, 1:], low[:, :1]) * 3 >> 2).clamp(max=127)
        return torch.where(odd != minus, -found, found).to(_I8)

    def make(nb):
        @nb.njit(parallel=True)
        def run(sums, old, links, out):
            h = np.int16
            for check in nb.prange(checks):
                held = np.empty((edges, words), np.int16)
                least, second = np.full(words, h(999)), np.full(words, h(999))
                odd = np.zeros(words, np.int16)
                for e in range(edges):
                    bit = links[check, e]
                    for w in range(words):
                        value = h(h(sums[bit, w]) - h(old[check, e, w]))
                        size = abs(value)
                        held[e, w] = value
                        second[w] = min(second[w], max(least[w], size))
                        least[w] = min(least[w], size)
                        odd[w] ^= value
                for e in range(edges):
                    for w in range(words):
                        value = held[e, w]
                        found = second[w] if abs(value) == least[w] else least[w]
                        found = min(h(h(found * h(3)) >> h(2)), h(127))
                        out[check, e, w] = -found if h(odd[w] ^ value) < 0 else found

        made = np.empty((checks, edges, words), np.int8)
        return lambda: run(array(sums), array(old), array(links), made)

    return beside_torch(
        f"a round of {checks} checks of {edges} of {bits} bits of {words} words int8",
        checked,
        (checks, -(-words // 128)),
        (sums, old, links, torch.empty_like(old), edges, 128),
        theirs,
        sums,
        old,
        links,
        more=by_numba(make),
    )


def below(x):
    """The normal distribution, by five powers as of Abramowitz and Stegun."""
    t = 1.0 / (1.0 + 0.2316419 * ct.abs(x))
    tail = 1.330274429 * t - 1.821255978
    tail = ((((tail * t + 1.781477937) * t - 0.356563782) * t) + 0.319381530) * t
    tail = tail * 0.3989422804 * ct.exp(-0.5 * x * x)
    return ct.where(x >= 0.0, 1.0 - tail, tail)


@ct.kernel
def implied(price, spot, strike, years, out, rate, tile: ct.Constant[int]):
    """Volatilities from prices of calls by Newton's steps, until none of the tile moves."""
    i = ct.bid(0)
    inside = i * tile + ct.arange(tile, dtype=ct.int32) < out.shape[0]
    t = ct.where(inside, ct.load(years, (i,), (tile,)), 1.0)
    s = ct.where(inside, ct.load(spot, (i,), (tile,)), 100.0)
    k = ct.where(inside, ct.load(strike, (i,), (tile,)), 100.0)
    paid = ct.where(inside, ct.load(price, (i,), (tile,)), 10.0)
    root, worth = ct.sqrt(t), k * ct.exp(-rate * t)
    forward = ct.log(s / worth)
    sigma = ct.full((tile,), 0.5, ct.float32)
    moved, n = 1.0, 0
    while moved > 1e-4 and n < 12:
        d = forward / (sigma * root) + 0.5 * sigma * root
        off = s * below(d) - worth * below(d - sigma * root) - paid
        vega = s * root * 0.3989422804 * ct.exp(-0.5 * d * d)
        change = off / ct.maximum(vega, 1e-3)
        sigma = ct.maximum(sigma - change, 0.01)
        moved = ct.max(ct.abs(change))
        n += 1
    ct.store(out, (i,), sigma)


def implied_row(many: int) -> Row:
    spot, strike = uniform(many) * 20 + 90, uniform(many, seed=1) * 20 + 90
    years, known = uniform(many, seed=2) * 1.5 + 0.5, uniform(many, seed=3) * 0.4 + 0.2
    rate = 0.03125

    def worth_of(sigma, spot, strike, years):
        root, paid = years.sqrt(), strike * (-rate * years).exp()
        d = (spot / paid).log() / (sigma * root) + 0.5 * sigma * root
        worth = spot * torch.special.ndtr(d) - paid * torch.special.ndtr(d - sigma * root)
        return worth, spot * root * 0.3989422804 * (-0.5 * d * d).exp()

    def theirs(price, spot, strike, years):
        sigma = torch.full_like(price, 0.5)
        for _ in range(4):
            worth, vega = worth_of(sigma, spot, strike, years)
            sigma = (sigma - (worth - price) / vega.clamp(min=1e-3)).clamp(min=0.01)
        return sigma

    price = worth_of(*(each.double() for each in (known, spot, strike, years)))[0].float()

    def make(nb):
        f = np.float32

        @nb.njit(fastmath=True, inline="always")
        def normal_below(x):
            t = f(1) / (f(1) + f(0.2316419) * abs(x))
            tail = (f(1.330274429) * t - f(1.821255978)) * t + f(1.781477937)
            tail = ((tail * t - f(0.356563782)) * t + f(0.319381530)) * t
            tail *= f(0.3989422804) * np.exp(f(-0.5) * x * x)
            return f(1) - tail if x >= f(0) else tail

        @nb.njit(parallel=True, fastmath=True)
        def run(price, spot, strike, years, out):
            for i in nb.prange(many):
                root, worth = np.sqrt(years[i]), strike[i] * np.exp(f(-rate) * years[i])
                forward, sigma = np.log(spot[i] / worth), f(0.5)
                for _ in range(4):
                    d = forward / (sigma * root) + f(0.5) * sigma * root
                    off = spot[i] * normal_below(d) - worth * normal_below(d - sigma * root)
                    vega = spot[i] * root * f(0.3989422804) * np.exp(f(-0.5) * d * d)
                    sigma = max(sigma - (off - price[i]) / max(vega, f(1e-3)), f(0.01))
                out[i] = sigma

        made = np.empty(many, np.float32)
        return lambda: run(array(price), array(spot), array(strike), array(years), made)

    return beside_torch(
        f"volatilities of {many} prices of calls by Newton's steps float32",
        implied,
        (-(-many // 256),),
        (price, spot, strike, years, torch.empty(many), rate, 256),
        theirs,
        price,
        spot,
        strike,
        years,
        bound=3e-5,
        more=by_numba(make),
    )


def side(x, y, ax, ay, bx, by):
    """Twice the area between an edge and each pixel."""
    return (bx - ax) * (y - ay) - (by - ay) * (x - ax)


@ct.kernel
def drawn(corners, depth, which, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Triangles drawn on a tile of a picture: corners[triangle, corner, axis], the nearest of each pixel."""
    top, left = ct.bid(0) * rows, ct.bid(1) * tile
    y = (top + ct.arange(rows, dtype=ct.int32)).astype(ct.float32).reshape((rows, 1))
    x = (left + ct.arange(tile, dtype=ct.int32)).astype(ct.float32).reshape((1, tile))
    near = ct.full((rows, tile), 1.0, ct.float32)
    seen = ct.full((rows, tile), -1, ct.int32)
    for t in range(corners.shape[0]):
        ax, ay = ct.gather(corners, (t, 0, 0)), ct.gather(corners, (t, 0, 1))
        bx, by = ct.gather(corners, (t, 1, 0)), ct.gather(corners, (t, 1, 1))
        cx, cy = ct.gather(corners, (t, 2, 0)), ct.gather(corners, (t, 2, 1))
        beside = (max(max(ax, bx), cx) < left) | (min(min(ax, bx), cx) > left + tile - 1)
        beyond = (max(max(ay, by), cy) < top) | (min(min(ay, by), cy) > top + rows - 1)
        if not (beside | beyond):
            a, b, c = (
                side(x, y, bx, by, cx, cy),
                side(x, y, cx, cy, ax, ay),
                side(x, y, ax, ay, bx, by),
            )
            z = a * ct.gather(corners, (t, 0, 2)) + b * ct.gather(corners, (t, 1, 2))
            z = (z + c * ct.gather(corners, (t, 2, 2))) / side(cx, cy, ax, ay, bx, by)
            better = (a >= 0.0) & (b >= 0.0) & (c >= 0.0) & (z < near)
            near = ct.where(better, z, near)
            seen = ct.where(better, t, seen)
    ct.store(depth, (ct.bid(0), ct.bid(1)), near)
    ct.store(which, (ct.bid(0), ct.bid(1)), seen)


def _corners(triangles: int, height: int, width: int) -> torch.Tensor:
    """Triangles whose corners are whole pixels, in the order in which their sides are positive."""
    middle = uniform(triangles, 1, 2) * torch.tensor([width, height])
    places = (middle + normal(triangles, 3, 2) * 16).round()
    corners = torch.cat((places, uniform(triangles, 3, 1)), 2)
    a, b, c = places.unbind(1)
    area = (b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]
    corners[area < 0] = corners[area < 0].flip(1)
    return corners[area != 0].contiguous()


def _drawn_by_numba(nb, corners, height, width):
    """The same picture by numba, bands of it at once."""
    triangles = len(corners)
    over = nb.njit(fastmath=True, inline="always")(side)
    f = np.float32

    @nb.njit(parallel=True, fastmath=True)
    def run(corners, near, seen):
        for band in nb.prange(-(-height // 16)):
            first, last = band * 16, min(band * 16 + 16, height)
            near[first:last], seen[first:last] = 1, -1
            for t in range(triangles):
                (ax, ay, az), (bx, by, bz) = corners[t, 0], corners[t, 1]
                cx, cy, cz = corners[t, 2]
                top, bottom = (
                    max(int(min(ay, by, cy)), first),
                    min(int(max(ay, by, cy)) + 1, last),
                )
                left, right = max(int(min(ax, bx, cx)), 0), min(int(max(ax, bx, cx)) + 1, width)
                whole = f(1) / over(cx, cy, ax, ay, bx, by)
                for i in range(top, bottom):
                    y = f(i)
                    for j in range(left, right):
                        x = f(j)
                        a, b = over(x, y, bx, by, cx, cy), over(x, y, cx, cy, ax, ay)
                        c = over(x, y, ax, ay, bx, by)
                        z = (a * az + b * bz + c * cz) * whole
                        if (a >= 0) & (b >= 0) & (c >= 0) & (z < near[i, j]):
                            near[i, j], seen[i, j] = z, t

    made = np.empty((height, width), np.float32), np.empty((height, width), np.int32)
    return lambda: run(array(corners), *made)


def drawn_row(triangles: int, height: int, width: int) -> Row:
    corners = _corners(triangles, height, width)
    triangles = len(corners)

    def theirs(corners):
        near = torch.ones(height, width, dtype=corners.dtype)
        seen = torch.full((height, width), -1, dtype=_I32)
        low, high = corners[:, :, :2].amin(1).tolist(), corners[:, :, :2].amax(1).tolist()
        for t, ((ax, ay, az), (bx, by, bz), (cx, cy, cz)) in enumerate(corners.tolist()):
            left, right = max(int(low[t][0]), 0), min(int(high[t][0]) + 1, width)
            top, bottom = max(int(low[t][1]), 0), min(int(high[t][1]) + 1, height)
            if left >= right or top >= bottom:
                continue
            x = torch.arange(left, right, dtype=corners.dtype)
            y = torch.arange(top, bottom, dtype=corners.dtype)[:, None]
            a, b = side(x, y, bx, by, cx, cy), side(x, y, cx, cy, ax, ay)
            c = side(x, y, ax, ay, bx, by)
            z = (a * az + b * bz + c * cz) / side(cx, cy, ax, ay, bx, by)
            at = (slice(top, bottom), slice(left, right))
            better = (a >= 0) & (b >= 0) & (c >= 0) & (z < near[at])
            near[at] = torch.where(better, z, near[at])
            seen[at].masked_fill_(better, t)
        return near, seen

    out = torch.empty(height, width), torch.empty(height, width, dtype=_I32)
    return beside_torch(
        f"{triangles} triangles drawn on {height} x {width} by depth float32, tiles 16x64",
        drawn,
        (-(-height // 16), -(-width // 64)),
        (corners, *out, 16, 64),
        theirs,
        corners,
        outputs=2,
        bound=1e-6,
        more=by_numba(lambda nb: _drawn_by_numba(nb, corners, height, width)),
        compiles=False,
    )


@ct.kernel
def resampled(x, means, errors, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Means and variances of samples drawn again by a hash of the place, some samples at a time."""
    sample = (ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    many = x.shape[0]
    total = ct.zeros((rows, tile), ct.float32)
    square = ct.zeros((rows, tile), ct.float32)
    for t in range(ct.cdiv(many, tile)):
        k = t * tile + ct.arange(tile, dtype=ct.int32).reshape((1, tile))
        h = (sample * many + k).astype(ct.uint32)
        h = (h ^ (h >> 16)) * 0x7FEB352D
        h = (h ^ (h >> 15)) * 0x846CA68B
        place = ((h >> 16).astype(ct.int32) * many) >> 16
        held = ct.gather(x, place, mask=k < many, padding_value=0.0)
        total += held
        square += held * held
    mean = ct.sum(total, 1) / many
    place = ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)
    ct.scatter(means, place, mean)
    ct.scatter(errors, place, ct.sum(square, 1) / many - mean * mean)


def resampled_row(samples: int, many: int) -> Row:
    x = normal(many) + 0.5
    mask = (1 << 32) - 1

    def theirs(x):
        h = torch.arange(samples * many).view(samples, many)
        h = (h ^ (h >> 16)) * 0x7FEB352D & mask
        h = (h ^ (h >> 15)) * 0x846CA68B & mask
        held = x[(h >> 16) * many >> 16]
        variance, mean = torch.var_mean(held, 1, correction=0)
        return mean, variance

    def make(nb):
        u = np.uint32

        @nb.njit(parallel=True, fastmath=True)
        def run(x, means, errors):
            for sample in nb.prange(samples):
                total, square = np.float32(0), np.float32(0)
                for k in range(many):
                    h = u(sample * many + k)
                    h = u(u(h ^ u(h >> u(16))) * u(0x7FEB352D))
                    h = u(u(h ^ u(h >> u(15))) * u(0x846CA68B))
                    held = x[u(u(u(h >> u(16)) * u(many)) >> u(16))]
                    total += held
                    square += held * held
                mean = total / np.float32(many)
                means[sample], errors[sample] = mean, square / np.float32(many) - mean * mean

        made = [np.empty(samples, np.float32) for _ in range(2)]
        return lambda: run(array(x), *made)

    return beside_torch(
        f"means and variances of {samples} samples of {many} drawn again float32",
        resampled,
        (-(-samples // 4),),
        (x, torch.empty(samples), torch.empty(samples), 4, 512),
        theirs,
        x,
        outputs=2,
        bound=1e-5,
        more=by_numba(make),
    )
