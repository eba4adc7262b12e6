"""Without a cuTile that works: what is said, and what still imports."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tilewright.cutile import FrontEndError
from tilewright.cutile.frontend import UntriedVersionWarning, check_version, does_not_work


def _pretend(monkeypatch: pytest.MonkeyPatch, version: str | None) -> None:
    def installed(name: str) -> str:
        assert name == "cuda-tile"
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", installed)


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (None, "cuTile is not installed; Tilewright was tried with cuda-tile 1.6 to 1.7"),
        (
            "1.5.2",
            "cuda-tile 1.5.2 is too old; this Tilewright was tried with cuda-tile 1.6 to 1.7",
        ),
        ("0.9", "is too old"),
    ],
)
def test_one_line_names_the_version_that_works(
    monkeypatch: pytest.MonkeyPatch, version: str | None, words: str
) -> None:
    _pretend(monkeypatch, version)
    with pytest.raises(FrontEndError) as caught:
        check_version()
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    assert "pip install" in message


@pytest.mark.parametrize("version", ["1.6.0", "1.6.4", "1.7.0", "1.7.3", "1.7"])
def test_versions_that_work(
    monkeypatch: pytest.MonkeyPatch, version: str, recwarn: pytest.WarningsRecorder
) -> None:
    _pretend(monkeypatch, version)
    check_version()
    assert not recwarn.list


@pytest.mark.parametrize("version", ["1.8.0", "1.10", "2.0.0rc1"])
def test_a_newer_version_is_used_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    _pretend(monkeypatch, version)
    with pytest.warns(UntriedVersionWarning) as caught:
        check_version()
    message = str(caught[0].message)
    assert f"cuda-tile {version} is newer" in message
    assert "cuda-tile 1.6 to 1.7" in message
    assert "pip install 'cuda-tile>=1.6,<1.8'" in message


def test_a_newer_version_that_lacks_something_says_what_was_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _pretend(monkeypatch, "1.8.0")
    error = does_not_work(AttributeError("no attribute 'launch'"))
    assert str(error) == (
        "cuda-tile 1.8.0 is installed but does not work: no attribute 'launch'; "
        "tried with cuda-tile 1.6 to 1.7: pip install 'cuda-tile>=1.6,<1.8'"
    )


@pytest.mark.parametrize("system", ["darwin", "emscripten"])
def test_where_there_are_no_wheels_that_is_said(
    monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    _pretend(monkeypatch, None)
    monkeypatch.setattr("sys.platform", system)
    with pytest.raises(FrontEndError, match=r"NVIDIA has no cuda-tile for (macOS|Pyodide)$"):
        check_version()


def test_imports_need_neither_cutile_nor_torch() -> None:
    program = (
        "import sys\n"
        "sys.modules['cuda'] = sys.modules['torch'] = None\n"
        "import tilewright.cutile, tilewright.pytest\n"
        "from tilewright.cutile import FrontEndError, KernelError, RefusedError, launch, on\n"
        "on('reference')\n"
        "try: launch(0, (1,), len, ())\n"
        "except FrontEndError as error: print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "cuda-tile" in run.stdout


def test_a_program_is_not_started_without_it(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("print('started')\n")
    program = (
        "import sys\n"
        "sys.modules['cuda'] = None\n"
        "from tilewright.cli.main import main\n"
        f"sys.exit(main(['run', {str(script)!r}]))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert run.stdout == ""
    (line,) = run.stderr.splitlines()
    assert line.startswith("tilewright run: ")
    assert "cuTile is not installed" in line or "is installed but does not work" in line


def test_functions_that_came_later_are_not_asked_of_older_releases(tmp_path: Path) -> None:
    """What 1.6 lacks of what stands in for cuTile's functions; the wheel is checked with 1.6 itself."""
    code = """
import dataclasses
import numpy as np
import cuda.tile as ct
from cuda.tile import _compile
from tilewright.cutile import frontend, interception, on
for name in interception._SINCE:
    if hasattr(_compile, name):
        delattr(_compile, name)
old = dataclasses.replace(frontend.front_end(), release=(1, 6))
interception.front_end = lambda: old

@ct.kernel
def one(x):
    ct.store(x, 0, ct.full((8,), 1, ct.int32))

x = np.zeros(8, np.int32)
with on():
    ct.launch(0, (1,), one, (x,))
assert x.sum() == 8
"""
    program = tmp_path / "program.py"
    program.write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
