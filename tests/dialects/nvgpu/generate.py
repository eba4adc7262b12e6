"""Families of programs around each rule of the dialect, legal and illegal ones, all in order.

Each item is a body for ``examples.wrap`` with the parameters that it needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tests.dialects.nvgpu.cases import accumulator, tensor_map
from tests.dialects.nvgpu.support import Parameters

Program = tuple[str, Parameters]

ELEMENTS = [
    "f16",
    "bf16",
    "f32",
    "tf32",
    "f64",
    "f8E4M3FN",
    "f8E5M2",
    "i1",
    "i3",
    "i4",
    "i8",
    "i16",
    "i32",
]
WIDTHS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "i8": 8, "i4": 4, "i16": 16}
SPACES = ("", ", 1", ", 3", ", 3 : i32", ", #gpu.address_space<workgroup>", ', "shared"')
_SWIZZLES = ("none", "swizzle_32b", "swizzle_128b")


def copies() -> Iterator[Program]:
    """Asynchronous copies of every size, element type, layout, space and number of indices."""
    for element, count, bypass in product(
        ELEMENTS, (0, 1, 2, 3, 4, 8, 16, 32, -4), ("", "{bypassL1}")
    ):
        source, target = f"memref<8x8x{element}>", f"memref<8x8x{element}, 3>"
        yield (
            f"%q = nvgpu.device_async_copy %s[%i, %j], %d[%i, %j], {count} {bypass} "
            f": {source} to {target}",
            {"s": source, "d": target},
        )
    layouts = (
        "8x8xf32",
        "8xf32",
        "f32",
        "8x8xf32, strided<[8, 1]>",
        "8x8xf32, strided<[8, 2]>",
        "8x8xf32, strided<[?, ?], offset: ?>",
        "?x?xf32, strided<[?, 1], offset: ?>",
        "8x8xf32, affine_map<(d0, d1) -> (d0 * 8 + d1)>",
        "8x8xf32, affine_map<(d0, d1) -> (d1 * 8 + d0)>",
    )
    targets = [f"memref<8x8xf32{space}>" for space in SPACES]
    targets += ["memref<8x8xf32, strided<[8, 2]>, 3>", "memref<8x8xf16, 3>"]
    for layout, target, indices in product(layouts, targets, ("", "%i", "%i, %j")):
        source = f"memref<{layout}>"
        yield (
            f"%q = nvgpu.device_async_copy %s[{indices}], %d[%i, %j], 4 : {source} to {target}",
            {"s": source, "d": target},
        )


def groups() -> Iterator[Program]:
    for tokens in ("{}", "%at", "%at, %at {x}", "%i", "%at : index", "(%at)"):
        yield f"%g = nvgpu.device_async_create_group {tokens}", {}
    for tail in (
        "",
        "%at",
        "%i",
        "%at, %at",
        "%at {numGroups = 1 : i32}",
        "%at {numGroups = 1}",
        "%at {numGroups = -1 : i32}",
        '%at {"numGroups" = 1 : i32}',
        "%at {numGroups}",
        "%at {other}",
    ):
        yield f"nvgpu.device_async_wait {tail}", {}


def loads() -> Iterator[Program]:
    """``ldmatrix`` of every element type, number and shape."""
    for element, transpose, count in product(ELEMENTS, ("true", "false"), (0, 1, 2, 3, 4)):
        memref = f"memref<8x8x{element}, 3>"
        for shape in (f"{count}x1", f"{count}x2", f"{count}x4", f"{count}x8", "4x32"):
            yield (
                f"%q = nvgpu.ldmatrix %m[%i, %j] {{numTiles = {count} : i32, "
                f"transpose = {transpose}}} : {memref} -> vector<{shape}x{element}>",
                {"m": memref},
            )
    results = ("4x2xf16", "4x2xf32", "4x2xbf16", "8xf16", "1x4x2xf16", "[4]x2xf16")
    attributes = (
        "numTiles = 4 : i32, transpose = false",
        "numTiles = 4, transpose = false",
        "numTiles = 4 : i32",
        "numTiles = 4 : i32, transpose = 1 : i32",
    )
    for space, result, attribute in product(SPACES, results, attributes):
        memref = f"memref<8x8xf16{space}>"
        yield (
            f"%q = nvgpu.ldmatrix %m[%i, %j] {{{attribute}}} : {memref} -> vector<{result}>",
            {"m": memref},
        )


def products() -> Iterator[Program]:
    """Dense and sparse products of every type and extent, with right and wrong fragments."""
    accumulators = {"f16": ("f16", "f32"), "bf16": ("f32", "bf16"), "f32": ("f32",)}
    accumulators |= {"f64": ("f64",), "i8": ("i32", "i8"), "i4": ("i32",), "i16": ("i32",)}
    for (element, width), m, n, k, sparse in product(
        WIDTHS.items(), (8, 16), (8, 16), (4, 8, 16, 32, 64, 128), (False, True)
    ):
        per_register = 1 if width == 64 else 32 // width
        tiles = k // 4 if width == 64 else k * width // 128
        a = (m // 8 * tiles // (2 if sparse else 1), per_register)
        b, c = (n // 8 * tiles, per_register), (m // 8 * (n // 8), 2)
        if 0 in (*a, *b):
            continue
        for accumulated in accumulators[element]:
            for shapes in ((a, b, c), (a[::-1], b, c), (a, (*b, 1), c), (a, b, (*c[::-1],))):
                names = (element, element, accumulated)
                x, y, z = (
                    f"vector<{'x'.join(map(str, shape))}x{name}>"
                    for shape, name in zip(shapes, names, strict=True)
                )
                head = (
                    "mma.sp.sync(%x, %y, %z) metadata(%meta)" if sparse else "mma.sync(%x, %y, %z)"
                )
                yield (
                    f"%q = nvgpu.{head} {{mmaShape = [{m}, {n}, {k}]}} : ({x}, {y}, {z}) -> {z}",
                    {"x": x, "y": y, "z": z},
                )
    for options in ("sparsitySelector = 1 : i32", "sparsitySelector = 2 : i32", "tf32Enabled"):
        x, z = "vector<4x2xf16>", "vector<2x2xf16>"
        yield (
            f"%q = nvgpu.mma.sp.sync(%x, %x, %z) metadata(%meta) {{mmaShape = [16, 8, 32], {options}}} "
            f": ({x}, {x}, {z}) -> {z}",
            {"x": x, "z": z},
        )


def reciprocals() -> Iterator[Program]:
    modes = (
        "{rounding = approx, ftz}",
        "{rounding = approx}",
        "{rounding = rn, ftz}",
        "{rounding = rp}",
        "{ftz}",
        "",
        "{rounding = foo, ftz}",
        "{rounding = approx, ftz} {other}",
        "{rounding = approx, ftz, other}",
    )
    types = ("vector<2x2xf32>", "vector<4xf32>", "vector<4xf16>", "f32", "vector<f32>")
    for ty, mode in product(types, modes):
        yield f"%y = nvgpu.rcp %x {mode} : {ty}", {"x": ty}


def barriers() -> Iterator[Program]:
    """Barrier operations, rightly and wrongly written, on types of all spellings."""
    workgroup = "memorySpace = #gpu.address_space<workgroup>"
    parameters = (
        workgroup,
        f"{workgroup}, num_barriers = 4",
        "memorySpace = 3",
        "memorySpace = 3 : i32, num_barriers = 2",
        "num_barriers = 4, memorySpace = 1",
        'memorySpace = "x"',
        "num_barriers = 4",
        "3",
        f"{workgroup}, num_barriers = 4294967296",
        f"{workgroup}, num_barriers = 4, num_barriers = 4",
        f"{workgroup}, other = 4",
    )
    token = "!nvgpu.mbarrier.token"
    forms = (
        "%new = nvgpu.mbarrier.create -> {t}",
        "%new = nvgpu.mbarrier.create {{x}} -> {t}",
        "nvgpu.mbarrier.init %g[%i], %n : {t}",
        "nvgpu.mbarrier.init %g[%i], %n, predicate = %p : {t}",
        "nvgpu.mbarrier.init %g, %n : {t}",
        "nvgpu.mbarrier.init %g[%i, %i], %n : {t}",
        "nvgpu.mbarrier.init %g[%i], %p : {t}",
        "nvgpu.mbarrier.init %g[%i], %n predicate = %p : {t}",
        "%x = nvgpu.mbarrier.arrive %g[%i] : {t} -> " + token,
        "%x = nvgpu.mbarrier.arrive %g[%i] : {t} -> i64",
        "%x = nvgpu.mbarrier.arrive %g[%i] : {t}",
        "%x = nvgpu.mbarrier.arrive.nocomplete %g[%i], %n : {t} -> " + token,
        "nvgpu.mbarrier.arrive.expect_tx %g[%i], %n : {t}",
        "nvgpu.mbarrier.arrive.expect_tx %g[%i], %n, predicate = %p {{x = 1}} : {t}",
        "nvgpu.mbarrier.arrive.expect_tx %g[%i], %n, predicate = %n : {t}",
        "%x = nvgpu.mbarrier.test.wait %g[%i], %mt : {t}, " + token,
        "%x = nvgpu.mbarrier.test.wait %g[%i], %n : {t}, index",
        "nvgpu.mbarrier.try_wait.parity %g[%i], %p, %n : {t}",
        "nvgpu.mbarrier.try_wait.parity %g[%i], %i, %n : {t}",
    )
    for written, form in product(parameters, forms):
        full = f"!nvgpu.mbarrier.group<{written}>"
        for ty in (full, f"<{written}>"):
            yield form.format(t=ty), {"g": full}
    for ty in ("!nvgpu.mbarrier.group", "i64", "memref<4xi64, 3>"):
        yield f"nvgpu.mbarrier.init %g[%i], %n : {ty}", {"g": ty}


def tensor_maps() -> Iterator[Program]:
    """Loads and stores of boxes of every shape, and memrefs that hold them or do not."""
    boxes = (
        "64x64xf16, 3",
        "64x64xf16",
        "64x32xf32, 3",
        "64xf16, 3",
        "7xf16, 3",
        "f16, 3",
        "?x64xf16, 3",
        "64x0xf16, 3",
        "257x64xf16, 3",
        "256x64xf16, 3",
        "64x8xf16, 3",
        "64x7xf16, 3",
        "64x128xi8, 3",
        "64x128xf8E4M3FN, 3",
        "64x32xtf32, 3",
        "64x256xi4, 3",
        "64x16xf64, 3",
        "2x2x2x2x2x8xf16, 3",
        "2x2x2x2x8xf16, 3",
        "64x64xf16, #gpu.address_space<workgroup>",
        "64x64xf16, strided<[128, 1]>, 3",
    )
    for box, swizzle in product(boxes, _SWIZZLES):
        rank = box.partition(",")[0].count("x")
        memref, ty = f"memref<{box}>", tensor_map(f"memref<{box}>", swizzle)
        for count in {rank - 1, rank, rank + 1, 6} - {-1}:
            yield from _moves(ty, memref, ", ".join(["%i"] * count))
    tiles = ("64x64xf16", "64x64xf32, 3", "64x32xf16, 3", "4096xf16, 3", "?x64xf16, 3", "*xf16, 3")
    for tile, swizzle, interleave in product(tiles, _SWIZZLES, ("none", "interleave_16b")):
        ty = tensor_map("memref<64x64xf16, 3>", swizzle, interleave)
        yield from _moves(ty, f"memref<{tile}>", "%i, %j")


def _moves(ty: str, memref: str, coordinates: str) -> Iterator[Program]:
    places = {"m": ty, "t": memref}
    yield (
        f"nvgpu.tma.async.load %m[{coordinates}], %bars[%i] to %t : {ty}, !bars -> {memref}",
        places,
    )
    yield f"nvgpu.tma.async.store %t to %m[{coordinates}] : {memref} -> {ty}", places


def tma_text() -> Iterator[Program]:
    """Ways to write what stands around the operands, and the parameters of tensor maps."""
    load = "nvgpu.tma.async.load %map[%i, %j], %bars[%i] to %shared{} : !map, !bars -> memref<64x64xf16, 3>"
    for clauses in (
        "",
        " multicast_mask = %m16",
        ", multicast_mask = %m16",
        " predicate = %p",
        ", predicate = %p",
        " multicast_mask = %m16, predicate = %p",
        ", predicate = %p multicast_mask = %m16",
        " multicast_mask = %p",
        " {x}",
    ):
        yield load.format(clauses), {}
    usual = tensor_map("memref<64x64xf16, 3>")
    for old, new in (
        ("", ""),
        ("l2promo = none", "l2promo = l2promo_256b"),
        ("oob = zero", "oob = nan"),
        ("swizzle = none", "swizzle = 1"),
        ("swizzle = none", "swizzle = #nvgpu<swizzle none>"),
        ("swizzle = none", "swizzle = other"),
        (", interleave = none", ""),
        ("tensor = memref<64x64xf16, 3>, ", ""),
        ("memref<64x64xf16, 3>", "vector<64x64xf16>"),
        ("memref<64x64xf16, 3>", "memref<*xf16>"),
        ("oob = zero, interleave = none", "interleave = none, oob = zero"),
    ):
        ty = usual.replace(old, new) if old else usual
        for written in (ty, ty.removeprefix("!nvgpu.tensormap.descriptor")):
            yield f"nvgpu.tma.prefetch.descriptor %m, predicate = %p : {written}", {"m": ty}
    for tensor in ("memref<*xf16>", "memref<*xf32>", "memref<*xf16, 3>", "memref<64x64xf16>"):
        for box in ("", "%i", "%i, %j"):
            yield (
                f"%r = nvgpu.tma.create.descriptor %u box[{box}] : {tensor} -> !map",
                {"u": tensor},
            )


def descriptors() -> Iterator[Program]:
    for memref, swizzle, interleave, result in product(
        ("64x64xf16, 3", "128x64xf16, 3", "64x64xf16", "64x64xf32, 3", "?x64xf16, 3"),
        _SWIZZLES,
        ("none", "interleave_32b"),
        ("64x64xf16, 3", "128x64xf16, 3"),
    ):
        ty = tensor_map("memref<64x64xf16, 3>", swizzle, interleave)
        yield (
            f"%r = nvgpu.warpgroup.generate.descriptor %t, %m : memref<{memref}>, {ty} -> "
            f"!nvgpu.warpgroup.descriptor<tensor = memref<{result}>>",
            {"t": f"memref<{memref}>", "m": ty},
        )


def warpgroup_products() -> Iterator[Program]:
    elements = ["f16", "bf16", "tf32", "f32", "f8E4M3FN", "f8E5M2", "i8", "i16", "i1", "f64"]
    for a, b, c in product(elements, elements, ("f16", "f32", "i32", "bf16")):
        yield _wgmma(f"128x64x{a}, 3", f"64x128x{b}, 3", f"128x128x{c}")
    for c, m, n in product(("f16", "f32"), (32, 64, 100, 192), (4, 8, 12, 40, 128, 256, 264)):
        yield _wgmma(f"{m}x64xf16, 3", f"64x{n}xf16, 3", f"{m}x{n}x{c}")
    for a in ("128x64xf16", "128x32xf16, 3", "64x64xf16, 3", "128x64x1xf16, 3", "?x64xf16, 3"):
        yield _wgmma(a, "64x128xf16, 3", "128x128xf32")
    for b in ("64x128xf16", "32x128xf16, 3", "64x64xf16, 3", "64x?xf16, 3", "8192xf16, 3"):
        yield _wgmma("128x64xf16, 3", b, "128x128xf32")
    for c, d in product(("128x128xf32", "64x128xf32", "128xf32", "1x128x128xf32"), repeat=2):
        yield _wgmma("128x64xf16, 3", "64x128xf16, 3", c, d)
    for attributes in (
        "{transposeA}",
        "{transposeB}",
        "{transposeA, transposeB}",
        "{waitGroup = 0 : i32}",
        "{waitGroup = -1 : i32}",
        "{waitGroup = 1}",
        "{waitGroup = 1 : i64}",
        "{other}",
    ):
        yield _wgmma("128x64xf16, 3", "64x128xf16, 3", "128x128xf32", attributes=attributes)


def _wgmma(a: str, b: str, c: str, d: str = "", attributes: str = "") -> Program:
    x, y = (f"!nvgpu.warpgroup.descriptor<tensor = memref<{m}>>" for m in (a, b))
    z, result = accumulator(c), accumulator(d or c)
    return (
        f"%r = nvgpu.warpgroup.mma %x, %y, %z {attributes} : {x}, {y}, {z} -> {result}",
        {"x": x, "y": y, "z": z},
    )


def accumulators() -> Iterator[Program]:
    for element, m, n in product(
        ("f16", "f32", "bf16", "f64", "i32"), (32, 64, 128, 100), (8, 40, 44, 256, 264)
    ):
        yield (
            f"%r = nvgpu.warpgroup.mma.init.accumulator -> {accumulator(f'{m}x{n}x{element}')}",
            {},
        )
    for element, memref in product(
        ("f32", "f16", "i32"),
        (
            *("64x64xf32, 3", "64x64xf32", "64x32xf32", "?x64xf32", "4096xf32", "1x64x64xf32"),
            *("64x64xf16, 3", "64x64xi32"),
        ),
    ):
        ty = accumulator(f"64x64x{element}")
        yield (
            f"nvgpu.warpgroup.mma.store %x, %t : {ty} to memref<{memref}>",
            {"x": ty, "t": f"memref<{memref}>"},
        )


FAMILIES = {
    family.__name__: family
    for family in (
        copies,
        groups,
        loads,
        products,
        reciprocals,
        barriers,
        tensor_maps,
        tma_text,
        descriptors,
        warpgroup_products,
        accumulators,
    )
}
