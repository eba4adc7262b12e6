"""``tilewright run`` on kernels of nv_tileaa."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.cli.main import main

KERNEL = """
module {
  nv_tileaa.func @other() attributes {kernel} {
    nv_tileaa.return
  }
  nv_tileaa.func @add(%a: !nv_tileaa.ptr<f32, 1>, %n: i32) attributes {kernel} {
    %m = nv_tileaa.make_memref %a
      : (!nv_tileaa.ptr<f32, 1>) -> !nv_tileaa.memref<4xf32, strides = [1], 1>
    %zero = arith.constant 0 : index
    %x = nv_tileaa.tiled_load %m[%zero]
      : !nv_tileaa.memref<4xf32, strides = [1], 1>, index -> tile<4xf32>
    %y = arith.sitofp %n : i32 to f32
    %z = nv_tileaa.addf %x, %y : tile<4xf32>, f32 -> tile<4xf32>
    nv_tileaa.tiled_store %m[%zero], %z
      : !nv_tileaa.memref<4xf32, strides = [1], 1>, tile<4xf32>, index
    nv_tileaa.print %n {format = "n = %d\\n"} : i32
    nv_tileaa.return
  }
}
"""


@pytest.fixture
def kernel(tmp_path: Path) -> str:
    path = tmp_path / "kernels.tileir"
    path.write_text(KERNEL)
    return str(path)


def test_run(kernel: str, capsys: pytest.CaptureFixture[str]):
    arguments = ["--entry", "add", "--arg", "iota:f32:4", "--arg", "n=5"]
    assert main(["run", kernel, *arguments, "--expect", "a=full:f32:4:5"]) == 1
    assert main(["run", kernel, *arguments, "--print", "a"]) == 0
    shown = capsys.readouterr()
    assert "n = 5" in shown.out and "5" in shown.out


def test_unknown_kernel(kernel: str, capsys: pytest.CaptureFixture[str]):
    assert main(["run", kernel, "--entry", "k"]) == 2
    assert "expected a kernel 'k' in the module; kernels: other, add" in capsys.readouterr().err


def test_sanitize_refuses(kernel: str, capsys: pytest.CaptureFixture[str]):
    arguments = ["--entry", "add", "--arg", "iota:f32:4", "--arg", "n=5"]
    assert main(["sanitize", kernel, *arguments]) != 0
    assert "the sanitizer cannot look into kernels of that level" in capsys.readouterr().err
