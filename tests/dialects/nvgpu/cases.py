"""Programs that break a rule, and their nearest legal twins."""

from __future__ import annotations

from tests.dialects.nvgpu.support import Case

_GLOBAL, _SHARED = "memref<128x128xf16>", "memref<64x64xf16, 3>"
_MAP = (
    "!nvgpu.tensormap.descriptor<tensor = {}, swizzle = {}, l2promo = none, oob = zero, "
    "interleave = {}>"
)


def tensor_map(tensor: str, swizzle: str = "none", interleave: str = "none") -> str:
    return _MAP.format(tensor, swizzle, interleave)


def accumulator(vector: str) -> str:
    return f"!nvgpu.warpgroup.accumulator<fragmented = vector<{vector}>>"


def descriptor(memref: str) -> str:
    return f"!nvgpu.warpgroup.descriptor<tensor = memref<{memref}, 3>>"


def copy(count: str, source: str = _GLOBAL, target: str = _SHARED, indices: str = "%i, %j") -> str:
    return (
        f"%t = nvgpu.device_async_copy %source[{indices}], %target[%i, %j], {count} "
        f": {source} to {target}"
    )


def _places(source: str = _GLOBAL, target: str = _SHARED) -> dict[str, str]:
    return {"source": source, "target": target}


_STRIDED = "memref<128x128xf16, strided<[256, 2]>>"
_STRIDED_SHARED = "memref<64x64xf16, strided<[128, 2]>, 3>"

COPIES = [
    Case(
        "device_async_copy",
        "nvgpu-stride",
        "expected 'src' to have stride 1 in its last dimension",
        copy("8", _STRIDED),
        copy("8"),
        _places(_STRIDED),
        _places(),
    ),
    Case(
        "device_async_copy",
        "nvgpu-stride",
        "expected 'dst' to have stride 1 in its last dimension",
        copy("8", target=_STRIDED_SHARED),
        copy("8", "memref<?x?xf16, strided<[?, 1], offset: ?>>"),
        _places(target=_STRIDED_SHARED),
        _places("memref<?x?xf16, strided<[?, 1], offset: ?>>"),
    ),
    Case(
        "device_async_copy",
        "nvgpu-memory-space",
        "expected 'dst' to lie in shared memory",
        copy("8", target="memref<64x64xf16, 1>"),
        copy("8", target="memref<64x64xf16, #gpu.address_space<workgroup>>"),
        _places(target="memref<64x64xf16, 1>"),
        _places(target="memref<64x64xf16, #gpu.address_space<workgroup>>"),
    ),
    Case(
        "device_async_copy",
        "nvgpu-element-type",
        "expected 'dst' to have the element type 'f16' of 'src', got 'bf16'",
        copy("8", target="memref<64x64xbf16, 3>"),
        copy("8"),
        _places(target="memref<64x64xbf16, 3>"),
        _places(),
    ),
    Case(
        "device_async_copy",
        "nvgpu-index-count",
        "expected 2 indices of 'src', got 1",
        copy("8", indices="%i"),
        copy("8"),
        _places(),
    ),
    Case(
        "device_async_copy",
        "nvgpu-copy-size",
        "which is one of 2, 4, 8 of elements of 'f16', got 16",
        copy("16"),
        copy("2"),
        _places(),
    ),
    Case(
        "device_async_copy",
        "nvgpu-copy-size",
        "expected to copy 16 bytes past the L1 cache, which is 8 elements of 'f16', got 4",
        copy("4 {bypassL1}"),
        copy("8 {bypassL1}"),
        _places(),
    ),
    Case(
        "device_async_copy",
        "operand-type",
        "operand #0 ('dst') must be a ranked memref, but got 'memref<*xf16>'",
        copy("8", target="memref<*xf16>"),
        copy("8"),
        _places(target="memref<*xf16>"),
        _places(),
    ),
    Case(
        "device_async_create_group",
        "value-type-mismatch",
        "'!nvgpu.device.async.token' vs 'index'",
        "%g = nvgpu.device_async_create_group %i",
        "%g = nvgpu.device_async_create_group %at",
    ),
    Case(
        "device_async_wait",
        "nvgpu-group-count",
        "expected a number of groups in numGroups, got -1",
        "nvgpu.device_async_wait %at {numGroups = -1 : i32}",
        "nvgpu.device_async_wait %at {numGroups = 0 : i32}",
    ),
    Case(
        "device_async_wait",
        "property-kind",
        "property 'numGroups' must be a 32-bit integer",
        "nvgpu.device_async_wait %at {numGroups = 1}",
        "nvgpu.device_async_wait %at {numGroups = 1 : i32}",
    ),
]


