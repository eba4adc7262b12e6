"""Kernels of science, as a caller writes them: grids, sparse matrices, elements, walks, rays, ensembles."""

from __future__ import annotations

import math
from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import scipy.sparse
import torch
from torch.nn import functional

from benchmarks.unseen_rows import Row, array, beside_torch, by_numba, integers, normal, uniform

_F32, _F64, _F16 = torch.float32, torch.float64, torch.float16
_I32, _I64, _I8, _U8 = torch.int32, torch.int64, torch.int8, torch.uint8


def _residual(u, f, y, x, over):
    """What is left of Poisson's equation at points of the fine grid."""
    around = ct.gather(u, (y - 1, x)) + ct.gather(u, (y + 1, x))
    around = around + ct.gather(u, (y, x - 1)) + ct.gather(u, (y, x + 1))
    return ct.gather(f, (y, x)) - (4.0 * ct.gather(u, (y, x)) - around) * over


@ct.kernel
def restricted(u, f, out, over, ty: ct.Constant[int], tx: ct.Constant[int]):
    """Residuals of a fine grid to the coarse one by full weights; its edge is zero."""
    cy = (ct.bid(0) * ty + ct.arange(ty, dtype=ct.int32))[:, None]
    cx = (ct.bid(1) * tx + ct.arange(tx, dtype=ct.int32))[None, :]
    y, x = 2 * cy, 2 * cx
    total = 4.0 * _residual(u, f, y, x, over)
    total += 2.0 * (_residual(u, f, y - 1, x, over) + _residual(u, f, y + 1, x, over))
    total += 2.0 * (_residual(u, f, y, x - 1, over) + _residual(u, f, y, x + 1, over))
    total += _residual(u, f, y - 1, x - 1, over) + _residual(u, f, y - 1, x + 1, over)
    total += _residual(u, f, y + 1, x - 1, over) + _residual(u, f, y + 1, x + 1, over)
    inside = (cy > 0) & (cy < out.shape[0] - 1) & (cx > 0) & (cx < out.shape[1] - 1)
    ct.scatter(out, (cy, cx), ct.where(inside, total / 16.0, 0.0))


