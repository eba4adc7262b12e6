"""Which tiles are held in buffers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cpu.codegen.support import Given, memref, on_tiles, tile

from tilewright.builder import ModuleBuilder, ptr
from tilewright.cpu import Program
from tilewright.cpu.compile import CompileOptions, compile_kernel, plan_text
from tilewright.diagnostics import TileIRError
from tilewright.lowering import lower_to_tileaa
from tilewright.text import parse

_REF = memref("f32", (64, 64))
_VIEW = f"!nv_tileaa.tiled_view<64x64xf32, source = {_REF}>"
_TILE = tile("f32", (64, 64))


def _kernel(body: str) -> str:
    return f"""
    module {{
      nv_tileaa.func @k(%x: !nv_tileaa.ptr<f32, 1>, %y: !nv_tileaa.ptr<f32, 1>) attributes {{kernel}} {{
        %z = arith.constant 0 : index
        %mx = nv_tileaa.make_memref %x : !nv_tileaa.ptr<f32, 1> -> {_REF}
        %my = nv_tileaa.make_memref %y : !nv_tileaa.ptr<f32, 1> -> {_REF}
        %vx = nv_tileaa.block_tile %mx {{tileSizes = array<i64: 64, 64>, dimGroups = [[0], [1]]}} : {_REF} -> {_VIEW}
        %vy = nv_tileaa.block_tile %my {{tileSizes = array<i64: 64, 64>, dimGroups = [[0], [1]]}} : {_REF} -> {_VIEW}
        %t = nv_tileaa.tiled_load %vx[%z, %z] : {_VIEW}, index, index -> {_TILE}
        {body}
        nv_tileaa.return
      }}
    }}
    """


def _store(view: str, value: str) -> str:
    return f"nv_tileaa.tiled_store {view}[%z, %z], {value} : {_VIEW}, {_TILE}, index, index -> ()\n"


def _plan(body: str, **options: bool) -> dict[str, str]:
    """How the result of each operation is held; the last one of a name counts."""
    text = plan_text(parse(_kernel(body)), None, CompileOptions(**options))  # pyright: ignore[reportArgumentType]
    found: dict[str, str] = {}
    for line in text.splitlines():
        name = line.split()[1].rstrip(":")
        found[name] = line.rpartition(": ")[2].partition(";")[0]
    return found


_LAZY = "computed where it is read"


def test_chains_are_one_pass():
    plan = _plan(
        f"%a = nv_tileaa.addf %t, %t : {_TILE}\n%b = nv_tileaa.mulf %a, %t : {_TILE}\n"
        + _store("%vy", "%b")
    )
    assert set(plan.values()) == {_LAZY}


def test_expensive_values_with_two_readers_are_kept():
    plan = _plan(f"%a = math.exp %t : {_TILE}\n" + _store("%vy", "%a") + _store("%vx", "%a"))
    assert plan["math.exp"] == "buffer"


def test_cheap_values_with_two_readers_are_computed_twice():
    plan = _plan(f"%a = arith.negf %t : {_TILE}\n" + _store("%vy", "%a") + _store("%vy", "%a"))
    assert plan["arith.negf"] == _LAZY


def test_a_load_is_kept_if_its_memory_may_change_before_it_is_read():
    body = f"%a = arith.constant dense<0.0> : {_TILE}\n" + _store("%vy", "%a") + _store("%vy", "%t")
    assert _plan(body)["nv_tileaa.tiled_load"] == _LAZY
    assert _plan(body, distinct_arguments=False)["nv_tileaa.tiled_load"] == "buffer"
    same = f"%a = arith.constant dense<0.0> : {_TILE}\n" + _store("%vx", "%a") + _store("%vy", "%t")
    assert _plan(same)["nv_tileaa.tiled_load"] == "buffer"


@pytest.mark.parametrize(
    ("read", "written", "kept"),
    [
        ("padding_value = #nv_tileaa<padding_value zero>, ", "", False),
        ("", "padding_value = #nv_tileaa<padding_value zero>, ", False),
        ("", "traversalStrides = array<i64: 32, 64>, ", True),
    ],
    ids=["read with padding", "written with padding", "tiles elsewhere"],
)
def test_what_is_read_and_written_in_place_is_kept_where_tiles_differ(
    read: str, written: str, kept: bool
) -> None:
    """Frontends make a view for each access, and give a padding to those that they read through."""
    views = "".join(
        f"%{name} = nv_tileaa.block_tile %mx {{{more}tileSizes = array<i64: 64, 64>, dimGroups = [[0], [1]]}}"
        f" : {_REF} -> {_VIEW}\n"
        for name, more in (("r", read), ("w", written))
    )
    body = (
        f"{views}%u = nv_tileaa.tiled_load %r[%z, %z] : {_VIEW}, index, index -> {_TILE}\n"
        f"%a = nv_tileaa.addf %u, %u : {_TILE}\n" + _store("%w", "%a")
    )
    assert _plan(body)["nv_tileaa.tiled_load"] == ("buffer" if kept else _LAZY)


def test_a_padded_tile_is_changed_in_place() -> None:
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32"), "rows": "i32", "columns": "i32"}) as k:
        i, j, _ = k.get_tile_block_id()
        rows, columns = k.args.rows, k.args.columns
        x = k.make_tensor_view(k.args.x, shape=[rows, columns], strides=[columns, 1])
        held, token = k.load_view_tko(k.partition(x, tile=(8, 32), padding="zero"), [i, j])
        target = k.partition(x, tile=(8, 32))
        k.store_view_tko(held * held + 1.0, target, [i, j], token=token)
    built = module.build()
    assert "buffer" not in plan_text(lower_to_tileaa(built).module)
    for shape in ((8, 32), (13, 70), (3, 5)):
        x = np.random.default_rng(0).integers(-8, 8, shape).astype(np.float32)
        expected = x * x + 1
        Program(built).launch("k", (-(-shape[0] // 8), -(-shape[1] // 32)), (x, *shape))
        assert (x == expected).all()


def test_a_tile_is_not_kept_for_a_store_to_another_one() -> None:
    """Halves of rows that are changed in place: the first one is read again behind its store, the second one is not."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32")}) as k:
        row, _, _ = k.get_tile_block_id()
        x = k.partition(
            k.make_tensor_view(k.args.x, shape=[24, 128], strides=[128, 1]), tile=(8, 64)
        )
        a, one = k.load_view_tko(x, [row, 0])
        b, two = k.load_view_tko(x, [row, 1])
        three = k.store_view_tko(a * 3.0 - b, x, [row, 0], token=k.join_tokens([one, two]))
        k.store_view_tko(b * 3.0 + a, x, [row, 1], token=three)
    built = module.build()
    assert plan_text(lower_to_tileaa(built).module).count("buffer") == 1
    x = np.random.default_rng(0).integers(-8, 8, (24, 128)).astype(np.float32)
    a, b = x[:, :64].copy(), x[:, 64:].copy()
    Program(built).launch("k", 3, (x,))
    assert (x == np.concatenate([3 * a - b, 3 * b + a], 1)).all()


