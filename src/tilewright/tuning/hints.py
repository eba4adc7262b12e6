"""Compiler hints of kernels as tunable values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, IntegerType

from tilewright.analysis.hints import RULES
from tilewright.diagnostics import TileIRError
from tilewright.dialects.cuda_tile.attributes import OptimizationHintsAttr
from tilewright.dialects.cuda_tile.ops.module import EntryOp
from tilewright.tuning.codes import BAD_SPACE
from tilewright.tuning.space import Axis

#: The hints of entries, and their names in cuTile.
HINTS = ("num_cta_in_cga", "occupancy", "num_worker_warps_per_cta")
_CUTILE = {
    "num_ctas": "num_cta_in_cga",
    "num_cta": "num_cta_in_cga",
    "num_worker_warps": "num_worker_warps_per_cta",
}
_DEFAULT = "default"
#: The hint that the compiler ignores.
UNUSED = "num_cta_in_cga"


def check_axis(axis: Axis, target: str) -> Axis:
    """The axis with Tile IR's name of the hint. Raises ``TileIRError`` for unknown names, and for values that are
    invalid on the target.
    """
    name = _CUTILE.get(axis.name, axis.name)
    if name not in HINTS:
        known = ", ".join((*HINTS, "num_ctas"))
        raise TileIRError.single(BAD_SPACE, f"there is no hint '{axis.name}'; known hints: {known}")
    rule = RULES[name]
    for value in axis.values:
        accepts = rule.accepts is None or (type(value) is int and rule.accepts(target, value))
        if not accepts:
            expected = "" if rule.expected is None else f"; expected {rule.expected(target)}"
            raise TileIRError.single(BAD_SPACE, f"{name} = {value} on {target}{expected}")
    return Axis(name, axis.values)


def set_hints(entry: EntryOp, hints: Mapping[str, Any]) -> None:
    """Set hints of an entry for all targets, replacing existing ones of the same names. Changes the entry.

    ``hints`` maps names of Tile IR to whole numbers, which are not checked: ``check_axis`` does.
    """
    if not hints:
        return
    held = entry.properties.get("optimization_hints")
    targets = held.targets if isinstance(held, OptimizationHintsAttr) else {}
    wanted = {name: IntegerAttr(value, IntegerType(32)) for name, value in hints.items()}
    made = {target: {**own, **wanted} for target, own in {_DEFAULT: {}, **targets}.items()}
    entry.properties["optimization_hints"] = OptimizationHintsAttr(made)
