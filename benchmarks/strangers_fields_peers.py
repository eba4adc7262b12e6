"""What numba compiles beside the kernels of ``unseen_strangers_fields``: functions that make a function of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from benchmarks.unseen_rows import numba

_NB = numba()


def smeared(h: int, w: int, angles: int, bins: int) -> Callable[..., None]:
    def run(sines, cosine, sine, out):
        f = np.float32
        for y in _NB.prange(h):
            out[y] = 0
            for a in range(angles):
                c = cosine[a]
                first = (f(y) - f((h - 1) / 2)) * sine[a] + f((bins - 1) / 2) - f((w - 1) / 2) * c
                for x in range(w):
                    s = first + f(x) * c
                    at = np.int32(s)
                    part = s - f(at)
                    out[y, x] += (f(1) - part) * sines[a, at] + part * sines[a, at + 1]
            for x in range(w):
                out[y, x] *= f(math.pi / angles)

    return run


def echoed(h: int, w: int, pitch: float, sensors: int, rate: float) -> Callable[..., None]:
    def run(echoes, places, out):
        f = np.float32
        for row in _NB.prange(h):
            z = f(row + 20) * f(pitch)
            for column in range(w):
                x, total, weights = f(column) * f(pitch), f(0), f(0)
                for c in range(sensors):
                    aside = x - places[c]
                    weight = f(1) - abs(aside) / z
                    if weight > 0:
                        s = (z + np.sqrt(z * z + aside * aside)) * f(rate)
                        at = np.int32(s)
                        low = f(echoes[c, at])
                        total += weight * (low + (s - f(at)) * (f(echoes[c, at + 1]) - low))
                        weights += weight
                out[row, column] = total / weights

    return run


def relaxed(h: int, w: int, share: float) -> Callable[..., None]:
    def run(u, source):
        for y in _NB.prange(1, h - 1):
            for x in range(2 - y % 2, w - 1, 2):
                new = u[y - 1, x] + u[y + 1, x] + u[y, x - 1] + u[y, x + 1] - source[y, x]
                u[y, x] += share * (0.25 * new - u[y, x])

    return run


def flooded(h: int, w: int, step: int) -> Callable[..., None]:
    def run(seeds, out):
        for y in _NB.prange(h):
            for x in range(w):
                best, least = np.int32(-1), np.int32(1 << 30)
                for b in range(max(y - step, y % step), min(y + step, h - 1) + 1, step):
                    for a in range(max(x - step, x % step), min(x + step, w - 1) + 1, step):
                        seed = seeds[b, a]
                        if seed >= 0:
                            row = seed // np.int32(w)
                            dy, dx = row - np.int32(y), seed - row * np.int32(w) - np.int32(x)
                            far = dy * dy + dx * dx
                            if far < least:
                                best, least = seed, far
                out[y, x] = best

    return run


def rimmed(h: int, w: int, radius: int) -> Callable[..., None]:
    def run(x, offsets, wide, room, out):
        for y in _NB.prange(h + 2 * radius):
            line = x[min(max(y - radius, 0), h - 1)]
            wide[y, :radius], wide[y, w + radius :] = line[0], line[w - 1]
            wide[y, radius : w + radius] = line
        for y in _NB.prange(h):
            most, least = room[y], out[y]
            most[:], least[:] = 0, 255
            for n in range(offsets.shape[0]):
                line = wide[y + radius + offsets[n, 0], radius + offsets[n, 1] :]
                for i in range(w):
                    most[i], least[i] = max(most[i], line[i]), min(least[i], line[i])
            for i in range(w):
                least[i] = most[i] - least[i]

    return run


def away(rows: int, width: int) -> Callable[..., None]:
    def run(marks, out):
        for r in _NB.prange(rows):
            far = np.int16(20000)
            for i in range(width):
                far = np.int16(0) if marks[r, i] else np.int16(far + 1)
                out[r, i] = far
            far = np.int16(20000)
            for i in range(width - 1, -1, -1):
                far = np.int16(0) if marks[r, i] else np.int16(far + 1)
                out[r, i] = min(out[r, i], far)

    return run


def swung(d: int, h: int, w: int) -> Callable[..., None]:
    def run(volume, t, out):
        f, g = np.float32, np.int32
        for k in _NB.prange(d):
            for j in range(h):
                for i in range(w):
                    p = t[0, 0] * f(k) + t[0, 1] * f(j) + t[0, 2] * f(i) + t[0, 3]
                    q = t[1, 0] * f(k) + t[1, 1] * f(j) + t[1, 2] * f(i) + t[1, 3]
                    r = t[2, 0] * f(k) + t[2, 1] * f(j) + t[2, 2] * f(i) + t[2, 3]
                    a, b, c = g(np.floor(p)), g(np.floor(q)), g(np.floor(r))
                    p, q, r, total = p - f(a), q - f(b), r - f(c), f(0)
                    for da in range(2):
                        for db in range(2):
                            u, v = a + da, b + db
                            if 0 <= u < d and 0 <= v < h:
                                low = f(volume[u, v, c]) if 0 <= c < w else f(0)
                                high = f(volume[u, v, c + 1]) if 0 <= c + 1 < w else f(0)
                                share = (p if da else f(1) - p) * (q if db else f(1) - q)
                                total += share * (low + r * (high - low))
                    out[k, j, i] = total

    return run


def tinted(many: int) -> Callable[..., None]:
    def run(pixels, table, out):
        f, g = np.float32, np.int32
        for i in _NB.prange(many):
            x = f(pixels[i, 0]) * f(16 / 255)
            y = f(pixels[i, 1]) * f(16 / 255)
            z = f(pixels[i, 2]) * f(16 / 255)
            a, b, c = min(g(x), g(15)), min(g(y), g(15)), min(g(z), g(15))
            x, y, z, at = x - f(a), y - f(b), z - f(c), a * g(289) + b * g(17) + c
            first = 289 if x >= y and x >= z else (17 if y >= z else 1)
            last = 1 if z <= x and z <= y else (17 if y <= x else 289)
            most, least = max(x, y, z), min(x, y, z)
            middle = x + y + z - most - least
            for k in range(3):
                found = (f(1) - most) * table[at, k] + least * table[at + 307, k]
                found += (most - middle) * table[at + first, k]
                found += (middle - least) * table[at + 307 - last, k]
                out[i, k] = np.uint8(found + f(0.5))

    return run


def lifted(rows: int, half: int) -> Callable[..., None]:
    def run(x, low, high):
        for r in _NB.prange(rows):
            line, smooth, detail = x[r], low[r], high[r]
            for k in range(half):
                detail[k] = line[2 * k + 1] - ((line[2 * k] + line[2 * k + 2]) >> 1)
            smooth[0] = line[0] + ((2 * detail[0] + 2) >> 2)
            for k in range(1, half):
                smooth[k] = line[2 * k] + ((detail[k - 1] + detail[k] + 2) >> 2)
            smooth[half] = line[2 * half] + ((2 * detail[half - 1] + 2) >> 2)

    return run


def moved(h: int, w: int, side: int, many: int, reach: int) -> Callable[..., None]:
    def run(new, old, wide, cost, which):
        for y in range(h + many - 1):
            line = old[min(max(y - reach, 0), h - 1)]
            wide[y, :reach], wide[y, w + reach :] = line[0], line[w - 1]
            wide[y, reach : w + reach] = line
        for y in _NB.prange(h // side):
            for x in range(w // side):
                best, place = 1 << 30, 0
                for n in range(many * many):
                    off = np.int32(0)
                    for j in range(y * side, y * side + side):
                        a = new[j, x * side : x * side + side]
                        b = wide[j + n // many, x * side + n % many :]
                        for i in range(side):
                            off += np.int32(max(a[i], b[i]) - min(a[i], b[i]))
                    if off < best:
                        best, place = off, n
                cost[y, x], which[y, x] = best, place

    return run


def apart(h: int, w: int, most: int) -> Callable[..., None]:
    def run(left, right, out, cost):
        u = np.uint32
        for y in _NB.prange(h):
            out[y], cost[y] = 0, 99
            for d in range(most):
                for x in range(d, w):
                    v = u(left[y, x] ^ right[y, x - d])
                    v = u(v - ((v >> u(1)) & u(0x55555555)))
                    v = u((v & u(0x33333333)) + ((v >> u(2)) & u(0x33333333)))
                    v = u(u((u(v + (v >> u(4))) & u(0x0F0F0F0F)) * u(0x01010101)) >> u(24))
                    less = np.uint8(v) < cost[y, x]
                    out[y, x] = np.uint8(d) if less else out[y, x]
                    cost[y, x] = np.uint8(v) if less else cost[y, x]

    return run


def streamed(d: int, h: int, w: int, share: float) -> Callable[..., None]:
    def run(f, way, weight, out):
        g = np.float32
        for z in _NB.prange(d):
            came = np.empty(19, np.float32)
            for y in range(h):
                for x in range(w):
                    much, jz, jy, jx = g(0), g(0), g(0), g(0)
                    for q in range(19):
                        a, b, c = z - way[q, 0], y - way[q, 1], x - way[q, 2]
                        a = a - d if a >= d else a  # others wrap as Python's indices do
                        b = b - h if b >= h else b
                        c = c - w if c >= w else c
                        v = f[q, a, b, c]
                        came[q], much, jz = v, much + v, jz + v * g(way[q, 0])
                        jy, jx = jy + v * g(way[q, 1]), jx + v * g(way[q, 2])
                    uz, uy, ux = jz / much, jy / much, jx / much
                    still = g(1) - g(1.5) * (uz * uz + uy * uy + ux * ux)
                    for q in range(19):
                        along = uz * g(way[q, 0]) + uy * g(way[q, 1]) + ux * g(way[q, 2])
                        calm = still + g(3) * along + g(4.5) * along * along
                        calm = weight[q] * much * calm
                        out[q, z, y, x] = came[q] + g(share) * (calm - came[q])

    return run


def shaded() -> Callable[..., None]:
    def run(points, faces, normals):
        for n in _NB.prange(normals.shape[0]):
            normals[n, 0] = normals[n, 1] = normals[n, 2] = 0
        for n in range(faces.shape[0]):
            a, b, c = points[faces[n, 0]], points[faces[n, 1]], points[faces[n, 2]]
            px, py, pz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
            qx, qy, qz = c[0] - a[0], c[1] - a[1], c[2] - a[2]
            for k in range(3):
                out = normals[faces[n, k]]
                out[0] += py * qz - pz * qy
                out[1] += pz * qx - px * qz
                out[2] += px * qy - py * qx

    return run


def pushed(side: float, many: int, slots: int, reach: float) -> Callable[..., None]:
    def run(places, others, force, energy):
        over_side = 1 / side
        for i in _NB.prange(many):
            fx, fy, fz, total = 0.0, 0.0, 0.0, 0.0
            for n in range(slots):
                j = others[i, n]
                if j < 0:
                    break
                x, y, z = (
                    places[i, 0] - places[j, 0],
                    places[i, 1] - places[j, 1],
                    places[i, 2] - places[j, 2],
                )
                x -= side * np.floor(x * over_side + 0.5)
                y -= side * np.floor(y * over_side + 0.5)
                z -= side * np.floor(z * over_side + 0.5)
                square = x * x + y * y + z * z
                if square < reach * reach:
                    over = 1 / square
                    cube = over * over * over
                    pull = 24 * over * cube * (2 * cube - 1)
                    fx, fy, fz = fx + pull * x, fy + pull * y, fz + pull * z
                    total += 2 * cube * (cube - 1)
            force[i, 0], force[i, 1], force[i, 2], energy[i] = fx, fy, fz, total

    return run


def oriented(h: int, w: int) -> Callable[..., None]:
    def run(x, out):
        f = np.float32
        for cy in _NB.prange(h // 8):
            out[cy] = 0
            for y in range(cy * 8, cy * 8 + 8):
                above, below, line = x[max(y - 1, 0)], x[min(y + 1, h - 1)], x[y]
                for i in range(w):
                    dy = f(below[i]) - f(above[i])
                    dx = f(line[min(i + 1, w - 1)]) - f(line[max(i - 1, 0)])
                    size, turn = np.sqrt(dx * dx + dy * dy), np.arctan2(dy, dx) * f(9 / math.pi)
                    turn = turn + f(8.5) if turn < 0 else turn - f(0.5)
                    low = np.int32(np.floor(turn))
                    part, cell = turn - f(low), out[cy, i // 8]
                    cell[low if low >= 0 else 8] += size * (f(1) - part)
                    cell[low + 1 if low < 8 else 0] += size * part

    return run
