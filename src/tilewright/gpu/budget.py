"""A time limit for LLVM: compilations that may take long run in a process of their own, which can be ended."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, dataclass

from tilewright.diagnostics import SourceLocation, TileIRError
from tilewright.gpu import llvm
from tilewright.gpu.architectures import architecture
from tilewright.gpu.codes import BUDGET, LLVM_FAILED

#: The default CPU time limit of LLVM for a kernel, in seconds.
DEFAULT_SECONDS = 60.0
#: The vector length, and the number of lines, from which LLVM may need more than a second.
_WIDE, _LONG = 256, 30_000
#: The wall time limit per CPU second, for busy machines.
_PATIENCE = 4
#: Exit codes of a process that exceeds its CPU time, by SIGXCPU or SIGKILL.
_OUT_OF_TIME = (-24, -9, 152, 137)


@dataclass(frozen=True, slots=True)
class Work:
    """LLVM IR to compile to PTX for an architecture. ``isa`` is the PTX version times ten."""

    text: str
    arch: str
    isa: int
    uses_libdevice: bool
    optimize: bool

    def run(self) -> tuple[str, str]:
        """Compile; returns the PTX, and the LLVM IR it was generated from.

        Raises ``TileIRError`` (``gpu-llvm-failed``) if LLVM does not accept the text.
        """
        arch = architecture(self.arch)
        module = llvm.parse_ir(self.text, arch, self.isa, libdevice=self.uses_libdevice)
        text = str(module)
        if self.optimize:
            llvm.optimize(module, arch, self.isa)
            text = str(module)
        return llvm.emit_ptx(module, arch, self.isa), text

    @property
    def widest(self) -> int:
        """The length of the longest vector: the elements per thread of the largest tile."""
        return max((int(n) for n in set(re.findall(r"<(\d+) x ", self.text))), default=1)

    @property
    def may_be_long(self) -> bool:
        """Whether compilation may take so long that it needs a time limit."""
        return self.widest >= _WIDE or self.text.count("\n") >= _LONG


def run_within(
    work: Work, seconds: float, location: SourceLocation | None = None
) -> tuple[str, str]:
    """The result of ``work``.

    Raises ``TileIRError`` (``gpu-compile-budget``) if it takes more than ``seconds`` of CPU time; 0 is no limit.
    """
    if not seconds or not work.may_be_long:
        return work.run()
    command = [sys.executable, "-c", "from tilewright.gpu.budget import main; main()"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            command,
            input=json.dumps({"seconds": seconds, **asdict(work)}),
            env=environment,
            capture_output=True,
            text=True,
            timeout=_PATIENCE * seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise exceeded("LLVM", work, seconds, location) from None
    if done.returncode in _OUT_OF_TIME:
        raise exceeded("LLVM", work, seconds, location)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        raise TileIRError.single(
            LLVM_FAILED, f"LLVM failed on the generated code: {last}", location
        )
    answer = json.loads(done.stdout)
    return answer["ptx"], answer["llvm_ir"]


def exceeded(
    what: str, work: Work | None, seconds: float, location: SourceLocation | None
) -> TileIRError:
    """The error (``gpu-compile-budget``) for a kernel that exceeds its time limit of ``seconds``, to be raised."""
    held = "" if work is None else f"; a thread holds {work.widest} elements of its largest tile"
    return TileIRError.single(
        BUDGET,
        f"{what} did not finish this kernel within {seconds:g} seconds{held}",
        location,
        help="use smaller tiles, or more warps (num_worker_warps_per_cta); "
        "CompileOptions(seconds=...) raises the limit, 0 removes it",
    )


def main() -> None:
    """Do the work described on standard input, within its CPU time limit."""
    given = json.loads(sys.stdin.read())
    seconds = given.pop("seconds")
    try:
        import resource
    except ImportError:
        pass
    else:
        limit = max(int(seconds), 1)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
    ptx, text = Work(**given).run()
    json.dump({"ptx": ptx, "llvm_ir": text}, sys.stdout)
