"""Whole programs at the level of ``nv_tileaa``: its operations with arithmetic and control flow."""

from __future__ import annotations

AXPY = """
module attributes {nv_tileaa.compute_capability = 90 : i32} {
  nv_tileaa.func @axpy(%x: !nv_tileaa.ptr<f32, 1>, %y: !nv_tileaa.ptr<f32, 1>,
                       %a: f32, %count: i32)
      attributes {nv_tileaa.kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, clusterDim = [1, 1, 1]>} {
    %first = arith.constant 0 : i32
    %size = arith.constant 256 : i32
    %block = nv_tileaa.get_program_id {axis = 0 : i32} : i32
    %base = arith.muli %block, %size overflow<nsw> : i32
    %range = nv_tileaa.make_range %first, %size : i32, i32 -> tile<256xi32>
    %bases = nv_tileaa.splat %base : i32 -> tile<256xi32>
    %at = arith.addi %bases, %range overflow<nsw, nuw> : tile<256xi32>
    %counts = nv_tileaa.splat %count : i32 -> tile<256xi32>
    %inside = arith.cmpi ult, %at, %counts : tile<256xi32>
    %lanes = arith.index_cast %at : tile<256xi32> to tile<256xindex>
    %px = nv_tileaa.addptr %x, %lanes
          : !nv_tileaa.ptr<f32, 1>, tile<256xindex> -> tile<256x!nv_tileaa.ptr<f32, 1>>
    %py = nv_tileaa.addptr %y, %lanes
          : !nv_tileaa.ptr<f32, 1>, tile<256xindex> -> tile<256x!nv_tileaa.ptr<f32, 1>>
    %none = arith.constant dense<-0.0> : tile<256xf32>
    %t0 = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %vx, %t1 = nv_tileaa.load %px, %inside, %none, %t0
        {cache_modifier = #nv_tileaa<cache_modifier cg>, operandSegmentSizes = array<i32: 1, 0, 1, 1>}
        : tile<256x!nv_tileaa.ptr<f32, 1>>, tile<256xi1>, tile<256xf32>, !nv_tileaa.mem_token
        -> tile<256xf32>, !nv_tileaa.mem_token
    %vy, %t2 = nv_tileaa.load %py, %inside, %none, %t0
        {operandSegmentSizes = array<i32: 1, 0, 1, 1>}
        : tile<256x!nv_tileaa.ptr<f32, 1>>, tile<256xi1>, tile<256xf32>, !nv_tileaa.mem_token
        -> tile<256xf32>, !nv_tileaa.mem_token
    %as = nv_tileaa.splat %a : f32 -> tile<256xf32>
    %sum = nv_tileaa.fma %as, %vx, %vy {rounding_mode = #nv_tileaa<rounding_mode nearest_even>} : tile<256xf32>
    %t3 = nv_tileaa.join_mem_token %t1, %t2
          : !nv_tileaa.mem_token, !nv_tileaa.mem_token -> !nv_tileaa.mem_token
    %t4 = nv_tileaa.store %py, %sum, %inside, %t3
        {operandSegmentSizes = array<i32: 1, 1, 0, 1>}
        : tile<256x!nv_tileaa.ptr<f32, 1>>, tile<256xf32>, tile<256xi1>, !nv_tileaa.mem_token
        -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
"""

_A = "!nv_tileaa.memref<?x?xbf16, strides = [?, 1], alias_scope = 1, 1>"
_B = "!nv_tileaa.memref<?x?xbf16, strides = [?, 1], alias_scope = 2, 1>"
_C = "!nv_tileaa.memref<?x?xf32, strides = [?, 1], 1>"

