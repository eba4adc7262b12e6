"""Trades of registers: what a block can never have is refused, by the compiler and the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.gpu.support import requires_ptxas

from tilewright import gpu
from tilewright.diagnostics import Diagnostic, TileIRError
from tilewright.dialects.nvgpu.registers import registers_at_launch
from tilewright.launching.options import LaunchOptions
from tilewright.simulator import Program
from tilewright.text import parse

EXAMPLES = Path(__file__).parents[2] / "examples" / "nvgpu"
KERNEL = """module attributes {{gpu.container_module}} {{ gpu.module @m {{
  gpu.func @k() kernel attributes {{gpu.known_block_size = array<i32: {threads}, 1, 1>}} {{
    %c = arith.constant {producers} : index
    %w = gpu.subgroup_id : index
    %p = arith.cmpi ult, %w, %c : index
    scf.if %p {{
      nvvm.setmaxregister {first}
    }} else {{
      nvvm.setmaxregister {second}
    }}
    gpu.return
  }} }} }}"""


def _text(
    threads: int, first: str = "decrease 40", second: str = "increase 232", producers: int = 4
) -> str:
    return KERNEL.format(threads=threads, first=first, second=second, producers=producers)


def _refused(text: str) -> Diagnostic:
    with pytest.raises(TileIRError) as caught:
        gpu.compile_kernel(parse(text), "sm_90a")
    (found,) = caught.value.diagnostics
    assert found.code == "gpu-register-pool" and found.location is not None
    return found


@pytest.mark.parametrize("threads", [128, 256, 384])
def test_trades_that_fit_compile_and_run(threads: int) -> None:
    second = "increase 232" if threads > 128 else "increase 240"
    gpu.compile_kernel(parse(_text(threads, second=second)), "sm_90a")
    for seed in range(5):
        options = LaunchOptions(block=threads, seed=seed)
        assert Program.parse(_text(threads, second=second)).launch("k", 1, [], options).completed


@pytest.mark.parametrize("name", ["matmul_hopper", "matmul_hopper_tma_store"])
def test_nine_warps_of_the_examples_would_wait_for_ever(name: str) -> None:
    text = (EXAMPLES / f"{name}.mlir").read_text()
    gpu.compile_kernel(parse(text), "sm_90a")
    found = _refused(text.replace("i32: 384, 1, 1>", "i32: 288, 1, 1>"))
    assert "168 x 9 = 1,512" in found.message and "40 x 1 + 232 x 8 = 1,896" in found.message
    assert "launch 12 warps, 384 threads: 40 x 4 + 232 x 8 = 2,016 of 168 x 12" in found.help


def test_the_help_says_what_fits() -> None:
    found = _refused(_text(384, second="increase 240"))
    assert "40 x 4 + 240 x 8 = 2,080" in found.message and found.help == "increase to at most 232"
    gpu.compile_kernel(parse(_text(384, second="increase 232")), "sm_90a")


def test_the_simulator_names_the_warps_that_wait() -> None:
    options = LaunchOptions(block=384, strict=False)
    result = Program.parse(_text(384, second="increase 240")).launch("k", 1, [], options)
    (found,) = result.diagnostics
    assert found.code == "sim-deadlock"
    assert any("warp " in n.message and "waits for 240 registers" in n.message for n in found.notes)


def test_all_warps_of_a_warpgroup_trade() -> None:
    text = _text(256, "decrease 40", "decrease 48", producers=2)
    assert "not all warps of its warpgroup" in _refused(text).message
    options = LaunchOptions(block=256, strict=False)
    found = Program.parse(text).launch("k", 1, [], options).diagnostics
    assert "sim-divergent-collective" in {each.code for each in found}


def test_increases_that_are_none_are_refused() -> None:
    text = _text(384, "decrease 200", "increase 120")
    assert "decreases the registers to 200, but warp 0 has 168" in _refused(text).message
    options = LaunchOptions(block=384, strict=False)
    found = Program.parse(text).launch("k", 1, [], options).diagnostics
    assert "sim-registers" in {each.code for each in found}


@requires_ptxas
@pytest.mark.oracle
def test_the_pool_is_what_ptxas_launches_with() -> None:
    """The rule for registers at launch, against the assembler."""
    for threads, second in ((384, "increase 232"), (512, "increase 152"), (640, "increase 104")):
        text = _text(threads, second=second)
        op = gpu.kernels_of(parse(text))["k"]
        launched = gpu.compile_kernel(parse(text), "sm_90a").assemble().registers
        assert launched == registers_at_launch(op, threads), threads
