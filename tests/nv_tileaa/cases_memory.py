"""Programs that break a rule of pointers, memory, tokens, functions or queues, and their twins."""

from __future__ import annotations

from tests.nv_tileaa.support import Case

_MR = "!nv_tileaa.memref<?x?xf32, 1>"
_VIEW = "!nv_tileaa.tiled_view<8x16xf32, source = !nv_tileaa.memref<?x?xf32, 1>>"
_PTRS = "tile<8x!nv_tileaa.ptr<f32, 1>>"
_PTR = "!nv_tileaa.ptr<f32, 1>"
_INT_PTR = "!nv_tileaa.ptr<i32, 1>"
_TOKEN = "!nv_tileaa.mem_token"


def _memref(operands: str, types: str, result: str, attributes: str = "") -> str:
    return f"%r = nv_tileaa.make_memref {operands} {{{attributes}}} : ({types}) -> !nv_tileaa.memref<{result}>"


def _sized(result: str, attributes: str = "") -> str:
    segments = "operandSegmentSizes = array<i32: 1, 0, 2, 2>"
    joined = f"{attributes}, {segments}" if attributes else segments
    return _memref("%p32, %i, %i, %j, %j", f"{_PTR}, index, index, index, index", result, joined)


def _bitcast(result: str) -> str:
    return f"%s = nv_tileaa.bitcast %f : tile<8xf32> -> {result}"


