"""``arith`` and ``math``: tables from operations to functions of ``numerics``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from xdsl.dialects import builtin as b
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute, Operation

from tilewright.dialects.upstream.arith.floats import rounding_of
from tilewright.numerics.arrays import Array
from tilewright.numerics.convert import written_floats
from tilewright.numerics.int_ops import COMPARISONS
from tilewright.numerics.rounding import unguarded
from tilewright.numerics.semantics import ELEMENTWISE
from tilewright.simulator import codes
from tilewright.simulator.compile import Step, Translator, implements
from tilewright.simulator.faults import Fault
from tilewright.simulator.state import WARP_SIZE, Warp
from tilewright.simulator.values import Element, element_of, lanes, shape_of

_SIGNED, _UNSIGNED = {"signedness": "signed"}, {"signedness": "unsigned"}
_NAN = {"propagate_nan": True}

#: Operations whose operands and result have one type: the function, and its keywords.
_SAME_TYPE: dict[str, tuple[str, dict[str, Any]]] = {
    "arith.addi": ("addi", {}),
    "arith.subi": ("subi", {}),
    "arith.muli": ("muli", {}),
    "arith.divsi": ("divi", _SIGNED),
    "arith.divui": ("divi", _UNSIGNED),
    "arith.floordivsi": ("divi", {**_SIGNED, "rounding": "negative_inf"}),
    "arith.ceildivsi": ("divi", {**_SIGNED, "rounding": "positive_inf"}),
    "arith.ceildivui": ("divi", {**_UNSIGNED, "rounding": "positive_inf"}),
    "arith.remsi": ("remi", _SIGNED),
    "arith.remui": ("remi", _UNSIGNED),
    "arith.minsi": ("mini", _SIGNED),
    "arith.minui": ("mini", _UNSIGNED),
    "arith.maxsi": ("maxi", _SIGNED),
    "arith.maxui": ("maxi", _UNSIGNED),
    "arith.andi": ("andi", {}),
    "arith.ori": ("ori", {}),
    "arith.xori": ("xori", {}),
    "arith.shli": ("shli", {}),
    "arith.shrsi": ("shri", _SIGNED),
    "arith.shrui": ("shri", _UNSIGNED),
    "arith.addf": ("addf", {}),
    "arith.subf": ("subf", {}),
    "arith.mulf": ("mulf", {}),
    "arith.divf": ("divf", {}),
    "arith.negf": ("negf", {}),
    "arith.remf": ("remf", {}),
    "arith.maximumf": ("maxf", _NAN),
    "arith.minimumf": ("minf", _NAN),
    "arith.maxnumf": ("maxf", {}),
    "arith.minnumf": ("minf", {}),
    "math.absf": ("absf", {}),
    "math.absi": ("absi", {}),
    "math.atan2": ("atan2", {}),
    "math.ceil": ("ceil", {}),
    "math.cos": ("cos", {}),
    "math.cosh": ("cosh", {}),
    "math.exp": ("exp", {}),
    "math.exp2": ("exp2", {}),
    "math.floor": ("floor", {}),
    "math.fma": ("fma", {}),
    "math.log": ("log", {}),
    "math.log2": ("log2", {}),
    "math.powf": ("pow", {}),
    "math.rsqrt": ("rsqrt", {}),
    "math.sin": ("sin", {}),
    "math.sinh": ("sinh", {}),
    "math.sqrt": ("sqrt", {}),
    "math.tan": ("tan", {}),
    "math.tanh": ("tanh", {}),
    "vector.fma": ("fma", {}),
}
#: Conversions: the function, and its keywords besides the result's element type.
_CASTS: dict[str, tuple[str, dict[str, Any]]] = {
    "arith.extsi": ("exti", _SIGNED),
    "arith.extui": ("exti", _UNSIGNED),
    "arith.trunci": ("trunci", {}),
    "arith.extf": ("ftof", {}),
    "arith.truncf": ("ftof", {}),
    "arith.sitofp": ("itof", _SIGNED),
    "arith.uitofp": ("itof", _UNSIGNED),
    "arith.fptosi": ("ftoi", _SIGNED),
    "arith.fptoui": ("ftoi", _UNSIGNED),
    "arith.bitcast": ("bitcast", {}),
}
#: Rounding modes of ``arith`` by their names in ``numerics``.
_ROUNDINGS = {
    "to_nearest_even": "nearest_even",
    "downward": "negative_inf",
    "upward": "positive_inf",
    "toward_zero": "zero",
    "to_nearest_away": "nearest_away",
}
_INT_PREDICATES = (
    ("equal", "signed"),
    ("not_equal", "signed"),
    ("less_than", "signed"),
    ("less_than_or_equal", "signed"),
    ("greater_than", "signed"),
    ("greater_than_or_equal", "signed"),
    ("less_than", "unsigned"),
    ("less_than_or_equal", "unsigned"),
    ("greater_than", "unsigned"),
    ("greater_than_or_equal", "unsigned"),
)
_FLOAT_PREDICATES = (
    "equal",
    "greater_than",
    "greater_than_or_equal",
    "less_than",
    "less_than_or_equal",
    "not_equal",
)
_DIVISIONS = frozenset({"divi", "remi"})

#: Integer operations on uniform values as Python integers. Others use arrays.
_ON_NUMBERS: dict[str, Callable[[int, int], int]] = {
    "arith.addi": lambda x, y: x + y,
    "arith.subi": lambda x, y: x - y,
    "arith.muli": lambda x, y: x * y,
    "arith.andi": lambda x, y: x & y,
    "arith.ori": lambda x, y: x | y,
    "arith.xori": lambda x, y: x ^ y,
    "arith.minsi": min,
    "arith.maxsi": max,
}
_COMPARE_NUMBERS: tuple[Callable[[int, int], bool], ...] = (
    lambda x, y: x == y,
    lambda x, y: x != y,
    lambda x, y: x < y,
    lambda x, y: x <= y,
    lambda x, y: x > y,
    lambda x, y: x >= y,
)


#: NumPy functions that equal those of ``numerics`` for elements of 8 bits and more.
_NATIVE: dict[str, Callable[..., Array]] = {
    "addi": np.add,
    "subi": np.subtract,
    "muli": np.multiply,
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
}


@dataclass(frozen=True, slots=True)
class _Call:
    """An element-wise function with the types of its operands and result."""

    function: Callable[..., Array]
    operands: tuple[Element, ...]
    result: Element
    keywords: dict[str, Any]

    def bound(self) -> Callable[..., Array]:
        """The function on arrays. NumPy's warnings are disabled during a run."""
        native = _NATIVE.get(self.function.__name__)
        if native is not None and not self.keywords and self.operands[0].bits > 1:
            return native
        return partial(unguarded(self.function), element=self.operands[0].name, **self.keywords)


