"""What operations with effects do: memory, order, functions, agents, queues, external code."""

from __future__ import annotations

import numpy as np
from tests.machine.tileaa.support import Case, f32, i1, i32, one

A4 = f32(1.0, -2.0, 0.5, 4.0)
RAMP = np.arange(8, dtype=np.float32).reshape(2, 4)
WIDE = np.arange(24, dtype=np.float32).reshape(4, 6)
PTR = "!nv_tileaa.ptr<f32, 1>"
PTRS = "tile<4x!nv_tileaa.ptr<f32, 1>>"
MEM4 = "!nv_tileaa.memref<4xf32, strides = [1], 1>"
MEM46 = "!nv_tileaa.memref<4x6xf32, strides = [6, 1], 1>"
VIEW = f"!nv_tileaa.tiled_view<2x4xf32, source = {MEM46}>"
TOKEN = "!nv_tileaa.mem_token"


def _block_tile(attributes: str = "", view: str = VIEW) -> str:
    return (
        "%view = nv_tileaa.block_tile %mem_a {tileSizes = array<i64: 2, 4>, "
        f"dimGroups = [[0], [1]]{attributes}}} : {MEM46} -> {view}\n"
        "%one = arith.constant 1 : index\n"
    )


def _stored(change: tuple[tuple[int, int], float]) -> np.ndarray:
    changed = WIDE.copy()
    changed[change[0]] = change[1]
    return changed


_EDGE = np.array([[16, 17, 0, 0], [22, 23, 0, 0]], np.float32)

