// c = a + b, 4 elements for each thread, both staged through shared memory by cp.async.
// $ tilewright run examples/nvgpu/vector_add.mlir --machine sim:sm_80 --grid 4 --block 128 --arg random:f32:2000 --arg random:f32:2000 --arg zeros:f32:2000 --print c
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @vector_add(%a: memref<?xf32>, %b: memref<?xf32>, %c: memref<?xf32>) workgroup(%sa: memref<512xf32, 3>, %sb: memref<512xf32, 3>) kernel attributes {gpu.known_block_size = array<i32: 128, 1, 1>} {
      %c0 = arith.constant 0 : index
      %c4 = arith.constant 4 : index
      %c512 = arith.constant 512 : index
      %n = memref.dim %a, %c0 : memref<?xf32>
      %block = gpu.block_id x
      %thread = gpu.thread_id x
      %here = arith.muli %thread, %c4 : index
      %start = arith.muli %block, %c512 : index
      %i = arith.addi %start, %here : index
      // What lies behind the end is not read; zeros stand there.
      %rest = arith.subi %n, %i : index
      %some = arith.minsi %rest, %c4 : index
      %count = arith.maxsi %some, %c0 : index
      %ca = nvgpu.device_async_copy %a[%i], %sa[%here], 4, %count : memref<?xf32> to memref<512xf32, 3>
      %cb = nvgpu.device_async_copy %b[%i], %sb[%here], 4, %count : memref<?xf32> to memref<512xf32, 3>
      %group = nvgpu.device_async_create_group %ca, %cb
      nvgpu.device_async_wait %group {numGroups = 0 : i32}
      gpu.barrier
      %c1 = arith.constant 1 : index
      scf.for %k = %c0 to %count step %c1 {
        %at = arith.addi %here, %k : index
        %to = arith.addi %i, %k : index
        %x = memref.load %sa[%at] : memref<512xf32, 3>
        %y = memref.load %sb[%at] : memref<512xf32, 3>
        %sum = arith.addf %x, %y : f32
        memref.store %sum, %c[%to] : memref<?xf32>
      }
      gpu.return
    }
  }
}
