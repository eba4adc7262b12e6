"""Accesses through memrefs and views: masks, edges, orders, gathers, elements that share bytes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.cpu.codegen.differential import VARIANTS, agree
from tests.machine.tileaa.support import checked, element, kernel_text, memref_of

from tilewright import LaunchOptions
from tilewright.cpu import Program
from tilewright.cpu.codegen.emitter.table import UNSUPPORTED
from tilewright.cpu.codegen.memory.checks import OUTSIDE
from tilewright.cpu.compile import compile_kernel
from tilewright.diagnostics import TileIRError
from tilewright.machine import Program as Reference
from tilewright.text import parse

DTYPES = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.int8, np.bool_)
ORDERS = {
    "weak": "",
    "relaxed": "mem_semantic = relaxed, mem_scope = gpu",
    "ordered": "mem_semantic = {strong}, mem_scope = sys",
    "volatile": "volatile = true",
}
#: Every order with one element type, and every type in some order and in none.
WAYS = [
    pytest.param(dtype, name, id=f"{np.dtype(dtype).name}-{name}")
    for dtype in DTYPES
    for name in (ORDERS if dtype is np.float32 else ("weak", "ordered"))
]
F4 = "f4E2M1FN"


def order(name: str, strong: str, further: str = "") -> str:
    """The dictionary of an access."""
    parts = [part for part in (ORDERS[name].format(strong=strong), further) if part]
    return f"{{{', '.join(parts)}}}" if parts else ""


def numbers(dtype: object, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * 50).astype(dtype)


def flags(shape: tuple[int, ...], seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).random(shape) < 0.6


def tile(array: np.ndarray, shape: tuple[int, ...]) -> str:
    return f"tile<{'x'.join(map(str, shape))}x{element(array)}>"


def view_of(array: np.ndarray, shape: tuple[int, ...], attributes: str = "") -> tuple[str, str]:
    """Code that cuts ``%mem_a`` into tiles of a shape, and the type of the view."""
    ref, dims = memref_of(array), ", ".join(map(str, shape))
    groups = ", ".join(f"[{axis}]" for axis in range(len(shape)))
    ty = f"!nv_tileaa.tiled_view<{tile(array, shape)[5:-1]}, source = {ref}>"
    code = (
        f"%view = nv_tileaa.block_tile %mem_a {{tileSizes = array<i64: {dims}>, "
        f"dimGroups = [{groups}]{attributes}}} : {ref} -> {ty}\n"
    )
    return code, ty


ONES = "%one = arith.constant 1 : index\n%two = arith.constant 2 : index\n"


@pytest.mark.rotates(2)
@pytest.mark.parametrize(("dtype", "name"), WAYS)
def test_masked_tiles_at_the_edge(dtype: object, name: str) -> None:
    """Padding outside, the other value where masked off, zero without one."""
    a, b, m = numbers(dtype, (12, 20)), numbers(dtype, (8, 16), 1), flags((8, 16))
    floats = np.dtype(dtype).kind == "f" or dtype is ml_dtypes.bfloat16
    cut, view = view_of(a, (8, 16), ", padding_value = neg_inf" if floats else "")
    shape = tile(a, (8, 16))
    access, store = order(name, "acquire"), order(name, "release")
    agree(
        f"""{ONES}{cut}
%r = nv_tileaa.tiled_load %view[%one, %one], %m, %b {access}
  : {view}, index, index, tile<8x16xi1>, {shape} -> {shape}
%s = nv_tileaa.tiled_load %view[%one, %one], %m {access}
  : {view}, index, index, tile<8x16xi1> -> {shape}
%u = nv_tileaa.tiled_load %mem_a[%two, %one], %m, %b {access}
  : {memref_of(a)}, index, index, tile<8x16xi1>, {shape} -> {shape}
%v = nv_tileaa.load %mem_a[%two, %one], %m {access}
  : {memref_of(a)}, index, index, tile<8x16xi1> -> {shape}
%w = nv_tileaa.load %mem_a[%one, %two] {access} : {memref_of(a)}, index, index -> {shape}
nv_tileaa.tiled_store %view[%one, %one], %b, %m {store}
  : {view}, {shape}, index, index, tile<8x16xi1>
