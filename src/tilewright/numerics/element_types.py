"""The element types of Tile IR, one row per type. Imports neither NumPy nor xDSL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

Version = tuple[int, int]
"""A bytecode version, as ``(13, 1)``."""

NanKind = Literal["ieee", "all_ones", "none"]
"""Which patterns are NaN: ``ieee``, exponent all ones and a nonzero mantissa; ``all_ones``, exponent and
mantissa all ones; ``none``."""


@dataclass(frozen=True, slots=True)
class ElementFormat:
    """The format of one element type.

    IEEE 754 for f16, f32 and f64; OFP8 of the Open Compute Project for f8E4M3FN and f8E5M2, its microscaling formats
    (MX) for f8E8M0FNU and f4E2M1FN. ``bits`` counts the significant bits (19 for tf32); ``storage_bits`` is the size
    of one element in memory (8 for i1, 32 for tf32, 4 for the packed types). ``constant_bytes`` is the size of one
    element in the bytecode's constant pool: 0 for i1, whose elements are single bits, and None for i4, which has no
    constants. ``tag`` is that of the type in bytecode. The float fields are 0 or False for integers.
    """

    name: str
    kind: Literal["int", "float"]
    bits: int
    storage_bits: int
    tag: int
    since: Version
    constant_bytes: int | None
    exponent_bits: int = 0
    mantissa_bits: int = 0
    bias: int = 0
    signed: bool = True
    has_inf: bool = False
    has_zero: bool = True
    nan: NanKind = "none"
    precision: int = field(init=False)
    """Significant bits of a normal float, including the hidden one."""
    min_exponent: int = field(init=False)
    """Exponent of the smallest normal float, ``2**min_exponent``."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "precision", self.mantissa_bits + 1)
        object.__setattr__(self, "min_exponent", (1 if self.has_zero else 0) - self.bias)

    @property
    def is_float(self) -> bool:
        """Whether elements are floating-point numbers."""
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        """Whether elements are integers, including i1."""
        return self.kind == "int"

    @property
    def storage_bytes(self) -> int:
        """Bytes per element in memory. Raises ValueError for the packed 4-bit types."""
        if self.storage_bits % 8:
            raise ValueError(f"{self.name} elements take {self.storage_bits} bits, not whole bytes")
        return self.storage_bits // 8

    @property
    def mask(self) -> int:
        """The pattern with all value bits set."""
        return (1 << self.bits) - 1

    @property
    def sign_bit(self) -> int:
        """The sign bit of a float pattern; 0 if the type has no sign."""
        return 1 << (self.bits - 1) if self.signed else 0

    @property
    def magnitude_mask(self) -> int:
        """The exponent and mantissa bits of a float pattern."""
        return (1 << (self.exponent_bits + self.mantissa_bits)) - 1

    @property
    def inf_bits(self) -> int:
        """The pattern of +infinity. Raises ValueError if there is none."""
        if not self.has_inf:
            raise ValueError(f"{self.name} has no infinity")
        return ((1 << self.exponent_bits) - 1) << self.mantissa_bits

    @property
    def nan_bits(self) -> int:
        """The pattern of the canonical NaN (positive, quiet). Raises ValueError if there is none."""
        if self.nan == "none":
            raise ValueError(f"{self.name} has no NaN")
        if self.nan == "all_ones":
            return self.magnitude_mask
        return self.inf_bits | 1 << (self.mantissa_bits - 1)

    @property
    def max_finite_bits(self) -> int:
        """The pattern of the largest finite value."""
        if self.nan == "ieee":
            return self.inf_bits - 1
        return self.magnitude_mask - (self.nan == "all_ones")

    @property
    def max_exponent(self) -> int:
        """The exponent of the largest finite value."""
        return (self.max_finite_bits >> self.mantissa_bits) - self.bias

    def bytes_for(self, count: int) -> int:
        """Return the bytes that ``count`` elements take in memory; 4-bit elements share bytes, the last one may be
        half used.
        """
        return (self.storage_bits * count + 7) // 8


def _int(name: str, bits: int, tag: int, since: Version = (13, 1)) -> ElementFormat:
    storage = 8 if bits == 1 else bits
    constant_bytes = {1: 0, 4: None}.get(bits, bits // 8)
    return ElementFormat(name, "int", bits, storage, tag, since, constant_bytes)


def _ieee(name: str, exponent: int, mantissa: int, tag: int, storage: int = 0) -> ElementFormat:
    bits = 1 + exponent + mantissa
    bias = (1 << (exponent - 1)) - 1
    return ElementFormat(
        name,
        "float",
        bits,
        storage or bits,
        tag,
        (13, 1),
        (bits + 7) // 8,
        exponent,
        mantissa,
        bias,
        has_inf=True,
        nan="ieee",
    )


_ROWS = (
    _int("i1", 1, 0),
    _int("i4", 4, 22, (13, 3)),
    _int("i8", 8, 1),
    _int("i16", 16, 2),
    _int("i32", 32, 3),
    _int("i64", 64, 4),
    _ieee("f16", 5, 10, 5),
    _ieee("bf16", 8, 7, 6),
    _ieee("f32", 8, 23, 7),
    _ieee("tf32", 8, 10, 8, storage=32),
    _ieee("f64", 11, 52, 9),
    ElementFormat("f8E4M3FN", "float", 8, 8, 10, (13, 1), 1, 4, 3, 7, nan="all_ones"),
    _ieee("f8E5M2", 5, 2, 11),
    ElementFormat(
        "f8E8M0FNU",
        "float",
        8,
        8,
        18,
        (13, 2),
        1,
        8,
        0,
        127,
        signed=False,
        has_zero=False,
        nan="all_ones",
    ),
    ElementFormat("f4E2M1FN", "float", 4, 4, 19, (13, 3), 1, 2, 1, 1),
    ElementFormat(
        "f8E5M3FNU", "float", 8, 8, 130, (13, 4), 1, 5, 3, 15, signed=False, nan="all_ones"
    ),
)

FORMATS: Mapping[str, ElementFormat] = MappingProxyType({row.name: row for row in _ROWS})
"""Every element type by its exact name. Pointers are not element formats."""

FORMAT_OF_TAG: Mapping[int, ElementFormat] = MappingProxyType({row.tag: row for row in _ROWS})
"""Every element type by its bytecode type tag."""

INT_TYPES = ("i1", "i8", "i16", "i32", "i64")
"""Integer types with arithmetic and constants; i4 has neither."""

BASE_FLOAT_TYPES = ("f16", "bf16", "f32", "f64")
"""Float types with element-wise arithmetic."""

FLOAT_TYPES = tuple(row.name for row in _ROWS if row.is_float)
"""Every float type."""

CONSTANT_TYPES = tuple(row.name for row in _ROWS if row.constant_bytes is not None)
"""Types for which constants can be written."""


def signed(bits: int, width: int) -> int:
    """Return the value of a two's complement pattern of ``width`` bits."""
    return bits - (1 << width) if bits >> (width - 1) else bits