def test_a_product_is_summed_in_the_tile_of_its_loop():
    body = f"""
      %s = arith.constant dense<0.0> : {_TILE}
      %one = arith.constant 1 : index
      %n = arith.constant 4 : index
      %r = scf.for %i = %z to %n step %one iter_args(%c = %s) -> (!nv_tileaa.{_TILE}) {{
        %d = nv_tileaa.dot %t, %t, %c : {_TILE}, {_TILE}, {_TILE} -> {_TILE}
        scf.yield %d : !nv_tileaa.{_TILE}
      }}
    """
    plan = _plan(body + _store("%vy", "%r"))
    assert plan["nv_tileaa.dot"] == "buffer of the loop's tile"
    # Loads that a loop reads again and again are worth a buffer.
    assert plan["nv_tileaa.tiled_load"] == "buffer"


_ROW, _FLAT = tile("f32", (1, 64)), tile("f32", (64,))


def _repeated(row: str, axis: int = 0) -> str:
    """A row from one row of memory, or a column, which ``row`` makes ``%r`` of, in every row of a tile."""
    part = tile("f32", (1, 64) if axis == 0 else (64, 1))
    return f"""
      %p = nv_tileaa.extract_slice %t {{offsets = array<i64: 0, 0>}} : {_TILE} -> {part}
      {row.replace("ROW", part)}
      %b = nv_tileaa.broadcast %r : {part} -> {_TILE}
    """ + _store("%vy", "%b")


def test_what_each_row_repeats_is_computed_once():
    assert _plan(_repeated("%r = math.exp %p : ROW"))["math.exp"] == "buffer"
    remarks = compile_kernel(parse(_kernel(_repeated("%r = math.exp %p : ROW")))).remarks  # pyright: ignore[reportArgumentType]
    assert any(r.kind == "buffer" and "for each of 64 rows" in r.message for r in remarks)