POINTERS = [
    Case(
        "nv_tileaa.addptr",
        f"""
%i = arith.index_cast %k : tile<4xi32> to tile<4xindex>
%p = nv_tileaa.addptr %ptr_a, %i : {PTR}, tile<4xindex> -> {PTRS}
%r = nv_tileaa.load %p : {PTRS} -> tile<4xf32>
""",
        {"a": A4, "k": i32(3, 0, 0, 1)},
        {"r": f32(4.0, 1.0, 1.0, -2.0)},
    ),
    Case(
        "nv_tileaa.int_to_ptr",
        f"""
%n = nv_tileaa.ptr_to_int %ptr_a : {PTR} -> i64
%eight = arith.constant 8 : i64
%m = arith.addi %n, %eight : i64
%p = nv_tileaa.int_to_ptr %m : i64 -> {PTR}
%r = nv_tileaa.load %p : {PTR} -> f32
""",
        {"a": A4},
        {"r": one(0.5, np.float32)},
    ),
    Case(
        "nv_tileaa.ptr_to_int",
        f"""
%two = arith.constant 2 : index
%p = nv_tileaa.addptr %ptr_a, %two : {PTR}, index -> {PTR}
%m = nv_tileaa.ptr_to_int %p : {PTR} -> i64
%n = nv_tileaa.ptr_to_int %ptr_a : {PTR} -> i64
%r = arith.subi %m, %n : i64
""",
        {"a": A4},
        {"r": one(8, np.int64)},
    ),
    Case(
        "nv_tileaa.make_memref",
        """
%two = arith.constant 2 : index
%four = arith.constant 4 : index
%m = nv_tileaa.make_memref %ptr_a, %four, %two, %two, %two
  {operandSegmentSizes = array<i32: 1, 1, 2, 1>}
  : (!nv_tileaa.ptr<f32, 1>, index, index, index, index)
    -> !nv_tileaa.memref<?x?xf32, strides = [?, 1], 1>
%r = nv_tileaa.tiled_load %m[%zero, %zero]
  : !nv_tileaa.memref<?x?xf32, strides = [?, 1], 1>, index, index -> tile<2x2xf32>
""",
        {"a": f32(0, 1, 2, 3, 4)},
        # Four bytes on, two rows of two, two elements apart.
        {"r": np.array([[1, 2], [3, 4]], np.float32)},
    ),
    Case(
        "nv_tileaa.get_dim_size",
        _block_tile()
        + f"""
%m = nv_tileaa.get_dim_size %mem_a {{axis = 1 : i32}} : {MEM46} -> index
%n = nv_tileaa.get_dim_size %view {{axis = 1 : i32}} : {VIEW} -> index
%r = arith.index_cast %m : index to i32
%s = arith.index_cast %n : index to i32
""",
        {"a": WIDE},
        {"r": one(6, np.int32), "s": one(2, np.int32)},
    ),
    Case(
        "nv_tileaa.get_global",
        """
%p = nv_tileaa.get_global @table : !nv_tileaa.ptr<f32, 1>
%m = nv_tileaa.get_global @table : !nv_tileaa.memref<2x2xf32, strides = [2, 1], 1>
%r = nv_tileaa.load %p : !nv_tileaa.ptr<f32, 1> -> f32
%s = nv_tileaa.tiled_load %m[%zero, %zero]
  : !nv_tileaa.memref<2x2xf32, strides = [2, 1], 1>, index, index -> tile<2x2xf32>
""",
        {},
        {"r": one(1.5, np.float32), "s": np.array([[1.5, 2.0], [3.0, 4.0]], np.float32)},
        symbols="nv_tileaa.global @table {value = array<f32: 1.5, 2.0, 3.0, 4.0>, alignment = 16} "
        ": !nv_tileaa.memref<2x2xf32, 1>",
    ),
    Case(
        "nv_tileaa.global",
        """
%m = nv_tileaa.get_global @scratch : !nv_tileaa.memref<4xi32, 1>
%x = nv_tileaa.tiled_load %m[%zero] : !nv_tileaa.memref<4xi32, 1>, index -> tile<4xi32>
%y = arith.addi %x, %a : tile<4xi32>
nv_tileaa.tiled_store %m[%zero], %y : !nv_tileaa.memref<4xi32, 1>, tile<4xi32>, index
%r = nv_tileaa.tiled_load %m[%zero] : !nv_tileaa.memref<4xi32, 1>, index -> tile<4xi32>
""",
        {"a": i32(1, 2, 3, 4)},
        {"r": i32(1, 2, 3, 4)},
        symbols="nv_tileaa.global @scratch : !nv_tileaa.memref<4xi32, 1>",
    ),
    Case(
        "nv_tileaa.ext.alloca",
        f"""
%p = nv_tileaa.ext.alloca {{num_elem = 4 : i64, alignment = 16 : i64}} : {PTR}
%i = nv_tileaa.make_range {{start = 0, end = 4}} : tile<4xindex>
%q = nv_tileaa.addptr %p, %i : {PTR}, tile<4xindex> -> {PTRS}
nv_tileaa.store %q, %a : {PTRS}, tile<4xf32>
%last = arith.constant 3 : index
%l = nv_tileaa.addptr %p, %last : {PTR}, index -> {PTR}
%r = nv_tileaa.load %l : {PTR} -> f32
""",
        {"a": A4},
        {"r": one(4.0, np.float32)},
    ),
]

