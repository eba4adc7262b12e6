"""Every tool takes a cuTile program: its kernels, their names, and what is said of bad programs."""

from __future__ import annotations

import builtins
import json
import linecache
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.conftest import Command

pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

import cuda.tile as ct

import tilewright
from tilewright.cli.compile import EMITS as CPU_EMITS
from tilewright.cli.compile_gpu import EMITS
from tilewright.cutile import Compiled, KernelError, compile, on
from tilewright.cutile.program import show_exception
from tilewright.machine.inspect import StopRun

Tool = Callable[..., subprocess.CompletedProcess[str]]
HERE = Path(__file__).name
PROGRAM = """\
import sys
import numpy as np
import cuda.tile as ct

@ct.kernel
def clash(c):
    ct.store(c, (0,), ct.full((4,), ct.bid(0), c.dtype))

@ct.kernel
def more(c, n: ct.Constant[int]):
    part = ct.load(c, (ct.bid(0),), (n,))
    ct.store(c, (ct.bid(0),), part + 1)

c = np.zeros(8, np.float32)
ct.launch(0, (2,), more, (c, 4))
ct.launch(0, (4,), more, (c, 2))
assert (c == 2).all()
if "clash" in sys.argv:
    ct.launch(0, (2,), clash, (c,))
print("done", sys.argv[1:])
if "wrong" in sys.argv:
    raise ValueError("it is\\nwrong")
"""


@ct.kernel
def running_total(q, out, pair, n: ct.Constant[int]):
    i = ct.bid(0)
    total = ct.zeros((n,), ct.float32)
    for j in range(q.shape[0]):
        row = ct.load(q, (j, i), (1, n)).reshape((n,))
        # Nothing happens here.
        total = total + row * pair[0]
    ct.store(out, (i,), total)


def _line(text: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.strip().startswith(text))


def _arguments() -> tuple[Any, ...]:
    q = np.arange(24, dtype=np.float32).reshape(3, 8)
    return q, np.zeros(8, np.float32), (2.0, 3), 4


