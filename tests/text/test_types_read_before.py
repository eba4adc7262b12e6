"""A type that a text before has had is not read again: that changes nothing but the time that it takes."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import IntegerType, VectorType, f32, i32

from tilewright.diagnostics import TileIRError
from tilewright.dialects.cuda_tile.types import TileType
from tilewright.dialects.nv_tileaa import types as aa
from tilewright.text import parse
from tilewright.text.operations import _read_types, make_context


@pytest.fixture(autouse=True)
def nothing_is_read() -> None:
    _read_types.cache_clear()


def _type(text: str, before: str = "", **options: bool) -> object:
    """The type of the parameter of a function of one."""
    body = f"func.func @f(%x: {text}) {{ func.return }}"
    module = parse(f"{before}\nmodule {{ {body} }}", **options)
    (argument,) = next(iter(module.body.block.ops)).regions[0].block.args
    return argument.type


@pytest.mark.parametrize(
    "text",
    [
        "vector<4xf32>",
        "memref<4x?xf32, strided<[?, 1], offset: ?>, 3>",
        "memref<4xf32, affine_map<(d0) -> (d0 + 1)>>",
        "!nv_tileaa.ptr<f32, 1>",
        "!cuda_tile.tile<4x!cuda_tile.ptr<f32>>",
    ],
)
def test_it_is_the_same_type(text: str) -> None:
    assert _type(text) == _type(text)
    assert _type(text, "// vector<4xf32>") == _type(f"{text} ")


def test_it_is_one_object() -> None:
    assert _type("vector<4xf32>") is _type("vector<4xf32>")


def test_what_follows_is_read() -> None:
    assert _type("vector<4xf32>") == VectorType(f32, [4])
    with pytest.raises(TileIRError, match="expected"):
        _type("vector<4xf32>>")
    with pytest.raises(TileIRError):
        _type("vector<4xf32")


def test_aliases_are_those_of_the_text() -> None:
    assert _type("vector<4x!a>", "!a = f32") == VectorType(f32, [4])
    assert _type("vector<4x!a>", "!a = i32") == VectorType(i32, [4])
    with pytest.raises(TileIRError, match="undefined alias"):
        _type("vector<4x!a>")


def test_a_tile_is_that_of_its_level() -> None:
    for _ in range(2):
        module = parse("entry @k(%x: tile<8xf32>) {}")
        (argument,) = next(iter(module.body.block.ops)).regions[0].block.args
        assert isinstance(argument.type, TileType)
        assert isinstance(_type("tile<8xf32>", "// nv_tileaa"), aa.TileType)


def test_types_of_unknown_dialects_are_not_kept() -> None:
    with pytest.raises(TileIRError, match="unknown type"):
        _type("!foo.bar<1>")
    assert _type("!foo.bar<1>", allow_unregistered=True) == _type(
        "!foo.bar<1>", allow_unregistered=True
    )
    with pytest.raises(TileIRError, match="unknown type"):
        _type("!foo.bar<1>")
    assert not any(make_context(True).type_memos.values())


def _nested(depth: int) -> str:
    inside = "[" * depth + "vector<4xf32>" + "]" * depth
    return f"module attributes {{x = {inside}}} {{}}"


def _codes(text: str) -> set[str]:
    try:
        parse(text)
    except TileIRError as error:
        return {diagnostic.code for diagnostic in error.diagnostics}
    return set()


def test_the_limit_of_nesting_does_not_depend_on_it() -> None:
    found: list[set[str]] = []
    for depth in range(190, 202):
        _read_types.cache_clear()
        first = _codes(_nested(depth))
        parse(_nested(1))
        assert _codes(_nested(depth)) == first
        found.append(first)
    assert found[0] == set()
    assert found[-1] == {"nesting-too-deep"}


def test_integers_have_the_type_that_is_written() -> None:
    module = parse("module attributes {a = 1, b = 1 : i8, c = true} {}")
    types = [module.attributes[name].type for name in "abc"]
    assert types == [IntegerType(64), IntegerType(8), IntegerType(1)]