def load(
    result: str, attributes: str = "numTiles = 4 : i32, transpose = false", memref: str = _SHARED
) -> str:
    return f"%r = nvgpu.ldmatrix %tile[%i, %j] {{{attributes}}} : {memref} -> vector<{result}>"


def _tile(memref: str = _SHARED) -> dict[str, str]:
    return {"tile": memref}


MATRICES = [
    Case(
        "ldmatrix",
        "nvgpu-memory-space",
        "expected 'srcMemref' to lie in shared memory",
        load("4x2xf16", memref=_GLOBAL),
        load("4x2xf16"),
        _tile(_GLOBAL),
        _tile(),
    ),
    Case(
        "ldmatrix",
        "nvgpu-element-type",
        "expected the result to have the element type 'f16' of 'srcMemref', got 'bf16'",
        load("4x2xbf16"),
        load("4x2xf16"),
        _tile(),
    ),
    Case(
        "ldmatrix",
        "nvgpu-element-type",
        "expected elements of which some fill 32 bits, got 'f64'",
        load("4x1xf64", memref="memref<64x64xf64, 3>"),
        load("4x1xf32", memref="memref<64x64xf32, 3>"),
        _tile("memref<64x64xf64, 3>"),
        _tile("memref<64x64xf32, 3>"),
    ),
    Case(
        "ldmatrix",
        "nvgpu-ldmatrix",
        "expected elements of 16 bits to transpose, got 'i8'",
        load("4x4xi8", "numTiles = 4 : i32, transpose = true", "memref<64x64xi8, 3>"),
        load("4x4xi8", memref="memref<64x64xi8, 3>"),
        _tile("memref<64x64xi8, 3>"),
    ),
    Case(
        "ldmatrix",
        "nvgpu-ldmatrix",
        "expected numTiles to be 1, 2 or 4, got 3",
        load("3x2xf16", "numTiles = 3 : i32, transpose = false"),
        load("2x2xf16", "numTiles = 2 : i32, transpose = true"),
        _tile(),
    ),
    Case(
        "ldmatrix",
        "nvgpu-fragment",
        "expected the result to have the shape 4x2",
        load("2x4xf16"),
        load("4x2xf16"),
        _tile(),
    ),
    Case(
        "ldmatrix",
        "nvgpu-index-count",
        "expected 2 indices of 'srcMemref', got 1",
        load("4x2xf16").replace("[%i, %j]", "[%i]"),
        load("4x2xf16"),
        _tile(),
    ),
    Case(
        "ldmatrix",
        "missing-property",
        "property 'transpose' is missing: it must be a boolean",
        load("4x2xf16", "numTiles = 4 : i32"),
        load("4x2xf16"),
        _tile(),
    ),
]


def product(a: str, b: str, c: str, attributes: str, result: str = "", sparse: bool = False) -> str:
    name, metadata = ("mma.sp.sync", " metadata(%meta)") if sparse else ("mma.sync", "")
    return (
        f"%r = nvgpu.{name}(%x, %y, %z){metadata} {{{attributes}}} : "
        f"(vector<{a}>, vector<{b}>, vector<{c}>) -> vector<{result or c}>"
    )


def _factors(a: str, b: str, c: str) -> dict[str, str]:
    return {"x": f"vector<{a}>", "y": f"vector<{b}>", "z": f"vector<{c}>"}


_F16 = ("4x2xf16", "2x2xf16", "2x2xf32")
_LEGAL = product(*_F16, "mmaShape = [16, 8, 16]")

