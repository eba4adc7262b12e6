"""How long compiling takes, stage by stage, beside NVIDIA's tileiras on the same bytecode."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tilewright
from benchmarks import long_code
from benchmarks.report import Table
from benchmarks.timing import interleaved_reports
from tilewright.cpu.compile import compile_kernel
from tilewright.cpu.runtime.engine import Timings, compile_ir, load_object
from tilewright.cpu.runtime.interrupts import attention_symbols
from tilewright.lowering import lower_to_tileaa

_GPU = "sm_100"


def _compile(module: Any, timings: Timings) -> None:
    """All of it, past every cache."""
    with timings.stage("lower to nv_tileaa"):
        lowered = lower_to_tileaa(module).module
    with timings.stage("generate LLVM IR"):
        compiled = compile_kernel(lowered)
    code = compile_ir(compiled.llvm_ir, compiled.target, timings=timings)
    with timings.stage("link"):
        load_object(code, compiled.target, [compiled.symbol], attention_symbols())


def _ours(module: Any) -> Callable[[], float]:
    def measure() -> float:
        timings = Timings()
        _compile(module, timings)
        return timings.total

    return measure


def _tileiras(module: Any, directory: Path, tool: str) -> Callable[[], float]:
    source = directory / f"{id(module)}.tileirbc"
    source.write_bytes(tilewright.write(module))
    command = [tool, f"--gpu-name={_GPU}", str(source), "-o", str(source.with_suffix(".cubin"))]

    def measure() -> float:
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        return time.perf_counter() - started

    return measure


def _tool() -> str | None:
    spec = find_spec("nvidia")
    for place in (spec.submodule_search_locations or []) if spec else []:
        path = Path(place) / "cu13" / "bin" / "tileiras"
        if path.exists():
            return str(path)
    return shutil.which("tileiras")


def tables_of(modules: Mapping[str, Any], runs: int) -> Table:
    """A row for each module: the whole, its stages, and the peer."""
    tool = _tool()
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as directory:
        for title, module in modules.items():
            jobs = {"ours": _ours(module)}
            if tool is not None:
                jobs["tileiras"] = _tileiras(module, Path(directory), tool)
            samples = interleaved_reports(jobs, runs)
            timings = Timings()
            _compile(module, timings)
            stages = ", ".join(f"{n} {s * 1e3:.0f}" for n, s in timings.seconds.items())
            peer = f"{samples['tileiras'].median * 1e3:.0f} ms" if tool else "not installed"
            rows.append((title, f"{samples['ours'].median * 1e3:.0f} ms", stages, peer))
    head = ("kernel", "Tilewright", "stages in ms, of one run", "tileiras")
    return Table("compiling", "compiling with nothing cached", head, rows)


def growth(counts: tuple[int, ...] = (100, 1000, 10_000)) -> Table:
    """Processor time of one compilation of code of several lengths, from the text on. Time that is linear
    in the code grows tenfold from column to column, less what every kernel costs."""
    rows: list[tuple[str, ...]] = []
    for name, rule in long_code.RULES.items():
        found: list[float] = []
        for count in counts:
            source = rule(count)
            started = time.process_time()
            module = tilewright.parse(source)
            tilewright.verify(module)
            _compile(module, Timings())
            found.append(time.process_time() - started)
        growths = ", ".join(f"{b / a:.1f}" for a, b in itertools.pairwise(found))
        rows.append((name, *(f"{seconds:.2f} s" for seconds in found), growths))
    head = ("code", *(f"{count:,} operations" for count in counts), "growth")
    return Table("growth", "compiling long code, with nothing cached", head, rows)


if __name__ == "__main__":
    print(growth().markdown())
