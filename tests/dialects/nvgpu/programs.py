"""Whole programs at the level of nvgpu, with what stands around it."""

from __future__ import annotations

#: A Hopper product in outline: a warp loads tiles, a warpgroup multiplies them.
HOPPER = """\
!bars = !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
!lhs = !nvgpu.tensormap.descriptor<tensor = memref<64x64xf16, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!descA = !nvgpu.warpgroup.descriptor<tensor = memref<64x64xf16, 3>>
!acc = !nvgpu.warpgroup.accumulator<fragmented = vector<64x64xf32>>
module attributes {gpu.container_module} {
  gpu.module @kernels [#nvvm.target<O = 3, chip = "sm_90a", features = "+ptx80">] {
    memref.global "private" @tiles : memref<2x64x64xf16, #gpu.address_space<workgroup>> {alignment = 1024 : i64}
    gpu.func @product(%a: !lhs, %b: !lhs, %d: memref<64x64xf32> {llvm.noalias}, %steps: index) kernel attributes {gpu.known_block_size = array<i32: 256, 1, 1>, gpu.known_grid_size = array<i32: 1, 1, 1>} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c64 = arith.constant 64 : index
      %bytes = arith.constant 16384 : index
      %ticks = arith.constant 10000000 : index
      %one = arith.constant 1 : i32
      %threads = arith.constant 128 : i32
      %even = arith.constant false
      %tiles = memref.get_global @tiles : memref<2x64x64xf16, #gpu.address_space<workgroup>>
      %ta = memref.subview %tiles[0, 0, 0] [1, 64, 64] [1, 1, 1] : memref<2x64x64xf16, #gpu.address_space<workgroup>> to memref<64x64xf16, strided<[64, 1]>, #gpu.address_space<workgroup>>
      %tb = memref.subview %tiles[1, 0, 0] [1, 64, 64] [1, 1, 1] : memref<2x64x64xf16, #gpu.address_space<workgroup>> to memref<64x64xf16, strided<[64, 1], offset: 4096>, #gpu.address_space<workgroup>>
      %bar = nvgpu.mbarrier.create -> !bars
      %tid = gpu.thread_id x
      %first = arith.cmpi eq, %tid, %c0 : index
      scf.if %first {
        nvgpu.mbarrier.init %bar[%c0], %c1 : !bars
        nvgpu.mbarrier.init %bar[%c1], %c1 : !bars
        nvvm.fence.mbarrier.init
      }
      gpu.barrier
      %warp = gpu.subgroup_id : index
      %four = arith.constant 4 : index
      %producer = arith.cmpi uge, %warp, %four : index
      cf.cond_br %producer, ^load, ^multiply
    ^load:
      nvvm.setmaxregister decrease 40
      %any = nvvm.elect.sync -> i1
      %loader = arith.cmpi eq, %warp, %four : index
      %elected = arith.andi %any, %loader : i1
      nvgpu.mbarrier.arrive.expect_tx %bar[%c0], %bytes, predicate = %elected : !bars
      nvgpu.tma.async.load %a[%c0, %c0], %bar[%c0] to %ta, predicate = %elected : !lhs, !bars -> memref<64x64xf16, strided<[64, 1]>, #gpu.address_space<workgroup>>
      nvgpu.tma.async.load %b[%c0, %c0], %bar[%c0] to %tb, predicate = %elected : !lhs, !bars -> memref<64x64xf16, strided<[64, 1], offset: 4096>, #gpu.address_space<workgroup>>
      cf.br ^end
    ^multiply:
      nvgpu.mbarrier.try_wait.parity %bar[%c0], %even, %ticks : !bars
      %da = nvgpu.warpgroup.generate.descriptor %ta, %a : memref<64x64xf16, strided<[64, 1]>, #gpu.address_space<workgroup>>, !lhs -> !descA
      %db = nvgpu.warpgroup.generate.descriptor %tb, %b : memref<64x64xf16, strided<[64, 1], offset: 4096>, #gpu.address_space<workgroup>>, !lhs -> !descA
      %zero = nvgpu.warpgroup.mma.init.accumulator -> !acc
      %sum = scf.for %i = %c0 to %steps step %c1 iter_args(%acc = %zero) -> (!acc) {
        %next = nvgpu.warpgroup.mma %da, %db, %acc {transposeB, waitGroup = 0 : i32} : !descA, !descA, !acc -> !acc
        scf.yield %next : !acc
      }
      nvgpu.warpgroup.mma.store %sum, %d : !acc to memref<64x64xf32>
      nvvm.barrier id = %one number_of_threads = %threads
      cf.br ^end
    ^end:
      nvvm.cp.async.bulk.wait_group 0 {read}
      gpu.return
    }
  }
}
"""

