"""The table of element-wise operations: complete, uniform, and without side effects."""

import warnings
from functools import partial

import numpy as np
import pytest

from tilewright.numerics import BASE_FLOAT_TYPES, FORMATS, INT_TYPES
from tilewright.numerics.arrays import from_bits
from tilewright.numerics.pointers import offset_undefined
from tilewright.numerics.semantics import ELEMENTWISE

CMPF = {"comparison_predicate": "less_than", "comparison_ordering": "ordered"}
CMPI = {"comparison_predicate": "less_than", "signedness": "signed"}
SIGNED = {"signedness": "signed"}
FLUSH = {"flush_to_zero": True}

# mnemonic: operand types, result type, attributes. The element argument is the first operand's.
CALLS = {
    "absf": ("f32", "f32", {}),
    "absi": ("i32", "i32", {}),
    "addf": ("f32 f32", "f32", {"rounding": "zero", **FLUSH}),
    "addi": ("i32 i32", "i32", {"overflow": "none"}),
    "andi": ("i32 i32", "i32", {}),
    "atan2": ("f32 f32", "f32", {}),
    "bitcast": ("f32", "i32", {"to": "i32"}),
    "ceil": ("f32", "f32", {}),
    "cmpf": ("f32 f32", "i1", CMPF),
    "cmpi": ("i32 i32", "i1", CMPI),
    "cos": ("f32", "f32", {}),
    "cosh": ("f32", "f32", {}),
    "divf": ("f32 f32", "f32", {"rounding": "approx", **FLUSH}),
    "divi": ("i32 i32", "i32", {"rounding": "positive_inf", **SIGNED}),
    "exp": ("f32", "f32", {"rounding": "approx"}),
    "exp2": ("f32", "f32", FLUSH),
    "exti": ("i8", "i32", {"to": "i32", **SIGNED}),
    "floor": ("f32", "f32", {}),
    "fma": ("f64 f64 f64", "f64", {"rounding": "nearest_even"}),
    "fpowf": ("f32 f32", "f32", {}),
    "fpowi": ("f32 i32", "f32", {}),
    "ftof": ("f32", "f8E4M3FN", {"to": "f8E4M3FN"}),
    "ftoi": ("f32", "i32", {"to": "i32", "saturating": True, **SIGNED}),
    "int_to_ptr": ("i64", "ptr", {}),
    "itof": ("i32", "f16", {"to": "f16", **SIGNED}),
    "log": ("f32", "f32", {}),
    "log2": ("f32", "f32", {}),
    "maxf": ("f32 f32", "f32", {"propagate_nan": True, **FLUSH}),
    "maxi": ("i32 i32", "i32", SIGNED),
    "minf": ("f32 f32", "f32", {}),
    "mini": ("i32 i32", "i32", SIGNED),
    "mulf": ("f64 f64", "f64", {"rounding": "positive_inf"}),
    "mulhii": ("i64 i64", "i64", {}),
    "muli": ("i32 i32", "i32", {"overflow": "no_wrap"}),
    "negf": ("f32", "f32", {}),
    "negi": ("i32", "i32", {"overflow": "none"}),
    "offset": ("ptr i32", "ptr", {"pointee": "f32"}),
    "ori": ("i32 i32", "i32", {}),
    "pow": ("f32 f32", "f32", {}),
    "ptr_to_int": ("ptr", "i64", {}),
    "ptr_to_ptr": ("ptr", "ptr", {}),
    "remf": ("bf16 bf16", "bf16", {}),
    "remi": ("i32 i32", "i32", SIGNED),
    "rsqrt": ("f32", "f32", FLUSH),
    "select": ("i1 f16 f16", "f16", {}),
    "shli": ("i32 i32", "i32", {"overflow": "none"}),
    "shri": ("i32 i32", "i32", SIGNED),
    "sin": ("f32", "f32", {}),
    "sinh": ("f32", "f32", {}),
    "sqrt": ("f32", "f32", {"rounding": "zero", **FLUSH}),
    "subf": ("f16 f16", "f16", {"rounding": "negative_inf"}),
    "subi": ("i1 i1", "i1", {}),
    "tan": ("f32", "f32", {}),
    "tanh": ("f32", "f32", {"rounding": "full"}),
    "trunci": ("i32", "i1", {"to": "i1", "overflow": "none"}),
    "xori": ("i32 i32", "i32", {}),
}


