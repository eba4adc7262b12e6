"""Facts that the lowering keeps, and spellings that differ between the two levels."""

from __future__ import annotations

import pytest
from tests.lowering.support import body, kernel, lines, lower

from tilewright.dialects.nv_tileaa import types as T
from tilewright.lowering import lower_to_tileaa
from tilewright.text import parse, print_text

VIEW = "tensor_view<?x16xf32, strides=[16,1]>"
MAKE_VIEW = f"%v = make_tensor_view %p, shape = [%n, 16], strides = [16, 1] : tile<i32> -> {VIEW}\n"
PARAMETERS = "%p: tile<ptr<f32>>, %n: tile<i32>"


def the(found: list[str], word: str) -> str:
    """The only line with a word in it."""
    (line,) = [line for line in found if word in line]
    return line


# Arithmetic.


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("addi %i, %i overflow<no_wrap>", "arith.addi %i, %i overflow<nsw, nuw> : i32"),
        ("muli %i, %i overflow<no_unsigned_wrap>", "arith.muli %i, %i overflow<nuw> : i32"),
        ("divi %i, %i signed", "arith.divsi %i, %i : i32"),
        ("divi %i, %i unsigned", "arith.divui %i, %i : i32"),
        ("divi %i, %i signed rounding<negative_inf>", "arith.floordivsi %i, %i : i32"),
        ("divi %i, %i signed rounding<positive_inf>", "arith.ceildivsi %i, %i : i32"),
        ("divi %i, %i unsigned rounding<positive_inf>", "arith.ceildivui %i, %i : i32"),
        ("remi %i, %i unsigned", "arith.remui %i, %i : i32"),
        ("shri %i, %i signed", "arith.shrsi %i, %i : i32"),
        ("maxi %i, %i unsigned", "arith.maxui %i, %i : i32"),
        ("mulhii %i, %i", "nv_tileaa.mulhiui %i, %i : i32"),
    ],
)
def test_integers(source: str, expected: str) -> None:
    found = body(f"%r = {source} : tile<i32>", "%i: tile<i32>")
    assert found == [f"%r = {expected}"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("addf %x, %x", "nv_tileaa.addf %x, %x : f32"),
        (
            "addf %x, %x rounding<zero> flush_to_zero",
            "nv_tileaa.addf %x, %x {flush_to_zero, "
            "rounding_mode = #nv_tileaa<rounding_mode zero>} : f32",
        ),
        ("exp %x rounding<full>", "math.exp %x : f32"),
        (
            "tanh %x rounding<approx>",
            "math.tanh %x {rounding_mode = #nv_tileaa<rounding_mode approx>} : f32",
        ),
        ("maxf %x, %x", "arith.maxnumf %x, %x : f32"),
        ("minf %x, %x propagate_nan", "arith.minimumf %x, %x : f32"),
        ("maxf %x, %x flush_to_zero", "arith.maxnumf %x, %x {flush_to_zero} : f32"),
        ("negf %x", "arith.negf %x : f32"),
        ("rsqrt %x flush_to_zero", "nv_tileaa.rsqrt %x {flush_to_zero} : f32"),
        ("remf %x, %x", "arith.remf %x, %x : f32"),
    ],
)
def test_floats(source: str, expected: str) -> None:
    found = body(f"%r = {source} : tile<f32>", "%x: tile<f32>")
    assert found == [f"%r = {expected}"]


def test_negation_promises_nothing_about_the_unsigned_reading() -> None:
    found = body("%r = negi %i overflow<no_wrap> : tile<i32>", "%i: tile<i32>")
    assert found == ["%0 = arith.constant 0 : i32", "%r = arith.subi %0, %i overflow<nsw> : i32"]