MEMORY = [
    Case(
        "nv_tileaa.load",
        f"""
%i = nv_tileaa.make_range {{start = 0, end = 4}} : tile<4xindex>
%p = nv_tileaa.addptr %ptr_a, %i : {PTR}, tile<4xindex> -> {PTRS}
%t = nv_tileaa.create_mem_token : {TOKEN}
%r, %t1 = nv_tileaa.load %p, %m, %b, %t
  : {PTRS}, tile<4xi1>, tile<4xf32>, {TOKEN} -> tile<4xf32>, {TOKEN}
%two = arith.constant 2 : index
%s = nv_tileaa.load %mem_a[%two] : {MEM4}, index -> f32
%u, %t2 = nv_tileaa.load %ptr_a, %t1 {{mem_semantic = acquire, mem_scope = gpu}}
  : {PTR}, {TOKEN} -> f32, {TOKEN}
""",
        {"a": A4, "b": f32(9, 9, 9, 9), "m": i1(1, 0, 1, 0)},
        {"r": f32(1.0, 9.0, 0.5, 9.0), "s": one(0.5, np.float32), "u": one(1.0, np.float32)},
    ),
    Case(
        "nv_tileaa.store",
        f"""
%i = nv_tileaa.make_range {{start = 0, end = 4}} : tile<4xindex>
%p = nv_tileaa.addptr %ptr_a, %i : {PTR}, tile<4xindex> -> {PTRS}
nv_tileaa.store %p, %b, %m : {PTRS}, tile<4xf32>, tile<4xi1>
%x = arith.constant 7.0 : f32
%three = arith.constant 3 : index
nv_tileaa.store %mem_a[%three], %x {{mem_semantic = release, mem_scope = sys}} : {MEM4}, f32, index
""",
        {"a": A4, "b": f32(9, 8, 7, 6), "m": i1(1, 0, 1, 0)},
        {"a": f32(9, -2, 7, 7)},
    ),
    Case(
        "nv_tileaa.block_tile",
        _block_tile(", padding_value = neg_inf")
        + f"%r = nv_tileaa.tiled_load %view[%one, %one] : {VIEW}, index, index -> tile<2x4xf32>",
        {"a": WIDE},
        {"r": np.where(_EDGE == 0, np.float32("-inf"), _EDGE)},
    ),
    Case(
        "nv_tileaa.block_tile",
        f"""
%view = nv_tileaa.block_tile %mem_a
  {{tileSizes = array<i64: 2, 2>, dimGroups = [[1], [0]], traversalStrides = array<i64: 3, 1>}}
  : {MEM46} -> !nv_tileaa.tiled_view<2x2xf32, source = {MEM46}>
%one = arith.constant 1 : index
%two = arith.constant 2 : index
%r = nv_tileaa.tiled_load %view[%one, %two]
  : !nv_tileaa.tiled_view<2x2xf32, source = {MEM46}>, index, index -> tile<2x2xf32>
%n = nv_tileaa.get_dim_size %view {{axis = 0 : i32}}
  : !nv_tileaa.tiled_view<2x2xf32, source = {MEM46}> -> index
%s = arith.index_cast %n : index to i32
""",
        {"a": WIDE},
        # Columns 3 and 4 down, rows 2 and 3 across.
        {"r": np.array([[15, 21], [16, 22]], np.float32), "s": one(2, np.int32)},
    ),
    Case(
        "nv_tileaa.tiled_load",
        _block_tile()
        + f"""
%t = nv_tileaa.create_mem_token : {TOKEN}
%r, %u = nv_tileaa.tiled_load %view[%one, %one], %t {{in_bounds = array<i1: true, false>}}
  : {VIEW}, index, index, {TOKEN} -> tile<2x4xf32>, {TOKEN}
%s = nv_tileaa.tiled_load %view[%zero, %one], %m, %b
  : {VIEW}, index, index, tile<2x4xi1>, tile<2x4xf32> -> tile<2x4xf32>
%two = arith.constant 2 : index
%v = nv_tileaa.tiled_load %mem_a[%two, %one] {{padding_value = pos_inf}}
  : {MEM46}, index, index -> tile<1x8xf32>
""",
        {
            "a": WIDE,
            "b": np.full((2, 4), 9, np.float32),
            "m": np.array([[1, 0, 1, 1], [0, 1, 1, 1]], np.bool_),
        },
        {
            "r": _EDGE,
            "s": np.array([[4, 9, 0, 0], [9, 11, 0, 0]], np.float32),
            "v": np.array([[13, 14, 15, 16, 17, *[np.inf] * 3]], np.float32),
        },
    ),
    Case(
        "nv_tileaa.tiled_store",
        _block_tile()
        + f"""
%x = nv_tileaa.tiled_load %view[%one, %zero] : {VIEW}, index, index -> tile<2x4xf32>
%y = nv_tileaa.addf %x, %x : tile<2x4xf32>
nv_tileaa.tiled_store %view[%one, %one], %y : {VIEW}, tile<2x4xf32>, index, index
nv_tileaa.tiled_store %view[%zero, %zero], %y, %m
  : {VIEW}, tile<2x4xf32>, index, index, tile<2x4xi1>
""",
        {"a": WIDE, "m": np.array([[1, 0, 0, 0], [0, 0, 0, 1]], np.bool_)},
        {
            "a": np.array(
                [
                    [24, 1, 2, 3, 4, 5],
                    [6, 7, 8, 42, 10, 11],
                    [12, 13, 14, 15, 24, 26],
                    [18, 19, 20, 21, 36, 38],
                ],
                np.float32,
            )
        },
    ),
    Case(
        "nv_tileaa.gather_load",
        f"""
%i = arith.index_castui %k : tile<4xi32> to tile<4xindex>
%two = arith.constant 2 : index
%r = nv_tileaa.gather_load %mem_a[%i, %two] : {MEM46}, tile<4xindex>, index -> tile<4xf32>
%x = arith.constant dense<-1.0> : tile<4xf32>
%s = nv_tileaa.gather_load %mem_a[%i, %i], %m, %x
  : {MEM46}, tile<4xindex>, tile<4xindex>, tile<4xi1>, tile<4xf32> -> tile<4xf32>
%view = nv_tileaa.block_tile %mem_a
  {{tileSizes = array<i64: 4, 2>, dimGroups = [[0], [1]], traversalStrides = array<i64: 1, 1>,
   sparseDim = 0 : i32}} : {MEM46} -> !nv_tileaa.tiled_view<4x2xf32, source = {MEM46}>
%five = arith.constant 5 : index
%u = nv_tileaa.gather_load %view[%i, %five]
  : !nv_tileaa.tiled_view<4x2xf32, source = {MEM46}>, tile<4xindex>, index -> tile<4x2xf32>
""",
        {"a": WIDE, "k": i32(3, 0, 2, 2), "m": i1(1, 1, 0, 1)},
        {
            "r": f32(20, 2, 14, 14),
            "s": f32(21, 0, -1, 14),
            "u": np.array([[23, 0], [5, 0], [17, 0], [17, 0]], np.float32),
        },
    ),
    Case(
        "nv_tileaa.scatter_store",
        f"""
%i = arith.index_castui %k : tile<4xi32> to tile<4xindex>
%two = arith.constant 2 : index
nv_tileaa.scatter_store %mem_a[%i, %two], %b, %m
  : {MEM46}, tile<4xf32>, tile<4xindex>, index, tile<4xi1>
""",
        {"a": WIDE, "b": f32(-1, -2, -3, -4), "k": i32(3, 0, 2, 1), "m": i1(0, 1, 0, 0)},
        {"a": _stored(((0, 2), -2.0))},
    ),
    Case(
        "nv_tileaa.atomic_rmw",
        """
%i = arith.index_castui %k : tile<4xi32> to tile<4xindex>
%p = nv_tileaa.addptr %ptr_a, %i
  : !nv_tileaa.ptr<i32, 1>, tile<4xindex> -> tile<4x!nv_tileaa.ptr<i32, 1>>
%r = nv_tileaa.atomic_rmw %p, %b {rmw_mode = add}
  : tile<4x!nv_tileaa.ptr<i32, 1>>, tile<4xi32> -> tile<4xi32>
%one = arith.constant 1 : index
%n = arith.constant -1 : i32
%s = nv_tileaa.atomic_rmw %mem_a[%one], %n {rmw_mode = umax, mem_semantic = relaxed,
  mem_scope = gpu} : !nv_tileaa.memref<2xi32, strides = [1], 1>, i32, index -> i32
""",
        {"a": i32(10, 20), "b": i32(1, 2, 3, 4), "k": i32(0, 1, 0, 0)},
        # Lanes with one address take effect one after the other.
        {"a": i32(18, -1), "r": i32(10, 20, 11, 14), "s": one(22, np.int32)},
    ),
    Case(
        "nv_tileaa.atomic_cas",
        """
%i = nv_tileaa.make_range {start = 0, end = 4} : tile<4xindex>
%p = nv_tileaa.addptr %ptr_a, %i
  : !nv_tileaa.ptr<i32, 1>, tile<4xindex> -> tile<4x!nv_tileaa.ptr<i32, 1>>
%r = nv_tileaa.atomic_cas %p, %b, %c, %m
  : tile<4x!nv_tileaa.ptr<i32, 1>>, tile<4xi32>, tile<4xi32>, tile<4xi1> -> tile<4xi32>
""",
        {"a": i32(1, 2, 3, 4), "b": i32(1, 9, 3, 8), "c": i32(5, 6, 7, 8), "m": i1(1, 1, 0, 0)},
        {"a": i32(5, 2, 3, 4), "r": i32(1, 2, 3, 8)},
    ),
    Case(
        "nv_tileaa.tiled_atomic_rmw",
        _block_tile()
        + f"""
%r = nv_tileaa.tiled_atomic_rmw %view[%one, %one], %b, %m {{rmw_mode = addf}}
  : {VIEW}, tile<2x4xf32>, index, index, tile<2x4xi1> -> tile<2x4xf32>
""",
        {
            "a": WIDE,
            "b": np.full((2, 4), 100, np.float32),
            "m": np.array([[1, 1, 1, 1], [0, 1, 1, 1]], np.bool_),
        },
        {
            "a": np.array(
                [*WIDE[:2].tolist(), [12, 13, 14, 15, 116, 117], [18, 19, 20, 21, 22, 123]],
                np.float32,
            ),
            "r": np.array([[16, 17, 0, 0], [0, 23, 0, 0]], np.float32),
        },
    ),
]