nv_tileaa.store %mem_a[%two, %two], %b, %m {store}
  : {memref_of(a)}, {shape}, index, index, tile<8x16xi1>
""",
        {"a": a, "b": b, "m": m},
        {key: numbers(dtype, (8, 16), 2) for key in "rsuvw"},
        case=(element(a), name),
    )


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("on", [False, True])
def test_masked_scalars(name: str, on: bool) -> None:
    a, b = numbers(np.float32, (4, 8)), numbers(np.float32, ())
    ref, access, store = memref_of(a), order(name, "acquire"), order(name, "release")
    pointer = "!nv_tileaa.ptr<f32, 1>"
    agree(
        f"""{ONES}
%r = nv_tileaa.load %mem_a[%two, %one], %m, %b {access} : {ref}, index, index, i1, f32 -> f32
%s = nv_tileaa.load %mem_a[%two, %one], %m {access} : {ref}, index, index, i1 -> f32
%p = nv_tileaa.addptr %ptr_a, %two : {pointer}, index -> {pointer}
%u = nv_tileaa.load %p, %m, %b {access} : {pointer}, i1, f32 -> f32
nv_tileaa.store %mem_a[%one, %one], %b, %m {store} : {ref}, f32, index, index, i1
nv_tileaa.store %p, %b, %m {store} : {pointer}, f32, i1
""",
        {"a": a, "b": b, "m": np.array(on)},
        {key: np.ones((), np.float32) for key in "rsu"},
    )


@pytest.mark.rotates(2)
@pytest.mark.parametrize(("dtype", "name"), WAYS)
def test_gathers_and_scatters_of_memrefs(dtype: object, name: str) -> None:
    rng = np.random.default_rng(3)
    a, b, m = numbers(dtype, (12, 20)), numbers(dtype, (4, 8), 1), flags((4, 8))
    rows = rng.permutation(12)[:8].repeat(4).reshape(4, 8).astype(np.int32)
    columns = np.arange(32, dtype=np.int32).reshape(4, 8) % 19
    ref, shape, index = memref_of(a), tile(a, (4, 8)), "tile<4x8xindex>"
    access, store = order(name, "acquire"), order(name, "release")
    agree(
        f"""{ONES}
%rows = arith.index_castui %i : tile<4x8xi32> to {index}
%columns = arith.index_castui %j : tile<4x8xi32> to {index}
%r = nv_tileaa.gather_load %mem_a[%rows, %columns] {access} : {ref}, {index}, {index} -> {shape}
%s = nv_tileaa.gather_load %mem_a[%two, %columns], %m, %b {access}
  : {ref}, index, {index}, tile<4x8xi1>, {shape} -> {shape}
%u = nv_tileaa.gather_load %mem_a[%rows, %two], %m {access}
  : {ref}, {index}, index, tile<4x8xi1> -> {shape}
nv_tileaa.scatter_store %mem_a[%rows, %columns], %b, %m {store}
  : {ref}, {shape}, {index}, {index}, tile<4x8xi1>
""",
        {"a": a, "b": b, "m": m, "i": rows, "j": columns},
        {key: numbers(dtype, (4, 8), 2) for key in "rsu"},
        case=(element(a), name),
    )


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("axis", [0, 1])
def test_gathers_and_scatters_of_rows(axis: int, name: str) -> None:
    """Rows outside of the memory read as padding and are not written."""
    a, b, m = numbers(np.float32, (12, 20)), numbers(np.float32, (4, 8), 1), flags((4, 8))
    count = (4, 8)[axis]
    rows = np.array([3, 11, 200, -1, 5, 1, 12, 8][:count], np.int32)
    cut, view = view_of(a, (4, 8), f", padding_value = pos_inf, sparseDim = {axis} : i32")
    indices = ("%rows, %two", "%two, %rows")[axis]
    types = (f"tile<{count}xindex>, index", f"index, tile<{count}xindex>")[axis]
    access, store = order(name, "acquire"), order(name, "release")
    agree(
        f"""{ONES}{cut}