@pytest.mark.parametrize(
    ("predicate", "name"),
    [
        ("cmpi equal %i, %i, unsigned : tile<i32>", "cmpi eq"),
        ("cmpi less_than %i, %i, signed : tile<i32>", "cmpi slt"),
        ("cmpi greater_than_or_equal %i, %i, unsigned : tile<i32>", "cmpi uge"),
        ("cmpf not_equal ordered %x, %x : tile<f32>", "cmpf one"),
        ("cmpf less_than_or_equal unordered %x, %x : tile<f32>", "cmpf ule"),
    ],
)
def test_comparisons(predicate: str, name: str) -> None:
    (found,) = body(f"%r = {predicate} -> tile<i1>", "%i: tile<i32>, %x: tile<f32>")
    assert f"arith.{name}, " in found


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("exti %h signed : tile<i8> -> tile<i32>", "arith.extsi %h : i8 to i32"),
        ("exti %h unsigned : tile<i8> -> tile<i32>", "arith.extui %h : i8 to i32"),
        ("itof %h unsigned : tile<i8> -> tile<f16>", "arith.uitofp %h : i8 to f16"),
        ("ftoi %x signed : tile<f32> -> tile<i8>", "arith.fptosi %x : f32 to i8"),
        ("ftof %x : tile<f32> -> tile<f16>", "nv_tileaa.fp_to_fp %x : f32 -> f16"),
        (
            "ftof %x rounding<nearest_away> : tile<f32> -> tile<tf32>",
            "nv_tileaa.fp_to_fp %x {rounding_mode = #nv_tileaa<rounding_mode nearest_away>} "
            ": f32 -> tf32",
        ),
        ("bitcast %x : tile<f32> -> tile<i32>", "arith.bitcast %x : f32 to i32"),
    ],
)
def test_conversions(source: str, expected: str) -> None:
    found = body(f"%r = {source}", "%h: tile<i8>, %x: tile<f32>")
    assert found == [f"%r = {expected}"]


def test_constants_keep_their_bits() -> None:
    text = """
    %nan = constant <f32: [0x7FC00001, 1.0]> : tile<2xf32>
    %e8 = constant <f8E8M0FNU: 2.0> : tile<4xf8E8M0FNU>
    %flag = constant <i1: [true, false]> : tile<2xi1>
    """
    assert body(text) == [
        "%nan = arith.constant dense<[0x7FC00001, 1.000000e+00]> : tile<2xf32>",
        "%e8 = arith.constant dense<2.000000e+00> : tile<4xf8E8M0FNU>",
        "%flag = arith.constant dense<[true, false]> : tile<2xi1>",
    ]


def test_bits_have_no_upper_half_and_move_pointers_backwards() -> None:
    found = body(
        """
        %r = mulhii %b, %b : tile<i1>
        %q = offset %p, %b : tile<ptr<f32>>, tile<i1> -> tile<ptr<f32>>
        """,
        "%p: tile<ptr<f32>>, %b: tile<i1>",
    )
    assert found[0] == "%r = arith.constant false"
    assert found[1] == "%0 = arith.extsi %b : i1 to i8"
    assert "nv_tileaa.addptr %p, %0" in found[2]


# Shapes.


@pytest.mark.parametrize(
    ("source", "result", "expected"),
    [
        ("f32", "1x1xf32", "splat %x"),
        ("1x1xf32", "f32", "extract %x[%c0, %c0]"),
        ("8xf32", "8x1xf32", "expand_dims %x {axes = array<i64: 1>}"),
        ("8xf32", "1x8x1xf32", "expand_dims %x {axes = array<i64: 0, 2>}"),
        ("8x4xf32", "32xf32", "view %x"),
        ("8x1xf32", "8xf32", "view %x"),
    ],
)
def test_reshape(source: str, result: str, expected: str) -> None:
    text = f"""
    cuda_tile.module @m {{
      testing$func @f(%x: tile<{source}>) -> tile<{result}> {{
        %r = reshape %x : tile<{source}> -> tile<{result}>
        return %r : tile<{result}>
      }}
    }}
    """
    assert f"nv_tileaa.{expected} :" in the(lines(lower(text)), "%r = ")