def test_what_costs_no_more_than_a_buffer_is_read_where_it_is():
    assert _plan(_repeated("%r = arith.negf %p : ROW"))["arith.negf"] == _LAZY


def test_a_number_for_a_row_is_computed_with_the_row():
    assert _plan(_repeated("%r = math.exp %p : ROW", axis=1))["math.exp"] == _LAZY


@pytest.mark.parametrize("axis", [0, 1])
def test_what_a_loop_repeats_is_kept_once_and_not_repeated(axis: int):
    """The broadcast stands in front of the loop, as for all pairs of bodies."""
    repeated = _repeated("%r = math.exp %p : ROW", axis=axis).rpartition("nv_tileaa.tiled_store")[0]
    plan = _plan(
        repeated
        + f"""
      %s = arith.constant dense<0.0> : {_TILE}
      %one = arith.constant 1 : index
      %n = arith.constant 100 : index
      %o = scf.for %i = %z to %n step %one iter_args(%c = %s) -> (!nv_tileaa.{_TILE}) {{
        %d = nv_tileaa.addf %b, %c : {_TILE}
        scf.yield %d : !nv_tileaa.{_TILE}
      }}
    """
        + _store("%vy", "%o")
    )
    assert plan["math.exp"] == "buffer"
    assert plan["nv_tileaa.broadcast"] == _LAZY


def _nested(inside: str = "", handed: str = "%i1") -> str:
    """Two loops, of which the inner one goes on with the tile of the outer one."""
    loop = f"scf.for %NAME = %z to %n step %one iter_args(%cNAME = FIRST) -> (!nv_tileaa.{_TILE})"
    outer, inner = (loop.replace("NAME", name) for name in ("o", "i"))
    return f"""
      %s = arith.constant dense<0.0> : {_TILE}
      %one = arith.constant 1 : index
      %n = arith.constant 100 : index
      %o1 = {outer.replace("FIRST", "%s")} {{
        %i1 = {inner.replace("FIRST", "%co")} {{
          %d = nv_tileaa.addf %t, %ci : {_TILE}
          {inside}
          scf.yield %d : !nv_tileaa.{_TILE}
        }}
        scf.yield {handed} : !nv_tileaa.{_TILE}
      }}
    """ + _store("%vy", "%o1")


_SHARED = "buffer of the loop's tile"


def test_loops_in_one_another_share_a_tile():
    assert _in_place(_nested()) == 1


def test_a_tile_that_is_read_again_stays():
    """What the outer loop was handed is read while the inner one goes on, or is handed on itself."""
    assert not _in_place(_nested(_store("%vy", "%co")))
    assert not _in_place(_nested(handed="%co"))


def _in_place(body: str) -> int:
    text = plan_text(parse(_kernel(body)))  # pyright: ignore[reportArgumentType]
    return sum(_SHARED in line and "scf.for" in line for line in text.splitlines())


def test_code_is_the_same_every_time():
    module = parse(_kernel(_store("%vy", "%t")))
    texts = {compile_kernel(module).llvm_ir for _ in range(2)}  # pyright: ignore[reportArgumentType]
    assert len(texts) == 1


def test_an_unknown_kernel_is_an_error():
    with pytest.raises(TileIRError) as caught:
        compile_kernel(parse(_kernel("")), "other")  # pyright: ignore[reportArgumentType]
    assert caught.value.diagnostics[0].code == "cpu-unknown-kernel"


def test_long_chains_of_shared_values_are_cut():
    """Each value is read twice by the next one: 2**500 paths lead to the first."""
    source = np.ones((64, 64), np.float32)
    lines = ["%v0 = nv_tileaa.addf %a0, %a0 : tile<64x64xf32>"]
    for number in range(1, 500):
        name = f"%v{number - 1}"
        operation = "addf" if number % 2 else "subf"
        lines.append(f"%v{number} = nv_tileaa.{operation} {name}, {name} : tile<64x64xf32>")
    lines.append("%r0 = nv_tileaa.addf %v499, %a0 : tile<64x64xf32>")
    (found,) = on_tiles("\n".join(lines), [Given("f32", source)], [("f32", (64, 64))])
    assert (found == 1).all()


