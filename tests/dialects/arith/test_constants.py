"""Constants keep every bit of every element type, in both forms of text."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.dialects.arith.support import stock_parse, stock_print, the_op
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, f32, i8, i32
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from tilewright.dialects.arith import ConstantOp, ElementsAttr
from tilewright.dialects.arith.constants import format_of, show_value
from tilewright.dialects.cuda_tile.constants import FloatBitsAttr
from tilewright.dialects.cuda_tile.types import ELEMENT_TYPES
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.examples import wrap
from tilewright.text import parse, print_text

#: For each of the element types, of which there are many; each example takes four parses and prints, and has
#: so many constants.
_EXAMPLES, _TOGETHER = 3, 5

ELEMENTS: dict[str, Attribute] = {**ELEMENT_TYPES, "index": IndexType()}


def width(element: str) -> int:
    fmt = format_of(ELEMENTS[element])
    assert fmt is not None
    return fmt.bits


def patterns(element: str, count: int) -> st.SearchStrategy[list[int]]:
    most = (1 << width(element)) - 1
    return st.lists(st.integers(0, most), min_size=count, max_size=count)


def survive(constants: Sequence[ConstantOp]) -> None:
    """A module with the constants reads back from each form to the same bits."""
    values = [show_value(each.properties["value"]) for each in constants]
    text = wrap("\n".join(f"%r{n} = arith.constant {value}" for n, value in enumerate(values)))
    module = parse(text)
    for generic in (False, True):
        shown = print_text(module, generic=generic)
        again = parse(shown)
        assert again.is_structurally_equivalent(module)
        found = [op for op in again.walk() if isinstance(op, ConstantOp)]
        for one, constant in zip(found, constants, strict=True):
            assert one.properties == constant.properties
            assert one.bits() == constant.bits()
            assert one.result.type == constant.result.type
        stock = stock_print(module, generic)
        assert stock_parse(stock).is_structurally_equivalent(module)


@pytest.mark.parametrize("element", ELEMENTS)
@settings(max_examples=_EXAMPLES)
@given(data=st.data())
def test_scalars_are_exact(element: str, data: st.DataObject) -> None:
    bits = data.draw(patterns(element, _TOGETHER))
    constants = [ConstantOp.from_bits(ELEMENTS[element], [each]) for each in bits]
    assert [constant.bits() for constant in constants] == [[each] for each in bits]
    survive(constants)


@pytest.mark.parametrize("element", ELEMENTS)
@settings(max_examples=_EXAMPLES)
@given(data=st.data())
def test_tiles_are_exact(element: str, data: st.DataObject) -> None:
    drawn = [data.draw(patterns(element, 8)) for _ in range(_TOGETHER)]
    tile = T.TileType([2, 4], ELEMENTS[element])
    constants = [ConstantOp.from_bits(tile, bits) for bits in drawn]
    for constant, bits in zip(constants, drawn, strict=True):
        assert constant.bits() == (bits if len(set(bits)) > 1 else bits[:1])
    survive(constants)


@pytest.mark.parametrize("element", ELEMENTS)
def test_extreme_patterns(element: str) -> None:
    """All bits set, the sign alone, and what is next to them; for f32 that is NaN with payloads."""
    bits = width(element)
    found = {0, 1, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1}
    types = ELEMENTS[element], T.TileType([4], ELEMENTS[element])
    survive([ConstantOp.from_bits(ty, [pattern]) for pattern in found for ty in types])


@pytest.mark.parametrize(
    ("written", "ty", "bits"),
    [
        ("0 : i32", "i32", [0]),
        ("-1 : i8", "i8", [255]),
        ("255 : i8", "i8", [255]),
        ("7", "i64", [7]),
        ("1.5", "f64", [0x3FF8 << 48]),
        ("true", "i1", [1]),
        ("false", "i1", [0]),
        ("-3 : index", "index", [2**64 - 3]),
        ("0x7FC00001 : f32", "f32", [0x7FC00001]),
        ("1.0 : f8E4M3FN", "f8E4M3FN", [0x38]),
        ("dense<0.0> : tile<128xf32>", "tile<128xf32>", [0]),
        ("dense<[true, false]> : tile<2xi1>", "tile<2xi1>", [1, 0]),
        ("dense<[[1, 2], [3, 4]]> : tile<2x2xindex>", "tile<2x2xindex>", [1, 2, 3, 4]),
        ("dense<[-8, 7]> : tile<2xi4>", "tile<2xi4>", [8, 7]),
        ('dense<"0x0100FFFF"> : tile<2xi16>', "tile<2xi16>", [1, 0xFFFF]),
        ("dense<-0.0> : !nv_tileaa.tile<4xbf16>", "tile<4xbf16>", [0x8000]),
    ],
)
def test_spellings(written: str, ty: str, bits: list[int]) -> None:
    op = the_op(f"%r = arith.constant {written}", "arith.constant")
    assert isinstance(op, ConstantOp)
    assert op.TYPE_SYNTAX.format(op.result.type) == ty
    assert op.bits() == bits


def test_equal_values_are_equal_attributes() -> None:
    ty = T.TileType([4], i8)
    assert ElementsAttr.from_bits(ty, [255]) == ElementsAttr.from_bits(ty, [255] * 4)
    assert ElementsAttr.from_bits(ty, [255]).is_splat
    assert ConstantOp.from_value(i8, -1).properties == ConstantOp.from_bits(i8, [255]).properties
    assert ConstantOp.from_value(ty, -1).bits() == [255]
    assert ConstantOp.from_value(f32, 0.1).bits() == [0x3DCCCCCD]
    assert ConstantOp.from_value(IndexType(), -1).properties["value"] == IntegerAttr(
        -1, IndexType()
    )


def test_ordinary_float_attributes_become_exact() -> None:
    op = ConstantOp.create(result_types=[f32], properties={"value": FloatAttr(1.5, f32)})
    assert op.properties["value"] == FloatBitsAttr(f32, 0x3FC00000)


def test_ill_formed_elements_are_refused() -> None:
    with pytest.raises(VerifyException, match="expected 4 or 16 bytes"):
        ElementsAttr(T.TileType([4], i32), bytes(range(8)))
    with pytest.raises(VerifyException, match="numbers or index"):
        ElementsAttr(T.TileType([4], T.PtrType(f32)), bytes(8))


def test_discardable_attributes_stand_before_the_value() -> None:
    op = the_op('%r = arith.constant {note = "x"} 1 : i32', "arith.constant")
    assert set(op.attributes) == {"note"}
    assert print_text(op) == '%r = arith.constant {note = "x"} 1 : i32\n'