def _broadcast(arrays: list[Array]) -> list[Array]:
    rank = max(array.ndim for array in arrays)
    if all(array.ndim == rank for array in arrays):
        return arrays
    # A scalar beside vectors, such as the condition of a select.
    return [
        array if array.ndim == rank else array.reshape(array.shape[0], *(1,) * (rank - 1))
        for array in arrays
    ]


def is_integer_scalar(ty: Attribute) -> bool:
    """Whether values of a type may be Python numbers, uniform across lanes."""
    return isinstance(ty, b.IntegerType | b.IndexType | LLVMPointerType)


def collapse(value: Any, element: Element) -> Any:
    """An array with equal lanes as a Python number."""
    first = value[0]
    return bool(first) if element.bits == 1 else int(first)


def _step(op: Operation, t: Translator, call: _Call) -> Step:
    if all(isinstance(value.type, b.VectorType | b.AnyFloat) for value in op.operands):
        return _on_arrays(op, t, call)
    evaluate = _evaluation(call, is_integer_scalar(op.results[0].type))
    sources, result = t.slots(op.operands), t.slot(op.results[0])

    def step(warp: Warp) -> None:
        r = warp.regs
        r[result] = evaluate(warp.size, *[r[s] for s in sources])

    return step


def _on_arrays(op: Operation, t: Translator, call: _Call) -> Step:
    """The step for operands that are always arrays of the same shape."""
    function, result = call.bound(), t.slot(op.results[0])
    dtype, sources = call.operands[0].dtype, t.slots(op.operands)
    assert all(element.dtype == dtype for element in call.operands)
    if len(sources) == 1:
        (source,) = sources

        def unary(warp: Warp) -> None:
            r = warp.regs
            r[result] = function(r[source])

        return unary
    if len(sources) == 2:
        left, right = sources

        def binary(warp: Warp) -> None:
            r = warp.regs
            r[result] = function(r[left], r[right])

        return binary

    def step(warp: Warp) -> None:
        r = warp.regs
        r[result] = function(*[r[s] for s in sources])

    return step