POINTERS = [
    Case(
        "addptr",
        "aa-address-space",
        "expected the result to stay in address space 1, got 3",
        f"%p = nv_tileaa.addptr %p32, %i : {_PTR}, index -> !nv_tileaa.ptr<f32, 3>",
        f"%p = nv_tileaa.addptr %p32, %i : {_PTR}, index -> {_PTR}",
    ),
    Case(
        "addptr",
        "aa-provenance",
        "expected the result to point at 'f32' as the base, got 'i32'",
        f"%p = nv_tileaa.addptr %p32, %i : {_PTR}, index -> {_INT_PTR}",
        f"%p = nv_tileaa.addptr %p32, %n : {_PTR}, i32 -> {_PTR}",
    ),
    Case(
        "addptr",
        "aa-shape",
        "expected 'result' to have the shape of the operands, [8]",
        f"%p = nv_tileaa.addptr %p32, %lanes : {_PTR}, tile<8xindex> -> {_PTR}",
        f"%p = nv_tileaa.addptr %p32, %lanes : {_PTR}, tile<8xindex> -> {_PTRS}",
    ),
    Case(
        "addptr",
        "aa-element-type",
        "elements of f4E2M1FN take less than a byte",
        "%p = nv_tileaa.addptr %h, %i : !nv_tileaa.ptr<f4E2M1FN, 1>, index -> !nv_tileaa.ptr<f4E2M1FN, 1>",
        "%p = nv_tileaa.addptr %e, %i : !nv_tileaa.ptr<i1, 1>, index -> !nv_tileaa.ptr<i1, 1>",
        {"h": "!nv_tileaa.ptr<f4E2M1FN, 1>", "e": "!nv_tileaa.ptr<i1, 1>"},
    ),
    Case(
        "int_to_ptr",
        "aa-shape",
        "expected 'result' to have the shape of the operands, []",
        f"%p = nv_tileaa.int_to_ptr %m : i64 -> {_PTRS}",
        f"%p = nv_tileaa.int_to_ptr %m : i64 -> {_PTR}",
    ),
    Case(
        "int_to_ptr",
        "operand-type",
        "must be a scalar or tile of i64, but got 'i32'",
        f"%p = nv_tileaa.int_to_ptr %n : i32 -> {_PTR}",
        f"%p = nv_tileaa.int_to_ptr %m : i64 -> {_PTR}",
    ),
    Case(
        "ptr_to_int",
        "aa-shape",
        "expected 'result' to have the shape of the operands, [8]",
        f"%p = nv_tileaa.ptr_to_int %ps : {_PTRS} -> i64",
        f"%p = nv_tileaa.ptr_to_int %ps : {_PTRS} -> tile<8xi64>",
    ),
    Case(
        "make_memref",
        "aa-memref-operands",
        "expected 1 sizes, one for each '?' of '!nv_tileaa.memref<?x4xf32, 1>', got 2",
        _sized("?x4xf32, 1"),
        _sized("?x?xf32, 1"),
    ),
    Case(
        "make_memref",
        "aa-memref-operands",
        "expected 1 strides",
        _sized("?x?xf32, strides = [?, 1], 1"),
        _sized("?x?xf32, strides = [?, ?], 1"),
    ),
    Case(
        "make_memref",
        "aa-pointee",
        "expected a memref of 'f32', the pointee of the base, got 'f16'",
        _sized("?x?xf16, 1"),
        _sized("?x?xf32, 1"),
    ),
    Case(
        "make_memref",
        "aa-address-space",
        "expected a memref in address space 1 of the base, got 3",
        _sized("?x?xf32, 3"),
        _sized("?x?xf32, 1"),
    ),
    Case(
        "make_memref",
        "aa-provenance",
        "expected the result to carry the alias_scope of the operation, 7, got 8",
        _sized("?x?xf32, alias_scope = 8, 1", "alias_scope = 7"),
        _sized("?x?xf32, alias_scope = 7, 1", "alias_scope = 7"),
    ),
    Case(
        "make_memref",
        "aa-provenance",
        "none, got 8",
        _sized("?x?xf32, alias_scope = 8, 1"),
        _sized("?x?xf32, 1", "alias_scope = 8"),
    ),
    Case(
        "bitcast",
        "aa-conversion",
        "expected elements of equal width in equal shapes, or tiles of rank 1",
        _bitcast("tile<16xi32>"),
        _bitcast("tile<16xi16>"),
    ),
    Case(
        "bitcast",
        "aa-conversion",
        "expected two types of numbers or two of pointers",
        f"%s = nv_tileaa.bitcast %p32 : {_PTR} -> i64",
        f"%s = nv_tileaa.bitcast %p32 : {_PTR} -> {_INT_PTR}",
    ),
    Case(
        "bitcast",
        "aa-address-space",
        "expected the result to stay in address space 1, got 0",
        f"%s = nv_tileaa.bitcast %p32 : {_PTR} -> !nv_tileaa.ptr<i32, 0>",
        f"%s = nv_tileaa.bitcast %p32 : {_PTR} -> {_INT_PTR}",
    ),
    Case(
        "fp_to_fp",
        "aa-conversion",
        "fp_to_fp must change the element type, but both are f32",
        "%h = nv_tileaa.fp_to_fp %x : f32 -> f32",
        "%h = nv_tileaa.fp_to_fp %x : f32 -> tf32",
    ),
    Case(
        "fp_to_fp",
        "aa-conversion",
        "fp_to_fp source element type is not supported",
        "%h = nv_tileaa.fp_to_fp %n : i32 -> f32",
        "%h = nv_tileaa.fp_to_fp %x : f32 -> f16",
    ),
    Case(
        "fp_to_fp",
        "aa-conversion",
        "fp_to_fp result element type is not supported",
        "%h = nv_tileaa.fp_to_fp %x : f32 -> index",
        "%h = nv_tileaa.fp_to_fp %x : f32 -> bf16",
    ),
    Case(
        "fp_to_fp",
        "aa-target",
        "fp_to_fp block-scaled format requires a target that supports block-scaled MMA",
        "%h = nv_tileaa.fp_to_fp %x : f32 -> f8E5M3FNU",
        "%h = nv_tileaa.fp_to_fp %x : f32 -> f8E5M2",
    ),
    Case(
        "fp_to_fp",
        "aa-target",
        "fp_to_fp block-scaled format requires a target that supports block-scaled MMA",
        "%h = nv_tileaa.fp_to_fp %e : f8E5M3FNU -> f32",
        "%h = nv_tileaa.fp_to_fp %x : f32 -> f16",
        {"e": "f8E5M3FNU"},
    ),
    Case(
        "fp_to_fp",
        "aa-target",
        "fp_to_fp block-scaled format requires a target that supports block-scaled MMA",
        "%h = nv_tileaa.fp_to_fp %x : f32 -> f8E8M0FNU",
        "%h = nv_tileaa.fp_to_fp %x : f32 -> f8E8M0FNU",
        good_capability=100,
    ),
    Case(
        "fp_to_fp",
        "aa-rounding-mode",
        "but got: approx",
        "%h = nv_tileaa.fp_to_fp %x {rounding_mode = approx} : f32 -> f16",
        "%h = nv_tileaa.fp_to_fp %x {rounding_mode = rz} : f32 -> f16",
    ),
    Case(
        "fp_to_fp",
        "aa-shape",
        "expected 'result' to have the shape of the operands, [8]",
        "%h = nv_tileaa.fp_to_fp %f : tile<8xf32> -> tile<4xf16>",
        "%h = nv_tileaa.fp_to_fp %f : tile<8xf32> -> tile<8xf16>",
    ),
    Case(
        "extern_elementwise",
        "aa-shape",
        "expected all operands and results to have one shape, [8]",
        '%y = nv_tileaa.extern_elementwise %f, %x {symbol = "g"} : tile<8xf32>, f32 -> tile<8xf32>',
        '%y = nv_tileaa.extern_elementwise %f, %k {symbol = "g"} : tile<8xf32>, tile<8xi32> -> tile<8xf32>',
    ),
    Case(
        "extern_elementwise",
        "aa-conversion",
        "'symbol' must not be empty",
        '%y = nv_tileaa.extern_elementwise %f {symbol = ""} : tile<8xf32>',
        '%y = nv_tileaa.extern_elementwise %f {symbol = "g"} : tile<8xf32>',
    ),
    Case(
        "extern_elementwise",
        "aa-count",
        "expected one result, got 0",
        'nv_tileaa.extern_elementwise %f {symbol = "g"} : tile<8xf32> -> ()',
        '%y = nv_tileaa.extern_elementwise %f {symbol = "g"} : tile<8xf32> -> tile<8xf32>',
    ),
    Case(
        "elementwise_inline_asm",
        "aa-count",
        "packed_element must be positive, got 0",
        '%y = nv_tileaa.elementwise_inline_asm %k {asm_string = "x", constraints = "=r,r", packed_element = 0} : tile<8xi32>',
        '%y = nv_tileaa.elementwise_inline_asm %k {asm_string = "x", constraints = "=r,r", packed_element = 2} : tile<8xi32>',
    ),
    Case(
        "elementwise_inline_asm",
        "missing-property",
        "property 'constraints' is missing",
        '%y = nv_tileaa.elementwise_inline_asm %k {asm_string = "x"} : tile<8xi32>',
        '%y = nv_tileaa.elementwise_inline_asm %k {asm_string = "x", constraints = ""} : tile<8xi32>',
    ),
    Case(
        "call_elementwise_intrinsic",
        "aa-count",
        "expected one result, got 2",
        '%y:2 = nv_tileaa.call_elementwise_intrinsic %k {intrinsic = "z"} : tile<8xi32> -> tile<8xi32>, tile<8xi32>',
        '%y = nv_tileaa.call_elementwise_intrinsic %k {intrinsic = "z"} : tile<8xi32> -> tile<8xi32>',
    ),
]