PRODUCT = f"""
nv_tileaa.func @product(%a: !nv_tileaa.ptr<bf16, 1>, %b: !nv_tileaa.ptr<bf16, 1>,
                        %c: !nv_tileaa.ptr<f32, 1>, %M: index, %N: index, %K: index) {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %ma = nv_tileaa.make_memref %a, %M, %K, %K {{alias_scope = 1 : i32, operandSegmentSizes = array<i32: 1, 0, 2, 1>}}
        : (!nv_tileaa.ptr<bf16, 1>, index, index, index) -> {_A}
  %mb = nv_tileaa.make_memref %b, %K, %N, %N {{alias_scope = 2 : i32, operandSegmentSizes = array<i32: 1, 0, 2, 1>}}
        : (!nv_tileaa.ptr<bf16, 1>, index, index, index) -> {_B}
  %mc = nv_tileaa.make_memref %c, %M, %N, %N {{operandSegmentSizes = array<i32: 1, 0, 2, 1>}}
        : (!nv_tileaa.ptr<f32, 1>, index, index, index) -> {_C}
  %va = nv_tileaa.block_tile %ma {{tileSizes = array<i64: 64, 16>, dimGroups = [[0], [1]], padding_value = #nv_tileaa<padding_value zero>}}
        : {_A} -> !nv_tileaa.tiled_view<64x16xbf16, source = {_A}>
  %vb = nv_tileaa.block_tile %mb {{tileSizes = array<i64: 16, 64>, dimGroups = [[0], [1]], padding_value = #nv_tileaa<padding_value zero>}}
        : {_B} -> !nv_tileaa.tiled_view<16x64xbf16, source = {_B}>
  %vc = nv_tileaa.block_tile %mc {{tileSizes = array<i64: 64, 64>, dimGroups = [[0], [1]]}}
        : {_C} -> !nv_tileaa.tiled_view<64x64xf32, source = {_C}>
  %steps = nv_tileaa.get_dim_size %va {{axis = 1 : i32}}
        : !nv_tileaa.tiled_view<64x16xbf16, source = {_A}> -> index
  %pi = nv_tileaa.get_program_id {{axis = 0 : i32}} : i32
  %pj = nv_tileaa.get_program_id {{axis = 1 : i32}} : i32
  %i = arith.index_castui %pi : i32 to index
  %j = arith.index_castui %pj : i32 to index
  %init = arith.constant dense<0.0> : tile<64x64xf32>
  %t0 = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
  %acc, %te = scf.for %k = %zero to %steps step %one
      iter_args(%s = %init, %t = %t0) -> (tile<64x64xf32>, !nv_tileaa.mem_token) {{
    %x, %t1 = nv_tileaa.tiled_load %va[%i, %k], %t
        {{in_bounds = array<i1: false, false>, operandSegmentSizes = array<i32: 1, 2, 0, 0>}}
        : !nv_tileaa.tiled_view<64x16xbf16, source = {_A}>, index, index, !nv_tileaa.mem_token
        -> tile<64x16xbf16>, !nv_tileaa.mem_token
    %y, %t2 = nv_tileaa.tiled_load %vb[%k, %j], %t
        {{in_bounds = array<i1: false, false>, operandSegmentSizes = array<i32: 1, 2, 0, 0>}}
        : !nv_tileaa.tiled_view<16x64xbf16, source = {_B}>, index, index, !nv_tileaa.mem_token
        -> tile<16x64xbf16>, !nv_tileaa.mem_token
    %d = nv_tileaa.dot %x, %y, %s {{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}}
        : tile<64x16xbf16>, tile<16x64xbf16>, tile<64x64xf32> -> tile<64x64xf32>
    %tn = nv_tileaa.join_mem_token %t1, %t2
        : !nv_tileaa.mem_token, !nv_tileaa.mem_token -> !nv_tileaa.mem_token
    scf.yield %d, %tn : tile<64x64xf32>, !nv_tileaa.mem_token
  }}
  %tf = nv_tileaa.tiled_store %vc[%i, %j], %acc, %te
      {{in_bounds = array<i1: false, false>, operandSegmentSizes = array<i32: 1, 1, 2, 0>}}
      : !nv_tileaa.tiled_view<64x64xf32, source = {_C}>, tile<64x64xf32>, index, index, !nv_tileaa.mem_token
      -> !nv_tileaa.mem_token
  nv_tileaa.return
}}
"""