def test_reshape_to_the_same_shape_is_nothing() -> None:
    found = body(
        "%r = reshape %x : tile<f32> -> tile<f32>\n%s = addf %r, %r : tile<f32>", "%x: tile<f32>"
    )
    assert found == ["%s = nv_tileaa.addf %x, %x : f32"]


def test_extract_and_insert_count_elements() -> None:
    found = body(
        """
        %x = iota : tile<8xi32>
        %y = extract %x[%i] : tile<8xi32> -> tile<4xi32>
        %z = insert %y, %x[%i] : tile<4xi32>, tile<8xi32>
        %w = extract %x[%i] : tile<8xi32> -> tile<1xi32>
        """,
        "%i: tile<i32>",
    )
    assert "arith.index_castui %i : i32 to index" in found[2]
    assert "arith.muli %0, %c4 : index" in found[3]
    assert "extract_slice %x[%1]" in found[4]
    assert "ext.insert_slice %x[%2], %y" in the(found, "insert_slice")
    assert "extract_slice %x[%0]" in found[-1]


def test_pack_and_permute() -> None:
    found = body(
        """
        %x = iota : tile<4xi32>
        %b = pack %x : tile<4xi32> -> tile<16xi8>
        %s = reshape %b : tile<16xi8> -> tile<2x8xi8>
        %t = permute %s [1, 0] : tile<2x8xi8> -> tile<8x2xi8>
        %c = cat %t, %t dim = 1 : tile<8x2xi8>, tile<8x2xi8> -> tile<8x4xi8>
        """
    )
    assert "nv_tileaa.bitcast %x : tile<4xi32> -> tile<16xi8>" in found[1]
    assert "{permutation = array<i64: 1, 0>}" in found[3]
    assert "{axis = 1 : i32}" in found[4]


# Tokens and accesses.


def test_tokens_add_no_order() -> None:
    """Accesses without a token all take the one that comes after nothing."""
    found = body(
        """
        %x, %a = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
        %t = make_token : token
        %u = store_ptr_tko weak %p, %x token=%t : tile<ptr<f32>>, tile<f32> -> token
        %w = store_ptr_tko weak %p, %x token=%a : tile<ptr<f32>>, tile<f32> -> token
        """,
        PARAMETERS,
    )
    assert found[0] == "%unordered = nv_tileaa.create_mem_token : !nv_tileaa.mem_token"
    assert len([line for line in found if "create_mem_token" in line]) == 1
    assert ", %unordered {" in the(found, "%x, %a =")
    assert ", %unordered {" in the(found, "%u = ")
    assert ", %a {" in the(found, "%w = ")


def test_semantics_and_scopes() -> None:
    found = body(
        """
        %x, %a = load_ptr_tko acquire device %p : tile<ptr<f32>> -> tile<f32>, token
        %u = store_ptr_tko release sys %p, %x token=%a : tile<ptr<f32>>, tile<f32> -> token
        %old, %b = atomic_rmw_tko acq_rel tl_blk %p, addf, %x : tile<ptr<f32>>, tile<f32> -> tile<f32>, token
        %was, %c = atomic_cas_tko relaxed device %p, %x, %x : tile<ptr<f32>>, tile<f32> -> tile<f32>, token
        """,
        PARAMETERS,
    )
    for line, semantic, scope in zip(
        found[1:],
        ("acquire", "release", "acq_rel", "relaxed"),
        ("gpu", "sys", "tl_blk", "gpu"),
        strict=True,
    ):
        assert f"mem_semantic {semantic}>" in line and f"mem_scope {scope}>" in line
    assert "rmw_mode addf>" in found[3]


def test_padding_without_mask_is_dropped() -> None:
    found = body(
        "%x, %a = load_ptr_tko weak %p, %y : tile<ptr<f32>>, tile<f32> -> tile<f32>, token",
        "%p: tile<ptr<f32>>, %y: tile<f32>",
    )
    assert "array<i32: 1, 0, 0, 0>" in found[-1]


