"""Which rounding modes and flags an operation takes for an element type. No NumPy.

A cell names the bytecode version that first has it. The verifier asks here; the arithmetic itself
may compute more than is legal.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from tilewright.numerics.element_types import BASE_FLOAT_TYPES, FORMATS, INT_TYPES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilewright.numerics.element_types import ElementFormat, Version

ModeTable = dict[str, "Version"]
"""Rounding mode to the version that first allows it, in the order to list them in a message."""


def _since(version: Version, *modes: str) -> ModeTable:
    return dict.fromkeys(modes, version)


_NEAREST = _since((13, 1), "nearest_even")
_NEAREST_OR_ZERO = _since((13, 1), "nearest_even", "zero")
_DIRECTED = _since((13, 1), "nearest_even", "zero", "negative_inf", "positive_inf")
_AWAY = _since((13, 4), "nearest_away")


def _per_type(all_types: ModeTable, only_f32: ModeTable | None = None) -> dict[str, ModeTable]:
    table: dict[str, ModeTable] = dict.fromkeys(BASE_FLOAT_TYPES, all_types)
    if only_f32:
        table["f32"] = all_types | only_f32
    return table


_ROUNDING: Mapping[str, Mapping[str, ModeTable]] = MappingProxyType(
    {
        "addf": _per_type(_DIRECTED),
        "subf": _per_type(_DIRECTED),
        "mulf": _per_type(_DIRECTED),
        "fma": _per_type(_DIRECTED),
        "divf": _per_type(_DIRECTED, _since((13, 1), "approx", "full")),
        "sqrt": _per_type(_DIRECTED, _since((13, 1), "approx")),
        # The attribute of exp is of 13.3 and that of tanh of 13.2; without it the mode is `full`.
        "exp": _per_type(_since((13, 1), "full"), _since((13, 3), "approx")),
        "tanh": _per_type(_since((13, 1), "full"), _since((13, 2), "approx")),
        "ftoi": {
            name: _since(fmt.since, "nearest_int_to_zero")
            for name, fmt in FORMATS.items()
            if fmt.is_float
        },
    }
)

_DIVI_SIGNED = _since((13, 1), "zero", "negative_inf", "positive_inf")
_DIVI_UNSIGNED = _since((13, 1), "zero", "positive_inf")

FLUSH_TO_ZERO_OPS = frozenset(
    {"addf", "subf", "mulf", "fma", "divf", "sqrt", "exp2", "rsqrt", "maxf", "minf"}
)
"""Operations with the `flush_to_zero` attribute."""


def rounding_modes(op: str, element: str) -> ModeTable:
    """The modes of ``op`` for operands of ``element``; empty if it has none or no such operands.

    For ftof and itof, which depend on two types, and divi see the functions of those names.
    """
    return _ROUNDING.get(op, {}).get(element, {})


def flush_to_zero_allowed(op: str, element: str) -> bool:
    """Whether `flush_to_zero` may be set."""
    return op in FLUSH_TO_ZERO_OPS and element == "f32"


def divi_rounding_modes(signedness: str) -> ModeTable:
    """The modes of divi for one signedness; all integer types are alike."""
    return _DIVI_SIGNED if signedness == "signed" else _DIVI_UNSIGNED


def is_widening(source: ElementFormat, target: ElementFormat) -> bool:
    """Whether every normal source value is a normal target value, as the rules of ftof have it."""
    return (
        source.precision <= target.precision
        and source.min_exponent >= target.min_exponent
        and source.max_exponent <= target.max_exponent
        and (target.signed or not source.signed)
    )


def _ftof_modes_of_any_version(source: str, target: str) -> ModeTable:
    if target == "f8E8M0FNU":
        return _since((13, 2), "zero", "positive_inf")
    if FORMATS[target].bits <= 8:
        return _NEAREST
    if is_widening(FORMATS[source], FORMATS[target]):
        return _DIRECTED | _AWAY
    if (source, target) == ("f64", "f32"):
        return _DIRECTED
    if (source, target) == ("f32", "tf32"):
        return _NEAREST_OR_ZERO | _AWAY
    return _NEAREST_OR_ZERO


def ftof_rounding_modes(source: str, target: str) -> ModeTable:
    """The modes of ftof between two float types; empty if the types are the same.

    The first matching rule holds: f8E8M0FNU takes only the directed modes zero and positive_inf;
    the other 8-bit and 4-bit targets only nearest_even; a widening, where the mode cannot matter,
    any; f64 to f32 the four IEEE modes; any other narrowing nearest_even and zero, f32 to tf32
    nearest_away too.
    """
    if source == target:
        return {}
    oldest = max(FORMATS[source].since, FORMATS[target].since)
    modes = _ftof_modes_of_any_version(source, target)
    return {mode: max(since, oldest) for mode, since in modes.items()}


def itof_rounding_modes(source: str, target: str) -> ModeTable:
    """The modes of itof; empty for the target f8E8M0FNU, which it cannot have."""
    if source not in INT_TYPES or target == "f8E8M0FNU":
        return {}
    return _since(FORMATS[target].since, "nearest_even")


BITCAST_GROUPS: tuple[frozenset[str], ...] = (
    frozenset({"i1"}),
    frozenset({"f4E2M1FN"}),
    frozenset({"i8", "f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f8E5M3FNU"}),
    frozenset({"i16", "f16", "bf16"}),
    frozenset({"tf32"}),
    frozenset({"i32", "f32"}),
    frozenset({"i64", "f64"}),
)
"""bitcast goes between the types of one group."""


def bitcast_allowed(source: str, target: str) -> bool:
    """Whether bitcast may go from one type to the other (or stay in it)."""
    return any(source in group and target in group for group in BITCAST_GROUPS)
