"""The effective optimization hints: those of the target, else those for all targets."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import Attribute

from tilewright.analysis.hints import RULES
from tilewright.dialects.cuda_tile.attributes import OptimizationHintsAttr
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.lowering.tileaa.options import TileAAOptions

_I1 = IntegerType(1)


def _hint(options: TileAAOptions, op: TileOp, name: str) -> IntegerAttr | None:
    hints = op.properties.get("optimization_hints")
    if not isinstance(hints, OptimizationHintsAttr):
        return None
    found: Attribute | None = hints.lookup(options.target, name)
    return found if isinstance(found, IntegerAttr) else None


def given_hint(options: TileAAOptions, op: TileOp, name: str) -> int | None:
    """The integer that a hint gives, in range or not; None where there is none."""
    found = _hint(options, op, name)
    return None if found is None or found.type == _I1 else found.value.data


def number_hint(options: TileAAOptions, op: TileOp, name: str) -> int | None:
    """The value of a numeric hint; None if it is missing or out of range."""
    found = _hint(options, op, name)
    accepts = RULES[name].accepts
    if found is None or found.type == _I1 or accepts is None:
        return None
    value = found.value.data
    return value if accepts(options.target, value) else None


def flag_hint(options: TileAAOptions, op: TileOp, name: str) -> bool | None:
    """The value of a boolean hint, or None."""
    found = _hint(options, op, name)
    return bool(found.value.data) if found is not None and found.type == _I1 else None
