"""Functions of ``math`` that Tile IR lacks, and operations of ``arith`` with two results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright.numerics.arrays import Array
from tilewright.numerics.further_math import FURTHER
from tilewright.numerics.semantics import ELEMENTWISE
from tilewright.simulator import codes
from tilewright.simulator.compile import Step, Translator, implements
from tilewright.simulator.faults import Fault
from tilewright.simulator.ops.elementwise import collapse, is_integer_scalar
from tilewright.simulator.state import WARP_SIZE, Warp
from tilewright.simulator.values import element_of, lanes

# ``copysign`` and ``ctpop`` are in ``elementwise``.
_FUNCTIONS = {f"math.{name}": name for name in FURTHER if name not in ("copysign", "ctpop")}


def _settled(value: Array, like: Any, are_numbers: bool) -> Any:
    """The result, as a number if all operands were numbers."""
    if are_numbers and is_integer_scalar(like):
        return collapse(value, element_of(like))
    return value


@implements(*_FUNCTIONS)
def _function(op: Operation, t: Translator) -> Step:
    """Functions of ``math`` that Tile IR lacks, from ``numerics.further_math``.

    Raises ``Fault`` for ``fpowi`` with exponents of more than 32 bits and for ``ipowi`` of i1.
    """
    function = FURTHER[_FUNCTIONS[op.name]]
    if op.name == "math.fpowi" and element_of(op.operands[1].type).bits > 32:
        raise Fault(codes.UNSUPPORTED, f"{op.name} takes exponents of up to 32 bits", op)
    if op.name == "math.ipowi" and element_of(op.operands[0].type).bits == 1:
        raise Fault(codes.UNSUPPORTED, f"{op.name} takes integers of more than one bit", op)
    sources, result = t.slots(op.operands), t.slot(op.results[0])
    elements = [element_of(value.type) for value in op.operands]
    ty, element = op.results[0].type, element_of(op.results[0].type)
    check: Callable[[Warp, list[Array]], None] = (
        _check_power(op) if op.name == "math.ipowi" else lambda warp, arrays: None
    )

    def step(warp: Warp) -> None:
        values = [warp.regs[source] for source in sources]
        arrays = [lanes(value, e.dtype) for value, e in zip(values, elements)]
        check(warp, arrays)
        found = function(*arrays, element.name)
        warp.regs[result] = _settled(found, ty, all(isinstance(v, int) for v in values))

    return step


def _check_power(op: Operation) -> Callable[[Warp, list[Array]], None]:
    def check(warp: Warp, arrays: list[Array]) -> None:
        base, power = arrays
        bad = ((base == 0) & (power < 0)).reshape(WARP_SIZE, -1).any(axis=1)
        if (bad & warp.mask).any():
            raise Fault(
                codes.UNDEFINED, f"{op.name} of {warp.name()} takes 0 to a negative power", op
            )

    return check


def _high_signed(x: Array, y: Array, element: str) -> Array:
    """The upper half of a signed product, from that of the unsigned one."""
    high = ELEMENTWISE["mulhii"](x, y, element)
    zero = np.zeros_like(x)
    for factor, other in ((x, y), (y, x)):
        high = ELEMENTWISE["subi"](high, np.where(factor < 0, other, zero), element)
    return high


def _carry(x: Array, y: Array, element: str) -> Array:
    """Whether an unsigned sum overflows."""
    total = ELEMENTWISE["addi"](x, y, element)
    return ELEMENTWISE["cmpi"](
        total, x, element, comparison_predicate="less_than", signedness="unsigned"
    )


#: The functions of the two results.
_PAIRS: dict[str, tuple[Callable[..., Array], Callable[..., Array]]] = {
    "arith.addui_extended": (ELEMENTWISE["addi"], _carry),
    "arith.mului_extended": (ELEMENTWISE["muli"], ELEMENTWISE["mulhii"]),
    "arith.mulsi_extended": (ELEMENTWISE["muli"], _high_signed),
}


@implements(*_PAIRS)
def _pair(op: Operation, t: Translator) -> Step:
    """Operations with two results, which are computed separately."""
    sources, results = t.slots(op.operands), t.slots(op.results)
    element = element_of(op.operands[0].type)
    types = [value.type for value in op.results]
    functions = _PAIRS[op.name]

    def step(warp: Warp) -> None:
        values = [warp.regs[source] for source in sources]
        arrays = [lanes(value, element.dtype) for value in values]
        are_numbers = all(isinstance(v, int) for v in values)
        for slot, ty, function in zip(results, types, functions):
            warp.regs[slot] = _settled(function(*arrays, element.name), ty, are_numbers)

    return step