def _load(attributes: str) -> str:
    return f"%v = nv_tileaa.load %pi {{{attributes}}} : {_INT_PTR} -> i32"


def _store(attributes: str) -> str:
    return f"nv_tileaa.store %pi, %n {{{attributes}}} : {_INT_PTR}, i32"


def _rmw(attributes: str) -> str:
    return (
        f"%v = nv_tileaa.atomic_rmw %pi, %n {{rmw_mode = add{attributes}}} : {_INT_PTR}, i32 -> i32"
    )


def _cas(attributes: str) -> str:
    return f"%v = nv_tileaa.atomic_cas %pi, %n, %n {{{attributes}}} : {_INT_PTR}, i32, i32 -> i32"


def _tiled(attributes: str, kind: str = "load") -> str:
    if kind == "load":
        return (
            f"%v = nv_tileaa.tiled_load %view[%i, %j] {{{attributes}}} "
            f": {_VIEW}, index, index -> tile<8x16xf32>"
        )
    if kind == "store":
        return (
            f"nv_tileaa.tiled_store %view[%i, %j], %tile {{{attributes}}} "
            f": {_VIEW}, tile<8x16xf32>, index, index"
        )
    return (
        f"%v = nv_tileaa.tiled_atomic_rmw %view[%i, %j], %tile {{rmw_mode = addf, {attributes}}} "
        f": {_VIEW}, tile<8x16xf32>, index, index -> tile<8x16xf32>"
    )


def _gather(attributes: str) -> str:
    return (
        f"%v = nv_tileaa.gather_load %mr[%lanes, %j] {{{attributes}}} "
        f": {_MR}, tile<8xindex>, index -> tile<8xf32>"
    )


def _scatter(attributes: str) -> str:
    return (
        f"nv_tileaa.scatter_store %mr[%lanes, %j], %f {{{attributes}}} "
        f": {_MR}, tile<8xf32>, tile<8xindex>, index"
    )


_SCOPED = "mem_semantic = {}, mem_scope = {}"
_LOADS = {"load": _load, "tiled_load": _tiled, "gather_load": _gather}
_STORES = {
    "store": _store,
    "tiled_store": lambda text: _tiled(text, "store"),
    "scatter_store": _scatter,
}
_ATOMICS = {
    "atomic_cas": _cas,
    "atomic_rmw": lambda text: _rmw(f", {text}"),
    "tiled_atomic_rmw": lambda text: _tiled(text, "atomic"),
}


def _order(op: str, says: str, bad: str, good: str, make: object) -> Case:
    return Case(op, "aa-memory-order", says, make(bad), make(good))  # pyright: ignore[reportCallIssue]


