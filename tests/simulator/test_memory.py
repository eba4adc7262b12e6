"""Memrefs, vectors, TMA boxes, and arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.simulator.kernels import codes, kernel, run

from tilewright import LaunchOptions
from tilewright.diagnostics import TileIRError
from tilewright.simulator import Program, TensorMap
from tilewright.simulator.memory import Buffer


def test_views_of_memory() -> None:
    a = np.arange(64, dtype=np.float32).reshape(8, 8)
    out = np.zeros(32, np.float32)
    body = """
    %row = arith.divui %tid, %c4 : index
    %col = arith.remui %tid, %c4 : index
    %part = memref.subview %a[%c0, %c2] [8, 3] [1, 2] : memref<8x8xf32> to memref<8x3xf32, strided<[8, 2], offset: ?>>
    %inner = memref.subview %part[0, 1] [8, 2] [1, 1] : memref<8x3xf32, strided<[8, 2], offset: ?>> to memref<8x2xf32, strided<[8, 2], offset: ?>>
    %half = arith.divui %col, %c2 : index
    %x = memref.load %inner[%row, %half] : memref<8x2xf32, strided<[8, 2], offset: ?>>
    %flat = memref.reinterpret_cast %a to offset: [8], sizes: [32], strides: [1] : memref<8x8xf32> to memref<32xf32, strided<[1], offset: 8>>
    %y = memref.load %flat[%tid] : memref<32xf32, strided<[1], offset: 8>>
    %sum = arith.addf %x, %y : f32
    memref.store %sum, %out[%tid] : memref<32xf32>
    """
    assert not run(body, "%a: memref<8x8xf32>, %out: memref<32xf32>", [a, out]).diagnostics
    tid = np.arange(32)
    assert (out == a[tid // 4, 4 + 2 * (tid % 4 // 2)] + a.ravel()[8 + tid]).all()


def test_strided_arguments() -> None:
    whole = np.arange(128, dtype=np.int32).reshape(8, 16)
    out = np.zeros(32, np.int32)
    body = """
    %row = arith.divui %tid, %c4 : index
    %col = arith.remui %tid, %c4 : index
    %x = memref.load %a[%row, %col] : memref<8x4xi32, strided<[?, ?], offset: ?>>
    memref.store %x, %out[%tid] : memref<32xi32>
    """
    parameters = "%a: memref<8x4xi32, strided<[?, ?], offset: ?>>, %out: memref<32xi32>"
    view = whole[:, 1:13:3]
    assert not run(body, parameters, [view, out]).diagnostics
    assert (out.reshape(8, 4) == view).all()


def test_dynamic_shared_memory() -> None:
    out = np.zeros(32, np.float32)
    body = """
    %bytes = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
    %shift = arith.constant 128 : index
    %tile = memref.view %bytes[%shift][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<32xf32, #gpu.address_space<workgroup>>
    %x = arith.constant 2.5 : f32
    memref.store %x, %tile[%tid] : memref<32xf32, #gpu.address_space<workgroup>>
    %y = memref.load %tile[%tid] : memref<32xf32, #gpu.address_space<workgroup>>
    memref.store %y, %out[%tid] : memref<32xf32>
    """
    assert not run(body, "%out: memref<32xf32>", [out], dynamic_shared_bytes=256).diagnostics
    assert (out == 2.5).all()
    too_small = run(body, "%out: memref<32xf32>", [out], dynamic_shared_bytes=128)
    assert codes(too_small) == {"sim-out-of-bounds"}


def test_private_and_constant_memory() -> None:
    out = np.zeros(32, np.float32)
    body = """
    %own = memref.alloca() : memref<4xf32, 5>
    %table = memref.get_global @table : memref<4xf32>
    %i = arith.remui %tid, %c4 : index
    %x = memref.load %table[%i] : memref<4xf32>
    %t = arith.index_cast %tid : index to i32
    %f = arith.sitofp %t : i32 to f32
    %p = arith.mulf %x, %f : f32
    memref.store %p, %own[%i] : memref<4xf32, 5>
    %y = memref.load %own[%i] : memref<4xf32, 5>
    memref.store %y, %out[%tid] : memref<32xf32>
    """
    assert not run(body, "%out: memref<32xf32>", [out]).diagnostics
    assert (out == np.array([1, 2, 3, 4])[np.arange(32) % 4] * np.arange(32)).all()


def test_atomic_updates() -> None:
    out = np.zeros(4, np.int32)
    body = """
    %one = arith.constant 1 : i32
    %i = arith.remui %tid, %c4 : index
    %old = memref.atomic_rmw addi %one, %out[%i] : (i32, memref<4xi32>) -> i32
    """
    assert not run(body, "%out: memref<4xi32>", [out], block=96, grid=2).diagnostics
    assert (out == 48).all()


def test_atomic_updates_of_shared_memory_do_not_race() -> None:
    body = """
    %x = arith.constant 1.0 : f32
    scf.if %first {
      memref.store %x, %words[%c0] : memref<256xf32, 3>
    }
    gpu.barrier
    %old = memref.atomic_rmw addf %x, %words[%c0] : (f32, memref<256xf32, 3>) -> f32
    """
    assert not run(body, block=96).diagnostics
    mixed = (
        body.replace(
            "%old = memref.atomic_rmw",
            "%is = arith.cmpi eq, %warp, %c0 : index\n"
            "scf.if %is {\n%y = memref.load %words[%c0] : memref<256xf32, 3>\n} else {\n"
            "%old = memref.atomic_rmw",
        )
        + "}"
    )
    assert codes(run(mixed, block=96)) == {"sim-race"}


def _tma(out_of: Any, x: int, y: int, ty: str = "!plain", **options: Any) -> tuple[Any, Any]:
    """The box at (x, y) as 8 x 16 numbers."""
    out = np.zeros((8, 16), np.float32)
    body = f"""
    %box = memref.get_global @box : memref<8x16xf32, 3>
    %bar = nvgpu.mbarrier.create -> !bars
    nvgpu.mbarrier.init %bar[%c0], %c1, predicate = %first : !bars
    nvvm.fence.mbarrier.init
    %bytes = arith.constant 512 : index
    %x = arith.constant {x} : index
    %y = arith.constant {y} : index
    nvgpu.mbarrier.arrive.expect_tx %bar[%c0], %bytes, predicate = %first : !bars
    nvgpu.tma.async.load %m[%x, %y], %bar[%c0] to %box, predicate = %first : {ty}, !bars -> memref<8x16xf32, 3>
    nvgpu.mbarrier.try_wait.parity %bar[%c0], %even, %ticks : !bars
    %row = arith.divui %tid, %c4 : index
    %q = arith.remui %tid, %c4 : index
    %col = arith.muli %q, %c4 : index
    %v = vector.load %box[%row, %col] : memref<8x16xf32, 3>, vector<4xf32>
    vector.store %v, %out[%row, %col] : memref<8x16xf32>, vector<4xf32>
    """
    result = run(body, f"%m: {ty}, %out: memref<8x16xf32>", [out_of, out], **options)
    assert not result.diagnostics, [d.brief() for d in result.diagnostics]
    return out, result


@pytest.mark.parametrize("corner", [(0, 0), (3, 2), (-3, -2), (12, 6), (100, 0), (4, -8)])
def test_boxes_are_filled_outside(corner: tuple[int, int]) -> None:
    tensor = np.arange(1, 201, dtype=np.float32).reshape(10, 20)
    x, y = corner
    wanted = np.zeros((8, 16), np.float32)
    for i in range(8):
        for j in range(16):
            if 0 <= y + i < 10 and 0 <= x + j < 20:
                wanted[i, j] = tensor[y + i, x + j]
    out, result = _tma(tensor, x, y)
    assert (out == wanted).all()
    assert result.counters.tma_bytes_loaded == 512


def test_boxes_are_filled_with_nan() -> None:
    ty = "!nvgpu.tensormap.descriptor<tensor = memref<8x16xf32, 3>, swizzle = none, l2promo = none, oob = nan, interleave = none>"
    out, _ = _tma(np.ones((8, 16), np.float32), 8, 0, ty)
    assert np.isnan(out[:, 8:]).all() and (out[:, :8] == 1).all()


def test_store_of_a_box_leaves_out_what_is_outside() -> None:
    tensor = np.zeros((10, 20), np.float32)
    body = """
    %box = memref.get_global @box : memref<8x16xf32, 3>
    %x = arith.constant 12 : index
    %row = arith.divui %tid, %c4 : index
    %q = arith.remui %tid, %c4 : index
    %col = arith.muli %q, %c4 : index
    %v = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : vector<4xf32>
    vector.store %v, %box[%row, %col] : memref<8x16xf32, 3>, vector<4xf32>
    nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
    nvgpu.tma.async.store %box to %m[%x, %c4], predicate = %first : memref<8x16xf32, 3> -> !plain
    nvvm.cp.async.bulk.commit.group
    nvvm.cp.async.bulk.wait_group 0
    """
    assert not run(body, "%m: !plain", [tensor]).diagnostics
    wanted = np.zeros_like(tensor)
    wanted[4:, 12:] = np.tile([1, 2, 3, 4], 2)
    assert (tensor == wanted).all()


def test_swizzled_boxes_are_read_back_by_chunks() -> None:
    """Row r of a box with swizzle_128b has its chunks at c ^ (r % 8)."""
    tensor = np.arange(64 * 64).reshape(64, 64).astype(np.float16) / 8
    out = np.zeros((64, 64), np.float16)
    body = """
    %all = memref.get_global @tiles : memref<2x64x64xf16, 3>
    %ta = memref.subview %all[0, 0, 0] [1, 64, 64] [1, 1, 1] : memref<2x64x64xf16, 3> to memref<64x64xf16, strided<[64, 1]>, 3>
    %bar = nvgpu.mbarrier.create -> !bars
    nvgpu.mbarrier.init %bar[%c0], %c1, predicate = %first : !bars
    nvvm.fence.mbarrier.init
    %bytes = arith.constant 8192 : index
    nvgpu.mbarrier.arrive.expect_tx %bar[%c0], %bytes, predicate = %first : !bars
    nvgpu.tma.async.load %m[%c0, %c0], %bar[%c0] to %ta, predicate = %first : !map, !bars -> memref<64x64xf16, strided<[64, 1]>, 3>
    nvgpu.mbarrier.try_wait.parity %bar[%c0], %even, %ticks : !bars
    scf.for %r = %tid to %c64 step %c32 {
      scf.for %c = %c0 to %c8 step %c1 {
        %r8 = arith.remui %r, %c8 : index
        %s = arith.xori %c, %r8 : index
        %from = arith.muli %s, %c8 : index
        %to = arith.muli %c, %c8 : index
        %v = vector.load %ta[%r, %from] : memref<64x64xf16, strided<[64, 1]>, 3>, vector<8xf16>
        vector.store %v, %out[%r, %to] : memref<64x64xf16>, vector<8xf16>
      }
    }
    """
    assert not run(body, "%m: !map, %out: memref<64x64xf16>", [tensor, out]).diagnostics
    assert (out == tensor).all()


def test_multicast_reaches_the_blocks_of_a_cluster() -> None:
    tensor = np.arange(128, dtype=np.float32).reshape(8, 16)
    out = np.zeros((4, 8, 16), np.float32)
    body = """
    %box = memref.get_global @box : memref<8x16xf32, 3>
    %bar = nvgpu.mbarrier.create -> !bars
    nvgpu.mbarrier.init %bar[%c0], %c1, predicate = %first : !bars
    nvvm.fence.mbarrier.init
    nvvm.cluster.arrive
    nvvm.cluster.wait
    %bytes = arith.constant 512 : index
    nvgpu.mbarrier.arrive.expect_tx %bar[%c0], %bytes, predicate = %first : !bars
    %rank = gpu.cluster_block_id x
    %leads = arith.cmpi eq, %rank, %c0 : index
    %does = arith.andi %leads, %first : i1
    %mask = arith.constant 3 : i16
    nvgpu.tma.async.load %m[%c0, %c0], %bar[%c0] to %box multicast_mask = %mask, predicate = %does : !plain, !bars -> memref<8x16xf32, 3>
    nvgpu.mbarrier.try_wait.parity %bar[%c0], %even, %ticks : !bars
    %block = gpu.block_id x
    %row = arith.divui %tid, %c4 : index
    %q = arith.remui %tid, %c4 : index
    %col = arith.muli %q, %c4 : index
    %v = vector.load %box[%row, %col] : memref<8x16xf32, 3>, vector<4xf32>
    vector.store %v, %out[%block, %row, %col] : memref<4x8x16xf32>, vector<4xf32>
    """
    parameters = "%m: !plain, %out: memref<4x8x16xf32>"
    result = run(body, parameters, [tensor, out], grid=4, cluster=2)
    assert not result.diagnostics, [d.brief() for d in result.diagnostics]
    assert (out == tensor).all()


def _refused(body: str, parameters: str, args: Any, **options: Any) -> str:
    with pytest.raises(TileIRError) as error:
        run(body, parameters, args, **options)
    (found,) = error.value.diagnostics
    return f"{found.code}: {found.message}"


F32 = np.zeros(32, np.float32)


@pytest.mark.parametrize(
    ("parameters", "args", "says"),
    [
        ("%a: memref<32xf32>", [], "has 1 parameters, got 0"),
        ("%a: memref<32xf32>", [1.0], "takes a NumPy array, got float"),
        ("%a: memref<32xf32>", [F32.astype(np.float64)], "takes arrays of float32, got float64"),
        ("%a: memref<32xf32>", [F32.reshape(4, 8)], "rank 1, got 2"),
        ("%a: memref<32xf32>", [F32[:16]], "has 32 elements, got 16"),
        ("%a: memref<?xf32>", [F32[::2]], "strides"),
        ("%a: memref<32xf32>", [np.zeros(132, np.uint8)[1:129].view(np.float32)], "not aligned"),
        ("%a: memref<32xf32, 3>", [F32], "not a memref to global memory"),
        ("%a: i32", [2**40], "does not fit"),
        ("%a: i32", [1.5], "takes an integer"),
        ("%a: f32", ["x"], "takes a number"),
        ("%a: !plain", [np.zeros((8, 17), np.float32)], "multiples of 16 bytes"),
        ("%a: !plain", [np.zeros((8, 16), np.float16)], "expected elements of float32"),
        ("%a: !plain", [np.zeros(16, np.float32)], "rank 2, got rank 1"),
        ("%a: !plain", [np.zeros((0, 16), np.float32)], "is empty"),
        ("%a: !plain", [np.zeros((16, 8), np.float32).T], "side by side"),
        ("%a: !plain", [TensorMap(np.zeros((8, 16), np.float32), (4, 16))], "is a tensor map of"),
    ],
)
def test_arguments_are_checked(parameters: str, args: Any, says: str) -> None:
    assert says in _refused("", parameters, args)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"block": 2048}, "up to 1024 threads"),
        ({"block": 0}, "block must be one to three integers"),
        ({"grid": (1, 2, 3, 4)}, "one to three extents of the grid"),
        ({"grid": (1, 70000)}, "a grid has at most"),
        ({"grid": 3, "cluster": 2}, "not a multiple of the cluster"),
        ({"grid": 16, "cluster": 16}, "up to 8 blocks"),
        ({"cluster": 2, "grid": 2, "arch": "sm_80"}, "no clusters"),
        ({"arch": "gfx90"}, "not an architecture of the simulator"),
        ({"numerics": "wrong"}, "numerics must be one of"),
        ({"dynamic_shared_bytes": 1 << 20}, "bytes of shared memory"),
    ],
)
def test_launches_are_checked(options: dict[str, Any], says: str) -> None:
    assert says in _refused("", "", [], **options)


def test_kernels_are_named() -> None:
    program = Program.parse(kernel(""))
    with pytest.raises(TileIRError, match="there is no kernel 'other'"):
        program.launch("other", 1, [], options=LaunchOptions(block=32))
    assert program.launch("@k", 1, [], options=LaunchOptions(block=32)).completed


def test_read_only_arrays() -> None:
    array = np.zeros(32, np.float32)
    array.flags.writeable = False
    body = "%x = arith.constant 1.0 : f32\nmemref.store %x, %a[%tid] : memref<32xf32>"
    (found,) = run(body, "%a: memref<32xf32>", [array]).diagnostics
    assert "read-only" in found.message


def test_gathers_of_local_memory_are_counted_as_such() -> None:
    out = np.zeros(32, np.float32)
    body = """
    %mine = memref.alloca() : memref<4xf32, #gpu.address_space<private>>
    %x = arith.constant 2.5 : f32
    memref.store %x, %mine[%c1] : memref<4xf32, #gpu.address_space<private>>
    %c3 = arith.constant 3 : index
    memref.store %x, %mine[%c3] : memref<4xf32, #gpu.address_space<private>>
    %at = arith.constant dense<[1, 3]> : vector<2xindex>
    %all = arith.constant dense<true> : vector<2xi1>
    %zero = arith.constant dense<0.0> : vector<2xf32>
    %v = vector.gather %mine[%c0][%at], %all, %zero : memref<4xf32, #gpu.address_space<private>>, vector<2xindex>, vector<2xi1>, vector<2xf32> into vector<2xf32>
    %sum = vector.reduction <add>, %v : vector<2xf32> into f32
    memref.store %sum, %out[%tid] : memref<32xf32>
    """
    counters = run(body, "%out: memref<32xf32>", [out]).counters
    assert (out == 5).all()
    # Two stores and the gather of two elements, of 4 bytes in each lane.
    assert (counters.local_bytes, counters.global_bytes_read) == (2 * 32 * 4 + 2 * 32 * 4, 0)


def test_lanes_choose_between_vectors() -> None:
    out = np.zeros((32, 2), np.float32)
    body = """
    %low = arith.cmpi ult, %tid, %c8 : index
    %x = arith.constant dense<[1.0, 2.0]> : vector<2xf32>
    %y = arith.constant dense<[3.0, 4.0]> : vector<2xf32>
    %v = arith.select %low, %x, %y : vector<2xf32>
    vector.store %v, %out[%tid, %c0] : memref<32x2xf32>, vector<2xf32>
    """
    run(body, "%out: memref<32x2xf32>", [out])
    assert (out == np.where(np.arange(32)[:, None] < 8, [1, 2], [3, 4])).all()


def test_a_memory_that_holds_no_whole_number_of_elements_is_viewed_as_far_as_it_does() -> None:
    buffer = Buffer(np.arange(7, dtype=np.uint8), 1, "odd")
    assert buffer.view(np.dtype(np.uint16)).tolist() == [0x0100, 0x0302, 0x0504]
    assert buffer.view(np.dtype(np.uint64)).size == 0
