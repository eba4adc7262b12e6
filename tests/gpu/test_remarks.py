"""What the compiler tells: hints, operations without a rule, schedules that fail, resources, budgets."""

from __future__ import annotations

import pytest
from tests.gpu.support import requires_nvdisasm
from xdsl.utils.exceptions import VerifyException

from tilewright.diagnostics import TileIRError
from tilewright.gpu import CompileOptions
from tilewright.gpu.budget import Work, run_within
from tilewright.gpu.resources import resources
from tilewright.gpu.tiles import TileProgram
from tilewright.launching import threads
from tilewright.passes.tileas.decisions import Decisions
from tilewright.text import parse


def copy(hints: str = "", of_load: str = "", width: int = 1024) -> str:
    tiles = f"partition_view<tile=({width}), tensor_view<?xf16, strides=[1]>>"
    return f"""
entry @k(%x: tile<ptr<f16>>, %n: tile<i32>) {hints} {{
  %i, %j, %z = get_tile_block_id : tile<i32>
  %xv = make_tensor_view %x, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf16, strides=[1]>
  %xt = make_partition_view %xv : {tiles}
  %a, %t = load_view_tko weak %xt[%i] {of_load} : {tiles}, tile<i32> -> tile<{width}xf16>, token
  %d = store_view_tko weak %a, %xt[%i] : tile<{width}xf16>, {tiles}, tile<i32> -> token
  return
}}
"""


def remarks(text: str, arch: str, kind: str) -> list[str]:
    return [
        found.message for found in TileProgram(parse(text), arch).remarks() if found.kind == kind
    ]


@pytest.mark.parametrize(
    ("hint", "says"),
    [
        ("occupancy = 3", "occupancy = 3 is honoured: a thread has at most 168 registers"),
        ("num_worker_warps_per_cta = 8", "num_worker_warps_per_cta = 8 is honoured"),
        ("num_cta_in_cga = 2", "num_cta_in_cga = 2 is ignored"),
        (
            "occupancy = 32",
            "occupancy = 32 is limited to 16 by the 128 threads of a block: a thread has at most 32 registers",
        ),
        (
            "occupancy = 64",
            "occupancy = 64 is ignored: expected integer value in the range [1, 32]",
        ),
        ("num_cta_in_cga = 3", "num_cta_in_cga = 3 is ignored: expected "),
        ("num_worker_warps_per_cta = 5", "num_worker_warps_per_cta = 5 is ignored: expected "),
    ],
)
def test_each_hint_of_a_kernel_is_answered(hint: str, says: str) -> None:
    text = copy(f"optimization_hints = <sm_90 = {{{hint}}}>")
    (found,) = remarks(text, "sm_90a", "hint")
    assert found.startswith(says)
    # Hints for other targets do not count.
    assert remarks(text, "sm_120a", "hint") == []


@pytest.mark.parametrize(
    ("hint", "says"),
    [
        ("latency = 3", "latency = 3 is ignored"),
        (
            "latency = 11",
            "latency = 11 is ignored: expected integer value in the range [1, 10]",
        ),
        ("allow_tma = false", "allow_tma = false is honoured"),
        ("allow_tma = true", "allow_tma = true: TMA is not applicable"),
    ],
)
def test_each_hint_of_an_access_is_answered(hint: str, says: str) -> None:
    text = copy(of_load=f"optimization_hints = <sm_90 = {{{hint}}}>")
    (found,) = remarks(text, "sm_90a", "hint")
    assert found.startswith(says)


def test_operations_without_a_rule_are_told() -> None:
    text = """
entry @k(%x: tile<ptr<i32>>) {
  %one = constant <i32: 1> : tile<i32>
  %a, %t = atomic_rmw_tko relaxed device %x, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
  %r = iota : tile<256xi32>
  %x1 = reshape %x : tile<ptr<i32>> -> tile<1xptr<i32>>
  %xb = broadcast %x1 : tile<1xptr<i32>> -> tile<256xptr<i32>>
  %p = offset %xb, %r : tile<256xptr<i32>>, tile<256xi32> -> tile<256xptr<i32>>
  %b, %u = load_ptr_tko relaxed device %p : tile<256xptr<i32>> -> tile<256xi32>, token
  %c, %v = atomic_rmw_tko relaxed device %p, add, %b : tile<256xptr<i32>>, tile<256xi32> -> tile<256xi32>, token
  return
}
"""
    told = [line.split("'")[1] for line in remarks(text, "sm_90a", "rule")]
    assert told == ["nv_tileaa.atomic_rmw", "nv_tileaa.load"]


@pytest.mark.parametrize(
    "error", [AssertionError, KeyError, VerifyException], ids=lambda e: e.__name__
)
def test_a_schedule_that_fails_costs_no_kernel(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error("told")

    monkeypatch.setattr(threads, "lower_scheduled", fail)
    program = TileProgram(parse(copy()), "sm_90a")
    assert ".entry k" in program.compile().ptx
    last = program.remarks()[-1]
    assert last.kind == "fallback"
    assert f"the schedule failed: {error.__name__}: {error('told')}" in last.message
    assert list(program.fallbacks) == ["k"]


@requires_nvdisasm
@pytest.mark.oracle
def test_resources() -> None:
    compiled = TileProgram(parse(copy()), "sm_80").compile()
    first, second = resources(compiled, compiled.assemble())
    assert first.endswith("registers, 0 bytes of shared memory, 0 bytes spilled")
    assert second.startswith("128 threads (4 warps); a multiprocessor of the A100")
    assert "16 blocks, 100 % of its warps, limited by threads" in second


def test_a_kernel_beyond_its_budget_is_refused() -> None:
    program = TileProgram(
        parse(copy(width=1 << 18)),
        "sm_80",
        how=CompileOptions(seconds=1),
        decisions=Decisions(parts=1),
    )
    with pytest.raises(TileIRError) as caught:
        program.compile()
    (found,) = caught.value.diagnostics
    assert found.code == "gpu-compile-budget"
    assert "LLVM did not finish this kernel within 1 seconds" in found.message
    assert "512 elements" in found.message
    assert "smaller tiles" in found.help
    assert found.location is not None


def test_a_process_of_its_own_gives_the_same() -> None:
    text = "\n".join(
        [
            'target triple = "nvptx64-nvidia-cuda"',
            "define <256 x float> @f(<256 x float> %x) {",
            "  %y = fadd <256 x float> %x, %x",
            "  ret <256 x float> %y",
            "}",
        ]
    )
    work = Work(text, "sm_80", 80, uses_libdevice=False, optimize=True)
    assert work.may_be_long
    assert run_within(work, 60) == work.run()
    broken = Work(text.replace("fadd", "fudd"), "sm_80", 80, uses_libdevice=False, optimize=True)
    with pytest.raises(TileIRError, match="LLVM"):
        run_within(broken, 60)
