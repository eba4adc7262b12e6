"""The semantics of each element-wise operation of Tile IR, by mnemonic.

Functions in the table are called as ``function(*operands, element, **attributes)``:

* ``operands`` are arrays in the dtypes of ``arrays``, all of one shape;
* ``element`` is the element type of the first operand (``ptr`` for pointers), but for ``select`` that
  of the values; it may be passed as a keyword, so that ``functools.partial`` can bind it;
* ``attributes`` are keywords with plain values: the strings and flags of the attributes of Tile IR
  (``signedness``, ``overflow``, ``comparison_predicate``, ``comparison_ordering``,
  ``flush_to_zero``, ``propagate_nan``, ``saturating``), with ``rounding`` for every rounding mode,
  ``to`` for the result type of a conversion, and ``pointee`` for the element type behind a pointer.

The result is a new array or a view of an operand. Operands are never modified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from tilewright.numerics import convert, float_ops, int_ops, math_ops, pointers
from tilewright.numerics.arrays import Array


def select(cond: Array, val_if_true: Array, val_if_false: Array, element: str) -> Array:
    """``val_if_true`` where ``cond`` holds, else ``val_if_false``; bits are copied."""
    return np.where(cond, val_if_true, val_if_false)


ELEMENTWISE: Mapping[str, Callable[..., Array]] = MappingProxyType(
    {
        "absf": float_ops.absf,
        "absi": int_ops.absi,
        "addf": float_ops.addf,
        "addi": int_ops.addi,
        "andi": int_ops.andi,
        "atan2": math_ops.atan2,
        "bitcast": convert.bitcast,
        "ceil": float_ops.ceil,
        "cmpf": float_ops.cmpf,
        "cmpi": int_ops.cmpi,
        "cos": math_ops.cos,
        "cosh": math_ops.cosh,
        "divf": float_ops.divf,
        "divi": int_ops.divi,
        "exp": math_ops.exp,
        "exp2": math_ops.exp2,
        "exti": convert.exti,
        "floor": float_ops.floor,
        "fma": float_ops.fma,
        "fpowf": math_ops.fpowf,
        "fpowi": math_ops.fpowi,
        "ftof": convert.ftof,
        "ftoi": convert.ftoi,
        "int_to_ptr": pointers.int_to_ptr,
        "itof": convert.itof,
        "log": math_ops.log,
        "log2": math_ops.log2,
        "maxf": float_ops.maxf,
        "maxi": int_ops.maxi,
        "minf": float_ops.minf,
        "mini": int_ops.mini,
        "mulf": float_ops.mulf,
        "mulhii": int_ops.mulhii,
        "muli": int_ops.muli,
        "negf": float_ops.negf,
        "negi": int_ops.negi,
        "offset": pointers.offset,
        "ori": int_ops.ori,
        "pow": math_ops.fpowf,
        "ptr_to_int": pointers.ptr_to_int,
        "ptr_to_ptr": pointers.ptr_to_ptr,
        "remf": float_ops.remf,
        "remi": int_ops.remi,
        "rsqrt": math_ops.rsqrt,
        "select": select,
        "shli": int_ops.shli,
        "shri": int_ops.shri,
        "sin": math_ops.sin,
        "sinh": math_ops.sinh,
        "sqrt": float_ops.sqrt,
        "subf": float_ops.subf,
        "subi": int_ops.subi,
        "tan": math_ops.tan,
        "tanh": math_ops.tanh,
        "trunci": convert.trunci,
        "xori": int_ops.xori,
    }
)