PRODUCTS = [
    Case(
        "mma.sync",
        "nvgpu-mma-type",
        "expected 'matrixB' to have elements of f16 beside 'f16' in 'matrixA', got 'bf16'",
        product("4x2xf16", "2x2xbf16", "2x2xf32", "mmaShape = [16, 8, 16]"),
        _LEGAL,
        _factors("4x2xf16", "2x2xbf16", "2x2xf32"),
        _factors(*_F16),
    ),
    Case(
        "mma.sync",
        "nvgpu-mma-type",
        "expected 'matrixA' to be of one of f16, bf16, f32, f64, i8, i4, f8E4M3FN, f8E5M2, got 'i16'",
        product("4x2xi16", "2x2xi16", "2x2xi32", "mmaShape = [16, 8, 16]"),
        _LEGAL,
        _factors("4x2xi16", "2x2xi16", "2x2xi32"),
        _factors(*_F16),
    ),
    Case(
        "mma.sync",
        "nvgpu-mma-type",
        "expected 'matrixC' to have elements of i32 beside 'i8' in 'matrixA', got 'f32'",
        product("4x4xi8", "2x4xi8", "2x2xf32", "mmaShape = [16, 8, 32]"),
        product("4x4xi8", "2x4xi8", "2x2xi32", "mmaShape = [16, 8, 32]"),
        _factors("4x4xi8", "2x4xi8", "2x2xf32"),
        _factors("4x4xi8", "2x4xi8", "2x2xi32"),
    ),
    Case(
        "mma.sync",
        "nvgpu-mma-type",
        "expected 'res' to have elements of f32 beside 'f16' in 'matrixA', got 'f16'",
        product(*_F16, "mmaShape = [16, 8, 16]", "2x2xf16"),
        _LEGAL,
        _factors(*_F16),
    ),
    Case(
        "mma.sync",
        "nvgpu-mma-shape",
        "expected mmaShape to be one of [16, 8, 8], [16, 8, 16] for elements of 'f16', got "
        "[16, 8, 32]",
        product("8x2xf16", "4x2xf16", "2x2xf32", "mmaShape = [16, 8, 32]"),
        product("2x2xf16", "1x2xf16", "2x2xf32", "mmaShape = [16, 8, 8]"),
        _factors("8x2xf16", "4x2xf16", "2x2xf32"),
        _factors("2x2xf16", "1x2xf16", "2x2xf32"),
    ),
    Case(
        "mma.sync",
        "nvgpu-mma-shape",
        "got [16, 8]",
        product(*_F16, "mmaShape = [16, 8]"),
        _LEGAL,
        _factors(*_F16),
    ),
    Case(
        "mma.sync",
        "nvgpu-fragment",
        "expected 'matrixB' to have the shape 2x2, got 'vector<1x4xf16>'",
        product("4x2xf16", "1x4xf16", "2x2xf32", "mmaShape = [16, 8, 16]"),
        _LEGAL,
        _factors("4x2xf16", "1x4xf16", "2x2xf32"),
        _factors(*_F16),
    ),
    Case(
        "mma.sync",
        "nvgpu-tf32",
        "expected operands of f32 where tf32Enabled is given, got 'f16'",
        product(*_F16, "mmaShape = [16, 8, 16], tf32Enabled"),
        product("4x1xf32", "2x1xf32", "2x2xf32", "mmaShape = [16, 8, 8], tf32Enabled"),
        _factors(*_F16),
        _factors("4x1xf32", "2x1xf32", "2x2xf32"),
    ),
    *(
        Case(
            "mma.sync",
            "nvgpu-mma-type",
            f"expected operands of integers where {name} is given, got 'f16'",
            product(*_F16, f"mmaShape = [16, 8, 16], {name}"),
            product("4x4xi8", "2x4xi8", "2x2xi32", f"mmaShape = [16, 8, 32], {name}"),
            _factors(*_F16),
            _factors("4x4xi8", "2x4xi8", "2x2xi32"),
        )
        for name in ("wraps", "unsignedA", "unsignedB")
    ),
    Case(
        "mma.sync",
        "nvgpu-mma-type",
        "expected 'matrixB' to have elements of f8E4M3FN or f8E5M2 beside 'f8E4M3FN' in 'matrixA', got 'i8'",
        product("4x4xf8E4M3FN", "2x4xi8", "2x2xf32", "mmaShape = [16, 8, 32]"),
        product("4x4xf8E4M3FN", "2x4xf8E5M2", "2x2xf32", "mmaShape = [16, 8, 32]"),
        _factors("4x4xf8E4M3FN", "2x4xi8", "2x2xf32"),
        _factors("4x4xf8E4M3FN", "2x4xf8E5M2", "2x2xf32"),
    ),
    Case(
        "mma.sp.sync",
        "nvgpu-mma-type",
        "expected 'matrixA' to be of one of f16, bf16, f32, i8, i4, got 'f64'",
        product("1x1xf64", "1x1xf64", "1x2xf64", "mmaShape = [8, 8, 4]", sparse=True),
        product("4x2xf16", "4x2xf16", "2x2xf16", "mmaShape = [16, 8, 32]", sparse=True),
        _factors("1x1xf64", "1x1xf64", "1x2xf64"),
        _factors("4x2xf16", "4x2xf16", "2x2xf16"),
    ),
    Case(
        "mma.sp.sync",
        "nvgpu-sparsity",
        "expected sparsitySelector to be 0 or 1, got 2",
        product(
            "4x4xi8",
            "4x4xi8",
            "2x2xi32",
            "mmaShape = [16, 8, 64], sparsitySelector = 2 : i32",
            sparse=True,
        ),
        product("4x4xi8", "4x4xi8", "2x2xi32", "mmaShape = [16, 8, 64]", sparse=True),
        _factors("4x4xi8", "4x4xi8", "2x2xi32"),
    ),
    Case(
        "rcp",
        "nvgpu-rcp",
        "expected the rounding 'approx', got 'rn'",
        "%r = nvgpu.rcp %v {rounding = rn, ftz} : vector<2x2xf32>",
        "%r = nvgpu.rcp %v {rounding = approx, ftz} : vector<2x2xf32>",
    ),
    Case(
        "rcp",
        "nvgpu-rcp",
        "expected 'ftz'",
        "%r = nvgpu.rcp %v {rounding = approx} : vector<2x2xf32>",
        "%r = nvgpu.rcp %v {rounding = approx, ftz} : vector<2x2xf32>",
    ),
]

