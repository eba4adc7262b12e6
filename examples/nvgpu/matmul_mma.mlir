// d = a b, f16 with f32 accumulators, by cp.async, ldmatrix and mma.sync.
// $ tilewright run examples/nvgpu/matmul_mma.mlir --machine sim:sm_80 --grid 2,2 --block 128 --arg normal:f16:128x64 --arg normal:f16:64x128 --arg zeros:f32:128x128 --print d
//
// A block of 4 warps makes 64 x 64 elements of d, each warp 16 rows. The extents are multiples of 64, 64 and 32.
module attributes {gpu.container_module} {
  gpu.module @kernels {
    // Rows are 8 elements longer than needed, so that ldmatrix has no bank conflicts.
    memref.global "private" @lhs : memref<64x40xf16, 3> {alignment = 16 : i64}
    memref.global "private" @rhs : memref<32x72xf16, 3> {alignment = 16 : i64}
    gpu.func @matmul(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) kernel attributes {gpu.known_block_size = array<i32: 128, 1, 1>} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c4 = arith.constant 4 : index
      %c8 = arith.constant 8 : index
      %c16 = arith.constant 16 : index
      %c32 = arith.constant 32 : index
      %c64 = arith.constant 64 : index
      %c128 = arith.constant 128 : index
      %zeros = arith.constant dense<0.0> : vector<8x2x2xf32>
      %sa = memref.get_global @lhs : memref<64x40xf16, 3>
      %sb = memref.get_global @rhs : memref<32x72xf16, 3>
      %depth = memref.dim %a, %c1 : memref<?x?xf16>
      %bx = gpu.block_id x
      %by = gpu.block_id y
      %row0 = arith.muli %by, %c64 : index
      %col0 = arith.muli %bx, %c64 : index
      %tid = gpu.thread_id x
      %lane = gpu.lane_id
      %warp = gpu.subgroup_id : index
      %warp_row = arith.muli %warp, %c16 : index
      // Where a lane points ldmatrix: a row of 16, and for A one of the two halves of k.
      %lane_row = arith.remui %lane, %c16 : index
      %lane_half = arith.divui %lane, %c16 : index
      %a_row = arith.addi %warp_row, %lane_row : index
      %a_half = arith.muli %lane_half, %c8 : index
      %sum = scf.for %k = %c0 to %depth step %c32 iter_args(%outer = %zeros) -> (vector<8x2x2xf32>) {
        // Each thread copies 8 elements twice, of A and of B.
        scf.for %part = %c0 to %c2 step %c1 {
          %first = arith.muli %part, %c128 : index
          %chunk = arith.addi %first, %tid : index
          %ra = arith.divui %chunk, %c4 : index
          %ka4 = arith.remui %chunk, %c4 : index
          %ka = arith.muli %ka4, %c8 : index
          %ga_row = arith.addi %row0, %ra : index
          %ga_k = arith.addi %k, %ka : index
          %copy_a = nvgpu.device_async_copy %a[%ga_row, %ga_k], %sa[%ra, %ka], 8 {bypassL1} : memref<?x?xf16> to memref<64x40xf16, 3>
          %kb = arith.divui %chunk, %c8 : index
          %cb8 = arith.remui %chunk, %c8 : index
          %cb = arith.muli %cb8, %c8 : index
          %gb_k = arith.addi %k, %kb : index
          %gb_col = arith.addi %col0, %cb : index
          %copy_b = nvgpu.device_async_copy %b[%gb_k, %gb_col], %sb[%kb, %cb], 8 {bypassL1} : memref<?x?xf16> to memref<32x72xf16, 3>
        }
        %group = nvgpu.device_async_create_group {}
        nvgpu.device_async_wait %group {numGroups = 0 : i32}
        gpu.barrier
        %inner = scf.for %kk = %c0 to %c32 step %c16 iter_args(%acc0 = %outer) -> (vector<8x2x2xf32>) {
          %a_k = arith.addi %kk, %a_half : index
          %fa = nvgpu.ldmatrix %sa[%a_row, %a_k] {numTiles = 4 : i32, transpose = false} : memref<64x40xf16, 3> -> vector<4x2xf16>
          %b_k = arith.addi %kk, %lane_row : index
          %accs = scf.for %n = %c0 to %c8 step %c1 iter_args(%acc = %acc0) -> (vector<8x2x2xf32>) {
            %b_col = arith.muli %n, %c8 : index
            %fb = nvgpu.ldmatrix %sb[%b_k, %b_col] {numTiles = 2 : i32, transpose = true} : memref<32x72xf16, 3> -> vector<2x2xf16>
            %fc = vector.extract %acc[%n] : vector<2x2xf32> from vector<8x2x2xf32>
            %fd = nvgpu.mma.sync (%fa, %fb, %fc) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
            %new = vector.insert %fd, %acc [%n] : vector<2x2xf32> into vector<8x2x2xf32>
            scf.yield %new : vector<8x2x2xf32>
          }
          scf.yield %accs : vector<8x2x2xf32>
        }
        // Nobody overwrites the tiles before all have read them.
        gpu.barrier
        scf.yield %inner : vector<8x2x2xf32>
      }
      // A lane holds two columns of rows lane / 4 and lane / 4 + 8 of each 16 x 8 part.
      %quad = arith.divui %lane, %c4 : index
      %place = arith.remui %lane, %c4 : index
      %pair = arith.muli %place, %c2 : index
      %r0 = arith.addi %row0, %warp_row : index
      %row = arith.addi %r0, %quad : index
      %row8 = arith.addi %row, %c8 : index
      %column0 = arith.addi %col0, %pair : index
      scf.for %n = %c0 to %c8 step %c1 {
        %n8 = arith.muli %n, %c8 : index
        %column = arith.addi %column0, %n8 : index
        %upper = vector.extract %sum[%n, 0] : vector<2xf32> from vector<8x2x2xf32>
        %lower = vector.extract %sum[%n, 1] : vector<2xf32> from vector<8x2x2xf32>
        vector.store %upper, %d[%row, %column] : memref<?x?xf32>, vector<2xf32>
        vector.store %lower, %d[%row8, %column] : memref<?x?xf32>, vector<2xf32>
      }
      gpu.return
    }
  }
}
