"""Points, rays, small matrices and mixtures, as trades that reckon with places have them."""

from __future__ import annotations

import math
from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch

from benchmarks.unseen_rows import Row, array, beside_torch, by_numba, kind, normal

_ZERO = ct.PaddingMode.ZERO
_F32, _F64 = torch.float32, torch.float64
_I32, _U8 = torch.int32, torch.uint8


@ct.kernel
def rays(directions, balls, far, which, tile: ct.Constant[int]):
    """Where rays from one place first meet a ball and which: [axis, ray], balls [ball, x y z radius]."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    x, y, z = (
        ct.gather(directions, (0, i)),
        ct.gather(directions, (1, i)),
        ct.gather(directions, (2, i)),
    )
    nearest, at = ct.full((tile,), 1e30, ct.float32), ct.full((tile,), -1, ct.int32)
    for n in range(balls.shape[0]):
        a, b, c = ct.gather(balls, (n, 0)), ct.gather(balls, (n, 1)), ct.gather(balls, (n, 2))
        radius = ct.gather(balls, (n, 3))
        along = a * x + b * y + c * z
        inner = along * along - (a * a + b * b + c * c - radius * radius)
        met = along - ct.sqrt(ct.maximum(inner, 0.0))
        closer = (inner > 0.0) & (met > 0.0) & (met < nearest)
        nearest = ct.where(closer, met, nearest)
        at = ct.where(closer, n, at)
    ct.scatter(far, i, nearest)
    ct.scatter(which, i, at)


@ct.kernel
def turned(turns, points, out, tile: ct.Constant[int]):
    """Each point turned by its quaternion: [point, 4], [point, 3]."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    w, a = ct.gather(turns, (i, 0)), ct.gather(turns, (i, 1))
    b, c = ct.gather(turns, (i, 2)), ct.gather(turns, (i, 3))
    x, y, z = ct.gather(points, (i, 0)), ct.gather(points, (i, 1)), ct.gather(points, (i, 2))
    p, q, r = 2.0 * (b * z - c * y), 2.0 * (c * x - a * z), 2.0 * (a * y - b * x)
    ct.scatter(out, (i, 0), x + w * p + b * r - c * q)
    ct.scatter(out, (i, 1), y + w * q + c * p - a * r)
    ct.scatter(out, (i, 2), z + w * r + a * q - b * p)


@ct.kernel
def inverses(x, out, tile: ct.Constant[int]):
    """Inverses of many 4 x 4 matrices by minors, flat."""
    i = (ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)) * 16
    m = ()
    for n in ct.static_iter(range(16)):
        m = (*m, ct.gather(x, i + n))
    s0, s1, s2 = m[0] * m[5] - m[4] * m[1], m[0] * m[6] - m[4] * m[2], m[0] * m[7] - m[4] * m[3]
    s3, s4, s5 = m[1] * m[6] - m[5] * m[2], m[1] * m[7] - m[5] * m[3], m[2] * m[7] - m[6] * m[3]
    c5, c4 = m[10] * m[15] - m[14] * m[11], m[9] * m[15] - m[13] * m[11]
    c3, c2 = m[9] * m[14] - m[13] * m[10], m[8] * m[15] - m[12] * m[11]
    c1, c0 = m[8] * m[14] - m[12] * m[10], m[8] * m[13] - m[12] * m[9]
    over = 1.0 / (s0 * c5 - s1 * c4 + s2 * c3 + s3 * c2 - s4 * c1 + s5 * c0)
    found = (
        m[5] * c5 - m[6] * c4 + m[7] * c3,
        m[2] * c4 - m[1] * c5 - m[3] * c3,
        m[13] * s5 - m[14] * s4 + m[15] * s3,
        m[10] * s4 - m[9] * s5 - m[11] * s3,
        m[6] * c2 - m[4] * c5 - m[7] * c1,
        m[0] * c5 - m[2] * c2 + m[3] * c1,
        m[14] * s2 - m[12] * s5 - m[15] * s1,
        m[8] * s5 - m[10] * s2 + m[11] * s1,
        m[4] * c4 - m[5] * c2 + m[7] * c0,
        m[1] * c2 - m[0] * c4 - m[3] * c0,
        m[12] * s4 - m[13] * s2 + m[15] * s0,
        m[9] * s2 - m[8] * s4 - m[11] * s0,
        m[5] * c1 - m[4] * c3 - m[6] * c0,
        m[0] * c3 - m[1] * c1 + m[2] * c0,
        m[13] * s1 - m[12] * s3 - m[14] * s0,
        m[8] * s3 - m[9] * s1 + m[10] * s0,
    )
    for n in ct.static_iter(range(16)):
        ct.scatter(out, i + n, found[n] * over)


