"""What cannot work without a GPU is refused, with the reason; stand-ins for what is not installed."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from cuda.tile._ir.ops import GridDependencyControlWait  # noqa: E402

from tilewright.cutile import RefusedError, launch, on  # noqa: E402


@ct.kernel
def calls(x):
    ct.grid_dependency_control_wait()
    ct.store(x, (0,), ct.load(x, (0,), (4,)) + 1)


@pytest.fixture
def foreign_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A stand-in for the package that adds foreign calls to cuTile: waiting is one of them."""
    _preview_loader = pytest.importorskip(
        "cuda.tile._preview_loader", reason="this cuTile is older than 1.7"
    )
    preview = types.ModuleType("cuda.tile_preview")
    preview.PreviewForeignCall = GridDependencyControlWait  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "cuda.tile_preview", preview)
    monkeypatch.setattr(GridDependencyControlWait, "tilelibs", (), raising=False)
    _preview_loader.get_preview_foreign_call_type.cache_clear()
    yield monkeypatch
    _preview_loader.get_preview_foreign_call_type.cache_clear()


@pytest.mark.parametrize("machine", ["reference", "cpu"])
@pytest.mark.parametrize(
    ("symbol", "reason"),
    [
        ("nvshmem_barrier_all", "the kernel calls NVSHMEM, which is for several GPUs"),
        ("nvshmemx_quiet", "the kernel calls NVSHMEM"),
        ("my_function", "the kernel calls functions that are not in Tile IR"),
    ],
)
def test_foreign_calls(
    foreign_calls: pytest.MonkeyPatch, machine: str, symbol: str, reason: str
) -> None:
    foreign_calls.setattr(GridDependencyControlWait, "symbol_name", symbol, raising=False)
    x = np.zeros(4, np.float32)
    with pytest.raises(RefusedError, match=reason):
        launch(0, (1,), ct.kernel(calls._annotated_function.pyfunc), (x,), machine=machine)
    assert not x.any()


def test_no_function_of_cutile_makes_multimem_operations() -> None:
    """They are for several GPUs; the machines refuse them at the level of Tile IR."""
    root = Path(ct.__file__).parent
    users = [
        path.relative_to(root).parts[0]
        for path in root.rglob("*.py")
        if "Multimem" in path.read_text(encoding="utf-8")
    ]
    assert set(users) <= {"_bytecode"}


# As much of JAX as cuTile asks for when it is imported.
_JAX = """
import sys, types

def module(name, **members):
    made = sys.modules[name] = types.ModuleType(name)
    made.__dict__.update(members)
    return made

class Primitive:
    def __init__(self, name): self.name = name
    def def_abstract_eval(self, function): return function
    def bind(self, *arrays, **facts): raise NotImplementedError("no rule for platform cpu")

class Array: ...
class ShapeDtypeStruct:
    def __init__(self, shape, dtype): ...

def nothing(*args, **keywords): ...
def jit(function=None, **options): return function or (lambda function: function)

ffi = module("jax.ffi", register_ffi_type=nothing, register_ffi_target=nothing)
extend = module("jax.extend", core=types.SimpleNamespace(Primitive=Primitive))
mlir = module("jax.interpreters.mlir", register_lowering=nothing)
interpreters = module("jax.interpreters", mlir=mlir)
ir = types.SimpleNamespace(Value=object)
for name in ("jax._src", "jax._src.lib"): module(name)
module("jax._src.lib.mlir", ir=ir)
"""
_JAX_PROGRAM = """
import cuda.tile as ct
from cuda.tile.jax import OutputPlaceholder, cutile_call

@ct.kernel
def nothing(y): ...

cutile_call((1,), nothing, (OutputPlaceholder((4,), "float32"),))
"""


def test_kernels_called_from_jax(tmp_path: Path) -> None:
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text(_JAX)
    program = tmp_path / "program.py"
    program.write_text(_JAX_PROGRAM)
    search = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    def run(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command, str(program)],
            env={**os.environ, "PYTHONPATH": search},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        return done.stderr

    assert run().endswith("NotImplementedError: no rule for platform cpu\n")
    assert "error[launch-refused]: JAX hands kernels to a GPU by itself" in run(
        "-m", "tilewright", "run"
    )


def test_kernels_of_threads() -> None:
    from cuda.tile._cext import launch_extended

    with on(), pytest.raises(RefusedError, match=r"cuda\.lang kernels are written per thread"):
        sys.modules["cuda.tile._cext"].launch_extended()
    assert sys.modules["cuda.tile._cext"].launch_extended is launch_extended


def test_a_kernel_whose_source_nobody_has() -> None:
    """As in Python's interactive session before 3.13."""
    names: dict[str, object] = {}
    code = "import cuda.tile as ct\n@ct.kernel\ndef f(x):\n    ct.store(x, (0,), ct.load(x, (0,), (4,)))\n"
    exec(compile(code, "<nowhere>", "exec"), names)
    with pytest.raises(RefusedError, match="there is none: code that was given to `exec`"):
        launch(0, (1,), names["f"], (np.zeros(4, np.float32),))