def test_print_and_assert() -> None:
    found = body(
        """
        %t = print_tko "%d", %n : tile<i32> -> token
        %u = print_tko "done" token=%t -> token
        %c = trunci %n : tile<i32> -> tile<i1>
        assert %c, "odd" : tile<i1>
        """,
        PARAMETERS,
    )
    assert "print %n, %unordered {" in found[1]
    assert "print %t {" in found[2]
    assert found[-1] == 'nv_tileaa.assert %c {message = "odd"} : i1'


def test_fences_scratch_memory_and_grids() -> None:
    found = body(
        """
        %q = alloca num_elem = 8, alignment = 16 global : tile<ptr<f32>>
        %t = gdc_wait_tko -> token
        %u = memory_fence_alias_tko %t
        %w = gdc_launch_dependents_tko token = %u -> token
        """
    )
    assert "ext.alloca {alignment = 16 : i64, global, num_elem = 8 : i64}" in found[1]
    assert "grid_dependency wait" in found[2] and "%unordered" in found[2]
    assert "ext.fence %t" in found[3] and "alias" in found[3]
    assert "grid_dependency launch" in found[4] and "%u" in found[4]


# Views.


def test_extents_and_strides_stand_in_the_type() -> None:
    found = body(MAKE_VIEW, PARAMETERS)
    assert "!nv_tileaa.memref<?x16xf32, strides = [16, 1], 1>" in found[-1]
    assert "array<i32: 1, 0, 1, 0>" in found[-1]


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (
            f"partition_view<tile=(4x8), padding_value = neg_zero, {VIEW}, dim_map=[1, 0]>",
            "{dimGroups = [[1], [0]], padding_value = #nv_tileaa<padding_value neg_zero>, "
            "tileSizes = array<i64: 4, 8>}",
        ),
        (
            f"strided_view<tile=(4x8), traversal_strides=[2,8], {VIEW}>",
            "{dimGroups = [[0], [1]], tileSizes = array<i64: 4, 8>, "
            "traversalStrides = array<i64: 2, 8>}",
        ),
        (
            f"gather_scatter_view<tile=(4x8), {VIEW}, sparse_dim=1>",
            "{dimGroups = [[0], [1]], sparseDim = 1 : i32, tileSizes = array<i64: 4, 8>, "
            "traversalStrides = array<i64: 1, 1>}",
        ),
    ],
)
def test_views_keep_how_tiles_are_cut(view: str, expected: str) -> None:
    kind = view.partition("<")[0]
    found = body(f"{MAKE_VIEW}%w = make_{kind} %v : {view}", PARAMETERS)
    assert expected in found[-1]


def test_view_accesses_keep_bounds_and_the_hints_of_the_target() -> None:
    view = f"partition_view<tile=(4x8), {VIEW}>"
    text = f"""
    {MAKE_VIEW}
    %w = make_partition_view %v : {view}
    %x, %t = load_view_tko weak %w[%n, %n]
      optimization_hints = <sm_90 = {{allow_tma = false}}, default = {{latency = 7}}>
      inbounds = [true, false] : {view}, tile<i32> -> tile<4x8xf32>, token
    %u = atomic_red_view_tko relaxed device %w[%n, %n], addf, %x token = %t
      : tile<4x8xf32>, {view}, tile<i32> -> token
    """
    for target, tma in (("sm_90", "allow_tma = false, "), ("sm_120", "")):
        found = body(text, PARAMETERS, target)
        load = the(found, "tiled_load")
        assert f"{{{tma}in_bounds = array<i1: true, false>, latency = 7 : i32, " in load
        update = the(found, "tiled_atomic_rmw")
        assert ", %u = " in update and "mem_scope gpu>" in update


def test_hints_out_of_range_count_as_none() -> None:
    text = """
    entry @k() optimization_hints=<sm_100 = {num_cta_in_cga = 3, occupancy = 99}> {
      return
    }
    """
    assert "kernel_spec<numWarps = 4, clusterDim = [1, 1, 1]>" in the(lines(lower(text)), "@k(")