def _tool(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tilewright", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


@pytest.fixture
def tool(command: Command, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """The command in this process, where it loads nothing; what it writes is what it is tested for."""

    def run(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(cwd)
        ran = command(*words)
        return subprocess.CompletedProcess(words, ran.status, ran.text, ran.err)

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return compile(running_total, _arguments(), (2,))


def test_values_have_the_authors_names(compiled: Compiled) -> None:
    entry = compiled.module.entry("running_total")
    names = [argument.name_hint for argument in entry.block.args]
    assert names[:3] == ["q", "q.shape.0", "q.shape.1"]
    assert names[-2:] == ["pair.item.0", "pair.item.1"]
    text = compiled.text()
    for name in ("%i, ", "%total = constant", "for %j in", "%row", "%q.view", "%out.tiles"):
        assert name in text
    tilewright.verify(compiled.module)
    assert tilewright.parse(text) is not None
    assert compiled.symbol != "running_total" and compiled.kind["n"] == "= 4"


def test_levels_and_launches(compiled: Compiled) -> None:
    assert ".target sm_80" in compiled.ptx("sm_80")
    assert "gpu.func @running_total" in compiled.text("nvgpu", target="sm_90a")
    with pytest.raises(
        tilewright.TileIRError, match=r"\[unknown-level\]: there is no level 'nothing'"
    ):
        compiled.text("nothing")
    q, out, pair, n = _arguments()
    for machine in ("reference", "cpu"):
        out[:] = 0
        compiled.launch(args=(q, out, pair, n), machine=machine)
        np.testing.assert_array_equal(out, 2 * q.sum(0))
    with pytest.raises(TypeError, match="another kind"):
        compiled.launch(args=(q, out, pair, 8))


def test_the_page_folds_assumptions_and_speaks_python(compiled: Compiled) -> None:
    page = compiled.page()
    assert "<h1>Kernel running_total</h1>" in page and "q.shape[0]" in page
    assert "%q.shape.0" not in page
    shown = compiled.explain()
    tile = next(level for level in shown.levels if level.key == "tile")
    assert not any("assume" in line.text for line in tile.lines)
    assert shown.levels[0].key == "source"
    keys = {level.key for level in shown.levels}
    assert {"nvgpu", "llvm", "ptx", "asm"} <= keys
    assert ("sass" in keys) != ("SASS" in shown.missing)


def test_breakpoints_at_lines_see_variables() -> None:
    stops: list[Any] = []
    q, out, pair, n = _arguments()
    where = (HERE, _line("total = total + row"), stops.append)
    with on("reference", breakpoints=[where]):
        ct.launch(0, (2,), running_total, (q, out, pair, n))
    assert [(s.block[0], int(s["j"])) for s in stops] == [(i, j) for i in (0, 1) for j in range(3)]
    np.testing.assert_array_equal(stops[4]["row"], q[1, 4:])
    np.testing.assert_array_equal(stops[5]["total"], 2 * q[:2, 4:].sum(0))
    assert stops[0]["n"] == 4 and stops[0]["q"].shape == (3, 8)
    with pytest.raises(KeyError, match="no variable 'nothing'"):
        stops[0]["nothing"]


def test_a_stop_may_end_the_launch_and_enters_the_debugger(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[dict[str, Any]] = []

    def hook(*_: object, **__: object) -> None:
        frame = sys._getframe(1)
        entered.append(dict(frame.f_globals))
        raise StopRun

    monkeypatch.setattr(sys, "breakpointhook", hook)
    q, out, pair, n = _arguments()
    with on("reference", breakpoints=[(HERE, _line("ct.store(out, (i,), total)"))]):
        ct.launch(0, (2,), running_total, (q, out, pair, n))
    assert len(entered) == 1 and entered[0]["total"].shape == (4,)
    assert not out.any()


def test_a_kernel_stands_for_its_file_or_cell() -> None:
    """Cells of notebooks have names that nobody knows, and that change."""
    name = "/tmp/ipykernel_7/4711.py"
    cell = "import cuda.tile as ct\n@ct.kernel\ndef twice(x):\n    t = ct.load(x, (0,), (4,))\n    ct.store(x, (0,), t + t)\n"
    linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
    names: dict[str, Any] = {}
    exec(builtins.compile(cell, name, "exec"), names)
    stops: list[Any] = []
    with on("reference", breakpoints=[(names["twice"], 5, stops.append)]):
        ct.launch(0, (1,), names["twice"], (np.arange(4, dtype=np.float32),))
    assert [stop.line for stop in stops] == [5] and stops[0]["t"].tolist() == [0, 1, 2, 3]
    with (
        on("reference", breakpoints=[(print, 5)]),
        pytest.raises(TypeError, match="is no function"),
    ):
        ct.launch(0, (1,), names["twice"], (np.arange(4, dtype=np.float32),))


def test_lines_without_operations_are_told() -> None:
    comment = _line("# Nothing happens here.")
    with (
        on("reference", breakpoints=[("x.py", 1), (HERE, comment)]),
        pytest.raises(KernelError, match=f"nothing happens at line {comment} of '{HERE}'"),
    ):
        ct.launch(0, (2,), running_total, _arguments())


@ct.kernel
def double_or_negate(x, negate: ct.Constant[bool]):
    tile = ct.load(x, (0,), (4,))
    if negate:
        # Nothing happens here either.
        tile = ct.negative(tile)
        tile = tile - 1
    else:
        tile = tile + tile
    ct.store(x, (0,), tile)


def test_a_line_of_another_specialisation_or_function_is_no_error() -> None:
    stops: list[Any] = []
    wanted = ("tile = ct.negative(tile)", "tile = tile + tile", "total = total + row")
    x = np.arange(4, dtype=np.float32)
    with on("reference", breakpoints=[(HERE, _line(text), stops.append) for text in wanted]):
        for negate in (True, False, True):
            ct.launch(0, (1,), double_or_negate, (x, negate))
        ct.launch(0, (1,), running_total, _arguments())
    assert [stop.line for stop in stops[:3]] == [_line(wanted[n]) for n in (0, 1, 0)]
    assert {stop.line for stop in stops[3:]} == {_line(wanted[2])}
    comment = _line("# Nothing happens here either.")
    with on("reference", breakpoints=[(HERE, comment)]), pytest.raises(KernelError):
        ct.launch(0, (1,), double_or_negate, (x, True))


def test_breakpoints_that_no_launch_came_to_are_told(folder: Path, tool: Tool) -> None:
    lines = PROGRAM.splitlines()
    reached = lines.index("def more(c, n: ct.Constant[int]):") + 2
    never = ("nofile.py:3", "program.py:1")
    words = [f"--break={where}" for where in (f"program.py:{reached}", *never)]
    done = tool("run", *words, "program.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert f"program.py:{reached} in more" in done.stdout
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: no launch")]
    assert notes == [
        f"note: no launch reached line {where.partition(':')[2]} of '{where.partition(':')[0]}'"
        for where in never
    ]


@ct.kernel
def endless(x):
    tile = ct.load(x, (0,), (4,))
    while ct.sum(tile, 0) < 1:
        ct.printf("turn\\n")
        tile = tile * 2
    ct.store(x, (0,), tile)


def test_ctrl_c_shows_frames_of_the_program_only(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(text: str) -> None:
        np.apply_along_axis(stop, 0, np.zeros(2))

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught, on("reference", print_to=interrupt):
        ct.launch(0, (1,), endless, (np.zeros(4, np.float32),))
    show_exception(caught.value)
    told = capsys.readouterr().err
    frames = [line.rpartition(" ")[2] for line in told.splitlines() if line.startswith("  File ")]
    # NumPy's frames stay where the program has called it.
    assert [name for name in frames if name != "apply_along_axis"] == [
        "test_ctrl_c_shows_frames_of_the_program_only",
        "interrupt",
        "stop",
    ]
    assert "<steps" not in told and "apply_along_axis" in frames
    loop = _line("while ct.sum(tile, 0) < 1:")
    assert told.endswith(
        f"KeyboardInterrupt\ntilewright: tile block (0, 0, 0) was in the loop at {__file__}:{loop}\n"
    )


TEXTS = [
    *(("cpu", emit, sign) for emit, sign in (("asm", "#"), ("llvm", ";"))),
    *(("sm_80", emit, "//") for emit in ("tileas", "nvgpu", "llvm", "ptx")),
]


def test_texts_are_all_that_can_be_emitted() -> None:
    assert {emit for target, emit, _ in TEXTS if target == "cpu"} == set(CPU_EMITS) - {"obj"}
    assert {emit for target, emit, _ in TEXTS if target != "cpu"} == set(EMITS) - {"cubin", "sass"}


@pytest.mark.parametrize(("target", "emit", "sign"), TEXTS)
def test_code_of_several_kernels(
    target: str, emit: str, sign: str, folder: Path, tool: Tool
) -> None:
    """Each below a comment of its own, in whatever is emitted."""
    done = tool("compile", "--target", target, "--emit", emit, "program.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    sign = ";" if emit == "llvm" else sign
    titles = [line for line in done.stdout.splitlines() if line.startswith(f"{sign} more")]
    assert len(titles) == 2


@pytest.mark.parametrize("name", ["check", "dis", "compile"])
def test_each_kernel_is_taken(name: str, folder: Path, tool: Tool) -> None:
    done = _tool(name, "program.py", "clash", cwd=folder)
    assert done.returncode == 0, done.stderr
    said = done.stderr if name == "check" else done.stdout
    for label in ("more#1 (n=4)", "more#2 (n=2)", "clash"):
        assert label in said
    assert "done ['clash']" in done.stderr
    one = tool(name, "--kernel", "more#2", "program.py", cwd=folder)
    assert "more#1" not in one.stdout + one.stderr


def test_pages_of_a_program(folder: Path, tool: Tool) -> None:
    done = tool("explain", "-o", "p.html", "--save-ir", "ir", "program.py", "clash", cwd=folder)
    assert done.returncode == 0, done.stderr
    first = (folder / "p.html").read_text(encoding="utf-8")
    assert "Kernel more" in first and 'href="p.clash.html"' in first
    assert (folder / "p.clash.html").exists()
    assert "not shown: more#2 (n=2)" in done.stderr
    assert (folder / "ir" / "more-2.tileirbc").read_bytes()[1:7] == b"TileIR"


@pytest.mark.parametrize(
    ("text", "words", "status"),
    [
        ("print(1)\n", "error[no-kernel-launched] ... without launching a cuTile kernel", 1),
        ("raise ValueError('two\\nlines')\n", "error[program-failed] ... failed before it launched a kernel: ValueError: two lines", 1),
        ("import no_such_module\n", "imports 'no_such_module', which is not installed", 1),
        ("def f(:\n", "SyntaxError", 1),
        ("import sys; sys.exit(3)\n", "ended with status 3", 1),
        (None, "No such file", 2),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["check", "dis", "explain", "compile"])
def test_bad_programs(name: str, text: str | None, words: str, status: int, tmp_path: Path, tool: Tool) -> None:  # fmt: skip
    if text is not None:
        (tmp_path / "bad.py").write_text(text)
    done = tool(name, "bad.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (status, "")
    assert all(part in done.stderr for part in words.split(" ... "))
    assert "Traceback" not in done.stderr and done.stderr.count("error") <= 3


def test_a_program_that_fails_later_and_unknown_kernels(folder: Path, tool: Tool) -> None:
    done = tool("dis", "program.py", "wrong", cwd=folder)
    assert done.returncode == 1 and "entry @more" in done.stdout
    assert "ValueError: it is" in done.stderr
    done = tool("dis", "--kernel", "nope", "program.py", cwd=folder)
    assert done.returncode == 2 and "[unknown-program-kernel]: " in done.stderr
    assert "compiles no kernel 'nope'" in done.stderr
    assert "more#1 (n=4), more#2 (n=2)" in done.stderr


def test_sanitize_goes_on_and_reports_at_the_end(folder: Path, tool: Tool) -> None:
    done = tool("sanitize", "--format", "json", "--html", "r.html", "program.py", "clash", cwd=folder)  # fmt: skip
    assert done.returncode == 1
    data = json.loads(done.stdout)
    assert (data["format"], data["launches"], len(data["findings"])) == (1, 3, 1)
    assert (data["findings"][0]["code"], data["findings"][0]["line"]) == ("race", 7)
    assert (folder / "r.html").exists()
    assert tool("sanitize", "--kernel", "more", "program.py", "clash", cwd=folder).returncode == 0


def test_runs_of_programs(folder: Path, tool: Tool) -> None:
    done = tool("run", "--machine", "sim:sm_90a", "--json", "--timeline", "t.svg", "program.py", cwd=folder)  # fmt: skip
    launches = json.loads(done.stdout)["launches"]
    assert [(each["kernel"], each["specialisation"]) for each in launches] == [("more", 1), ("more", 2)]  # fmt: skip
    assert launches[0]["counters"]["global_bytes_written"] == 32
    assert "<svg" in (folder / "t.svg").read_text()
    drawn = tool("run", "--machine", "sim:sm_90a", "--timeline", "u.html", "--timeline-launch", "3", "program.py", "clash", cwd=folder)  # fmt: skip
    assert "wrote u.html: clash, launch 3 of 3; --timeline-launch N draws another" in drawn.stderr
    assert "clash" in (folder / "u.html").read_text()
    beyond = tool("run", "--machine", "sim:sm_90a", "--timeline", "v.html", "--timeline-launch", "3", "program.py", cwd=folder)  # fmt: skip
    assert "there is no launch 3 of 2 to draw" in beyond.stderr and not (folder / "v.html").exists()
    done = tool("run", "--trace", "-", "--trace-block", "1", "--kernel", "more#2", "program.py", cwd=folder)  # fmt: skip
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert {tuple(r["block"]) for r in records if "block" in r} == {(1, 0, 0)}
    assert records[0]["entry"] == "more"
    assert '"%part"' in done.stdout and "assume" not in done.stdout
    refused = tool("run", "--threads", "2", "program.py", cwd=folder)
    assert refused.returncode == 2 and "no option `threads`" in refused.stderr


@pytest.mark.skipif(os.name == "nt", reason="Windows cannot send an interrupt to one process")
@pytest.mark.parametrize("command", ["run", "explain"])
def test_ctrl_c_while_torch_is_imported(command: str, folder: Path) -> None:
    (folder / "torch.py").write_text(
        "import time\nprint('importing', flush=True)\ntime.sleep(60)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    child = subprocess.Popen(
        [sys.executable, "-m", "tilewright", command, "program.py"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "importing\n"
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=30)
    assert (child.returncode, told) == (130, "tilewright: interrupted\n")


def test_a_compiled_kernel_shows_what_it_is_for() -> None:
    x = np.zeros(4096, np.float32)
    shown = repr(tilewright.cutile.compile(endless, (x,)))
    assert shown == "<kernel endless compiled for x float32[16n] strides [1]>"
