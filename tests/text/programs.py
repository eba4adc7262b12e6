"""Whole programs that use most of what the text format has: material for the tests beside."""

from __future__ import annotations

MATMUL = """cuda_tile.module @matmul attributes {producer = "by hand"} {
  global private constant @scale alignment = 16 <f32: [1.0, 2.5]> : tile<2xf32>
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %n: tile<i32>)
      optimization_hints=<sm_100 = {occupancy = 2, num_cta_in_cga = 1}, default = {}> {
    %x, %y, %z = get_tile_block_id : tile<i32>
    %av = make_tensor_view %a, shape = [%n, 64], strides = [64, 1]
      : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %bv = make_tensor_view %b, shape = [64, %n], strides = [%n, 1]
      : tile<i32> -> tensor_view<64x?xf16, strides=[?,1]>
    %cv = make_tensor_view %c, shape = [%n, %n], strides = [%n, 1]
      : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %ap = make_partition_view %av
      : partition_view<tile=(16x16), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>
    %bp = make_partition_view %bv
      : partition_view<tile=(16x16), padding_value = zero, tensor_view<64x?xf16, strides=[?,1]>>
    %cp = make_partition_view %cv
      : partition_view<tile=(16x16), tensor_view<?x?xf32, strides=[?,1]>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %four = constant <i32: 4> : tile<i32>
    %acc0 = constant <f32: 0.0> : tile<16x16xf32>
    %tok0 = make_token : token
    %acc, %tok = for %k in (%zero to %four, step %one) : tile<i32>
        iter_values(%s = %acc0, %t = %tok0) -> (tile<16x16xf32>, token) {
      %ta, %t1 = load_view_tko weak %ap[%x, %k] token = %t
        : partition_view<tile=(16x16), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>,
          tile<i32> -> tile<16x16xf16>, token
      %tb, %t2 = load_view_tko weak %bp[%k, %y] token = %t
        : partition_view<tile=(16x16), padding_value = zero, tensor_view<64x?xf16, strides=[?,1]>>,
          tile<i32> -> tile<16x16xf16>, token
      %p = mmaf %ta, %tb, %s : tile<16x16xf16>, tile<16x16xf16>, tile<16x16xf32>
      %both = join_tokens %t1, %t2 : token
      continue %p, %both : tile<16x16xf32>, token
    }
    %done = store_view_tko weak %acc, %cp[%x, %y] token = %tok
      : tile<16x16xf32>, partition_view<tile=(16x16), tensor_view<?x?xf32, strides=[?,1]>>,
        tile<i32> -> token
    return
  }
}
"""

REDUCTIONS = """entry @fold(%p: tile<ptr<f32>>) {
  %base = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
  %all = broadcast %base : tile<1xptr<f32>> -> tile<16xptr<f32>>
  %i = iota : tile<16xi32>
  %q = offset %all, %i : tile<16xptr<f32>>, tile<16xi32> -> tile<16xptr<f32>>
  %v, %t = load_ptr_tko weak %q : tile<16xptr<f32>> -> tile<16xf32>, token
  %best:2 = reduce %v, %i dim=0 identities=[0xFF800000 : f32, -1 : i32]
    : tile<16xf32>, tile<16xi32> -> tile<f32>, tile<i32>
  (%a: tile<f32>, %b: tile<f32>, %ai: tile<i32>, %bi: tile<i32>) {
    %gt = cmpf greater_than ordered %a, %b : tile<f32> -> tile<i1>
    %m = select %gt, %a, %b : tile<i1>, tile<f32>
    %mi = select %gt, %ai, %bi : tile<i1>, tile<i32>
    yield %m, %mi : tile<f32>, tile<i32>
  }
  %sums = scan %v dim=0 reverse=true identities=[-0.0 : f32] : tile<16xf32> -> tile<16xf32>
  (%a: tile<f32>, %b: tile<f32>) {
    %s = addf %a, %b : tile<f32>
    yield %s : tile<f32>
  }
  %five = constant <f32: 5.0> : tile<f32>
  %big = cmpf less_than unordered %five, %best#0 : tile<f32> -> tile<i1>
  %count = loop iter_values(%n = %best#1) : tile<i32> -> tile<i32> {
    if %big {
      break %n : tile<i32>
    }
    %next = addi %n, %n overflow<no_signed_wrap> : tile<i32>
    continue %next : tile<i32>
  }
  %r = if %big -> (tile<i32>) {
    %o = print_tko "%d %f\\n", %count, %best#0 : tile<i32>, tile<f32> -> token
    yield %count : tile<i32>
  } else {
    yield %best#1 : tile<i32>
  }
  assert %big, "a \\"quoted\\" message" : tile<i1>
  %w = store_ptr_tko weak %q, %sums token=%t : tile<16xptr<f32>>, tile<16xf32> -> token
  return
}
"""

CONSTANTS = """global @table <i8: [1, -2, 127, -128]> : tile<4xi8>
entry @k() {
  %0 = constant <f32: [[0.1, 0x7FC00001], [-0.0, 1.0e300]]> : tile<2x2xf32>
  %1 = constant <i1: [true, false]> : tile<2xi1>
  %2 = constant <f8E5M3FNU: [1.0, 2.0]> : tile<2xf8E5M3FNU>
  %3 = constant <tf32: 1.5> : tile<4xtf32>
  %4 = constant <i64: -9223372036854775808> : tile<i64>
  %5 = constant <f64: 2.718281828459045> : tile<f64>
  %6 = get_global @table : tile<ptr<i8>>
  %7 = assume div_by<16>, %6 : tile<ptr<i8>>
  %8 = assume bounded<?, 5>, %4 : tile<i64>
  %9 = extract %1[%10] : tile<2xi1> -> tile<1xi1>
  %10 = constant <i32: 1> : tile<i32>
}
"""

FOREIGN = """module @top attributes {x = 1 : i32} {
  cuda_tile.module @m {
    entry @k(%a: tile<i32>) {
      %0 = "foo"(%a) {b = #x.y<"z">, a = [1, 2 : i8, 1.5, unit]} : (!cuda_tile.tile<i32>) -> !x.t
      return
    }
  }
  func.func @f(%x: i32, %c: i1) -> i32 {
    %y = arith.addi %x, %x : i32
    scf.if %c {
      %t = "cuda_tile.iota"() : () -> !cuda_tile.tile<8xi32>
    }
    func.return %y : i32
  }
}
"""

PROGRAMS = {
    "matmul": MATMUL,
    "reductions": REDUCTIONS,
    "constants": CONSTANTS,
    "foreign": FOREIGN,
}
