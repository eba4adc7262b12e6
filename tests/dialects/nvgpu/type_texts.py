"""Types of upstream's dialects as text, legal ones and near misses."""

from __future__ import annotations

from collections.abc import Iterator

BUILTIN = (
    *("i1", "i32", "si8", "ui32", "i0", "i16777216", "index", "f16", "bf16", "f80", "f128", "tf32"),
    *("f8E4M3FN", "f8E4M3", "none", "complex<f32>", "complex<index>", "complex<none>"),
    *("tuple<i32, tuple<f32>>", "tuple<>", "tuple<() -> ()>", "(i32) -> i32", "(i32)", "i32, i32"),
    *("f32 f32", "vector<4xf32>, ", "() -> ((i32) -> i32)", "vector<4x8xf32>", "memref<?x?xf32>"),
)
LLVM = (
    *("ptr", "ptr<1>", "ptr<0>", "ptr<4294967295>", "ptr<4294967296>", "ptr<-1>", "ptr<i32>"),
    *("ptr<1, 2>", "foo", "void", "void<3>", "label", "token", "metadata", "ppc_fp128"),
    *("struct<()>", 'struct<"a", (i32)>', 'struct<"", (i32)>', "struct<packed (i8, i32)>"),
    *('struct<"a", opaque>', "struct<opaque>", 'struct<"b", packed (i8)>', "struct<(i32, void)>"),
    *('struct<"b", (ptr, struct<"c", (i8)>)>', 'struct<"r", (ptr, struct<"r">)>', "struct<i32>"),
    *("array<4 x i32>", "array<0 x i32>", "array<-1 x i32>", "array<4xi32>", "array<? x i32>"),
    *("array<4 x array<2 x f32>>", "array<18446744073709551616 x i8>", "array<4 x !llvm.ptr>"),
    *("func<void ()>", "func<void (...)>", "func<i32 (ptr, ...)>", "func<void(i32)>"),
    *("func<void (..., i32)>", "func<void (void)>", "func<func<void ()> ()>", "func<() -> ()>"),
    *("func<struct<(i32, i1)> (array<2 x i8>)>", "vec<4 x ptr>", "vec<4 x i32>", "vec<0 x ptr>"),
    *("vec<? x 4 x ptr>", "vec<? x 0 x ptr>", "vec<4xptr>", "vec<4 x void>", "vec<4 x index>"),
    *('target<"x">', 'target<"a", i32, 0>'),
)
#: As they stand inside of a type of llvm.
PARTS = (
    *("void", "!llvm.void", "ptr", "!llvm.ptr<3>", "func<void ()>", "!llvm.func<void ()>"),
    *("struct<()>", "struct<(struct<(void)>)>", "array<0 x i8>", "index", "none", "tf32", "f80"),
    *(
        "f8E4M3FN",
        "bf16",
        "si32",
        "i1",
        "i0",
        "vector<4xf32>",
        "vector<2x2xf32>",
        "vector<[4]xf32>",
    ),
    *("vector<f32>", "vector<4xsi32>", "vector<0xi32>", "vec<4 x ptr>", "vec<? x 4 x ptr>"),
    *("memref<4xf32>", "tensor<4xf32>", "tuple<i32>", "complex<f32>", "() -> ()", "label", "token"),
    *("!nvgpu.device.async.token", "!gpu.async.token", 'struct<"n", (i32)>', "array<2 x void>"),
    *('struct<"n", opaque>', "struct<packed ()>", "func<i32 (void)>", "ppc_fp128", "i256"),
    *("4", '"x"', "memref<4xf32, strided<[0]>>", "vector<4x!llvm.void>"),
)
FRAMES = (
    *("struct<({})>", "struct<(i8, {}, i8)>", 'struct<"m", ({})>', "array<2 x {}>"),
    *("func<void ({})>", "func<{} ()>", "vec<4 x {}>", "struct<(array<2 x {}>)>"),
)
GPU = (
    *("!gpu.async.token", "!gpu.async.token<3>", "!gpu.foo", '!gpu.mma_matrix<16x16xf16, "DOp">'),
    *(
        "!nvgpu.device.async.token",
        "!nvgpu.mbarrier.token",
        "!nvgpu.foo",
        "!nvgpu.mbarrier.token<1>",
    ),
    "!nvgpu.mbarrier.group<memorySpace = 3>",
    "!nvgpu.mbarrier.group<memorySpace = 3, num_barriers = 4>",
    "!nvgpu.mbarrier.group<memorySpace = 3, num_barriers = -1>",
    "!nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>>",
    "!nvgpu.mbarrier.group<num_barriers = 4>",
    "!nvgpu.warpgroup.accumulator<fragmented = vector<64x128xf32>>",
    "!nvgpu.warpgroup.accumulator<vector<64x128xf32>>",
    "!nvgpu.warpgroup.descriptor<tensor = memref<64x64xf16, 3>>",
    "!nvgpu.warpgroup.descriptor<tensor = vector<64x64xf16>>",
    "!nvgpu.warpgroup.descriptor<tensor = memref<64x64xf16, strided<[0, 1]>, 3>>",
    "!nvgpu.tensormap.descriptor<tensor = memref<64x64xf16, 3>>",
)
MAPS = tuple(
    f"!nvgpu.tensormap.descriptor<tensor = {ty}, {options}>"
    for ty in ("memref<64x64xf16, 3>", "memref<?x64xf16, 3>", "tensor<64x64xf16>", "memref<*xf16>")
    for options in (
        "swizzle = none, l2promo = none, oob = zero, interleave = none",
        "swizzle = swizzle_128b, l2promo = l2promo_128b, oob = nan, interleave = interleave_16b",
        "swizzle = swizzle_96b, l2promo = none, oob = zero, interleave = none",
        "l2promo = none, oob = zero, interleave = none",
    )
)
ELEMENTS = (
    *("f32", "i1", "index", "i0", "si4", "i256", "f80", "f8E5M2", "tf32", "complex<f32>", "none"),
    *("!llvm.ptr", "!llvm.void", "!llvm.struct<(i32)>", "!llvm.array<2 x i8>", "tuple<>"),
    *("!llvm.func<void ()>", "vector<2xf32>", "memref<2xf32>", "memref<*xf32>", "tensor<2xf32>"),
    *("() -> ()", "!gpu.async.token", "!nvgpu.mbarrier.token"),
)
SHAPES = (
    *("4", "0", "?", "[4]", "4x8", "4x[8]", "?x4", "*", "4x", "-1", "0x4", "04", "4x0", "4 x 8 "),
    *("2x3x4x5x6", "9223372036854775807", "9223372036854775808", "?x?", "[?]", "*x4", "4x*"),
)
#: Behind a memref of one dimension.
LAYOUTS = (
    *("strided<[0]>", "strided<[1]>", "strided<[-1]>", "strided<[?]>", "strided<[?], offset: ?>"),
    *("strided<[1], offset: 0>", "strided<[1], offset: -5>", "strided<[]>", "strided<[1, 1]>"),
    *("strided<[-9223372036854775808]>", "strided<[9223372036854775807]>", "strided<[0]>, 3"),
    *("strided<[-9223372036854775807]>", "strided<[1], offset: -9223372036854775808>"),
    *(
        "strided<[1], offset: 9223372036854775807>",
        "strided<[9223372036854775808]>",
        "3, strided<[1]>",
    ),
    *("affine_map<(d0) -> (d0)>", "affine_map<(d0) -> (d0 * 2)>", "affine_map<(d0) -> (0)>"),
    *("affine_map<(d0) -> (d0 floordiv 2, d0 mod 2)>", "affine_map<(d0)[s0] -> (d0 + s0)>"),
    *("affine_map<(d0, d1) -> (d0)>", "affine_map<(d0) -> (-d0)>", "affine_map<(d0) -> ()>"),
    *("strided<[1]>, 3", "strided<[1]>, #gpu.address_space<workgroup>", "strided<[2]>, 3 : i32"),
    *("3", "-1", "3 : i64", '"x"', "#gpu.address_space<global>", "#gpu.address_space<foo>", "unit"),
    *("[1]", "{a = 1}", "1.5", "f32", "true", "0x3", "affine_map<(d0) -> (d0)>, [3]", "@x"),
    *("dense<1> : tensor<2xi32>", "array<i32: 1>", "affine_map<(d0) -> (d0)>, 3, 4"),
    *(
        "strided<[1]>, strided<[1]>",
        "strided<[1], offset: 3>, 0",
        "strided<[01]>",
        "strided<[0x0]>",
    ),
)
MATRIX_LAYOUTS = (
    *(
        "strided<[0, 1]>",
        "strided<[1, 0]>",
        "strided<[0, 0]>",
        "strided<[8, 1]>",
        "strided<[1, 4]>",
    ),
    *("strided<[?, 1]>", "strided<[?, 0]>", "strided<[8, 1], offset: ?>", "strided<[-8, -1]>"),
    *("affine_map<(d0, d1) -> (d1, d0)>", "affine_map<(d0, d1) -> (d0 * 8 + d1)>"),
)
SCALAR_LAYOUTS = (
    *("strided<[]>", "strided<[], offset: 3>", "strided<[], offset: ?>", "strided<[1]>"),
    *("affine_map<() -> ()>", "affine_map<() -> (3)>", "affine_map<()[s0] -> (s0)>"),
)
UNRANKED_LAYOUTS = ("3", "strided<[1]>", "affine_map<(d0) -> (d0)>", '"x"', "unit")
ENCODINGS = ("unit", '"x"', "3", "[1]", "affine_map<(d0) -> (d0)>", "1.0", "#foo")


def _all() -> Iterator[str]:
    yield from BUILTIN
    yield from (f"!llvm.{text}" for text in LLVM)
    yield from (f"!llvm.{frame.format(part)}" for part in PARTS for frame in FRAMES)
    yield from (*GPU, *MAPS)
    for kind in ("vector", "memref", "tensor"):
        for element in ELEMENTS:
            yield from (f"{kind}<{shape}{element}>" for shape in ("4x", "*x", ""))
        yield from (f"{kind}<{shape}xf32>" for shape in SHAPES)
        yield from (f"{kind}<4xf32, {encoding}>" for encoding in ENCODINGS)
    yield from (f"{kind}<{element}>" for kind in ("complex", "tuple") for element in ELEMENTS)
    yield from (f"memref<{extent}xf32, {layout}>" for layout in LAYOUTS for extent in "4?0")
    yield from (f"memref<{rows}x8xf32, {layout}>" for layout in MATRIX_LAYOUTS for rows in "4?0")
    yield from (f"memref<f32, {layout}>" for layout in SCALAR_LAYOUTS)
    yield from (f"memref<*xf32, {layout}>" for layout in UNRANKED_LAYOUTS)


#: Each once.
TYPES = tuple(dict.fromkeys(_all()))