HINTS = [
    Case(
        "nv_tileaa.create_mem_token",
        f"""
%t = nv_tileaa.create_mem_token : {TOKEN}
%r, %u = nv_tileaa.load %ptr_a, %t : {PTR}, {TOKEN} -> f32, {TOKEN}
""",
        {"a": A4},
        {"r": one(1.0, np.float32)},
    ),
    Case(
        "nv_tileaa.join_mem_token",
        f"""
%t = nv_tileaa.join_mem_token : {TOKEN}
%x = arith.constant 5.0 : f32
%u = nv_tileaa.store %ptr_a, %x, %t : {PTR}, f32, {TOKEN} -> {TOKEN}
%v = nv_tileaa.join_mem_token %t, %u : {TOKEN}, {TOKEN} -> {TOKEN}
%r, %w = nv_tileaa.load %ptr_a, %v : {PTR}, {TOKEN} -> f32, {TOKEN}
""",
        {"a": A4},
        {"r": one(5.0, np.float32)},
    ),
    Case(
        "nv_tileaa.ext.fence",
        f"""
%t = nv_tileaa.create_mem_token : {TOKEN}
%u = nv_tileaa.ext.fence %t {{kind = alias}} : {TOKEN} -> {TOKEN}
%r, %v = nv_tileaa.load %ptr_a, %u : {PTR}, {TOKEN} -> f32, {TOKEN}
""",
        {"a": A4},
        {"r": one(1.0, np.float32)},
    ),
    Case(
        "nv_tileaa.ext.grid_dependency",
        f"""
%u = nv_tileaa.ext.grid_dependency {{action = wait}} : {TOKEN}
%r, %v = nv_tileaa.load %ptr_a, %u : {PTR}, {TOKEN} -> f32, {TOKEN}
%w = nv_tileaa.ext.grid_dependency %v {{action = launch}} : {TOKEN} -> {TOKEN}
""",
        {"a": A4},
        {"r": one(1.0, np.float32)},
    ),
    Case(
        "nv_tileaa.assume",
        "%r = nv_tileaa.assume %a {predicates = [#nv_tileaa.bounded<0, ?>]} : tile<2xi32>",
        {"a": i32(3, 4)},
        {"r": i32(3, 4)},
    ),
    Case(
        "nv_tileaa.optimization_barrier",
        f"""
%t = nv_tileaa.create_mem_token : {TOKEN}
%r, %p, %u = nv_tileaa.optimization_barrier %a, %ptr_a, %t : tile<4xf32>, {PTR}, {TOKEN}
%s, %v = nv_tileaa.load %p, %u : {PTR}, {TOKEN} -> f32, {TOKEN}
""",
        {"a": A4},
        {"r": A4, "s": one(1.0, np.float32)},
    ),
    Case(
        "nv_tileaa.pragma",
        '%r = nv_tileaa.pragma %a {directives = ["unroll"]} : tile<4xf32>',
        {"a": A4},
        {"r": A4},
    ),
    Case(
        "nv_tileaa.message",
        'nv_tileaa.message {message = "two stages"}\n%r = nv_tileaa.addf %a, %a : tile<4xf32>',
        {"a": A4},
        {"r": f32(2, -4, 1, 8)},
    ),
    Case(
        "nv_tileaa.assert",
        f"""
%t = nv_tileaa.create_mem_token : {TOKEN}
nv_tileaa.assert %m {{message = "all hold"}} : tile<4xi1>
%u = nv_tileaa.assert %c, %t {{message = "one holds"}} : i1, {TOKEN} -> {TOKEN}
""",
        {"m": i1(1, 0, 1, 0), "c": one(0, np.bool_)},
        failures=("all hold [1]", "all hold [3]", "one holds []"),
    ),
    Case(
        "nv_tileaa.print",
        f"""
%t = nv_tileaa.create_mem_token : {TOKEN}
%u = nv_tileaa.print %n, %a, %t {{format = "%d: %.1f;"}} : i32, tile<4xf32>, {TOKEN} -> {TOKEN}
%i = arith.index_cast %n : i32 to index
nv_tileaa.print %i {{format = " %u"}} : index
nv_tileaa.print {{format = " here"}}
""",
        {"n": one(-5, np.int32), "a": A4},
        prints="-5: [1.0, -2.0, 0.5, 4.0]; 18446744073709551611 here",
    ),
]

