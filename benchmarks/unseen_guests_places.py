"""Particles, rays, points and small matrices, as a guest writes them."""

from __future__ import annotations

import math
from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch
from torch.nn import functional

from benchmarks.unseen_rows import (
    Row,
    array,
    beside_torch,
    by_numba,
    compiled,
    integers,
    kind,
    normal,
    uniform,
)

_ZERO = ct.PaddingMode.ZERO
_F64 = torch.float64
_I32 = torch.int32


@ct.kernel
def deposited(places, masses, grid, tile: ct.Constant[int]):
    """Masses of particles shared among the four nodes around, on a torus: places [axis, particle]."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    inside = i < masses.shape[0]
    x, y = ct.gather(places, (0, i)), ct.gather(places, (1, i))
    mass = ct.gather(masses, i, mask=inside, padding_value=0.0)
    left, low = ct.floor(x), ct.floor(y)
    fx, fy = x - left, y - low
    column, row = left.astype(ct.int32), low.astype(ct.int32)
    right, high = (column + 1) % grid.shape[1], (row + 1) % grid.shape[0]
    ct.atomic_add(grid, (row, column), mass * (1.0 - fx) * (1.0 - fy))
    ct.atomic_add(grid, (row, right), mass * fx * (1.0 - fy))
    ct.atomic_add(grid, (high, column), mass * (1.0 - fx) * fy)
    ct.atomic_add(grid, (high, right), mass * fx * fy)


def _deposited(many: int, size: int) -> Row:
    places, masses = uniform(2, many) * (size - 0.5), uniform(many)
    grid = torch.zeros(size, size)

    def theirs(places, masses):
        x, y = places
        left, low = x.floor(), y.floor()
        fx, fy = x - left, y - low
        column, row = left.long(), low.long()
        right, high = (column + 1) % size, (row + 1) % size
        found = torch.zeros(size * size, dtype=masses.dtype)
        found.index_add_(0, row * size + column, masses * (1 - fx) * (1 - fy))
        found.index_add_(0, row * size + right, masses * fx * (1 - fy))
        found.index_add_(0, high * size + column, masses * (1 - fx) * fy)
        found.index_add_(0, high * size + right, masses * fx * fy)
        return found.view(size, size)

    def make(nb):
        @nb.njit(fastmath=True)
        def run(places, masses, found):
            found[:] = 0
            one = np.float32(1)
            for i in range(masses.size):
                x, y, mass = places[0, i], places[1, i], masses[i]
                column, row = int(x), int(y)
                fx, fy = x - np.float32(column), y - np.float32(row)
                right = column + 1 if column + 1 < size else 0
                high = row + 1 if row + 1 < size else 0
                found[row, column] += mass * (one - fx) * (one - fy)
                found[row, right] += mass * fx * (one - fy)
                found[high, column] += mass * (one - fx) * fy
                found[high, right] += mass * fx * fy

        made = np.zeros((size, size), np.float32)
        return lambda: run(array(places), array(masses), made)

    return beside_torch(
        f"{many} particles shared among nodes of {size} x {size} float32",
        deposited,
        (-(-many // 512),),
        (places, masses, grid, 512),
        theirs,
        places,
        masses,
        bound=1e-5,
        clear=grid.zero_,
        more=by_numba(make),
        compiles=False,
    )


@ct.kernel
def nearest(points, others, which, rows: ct.Constant[int], tile: ct.Constant[int]):
    """The nearest other of each point in space: points [axis, point], some others at a time."""
    i = (ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    x, y, z = ct.gather(points, (0, i)), ct.gather(points, (1, i)), ct.gather(points, (2, i))
    least, found = ct.full((rows,), math.inf, ct.float32), ct.zeros((rows,), ct.int32)
    for t in range(ct.cdiv(others.shape[1], tile)):
        j = (t * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
        dx = x - ct.gather(others, (0, j), padding_value=1e9)
        dy = y - ct.gather(others, (1, j), padding_value=1e9)
        dz = z - ct.gather(others, (2, j), padding_value=1e9)
        distance = dx * dx + dy * dy + dz * dz
        own = ct.min(distance, 1)
        closer = own < least
        found = ct.where(closer, t * tile + ct.argmin(distance, 1), found)
        least = ct.where(closer, own, least)
    ct.scatter(which, ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32), found)


def _nearest(many: int, others: int) -> Row:
    a, b = normal(3, many), normal(3, others)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(a, b, found):
            for i in nb.prange(a.shape[1]):
                least, which = np.float32(np.inf), 0
                for j in range(b.shape[1]):
                    x, y, z = a[0, i] - b[0, j], a[1, i] - b[1, j], a[2, i] - b[2, j]
                    distance = x * x + y * y + z * z
                    if distance < least:
                        least, which = distance, j
                found[i] = which

        made = np.empty(many, np.int32)
        return lambda: run(array(a), array(b), made)

    def theirs(a, b):
        apart = torch.cdist(a.T, b.T, compute_mode="donot_use_mm_for_euclid_dist")
        return apart.argmin(1).to(_I32)

    return beside_torch(
        f"nearest of {others} points to each of {many}, tiles 32x64",
        nearest,
        (-(-many // 32),),
        (a, b, torch.empty(many, dtype=_I32), 32, 64),
        theirs,
        a,
        b,
        more=by_numba(make),
    )


@ct.kernel
def principal(x, out, tile: ct.Constant[int]):
    """Eigenvalues of symmetric 3 x 3 matrices by the cubic's angle: [xx yy zz xy xz yz, matrix]."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    a, b, c = ct.gather(x, (0, i)), ct.gather(x, (1, i)), ct.gather(x, (2, i))
    d, e, f = ct.gather(x, (3, i)), ct.gather(x, (4, i)), ct.gather(x, (5, i))
    q = (a + b + c) / 3.0
    a, b, c = a - q, b - q, c - q
    p = ct.sqrt((a * a + b * b + c * c + 2.0 * (d * d + e * e + f * f)) / 6.0) + 1e-20
    half = 0.5 * (a * (b * c - f * f) - d * (d * c - f * e) + e * (d * f - b * e)) / (p * p * p)
    half = ct.minimum(ct.maximum(half, -1.0), 1.0)
    angle = ct.atan2(ct.sqrt(1.0 - half * half), half) / 3.0
    high, low = q + 2.0 * p * ct.cos(angle), q + 2.0 * p * ct.cos(angle + 2.0943951023931953)
    ct.scatter(out, (0, i), low)
    ct.scatter(out, (1, i), 3.0 * q - high - low)
    ct.scatter(out, (2, i), high)