def test_hints_of_pointer_accesses() -> None:
    text = """
    %x, %t = load_ptr_tko weak %p optimization_hints = <sm_90 = {latency = 3}>
      : tile<ptr<f32>> -> tile<f32>, token
    """
    assert "latency = 3" in body(text, PARAMETERS, "sm_90")[-1]
    assert "latency" not in body(text, PARAMETERS, "sm_100")[-1]


def test_multicast_memory() -> None:
    view = "tensor_view<8x16xf32, strides=[16,1], #cuda_tile.ptr_attr<multicast>>"
    tiles = f"partition_view<tile=(4x8), {view}>"
    found = body(
        f"""
        %mc = ptr_to_ptr %p : tile<ptr<f32>> -> tile<ptr<f32, <multicast>>>
        %v = make_tensor_view %mc, shape = [8, 16], strides = [16, 1]
          : tile<ptr<f32, <multicast>>> -> {view}
        %w = make_partition_view %v : {tiles}
        %x, %t = multimem_load_reduce_view_tko relaxed sys %w[%n, %n]
          : {tiles}, tile<i32> -> tile<4x8xf32>, token
        %u = multimem_reduce_view_tko relaxed sys %w, %x[%n, %n]
          : {tiles}, tile<4x8xf32>, tile<i32> -> token
        %s = multimem_store_view_tko weak %w, %x[%n, %n]
          : {tiles}, tile<4x8xf32>, tile<i32> -> token
        """,
        PARAMETERS,
    )
    assert "make_memref %p " in the(found, "make_memref")
    assert "multimem = #nv_tileaa<multimem add>" in the(found, "tiled_load")
    assert "rmw_mode addf>" in the(found, "tiled_atomic_rmw")
    assert "{multimem, " in the(found, "tiled_store")


# Assumptions.


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("div_by<8>", "#nv_tileaa.div_by<8>"),
        ("div_by<4, every 2 along 0>", "#nv_tileaa.div_by<4, every 2 along 0>"),
        ("bounded<?, 7>", "#nv_tileaa.bounded<?, 7>"),
        ("same_elements<[2]>", "#nv_tileaa.same_elements<[2]>"),
        ("same_elements<[0]>", "#nv_tileaa.same_elements<[1]>"),
    ],
)
def test_assumptions(predicate: str, expected: str) -> None:
    found = body(f"%x = iota : tile<8xi32>\n%y = assume {predicate}, %x : tile<8xi32>")
    assert f"assume %x {{predicates = [{expected}]}}" in found[-1]


def test_an_assumption_about_a_view_is_one_about_its_memref() -> None:
    found = body(f"{MAKE_VIEW}%w = assume div_by<16>, %v : {VIEW}", PARAMETERS)
    assert found[-1].startswith("%w = nv_tileaa.assume %v {predicates = [#nv_tileaa.div_by<16>]}")
    assert found[-1].endswith("!nv_tileaa.memref<?x16xf32, strides = [16, 1], 1>")


# Contraction.


def test_products() -> None:
    found = body(
        """
        %a = constant <i8: 1> : tile<16x32xi8>
        %b = constant <i8: 1> : tile<32x16xi8>
        %c = constant <i32: 0> : tile<16x16xi32>
        %d = mmai %a, %b, %c unsigned signed : tile<16x32xi8>, tile<32x16xi8>, tile<16x16xi32>
        %e = constant <f8E4M3FN: 1.0> : tile<16x64xf8E4M3FN>
        %f = constant <f8E4M3FN: 1.0> : tile<64x16xf8E4M3FN>
        %g = constant <f32: 0.0> : tile<16x16xf32>
        %se = constant <f8E8M0FNU: 2.0> : tile<16x2xf8E8M0FNU>
        %sf = constant <f8E8M0FNU: 0.5> : tile<2x16xf8E8M0FNU>
        %h = mmaf_scaled %e, %f, %g, %se, %sf
          : tile<16x64xf8E4M3FN>, tile<64x16xf8E4M3FN>, tile<16x16xf32>,
            tile<16x2xf8E8M0FNU>, tile<2x16xf8E8M0FNU>
        %i = mmaf %e, %f, %g fast_acc
          : tile<16x64xf8E4M3FN>, tile<64x16xf8E4M3FN>, tile<16x16xf32>
        """
    )
    assert "signedness_a = #nv_tileaa<signedness unsigned>" in the(found, "%d = ")
    assert "signedness_b = #nv_tileaa<signedness signed>" in the(found, "%d = ")
    assert "array<i32: 1, 1, 1, 1, 1>" in the(found, "%h = ")
    assert "fast_acc" in the(found, "%i = ")