_TWICE = """
nv_tileaa.func @twice(%v: i32) -> (i32, i32) {
  %two = arith.constant 2 : i32
  %w = arith.muli %v, %two : i32
  %id = nv_tileaa.get_program_id {axis = 0 : i32} : i32
  nv_tileaa.return %w, %id : i32, i32
}
"""
Q = "!nv_tileaa.queue<tile<4xf32>, i32>"


def _code(op: str, body: str, name: str, function: object) -> Case:
    return Case(op, body, {"a": i32(1, 2, 3, -1)}, {"r": i32(2, 3, 4, 0)}, plugins={name: function})


def _increment(array: np.ndarray) -> np.ndarray:
    return array + np.int32(1)


FUNCTIONS = [
    Case(
        "nv_tileaa.func",
        "%r = arith.addi %a, %a : tile<2xi32>",
        {"a": i32(1, 2)},
        {"r": i32(2, 4)},
    ),
    Case(
        "nv_tileaa.call",
        """
%r, %b = nv_tileaa.call @twice(%n) : i32 -> i32, i32
%c, %s = nv_tileaa.call @twice(%r) : i32 -> i32, i32
%u = arith.addi %r, %c : i32
""",
        {"n": one(21, np.int32)},
        {"r": one(42, np.int32), "s": one(0, np.int32), "u": one(126, np.int32)},
        symbols=_TWICE,
    ),
    Case(
        "nv_tileaa.return",
        "%r, %s = nv_tileaa.call @swap(%n, %m) : i32, i32 -> i32, i32",
        {"n": one(1, np.int32), "m": one(2, np.int32)},
        {"r": one(2, np.int32), "s": one(1, np.int32)},
        symbols="""
nv_tileaa.func @swap(%x: i32, %y: i32) -> (i32, i32) {
  nv_tileaa.return %y, %x : i32, i32
}
""",
    ),
    Case(
        "nv_tileaa.execute",
        """
%r = nv_tileaa.execute %a {agent = "worker", num_warps = 4} : tile<4xf32> -> tile<4xf32> {
^bb0(%v: !nv_tileaa.tile<4xf32>):
  %w = nv_tileaa.addf %v, %v : tile<4xf32>
  nv_tileaa.yield %w : tile<4xf32>
}
%s, %id = nv_tileaa.execute %n {symbol = @twice} : i32 -> i32, i32
""",
        {"a": A4, "n": one(4, np.int32)},
        {"r": f32(2, -4, 1, 8), "s": one(8, np.int32)},
        symbols=_TWICE,
    ),
    Case(
        "nv_tileaa.plugin",
        """
%r = nv_tileaa.plugin %a {code = "double it"} : tile<4xf32> -> tile<4xf32>
%s, %id = nv_tileaa.plugin %n {symbol = @twice} : i32 -> i32, i32
nv_tileaa.plugin %mem_b {code = "clear"} : !nv_tileaa.memref<4xf32, strides = [1], 1>
""",
        {"a": A4, "b": A4, "n": one(4, np.int32)},
        {"r": f32(2, -4, 1, 8), "s": one(8, np.int32), "b": f32(0, 0, 0, 0)},
        symbols=_TWICE,
        plugins={"double it": lambda a: 2 * a, "clear": lambda b: b.fill(0)},
    ),
    _code(
        "nv_tileaa.extern_elementwise",
        '%r = nv_tileaa.extern_elementwise %a {symbol = "inc"} : tile<4xi32>',
        "inc",
        _increment,
    ),
    _code(
        "nv_tileaa.elementwise_inline_asm",
        '%r = nv_tileaa.elementwise_inline_asm %a {asm_string = "add.s32 $0, $1, 1;", '
        'constraints = "=r,r"} : tile<4xi32>',
        "add.s32 $0, $1, 1;",
        _increment,
    ),
    _code(
        "nv_tileaa.call_elementwise_intrinsic",
        '%r = nv_tileaa.call_elementwise_intrinsic %a {intrinsic = "inc"} : tile<4xi32>',
        "inc",
        lambda array: (array.tolist() and np.array([v + 1 for v in array.tolist()])).astype("i4"),
    ),
    Case(
        "nv_tileaa.inject_ir",
        """
nv_tileaa.inject_ir {language = "nvvm", code = "nvvm.barrier0"}
%r = nv_tileaa.plugin %a {symbol = @helper} : tile<4xi32> -> tile<4xi32>
""",
        {"a": i32(1, 2, 3, 4)},
        {"r": i32(2, 3, 4, 5)},
        symbols='nv_tileaa.inject_ir {sym_name = "helper", language = "ptx", code = ".func h() {}"}',
        plugins={"nvvm.barrier0": lambda: None, "helper": _increment},
    ),
    Case(
        "nv_tileaa.launch_func",
        """
%two = arith.constant 2 : index
nv_tileaa.launch_func @child %two, %two, %two, %ptr_a : index, index, index, !nv_tileaa.ptr<f32, 1>
%r = nv_tileaa.load %ptr_a : !nv_tileaa.ptr<f32, 1> -> f32
""",
        {"a": A4},
        {"r": one(1.0, np.float32)},
        symbols="""
nv_tileaa.func @child(%p: !nv_tileaa.ptr<f32, 1>) attributes {kernel} {
  nv_tileaa.return
}
""",
        plugins={"child": lambda x, y, z, pointer: None},
    ),
]

