"""NVIDIA's command line tools as oracles: found in the installed wheels, called with a time limit.

The tools are optional. `find_tool` looks where the wheels put them (`nvidia/cu13/bin` in any
`site-packages` on the path) and nowhere else, so that a test never judges against a tool of
another version that happens to be on `PATH`. Tests state what they need by a mark:

    @requires_tileirdisasm
    def test_it_reads_what_we_write(): ...
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

DEFAULT_TIMEOUT_S = 60.0

_TOOL_DIRECTORY = Path("cu13", "bin")
_WHEELS = {
    "tileirdisasm": "nvidia-cuda-tileiras",
    "tileiras": "nvidia-cuda-tileiras",
    "ptxas": "nvidia-cuda-nvcc",
}


class OracleRejected(Exception):
    """The tool ran, and refused its input.

    `message` is what it wrote on standard error, without the path of our temporary file.
    A tool that dies of a signal also counts: the message then starts with `killed by signal`.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class OracleTimeout(Exception):
    """The tool gave no answer within its time limit; that says nothing about the input."""


@cache
def find_tool(name: str) -> Path | None:
    """The executable `name` of the installed wheels, or None where the wheel is not installed."""
    assert name in _WHEELS, f"no wheel is known to hold {name!r}"
    spec = importlib.util.find_spec("nvidia")
    if spec is None or spec.submodule_search_locations is None:
        return None
    for root in spec.submodule_search_locations:
        candidate = Path(root, _TOOL_DIRECTORY, name)
        if os.access(candidate, os.X_OK):
            return candidate
    return None


def missing_reason(name: str) -> str:
    """Why a test that needs the tool `name` is skipped."""
    return f"{name} is not installed (pip install {_WHEELS[name]})"


def _requires(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_tool(name) is None, reason=missing_reason(name))


requires_tileirdisasm = _requires("tileirdisasm")
requires_tileiras = _requires("tileiras")
requires_ptxas = _requires("ptxas")


def disassemble(
    bytecode: bytes, *, locations: bool = False, timeout_s: float = DEFAULT_TIMEOUT_S
) -> str:
    """The text that `tileirdisasm` prints for `bytecode`; with `locations`, debug info too.

    Raises `OracleRejected` where the tool refuses the bytes, `OracleTimeout` where it hangs.
    """
    flags = ["--print-debug-info"] if locations else []
    with tempfile.TemporaryDirectory(prefix="tileirdisasm-") as directory:
        source = Path(directory, "input.tileirbc")
        source.write_bytes(bytecode)
        return _run("tileirdisasm", [*flags, str(source)], directory, timeout_s)


def assemble(
    bytecode: bytes,
    gpu_name: str,
    *,
    opt_level: int = 3,
    flags: tuple[str, ...] = (),
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> bytes:
    """The cubin that `tileiras` makes of `bytecode` for `gpu_name`, such as `sm_90`.

    Raises `OracleRejected` where the tool refuses the bytes, `OracleTimeout` where it hangs.
    """
    with tempfile.TemporaryDirectory(prefix="tileiras-") as directory:
        source = Path(directory, "input.tileirbc")
        target = Path(directory, "output.cubin")
        source.write_bytes(bytecode)
        options = [f"--gpu-name={gpu_name}", f"--opt-level={opt_level}", *flags]
        _run("tileiras", [str(source), "-o", str(target), *options], directory, timeout_s)
        return target.read_bytes()


def assemble_ptx(
    ptx: str,
    gpu_name: str,
    *,
    flags: tuple[str, ...] = (),
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> bytes:
    """The cubin that `ptxas` makes of the PTX text for `gpu_name`.

    Raises `OracleRejected` where the tool refuses the text, `OracleTimeout` where it hangs.
    """
    with tempfile.TemporaryDirectory(prefix="ptxas-") as directory:
        source = Path(directory, "input.ptx")
        target = Path(directory, "output.cubin")
        source.write_text(ptx, encoding="utf-8")
        options = [f"--gpu-name={gpu_name}", *flags]
        _run("ptxas", [str(source), "-o", str(target), *options], directory, timeout_s)
        return target.read_bytes()


def _run(name: str, arguments: list[str], directory: str, timeout_s: float) -> str:
    tool = find_tool(name)
    if tool is None:
        raise FileNotFoundError(missing_reason(name))
    try:
        done = subprocess.run(
            [str(tool), *arguments],
            capture_output=True,
            cwd=directory,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise OracleTimeout(f"{name} gave no answer within {timeout_s:g} s") from error
    if done.returncode != 0:
        message = done.stderr.decode(errors="replace").replace(directory + os.sep, "").strip()
        if done.returncode < 0:
            message = f"killed by signal {-done.returncode}\n{message}"
        raise OracleRejected(message)
    return done.stdout.decode(errors="replace")
