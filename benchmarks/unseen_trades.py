"""Tables, graphs, texts and series, as trades that are neither models nor images have them."""

from __future__ import annotations

from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch

from benchmarks.unseen_rows import Row, array, beside_torch, by_numba, integers, kind, normal

_ZERO = ct.PaddingMode.ZERO
_F32, _F64, _BF16, _F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
_I32, _I64, _U8 = torch.int32, torch.int64, torch.uint8


@ct.kernel
def degrees(sources, targets, weights, out, tile: ct.Constant[int]):
    """What the edges of each node weigh together, at both of their ends."""
    edge = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    weight = ct.gather(weights, edge)
    ct.atomic_add(out, ct.gather(sources, edge, padding_value=-1), weight)
    ct.atomic_add(out, ct.gather(targets, edge, padding_value=-1), weight)


@ct.kernel
def nearest_of_pixels(x, y, z, out, tile: ct.Constant[int]):
    """Of the points of each pixel the nearest and its number, packed: [pixel y, pixel x]."""
    point = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    column = ct.floor(ct.gather(x, point, padding_value=-1.0) * out.shape[1]).astype(ct.int32)
    row = ct.floor(ct.gather(y, point, padding_value=-1.0) * out.shape[0]).astype(ct.int32)
    far = ct.bitcast(ct.gather(z, point), ct.int32).astype(ct.int64)
    ct.atomic_min(out, (row, column), (far << 32) | point.astype(ct.int64))


@ct.kernel
def counted_pairs(x, y, out, low, high, tile: ct.Constant[int]):
    """A histogram of two numbers; what is beyond is not counted."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    inside = i < x.shape[0]
    a = (ct.gather(x, i, mask=inside) - low) / (high - low) * out.shape[0]
    b = (ct.gather(y, i, mask=inside) - low) / (high - low) * out.shape[1]
    row = ct.where(inside, ct.floor(a).astype(ct.int32), -1)
    ct.atomic_add(out, (row, ct.floor(b).astype(ct.int32)), 1)


@ct.kernel
def least_labels(sources, targets, labels, out, tile: ct.Constant[int]):
    """A round of finding what hangs together: the least label of the nodes around."""
    edge = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    a, b = ct.gather(sources, edge, padding_value=-1), ct.gather(targets, edge, padding_value=-1)
    first, second = ct.gather(labels, a), ct.gather(labels, b)
    ct.atomic_min(out, b, first)
    ct.atomic_min(out, a, second)


@ct.kernel
def grouped(keys, prices, amounts, sums, counts, least, most, tile: ct.Constant[int]):
    """For each key: what was paid, how often, and the extremes of prices."""
    i = ct.bid(0)
    key, price = ct.load(keys, (i,), (tile,)), ct.load(prices, (i,), (tile,))
    paid = price.astype(ct.int64) * ct.load(amounts, (i,), (tile,)).astype(ct.int64)
    ct.atomic_add(sums, key, paid)
    ct.atomic_add(counts, key, 1)
    ct.atomic_min(least, key, price)
    ct.atomic_max(most, key, price)


@ct.kernel
def stretched(x, out, rows: ct.Constant[int], width: ct.Constant[int]):
    """Rows of i16 to u8 by their extremes, which one reduction finds."""
    i = ct.bid(0)
    held = ct.load(x, (i, 0), (rows, width)).astype(ct.int32)
    low, high = ct.reduce(
        (held, held),
        1,
        lambda a, b, c, d: (ct.minimum(a, c), ct.maximum(b, d)),
        (1 << 30, -(1 << 30)),
        keepdims=True,
    )
    found = (held - low) * 255 // ct.maximum(high - low, 1)
    ct.store(out, (i, 0), found.astype(ct.uint8))


@ct.kernel
def weighted_moments(x, weights, means, spreads, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Weighted mean and variance of rows in one pass, [row, place], a weight for each number."""
    i = ct.bid(0)
    total = ct.zeros((rows, tile), x.dtype)
    first, second = ct.zeros((rows, tile), x.dtype), ct.zeros((rows, tile), x.dtype)
    for j in range(ct.num_tiles(x, 1, (rows, tile))):
        held = ct.load(x, (i, j), (rows, tile), padding_mode=_ZERO)
        weight = ct.load(weights, (i, j), (rows, tile), padding_mode=_ZERO)
        total += weight
        first += weight * held
        second += weight * held * held
    whole = ct.sum(total, 1)
    mean = ct.sum(first, 1) / whole
    ct.store(means, (i,), mean)
    ct.store(spreads, (i,), ct.sum(second, 1) / whole - mean * mean)