%rows = arith.index_cast %i : tile<{count}xi32> to tile<{count}xindex>
%r = nv_tileaa.gather_load %view[{indices}] {access} : {view}, {types} -> tile<4x8xf32>
%s = nv_tileaa.gather_load %view[{indices}], %m, %b {access}
  : {view}, {types}, tile<4x8xi1>, tile<4x8xf32> -> tile<4x8xf32>
nv_tileaa.scatter_store %view[{indices}], %b, %m {store}
  : {view}, tile<4x8xf32>, {types}, tile<4x8xi1>
""",
        {"a": a, "b": b, "m": m, "i": rows},
        {key: numbers(np.float32, (4, 8), 2) for key in "rs"},
    )


# -- elements that share bytes -------------------------------------------------------------------


def packed(rows: int, columns: int) -> str:
    """Code for ``%half``, a memref of 4-bit floats over ``%ptr_a``."""
    ref = f"!nv_tileaa.memref<{rows}x{columns}x{F4}, strides = [{columns + 1}, 1], 1>"
    return (
        f"%p4 = nv_tileaa.bitcast %ptr_a : !nv_tileaa.ptr<i8, 1> -> !nv_tileaa.ptr<{F4}, 1>\n"
        f"%half = nv_tileaa.make_memref %p4 : (!nv_tileaa.ptr<{F4}, 1>) -> {ref}\n"
    )


@pytest.mark.parametrize("name", ORDERS)
def test_elements_that_share_bytes(name: str) -> None:
    """Rows begin in the middle of bytes; what lies beside them stays."""
    a = np.random.default_rng(5).integers(-128, 128, 80, np.int8)
    code = packed(7, 13)
    ref = f"!nv_tileaa.memref<7x13x{F4}, strides = [14, 1], 1>"
    view = f"!nv_tileaa.tiled_view<4x8x{F4}, source = {ref}>"
    shape, wide = f"tile<4x8x{F4}>", "tile<4x8xf32>"
    access, store = order(name, "acquire"), order(name, "release")
    agree(
        f"""{ONES}{code}
%view = nv_tileaa.block_tile %half {{tileSizes = array<i64: 4, 8>, dimGroups = [[0], [1]],
  padding_value = nan}} : {ref} -> {view}
%rows = arith.index_castui %i : tile<4xi32> to tile<4xindex>
%x = nv_tileaa.tiled_load %view[%one, %one] {access} : {view}, index, index -> {shape}
%y = nv_tileaa.load %half[%two, %one] {access} : {ref}, index, index -> {shape}
%z = nv_tileaa.gather_load %view[%rows, %one] {access} : {view}, tile<4xindex>, index -> {shape}
%r = nv_tileaa.fp_to_fp %x : {shape} -> {wide}
%s = nv_tileaa.fp_to_fp %y : {shape} -> {wide}
%u = nv_tileaa.fp_to_fp %z : {shape} -> {wide}
nv_tileaa.tiled_store %view[%one, %one], %y {store} : {view}, {shape}, index, index
nv_tileaa.store %half[%one, %two], %z {store} : {ref}, {shape}, index, index
nv_tileaa.scatter_store %view[%rows, %zero], %x {store} : {view}, {shape}, tile<4xindex>, index
nv_tileaa.print %x, %z {{format = "%.1f %.1f"}} : {shape}, {shape}
""",
        {"a": a, "i": np.array([6, 1, 9, 3], np.int32)},
        {key: np.zeros((4, 8), np.float32) for key in "rsu"},
    )


REFUSED = {
    "masked": f"""
%x = nv_tileaa.tiled_load %half[%zero, %zero], %m : REF, index, index, tile<4x8xi1>
  -> tile<4x8x{F4}>""",
    "scalar": f"%x = nv_tileaa.load %half[%zero, %zero] : REF, index, index -> {F4}",
    "gathered": f"""
%i = nv_tileaa.make_range {{start = 0, end = 4}} : tile<4xindex>
%x = nv_tileaa.gather_load %half[%i, %zero] : REF, tile<4xindex>, index -> tile<4x{F4}>""",
    "pointer": f"%x = nv_tileaa.load %p4 : !nv_tileaa.ptr<{F4}, 1> -> {F4}",
    "several axes": f"""