def test_regions_nested_too_deep_are_refused():
    text = "module {\nnv_tileaa.func @k(%c: i1) attributes {kernel} {\n"
    text += "scf.if %c {\n" * 220 + "}\n" * 220 + "nv_tileaa.return\n}\n}\n"
    with pytest.raises(TileIRError) as caught:
        compile_kernel(parse(text))  # pyright: ignore[reportArgumentType]
    assert "nested more than" in caught.value.diagnostics[0].message


def _joined_stages(count: int) -> str:
    """Butterflies at distance 1: each cuts what the one before has joined."""
    shape, half = "64x32x2xf32", "64x32x1xf32"
    lines = [f"%v0 = nv_tileaa.view %t : {_TILE} -> tile<{shape}>"]
    for n in range(count):
        for name, offset in (("l", 0), ("h", 1)):
            lines.append(
                f"%{name}{n} = nv_tileaa.extract_slice %v{n} {{offsets = array<i64: 0, 0, {offset}>}} "
                f": tile<{shape}> -> tile<{half}>"
            )
        lines += [
            f"%s{n} = nv_tileaa.addf %l{n}, %h{n} : tile<{half}>",
            f"%d{n} = nv_tileaa.subf %l{n}, %h{n} : tile<{half}>",
            f"%v{n + 1} = nv_tileaa.cat %s{n}, %d{n} {{axis = 2 : i64}} : tile<{half}>, tile<{half}> -> tile<{shape}>",
        ]
    lines.append(f"%out = nv_tileaa.view %v{count} : tile<{shape}> -> {_TILE}\n")
    return "\n".join(lines) + _store("%vy", "%out")


def _buffers(body: str) -> list[str]:
    """Why each tile that has a buffer has one."""
    compiled = compile_kernel(parse(_kernel(body)))  # pyright: ignore[reportArgumentType]
    assert "masked.gather" not in compiled.llvm_ir
    return [r.message for r in compiled.remarks if r.kind == "buffer"]


_CUT, _END = "parts of it are read", "it ends stages that are computed in registers"


def test_stages_of_a_network_stay_in_registers():
    last, first = _buffers(_joined_stages(4))
    assert _CUT in first  # what is loaded
    assert _END in last


def test_a_stage_that_something_else_reads_is_kept():
    stages = _joined_stages(4)
    other = f"%again = nv_tileaa.view %v2 : tile<64x32x2xf32> -> {_TILE}\n"
    # Two stages, of which the second is read twice, and two more.
    assert len(_buffers(stages + other + _store("%vx", "%again"))) == len(_buffers(stages)) + 1


def test_halves_that_change_their_places_are_no_network():
    def swapped(line: str) -> str:
        return line.replace("cat %s1, %d1 {axis = 2", "cat %s1, %d1 {axis = 1").replace(
            "tile<64x32x1xf32> -> tile<64x32x2xf32>", "tile<64x32x1xf32> -> tile<64x64x1xf32>"
        )

    lines = [swapped(line) if "%v2 =" in line else line for line in _joined_stages(2).splitlines()]
    body = "\n".join(lines).replace("%v2 : tile<64x32x2xf32>", "%v2 : tile<64x64x1xf32>") + "\n"
    assert not any(_END in reason for reason in _buffers(body))


def test_code_grows_with_the_stages_only():
    sizes = [
        len(compile_kernel(parse(_kernel(_joined_stages(count)))).llvm_ir)  # pyright: ignore[reportArgumentType]
        for count in (4, 8, 16)
    ]
    assert sizes[2] - sizes[1] < 2.2 * (sizes[1] - sizes[0])


