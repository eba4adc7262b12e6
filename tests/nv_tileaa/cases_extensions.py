"""Programs that break a rule of the extensions, each beside its nearest legal twin."""

from __future__ import annotations

from tests.nv_tileaa.support import Case

_VIEW = "!nv_tileaa.tiled_view<8x16x{0}, source = !nv_tileaa.memref<?x?x{0}, 1>>"
_TOKEN = "!nv_tileaa.mem_token"


def _alloca(attributes: str, pointer: str = "!nv_tileaa.ptr<f32, 1>") -> str:
    return f"%r = nv_tileaa.ext.alloca {{{attributes}}} : {pointer}"


def _view(element: str) -> dict[str, str]:
    return {"v": _VIEW.format(element), "e": f"tile<8x16x{element}>"}


def _load(attributes: str, element: str) -> str:
    return (
        f"%r = nv_tileaa.tiled_load %v[%i, %j] {{{attributes}}} : {_VIEW.format(element)}, "
        f"index, index -> tile<8x16x{element}>"
    )


def _store(element: str) -> str:
    return (
        f"nv_tileaa.tiled_store %v[%i, %j], %e {{multimem}} : {_VIEW.format(element)}, "
        f"tile<8x16x{element}>, index, index"
    )


def _update(attributes: str, element: str, use: bool = False) -> str:
    ty = f"tile<8x16x{element}>"
    kept = f"\n%k2 = nv_tileaa.optimization_barrier %r : {ty}" if use else ""
    return (
        f"%r = nv_tileaa.tiled_atomic_rmw %v[%i, %j], %e {{{attributes}}} : "
        f"{_VIEW.format(element)}, {ty}, index, index -> {ty}{kept}"
    )


SCRATCH = [
    Case(
        "ext.alloca",
        "aa-scratch",
        "num_elem must be at least 0, got -1",
        _alloca("num_elem = -1 : i64, alignment = 4 : i64"),
        _alloca("num_elem = 0 : i64, alignment = 4 : i64"),
    ),
    Case(
        "ext.alloca",
        "aa-scratch",
        "a power of two of at least 4 bytes, the size of an element, got 2",
        _alloca("num_elem = 8 : i64, alignment = 2 : i64"),
        _alloca("num_elem = 8 : i64, alignment = 4 : i64"),
    ),
    Case(
        "ext.alloca",
        "aa-scratch",
        "the size of an element, got 12",
        _alloca("num_elem = 8 : i64, alignment = 12 : i64"),
        _alloca("num_elem = 8 : i64, alignment = 16 : i64, global"),
    ),
    Case(
        "ext.alloca",
        "aa-address-space",
        "expected a pointer to generic, global or local memory, got address space 3 (shared)",
        _alloca("num_elem = 8 : i64, alignment = 4 : i64", "!nv_tileaa.ptr<f32, 3>"),
        _alloca("num_elem = 8 : i64, alignment = 4 : i64", "!nv_tileaa.ptr<f32, 5>"),
    ),
]

ORDER = [
    Case(
        "ext.fence",
        "missing-property",
        "property 'kind' is missing: it must be one of alias",
        f'%u = "nv_tileaa.ext.fence"(%t) : ({_TOKEN}) -> {_TOKEN}',
        f'%u = "nv_tileaa.ext.fence"(%t) <{{kind = #nv_tileaa<fence_kind alias>}}> '
        f": ({_TOKEN}) -> {_TOKEN}",
    ),
    Case(
        "ext.grid_dependency",
        "operand-type",
        "must be a mem_token, but got 'i32'",
        f"%u = nv_tileaa.ext.grid_dependency %n {{action = wait}} : i32 -> {_TOKEN}",
        f"%u = nv_tileaa.ext.grid_dependency %t {{action = wait}} : {_TOKEN} -> {_TOKEN}",
    ),
]


def _insert(destination: str, source: str, offsets: str) -> str:
    return (
        f"%r = nv_tileaa.ext.insert_slice %d, %s {{offsets = array<i64: {offsets}>}} "
        f": {destination}, {source} -> {destination}"
    )


def _tiles(destination: str, source: str) -> dict[str, str]:
    return {"d": destination, "s": source}


