"""The reciprocal of the square root.

A first value, by an estimate of the processor and one step of Newton's, or by a root and a division, is
corrected in f32 by what it lacks, which is found exactly: ``1 - x y**2``. The correction is so fine that
the result is rounded correctly, whatever the first value; a test tries all significands. So the same
bits come out on every processor.
"""

from __future__ import annotations

from tilewright.cpu.mathlib.lanes import Formulas, Value, declare
from tilewright.launching.native_code import ir

#: The instructions that estimate, to 14 bits, by the width of vectors: with the feature that has them.
_ESTIMATES = {128: "avx512vl", 256: "avx512vl", 512: "avx512f"}


def reciprocal_root(f: Formulas, x: Value) -> Value:
    """``1 / sqrt(x)``: correctly rounded in f32; a root and a division in f64, below 1.5 ulp."""
    if f.bits == 64:
        return 1.0 / f.sqrt(x)
    width = f.lanes * f.bits
    if width in _ESTIMATES and _ESTIMATES[width] in f.features:
        end = _estimate_by_14_bits(f, x, width)
        first = f.fma(end * f.fma(-(x * end), end, 1.0), 0.5, end)
    else:
        end = first = 1.0 / f.sqrt(x)
    root, rest = f.two_product(x, first)
    lacks = f.fma(-rest, first, f.fma(-root, first, 1.0))
    # The square of what lacks decides some results that lie near the middle of two numbers.
    found = f.fma(first * lacks, f.fma(lacks, f.number(0.375), 0.5), first)
    # Correcting the reciprocals of zeros and infinities gives NaN; others only if they are NaN.
    return f.select(found.is_nan(), end, found)


def _estimate_by_14_bits(f: Formulas, x: Value, width: int) -> Value:
    ty, mask = x.llvm.type, ir.IntType(max(f.lanes, 8))
    zeros = f.splat(ty, 0.0)
    function = declare(
        f.builder.module,
        f"llvm.x86.avx512.rsqrt14.ps.{width}",
        ir.FunctionType(ty, [ty, ty, mask]),
    )
    return Value(f, f.builder.call(function, [x.llvm, zeros, mask(-1)]))
