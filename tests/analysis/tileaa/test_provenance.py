"""Roots of pointers and which accesses may meet."""

from __future__ import annotations

import pytest
from tests.analysis.tileaa.reading import Read, read

from tilewright.analysis.tileaa import Root
from tilewright.analysis.tileaa.provenance import Provenance, origin_of

PTR = "!nv_tileaa.ptr<f32, 1>"
TOKEN = "!nv_tileaa.mem_token"


def roots(found: Read, name: str) -> set[str]:
    return {str(root) for root in found.facts.provenances.of(found.value(name)).roots}


def test_roots_pass_through_what_derives_pointers() -> None:
    found = read(f"""
    %o = arith.constant 4 : i32
    %a = nv_tileaa.addptr %p, %o : {PTR}, i32 -> {PTR}
    %b = nv_tileaa.splat %a : {PTR} -> tile<8x{PTR}>
    %c = arith.cmpi slt, %n, %o : i32
    %d = arith.select %c, %a, %q : {PTR}
    %g = nv_tileaa.get_global @table : {PTR}
    """)
    assert roots(found, "b") == {"argument 0"}
    assert roots(found, "d") == {"argument 0", "argument 1"}
    assert roots(found, "g") == {"@table"}


def test_loops_collect_roots() -> None:
    found = read(f"""
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%w = %p) -> ({PTR}) : i32 {{
      %y = nv_tileaa.addptr %w, %c1 : {PTR}, i32 -> {PTR}
      %c = arith.cmpi slt, %i, %c1 : i32
      %z = arith.select %c, %y, %q : {PTR}
      scf.yield %z : {PTR}
    }}
    """)
    assert roots(found, "r") == {"argument 0", "argument 1"}


def test_a_number_can_point_anywhere() -> None:
    found = read(f"%a = arith.constant 64 : i64\n%b = nv_tileaa.int_to_ptr %a : i64 -> {PTR}")
    assert found.facts.provenances.of(found.value("b")).roots == {Root("int_to_ptr")}


def two_loads(made: str, first: str, second: str) -> bool:
    found = read(f"""
    {made}
    %t = nv_tileaa.create_mem_token : {TOKEN}
    %v, %t1 = nv_tileaa.load {first}, %t : {PTR}, {TOKEN} -> f32, {TOKEN}
    %u, %t2 = nv_tileaa.load {second}, %t : {PTR}, {TOKEN} -> f32, {TOKEN}
    """)
    return found.facts.aliases.may_alias(found.op("load", 0), found.op("load", 1))


GLOBALS = (
    f"%g = nv_tileaa.get_global @table : {PTR}\n%h = nv_tileaa.get_global @other : {PTR}\n"
    f"%k = arith.constant 8 : i64\n%z = nv_tileaa.int_to_ptr %k : i64 -> {PTR}\n"
)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("%p", "%q", True),  # arguments may overlap
        ("%p", "%g", True),  # a caller can know a global
        ("%g", "%h", False),
        ("%g", "%g", True),
        ("%g", "%z", True),
    ],
)
def test_which_roots_may_meet(first: str, second: str, expected: bool) -> None:
    assert two_loads(GLOBALS, first, second) is expected


def views(first: str, second: str, scopes: tuple[str, str] = ("", "")) -> bool:
    def memref(scope: str) -> str:
        return f"!nv_tileaa.memref<64x64xf32, strides = [64, 1]{scope}, 1>"

    def view(scope: str) -> str:
        return f"!nv_tileaa.tiled_view<16x64xf32, source = {memref(scope)}>"

    a, b = scopes

    def attribute(scope: str) -> str:
        return f" {{{scope.removeprefix(', ')} : i32}}" if scope else ""

    found = read(f"""
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %m = nv_tileaa.make_memref %p{attribute(a)} : ({PTR}) -> {memref(a)}
    %o = nv_tileaa.make_memref %q{attribute(b)} : ({PTR}) -> {memref(b)}
    %v = nv_tileaa.block_tile %m {{tileSizes = array<i64: 16, 64>, dimGroups = [[0], [1]]}} : {memref(a)} -> {view(a)}
    %w = nv_tileaa.block_tile %o {{tileSizes = array<i64: 16, 64>, dimGroups = [[0], [1]]}} : {memref(b)} -> {view(b)}
    %t = nv_tileaa.create_mem_token : {TOKEN}
    %e, %t1 = nv_tileaa.tiled_load {first}, %t : {view(a)}, index, index, {TOKEN} -> tile<16x64xf32>, {TOKEN}
    %f, %t2 = nv_tileaa.tiled_load {second}, %t : {view(b if "%w" in second else a)}, index, index, {TOKEN} -> tile<16x64xf32>, {TOKEN}
    """)
    return found.facts.aliases.may_alias(found.op("tiled_load", 0), found.op("tiled_load", 1))


