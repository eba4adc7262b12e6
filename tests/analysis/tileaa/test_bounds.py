"""Accesses that stay inside, bulk copies, uniform values and lifetimes, by hand."""

from __future__ import annotations

import pytest
from tests.analysis.tileaa.reading import DEFAULT_ARGUMENTS, Read, read

from tilewright.analysis.tileaa import Uniformity
from tilewright.analysis.tileaa.bounds import AxisBounds

TOKEN = "!nv_tileaa.mem_token"
PTR = "!nv_tileaa.ptr<f32, 1>"


def tiles(
    *,
    shape: str = "128x64",
    strides: str = "64, 1",
    sizes: str = "",
    index: str = "%c0, %c0",
    before: str = "",
    pointer: str = "%a",
    flags: str = "",
    tile: tuple[int, int] = (16, 32),
    counted: str = "%v",
    counted_view: str = "",
    element: str = "f32",
) -> Read:
    """A load in a loop over the tiles of the view, or of ``counted``, another one of that type."""
    memref = f"!nv_tileaa.memref<{shape}x{element}, strides = [{strides}], 1>"
    view = f"!nv_tileaa.tiled_view<{tile[0]}x{tile[1]}x{element}, source = {memref}>"
    ptr = PTR.replace("f32", element)
    types = ", ".join([ptr, *["index"] * sizes.count("%")])
    text = f"""
    %a = nv_tileaa.assume %p {{predicates = [#nv_tileaa.div_by<16>]}} : {ptr}
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    {before}
    %m = nv_tileaa.make_memref {pointer}{sizes} : ({types}) -> {memref}
    %v = nv_tileaa.block_tile %m {{tileSizes = array<i64: {tile[0]}, {tile[1]}>, dimGroups = [[0], [1]]}} : {memref} -> {view}
    %t = nv_tileaa.create_mem_token : {TOKEN}
    %tiles = nv_tileaa.get_dim_size {counted} {{axis = 0 : i32}} : {counted_view or view} -> index
    scf.for %k = %c0 to %tiles step %c1 {{
      %e, %t1 = nv_tileaa.tiled_load %v[{index}], %t {{{flags}}} : {view}, index, index, {TOKEN} -> tile<{tile[0]}x{tile[1]}x{element}>, {TOKEN}
      scf.yield
    }}
    """
    return read(text, arguments=DEFAULT_ARGUMENTS.replace("f32", element))


def verdicts(found: Read) -> list[str]:
    bounds: tuple[AxisBounds, ...] = found.facts.bounds.of(found.op("tiled_load"))
    return [bound.verdict for bound in bounds]


def test_static_extents_and_indices() -> None:
    assert verdicts(tiles(index="%c3, %c1")) == ["inside", "inside"]
    assert verdicts(tiles(index="%c3, %c3")) == ["inside", "unknown"]


def test_a_loop_over_all_tiles() -> None:
    assert verdicts(tiles(index="%k, %c0")) == ["inside", "inside"]
    ragged = tiles(shape="?x64", sizes=", %x", index="%k, %c0")
    assert verdicts(ragged) == ["begins inside", "inside"]
    whole = tiles(
        shape="?x64",
        sizes=", %y",
        index="%k, %c0",
        before="%y = nv_tileaa.assume %x {predicates = [#nv_tileaa.div_by<16>]} : index",
    )
    assert verdicts(whole) == ["inside", "inside"]


@pytest.mark.parametrize(
    ("extent", "rows", "counts"), [("%y", 16, True), ("%y", 8, False), ("%z", 16, False)]
)
def test_a_loop_over_the_tiles_of_another_view(extent: str, rows: int, counts: bool) -> None:
    """Their number is that of the view's own where extent and step are."""
    memref = "!nv_tileaa.memref<?x64xf32, strides = [64, 1], 1>"
    view = f"!nv_tileaa.tiled_view<{rows}x32xf32, source = {memref}>"
    found = tiles(
        shape="?x64",
        sizes=", %y",
        index="%k, %c0",
        counted="%w",
        counted_view=view,
        before=f"""
        %y = nv_tileaa.assume %x {{predicates = [#nv_tileaa.div_by<16>]}} : index
        %z = nv_tileaa.assume %x {{predicates = [#nv_tileaa.div_by<32>]}} : index
        %other = nv_tileaa.make_memref %a, {extent} : ({PTR}, index) -> {memref}
        %w = nv_tileaa.block_tile %other {{tileSizes = array<i64: {rows}, 32>, dimGroups = [[0], [1]]}} : {memref} -> {view}
        """,
    )
    assert verdicts(found) == ["inside" if counts else "unknown", "inside"]