%x = nv_tileaa.block_tile %half {{tileSizes = array<i64: 8>, dimGroups = [[0, 1]]}}
  : REF -> !nv_tileaa.tiled_view<8x{F4}, source = REF>""",
    "sparse axis without indices": f"""
%v = nv_tileaa.block_tile %half {{tileSizes = array<i64: 4, 8>, dimGroups = [[0], [1]],
  sparseDim = 0 : i32}} : REF -> !nv_tileaa.tiled_view<4x8x{F4}, source = REF>
%x = nv_tileaa.tiled_load %v[%zero, %zero]
  : !nv_tileaa.tiled_view<4x8x{F4}, source = REF>, index, index -> tile<4x8x{F4}>""",
    "rank of dynamic extents": f"%x = nv_tileaa.view %half : REF -> !nv_tileaa.memref<?x{F4}, 1>",
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_reference_machine_refuses(what: str) -> None:
    ref = f"!nv_tileaa.memref<7x13x{F4}, strides = [14, 1], 1>"
    body = packed(7, 13) + REFUSED[what].replace("REF", ref)
    given = {"a": np.zeros(80, np.int8), "m": flags((4, 8))}
    module = checked(kernel_text(body, given, {}))
    with pytest.raises(TileIRError):
        Reference(module).launch("k", 1, list(given.values()))
    with pytest.raises(TileIRError) as caught:
        Program(module).launch("k", 1, list(given.values()))
    assert caught.value.diagnostics[0].code == UNSUPPORTED


# -- atomics and multicast memory ----------------------------------------------------------------


@pytest.mark.parametrize("mode", ["add", "umax", "min", "xor", "xchg"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_atomics_of_tiles(dtype: object, mode: str) -> None:
    a, b, m = numbers(dtype, (6, 10)), numbers(dtype, (4, 8), 1), flags((4, 8))
    cut, view = view_of(a, (4, 8))
    shape, ref = tile(a, (4, 8)), memref_of(a)
    agree(
        f"""{ONES}{cut}
%r = nv_tileaa.tiled_atomic_rmw %view[%one, %one], %b {{rmw_mode = {mode}}}
  : {view}, {shape}, index, index -> {shape}
%s = nv_tileaa.tiled_atomic_rmw %mem_a[%two, %one], %b, %m
  {{rmw_mode = {mode}, mem_semantic = acq_rel, mem_scope = gpu}}
  : {ref}, {shape}, index, index, tile<4x8xi1> -> {shape}
%u = nv_tileaa.atomic_rmw %mem_a[%one, %two], %b, %m {{rmw_mode = {mode}}}
  : {ref}, {shape}, index, index, tile<4x8xi1> -> {shape}
%v = nv_tileaa.atomic_cas %mem_a[%two, %two], %u, %b, %m
  : {ref}, {shape}, {shape}, index, index, tile<4x8xi1> -> {shape}
""",
        {"a": a, "b": b, "m": m},
        {key: numbers(dtype, (4, 8), 2) for key in "rsuv"},
        case=(element(a), mode),
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_multicast_memory_has_one_replica(dtype: object) -> None:
    a, b = numbers(dtype, (6, 10)), numbers(dtype, (4, 8), 1)
    cut, view = view_of(a, (4, 8))
    shape = tile(a, (4, 8))
    agree(
        f"""{ONES}{cut}
%r = nv_tileaa.tiled_load %view[%one, %one] {{multimem = add}} : {view}, index, index -> {shape}
%s = nv_tileaa.tiled_load %view[%zero, %one]
  {{multimem = add, mem_semantic = relaxed, mem_scope = sys}} : {view}, index, index -> {shape}
nv_tileaa.tiled_store %view[%zero, %zero], %b {{multimem}} : {view}, {shape}, index, index
%u = nv_tileaa.tiled_atomic_rmw %view[%one, %one], %b {{rmw_mode = addf, multimem}}
  : {view}, {shape}, index, index -> {shape}