@ct.kernel
def merged(most, sums, out, rows: ct.Constant[int], parts: ct.Constant[int]):
    """Logarithms of sums of exponentials from those of parts: maxima and sums beside them, merged in pairs."""
    i = ct.bid(0)

    def joined(m, s, n, t):
        high = ct.maximum(m, n)
        return high, s * ct.exp(m - high) + t * ct.exp(n - high)

    high, total = ct.reduce(
        (ct.load(most, (i, 0), (rows, parts)), ct.load(sums, (i, 0), (rows, parts))),
        1,
        joined,
        (-1e30, 0.0),
    )
    ct.store(out, (i,), high + ct.log(total))


@ct.kernel
def runs(x, starts, values, counts, tile: ct.Constant[int]):
    """Where runs of equal bytes begin in each row, of what, and how many there are."""
    row = ct.bid(0)
    width = x.shape[1]
    found = 0
    for j in range(ct.cdiv(width, tile)):
        column = j * tile + ct.arange(tile, dtype=ct.int32)
        held = ct.gather(x, (row, column))
        before = ct.gather(x, (row, column - 1))
        new = (column < width) & ((column == 0) | (held != before))
        place = found + ct.cumsum(new.astype(ct.int32), 0) - 1
        ct.scatter(starts, (row, place), column, mask=new)
        ct.scatter(values, (row, place), held, mask=new)
        found += ct.sum(new.astype(ct.int32))
    ct.scatter(counts, row, found)


@ct.kernel
def moving(x, means, spreads, window: ct.Constant[int], tile: ct.Constant[int]):
    """Means and deviations of the last numbers of many series: [time, series]."""
    j = ct.bid(0)
    first, second = ct.zeros((1, tile), ct.float32), ct.zeros((1, tile), ct.float32)
    for t in range(x.shape[0]):
        new = ct.load(x, (t, j), (1, tile))
        first, second = first + new, second + new * new
        if t >= window:
            old = ct.load(x, (t - window, j), (1, tile))
            first, second = first - old, second - old * old
        mean = first / window
        ct.store(means, (t, j), mean)
        ct.store(spreads, (t, j), ct.sqrt(ct.maximum(second / window - mean * mean, 0.0)))


@ct.kernel
def drawdown(x, out, tile: ct.Constant[int]):
    """The deepest fall of each series from its highest so far, as a share of that."""
    row = ct.bid(0)
    worst, peak = ct.zeros((tile,), x.dtype), ct.zeros((1,), x.dtype)
    for j in range(ct.num_tiles(x, 1, (1, tile))):
        held = ct.load(x, (row, j), (1, tile)).reshape((tile,))
        highest = ct.maximum(ct.scan(held, 0, lambda a, b: ct.maximum(a, b), 0.0), peak)
        worst = ct.maximum(worst, (highest - held) / highest)
        peak = ct.extract(highest, (tile - 1,), (1,))
    ct.scatter(out, row, ct.max(worst))


@ct.kernel
def edits(text, matches, out, tile: ct.Constant[int]):
    """Edit distances of words of 64 letters to texts by Myers' bits: text [place, pair], matches [letter, pair]."""
    pair = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    up, down = ct.full((tile,), -1, ct.int64), ct.zeros((tile,), ct.int64)
    score = ct.full((tile,), 64, ct.int64)
    for t in range(text.shape[0]):
        same = ct.gather(matches, (ct.gather(text, (t, pair)), pair))
        along = same | down
        across = (((same & up) + up) ^ up) | same
        more, less = down | ~(across | up), up & across
        score = score - (more >> 63) + (less >> 63)
        more, less = (more << 1) | 1, less << 1
        up, down = less | ~(along | more), more & along
    ct.scatter(out, pair, score.astype(ct.int32))


