"""``tilewright compile``, ``tilewright cache`` and ``tilewright run --machine cpu``."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from tilewright.cli.exits import Exit
from tilewright.cpu.target import cpu_target

from .conftest import Command

EXAMPLE = Path(__file__).parents[2] / "examples" / "vector_add.tileir"
ARGUMENTS = (
    *("--grid", "8", "--arg", "x=iota:f32:1000", "--arg", "y=full:f32:1000:0.5"),
    *("--arg", "out=zeros:f32:1000", "--arg", "n=1000"),
)
TWO_KERNELS = "entry @first() { return }\nentry @second(%n: tile<i32>) { return }\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_assembly_is_the_default(command: Command) -> None:
    ran = command("compile", EXAMPLE)
    assert ran.status == Exit.OK
    assert "vector_add:" in ran.text
    assert ran.err == ""


def test_llvm_ir_can_be_read_back(command: Command) -> None:
    ran = command("compile", EXAMPLE, "--emit", "llvm")
    module = llvm.parse_assembly(ran.text)
    defined = {f.name for f in module.functions if not f.is_declaration}
    # What aligns the stack is a function of its own, where vectors are longer than the ABI's alignment.
    kernels = {name for name in defined if name.startswith("kernel.")}
    assert "kernel.vector_add" in kernels <= {"kernel.vector_add", "kernel.vector_add.blocks"}
    assert all(name.startswith("tilewright.") for name in defined - kernels)


def test_an_object_file(command: Command, tmp_path: Path) -> None:
    target = tmp_path / "kernel.o"
    assert command("compile", EXAMPLE, "--emit", "obj", "-o", target).status == Exit.OK
    symbols = llvm.ObjectFileRef.from_data(target.read_bytes()).sections()
    assert any(section.is_text() and section.size() for section in symbols)


def test_the_cpu_decides_on_the_code(command: Command) -> None:
    generic = command("compile", EXAMPLE, "--cpu", "generic").text
    assert "zmm" not in generic
    if cpu_target().triple.startswith("x86_64"):
        assert "zmm" in command("compile", EXAMPLE, "--cpu", "x86-64-v4").text
    ran = command("compile", EXAMPLE, "--cpu", "6502")
    assert ran.status == Exit.FINDINGS
    assert "error[unknown-cpu]" in ran.err


def test_stages_are_shown(command: Command) -> None:
    ran = command("compile", EXAMPLE, "--print-after", "nv_tileaa", "--print-after", "codegen")
    assert "nv_tileaa.tiled_load" in ran.err
    assert ran.err.index("// after nv_tileaa") < ran.err.index("// after codegen")
    assert "// after llvm" not in ran.err
    every = command("compile", EXAMPLE, "--print-after", "all", "--emit", "llvm")
    for stage in ("nv_tileaa", "codegen", "llvm", "asm"):
        assert f"// after {stage}" in every.err
    assert command("compile", EXAMPLE, "--print-after", "lunch").status == Exit.USAGE


def test_timing(command: Command) -> None:
    ran = command("compile", EXAMPLE, "--timing", "--emit", "obj", "-o", "/dev/null")
    stages = [line.rsplit("ms", 1)[0].rsplit(None, 1)[0] for line in ran.err.splitlines()]
    assert stages == [
        "read and verify",
        "lower to nv_tileaa",
        "generate LLVM IR",
        "parse LLVM IR",
        "optimise",
        "emit object",
        "total",
    ]


def test_one_kernel_of_several(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "two.tileir"
    path.write_text(TWO_KERNELS)
    ran = command("compile", path)
    assert ran.status == Exit.USAGE
    assert "kernels: first, second" in ran.err
    chosen = command("compile", path, "--entry", "second")
    assert "second:" in chosen.text
    assert "first:" not in chosen.text


def test_bad_input(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "bad.tileir"
    path.write_text("entry @k( { return }")
    assert command("compile", path).status == Exit.FINDINGS
    assert command("compile", tmp_path / "none.tileir").status == Exit.USAGE


def test_run_gives_what_the_reference_machine_gives(command: Command, tmp_path: Path) -> None:
    results = []
    for option in (("--machine", "cpu", "--threads", "2"), ("--target", "cpu"), ()):
        target = tmp_path / f"{len(results)}.npy"
        ran = command("run", EXAMPLE, *ARGUMENTS, *option, "--out", f"out={target}")
        assert (ran.status, ran.err) == (Exit.OK, "")
        results.append(np.load(target))
    np.testing.assert_array_equal(results[0], results[2])
    np.testing.assert_array_equal(results[1], results[2])


def test_run_tells_the_machine_in_json(command: Command) -> None:
    for machine in ("cpu", "reference"):
        ran = command("run", EXAMPLE, *ARGUMENTS, "--machine", machine, "--json")
        assert json.loads(ran.text)["machine"] == machine


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--threads", "2"), "--threads needs --machine cpu"),
        (("--checked",), "--checked needs --machine cpu"),
        (("--cpu", "generic"), "--cpu needs --machine cpu"),
        (("--machine", "cpu", "--trace", "-"), "--trace needs --machine reference, not cpu"),
        (("--machine", "cpu", "--arithmetic", "reductions=tree"), "--arithmetic needs"),
        (("--machine", "cpu", "--max-iterations", "9"), "needs --machine reference or sim:ARCH"),
        (("--machine", "cpu", "--counters"), "--counters needs --machine sim:ARCH, not cpu"),
    ],
)
def test_options_that_do_not_go_together(
    command: Command, options: tuple[str, ...], message: str
) -> None:
    ran = command("run", EXAMPLE, *ARGUMENTS, *options)
    assert ran.status == Exit.USAGE
    assert message in ran.err


def test_bad_threads(command: Command) -> None:
    ran = command("run", EXAMPLE, *ARGUMENTS, "--machine", "cpu", "--threads", "0")
    assert ran.status == Exit.FINDINGS
    assert "error[bad-threads]" in ran.err


def test_the_cache_is_shown_limited_and_cleared(command: Command, cache: Path) -> None:
    empty = command("cache", "--json")
    assert json.loads(empty.text)["entries"] == 0
    assert command("run", EXAMPLE, *ARGUMENTS, "--machine", "cpu", "--cpu", "generic").status == 0
    filled = json.loads(command("cache", "--json").text)
    assert filled["entries"] >= 1
    assert filled["directory"] == str(cache)
    assert filled["size_bytes"] > 500
    assert "of 2.0 MiB" in command("cache", "--limit", "2M").text
    cleared = command("cache", "clear")
    assert "removed" in cleared.err
    assert "entries    0" in cleared.text


@pytest.mark.parametrize("size", ["", "lots", "-1", "1T", "1.5G"])
def test_bad_limits(command: Command, size: str) -> None:
    assert command("cache", f"--limit={size}").status == Exit.USAGE


def test_no_cache(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "")
    ran = command("cache")
    assert ran.status == Exit.USAGE
    assert "TILEWRIGHT_CACHE_DIR" in ran.err
    assert command("run", EXAMPLE, *ARGUMENTS, "--machine", "cpu").status == Exit.OK


def test_code_and_remarks_have_outputs_of_their_own(command: Command, tmp_path: Path) -> None:
    same = str(tmp_path / "out")
    for words in (("--remarks-json", "-"), ("-o", same, "--remarks-json", same)):
        ran = command("compile", EXAMPLE, *words)
        assert (ran.status, ran.text) == (Exit.USAGE, "")
        assert "--remarks-json and the code have the same output" in ran.err
    assert not Path(same).exists()


def test_clearing_what_cannot_be_removed(
    cache: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was said to be removed."""
    from tilewright.launching.disk_cache import DiskCache

    DiskCache(cache).put("ab" * 32, b"code")

    def locked(path: Path, **_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", locked)
    done = command("cache", "clear")
    assert done.status == Exit.USAGE
    assert "cannot be removed: Read-only file system" in done.err
    assert "removed 1" not in done.text + done.err
