"""Mathematical functions as LLVM IR: vectors of any length, no calls, stated error bounds.

``emit`` adds a function to a module, ready to be inlined. All follow C in their special cases (NaN, infinities, signed
zeros) and preserve subnormal numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.cpu.mathlib import arctangent, exponential, logarithm, power, roots, trigonometry
from tilewright.cpu.mathlib.lanes import Body, Formulas, Value
from tilewright.launching.native_code import ir


@dataclass(frozen=True, slots=True)
class MathFunction:
    """A function of ``operands`` floats. The bounds are errors in ulp of the result, never reached."""

    operands: int
    bound32: float
    bound64: float
    body: Body

    def bound(self, bits: int) -> float:
        """The bound on the error for elements of so many bits, in units in the last place."""
        return self.bound32 if bits == 32 else self.bound64


#: The functions by the mnemonic of Tile IR.
FUNCTIONS: Mapping[str, MathFunction] = MappingProxyType(
    {
        "exp": MathFunction(1, 1.0, 1.0, exponential.exp),
        "exp2": MathFunction(1, 1.0, 1.0, exponential.exp2),
        "log": MathFunction(1, 1.0, 1.0, logarithm.log),
        "log2": MathFunction(1, 1.0, 1.0, logarithm.log2),
        "sin": MathFunction(1, 2.0, 1.0, trigonometry.sin),
        "cos": MathFunction(1, 2.0, 1.0, trigonometry.cos),
        "tan": MathFunction(1, 1.0, 1.0, trigonometry.tan),
        "sinh": MathFunction(1, 1.0, 2.0, exponential.sinh),
        "cosh": MathFunction(1, 1.0, 1.0, exponential.cosh),
        "tanh": MathFunction(1, 1.0, 1.0, exponential.tanh),
        "atan2": MathFunction(2, 1.0, 2.0, arctangent.atan2),
        "pow": MathFunction(2, 1.0, 1.0, power.power),
        "rsqrt": MathFunction(1, 1.0, 1.5, roots.reciprocal_root),
    }
)


def emit(
    module: ir.Module,
    name: str,
    lanes: int,
    bits: int,
    features: frozenset[str] = frozenset(),
) -> ir.Function:
    """The function of ``FUNCTIONS`` in a module, added where it is not there yet.

    It takes and gives ``<lanes x float>`` (bits 32) or ``<lanes x double>`` (bits 64); with one lane
    scalars. ``features`` are those of the processor that its code is for. It is internal and always
    inlined. Rare arguments go through further internal functions.
    """
    symbol = f"tilewright.{name}.v{lanes}f{bits}"
    found = module.globals.get(symbol)
    if found is not None:
        return found
    about = FUNCTIONS[name]
    ty = Formulas(ir.IRBuilder(), lanes, bits).float_type
    function = ir.Function(module, ir.FunctionType(ty, [ty] * about.operands), symbol)
    function.linkage = "internal"
    function.attributes.add("alwaysinline")
    function.attributes.add("nounwind")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    formulas = Formulas(builder, lanes, bits, features)
    operands = [Value(formulas, argument) for argument in function.args]
    builder.ret(about.body(formulas, *operands).llvm)
    return function
