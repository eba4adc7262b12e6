"""No false alarms: nothing is found in the corpus of cuTile kernels, nor in the examples."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tests.corpus import CUTILE_MISSING, VERSIONS, CorpusKernel, cutile_available, cutile_kernels
from tests.corpus.launching import check_outputs, flat_arguments

from tilewright import LaunchOptions
from tilewright.bytecode import read
from tilewright.cli.main import main
from tilewright.machine.sanitize.sanitizer import SanitizingProgram

RUNNABLE = [k for k in cutile_kernels() if k.launch] if cutile_available() else []
EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.tileir"))


@pytest.mark.rotates(3, 1)
@pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING)
@pytest.mark.parametrize(
    ("kernel", "seed"),
    [pytest.param(k, seed, id=f"{k.name}-{seed}") for seed in (0, 1) for k in RUNNABLE],
)
def test_cutile_kernels_are_clean(kernel: CorpusKernel, seed: int) -> None:
    launch = kernel.launch
    assert launch is not None
    version = max(kernel.since, "13.4", key=VERSIONS.index)
    program = SanitizingProgram(read(kernel.export(version)), seed, races=True)
    arguments = launch.arguments()
    flat = flat_arguments(kernel, arguments, program.map_array)
    program.launch(None, launch.grid, flat, options=LaunchOptions(seed=seed))
    assert [d.brief() for d in program.collector.diagnostics] == []
    assert check_outputs(launch, launch.arguments(), arguments) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_clean(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parents[1])
    command = path.read_text(encoding="utf-8").splitlines()[1].removeprefix("// $ tilewright ")
    words = shlex.split(command)
    assert words[0] == "run"
    assert main(["sanitize", *words[1:], "--seeds", "2"]) == 0
