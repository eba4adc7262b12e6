"""Element-wise operations as functions of ``numerics``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tilewright.dialects import arith
from tilewright.dialects.nv_tileaa.base import OPERATIONS, TileAAOp, is_set
from tilewright.dialects.nv_tileaa.enums import RoundingModeAttr
from tilewright.dialects.nv_tileaa.ops import pointers
from tilewright.launching.value_types import is_pointer, pointee_of, tile_like, tile_type
from tilewright.machine.compile import IMPLEMENTATIONS, Step, Translator, implements
from tilewright.machine.ops.elementwise import ELEMENT_CALLS, ElementCall, register, translate
from tilewright.machine.values import Registers
from tilewright.numerics.arrays import Array
from tilewright.numerics.convert import pack, unpack
from tilewright.numerics.float_ops import maxf, minf
from tilewright.numerics.semantics import ELEMENTWISE


def clampf(
    source: Array, lower: Array, upper: Array, element: str, *, propagate_nan: bool = False
) -> Array:
    """``min(max(source, lower), upper)`` by the rules of maxf and minf."""
    raised = maxf(source, lower, element, propagate_nan=propagate_nan)
    return minf(raised, upper, element, propagate_nan=propagate_nan)


#: The function of each operation. ``bitcast`` may change the shape, so it has rules below.
_NAMES: Mapping[type[TileAAOp], str] = MappingProxyType(
    {
        cls: cls.MEANING
        for cls in OPERATIONS.values()
        if cls.MEANING and cls is not pointers.BitcastOp
    }
)
_FUNCTIONS = {**ELEMENTWISE, "clampf": clampf}


def _keywords(op: TileAAOp) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, attribute in op.properties.items():
        if isinstance(attribute, RoundingModeAttr):
            found["rounding"] = attribute.data.value
        elif is_set(op, name):
            found[name] = True
    return found


def _alias_call(op: TileAAOp) -> ElementCall:
    name, keywords = _NAMES[type(op)], _keywords(op)
    if name == "ftof":
        keywords["to"] = tile_type(op.results[0]).element
    elif name == "offset":
        keywords["pointee"] = pointee_of(op.operands[0])
    return ElementCall(name, _FUNCTIONS[name], tile_type(op.operands[0]).element, keywords)


def _arith_call(op: arith.ArithOp) -> ElementCall:
    meaning = op.meaning()
    return ElementCall(
        meaning.name, ELEMENTWISE[meaning.name], meaning.element, dict(meaning.keywords)
    )


for _alias in _NAMES:
    register(_alias, _alias_call)
for _arith in arith.OPERATIONS.values():
    if _arith.MEANING and _arith is not arith.SelectOp:
        register(_arith, _arith_call)
ELEMENT_CALLS[arith.SelectOp] = _arith_call


@implements(arith.SelectOp)
def _select(op: arith.SelectOp, t: Translator) -> Step:
    """A scalar condition may also choose between values that are not tiles."""
    if tile_like(op.result.type) is not None:
        return translate(op, t)
    condition, if_true, if_false, result = t.slots((*op.operands, op.result))

    def step(regs: Registers) -> None:
        regs[result] = regs[if_true if regs[condition] else if_false]

    return step


@implements(pointers.BitcastOp)
def _bitcast(op: pointers.BitcastOp, t: Translator) -> Step:
    source, result = tile_type(op.source), tile_type(op.result)
    if source.dims == result.dims:
        return translate(op, t)
    given, made = t.slots((op.source, op.result))

    def step(regs: Registers) -> None:
        regs[made] = unpack(pack(regs[given], source.element), to=result.element)

    return step


def _bitcast_call(op: pointers.BitcastOp) -> ElementCall:
    source, result = tile_type(op.source), tile_type(op.result)
    if is_pointer(source):
        return ElementCall("ptr_to_ptr", ELEMENTWISE["ptr_to_ptr"], source.element, {})
    return ElementCall("bitcast", ELEMENTWISE["bitcast"], source.element, {"to": result.element})


ELEMENT_CALLS[pointers.BitcastOp] = _bitcast_call
assert ELEMENT_CALLS.keys() <= IMPLEMENTATIONS.keys()