""",
        {"a": a, "b": b},
        {key: numbers(dtype, (4, 8), 2) for key in "rs"},
    )


# -- memrefs and views as values ---------------------------------------------------------------------


@pytest.mark.parametrize("first", [False, True])
def test_memrefs_and_views_are_chosen_and_handed_on(first: bool) -> None:
    """Of views that control brings along, extents, steps and padding are known late."""
    a, b = numbers(np.float32, (5, 8)), numbers(np.float32, (5, 8), 1)
    ref, any_ref = memref_of(a), "!nv_tileaa.memref<?x?xf32, 1>"
    view = f"!nv_tileaa.tiled_view<4x4xf32, source = {ref}>"
    agree(
        f"""{ONES}
%three = arith.constant 3 : index
%m = arith.select %c, %mem_a, %mem_b : {ref}
%r = nv_tileaa.tiled_load %m[%one, %two] : {ref}, index, index -> tile<4x4xf32>
%v = nv_tileaa.block_tile %mem_a {{tileSizes = array<i64: 4, 4>, dimGroups = [[0], [1]],
  padding_value = pos_inf}} : {ref} -> {view}
%w = nv_tileaa.block_tile %mem_b {{tileSizes = array<i64: 4, 4>, dimGroups = [[1], [0]],
  padding_value = neg_zero, traversalStrides = array<i64: 2, 3>}} : {ref} -> {view}
%x = arith.select %c, %v, %w : {view}
%s = nv_tileaa.tiled_load %x[%one, %one] : {view}, index, index -> tile<4x4xf32>
%n = nv_tileaa.get_dim_size %x {{axis = 1 : i32}} : {view} -> index
%y, %d = scf.if %c -> ({view}, {any_ref}) {{
  %e = nv_tileaa.view %mem_b : {ref} -> {any_ref}
  scf.yield %w, %e : {view}, {any_ref}
}} else {{
  %e = nv_tileaa.view %mem_a : {ref} -> {any_ref}
  scf.yield %v, %e : {view}, {any_ref}
}}
%u = nv_tileaa.tiled_load %y[%one, %one] : {view}, index, index -> tile<4x4xf32>
%last, %other = scf.for %i = %zero to %three step %one iter_args(%p = %v, %q = %y)
    -> ({view}, {view}) {{
  %t = nv_tileaa.tiled_load %p[%zero, %one] : {view}, index, index -> tile<4x4xf32>
  %h = nv_tileaa.addf %t, %t : tile<4x4xf32>
  nv_tileaa.tiled_store %p[%zero, %zero], %h : {view}, tile<4x4xf32>, index, index
  scf.yield %q, %p : {view}, {view}
}}
%z = nv_tileaa.tiled_load %last[%one, %one] : {view}, index, index -> tile<4x4xf32>
%k = nv_tileaa.load %d[%three, %three] : {any_ref}, index, index -> f32
%o = arith.index_cast %n : index to i32
""",
        {"a": a, "b": b, "c": np.array(first)},
        {
            **{key: np.zeros((4, 4), np.float32) for key in "rsuz"},
            "k": np.zeros((), np.float32),
            "o": np.zeros((), np.int32),
        },
    )


def test_memrefs_of_globals_have_their_strides() -> None:
    ref = "!nv_tileaa.memref<2x4xf32, strides = [6, 1], 1>"
    flat = "!nv_tileaa.memref<8xf32, 1>"
    agree(
        f"""
%g = nv_tileaa.get_global @table : {ref}
%h = nv_tileaa.get_global @table : {flat}
%d = nv_tileaa.get_global @table : !nv_tileaa.memref<?x?xf32, 1>
%r = nv_tileaa.tiled_load %g[%zero, %zero] : {ref}, index, index -> tile<2x4xf32>
%s = nv_tileaa.tiled_load %h[%zero] : {flat}, index -> tile<8xf32>
%u = nv_tileaa.tiled_load %d[%zero, %zero]
  : !nv_tileaa.memref<?x?xf32, 1>, index, index -> tile<2x4xf32>
