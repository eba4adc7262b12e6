// d = a b^T, f8E4M3FN with f32 accumulators, on Hopper.
// $ tilewright run examples/nvgpu/matmul_fp8.mlir --machine sim:sm_90a --grid 1,2 --block 128 --arg normal:f8E4M3FN:128x256 --arg normal:f8E4M3FN:64x256 --arg zeros:f32:128x64 --arg 2 --print d
//
// A warpgroup multiplies tiles of 64 x 128 and 64 x 128 elements, rows of 128 bytes, that TMA brings one pair
// at a time. A block makes 64 x 64 elements of d. Both operands have k side by side, because 8-bit operands
// cannot be transposed.
!bar = !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 1>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64x128xf8E4M3FN, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!desc_a = !nvgpu.warpgroup.descriptor<tensor = memref<64x128xf8E4M3FN, 3>>
!desc_b = !nvgpu.warpgroup.descriptor<tensor = memref<128x64xf8E4M3FN, 3>>
!acc = !nvgpu.warpgroup.accumulator<fragmented = vector<64x64xf32>>
module attributes {gpu.container_module} {
  gpu.module @kernels {
    memref.global "private" @lhs : memref<64x128xf8E4M3FN, 3> {alignment = 1024 : i64}
    memref.global "private" @rhs : memref<64x128xf8E4M3FN, 3> {alignment = 1024 : i64}
    gpu.func @matmul(%a: !map, %b: !map, %d: memref<?x?xf32>, %steps: index) kernel attributes {gpu.known_block_size = array<i32: 128, 1, 1>} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c64 = arith.constant 64 : index
      %c128 = arith.constant 128 : index
      // 2 x 64 x 128 elements of a byte.
      %bytes = arith.constant 16384 : index
      %ticks = arith.constant 10000000 : index
      %ta = memref.get_global @lhs : memref<64x128xf8E4M3FN, 3>
      %tb = memref.get_global @rhs : memref<64x128xf8E4M3FN, 3>
      %full = nvgpu.mbarrier.create -> !bar
      %tid = gpu.thread_id x
      %bx = gpu.block_id x
      %by = gpu.block_id y
      %row = arith.muli %by, %c64 : index
      %column = arith.muli %bx, %c64 : index
      %first = arith.cmpi eq, %tid, %c0 : index
      nvgpu.mbarrier.init %full[%c0], %c1, predicate = %first : !bar
      scf.if %first {
        nvvm.fence.mbarrier.init
      }
      gpu.barrier
      // The rows of the second operand are the columns of the product.
      %turned = memref.reinterpret_cast %tb to offset: [0], sizes: [128, 64], strides: [64, 1] : memref<64x128xf8E4M3FN, 3> to memref<128x64xf8E4M3FN, 3>
      %da = nvgpu.warpgroup.generate.descriptor %ta, %a : memref<64x128xf8E4M3FN, 3>, !map -> !desc_a
      %db = nvgpu.warpgroup.generate.descriptor %turned, %b : memref<128x64xf8E4M3FN, 3>, !map -> !desc_b
      %zero = nvgpu.warpgroup.mma.init.accumulator -> !acc
      %sum = scf.for %i = %c0 to %steps step %c1 iter_args(%acc = %zero) -> (!acc) {
        %odd = arith.remui %i, %c2 : index
        %parity = arith.cmpi eq, %odd, %c1 : index
        %k = arith.muli %i, %c128 : index
        nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %first : !bar
        nvgpu.tma.async.load %a[%k, %row], %full[%c0] to %ta, predicate = %first : !map, !bar -> memref<64x128xf8E4M3FN, 3>
        nvgpu.tma.async.load %b[%k, %column], %full[%c0] to %tb, predicate = %first : !map, !bar -> memref<64x128xf8E4M3FN, 3>
        nvgpu.mbarrier.try_wait.parity %full[%c0], %parity, %ticks : !bar
        %next = nvgpu.warpgroup.mma %da, %db, %acc {waitGroup = 0 : i32} : !desc_a, !desc_b, !acc -> !acc
        // All four warps have read the tiles before the next ones come.
        gpu.barrier
        scf.yield %next : !acc
      }
      %part = memref.subview %d[%row, %column] [64, 64] [1, 1] : memref<?x?xf32> to memref<64x64xf32, strided<[?, 1], offset: ?>>
      nvgpu.warpgroup.mma.store %sum, %part : !acc to memref<64x64xf32, strided<[?, 1], offset: ?>>
      gpu.return
    }
  }
}
