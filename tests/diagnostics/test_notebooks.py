"""What notebooks, interactive sessions and reports of tests show."""

from __future__ import annotations

import importlib
import linecache
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright.diagnostics import (
    Diagnostic,
    NamedLocation,
    Severity,
    TileIRError,
    render,
)
from tilewright.diagnostics.render_html import preformatted, render_html
from tilewright.diagnostics.tracebacks import cell_traceback
from tilewright.machine.inspect import Trace, run_with
from tilewright.machine.sanitize import sanitize

KERNEL = """entry @k(%out: tile<ptr<f32>>) {
  %one = constant <f32: 1.0> : tile<f32>
  %t = store_ptr_tko weak %out, %one : tile<ptr<f32>>, tile<f32> -> token
}
"""


def packages() -> Iterator[str]:
    yield "tilewright"
    for found in pkgutil.walk_packages(tilewright.__path__, "tilewright."):
        if found.ispkg:
            yield found.name


def test_lazy_packages_list_all_their_names() -> None:
    lazy = 0
    for name in packages():
        package = importlib.import_module(name)
        if not hasattr(package, "__getattr__"):
            continue
        lazy += 1
        assert set(package.__all__) <= set(dir(package)), name
        for public in package.__all__:
            assert getattr(package, public) is not None
    assert lazy >= 10


def in_cell(line: int, name: str) -> Diagnostic:
    return Diagnostic(Severity.ERROR, "code", "message", NamedLocation(name, line, 5))


@pytest.mark.parametrize("name", ["<ipython-input-3-abc>", "/tmp/ipykernel_7/123.py", "<stdin>-0"])
def test_lines_of_cells_are_shown(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["first = 1\n", "    second = first\n"]
    monkeypatch.setitem(linecache.cache, name, (30, None, lines, name))
    assert "2 |     second = first\n  |     ^" in render([in_cell(2, name)])
    assert "second" not in render([in_cell(9, name)])


def test_lines_that_a_loader_gives_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(linecache.cache, "kernels.zip/softmax.py", (lambda: "one\ntwo three\n",))  # pyright: ignore[reportArgumentType]
    assert "2 | two three" in render([in_cell(2, "kernels.zip/softmax.py")])


def test_no_file_is_looked_for_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret.py").write_text("secret = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "secret = 1" not in render([in_cell(1, "secret.py")])


def test_html_of_diagnostics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(linecache.cache, "<cell>", (9, None, ["    a < b & c\n"], "<cell>"))
    diagnostic = in_cell(1, "<cell>")
    html = diagnostic._repr_html_()
    assert html.startswith("<pre") and html.endswith("</pre>")
    assert "a &lt; b &amp; c" in html and "\x1b" not in html
    assert html.count("<span") == html.count("</span>")
    plain = re.sub(r"<[^>]*>", "", html)
    assert plain == render([diagnostic]).replace("&", "&amp;").replace("<", "&lt;").replace(
        ">", "&gt;"
    )
    assert TileIRError([diagnostic])._repr_html_() == html
    assert render_html([]) == ""


def test_html_of_long_texts_is_cut() -> None:
    html = preformatted("line\n" * 5000)
    assert html.count("line\n") == 2000
    assert "... and 3001 more lines" in html


def test_html_of_modules_reports_and_traces() -> None:
    module = tilewright.parse(KERNEL)
    shown = module._repr_html_()  # pyright: ignore[reportAttributeAccessIssue]
    assert "entry @k" in shown and "ptr&lt;f32&gt;" in shown
    array = np.zeros(1, np.float32)
    report = sanitize(module, "k", 2, [array], options=tilewright.LaunchOptions(seeds=2))
    assert "1 finding under 2 schedules" in report._repr_html_()
    assert "error[race]" in report._repr_html_()
    clean = sanitize(module, "k", 1, [array], options=tilewright.LaunchOptions(seeds=1))
    assert "no errors found under 1 schedule<" in clean._repr_html_()
    clean = sanitize(module, "k", 1, [array])
    assert "no errors found under 4 schedules" in clean._repr_html_()
    trace = Trace()
    assert "an empty trace" in trace._repr_html_()
    run_with(module, "k", 1, [array], tilewright.LaunchOptions(trace=trace))
    assert "store weak %out[0]" in trace._repr_html_()


def test_html_of_simulations() -> None:
    from tilewright.simulator.tiles import TileProgram

    program = TileProgram(tilewright.parse(KERNEL), "sm_90a")
    found = program.launch("k", 1, [np.zeros(1, np.float32)])
    assert "sm_90a, seed 0: completed" in found._repr_html_()
    assert found.timeline._repr_html_().startswith("<svg")


def test_tracebacks_of_cells_have_the_cell_s_frames_only() -> None:
    names: dict[str, object] = {"tilewright": tilewright}
    cell = compile("def read():\n    tilewright.parse('entry @k( {')\nread()\n", "<cell 7>", "exec")
    runner = compile("exec(cell, names)", "/opt/IPython/core/interactiveshell.py", "exec")
    with pytest.raises(TileIRError) as caught:
        exec(runner, {"cell": cell, "names": names})
    lines = caught.value._render_traceback_()
    files = [line.split('"')[1] for line in lines if line.startswith('  File "')]
    assert files == [__file__, "<cell 7>", "<cell 7>"]
    assert "error[unknown-type]" in "\n".join(lines) and lines[-1]


def test_bugs_of_ours_keep_their_frames_in_notebooks() -> None:
    def failed_assertion() -> None:
        raise AssertionError("a bug")

    module = compile("fail()", str(Path(tilewright.__file__).parent / "bug.py"), "exec")
    with pytest.raises(TileIRError) as caught:
        try:
            exec(module, {"fail": failed_assertion})
        except AssertionError as bug:
            raise TileIRError.single(Severity.ERROR.name, "wrapped") from bug
    text = "\n".join(caught.value._render_traceback_())
    assert "bug.py" in text and "a bug" in text and "direct cause" in text


def raised_through_ours(error: BaseException) -> BaseException:
    """The error, with a frame of ours in its traceback."""

    def fail() -> None:
        raise error

    ours = compile("fail()", str(Path(tilewright.__file__).parent / "ours.py"), "exec")
    with pytest.raises(type(error)) as caught:
        exec(ours, {"fail": fail})
    return caught.value


@pytest.mark.parametrize("link", ["__cause__", "__context__", None])
@pytest.mark.parametrize("bug_first", [True, False])
def test_each_part_of_a_chain_keeps_its_own_frames(bug_first: bool, link: str | None) -> None:
    bug = raised_through_ours(AssertionError("a bug"))
    error = raised_through_ours(TileIRError.single(Severity.ERROR.name, "refused"))
    first, last = (bug, error) if bug_first else (error, bug)
    last.__context__ = first
    last.__suppress_context__ = link is None
    if link == "__cause__":
        last.__cause__, last.__context__ = first, ValueError("hidden by the cause")
    text = "\n".join(cell_traceback(last))
    parts = re.findall(r"^Traceback.*?(?=^Traceback|\Z)", text, re.DOTALL | re.MULTILINE)
    assert len(parts) == (1 if link is None else 2)
    for part in parts:
        assert ("ours.py" in part) == ("AssertionError: a bug" in part), text