_BARRIERS = "!nvgpu.mbarrier.group<memorySpace = 3, num_barriers = {}>"

BARRIERS = [
    Case(
        "mbarrier.create",
        "invalid-attribute",
        "num_barriers must be at least 1 and fit 32 bits, got 0",
        "%nb = nvgpu.mbarrier.create -> " + _BARRIERS.format(0),
        "%nb = nvgpu.mbarrier.create -> " + _BARRIERS.format(1),
    ),
    Case(
        "mbarrier.create",
        "result-type",
        "result #0 ('barriers') must be an mbarrier.group, but got 'i64'",
        "%nb = nvgpu.mbarrier.create -> i64",
        "%nb = nvgpu.mbarrier.create -> <memorySpace = 3>",
    ),
    Case(
        "mbarrier.get",
        "result-type",
        "must be an i32 or i64, but got 'index'",
        "%at8 = nvgpu.mbarrier.get %bars[%i] : !bars -> index",
        "%at8 = nvgpu.mbarrier.get %bars[%i] : !bars -> i32",
    ),
    Case(
        "mbarrier.init",
        "value-type-mismatch",
        "'index' vs 'i1'",
        "nvgpu.mbarrier.init %bars[%i], %p : !bars",
        "nvgpu.mbarrier.init %bars[%i], %n, predicate = %p : !bars",
    ),
    Case(
        "mbarrier.arrive",
        "result-type",
        "result #0 ('token') must be an mbarrier.token, but got 'i64'",
        "%t = nvgpu.mbarrier.arrive %bars[%i] : !bars -> i64",
        "%t = nvgpu.mbarrier.arrive %bars[%i] : !bars -> !nvgpu.mbarrier.token",
    ),
    Case(
        "mbarrier.arrive.nocomplete",
        "syntax",
        "expected ','",
        "%t = nvgpu.mbarrier.arrive.nocomplete %bars[%i] : !bars -> !nvgpu.mbarrier.token",
        "%t = nvgpu.mbarrier.arrive.nocomplete %bars[%i], %n : !bars -> !nvgpu.mbarrier.token",
    ),
    Case(
        "mbarrier.arrive.expect_tx",
        "syntax",
        "expected 'predicate'",
        "nvgpu.mbarrier.arrive.expect_tx %bars[%i], %n, %p : !bars",
        "nvgpu.mbarrier.arrive.expect_tx %bars[%i], %n, predicate = %p : !bars",
    ),
    Case(
        "mbarrier.test.wait",
        "operand-type",
        "operand #1 ('token') must be an mbarrier.token, but got 'index'",
        "%d = nvgpu.mbarrier.test.wait %bars[%i], %n : !bars, index",
        "%d = nvgpu.mbarrier.test.wait %bars[%i], %mt : !bars, !nvgpu.mbarrier.token",
    ),
    Case(
        "mbarrier.try_wait.parity",
        "value-type-mismatch",
        "'i1' vs 'index'",
        "nvgpu.mbarrier.try_wait.parity %bars[%i], %n, %n : !bars",
        "nvgpu.mbarrier.try_wait.parity %bars[%i], %p, %n : !bars",
    ),
]


