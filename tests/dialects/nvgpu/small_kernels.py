"""Small kernels of the dialects around nvgpu, one operation each, on which two versions of upstream agree."""

PARAMETERS = (
    "%a: i32, %b: i32, %f: f32, %g: f32, %x: index, %y: index, %c: i1, "
    "%m: memref<16x8xf32>, %d: memref<?x?xf32>, %v: vector<4xf32>, %w: vector<4xi32>, "
    "%l: i64, %h: f16, %vi: vector<4xi1>, %mi: memref<16xi32>, %p: !llvm.ptr, "
    "%v2: vector<2x4xf32>, %m1: memref<16xf32>, "
    "%ms: memref<4x4xf32, strided<[16, 1], offset: 3>>, %m0: memref<f32>, "
    "%q: !llvm.ptr<1>, %vl: vector<4xi64>, %vx: vector<4xindex>, %mb: memref<64xi8>, "
    "%s3: memref<8x8xf16, 3>, %dd: f64, %vp: vector<1xf32>"
)


def kernel(line: str) -> str:
    """A kernel with this line."""
    return f"gpu.module @m {{\ngpu.func @k({PARAMETERS}) kernel {{\n{line}\ngpu.return\n}}\n}}"


LEGAL = r"""
%0 = arith.addi %a, %b overflow<nsw> : i32
%0 = arith.addi %a, %b overflow<nsw, nuw> : i32
%0 = arith.addi %a, %b overflow<none> : i32
%0 = arith.addi %a, %b overflow<nsw,nsw> : i32
%0 = arith.addf %f, %g fastmath<fast> : f32
%0 = arith.addf %f, %g fastmath<nnan, ninf> : f32
%0 = arith.addf %f, %g fastmath<none> : f32
%0 = arith.addi %x, %y : index
%s, %o = arith.addui_extended %a, %b : i32, i1
%s, %o = arith.mulsi_extended %a, %b : i32
%s:2 = arith.mului_extended %w, %w : vector<4xi32>
%0 = arith.shli %a, %b overflow<nuw> : i32
%0 = arith.ceildivsi %a, %b : i32
%0 = arith.floordivsi %a, %b : i32
%0 = arith.remf %f, %g : f32
%0 = arith.maximumf %f, %g : f32
%0 = arith.maxnumf %f, %g : f32
%0 = arith.cmpi slt, %a, %b : i32
%0 = arith.cmpi "slt", %a, %b : i32
%0 = arith.cmpf oeq, %f, %g fastmath<nnan> : f32
%0 = arith.cmpi eq, %w, %w : vector<4xi32>
%0 = arith.select %c, %a, %b : i32
%0 = arith.select %vi, %v, %v : vector<4xi1>, vector<4xf32>
%0 = arith.select %c, %v, %v : vector<4xf32>
%0 = arith.select %c, %v, %v : i1, vector<4xf32>
%0 = arith.extsi %a : i32 to i64
%0 = arith.trunci %l : i64 to i32
%0 = arith.extf %h : f16 to f32
%0 = arith.extf %h fastmath<fast> : f16 to f32
%0 = arith.truncf %f : f32 to f16
%0 = arith.truncf %f to_nearest_even : f32 to f16
%0 = arith.truncf %f upward : f32 to f16
%0 = arith.truncf %f fastmath<nnan> : f32 to f16
%0 = arith.sitofp %a : i32 to f32
%0 = arith.fptosi %f : f32 to i32
%0 = arith.bitcast %a : i32 to f32
%0 = arith.bitcast %v : vector<4xf32> to vector<4xi32>
%0 = arith.index_cast %a : i32 to index
%0 = arith.index_castui %x : index to i64
%0 = arith.constant 5 : i32
%0 = arith.constant -1 : i1
%0 = arith.constant true
%0 = arith.constant 1.0 : f32
%0 = arith.constant 0x7FC00000 : f32
%0 = arith.constant 0x1 : i32
%0 = arith.constant dense<1> : vector<4xi32>
%0 = arith.constant dense<[1,2,3,4]> : vector<4xi32>
%0 = arith.constant dense<"0x01000000020000000300000004000000"> : vector<4xi32>
%0 = arith.constant dense<true> : vector<4xi1>
%0 = arith.constant dense<1.0> : vector<4xf32>
%0 = arith.constant dense<[[1,2],[3,4]]> : vector<2x2xi8>
%0 = arith.constant dense<-1> : vector<4xi8>
%0 = arith.constant dense<0x7F800000> : vector<4xf32>
%0 = arith.constant 1.0e400 : f64
%0 = arith.constant 1.e5 : f32
%0 = arith.constant -0.0 : f32
%0 = arith.constant - 1 : i32
%0 = arith.constant 5 : index
%0 = arith.negf %f : f32
%0 = math.exp %f : f32
%0 = math.exp %f fastmath<afn> : f32
%0 = math.fma %f, %g, %f : f32
%0 = math.fpowi %f, %a : f32, i32
%0 = math.ipowi %a, %b : i32
%0 = math.ctpop %a : i32
%0 = math.absi %a : i32
%0 = math.rsqrt %v : vector<4xf32>
%0 = math.erf %f : f32
%0 = math.copysign %f, %g : f32
%0 = math.round %f : f32
%0 = math.roundeven %f : f32
%0 = math.sinh %f : f32
%0 = vector.splat %f : vector<4xf32>
%0 = vector.broadcast %f : f32 to vector<4xf32>
%0 = vector.broadcast %v : vector<4xf32> to vector<2x4xf32>
%0 = vector.extract %v[0] : f32 from vector<4xf32>
%0 = vector.extract %v[%x] : f32 from vector<4xf32>
%0 = vector.extract %v[] : vector<4xf32> from vector<4xf32>
%0 = vector.insert %f, %v[1] : f32 into vector<4xf32>
%0 = vector.extractelement %v[%a : i32] : vector<4xf32>
%0 = vector.insertelement %f, %v[%x : index] : vector<4xf32>
%0 = vector.shuffle %v, %v [0, 5, 2, 7] : vector<4xf32>, vector<4xf32>
%0 = vector.reduction <add>, %v : vector<4xf32> into f32
%0 = vector.reduction <add>, %v, %f : vector<4xf32> into f32
%0 = vector.reduction <maxnumf>, %v fastmath<fast> : vector<4xf32> into f32
%0 = vector.multi_reduction <add>, %v, %f [0] : vector<4xf32> to f32
%0 = vector.shape_cast %v : vector<4xf32> to vector<2x2xf32>
%0 = vector.bitcast %v : vector<4xf32> to vector<8xf16>
%0 = vector.load %m[%x, %y] : memref<16x8xf32>, vector<4xf32>
%0 = vector.load %m[%x, %y] {nontemporal = true} : memref<16x8xf32>, vector<4xf32>
vector.store %v, %m[%x, %y] : memref<16x8xf32>, vector<4xf32>
%0 = vector.maskedload %m[%x, %y], %vi, %v : memref<16x8xf32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
vector.maskedstore %m[%x, %y], %vi, %v : memref<16x8xf32>, vector<4xi1>, vector<4xf32>
%0 = vector.gather %m[%x, %y][%w], %vi, %v : memref<16x8xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
%0 = vector.transfer_read %m[%x, %y], %f : memref<16x8xf32>, vector<4xf32>
%0 = vector.transfer_read %m[%x, %y], %f {in_bounds = [true]} : memref<16x8xf32>, vector<4xf32>
%0 = vector.fma %v, %v, %v : vector<4xf32>
%0 = vector.step : vector<4xindex>
%0 = vector.create_mask %x : vector<4xi1>
%0 = vector.constant_mask [3] : vector<4xi1>
%0 = vector.extract_strided_slice %v {offsets = [1], sizes = [2], strides = [1]} : vector<4xf32> to vector<2xf32>
%0 = vector.transpose %v, [0] : vector<4xf32> to vector<4xf32>
%0 = vector.interleave %v, %v : vector<4xf32> -> vector<8xf32>
%0, %1 = vector.deinterleave %v : vector<4xf32> -> vector<2xf32>
%0 = vector.from_elements %f, %g : vector<2xf32>
%0 = memref.load %m[%x, %y] : memref<16x8xf32>
memref.store %f, %m[%x, %y] : memref<16x8xf32>
%0 = memref.dim %d, %x : memref<?x?xf32>
%0 = memref.alloca() : memref<4xf32>
%0 = memref.alloca(%x) : memref<?xf32>
%0 = memref.alloca() {alignment = 16 : i64} : memref<4xf32, 5>
%0 = memref.alloc() : memref<4xf32>
%0 = memref.subview %m[0, 0] [4, 4] [1, 1] : memref<16x8xf32> to memref<4x4xf32, strided<[8, 1]>>
%0 = memref.subview %m[%x, 0] [4, 4] [1, 1] : memref<16x8xf32> to memref<4x4xf32, strided<[8, 1], offset: ?>>
%0 = memref.subview %m[0, 0] [4, 1] [1, 1] : memref<16x8xf32> to memref<4xf32, strided<[8]>>
%0 = memref.cast %m : memref<16x8xf32> to memref<?x?xf32>
%0 = memref.reinterpret_cast %m to offset: [0], sizes: [128], strides: [1] : memref<16x8xf32> to memref<128xf32>
%0 = memref.reinterpret_cast %m to offset: [%x], sizes: [%y], strides: [1] : memref<16x8xf32> to memref<?xf32, strided<[1], offset: ?>>
%0 = memref.collapse_shape %m [[0, 1]] : memref<16x8xf32> into memref<128xf32>
%0 = memref.expand_shape %mi [[0, 1]] output_shape [4, 4] : memref<16xi32> into memref<4x4xi32>
%0 = memref.transpose %m (i, j) -> (j, i) : memref<16x8xf32> to memref<8x16xf32, strided<[1, 8]>>
%0 = memref.atomic_rmw addf %f, %m[%x, %y] : (f32, memref<16x8xf32>) -> f32
%0 = memref.atomic_rmw assign %a, %mi[%x] : (i32, memref<16xi32>) -> i32
memref.copy %m, %m : memref<16x8xf32> to memref<16x8xf32>
memref.assume_alignment %m, 16 : memref<16x8xf32>
%b0, %o0, %s0:2, %t0:2 = memref.extract_strided_metadata %m : memref<16x8xf32> -> memref<f32>, index, index, index, index, index
%0 = gpu.thread_id x
%0 = gpu.block_dim y
%0 = gpu.grid_dim z upper_bound 8
%0 = gpu.global_id x
%0 = gpu.lane_id
%0 = gpu.lane_id upper_bound 32
%0 = gpu.subgroup_id : index
%0 = gpu.num_subgroups : index
%0 = gpu.subgroup_size : index
%0 = gpu.cluster_id x
%0 = gpu.cluster_block_id x
%0 = gpu.cluster_dim_blocks x
gpu.barrier
gpu.barrier {foo}
gpu.printf "x %d\n" %a : i32
gpu.printf "x"
%0, %1 = gpu.shuffle xor %f, %a, %b : f32
%0, %1 = gpu.shuffle idx %l, %a, %b : i64
%0 = gpu.all_reduce add %f {} : (f32) -> f32
%0 = gpu.subgroup_reduce add %f : (f32) -> f32
%0 = gpu.subgroup_reduce add %f uniform : (f32) -> f32
%0 = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
scf.if %c { }
scf.if %c { } else { }
%0 = scf.if %c -> (i32) { scf.yield %a : i32 } else { scf.yield %b : i32 }
%0 = scf.if %c -> i32 { scf.yield %a : i32 } else { scf.yield %b : i32 }
scf.for %i = %x to %y step %x { }
scf.for %i = %a to %b step %a : i32 { }
scf.while : () -> () { scf.condition(%c) } do { scf.yield }
%0 = scf.index_switch %x -> i32 case 0 { scf.yield %a : i32 } default { scf.yield %b : i32 }
scf.parallel (%i) = (%x) to (%y) step (%x) { scf.reduce }
%0 = scf.execute_region -> i32 { scf.yield %a : i32 }
%0 = llvm.load %p : !llvm.ptr -> f32
%0 = llvm.load %p {alignment = 4 : i64} : !llvm.ptr -> f32
%0 = llvm.load volatile %p : !llvm.ptr -> f32
%0 = llvm.load %p atomic monotonic {alignment = 4 : i64} : !llvm.ptr -> f32
%0 = llvm.load %p atomic syncscope("device") acquire {alignment = 4 : i64} : !llvm.ptr -> f32
%0 = llvm.load %p invariant : !llvm.ptr -> f32
llvm.store %f, %p : f32, !llvm.ptr
llvm.store %f, %p atomic release {alignment = 4 : i64} : f32, !llvm.ptr
%0 = llvm.getelementptr %p[%l] : (!llvm.ptr, i64) -> !llvm.ptr, f32
%0 = llvm.getelementptr inbounds %p[1, 2] : (!llvm.ptr) -> !llvm.ptr, !llvm.array<4 x f32>
%0 = llvm.atomicrmw add %p, %a monotonic : !llvm.ptr, i32
%0 = llvm.atomicrmw fadd %p, %f syncscope("agent") acq_rel : !llvm.ptr, f32
%0 = llvm.cmpxchg %p, %a, %b acq_rel monotonic : !llvm.ptr, i32
%0 = llvm.ptrtoint %p : !llvm.ptr to i64
%0 = llvm.inttoptr %l : i64 to !llvm.ptr
%0 = llvm.addrspacecast %p : !llvm.ptr to !llvm.ptr<1>
%0 = llvm.mlir.constant(5 : i32) : i32
%0 = llvm.mlir.constant(5.0 : f32) : i32
%0 = llvm.mlir.zero : !llvm.ptr
%0 = llvm.mlir.undef : i32
%0 = llvm.bitcast %a : i32 to f32
%0 = llvm.add %a, %b : i32
%0 = llvm.icmp "eq" %a, %b : i32
%0 = llvm.fadd %f, %g {fastmathFlags = #llvm.fastmath<fast>} : f32
%0 = llvm.select %c, %a, %b : i1, i32
%0 = llvm.inline_asm "mov.u32 $0, $1;", "=r,r" %a : (i32) -> i32
%0 = llvm.inline_asm has_side_effects asm_dialect = att "x", "=r" : () -> i32
%0 = llvm.intr.fma(%f, %f, %f) : (f32, f32, f32) -> f32
%0 = llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.tid.x"() : () -> i32
llvm.fence acquire
llvm.fence syncscope("device") seq_cst
%0 = builtin.unrealized_conversion_cast %a : i32 to index
%0 = builtin.unrealized_conversion_cast %a, %b : i32, i32 to index
%0 = "arith.addi"(%a, %b) : (i32, i32) -> i32
%0 = "arith.addi"(%a, %b) <{overflowFlags = #arith.overflow<nsw>}> : (i32, i32) -> i32
%0 = "arith.addi"(%a, %b) {overflowFlags = #arith.overflow<nsw>} : (i32, i32) -> i32
%0 = "arith.cmpi"(%a, %b) <{predicate = 2 : i64}> : (i32, i32) -> i1
%0 = vector.reduction <add>, %w : vector<4xi32> into i32
%0 = vector.reduction <mul>, %vx : vector<4xindex> into index
%0 = vector.multi_reduction <add>, %v2, %v [0] : vector<2x4xf32> to vector<4xf32>
%0 = vector.multi_reduction <add>, %v2, %v [0, 0] : vector<2x4xf32> to vector<4xf32>
%0 = memref.subview %m[1, 0] [4, 4] [1, 1] : memref<16x8xf32> to memref<4x4xf32, strided<[8, 1], offset: 8>>
%0 = memref.subview %m[0, 0] [4, %x] [1, 1] : memref<16x8xf32> to memref<4x?xf32, strided<[8, 1]>>
%0 = memref.subview %m[0, 0] [4, 4] [1, %x] : memref<16x8xf32> to memref<4x4xf32, strided<[8, ?]>>
%0 = memref.subview %m[0, 0] [1, 4] [1, 1] : memref<16x8xf32> to memref<4xf32, strided<[1]>>
%0 = memref.subview %m[0, 0] [32, 4] [1, 1] : memref<16x8xf32> to memref<32x4xf32, strided<[8, 1]>>
%0 = memref.subview %ms[1, 1] [2, 2] [1, 1] : memref<4x4xf32, strided<[16, 1], offset: 3>> to memref<2x2xf32, strided<[16, 1], offset: 20>>
%0 = memref.cast %m : memref<16x8xf32> to memref<?x8xf32>
%0 = memref.cast %d : memref<?x?xf32> to memref<4x4xf32>
%0 = memref.cast %m : memref<16x8xf32> to memref<16x8xf32, strided<[8, 1], offset: ?>>
%0 = memref.cast %m : memref<16x8xf32> to memref<16x8xf32, strided<[?, 1]>>
%0 = memref.cast %m : memref<16x8xf32> to memref<*xf32>
%0 = memref.cast %m : memref<16x8xf32> to memref<16x8xf32>
%0 = memref.memory_space_cast %m : memref<16x8xf32> to memref<16x8xf32, 1>
%0 = memref.atomic_rmw assign %f, %m1[%x] : (f32, memref<16xf32>) -> f32
%0 = memref.atomic_rmw mulf %f, %m1[%x] : (f32, memref<16xf32>) -> f32
%0 = memref.atomic_rmw minnumf %f, %m1[%x] : (f32, memref<16xf32>) -> f32
memref.assume_alignment %m1, 32 : memref<16xf32>
%0 = memref.collapse_shape %m [[0], [1]] : memref<16x8xf32> into memref<16x8xf32>
%0 = memref.view %mb[%x][] : memref<64xi8> to memref<16xf32>
%0 = memref.view %mb[%x][%y] : memref<64xi8> to memref<?xf32>
%0 = memref.rank %m : memref<16x8xf32>
%0 = memref.load %m0[] : memref<f32>
memref.copy %m, %d : memref<16x8xf32> to memref<?x?xf32>
%0 = memref.alloca() : memref<4xf32, strided<[2]>>
%0 = llvm.getelementptr %p[0, 4] : (!llvm.ptr) -> !llvm.ptr, !llvm.array<4 x f32>
%0 = llvm.getelementptr %p[0, 1] : (!llvm.ptr) -> !llvm.ptr, !llvm.struct<(i32, f32)>
%0 = llvm.getelementptr %p[0, 1] : (!llvm.ptr) -> !llvm.ptr, vector<4xf32>
%0 = llvm.getelementptr %p[0] : (!llvm.ptr) -> !llvm.ptr<1>, f32
%0 = llvm.getelementptr %p[0] : (!llvm.ptr) -> !llvm.ptr, index
%0 = llvm.addrspacecast %p : !llvm.ptr to !llvm.ptr
%0 = llvm.fcmp "oeq" %f, %g : f32
%0 = llvm.sext %a : i32 to i64
%0 = llvm.fpext %f : f32 to f16
%0 = llvm.atomicrmw xchg %p, %f monotonic : !llvm.ptr, f32
%0 = llvm.atomicrmw fmax %p, %f monotonic : !llvm.ptr, f32
%0 = llvm.atomicrmw uinc_wrap %p, %a monotonic : !llvm.ptr, i32
%0 = llvm.cmpxchg %p, %a, %b monotonic acquire : !llvm.ptr, i32
%0 = llvm.cmpxchg %p, %p, %p acq_rel monotonic : !llvm.ptr, !llvm.ptr
%0 = llvm.mlir.constant(5 : i64) : i32
%0 = llvm.mlir.constant(dense<1> : vector<4xi32>) : vector<4xi32>
%0 = vector.insert_strided_slice %vp, %v {offsets = [3], strides = [1]} : vector<1xf32> into vector<4xf32>
%0 = vector.insert_strided_slice %v, %v2 {offsets = [1, 0], strides = [1]} : vector<4xf32> into vector<2x4xf32>
%0 = vector.transpose %v2, [1, 0] : vector<2x4xf32> to vector<4x2xf32>
%0 = vector.shape_cast %v2 : vector<2x4xf32> to vector<8xf32>
%0 = vector.bitcast %v2 : vector<2x4xf32> to vector<2x8xf16>
vector.scatter %m1[%x][%w], %vi, %v : memref<16xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
vector.store %v2, %m1[%x] : memref<16xf32>, vector<2x4xf32>
%0 = vector.load %m1[%x] : memref<16xf32>, vector<2x4xf32>
%0 = vector.load %ms[%x, %y] : memref<4x4xf32, strided<[16, 1], offset: 3>>, vector<4xf32>
%0 = vector.shuffle %v, %vp [0, 4] : vector<4xf32>, vector<1xf32>
%0 = vector.shuffle %v2, %v2 [0, 3] : vector<2x4xf32>, vector<2x4xf32>
%0 = gpu.subgroup_reduce add %v : (vector<4xf32>) -> vector<4xf32>
%0 = arith.truncf %f : f32 to bf16
%0 = arith.index_cast %w : vector<4xi32> to vector<4xindex>
%0 = arith.select %c, %m, %m : memref<16x8xf32>
%0 = arith.select %c, %p, %p : !llvm.ptr
%0 = arith.constant dense<1> : tensor<4xi32>
%0 = arith.constant dense<1> : vector<4xsi32>
%z = arith.addi %a, %b : i32
%0 = "vector.reduction"(%v) <{kind = #vector.kind<add>}> : (vector<4xf32>) -> f32
%0 = "memref.load"(%m, %x, %y) <{nontemporal = true}> : (memref<16x8xf32>, index, index) -> f32
""".strip().splitlines()

