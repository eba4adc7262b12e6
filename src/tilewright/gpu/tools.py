"""NVIDIA's tools, where their packages are installed: ptxas, nvdisasm, libdevice.

None of them is needed for PTX, except libdevice for functions of `math`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from tilewright.diagnostics import TileIRError
from tilewright.gpu.codes import ASSEMBLER_FAILED, BUDGET, MISSING_TOOL

#: The packages with the tools, by the end of their path in a toolkit.
_PACKAGES = {
    "bin/ptxas": "nvidia-cuda-nvcc",
    "bin/nvdisasm": "nvidia-cuda-nvdisasm",
    "nvvm/libdevice/libdevice.10.bc": "nvidia-nvvm",
}
_LOC = re.compile(r"^\s*\.loc\s", re.MULTILINE)
#: The time limit of a tool, in seconds.
_TIMEOUT = 300
#: The number of kernels whose results are cached: pages, profiles and searches need the same ones.
_REMEMBERED = 16


def _folders() -> list[Path]:
    """Folders where a toolkit may be: that of the packages first, last what Triton brings of one."""
    folders: list[Path] = []
    for place in _places("nvidia"):
        folders += sorted(path for path in place.glob("cu*") if path.is_dir())
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    folders += [*([Path(home)] if home else []), Path("/usr/local/cuda")]
    return folders + [place / "backends" / "nvidia" for place in _places("triton")]


def _places(package: str) -> list[Path]:
    """The folders of a package, which is not imported."""
    found = importlib.util.find_spec(package)
    return [Path(place) for place in (found.submodule_search_locations or ())] if found else []


def find(end: str) -> Path | None:
    """The file of NVIDIA's packages, an installed toolkit, or Triton's part of one whose path ends so; None if there
    is none.
    """
    names = (end, f"{end}.exe") if end.startswith("bin/") else (end, f"lib/{Path(end).name}")
    return next((p for folder in _folders() for n in names if (p := folder / n).is_file()), None)


def need(end: str, what: str) -> Path:
    """The same. Raises ``TileIRError`` (``gpu-missing-tool``) that says what needs the file and how to install it."""
    found = find(end)
    if found is None:
        raise TileIRError.single(
            MISSING_TOOL,
            f"{what} needs {Path(end).name}, which is not installed",
            help=f"pip install {_PACKAGES[end]}",
        )
    return found


def libdevice() -> Path:
    """The path of NVIDIA's library of functions as LLVM bitcode.

    Raises ``TileIRError`` (``gpu-missing-tool``) if it is missing.
    """
    end = "nvvm/libdevice/libdevice.10.bc"
    found = find(end)
    if found is None:
        raise TileIRError.single(
            MISSING_TOOL,
            "math functions need libdevice, which is not installed",
            help=f"pip install {_PACKAGES[end]}, or compile with approximate math",
        )
    return found


@cache
def ptxas_version() -> int | None:
    """The version of ptxas in the driver's numbering, 13050 for 13.5; None if it is not installed."""
    ptxas = find("bin/ptxas")
    if ptxas is None:
        return None
    done = subprocess.run(
        [ptxas, "--version"], capture_output=True, text=True, timeout=_TIMEOUT, check=False
    )
    found = re.search(r"release (\d+)\.(\d+)", done.stdout)
    return 1000 * int(found[1]) + 10 * int(found[2]) if found else None


@dataclass(frozen=True, slots=True)
class Assembled:
    """Machine code, and the resource usage that the assembler reports.

    ``shared_bytes`` is static shared memory per block, ``spill_bytes`` is spill memory per thread.
    """

    cubin: bytes
    registers: int
    shared_bytes: int
    spill_bytes: int
    messages: str


def assemble(ptx: str, arch: str) -> Assembled:
    """Assemble PTX, with line information if it has any; cached.

    Raises ``TileIRError`` if ptxas is missing (``gpu-missing-tool``), rejects it (``gpu-assembler-failed``) or takes
    too long (``gpu-compile-budget``).
    """
    return _assembled(need("bin/ptxas", "machine code"), ptx, arch)


@lru_cache(maxsize=_REMEMBERED)
def _assembled(ptxas: Path, ptx: str, arch: str) -> Assembled:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx, encoding="utf-8")
        kernels = ".entry" in ptx
        command = [ptxas, f"-arch={arch}", "-v", *(() if kernels else ("-c",))]
        command += ["-lineinfo"] if _LOC.search(ptx) else []
        try:
            done = subprocess.run(
                [*command, str(source), "-o", str(target)],
                capture_output=True,
                text=True,
                timeout=_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TileIRError.single(
                BUDGET,
                f"ptxas did not finish this kernel within {_TIMEOUT} seconds",
                help="use smaller tiles, or more warps (num_worker_warps_per_cta)",
            ) from None
        if done.returncode:
            raise TileIRError.single(
                ASSEMBLER_FAILED, f"ptxas rejected the PTX for {arch}: {done.stderr.strip()}"
            )
        return Assembled(
            target.read_bytes(),
            _number(r"Used (\d+) registers", done.stderr),
            _number(r"(\d+) bytes smem", done.stderr),
            _number(r"(\d+) bytes spill stores", done.stderr),
            done.stderr,
        )


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def disassemble(cubin: bytes, *, lines: bool = False) -> str:
    """Disassemble machine code, with line comments if ``lines``; cached.

    Raises ``TileIRError`` if nvdisasm is missing (``gpu-missing-tool``) or fails (``gpu-assembler-failed``).
    """
    # Branches of these architectures need no analysis to show where they lead; it takes a third of the time.
    return _nvdisasm(cubin, "-ndf", *(("-g",) if lines else ()))


def disassemble_to_json(cubin: bytes) -> str:
    """Disassemble machine code to nvdisasm's JSON, with lines if there are any. Raises ``TileIRError`` as
    ``disassemble``.
    """
    return _nvdisasm(cubin, "-json", "-g")


def _nvdisasm(cubin: bytes, *options: str) -> str:
    return _disassembled(need("bin/nvdisasm", "the text of machine code"), cubin, options)


@lru_cache(maxsize=_REMEMBERED)
def _disassembled(nvdisasm: Path, cubin: bytes, options: tuple[str, ...]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        done = subprocess.run(
            [nvdisasm, "-c", *options, str(path)],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    if done.returncode:
        raise TileIRError.single(ASSEMBLER_FAILED, f"nvdisasm failed: {done.stderr.strip()}")
    return done.stdout