_LOOP = """
    %n = arith.constant 9 : index
    %one = arith.constant 1 : index
    %r = nv_tileaa.make_range {{start = 0, end = 64}} : tile<64xi32>
    %id = nv_tileaa.get_program_id {{axis = 0 : i32}} : i32
    %wide = arith.constant 64 : i32
    %first = arith.muli %id, %wide : i32
    %firsts = nv_tileaa.splat %first : i32 -> tile<64xi32>
    %at = arith.addi %firsts, %r : tile<64xi32>
    %twice = arith.addi %at, %at : tile<64xi32>
    %back = arith.subi %twice, %at : tile<64xi32>
    %zeros = arith.constant dense<0.0> : tile<64xf32>
    %total = scf.for %i = %z to %n step %one iter_args(%sum = %zeros) -> (tile<64xf32>) {{
      %j = arith.index_cast %i : index to i32
      %js = nv_tileaa.splat %j : i32 -> tile<64xi32>
      %here = arith.addi %{index}, %js : tile<64xi32>
      %ps = nv_tileaa.splat %x : !nv_tileaa.ptr<f32, 1> -> tile<64x!nv_tileaa.ptr<f32, 1>>
      %there = nv_tileaa.addptr %ps, %here : tile<64x!nv_tileaa.ptr<f32, 1>>, tile<64xi32> -> tile<64x!nv_tileaa.ptr<f32, 1>>
      %f = nv_tileaa.load %there : tile<64x!nv_tileaa.ptr<f32, 1>> -> tile<64xf32>
      %next = nv_tileaa.addf %sum, %f : tile<64xf32>
      scf.yield %next : tile<64xf32>
    }}
    %qs = nv_tileaa.splat %y : !nv_tileaa.ptr<f32, 1> -> tile<64x!nv_tileaa.ptr<f32, 1>>
    %to = nv_tileaa.addptr %qs, %r : tile<64x!nv_tileaa.ptr<f32, 1>>, tile<64xi32> -> tile<64x!nv_tileaa.ptr<f32, 1>>
    nv_tileaa.store %to, %total : tile<64x!nv_tileaa.ptr<f32, 1>>, tile<64xf32> -> ()
"""


@pytest.mark.parametrize("index", ["at", "back"])
def test_indices_of_accesses_stay_formulas(index: str):
    """However long the formula is, it is not kept for the loop, and its slope is seen."""
    compiled = compile_kernel(parse(_kernel(_LOOP.format(index=index))))  # pyright: ignore[reportArgumentType]
    assert {remark.kind for remark in compiled.remarks} <= {"loop", "reduction"}


_SHARED_INDEX = (
    """
    %r = nv_tileaa.make_range {start = 0, end = 64} : tile<64xi32>
    %id = nv_tileaa.get_program_id {axis = 0 : i32} : i32
    %firsts = nv_tileaa.splat %id : i32 -> tile<64xi32>
    %at = arith.addi %firsts, %r : tile<64xi32>
    %two = arith.constant dense<2> : tile<64xi32>
    %halves = arith.divsi %at, %two : tile<64xi32>
    %ps = nv_tileaa.splat %x : !nv_tileaa.ptr<f32, 1> -> tile<64x!nv_tileaa.ptr<f32, 1>>
    %from = nv_tileaa.addptr %ps, %halves : tile<64x!nv_tileaa.ptr<f32, 1>>, tile<64xi32> -> tile<64x!nv_tileaa.ptr<f32, 1>>
    %f = nv_tileaa.load %from : tile<64x!nv_tileaa.ptr<f32, 1>> -> tile<64xf32>
    %qs = nv_tileaa.splat %y : !nv_tileaa.ptr<f32, 1> -> tile<64x!nv_tileaa.ptr<f32, 1>>
    %to = nv_tileaa.addptr %qs, %at : tile<64x!nv_tileaa.ptr<f32, 1>>, tile<64xi32> -> tile<64x!nv_tileaa.ptr<f32, 1>>
"""
    + "nv_tileaa.store %to, %f : tile<64x!nv_tileaa.ptr<f32, 1>>, tile<64xf32> -> ()\n" * 12
)


def test_a_cheap_index_stays_a_formula_where_others_read_it():
    """A quotient reads it, too, which is no formula; stores would scatter what they read from a buffer."""
    assert _plan(_SHARED_INDEX)["arith.addi"] == _LAZY


def test_an_index_whose_elements_are_turned_is_kept():
    """A turned tile reads them at distances."""
    square = (
        _SHARED_INDEX.replace(
            "%r = nv_tileaa.make_range {start = 0, end = 64} : tile<64xi32>", _SQUARE
        )
        .replace("%halves = arith.divsi %at, %two", _TURNED)
        .replace("tile<64x", "tile<8x8x")
        .replace("tile<64 x", "tile<64x")
    )
    assert _plan(square)["arith.addi"] == "buffer"


_SQUARE = """%flat = nv_tileaa.make_range {start = 0, end = 64} : tile<64 xi32>
    %r = nv_tileaa.view %flat : tile<64 xi32> -> tile<8x8xi32>"""
_TURNED = """%turned = nv_tileaa.permute %at {permutation = array<i64: 1, 0>} : tile<8x8xi32> -> tile<8x8xi32>
    %halves = arith.divsi %turned, %two"""