BAD = r"""
%0 = arith.addi %a, %b overflow<foo> : i32
%0 = arith.addi %f, %g : f32
%0 = arith.addf %a, %b : i32
%0 = arith.addui_extended %a, %b : i32, i1
%0 = arith.shrsi %a, %b exact : i32
%0 = arith.divui %a, %b exact : i32
%0 = arith.maxf %f, %g : f32
%0 = arith.cmpi lt, %a, %b : i32
%0 = arith.cmpf foo, %f, %g : f32
%0 = arith.extsi %a : i32 to i32
%0 = arith.extui %a : i32 to i16
%0 = arith.extui %a nneg : i32 to i64
%0 = arith.truncf %f : f32 to f64
%0 = arith.bitcast %a : i32 to i64
%0 = arith.bitcast %v : vector<4xf32> to vector<2xi64>
%0 = arith.index_cast %x : index to index
%0 = arith.constant 5000000000 : i32
%0 = arith.constant 1 : f32
%0 = arith.constant 0x1FFFFFFFF : f32
%0 = arith.constant dense<[1,2,3]> : vector<4xi32>
%0 = arith.constant dense<"0x01"> : vector<4xi32>
%0 = arith.constant dense<[1,2,3,4]> : vector<2x2xi8>
%0 = arith.constant dense<300> : vector<4xi8>
%0 = arith.constant dense<[]> : vector<0xi8>
%0 = arith.constant 1e5 : f32
%0 = arith.constant +1 : i32
%0 = arith.constant "x" : i32
%0 = arith.constant unit
%0 = arith.scaling_extf %h, %h : f16, f16 to f32
%0 = math.absf %a : i32
%0 = math.clampf %f to [%f, %g] : f32
%0 = math.isnan %f : f32
%0 = math.sincos %f : f32
%0 = vector.broadcast %v : vector<4xf32> to vector<4x2xf32>
%0 = vector.extract %v[4] : f32 from vector<4xf32>
%0 = vector.extract %v[-1] : f32 from vector<4xf32>
%0 = vector.shuffle %v, %v [0, 8] : vector<4xf32>, vector<4xf32>
%0 = vector.reduction <and>, %v : vector<4xf32> into f32
%0 = vector.shape_cast %v : vector<4xf32> to vector<3xf32>
%0 = vector.bitcast %v : vector<4xf32> to vector<3xi32>
%0 = vector.load %m[%x] : memref<16x8xf32>, vector<4xf32>
%0 = vector.load %m[%x, %y] : memref<16x8xf32>, vector<4xf16>
%0 = vector.constant_mask [5] : vector<4xi1>
%0 = vector.extract_strided_slice %v {offsets = [3], sizes = [2], strides = [1]} : vector<4xf32> to vector<2xf32>
%0 = vector.from_elements %f : vector<2xf32>
%0 = memref.load %m[%x] : memref<16x8xf32>
%0 = memref.load %m[%x, %a] : memref<16x8xf32>
memref.store %h, %m[%x, %y] : memref<16x8xf32>
%0 = memref.alloca() : memref<?xf32>
%0 = memref.alloca() {alignment = -16 : i64} : memref<4xf32>
%0 = memref.subview %m[0, 0] [4, 4] [1, 1] : memref<16x8xf32> to memref<4x4xf32>
%0 = memref.cast %m : memref<16x8xf32> to memref<?xf32>
%0 = memref.expand_shape %mi [[0, 1]] : memref<16xi32> into memref<4x4xi32>
%0 = memref.atomic_rmw addi %f, %m[%x, %y] : (f32, memref<16x8xf32>) -> f32
memref.prefetch %m[%x, %y], write, locality<4>, data : memref<16x8xf32>
memref.assume_alignment %m, 3 : memref<16x8xf32>
%0 = memref.view %mi[%x][] : memref<16xi32> to memref<4xf32>
%0 = gpu.thread_id w
gpu.barrier memfence [#gpu.address_space<workgroup>]
gpu.printf "x %d\n", %a : i32
%0, %1 = gpu.shuffle foo %f, %a, %b : f32
%0 = gpu.subgroup_reduce add %f cluster(size = 3) : (f32) -> f32
%0 = gpu.dynamic_shared_memory : memref<?xf32, #gpu.address_space<workgroup>>
%0 = scf.if %c -> (i32) { scf.yield %a : i32 }
scf.for %i = %a to %b step %a { }
%0 = scf.for %i = %x to %y step %x iter_args(%q = %f) -> (f32) { scf.yield %q : f32 }
%0 = scf.for %i = %x to %y step %x iter_args(%q = %f) -> (f32) { }
%0 = scf.for %i = %x to %y step %x iter_args(%q = %f) -> f32 { scf.yield %q : f32 }
%0 = scf.while (%q = %a) : (i32) -> i32 { scf.condition(%c) %q : i32 } do { ^bb0(%r: i32): scf.yield %r : i32 }
scf.while : () -> () { scf.condition(%c) } do { }
%0 = scf.while (%q = %a) : (i32) -> (i32) { scf.condition(%c) %q : i32 } do { ^bb0(%r: i64): scf.yield %a : i32 }
scf.index_switch %x case 0 { scf.yield } case 0 { scf.yield } default { scf.yield }
%0 = llvm.load %p atomic monotonic : !llvm.ptr -> f32
%0 = llvm.load %p atomic release {alignment = 4 : i64} : !llvm.ptr -> f32
llvm.store %f, %p atomic acquire {alignment = 4 : i64} : f32, !llvm.ptr
%0 = llvm.getelementptr %p[1, 2] : (!llvm.ptr) -> !llvm.ptr, f32
%0 = llvm.atomicrmw fadd %p, %a acq_rel : !llvm.ptr, i32
%0 = llvm.atomicrmw add %p, %a unordered : !llvm.ptr, i32
%0 = llvm.cmpxchg %p, %a, %b acq_rel release : !llvm.ptr, i32
%0 = llvm.extractvalue %p[0] : !llvm.struct<(i32, f32)>
llvm.fence monotonic
%0 = "arith.addi"(%a) : (i32) -> i32
%0 = "arith.cmpi"(%a, %b) <{predicate = 22 : i64}> : (i32, i32) -> i1
%0 = "foo.bar"(%a) : (i32) -> i32
%0 = vector.reduction <or>, %v : vector<4xf32> into f32
%0 = vector.reduction <xor>, %v : vector<4xf32> into f32
%0 = vector.reduction <minui>, %v : vector<4xf32> into f32
%0 = vector.reduction <maxsi>, %v : vector<4xf32> into f32
%0 = vector.reduction <minnumf>, %w : vector<4xi32> into i32
%0 = vector.reduction <maximumf>, %w : vector<4xi32> into i32
%0 = vector.reduction <add>, %v2 : vector<2x4xf32> into f32
%0 = vector.reduction <add>, %v, %a : vector<4xf32> into f32
%0 = vector.reduction <add>, %v : vector<4xf32> into f64
%0 = vector.multi_reduction <add>, %v2, %v [1] : vector<2x4xf32> to vector<4xf32>
%0 = vector.multi_reduction <add>, %v2, %v [2] : vector<2x4xf32> to vector<4xf32>
%0 = memref.subview %m[0, 0] [4, 4] [1, 1] : memref<16x8xf32> to memref<4x5xf32, strided<[8, 1]>>
%0 = memref.subview %m[0, 0] [4, 4] [2, 1] : memref<16x8xf32> to memref<4x4xf32, strided<[8, 1]>>
%0 = memref.subview %m[1, 0] [4, 4] [1, 1] : memref<16x8xf32> to memref<4x4xf32, strided<[8, 1]>>
%0 = memref.subview %m[0, 0] [4, 4] [1, 1] : memref<16x8xf32> to memref<4x4xf16, strided<[8, 1]>>
%0 = memref.subview %m[0, 0] [4, 4] [1, 1] : memref<16x8xf32> to memref<4x4xf32, strided<[8, 1]>, 3>
%0 = memref.subview %m[0] [4] [1] : memref<16x8xf32> to memref<4xf32, strided<[8]>>
%0 = memref.subview %m[0, 0] [4, %x] [1, 1] : memref<16x8xf32> to memref<4x4xf32, strided<[8, 1]>>
%0 = memref.subview %m[0, 0] [4, 4] [1, %x] : memref<16x8xf32> to memref<4x4xf32, strided<[8, 1]>>
%0 = memref.subview %m[0, 0] [2, 4] [1, 1] : memref<16x8xf32> to memref<4xf32, strided<[1]>>
%0 = memref.subview %m[0, 0] [-4, 4] [1, 1] : memref<16x8xf32> to memref<?x4xf32, strided<[8, 1]>>
%0 = memref.subview %ms[1, 1] [2, 2] [1, 1] : memref<4x4xf32, strided<[16, 1], offset: 3>> to memref<2x2xf32, strided<[16, 1], offset: 19>>
%0 = memref.cast %m : memref<16x8xf32> to memref<16x4xf32>
%0 = memref.cast %m : memref<16x8xf32> to memref<16x8xf16>
%0 = memref.cast %m : memref<16x8xf32> to memref<16x8xf32, 3>
%0 = memref.cast %m : memref<16x8xf32> to memref<16x8xf32, strided<[9, 1]>>
%0 = memref.memory_space_cast %m : memref<16x8xf32> to memref<16x4xf32, 1>
%0 = memref.memory_space_cast %m : memref<16x8xf32> to memref<16x8xf16, 1>
%0 = memref.atomic_rmw addf %a, %mi[%x] : (i32, memref<16xi32>) -> i32
%0 = memref.atomic_rmw maxs %f, %m1[%x] : (f32, memref<16xf32>) -> f32
%0 = memref.atomic_rmw maximumf %a, %mi[%x] : (i32, memref<16xi32>) -> i32
%0 = memref.atomic_rmw ori %f, %m1[%x] : (f32, memref<16xf32>) -> f32
memref.assume_alignment %m1, 0 : memref<16xf32>
memref.assume_alignment %m1, -4 : memref<16xf32>
%0 = memref.reinterpret_cast %m to offset: [0], sizes: [128], strides: [2] : memref<16x8xf32> to memref<128xf32>
%0 = memref.reinterpret_cast %m to offset: [0], sizes: [100], strides: [1] : memref<16x8xf32> to memref<128xf32>
%0 = memref.reinterpret_cast %m to offset: [3], sizes: [100], strides: [1] : memref<16x8xf32> to memref<100xf32>
%0 = memref.reinterpret_cast %m to offset: [0], sizes: [128], strides: [1] : memref<16x8xf32> to memref<128xf16>
%0 = memref.reinterpret_cast %m to offset: [0], sizes: [128, 1], strides: [1] : memref<16x8xf32> to memref<128x1xf32>
%0 = memref.reinterpret_cast %m to offset: [0], sizes: [128], strides: [1] : memref<16x8xf32> to memref<128xf32, 3>
%0 = memref.collapse_shape %m [[0, 1]] : memref<16x8xf32> into memref<127xf32>
%0 = memref.collapse_shape %m [[1, 0]] : memref<16x8xf32> into memref<128xf32>
%0 = memref.collapse_shape %m [[0]] : memref<16x8xf32> into memref<16xf32>
%0 = memref.collapse_shape %ms [[0, 1]] : memref<4x4xf32, strided<[16, 1], offset: 3>> into memref<16xf32>
%0 = memref.expand_shape %m1 [[0, 1]] output_shape [4, 5] : memref<16xf32> into memref<4x5xf32>
%0 = memref.expand_shape %m1 [[0, 1]] output_shape [4, 4] : memref<16xf32> into memref<2x8xf32>
%0 = memref.expand_shape %m1 [[0], [1]] output_shape [4, 4] : memref<16xf32> into memref<4x4xf32>
%0 = memref.view %mb[%x][%y] : memref<64xi8> to memref<4xf32>
%0 = memref.view %mb[%x][] : memref<64xi8> to memref<?xf32>
%0 = memref.view %mb[%x][] : memref<64xi8> to memref<16xf32, 3>
%0 = memref.dim %m0, %x : memref<f32>
%0 = memref.dim %m, %a : memref<16x8xf32>
%0 = memref.load %m0[%x] : memref<f32>
memref.copy %m, %m1 : memref<16x8xf32> to memref<16xf32>
memref.copy %m1, %mi : memref<16xf32> to memref<16xi32>
%0 = memref.alloca(%x, %y) : memref<?xf32>
%0 = memref.get_global @nope : memref<4xf32>
%0 = gpu.dynamic_shared_memory : memref<4xi8, #gpu.address_space<workgroup>>
%0 = gpu.dynamic_shared_memory : memref<?x?xi8, #gpu.address_space<workgroup>>
%0 = gpu.dynamic_shared_memory : memref<?xi8>
%0 = gpu.dynamic_shared_memory : memref<?xi8, 1>
%0 = gpu.dynamic_shared_memory : memref<?xi16, #gpu.address_space<workgroup>>
%0 = llvm.getelementptr %p[0, 2] : (!llvm.ptr) -> !llvm.ptr, !llvm.struct<(i32, f32)>
%0 = llvm.getelementptr %p[0, %l] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.struct<(i32, f32)>
%0 = llvm.getelementptr %p[0, 1, 2] : (!llvm.ptr) -> !llvm.ptr, !llvm.struct<(i32, f32)>
%0 = llvm.getelementptr %p[0, 1, 0] : (!llvm.ptr) -> !llvm.ptr, vector<4xf32>
%0 = llvm.getelementptr %p[] : (!llvm.ptr) -> !llvm.ptr, f32
%0 = llvm.getelementptr %p[%f] : (!llvm.ptr, f32) -> !llvm.ptr, f32
%0 = llvm.getelementptr %p[%x] : (!llvm.ptr, index) -> !llvm.ptr, f32
%0 = llvm.getelementptr %a[0] : (i32) -> !llvm.ptr, f32
%0 = llvm.load %p : !llvm.ptr -> index
%0 = llvm.load %p : !llvm.ptr -> memref<4xf32>
%0 = llvm.load %p : !llvm.ptr -> vector<2x2xf32>
llvm.store %x, %p : index, !llvm.ptr
llvm.store %m, %p : memref<16x8xf32>, !llvm.ptr
%0 = llvm.ptrtoint %p : !llvm.ptr to index
%0 = llvm.inttoptr %x : index to !llvm.ptr
%0 = llvm.bitcast %p : !llvm.ptr to i64
%0 = llvm.add %f, %g : f32
%0 = llvm.fadd %a, %b : i32
%0 = llvm.icmp "eq" %f, %g : f32
%0 = llvm.icmp "foo" %a, %b : i32
%0 = llvm.zext %a : i32 to i16
%0 = llvm.sitofp %f : f32 to i32
%0 = llvm.select %c, %a, %f : i1, i32
%0 = llvm.atomicrmw add %p, %p monotonic : !llvm.ptr, !llvm.ptr
%0 = llvm.atomicrmw add %p, %c monotonic : !llvm.ptr, i1
%0 = llvm.atomicrmw add %p, %a not_atomic : !llvm.ptr, i32
%0 = llvm.cmpxchg %p, %f, %g acq_rel monotonic : !llvm.ptr, f32
%0 = llvm.cmpxchg %p, %a, %l acq_rel monotonic : !llvm.ptr, i32
%0 = llvm.cmpxchg %p, %a, %b unordered monotonic : !llvm.ptr, i32
%0 = llvm.mlir.constant(5 : index) : index
%0 = llvm.mlir.undef : index
%0 = llvm.mlir.zero : index
%0 = vector.extract_strided_slice %v {offsets = [1], sizes = [2], strides = [2]} : vector<4xf32> to vector<2xf32>
%0 = vector.extract_strided_slice %v {offsets = [1], sizes = [2], strides = [1]} : vector<4xf32> to vector<3xf32>
%0 = vector.extract_strided_slice %v {offsets = [-1], sizes = [2], strides = [1]} : vector<4xf32> to vector<2xf32>
%0 = vector.extract_strided_slice %v {offsets = [0, 0], sizes = [2], strides = [1]} : vector<4xf32> to vector<2xf32>
%0 = vector.insert_strided_slice %vp, %v {offsets = [4], strides = [1]} : vector<1xf32> into vector<4xf32>
%0 = vector.insert_strided_slice %v, %v2 {offsets = [2, 0], strides = [1]} : vector<4xf32> into vector<2x4xf32>
%0 = vector.transpose %v2, [1, 0] : vector<2x4xf32> to vector<2x4xf32>
%0 = vector.transpose %v2, [0, 0] : vector<2x4xf32> to vector<2x2xf32>
%0 = vector.transpose %v2, [1] : vector<2x4xf32> to vector<4x2xf32>
%0 = vector.shape_cast %v2 : vector<2x4xf32> to vector<8xf16>
%0 = vector.bitcast %v2 : vector<2x4xf32> to vector<4x4xf16>
%0 = vector.fma %v, %w, %v : vector<4xf32>
%0 = vector.fma %w, %w, %w : vector<4xi32>
%0 = vector.create_mask %x, %y : vector<4xi1>
%0 = vector.create_mask %x : vector<4xi8>
%0 = vector.constant_mask [-1] : vector<4xi1>
%0 = vector.constant_mask [1, 2] : vector<4xi1>
%0 = vector.constant_mask [0, 2] : vector<2x4xi1>
%0 = vector.step : vector<4xi32>
%0 = vector.step : vector<2x4xindex>
%0 = vector.maskedload %m1[%x], %vi, %v2 : memref<16xf32>, vector<4xi1>, vector<2x4xf32> into vector<2x4xf32>
%0 = vector.maskedload %m1[%x], %vi, %v : memref<16xf32>, vector<4xi1>, vector<4xf32> into vector<2xf32>
%0 = vector.maskedload %mi[%x], %vi, %v : memref<16xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
%0 = vector.maskedload %m1[%x], %w, %v : memref<16xf32>, vector<4xi32>, vector<4xf32> into vector<4xf32>
vector.maskedstore %mi[%x], %vi, %v : memref<16xi32>, vector<4xi1>, vector<4xf32>
%0 = vector.gather %m1[%x][%v], %vi, %v : memref<16xf32>, vector<4xf32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
%0 = vector.gather %mi[%x][%w], %vi, %v : memref<16xi32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
vector.scatter %m1[%x][%w], %vi, %v2 : memref<16xf32>, vector<4xi32>, vector<4xi1>, vector<2x4xf32>
vector.store %v, %mi[%x] : memref<16xi32>, vector<4xf32>
%0 = vector.insert %a, %v[1] : i32 into vector<4xf32>
%0 = vector.insert %v, %v[1] : vector<4xf32> into vector<4xf32>
%0 = vector.extract %v[0] : i32 from vector<4xf32>
%0 = vector.extract %v2[0, 1, 0] : f32 from vector<2x4xf32>
%0 = vector.extractelement %v2[%a : i32] : vector<2x4xf32>
%0 = vector.extractelement %v[%f : f32] : vector<4xf32>
%0 = vector.insertelement %a, %v[%x : index] : vector<4xf32>
%0 = vector.splat %m : vector<4xf32>
%0 = vector.splat %a : vector<4xf32>
%0 = vector.broadcast %a : i32 to vector<4xf32>
%0 = vector.from_elements %a, %f : vector<2xf32>
%0 = vector.interleave %v, %v : vector<4xf32> -> vector<4xf32>
%0 = vector.interleave %v, %w : vector<4xf32> -> vector<8xf32>
%0 = vector.shuffle %v, %w [0, 5] : vector<4xf32>, vector<4xi32>
%0 = vector.shuffle %v, %v [] : vector<4xf32>, vector<4xf32>
%0, %1 = gpu.shuffle xor %f, %l, %b : f32
%0, %1 = gpu.shuffle xor %x, %a, %b : index
%0 = gpu.subgroup_reduce and %f : (f32) -> f32
%0 = gpu.subgroup_reduce maxnumf %a : (i32) -> i32
%0 = gpu.subgroup_reduce add %f : (f32) -> f64
%0 = gpu.subgroup_reduce add %v2 : (vector<2x4xf32>) -> vector<2x4xf32>
%0 = gpu.subgroup_reduce add %f cluster(size = 0) : (f32) -> f32
%0 = gpu.all_reduce and %f {} : (f32) -> f32
%0 = math.exp %a : i32
%0 = math.ctpop %f : f32
%0 = math.fpowi %f, %g : f32, f32
%0 = math.fma %f, %dd, %f : f32
%0 = math.absf %m : memref<16x8xf32>
%0 = math.ipowi %f, %g : f32
%0 = math.copysign %a, %b : i32
%0 = math.powf %f, %dd : f32
%0 = arith.cmpi slt, %f, %g : f32
%0 = arith.cmpf olt, %a, %b : i32
%0 = arith.shli %f, %g : f32
%0 = arith.remf %a, %b : i32
%0 = arith.negf %a : i32
%0 = arith.andi %f, %g : f32
%0 = arith.maxsi %f, %g : f32
%0 = arith.extsi %f : f32 to i64
%0 = arith.extf %a : i32 to f64
%0 = arith.truncf %h : f16 to bf16
%0 = arith.extf %h : f16 to bf16
%0 = arith.sitofp %f : f32 to f32
%0 = arith.fptosi %a : i32 to i32
%0 = arith.index_cast %f : f32 to index
%0 = arith.index_cast %a : i32 to i64
%0 = arith.index_cast %w : vector<4xi32> to index
%0 = arith.bitcast %v : vector<4xf32> to vector<2x2xi32>
%0 = arith.select %a, %a, %b : i32
%0 = arith.constant 1 : vector<4xi32>
%0 = arith.constant 1 : si32
%0 = arith.addi %m, %m : memref<16x8xf32>
scf.for %i = %x to %y step %a { }
scf.for %i = %f to %g step %f : f32 { }
%0 = scf.for %i = %x to %y step %x iter_args(%q = %f) -> (f32) { scf.yield %a : i32 }
%0 = scf.for %i = %x to %y step %x iter_args(%q = %f) -> (f32) { scf.yield %q, %q : f32, f32 }
%0 = scf.for %i = %x to %y step %x iter_args(%q = %f) -> (f64) { scf.yield %dd : f64 }
scf.if %a { }
%0 = scf.if %c -> (i32) { scf.yield %f : f32 } else { scf.yield %b : i32 }
scf.if %c { scf.yield %a : i32 }
%0 = scf.while (%q = %a) : (i32) -> f32 { scf.condition(%c) %q : i32 } do { ^bb0(%r: f32): scf.yield %a : i32 }
%0 = scf.while (%q = %a) : (i32) -> i32 { scf.condition(%a) %q : i32 } do { ^bb0(%r: i32): scf.yield %r : i32 }
%0 = scf.while (%q = %a) : (i32) -> i32 { scf.condition(%c) %q : i32 } do { ^bb0(%r: i32): scf.yield %f : f32 }
scf.parallel (%i) = (%x) to (%y) step (%a) { scf.reduce }
scf.yield
scf.condition(%c)
%0 = scf.index_switch %a -> i32 case 0 { scf.yield %a : i32 } default { scf.yield %b : i32 }
%0 = scf.index_switch %x -> i32 case 0 { scf.yield %f : f32 } default { scf.yield %b : i32 }
gpu.return %a : i32
gpu.terminator
gpu.printf "%d" %m : memref<16x8xf32>
gpu.printf "%d" %v : vector<4xf32>
cf.cond_br %a, ^bb1, ^bb1
^bb1:
cf.br ^bb1(%f : f32)
^bb1(%z: i32):
cf.br ^bb1
cf.br ^bb2
^bb2:
cf.switch %f : f32, [default: ^bb1]
%0 = nvgpu.rcp %v {rounding = approx} : vector<4xf32>
%0 = "scf.if"(%c) ({ }, { }) : (i1) -> ()
%0 = "arith.constant"() {value = 5 : i64} : () -> i32
%0 = "arith.constant"() : () -> i32
%0 = "arith.cmpi"(%a, %b) {predicate = 2 : i64} : (i32, i32) -> i32
"gpu.barrier"() ({}) : () -> ()
"gpu.barrier"(%a) : (i32) -> ()
%0 = "gpu.thread_id"() : () -> index
%0 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> i32
%0 = "memref.load"(%m, %x) : (memref<16x8xf32>, index) -> f32
%0 = "memref.load"(%m, %x, %y) : (memref<16x8xf32>, index, index) -> f16
""".strip().splitlines()
