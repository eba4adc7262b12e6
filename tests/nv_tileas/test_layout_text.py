"""Layouts in text: written in full, or by the short names that the printer gives."""

from __future__ import annotations

import random

import pytest
from tests.layouts.test_layouts import random_layout
from xdsl.dialects.builtin import f32

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.examples import wrap
from tilewright.dialects.nv_tileaa.type_syntax import format_type
from tilewright.dialects.nv_tileas.types import (
    LayoutAttr,
    SharedAttr,
    TiledViewType,
    layout_of,
    with_layout,
)
from tilewright.layouts import Layout, SharedLayout
from tilewright.text import list_text, parse, print_text
from tilewright.text.layout_aliases import with_layout_aliases


def types_in(text: str) -> list[object]:
    module = parse(text)
    return [value.type for op in module.walk() for value in op.results]


@pytest.mark.parametrize("seed", range(12))
def test_layouts_survive_text(seed: int) -> None:
    rng = random.Random(seed)
    size = 1 << rng.randint(0, 12)
    layout = random_layout(rng, size, 1 << rng.randint(5, 10))
    ty = with_layout(T.TileType((size,), f32), layout)
    assert layout_of(ty) == layout
    source = format_type(T.TileType((size,), f32))
    body = f"%r = nv_tileas.convert_layout %v : {source} -> {format_type(ty)}"
    text = print_text(parse(wrap(body, extra={"v": source})))
    assert types_in(text)[-1] == ty
    assert print_text(parse(text)) == text


@pytest.mark.parametrize("shape", [(64, 32), (32, 128), (16, 8), (2, 64, 64)])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_places_in_shared_memory_survive_text(shape: tuple[int, ...], size: int) -> None:
    shared = SharedLayout.swizzled(shape, len(shape) - 1, size)
    ty = TiledViewType((3, *shape), f32, "smem", SharedAttr.of(shared))
    assert (ty.shared, ty.stages) == (shared, 3)
    text = print_text(parse(wrap(f"%r = nv_tileas.alloc_tensor : {format_type(ty)}")))
    assert "#shared = #nv_tileas.shared<[" in text
    assert types_in(text)[-1] == ty


def test_a_layout_without_copies_is_as_large_as_its_tile() -> None:
    attribute = LayoutAttr.of(Layout.dealt(1, 128))
    assert attribute.layout == Layout.dealt(1, 128)


ONE = "#nv_tileas.layout<register = [], lane = [1, 2, 4, 0, 0], warp = [0, 0]>"
TWO = "#nv_tileas.layout<register = [], lane = [4, 2, 1, 0, 0], warp = [0, 0]>"
SHARED = "#nv_tileas.shared<[1, 2, 4]>"


def program(one: str = ONE, two: str = TWO, shared: str = SHARED) -> str:
    return wrap(
        f"%r = nv_tileas.convert_layout %f : tile<8xf32> -> tile<8xf32, {one}>\n"
        f"%s = nv_tileas.convert_layout %r : tile<8xf32, {one}> -> tile<8xf32, {two}>\n"
        f"%m2 = nv_tileas.alloc_tensor : !nv_tileas.tiled_view<8xf32, smem, {shared}>\n"
        f"nv_tileas.copy %s, %m2 : tile<8xf32, {two}>, !nv_tileas.tiled_view<8xf32, smem, {shared}>"
    )


def test_each_layout_has_one_name() -> None:
    lines = print_text(parse(program())).splitlines()
    assert lines[:3] == [f"#layout = {ONE}", f"#layout1 = {TWO}", f"#shared = {SHARED}"]
    assert not any("#nv_tileas" in line for line in lines[3:])
    assert sum("#layout1>" in line for line in lines) == 2


def test_listings_have_the_names_and_lines_behind_them() -> None:
    module = parse(program())
    listing = list_text(module)
    assert listing.text == print_text(module)
    lines = listing.text.splitlines()
    found = {op.name: lines[line] for op, line in listing.line_of.items()}
    for name in ("nv_tileas.convert_layout", "nv_tileas.alloc_tensor", "nv_tileas.copy"):
        assert name in found[name]


def test_names_may_stand_anywhere() -> None:
    """As other aliases, also with other names, behind their use."""
    text = program("#mine", "#layout", "#s")
    given = f"{text}\n#mine = {ONE}\n#layout = {TWO}\n#s = {SHARED}\n"
    assert parse(given).is_structurally_equivalent(parse(program()))


def test_text_without_layouts_stays() -> None:
    assert with_layout_aliases("a #layout b") == "a #layout b"
    assert not print_text(parse(wrap("nv_tileas.barrier"))).startswith("#")


@pytest.mark.parametrize("results", ["%yes:2", "%yes:1, %no", "%yes, %no:1", "%yes , %no"])
def test_what_follows_an_operation_without_operands(results: str) -> None:
    """Names of results on the next line are no operands."""
    inner = "scf.yield %c, %c : i1, i1"
    text = f"nv_tileas.barrier\n{results} = scf.if %c -> (i1, i1) {{\n{inner}\n}} else {{\n{inner}\n}}\n"
    module = parse(wrap(text))
    assert [len(op.operands) for op in module.walk() if op.name == "nv_tileas.barrier"] == [0]
    assert print_text(parse(print_text(module))) == print_text(module)


def test_strings_stay() -> None:
    """What is told at run time is not renamed, even where it looks like a layout."""
    body = f'%c = arith.constant true\nnv_tileaa.assert %c {{message = "not {ONE}"}} : i1\n'
    text = print_text(parse(program().replace("%r =", f"{body}%r =", 1)))
    assert f'"not {ONE}"' in text
    assert print_text(parse(text)) == text