@ct.kernel
def within(x, y, corners, out, tile: ct.Constant[int]):
    """Which points are inside of a polygon: how often a line to the right meets it; [corner, 2]."""
    i = ct.bid(0)
    px, py = ct.load(x, (i,), (tile,)), ct.load(y, (i,), (tile,))
    odd = ct.full((tile,), False, ct.bool_)
    count = corners.shape[0]
    bx, by = ct.gather(corners, (count - 1, 0)), ct.gather(corners, (count - 1, 1))
    for n in range(count):
        ax, ay = ct.gather(corners, (n, 0)), ct.gather(corners, (n, 1))
        crossed = (ay > py) != (by > py)
        meets = px < (bx - ax) * (py - ay) / (by - ay) + ax
        odd = odd ^ (crossed & meets)
        bx, by = ax, ay
    ct.store(out, (i,), odd.astype(ct.uint8))


@ct.kernel
def morton(x, y, z, out, tile: ct.Constant[int]):
    """Places in a cube as 30 bits of three numbers in turn."""
    i = ct.bid(0)

    def spread(a):
        v = ct.minimum(ct.maximum(ct.load(a, (i,), (tile,)) * 1024.0, 0.0), 1023.0)
        v = v.astype(ct.uint32)
        v = (v * 0x00010001) & 0xFF0000FF
        v = (v * 0x00000101) & 0x0F00F00F
        v = (v * 0x00000011) & 0xC30C30C3
        return (v * 0x00000005) & 0x49249249

    ct.store(out, (i,), (spread(x) << 2) | (spread(y) << 1) | spread(z))


@ct.kernel
def eliminated(x, out, size: ct.Constant[int], batch: ct.Constant[int]):
    """Lower and upper triangles of small matrices without pivots, some at a time: [matrix, row, column]."""
    i = ct.bid(0)
    held = ct.load(x, (i, 0, 0), (batch, size, size))
    row = ct.arange(size, dtype=ct.int32).reshape((1, size, 1))
    column = ct.arange(size, dtype=ct.int32).reshape((1, 1, size))
    for k in range(size - 1):
        top = ct.sum(ct.where(row == k, held, 0.0), 1, keepdims=True)
        side = ct.sum(ct.where(column == k, held, 0.0), 2, keepdims=True)
        pivot = ct.sum(ct.where(column == k, top, 0.0), 2, keepdims=True)
        share = side / pivot
        held = ct.where(
            row > k,
            ct.where(column == k, share, ct.where(column > k, held - share * top, held)),
            held,
        )
    ct.store(out, (i, 0, 0), held)


@ct.kernel
def kronecker(a, b, out, tile: ct.Constant[int]):
    """All products of elements of two matrices, by flat places of the result."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    row, column = i // out.shape[1], i % out.shape[1]
    left = ct.gather(a, (row // b.shape[0], column // b.shape[1]))
    ct.scatter(out, (row, column), left * ct.gather(b, (row % b.shape[0], column % b.shape[1])))


@ct.kernel
def slopes_of_noise(out, scale, tile: ct.Constant[int]):
    """Noise of slopes at the corners of a lattice, by hashes: Perlin's."""
    y, column = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    fx, fy = column.astype(ct.float32) * scale, y.astype(ct.float32) * scale
    x0, y0 = ct.floor(fx), ct.floor(fy)
    dx, dy = fx - x0, fy - y0
    ix, iy = x0.astype(ct.int32), y0.astype(ct.int32)

    def corner(r, s):
        mixed = ((ix + s) * 374761393 + (iy + r) * 668265263).astype(ct.uint32)
        mixed = (mixed ^ (mixed >> 13)) * 1274126177
        which = (mixed ^ (mixed >> 16)) & 7
        a, b = dx - s, dy - r
        u, v = ct.where(which < 4, a, b), ct.where(which < 4, b, a)
        return ct.where((which & 1) != 0, -u, u) + ct.where((which & 2) != 0, -0.5 * v, 0.5 * v)

    def eased(t):
        return t * t * t * (t * (t * 6.0 - 15.0) + 10.0)

    sx, sy = eased(dx), eased(dy)
    top = corner(0, 0) + sx * (corner(0, 1) - corner(0, 0))
    bottom = corner(1, 0) + sx * (corner(1, 1) - corner(1, 0))
    ct.scatter(out, (y, column), top + sy * (bottom - top))


