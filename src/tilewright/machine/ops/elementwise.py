"""Element-wise operations, all computed by ``numerics.semantics``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation

from tilewright.dialects.cuda_tile import load
from tilewright.dialects.cuda_tile.base import OPERATIONS, TileOp
from tilewright.dialects.cuda_tile.enums import TileEnumAttribute
from tilewright.machine.compile import IMPLEMENTATIONS, Step, Translator, pointee_of, tile_type
from tilewright.machine.faults import UNDEFINED_DIVISION, Fault
from tilewright.machine.fused_blocks import inline
from tilewright.numerics import int_ops
from tilewright.numerics.approximations import APPROXIMATE
from tilewright.numerics.arithmetic import REFERENCE, Arithmetic
from tilewright.numerics.arrays import Array
from tilewright.numerics.rounding import unguarded
from tilewright.numerics.semantics import ELEMENTWISE

#: Properties whose keyword in the semantics has another name.
_KEYWORDS = {"rounding_mode": "rounding"}
#: Conversions, which take the element type of their result.
_CONVERSIONS = frozenset({"bitcast", "exti", "ftof", "ftoi", "itof", "trunci"})
#: The operand that determines the element type, if not the first.
_ELEMENT_OPERAND = {"select": 1}

_UNDEFINED: Mapping[str, Callable[..., Array]] = MappingProxyType(
    {"divi": int_ops.divi_undefined, "remi": int_ops.remi_undefined}
)


@dataclass(frozen=True, slots=True)
class ElementCall:
    """An element-wise operation in terms of ``numerics``: a function of its operands' elements.

    ``function`` has the calling convention of ``ELEMENTWISE``. ``name`` is its key there, or another
    name for functions outside that table.
    """

    name: str
    function: Callable[..., Array]
    element: str
    attributes: Mapping[str, Any]

    def under(self, arithmetic: Arithmetic) -> Callable[..., Array]:
        """Return the function of the operand arrays only."""
        function = self.function
        if arithmetic.approximations == "hardware":
            function = APPROXIMATE.get(self.name, function)
        return partial(unguarded(function), element=self.element, **self.attributes)


#: For operation classes of any dialect: how their elements are computed.
ELEMENT_CALLS: dict[type[Operation], Callable[[Any], ElementCall]] = {}


def call_of(op: Operation) -> ElementCall:
    """Return the element-wise operation that implements an operation."""
    return ELEMENT_CALLS[type(op)](op)


def attributes_of(op: TileOp) -> dict[str, Any]:
    """Return the keyword arguments of an operation's function in ``ELEMENTWISE``."""
    found: dict[str, Any] = {}
    for name, attribute in op.properties.items():
        keyword = _KEYWORDS.get(name, name)
        if isinstance(attribute, UnitAttr):
            found[keyword] = True
        elif isinstance(attribute, TileEnumAttribute):
            found[keyword] = attribute.data.value
    mnemonic = op.mnemonic()
    if mnemonic in _CONVERSIONS:
        found["to"] = tile_type(op.results[0]).element
    elif mnemonic == "offset":
        found["pointee"] = pointee_of(op.operands[0])
    return found


def element_of(op: TileOp) -> str:
    """Return the element type that determines the arithmetic, such as ``bf16``."""
    return tile_type(op.operands[_ELEMENT_OPERAND.get(op.mnemonic(), 0)]).element


def _tile_op_call(op: TileOp) -> ElementCall:
    mnemonic = op.mnemonic()
    return ElementCall(mnemonic, ELEMENTWISE[mnemonic], element_of(op), attributes_of(op))


def function_of(op: Operation, arithmetic: Arithmetic = REFERENCE) -> Callable[..., Array]:
    """Return the operation as a function of its operand arrays only. NumPy may warn."""
    return call_of(op).under(arithmetic)


def translate(op: Operation, t: Translator) -> Step:
    """Return the step of an element-wise operation. Results have the shape of the operands.

    Raises :class:`Fault` for an ``offset`` of pointers to sub-byte elements. The step faults where
    Tile IR leaves the result undefined, as in a division by 0.
    """
    call = call_of(op)
    if call.attributes.get("pointee") == "f4E2M1FN":
        raise Translator.refusal(
            op,
            f"'{op.name.rpartition('.')[2]}' on pointers to f4E2M1FN: Tile IR does not define a "
            "step of half a byte",
        )
    function = call.under(t.arithmetic)
    test = _UNDEFINED.get(call.name)
    if test is not None:
        signedness = call.attributes["signedness"]
        function = _checked(function, partial(test, element=call.element, signedness=signedness))
    shapes = {tile_type(value).dims for value in op.operands}
    if len(shapes) > 1:
        function = _spread(function, max(shapes, key=len))
    return computed(function, t.slot(op.results[0]), t.slots(op.operands))


def computed(function: Callable[..., Array], result: int, operands: tuple[int, ...]) -> Step:
    """Return a step that applies a function to registers."""
    arguments = ", ".join([f"regs[{slot}]" for slot in operands])
    return inline(f"regs[{result}] = {{function}}({arguments})", function=function)


def _spread(function: Callable[..., Array], dims: tuple[int, ...]) -> Callable[..., Array]:
    """Adapt a function of equally shaped tiles to operands some of which are scalars."""

    def spread(*operands: Array) -> Array:
        return function(*[np.broadcast_to(operand, dims) for operand in operands])

    return spread


def _checked(
    function: Callable[..., Array], undefined: Callable[..., Array]
) -> Callable[..., Array]:
    def divide(lhs: Array, rhs: Array) -> Array:
        lanes = undefined(lhs, rhs)
        if lanes.any():
            index = tuple(int(i[0]) for i in lanes.nonzero()) if lanes.ndim else ()
            raise Fault(
                UNDEFINED_DIVISION,
                f"division of {lhs[index]} by {rhs[index]}"
                + (f" at element {list(index)}" if index else ""),
            )
        return function(lhs, rhs)

    return divide


def is_elementwise(op: Operation) -> bool:
    """Whether each result element is computed from operand elements at the same position."""
    return type(op) in ELEMENT_CALLS


def register(cls: type[Operation], call: Callable[[Any], ElementCall]) -> None:
    """Run an operation class as an element-wise one."""
    ELEMENT_CALLS[cls] = call
    IMPLEMENTATIONS.enter(translate, cls)


load()
for _mnemonic, _cls in OPERATIONS.items():
    if _mnemonic in ELEMENTWISE:
        register(_cls, _tile_op_call)
