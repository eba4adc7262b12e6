"""``tilewright check``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilewright.cli.exits import Exit
from tilewright.diagnostics import from_json

from .conftest import Command

GOOD = "entry @k(%a: tile<i32>) {\n  %b = addi %a, %a : tile<i32>\n  return\n}\n"
BAD_TYPE = "entry @k(%a: tile<i32>, %b: tile<i64>) {\n  %c = addi %a, %b : tile<i32>\n  return\n}\n"
BAD_RULE = "entry @k(%a: tile<i32>) {\n  %c = negi %a overflow<no_unsigned_wrap> : tile<i32>\n  return\n}\n"
HINTED = "entry @k() optimization_hints=<sm_90 = {no_such_hint = 1}> {\n  return\n}\n"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    contents = {"good": GOOD, "bad_type": BAD_TYPE, "bad_rule": BAD_RULE, "hinted": HINTED}
    paths = {name: tmp_path / f"{name}.tileir" for name in contents}
    for name, text in contents.items():
        paths[name].write_text(text)
    return paths


def test_clean_file_is_silent(command: Command, files: dict[str, Path]) -> None:
    ran = command("check", files["good"])
    assert (ran.status, ran.out, ran.err) == (Exit.OK, b"", "")


def test_error_is_shown_at_its_line(command: Command, files: dict[str, Path]) -> None:
    ran = command("check", files["bad_rule"])
    assert (ran.status, ran.out) == (Exit.FINDINGS, b"")
    assert "error[overflow-not-supported]" in ran.err
    assert f"{files['bad_rule']}:2:" in ran.err
    assert "2 |   %c = negi %a overflow<no_unsigned_wrap>" in ran.err
    assert ran.err.endswith("\n1 error\n")


def test_every_file_is_checked(command: Command, files: dict[str, Path]) -> None:
    ran = command("check", files["bad_type"], files["good"], files["bad_rule"])
    assert ran.status == Exit.FINDINGS
    assert str(files["bad_type"]) in ran.err
    assert "error[overflow-not-supported]" in ran.err
    assert ran.err.endswith("\n2 errors\n")


def test_unreadable_file_does_not_stop_the_others(
    command: Command, files: dict[str, Path], tmp_path: Path
) -> None:
    ran = command("check", tmp_path / "missing", files["bad_rule"])
    assert ran.status == Exit.USAGE
    assert "error[unreadable-input]" in ran.err
    assert "error[overflow-not-supported]" in ran.err


def test_standard_input(command: Command) -> None:
    assert command("check", "-", stdin=GOOD.encode()).status == Exit.OK
    ran = command("check", "-", stdin=BAD_RULE.encode())
    assert ran.status == Exit.FINDINGS
    assert "<stdin>:2:" in ran.err


def test_standard_input_only_once(command: Command) -> None:
    ran = command("check", "-", "-", stdin=GOOD.encode())
    assert ran.status == Exit.USAGE
    assert "read only once" in ran.err


def test_bytecode_is_recognised_by_content(
    command: Command, files: dict[str, Path], tmp_path: Path
) -> None:
    binary = tmp_path / "no_suffix"
    assert command("as", files["good"], "-o", binary).status == Exit.OK
    assert command("check", binary).status == Exit.OK
    assert command("check", "-", stdin=binary.read_bytes()).status == Exit.OK
    cut = tmp_path / "cut"
    cut.write_bytes(binary.read_bytes()[:-20])
    ran = command("check", cut)
    assert ran.status == Exit.FINDINGS
    assert f"--> {cut}: byte" in ran.err
    assert "|7f 54" not in ran.err  # a dump of bytes near the end, not of the beginning


@pytest.mark.parametrize(
    "data",
    [b"\x7fELF\x02\x01\x01\x00", b"\x00", bytes(range(256)), b"\x7fTileIR", b"\x7fTileIR\x00"],
)
def test_foreign_files(command: Command, data: bytes) -> None:
    ran = command("check", "-", stdin=data)
    assert ran.status == Exit.FINDINGS
    assert "error[" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("data", [b"", b"\n\n", b"// only a comment"])
def test_empty_files_are_empty_modules(command: Command, data: bytes) -> None:
    assert command("check", "-", stdin=data).status == Exit.OK


def test_invalid_utf8(command: Command) -> None:
    ran = command("check", "-", stdin=b"entry @k\xff() { return }")
    assert ran.status == Exit.FINDINGS
    assert "invalid-utf8" in ran.err


def test_json(command: Command, files: dict[str, Path], tmp_path: Path) -> None:
    ran = command("check", "--format", "json", files["bad_rule"], files["good"], tmp_path / "no")
    assert (ran.status, ran.err) == (Exit.USAGE, "")
    found = from_json(json.loads(ran.out))
    assert [d.code for d in found] == ["overflow-not-supported", "unreadable-input"]
    assert (found[0].file, found[0].line) == (str(files["bad_rule"]), 2)


def test_json_of_a_clean_file(command: Command, files: dict[str, Path]) -> None:
    ran = command("check", "--format", "json", files["good"])
    assert (ran.status, json.loads(ran.out)) == (Exit.OK, [])


def test_sarif(command: Command, files: dict[str, Path]) -> None:
    ran = command("check", "--format", "sarif", files["bad_rule"])
    assert (ran.status, ran.err) == (Exit.FINDINGS, "")
    (run,) = json.loads(ran.out)["runs"]
    (result,) = run["results"]
    assert result["ruleId"] == "overflow-not-supported"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 2


def test_hints(command: Command, files: dict[str, Path]) -> None:
    assert command("check", files["hinted"]).err == ""
    warned = command("check", "--warn-hints", files["hinted"])
    assert (warned.status, "warning[" in warned.err) == (Exit.OK, True)
    refused = command("check", "--error-hints", files["hinted"])
    assert (refused.status, "error[" in refused.err) == (Exit.FINDINGS, True)
    assert command("check", "--warn-hints", "--error-hints", files["good"]).status == Exit.USAGE


def test_implicit_module(command: Command, files: dict[str, Path]) -> None:
    ran = command("check", "--no-implicit-module", files["good"])
    assert ran.status == Exit.FINDINGS
    explicit = f"cuda_tile.module @m {{\n{GOOD}}}\n".encode()
    assert command("check", "--no-implicit-module", "-", stdin=explicit).status == Exit.OK


def test_unregistered_operations(command: Command) -> None:
    text = b'"foreign.op"() : () -> ()\n'
    assert command("check", "-", stdin=text).status == Exit.FINDINGS
    assert command("check", "--allow-unregistered", "-", stdin=text).status == Exit.OK


def test_rules_are_checked_where_the_syntax_is_right(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "both.tileir"
    path.write_text(
        "entry @k(%n: tile<i32>) {\n"
        "  %a = frobnicate %n : tile<i32>\n"
        "  %b = exti %n signed : tile<i32> -> tile<i16>\n"
        "  %c = addi %a, %a : tile<i32>\n"
        "  %d = addf %n, %n : tile<i32>\n"
        "}\n"
    )
    ran = command("check", "--format", "json", path)
    assert ran.status == Exit.FINDINGS
    assert [(found["line"], found["code"]) for found in json.loads(ran.text)] == [
        (2, "unknown-op"),
        (3, "conversion-width"),
        (5, "operand-type"),
    ]
