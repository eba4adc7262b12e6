"""Programs that break a rule of the dialects around nvgpu, and their nearest legal twins."""

from __future__ import annotations

from tests.dialects.nvgpu import cases_vectors
from tests.dialects.nvgpu.support import Case


def _module(body: str) -> str:
    return f"module {{\n  gpu.module @kernels {{\n{body}\n  }}\n}}"


def _kernel(body: str, head: str = "@k() kernel") -> str:
    return _module(f"gpu.func {head} {{\n{body}\n}}")


def _generic(arguments: str, kernel: str = ", gpu.kernel") -> str:
    return _module(
        f'"gpu.func"() <{{function_type = (f32) -> ()}}> ({{\n^bb0({arguments}):\n"gpu.return"() : '
        f'() -> ()\n}}) {{sym_name = "k"{kernel}}} : () -> ()'
    )


def _product(
    shape: str = "64, 64, 16", element: str = "f16", a: str = "0", b: str = "0", more: str = ""
) -> str:
    return f"""%d64 = arith.constant 0 : i64
%sums = arith.constant dense<0.0> : vector<32xf32>
%sum = nvvm.wgmma.product %d64, %d64, %sums {{mmaShape = [{shape}], element = {element}, aOffsets = [{a}], bOffsets = [{b}], {more}waitGroup = 0 : i32}} : i64, i64, vector<32xf32> -> vector<32xf32>"""


