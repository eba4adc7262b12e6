"""Command line tools of others as oracles: found where they are installed, called with a limit.

The tools are optional. NVIDIA's are looked for where their wheels put them (`nvidia/cu13/bin` in
any `site-packages` on the path) and nowhere else, so that a test never judges against a tool of
another version that happens to be on `PATH`. `mlir-opt-19` has its version in its name, so that
`PATH` will do; `iree-opt` comes from the wheel `iree-base-compiler`, of one version. Tests state
what they need by a mark:

    @requires_tileirdisasm
    def test_it_reads_what_we_write(): ...
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
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

IREE_VERSION = "3.0.0"
_UPSTREAM = {
    "mlir-opt-19": "apt-get install mlir-19-tools, in Debian 12",
    "iree-opt": f"pip install iree-base-compiler=={IREE_VERSION}",
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
    if name in _UPSTREAM:
        return _find_upstream(name)
    assert name in _WHEELS, f"no wheel is known to hold {name!r}"
    spec = importlib.util.find_spec("nvidia")
    if spec is None or spec.submodule_search_locations is None:
        return None
    for root in spec.submodule_search_locations:
        candidate = Path(root, _TOOL_DIRECTORY, name)
        if os.access(candidate, os.X_OK):
            return candidate
    return None


def _find_upstream(name: str) -> Path | None:
    """`mlir-opt-19` on `PATH`; `iree-opt` of the one version that tests know."""
    if name == "mlir-opt-19":
        found = shutil.which(name)
        return Path(found) if found else None
    spec = importlib.util.find_spec("iree")
    if spec is None or importlib.metadata.version("iree-base-compiler") != IREE_VERSION:
        return None
    for root in spec.submodule_search_locations or ():
        candidate = Path(root, "compiler", "_mlir_libs", name)
        if os.access(candidate, os.X_OK):
            return candidate
    return None


def missing_reason(name: str) -> str:
    """Why a test that needs the tool `name` is skipped."""
    if name in _UPSTREAM:
        return f"{name} is not installed ({_UPSTREAM[name]})"
    return f"{name} is not installed (pip install {_WHEELS[name]})"


def _requires(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_tool(name) is None, reason=missing_reason(name))


requires_tileirdisasm = _requires("tileirdisasm")
requires_tileiras = _requires("tileiras")
requires_ptxas = _requires("ptxas")
requires_mlir_opt = _requires("mlir-opt-19")
requires_iree_opt = _requires("iree-opt")


def disassemble(
    bytecode: bytes, *, locations: bool = False, timeout_s: float = DEFAULT_TIMEOUT_S
) -> str:
    """The text that `tileirdisasm` prints for `bytecode`; with `locations`, debug info too.

    Raises `OracleRejected` where the tool refuses the bytes, `OracleTimeout` where it hangs.
    """
    flags = ["--print-debug-info"] if locations else []
    # It only reads its input, and is called so often that a folder for each call would cost as much as the call.
    with tempfile.NamedTemporaryFile(prefix="tileirdisasm-", suffix=".tileirbc") as source:
        source.write(bytecode)
        source.flush()
        return _run("tileirdisasm", [*flags, source.name], tempfile.gettempdir(), timeout_s)


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


_SPLIT = "// -----"
_LOCATED = re.compile(r"^(?:within split at )?<stdin>:(\d+)(?: offset )?:.*?error: (.*)", re.M)


def upstream_errors(
    tool: str, programs: Sequence[str], *, timeout_s: float = DEFAULT_TIMEOUT_S
) -> list[list[str]]:
    """What `mlir-opt-19` or `iree-opt` finds wrong with each program: its errors, in one run."""
    text, first_lines = "", list[int]()
    for program in programs:
        # The tools count from the line of the separator, save for the first program.
        first_lines.append(max(1, text.count("\n")))
        text += f"{program.rstrip()}\n{_SPLIT}\n"
    done = _run_upstream(tool, ["--split-input-file", "-o", os.devnull], text, timeout_s)
    errors: list[list[str]] = [[] for _ in programs]
    places = {line: index for index, line in enumerate(first_lines)}
    for line, message in _LOCATED.findall(done.stderr):
        errors[places[int(line)]].append(message)
    if done.returncode < 0 or bool(done.returncode) != any(errors):
        raise OracleRejected(f"exit {done.returncode}\n{done.stderr[:2000]}")
    return errors


def upstream_texts(
    tool: str,
    programs: Sequence[str],
    *,
    flags: Sequence[str] = (),
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> list[str]:
    """How `mlir-opt-19` or `iree-opt` prints each program, in one run.

    Raises `OracleRejected` where it refuses one of them.
    """
    text = f"\n{_SPLIT}\n".join(program.rstrip() for program in programs) + "\n"
    done = _run_upstream(tool, ["--split-input-file", *flags], text, timeout_s)
    if done.returncode:
        raise OracleRejected(done.stderr[:2000].strip())
    return [part.strip() for part in done.stdout.split(_SPLIT)]


def _run_upstream(
    tool: str, flags: Sequence[str], text: str, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    path = find_tool(tool)
    if path is None:
        raise FileNotFoundError(missing_reason(tool))
    try:
        return subprocess.run(
            [str(path), *flags],
            input=text,
            capture_output=True,
            encoding="utf-8",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise OracleTimeout(f"{tool} gave no answer within {timeout_s:g} s") from error
