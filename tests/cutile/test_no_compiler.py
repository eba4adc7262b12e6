"""cuTile's own look-ups of NVIDIA's compiler, where that is not installed."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from cuda.tile import _compile  # noqa: E402
from cuda.tile import compilation as cc  # noqa: E402

import tilewright  # noqa: E402
from tilewright.cutile import RefusedError, on  # noqa: E402
from tilewright.cutile.frontend import front_end  # noqa: E402
from tilewright.text import parse  # noqa: E402


@ct.kernel
def double(x):
    i = ct.bid(0)
    ct.store(x, i, ct.load(x, i, (8,)) * 2)


#: cuTile prints Tile IR by a tool of its own since 1.7.
PRINTS = hasattr(_compile, "_bytecode_to_mlir_text")
NEWEST = front_end().bytecode_version.as_string()
SIGNATURE = cc.KernelSignature(
    [
        cc.ArrayConstraint(
            ct.float32,
            1,
            index_dtype=ct.int32,
            stride_lower_bound_incl=0,
            alias_groups=(),
            may_alias_internally=False,
        )
    ],
    cc.CallingConvention.cutile_python_v1(),
)


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Nothing that cuTile looks for is found."""
    cached = ("_find_compiler_bin", "_find_tileirdisasm_bin", "_get_compiler_version_string")
    functions = [getattr(_compile, name) for name in cached if hasattr(_compile, name)]
    monkeypatch.setattr(_compile, "_find_pip_tileiras", lambda: None)
    monkeypatch.setattr(_compile, "_get_default_cuda_toolkit_paths", list)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    for function in functions:
        function.cache_clear()
    yield
    for function in functions:
        function.cache_clear()


def test_without_us_look_ups_fail() -> None:
    with pytest.raises(FileNotFoundError):
        _compile._find_compiler_bin()


def test_look_ups_are_answered() -> None:
    with on():
        assert _compile._get_compiler_version_string() is None
        assert _compile._get_max_supported_bytecode_version("/tmp").as_string() == NEWEST
        assert _compile.get_sm_arch() == "sm_100"
        compiler = _compile._find_compiler_bin()
        _compile._find_compiler_bin.cache_clear()
    assert isinstance(compiler, _compile._CompilerBinary)


@pytest.mark.parametrize("version", [None, "13.3"])
def test_bytecode_is_exported(version: str | None) -> None:
    file = io.BytesIO()
    with on():
        cc.export_kernel(
            double, [SIGNATURE], file, output_format="tileir_bytecode", bytecode_version=version
        )
    module = tilewright.read(file.getvalue())
    assert "mulf" in tilewright.print_text(module)


def test_the_ir_of_a_kernel() -> None:
    from cuda.tile._compile import compile_tile

    with on():
        result = compile_tile(
            double._annotated_function,
            [SIGNATURE],
            None,
            double._compiler_options,
            return_final_ir=True,
            return_cubin=False,
        )
    assert result.final_ir


@pytest.mark.skipif(not PRINTS, reason="cuTile 1.6 has no disassembler")
def test_tile_ir_as_text() -> None:
    file = io.BytesIO()
    with on():
        cc.export_kernel(double, [SIGNATURE], file, output_format="tileir_bytecode")
        text = _compile._bytecode_to_mlir_text(file.getvalue())
    assert "mulf" in str(parse(text))


def test_a_cubin_is_refused_where_it_is_asked_for() -> None:
    with on(), pytest.raises(RefusedError, match="cubin takes NVIDIA's compiler tileiras"):
        cc.export_kernel(
            double, [SIGNATURE], io.BytesIO(), gpu_code="sm_100", output_format="cubin"
        )
    x = np.ones(8, np.float32)
    with on():
        ct.launch(0, (1,), double, (x,))
    assert x.sum() == 16


def test_a_suite_that_looks_for_a_compiler(tmp_path: Path) -> None:
    suite = f"""
        import io
        import pytest
        from cuda.tile import _compile

        _compile._find_pip_tileiras = lambda: None
        _compile._get_default_cuda_toolkit_paths = list
        VERSION = _compile._get_compiler_version_string()
        COMPILER = _compile._find_compiler_bin()
        NEWEST = _compile._get_max_supported_bytecode_version("/tmp")

        def test_what_needs_none():
            assert VERSION is None and NEWEST.as_string() == "{NEWEST}"

        def test_what_needs_one(tmp_path):
            COMPILER.run([str(tmp_path / "x"), "-o", str(tmp_path / "y")], [])
    """
    (tmp_path / "test_suite.py").write_text(textwrap.dedent(suite))
    environment: dict[str, Any] = {k: v for k, v in os.environ.items() if k != "CUDA_HOME"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "tilewright.pytest", "--tilewright-skip-refused", "-rs", "test_suite.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280
    )
    assert "1 passed, 1 skipped" in done.stdout, done.stdout
    assert "a cubin takes NVIDIA's compiler tileiras" in done.stdout
