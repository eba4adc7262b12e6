"""The semantics of scalar and element-wise operations of Tile IR, defined only here.

The names exported here load neither NumPy nor ml_dtypes. Tiles and their arithmetic are in the
modules ``arrays``, ``semantics`` (the table of element-wise operations), ``convert``, ``matrix``,
``int_ops`` and ``float_ops``. ``legality`` says which modes conversions accept.
"""

from tilewright.numerics.element_types import (
    BASE_FLOAT_TYPES,
    CONSTANT_TYPES,
    FLOAT_TYPES,
    FORMAT_OF_TAG,
    FORMATS,
    INT_TYPES,
    ElementFormat,
    Version,
)
from tilewright.numerics.floats import (
    Special,
    bits_to_float,
    decode,
    encode,
    float_to_bits,
    format_float,
    is_inf,
    is_nan,
    is_negative,
    is_zero,
    padding_bits,
    round_decimal_text,
)

__all__ = [
    "BASE_FLOAT_TYPES",
    "CONSTANT_TYPES",
    "FLOAT_TYPES",
    "FORMATS",
    "FORMAT_OF_TAG",
    "INT_TYPES",
    "ElementFormat",
    "Special",
    "Version",
    "bits_to_float",
    "decode",
    "encode",
    "float_to_bits",
    "format_float",
    "is_inf",
    "is_nan",
    "is_negative",
    "is_zero",
    "padding_bits",
    "round_decimal_text",
]
