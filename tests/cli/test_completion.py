"""Completion scripts, and what bash makes of ours."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright.cli.completion import commands
from tilewright.cli.exits import Exit
from tilewright.cli.main import COMMANDS

from .conftest import Command

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
needs_zsh = pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
needs_fish = pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")

Script = Callable[[str], Path]


@pytest.fixture
def script(command: Command, tmp_path: Path) -> Script:
    """``script(shell)`` writes the completion script of a shell to a file."""

    def write(shell: str) -> Path:
        ran = command("completion", shell)
        assert (ran.status, ran.err) == (Exit.OK, "")
        path = tmp_path / f"completion.{shell}"
        path.write_bytes(ran.out)
        return path

    return write


def complete(script: Path, *words: str) -> set[str]:
    """What bash offers for the last of ``words``."""
    program = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tilewright; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", program, "bash", str(script), "tilewright", *words],
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stderr == ""
    return set(done.stdout.split())


@needs_bash
def test_bash_syntax(script: Script) -> None:
    subprocess.run(["bash", "-n", str(script("bash"))], check=True)


@needs_bash
def test_bash_completes(script: Script) -> None:
    path = script("bash")
    assert complete(path, "") == set(COMMANDS)
    assert complete(path, "c") == {"cache", "check", "compile", "completion"}
    assert complete(path, "--v") == {"--version"}
    assert complete(path, "check", "--f") == {"--format"}
    assert complete(path, "check", "--format", "") == {"text", "json", "sarif"}
    assert complete(path, "check", "a.tileir", "--warn") == {"--warn-hints"}
    assert complete(path, "completion", "") == {"bash", "zsh", "fish"}
    assert complete(path, "as", "--bytecode-version", "13.") == {f"13.{n}" for n in range(1, 6)}
    assert complete(path, "opt", "-O") == {"-O0", "-O1", "-O2", "-O3"}
    assert "canonicalize" in complete(path, "opt", "--stop-after", "")
    assert complete(path, "explain", "load_view") == {"load_view_tko"}
    assert "type-relation" in complete(path, "explain", "type-")
    # Nothing is offered here, so that bash falls back to file names.
    assert complete(path, "check", "some") == set()
    assert complete(path, "dis", "-o", "") == set()


@needs_zsh
def test_zsh_syntax(script: Script) -> None:
    subprocess.run(["zsh", "-n", str(script("zsh"))], check=True)


@needs_fish
def test_fish_syntax(script: Script) -> None:
    subprocess.run(["fish", "-n", str(script("fish"))], check=True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_option_is_there(script: Script, shell: str) -> None:
    text = script(shell).read_text()
    for found in commands():
        assert found.name in text
        for option in found.options:
            for name in option.names:
                stem = name.lstrip("-") if shell == "fish" else name
                assert stem in text, (found.name, name)


def test_options_that_take_values_are_known() -> None:
    by_name = {found.name: found for found in commands()}
    options = {name: option for option in by_name["opt"].options for name in option.names}
    assert options["-o"].takes_file
    assert options["--print-after"].takes_value
    assert not options["-O3"].takes_value
    assert not options["--timing"].takes_value
    assert by_name["check"].takes_files
    assert by_name["explain"].takes_files
    assert not by_name["completion"].takes_files


def test_unknown_shell(command: Command) -> None:
    assert command("completion", "tcsh").status == Exit.USAGE