def _restricted(m: int, n: int) -> Row:
    u, f = normal(2 * m + 1, 2 * n + 1, dtype=_F64), uniform(2 * m + 1, 2 * n + 1, dtype=_F64)
    over = 64.0

    def theirs(u, f):
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        r = f[1:-1, 1:-1] - (4 * u[1:-1, 1:-1] - around) * over
        a, b, c = r[:, :-2:2], r[:, 1:-1:2], r[:, 2::2]
        wide = a + 2 * b + c
        return functional.pad((wide[:-2:2] + 2 * wide[1:-1:2] + wide[2::2]) / 16, (1, 1, 1, 1))

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(u, f, r, out):
            for y in nb.prange(1, 2 * m):
                for x in range(1, 2 * n):
                    around = u[y - 1, x] + u[y + 1, x] + u[y, x - 1] + u[y, x + 1]
                    r[y, x] = f[y, x] - (4.0 * u[y, x] - around) * over
            out[0], out[m] = 0, 0
            for i in nb.prange(1, m):
                y = 2 * i
                out[i, 0], out[i, n] = 0, 0
                for j in range(1, n):
                    x = 2 * j
                    near = r[y - 1, x] + r[y + 1, x] + r[y, x - 1] + r[y, x + 1]
                    far = r[y - 1, x - 1] + r[y - 1, x + 1] + r[y + 1, x - 1] + r[y + 1, x + 1]
                    out[i, j] = 0.25 * r[y, x] + 0.125 * near + 0.0625 * far

        made, held = np.empty((m + 1, n + 1)), np.empty((2 * m + 1, 2 * n + 1))
        return lambda: run(array(u), array(f), held, made)

    return beside_torch(
        f"residuals of {2 * m + 1} x {2 * n + 1} restricted to {m + 1} x {n + 1} float64, tiles 16x64",
        restricted,
        (-(-(m + 1) // 16), -(-(n + 1) // 64)),
        (u, f, torch.empty(m + 1, n + 1, dtype=_F64), over, 16, 64),
        theirs,
        u,
        f,
        bound=1e-13,
        more=by_numba(make),
    )


def _random_rows(rows: int, most: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Starts, columns and values of a matrix by rows, of 1 to ``most`` elements each."""
    counts = integers(most, rows) + 1
    starts = functional.pad(counts.cumsum(0, dtype=_I32), (1, 0))
    away = integers(801, int(starts[-1])) - 400
    columns = (torch.repeat_interleave(torch.arange(rows), counts) + away) % rows
    return starts, columns.to(_I32), normal(int(starts[-1]), dtype=_F64)


@ct.kernel
def sliced(starts, columns, values, order, x, y, lanes: ct.Constant[int]):
    """A matrix in slices of rows times a vector: a slice for a block, its elements [place, lane]."""
    s = ct.bid(0)
    lane = ct.arange(lanes, dtype=ct.int32)
    start = ct.gather(starts, s)
    width = (ct.gather(starts, s + 1) - start) // lanes
    total = ct.zeros((lanes,), ct.float64)
    for k in range(width):
        at = start + k * lanes + lane
        total += ct.gather(values, at) * ct.gather(x, ct.gather(columns, at))
    ct.scatter(y, ct.load(order, (s,), (lanes,)), total)


def _sliced(rows: int, most: int) -> Row:
    starts, columns, values = _random_rows(rows, most)
    x, lanes = normal(rows, dtype=_F64), 64
    counts = starts.diff()
    window = torch.arange(rows) // 1024 * 1000
    order = (window - counts).argsort(stable=True)
    slices = -(-rows // lanes)
    padded = functional.pad(order, (0, slices * lanes - rows), value=-1)
    lengths = torch.where(padded < 0, 0, counts[padded]).view(slices, lanes)
    widths = lengths.amax(1)
    places = functional.pad((widths * lanes).cumsum(0, dtype=_I32), (1, 0))
    new_columns, new_values = torch.zeros(int(places[-1]), dtype=_I32), torch.zeros(int(places[-1]))
    new_values = new_values.double()
    rank = torch.empty(rows, dtype=_I64)
    rank[order] = torch.arange(rows)
    owner = torch.repeat_interleave(torch.arange(rows), counts)
    k = torch.arange(len(columns)) - starts[owner]
    at = places[rank[owner] // lanes] + k * lanes + rank[owner] % lanes
    new_columns[at], new_values[at] = columns, values
    matrix = torch.sparse_csr_tensor(starts, columns, values, (rows, rows), check_invariants=False)
    known = scipy.sparse.csr_matrix((array(values), array(columns), array(starts)), (rows, rows))

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(starts, columns, values, x, y):
            for i in nb.prange(rows):
                total = 0.0
                for k in range(starts[i], starts[i + 1]):
                    total += values[k] * x[columns[k]]
                y[i] = total

        made, held = np.empty(rows), [array(each) for each in (starts, columns, values, x)]
        return lambda: run(*held, made)

    return beside_torch(
        f"slices of {lanes} of {rows} sparse rows of up to {most} float64 times a vector",
        sliced,
        (slices,),
        (places, new_columns, new_values, padded.to(_I32), x, torch.empty_like(x), lanes),
        lambda x: matrix @ x,
        x,
        bound=1e-13,
        more={"SciPy": lambda: known @ array(x)} | by_numba(make),
        compiles=False,
    )


@ct.kernel
def blocked(starts, columns, values, x, y, rows: ct.Constant[int]):
    """A matrix of blocks of 3 x 3 times a vector: some rows of blocks at a time."""
    row = (ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1, 1))
    i = ct.arange(4, dtype=ct.int32).reshape((1, 4, 1))
    j = ct.arange(4, dtype=ct.int32).reshape((1, 1, 4))
    start, end = ct.gather(starts, row), ct.gather(starts, row + 1)
    total = ct.zeros((rows, 4), ct.float32)
    for k in range(ct.max(end - start)):
        at = start + k
        column = ct.gather(columns, at, mask=at < end)
        held = ct.gather(values, (at, i, j), mask=at < end)
        total += ct.sum(held * ct.gather(x, column * 3 + j, mask=j < 3), axis=2)
    i = i.reshape((1, 4))
    ct.scatter(y, row.reshape((rows, 1)) * 3 + i, total, mask=i < 3)


def _blocked(rows: int, most: int) -> Row:
    starts, columns, _ = _random_rows(rows, most)
    values, x = normal(len(columns), 3, 3), normal(3 * rows)
    known = scipy.sparse.bsr_matrix((array(values), array(columns), array(starts)))
    plain = known.tocsr()
    parts = [torch.from_numpy(each) for each in (plain.indptr, plain.indices, plain.data)]
    matrices = {
        dtype: torch.sparse_csr_tensor(
            *parts[:2], parts[2].to(dtype), plain.shape, check_invariants=False
        )
        for dtype in (_F32, _F64)
    }

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(starts, columns, values, x, y):
            for r in nb.prange(rows):
                a = b = c = np.float32(0)
                for k in range(starts[r], starts[r + 1]):
                    j = 3 * columns[k]
                    u, v, w = x[j], x[j + 1], x[j + 2]
                    a += values[k, 0, 0] * u + values[k, 0, 1] * v + values[k, 0, 2] * w
                    b += values[k, 1, 0] * u + values[k, 1, 1] * v + values[k, 1, 2] * w
                    c += values[k, 2, 0] * u + values[k, 2, 1] * v + values[k, 2, 2] * w
                y[3 * r], y[3 * r + 1], y[3 * r + 2] = a, b, c

        made = np.empty(3 * rows, np.float32)
        held = [array(each) for each in (starts, columns, values, x)]
        return lambda: run(*held, made)

    return beside_torch(
        f"{rows} rows of up to {most} blocks of 3 x 3 float32 times a vector",
        blocked,
        (-(-rows // 32),),
        (starts, columns, values, x, torch.empty_like(x), 32),
        lambda x: matrices[x.dtype] @ x,
        x,
        bound=1e-5,
        more={"SciPy": lambda: known @ array(x)} | by_numba(make),
        compiles=False,
    )


def _solved(a, b, c, u, v, p, q, r):
    """Of [[a, -b, -c], [-k, u, c], [0, -v, 1]] (k = a - 1) and a right side, by elimination."""
    m = (a - 1.0) / a
    u, d, q = u - m * b, c - m * c, q + m * p
    s = v / u
    z = (r + s * q) / (1.0 + s * d)
    y = (q - d * z) / u
    return (p + b * y + c * z) / a, y, z


def _reaction(solve, a, b, c, k1, k2, k3, h):
    """One step of Robertson's reactions, of numbers or tensors."""
    g = 1.7071067811865475 * h
    ja, jb, jc, jv = 1.0 + g * k1, g * k3 * c, g * k3 * b, 2.0 * g * k2 * b
    ju = 1.0 + jb + jv
    fast, slow, made = k3 * b * c, k1 * a, k2 * b * b
    p1, q1, r1 = solve(ja, jb, jc, ju, jv, fast - slow, slow - fast - made, made)
    na, n, nc = a + h * p1, b + h * q1, c + h * r1
    fast, slow, made = k3 * n * nc, k1 * na, k2 * n * n
    p, q, r = fast - slow - 2.0 * p1, slow - fast - made - 2.0 * q1, made - 2.0 * r1
    p2, q2, r2 = solve(ja, jb, jc, ju, jv, p, q, r)
    return (
        a + h * (1.5 * p1 + 0.5 * p2),
        b + h * (1.5 * q1 + 0.5 * q2),
        c + h * (1.5 * r1 + 0.5 * r2),
    )


@ct.kernel
def reacted(y, rates, out, h, steps: ct.Constant[int], tile: ct.Constant[int]):
    """Robertson's reactions of many cells by Rosenbrock's method of second order: y [species, cell]."""
    j = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    a, b, c = ct.gather(y, (0, j)), ct.gather(y, (1, j)), ct.gather(y, (2, j))
    k1, k2, k3 = ct.gather(rates, (0, j)), ct.gather(rates, (1, j)), ct.gather(rates, (2, j))
    for _ in range(steps):
        a, b, c = _reaction(_solved, a, b, c, k1, k2, k3, h)
    ct.scatter(out, (0, j), a)
    ct.scatter(out, (1, j), b)
    ct.scatter(out, (2, j), c)


def _reacted(cells: int, steps: int) -> Row:
    y = torch.stack([uniform(cells, dtype=_F64) * 0.2 + 0.8, torch.zeros(cells, dtype=_F64)] * 2)
    y = torch.stack([y[0], y[1] + 3e-5, 1 - y[0]])
    rates = torch.tensor([[0.04], [3e7], [1e4]]) * (uniform(3, cells, dtype=_F64) + 0.5)
    h = 0.0078125

    def theirs(y, rates):
        a, b, c = y
        for _ in range(steps):
            a, b, c = _reaction(_solved, a, b, c, *rates, h)
        return torch.stack([a, b, c])

    def make(nb):
        solve, step = nb.njit(fastmath=True)(_solved), nb.njit(fastmath=True)(_reaction)

        @nb.njit(parallel=True, fastmath=True)
        def run(y, rates, out):
            for j in nb.prange(cells):
                a, b, c = y[0, j], y[1, j], y[2, j]
                for _ in range(steps):
                    a, b, c = step(solve, a, b, c, rates[0, j], rates[1, j], rates[2, j], h)
                out[0, j], out[1, j], out[2, j] = a, b, c

        made = np.empty((3, cells))
        return lambda: run(array(y), array(rates), made)

    return beside_torch(
        f"{steps} stiff steps of Robertson's reactions in {cells} cells float64",
        reacted,
        (-(-cells // 128),),
        (y, rates, torch.empty_like(y), h, steps, 128),
        theirs,
        y,
        rates,
        bound=1e-10,
        more=by_numba(make),
        compiles=False,
    )


@ct.kernel
def wandered(land, seeds, places, times, most: ct.Constant[int], tile: ct.Constant[int]):
    """Walks on a lattice with walls (1), until a trap (2): a walker for each lane."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    height, width = land.shape[0], land.shape[1]
    seed = ct.gather(seeds, i)
    state = seed.astype(ct.uint32)
    y, x = seed % height, seed // height % width
    time = ct.zeros((tile,), ct.int32)
    alive = (i < seeds.shape[0]) & (ct.gather(land, (y, x)) != 2)
    t = 0
    while (t < most) & (ct.sum(alive.astype(ct.int32)) > 0):
        state = state * 1664525 + 1013904223
        turn = (state >> 30).astype(ct.int32)
        ny = y + ct.where(turn == 0, 1, ct.where(turn == 1, -1, 0))
        nx = x + ct.where(turn == 2, 1, ct.where(turn == 3, -1, 0))
        found = ct.gather(land, (ny, nx), mask=alive, padding_value=1)
        moves = found != 1
        y, x = ct.where(moves, ny, y), ct.where(moves, nx, x)
        time = ct.where(alive, time + 1, time)
        alive = alive & (found != 2)
        t += 1
    ct.scatter(places, i, y * width + x)
    ct.scatter(times, i, time)


def _wandered(walkers: int, height: int, width: int, most: int) -> Row:
    drawn = integers(100, height, width)
    land = torch.where(drawn < 3, 2, torch.where(drawn < 25, 1, 0)).to(_U8)
    seeds = integers((1 << 31) - 1, walkers)
    bound = functional.pad(land, (1, 1, 1, 1), value=1).flatten()

    def theirs(land, seeds):
        state, seed = seeds.long(), seeds.long()
        y, x = seed % height, seed // height % width
        at = (y + 1) * (width + 2) + x + 1
        steps = torch.tensor([width + 2, -width - 2, 1, -1])
        times, alive = torch.zeros(walkers, dtype=_I32), bound[at] != 2
        for _ in range(most):
            if not alive.any():
                break
            state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
            new = at + steps[state >> 30]
            found = bound[new]
            at = torch.where(alive & (found != 1), new, at)
            times += alive
            alive = alive & (found != 2)
        y, x = at // (width + 2) - 1, at % (width + 2) - 1
        return (y * width + x).to(_I32), times

    down, right = np.array([1, -1, 0, 0]), np.array([0, 0, 1, -1])

    def make(nb):
        @nb.njit(parallel=True)
        def run(land, seeds, places, times):
            for i in nb.prange(walkers):
                state = np.uint32(seeds[i])
                y, x, t = seeds[i] % height, seeds[i] // height % width, 0
                while t < most and land[y, x] != 2:
                    state = np.uint32(state * np.uint32(1664525) + np.uint32(1013904223))
                    turn = state >> np.uint32(30)
                    ny, nx = y + down[turn], x + right[turn]
                    if 0 <= ny < height and 0 <= nx < width and land[ny, nx] != 1:
                        y, x = ny, nx
                    t += 1
                places[i], times[i] = y * width + x, t

        made = [np.empty(walkers, np.int32) for _ in range(2)]
        return lambda: run(array(land), array(seeds), *made)

    return beside_torch(
        f"{walkers} walkers on {height} x {width} uint8 until a trap or {most} steps",
        wandered,
        (-(-walkers // 128),),
        (land, seeds, *(torch.empty(walkers, dtype=_I32) for _ in range(2)), most, 128),
        theirs,
        land,
        seeds,
        outputs=2,
        more=by_numba(make),
        compiles=False,
    )


@ct.kernel
def waves(k, r, charges, real, imag, tk: ct.Constant[int], ta: ct.Constant[int]):
    """Structure factors of charged atoms: k [3, wave], r [3, atom]."""
    first = ct.bid(0)
    kx = ct.load(k, (0, first), (1, tk)).reshape((tk, 1))
    ky = ct.load(k, (1, first), (1, tk)).reshape((tk, 1))
    kz = ct.load(k, (2, first), (1, tk)).reshape((tk, 1))
    re, im = ct.zeros((tk, ta), ct.float32), ct.zeros((tk, ta), ct.float32)
    zero = ct.PaddingMode.ZERO
    for a in range(ct.cdiv(r.shape[1], ta)):
        x = ct.load(r, (0, a), (1, ta), padding_mode=zero)
        y = ct.load(r, (1, a), (1, ta), padding_mode=zero)
        z = ct.load(r, (2, a), (1, ta), padding_mode=zero)
        charge = ct.load(charges, (a,), (ta,), padding_mode=zero).reshape((1, ta))
        phase = kx * x + ky * y + kz * z
        re += charge * ct.cos(phase)
        im += charge * ct.sin(phase)
    ct.store(real, (first,), ct.sum(re, 1))
    ct.store(imag, (first,), ct.sum(im, 1))


def _waves(many: int, atoms: int) -> Row:
    k, r, charges = 2 * normal(3, many), 4 * uniform(3, atoms), normal(atoms)

    def theirs(k, r, charges):
        phase = k.T @ r
        return phase.cos() @ charges, phase.sin() @ charges

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(k, r, charges, real, imag):
            for w in nb.prange(many):
                kx, ky, kz = k[0, w], k[1, w], k[2, w]
                re = im = np.float32(0)
                for a in range(atoms):
                    phase = kx * r[0, a] + ky * r[1, a] + kz * r[2, a]
                    re += charges[a] * np.cos(phase)
                    im += charges[a] * np.sin(phase)
                real[w], imag[w] = re, im

        made = [np.empty(many, np.float32) for _ in range(2)]
        return lambda: run(array(k), array(r), array(charges), *made)

    return beside_torch(
        f"structure factors of {atoms} atoms at {many} waves float32, tiles 16x64",
        waves,
        (-(-many // 16),),
        (k, r, charges, torch.empty(many), torch.empty(many), 16, 64),
        theirs,
        k,
        r,
        charges,
        outputs=2,
        bound=1e-5,
        more=by_numba(make),
    )


@ct.kernel
def stiffened(nodes, corners, conduct, u, out, tile: ct.Constant[int]):
    """Stiffness of triangles times a vector, without a matrix: corners [3, triangle], sums by atomics."""
    t = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    i, j, k = (
        ct.gather(corners, (0, t), padding_value=-1),
        ct.gather(corners, (1, t), padding_value=-1),
        ct.gather(corners, (2, t), padding_value=-1),
    )
    xi, xj, xk = ct.gather(nodes, (i, 0)), ct.gather(nodes, (j, 0)), ct.gather(nodes, (k, 0))
    yi, yj, yk = ct.gather(nodes, (i, 1)), ct.gather(nodes, (j, 1)), ct.gather(nodes, (k, 1))
    bi, bj, bk = yj - yk, yk - yi, yi - yj
    ci, cj, ck = xk - xj, xi - xk, xj - xi
    twice = bi * cj - bj * ci
    ui, uj, uk = ct.gather(u, i), ct.gather(u, j), ct.gather(u, k)
    share = 0.5 * ct.gather(conduct, t) / twice
    gx = share * (bi * ui + bj * uj + bk * uk)
    gy = share * (ci * ui + cj * uj + ck * uk)
    ct.atomic_add(out, i, bi * gx + ci * gy)
    ct.atomic_add(out, j, bj * gx + cj * gy)
    ct.atomic_add(out, k, bk * gx + ck * gy)


def _stiffened(h: int, w: int) -> Row:
    grid = torch.stack(torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij"), -1)
    nodes = (grid.double() + 0.3 * uniform(h, w, 2, dtype=_F64)).view(-1, 2)
    at = (torch.arange(h - 1)[:, None] * w + torch.arange(w - 1)).flatten()
    lower, upper = torch.stack([at, at + w, at + 1]), torch.stack([at + 1, at + w, at + w + 1])
    corners = torch.stack([lower, upper], -1).view(3, -1).to(_I32).contiguous()
    many = corners.shape[1]
    conduct, u = uniform(many, dtype=_F64) + 0.5, normal(h * w, dtype=_F64)
    out = torch.zeros(h * w, dtype=_F64)

    def theirs(nodes, corners, conduct, u):
        x, y = nodes[:, 0][corners], nodes[:, 1][corners]
        b, c = y.roll(-1, 0) - y.roll(-2, 0), x.roll(-2, 0) - x.roll(-1, 0)
        share = 0.5 * conduct / (b[0] * c[1] - b[1] * c[0])
        held = u[corners]
        gx, gy = share * (b * held).sum(0), share * (c * held).sum(0)
        return torch.zeros_like(u).index_add_(0, corners.flatten(), (b * gx + c * gy).flatten())

    def make(nb):
        @nb.njit(fastmath=True)
        def run(nodes, corners, conduct, u, out):
            out[:] = 0
            for t in range(many):
                i, j, k = corners[0, t], corners[1, t], corners[2, t]
                bi, ci = nodes[j, 1] - nodes[k, 1], nodes[k, 0] - nodes[j, 0]
                bj, cj = nodes[k, 1] - nodes[i, 1], nodes[i, 0] - nodes[k, 0]
                bk, ck = nodes[i, 1] - nodes[j, 1], nodes[j, 0] - nodes[i, 0]
                share = 0.5 * conduct[t] / (bi * cj - bj * ci)
                gx = share * (bi * u[i] + bj * u[j] + bk * u[k])
                gy = share * (ci * u[i] + cj * u[j] + ck * u[k])
                out[i] += bi * gx + ci * gy
                out[j] += bj * gx + cj * gy
                out[k] += bk * gx + ck * gy

        made, held = np.empty(h * w), [array(each) for each in (nodes, corners, conduct, u)]
        return lambda: run(*held, made)

    return beside_torch(
        f"stiffness of {many} triangles of {h * w} nodes times a vector float64, by atomics",
        stiffened,
        (-(-many // 256),),
        (nodes, corners, conduct, u, out, 256),
        theirs,
        *(nodes, corners, conduct, u),
        bound=1e-12,
        clear=lambda: out.zero_(),
        more=by_numba(make),
    )


@ct.kernel
def slopes(u, d, gx, gy, gz, some: ct.Constant[int], n: ct.Constant[int]):
    """Slopes in spectral elements by the matrix of derivatives along each axis: u [element, z, y, x]."""
    e = ct.bid(0)
    held = ct.load(u, (e, 0, 0, 0), (some, n, n, n))
    turned = ct.transpose(ct.load(d, (0, 0), (n, n)))
    along = ct.matmul(held.reshape((some * n * n, n)), turned)
    ct.store(gx, (e, 0, 0, 0), along.reshape((some, n, n, n)))
    along = ct.permute(held, (0, 1, 3, 2)).reshape((some * n * n, n))
    along = ct.matmul(along, turned).reshape((some, n, n, n))
    ct.store(gy, (e, 0, 0, 0), ct.permute(along, (0, 1, 3, 2)))
    along = ct.permute(held, (0, 2, 3, 1)).reshape((some * n * n, n))
    along = ct.matmul(along, turned).reshape((some, n, n, n))
    ct.store(gz, (e, 0, 0, 0), ct.permute(along, (0, 3, 1, 2)))


def _slopes(elements: int, n: int) -> Row:
    u, d = normal(elements, n, n, n, dtype=_F64), normal(n, n, dtype=_F64)

    def theirs(u, d):
        z = torch.matmul(d, u.reshape(-1, n, n * n)).view_as(u)
        return u @ d.T, d @ u, z

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(u, d, turned, gx, gy, gz):
            for e in nb.prange(elements):
                for z in range(n):
                    for y in range(n):
                        gx[e, z, y], gy[e, z, y], gz[e, z, y] = 0, 0, 0
                        for k in range(n):
                            for x in range(n):
                                gx[e, z, y, x] += u[e, z, y, k] * turned[k, x]
                                gy[e, z, y, x] += d[y, k] * u[e, z, k, x]
                                gz[e, z, y, x] += d[z, k] * u[e, k, y, x]

        made = [np.empty((elements, n, n, n)) for _ in range(3)]
        turned = array(d).T.copy()
        return lambda: run(array(u), array(d), turned, *made)

    return beside_torch(
        f"slopes in {elements} spectral elements of {n} x {n} x {n} float64",
        slopes,
        (-(-elements // 4),),
        (u, d, *(torch.empty_like(u) for _ in range(3)), 4, n),
        theirs,
        u,
        d,
        outputs=3,
        bound=1e-14,
        more=by_numba(make),
    )


@ct.kernel
def ranked(x, seen, scores, spread, members: ct.Constant[int], tile: ct.Constant[int]):
    """Continuous ranked probability scores of an ensemble [member, cell], and its variance."""
    b = ct.bid(0)
    m = x.shape[0]
    held = ct.load(x, (0, b), (members, tile)).astype(ct.float32)
    inside = ct.arange(members, dtype=ct.int32)[:, None] < m
    off = ct.abs(held - ct.load(seen, (b,), (tile,))[None, :])
    score = ct.sum(ct.where(inside, off, 0.0), axis=0) / m
    pairs = ct.zeros((tile,), ct.float32)
    for k in range(m):
        other = ct.load(x, (k, b), (1, tile)).astype(ct.float32)
        pairs += ct.sum(ct.where(inside, ct.abs(held - other), 0.0), axis=0)
    ct.store(scores, (b,), score - pairs / (2.0 * m * m))
    mean = ct.sum(ct.where(inside, held, 0.0), axis=0, keepdims=True) / m
    off = ct.where(inside, held - mean, 0.0)
    ct.store(spread, (b,), ct.sum(off * off, axis=0) / (m - 1))


def _ranked(m: int, cells: int) -> Row:
    x, seen = normal(m, cells, dtype=_F16), normal(cells)

    def theirs(x, seen):
        x = x.to(seen.dtype)
        score = (x - seen).abs().mean(0)
        order = x.sort(0).values
        weights = 2 * torch.arange(m, dtype=x.dtype) - (m - 1)
        return score - (weights @ order) / (m * m), x.var(0)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, seen, scores, spread):
            f = np.float32
            for b in nb.prange(-(-cells // 64)):
                first, last = b * 64, min(b * 64 + 64, cells)
                score, mean, pairs = np.zeros(64, f), np.zeros(64, f), np.zeros(64, f)
                for k in range(m):
                    for c in range(first, last):
                        mean[c - first] += x[k, c] * f(1 / m)
                        score[c - first] += abs(x[k, c] - seen[c])
                    for other in range(k):
                        for c in range(first, last):
                            pairs[c - first] += abs(x[k, c] - x[other, c])
                for c in range(first, last):
                    scores[c] = score[c - first] * f(1 / m) - pairs[c - first] * f(1 / (m * m))
                    spread[c] = 0
                for k in range(m):
                    for c in range(first, last):
                        off = x[k, c] - mean[c - first]
                        spread[c] += off * off * f(1 / (m - 1))

        made = [np.empty(cells, np.float32) for _ in range(2)]
        return lambda: run(array(x).astype(np.float32), array(seen), *made)

    return beside_torch(
        f"ranked scores of {m} members of {cells} cells float16, tiles 64x64",
        ranked,
        (-(-cells // 64),),
        (x, seen, torch.empty(cells), torch.empty(cells), 64, 64),
        theirs,
        x,
        seen,
        outputs=2,
        bound=1e-5,
        more=by_numba(make),
    )


@ct.kernel
def correlated(re, im, out_re, out_im, t: ct.Constant[int], tk: ct.Constant[int]):
    """Products of all pairs of antennas over time, complex: [channel, antenna, time] i8."""
    c, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    real, imag = ct.zeros((t, t), ct.int32), ct.zeros((t, t), ct.int32)
    zero = ct.PaddingMode.ZERO
    for k in range(ct.cdiv(re.shape[2], tk)):
        a = ct.load(re, (c, i, k), (1, t, tk), padding_mode=zero).reshape((t, tk))
        b = ct.load(im, (c, i, k), (1, t, tk), padding_mode=zero).reshape((t, tk))
        d = ct.load(re, (c, k, j), (1, tk, t), order=(0, 2, 1), padding_mode=zero).reshape((tk, t))
        e = ct.load(im, (c, k, j), (1, tk, t), order=(0, 2, 1), padding_mode=zero).reshape((tk, t))
        real = ct.mma(b, e, ct.mma(a, d, real))
        imag = ct.mma(-a, e, ct.mma(b, d, imag))
    ct.store(out_re, (c, i, j), real.reshape((1, t, t)))
    ct.store(out_im, (c, i, j), imag.reshape((1, t, t)))


def _correlated(channels: int, antennas: int, times: int) -> Row:
    re, im = ((integers(n, channels, antennas, times) - 7).to(_I8) for n in (15, 14))
    out = [torch.empty(channels, antennas, antennas, dtype=_I32) for _ in range(2)]

    def halves(p):
        first, last = slice(None, antennas), slice(antennas, None)
        real, imag = p[..., first, first] + p[..., last, last], p[..., last, first]
        return real.to(_I32), (imag - p[..., first, last]).to(_I32)

    def theirs(re, im):
        both = torch.cat([re, im], 1).float()
        return halves(both @ both.transpose(1, 2))

    def whole():
        both = torch.cat([re, im], 1)
        return halves(torch.stack([torch._int_mm(each, each.T) for each in both]))

    return beside_torch(
        f"{channels} channels of {antennas} antennas correlated over {times} int8, tiles 32x32x64",
        correlated,
        (channels, -(-antennas // 32), -(-antennas // 32)),
        (re, im, *out, 32, 64),
        theirs,
        re,
        im,
        outputs=2,
        more={"torch in integers": whole},
    )


@ct.kernel
def projected(image, angles, out, steps: ct.Constant[int], tile: ct.Constant[int]):
    """Sums of an image along rays, linearly between pixels: [angle, bin]."""
    a = ct.bid(0)
    bins = ct.bid(1) * tile + ct.arange(tile, dtype=ct.int32)
    angle = ct.gather(angles, a)
    s, c = ct.sin(angle), ct.cos(angle)
    off = bins.astype(ct.float32) - 0.5 * (out.shape[1] - 1)
    total = ct.zeros((tile,), ct.float32)
    for k in range(steps):
        along = k - 0.5 * (steps - 1)
        x = off * c - along * s + 0.5 * (image.shape[1] - 1)
        y = off * s + along * c + 0.5 * (image.shape[0] - 1)
        left, top = ct.floor(x), ct.floor(y)
        fx, fy = x - left, y - top
        i, j = top.astype(ct.int32), left.astype(ct.int32)
        upper = ct.gather(image, (i, j)) * (1.0 - fx) + ct.gather(image, (i, j + 1)) * fx
        lower = ct.gather(image, (i + 1, j)) * (1.0 - fx) + ct.gather(image, (i + 1, j + 1)) * fx
        total += upper * (1.0 - fy) + lower * fy
    ct.scatter(out, (a, bins), total)


def _projected(h: int, w: int, many: int, bins: int, steps: int) -> Row:
    image, angles = uniform(h, w), torch.arange(many) * (math.pi / many)

    def theirs(image, angles):
        kind = image.dtype
        off = (torch.arange(bins, dtype=kind) - 0.5 * (bins - 1))[None, None, :]
        along = (torch.arange(steps, dtype=kind) - 0.5 * (steps - 1))[None, :, None]
        s, c = angles.sin()[:, None, None], angles.cos()[:, None, None]
        x, y = (off * c - along * s) * (2 / (w - 1)), (off * s + along * c) * (2 / (h - 1))
        grid = torch.stack([x, y], -1).view(1, many * steps, bins, 2)
        found = functional.grid_sample(image[None, None], grid, align_corners=True)
        return found.view(many, steps, bins).sum(1)

    def make(nb):
        @nb.njit(fastmath=True, inline="always")
        def pixel(image, i, j):
            return image[i, j] if 0 <= i < h and 0 <= j < w else np.float32(0)

        @nb.njit(parallel=True, fastmath=True)
        def run(image, angles, out):
            f = np.float32
            for a in nb.prange(many):
                s, c = np.sin(angles[a]), np.cos(angles[a])
                for b in range(bins):
                    off, total = f(b) - f(0.5 * (bins - 1)), f(0)
                    for k in range(steps):
                        along = f(k) - f(0.5 * (steps - 1))
                        x = off * c - along * s + f(0.5 * (w - 1))
                        y = off * s + along * c + f(0.5 * (h - 1))
                        if x <= -1 or y <= -1 or x >= w or y >= h:
                            continue
                        left, top = np.floor(x), np.floor(y)
                        fx, fy, i, j = x - left, y - top, int(top), int(left)
                        upper = pixel(image, i, j) * (1 - fx) + pixel(image, i, j + 1) * fx
                        lower = pixel(image, i + 1, j) * (1 - fx) + pixel(image, i + 1, j + 1) * fx
                        total += upper * (1 - fy) + lower * fy
                    out[a, b] = total

        made = np.empty((many, bins), np.float32)
        return lambda: run(array(image), array(angles), made)

    return beside_torch(
        f"{many} projections of {h} x {w} float32 to {bins} bins of rays of {steps} steps",
        projected,
        (many, -(-bins // 64)),
        (image, angles, torch.empty(many, bins), steps, 64),
        theirs,
        image,
        angles,
        bound=1e-4,
        more=by_numba(make),
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _restricted(200, 300),
        lambda: _sliced(30_001, 40),
        lambda: _blocked(8001, 24),
        lambda: _reacted(2001, 40),
        lambda: _wandered(5001, 300, 401, 256),
        lambda: _waves(301, 1500),
        lambda: _stiffened(151, 201),
        lambda: _slopes(501, 8),
        lambda: _ranked(51, 5001),
        lambda: _correlated(16, 48, 500),
        lambda: _projected(96, 121, 40, 150, 160),
    ]