@ct.kernel
def mixture(
    x,
    means,
    rates,
    logs,
    out,
    parts: ct.Constant[int],
    axes: ct.Constant[int],
    tile: ct.Constant[int],
):
    """Logarithms of likelihoods of points by a mixture of bells: [point, axis], [part, axis]."""
    i = ct.bid(0)
    part = ct.arange(parts, dtype=ct.int32).reshape((1, parts))
    point = (i * tile + ct.arange(tile, dtype=ct.int32)).reshape((tile, 1))
    far = ct.zeros((tile, parts), x.dtype)
    for k in range(axes):
        apart = ct.gather(x, (point, k)) - ct.gather(means, (part, k))
        far += apart * apart * ct.gather(rates, (part, k))
    score = ct.gather(logs, part) - 0.5 * far
    high = ct.max(score, 1, keepdims=True)
    found = high + ct.log(ct.sum(ct.exp(score - high), 1, keepdims=True))
    ct.scatter(out, point.reshape((tile,)), found.reshape((tile,)))


@ct.kernel
def pulled(x, y, mass, ax, ay, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Accelerations of bodies in the plane: [body], all of them for some at a time."""
    i = ct.bid(0)
    px, py = (
        ct.load(x, (i,), (rows,)).reshape((rows, 1)),
        ct.load(y, (i,), (rows,)).reshape((rows, 1)),
    )
    sx, sy = ct.zeros((rows, tile), x.dtype), ct.zeros((rows, tile), x.dtype)
    for j in range(ct.num_tiles(x, 0, (tile,))):
        dx = ct.load(x, (j,), (tile,)).reshape((1, tile)) - px
        dy = ct.load(y, (j,), (tile,)).reshape((1, tile)) - py
        far = dx * dx + dy * dy + 2.0**-10
        weight = ct.load(mass, (j,), (tile,)).reshape((1, tile)) / (far * ct.sqrt(far))
        sx, sy = sx + weight * dx, sy + weight * dy
    ct.store(ax, (i,), ct.sum(sx, 1))
    ct.store(ay, (i,), ct.sum(sy, 1))


@ct.kernel
def strided_sum(x, y, out, rate, rows: ct.Constant[int], tile: ct.Constant[int]):
    """a x + y of views that step over rows and columns."""
    i, j = ct.bid(1), ct.bid(0)
    held = ct.load(x, (i, j), (rows, tile), padding_mode=_ZERO)
    ct.store(out, (i, j), rate * held + ct.load(y, (i, j), (rows, tile), padding_mode=_ZERO))


def _rays(many: int, balls_: int) -> Row:
    directions = normal(3, many)
    directions /= directions.norm(dim=0)
    balls = torch.cat((3 * normal(balls_, 3), normal(balls_, 1).abs() * 0.5), 1)
    inside = balls[:, :3].norm(dim=1) < balls[:, 3] + 0.3
    balls[inside, :3] += 4.0

    def theirs(directions, balls):
        nearest = torch.full((many,), 1e30, dtype=directions.dtype)
        at = torch.full((many,), -1, dtype=_I32)
        for n in range(balls_):
            middle = balls[n, :3]
            along = middle @ directions
            inner = along * along - (middle @ middle - balls[n, 3] ** 2)
            met = along - inner.clamp(min=0).sqrt()
            closer = (inner > 0) & (met > 0) & (met < nearest)
            nearest, at = torch.where(closer, met, nearest), torch.where(closer, n, at)
        return nearest, at

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(d, balls, far, which):
            for p in nb.prange(d.shape[1] // 64):
                for i in range(64 * p, 64 * p + 64):
                    far[i], which[i] = np.float32(1e30), -1
                for n in range(balls.shape[0]):
                    a, b, c, r = balls[n, 0], balls[n, 1], balls[n, 2], balls[n, 3]
                    rest = a * a + b * b + c * c - r * r
                    for i in range(64 * p, 64 * p + 64):
                        along = a * d[0, i] + b * d[1, i] + c * d[2, i]
                        inner = along * along - rest
                        met = along - np.sqrt(max(inner, np.float32(0)))
                        closer = (inner > 0) & (met > 0) & (met < far[i])
                        far[i], which[i] = (met, n) if closer else (far[i], which[i])

        made = np.empty(many, np.float32), np.empty(many, np.int32)
        return lambda: run(array(directions), array(balls), *made)

    return beside_torch(
        f"{many >> 10}K rays and {balls_} balls",
        rays,
        (many // 256,),
        (directions, balls, torch.empty(many), torch.empty(many, dtype=_I32), 256),
        theirs,
        directions,
        balls,
        outputs=2,
        more=by_numba(make),
        compiles=False,
        bound=1e-3,
    )


def _turned(many: int, dtype: torch.dtype) -> Row:
    turns, points = normal(many, 4).to(dtype), normal(many, 3).to(dtype)
    turns /= turns.norm(dim=1, keepdim=True)

    def theirs(turns, points):
        axis = turns[:, 1:]
        twice = 2 * torch.linalg.cross(axis, points)
        return points + turns[:, :1] * twice + torch.linalg.cross(axis, twice)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(turns, points, out):
            two = points.dtype.type(2)
            for i in nb.prange(points.shape[0]):
                w, a, b, c = turns[i, 0], turns[i, 1], turns[i, 2], turns[i, 3]
                x, y, z = points[i, 0], points[i, 1], points[i, 2]
                p, q, r = two * (b * z - c * y), two * (c * x - a * z), two * (a * y - b * x)
                out[i, 0] = x + w * p + b * r - c * q
                out[i, 1] = y + w * q + c * p - a * r
                out[i, 2] = z + w * r + a * q - b * p

        made = np.empty((many, 3), array(points).dtype)
        return lambda: run(array(turns), array(points), made)

    return beside_torch(
        f"{many >> 10}K points turned by quaternions, {kind(dtype)}",
        turned,
        (-(-many // 128),),
        (turns, points, torch.empty_like(points), 128),
        theirs,
        turns,
        points,
        bound=1e-5 if dtype == _F32 else 1e-14,
        more=by_numba(make),
    )


def _inverter(nb):
    """Inverses of rows of 16 by numba."""

    @nb.njit(parallel=True, fastmath=True)
    def run(x, out):
        for i in nb.prange(x.shape[0]):
            m, o = x[i], out[i]
            s0, s1 = m[0] * m[5] - m[4] * m[1], m[0] * m[6] - m[4] * m[2]
            s2, s3 = m[0] * m[7] - m[4] * m[3], m[1] * m[6] - m[5] * m[2]
            s4, s5 = m[1] * m[7] - m[5] * m[3], m[2] * m[7] - m[6] * m[3]
            c5, c4 = m[10] * m[15] - m[14] * m[11], m[9] * m[15] - m[13] * m[11]
            c3, c2 = m[9] * m[14] - m[13] * m[10], m[8] * m[15] - m[12] * m[11]
            c1, c0 = m[8] * m[14] - m[12] * m[10], m[8] * m[13] - m[12] * m[9]
            d = np.float32(1) / (s0 * c5 - s1 * c4 + s2 * c3 + s3 * c2 - s4 * c1 + s5 * c0)
            o[0], o[1] = (
                (m[5] * c5 - m[6] * c4 + m[7] * c3) * d,
                (m[2] * c4 - m[1] * c5 - m[3] * c3) * d,
            )
            o[2], o[3] = (
                (m[13] * s5 - m[14] * s4 + m[15] * s3) * d,
                (m[10] * s4 - m[9] * s5 - m[11] * s3) * d,
            )
            o[4], o[5] = (
                (m[6] * c2 - m[4] * c5 - m[7] * c1) * d,
                (m[0] * c5 - m[2] * c2 + m[3] * c1) * d,
            )
            o[6], o[7] = (
                (m[14] * s2 - m[12] * s5 - m[15] * s1) * d,
                (m[8] * s5 - m[10] * s2 + m[11] * s1) * d,
            )
            o[8], o[9] = (
                (m[4] * c4 - m[5] * c2 + m[7] * c0) * d,
                (m[1] * c2 - m[0] * c4 - m[3] * c0) * d,
            )
            o[10], o[11] = (
                (m[12] * s4 - m[13] * s2 + m[15] * s0) * d,
                (m[9] * s2 - m[8] * s4 - m[11] * s0) * d,
            )
            o[12], o[13] = (
                (m[5] * c1 - m[4] * c3 - m[6] * c0) * d,
                (m[0] * c3 - m[1] * c1 + m[2] * c0) * d,
            )
            o[14], o[15] = (
                (m[13] * s1 - m[12] * s3 - m[14] * s0) * d,
                (m[8] * s3 - m[9] * s1 + m[10] * s0) * d,
            )

    return run


def _inverses(many: int) -> Row:
    x = normal(many, 4, 4) + 4 * torch.eye(4)
    flat = x.reshape(-1)

    def make(nb):
        run = _inverter(nb)
        made = np.empty((many, 16), np.float32)
        return lambda: run(array(flat).reshape(many, 16), made)

    return beside_torch(
        f"inverses of {many >> 10}K matrices of 4 x 4 f32",
        inverses,
        (many // 128,),
        (flat, torch.empty_like(flat), 128),
        lambda x: torch.linalg.inv(x).reshape(-1),
        x,
        bound=1e-3,
        more=by_numba(make),
        compiles=False,
    )


def _within(many: int, corners_: int) -> Row:
    x, y = normal(many), normal(many + 1)[1:].contiguous()
    angle = torch.arange(corners_) * (2 * math.pi / corners_)
    length = 1.0 + 0.4 * torch.sin(7 * angle)
    corners = torch.stack((length * torch.cos(angle), length * torch.sin(angle)), 1)

    def theirs(x, y):
        odd = torch.zeros(many, dtype=torch.bool)
        for n in range(corners_):
            (ax, ay), (bx, by) = corners[n], corners[n - 1]
            crossed = (ay > y) != (by > y)
            odd = odd ^ (crossed & (x < (bx - ax) * (y - ay) / (by - ay) + ax))
        return odd.to(_U8)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, y, corners, out):
            for p in nb.prange(x.size // 64):
                out[64 * p : 64 * p + 64] = 0
                for n in range(corners.shape[0]):
                    ax, ay = corners[n, 0], corners[n, 1]
                    bx, by = corners[n - 1, 0], corners[n - 1, 1]
                    for i in range(64 * p, 64 * p + 64):
                        crossed = (ay > y[i]) != (by > y[i])
                        meets = x[i] < (bx - ax) * (y[i] - ay) / (by - ay) + ax
                        out[i] ^= np.uint8(crossed & meets)

        made = np.empty(many, np.uint8)
        return lambda: run(array(x), array(y), array(corners), made)

    return beside_torch(
        f"which of {many >> 10}K points are inside of {corners_} corners",
        within,
        (many // 256,),
        (x, y, corners, torch.empty(many, dtype=_U8), 256),
        theirs,
        x,
        y,
        more=by_numba(make),
        compiles=False,
    )


def _morton(many: int) -> Row:
    x, y, z = (torch.rand(many, generator=torch.Generator().manual_seed(i)) for i in range(3))

    def theirs(x, y, z):
        def spread(a):
            v = (a * 1024).clamp(0, 1023).long()
            v = (v * 0x00010001) & 0xFF0000FF
            v = (v * 0x00000101) & 0x0F00F00F
            v = (v * 0x00000011) & 0xC30C30C3
            return (v * 0x00000005) & 0x49249249

        return ((spread(x) << 2) | (spread(y) << 1) | spread(z)).to(_I32)

    def make(nb):
        @nb.njit
        def spread(a):
            v = np.int32(min(max(a * np.float32(1024), np.float32(0)), np.float32(1023)))
            v = np.int32(v * np.int32(0x00010001)) & np.int32(-16776961)
            v = np.int32(v * np.int32(0x00000101)) & np.int32(0x0F00F00F)
            v = np.int32(v * np.int32(0x00000011)) & np.int32(-1022611261)
            return np.int32(v * np.int32(0x00000005)) & np.int32(0x49249249)

        @nb.njit(parallel=True)
        def run(x, y, z, out):
            for i in nb.prange(x.size):
                out[i] = (spread(x[i]) << 2) | (spread(y[i]) << 1) | spread(z[i])

        made = np.empty(many, np.int32)
        return lambda: run(array(x), array(y), array(z), made)

    return beside_torch(
        f"{many >> 10}K places in a cube to bits in turn",
        morton,
        (many // 512,),
        (x, y, z, torch.empty(many, dtype=torch.uint32), 512),
        theirs,
        x,
        y,
        z,
        more=by_numba(make),
    )


def _eliminated(many: int, size: int, dtype: torch.dtype) -> Row:
    x = normal(many, size, size).to(dtype) + 2 * size * torch.eye(size, dtype=dtype)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, out):
            for i in nb.prange(x.shape[0]):
                a = out[i]
                a[:] = x[i]
                for k in range(a.shape[0] - 1):
                    over = a.dtype.type(1) / a[k, k]
                    for r in range(k + 1, a.shape[0]):
                        share = a[r, k] * over
                        a[r, k] = share
                        for c in range(k + 1, a.shape[0]):
                            a[r, c] -= share * a[k, c]

        made = np.empty_like(array(x))
        return lambda: run(array(x), made)

    return beside_torch(
        f"triangles of {many} matrices of {size} {kind(dtype)} without pivots, 8 at a time",
        eliminated,
        (many // 8,),
        (x, torch.empty_like(x), size, 8),
        lambda x: torch.linalg.lu_factor_ex(x, pivot=True)[0],
        x,
        bound=1e-5 if dtype == _F32 else 1e-13,
        more=by_numba(make),
        compiles=False,
    )


def _kronecker(m: int, n: int, dtype: torch.dtype) -> Row:
    a, b = normal(m, m).to(dtype), normal(n, n).to(dtype)

    def make(nb):
        @nb.njit(parallel=True)
        def run(a, b, out):
            n = b.shape[0]
            for i in nb.prange(out.shape[0]):
                held = b[i % n]
                for j in range(a.shape[1]):
                    left = a[i // n, j]
                    for k in range(n):
                        out[i, j * n + k] = left * held[k]

        made = np.empty((m * n, m * n), array(a).dtype)
        return lambda: run(array(a), array(b), made)

    return beside_torch(
        f"Kronecker's product of {m} x {m} and {n} x {n} {kind(dtype)}, flat",
        kronecker,
        (-(-((m * n) ** 2) // 1024),),
        (a, b, torch.empty(m * n, m * n, dtype=dtype), 1024),
        lambda a, b: (a[:, None, :, None] * b[None, :, None]).reshape(m * n, m * n),
        a,
        b,
        bound=1e-6,
        more=by_numba(make),
    )


def _noise(height: int, width: int) -> Row:
    column, line = torch.arange(width), torch.arange(height)[:, None]

    def theirs(scale):
        fx, fy = column.to(scale.dtype) * scale, line.to(scale.dtype) * scale
        dx, dy, ix, iy = fx - fx.floor(), fy - fy.floor(), fx.long(), fy.long()

        def corner(r, s):
            mixed = ((ix + s) * 374761393 + (iy + r) * 668265263) & 0xFFFFFFFF
            mixed = ((mixed ^ (mixed >> 13)) * 1274126177) & 0xFFFFFFFF
            which = (mixed ^ (mixed >> 16)) & 7
            a, b = dx - s, dy - r
            u, v = torch.where(which < 4, a, b), torch.where(which < 4, b, a)
            v = torch.where(which & 2 != 0, -0.5 * v, 0.5 * v)
            return torch.where(which & 1 != 0, -u, u) + v

        sx, sy = (t * t * t * (t * (t * 6 - 15) + 10) for t in (dx, dy))
        top = corner(0, 0) + sx * (corner(0, 1) - corner(0, 0))
        bottom = corner(1, 0) + sx * (corner(1, 1) - corner(1, 0))
        return top + sy * (bottom - top)

    return beside_torch(
        f"noise of slopes, {height} x {width} f32",
        slopes_of_noise,
        (width // 256, height),
        (torch.empty(height, width), 1 / 16, 256),
        theirs,
        torch.tensor(1 / 16),
        bound=1e-5,
    )


def _mixture(many: int, parts: int, axes: int, dtype: torch.dtype) -> Row:
    x, means = normal(many, axes).to(dtype), normal(parts, axes).to(dtype)
    rates, logs = (
        normal(parts, axes + 1)[:, 1:].square().contiguous().to(dtype),
        normal(parts).to(dtype),
    )

    def theirs(x, means, rates, logs):
        far = ((x[:, None] - means).square() * rates).sum(-1)
        return torch.logsumexp(logs - 0.5 * far, 1)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, means, rates, logs, out):
            half = x.dtype.type(0.5)
            for i in nb.prange(x.shape[0]):
                score = np.empty(logs.size, x.dtype)
                for j in range(logs.size):
                    far = x.dtype.type(0)
                    for k in range(x.shape[1]):
                        apart = x[i, k] - means[j, k]
                        far += apart * apart * rates[j, k]
                    score[j] = logs[j] - half * far
                high, total = score.max(), x.dtype.type(0)
                for j in range(logs.size):
                    total += np.exp(score[j] - high)
                out[i] = high + np.log(total)

        made = np.empty(many, array(x).dtype)
        return lambda: run(*map(array, (x, means, rates, logs)), made)

    return beside_torch(
        f"likelihoods of {many} points of {axes} by {parts} bells {kind(dtype)}, tiles 32x{parts}",
        mixture,
        (many // 32,),
        (x, means, rates, logs, torch.empty(many, dtype=dtype), parts, axes, 32),
        theirs,
        x,
        means,
        rates,
        logs,
        bound=1e-5 if dtype == _F32 else 1e-13,
        more=by_numba(make),
    )


def _pulled(bodies: int, dtype: torch.dtype) -> Row:
    x, y, mass = normal(bodies), normal(bodies + 1)[1:].contiguous(), normal(bodies + 2)[2:].abs()
    x, y, mass = x.to(dtype), y.to(dtype), mass.contiguous().to(dtype)

    def theirs(x, y, mass):
        dx, dy = x - x[:, None], y - y[:, None]
        far = dx * dx + dy * dy + 2.0**-10
        weight = mass / (far * far.sqrt())
        return (weight * dx).sum(1), (weight * dy).sum(1)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, y, mass, ax, ay):
            soft = x.dtype.type(2.0**-10)
            for i in nb.prange(x.size):
                a = b = x.dtype.type(0)
                for j in range(x.size):
                    dx, dy = x[j] - x[i], y[j] - y[i]
                    far = dx * dx + dy * dy + soft
                    weight = mass[j] / (far * np.sqrt(far))
                    a, b = a + weight * dx, b + weight * dy
                ax[i], ay[i] = a, b

        made = [np.empty_like(array(x)) for _ in range(2)]
        return lambda: run(array(x), array(y), array(mass), *made)

    return beside_torch(
        f"pulls of {bodies} bodies in the plane, {kind(dtype)}, tiles 16x64",
        pulled,
        (bodies // 16,),
        (x, y, mass, torch.empty_like(x), torch.empty_like(x), 16, 64),
        theirs,
        x,
        y,
        mass,
        outputs=2,
        bound=1e-4 if dtype == _F32 else 1e-12,
        more=by_numba(make),
    )


def _strided(rows_: int, width: int) -> Row:
    x, y = normal(2 * rows_, 3 * width).double(), normal(width, rows_).double()
    views, out = (x[::2, ::3], y.t()), torch.empty(rows_, width, dtype=_F64)
    given, made = [array(each) for each in views], np.empty((rows_, width))
    return beside_torch(
        f"a x + y of {rows_} x {width} f64, x every third of every second row, y turned, tiles 16x64",
        strided_sum,
        (-(-width // 64), -(-rows_ // 16)),
        (*views, out, 0.25, 16, 64),
        lambda x, y: 0.25 * x[::2, ::3] + y.t(),
        x,
        y,
        bound=1e-14,
        more={"NumPy": lambda: np.add(0.25 * given[0], given[1], out=made)},
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _rays(1 << 16, 32),
        lambda: _turned(1 << 18, _F32),
        lambda: _turned(1 << 18, _F64),
        lambda: _inverses(1 << 16),
        lambda: _within(1 << 17, 32),
        lambda: _morton(1 << 20),
        lambda: _eliminated(4096, 16, _F32),
        lambda: _eliminated(2048, 16, _F64),
        lambda: _kronecker(32, 40, _F32),
        lambda: _noise(720, 1280),
        lambda: _mixture(8192, 32, 8, _F32),
        lambda: _mixture(8192, 32, 8, _F64),
        lambda: _pulled(1024, _F32),
        lambda: _pulled(1024, _F64),
        lambda: _strided(700, 900),
    ]