#: Two mistakes that it is easy to make in it, and the codes of what the simulator finds.
BROKEN_HOPPER = {
    # The phase before the first counts as over, so that nobody waits for the tiles; where they have
    # come already, everybody waits for the phase behind them.
    "a wait for the phase before": (
        HOPPER.replace("%even = arith.constant false", "%even = arith.constant true"),
        {
            "sim-copy-not-awaited",
            "sim-accumulator-not-awaited",
            "sim-uninitialized",
            "sim-deadlock",
        },
    ),
    # The producer warp does not come.
    "a barrier for more warps than come": (
        HOPPER.replace("%threads = arith.constant 128", "%threads = arith.constant 160"),
        {"sim-deadlock"},
    ),
}

#: Every operation and attribute around nvgpu that its kernels may need.
AROUND = """\
module attributes {gpu.container_module} {
  memref.global "private" @buffer : memref<64x64xf16, #gpu.address_space<workgroup>> {alignment = 1024 : i64}
  memref.global "private" constant @table : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]>
  memref.global @raw : memref<4xf32> = uninitialized
  gpu.module @k [#nvvm.target<chip = "sm_90a">] {
    gpu.func @callee(%x: f32) -> f32 {
      gpu.return %x : f32
    }
    gpu.func @main(%a: memref<?x?xf32>, %b: memref<64xf32, strided<[1], offset: ?>, 1>, %n: index) workgroup(%w: memref<32xf32, #gpu.address_space<workgroup>>) private(%q: memref<4xf32, 5>) kernel attributes {gpu.known_block_size = array<i32: 128, 1, 1>, nvvm.minctasm = 1 : i32} {
      %x = gpu.thread_id x
      %xu = gpu.thread_id x upper_bound 64
      %y = gpu.block_id y
      %z = gpu.block_dim z
      %g = gpu.grid_dim x
      %gl = gpu.global_id x
      %l = gpu.lane_id
      %s = gpu.subgroup_id : index
      %ns = gpu.num_subgroups : index
      %ss = gpu.subgroup_size : index
      %ci = gpu.cluster_id x
      %cd = gpu.cluster_dim x
      %cb = gpu.cluster_block_id x
      %cdb = gpu.cluster_dim_blocks x
      %dyn = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : i32
      %c32 = arith.constant 32 : i32
      %v = memref.view %dyn[%c0][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<64x64xf16, #gpu.address_space<workgroup>>
      %f = memref.load %a[%x, %y] : memref<?x?xf32>
      %sh, %val = gpu.shuffle xor %f, %c1, %c32 : f32
      gpu.printf "hello %d\\0A" %x : index
      %vec = vector.load %a[%x, %y] : memref<?x?xf32>, vector<4xf32>
      %e = vector.extract %vec[1] : f32 from vector<4xf32>
      %vi = vector.insert %e, %vec [0] : f32 into vector<4xf32>
      %sp = vector.splat %e : vector<4xf32>
      %bc = vector.broadcast %e : f32 to vector<4xf32>
      %fm = vector.fma %vec, %bc, %sp : vector<4xf32>
      vector.store %fm, %a[%x, %y] : memref<?x?xf32>, vector<4xf32>
      %zeros = arith.constant dense<0.0> : vector<2x2xf32>
      %e2 = vector.extract %zeros[0, 1] : f32 from vector<2x2xf32>
      %cast = memref.cast %a : memref<?x?xf32> to memref<*xf32>
      %ex = math.exp2 %f : f32
      %r = gpu.subgroup_reduce add %f : (f32) -> f32
      %at = memref.atomic_rmw addf %f, %a[%x, %y] : (f32, memref<?x?xf32>) -> f32
      %rank = memref.rank %a : memref<?x?xf32>
      memref.copy %a, %a : memref<?x?xf32> to memref<?x?xf32>
      %place = memref.extract_aligned_pointer_as_index %a : memref<?x?xf32> -> index
      %turned = vector.transpose %zeros, [1, 0] : vector<2x2xf32> to vector<2x2xf32>
      %part = vector.extract_strided_slice %vec {offsets = [1], sizes = [2], strides = [1]} : vector<4xf32> to vector<2xf32>
      %whole = vector.insert_strided_slice %part, %turned {offsets = [1, 0], strides = [1]} : vector<2xf32> into vector<2x2xf32>
      %at0 = vector.extractelement %vec[%c1 : i32] : vector<4xf32>
      %put = vector.insertelement %at0, %vec[%x : index] : vector<4xf32>
      %mixed = vector.shuffle %vec, %put [0, 5, 2, 7] : vector<4xf32>, vector<4xf32>
      %made = vector.from_elements %at0, %f, %f, %at0 : vector<2x2xf32>
      %turns = vector.interleave %made, %whole : vector<2x2xf32> -> vector<2x4xf32>
      %evens, %odds = vector.deinterleave %turns : vector<2x4xf32> -> vector<2x2xf32>
      %sums = vector.multi_reduction <add>, %evens, %part [0] : vector<2x2xf32> to vector<2xf32>
      %mask = vector.constant_mask [3] : vector<4xi1>
      %numbers = vector.step : vector<4xindex>
      %chosen = arith.select %mask, %mixed, %put : vector<4xi1>, vector<4xf32>
      %column = vector.transfer_read %a[%x, %y], %f, %mask {permutation_map = affine_map<(i, j) -> (i)>} : memref<?x?xf32>, vector<4xf32>
      vector.transfer_write %column, %a[%x, %y] {in_bounds = [true]} : vector<4xf32>, memref<?x?xf32>
      %spread = vector.expandload %a[%x, %y], %mask, %chosen : memref<?x?xf32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
      vector.compressstore %a[%x, %y], %mask, %spread : memref<?x?xf32>, vector<4xi1>, vector<4xf32>
      %all = gpu.all_reduce add %f uniform {
      } : (f32) -> f32
      %most = gpu.all_reduce %f {
      ^bb0(%one: f32, %two: f32):
        %more = arith.maximumf %one, %two : f32
        gpu.yield %more : f32
      } : (f32) -> f32
      %tile = memref.alloc() {alignment = 128 : i64} : memref<8x4xf32, #gpu.address_space<workgroup>>
      %across = memref.transpose %tile (i, j) -> (j, i) : memref<8x4xf32, #gpu.address_space<workgroup>> to memref<4x8xf32, strided<[1, 4]>, #gpu.address_space<workgroup>>
      %step = arith.constant 1 : index
      %total = scf.parallel (%p, %q0) = (%c0, %c0) to (%n, %n) step (%step, %step) init (%f) -> (f32) {
        scf.reduce(%all : f32) {
        ^bb0(%one: f32, %two: f32):
          %more = arith.addf %one, %two : f32
          scf.reduce.return %more : f32
        }
      }
      scf.parallel (%p) = (%c0) to (%n) step (%step) {
        memref.store %total, %a[%p, %c0] : memref<?x?xf32>
        scf.reduce
      }
      %kept = memref.alloca_scope -> (f32) {
        memref.alloca_scope.return %total : f32
      }
      %w2 = scf.while (%p = %c0) : (index) -> index {
        %cm = arith.cmpi slt, %p, %n : index
        scf.condition(%cm) %p : index
      } do {
      ^bb0(%q1: index):
        %q2 = arith.addi %q1, %x : index
        scf.yield %q2 : index
      }
      %is = arith.cmpi eq, %x, %c0 : index
      cf.cond_br %is, ^more, ^last(%f : f32)
    ^more:
      nvvm.cp.async.bulk.commit.group
      nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
      nvvm.wgmma.fence.aligned
      nvvm.wgmma.commit.group.sync.aligned
      nvvm.wgmma.wait.group.sync.aligned 0
      nvvm.cluster.arrive
      nvvm.cluster.arrive.relaxed
      nvvm.cluster.wait
      nvvm.barrier0
      nvvm.barrier
      nvvm.barrier.arrive id = %c1 number_of_threads = %c32
      nvvm.bar.warp.sync %c32 : i32
      cf.br ^last(%ex : f32)
    ^last(%end: f32):
      gpu.return
    }
  }
  func.func @host(%n: index, %wide: i64, %m: memref<?x?xf32>, %b: memref<64xf32, strided<[1], offset: ?>, 1>, %d: i32) {
    gpu.launch_func @k::@main blocks in (%n, %n, %n) threads in (%n, %n, %n) dynamic_shared_memory_size %d args(%m : memref<?x?xf32>, %b : memref<64xf32, strided<[1], offset: ?>, 1>, %n : index)
    gpu.launch_func @k::@main clusters in (%wide, %wide, %wide) blocks in (%wide, %wide, %wide) threads in (%wide, %wide, %wide) : i64 args(%m : memref<?x?xf32>, %b : memref<64xf32, strided<[1], offset: ?>, 1>, %n : index)
    func.return
  }
}
"""

PROGRAMS = {"hopper": HOPPER, "around": AROUND}