""",
        {},
        {
            "r": np.zeros((2, 4), np.float32),
            "s": np.zeros(8, np.float32),
            "u": np.zeros((2, 4), np.float32),
        },
        symbols="nv_tileaa.global @table {value = array<f32: 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, "
        f"8.0>, alignment = 16}} : {ref}",
    )


# -- checked code --------------------------------------------------------------------------------

#: Accesses that leave the 64 elements of ``%ptr_a`` through a memref that is too large.
OUTSIDE_OF_ARRAYS = {
    "gather": """
%r = nv_tileaa.gather_load %m[%i, %two] : REF, tile<4xindex>, index -> tile<4xf32>""",
    "ordered gather": """
%r = nv_tileaa.gather_load %m[%i, %two] {mem_semantic = acquire, mem_scope = gpu}
  : REF, tile<4xindex>, index -> tile<4xf32>""",
    "ordered scatter": """
nv_tileaa.scatter_store %m[%i, %two], %b {mem_semantic = release, mem_scope = gpu}
  : REF, tile<4xf32>, tile<4xindex>, index""",
    "gather of rows": """
%v = nv_tileaa.block_tile %m {tileSizes = array<i64: 4, 1>, dimGroups = [[0], [1]],
  sparseDim = 0 : i32} : REF -> !nv_tileaa.tiled_view<4x1xf32, source = REF>
%x = nv_tileaa.gather_load %v[%i, %two]
  : !nv_tileaa.tiled_view<4x1xf32, source = REF>, tile<4xindex>, index -> tile<4x1xf32>
%r = nv_tileaa.view %x : tile<4x1xf32> -> tile<4xf32>""",
    "chosen memref": """
%n = arith.select %c, %m, %k : REF
%x = nv_tileaa.tiled_load %n[%row, %two] : REF, index, index -> tile<4x1xf32>
%r = nv_tileaa.view %x : tile<4x1xf32> -> tile<4xf32>""",
    "other shape": """
%n = nv_tileaa.view %m : REF -> !nv_tileaa.memref<256xf32, 1>
%far = arith.constant 62 : index
%r = nv_tileaa.tiled_load %n[%far] : !nv_tileaa.memref<256xf32, 1>, index -> tile<4xf32>""",
    "atomics": """
%n = nv_tileaa.atomic_rmw %m[%row, %zero], %o {rmw_mode = addf}
  : REF, tile<4x1xf32>, index, index -> tile<4x1xf32>""",
}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("what", OUTSIDE_OF_ARRAYS)
def test_checked_code_finds_what_leaves_an_array(what: str, inside: bool) -> None:
    ref = "!nv_tileaa.memref<16x16xf32, strides = [16, 1], 1>"
    body = f"""
%two = arith.constant 2 : index
%row = arith.index_cast %n0 : i32 to index
%i = arith.index_cast %j : tile<4xi32> to tile<4xindex>
%o = nv_tileaa.view %b : tile<4xf32> -> tile<4x1xf32>
%m = nv_tileaa.make_memref %ptr_a : (!nv_tileaa.ptr<f32, 1>) -> {ref}
%k = nv_tileaa.make_memref %ptr_a : (!nv_tileaa.ptr<f32, 1>) -> {ref}
""" + OUTSIDE_OF_ARRAYS[what].replace("REF", ref)
    if inside:
        body = body.replace("constant 62", "constant 60")
    rows = np.array([3, 0, 1, 2] if inside else [3, 0, 4, 2], np.int32)
    arrays = {
        "a": numbers(np.float32, (64,)),
        "b": numbers(np.float32, (4,)),
        "c": np.array(True),
        "j": rows,
        "n0": np.array(0 if inside else 2, np.int32),
    }
    results = {"r": np.zeros(4, np.float32)}
    if inside:
        agree(body, arrays, results)
        return
    module = checked(kernel_text(body, arrays, results))
    for options in VARIANTS[2:]:
        args = [array.copy().reshape(-1) for array in (*arrays.values(), *results.values())]
        with pytest.raises(TileIRError) as caught:
            Program(module, options=LaunchOptions(**options)).launch("k", 1, args)
        assert caught.value.diagnostics[0].code == OUTSIDE


# -- pointers --------------------------------------------------------------------------------------


@pytest.mark.rotates(2)
@pytest.mark.parametrize(("dtype", "name"), WAYS)
def test_masked_tiles_of_pointers(dtype: object, name: str) -> None:
    """Pointers that are chosen, permuted and joined."""
    a, b, m = numbers(dtype, (64,)), numbers(dtype, (4, 8), 1), flags((4, 8))
    pointer = f"!nv_tileaa.ptr<{element(a)}, 1>"
    ptrs, shape = f"tile<4x8x{pointer}>", tile(a, (4, 8))
    access, store = order(name, "acquire"), order(name, "release")
    agree(
        f"""