def _evaluation(call: _Call, collapses: bool) -> Callable[..., Any]:
    """A function of the number of lanes and the values, some of which may be uniform."""
    function, dtypes = call.bound(), [element.dtype for element in call.operands]

    def evaluate(size: int, *values: Any) -> Any:
        if collapses and all(type(v) is int or type(v) is bool for v in values):
            return collapse(function(*map(_single, values, dtypes)), call.result)
        return function(*_broadcast([lanes(v, d, size) for v, d in zip(values, dtypes)]))

    return evaluate


def _single(value: int, dtype: np.dtype[Any]) -> Array:
    return np.array([value], dtype)


def _on_numbers(
    op: Operation, t: Translator, call: _Call, exact: Callable[[int, int], int]
) -> Step:
    left, right = t.slots(op.operands)
    result = t.slot(op.results[0])
    half, mask = 1 << (call.result.bits - 1), (1 << call.result.bits) - 1
    evaluate, dtype = _evaluation(call, True), call.result.dtype
    function = call.bound()

    def step(warp: Warp) -> None:
        r = warp.regs
        x, y = r[left], r[right]
        if type(x) is int:
            if type(y) is int:
                r[result] = ((exact(x, y) + half) & mask) - half
                return
            x = dtype.type(x)
        elif type(y) is int:
            y = dtype.type(y)
        if x.dtype is dtype and y.dtype is dtype:
            r[result] = function(x, y)
        else:
            r[result] = evaluate(warp.size, r[left], r[right])

    return step


@implements(*_SAME_TYPE, wide=True)
def _same_type(op: Operation, t: Translator) -> Step:
    """Applies the function of ``numerics.semantics`` that has the same meaning.

    Uniform integers are computed as Python numbers. Raises ``Fault`` for a zero divisor.
    """
    name, keywords = _SAME_TYPE[op.name]
    element = element_of(op.results[0].type)
    call = _Call(ELEMENTWISE[name], (element,) * len(op.operands), element, keywords)
    if name in _DIVISIONS:
        return _division(op, t, call)
    exact = _ON_NUMBERS.get(op.name)
    if exact is not None and is_integer_scalar(op.results[0].type) and element.bits > 1:
        return _on_numbers(op, t, call, exact)
    return _step(op, t, call)


def _division(op: Operation, t: Translator, call: _Call) -> Step:
    left, right = t.slots(op.operands)
    result, element = t.slot(op.results[0]), call.result
    evaluate = _evaluation(call, is_integer_scalar(op.results[0].type))

    def step(warp: Warp) -> None:
        r = warp.regs
        x, y = r[left], r[right]
        if not (y if type(y) is int else y.all()):
            divisor = lanes(y, element.dtype, warp.size)
            zero = (divisor == 0).reshape(warp.size, -1).any(axis=1)
            if (zero & warp.mask).any():
                raise Fault(codes.UNDEFINED, f"{op.name} of {warp.name()} divides by zero", op)
            y = np.where(divisor == 0, element.dtype.type(1), divisor)
        r[result] = evaluate(warp.size, x, y)

    return step


