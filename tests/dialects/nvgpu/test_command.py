"""The command on files at this level: check, dis, opt, and as, which refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.dialects.nvgpu.programs import HOPPER

from tilewright.cli.exits import Exit
from tilewright.cli.main import main


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.mlir"
    path.write_text(HOPPER)
    return path


def test_check_accepts_a_kernel(kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(kernel)]) == Exit.OK
    assert capsys.readouterr().err == ""


def test_check_tells_what_is_wrong(kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel.write_text(HOPPER.replace("vector<64x64xf32>", "vector<64x60xf32>"))
    assert main(["check", str(kernel)]) == Exit.FINDINGS
    shown = capsys.readouterr().err
    assert "error[nvgpu-wgmma-shape]: expected the columns of the accumulator" in shown
    assert "kernel.mlir:" in shown


def test_check_covers_foreign_operations(kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What xDSL's own verifier says is told as a diagnostic at the operation."""
    kernel.write_text(
        HOPPER.replace(
            "%sum = scf.for",
            '%bad = "memref.load"(%d, %c0) : (memref<64x64xf32>, index) -> f32\n      %sum = scf.for',
        )
    )
    assert main(["check", str(kernel)]) == Exit.FINDINGS
    shown = capsys.readouterr().err
    assert "error[dialect-rule]: 'memref.load' does not verify" in shown


@pytest.mark.parametrize("command", ["dis", "opt"])
def test_printing_round_trips(
    command: str, kernel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(kernel)]) == Exit.OK
    printed = capsys.readouterr().out
    kernel.write_text(printed)
    assert main([command, str(kernel)]) == Exit.OK
    assert capsys.readouterr().out == printed


def test_there_is_no_bytecode(
    kernel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.tileirbc"
    assert main(["as", str(kernel), "-o", str(target)]) == Exit.FINDINGS
    shown = capsys.readouterr().err
    assert "error[not-one-module]" in shown
    assert "nvgpu" in shown and "which have no bytecode form" in shown
    assert not target.exists()
