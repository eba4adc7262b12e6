"""Fits the polynomials of ``tilewright.cpu.mathlib``: ``python tools/fit_polynomials.py [NAME ...]``.

Prints the coefficients, the constant one first, rounded to the width of the float, and the largest
relative error of the function that the polynomial stands in, before that rounding. Needs mpmath.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp

mp.mp.prec = 200

Function = Callable[[Any], Any]
_ROUNDS = 12
_GRID = 16
_LEAST_WEIGHT = mp.mpf(2) ** -90


@dataclass(frozen=True)
class Fit:
    """The polynomial in the variable of ``target``; ``weight`` times its error is the error that
    counts. ``near_zero`` replaces the target where it cannot be evaluated."""

    target: Function
    weight: Function
    low: Any
    high: Any
    degree: int
    bits: int = 64
    near_zero: Any = 0


def _remez(fit: Fit) -> tuple[list[Any], Any]:
    """Minimax coefficients by exchange, and the largest weighted error."""
    low, high, count = mp.mpf(fit.low), mp.mpf(fit.high), fit.degree + 1
    # At zero itself most weights are zero.
    low = high / 2**12 if low == 0 else low

    def target(x: Any) -> Any:
        return mp.mpf(fit.near_zero) if abs(x) < mp.mpf(10) ** -20 else fit.target(x)

    def weight(x: Any) -> Any:
        return max(abs(fit.weight(x)), _LEAST_WEIGHT)

    def nodes(number: int) -> list[Any]:
        middle, half = (low + high) / 2, (high - low) / 2
        return [middle - half * mp.cos(mp.pi * k / number) for k in range(number + 1)]

    points, grid = nodes(count), nodes(_GRID * count)
    coefficients: list[Any] = []
    errors: list[Any] = []
    for _ in range(_ROUNDS):
        matrix, right = mp.matrix(count + 1, count + 1), mp.matrix(count + 1, 1)
        for row, x in enumerate(points):
            for power in range(count):
                matrix[row, power] = x**power
            matrix[row, count] = (-1) ** row / weight(x)
            right[row] = target(x)
        solution = mp.lu_solve(matrix, right)
        coefficients = [solution[power] for power in range(count)]
        errors = [weight(x) * (mp.polyval(coefficients[::-1], x) - target(x)) for x in grid]
        peaks = _peaks(grid, errors, count + 1)
        if len(peaks) < count + 1:
            break
        points = [x for x, _ in peaks]
    return coefficients, max(map(abs, errors))


def _peaks(grid: list[Any], errors: list[Any], count: int) -> list[tuple[Any, Any]]:
    """The largest error between two changes of sign, for as many places as are needed."""
    found: list[tuple[Any, Any]] = []
    for x, error in zip(grid, errors):
        if not found or found[-1][1] * error < 0:
            found.append((x, error))
        elif abs(error) > abs(found[-1][1]):
            found[-1] = x, error
    while len(found) > count:
        found.pop(0 if abs(found[0][1]) < abs(found[-1][1]) else -1)
    return found


def _of_square(function: Function, leading: Function, power: int) -> Function:
    """``(function(r) - leading(r)) / r**power`` in ``z = r**2``."""
    return lambda z: (function(mp.sqrt(z)) - leading(mp.sqrt(z))) / mp.sqrt(z) ** power


def _double_atanh(s: Any) -> Any:
    return 2 * mp.atanh(s)


_LN2 = mp.log(2)
_EXP = (-_LN2 / 2 * (1 + mp.mpf(2) ** -10), _LN2 / 2 * (1 + mp.mpf(2) ** -10))
_ANGLE = (mp.pi / 4 * (1 + mp.mpf(2) ** -7)) ** 2
_LOG = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) * (1 + mp.mpf(2) ** -12)) ** 2


def _exp(degree: int, bits: int) -> Fit:
    return Fit(
        lambda r: (mp.expm1(r) - r) / r**2, lambda r: r * r / mp.exp(r), *_EXP, degree, bits, 0.5
    )


def _exp2(degree: int, bits: int) -> Fit:
    weight: Function = lambda r: abs(r) / 2**r + mp.mpf(2) ** (-20 if bits == 32 else -40)  # noqa: E731
    return Fit(lambda r: mp.expm1(r * _LN2) / r, weight, -0.5, 0.5, degree, bits, _LN2)


def _odd(function: Function, high: Any, degree: int, bits: int = 64) -> Fit:
    return Fit(
        _of_square(function, lambda r: r, 3),
        lambda z: mp.sqrt(z) ** 3 / function(mp.sqrt(z)),
        0,
        high,
        degree,
        bits,
    )


def _cos(degree: int, bits: int) -> Fit:
    target = _of_square(mp.cos, lambda r: 1 - r * r / 2, 4)
    return Fit(target, lambda z: z * z / mp.cos(mp.sqrt(z)), 0, _ANGLE, degree, bits)


def _log(degree: int) -> Fit:
    return Fit(_of_square(_double_atanh, lambda s: 2 * s, 3), lambda z: z, 0, _LOG, degree)


FITS = {
    "exp32": _exp(4, 32),
    "exp64": _exp(9, 64),
    "exp2 32": _exp2(5, 32),
    "exp2 64": _exp2(11, 64),
    "exp2, short": _exp2(6, 64),
    "log32": Fit(
        lambda t: (mp.log1p(t) - t) / t**2,
        lambda t: t * t / mp.log1p(t) if t else t,
        mp.mpf(-1) / 3,
        mp.mpf(1) / 3,
        8,
        32,
        -0.5,
    ),
    "log2, 32": Fit(
        lambda t: (mp.log1p(t) - t) / t**2 / _LN2,
        lambda t: t * t / mp.log1p(t) if t else t,
        -mp.mpf(1) / 3,
        mp.mpf(1) / 3,
        9,
        32,
        -mp.mpf(1) / 2 / _LN2,
    ),
    "log64": _log(6),
    "log, short": _log(4),
    "log, tail": Fit(
        _of_square(_double_atanh, lambda s: 2 * s + 2 * s**3 / 3, 5), lambda z: z * z, 0, _LOG, 7
    ),
    "sin32": _odd(mp.sin, _ANGLE, 2, 32),
    "sin64": _odd(mp.sin, _ANGLE, 5),
    "tan32": _odd(mp.tan, _ANGLE, 6, 32),
    "cos32": _cos(2, 32),
    "cos64": _cos(5, 64),
    "sinh": _odd(mp.sinh, 1, 6),
    "sinh32": _odd(mp.sinh, 1, 3, 32),
    "tanh32": _odd(mp.tanh, "0.8465", 6, 32),
    "atan": _odd(mp.atan, 1, 20),
    "atan, short": _odd(mp.atan, 1, 11),
}


def main() -> None:
    for name in sys.argv[1:] or FITS:
        fit = FITS[name]
        coefficients, error = _remez(fit)
        print(f"{name}: 2**{float(mp.log(error, 2)):.1f}")
        for value in coefficients:
            number = float(value)
            if fit.bits == 32:
                (number,) = struct.unpack("f", struct.pack("f", number))
            print(f"    {number!r},")


if __name__ == "__main__":
    main()
