"""LLVM's intrinsics for GPUs, and the conversion to tf32, as functions of ``numerics``.

Approximate instructions give the nearest number, as `nvgpu.rcp` does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.dialects.upstream.llvm.intrinsics import INTRINSICS, Intrinsic
from tilewright.numerics.arrays import Array, dtype_of
from tilewright.numerics.float_ops import flush_subnormals
from tilewright.numerics.rounding import quiet, to_float64
from tilewright.numerics.semantics import ELEMENTWISE
from tilewright.simulator import codes
from tilewright.simulator.compile import Step, Translator, implements
from tilewright.simulator.faults import Fault
from tilewright.simulator.state import Warp
from tilewright.simulator.values import lanes

if TYPE_CHECKING:
    from tilewright.dialects.upstream.nvvm.conversions import ToTf32

Function = Callable[..., Array]
_ROUNDINGS = {
    "rn": "nearest_even",
    "rz": "zero",
    "rm": "negative_inf",
    "rp": "positive_inf",
    "approx": "approx",
    "full": "full",
}


def _flushing(known: Intrinsic, function: Function) -> Function:
    """Make a function flush subnormal f32 operands and results to zero, if its intrinsic does."""
    if not known.ftz:
        return function

    def flushed(*arrays: Array) -> Array:
        given = [flush_subnormals(a) if a.dtype == np.float32 else a for a in arrays]
        found = function(*given)
        return flush_subnormals(found) if found.dtype == np.float32 else found

    return flushed


def _arithmetic(name: str) -> Callable[[Intrinsic], Function]:
    def make(known: Intrinsic) -> Function:
        function = partial(
            ELEMENTWISE[name], element=known.operands[0], rounding=_ROUNDINGS[known.rounding]
        )
        return _flushing(known, function)

    return make


def _function(name: str) -> Callable[[Intrinsic], Function]:
    def make(known: Intrinsic) -> Function:
        return _flushing(known, partial(ELEMENTWISE[name], element=known.operands[0]))

    return make


def _extremum(name: str) -> Callable[[Intrinsic], Function]:
    def make(known: Intrinsic) -> Function:
        function = partial(ELEMENTWISE[name], element=known.operands[0], propagate_nan=known.nan)
        return _flushing(known, function)

    return make


def _reciprocal(known: Intrinsic) -> Function:
    divide = _arithmetic("divf")(known)
    return lambda x: divide(np.ones_like(x), x)


def _whole(function: Function) -> Callable[[Intrinsic], Function]:
    return lambda known: _flushing(known, quiet(function))


def _saturate(x: Array) -> Array:
    """Clamp to [0, 1]; NaN becomes 0."""
    return np.where(x > 0, np.minimum(x, x.dtype.type(1)), x.dtype.type(0))


_WHOLE: dict[str, Function] = {"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil}


def _to_integer(signedness: str) -> Callable[[Intrinsic], Function]:
    """Conversions to integers as PTX defines them: clamped; NaN becomes 0, or only the sign bit set if either type has
    64 bits.
    """

    def make(known: Intrinsic) -> Function:
        (source,), target = known.operands, known.result
        whole = _WHOLE[known.rounding]
        is_wide = source == "f64" or target == "i64"
        dtype = dtype_of(target)
        of_nan = dtype.type(np.iinfo(dtype).min if is_wide else 0)

        @quiet
        def convert(x: Array) -> Array:
            wide = whole(to_float64(x, source))
            found = ELEMENTWISE["ftoi"](wide, "f64", to=target, signedness=signedness)
            return np.where(x != x, of_nan, found)

        return _flushing(known, convert)

    return make


def _from_integer(signedness: str) -> Callable[[Intrinsic], Function]:
    def make(known: Intrinsic) -> Function:
        return partial(
            ELEMENTWISE["itof"],
            element=known.operands[0],
            to=known.result,
            signedness=signedness,
            rounding=_ROUNDINGS[known.rounding],
        )

    return make


def _narrow(known: Intrinsic) -> Function:
    rounding = _ROUNDINGS[known.rounding]
    return _flushing(
        known, partial(ELEMENTWISE["ftof"], element="f64", to="f32", rounding=rounding)
    )


def _high_product(is_signed: bool) -> Callable[[Intrinsic], Function]:
    """The upper half of a product. For signed operands it is the unsigned one minus each operand where the other is
    negative.
    """

    def make(known: Intrinsic) -> Function:
        element = known.result

        def multiply(x: Array, y: Array) -> Array:
            high = ELEMENTWISE["mulhii"](x, y, element)
            if not is_signed:
                return high
            zero = x.dtype.type(0)
            with np.errstate(over="ignore"):
                return high - np.where(x < 0, y, zero) - np.where(y < 0, x, zero)

        return multiply

    return make


def _permuted(known: Intrinsic) -> Function:
    """``prmt``: nibble i of the selector chooses result byte i from the 8 bytes of both words, the second word's on
    top.

    If bit 3 of the nibble is set the byte's sign bit is replicated instead.
    """

    def permute(low: Array, high: Array, selector: Array) -> Array:
        words = [np.ascontiguousarray(x).view(np.uint32) for x in (low, high, selector)]
        both = words[0].astype(np.uint64) | words[1].astype(np.uint64) << np.uint64(32)
        found = np.zeros_like(words[0])
        for place in range(4):
            nibble = words[2] >> np.uint32(4 * place) & np.uint32(15)
            shift = (nibble & np.uint32(7)).astype(np.uint64) * np.uint64(8)
            octet = (both >> shift).astype(np.uint32) & np.uint32(255)
            sign = np.where(octet >> np.uint32(7), np.uint32(255), np.uint32(0))
            found |= np.where(nibble >> np.uint32(3), sign, octet) << np.uint32(8 * place)
        return found.view(np.int32)

    return permute


#: Makes the function of an intrinsic, by the stem of its name.
MEANINGS: dict[str, Callable[[Intrinsic], Function]] = {
    "add": _arithmetic("addf"),
    "mul": _arithmetic("mulf"),
    "fma": _arithmetic("fma"),
    "div": _arithmetic("divf"),
    "sqrt": _arithmetic("sqrt"),
    "rcp": _reciprocal,
    "rsqrt": _function("rsqrt"),
    "sin": _function("sin"),
    "cos": _function("cos"),
    "lg2": _function("log2"),
    "ex2": _function("exp2"),
    "tanh": _function("tanh"),
    "fmin": _extremum("minf"),
    "fmax": _extremum("maxf"),
    "ceil": _whole(np.ceil),
    "floor": _whole(np.floor),
    "trunc": _whole(np.trunc),
    "round": _whole(np.rint),
    "saturate": _whole(_saturate),
    "f2s": _to_integer("signed"),
    "f2u": _to_integer("unsigned"),
    "s2f": _from_integer("signed"),
    "u2f": _from_integer("unsigned"),
    "f2f": _narrow,
    "mulhi_s": _high_product(True),
    "mulhi_u": _high_product(False),
    "prmt": _permuted,
}


@implements("llvm.call_intrinsic", wide=True)
def _call(op: Any, t: Translator) -> Step:
    """Applies an LLVM intrinsic to each lane, by the stem of its name. Raises ``Fault`` for an unknown one."""
    name = op.callee
    known = INTRINSICS.get(name)
    if known is None:
        raise Fault(codes.UNSUPPORTED, f"the simulator does not run the intrinsic '{name}'")
    sources, result = t.slots(op.args), t.slot(op.results[0])
    function = MEANINGS[known.stem](known)
    dtypes = tuple(dtype_of(element) for element in known.operands)

    def step(warp: Warp) -> None:
        r = warp.regs
        given = [lanes(r[s], dtype, warp.size) for s, dtype in zip(sources, dtypes, strict=True)]
        r[result] = function(*given)

    return step


_TF32_ROUNDINGS = {"rn": "nearest_even", "rna": "nearest_away", "rz": "zero"}
_LARGEST_TF32 = np.uint32(0x7F7FE000).view(np.float32)


@implements("nvvm.cvt.float.to.tf32", "nvvm.convert.float.to.tf32", wide=True)
def _to_tf32(op: ToTf32, t: Translator) -> Step:
    """Rounds to tf32. NaN becomes the pattern that the instruction returns."""
    source, result = t.slot(op.src), t.slot(op.res)
    rounding, saturates, drops = _TF32_ROUNDINGS[op.rounding], op.saturates, op.drops_negative
    nan = np.int32(0x7FFFFFFF)

    def step(warp: Warp) -> None:
        given = lanes(warp.regs[source], np.dtype(np.float32), warp.size)
        found = ELEMENTWISE["ftof"](given, "f32", to="tf32", rounding=rounding)
        if saturates:
            found = np.clip(found, -_LARGEST_TF32, _LARGEST_TF32)
        if drops:
            found = np.where(found < 0, np.float32(0), found)
        warp.regs[result] = np.where(given != given, nan, found.view(np.int32))

    return step