def test_an_access_is_inside_along_all_axes() -> None:
    for index, expected in {"%c3, %c1": True, "%c3, %c3": False, "%x, %c1": False}.items():
        found = tiles(index=index)
        assert found.facts.bounds.inside(found.op("tiled_load")) is expected


def test_a_promise_counts() -> None:
    found = tiles(index="%x, %x", flags="in_bounds = array<i1: true, false>")
    assert verdicts(found) == ["inside", "unknown"]


def obstacles(found: Read) -> tuple[str, ...]:
    return found.facts.bulk_copies.of(found.op("tiled_load")).obstacles


def test_bulk_copies() -> None:
    assert obstacles(tiles()) == ()
    assert obstacles(tiles(pointer="%p")) == (
        "the address is known to be a multiple of 1 bytes only",
    )
    assert obstacles(tiles(strides="63, 1")) == (
        "the stride of axis 0 is known to be a multiple of 4 bytes only",
    )
    assert obstacles(tiles(strides="1, 128", tile=(16, 32))) == ()
    assert obstacles(tiles(strides="512, 2")) == (
        "no axis is known to have stride 1",
        "the stride of axis 1 is known to be a multiple of 8 bytes only",
    )
    assert obstacles(tiles(tile=(16, 2))) == ("rows of 8 bytes, not a multiple of 16",)
    assert obstacles(tiles(shape="1024x64", tile=(512, 32))) == (
        "a box of 512 elements along an axis, more than 256",
    )
    assert obstacles(tiles(shape="1024x64", tile=(256, 32))) == ()
    ordered = "mem_semantic = acquire, mem_scope = gpu"
    assert obstacles(tiles(flags=ordered)) == ("acquire accesses cannot be bulk copies",)
    assert obstacles(tiles(flags="allow_tma = false")) == ("the program forbids it",)


def test_elements_that_share_bytes_are_not_copied_in_bulk() -> None:
    assert obstacles(tiles(element="f4E2M1FN")) == ("elements of 4 bits share their bytes",)
    assert obstacles(tiles(element="f4E2M1FN", strides="66, 1")) == (
        "elements of 4 bits share their bytes",
        "the stride of axis 0 is known to be a multiple of 1 bytes only",
    )


@pytest.mark.parametrize("rank", [5, 6])
def test_bulk_copies_have_five_axes_at_most(rank: int) -> None:
    sizes = [1] * (rank - 1) + [4]
    strides = ", ".join(["16"] * (rank - 1) + ["1"])
    memref = f"!nv_tileaa.memref<{'x'.join(map(str, sizes))}xf32, strides = [{strides}], 1>"
    tile = f"{'x'.join(map(str, sizes))}xf32"
    view = f"!nv_tileaa.tiled_view<{tile}, source = {memref}>"
    groups = ", ".join(f"[{axis}]" for axis in range(rank))
    indices, types = ", ".join(["%c0"] * rank), ", ".join(["index"] * rank)
    found = read(f"""
    %a = nv_tileaa.assume %p {{predicates = [#nv_tileaa.div_by<16>]}} : {PTR}
    %c0 = arith.constant 0 : index
    %m = nv_tileaa.make_memref %a : ({PTR}) -> {memref}
    %v = nv_tileaa.block_tile %m {{tileSizes = array<i64: {", ".join(map(str, sizes))}>, dimGroups = [{groups}]}} : {memref} -> {view}
    %t = nv_tileaa.create_mem_token : {TOKEN}
    %e, %t1 = nv_tileaa.tiled_load %v[{indices}], %t : {view}, {types}, {TOKEN} -> tile<{tile}>, {TOKEN}
    """)
    assert obstacles(found) == (("more than 5 axes",) if rank > 5 else ())


