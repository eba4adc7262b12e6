"""Which rounding modes conversions between float types accept. No NumPy.

Used by the verifier; the arithmetic itself may support more than is legal. The modes and flags of
other operations do not depend on two types, and are declared on their classes.
"""

from __future__ import annotations

from tilewright.numerics.element_types import FORMATS, ElementFormat, Version

ModeTable = dict[str, "Version"]
"""Maps a rounding mode to the first version that allows it, in the order for messages."""


def _since(version: Version, *modes: str) -> ModeTable:
    return dict.fromkeys(modes, version)


_NEAREST = _since((13, 1), "nearest_even")
_NEAREST_OR_ZERO = _since((13, 1), "nearest_even", "zero")
_DIRECTED = _since((13, 1), "nearest_even", "zero", "negative_inf", "positive_inf")
_AWAY = _since((13, 4), "nearest_away")


def is_widening(source: ElementFormat, target: ElementFormat) -> bool:
    """Whether every normal source value is a normal target value, as the rules of ftof define it."""
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
    """Return the modes of ftof between two float types; empty if the types are equal.

    These are the rules of ``ftof`` in the specification's chapter on conversions, with the first version that has
    each. The first matching rule applies: f8E8M0FNU accepts only the directed modes zero and positive_inf; the other
    8-bit and 4-bit targets only nearest_even; a widening, where the mode cannot matter, any; f64 to f32 the four IEEE
    modes; any other narrowing nearest_even and zero, and f32 to tf32 nearest_away as well.
    """
    if source == target:
        return {}
    oldest = max(FORMATS[source].since, FORMATS[target].since)
    modes = _ftof_modes_of_any_version(source, target)
    return {mode: max(since, oldest) for mode, since in modes.items()}