def tma_load(box: str, tile: str, coordinates: str = "%i, %j", **options: str) -> str:
    ty = tensor_map(f"memref<{box}>", **options)
    return (
        f"nvgpu.tma.async.load %m[{coordinates}], %bars[%i] to %t : {ty}, !bars -> memref<{tile}>"
    )


def tma_store(box: str, tile: str, coordinates: str = "%i, %j") -> str:
    ty = tensor_map(f"memref<{box}>")
    return f"nvgpu.tma.async.store %t to %m[{coordinates}] : memref<{tile}> -> {ty}"


def _moved(box: str, tile: str, **options: str) -> dict[str, str]:
    return {"m": tensor_map(f"memref<{box}>", **options), "t": f"memref<{tile}>"}


_BOX = "64x64xf16, 3"
_LOAD, _MOVED = tma_load(_BOX, _BOX), _moved(_BOX, _BOX)

TMA = [
    Case(
        "tma.async.load",
        "nvgpu-tensor-map",
        "expected a tensor map that is not interleaved, got 'interleave_16b'",
        tma_load(_BOX, _BOX, interleave="interleave_16b"),
        _LOAD,
        _moved(_BOX, _BOX, interleave="interleave_16b"),
        _MOVED,
    ),
    Case(
        "tma.async.load",
        "nvgpu-tensor-map",
        "expected the box of the tensor map to lie in shared memory",
        tma_load("64x64xf16", _BOX),
        _LOAD,
        _moved("64x64xf16", _BOX),
        _MOVED,
    ),
    Case(
        "tma.async.load",
        "nvgpu-tensor-map",
        "expected the box of the tensor map to have static extents",
        tma_load("?x64xf16, 3", _BOX),
        _LOAD,
        _moved("?x64xf16, 3", _BOX),
        _MOVED,
    ),
    Case(
        "tma.async.load",
        "nvgpu-tensor-map",
        "expected the extents of the box to be from 1 to 256, got 257",
        tma_load("257x64xf16, 3", "257x64xf16, 3"),
        tma_load("256x64xf16, 3", "256x64xf16, 3"),
        _moved("257x64xf16, 3", "257x64xf16, 3"),
        _moved("256x64xf16, 3", "256x64xf16, 3"),
    ),
    Case(
        "tma.async.load",
        "nvgpu-tensor-map",
        "expected rows of 128 bytes in a swizzled box, got 64 bytes",
        tma_load("64x32xf16, 3", "64x32xf16, 3", swizzle="swizzle_128b"),
        tma_load("64x32xf16, 3", "64x32xf16, 3", swizzle="swizzle_64b"),
        _moved("64x32xf16, 3", "64x32xf16, 3", swizzle="swizzle_128b"),
        _moved("64x32xf16, 3", "64x32xf16, 3", swizzle="swizzle_64b"),
    ),
    Case(
        "tma.async.load",
        "nvgpu-box",
        "expected 'dst' to have the element type 'f16' of the tensor map, got 'bf16'",
        tma_load(_BOX, "64x64xbf16, 3"),
        _LOAD,
        _moved(_BOX, "64x64xbf16, 3"),
        _MOVED,
    ),
    Case(
        "tma.async.load",
        "nvgpu-box",
        "expected 'dst' to have static extents",
        tma_load(_BOX, "?x64xf16, 3"),
        _LOAD,
        _moved(_BOX, "?x64xf16, 3"),
        _MOVED,
    ),
    Case(
        "tma.async.load",
        "nvgpu-box",
        "expected 'dst' to have the shape 64x64 of the tensor map's box, got 4096",
        tma_load(_BOX, "4096xf16, 3"),
        _LOAD,
        _moved(_BOX, "4096xf16, 3"),
        _MOVED,
    ),
    Case(
        "tma.async.load",
        "nvgpu-memory-space",
        "expected 'dst' to lie in shared memory",
        tma_load(_BOX, "64x64xf16"),
        tma_load(_BOX, "64x64xf16, #gpu.address_space<workgroup>"),
        _moved(_BOX, "64x64xf16"),
        _moved(_BOX, "64x64xf16, #gpu.address_space<workgroup>"),
    ),
    Case(
        "tma.async.load",
        "nvgpu-index-count",
        "expected 2 of 'coordinates', one for each dimension of the tensor map, got 3",
        tma_load(_BOX, _BOX, "%i, %j, %n"),
        _LOAD,
        _MOVED,
    ),
    Case(
        "tma.async.load",
        "nvgpu-index-count",
        "expected at most 5 of 'coordinates', got 6",
        tma_load("2x2x2x2x2x8xf16, 3", "2x2x2x2x2x8xf16, 3", "%i, %i, %i, %i, %i, %i"),
        tma_load("2x2x2x2x8xf16, 3", "2x2x2x2x8xf16, 3", "%i, %i, %i, %i, %i"),
        _moved("2x2x2x2x2x8xf16, 3", "2x2x2x2x2x8xf16, 3"),
        _moved("2x2x2x2x8xf16, 3", "2x2x2x2x8xf16, 3"),
    ),
    Case(
        "tma.async.store",
        "nvgpu-box",
        "expected 'src' to have the shape 64x64 of the tensor map's box, got 64x32",
        tma_store(_BOX, "64x32xf16, 3"),
        tma_store(_BOX, _BOX),
        _moved(_BOX, "64x32xf16, 3"),
        _MOVED,
    ),
    Case(
        "tma.create.descriptor",
        "nvgpu-index-count",
        "expected 2 of 'boxDimensions', one for each dimension of the tensor map, got 1",
        "%m = nvgpu.tma.create.descriptor %unranked box[%i] : memref<*xf16> -> !map",
        "%m = nvgpu.tma.create.descriptor %unranked box[%i, %j] : memref<*xf16> -> !map",
    ),
    Case(
        "tma.prefetch.descriptor",
        "operand-type",
        "must be a tensormap.descriptor, but got 'index'",
        "nvgpu.tma.prefetch.descriptor %i : index",
        "nvgpu.tma.prefetch.descriptor %map : !map",
    ),
    Case(
        "tma.fence.descriptor",
        "nvgpu-type-parameter",
        "'!nvgpu.tensormap.descriptor' needs the parameter 'interleave'",
        "nvgpu.tma.fence.descriptor %map : "
        "<tensor = memref<64x64xf16, 3>, swizzle = none, l2promo = none, oob = zero>",
        "nvgpu.tma.fence.descriptor %map : <tensor = memref<64x64xf16, 3>, swizzle = swizzle_128b, "
        "l2promo = none, oob = zero, interleave = none>",
    ),
]


