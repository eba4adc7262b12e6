"""Kernels with one bug each, and their nearest correct twins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

_TILES = """\
%all = memref.get_global @tiles : memref<2x64x64xf16, 3>
%ta = memref.subview %all[0, 0, 0] [1, 64, 64] [1, 1, 1] : memref<2x64x64xf16, 3> to memref<64x64xf16, strided<[64, 1]>, 3>
%tb = memref.subview %all[1, 0, 0] [1, 64, 64] [1, 1, 1] : memref<2x64x64xf16, 3> to memref<64x64xf16, strided<[64, 1], offset: 4096>, 3>
"""
_LOAD_A = "nvgpu.tma.async.load %a[%c0, %c0], %bar[%c0] to %ta, predicate = %first : !map, !bars -> memref<64x64xf16, strided<[64, 1]>, 3>\n"
_LOAD_B = "nvgpu.tma.async.load %a[%c0, %c0], %bar[%c0] to %tb, predicate = %first : !map, !bars -> memref<64x64xf16, strided<[64, 1], offset: 4096>, 3>\n"
_FENCE = (
    "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}\n"
)
_DESCRIPTORS = """\
%da = nvgpu.warpgroup.generate.descriptor %ta, %a : memref<64x64xf16, strided<[64, 1]>, 3>, !map -> !desc
%db = nvgpu.warpgroup.generate.descriptor %tb, %a : memref<64x64xf16, strided<[64, 1], offset: 4096>, 3>, !map -> !desc
%zero = nvgpu.warpgroup.mma.init.accumulator -> !acc
"""


def _init(count: str = "%c1") -> str:
    return f"""\
