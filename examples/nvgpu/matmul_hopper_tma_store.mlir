// As matmul_hopper.mlir, with a TMA store at the end.
// $ tilewright run examples/nvgpu/matmul_hopper_tma_store.mlir --machine sim:sm_90a --grid 2,2 --block 384 --arg normal:f16:256x256 --arg normal:f16:256x256 --arg zeros:f32:256x256 --arg 4 --print d
//
// Each warpgroup puts its accumulators into shared memory, fences them for the async proxy, meets at a barrier
// of its own, and one thread stores the whole box. Parts outside of d are left out, so extents of d may be any.
!bars = !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 3>
!map_a = !nvgpu.tensormap.descriptor<tensor = memref<128x64xf16, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!map_b = !nvgpu.tensormap.descriptor<tensor = memref<64x64xf16, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!map_d = !nvgpu.tensormap.descriptor<tensor = memref<64x128xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
!desc_a = !nvgpu.warpgroup.descriptor<tensor = memref<64x64xf16, 3>>
!desc_b = !nvgpu.warpgroup.descriptor<tensor = memref<64x128xf16, 3>>
!acc = !nvgpu.warpgroup.accumulator<fragmented = vector<64x128xf32>>
module attributes {gpu.container_module} {
  gpu.module @kernels {
    memref.global "private" @lhs : memref<3x128x64xf16, 3> {alignment = 1024 : i64}
    // Two slabs of 64 columns for each stage.
    memref.global "private" @rhs : memref<3x2x64x64xf16, 3> {alignment = 1024 : i64}
    memref.global "private" @out : memref<2x64x128xf32, 3> {alignment = 1024 : i64}
    gpu.func @matmul(%a: !map_a, %b: !map_b, %d: !map_d, %steps: index) kernel attributes {gpu.known_block_size = array<i32: 384, 1, 1>} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c3 = arith.constant 3 : index
      %c4 = arith.constant 4 : index
      %c8 = arith.constant 8 : index
      %c64 = arith.constant 64 : index
      %c128 = arith.constant 128 : index
      %consumers = arith.constant 256 : index
      %stage_elements = arith.constant 8192 : index
      // 128 x 64 and 2 x 64 x 64 elements of 2 bytes.
      %bytes = arith.constant 32768 : index
      %ticks = arith.constant 10000000 : index
      %ta = memref.get_global @lhs : memref<3x128x64xf16, 3>
      %tb = memref.get_global @rhs : memref<3x2x64x64xf16, 3>
      %full = nvgpu.mbarrier.create -> !bars
      %empty = nvgpu.mbarrier.create -> !bars
      %tid = gpu.thread_id x
      %warp = gpu.subgroup_id : index
      %bx = gpu.block_id x
      %by = gpu.block_id y
      %row0 = arith.muli %by, %c128 : index
      %col0 = arith.muli %bx, %c128 : index
      %first = arith.cmpi eq, %tid, %c0 : index
      scf.if %first {
        scf.for %s = %c0 to %c3 step %c1 {
          nvgpu.mbarrier.init %full[%s], %c1 : !bars
          nvgpu.mbarrier.init %empty[%s], %consumers : !bars
        }
        nvvm.fence.mbarrier.init
      }
      gpu.barrier
      // Warps 8 to 11 are the producer warpgroup, of which warp 8 works: 168 x 12 registers at launch
      // are 40 x 4 + 232 x 8.
      %is_producer_group = arith.cmpi uge, %warp, %c8 : index
      %is_producer = arith.cmpi eq, %warp, %c8 : index
      scf.if %is_producer_group {
        nvvm.setmaxregister decrease 40
        scf.if %is_producer {
          %elected = nvvm.elect.sync -> i1
          scf.for %i = %c0 to %steps step %c1 {
            %s = arith.remui %i, %c3 : index
            %round = arith.divui %i, %c3 : index
            %odd = arith.remui %round, %c2 : index
            // In round 0 nobody has emptied the stage: parity 1 passes at once.
            %parity = arith.cmpi eq, %odd, %c0 : index
            nvgpu.mbarrier.try_wait.parity %empty[%s], %parity, %ticks : !bars
            nvgpu.mbarrier.arrive.expect_tx %full[%s], %bytes, predicate = %elected : !bars
            %k = arith.muli %i, %c64 : index
            %a_tile = memref.subview %ta[%s, 0, 0] [1, 128, 64] [1, 1, 1] : memref<3x128x64xf16, 3> to memref<128x64xf16, strided<[64, 1], offset: ?>, 3>
            nvgpu.tma.async.load %a[%k, %row0], %full[%s] to %a_tile, predicate = %elected : !map_a, !bars -> memref<128x64xf16, strided<[64, 1], offset: ?>, 3>
            scf.for %half = %c0 to %c2 step %c1 {
              %b_tile = memref.subview %tb[%s, %half, 0, 0] [1, 1, 64, 64] [1, 1, 1, 1] : memref<3x2x64x64xf16, 3> to memref<64x64xf16, strided<[64, 1], offset: ?>, 3>
              %slab = arith.muli %half, %c64 : index
              %col = arith.addi %col0, %slab : index
              nvgpu.tma.async.load %b[%col, %k], %full[%s] to %b_tile, predicate = %elected : !map_b, !bars -> memref<64x64xf16, strided<[64, 1], offset: ?>, 3>
            }
          }
        }
      } else {
        nvvm.setmaxregister increase 232
        %wg = arith.divui %warp, %c4 : index
        %wg_row = arith.muli %wg, %c64 : index
        %zero = nvgpu.warpgroup.mma.init.accumulator -> !acc
        %sum = scf.for %i = %c0 to %steps step %c1 iter_args(%acc = %zero) -> (!acc) {
          %s = arith.remui %i, %c3 : index
          %round = arith.divui %i, %c3 : index
          %odd = arith.remui %round, %c2 : index
          %parity = arith.cmpi eq, %odd, %c1 : index
          nvgpu.mbarrier.try_wait.parity %full[%s], %parity, %ticks : !bars
          %a_tile = memref.subview %ta[%s, %wg_row, 0] [1, 64, 64] [1, 1, 1] : memref<3x128x64xf16, 3> to memref<64x64xf16, strided<[64, 1], offset: ?>, 3>
          %b_start = arith.muli %s, %stage_elements : index
          %b_tile = memref.reinterpret_cast %tb to offset: [%b_start], sizes: [64, 128], strides: [128, 1] : memref<3x2x64x64xf16, 3> to memref<64x128xf16, strided<[128, 1], offset: ?>, 3>
          %da = nvgpu.warpgroup.generate.descriptor %a_tile, %a : memref<64x64xf16, strided<[64, 1], offset: ?>, 3>, !map_a -> !desc_a
          %db = nvgpu.warpgroup.generate.descriptor %b_tile, %b : memref<64x128xf16, strided<[128, 1], offset: ?>, 3>, !map_b -> !desc_b
          %next = nvgpu.warpgroup.mma %da, %db, %acc {transposeB, waitGroup = 0 : i32} : !desc_a, !desc_b, !acc -> !acc
          %token = nvgpu.mbarrier.arrive %empty[%s] : !bars -> !nvgpu.mbarrier.token
          scf.yield %next : !acc
        }
        %row = arith.addi %row0, %wg_row : index
        %out = memref.get_global @out : memref<2x64x128xf32, 3>
        %part = memref.subview %out[%wg, 0, 0] [1, 64, 128] [1, 1, 1] : memref<2x64x128xf32, 3> to memref<64x128xf32, strided<[128, 1], offset: ?>, 3>
        nvgpu.warpgroup.mma.store %sum, %part : !acc to memref<64x128xf32, strided<[128, 1], offset: ?>, 3>
        nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
        // Barrier 1 or 2, for the 128 threads of the warpgroup.
        %number = arith.addi %wg, %c1 : index
        %barrier = arith.index_cast %number : index to i32
        %threads = arith.constant 128 : i32
        nvvm.barrier id = %barrier number_of_threads = %threads
        %place = arith.remui %tid, %c128 : index
        %stores = arith.cmpi eq, %place, %c0 : index
        nvgpu.tma.async.store %part to %d[%col0, %row], predicate = %stores : memref<64x128xf32, strided<[128, 1], offset: ?>, 3> -> !map_d
        nvvm.cp.async.bulk.commit.group
        nvvm.cp.async.bulk.wait_group 0 {read}
      }
      gpu.return
    }
  }
}
