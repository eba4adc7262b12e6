"""Global memory that threads and TMA use in one launch: the fence or the wait that is missing, and its twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.simulator.kernels import codes, only, run

from tilewright.diagnostics import Span

FENCE = "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async>}\n"
OF_SHARED = (
    "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}\n"
)
OF_GLOBAL = "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.global>}\n"
BOX = "%box = memref.get_global @box : memref<8x16xf32, 3>\n"
BARRIER = """\
%bar = nvgpu.mbarrier.create -> !bars
scf.if %first {
  nvgpu.mbarrier.init %bar[%c0], %c1 : !bars
  nvvm.fence.mbarrier.init
}
gpu.barrier
"""
LOAD = """\
%bytes = arith.constant 512 : index
nvgpu.mbarrier.arrive.expect_tx %bar[%c0], %bytes, predicate = %first : !bars
nvgpu.tma.async.load %m[%c0, %c0], %bar[%c0] to %box, predicate = %first : !plain, !bars -> memref<8x16xf32, 3>
nvgpu.mbarrier.try_wait.parity %bar[%c0], %even, %ticks : !bars
"""
ONE = "%x = arith.constant 1.0 : f32\n%row = arith.remui %tid, %c8 : index\n%i1 = arith.constant 1 : i32\n%i0 = arith.constant 0 : i32\n"
#: Ways in which threads write to global memory.
WRITES = {
    "memref": "memref.store %x, %g[%row, %c1] : memref<8x16xf32>\n",
    "vector": "%xs = vector.broadcast %x : f32 to vector<4xf32>\nvector.store %xs, %g[%row, %c4] : memref<8x16xf32>, vector<4xf32>\n",
    "pointer": "llvm.store %x, %p {alignment = 4 : i64} : f32, !llvm.ptr<1>\n",
    "atomic": "%old = llvm.atomicrmw fadd %p, %x monotonic : !llvm.ptr<1>, f32\n",
    "transfer": "%xs = vector.broadcast %x : f32 to vector<4xf32>\nvector.transfer_write %xs, %g[%row, %c4] {in_bounds = [true]} : vector<4xf32>, memref<8x16xf32>\n",
}
PARAMETERS = "%m: !plain, %g: memref<8x16xf32>, %p: !llvm.ptr<1>, %f: !llvm.ptr<1>"


def args() -> list[Any]:
    array = np.zeros((8, 16), np.float32)
    return [array, array, array, np.zeros(4, np.int32)]


def launch(body: str, **options: Any) -> Any:
    return run(ONE + BOX + BARRIER + body, PARAMETERS, args(), block=64, **options)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("write", WRITES)
def test_a_load_of_what_threads_have_stored_needs_a_fence(write: str, seed: int) -> None:
    fault = launch(WRITES[write] + "gpu.barrier\n" + LOAD, seed=seed)
    found = only(fault, "sim-missing-proxy-fence")
    assert "reads argument" in found.message and "through the async proxy" in found.message
    both = [
        place.text for place in (found.location, found.notes[0].location) if isinstance(place, Span)
    ]
    assert "tma.async.load" in both[0]
    assert any(word in both[1] for word in ("store", "atomicrmw", "transfer_write"))
    for fenced in (
        WRITES[write] + FENCE + "gpu.barrier\n",
        WRITES[write] + OF_GLOBAL + "gpu.barrier\n",
        WRITES[write] + "gpu.barrier\n" + FENCE,
    ):
        assert not codes(launch(fenced + LOAD, seed=seed))


def test_a_fence_of_shared_memory_is_not_enough() -> None:
    body = WRITES["memref"] + OF_SHARED + "gpu.barrier\n" + LOAD
    assert codes(launch(body)) == {"sim-missing-proxy-fence"}


def test_a_fence_before_the_store_is_none() -> None:
    body = FENCE + WRITES["memref"] + "gpu.barrier\n" + LOAD
    assert codes(launch(body)) == {"sim-missing-proxy-fence"}


def test_a_fence_of_another_warp_that_has_seen_the_store_is_one() -> None:
    """Warp 1 stores; warp 0 fences before it has seen that, or behind the barrier."""
    store = "%w1 = arith.cmpi eq, %warp, %c1 : index\nscf.if %w1 {\n" + WRITES["memref"] + "}\n"
    early = "%w0 = arith.cmpi eq, %warp, %c0 : index\nscf.if %w0 {\n" + FENCE + "}\n"
    for in_groups in (True, False):
        unseen = launch(store + early + "gpu.barrier\n" + LOAD, in_groups=in_groups)
        assert codes(unseen) == {"sim-missing-proxy-fence"}
        assert not codes(launch(store + "gpu.barrier\n" + early + LOAD, in_groups=in_groups))


def test_other_parts_of_the_array_and_other_arrays_need_none() -> None:
    big = np.zeros((32, 16), np.float32)
    body = "%r = arith.addi %row, {at} : index\nmemref.store %x, %g[%r, %c1] : memref<32x16xf32>\ngpu.barrier\n"
    parameters = "%m: !plain, %g: memref<32x16xf32>"
    for at, expected in (("%c16", set()), ("%c8", set()), ("%c0", {"sim-missing-proxy-fence"})):
        text = ONE + BOX + BARRIER + body.format(at=at) + LOAD
        assert codes(run(text, parameters, [big, big], block=64)) == expected
        assert not codes(run(text, parameters, [big, big.copy()], block=64))


#: Block 0 stores and sets a flag; block 1 waits for it and loads.
ACROSS = """\
%b = gpu.block_id x
%is0 = arith.cmpi eq, %b, %c0 : index
scf.if %is0 {{
  {write}
  {writer}
  gpu.barrier
  scf.if %first {{
    llvm.store %i1, %f atomic release {{alignment = 4 : i64}} : i32, !llvm.ptr<1>
  }}
}} else {{
  scf.if %first {{
    scf.while : () -> () {{
      %now = llvm.load %f atomic acquire {{alignment = 4 : i64}} : !llvm.ptr<1> -> i32
      %unset = arith.cmpi eq, %now, %i0 : i32
      scf.condition(%unset)
    }} do {{
      scf.yield
    }}
    {reader}
  }}
  gpu.barrier
  {load}
}}
"""


@pytest.mark.parametrize("seed", range(4))
def test_across_blocks(seed: int) -> None:
    parts = {"write": WRITES["memref"], "writer": "", "reader": "", "load": LOAD}
    bad = launch(ACROSS.format(**parts), grid=2, seed=seed)
    found = only(bad, "sim-missing-proxy-fence")
    assert "of block (1, 0, 0)" in found.message and "of block (0, 0, 0)" in found.message
    for who in ("writer", "reader"):
        good = ACROSS.format(**{**parts, who: FENCE})
        assert not codes(launch(good, grid=2, seed=seed))


FILL = """\
%q = arith.divui %tid, %c8 : index
%col = arith.muli %q, %c2 : index
%pair = vector.broadcast %x : f32 to vector<2xf32>
vector.store %pair, %box[%row, %col] : memref<8x16xf32, 3>, vector<2xf32>
"""
STORE = (
    "nvgpu.tma.async.store %box to %m[%c0, %c0], predicate = %first : memref<8x16xf32, 3> -> !plain\n"
    "nvvm.cp.async.bulk.commit.group\n"
)
READ = "%y = memref.load %g[%row, %c2] : memref<8x16xf32>\n"
WAIT, WAIT_READ = (
    "nvvm.cp.async.bulk.wait_group 0\n",
    "nvvm.cp.async.bulk.wait_group 0 {read}\n",
)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("use", [READ, WRITES["memref"], WRITES["pointer"]])
def test_the_result_of_a_store_needs_its_wait(use: str, seed: int) -> None:
    begin = FILL + OF_SHARED + "gpu.barrier\n" + STORE
    unfinished = launch(begin + WAIT_READ + "gpu.barrier\n" + use, seed=seed)
    found = only(unfinished, "sim-copy-not-awaited")
    assert "before the store is known to have completed" in found.message
    assert not codes(launch(begin + WAIT + "gpu.barrier\n" + use, seed=seed))
    assert not codes(launch(begin + WAIT_READ + WAIT + "gpu.barrier\n" + use, seed=seed))


@pytest.mark.parametrize("column", [0, 8, 15])
@pytest.mark.parametrize("row", [0, 4, 7])
def test_each_element_of_a_box_is_waited_for(row: int, column: int) -> None:
    begin = FILL + OF_SHARED + "gpu.barrier\n" + STORE + WAIT_READ + "gpu.barrier\n"
    read = (
        f"%m7 = arith.constant {row} : index\n%n15 = arith.constant {column} : index\n"
        "%y = memref.load %g[%m7, %n15] : memref<8x16xf32>\n"
    )
    assert codes(launch(begin + read)) == {"sim-copy-not-awaited"}


def test_other_warps_know_of_the_wait_by_a_barrier_only() -> None:
    begin = FILL + OF_SHARED + "gpu.barrier\n" + STORE + WAIT
    orders = [launch(begin + READ + "gpu.barrier\n", seed=seed) for seed in range(4)]
    assert {"sim-copy-not-awaited"} in [codes(order) for order in orders]


@pytest.mark.parametrize("seed", range(3))
def test_a_load_of_what_a_store_has_written_needs_its_wait(seed: int) -> None:
    begin = FILL + OF_SHARED + "gpu.barrier\n" + STORE
    unfinished = launch(begin + WAIT_READ + "gpu.barrier\n" + LOAD, seed=seed)
    assert codes(unfinished) == {"sim-copy-not-awaited"}
    assert not codes(launch(begin + WAIT + "gpu.barrier\n" + LOAD, seed=seed))


def test_a_store_of_another_block_needs_its_wait() -> None:
    begin = FILL + OF_SHARED + "gpu.barrier\n" + STORE
    read = {"reader": "", "load": READ, "writer": ""}
    bad = ACROSS.format(write=begin + WAIT_READ, **read)
    assert codes(launch(bad, grid=2)) == {"sim-copy-not-awaited"}
    assert not codes(launch(ACROSS.format(write=begin + WAIT, **read), grid=2))