def test_uniform_values() -> None:
    found = read("""
    %b = nv_tileaa.get_program_id {axis = 0 : i32} : i32
    %s = nv_tileaa.splat %n : i32 -> tile<8xi32>
    %i = nv_tileaa.make_range {start = 0 : i64, end = 8 : i64} : tile<8xi32>
    %k = nv_tileaa.splat %b : i32 -> tile<8xi32>
    %a = arith.addi %s, %i : tile<8xi32>
    %d = arith.addi %s, %k : tile<8xi32>
    %c = arith.cmpi slt, %b, %n : i32
    %c1 = arith.constant 1 : i32
    %r = scf.if %c -> (i32) {
      scf.yield %n : i32
    } else {
      scf.yield %c1 : i32
    }
    """)
    of = found.facts.uniformities.of
    assert of(found.value("s")) == Uniformity(True, True)
    assert of(found.value("a")) == Uniformity(False, True)
    assert of(found.value("d")) == Uniformity(True, False)
    # Which branch was taken differs between blocks, so the result does.
    assert of(found.value("r")) == Uniformity(True, False)


def test_lifetimes() -> None:
    found = read("""
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %a = arith.constant dense<1.0> : tile<64xf32>
    %b = arith.constant dense<2.0> : tile<64xf16>
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %a) -> (tile<64xf32>) : i32 {
      %w = nv_tileaa.fp_to_fp %b : tile<64xf16> -> tile<64xf32>
      %sum = nv_tileaa.addf %s, %w : tile<64xf32>
      scf.yield %sum : tile<64xf32>
    }
    """)
    lifetimes = found.facts.lifetimes
    loop = lifetimes.position(found.op("scf.for"))
    end = lifetimes.position(found.op("scf.yield"))
    b = lifetimes.of(found.value("b"))
    assert (b.start, b.end, b.size) == (loop - 1, end, 128)  # the loop reads it to its end
    carried = lifetimes.of(found.value("s"))
    assert (carried.start, carried.end) == (loop, end)
    # The carried tile, f16 operand, widened operand and sum are alive at the addition.
    most, where = lifetimes.peak()
    assert most == 256 + 128 + 256 + 256
    assert where is found.op("addf")


MEMREF = "!nv_tileaa.memref<128x64xf32, strides = [64, 1], 1>"


def alignment(predicates: str = "", pointer: str = "%p", offset: str = "", before: str = "") -> int:
    """What is known of the address of a memref, behind assumptions about the memref itself."""
    assumed = (
        f"%r = nv_tileaa.assume %m {{predicates = [{predicates}]}} : {MEMREF}" if predicates else ""
    )
    given = ", %o" if offset else ""
    types = f"({PTR}{', index' if offset else ''})"
    found = read(f"""
    %a = nv_tileaa.assume %p {{predicates = [#nv_tileaa.div_by<16>]}} : {PTR}
    {offset}
    {before}
    %m = nv_tileaa.make_memref {pointer}{given} : {types} -> {MEMREF}
    {assumed}
    """)
    return found.facts.bulk_copies.alignment(found.value("r" if assumed else "m"))


def test_alignment_is_that_of_the_pointer() -> None:
    assert alignment() == 1
    assert alignment(pointer="%a") == 16


def test_alignment_counts_what_is_assumed_of_the_memref() -> None:
    assert alignment("#nv_tileaa.div_by<32>") == 32
    assert alignment("#nv_tileaa.div_by<32>", pointer="%a") == 32
    assert alignment("#nv_tileaa.div_by<8>", pointer="%a") == 16
    assert alignment("#nv_tileaa.div_by<8>, #nv_tileaa.div_by<64>") == 64
    assert alignment("#nv_tileaa.div_by<64>, #nv_tileaa.div_by<8>") == 64


def test_alignment_is_not_above_that_of_the_offset() -> None:
    four = "%o = nv_tileaa.assume %x {predicates = [#nv_tileaa.div_by<4>]} : index"
    assert alignment(pointer="%a", offset=four) == 4
    assert alignment(pointer="%a", offset=four.replace("<4>", "<64>")) == 16
    assert alignment(pointer="%p", offset=four.replace("<4>", "<64>")) == 1
    assert alignment("#nv_tileaa.div_by<8>", pointer="%a", offset=four) == 8


def test_other_facts_say_nothing_of_alignment() -> None:
    assert alignment("#nv_tileaa.same_elements<[]>") == 1
    assert alignment("#nv_tileaa.same_elements<[]>, #nv_tileaa.div_by<8>") == 8