%bar = nvgpu.mbarrier.create -> !bars
scf.if %first {{
  nvgpu.mbarrier.init %bar[%c0], {count} : !bars
  nvgpu.mbarrier.init %bar[%c1], %c1 : !bars
  nvvm.fence.mbarrier.init
}}
gpu.barrier
"""


def _loads(bytes_: int = 16384, *, init: str = "%c1", predicate: str = "%first") -> str:
    return (
        _TILES
        + _init(init)
        + f"%bytes = arith.constant {bytes_} : index\n"
        + f"nvgpu.mbarrier.arrive.expect_tx %bar[%c0], %bytes, predicate = {predicate} : !bars\n"
        + _LOAD_A
        + _LOAD_B
    )


_WAIT = "nvgpu.mbarrier.try_wait.parity %bar[%c0], %even, %ticks : !bars\n"
_MAP = "%a: !map, %d: memref<64x64xf32>"


def _product(group: str = "waitGroup = 0 : i32", after: str = "") -> str:
    return (
        _loads()
        + _WAIT
        + _DESCRIPTORS
        + f"%sum = nvgpu.warpgroup.mma %da, %db, %zero {{transposeB, {group}}} : !desc, !desc, !acc -> !acc\n"
        + after
        + "nvgpu.warpgroup.mma.store %sum, %d : !acc to memref<64x64xf32>"
    )


def _tile_args() -> list[Any]:
    return [np.ones((64, 64), np.float16), np.zeros((64, 64), np.float32)]


_STORE_WORD = """\
%x = arith.constant 1.0 : f32
memref.store %x, %words[%tid] : memref<256xf32, 3>
"""
_OTHER_WORD = """\
%n = gpu.block_dim x
%next = arith.addi %tid, %c32 : index
%other = arith.remui %next, %n : index
%y = memref.load %words[%other] : memref<256xf32, 3>
"""
_CP_ASYNC = """\
%at = arith.muli %tid, %c4 : index
%copy = nvgpu.device_async_copy %g[%at], %words[%at], 4 : memref<256xf32> to memref<256xf32, 3>
%group = nvgpu.device_async_create_group %copy
"""
_READ_WORD = "%y = memref.load %words[%at] : memref<256xf32, 3>\n"
_WORDS = [np.arange(256, dtype=np.float32)]
_BOX = "%box = memref.get_global @box : memref<8x16xf32, 3>\n"
_FILL_BOX = """\
%x = arith.constant 1.0 : f32
%row = arith.remui %tid, %c8 : index
%quarter = arith.divui %tid, %c8 : index
%column = arith.muli %quarter, %c4 : index
%xs = vector.broadcast %x : f32 to vector<4xf32>
vector.store %xs, %box[%row, %column] : memref<8x16xf32, 3>, vector<4xf32>
"""
_FILL_AGAIN = _FILL_BOX.split("%xs = ")[1].partition("\n")[2]
_STORE_BOX = "nvgpu.tma.async.store %box to %m[%c0, %c0], predicate = %first : memref<8x16xf32, 3> -> !plain\n"
_STORE_END = "nvvm.cp.async.bulk.commit.group\nnvvm.cp.async.bulk.wait_group 0 {read}\n"


def _box_args() -> list[Any]:
    return [np.zeros((8, 16), np.float32)]


@dataclass(frozen=True)
class Bug:
    """``says`` is part of the message or of a note."""

    name: str
    code: str
    says: str
    bad: str
    good: str
    parameters: str = ""
    args: Any = field(default=list)
    block: int = 64
    options: dict[str, Any] = field(default_factory=dict)


_ROWS = (
    "%h = memref.get_global @halves : memref<64x64xf16, 3>\n%x = arith.constant dense<1.0> : vector<8xf16>\n"
    "vector.store %x, %h[%lane, %c0] : memref<64x64xf16, 3>, vector<8xf16>\n"
    "%m = nvgpu.ldmatrix %h[%lane, %c0] {numTiles = 1 : i32, transpose = false} : memref<64x64xf16, 3> -> vector<1x2xf16>"
)
_SPREAD = (
    "%all = arith.constant dense<true> : vector<4xi1>\n%z = arith.constant dense<0.0> : vector<4xf32>\n%at = arith.constant {} : index\n"
    "%x = arith.constant dense<1.0> : vector<8xf32>\n%mine = arith.muli %lane, %c8 : index\nvector.store %x, %words[%mine] : memref<256xf32, 3>, vector<8xf32>\ngpu.barrier\n"
    "%v = vector.expandload %words[%at], %all, %z : memref<256xf32, 3>, vector<4xi1>, vector<4xf32> into vector<4xf32>"
)
_SHUFFLE = (
    "%x = arith.index_cast %lane : index to i32\n%o = arith.constant 0 : i32\n%w = arith.constant {} : i32\n"
    "%got, %ok = gpu.shuffle xor %x, %o, %w : i32"
)

BUGS = [
    Bug(
        "cp.async read before its wait",
        "sim-copy-not-awaited",
        "before warp 0 has waited for the cp.async",
        _CP_ASYNC + _READ_WORD,
        _CP_ASYNC + "nvgpu.device_async_wait %group\n" + _READ_WORD,
        "%g: memref<256xf32>",
        lambda: list(_WORDS),
        32,
    ),
    Bug(
        "cp.async waited for with one group too many allowed",
        "sim-copy-not-awaited",
        "has waited for the cp.async",
        _CP_ASYNC + "nvgpu.device_async_wait %group {numGroups = 1 : i32}\n" + _READ_WORD,
        _CP_ASYNC + "nvgpu.device_async_wait %group {numGroups = 0 : i32}\n" + _READ_WORD,
        "%g: memref<256xf32>",
        lambda: list(_WORDS),
        32,
    ),
    Bug(
        "cp.async of another warp read without a barrier",
        "sim-race",
        "unordered",
        _CP_ASYNC + "nvgpu.device_async_wait %group\n" + _OTHER_WORD,
        _CP_ASYNC + "nvgpu.device_async_wait %group\ngpu.barrier\n" + _OTHER_WORD,
        "%g: memref<256xf32>",
        lambda: list(_WORDS),
        64,
        # The other order finds that the copy has not been waited for at all.
        {"seed": 1},
    ),
    Bug(
        "shared memory written and read by two warps",
        "sim-race",
        "unordered",
        _STORE_WORD + _OTHER_WORD,
        _STORE_WORD + "gpu.barrier\n" + _OTHER_WORD,
    ),
    Bug(
        "lanes of a warp that write different values to one place",
        "sim-race",
        "lanes 0 and 8 of warp 0 write different values to byte 0 of shared memory",
        "%at = arith.remui %tid, %c8 : index\n%n = arith.index_cast %tid : index to i32\n"
        "%x = arith.sitofp %n : i32 to f32\nmemref.store %x, %words[%at] : memref<256xf32, 3>",
        # The same value from every lane is no conflict.
        "%at = arith.remui %tid, %c8 : index\n%x = arith.constant 1.0 : f32\n"
        "memref.store %x, %words[%at] : memref<256xf32, 3>",
        block=32,
    ),
    Bug(
        "vectors of lanes that overlap in global memory",
        "sim-race",
        "in one vector.store; which one remains is undefined",
        "%n = arith.index_cast %tid : index to i32\n%x = arith.sitofp %n : i32 to f32\n"
        "%v = vector.broadcast %x : f32 to vector<2xf32>\n%at = arith.divui %tid, %c2 : index\n"
        "%pair = arith.muli %at, %c2 : index\n"
        "vector.store %v, %g[%pair] : memref<256xf32>, vector<2xf32>",
        "%n = arith.index_cast %tid : index to i32\n%x = arith.sitofp %n : i32 to f32\n"
        "%v = vector.broadcast %x : f32 to vector<2xf32>\n%pair = arith.muli %tid, %c2 : index\n"
        "vector.store %v, %g[%pair] : memref<256xf32>, vector<2xf32>",
        "%g: memref<256xf32>",
        lambda: list(_WORDS),
        32,
    ),
    Bug(
        "global memory written and read by two warps",
        "sim-race",
        "of argument 'g', which warp",
        "%x = arith.constant 1.0 : f32\nmemref.store %x, %g[%tid] : memref<256xf32>\n"
        + _OTHER_WORD.replace(
            "%words[%other] : memref<256xf32, 3>", "%g[%other] : memref<256xf32>"
        ),
        "%x = arith.constant 1.0 : f32\nmemref.store %x, %g[%tid] : memref<256xf32>\ngpu.barrier\n"
        + _OTHER_WORD.replace(
            "%words[%other] : memref<256xf32, 3>", "%g[%other] : memref<256xf32>"
        ),
        "%g: memref<256xf32>",
        lambda: list(_WORDS),
    ),
    Bug(
        "warps that write different values to one place of global memory",
        "sim-race",
        "of argument 'g', which warp 0 writes, unordered",
        "%n = arith.index_cast %warp : index to i32\n%x = arith.sitofp %n : i32 to f32\n"
        "memref.store %x, %g[%lane] : memref<256xf32>",
        # The same value from every warp is no conflict.
        "%x = arith.constant 1.0 : f32\nmemref.store %x, %g[%lane] : memref<256xf32>",
        "%g: memref<256xf32>",
        lambda: list(_WORDS),
    ),
    Bug(
        "shared memory overwritten while another warp may read it",
        "sim-race",
        "reads, unordered",
        _STORE_WORD
        + "gpu.barrier\n"
        + _OTHER_WORD
        + "memref.store %y, %words[%tid] : memref<256xf32, 3>",
        _STORE_WORD
        + "gpu.barrier\n"
        + _OTHER_WORD
        + "gpu.barrier\nmemref.store %y, %words[%tid] : memref<256xf32, 3>",
    ),
    Bug(
        "shared memory that nobody wrote",
        "sim-uninitialized",
        "which is uninitialized",
        "%y = memref.load %words[%tid] : memref<256xf32, 3>",
        _STORE_WORD + "%y = memref.load %words[%tid] : memref<256xf32, 3>",
    ),
    Bug(
        "TMA data read without waiting",
        "sim-copy-not-awaited",
        "TMA load for phase 0 of %bar[0]",
        _loads() + "%y = memref.load %ta[%c0, %c0] : memref<64x64xf16, strided<[64, 1]>, 3>",
        _loads()
        + _WAIT
        + "%y = memref.load %ta[%c0, %c0] : memref<64x64xf16, strided<[64, 1]>, 3>",
        _MAP,
        _tile_args,
        32,
    ),
    Bug(
        "TMA data read after the wait for the phase before",
        "sim-copy-not-awaited",
        "TMA load for phase 0 of %bar[0]",
        _loads()
        + _WAIT.replace("%even", "%odd")
        + "%y = memref.load %ta[%c0, %c0] : memref<64x64xf16, strided<[64, 1]>, 3>",
        _loads()
        + _WAIT
        + "%y = memref.load %ta[%c0, %c0] : memref<64x64xf16, strided<[64, 1]>, 3>",
        _MAP,
        _tile_args,
        32,
    ),
    Bug(
        "TMA overwrites a tile that is still read",
        "sim-race",
        "reads, unordered",
        _loads()
        + _WAIT
        + "%y = memref.load %ta[%c0, %c0] : memref<64x64xf16, strided<[64, 1]>, 3>\n"
        + "%half = arith.constant 8192 : index\n"
        + "nvgpu.mbarrier.arrive.expect_tx %bar[%c0], %half, predicate = %first : !bars\n"
        + _LOAD_A
        + _WAIT.replace("%even", "%odd"),
        _loads()
        + _WAIT
        + "%y = memref.load %ta[%c0, %c0] : memref<64x64xf16, strided<[64, 1]>, 3>\ngpu.barrier\n"
        + "%half = arith.constant 8192 : index\n"
        + "nvgpu.mbarrier.arrive.expect_tx %bar[%c0], %half, predicate = %first : !bars\n"
        + _LOAD_A
        + _WAIT.replace("%even", "%odd"),
        _MAP,
        _tile_args,
        64,
    ),
    Bug(
        "a TMA load that nobody waits for",
        "sim-copy-not-awaited",
        "without a wait for the TMA load of phase 0",
        _loads(),
        _loads() + _WAIT,
        _MAP,
        _tile_args,
    ),
    Bug(
        "a barrier that the async proxy does not know",
        "sim-missing-proxy-fence",
        "whose init is not visible to the async proxy",
        _loads().replace("  nvvm.fence.mbarrier.init\n", "") + _WAIT,
        _loads() + _WAIT,
        _MAP,
        _tile_args,
    ),
    Bug(
        "TMA store of what was stored without a fence",
        "sim-missing-proxy-fence",
        "without a proxy fence",
        _BOX + _FILL_BOX + "gpu.barrier\n" + _STORE_BOX + _STORE_END,
        _BOX + _FILL_BOX + _FENCE + "gpu.barrier\n" + _STORE_BOX + _STORE_END,
        "%m: !plain",
        _box_args,
        32,
    ),
    Bug(
        "the source of a TMA store written again too early",
        "sim-copy-not-awaited",
        "while a TMA store still reads it",
        _BOX + _FILL_BOX + _FENCE + _STORE_BOX + _FILL_AGAIN + _STORE_END,
        _BOX + _FILL_BOX + _FENCE + _STORE_BOX + _STORE_END + _FILL_AGAIN,
        "%m: !plain",
        _box_args,
        32,
    ),
    Bug(
        "a block that ends under a TMA store",
        "sim-copy-not-awaited",
        "ends while a TMA store still reads",
        _BOX + _FILL_BOX + _FENCE + _STORE_BOX + "nvvm.cp.async.bulk.commit.group",
        _BOX + _FILL_BOX + _FENCE + _STORE_BOX + _STORE_END,
        "%m: !plain",
        _box_args,
        32,
    ),
    Bug(
        "a store that no group has",
        "sim-copy-not-awaited",
        "ends while a TMA store still reads",
        _BOX + _FILL_BOX + _FENCE + _STORE_BOX + "nvvm.cp.async.bulk.wait_group 0 {read}",
        _BOX + _FILL_BOX + _FENCE + _STORE_BOX + _STORE_END,
        "%m: !plain",
        _box_args,
        32,
    ),
    Bug(
        "an accumulator read too early",
        "sim-accumulator-not-awaited",
        "has not been waited for",
        _product("waitGroup = 1 : i32"),
        _product("waitGroup = 1 : i32", "nvvm.wgmma.wait.group.sync.aligned 0\n"),
        _MAP,
        _tile_args,
        128,
    ),
    Bug(
        "an operand overwritten under a product",
        "sim-accumulator-not-awaited",
        "while a product of warp",
        _product(
            "waitGroup = 1 : i32",
            "%h = arith.constant 1.0 : f16\ngpu.barrier\n"
            "memref.store %h, %tb[%c0, %c0] : memref<64x64xf16, strided<[64, 1], offset: 4096>, 3>\n"
            "nvvm.wgmma.wait.group.sync.aligned 0\n",
        ),
        _product(
            "waitGroup = 1 : i32",
            "%h = arith.constant 1.0 : f16\nnvvm.wgmma.wait.group.sync.aligned 0\ngpu.barrier\n"
            "scf.if %first {\n"
            "memref.store %h, %tb[%c0, %c0] : memref<64x64xf16, strided<[64, 1], offset: 4096>, 3>\n"
            "}\n",
        ),
        _MAP,
        _tile_args,
        128,
    ),
    Bug(
        "more bytes expected than copied",
        "sim-deadlock",
        "16 bytes of copies are missing",
        _loads(16400) + _WAIT,
        _loads() + _WAIT,
        _MAP,
        _tile_args,
    ),
    Bug(
        "fewer bytes expected than copied",
        "sim-transaction-count",
        "8192 bytes less than its copies deliver",
        _loads(8192) + _WAIT,
        _loads() + _WAIT,
        _MAP,
        _tile_args,
    ),
    Bug(
        "every thread expects the bytes",
        "sim-deadlock",
        "bytes of copies are missing",
        _loads(init="%c32", predicate="%odd") + _WAIT,
        _loads() + _WAIT,
        _MAP,
        _tile_args,
        32,
    ),
    Bug(
        "too many bytes for a phase",
        "sim-transaction-count",
        "counts up to 1048575",
        _loads(1000000, init="%c32", predicate="%odd"),
        _loads() + _WAIT,
        _MAP,
        _tile_args,
        32,
    ),
    Bug(
        "an arrival too few",
        "sim-deadlock",
        "1 of 2 arrivals are missing",
        _loads(init="%c2") + _WAIT,
        _loads(init="%c1") + _WAIT,
        _MAP,
        _tile_args,
    ),
    Bug(
        "an arrival too many",
        "sim-arrival-count",
        "31 times more than phase 0 allows, which expects 1 arrivals",
        _loads(predicate="%odd") + _WAIT,
        _loads() + _WAIT,
        _MAP,
        _tile_args,
        32,
    ),
    Bug(
        "a wait for a phase that never comes",
        "sim-deadlock",
        "waits for the end of phase 1 (parity 1) of %bar[0]",
        _loads() + _WAIT + _WAIT.replace("%even", "%odd"),
        _loads() + _WAIT + _WAIT,
        _MAP,
        _tile_args,
    ),
    Bug(
        "a barrier of the block that a warp does not reach",
        "sim-deadlock",
        "where 32 of 64 threads have arrived; not there: warps 1",
        "%is = arith.cmpi eq, %warp, %c0 : index\n%bar = nvgpu.mbarrier.create -> !bars\n"
        "scf.if %first {\n  nvgpu.mbarrier.init %bar[%c0], %c1 : !bars\n}\ngpu.barrier\n"
        "scf.if %is {\n  gpu.barrier\n} else {\n" + _WAIT + "}",
        "%is = arith.cmpi eq, %warp, %c0 : index\ngpu.barrier\nscf.if %is {\n  gpu.barrier\n}",
    ),
    Bug(
        "a barrier used before its init",
        "sim-barrier-state",
        "is not initialized",
        "%bar = nvgpu.mbarrier.create -> !bars\n%t = nvgpu.mbarrier.arrive %bar[%c0] : !bars -> !token",
        _init("%c32") + "%t = nvgpu.mbarrier.arrive %bar[%c0] : !bars -> !token",
        block=32,
    ),
    Bug(
        "a barrier initialized by all lanes",
        "sim-barrier-state",
        "in 32 threads at once",
        "%bar = nvgpu.mbarrier.create -> !bars\nnvgpu.mbarrier.init %bar[%c0], %c1 : !bars",
        "%bar = nvgpu.mbarrier.create -> !bars\n"
        "nvgpu.mbarrier.init %bar[%c0], %c1, predicate = %first : !bars",
        block=32,
    ),
    Bug(
        "an init that is not ordered before the arrival",
        "sim-race",
        "with the barrier's init",
        "%bar = nvgpu.mbarrier.create -> !bars\n"
        "nvgpu.mbarrier.init %bar[%c0], %c64, predicate = %first : !bars\n"
        "%t = nvgpu.mbarrier.arrive %bar[%c0] : !bars -> !token",
        _init("%c64") + "%t = nvgpu.mbarrier.arrive %bar[%c0] : !bars -> !token",
        # The order in which warp 0 comes first; in the other the barrier is not initialized yet.
        options={"seed": 1},
    ),
    Bug(
        "ldmatrix by some lanes",
        "sim-divergent-collective",
        "must be executed by whole warps, but lanes 16, 17",
        "%half = arith.cmpi ult, %lane, %c16 : index\n%h = memref.get_global @halves : memref<64x64xf16, 3>\n"
        "scf.if %half {\n%m = nvgpu.ldmatrix %h[%lane, %c0] {numTiles = 1 : i32, transpose = false} : memref<64x64xf16, 3> -> vector<1x2xf16>\n}",
        "%h = memref.get_global @halves : memref<64x64xf16, 3>\n%x = arith.constant dense<1.0> : vector<8xf16>\n"
        "vector.store %x, %h[%lane, %c0] : memref<64x64xf16, 3>, vector<8xf16>\n"
        "%m = nvgpu.ldmatrix %h[%lane, %c0] {numTiles = 1 : i32, transpose = false} : memref<64x64xf16, 3> -> vector<1x2xf16>",
        block=32,
    ),
    Bug(
        "a barrier of the block by some lanes",
        "sim-divergent-collective",
        "must be executed by whole warps",
        "scf.if %first {\n  gpu.barrier\n}",
        "%is = arith.cmpi eq, %warp, %c0 : index\nscf.if %is {\n  gpu.barrier\n} else {\n  gpu.barrier\n}",
    ),
    Bug(
        "a product by three warps",
        "sim-divergent-collective",
        "must be executed by four warps",
        _product(),
        _product(),
        _MAP,
        _tile_args,
        96,
    ),
    Bug(
        "an index outside of a memref",
        "sim-out-of-bounds",
        "accesses index 256 of dimension 0 of 256 elements",
        "%x = arith.constant 1.0 : f32\n%at = arith.muli %tid, %c8 : index\n%o = arith.addi %at, %c8 : index\n"
        "memref.store %x, %words[%o] : memref<256xf32, 3>",
        "%x = arith.constant 1.0 : f32\n%at = arith.muli %tid, %c8 : index\n"
        "memref.store %x, %words[%at] : memref<256xf32, 3>",
        block=32,
    ),
    Bug(
        "a cp.async of 16 bytes at 4 bytes",
        "sim-misaligned",
        "which is not a multiple of 16",
        _CP_ASYNC.replace(
            "%at = arith.muli %tid, %c4 : index", "%at = arith.addi %tid, %c0 : index"
        ),
        _CP_ASYNC,
        "%g: memref<256xf32>",
        lambda: list(_WORDS),
        32,
    ),
    Bug(
        "a tile for TMA at an odd place",
        "sim-misaligned",
        "which is not a multiple of 1024",
        (_loads() + _WAIT)
        .replace("%tb = memref.subview %all[1, 0, 0]", "%tb = memref.subview %all[0, 1, 0]")
        .replace("offset: 4096", "offset: 64"),
        _loads() + _WAIT,
        _MAP,
        _tile_args,
    ),
    Bug(
        "one row of ldmatrix at 8 bytes",
        "sim-misaligned",
        "reads a row at shared byte 1160, which is not a multiple of 16",
        "%two = arith.constant 2 : index\n%half_of = arith.remui %lane, %two : index\n%at = arith.muli %half_of, %c4 : index\n"
        + _ROWS.replace("%c0] {", "%at] {"),
        _ROWS,
        block=32,
    ),
    Bug(
        "the last of the elements that a mask spreads lies outside",
        "sim-out-of-bounds",
        "accesses index 256 of dimension 0 of 256 elements",
        _SPREAD.format(253),
        _SPREAD.format(252),
        block=32,
    ),
    Bug(
        "a shuffle among no lanes",
        "sim-undefined-arithmetic",
        "gpu.shuffle among 0 lanes",
        _SHUFFLE.format(0),
        _SHUFFLE.format(32),
        block=32,
    ),
]
