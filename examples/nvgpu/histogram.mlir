// How many of n numbers from 0 to 1 fall into each of 64 bins.
// $ tilewright run examples/nvgpu/histogram.mlir --machine sim:sm_80 --grid 4 --block 128 --arg random:f32:2000 --arg zeros:i32:64 --arg 2000 --print bins
//
// Memory is reached by address: 4 numbers for each thread by a gather under a mask, the bins by atomic sums.
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @histogram(%x: !llvm.ptr<1>, %bins: !llvm.ptr<1>, %n: i64) kernel attributes {gpu.known_block_size = array<i32: 128, 1, 1>} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %c512 = arith.constant 512 : index
      %block = gpu.block_id x
      %thread = gpu.thread_id x
      %start = arith.muli %block, %c512 : index
      %here = arith.muli %thread, %c4 : index
      %first = arith.addi %start, %here : index
      %i = arith.index_cast %first : index to i64
      %all = vector.broadcast %i : i64 to vector<4xi64>
      %iota = arith.constant dense<[0, 1, 2, 3]> : vector<4xi64>
      %places = arith.addi %all, %iota : vector<4xi64>
      %ends = vector.broadcast %n : i64 to vector<4xi64>
      %inside = arith.cmpi slt, %places, %ends : vector<4xi64>
      // What lies behind the end is not read; zeros stand there.
      %from = llvm.getelementptr %x[%places] : (!llvm.ptr<1>, vector<4xi64>) -> vector<4x!llvm.ptr<1>>, f32
      %none = arith.constant dense<0.0> : vector<4xf32>
      %numbers = llvm.intr.masked.gather %from, %inside, %none {alignment = 4 : i32} : (vector<4x!llvm.ptr<1>>, vector<4xi1>, vector<4xf32>) -> vector<4xf32>
      %scale = arith.constant dense<64.0> : vector<4xf32>
      %scaled = arith.mulf %numbers, %scale : vector<4xf32>
      %cut = llvm.call_intrinsic "llvm.nvvm.f2i.rz"(%scaled) : (vector<4xf32>) -> vector<4xi32>
      %one = arith.constant 1 : i32
      scf.for %k = %c0 to %c4 step %c1 {
        %counts = vector.extract %inside[%k] : i1 from vector<4xi1>
        scf.if %counts {
          %bin = vector.extract %cut[%k] : i32 from vector<4xi32>
          %at = llvm.getelementptr %bins[%bin] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
          %old = llvm.atomicrmw add %at, %one syncscope("device") monotonic : !llvm.ptr<1>, i32
        }
      }
      gpu.return
    }
  }
}