SLICES = [
    Case(
        "ext.insert_slice",
        "aa-range",
        "expected a slice within [0, 8) along axis 0, got [6, 10)",
        _insert("tile<8xf32>", "tile<4xf32>", "6"),
        _insert("tile<8xf32>", "tile<4xf32>", "4"),
        _tiles("tile<8xf32>", "tile<4xf32>"),
    ),
    Case(
        "ext.insert_slice",
        "aa-shape",
        "expected a slice of rank 2, the rank of the destination, got 1",
        "%r = nv_tileaa.ext.insert_slice %tile, %f {offsets = array<i64: 0, 0>} "
        ": tile<8x16xf32>, tile<8xf32> -> tile<8x16xf32>",
        "%r = nv_tileaa.ext.insert_slice %tile, %s {offsets = array<i64: 0, 0>} "
        ": tile<8x16xf32>, tile<8x1xf32> -> tile<8x16xf32>",
        {"s": "tile<8x1xf32>"},
    ),
    Case(
        "ext.insert_slice",
        "aa-index-count",
        "expected an offset for each of 2 axes, all in 'offsets' or all as operands, got 0 and 1",
        "%r = nv_tileaa.ext.insert_slice %tile[%i], %s "
        ": tile<8x16xf32>, tile<8x1xf32>, index -> tile<8x16xf32>",
        "%r = nv_tileaa.ext.insert_slice %tile[%i, %j], %s "
        ": tile<8x16xf32>, tile<8x1xf32>, index, index -> tile<8x16xf32>",
        {"s": "tile<8x1xf32>"},
    ),
    Case(
        "ext.insert_slice",
        "aa-element-type",
        "expected 'source' to have the element type 'f32' of 'destination', got 'i32'",
        _insert("tile<8xf32>", "tile<4xi32>", "0").replace("%s", "%w"),
        _insert("tile<8xf32>", "tile<4xf32>", "0"),
        {**_tiles("tile<8xf32>", "tile<4xf32>"), "w": "tile<4xi32>"},
    ),
    Case(
        "ext.insert_slice",
        "type-relation",
        "have same type: 'destination' is 'tile<8xf32>', 'result' is 'tile<4xf32>'",
        "%r = nv_tileaa.ext.insert_slice %f, %f {offsets = array<i64: 0>} "
        ": tile<8xf32>, tile<8xf32> -> tile<4xf32>",
        "%r = nv_tileaa.ext.insert_slice %f, %f {offsets = array<i64: 0>} "
        ": tile<8xf32>, tile<8xf32> -> tile<8xf32>",
    ),
]

MULTIMEM = [
    Case(
        "tiled_load",
        "aa-multimem",
        "with elements of i32, i64, f16, bf16, f32, f64, got i8",
        _load("multimem = add", "i8"),
        _load("padding_value = zero", "i8"),
        _view("i8"),
    ),
    Case(
        "tiled_load",
        "aa-multimem",
        "with another reduction for floats than max, got f32",
        _load("multimem = max", "f32"),
        _load("multimem = add", "f32"),
        _view("f32"),
    ),
    Case(
        "tiled_load",
        "aa-multimem",
        "with another reduction for floats than umax, got f16",
        _load("multimem = umax", "f16"),
        _load("multimem = max", "f16"),
        _view("f16"),
    ),
    Case(
        "tiled_load",
        "aa-multimem",
        "through a tiled_view, but the base is '!nv_tileaa.memref<?x?xf32, 1>'",
        "%r = nv_tileaa.tiled_load %mr[%i, %j] {multimem = add} "
        ": !nv_tileaa.memref<?x?xf32, 1>, index, index -> tile<4x4xf32>",
        "%r = nv_tileaa.tiled_load %mr[%i, %j] "
        ": !nv_tileaa.memref<?x?xf32, 1>, index, index -> tile<4x4xf32>",
    ),
    Case(
        "tiled_store",
        "aa-multimem",
        "with elements of i32, i64, f16, bf16, f32, f64, got i16",
        _store("i16"),
        _store("i16").replace("{multimem}", "{multimem = false}"),
        _view("i16"),
    ),
    Case(
        "tiled_atomic_rmw",
        "aa-multimem",
        "multicast memory cannot be exchanged, got mode xchg",
        _update("rmw_mode = xchg, multimem", "i32"),
        _update("rmw_mode = umax, multimem", "i32"),
        _view("i32"),
    ),
    Case(
        "tiled_atomic_rmw",
        "aa-multimem",
        "updates of multicast memory are relaxed or release, but got acq_rel",
        _update("rmw_mode = addf, mem_semantic = acq_rel, mem_scope = sys, multimem", "f32"),
        _update("rmw_mode = addf, mem_semantic = release, mem_scope = sys, multimem", "f32"),
        _view("f32"),
    ),
    Case(
        "tiled_atomic_rmw",
        "aa-multimem",
        "an update of multicast memory returns no old value, but its result has 1 uses",
        _update("rmw_mode = add, multimem", "i64", use=True),
        _update("rmw_mode = add", "i64", use=True),
        _view("i64"),
    ),
]
CASES = [*SCRATCH, *ORDER, *SLICES, *MULTIMEM]
