"""Without llvmlite all works but native code and PTX, which say what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ADD = [
    *("run", "examples/vector_add.tileir", "--grid", "8", "--arg", "x=iota:f32:1000"),
    *("--arg", "y=full:f32:1000:0.5", "--arg", "out=zeros:f32:1000", "--arg", "n=1000"),
]
_BLOCKED = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "llvmlite":
            raise ModuleNotFoundError("No module named 'llvmlite'", name="llvmlite")

sys.meta_path.insert(0, Missing())
"""
_IMPORTS = """
import importlib, pkgutil, tilewright
from tilewright.diagnostics import TileIRError

# Modules of these need what is not installed everywhere, or run when imported.
LEFT_OUT = (
    *("tilewright.__main__", "tilewright.cutile.torch_", "tilewright.cutile.captures"),
    "tilewright.cutile.triton_host",
)
for module in pkgutil.walk_packages(tilewright.__path__, "tilewright.", onerror=lambda name: None):
    if not module.name.startswith(LEFT_OUT):
        try:
            importlib.import_module(module.name)
        except TileIRError as error:
            assert error.diagnostics[0].code == "llvmlite-missing", error
            print(module.name)
"""
_MAIN = "from tilewright.cli.main import main\nsys.exit(main(sys.argv[1:]))\n"
MESSAGE = "native code and PTX need llvmlite, which is not installed: pip install llvmlite"


def _run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _BLOCKED + program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


def test_every_module_imports_or_says_what_is_missing() -> None:
    done = _run(_IMPORTS)
    assert done.returncode == 0, done.stderr
    refused = set(done.stdout.split())
    assert {"tilewright.cpu.target", "tilewright.cpu.codegen", "tilewright.gpu.llvm"} <= refused
    of_machines = ("tilewright.cpu.", "tilewright.gpu", "tilewright.cutile.on_")
    others = {name for name in refused if not name.startswith(of_machines)}
    assert others == {"tilewright.launching.native_code", "tilewright.profiling.launch"}


@pytest.mark.parametrize(
    "arguments",
    [
        ADD,
        [*ADD, "--machine", "sim:sm_90a"],
        ["sanitize", *ADD[1:]],
        ["opt", "-O2", "examples/vector_add.tileir"],
        ["check", "examples/vector_add.tileir"],
        ["explain", "addf"],
    ],
    ids=["run", "run-sim", "sanitize", "opt", "check", "explain"],
)
def test_what_works(arguments: list[str]) -> None:
    done = _run(_MAIN, *arguments)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [*ADD, "--machine", "cpu"],
        ["compile", "examples/vector_add.tileir", "--target", "cpu"],
        ["compile", "examples/vector_add.tileir", "--target", "sm_90a"],
        ["compile", "examples/nvgpu/vector_add.mlir", "--target", "sm_90a"],
    ],
    ids=["run", "compile-cpu", "compile-sm_90a", "compile-nvgpu"],
)
def test_native_code_says_what_is_missing(arguments: list[str]) -> None:
    done = _run(_MAIN, *arguments)
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == f"error[llvmlite-missing]: {MESSAGE}"
    assert "Traceback" not in done.stderr


def test_a_cutile_program_is_not_started() -> None:
    pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")
    done = _run(_MAIN, "run", "--machine", "cpu", "examples/cutile/softmax.py")
    assert done.returncode == 2
    assert done.stderr == f"tilewright run: {MESSAGE}\n"
