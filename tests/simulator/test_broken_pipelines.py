"""The worked kernels with one line changed: what that breaks is found, in every schedule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.simulator.kernels import EXAMPLES

from tilewright import LaunchOptions
from tilewright.simulator import Program, SimulationResult

HOPPER, STORE, MMA = "matmul_hopper.mlir", "matmul_hopper_tma_store.mlir", "matmul_mma.mlir"


def _run(name: str, old: str, new: str, seed: int) -> SimulationResult:
    path = EXAMPLES / name
    text = path.read_text()
    assert text.count(old) == 1, (name, old)
    program = Program.parse(text.replace(old, new), str(path))
    depth = 320
    a, b = np.ones((128, depth), np.float16), np.ones((depth, 128), np.float16)
    d = np.zeros((128, 128), np.float32)
    args: list[Any] = [a, b, d]
    if name == MMA:
        return program.launch(
            None,
            (2, 2),
            args,
            arch="sm_80",
            options=LaunchOptions(block=128, strict=False, seed=seed),
        )
    return program.launch(
        None, 1, [*args, depth // 64], options=LaunchOptions(block=384, strict=False, seed=seed)
    )


_EMPTY_WAIT = "nvgpu.mbarrier.try_wait.parity %empty[%s], %parity, %ticks : !bars"
_FULL_WAIT = "nvgpu.mbarrier.try_wait.parity %full[%s], %parity, %ticks : !bars"
_ARRIVE = "%token = nvgpu.mbarrier.arrive %empty[%s] : !bars -> !nvgpu.mbarrier.token"
_FENCE = "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}"

BROKEN = [
    (HOPPER, _EMPTY_WAIT, "", {"sim-race", "sim-copy-not-awaited"}),
    (HOPPER, _FULL_WAIT, "", {"sim-copy-not-awaited", "sim-uninitialized"}),
    (HOPPER, _ARRIVE, "", {"sim-deadlock"}),
    (HOPPER, "%consumers = arith.constant 256", "%consumers = arith.constant 255", {"sim-arrival-count"}),
    (HOPPER, "%consumers = arith.constant 256", "%consumers = arith.constant 257", {"sim-deadlock"}),
    (HOPPER, "%bytes = arith.constant 32768", "%bytes = arith.constant 16384", {"sim-transaction-count", "sim-copy-not-awaited"}),
    (HOPPER, "%bytes = arith.constant 32768", "%bytes = arith.constant 65536", {"sim-transaction-count"}),
    (HOPPER, "waitGroup = 0", "waitGroup = 1", {"sim-accumulator-not-awaited"}),
    (HOPPER, "%parity = arith.cmpi eq, %odd, %c0", "%parity = arith.cmpi eq, %odd, %c1", {"sim-deadlock"}),
    (HOPPER, "%parity = arith.cmpi eq, %odd, %c1", "%parity = arith.cmpi eq, %odd, %c0", {"sim-copy-not-awaited"}),
    (HOPPER, "@lhs : memref<3x128x64xf16, 3> {alignment = 1024 : i64}\n    //", "@lhs : memref<3x128x64xf16, 3> {alignment = 1024 : i64}\n    memref.global @odd : memref<4xf32, 3>\n    //", set()),
    (STORE, _FENCE, "", {"sim-missing-proxy-fence"}),
    (STORE, "        nvvm.barrier id = %barrier number_of_threads = %threads\n", "", {"sim-race", "sim-uninitialized"}),
    (STORE, "        nvvm.cp.async.bulk.wait_group 0 {read}\n", "", {"sim-copy-not-awaited"}),
    (STORE, "%threads = arith.constant 128", "%threads = arith.constant 160", {"sim-deadlock"}),
    (MMA, "        nvgpu.device_async_wait %group {numGroups = 0 : i32}\n", "", {"sim-copy-not-awaited"}),
    (MMA, "        // Nobody overwrites the tiles before all have read them.\n        gpu.barrier\n", "", {"sim-race"}),
    (MMA, "{numGroups = 0 : i32}\n        gpu.barrier\n", "{numGroups = 0 : i32}\n", {"sim-race", "sim-copy-not-awaited"}),
]  # fmt: skip


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("number", range(len(BROKEN)))
def test_broken_pipeline(number: int, seed: int) -> None:
    name, old, new, expected = BROKEN[number]
    result = _run(name, old, new, seed)
    found = {d.code for d in result.diagnostics}
    if not expected:
        assert not found
    else:
        assert found & expected, [d.brief() for d in result.diagnostics]