QUEUES = [
    Case(
        "nv_tileaa.create_queue",
        f"""
%q = nv_tileaa.create_queue {{depth = 1}} : {Q}
nv_tileaa.queue.put %q, %a, %n : {Q}, tile<4xf32>, i32
%r, %s = nv_tileaa.queue.get %q {{consumer_index = 0}} : {Q} -> tile<4xf32>, i32
nv_tileaa.mark_for_reuse %q : {Q}
""",
        {"a": A4, "n": one(3, np.int32)},
        {"r": A4, "s": one(3, np.int32)},
    ),
    Case(
        "nv_tileaa.queue.put",
        f"""
%q = nv_tileaa.create_queue {{depth = 2}} : {Q}
nv_tileaa.queue.put %q : {Q} {{
  %twice = nv_tileaa.addf %a, %a : tile<4xf32>
  nv_tileaa.queue.yield %twice, %n : tile<4xf32>, i32
}}
nv_tileaa.queue.put %q, %a, %n : {Q}, tile<4xf32>, i32
%r, %m = nv_tileaa.queue.get %q : {Q} -> tile<4xf32>, i32
%s, %k = nv_tileaa.queue.get %q : {Q} -> tile<4xf32>, i32
""",
        {"a": A4, "n": one(3, np.int32)},
        {"r": f32(2, -4, 1, 8), "s": A4},
    ),
    Case(
        "nv_tileaa.queue.get",
        f"""
%q = nv_tileaa.create_queue {{depth = 1}} : {Q}
nv_tileaa.queue.put %q, %a, %n : {Q}, tile<4xf32>, i32
%r = nv_tileaa.queue.get %q : {Q} -> tile<4xf32> {{
^bb0(%first: !nv_tileaa.tile<4xf32>, %second: i32):
  %factor = arith.sitofp %second : i32 to f32
  %product = nv_tileaa.mulf %first, %factor : tile<4xf32>, f32 -> tile<4xf32>
  nv_tileaa.queue.yield %product : tile<4xf32>
}}
""",
        {"a": A4, "n": one(3, np.int32)},
        {"r": f32(3, -6, 1.5, 12)},
    ),
    Case(
        "nv_tileaa.queue.yield",
        """
%q = nv_tileaa.create_queue {depth = 3} : !nv_tileaa.queue<i32>
nv_tileaa.queue.put %q : !nv_tileaa.queue<i32> {
  nv_tileaa.queue.yield %n : i32
}
%r = nv_tileaa.queue.get %q : !nv_tileaa.queue<i32> -> i32
""",
        {"n": one(3, np.int32)},
        {"r": one(3, np.int32)},
    ),
    Case(
        "nv_tileaa.mark_for_reuse",
        """
%q = nv_tileaa.create_queue {depth = 3} : !nv_tileaa.queue<i32>
nv_tileaa.mark_for_reuse %q : !nv_tileaa.queue<i32>
%r = arith.constant 1 : i32
""",
        {},
        {"r": one(1, np.int32)},
    ),
]

