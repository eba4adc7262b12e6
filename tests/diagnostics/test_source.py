"""Lines and positions of source files, and what importing the package costs."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright.diagnostics as diagnostics_package
from tilewright.diagnostics import SourceFile


@given(st.text(alphabet="ab\r\n\u2028", max_size=30))
def test_lines_and_line_ends_make_up_the_text(text: str) -> None:
    file = SourceFile("f", text)
    covered = 0
    for line in range(1, file.line_count + 1):
        start, end = file.line_range(line)
        assert start == covered
        assert file.position(start) == (line, 1)
        assert file.line_text(line) == text[start:end]
        assert "\n" not in text[start:end]
        line_end = "\r\n" if text.startswith("\r\n", end) else "\n"
        covered = end + (len(line_end) if line < file.line_count else 0)
    assert covered == len(text)


@given(st.text(alphabet="a\r\n", max_size=30), st.data())
def test_position_counts_newlines(text: str, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(text)))
    before = text[:offset]
    expected = before.count("\n") + 1, offset - before.rfind("\n")
    assert SourceFile("f", text).position(offset) == expected


@pytest.mark.parametrize("line", [-1, 0, 3])
def test_there_is_no_other_line(line: int) -> None:
    for ask in (SourceFile("f", "a\nb").line_range, SourceFile("f", "a\nb").line_text):
        with pytest.raises(IndexError):
            ask(line)


def test_every_public_name_is_there() -> None:
    for name in diagnostics_package.__all__:
        assert getattr(diagnostics_package, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = diagnostics_package.colour  # type: ignore[attr-defined]


def test_importing_loads_no_renderer_and_rendering_text_loads_no_rich() -> None:
    program = """
import sys
import tilewright.diagnostics as d
heavy = ("render_text", "render_json", "render_sarif", "expectations")
assert not [m for m in heavy if f"tilewright.diagnostics.{m}" in sys.modules], sys.modules
text = d.render([d.Diagnostic(d.Severity.ERROR, "c", "m")], color=True)
assert "error[c]" in text
assert not {"rich", "xdsl", "numpy"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
