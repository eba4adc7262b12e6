// One product of a warp for each element type of mma.sync: d = a b.
// $ tilewright run examples/nvgpu/mma_types.mlir --entry bf16 --machine sim:sm_80 --block 32 --arg normal:bf16:16x16 --arg normal:bf16:8x16 --arg zeros:f32:16x8 --print d
//
// Lanes load their fragments from global memory themselves; b is stored by columns (n x k), so that elements
// along k lie side by side. Of lane 4 g + t, rows and columns follow from g and t.
module attributes {gpu.container_module} {
  gpu.module @kernels {
    // 16 x 8 x 16. Registers of A: rows g and g + 8 for the low half of k, then for the high one.
    gpu.func @bf16(%a: memref<16x16xbf16>, %b: memref<8x16xbf16>, %d: memref<16x8xf32>) kernel attributes {gpu.known_block_size = array<i32: 32, 1, 1>} {
      %c2 = arith.constant 2 : index
      %c4 = arith.constant 4 : index
      %c8 = arith.constant 8 : index
      %lane = gpu.lane_id
      %g = arith.divui %lane, %c4 : index
      %t = arith.remui %lane, %c4 : index
      %g8 = arith.addi %g, %c8 : index
      %low = arith.muli %t, %c2 : index
      %high = arith.addi %low, %c8 : index
      %a0 = vector.load %a[%g, %low] : memref<16x16xbf16>, vector<2xbf16>
      %a1 = vector.load %a[%g8, %low] : memref<16x16xbf16>, vector<2xbf16>
      %a2 = vector.load %a[%g, %high] : memref<16x16xbf16>, vector<2xbf16>
      %a3 = vector.load %a[%g8, %high] : memref<16x16xbf16>, vector<2xbf16>
      %b0 = vector.load %b[%g, %low] : memref<8x16xbf16>, vector<2xbf16>
      %b1 = vector.load %b[%g, %high] : memref<8x16xbf16>, vector<2xbf16>
      %za = arith.constant dense<0.0> : vector<4x2xbf16>
      %fa0 = vector.insert %a0, %za [0] : vector<2xbf16> into vector<4x2xbf16>
      %fa1 = vector.insert %a1, %fa0 [1] : vector<2xbf16> into vector<4x2xbf16>
      %fa2 = vector.insert %a2, %fa1 [2] : vector<2xbf16> into vector<4x2xbf16>
      %fa = vector.insert %a3, %fa2 [3] : vector<2xbf16> into vector<4x2xbf16>
      %zb = arith.constant dense<0.0> : vector<2x2xbf16>
      %fb0 = vector.insert %b0, %zb [0] : vector<2xbf16> into vector<2x2xbf16>
      %fb = vector.insert %b1, %fb0 [1] : vector<2xbf16> into vector<2x2xbf16>
      %fc = arith.constant dense<0.0> : vector<2x2xf32>
      %fd = nvgpu.mma.sync (%fa, %fb, %fc) {mmaShape = [16, 8, 16]} : (vector<4x2xbf16>, vector<2x2xbf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %upper = vector.extract %fd[0] : vector<2xf32> from vector<2x2xf32>
      %lower = vector.extract %fd[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %upper, %d[%g, %low] : memref<16x8xf32>, vector<2xf32>
      vector.store %lower, %d[%g8, %low] : memref<16x8xf32>, vector<2xf32>
      gpu.return
    }
    // 16 x 8 x 8. A register holds one element; k is t and t + 4.
    gpu.func @tf32(%a: memref<16x8xf32>, %b: memref<8x8xf32>, %d: memref<16x8xf32>) kernel attributes {gpu.known_block_size = array<i32: 32, 1, 1>} {
      %c2 = arith.constant 2 : index
      %c4 = arith.constant 4 : index
      %c8 = arith.constant 8 : index
      %lane = gpu.lane_id
      %g = arith.divui %lane, %c4 : index
      %t = arith.remui %lane, %c4 : index
      %g8 = arith.addi %g, %c8 : index
      %t4 = arith.addi %t, %c4 : index
      %a0 = memref.load %a[%g, %t] : memref<16x8xf32>
      %a1 = memref.load %a[%g8, %t] : memref<16x8xf32>
      %a2 = memref.load %a[%g, %t4] : memref<16x8xf32>
      %a3 = memref.load %a[%g8, %t4] : memref<16x8xf32>
      %b0 = memref.load %b[%g, %t] : memref<8x8xf32>
      %b1 = memref.load %b[%g, %t4] : memref<8x8xf32>
      %za = arith.constant dense<0.0> : vector<4x1xf32>
      %fa0 = vector.insert %a0, %za [0, 0] : f32 into vector<4x1xf32>
      %fa1 = vector.insert %a1, %fa0 [1, 0] : f32 into vector<4x1xf32>
      %fa2 = vector.insert %a2, %fa1 [2, 0] : f32 into vector<4x1xf32>
      %fa = vector.insert %a3, %fa2 [3, 0] : f32 into vector<4x1xf32>
      %zb = arith.constant dense<0.0> : vector<2x1xf32>
      %fb0 = vector.insert %b0, %zb [0, 0] : f32 into vector<2x1xf32>
      %fb = vector.insert %b1, %fb0 [1, 0] : f32 into vector<2x1xf32>
      %fc = arith.constant dense<0.0> : vector<2x2xf32>
      %fd = nvgpu.mma.sync (%fa, %fb, %fc) {mmaShape = [16, 8, 8], tf32Enabled} : (vector<4x1xf32>, vector<2x1xf32>, vector<2x2xf32>) -> vector<2x2xf32>
      %column = arith.muli %t, %c2 : index
      %upper = vector.extract %fd[0] : vector<2xf32> from vector<2x2xf32>
      %lower = vector.extract %fd[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %upper, %d[%g, %column] : memref<16x8xf32>, vector<2xf32>
      vector.store %lower, %d[%g8, %column] : memref<16x8xf32>, vector<2xf32>
      gpu.return
    }
    // 16 x 8 x 32. A register holds four elements; k is 4 t and 4 t + 16. Sums saturate.
    gpu.func @i8(%a: memref<16x32xi8>, %b: memref<8x32xi8>, %d: memref<16x8xi32>) kernel attributes {gpu.known_block_size = array<i32: 32, 1, 1>} {
      %c2 = arith.constant 2 : index
      %c4 = arith.constant 4 : index
      %c8 = arith.constant 8 : index
      %c16 = arith.constant 16 : index
      %lane = gpu.lane_id
      %g = arith.divui %lane, %c4 : index
      %t = arith.remui %lane, %c4 : index
      %g8 = arith.addi %g, %c8 : index
      %low = arith.muli %t, %c4 : index
      %high = arith.addi %low, %c16 : index
      %a0 = vector.load %a[%g, %low] : memref<16x32xi8>, vector<4xi8>
      %a1 = vector.load %a[%g8, %low] : memref<16x32xi8>, vector<4xi8>
      %a2 = vector.load %a[%g, %high] : memref<16x32xi8>, vector<4xi8>
      %a3 = vector.load %a[%g8, %high] : memref<16x32xi8>, vector<4xi8>
      %b0 = vector.load %b[%g, %low] : memref<8x32xi8>, vector<4xi8>
      %b1 = vector.load %b[%g, %high] : memref<8x32xi8>, vector<4xi8>
      %za = arith.constant dense<0> : vector<4x4xi8>
      %fa0 = vector.insert %a0, %za [0] : vector<4xi8> into vector<4x4xi8>
      %fa1 = vector.insert %a1, %fa0 [1] : vector<4xi8> into vector<4x4xi8>
      %fa2 = vector.insert %a2, %fa1 [2] : vector<4xi8> into vector<4x4xi8>
      %fa = vector.insert %a3, %fa2 [3] : vector<4xi8> into vector<4x4xi8>
      %zb = arith.constant dense<0> : vector<2x4xi8>
      %fb0 = vector.insert %b0, %zb [0] : vector<4xi8> into vector<2x4xi8>
      %fb = vector.insert %b1, %fb0 [1] : vector<4xi8> into vector<2x4xi8>
      %fc = arith.constant dense<0> : vector<2x2xi32>
      %fd = nvgpu.mma.sync (%fa, %fb, %fc) {mmaShape = [16, 8, 32]} : (vector<4x4xi8>, vector<2x4xi8>, vector<2x2xi32>) -> vector<2x2xi32>
      %column = arith.muli %t, %c2 : index
      %upper = vector.extract %fd[0] : vector<2xi32> from vector<2x2xi32>
      %lower = vector.extract %fd[1] : vector<2xi32> from vector<2x2xi32>
      vector.store %upper, %d[%g, %column] : memref<16x8xi32>, vector<2xi32>
      vector.store %lower, %d[%g8, %column] : memref<16x8xi32>, vector<2xi32>
      gpu.return
    }
    // 8 x 8 x 4: one element of A and of B, two of the result.
    gpu.func @f64(%a: memref<8x4xf64>, %b: memref<8x4xf64>, %d: memref<8x8xf64>) kernel attributes {gpu.known_block_size = array<i32: 32, 1, 1>} {
      %c2 = arith.constant 2 : index
      %c4 = arith.constant 4 : index
      %lane = gpu.lane_id
      %g = arith.divui %lane, %c4 : index
      %t = arith.remui %lane, %c4 : index
      %x = memref.load %a[%g, %t] : memref<8x4xf64>
      %y = memref.load %b[%g, %t] : memref<8x4xf64>
      %fa = vector.broadcast %x : f64 to vector<1x1xf64>
      %fb = vector.broadcast %y : f64 to vector<1x1xf64>
      %fc = arith.constant dense<0.0> : vector<1x2xf64>
      %fd = nvgpu.mma.sync (%fa, %fb, %fc) {mmaShape = [8, 8, 4]} : (vector<1x1xf64>, vector<1x1xf64>, vector<1x2xf64>) -> vector<1x2xf64>
      %row = vector.extract %fd[0] : vector<2xf64> from vector<1x2xf64>
      %column = arith.muli %t, %c2 : index
      vector.store %row, %d[%g, %column] : memref<8x8xf64>, vector<2xf64>
      gpu.return
    }
    // 16 x 8 x 32, where two of four elements along k of A are stored: those at 0 and 2 of each
    // four, which the metadata 1000 say, 8 times in a word.
    gpu.func @sparse_f16(%a: memref<16x16xf16>, %b: memref<8x32xf16>, %d: memref<16x8xf32>) kernel attributes {gpu.known_block_size = array<i32: 32, 1, 1>} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c4 = arith.constant 4 : index
      %c8 = arith.constant 8 : index
      %lane = gpu.lane_id
      %g = arith.divui %lane, %c4 : index
      %t = arith.remui %lane, %c4 : index
      %g8 = arith.addi %g, %c8 : index
      %low = arith.muli %t, %c2 : index
      %high = arith.addi %low, %c8 : index
      %a0 = vector.load %a[%g, %low] : memref<16x16xf16>, vector<2xf16>
      %a1 = vector.load %a[%g8, %low] : memref<16x16xf16>, vector<2xf16>
      %a2 = vector.load %a[%g, %high] : memref<16x16xf16>, vector<2xf16>
      %a3 = vector.load %a[%g8, %high] : memref<16x16xf16>, vector<2xf16>
      %za = arith.constant dense<0.0> : vector<4x2xf16>
      %fa0 = vector.insert %a0, %za [0] : vector<2xf16> into vector<4x2xf16>
      %fa1 = vector.insert %a1, %fa0 [1] : vector<2xf16> into vector<4x2xf16>
      %fa2 = vector.insert %a2, %fa1 [2] : vector<2xf16> into vector<4x2xf16>
      %fa = vector.insert %a3, %fa2 [3] : vector<2xf16> into vector<4x2xf16>
      %zb = arith.constant dense<0.0> : vector<4x2xf16>
      %fb = scf.for %r = %c0 to %c4 step %c1 iter_args(%sofar = %zb) -> (vector<4x2xf16>) {
        %r8 = arith.muli %r, %c8 : index
        %k = arith.addi %low, %r8 : index
        %part = vector.load %b[%g, %k] : memref<8x32xf16>, vector<2xf16>
        %more = vector.insert %part, %sofar [%r] : vector<2xf16> into vector<4x2xf16>
        scf.yield %more : vector<4x2xf16>
      }
      %metadata = arith.constant dense<0x8888> : vector<2xi16>
      %fc = arith.constant dense<0.0> : vector<2x2xf32>
      %fd = nvgpu.mma.sp.sync (%fa, %fb, %fc) metadata (%metadata) {mmaShape = [16, 8, 32], sparsitySelector = 0 : i32} : (vector<4x2xf16>, vector<4x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
      %upper = vector.extract %fd[0] : vector<2xf32> from vector<2x2xf32>
      %lower = vector.extract %fd[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %upper, %d[%g, %low] : memref<16x8xf32>, vector<2xf32>
      vector.store %lower, %d[%g8, %low] : memref<16x8xf32>, vector<2xf32>
      gpu.return
    }
  }
}
