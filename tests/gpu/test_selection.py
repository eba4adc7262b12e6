"""Operations on every type of number, which LLVM must have instructions for on every architecture."""

from __future__ import annotations

import pytest
from tests.gpu.kernels import kernel
from tests.gpu.support import ptx_of, requires_libdevice, requires_ptxas

from tilewright import gpu

_BODIES = {
    "bf16": """%v = vector.load %x[%tid] : memref<?xbf16>, vector<4xbf16>
%w = arith.addf %v, %v : vector<4xbf16>
%f = arith.mulf %w, %v : vector<4xbf16>
%d = arith.divf %f, %v : vector<4xbf16>
%m = arith.maximumf %d, %v : vector<4xbf16>
%n = arith.minnumf %m, %v : vector<4xbf16>
%e = arith.extf %n : vector<4xbf16> to vector<4xf32>
%t = arith.truncf %e : vector<4xf32> to vector<4xbf16>
%g = arith.negf %t : vector<4xbf16>
%h = vector.extract %g[0] : bf16 from vector<4xbf16>
%i = arith.fptosi %h : bf16 to i32
%j = arith.uitofp %i : i32 to bf16
%u = vector.splat %j : vector<4xbf16>
vector.store %u, %x[%tid] : memref<?xbf16>, vector<4xbf16>""",
    "f16": """%v = vector.load %x[%tid] : memref<?xf16>, vector<4xf16>
%m = arith.maximumf %v, %v : vector<4xf16>
%n = arith.minimumf %m, %v : vector<4xf16>
%o = vector.extract %n[%c1] : f16 from vector<4xf16>
%p = arith.cmpf olt, %o, %o : f16
%s = arith.select %p, %n, %v : vector<4xf16>
%r = math.roundeven %s : vector<4xf16>
%f = math.fma %r, %s, %v : vector<4xf16>
%z = math.sqrt %f : vector<4xf16>
%t = vector.reduction <add>, %z : vector<4xf16> into f16
memref.store %t, %x[%tid] : memref<?xf16>
%a = memref.atomic_rmw addf %t, %x[%c0] : (f16, memref<?xf16>) -> f16""",
    "f32": """%v = memref.load %x[%tid] : memref<?xf32>
%a = memref.atomic_rmw addf %v, %x[%c0] : (f32, memref<?xf32>) -> f32
%b = memref.atomic_rmw maximumf %v, %x[%c0] : (f32, memref<?xf32>) -> f32
%c = memref.atomic_rmw minnumf %v, %x[%c0] : (f32, memref<?xf32>) -> f32
%d = math.powf %v, %a : f32
%e = math.atan2 %d, %b : f32
%n = arith.constant 3 : i32
%f = math.fpowi %e, %n : f32, i32
%g = math.copysign %f, %c : f32
memref.store %g, %x[%tid] : memref<?xf32>""",
    "f64": """%v = memref.load %x[%tid] : memref<?xf64>
%m = arith.maximumf %v, %v : f64
%n = arith.minimumf %m, %v : f64
%k = math.cttz %c0 : index
%p = math.ctpop %c1 : index
%l = math.ctlz %tid : index
%o = arith.addi %l, %p : index
%q = arith.addi %o, %k : index
%i = arith.index_cast %q : index to i64
%f = arith.sitofp %i : i64 to f64
%g = arith.addf %f, %n : f64
memref.store %g, %x[%tid] : memref<?xf64>
%a = memref.atomic_rmw maxnumf %f, %x[%c0] : (f64, memref<?xf64>) -> f64
%b = memref.atomic_rmw mulf %f, %x[%c0] : (f64, memref<?xf64>) -> f64
%c = memref.atomic_rmw assign %f, %x[%c0] : (f64, memref<?xf64>) -> f64
%d = memref.atomic_rmw maximumf %f, %x[%c0] : (f64, memref<?xf64>) -> f64""",
    "i8": """%v = vector.load %x[%tid] : memref<?xi8>, vector<16xi8>
%m = arith.maxsi %v, %v : vector<16xi8>
%s = arith.shrui %m, %v : vector<16xi8>
%n = vector.create_mask %tid : vector<16xi1>
%l = vector.maskedload %x[%c0], %n, %s : memref<?xi8>, vector<16xi1>, vector<16xi8> into vector<16xi8>
vector.maskedstore %x[%c0], %n, %l : memref<?xi8>, vector<16xi1>, vector<16xi8>""",
}


@requires_libdevice
@requires_ptxas
@pytest.mark.oracle
@pytest.mark.parametrize("element", _BODIES)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
def test_numbers_of_every_type_assemble(element: str, arch: str) -> None:
    text = kernel(f"%x: memref<?x{element}>", _BODIES[element])
    assert gpu.assemble(ptx_of(text, arch), arch).registers