COLLECTIVES = """
nv_tileaa.func @collectives(%v: tile<16x32xf32>, %w: tile<64xi32>) {
  %sums = nv_tileaa.reduce %v {axis = 1 : i32, identities = [0.0 : f32]}
      : tile<16x32xf32> -> tile<16xf32> {
  ^bb0(%x: f32, %acc: f32):
    %s = nv_tileaa.addf %x, %acc : f32
    nv_tileaa.yield %s : f32
  }
  %most = nv_tileaa.scan %w {axis = 0 : i32, reverse = false, identities = [-2147483648 : i32]}
      : tile<64xi32> -> tile<64xi32> {
  ^bb0(%x: i32, %acc: i32):
    %m = arith.maxsi %x, %acc : i32
    nv_tileaa.yield %m : i32
  }
  nv_tileaa.return
}
"""

ORDER = """
nv_tileaa.func @order(%flag: !nv_tileaa.ptr<i32, 1>, %counter: !nv_tileaa.ptr<i32, 1>,
                      %slots: tile<4x!nv_tileaa.ptr<i32, 1>>, %old: tile<4xi32>,
                      %new: tile<4xi32>) {
  %one = arith.constant 1 : i32
  %zero = arith.constant dense<0> : tile<4xi32>
  %free = arith.cmpi eq, %old, %zero : tile<4xi32>
  %u0 = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
  %seen, %u1 = nv_tileaa.load %flag, %u0
      {mem_semantic = #nv_tileaa<mem_semantic acquire>, mem_scope = #nv_tileaa<mem_scope gpu>,
       operandSegmentSizes = array<i32: 1, 0, 0, 0>}
      : !nv_tileaa.ptr<i32, 1>, !nv_tileaa.mem_token -> i32, !nv_tileaa.mem_token
  %before, %u2 = nv_tileaa.atomic_rmw %counter, %one, %u1
      {rmw_mode = #nv_tileaa<rmw_mode add>, mem_semantic = #nv_tileaa<mem_semantic acq_rel>,
       mem_scope = #nv_tileaa<mem_scope gpu>, operandSegmentSizes = array<i32: 1, 1, 0, 0>}
      : !nv_tileaa.ptr<i32, 1>, i32, !nv_tileaa.mem_token -> i32, !nv_tileaa.mem_token
  %had, %u3 = nv_tileaa.atomic_cas %slots, %old, %new, %free, %u2
      {mem_semantic = #nv_tileaa<mem_semantic relaxed>, mem_scope = #nv_tileaa<mem_scope sys>,
       operandSegmentSizes = array<i32: 1, 1, 1, 0, 1>}
      : tile<4x!nv_tileaa.ptr<i32, 1>>, tile<4xi32>, tile<4xi32>, tile<4xi1>, !nv_tileaa.mem_token
      -> tile<4xi32>, !nv_tileaa.mem_token
  %u4 = nv_tileaa.store %flag, %one, %u3
      {mem_semantic = #nv_tileaa<mem_semantic release>, mem_scope = #nv_tileaa<mem_scope gpu>,
       operandSegmentSizes = array<i32: 1, 1, 0, 0>}
      : !nv_tileaa.ptr<i32, 1>, i32, !nv_tileaa.mem_token -> !nv_tileaa.mem_token
  nv_tileaa.return
}
"""