def test_scan_and_identities_keep_their_bits() -> None:
    found = body(
        """
        %x = constant <f32: 1.0> : tile<8xf32>
        %s = scan %x dim=0 reverse=true identities=[0x7FC00001 : f32] : tile<8xf32> -> tile<8xf32>
        (%e: tile<f32>, %a: tile<f32>) {
          %r = addf %e, %a : tile<f32>
          yield %r : tile<f32>
        }
        """
    )
    scan = the(found, "nv_tileaa.scan")
    assert "reverse = true" in scan
    assert "0x7FC00001 : f32" in scan


def test_bodies_that_capture_tiles_are_refused() -> None:
    from tilewright.diagnostics import TileIRError

    text = kernel(
        """
        %x = iota : tile<8xi32>
        %i = constant <i32: 0> : tile<i32>
        %s = reduce %x dim=0 identities=[0 : i32] : tile<8xi32> -> tile<i32>
        (%e: tile<i32>, %a: tile<i32>) {
          %one = extract %x[%i] : tile<8xi32> -> tile<1xi32>
          %o = reshape %one : tile<1xi32> -> tile<i32>
          %r = addi %a, %o : tile<i32>
          yield %r : tile<i32>
        }
        """
    )
    with pytest.raises(TileIRError) as caught:
        lower(text)
    (found,) = caught.value.diagnostics
    assert found.code == "not-lowered" and "uses a tile from outside" in found.message


# Functions and globals.


def test_globals() -> None:
    lowered = lower(
        """
        cuda_tile.module @m {
          global private constant @table alignment = 16 <f32: [1.0, 2.0]> : tile<2xf32>
          entry @k() {
            %p = get_global @table : tile<ptr<f32>>
            return
          }
        }
        """
    )
    found = lines(lowered)
    line = the(found, "nv_tileaa.global")
    assert "alignment = 16" in line and "constant" in line and 'sym_visibility = "private"' in line
    assert line.endswith(": !nv_tileaa.memref<2xf32, strides = [1], 1>")
    assert "nv_tileaa.get_global @table : !nv_tileaa.ptr<f32, 1>" in the(found, "get_global")


def test_pointers_are_into_global_memory() -> None:
    lowered = lower(kernel("", "%p: tile<ptr<bf16>>, %q: tile<ptr<f4E2M1FN>>"))
    (function,) = lowered.module.ops
    types = [argument.type for argument in function.regions[0].block.args]
    assert all(isinstance(ty, T.PtrType) and ty.space == 1 for ty in types)


def test_parameter_attributes_are_kept() -> None:
    text = kernel("", "%p: tile<ptr<f32>> {cuda_tile.noalias = true}")
    assert "arg_attrs" in the(lines(lower(text)), "@k(")


def test_locations_are_kept() -> None:
    text = 'entry @k(%x: tile<f32>) {\n  %r = addf %x, %x : tile<f32> loc("kernel.py":3:5)\n  return\n}\n'
    lowered = lower_to_tileaa(parse(text))
    shown = print_text(lowered.module, locations=True)
    assert '"kernel.py":3:5' in shown
    assert print_text(parse(shown), locations=True) == shown
