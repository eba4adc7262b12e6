"""Reading, printing, writing and checking, beside NVIDIA's disassembler and stock xDSL."""

from __future__ import annotations

import shutil
import sys
import tempfile
import tracemalloc
from pathlib import Path

from tests.oracles import find_tool

import tilewright
from benchmarks.inputs import kernel, op_count, texts
from benchmarks.report import Table
from benchmarks.timing import interleaved, process


def start_up(runs: int) -> Table:
    """Whole processes that import the package."""
    samples = interleaved(
        {
            "python, nothing": process([sys.executable, "-c", "pass"]),
            "import tilewright": process([sys.executable, "-c", "import tilewright"]),
            "import xdsl.dialects.builtin": process(
                [sys.executable, "-c", "import xdsl.dialects.builtin"]
            ),
        },
        runs,
    )
    return Table.of("start-up", "whole process", samples, "import tilewright")


def disassembly(runs: int) -> Table:
    """Whole processes that print a kernel of about 60 operations."""
    module = kernel(5)
    custom, _, binary = texts(5)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.tileirbc"
        source.write_bytes(binary)
        text = Path(folder) / "kernel.mlir"
        text.write_text(custom, encoding="utf-8")
        jobs = {"tilewright dis": process([sys.executable, "-m", "tilewright", "dis", str(source)])}
        if (tool := find_tool("tileirdisasm")) is not None:
            jobs["tileirdisasm"] = process([str(tool), str(source)])
        stock = shutil.which("xdsl-opt", path=str(Path(sys.executable).parent))
        if stock is not None:
            jobs["xdsl-opt, text to text"] = process([stock, str(text)])
        samples = interleaved(jobs, runs)
    title = f"print a kernel of {op_count(module)} operations, whole process"
    return Table.of("dis", title, samples, "tilewright dis")


def throughput(runs: int) -> Table:
    """Operations per second, in one process."""
    from xdsl.context import Context
    from xdsl.dialects.builtin import Builtin
    from xdsl.parser import Parser
    from xdsl.printer import Printer

    from tilewright.dialects.cuda_tile import load

    module = kernel(200)
    count = op_count(module)
    text, generic, binary = texts(200)
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(load())

    class Sink:
        def write(self, _: str) -> None: ...

    samples = interleaved(
        {
            "read bytecode": lambda: tilewright.read(binary),
            "write bytecode": lambda: tilewright.write(module),
            "parse text": lambda: tilewright.parse(text),
            "parse generic text": lambda: tilewright.parse(generic),
            "print text": lambda: tilewright.print_text(module),
            "verify": lambda: tilewright.verify(module),
            "stock xDSL: parse custom text": lambda: Parser(context, text).parse_module(),
            "stock xDSL: print": lambda: Printer(Sink()).print_op(module),  # pyright: ignore[reportArgumentType]
            "stock xDSL: verify": module.verify,
        },
        runs,
    )
    return Table.of(
        "throughput", f"{count} operations, one process", samples, "read bytecode", count
    )


def memory() -> Table:
    """Peak memory allocated by Python while reading, by size of the input."""
    rows: list[tuple[str, str, str]] = []
    for steps in (20, 200, 2000):
        text, _, binary = texts(steps)
        count = op_count(tilewright.read(binary))
        for what, job in (
            ("read", lambda b=binary: tilewright.read(b)),
            ("parse", lambda t=text: tilewright.parse(t)),
        ):
            tracemalloc.start()
            kept = job()
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            del kept
            rows.append(
                (f"{what}, {count} ops", f"{peak / 1e6:.1f} MB", f"{peak / count:.0f} B/op")
            )
    return Table("memory", "peak while reading", ("job", "peak", "per operation"), rows)


def tables(runs: int) -> list[Table]:
    return [start_up(runs), disassembly(runs), throughput(runs), memory()]