def random_tile(element: str, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(len(element))
    mask = 2**64 - 1 if element == "ptr" else FORMATS[element].mask
    bits = rng.integers(0, mask, shape, np.uint64, endpoint=True)
    return bits if element == "ptr" else from_bits(np.asarray(bits), element)


def test_the_table_is_complete():
    assert set(ELEMENTWISE) == set(CALLS)


@pytest.mark.parametrize("shape", [(), (3,), (2, 4), (2, 0)])
@pytest.mark.parametrize("op", CALLS)
def test_uniform_calls(op, shape):
    types, result_type, attributes = CALLS[op]
    elements = types.split()
    operands = [random_tile(element, shape) for element in elements]
    before = [operand.tobytes() for operand in operands]
    element = elements[1] if op == "select" else elements[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = ELEMENTWISE[op](*operands, element, **attributes)
        bound = partial(ELEMENTWISE[op], element=element, **attributes)(*operands)
    assert isinstance(result, np.ndarray)
    assert result.shape == shape
    assert result.dtype == random_tile(result_type, ()).dtype
    assert [operand.tobytes() for operand in operands] == before
    assert result.tobytes() == bound.tobytes()


def without(attributes: dict[str, object], *names: str) -> dict[str, object]:
    return {name: value for name, value in attributes.items() if name not in names}


@pytest.mark.parametrize("op", CALLS)
def test_one_element_is_the_same_at_every_rank(op):
    """In every element type that the operands of the operation can have."""
    types, result_type, attributes = CALLS[op]
    family = BASE_FLOAT_TYPES if types[0] in "fb" else INT_TYPES if types[0] == "i" else ()
    if len(set(types.split())) > 1 or "to" in attributes or result_type == "ptr":
        family = ()
    for element in family:
        flags = attributes if element == "f32" else without(attributes, "flush_to_zero")
        if flags.get("rounding") == "approx" and element != "f32":
            flags = without(flags, "rounding")
        operands = [random_tile(element, (1,)) for _ in types.split()]
        line = ELEMENTWISE[op](*operands, element, **flags)
        point = ELEMENTWISE[op](*(operand.reshape(()) for operand in operands), element, **flags)
        assert isinstance(point, np.ndarray)
        assert (line.shape, point.shape) == ((1,), ())
        assert line.tobytes() == point.tobytes()


@pytest.mark.parametrize("target", FORMATS)
def test_rank_0_conversions(target):
    call = ELEMENTWISE["ftof" if FORMATS[target].is_float else "trunci"]
    source = np.asarray(2.0) if FORMATS[target].is_float else np.asarray(2)
    if target in ("f64", "i64"):
        source = source.astype(source.dtype.str.replace("8", "4"))
        call = ELEMENTWISE["ftof"] if target == "f64" else partial(ELEMENTWISE["exti"], **SIGNED)
    attributes = {"rounding": "zero"} if target in ("f8E8M0FNU", "tf32") else {}
    element = {"f": f"f{source.itemsize * 8}", "i": f"i{source.itemsize * 8}"}[source.dtype.kind]
    result = call(source, element, to=target, **attributes)
    assert isinstance(result, np.ndarray)
    assert result.shape == ()


def test_select_copies_bits():
    values = np.array([0x7F800001, 0x00000001], np.uint32).view(np.float32)
    chosen = ELEMENTWISE["select"](np.array([True, False]), values, values[::-1].copy(), "f32")
    assert chosen.view(np.uint32).tolist() == [0x7F800001, 0x7F800001]


def test_offset_counts_storage_bytes():
    base = np.array([1000, 1000, 0], np.uint64)
    steps = np.array([3, -3, -1], np.int32)
    offset = ELEMENTWISE["offset"]
    assert offset(base, steps, "ptr", pointee="tf32").tolist() == [1012, 988, 2**64 - 4]
    assert offset(base, steps, "ptr", pointee="i1").tolist() == [1003, 997, 2**64 - 1]
    assert offset(base, steps.astype(bool), "ptr", pointee="i8").tolist() == [999, 999, 2**64 - 1]
    with pytest.raises(ValueError, match="4 bits"):
        offset(base, steps, "ptr", pointee="f4E2M1FN")


def test_undefined_offsets():
    base = np.array([8, 8, 8, 2**64 - 8, 2**64 - 8], np.uint64)
    steps = np.array([-1, -2, 2**60, 1, 0], np.int64)
    assert offset_undefined(base, steps, "ptr", pointee="f64").tolist() == [
        False,
        True,
        True,
        True,
        False,
    ]
    smallest = np.array([-(2**60), -(2**60) - 1], np.int64)
    high = np.full(2, 2**63, np.uint64)
    assert offset_undefined(high, smallest, "ptr", pointee="f64").tolist() == [False, True]
