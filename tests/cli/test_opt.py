"""``tilewright opt``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright.bytecode import is_bytecode, read
from tilewright.cli.exits import Exit
from tilewright.passes import PASSES, PIPELINES
from tilewright.text import parse, same_module

from .conftest import Command

TWICE = (
    "cuda_tile.module @m {\n"
    "  entry @k(%p: tile<ptr<i32>>, %a: tile<i32>) {\n"
    "    %x = addi %a, %a : tile<i32>\n"
    "    %y = addi %a, %a : tile<i32>\n"
    "    %z = muli %x, %y : tile<i32>\n"
    "    %t = store_ptr_tko weak %p, %z : tile<ptr<i32>>, tile<i32> -> token\n"
    "    return\n"
    "  }\n"
    "}\n"
)
INVALID = "  %c = negi %a overflow<no_unsigned_wrap> : tile<i32>\n"


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.tileir"
    path.write_text(TWICE)
    return path


def test_without_passes(command: Command, kernel: Path) -> None:
    ran = command("opt", kernel)
    assert (ran.status, ran.text, ran.err) == (Exit.OK, TWICE, "")


@pytest.mark.parametrize("option", [["-p", "cse"], ["--passes", "cse"], ["-O1"], ["-O3"]])
def test_passes(command: Command, kernel: Path, option: list[str]) -> None:
    ran = command("opt", kernel, *option)
    assert ran.status == Exit.OK
    assert ran.text.count("addi") == 1


def test_o0_changes_nothing(command: Command, kernel: Path) -> None:
    assert command("opt", kernel, "-O0").text == TWICE


def test_bare_and_generic(command: Command, kernel: Path) -> None:
    assert command("opt", kernel, "--bare").text.startswith("entry @k(")
    assert command("opt", kernel, "--generic").text.startswith('"cuda_tile.module"()')


def test_output_file_and_bytecode(command: Command, kernel: Path, tmp_path: Path) -> None:
    text, binary = tmp_path / "out.tileir", tmp_path / "out.tileirbc"
    assert command("opt", kernel, "-O1", "-o", text).out == b""
    ran = command(
        "opt", kernel, "-O1", "--emit", "bytecode", "--bytecode-version=13.2", "-o", binary
    )
    assert ran.status == Exit.OK
    assert is_bytecode(binary.read_bytes())
    assert binary.read_bytes()[8:10] == bytes([13, 2])
    # Bytecode does not keep the name of the module.
    bare = command("opt", text, "--bare").text
    assert same_module(read(binary.read_bytes()), parse(bare)) is None


def test_printing_around_passes(command: Command, kernel: Path) -> None:
    err = command("opt", kernel, "-p", "cse,dce", "--print-after", "cse").err
    assert re.findall(r"^// (\w+) (.*)$", err, re.MULTILINE) == [("after", "cse")]
    assert err.count("addi") == 1
    err = command("opt", kernel, "-p", "cse,dce", "--print-before=all", "--print-after=dce").err
    assert re.findall(r"^// (\w+) (.*)$", err, re.MULTILINE) == [
        ("before", "cse"),
        ("before", "dce"),
        ("after", "dce"),
    ]
    assert err.count("addi") == 2 + 1 + 1


def test_stop_after(command: Command, kernel: Path) -> None:
    ran = command("opt", kernel, "-p", "dce,cse,dce", "--stop-after", "dce", "--timing")
    assert ran.text.count("addi") == 2
    assert re.findall(r"%  (\S+)$", ran.err, re.MULTILINE) == ["dce", "total"]


def test_timing(command: Command, kernel: Path) -> None:
    ran = command("opt", kernel, "-O2", "--timing", "--verify-each")
    names = re.findall(r"^ *[\d.]+ ms +[\d.]+%  (\S+)$", ran.err, re.MULTILINE)
    assert names == [*PIPELINES["O2"], "total"]


def test_list(command: Command) -> None:
    ran = command("opt", "--list-passes")
    assert (ran.status, ran.err) == (Exit.OK, "")
    for name in (*PASSES, *PIPELINES):
        assert f"\n  {name}" in ran.text
    assert "loop-split{split-threshold=1}" in ran.text


def test_listed_descriptions_are_complete_sentences(command: Command) -> None:
    passes = command("opt", "--list-passes").text.partition("\nPipelines")[0]
    descriptions = dict(re.findall(r"^  ([\w-]+) +(\S.*)$", passes, re.MULTILINE))
    assert descriptions.keys() == set(PASSES)
    cut_off = [name for name, text in descriptions.items() if not text.endswith(".")]
    assert not cut_off


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["-p", "no-such-pass"], "unknown-pass"),
        (["-p", "cse{x=1}"], "bad-pass-option"),
        (["-p", "cse,,dce"], "bad-pipeline"),
        (["--print-after", "nothing"], "bad-usage"),
        (["--print-before", "nothing"], "bad-usage"),
        (["--stop-after", "all"], "bad-usage"),
    ],
)
def test_bad_pipelines(command: Command, kernel: Path, arguments: list[str], code: str) -> None:
    ran = command("opt", kernel, *arguments)
    assert (ran.status, ran.out) == (Exit.USAGE, b"")
    assert f"error[{code}]" in ran.err


@pytest.mark.parametrize("arguments", [[], ["-O1", "-O2"], ["-O1", "-p", "cse"]])
def test_bad_usage(command: Command, kernel: Path, arguments: list[str]) -> None:
    file = [kernel] if arguments else []
    assert command("opt", *file, *arguments).status == Exit.USAGE


def test_invalid_input_is_not_transformed(command: Command, tmp_path: Path) -> None:
    target = tmp_path / "out"
    text = f"entry @k(%a: tile<i32>) {{\n{INVALID}  return\n}}\n"
    ran = command("opt", "-", "-O1", "-o", target, stdin=text.encode())
    assert ran.status == Exit.FINDINGS
    assert "overflow-not-supported" in ran.err
    assert not target.exists()


def test_split_input(command: Command) -> None:
    ran = command(
        "opt", "-", "-O1", "--split-input-file", stdin=f"{TWICE}// -----\n{TWICE}".encode()
    )
    assert ran.status == Exit.OK
    parts = ran.text.split("// -----\n")
    assert [part.count("addi") for part in parts] == [1, 1]


def test_split_input_reports_lines_of_the_whole_file(command: Command) -> None:
    bad = f"entry @k(%a: tile<i32>) {{\n{INVALID}  return\n}}\n"
    text = f"{TWICE}// -----\n{bad}// -----\n{bad}"
    ran = command("opt", "-", "--split-input-file", stdin=text.encode())
    assert (ran.status, ran.out) == (Exit.FINDINGS, b"")
    assert re.findall(r"<stdin>:(\d+):", ran.err) == ["12", "17"]


def test_split_input_takes_no_bytecode(command: Command, kernel: Path, tmp_path: Path) -> None:
    binary = tmp_path / "out"
    assert command("as", kernel, "-o", binary).status == Exit.OK
    assert command("opt", binary, "--split-input-file").status == Exit.USAGE
    ran = command(
        "opt",
        "-",
        "--split-input-file",
        "--emit=bytecode",
        stdin=f"{TWICE}// -----\n{TWICE}".encode(),
    )
    assert (ran.status, ran.out) == (Exit.USAGE, b"")


def test_expected_diagnostics(command: Command) -> None:
    met = (
        "entry @k(%a: tile<i32>) {\n"
        "  // expected-error @below {{overflow-not-supported: not supported}}\n"
        f"{INVALID}  return\n}}\n"
        "// -----\n"
        "entry @k() {\n"
        "  // expected-error @below {{syntax}}\n"
        "  %x = addi 5\n"
        "}\n"
        "// -----\n"
        "entry @fine() {\n  return\n}\n"
    )
    ran = command("opt", "-", "--split-input-file", "--verify-diagnostics", stdin=met.encode())
    assert (ran.status, ran.out, ran.err) == (Exit.OK, b"", "")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"entry @k(%a: tile<i32>) {{\n{INVALID}  return\n}}\n", "unexpected-diagnostic"),
        ("// expected-error {{x}}\nentry @k() {\n  return\n}\n", "missing-diagnostic"),
        ("// expected-error\nentry @k() {\n  return\n}\n", "malformed-expectation"),
    ],
)
def test_expectations_not_met(command: Command, text: str, code: str) -> None:
    ran = command("opt", "-", "--verify-diagnostics", stdin=text.encode())
    assert (ran.status, ran.out) == (Exit.FINDINGS, b"")
    assert f"error[{code}]" in ran.err


def test_rules_are_traced_by_name_and_place(command: Command, tmp_path: Path) -> None:
    source = tmp_path / "k.tileir"
    source.write_text(
        "entry @k(%c: tile<i1>) {\n"
        "  %true = constant <i1: true> : tile<i1>\n"
        "  %x = constant <i32: 1> : tile<i32>\n"
        "  %y = constant <i32: 0> : tile<i32>\n"
        "  %n = xori %c, %true : tile<i1>\n"
        "  %s = select %n, %y, %x : tile<i1>, tile<i32>\n"
        '  %t = print_tko "%d", %s : tile<i32> -> token\n'
        "  return\n"
        "}\n"
    )
    ran = command("opt", str(source), "-p", "canonicalize", "--trace-rewrites")
    assert ran.status == Exit.OK
    assert ran.err.splitlines() == [
        f"{source}:6:8: negated_condition rewrites cuda_tile.select",
        f"{source}:6:8: one_or_zero rewrites cuda_tile.select",
    ]
    assert command("opt", str(source), "-p", "canonicalize").err == ""