@implements(*_CASTS, wide=True)
def _cast(op: Operation, t: Translator) -> Step:
    """Conversions between numbers, with ``roundingmode`` or to nearest even."""
    name, keywords = _CASTS[op.name]
    source, result = element_of(op.operands[0].type), element_of(op.results[0].type)
    keywords = {**keywords, "to": result.name}
    if op.name == "arith.truncf":
        keywords["rounding"] = _ROUNDINGS[rounding_of(op)]  # pyright: ignore[reportArgumentType]
    return _step(op, t, _Call(ELEMENTWISE[name], (source,), result, keywords))


@implements("arith.index_cast", "arith.index_castui", wide=True)
def _index_cast(op: Operation, t: Translator) -> Step:
    """Converts between integers and the 64-bit ``index``: truncates, or extends by sign, or by zeros for ``castui``."""
    source, result = element_of(op.operands[0].type), element_of(op.results[0].type)
    if result.bits < source.bits:
        call = _Call(ELEMENTWISE["trunci"], (source,), result, {"to": result.name})
    elif result.bits == source.bits:
        call = _Call(ELEMENTWISE["bitcast"], (source,), result, {"to": result.name})
    else:
        signedness = "unsigned" if op.name.endswith("ui") else "signed"
        keywords = {"to": result.name, "signedness": signedness}
        call = _Call(ELEMENTWISE["exti"], (source,), result, keywords)
    return _step(op, t, call)


@implements("arith.cmpi", wide=True)
def _cmpi(op: Any, t: Translator) -> Step:
    """Compares integers. Predicates are in upstream's order, eq to uge."""
    number = op.predicate.value.data
    predicate, signedness = _INT_PREDICATES[number]
    source = element_of(op.operands[0].type)
    call = _Call(
        ELEMENTWISE["cmpi"],
        (source, source),
        element_of(op.results[0].type),
        {"comparison_predicate": predicate, "signedness": signedness},
    )
    if not is_integer_scalar(op.operands[0].type) or source.bits == 1:
        return _step(op, t, call)
    left, right = t.slots(op.operands)
    result = t.slot(op.results[0])
    compare = _COMPARE_NUMBERS[number if number < 6 else number - 4]
    mask = (1 << source.bits) - 1 if signedness == "unsigned" else -1
    evaluate, dtype = _evaluation(call, False), source.dtype
    native = COMPARISONS[predicate] if mask == -1 else None

    def step(warp: Warp) -> None:
        r: list[Any] = warp.regs
        x, y = r[left], r[right]
        if type(x) is int and type(y) is int:
            r[result] = compare(x & mask, y & mask)
        elif native is not None and isinstance(x, np.ndarray) and x.dtype is dtype:
            r[result] = native(x, y)
        else:
            r[result] = evaluate(warp.size, x, y)

    return step


def _never(x: Array, y: Array, element: str) -> Array:
    return np.zeros(x.shape, bool)


def _always(x: Array, y: Array, element: str) -> Array:
    return np.ones(x.shape, bool)


@implements("arith.cmpf", wide=True)
def _cmpf(op: Any, t: Translator) -> Step | None:
    """Compares floats. In upstream's numbering predicate 0 is false, 1 to 7 are ordered, 8 to 14 unordered, 15 true."""
    number = op.predicate.value.data
    source, result = element_of(op.operands[0].type), element_of(op.results[0].type)
    kind = (number - 1) % 7
    if number in (0, 15):
        function: Callable[..., Array] = _always if number else _never
        keywords: dict[str, Any] = {}
    elif kind == 6:
        function, keywords = _unordered if number == 14 else _ordered, {}
    else:
        function = ELEMENTWISE["cmpf"]
        keywords = {
            "comparison_predicate": _FLOAT_PREDICATES[kind],
            "comparison_ordering": "ordered" if number < 8 else "unordered",
        }
    return _step(op, t, _Call(function, (source, source), result, keywords))