ORDERS = [
    *(
        _order(
            op,
            "loads accept only relaxed or acquire",
            _SCOPED.format(bad, "gpu"),
            _SCOPED.format("acquire", "gpu"),
            make,
        )
        for op, make in _LOADS.items()
        for bad in ("release", "acq_rel")
    ),
    *(
        _order(
            op,
            "stores accept only relaxed or release",
            _SCOPED.format(bad, "sys"),
            _SCOPED.format("release", "sys"),
            make,
        )
        for op, make in _STORES.items()
        for bad in ("acquire", "acq_rel")
    ),
    *(
        _order(
            op,
            "atomics accept only relaxed, acquire, release or acq_rel",
            "mem_semantic = weak",
            _SCOPED.format("acq_rel", "cluster"),
            make,
        )
        for op, make in _ATOMICS.items()
    ),
    *(
        _order(
            op,
            "non-weak memory ordering requires explicit scope",
            "mem_semantic = relaxed",
            _SCOPED.format("relaxed", "gpu"),
            make,
        )
        for op, make in (_LOADS | _STORES | _ATOMICS).items()
    ),
    *(
        _order(
            op,
            "weak memory ordering must not carry a scope",
            "mem_scope = gpu",
            "mem_semantic = weak",
            make,
        )
        for op, make in (_LOADS | _STORES).items()
    ),
    *(
        _order(
            op,
            "weak memory ordering must not carry a scope",
            _SCOPED.format("weak", "sys"),
            _SCOPED.format("relaxed", "sys"),
            make,
        )
        for op, make in (_LOADS | _STORES).items()
    ),
    *(
        Case(
            op,
            "aa-cache-policy",
            "cache modifiers apply to weak accesses only, got cg with relaxed",
            make("cache_modifier = cg, mem_semantic = relaxed, mem_scope = gpu"),  # pyright: ignore[reportCallIssue]
            make("cache_modifier = cg, mem_semantic = weak"),  # pyright: ignore[reportCallIssue]
        )
        for op, make in (_LOADS | _STORES).items()
    ),
    *(
        Case(
            op,
            "aa-cache-policy",
            "expected a cache modifier or an eviction policy, got cs and first",
            make("cache_modifier = cs, eviction_policy = first"),  # pyright: ignore[reportCallIssue]
            make("cache_modifier = none, eviction_policy = first"),  # pyright: ignore[reportCallIssue]
        )
        for op, make in (_LOADS | _STORES).items()
    ),
]

_SHARED = "!nv_tileaa.ptr<f32, 3>"
_IN_EXECUTE = (
    "nv_tileaa.execute %h {num_warps = 1} : %s {\n"
    "^bb0(%q0: %s):\n  %v = nv_tileaa.load %q0 : %s -> f32\n  nv_tileaa.yield\n}"
).replace("%s", _SHARED)

