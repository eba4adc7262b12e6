"""Element-wise operations: ``numerics.semantics`` computes them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from xdsl.dialects.builtin import UnitAttr

from tilewright.dialects.cuda_tile import load
from tilewright.dialects.cuda_tile.base import OPERATIONS, TileOp
from tilewright.dialects.cuda_tile.enums import TileEnumAttribute
from tilewright.machine.compile import IMPLEMENTATIONS, Step, Translator, pointee_of, tile_type
from tilewright.machine.faults import UNDEFINED_DIVISION, Fault
from tilewright.machine.values import Registers
from tilewright.numerics import int_ops
from tilewright.numerics.approximations import APPROXIMATE
from tilewright.numerics.arithmetic import REFERENCE, Arithmetic
from tilewright.numerics.arrays import Array
from tilewright.numerics.semantics import ELEMENTWISE

#: Properties that have another name as keywords of the semantics.
_KEYWORDS = {"rounding_mode": "rounding"}
#: Conversions, which are told the element type of their result.
_CONVERSIONS = frozenset({"bitcast", "exti", "ftof", "ftoi", "itof", "trunci"})
#: The operand whose element type counts, where it is not the first.
_ELEMENT_OPERAND = {"select": 1}

_UNDEFINED: Mapping[str, Callable[..., Array]] = MappingProxyType(
    {"divi": int_ops.divi_undefined, "remi": int_ops.remi_undefined}
)


def attributes_of(op: TileOp) -> dict[str, Any]:
    """The keywords of an operation's function in ``ELEMENTWISE``."""
    found: dict[str, Any] = {}
    for name, attribute in op.properties.items():
        keyword = _KEYWORDS.get(name, name)
        if isinstance(attribute, UnitAttr):
            found[keyword] = True
        elif isinstance(attribute, TileEnumAttribute):
            found[keyword] = attribute.data.value  # pyright: ignore[reportAttributeAccessIssue]
    mnemonic = op.mnemonic()
    if mnemonic in _CONVERSIONS:
        found["to"] = tile_type(op.results[0]).element
    elif mnemonic == "offset":
        found["pointee"] = pointee_of(op.operands[0])
    return found


def element_of(op: TileOp) -> str:
    return tile_type(op.operands[_ELEMENT_OPERAND.get(op.mnemonic(), 0)]).element


def function_of(op: TileOp, arithmetic: Arithmetic = REFERENCE) -> Callable[..., Array]:
    """The operation as a function of its operand arrays only."""
    mnemonic = op.mnemonic()
    function = ELEMENTWISE[mnemonic]
    if arithmetic.approximations == "hardware":
        function = APPROXIMATE.get(mnemonic, function)
    return partial(function, element=element_of(op), **attributes_of(op))


def translate(op: TileOp, t: Translator) -> Step:
    _refuse_packed_pointees(op)
    function = function_of(op, t.arithmetic)
    check = _division_check(op)
    if check is not None:
        function = _checked(function, check)
    result = t.slot(op.results[0])
    return _CALLS[len(op.operands)](function, result, *t.slots(op.operands))


def _refuse_packed_pointees(op: TileOp) -> None:
    if op.mnemonic() != "offset":
        return
    if pointee_of(op.operands[0]) == "f4E2M1FN":
        raise Translator.refusal(
            op,
            "'offset' on pointers to f4E2M1FN: Tile IR does not say what a step of half a byte is",
        )


def _division_check(op: TileOp) -> Callable[..., Array] | None:
    test = _UNDEFINED.get(op.mnemonic())
    if test is None:
        return None
    signedness = attributes_of(op)["signedness"]
    return partial(test, element=element_of(op), signedness=signedness)


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


def _unary(function: Callable[..., Array], result: int, first: int) -> Step:
    def step(regs: Registers) -> None:
        regs[result] = function(regs[first])

    return step


def _binary(function: Callable[..., Array], result: int, first: int, second: int) -> Step:
    def step(regs: Registers) -> None:
        regs[result] = function(regs[first], regs[second])

    return step


def _ternary(
    function: Callable[..., Array], result: int, first: int, second: int, third: int
) -> Step:
    def step(regs: Registers) -> None:
        regs[result] = function(regs[first], regs[second], regs[third])

    return step


_CALLS: Mapping[int, Callable[..., Step]] = {1: _unary, 2: _binary, 3: _ternary}


def is_elementwise(op: object) -> bool:
    return isinstance(op, TileOp) and IMPLEMENTATIONS.get(type(op)) is translate


load()
for _mnemonic, _cls in OPERATIONS.items():
    if _mnemonic in ELEMENTWISE:
        IMPLEMENTATIONS[_cls] = translate