def _unordered(x: Array, y: Array, element: str) -> Array:
    return np.asarray((x != x) | (y != y))


def _ordered(x: Array, y: Array, element: str) -> Array:
    return ~_unordered(x, y, element)


@implements("arith.select", wide=True)
def _select(op: Operation, t: Translator) -> Step:
    """Selects by element if the condition is a vector, else one of two values, which may be memrefs."""
    condition, first, second = t.slots(op.operands)
    result = t.slot(op.results[0])
    ty = op.results[0].type
    is_number = isinstance(ty, b.VectorType | b.AnyFloat) or is_integer_scalar(ty)
    element = element_of(ty) if is_number else None

    def step(warp: Warp) -> None:
        r = warp.regs
        chosen = r[condition]
        if type(chosen) is bool:
            r[result] = r[first] if chosen else r[second]
        elif element is None:
            from tilewright.simulator.values import merge

            r[result] = merge(chosen, r[first], r[second])
        else:
            values = [lanes(r[s], element.dtype, warp.size) for s in (first, second)]
            arrays = _broadcast([chosen, *values])
            r[result] = np.where(*arrays)

    return step


@implements("arith.constant", "ub.poison")
def _constant(op: Operation, t: Translator) -> None:
    """A preset; poison is zero."""
    ty = op.results[0].type
    element = element_of(ty)
    value = op.properties.get("value")
    t.preset(op.results[0], constant_value(value, element, shape_of(ty), is_integer_scalar(ty)))


def constant_value(
    value: Attribute | None, element: Element, shape: tuple[int, ...], is_number: bool
) -> Any:
    """The value of a constant, from its attribute."""
    if isinstance(value, b.DenseIntOrFPElementsAttr):
        numbers = np.array(value.get_values())
        array = to_elements(numbers, element)
        array = np.broadcast_to(
            array.reshape(shape if array.size > 1 else (1,) * len(shape)), shape
        )
        return np.ascontiguousarray(np.broadcast_to(array, (WARP_SIZE, *shape)))
    data = 0 if value is None else value.value.data  # pyright: ignore[reportAttributeAccessIssue]
    if is_number:
        if element.bits == 1:
            return bool(data)
        half = 1 << (element.bits - 1)
        return ((int(data) + half) & ((1 << element.bits) - 1)) - half
    return np.full((WARP_SIZE, *shape), to_elements(np.array([data]), element)[0])


def to_elements(numbers: Array, element: Element) -> Array:
    """Convert numbers to elements of a type."""
    if element.is_float:
        return written_floats(numbers, element.name)
    if element.bits == 1:
        return numbers != 0
    return numbers.astype(np.int64).astype(element.dtype)


@implements("math.copysign", wide=True)
def _copysign(op: Operation, t: Translator) -> Step:
    """The magnitude of the first operand with the sign of the second, including NaNs."""
    element = element_of(op.results[0].type)
    return _step(op, t, _Call(_with_sign, (element, element), element, {}))


def _with_sign(x: Array, y: Array, element: str) -> Array:
    return np.copysign(x, y)


@implements("math.ctpop", wide=True)
def _ctpop(op: Operation, t: Translator) -> Step:
    """The number of bits set."""
    element = element_of(op.results[0].type)
    return _step(op, t, _Call(_count_bits, (element,), element, {}))


def _count_bits(source: Array, element: str) -> Array:
    octets = np.ascontiguousarray(source).view(np.uint8).reshape(*source.shape, -1)
    return np.unpackbits(octets, axis=-1).sum(axis=-1).astype(source.dtype)


@implements("nvgpu.rcp", wide=True)
def _rcp(op: Operation, t: Translator) -> Step:
    """The nearest quotient, which is within the error of one ulp that the instruction may have."""
    element = element_of(op.results[0].type)

    def reciprocal(x: Array, element: str) -> Array:
        return ELEMENTWISE["divf"](np.ones_like(x), x, element, flush_to_zero=True)

    return _step(op, t, _Call(reciprocal, (element,), element, {}))