GRID = [
    Case(
        "nv_tileaa.get_program_id",
        """
%x = nv_tileaa.get_program_id {axis = 0 : i32} : i32
%y = nv_tileaa.get_program_id {axis = 1 : i32} : i32
%two = arith.constant 2 : i32
%row = arith.muli %y, %two : i32
%n = arith.addi %row, %x : i32
%i = arith.index_castui %n : i32 to index
nv_tileaa.store %mem_a[%i], %n : !nv_tileaa.memref<4xi32, strides = [1], 1>, i32, index
""",
        {"a": i32(9, 9, 9, 9)},
        {"a": i32(0, 1, 2, 3)},
        grid=(2, 2),
    ),
    Case(
        "nv_tileaa.get_num_programs",
        "%r = nv_tileaa.get_num_programs {axis = 1 : i32} : i32",
        {},
        {"r": one(5, np.int32)},
        grid=(2, 5),
    ),
    Case(
        "nv_tileaa.cancel_next_program_id",
        """
%work = nv_tileaa.cancel_next_program_id : !nv_tileaa.program_id
%ok = nv_tileaa.is_valid_program_id %work : !nv_tileaa.program_id -> i1
%r = arith.extui %ok : i1 to i32
""",
        {},
        {"r": one(0, np.int32)},
    ),
    Case(
        "nv_tileaa.is_valid_program_id",
        """
%one = arith.constant 1 : i32
%x = nv_tileaa.get_program_id {axis = 0 : i32} : i32
%work = nv_tileaa.cancel_next_program_id : !nv_tileaa.program_id
%ok = nv_tileaa.is_valid_program_id %work : !nv_tileaa.program_id -> i1
%i = arith.index_castui %x : i32 to index
%m = nv_tileaa.atomic_rmw %mem_a[%i], %one {rmw_mode = add}
  : !nv_tileaa.memref<4xi32, strides = [1], 1>, i32, index -> i32
scf.if %ok {
  %y = nv_tileaa.get_program_id %work {axis = 0 : i32} : !nv_tileaa.program_id -> i32
  %j = arith.index_castui %y : i32 to index
  %n = nv_tileaa.atomic_rmw %mem_a[%j], %one {rmw_mode = add}
    : !nv_tileaa.memref<4xi32, strides = [1], 1>, i32, index -> i32
}
""",
        {"a": i32(0, 0, 0, 0)},
        {"a": i32(1, 1, 1, 1)},
        grid=4,
    ),
]

CASES = [*POINTERS, *MEMORY, *HINTS, *FUNCTIONS, *QUEUES, *GRID]