def generate(memref: str, box: str, result: str = "", swizzle: str = "swizzle_128b") -> str:
    ty = tensor_map(f"memref<{box}>", swizzle)
    made = f"!nvgpu.warpgroup.descriptor<tensor = memref<{result or memref}>>"
    return f"%d = nvgpu.warpgroup.generate.descriptor %t, %m : memref<{memref}>, {ty} -> {made}"


def wgmma(a: str, b: str, c: str, attributes: str = "", result: str = "") -> str:
    return (
        f"%d = nvgpu.warpgroup.mma %x, %y, %z {{{attributes}}} : {descriptor(a)}, {descriptor(b)}, "
        f"{accumulator(c)} -> {accumulator(result or c)}"
    )


def _matrices(a: str, b: str, c: str) -> dict[str, str]:
    return {"x": descriptor(a), "y": descriptor(b), "z": accumulator(c)}


def _wrong(code: str, says: str, bad: tuple[str, str, str], good: tuple[str, str, str]) -> Case:
    return Case(
        "warpgroup.mma", code, says, wgmma(*bad), wgmma(*good), _matrices(*bad), _matrices(*good)
    )


_WGMMA = ("128x64xf16", "64x128xf16", "128x128xf32")
_TALL = "128x64xf16, 3"


def _store(acc: str, memref: str) -> str:
    return f"nvgpu.warpgroup.mma.store %x, %t : {accumulator(acc)} to memref<{memref}>"