%n = nv_tileaa.make_range {{start = 0, end = 32}} : tile<32xi32>
%p = nv_tileaa.addptr %ptr_a, %n : {pointer}, tile<32xi32> -> tile<32x{pointer}>
%q = nv_tileaa.view %p : tile<32x{pointer}> -> tile<8x4x{pointer}>
%across = nv_tileaa.permute %q {{permutation = array<i64: 1, 0>}} : tile<8x4x{pointer}> -> {ptrs}
%straight = nv_tileaa.view %p : tile<32x{pointer}> -> {ptrs}
%far = arith.constant 32 : index
%behind = nv_tileaa.splat %far : index -> tile<4x8xindex>
%moved = nv_tileaa.addptr %across, %behind : {ptrs}, tile<4x8xindex> -> {ptrs}
%chosen = arith.select %m, %straight, %moved : tile<4x8xi1>, {ptrs}
%r = nv_tileaa.load %chosen {access} : {ptrs} -> {shape}
%s = nv_tileaa.load %across, %m, %b {access} : {ptrs}, tile<4x8xi1>, {shape} -> {shape}
%u = nv_tileaa.load %straight, %m {access} : {ptrs}, tile<4x8xi1> -> {shape}
nv_tileaa.store %chosen, %b, %m {store} : {ptrs}, {shape}, tile<4x8xi1>
nv_tileaa.store %moved, %u {store} : {ptrs}, {shape}
""",
        {"a": a, "b": b, "m": m},
        {key: numbers(dtype, (4, 8), 2) for key in "rsu"},
        case=(element(a), name),
    )


@pytest.mark.parametrize("on", [False, True])
def test_masked_atomics_of_scalars(on: bool) -> None:
    a, b = numbers(np.float32, (8,)), numbers(np.float32, ())
    ref, pointer = memref_of(a), "!nv_tileaa.ptr<f32, 1>"
    agree(
        f"""{ONES}
%r = nv_tileaa.atomic_rmw %mem_a[%one], %b, %m {{rmw_mode = addf}} : {ref}, f32, index, i1 -> f32
%s = nv_tileaa.atomic_rmw %ptr_a, %b, %m
  {{rmw_mode = xchg, mem_semantic = acq_rel, mem_scope = sys}} : {pointer}, f32, i1 -> f32
%x = nv_tileaa.load %mem_a[%two] : {ref}, index -> f32
%u = nv_tileaa.atomic_cas %mem_a[%two], %x, %b, %m : {ref}, f32, f32, index, i1 -> f32
""",
        {"a": a, "b": b, "m": np.array(on)},
        {key: np.ones((), np.float32) for key in "rsu"},
    )


@pytest.mark.parametrize("volatile", ["volatile = false", "volatile"])
def test_accesses_keep_their_order(volatile: str) -> None:
    """Whether they are volatile, too, or only say that they are not."""
    pointer = "!nv_tileaa.ptr<f32, 1>"
    module = parse(f"""
    module attributes {{nv_tileaa.compute_capability = 100 : i32}} {{
      nv_tileaa.func @f(%p: {pointer}, %x: f32) attributes {{kernel}} {{
        %r = nv_tileaa.load %p {{{volatile}, mem_semantic = acquire, mem_scope = gpu}} : {pointer} -> f32
        nv_tileaa.store %p, %r {{{volatile}, mem_semantic = release, mem_scope = gpu}} : {pointer}, f32
        nv_tileaa.return
      }}
    }}""")
    code = compile_kernel(module).llvm_ir
    assert " acquire" in code and " release" in code