def test_tiles_at_fixed_places_of_one_memref() -> None:
    assert not views("%v[%c0, %c0]", "%v[%c1, %c0]")
    assert views("%v[%c0, %c0]", "%v[%c0, %c0]")
    assert views("%v[%c0, %c0]", "%v[%x, %c0]")


def test_alias_scopes_tell_memrefs_apart() -> None:
    assert views("%v[%c0, %c0]", "%w[%c1, %c0]")
    assert not views("%v[%c0, %c0]", "%w[%c0, %c0]", (", alias_scope = 1", ", alias_scope = 2"))
    assert views("%v[%c0, %c0]", "%w[%c0, %c0]", (", alias_scope = 1", ""))


def test_origins_lie_behind_what_derives_from_one_pointer() -> None:
    found = read(f"""
    %o = arith.constant 4 : i32
    %a = nv_tileaa.addptr %p, %o : {PTR}, i32 -> {PTR}
    %b = nv_tileaa.splat %a : {PTR} -> tile<8x{PTR}>
    %c = arith.cmpi slt, %n, %o : i32
    %d = arith.select %c, %a, %q : {PTR}
    %g = nv_tileaa.get_global @table : {PTR}
    %i = arith.constant 0 : index
    %j = arith.constant 1 : index
    %l = scf.for %k = %i to %x step %j iter_args(%s = %p) -> ({PTR}) {{
      scf.yield %q : {PTR}
    }}
    """)
    assert origin_of(found.value("l")) is found.value("l")  # not where it begins
    assert origin_of(found.value("b")) is found.function.body.block.args[0]
    assert origin_of(found.value("d")) is found.value("d")  # of two pointers
    assert origin_of(found.value("g")) is found.value("g")


def test_a_scope_holds_where_all_ways_have_it() -> None:
    join = read("").facts.provenances.join
    one, other = (Provenance(frozenset({Root("argument", n)}), 1) for n in "01")
    assert join(one, other) == Provenance(one.roots | other.roots, 1)
    assert join(one, Provenance(other.roots, 2)).scope is None
    assert join(one, Provenance(other.roots)).scope is None


@pytest.mark.parametrize(
    ("first", "second", "expected"), [(1, 4, False), (0, 4, True), (1, 0, True), (4, 4, True)]
)
def test_address_spaces_tell_accesses_apart(first: int, second: int, expected: bool) -> None:
    """But for 0, which holds all others."""
    one, other = (f"!nv_tileaa.ptr<f32, {space}>" for space in (first, second))
    found = read(
        f"""
        %t = nv_tileaa.create_mem_token : {TOKEN}
        %v, %t1 = nv_tileaa.load %p, %t : {one}, {TOKEN} -> f32, {TOKEN}
        %u, %t2 = nv_tileaa.load %q, %t : {other}, {TOKEN} -> f32, {TOKEN}
        """,
        arguments=f"%p: {one}, %q: {other}",
    )
    assert found.facts.aliases.may_alias(found.op("load", 0), found.op("load", 1)) is expected


def test_what_is_no_access_may_touch_anything() -> None:
    found = read(f"""
    %t = nv_tileaa.create_mem_token : {TOKEN}
    %v, %t1 = nv_tileaa.load %p, %t : {PTR}, {TOKEN} -> f32, {TOKEN}
    """)
    pair = found.op("load"), found.op("create_mem_token")
    may_alias = found.facts.aliases.may_alias
    assert may_alias(*pair) and may_alias(*reversed(pair))
