"""``tilewright explain KERNEL``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Command, command, process
from tests.explain.kernels import EXAMPLES

from tilewright.cli.exits import Exit

__all__ = ["command", "process"]

LAUNCH = ("--grid", "16", "--arg", "x=normal:f32:64x200", "--arg", "out=zeros:f32:64x200",
          "--arg", "rows=64", "--arg", "columns=200")  # fmt: skip


@pytest.fixture
def softmax(tmp_path: Path) -> Path:
    return Path(shutil.copy(EXAMPLES / "softmax.tileir", tmp_path))


def test_page_stands_beside_the_file(command: Command, softmax: Path) -> None:
    ran = command("explain", softmax)
    page = softmax.with_suffix(".html")
    assert (ran.status, ran.out, ran.err) == (Exit.OK, b"", f"wrote {page}\n")
    text = page.read_text(encoding="utf-8")
    assert "Kernel softmax" in text
    assert f"tilewright explain {softmax} --grid X,Y,Z --arg x=random:f32:EXTENTS" in text
    # A page may be made anew.
    assert command("explain", softmax, *LAUNCH).status == Exit.OK
    assert 'id="block"' in page.read_text(encoding="utf-8")


def test_other_files_are_not_replaced(command: Command, softmax: Path) -> None:
    page = softmax.with_suffix(".html")
    page.write_text("my own")
    ran = command("explain", softmax)
    assert ran.status == Exit.USAGE
    assert "exists and is not a page" in ran.err
    assert page.read_text() == "my own"
    assert command("explain", softmax, "-o", page).status == Exit.OK
    assert page.read_text() != "my own"


def test_standard_streams(process: Command, softmax: Path) -> None:
    ran = process("explain", "-", stdin=softmax.read_bytes())
    assert (ran.status, ran.err) == (Exit.OK, "")
    assert ran.text.startswith("<!DOCTYPE html>")
    assert "tilewright explain FILE --grid" in ran.text


def test_bytecode_passes_and_target(command: Command, softmax: Path, tmp_path: Path) -> None:
    code, page = tmp_path / "k.tileirbc", tmp_path / "k.html"
    assert command("as", softmax, "-o", code).status == Exit.OK
    assert command("explain", code, "--passes", "tileaa-cse", "--target", "sm_90").status == Exit.OK
    text = page.read_text(encoding="utf-8")
    assert text.count('<details class="change">') == 1
    assert "compute_capability = 90" in text


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--entry", "no"), Exit.USAGE, "expected a kernel 'no'"),
        (
            ("--passes", "cse"),
            Exit.USAGE,
            "error[explain-passes]: 'cse' is not an nv_tileaa pass",
        ),
        (("--passes", "nonsense"), Exit.USAGE, "error[unknown-pass]"),
        (("--target", "sm_1"), Exit.USAGE, "error[unknown-target]"),
        (("--arg", "x=1"), Exit.USAGE, "error[argument-spec]"),
        (("--format", "json"), Exit.USAGE, "a kernel is explained by an HTML page"),
        ((*LAUNCH, "--grid", "17"), Exit.FINDINGS, "error["),
    ],
)
def test_refusals_leave_no_page(
    command: Command, softmax: Path, arguments: tuple[str, ...], status: Exit, message: str
) -> None:
    ran = command("explain", softmax, *arguments)
    assert (ran.status, ran.out) == (status, b"")
    assert message in ran.err
    assert not softmax.with_suffix(".html").exists()


def test_input_with_errors(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "k.tileir"
    path.write_text("entry @k() {\n  %x = nonsense\n  return\n}\n")
    ran = command("explain", path)
    assert ran.status == Exit.FINDINGS
    assert "error[" in ran.err


def test_files_and_names(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = command("explain", "no/such.tileir")
    assert (missing.status, "unreadable-input" in missing.err) == (Exit.USAGE, True)
    # A folder that happens to have the name of an operation is in nobody's way.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "addi").mkdir()
    assert command("explain", "addi").text.startswith("cuda_tile.addi:")


@pytest.mark.parametrize("option", [("--grid", "3"), ("--entry", "k"), ("-o", "x.html")])
def test_options_of_the_page_need_a_kernel(command: Command, option: tuple[str, str]) -> None:
    ran = command("explain", "addi", *option)
    assert ran.status == Exit.USAGE
    assert "requires a kernel" in ran.err