CASES = [
    Case(
        "gpu.func",
        "gpu-function",
        "expected a kernel to return nothing",
        _kernel("%x = arith.constant 1.0 : f32\ngpu.return %x : f32", "@k() -> f32 kernel"),
        _kernel("%x = arith.constant 1.0 : f32\ngpu.return %x : f32", "@k() -> f32"),
    ),
    Case(
        "gpu.func",
        "gpu-function",
        "expected 'gpu.func' inside 'gpu.module', got 'builtin.module' around it",
        "module {\ngpu.func @k() kernel {\ngpu.return\n}\n}",
        _kernel("gpu.return"),
    ),
    Case(
        "gpu.func",
        "gpu-function",
        "expected arguments of the types of (f32) -> (), got (i32)",
        _generic("%a: i32"),
        _generic("%a: f32, %private: memref<4xf32, 5>"),
    ),
    Case(
        "gpu.return",
        "gpu-function",
        "expected to return (f32), got ()",
        _kernel("gpu.return", "@k() -> f32"),
        _kernel("gpu.return", "@k()"),
    ),
    Case(
        "gpu.return",
        "gpu-function",
        "expected 'gpu.return' in 'gpu.func', got 'func.func' around it",
        "module {\nfunc.func @f() {\ngpu.return\n}\n}",
        _kernel("gpu.return"),
    ),
    Case(
        "gpu.module",
        "gpu-duplicate-symbol",
        "redefinition of symbol '@k' in the module",
        _module("gpu.func @k() {\ngpu.return\n}\ngpu.func @k() {\ngpu.return\n}"),
        _module("gpu.func @k() {\ngpu.return\n}\ngpu.func @l() {\ngpu.return\n}"),
    ),
    Case(
        "gpu.dynamic_shared_memory",
        "nvgpu-memory-space",
        "expected the result to lie in shared memory",
        "%bytes = gpu.dynamic_shared_memory : memref<?xi8>",
        "%bytes = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>",
    ),
    Case(
        "gpu.shuffle",
        "value-type-mismatch",
        "'i32' vs 'index'",
        "%x = arith.constant 1.0 : f32\n%o = arith.constant 1 : i32\n"
        "%y, %ok = gpu.shuffle up %x, %i, %o : f32",
        "%x = arith.constant 1.0 : f32\n%o = arith.constant 1 : i32\n"
        "%y, %ok = gpu.shuffle up %x, %o, %o : f32",
    ),
    Case(
        "nvvm.cp.async.bulk.wait_group",
        "nvgpu-group-count",
        "expected a number of groups, got -1",
        "nvvm.cp.async.bulk.wait_group -1",
        "nvvm.cp.async.bulk.wait_group 1",
    ),
    Case(
        "nvvm.setmaxregister",
        "nvvm-register-count",
        "expected a multiple of 8 from 24 to 256 registers, got 100",
        "nvvm.setmaxregister decrease 100",
        "nvvm.setmaxregister decrease 40",
    ),
    Case(
        "nvvm.fence.proxy",
        "nvgpu-memory-space",
        "expected 'space' with the proxy async.shared, and with no other",
        "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>}",
        "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}",
    ),
    Case(
        "memref.global",
        "memref-alignment",
        "expected the alignment to be a power of two, got 24",
        "module {\nmemref.global @g : memref<4xf32> {alignment = 24 : i64}\n}",
        "module {\nmemref.global @g : memref<4xf32> {alignment = 32 : i64}\n}",
    ),
    Case(
        "memref.global",
        "memref-initial-value",
        "expected an initial value like 'memref<4xf32>'",
        'module {\n"memref.global"() <{sym_name = "g", type = memref<4xf32>, '
        "initial_value = dense<1.0> : tensor<2xf32>}> : () -> ()\n}",
        'module {\n"memref.global"() <{sym_name = "g", type = memref<4xf32>, '
        "initial_value = dense<1.0> : tensor<4xf32>}> : () -> ()\n}",
    ),
    Case(
        "memref.atomic_rmw",
        "nvgpu-element-type",
        "expected 'value' to have the element type 'f32' of 'memref', got 'i32'",
        "%x = arith.constant 1 : i32\n"
        "%o = memref.atomic_rmw addi %x, %big[%i, %j] : (i32, memref<128x128xf32, 3>) -> i32",
        "%x = arith.constant 1.0 : f32\n"
        "%o = memref.atomic_rmw addf %x, %big[%i, %j] : (f32, memref<128x128xf32, 3>) -> f32",
    ),
    Case(
        "vector.splat",
        "nvgpu-element-type",
        "expected elements of 'f32', got 'vector<4xf16>'",
        '%x = arith.constant 1.0 : f32\n%v4 = "vector.splat"(%x) : (f32) -> vector<4xf16>',
        "%x = arith.constant 1.0 : f32\n%v4 = vector.splat %x : vector<4xf32>",
    ),
    Case(
        "vector.shape_cast",
        "nvgpu-fragment",
        "expected as many elements of the same type as in 'vector<4x2xf16>'",
        "%flat = vector.shape_cast %a : vector<4x2xf16> to vector<6xf16>",
        "%flat = vector.shape_cast %a : vector<4x2xf16> to vector<2x4xf16>",
    ),
    Case(
        "arith.index_castui",
        "nvgpu-element-type",
        "expected a cast between index and an integer, got 'index' to 'index'",
        "%wide = arith.index_castui %i : index to index",
        "%wide = arith.index_castui %i : index to i32",
    ),
    *(
        Case("nvvm.wgmma.product", code, says, _product(**changes), _product())
        for code, says, changes in (
            ("nvgpu-wgmma-type", "expected elements of", {"element": "f64"}),
            (
                "nvgpu-wgmma-type",
                "unsignedB is for integers, not for 'f16'",
                {"more": "unsignedB, "},
            ),
            ("nvgpu-wgmma-shape", "expected m, n and k, got [64, 64]", {"shape": "64, 64"}),
            (
                "nvgpu-wgmma-shape",
                "no instructions make a product of 32x64x16",
                {"shape": "32, 64, 16"},
            ),
            (
                "nvgpu-wgmma-shape",
                "no instructions make a product of 64x264x16",
                {"shape": "64, 264, 16"},
            ),
            (
                "nvgpu-wgmma-shape",
                "no instructions make a product of 64x64x8",
                {"shape": "64, 64, 8"},
            ),
            ("nvgpu-wgmma-shape", "expected 1 multiples of 16 bytes, got [8]", {"a": "8"}),
            ("nvgpu-wgmma-shape", "expected 1 multiples of 16 bytes, got [0, 32]", {"b": "0, 32"}),
        )
    ),
    *cases_vectors.CASES,
]
