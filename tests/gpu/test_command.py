"""``tilewright compile --target sm_NN`` and ``tilewright run --machine cuda``."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from tests.gpu.support import requires_nvdisasm
from tests.gpu.test_launch import MISSING

from tilewright.cli import compile_gpu
from tilewright.cli.exits import Exit
from tilewright.cli.main import main
from tilewright.gpu import ARCHITECTURES, tools

ROOT = Path(__file__).parents[2]
ADD = str(ROOT / "examples" / "nvgpu" / "vector_add.mlir")


def test_the_targets_are_the_architectures() -> None:
    assert tuple(ARCHITECTURES) == compile_gpu.TARGETS


def test_ptx_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", ADD, "--target", "sm_90a"]) == Exit.OK
    shown = capsys.readouterr()
    assert ".target sm_90a" in shown.out
    assert "cp.async.ca.shared.global" in shown.out
    assert shown.err == ""


def test_llvm(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", ADD, "--target", "sm_80", "--emit", "llvm"]) == Exit.OK
    assert "define ptx_kernel void @vector_add" in capsys.readouterr().out


@requires_nvdisasm
@pytest.mark.oracle
def test_machine_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", ADD, "--target", "sm_86", "--emit", "sass"]) == Exit.OK
    shown = capsys.readouterr()
    assert "LDGSTS" in shown.out
    assert "registers" in shown.err
    out = tmp_path / "kernel.cubin"
    arguments = ["compile", ADD, "--target", "sm_86", "--emit", "cubin", "-o", str(out)]
    assert main(arguments) == Exit.OK
    assert out.read_bytes().startswith(b"\x7fELF")


@pytest.mark.parametrize(
    ("emit", "package"), [("cubin", "nvidia-cuda-nvcc"), ("sass", "nvidia-cuda-nvcc")]
)
def test_a_missing_tool_names_its_package(
    emit: str,
    package: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tools, "_folders", list)
    out = ["-o", str(tmp_path / "out")]
    assert main(["compile", ADD, "--target", "sm_80", "--emit", emit, *out]) == Exit.FINDINGS
    shown = capsys.readouterr().err
    assert "error[gpu-missing-tool]" in shown
    assert f"pip install {package}" in shown
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--emit", "obj"], "--emit obj is not available for --target sm_80"),
        (["--timing"], "--timing needs --target cpu"),
        (["--checked"], "--checked needs --target cpu"),
    ],
)
def test_options_of_the_cpu_are_refused(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", ADD, "--target", "sm_80", *arguments]) == Exit.USAGE
    assert says in capsys.readouterr().err


def test_options_of_gpus_are_refused_for_the_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    tile = str(ROOT / "examples" / "vector_add.tileir")
    assert main(["compile", tile, "--emit", "ptx"]) == Exit.USAGE
    assert main(["compile", tile, "--approximate-math"]) == Exit.USAGE
    assert main(["compile", tile, "--emit", "nvgpu"]) == Exit.USAGE
    assert "--emit nvgpu is not available for --target cpu" in capsys.readouterr().err


MATMUL = str(ROOT / "examples" / "matmul.tileir")


@pytest.mark.parametrize("as_bytecode", [False, True])
def test_tile_ir_becomes_ptx(
    as_bytecode: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = MATMUL
    if as_bytecode:
        source = str(tmp_path / "matmul.tileirbc")
        assert main(["as", MATMUL, "-o", source]) == Exit.OK
    assert main(["compile", source, "--target", "sm_90a", "--emit", "ptx"]) == Exit.OK
    shown = capsys.readouterr()
    assert "wgmma.mma_async.sync.aligned" in shown.out
    assert shown.err == ""


def test_the_code_of_threads_can_be_read_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    threads = str(tmp_path / "threads.mlir")
    arguments = ["compile", MATMUL, "--target", "sm_90a", "--emit", "nvgpu", "-o", threads]
    assert main(arguments) == Exit.OK
    assert "nvvm.wgmma.product" in Path(threads).read_text()
    shown: list[str] = []
    for source in (MATMUL, threads):
        assert main(["compile", source, "--target", "sm_90a"]) == Exit.OK
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


def test_what_is_not_lowered_is_shown_at_the_operation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "large.tileir"
    source.write_text(
        "entry @large(%p: tile<ptr<f8E5M3FNU>>) {\n"
        "  %z = constant <i64: 0> : tile<i64>\n"
        "  %x, %t = load_ptr_tko weak %p : tile<ptr<f8E5M3FNU>> -> tile<f8E5M3FNU>, token\n"
        "  %s = store_ptr_tko weak %p, %x : tile<ptr<f8E5M3FNU>>, tile<f8E5M3FNU> -> token\n"
        "  return\n}\n"
    )
    assert main(["compile", str(source), "--target", "sm_90a"]) == Exit.FINDINGS
    shown = capsys.readouterr().err
    assert "error[not-lowered-to-threads]" in shown
    assert "large.tileir:3:" in shown


def test_a_lacking_architecture_is_shown_at_the_operation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hopper = str(ROOT / "examples" / "nvgpu" / "matmul_hopper.mlir")
    assert main(["compile", hopper, "--target", "sm_89"]) == Exit.FINDINGS
    shown = capsys.readouterr().err
    assert "error[gpu-architecture]" in shown
    assert "sm_89 lacks" in shown
    assert "matmul_hopper.mlir:" in shown


@pytest.mark.skipif(not MISSING, reason="there is a GPU")
def test_running_without_a_gpu_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    arrays = ["--arg", "zeros:f32:8"] * 3
    assert main(["run", ADD, "--machine", "cuda", "--grid", "1", *arrays]) == Exit.FINDINGS
    assert MISSING in capsys.readouterr().err