MEMORY = [
    Case(
        "get_global",
        "aa-unknown-symbol",
        "'tabel' does not reference a global in the module",
        f"%r = nv_tileaa.get_global @tabel : {_PTR}",
        f"%r = nv_tileaa.get_global @table : {_PTR}",
    ),
    Case(
        "get_global",
        "aa-unknown-symbol",
        "'twice' does not reference a global in the module, but 'nv_tileaa.func'",
        f"%r = nv_tileaa.get_global @twice : {_PTR}",
        f"%r = nv_tileaa.get_global @table : {_PTR}",
    ),
    Case(
        "get_global",
        "aa-pointee",
        "expected a pointer to 'f32'",
        f"%r = nv_tileaa.get_global @table : {_INT_PTR}",
        f"%r = nv_tileaa.get_global @table : {_PTR}",
    ),
    Case(
        "get_global",
        "aa-pointee",
        "expected the global's type '!nv_tileaa.memref<2xf32, 1>'",
        "%r = nv_tileaa.get_global @table : !nv_tileaa.memref<4xf32, 1>",
        "%r = nv_tileaa.get_global @table : !nv_tileaa.memref<?xf32, 1>",
    ),
    Case(
        "get_global",
        "aa-address-space",
        "expected address space 1 of the global, got 4",
        "%r = nv_tileaa.get_global @table : !nv_tileaa.ptr<f32, 4>",
        f"%r = nv_tileaa.get_global @table : {_PTR}",
    ),
    Case(
        "load",
        "aa-index-count",
        "expected 2 indices, one for each axis",
        f"%v = nv_tileaa.load %mr[%i] : {_MR}, index -> f32",
        f"%v = nv_tileaa.load %mr[%i, %j] : {_MR}, index, index -> f32",
    ),
    Case(
        "load",
        "aa-index-count",
        "expected 0 indices",
        f"%v = nv_tileaa.load %ps[%i] : {_PTRS}, index -> tile<8xf32>",
        f"%v = nv_tileaa.load %ps : {_PTRS} -> tile<8xf32>",
    ),
    Case(
        "load",
        "aa-pointee",
        "expected elements of type 'f32' as in the memory of the base, got 'tile<8xi32>'",
        f"%v = nv_tileaa.load %ps : {_PTRS} -> tile<8xi32>",
        f"%v = nv_tileaa.load %ps : {_PTRS} -> tile<8xf32>",
    ),
    Case(
        "load",
        "aa-shape",
        "expected a value of shape [8]",
        f"%v = nv_tileaa.load %ps : {_PTRS} -> tile<4xf32>",
        f"%v = nv_tileaa.load %ps : {_PTRS} -> tile<8xf32>",
    ),
    Case(
        "load",
        "aa-shape",
        "expected a scalar or a tile of rank 2",
        f"%v = nv_tileaa.load %mr[%i, %j] : {_MR}, index, index -> tile<8xf32>",
        f"%v = nv_tileaa.load %mr[%i, %j] : {_MR}, index, index -> tile<8x1xf32>",
    ),
    Case(
        "load",
        "aa-mask",
        "expected the mask to have the shape of the value, [8], got 'i1'",
        f"%v = nv_tileaa.load %ps, %c : {_PTRS}, i1 -> tile<8xf32>",
        f"%v = nv_tileaa.load %ps, %mask : {_PTRS}, tile<8xi1> -> tile<8xf32>",
    ),
    Case(
        "load",
        "aa-mask",
        "'other' replaces masked-off elements, but there is no mask",
        f"%v = nv_tileaa.load %ps, %f {{operandSegmentSizes = array<i32: 1, 0, 0, 1>}} : {_PTRS}, tile<8xf32> -> tile<8xf32>",
        f"%v = nv_tileaa.load %ps, %mask, %f : {_PTRS}, tile<8xi1>, tile<8xf32> -> tile<8xf32>",
    ),
    Case(
        "load",
        "aa-mask",
        "expected 'other' to have the type of the value, 'tile<8xf32>', got 'f32'",
        f"%v = nv_tileaa.load %ps, %mask, %x : {_PTRS}, tile<8xi1>, f32 -> tile<8xf32>",
        f"%v = nv_tileaa.load %ps, %mask, %g : {_PTRS}, tile<8xi1>, tile<8xf32> -> tile<8xf32>",
    ),
    Case(
        "load",
        "aa-token-arity",
        "'nv_tileaa.load' takes a token, and so must return",
        f"%v = nv_tileaa.load %pi, %t : {_INT_PTR}, {_TOKEN} -> i32",
        f"%v, %u = nv_tileaa.load %pi : {_INT_PTR} -> i32, {_TOKEN}",
    ),
    Case(
        "load",
        "aa-in-bounds",
        "expected 2 booleans in in_bounds, one for each axis of the value, got 1",
        f"%v = nv_tileaa.load %mr[%i, %j] {{in_bounds = array<i1: true>}} : {_MR}, index, index -> tile<2x2xf32>",
        f"%v = nv_tileaa.load %mr[%i, %j] {{in_bounds = array<i1: true, false>}} : {_MR}, index, index -> tile<2x2xf32>",
    ),
    Case(
        "load",
        "aa-address-space",
        "address space 3 (shared) is accessible inside 'nv_tileaa.execute' only",
        f"%v = nv_tileaa.load %h : {_SHARED} -> f32",
        _IN_EXECUTE,
        {"h": _SHARED},
    ),
    Case(
        "tiled_load",
        "aa-shape",
        "expected a value of shape [8, 16]",
        f"%v = nv_tileaa.tiled_load %view[%i, %j] : {_VIEW}, index, index -> tile<16x8xf32>",
        f"%v = nv_tileaa.tiled_load %view[%i, %j] : {_VIEW}, index, index -> tile<8x16xf32>",
    ),
    Case(
        "tiled_load",
        "aa-shape",
        "expected a tile of rank 2",
        f"%v = nv_tileaa.tiled_load %mr[%i, %j] : {_MR}, index, index -> tile<8xf32>",
        f"%v = nv_tileaa.tiled_load %mr[%i, %j] : {_MR}, index, index -> tile<8x8xf32>",
    ),
    Case(
        "tiled_load",
        "aa-in-bounds",
        "expected 2 booleans",
        _tiled("in_bounds = array<i1: true>"),
        _tiled("in_bounds = array<i1: true, true>"),
    ),
    Case(
        "tiled_load",
        "aa-token-arity",
        "takes a token",
        f"%v = nv_tileaa.tiled_load %view[%i, %j], %t : {_VIEW}, index, index, {_TOKEN} -> tile<8x16xf32>",
        f"%v, %u = nv_tileaa.tiled_load %view[%i, %j], %t : {_VIEW}, index, index, {_TOKEN} -> tile<8x16xf32>, {_TOKEN}",
    ),
    Case(
        "tiled_load",
        "operand-type",
        "must be a memref or a tiled_view",
        f"%v = nv_tileaa.tiled_load %ps : {_PTRS} -> tile<8xf32>",
        "%v = nv_tileaa.tiled_load %h[%i] : !nv_tileaa.memref<8xf32, 1>, index -> tile<8xf32>",
        {"h": "!nv_tileaa.memref<8xf32, 1>"},
    ),
    Case(
        "tiled_load",
        "aa-element-type",
        "padding_value neg_inf is for float elements, but the elements are i32",
        "%v = nv_tileaa.tiled_load %h[%i] {padding_value = neg_inf} "
        ": !nv_tileaa.memref<8xi32, 1>, index -> tile<8xi32>",
        "%v = nv_tileaa.tiled_load %h[%i] {padding_value = zero} "
        ": !nv_tileaa.memref<8xi32, 1>, index -> tile<8xi32>",
        {"h": "!nv_tileaa.memref<8xi32, 1>"},
    ),
    Case(
        "gather_load",
        "aa-index-count",
        "expected index tiles of one shape along at least one axis, got shapes none",
        f"%v = nv_tileaa.gather_load %mr[%i, %j] : {_MR}, index, index -> tile<8xf32>",
        f"%v = nv_tileaa.gather_load %mr[%i, %lanes] : {_MR}, index, tile<8xindex> -> tile<8xf32>",
    ),
    Case(
        "gather_load",
        "aa-index-count",
        "got shapes [[4], [8]]",
        f"%v = nv_tileaa.gather_load %mr[%lanes, %h] : {_MR}, tile<8xindex>, tile<4xindex> -> tile<8xf32>",
        f"%v = nv_tileaa.gather_load %mr[%lanes, %lanes] : {_MR}, tile<8xindex>, tile<8xindex> -> tile<8xf32>",
        {"h": "tile<4xindex>"},
    ),
    Case(
        "gather_load",
        "aa-index-count",
        "expected gather_axes to list the axes with index tiles, [0], got [1]",
        _gather("gather_axes = array<i64: 1>"),
        _gather("gather_axes = array<i64: 0>"),
    ),
    Case(
        "gather_load",
        "aa-shape",
        "expected 8 indices along axis 0, the tile's extent, got [4]",
        f"%v = nv_tileaa.gather_load %view[%h, %j] : {_VIEW}, tile<4xindex>, index -> tile<8x16xf32>",
        f"%v = nv_tileaa.gather_load %view[%lanes, %j] : {_VIEW}, tile<8xindex>, index -> tile<8x16xf32>",
        {"h": "tile<4xindex>"},
    ),
    Case(
        "store",
        "aa-pointee",
        "expected elements of type 'f32' as in the memory of the base, got 'i32'",
        f"nv_tileaa.store %p32, %n : {_PTR}, i32",
        f"nv_tileaa.store %p32, %x : {_PTR}, f32",
    ),
    Case(
        "store",
        "aa-shape",
        "expected a value of shape [8]",
        f"nv_tileaa.store %ps, %x : {_PTRS}, f32",
        f"nv_tileaa.store %ps, %f : {_PTRS}, tile<8xf32>",
    ),
    Case(
        "store",
        "aa-mask",
        "expected the mask to have the shape of the value, [], got 'tile<8xi1>'",
        f"nv_tileaa.store %p32, %x, %mask : {_PTR}, f32, tile<8xi1>",
        f"nv_tileaa.store %p32, %x, %c : {_PTR}, f32, i1",
    ),
    Case(
        "store",
        "aa-token-arity",
        "takes a token",
        f"nv_tileaa.store %p32, %x, %t : {_PTR}, f32, {_TOKEN}",
        f"%u = nv_tileaa.store %p32, %x, %t : {_PTR}, f32, {_TOKEN} -> {_TOKEN}",
    ),
    Case(
        "tiled_store",
        "aa-index-count",
        "expected 2 indices",
        f"nv_tileaa.tiled_store %view[%i], %tile : {_VIEW}, tile<8x16xf32>, index",
        f"nv_tileaa.tiled_store %view[%i, %i], %tile : {_VIEW}, tile<8x16xf32>, index, index",
    ),
    Case(
        "scatter_store",
        "aa-shape",
        "expected a value of shape [8]",
        f"nv_tileaa.scatter_store %mr[%lanes, %j], %h : {_MR}, tile<4xf32>, tile<8xindex>, index",
        f"nv_tileaa.scatter_store %mr[%lanes, %j], %f : {_MR}, tile<8xf32>, tile<8xindex>, index",
        {"h": "tile<4xf32>"},
    ),
    Case(
        "atomic_cas",
        "aa-atomic-type",
        "atomic_cas works on i32, i64, f32, f64, but the elements are f16",
        "%v = nv_tileaa.atomic_cas %p16, %h, %h : !nv_tileaa.ptr<f16, 1>, f16, f16 -> f16",
        f"%v = nv_tileaa.atomic_cas %p32, %x, %x : {_PTR}, f32, f32 -> f32",
        {"h": "f16"},
    ),
    Case(
        "atomic_cas",
        "type-relation",
        "have same type: 'compare' is 'i32', 'replacement' is 'i64'",
        f"%v = nv_tileaa.atomic_cas %pi, %n, %m : {_INT_PTR}, i32, i64 -> i32",
        f"%v = nv_tileaa.atomic_cas %pi, %n, %n : {_INT_PTR}, i32, i32 -> i32",
    ),
    Case(
        "atomic_rmw",
        "aa-atomic-type",
        "mode addf works on f16, bf16, f32, f64, but the elements are i32",
        f"%v = nv_tileaa.atomic_rmw %pi, %n {{rmw_mode = addf}} : {_INT_PTR}, i32 -> i32",
        f"%v = nv_tileaa.atomic_rmw %pi, %n {{rmw_mode = umax}} : {_INT_PTR}, i32 -> i32",
    ),
    Case(
        "atomic_rmw",
        "aa-atomic-type",
        "mode add works on i32, i64, but the elements are f32",
        f"%v = nv_tileaa.atomic_rmw %p32, %x {{rmw_mode = add}} : {_PTR}, f32 -> f32",
        f"%v = nv_tileaa.atomic_rmw %p32, %x {{rmw_mode = xchg}} : {_PTR}, f32 -> f32",
    ),
    Case(
        "atomic_rmw",
        "missing-property",
        "property 'rmw_mode' is missing",
        f"%v = nv_tileaa.atomic_rmw %pi, %n : {_INT_PTR}, i32 -> i32",
        f"%v = nv_tileaa.atomic_rmw %pi, %n {{rmw_mode = or}} : {_INT_PTR}, i32 -> i32",
    ),
    Case(
        "atomic_rmw",
        "type-relation",
        "have same type: 'value' is 'i32', 'result' is 'i64'",
        f"%v = nv_tileaa.atomic_rmw %pi, %n {{rmw_mode = add}} : {_INT_PTR}, i32 -> i64",
        f"%v = nv_tileaa.atomic_rmw %pi, %n {{rmw_mode = add}} : {_INT_PTR}, i32 -> i32",
    ),
    Case(
        "tiled_atomic_rmw",
        "aa-atomic-type",
        "mode and works on i32, i64, but the elements are f32",
        _tiled("atom = 1")
        .replace("tiled_load %view[%i, %j]", "tiled_atomic_rmw %view[%i, %j], %tile")
        .replace("{atom = 1}", "{rmw_mode = and}")
        .replace(f"{_VIEW}, index", f"{_VIEW}, tile<8x16xf32>, index"),
        _tiled("allow_tma = true", "atomic"),
    ),
]


