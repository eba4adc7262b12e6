"""``tilewright dis`` and ``tilewright as``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.oracles import disassemble, requires_tileirdisasm

from tilewright.bytecode import is_bytecode, read
from tilewright.cli.exits import Exit
from tilewright.dialects.versions import BYTECODE_VERSIONS, format_version

from .conftest import Command

EXAMPLES = Path(__file__).parents[2] / "examples"
VERSIONS = [format_version(version) for version in BYTECODE_VERSIONS]
TEXT = "entry @k(%arg0: tile<i32>) {\n  %0 = addi %arg0, %arg0 : tile<i32>\n  return\n}\n"
UNVERIFIED = TEXT.replace("addi %arg0, %arg0", "negi %arg0 overflow<no_unsigned_wrap>")


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.tileir"
    path.write_text(TEXT)
    return path


@pytest.fixture
def binary(command: Command, kernel: Path, tmp_path: Path) -> Path:
    path = tmp_path / "kernel.tileirbc"
    assert command("as", kernel, "-o", path).status == Exit.OK
    return path


def test_text_is_printed_in_the_tools_form(command: Command) -> None:
    untidy = b"entry @k ( %arg0 : tile<i32> ) { %0=addi %arg0,%arg0:tile<i32>\n return }"
    ran = command("dis", "-", stdin=untidy)
    assert (ran.status, ran.err) == (Exit.OK, "")
    assert ran.text == TEXT


def test_bytecode_is_printed(command: Command, binary: Path) -> None:
    ran = command("dis", binary)
    assert (ran.status, ran.text, ran.err) == (Exit.OK, TEXT, "")


@requires_tileirdisasm
@pytest.mark.oracle
@pytest.mark.parametrize("name", ["vector_add", "softmax", "matmul"])
def test_the_same_as_tileirdisasm(command: Command, tmp_path: Path, name: str) -> None:
    target = tmp_path / "out"
    assert command("as", EXAMPLES / f"{name}.tileir", "-o", target).status == Exit.OK
    assert command("dis", target).text == disassemble(target.read_bytes())


def test_module_line(command: Command, binary: Path) -> None:
    text = command("dis", "--module", binary).text
    assert text.startswith("cuda_tile.module @kernels {\n  entry @k(")
    again = command("dis", "-", stdin=text.encode())
    assert again.text == TEXT


def test_generic_form(command: Command, binary: Path) -> None:
    text = command("dis", "--generic", binary).text
    assert text.startswith('"cuda_tile.module"()')
    assert '"cuda_tile.addi"' in text
    assert command("dis", "-", stdin=text.encode()).text == TEXT


def test_locations(command: Command) -> None:
    located = TEXT.replace("tile<i32>\n  return", 'tile<i32> loc("a.py":3:5)\n  return')
    assert "loc(" not in command("dis", "-", stdin=located.encode()).text
    for option in ("-g", "--print-locations"):
        assert '"a.py":3:5' in command("dis", option, "-", stdin=located.encode()).text


def test_only_what_verifies(command: Command, tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("old")
    ran = command("dis", "-", "-o", target, stdin=UNVERIFIED.encode())
    assert (ran.status, ran.out) == (Exit.FINDINGS, b"")
    assert "overflow-not-supported" in ran.err
    assert target.read_text() == "old"
    assert command("dis", "--verify", "-", stdin=UNVERIFIED.encode()).status == Exit.FINDINGS
    ran = command("dis", "--no-verify", "-", stdin=UNVERIFIED.encode())
    assert (ran.status, ran.text, ran.err) == (Exit.OK, UNVERIFIED, "")


MISMATCHED = """entry @k(%arg0: tile<i32>, %arg1: tile<f32>) {
  %0 = "cuda_tile.addi"(%arg0, %arg1) <{overflow = #cuda_tile.overflow<none>}> : (!cuda_tile.tile<i32>, !cuda_tile.tile<f32>) -> !cuda_tile.tile<i32>
  %tview = "cuda_tile.make_tensor_view"(%arg0) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!cuda_tile.tile<i32>) -> !cuda_tile.tile<i32>
  %1 = addi %0, %arg0 : tile<i32>
  return
}
"""


def test_what_has_no_custom_form_is_printed_in_generic_form(command: Command) -> None:
    assert command("check", "-", stdin=MISMATCHED.encode()).status == Exit.FINDINGS
    ran = command("dis", "--no-verify", "-", stdin=MISMATCHED.encode())
    assert (ran.status, ran.text, ran.err) == (Exit.OK, MISMATCHED, "")


def test_output_file(command: Command, binary: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.tileir"
    ran = command("dis", binary, "-o", target)
    assert (ran.status, ran.out) == (Exit.OK, b"")
    assert target.read_bytes() == TEXT.encode()


def test_several_modules(command: Command) -> None:
    text = b"cuda_tile.module @a {\n}\ncuda_tile.module @b {\n}\n"
    ran = command("dis", "-", stdin=text)
    assert ran.status == Exit.OK
    assert "@a" in ran.text
    assert "@b" in ran.text
    refused = command("as", "-", "-o", "-", stdin=text)
    assert (refused.status, refused.out) == (Exit.FINDINGS, b"")
    assert "not-one-module" in refused.err


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version(command: Command, kernel: Path, tmp_path: Path, version: str) -> None:
    target = tmp_path / "out"
    assert command("as", kernel, "-o", target, "--bytecode-version", version).status == Exit.OK
    data = target.read_bytes()
    assert is_bytecode(data)
    assert (data[8], data[9]) == tuple(map(int, version.split(".")))
    assert command("dis", target).text == TEXT


def test_change_of_version(command: Command, binary: Path, tmp_path: Path) -> None:
    older = tmp_path / "older"
    ran = command("as", binary, "-o", older, "--bytecode-version", "13.1")
    assert ran.status == Exit.OK
    assert older.read_bytes()[8:10] == bytes([13, 1])
    assert command("dis", older).text == TEXT


def test_what_a_version_does_not_have(command: Command, tmp_path: Path) -> None:
    text = TEXT.replace("addi %arg0, %arg0", "negi %arg0 overflow<no_wrap>")
    target = tmp_path / "out"
    target.write_bytes(b"old")
    arguments = ("as", "-", "-o", target, "--bytecode-version", "13.1")
    ran = command(*arguments, stdin=text.encode())
    assert ran.status == Exit.FINDINGS
    assert "needs-version" in ran.err
    assert target.read_bytes() == b"old"


def test_invalid_text_writes_nothing(command: Command, tmp_path: Path) -> None:
    target = tmp_path / "out"
    ran = command("as", "-", "-o", target, stdin=UNVERIFIED.encode())
    assert ran.status == Exit.FINDINGS
    assert not target.exists()


def test_producer(command: Command, kernel: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert command("as", kernel, "-o", target, "--producer", "by hand").status == Exit.OK
    assert read(target.read_bytes()).producer_name == "by hand"
    assert command("dis", target).text == f"// Producer: by hand\n{TEXT}"


def test_bytecode_on_stdout(command: Command, kernel: Path) -> None:
    ran = command("as", kernel)
    assert ran.status == Exit.OK
    assert is_bytecode(ran.out)
    assert command("as", kernel, "-o", "-").out == ran.out


def test_no_bytecode_on_a_terminal(
    command: Command, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.cli.outputs.is_terminal", lambda stream: True)
    for arguments in (
        ["as", kernel],
        ["as", kernel, "-o", "-"],
        ["opt", kernel, "--emit=bytecode"],
    ):
        ran = command(*arguments)
        assert (ran.status, ran.out) == (Exit.USAGE, b"")
        assert "refusing to write bytecode to a terminal" in ran.err


def test_unknown_version(command: Command, kernel: Path) -> None:
    assert command("as", kernel, "--bytecode-version", "12.9").status == Exit.USAGE


def test_as_a_pipe_of_processes(process: Command, kernel: Path) -> None:
    assembled = process("as", "-", stdin=kernel.read_bytes())
    assert (assembled.status, assembled.err) == (Exit.OK, "")
    printed = process("dis", "-", stdin=assembled.out)
    assert (printed.status, printed.text, printed.err) == (Exit.OK, TEXT, "")


def test_dis_does_not_load_numpy(binary: Path) -> None:
    program = (
        "import sys\n"
        "from tilewright.cli.main import main\n"
        "status = main(sys.argv[1:])\n"
        "sys.exit(status or 'numpy' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "dis", str(binary)], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout.decode()) == (Exit.OK, TEXT)


def test_generic_form_of_nvidias_tools(command: Command, tmp_path: Path) -> None:
    source = tmp_path / "k.tileir"
    source.write_text(
        "entry @k(%p: tile<ptr<i32>>) {\n"
        "  %c = constant <i32: 1> : tile<i32>\n"
        "  %t = store_ptr_tko release sys %p, %c : tile<ptr<i32>>, tile<i32> -> token\n}\n"
    )
    text = command("dis", "--nvidia-generic", source).text
    assert "memory_ordering_semantics = 3 : i32, memory_scope = 2 : i32" in text
    assert "dense<1> : !cuda_tile.tile<i32>" in text
    assert "memory_scope = 2 : i32" in command("opt", "--nvidia-generic", source).text
    again = tmp_path / "g.tileir"
    again.write_text(text)
    assert command("dis", again).text == command("dis", source).text