def _principal(many: int) -> Row:
    x = normal(6, many)

    def theirs(x):
        a, b, c, d, e, f = x
        whole = torch.stack((a, d, e, d, b, f, e, f, c), 1).view(-1, 3, 3)
        return torch.linalg.eigvalsh(whole).T

    def angles(x):
        a, b, c, d, e, f = x
        q = (a + b + c) / 3
        a, b, c = a - q, b - q, c - q
        p = ((a * a + b * b + c * c + 2 * (d * d + e * e + f * f)) / 6).sqrt() + 1e-20
        half = 0.5 * (a * (b * c - f * f) - d * (d * c - f * e) + e * (d * f - b * e)) / (p * p * p)
        angle = half.clamp(-1, 1).acos() / 3
        high, low = q + 2 * p * angle.cos(), q + 2 * p * (angle + 2 * math.pi / 3).cos()
        return torch.stack((low, 3 * q - high - low, high))

    return beside_torch(
        f"eigenvalues of {many} symmetric 3 x 3 float32",
        principal,
        (-(-many // 256),),
        (x, torch.empty(3, many), 256),
        theirs,
        x,
        bound=1e-4,
        more={"torch.compile of angles": compiled(angles, x)},
        compiles=False,
    )


@ct.kernel
def orthogonal(x, q, r, rows: ct.Constant[int], columns: ct.Constant[int]):
    """Tall matrices to orthogonal columns and a triangle, by Gram and Schmidt: [matrix, row, column]."""
    at = ct.bid(0)
    held = ct.load(x, (at, 0, 0), (1, rows, columns)).reshape((rows, columns))
    column = ct.arange(columns, dtype=ct.int32).reshape((1, columns))
    line = ct.arange(columns, dtype=ct.int32).reshape((columns, 1))
    triangle = ct.zeros((columns, columns), ct.float32)
    for k in range(columns):
        own = ct.sum(ct.where(column == k, held, 0.0), 1, keepdims=True)
        own = own * ct.rsqrt(ct.sum(own * own, 0, keepdims=True))
        along = ct.where(column >= k, ct.sum(own * held, 0, keepdims=True), 0.0)
        triangle = ct.where(line == k, along, triangle)
        held = ct.where(column > k, held - own * along, ct.where(column == k, own, held))
    ct.store(q, (at, 0, 0), held.reshape((1, rows, columns)))
    ct.store(r, (at, 0, 0), triangle.reshape((1, columns, columns)))


def _orthogonal(many: int, rows: int, columns: int) -> Row:
    x = normal(many, rows, columns)

    def theirs(x):
        q, r = torch.linalg.qr(x)
        sign = torch.sign(torch.diagonal(r, dim1=1, dim2=2))
        return q * sign[:, None], r * sign[:, :, None]

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, q, r):
            for m in nb.prange(many):
                held = x[m].copy()
                for k in range(columns):
                    along = np.zeros(columns, np.float32)
                    for i in range(rows):
                        for j in range(columns):
                            along[j] += held[i, k] * held[i, j]
                    over = np.float32(1) / np.sqrt(along[k])
                    for j in range(columns):
                        along[j] = along[j] * over if j >= k else np.float32(0)
                        r[m, k, j] = along[j]
                    for i in range(rows):
                        own = held[i, k] * over
                        q[m, i, k] = own
                        for j in range(columns):
                            held[i, j] -= own * along[j]

        made = (
            np.empty((many, rows, columns), np.float32),
            np.empty((many, columns, columns), np.float32),
        )
        return lambda: run(array(x), *made)

    return beside_torch(
        f"orthogonal columns of {many} x {rows} x {columns} float32",
        orthogonal,
        (many,),
        (x, torch.empty_like(x), torch.empty(many, columns, columns), rows, columns),
        theirs,
        x,
        outputs=2,
        bound=1e-5,
        more=by_numba(make),
        compiles=False,
    )


@ct.kernel
def far_off(x, mean, inverse, out, rows: ct.Constant[int], width: ct.Constant[int]):
    """Mahalanobis' distances of rows from a mean."""
    i = ct.bid(0)
    column = ct.arange(width, dtype=ct.int32).reshape((1, width))
    off = ct.load(x, (i, 0), (rows, width), padding_mode=_ZERO)
    center = ct.load(mean, (0,), (width,), padding_mode=_ZERO).reshape((1, width))
    off = ct.where(column < x.shape[1], off - center, 0.0)
    matrix = ct.load(inverse, (0, 0), (width, width), padding_mode=_ZERO)
    turned = ct.mma(off, matrix, ct.zeros((rows, width), x.dtype))
    ct.store(out, (i,), ct.sqrt(ct.sum(turned * off, 1)))


def _far_off(many: int, width: int, dtype: torch.dtype) -> Row:
    x, mean, root = (
        normal(many, width, dtype=dtype),
        normal(width, dtype=dtype),
        normal(width, width),
    )
    inverse = (root @ root.T / width + torch.eye(width)).to(dtype)

    def theirs(x, mean, inverse):
        off = x - mean
        return ((off @ inverse) * off).sum(1).sqrt()

    return beside_torch(
        f"Mahalanobis' distances of {many} x {width} {kind(dtype)}",
        far_off,
        (-(-many // 64),),
        (x, mean, inverse, torch.empty(many, dtype=dtype), 64, 64),
        theirs,
        x,
        mean,
        inverse,
        bound=1e-13 if dtype == _F64 else 1e-5,
    )


@ct.kernel
def entered(origins, directions, boxes, far, which, tile: ct.Constant[int]):
    """Which box each ray enters first and where: [axis, ray], boxes [box, low x y z, high x y z]."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    x, y, z = ct.gather(origins, (0, i)), ct.gather(origins, (1, i)), ct.gather(origins, (2, i))
    over = (
        1.0 / ct.gather(directions, (0, i), padding_value=1.0),
        1.0 / ct.gather(directions, (1, i), padding_value=1.0),
        1.0 / ct.gather(directions, (2, i), padding_value=1.0),
    )
    nearest, found = ct.full((tile,), 1e30, ct.float32), ct.full((tile,), -1, ct.int32)
    for n in range(boxes.shape[0]):
        enter, leave = ct.zeros((tile,), ct.float32), nearest
        for axis in ct.static_iter(range(3)):
            a = (ct.gather(boxes, (n, axis)) - (x, y, z)[axis]) * over[axis]
            b = (ct.gather(boxes, (n, axis + 3)) - (x, y, z)[axis]) * over[axis]
            enter = ct.maximum(enter, ct.minimum(a, b))
            leave = ct.minimum(leave, ct.maximum(a, b))
        met = enter < leave
        nearest, found = ct.where(met, enter, nearest), ct.where(met, n, found)
    ct.scatter(far, i, nearest)
    ct.scatter(which, i, found)


def _entered(rays: int, boxes: int) -> Row:
    origins, directions = normal(3, rays) * 0.1 - 3.0, uniform(3, rays) + 0.05
    low = uniform(boxes, 3) * 3 - 2
    all_boxes = torch.cat((low, low + 0.3 + 0.3 * uniform(boxes, 3, seed=9)), 1)

    def theirs(origins, directions, boxes):
        nearest, found = torch.full_like(origins[0], 1e30), torch.full((rays,), -1, dtype=_I32)
        over = 1 / directions
        for n in range(len(boxes)):
            a = (boxes[n, :3, None] - origins) * over
            b = (boxes[n, 3:, None] - origins) * over
            enter = torch.minimum(a, b).amax(0).clamp(min=0)
            leave = torch.minimum(torch.maximum(a, b).amin(0), nearest)
            met = enter < leave
            nearest, found = torch.where(met, enter, nearest), torch.where(met, n, found)
        return nearest, found

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(origins, directions, boxes, far, which):
            f = np.float32
            for i in nb.prange(rays):
                x, y, z = origins[0, i], origins[1, i], origins[2, i]
                u, v, w = f(1) / directions[0, i], f(1) / directions[1, i], f(1) / directions[2, i]
                nearest, found = f(1e30), np.int32(-1)
                for n in range(boxes.shape[0]):
                    a, b = (boxes[n, 0] - x) * u, (boxes[n, 3] - x) * u
                    c, d = (boxes[n, 1] - y) * v, (boxes[n, 4] - y) * v
                    e, g = (boxes[n, 2] - z) * w, (boxes[n, 5] - z) * w
                    enter = max(max(min(a, b), min(c, d)), max(min(e, g), f(0)))
                    leave = min(min(max(a, b), max(c, d)), min(max(e, g), nearest))
                    if enter < leave:
                        nearest, found = enter, np.int32(n)
                far[i], which[i] = nearest, found

        made = np.empty(rays, np.float32), np.empty(rays, np.int32)
        return lambda: run(array(origins), array(directions), array(all_boxes), *made)

    return beside_torch(
        f"first of {boxes} boxes that each of {rays} rays enters",
        entered,
        (-(-rays // 256),),
        (origins, directions, all_boxes, torch.empty(rays), torch.empty(rays, dtype=_I32), 256),
        theirs,
        origins,
        directions,
        all_boxes,
        outputs=2,
        bound=1e-6,
        more=by_numba(make),
    )


@ct.kernel
def densities(x, y, counts, out, size: ct.Constant[int]):
    """Density at each particle by those of the nine cells around: [cell y, cell x, particle]."""
    row, column = ct.bid(1), ct.bid(0)
    place = ct.arange(size, dtype=ct.int32)
    px = ct.gather(x, (row, column, place)).reshape((size, 1))
    py = ct.gather(y, (row, column, place)).reshape((size, 1))
    total = ct.zeros((size,), ct.float32)
    for dy in range(-1, 2):
        for dx in range(-1, 2):
            there = place < ct.gather(counts, (row + dy, column + dx))
            at = (row + dy, column + dx, place)
            qx = ct.gather(x, at, mask=there, padding_value=1e6).reshape((1, size))
            qy = ct.gather(y, at, mask=there, padding_value=1e6).reshape((1, size))
            ax, ay = px - qx, py - qy
            near = ct.maximum(1.0 - ax * ax - ay * ay, 0.0)
            total += ct.sum(near * near * near, 1)
    own = place < ct.gather(counts, (row, column))
    ct.scatter(out, (row, column, place), ct.where(own, total, 0.0))


def _densities(cells: int, size: int) -> Row:
    counts = integers(size + 1, cells, cells)
    x, y = (
        uniform(cells, cells, size, seed=n) + torch.arange(cells).view(shape)
        for n, shape in ((0, (1, -1, 1)), (1, (-1, 1, 1)))
    )

    def theirs(x, y, counts):
        there = torch.arange(size) < counts[:, :, None]
        total = torch.zeros_like(x)
        wide = (
            functional.pad(torch.where(there, each, 1e6), (0, 0, 1, 1, 1, 1), value=1e6)
            for each in (x, y)
        )
        qx, qy = wide
        for dy in range(3):
            for dx in range(3):
                at = slice(dy, dy + cells), slice(dx, dx + cells)
                ax = x[..., None] - qx[at][:, :, None]
                ay = y[..., None] - qy[at][:, :, None]
                total = total + (1 - ax * ax - ay * ay).clamp(min=0).pow(3).sum(3)
        return torch.where(there, total, 0)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, y, counts, out):
            f = np.float32
            for r in nb.prange(cells):
                for c in range(cells):
                    for i in range(size):
                        total = f(0)
                        if i < counts[r, c]:
                            for v in range(max(r - 1, 0), min(r + 2, cells)):
                                for u in range(max(c - 1, 0), min(c + 2, cells)):
                                    for k in range(counts[v, u]):
                                        a, b = x[r, c, i] - x[v, u, k], y[r, c, i] - y[v, u, k]
                                        near = max(f(1) - a * a - b * b, f(0))
                                        total += near * near * near
                        out[r, c, i] = total

        made = np.empty((cells, cells, size), np.float32)
        return lambda: run(array(x), array(y), array(counts), made)

    return beside_torch(
        f"densities at particles of {cells} x {cells} cells of {size} float32",
        densities,
        (cells, cells),
        (x, y, counts, torch.empty_like(x), size),
        theirs,
        x,
        y,
        counts,
        bound=1e-4,
        more=by_numba(make),
    )


@ct.kernel
def attracted(state, out, pace, steps: ct.Constant[int], tile: ct.Constant[int]):
    """Lorenz' equations from many places by Runge and Kutta's steps: [axis, place]."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    x, y, z = ct.gather(state, (0, i)), ct.gather(state, (1, i)), ct.gather(state, (2, i))

    def slope(x, y, z):
        return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 2.625 * z

    half = 0.5 * pace
    for _ in range(steps):
        a, b, c = slope(x, y, z)
        d, e, f = slope(x + half * a, y + half * b, z + half * c)
        g, h, k = slope(x + half * d, y + half * e, z + half * f)
        p, q, r = slope(x + pace * g, y + pace * h, z + pace * k)
        x = x + pace * (a + 2.0 * (d + g) + p) / 6.0
        y = y + pace * (b + 2.0 * (e + h) + q) / 6.0
        z = z + pace * (c + 2.0 * (f + k) + r) / 6.0
    ct.scatter(out, (0, i), x)
    ct.scatter(out, (1, i), y)
    ct.scatter(out, (2, i), z)


def _attracted(many: int, steps: int) -> Row:
    state, pace = normal(3, many, dtype=_F64), 2.0**-8

    def slope(x, y, z):
        return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 2.625 * z

    def step(x, y, z):
        half = 0.5 * pace
        a, b, c = slope(x, y, z)
        d, e, f = slope(x + half * a, y + half * b, z + half * c)
        g, h, k = slope(x + half * d, y + half * e, z + half * f)
        p, q, r = slope(x + pace * g, y + pace * h, z + pace * k)
        x = x + pace / 6 * (a + 2.0 * (d + g) + p)
        y = y + pace / 6 * (b + 2.0 * (e + h) + q)
        return x, y, z + pace / 6 * (c + 2.0 * (f + k) + r)

    def theirs(state):
        at = tuple(state)
        for _ in range(steps):
            at = step(*at)
        return torch.stack(at)

    def make(nb):
        slope = nb.njit(fastmath=True)(
            lambda x, y, z: (10.0 * (y - x), x * (28.0 - z) - y, x * y - 2.625 * z)
        )

        @nb.njit(parallel=True, fastmath=True)
        def run(state, out):
            half = 0.5 * pace
            for i in nb.prange(many):
                x, y, z = state[0, i], state[1, i], state[2, i]
                for _ in range(steps):
                    a, b, c = slope(x, y, z)
                    d, e, f = slope(x + half * a, y + half * b, z + half * c)
                    g, h, k = slope(x + half * d, y + half * e, z + half * f)
                    p, q, r = slope(x + pace * g, y + pace * h, z + pace * k)
                    x += pace / 6 * (a + 2.0 * (d + g) + p)
                    y += pace / 6 * (b + 2.0 * (e + h) + q)
                    z += pace / 6 * (c + 2.0 * (f + k) + r)
                out[0, i], out[1, i], out[2, i] = x, y, z

        made = np.empty((3, many))
        return lambda: run(array(state), made)

    return beside_torch(
        f"{steps} steps of Lorenz' equations from {many} places float64",
        attracted,
        (-(-many // 128),),
        (state, torch.empty_like(state), pace, steps, 128),
        theirs,
        state,
        bound=1e-10,
        more=by_numba(make),
        compiles=False,
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _deposited(200_000, 256),
        lambda: _nearest(2000, 1500),
        lambda: _principal(100_001),
        lambda: _orthogonal(2001, 64, 8),
        lambda: _far_off(20_001, 48, _F64),
        lambda: _entered(50_001, 20),
        lambda: _densities(40, 16),
        lambda: _attracted(4001, 100),
    ]