HINTS = [
    Case(
        "create_mem_token",
        "result-type",
        "must be a mem_token, but got 'i32'",
        "%u = nv_tileaa.create_mem_token : i32",
        "%u = nv_tileaa.create_mem_token : !nv_tileaa.mem_token",
    ),
    Case(
        "message",
        "missing-property",
        "property 'message' is missing: it must be a string",
        "nv_tileaa.message",
        'nv_tileaa.message {message = "two stages"}',
    ),
    Case(
        "mark_for_reuse",
        "aa-queue-operand",
        "expect operands with queue types",
        "nv_tileaa.mark_for_reuse %f : tile<8xf32>",
        "nv_tileaa.mark_for_reuse %q : !nv_tileaa.queue<tile<8xf32>, i32>",
    ),
    Case(
        "mark_for_reuse",
        "aa-count",
        "expected at least one queue",
        "nv_tileaa.mark_for_reuse",
        "nv_tileaa.mark_for_reuse %q, %q "
        ": !nv_tileaa.queue<tile<8xf32>, i32>, !nv_tileaa.queue<tile<8xf32>, i32>",
    ),
    Case(
        "join_mem_token",
        "operand-type",
        "must be a mem_token, but got 'i32'",
        f"%u = nv_tileaa.join_mem_token %n : i32 -> {_TOKEN}",
        f"%u = nv_tileaa.join_mem_token %t : {_TOKEN} -> {_TOKEN}",
    ),
    Case(
        "assert",
        "aa-token-arity",
        "takes a token",
        f'nv_tileaa.assert %c, %t {{message = "m"}} : i1, {_TOKEN}',
        f'%u = nv_tileaa.assert %c, %t {{message = "m"}} : i1, {_TOKEN} -> {_TOKEN}',
    ),
    Case(
        "assert",
        "operand-type",
        "must be a scalar or tile of i1, but got 'i32'",
        'nv_tileaa.assert %n {message = "m"} : i32',
        'nv_tileaa.assert %c {message = "m"} : i1',
    ),
    Case(
        "optimization_barrier",
        "aa-shape",
        "expected the results to have the types of the operands, (i32), got (i64)",
        "%r = nv_tileaa.optimization_barrier %n : i32 -> i64",
        "%r = nv_tileaa.optimization_barrier %n : i32 -> i32",
    ),
    Case(
        "pragma",
        "aa-shape",
        "expected the results to have the types of the operands, (i32), got ()",
        'nv_tileaa.pragma %n {directives = ["unroll"]} : i32 -> ()',
        '%r = nv_tileaa.pragma %n {directives = ["unroll"]} : i32',
    ),
    Case(
        "print",
        "aa-print-format",
        "expected 1 values for the format, got 2",
        'nv_tileaa.print %n, %x {format = "%d"} : i32, f32',
        'nv_tileaa.print %n, %x {format = "%d %f"} : i32, f32',
    ),
    Case(
        "print",
        "aa-print-format",
        "the last conversion of the format does not end",
        'nv_tileaa.print {format = "100 %"}',
        'nv_tileaa.print {format = "100 %%"}',
    ),
    Case(
        "print",
        "aa-print-format",
        "expected scalars and tiles to print",
        f'nv_tileaa.print %mr {{format = "%p"}} : {_MR}',
        f'nv_tileaa.print %p32 {{format = "%p"}} : {_PTR}',
    ),
    Case(
        "print",
        "aa-token-arity",
        "takes a token",
        f'nv_tileaa.print %t {{format = "x"}} : {_TOKEN}',
        f'%u = nv_tileaa.print %t {{format = "x"}} : {_TOKEN} -> {_TOKEN}',
    ),
]