@ct.kernel
def dates(days, out, tile: ct.Constant[int]):
    """Days since 1970 as year, month and day in one number."""
    i = ct.bid(0)
    day = ct.load(days, (i,), (tile,)) + 719468
    era = day // 146097
    of_era = day - era * 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    mday = of_year - (153 * month + 2) // 5 + 1
    month = ct.where(month < 10, month + 3, month - 9)
    year = year + era * 400 + ct.where(month <= 2, 1, 0)
    ct.store(out, (i,), year * 10000 + month * 100 + mday)


@ct.kernel
def read_numbers(x, powers, out, tile: ct.Constant[int]):
    """Numbers of up to eight digits, blanks before them: [number, 8] bytes."""
    i = ct.bid(0)
    held = ct.load(x, (i, 0), (tile, 8)).astype(ct.int32)
    digit = ct.where((held >= 48) & (held <= 57), held - 48, 0)
    power = ct.load(powers, (0,), (8,)).reshape((1, 8))
    ct.store(out, (i,), ct.sum(digit * power, 1))


@ct.kernel
def looked_up(queries, keys, values, out, probes: ct.Constant[int], tile: ct.Constant[int]):
    """Values of keys by a table of hashes, the places behind tried where another has it; -1: none."""
    i = ct.bid(0)
    query = ct.load(queries, (i,), (tile,))
    at = ((query.astype(ct.uint32) * 0x9E3779B1) >> 16).astype(ct.int32)
    found = ct.full((tile,), -1, ct.int32)
    for n in range(probes):
        place = (at + n) % keys.shape[0]
        hit = ct.gather(keys, place) == query
        found = ct.where(hit, ct.gather(values, place), found)
    ct.store(out, (i,), found)


