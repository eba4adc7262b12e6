"""The diagnostic codes of ``arith`` and ``math``."""

from __future__ import annotations

from tilewright.diagnostics import define_code

CONSTANT = define_code(
    "arith-constant",
    "The value of a constant does not have the type of its result.",
    "A scalar constant is a number with its type, as in `arith.constant 1.0 : f32`; a tile is "
    "written `dense<...>`, with one number for all elements or with nested lists.",
)
PREDICATE = define_code(
    "arith-predicate",
    "The comparison has no such predicate.",
    "arith.cmpi knows eq, ne and slt, sle, sgt, sge (signed) or ult, ule, ugt, uge (unsigned). "
    "arith.cmpf knows oeq, one, olt, ole, ogt, oge, which are false for NaN, and ueq, une, ult, "
    "ule, ugt, uge, which are true for NaN.",
)
WIDTH = define_code(
    "arith-width",
    "The widths of operand and result do not match the conversion.",
    "extsi and extui widen, trunci narrows, bitcast keeps the width. tf32 has 19 bits.",
)
INDEX_CAST = define_code(
    "arith-index-cast", "index_cast and index_castui convert between integers and index."
)
CONDITION = define_code(
    "arith-condition",
    "The condition of a select is an i1, or a tile of i1 in the shape of the values.",
)
CONVERSION = define_code(
    "arith-conversion", "The conversion between integers and floats does not exist."
)
ROUNDING = define_code(
    "arith-rounding-mode",
    "The operation or its element type has no such rounding mode.",
    "math.exp and math.tanh are full or, for f32, approx.",
)