def _assume(says: str, bad: str, good: str, value: str = "%k : tile<8xi32>") -> Case:
    name, ty = value.split(" : ")
    make = "%r = nv_tileaa.assume {} {{predicates = [{}]}} : {}"
    return Case(
        "assume",
        "aa-assumption",
        says,
        make.format(name, bad and f"#nv_tileaa.{bad}", ty),
        make.format(name, f"#nv_tileaa.{good}", ty),
        {"b8": "i8"},
    )


ASSUMPTIONS = [
    _assume("expected at least one predicate", "", "div_by<8>"),
    _assume("div_by divisor must be a positive power of two", "div_by<12>", "div_by<16>"),
    _assume("div_by divisor must be a positive power of two", "div_by<-4>", "div_by<4>"),
    _assume(
        "div_by every and along must appear together",
        "div_by<8, every 4>",
        "div_by<8, every 4 along 0>",
    ),
    _assume(
        "div_by every and along must appear together",
        "div_by<8, along 0>",
        "div_by<8, every 1 along 0>",
    ),
    _assume(
        "div_by every must be positive",
        "div_by<8, every 0 along 0>",
        "div_by<8, every 2 along 0>",
    ),
    _assume(
        "div_by along must reference a valid axis",
        "div_by<8, every 4 along 1>",
        "div_by<8, every 4 along 0>",
    ),
    _assume(
        "bounded lower exceeds the element's representable range",
        "bounded<200, ?>",
        "bounded<100, ?>",
        "%b8 : i8",
    ),
    _assume(
        "bounded upper exceeds the element's representable range",
        "bounded<0, 128>",
        "bounded<-128, 127>",
        "%b8 : i8",
    ),
    _assume("bounded lower must not exceed upper", "bounded<5, 4>", "bounded<4, 4>"),
    _assume(
        "same_elements length must match the constrained value's rank",
        "same_elements<[2, 2]>",
        "same_elements<[2]>",
    ),
    _assume(
        "same_elements axis bound is out of range",
        "same_elements<[16]>",
        "same_elements<[8]>",
    ),
    Case(
        "assume",
        "aa-assumption",
        "div_by requires an integer-, pointer-, or memref-like value",
        "%r = nv_tileaa.assume %x {predicates = [#nv_tileaa.div_by<4>]} : f32",
        f"%r = nv_tileaa.assume %mr {{predicates = [#nv_tileaa.div_by<4>]}} : {_MR}",
    ),
    Case(
        "assume",
        "aa-assumption",
        "bounded requires an integer-like element type",
        "%r = nv_tileaa.assume %x {predicates = [#nv_tileaa.bounded<0, 1>]} : f32",
        "%r = nv_tileaa.assume %i {predicates = [#nv_tileaa.bounded<0, 1>]} : index",
    ),
    Case(
        "assume",
        "aa-assumption",
        "expected div_by, bounded or same_elements",
        '%r = nv_tileaa.assume %n {predicates = ["even"]} : i32',
        "%r = nv_tileaa.assume %n {predicates = [#nv_tileaa.div_by<2>]} : i32",
    ),
    Case(
        "assume",
        "type-relation",
        "have same type: 'value' is 'i32', 'result' is 'i64'",
        "%r = nv_tileaa.assume %n {predicates = [#nv_tileaa.div_by<2>]} : i32 -> i64",
        "%r = nv_tileaa.assume %n {predicates = [#nv_tileaa.div_by<2>]} : i32 -> i32",
    ),
]

CASES = [*POINTERS, *ORDERS, *MEMORY, *HINTS, *ASSUMPTIONS]
