"""Kernels that an earlier process has compiled for the CPU: launched without reading their modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from tilewright.cpu.runtime import kernels  # noqa: E402
from tilewright.cutile import KernelError, launch, on  # noqa: E402
from tilewright.cutile.launching import Dispatcher  # noqa: E402

_PROGRAM = """
import sys
import cuda.tile as ct
import numpy as np
from tilewright.cutile import KernelError, launch, on


@ct.kernel
def scale(x, y, by: ct.Constant[int]):
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (4,)) * by)


@ct.kernel
def check(x):
    t = ct.load(x, (ct.bid(0),), (4,))
    ct.assert_(t < 6, "too large")


x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
with on("cpu"):
    for by in (2, 3):
        for _ in range(3):
            ct.launch(0, (2,), scale, (x, y, by))
        print(y.sum())
    ct.launch(0, (1,), check, (x,))
    print("xdsl" in sys.modules)
    if "wrong" in sys.argv:
        try:
            ct.launch(0, (2,), check, (x,))
        except KernelError as error:
            print(error)
    if "reference" in sys.argv:
        y[:] = 0
        launch(0, (2,), scale, (x, y, 3), machine="reference")
        print(y.sum(), "xdsl" in sys.modules)
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    # Code that another test has in memory would not be written to this cache.
    monkeypatch.setattr(kernels, "_libraries", kernels.OrderedDict())


def _run(path: Path, *how: str) -> list[str]:
    command = [sys.executable, str(path), *how]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_second_process_imports_no_xdsl(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(_PROGRAM)
    first, second = _run(path, "wrong"), _run(path, "wrong", "reference")
    assert first[:3] == ["56.0", "84.0", "True"]
    assert second[:3] == ["56.0", "84.0", "False"]
    # A failed assertion is told at its line, with what it says, by both.
    assert any("too large" in line for line in first) and any(str(path) in line for line in first)
    assert second[3:-1] == first[3:]
    # Another machine reads the module.
    assert second[-1] == "84.0 True"


@ct.kernel
def writes(x, y):
    ct.store(y, (0,), ct.load(x, (0,), (4,)))


def _dispatchers() -> tuple[Dispatcher, Dispatcher]:
    """Two that know nothing of what the other has compiled."""
    from tilewright.cutile.frontend import front_end

    return Dispatcher(writes, front_end()), Dispatcher(writes, front_end())


def test_a_known_kernel_is_read_when_something_needs_it() -> None:
    from tilewright.cutile.settings import Settings

    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    settings = Settings("cpu")
    found = []
    for dispatcher in _dispatchers():
        y[:] = 0
        dispatcher.launch((1, 1, 1), (x, y), settings)
        assert (y == x).all()
        found.append(dispatcher.compiled(dispatcher.read((x, y))[0]))
    assert ["module" in each.source.__dict__ for each in found] == [True, False]
    compiled = found[1]
    assert compiled.module.entry("writes").block.args[0].name_hint == "x"
    assert compiled.bytecode.startswith(b"\x7fTileIR")


def test_errors_of_known_kernels_stand_at_their_lines() -> None:
    from tilewright.cutile.settings import Settings

    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    y.flags.writeable = False
    found = []
    for dispatcher in _dispatchers():
        with pytest.raises(KernelError) as error:
            dispatcher.launch((1, 1, 1), (x, y), Settings("cpu"))
        found.append(str(error.value))
        dispatcher.prepare((x, y), Settings("cpu"))
    assert found[0] == found[1]
    assert "ct.store(y" in found[0]


def test_kernels_of_other_names_are_other_kernels() -> None:
    """The same bytecode can stand for kernels whose parameters are called otherwise."""
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    first, second = _dispatchers()
    key = first.read((x, y))[0]
    one, other = first.compiled(key).source, second.compiled(key).source
    assert one.identity == other.identity
    assert one.identity != one.written
    renamed = type(one)(one.written, one.symbol, "other", one.parameters, one.position, one.front)
    assert renamed.identity != one.identity


def test_launches_with_settings_of_another_machine_after_it() -> None:
    x = np.arange(4, dtype=np.float32)
    with on("cpu"):
        y = np.zeros(4, np.float32)
        launch(0, (1,), writes, (x, y))
        launch(0, (1,), writes, (x, y), machine="sim:sm_90a")
        assert (y == x).all()