def _stored(acc: str, memref: str) -> dict[str, str]:
    return {"x": accumulator(acc), "t": f"memref<{memref}>"}


WARPGROUPS = [
    Case(
        "warpgroup.generate.descriptor",
        "nvgpu-descriptor",
        "expected a tensor map with swizzle_128b, got 'none'",
        generate(_BOX, _BOX, swizzle="none"),
        generate(_TALL, _BOX),
        _moved(_BOX, _BOX),
        _moved(_BOX, _TALL, swizzle="swizzle_128b"),
    ),
    Case(
        "warpgroup.generate.descriptor",
        "nvgpu-descriptor",
        "expected a descriptor of 'memref<64x64xf16, 3 : i64>'",
        generate(_BOX, _BOX, _TALL),
        generate(_BOX, _BOX),
        _moved(_BOX, _BOX, swizzle="swizzle_128b"),
    ),
    Case(
        "warpgroup.generate.descriptor",
        "nvgpu-memory-space",
        "expected 'tensor' to lie in shared memory",
        generate("64x64xf16", _BOX),
        generate(_BOX, _BOX),
        _moved(_BOX, "64x64xf16", swizzle="swizzle_128b"),
        _moved(_BOX, _BOX, swizzle="swizzle_128b"),
    ),
    Case(
        "warpgroup.mma",
        "nvgpu-wgmma-transpose",
        "expected A by rows, got transposeA without transposeB",
        wgmma(*_WGMMA, "transposeA"),
        wgmma(*_WGMMA, "transposeA, transposeB"),
        _matrices(*_WGMMA),
    ),
    Case(
        "warpgroup.mma",
        "nvgpu-group-count",
        "expected a number of products in waitGroup, got -1",
        wgmma(*_WGMMA, "waitGroup = -1 : i32"),
        wgmma(*_WGMMA, "waitGroup = 0 : i32"),
        _matrices(*_WGMMA),
    ),
    Case(
        "warpgroup.mma",
        "nvgpu-wgmma-type",
        "expected the result to have the type of 'matrixC'",
        wgmma(*_WGMMA, result="128x128xf16"),
        wgmma(*_WGMMA),
        _matrices(*_WGMMA),
    ),
    _wrong(
        "nvgpu-wgmma-type",
        "there is no product of 'f16' and 'bf16' with accumulators of 'f32'",
        ("128x64xf16", "64x128xbf16", "128x128xf32"),
        ("128x64xbf16", "64x128xbf16", "128x128xf32"),
    ),
    _wrong(
        "nvgpu-wgmma-type",
        "there is no product of 'bf16' and 'bf16' with accumulators of 'f16'",
        ("128x64xbf16", "64x128xbf16", "128x128xf16"),
        ("128x64xf16", "64x128xf16", "128x128xf16"),
    ),
    _wrong(
        "nvgpu-wgmma-shape",
        "expected 'descriptorA' to be a matrix of known extents",
        ("8192xf16", "64x128xf16", "128x128xf32"),
        _WGMMA,
    ),
    _wrong(
        "nvgpu-wgmma-shape",
        "expected as many rows of B as columns of A, 64, got 32",
        ("128x64xf16", "32x128xf16", "128x128xf32"),
        _WGMMA,
    ),
    _wrong(
        "nvgpu-wgmma-shape",
        "expected as many rows of C as of A, 64, got 128",
        ("64x64xf16", "64x128xf16", "128x128xf32"),
        _WGMMA,
    ),
    _wrong(
        "nvgpu-wgmma-shape",
        "expected as many columns of C as of B, 64, got 128",
        ("128x64xf16", "64x64xf16", "128x128xf32"),
        _WGMMA,
    ),
    _wrong(
        "nvgpu-wgmma-shape",
        "expected the rows of the accumulator to be a multiple of 64, got 96",
        ("96x64xf16", "64x128xf16", "96x128xf32"),
        ("192x64xf16", "64x128xf16", "192x128xf32"),
    ),
    _wrong(
        "nvgpu-wgmma-shape",
        "expected the columns of the accumulator to be a multiple of 8, up to 256, got 260",
        ("64x64xf16", "64x260xf16", "64x260xf32"),
        ("64x64xf16", "64x256xf16", "64x256xf32"),
    ),
    _wrong(
        "nvgpu-wgmma-shape",
        "expected the columns of the accumulator to be 8, 24 or a multiple of 16, up to 256, got 40",
        ("64x64xi8", "64x40xi8", "64x40xi32"),
        ("64x64xi8", "64x24xi8", "64x24xi32"),
    ),
    Case(
        "warpgroup.mma.init.accumulator",
        "nvgpu-wgmma-shape",
        "expected the rows of the accumulator to be a multiple of 64, got 32",
        f"%z = nvgpu.warpgroup.mma.init.accumulator -> {accumulator('32x64xf32')}",
        f"%z = nvgpu.warpgroup.mma.init.accumulator -> {accumulator('64x64xf32')}",
    ),
    Case(
        "warpgroup.mma.init.accumulator",
        "nvgpu-wgmma-shape",
        "expected the accumulator to be a matrix, got 'vector<64xf32>'",
        f"%z = nvgpu.warpgroup.mma.init.accumulator -> {accumulator('64xf32')}",
        f"%z = nvgpu.warpgroup.mma.init.accumulator -> {accumulator('64x8xf32')}",
    ),
    Case(
        "warpgroup.mma.init.accumulator",
        "nvgpu-wgmma-type",
        "expected accumulators of f16, f32 or i32, got 'vector<64x64xbf16>'",
        f"%z = nvgpu.warpgroup.mma.init.accumulator -> {accumulator('64x64xbf16')}",
        f"%z = nvgpu.warpgroup.mma.init.accumulator -> {accumulator('64x64xf16')}",
    ),
    Case(
        "warpgroup.mma.store",
        "nvgpu-wgmma-store",
        "expected accumulators of f16, f32 or i32",
        _store("64x64xbf16", "64x64xbf16, 3"),
        _store("64x64xf16", "64x64xf16, 3"),
        _stored("64x64xbf16", "64x64xbf16, 3"),
        _stored("64x64xf16", "64x64xf16, 3"),
    ),
    Case(
        "warpgroup.mma.store",
        "nvgpu-wgmma-store",
        "expected 'dstMemref' to have the elements 'f32' of the accumulator",
        _store("64x64xf32", "64x64xf16, 3"),
        _store("64x64xf32", "64x64xf32, 3"),
        _stored("64x64xf32", "64x64xf16, 3"),
        _stored("64x64xf32", "64x64xf32, 3"),
    ),
    Case(
        "warpgroup.mma.store",
        "nvgpu-wgmma-store",
        "expected 'dstMemref' to have the shape 64x64 of the accumulator, got 64x32",
        _store("64x64xf32", "64x32xf32"),
        _store("64x64xf32", "64x64xf32"),
        _stored("64x64xf32", "64x32xf32"),
        _stored("64x64xf32", "64x64xf32"),
    ),
]

CASES = [*COPIES, *MATRICES, *PRODUCTS, *BARRIERS, *TMA, *WARPGROUPS]
