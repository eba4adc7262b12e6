"""The remainder of an angle by pi/2, for angles of any size.

Up to ``LARGE`` multiples of pi/2, split into three floats, are subtracted. Beyond, the exact product
with 2/pi, of which 1248 bits are stored, is taken in integers of 256 bits (Payne and Hanek).
"""

from __future__ import annotations

from tilewright.cpu.mathlib.lanes import Formulas, Value
from tilewright.launching.native_code import ir

#: From here on (in absolute value) ``small_remainder`` must not be used.
LARGE = {32: 2.0**15, 64: 2.0**30}

_TWO_OVER_PI = 2 / 3.141592653589793
# pi/2 in three parts, each a float of full precision.
_PARTS = {
    32: (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    64: (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
_HALF_PI = _PARTS[64]

_WORD = ir.IntType(64)
_WIDE = ir.IntType(256)
_DOUBLE = ir.DoubleType()
# Zero bits before those of 2/pi, so that a window can begin before the first of them.
_PADDING_BYTES = 16
# The first 1248 bits of 2/pi, in hexadecimal.
_DIGITS = (
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424DD2E006492EEA"
    "09D1921CFE1DEB1CB129A73EE88235F52EBB4484E99C7026B45F7E413991D639835339F49C845F8BBDF9283B"
    "1FF897FFDE05980FEF2F118B5A0A6D1F6D367ECF27CB09B74F463F669E5FEA2D7527BAC7EBE5F17B3D0739F7"
    "8A5292EA6BFB5FB11F8D5D0856033046FC7B6BABF0CFBC20"
)


def small_remainder(f: Formulas, x: Value) -> tuple[Value, Value, Value]:
    """``x - quadrant * pi/2`` as a sum of two floats, and the quadrant's low bits as an integer.

    For absolute values below ``LARGE``. The remainder is at most a little more than pi/4.
    """
    whole, quadrant = f.rounded(x, _TWO_OVER_PI)
    first, second, third = _PARTS[f.bits]
    # Exact: the difference is a multiple of the last bit of pi/2, and below 1.
    rest = f.fma(-whole, f.number(first), x)
    product, error = f.two_product(whole, f.number(second))
    high = rest - product
    low = ((rest - high) - product) - error
    return high, f.fma(-whole, f.number(third), low), quadrant


def quick_remainder(f: Formulas, x: Value) -> tuple[Value, Value]:
    """The remainder by pi/2 as one float, within 1 ulp, and the quadrant, whose low bits count.

    For absolute values below ``LARGE``, after Cody and Waite: pi/2 is a sum of parts, of which each is subtracted by
    an fma.
    """
    whole, quadrant = f.rounded(x, _TWO_OVER_PI)
    rest = x
    for part in _PARTS[f.bits]:
        rest = f.fma(-whole, f.number(part), rest)
    return rest, quadrant


def any_remainder(module: ir.Module) -> ir.Function:
    """``i64 @tilewright.remainder(double x, ptr parts)``: stores the two parts, gives the quadrant.

    For finite x of at least 2**15; smaller ones would read outside the table.
    """
    name = "tilewright.remainder"
    found = module.globals.get(name)
    if found is not None:
        return found
    pointer = _DOUBLE.as_pointer()
    function = ir.Function(module, ir.FunctionType(_WORD, [_DOUBLE, pointer]), name)
    function.linkage = "internal"
    for attribute in ("noinline", "cold", "nounwind"):
        function.attributes.add(attribute)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    x, parts = function.args
    bits = builder.bitcast(x, _WORD)
    exponent = builder.and_(builder.lshr(bits, _WORD(52)), _WORD(0x7FF))
    mantissa = builder.or_(builder.and_(bits, _WORD(2**52 - 1)), _WORD(2**52))
    # |x| = mantissa * 2**(exponent - 1075). Bits of 2/pi of a weight that makes the product a
    # multiple of 4 are left out: those before position (exponent - 1075) - 2.
    position = builder.add(exponent, _WORD(8 * _PADDING_BYTES - 1075 - 2))
    first_byte = builder.lshr(position, _WORD(3))
    odd_bits = builder.zext(builder.and_(position, _WORD(7)), _WIDE)
    table = _table(module)
    address = builder.gep(table, [_WORD(0), first_byte])
    window = builder.load(builder.bitcast(address, _WIDE.as_pointer()), align=1)
    window = _big_endian(builder, window)
    product = builder.mul(window, builder.zext(mantissa, _WIDE))
    product = builder.shl(product, odd_bits)
    # The top two bits are the quadrant, the others the fraction of pi/2; round to nearest.
    quadrant = builder.trunc(builder.lshr(product, _WIDE(254)), _WORD)
    fraction = builder.shl(product, _WIDE(2))
    upper = builder.icmp_signed("<", fraction, _WIDE(0))
    quadrant = builder.add(quadrant, builder.zext(upper, _WORD))
    magnitude = builder.select(upper, builder.sub(_WIDE(0), fraction), fraction)
    high, low = _times_half_pi(builder, magnitude)
    negative = builder.xor(upper, builder.icmp_signed("<", bits, _WORD(0)))
    high, low = (builder.select(negative, builder.fneg(part), part) for part in (high, low))
    builder.store(high, parts)
    builder.store(low, builder.gep(parts, [_WORD(1)]))
    builder.ret(
        builder.select(
            builder.icmp_signed("<", bits, _WORD(0)), builder.sub(_WORD(0), quadrant), quadrant
        )
    )
    return function


def _big_endian(builder: ir.IRBuilder, window: ir.Value) -> ir.Value:
    if not _is_little_endian():
        return window
    swap = builder.module.declare_intrinsic("llvm.bswap", [_WIDE])
    return builder.call(swap, [window])


def _is_little_endian() -> bool:
    import sys

    return sys.byteorder == "little"


def _times_half_pi(builder: ir.IRBuilder, fraction: ir.Value) -> tuple[ir.Value, ir.Value]:
    """``fraction * 2**-256 * pi/2`` for an unsigned fraction, as a sum of two floats."""
    count = builder.module.declare_intrinsic(
        "llvm.ctlz", [_WIDE], ir.FunctionType(_WIDE, [_WIDE, ir.IntType(1)])
    )
    zeros = builder.call(count, [fraction, ir.IntType(1)(0)])
    # A fraction of 0 does not occur; the mask keeps the shift defined.
    leading = builder.shl(fraction, builder.and_(zeros, _WIDE(255)))
    top = builder.trunc(builder.lshr(leading, _WIDE(256 - 53)), _WORD)
    rest = builder.trunc(builder.lshr(leading, _WIDE(256 - 53 - 53)), _WORD)
    rest = builder.and_(rest, _WORD(2**53 - 1))
    # 2**(-53 - zeros) is the weight of the last bit of ``top``.
    exponent = builder.sub(_WORD(1023 - 53), builder.trunc(zeros, _WORD))
    weight = builder.bitcast(builder.shl(exponent, _WORD(52)), _DOUBLE)
    high = builder.fmul(builder.uitofp(top, _DOUBLE), weight)
    low = builder.fmul(builder.uitofp(rest, _DOUBLE), builder.fmul(weight, _DOUBLE(2.0**-53)))
    f = Formulas(builder, 1, 64)
    a, b = Value(f, high), Value(f, low)
    product, error = f.two_product(a, f.number(_HALF_PI[0]))
    error = error + f.fma(a, _HALF_PI[1], b * _HALF_PI[0])
    total, lost = f.fast_two_sum(product, error)
    return total.llvm, lost.llvm


def _table(module: ir.Module) -> ir.GlobalVariable:
    name = "tilewright.two_over_pi"
    data = bytes(_PADDING_BYTES) + bytes.fromhex(_DIGITS)
    variable = ir.GlobalVariable(module, ir.ArrayType(ir.IntType(8), len(data)), name)
    variable.initializer = ir.Constant(variable.value_type, bytearray(data))  # pyright: ignore[reportAttributeAccessIssue]
    variable.global_constant = True
    variable.linkage = "internal"
    return variable