def _degrees(nodes: int, edges: int, dtype: torch.dtype) -> Row:
    a, b, w = integers(nodes, edges), integers(nodes + 1, edges) % nodes, normal(edges).to(dtype)
    out, wide = torch.zeros(nodes, dtype=dtype), (a.long(), b.long())

    def make(nb):
        @nb.njit
        def run(a, b, w, out):
            out[:] = 0
            for e in range(a.size):
                out[a[e]] += w[e]
                out[b[e]] += w[e]

        made = np.empty(nodes, array(w).dtype)
        return lambda: run(array(a), array(b), array(w), made)

    return beside_torch(
        f"weights at {nodes} nodes of {edges >> 10}K edges {kind(dtype)} by atomics",
        degrees,
        (-(-edges // 1024),),
        (a, b, w, out, 1024),
        lambda w: (
            torch.zeros(nodes, dtype=w.dtype).index_add(0, wide[0], w).index_add(0, wide[1], w)
        ),
        w,
        bound=1e-5 if dtype == _F32 else 1e-13,
        clear=out.zero_,
        more=by_numba(make),
    )


def _nearest_of_pixels(side: int, points: int) -> Row:
    x, y, z = (torch.rand(points, generator=torch.Generator().manual_seed(i)) for i in range(3))
    out = torch.full((side, side), (1 << 62), dtype=_I64)

    def theirs(x, y, z):
        at = (y * side).floor().long() * side + (x * side).floor().long()
        held = (z.view(_I32).long() << 32) | torch.arange(points)
        made = torch.full((side * side,), 1 << 62)
        return made.scatter_reduce(0, at, held, "amin").view(side, side)

    def make(nb):
        @nb.njit
        def run(x, y, z, out):
            out[:] = 1 << 62
            for p in range(x.size):
                i, j = int(y[p] * np.float32(side)), int(x[p] * np.float32(side))
                out[i, j] = min(out[i, j], (np.int64(z[p]) << 32) | p)

        made, bits = np.empty((side, side), np.int64), array(z.view(_I32))
        return lambda: run(array(x), array(y), bits, made)

    return beside_torch(
        f"nearest of {points >> 10}K points for {side} x {side} pixels, packed with their numbers",
        nearest_of_pixels,
        (-(-points // 256),),
        (x, y, z, out, 256),
        theirs,
        x,
        y,
        z,
        clear=lambda: out.fill_(1 << 62),
        more=by_numba(make),
    )


def _counted_pairs(bins: int, many: int) -> Row:
    x, y, out = (
        normal(many),
        normal(many + 1)[:-1].contiguous(),
        torch.zeros(bins, bins, dtype=_I32),
    )

    def theirs(x, y):
        a, b = ((each + 3.0) / 6.0 * bins for each in (x, y))
        a, b = a.floor().long(), b.floor().long()
        inside = (a >= 0) & (a < bins) & (b >= 0) & (b < bins)
        at = torch.where(inside, a * bins + b, bins * bins)
        made = torch.zeros(bins * bins + 1, dtype=_I32)
        return made.index_add(0, at, torch.ones_like(at, dtype=_I32))[:-1].view(bins, bins)

    def make(nb):
        @nb.njit
        def run(x, y, out):
            out[:] = 0
            low, span, n = np.float32(3), np.float32(6), np.float32(bins)
            for p in range(x.size):
                i, j = np.floor((x[p] + low) / span * n), np.floor((y[p] + low) / span * n)
                if i >= 0 and i < bins and j >= 0 and j < bins:
                    out[int(i), int(j)] += 1

        made = np.empty((bins, bins), np.int32)
        return lambda: run(array(x), array(y), made)

    return beside_torch(
        f"{many >> 10}K pairs counted in {bins} x {bins}",
        counted_pairs,
        (-(-many // 512),),
        (x, y, out, -3.0, 3.0, 512),
        theirs,
        x,
        y,
        clear=out.zero_,
        more=by_numba(make),
    )


def _least_labels(nodes: int, edges: int) -> Row:
    a, b = integers(nodes, edges), integers(nodes + 1, edges) % nodes
    labels = torch.randperm(nodes, generator=torch.Generator().manual_seed(3)).int()
    out, wide = labels.clone(), (a.long(), b.long())

    def theirs(labels):
        held = labels.scatter_reduce(0, wide[1], labels[wide[0]], "amin")
        return held.scatter_reduce(0, wide[0], labels[wide[1]], "amin")

    def make(nb):
        @nb.njit
        def run(a, b, labels, out):
            out[:] = labels
            for e in range(a.size):
                i, j = a[e], b[e]
                out[j] = min(out[j], labels[i])
                out[i] = min(out[i], labels[j])

        made = np.empty(nodes, np.int32)
        return lambda: run(array(a), array(b), array(labels), made)

    return beside_torch(
        f"least labels around {nodes >> 10}K nodes of {edges >> 10}K edges",
        least_labels,
        (-(-edges // 512),),
        (a, b, labels, out, 512),
        theirs,
        labels,
        clear=lambda: out.copy_(labels),
        more=by_numba(make),
    )


def _grouped(groups: int, many: int) -> Row:
    keys, prices, amounts = integers(groups, many), integers(100000, many), integers(20, many)
    most = (1 << 31) - 1
    outs = (
        torch.zeros(groups, dtype=_I64),
        torch.zeros(groups, dtype=_I32),
        torch.full((groups,), most, dtype=_I32),
        torch.zeros(groups, dtype=_I32),
    )
    wide = keys.long()

    def theirs(prices, amounts):
        paid = prices.long() * amounts
        none = torch.zeros(groups, dtype=_I32)
        return (
            torch.zeros(groups, dtype=_I64).index_add(0, wide, paid),
            none.index_add(0, wide, torch.ones_like(prices)),
            torch.full((groups,), most, dtype=_I32).scatter_reduce(0, wide, prices, "amin"),
            none.scatter_reduce(0, wide, prices, "amax"),
        )

    def make(nb):
        @nb.njit
        def run(keys, prices, amounts, sums, counts, least, highest):
            sums[:], counts[:], least[:], highest[:] = 0, 0, most, 0
            for i in range(keys.size):
                k, p = keys[i], prices[i]
                sums[k] += np.int64(p) * amounts[i]
                counts[k] += 1
                least[k] = min(least[k], p)
                highest[k] = max(highest[k], p)

        made = [np.empty_like(array(each)) for each in outs]
        return lambda: run(array(keys), array(prices), array(amounts), *made)

    def clear():
        for each, value in zip(outs, (0, 0, most, 0)):
            each.fill_(value)

    return beside_torch(
        f"sums, counts and extremes of {many >> 10}K sales in {groups} groups",
        grouped,
        (many // 1024,),
        (keys, prices, amounts, *outs, 1024),
        theirs,
        prices,
        amounts,
        outputs=4,
        clear=clear,
        more=by_numba(make),
    )


def _merged(rows_: int, parts: int) -> Row:
    most, sums = normal(rows_, parts), normal(rows_, parts + 1)[:, 1:].abs().contiguous() + 1

    def theirs(most, sums):
        high = most.amax(1, keepdim=True)
        return high[:, 0] + torch.log((sums * torch.exp(most - high)).sum(1))

    def make(nb):
        @nb.njit
        def run(most, sums, out):
            for i in range(most.shape[0]):
                high, total = most[i, 0], np.float32(0)
                for j in range(most.shape[1]):
                    high = max(high, most[i, j])
                for j in range(most.shape[1]):
                    total += sums[i, j] * np.exp(most[i, j] - high)
                out[i] = high + np.log(total)

        made = np.empty(rows_, np.float32)
        return lambda: run(array(most), array(sums), made)

    return beside_torch(
        f"statistics of softmax of {parts} parts merged in pairs, {rows_} rows, tiles 16x{parts}",
        merged,
        (rows_ // 16,),
        (most, sums, torch.empty(rows_), 16, parts),
        theirs,
        most,
        sums,
        bound=1e-5,
        more=by_numba(make),
    )


def _stretched(rows_: int, width: int) -> Row:
    x = (integers(60000, rows_, width) - 30000).to(torch.int16)

    def theirs(x):
        held = x.int()
        low, high = held.amin(1, keepdim=True), held.amax(1, keepdim=True)
        return ((held - low) * 255 // (high - low).clamp(min=1)).to(_U8)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, out):
            for i in nb.prange(x.shape[0]):
                low, high = np.int32(1 << 30), np.int32(-(1 << 30))
                for j in range(x.shape[1]):
                    held = np.int32(x[i, j])
                    low, high = min(low, held), max(high, held)
                span = np.uint32(max(high - low, 1))
                for j in range(x.shape[1]):
                    out[i, j] = np.uint32((np.int32(x[i, j]) - low) * 255) // span

        made = np.empty((rows_, width), np.uint8)
        return lambda: run(array(x), made)

    return beside_torch(
        f"rows of i16 to u8 by their extremes, {rows_} x {width}, tiles 4x{width}",
        stretched,
        (rows_ // 4,),
        (x, torch.empty(rows_, width, dtype=_U8), 4, width),
        theirs,
        x,
        more=by_numba(make),
    )


def _weighted_moments(rows_: int, width: int, dtype: torch.dtype) -> Row:
    x, w = normal(rows_, width).to(dtype), normal(rows_, width + 1)[:, 1:].abs().to(dtype)
    w = w.contiguous()

    def theirs(x, w):
        whole = w.sum(1)
        mean = (w * x).sum(1) / whole
        return mean, (w * x * x).sum(1) / whole - mean * mean

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, w, means, spreads):
            for i in nb.prange(x.shape[0]):
                a = b = c = x.dtype.type(0)
                for j in range(x.shape[1]):
                    a += w[i, j]
                    b += w[i, j] * x[i, j]
                    c += w[i, j] * x[i, j] * x[i, j]
                means[i] = b / a
                spreads[i] = c / a - (b / a) * (b / a)

        made = [np.empty(rows_, array(x).dtype) for _ in range(2)]
        return lambda: run(array(x), array(w), *made)

    return beside_torch(
        f"weighted mean and variance of rows, {rows_} x {width} {kind(dtype)}, tiles 8x128",
        weighted_moments,
        (rows_ // 8,),
        (x, w, torch.empty(rows_, dtype=dtype), torch.empty(rows_, dtype=dtype), 8, 128),
        theirs,
        x,
        w,
        outputs=2,
        bound=1e-5 if dtype == _F32 else 1e-13,
        more=by_numba(make),
    )


def _runs(rows_: int, width: int) -> Row:
    long = integers(100, rows_, width) < 20
    x = (long.cumsum(1) * 37 % 251).to(_U8)
    outs = (
        torch.zeros(rows_, width, dtype=_I32),
        torch.zeros(rows_, width, dtype=_U8),
        torch.zeros(rows_, dtype=_I32),
    )

    def theirs(x):
        new = torch.ones_like(x, dtype=torch.bool)
        new[:, 1:] = x[:, 1:] != x[:, :-1]
        at, (row, column) = new.cumsum(1) - 1, new.nonzero(as_tuple=True)
        starts, values = torch.zeros(rows_, width, dtype=_I32), torch.zeros_like(x)
        starts[row, at[row, column]] = column.int()
        values[row, at[row, column]] = x[row, column]
        return starts, values, new.sum(1, dtype=_I32)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, starts, values, counts):
            for i in nb.prange(x.shape[0]):
                found = 0
                for j in range(x.shape[1]):
                    if j == 0 or x[i, j] != x[i, j - 1]:
                        starts[i, found], values[i, found] = j, x[i, j]
                        found += 1
                counts[i] = found

        made = [np.empty_like(array(each)) for each in outs]
        return lambda: run(array(x), *made)

    def clear():
        for each in outs:
            each.zero_()

    return beside_torch(
        f"runs of equal bytes of rows, {rows_} x {width}",
        runs,
        (rows_,),
        (x, *outs, 256),
        theirs,
        x,
        outputs=3,
        clear=clear,
        more=by_numba(make),
        compiles=False,
    )


def _moving(length: int, series: int, window: int) -> Row:
    x = normal(length, series)
    made = torch.empty_like(x), torch.empty_like(x)

    def theirs(x):
        def of(x):
            whole = x.cumsum(0)
            return torch.cat((whole[:window], whole[window:] - whole[:-window])) / window

        mean = of(x)
        return mean, (of(x * x) - mean * mean).clamp(min=0).sqrt()

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, means, spreads):
            for p in nb.prange(x.shape[1] // 64):
                first, second = np.zeros(64, np.float32), np.zeros(64, np.float32)
                share = np.float32(1 / window)
                for t in range(x.shape[0]):
                    if t >= window:
                        for j in range(64):
                            old = x[t - window, 64 * p + j]
                            first[j] -= old
                            second[j] -= old * old
                    for j in range(64):
                        new = x[t, 64 * p + j]
                        first[j] += new
                        second[j] += new * new
                        mean = first[j] * share
                        means[t, 64 * p + j] = mean
                        spread = max(second[j] * share - mean * mean, np.float32(0))
                        spreads[t, 64 * p + j] = np.sqrt(spread)

        found = np.empty((length, series), np.float32), np.empty((length, series), np.float32)
        return lambda: run(array(x), *found)

    return beside_torch(
        f"means and deviations of the last {window} of {series} series of {length}",
        moving,
        (series // 128,),
        (x, *made, window, 128),
        theirs,
        x,
        outputs=2,
        bound=2e-5,
        more=by_numba(make),
    )


def _drawdown(series: int, length: int, dtype: torch.dtype) -> Row:
    x = torch.exp(0.01 * normal(series, length).double().cumsum(1)).to(dtype)

    def theirs(x):
        highest = x.cummax(1).values
        return ((highest - x) / highest).amax(1)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, out):
            for i in nb.prange(x.shape[0]):
                peak = worst = x.dtype.type(0)
                for j in range(x.shape[1]):
                    peak = max(peak, x[i, j])
                    worst = max(worst, (peak - x[i, j]) / peak)
                out[i] = worst

        made = np.empty(series, array(x).dtype)
        return lambda: run(array(x), made)

    return beside_torch(
        f"deepest falls of {series} series of {length} {kind(dtype)}, tiles of 512",
        drawdown,
        (series,),
        (x, torch.empty(series, dtype=dtype), 512),
        theirs,
        x,
        bound=1e-5 if dtype == _F32 else 1e-14,
        more=by_numba(make),
    )


def _edits(pairs: int, length: int) -> Row:
    words = integers(4, pairs, 64)
    text = integers(5, length, pairs, dtype=_U8) % 4
    bits = torch.ones((), dtype=_I64) << torch.arange(64)
    matches = torch.stack([((words == n) * bits).sum(1) for n in range(4)])

    def theirs(text, matches):
        up, down = torch.full((pairs,), -1), torch.zeros(pairs, dtype=_I64)
        score = torch.full((pairs,), 64)
        for t in range(length):
            same = matches.gather(0, text[t].long()[None])[0]
            along, across = same | down, (((same & up) + up) ^ up) | same
            more, less = down | ~(across | up), up & across
            score = score - (more >> 63) + (less >> 63)
            more, less = (more << 1) | 1, less << 1
            up, down = less | ~(along | more), more & along
        return score.int()

    def make(nb):
        @nb.njit(parallel=True)
        def run(text, matches, out):
            for p in nb.prange(out.size):
                up, down, score = np.int64(-1), np.int64(0), np.int64(64)
                for t in range(text.shape[0]):
                    same = matches[text[t, p], p]
                    along, across = same | down, (((same & up) + up) ^ up) | same
                    more, less = down | ~(across | up), up & across
                    score = score - (more >> 63) + (less >> 63)
                    more, less = (more << 1) | 1, less << 1
                    up, down = less | ~(along | more), more & along
                out[p] = score

        made = np.empty(pairs, np.int32)
        return lambda: run(array(text), array(matches), made)

    return beside_torch(
        f"edit distances of {pairs} words of 64 letters to texts of {length}, by bits",
        edits,
        (pairs // 128,),
        (text, matches, torch.empty(pairs, dtype=_I32), 128),
        theirs,
        text,
        matches,
        more=by_numba(make),
        compiles=False,
    )


def _dates(many: int) -> Row:
    days = integers(60000, many) - 20000

    def theirs(days):
        day = days + 719468
        era = day // 146097
        of_era = day - era * 146097
        year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
        of_year = of_era - (365 * year + year // 4 - year // 100)
        month = (5 * of_year + 2) // 153
        mday = of_year - (153 * month + 2) // 5 + 1
        month = torch.where(month < 10, month + 3, month - 9)
        year = year + era * 400 + (month <= 2)
        return year * 10000 + month * 100 + mday

    def make(nb):
        @nb.njit(parallel=True)
        def run(days, out):
            for i in nb.prange(days.size):
                day = np.uint32(days[i] + 719468)
                era = day // np.uint32(146097)
                e = np.uint32(day - era * np.uint32(146097))
                y = e - e // np.uint32(1460) + e // np.uint32(36524) - e // np.uint32(146096)
                y = np.uint32(y) // np.uint32(365)
                of_year = np.uint32(e - (365 * y + y // np.uint32(4) - y // np.uint32(100)))
                month = np.uint32(5 * of_year + 2) // np.uint32(153)
                mday = of_year - np.uint32(153 * month + 2) // np.uint32(5) + 1
                month = month + 3 if month < 10 else month - 9
                year = y + era * 400 + (1 if month <= 2 else 0)
                out[i] = year * 10000 + month * 100 + mday

        made = np.empty(many, np.int32)
        return lambda: run(array(days), made)

    return beside_torch(
        f"{many >> 10}K days as year, month and day",
        dates,
        (many // 1024,),
        (days, torch.empty_like(days), 1024),
        theirs,
        days,
        more=by_numba(make),
    )


def _read_numbers(many: int) -> Row:
    digits, blanks = integers(10, many, 8), integers(8, many)
    x = torch.where(torch.arange(8) < blanks[:, None], 32, digits + 48).to(_U8)
    powers = torch.tensor([10 ** (7 - n) for n in range(8)], dtype=_I32)

    def theirs(x):
        held = x.int()
        digit = torch.where((held >= 48) & (held <= 57), held - 48, 0)
        return (digit * powers).sum(1, dtype=_I32)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, out):
            for i in nb.prange(x.shape[0]):
                found = np.int32(0)
                for j in range(8):
                    digit = np.int32(x[i, j]) - np.int32(48)
                    found = found * np.int32(10) + (digit if 0 <= digit <= 9 else 0)
                out[i] = found

        made = np.empty(many, np.int32)
        return lambda: run(array(x), made)

    return beside_torch(
        f"{many >> 10}K numbers read from eight letters each",
        read_numbers,
        (many // 128,),
        (x, powers, torch.empty(many, dtype=_I32), 128),
        theirs,
        x,
        more=by_numba(make),
    )


def _table_of_hashes(names: list[int], probes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys in their places, or in one behind; and numbers beside them. What finds no place is left out."""
    keys, values = [-1] * 65536, [0] * 65536
    for number, name in enumerate(names):
        at = ((name * 0x9E3779B1) & 0xFFFFFFFF) >> 16
        for n in range(probes):
            if keys[(at + n) % 65536] == -1:
                keys[(at + n) % 65536], values[(at + n) % 65536] = name, number
                break
    return torch.tensor(keys, dtype=_I32), torch.tensor(values, dtype=_I32)


def _looked_up(many: int, probes: int) -> Row:
    names = torch.randperm(1 << 17, generator=torch.Generator().manual_seed(1))[: 1 << 15]
    keys, values = _table_of_hashes((names * 7919).tolist(), probes)
    queries = (integers(1 << 17, many, dtype=_I64) * 7919).int()

    def theirs(queries):
        at = ((queries.long() * 0x9E3779B1) & 0xFFFFFFFF) >> 16
        found = torch.full_like(queries, -1)
        for n in range(probes):
            place = (at + n) % 65536
            found = torch.where(keys[place] == queries, values[place], found)
        return found

    def make(nb):
        @nb.njit(parallel=True)
        def run(queries, keys, values, out):
            for i in nb.prange(queries.size):
                at = (np.uint32(queries[i]) * np.uint32(0x9E3779B1)) & np.uint32(0xFFFFFFFF)
                at, out[i] = np.int64(at >> np.uint32(16)), -1
                for n in range(probes):
                    held = keys[(at + n) & 65535]
                    if held == queries[i]:
                        out[i] = values[(at + n) & 65535]
                        break
                    if held == -1:
                        break

        made = np.empty(many, np.int32)
        return lambda: run(array(queries), array(keys), array(values), made)

    return beside_torch(
        f"{many >> 10}K keys by a table of hashes, {probes} places tried",
        looked_up,
        (many // 256,),
        (queries, keys, values, torch.empty_like(queries), probes, 256),
        theirs,
        queries,
        more=by_numba(make),
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _degrees(10000, 1 << 19, _F32),
        lambda: _degrees(10000, 1 << 19, _F64),
        lambda: _nearest_of_pixels(256, 1 << 19),
        lambda: _counted_pairs(64, 1 << 19),
        lambda: _least_labels(1 << 16, 1 << 18),
        lambda: _grouped(1000, 1 << 18),
        lambda: _stretched(1024, 1024),
        lambda: _weighted_moments(2048, 1000, _F32),
        lambda: _weighted_moments(1024, 1000, _F64),
        lambda: _merged(16384, 32),
        lambda: _runs(512, 4000),
        lambda: _moving(1024, 1024, 20),
        lambda: _drawdown(512, 4096, _F32),
        lambda: _drawdown(512, 4096, _F64),
        lambda: _edits(2048, 200),
        lambda: _dates(1 << 20),
        lambda: _read_numbers(1 << 19),
        lambda: _looked_up(1 << 18, 6),
    ]
