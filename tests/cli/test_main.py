"""The command as a whole: usage, exit statuses, streams, and what happens when things go wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tilewright import __version__
from tilewright.cli import check, session
from tilewright.cli.crash import write_reproducer
from tilewright.cli.exits import EXIT_STATUS_HELP, Exit
from tilewright.cli.main import COMMANDS

from .conftest import Command


def test_version(command: Command) -> None:
    ran = command("--version")
    assert (ran.status, ran.text) == (Exit.OK, f"tilewright {__version__}\n")


def test_too_little_memory_is_no_bug(command: Command, monkeypatch, tmp_path: Path) -> None:
    def execute(*_: object) -> int:
        raise MemoryError

    monkeypatch.setattr(check, "execute", execute)
    ran = command("check", "-", stdin=b"")
    assert ran.status == Exit.FINDINGS
    assert "error[out-of-memory]" in ran.err
    assert not list(tmp_path.iterdir())


def test_help_lists_commands_and_exit_statuses(command: Command) -> None:
    ran = command("--help")
    assert ran.status == Exit.OK
    for name in COMMANDS:
        assert f"\n    {name}" in ran.text
    assert EXIT_STATUS_HELP in ran.text
    for status in Exit:
        assert f"  {status.value:<4} " in EXIT_STATUS_HELP


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(command: Command, name: str) -> None:
    ran = command(name, "--help")
    assert ran.status == Exit.OK
    assert ran.text.startswith(f"usage: tilewright {name} ")


@pytest.mark.parametrize(
    "arguments",
    [[], ["nonsense"], ["check"], ["check", "--no-such-option", "x"], ["dis", "--bogus"]],
    ids=" ".join,
)
def test_bad_usage(command: Command, arguments: list[str]) -> None:
    ran = command(*arguments)
    assert ran.status == Exit.USAGE
    assert ran.out == b""
    assert "usage: tilewright" in ran.err


def test_options_are_not_abbreviated(command: Command) -> None:
    assert command("explain", "--lis").status == Exit.USAGE


@pytest.mark.parametrize("name", ["check", "dis", "as", "opt", "run"])
def test_missing_file(command: Command, name: str, tmp_path: Path) -> None:
    missing = tmp_path / "missing.tileir"
    target = ["-o", str(tmp_path / "out")] if name == "as" else []
    ran = command(name, missing, *target)
    assert ran.status == Exit.USAGE
    assert "error[unreadable-input]: cannot read" in ran.err
    assert str(missing) in ran.err
    assert not (tmp_path / "out").exists()


def test_directory_is_no_input(command: Command, tmp_path: Path) -> None:
    ran = command("check", tmp_path)
    assert ran.status == Exit.USAGE
    assert "unreadable-input" in ran.err


@pytest.mark.parametrize("name", ["check", "dis", "run"])
def test_endless_input(command: Command, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(session, "MAX_INPUT_BYTES", 1 << 20)
    ran = command(name, "-", stdin=b"/" * (1 << 21))
    assert (ran.status, ran.out) == (Exit.USAGE, b"")
    assert "cannot read standard input: it is larger than 1 MiB" in ran.err
    assert command("check", "-", stdin=b"/" * (1 << 20)).status == Exit.OK


def test_name_that_no_file_can_have(command: Command) -> None:
    ran = command("check", "a\0b")
    assert ran.status == Exit.USAGE
    assert "unreadable-input" in ran.err


def test_internal_error_leaves_a_reproducer(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug for the test")

    monkeypatch.setattr(check, "parse_source", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kernel = tmp_path / "kernel.tileir"
    kernel.write_bytes(b"entry @k() { return }\n")
    ran = command("check", kernel)
    assert ran.status == Exit.INTERNAL
    assert "internal error, this is a bug in tilewright: ZeroDivisionError: a bug" in ran.err
    assert "(cli/check.py:" in ran.err
    assert "Traceback" not in ran.err
    (report,) = tmp_path.glob("tilewright-bug-*.zip")
    assert str(report) in ran.err
    with zipfile.ZipFile(report) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    assert b"tilewright check" in contents["command.txt"]
    assert b"ZeroDivisionError: a bug for the test" in contents["traceback.txt"]
    assert f"tilewright {__version__}".encode() in contents["versions.txt"]
    (copy,) = (data for name, data in contents.items() if name.startswith("inputs/"))
    assert copy == kernel.read_bytes()


def test_a_reproducer_of_words_that_are_not_utf_8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    asked = session.Session(["check", "\udc80.tileir"])
    path = write_reproducer(asked, ValueError("'\udc80'"))
    with zipfile.ZipFile(path) as archive:
        assert b"\\udc80.tileir" in archive.read("command.txt")
        assert b"\\udc80" in archive.read("traceback.txt")


def test_interruption(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(check, "_problems", interrupt)
    ran = command("check", "-")
    assert (ran.status, ran.err) == (Exit.INTERRUPTED, "tilewright: interrupted\n")


ENDLESS = """entry @k() {
  loop {
    print_tko "turn\\n" -> token
  }
}
"""


@pytest.mark.parametrize(
    ("machine", "who"),
    [
        (("run",), "tile block (0, 0, 0)"),
        (("run", "--machine", "cpu"), "tile block (0, 0, 0)"),
        (("run", "--machine", "sim:sm_90a"), "warp 0"),
    ],
)
def test_interruption_names_the_loop(
    machine: tuple[str, ...],
    who: str,
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    kernel = tmp_path / "endless.tileir"
    kernel.write_text(ENDLESS)
    monkeypatch.setattr(session.Session, "write_stdout", interrupt)
    ran = command(*machine, kernel)
    where = f"{who} was in the loop at {kernel}:2"
    assert (ran.status, ran.err) == (Exit.INTERRUPTED, f"tilewright: interrupted; {where}\n")


@pytest.mark.skipif(os.name == "nt", reason="Windows cannot send an interrupt to one process")
def test_interruption_of_a_process() -> None:
    program = (
        "import sys, time\n"
        "from tilewright.cli.main import main\n"
        "class Slow:\n"
        "    def read(self, size):\n"
        "        print('reading', flush=True)\n"
        "        time.sleep(60)\n"
        "class Stdin:\n"
        "    buffer = Slow()\n"
        "sys.stdin = Stdin()\n"
        "sys.exit(main(['check', '-']))\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"reading\n"
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert child.returncode == Exit.INTERRUPTED
    assert err == b"tilewright: interrupted\n"


def test_reader_of_the_output_goes_away() -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "tilewright", "explain", "addi"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None
    child.stdout.close()
    assert child.stderr is not None
    err = child.stderr.read()
    assert child.wait(timeout=30) == Exit.OUTPUT_CLOSED
    assert err == b""
    child.stderr.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_output_device_is_full() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tilewright", "explain", "addi"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == Exit.USAGE
    assert b"error[unwritable-output]: cannot write standard output" in done.stderr
    assert b"Traceback" not in done.stderr


def test_help_loads_neither_xdsl_nor_numpy() -> None:
    program = (
        "import sys\n"
        "from tilewright.cli.main import main\n"
        "main(['--help'])\n"
        "print(sorted({'xdsl', 'numpy', 'rich', 'ml_dtypes'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    assert done.stdout.endswith("\n[]\n")


@pytest.mark.parametrize(
    ("choice", "no_color", "colored"),
    [("always", "", True), ("always", "1", True), ("never", "", False), ("auto", "", False)],
)
def test_color(
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    choice: str,
    no_color: str,
    colored: bool,
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    ran = command("check", "--color", choice, "no-such-file")
    assert ("\x1b[" in ran.err) == colored


@pytest.mark.parametrize(("no_color", "colored"), [("", True), ("1", False)])
def test_color_on_a_terminal(
    command: Command, monkeypatch: pytest.MonkeyPatch, no_color: str, colored: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr("tilewright.cli.session.is_terminal", lambda stream: True)
    ran = command("check", "no-such-file")
    assert ("\x1b[" in ran.err) == colored