MIXED = """
nv_tileaa.func @mixed(%p: !nv_tileaa.ptr<f16, 1>, %k: i32, %acc: tile<64x32xf32>,
                      %i0: tile<8xi32>, %i1: tile<8xi32>, %x: tile<64x32xf16>, %y: tile<32x64xf16>,
                      %ps: tile<32x!nv_tileaa.ptr<bf16, 1>>, %t: !nv_tileaa.mem_token) {
  %aligned = nv_tileaa.assume %p {predicates = [#nv_tileaa.div_by<16>]} : !nv_tileaa.ptr<f16, 1>
  %k8 = nv_tileaa.assume %k {predicates = [#nv_tileaa.bounded<0, ?>, #nv_tileaa.div_by<8>]} : i32
  %h = nv_tileaa.fp_to_fp %acc {rounding_mode = #nv_tileaa<rounding_mode nearest_even>}
      : tile<64x32xf32> -> tile<64x32xf16>
  %high = nv_tileaa.mulhiui %i0, %i1 : tile<8xi32>
  %q = nv_tileaa.create_queue {depth = 3 : i32}
      : !nv_tileaa.queue<tile<64x32xf16>, tile<32x64xf16>>
  nv_tileaa.queue.put %q, %x, %y
      : !nv_tileaa.queue<tile<64x32xf16>, tile<32x64xf16>>, tile<64x32xf16>, tile<32x64xf16>
  %gx, %gy = nv_tileaa.queue.get %q {consumer_index = 0 : i32}
      : !nv_tileaa.queue<tile<64x32xf16>, tile<32x64xf16>> -> tile<64x32xf16>, tile<32x64xf16>
  nv_tileaa.mark_for_reuse %q : !nv_tileaa.queue<tile<64x32xf16>, tile<32x64xf16>>
  %work = nv_tileaa.cancel_next_program_id : !nv_tileaa.program_id
  %ok = nv_tileaa.is_valid_program_id %work : !nv_tileaa.program_id -> i1
  %v:2 = "nv_tileaa.load"(%ps, %t) {operandSegmentSizes = array<i32: 1, 0, 0, 0>}
      : (tile<32x!nv_tileaa.ptr<bf16, 1>>, !nv_tileaa.mem_token)
      -> (tile<32xbf16>, !nv_tileaa.mem_token)
  nv_tileaa.return
}
"""

CONTROL = """
nv_tileaa.func @control(%n: i32, %c: i1, %x: f32, %f: tile<8xf32>, %t: !nv_tileaa.mem_token) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %sum, %u = scf.for %i = %zero to %n step %one
      iter_args(%a = %f, %b = %t) -> (tile<8xf32>, !nv_tileaa.mem_token) : i32 {
    %d = nv_tileaa.addf %a, %f : tile<8xf32>
    scf.yield %d, %b : tile<8xf32>, !nv_tileaa.mem_token
  }
  %last = scf.for unsigned %i = %zero to %n step %one iter_args(%a = %zero) -> (i32) : i32 {
    scf.yield %i : i32
  }
  scf.for %i = %zero to %n step %one : i32 {
    %twice = arith.addi %i, %i : i32
  }
  %v, %w = scf.if %c -> (tile<8xf32>, i32) {
    scf.yield %sum, %last : tile<8xf32>, i32
  } else {
    %p = ub.poison : tile<8xf32>
    %q = ub.poison : i32
    scf.yield %p, %q : tile<8xf32>, i32
  }
  scf.if %c {
    %neg = arith.subi %zero, %n : i32
  }
  %end:2 = scf.while (%a = %v, %i = %w) : (tile<8xf32>, i32) -> (tile<8xf32>, f32) {
    %more = arith.cmpi slt, %i, %n : i32
    scf.condition(%more) %a, %x : tile<8xf32>, f32
  } do {
  ^bb0(%a: tile<8xf32>, %y: f32):
    %b = nv_tileaa.mulf %a, %y : tile<8xf32>, f32 -> tile<8xf32>
    %j = arith.addi %zero, %one : i32
    scf.yield %b, %j : tile<8xf32>, i32
  }
  nv_tileaa.return
}
"""

PROGRAMS: dict[str, str] = {
    "axpy": AXPY,
    "product": PRODUCT,
    "collectives": COLLECTIVES,
    "order": ORDER,
    "mixed": MIXED,
    "control": CONTROL,
}
