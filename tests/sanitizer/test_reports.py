"""Findings as data, as JSON and as a page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from tests.sanitizer.cases import Case, cases

import tilewright
from tilewright import LaunchOptions
from tilewright.diagnostics import find_code, from_json
from tilewright.machine.sanitize import (
    SanitizerDiagnostic,
    SanitizeReport,
    render_html,
    sanitize,
    to_json,
)
from tilewright.machine.tensors import Elements

VIEW = "tensor_view<8x32xf32, strides=[32,1]>"
TILES = f"partition_view<tile=(4x16), {VIEW}>"
STRIPES = f"strided_view<tile=(4x16), traversal_strides=[3,16], {VIEW}>"
SOURCE_NAME = "kernels/twice.py"
TWICE = f"""\
entry @twice(%x: tile<ptr<f32>>, %out: tile<ptr<f32>>) {{
  %block, %by, %bz = get_tile_block_id : tile<i32>
  %zero = constant <i32: 0> : tile<i32>
  %xv = make_tensor_view %x, shape = [8, 32], strides = [32, 1] : {VIEW}
  %outv = make_tensor_view %out, shape = [8, 32], strides = [32, 1] : {VIEW}
  %xt = make_partition_view %xv : {TILES}
  %outt = make_strided_view %outv : {STRIPES}
  %y, %t = load_view_tko weak %xt[%block, %zero] : {TILES}, tile<i32> -> tile<4x16xf32>, token
  %z = addf %y, %y : tile<4x16xf32>
  %u = store_view_tko weak %z, %outt[%block, %zero] : tile<4x16xf32>, {STRIPES}, tile<i32> -> token LOCATION
  return
}}
"""
PLAIN = TWICE.replace(" LOCATION", "")
LOCATED = TWICE.replace("LOCATION", f'loc("{SOURCE_NAME}":3:5)')
SOURCE = "import cuda.tile as ct\n\nct.store(out, (block, 0), y < y + y)\n"


def check(text: str = PLAIN, grid: int = 3) -> SanitizeReport:
    arrays = [np.zeros((8, 32), np.float32) for _ in range(2)]
    return sanitize(
        tilewright.parse(text, "twice.tileir"),
        None,
        grid,
        arrays,
        options=LaunchOptions(seeds=(0, 5)),
    )


def check_case(kind: str) -> tuple[Case, SanitizeReport]:
    (case,) = (case for case in cases() if case.kind == kind)
    limit = {} if case.limit is None else {"max_iterations": case.limit}
    arguments = list(case.arguments().values())
    report = sanitize(
        case.module(),
        case.symbol("bug"),
        case.grid,
        arguments,
        options=LaunchOptions(seeds=case.seeds, allow_overlap=True, **limit),
    )
    return case, report


def finding(report: SanitizeReport, code: str) -> SanitizerDiagnostic:
    return next(f for f in report.findings if f.diagnostic.code == code)


# Findings as data.


def test_both_sides_of_a_race() -> None:
    race = finding(check(), "race")
    assert race.seed == 0
    assert race.conflict == (((3, 4), (0, 16)),)
    sides = [(a.block, a.kind, a.ordering, a.elements) for a in race.accesses]
    assert sides == [
        ((0, 0, 0), "store", "weak", Elements("%out", (8, 32), (((0, 4), (0, 16)),))),
        ((1, 0, 0), "store", "weak", Elements("%out", (8, 32), (((3, 7), (0, 16)),))),
    ]
    assert [a.op.name for a in race.accesses] == ["cuda_tile.store_view_tko"] * 2


def test_an_access_outside_a_view() -> None:
    found = finding(check(), "outside-index-space")
    (access,) = found.accesses
    assert (access.block, access.kind) == ((2, 0, 0), "load")
    assert access.elements == Elements("%x", (8, 32), (((8, 12), (0, 16)),))
    assert found.conflict == access.elements.boxes


@pytest.mark.parametrize(
    ("kind", "accesses", "conflict"),
    [
        # Tile block 2 writes 32:48 of 40 elements through pointers.
        ("block-past-end", ["%out[32:48]"], (((40, 48),),)),
        ("load-before-start", ["%x[-1]"], (((-1, 0),),)),
        ("race-scatter-duplicates", ["%out[1]"], (((1, 2),),)),
        ("race-accumulate", ["%out[0]", "%out[0]"], (((0, 1),),)),
        ("race-alloca", None, None),
        # Nothing that is near the null pointer could be drawn.
        ("load-null", [], ()),
        ("divi-signed-by-zero", [], ()),
        ("assertion-scalar", [], ()),
    ],
)
def test_accesses_of_findings(kind: str, accesses: list[str] | None, conflict: object) -> None:
    case, report = check_case(kind)
    found = finding(report, case.expect[0])
    if accesses is not None:
        assert [str(access.elements) for access in found.accesses] == accesses
    if conflict is not None:
        assert found.conflict == conflict


def test_other_memory_has_a_name() -> None:
    _, report = check_case("race-alloca")
    assert {a.elements.tensor for a in finding(report, "race").accesses} == {"alloca memory"}


def test_seeds_and_launch() -> None:
    report = check()
    assert report.seeds == (0, 5)
    assert (report.launch.entry, report.launch.grid) == ("twice", (3, 1, 1))
    assert report.launch.arguments == (
        ("%x", "array of float32, 8 x 32"),
        ("%out", "array of float32, 8 x 32"),
    )


# JSON.


def test_json_has_the_diagnostics_and_more() -> None:
    report = check()
    data = to_json(report)
    assert data == json.loads(json.dumps(data, allow_nan=False))
    assert [d.brief() for d in from_json(data["findings"])] == [
        d.brief() for d in report.diagnostics
    ]
    assert data["seeds"] == [0, 5]
    assert data["launch"]["arguments"][1] == {"name": "%out", "value": "array of float32, 8 x 32"}  # pyright: ignore[reportIndexIssue]
    race = next(f for f in data["findings"] if f["code"] == "race")  # pyright: ignore[reportGeneralTypeIssues]
    assert race["conflict"] == [[[3, 4], [0, 16]]]
    assert race["accesses"][1] == {
        "block": [1, 0, 0],
        "op": "store_view_tko",
        "kind": "store",
        "ordering": "weak",
        "tensor": "%out",
        "shape": [8, 32],
        "ranges": [[3, 7], [0, 16]],
        "boxes": [[[3, 7], [0, 16]]],
        "exact": True,
    }


# The page.

_VOID = {"meta", "br"}
_SHAPES = {"rect", "path"}


class Page(HTMLParser):
    """Reads a page strictly: every element is closed, in order."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.ids: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.scripts: dict[str | None, str] = {}
        self._script: tuple[str | None] | None = None
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        values = {name: value or "" for name, value in attrs}
        assert len(values) == len(attrs), "an attribute is given twice"
        self.attributes += [(tag, name, value) for name, value in values.items()]
        if "id" in values:
            self.ids[values["id"]] += 1
        if tag not in _VOID:
            self.open.append(tag)
        if tag == "script":
            self._script = (values.get("id"),)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _SHAPES
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()
        self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self.scripts[self._script[0]] = self.scripts.get(self._script[0], "") + data
        elif self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)


def read(page: str) -> Page:
    """The page, which keeps the rules for all pages."""
    assert page.startswith("<!DOCTYPE html>\n")
    found = Page(page)
    assert max(found.ids.values()) == 1
    links = {value for _, name, value in found.attributes if name == "href"}
    assert all(link.startswith("#") and link[1:] in found.ids for link in links)
    for reference in re.findall(r"url\(([^)]*)\)", page):
        assert reference.startswith("#") and reference[1:] in found.ids
    labelled = {value for _, name, value in found.attributes if name == "aria-labelledby"}
    assert labelled <= found.ids.keys()
    for tag, name, value in found.attributes:
        assert name not in {"src", "srcset", "action", "background"}
        assert not name.startswith("on"), (tag, name)
        assert not re.match(r"(?i)[a-z]+:", value) or name == "transform", value
    assert found.tags["link"] == found.tags["img"] == found.tags["iframe"] == 0
    assert "@import" not in page
    return found


def test_page_tells_every_finding() -> None:
    report, module = check(), tilewright.parse(PLAIN, "twice.tileir")
    page = read(render_html(report, module))
    for number, diagnostic in enumerate(report.diagnostics, 1):
        assert f"finding-{number}" in page.ids
        assert page.text.count(diagnostic.message) >= 2
        assert diagnostic.help in page.text
        code = find_code(diagnostic.code)
        assert code is not None and code.summary in page.text
    assert page.tags["section"] == page.tags["svg"] == len(report.findings) == 2
    assert json.loads(page.scripts["report-data"]) == to_json(report)
    assert "(1) tile block (0, 0, 0) wrote %out[3, 0:16] here" in page.text
    assert "(2) tile block (1, 0, 0): store of %out[3:7, 0:16]" in page.text


def rectangles(page: Page, kind: str) -> list[dict[str, float]]:
    """The rectangles of a class: position and size."""
    found: list[dict[str, float]] = []
    inside = False
    for tag, name, value in page.attributes:
        if name == "class":
            inside = tag == "rect" and value == kind
            if inside:
                found.append({})
        elif inside and tag == "rect" and name in ("x", "y", "width", "height"):
            found[-1][name] = float(value)
    return found


def test_drawing_of_a_race() -> None:
    report, module = check(grid=2), tilewright.parse(PLAIN, "twice.tileir")
    page = read(render_html(report, module))
    (tensor,), (one,), (two,), (clash,) = (
        rectangles(page, kind) for kind in ("tensor", "side1", "side2", "conflict")
    )
    cell = tensor["width"] / 32
    row = tensor["height"] / 8
    assert one == pytest.approx({"x": 0, "y": 0, "width": 16 * cell, "height": 4 * row})
    assert two == pytest.approx({"x": 0, "y": 3 * row, "width": 16 * cell, "height": 4 * row})
    assert clash == pytest.approx({"x": 0, "y": 3 * row, "width": 16 * cell, "height": row})


def test_drawing_of_a_large_tensor_shows_small_parts() -> None:
    text = PLAIN.replace("8, 32", "8, 32000").replace("32, 1]", "32000, 1]")
    text = text.replace("8x32xf32, strides=[32,1]", "8x32000xf32, strides=[32000,1]")
    arrays = [np.zeros((8, 32000), np.float32) for _ in range(2)]
    module = tilewright.parse(text)
    page = read(render_html(sanitize(module, None, 2, arrays), module))
    (clash,), (tensor,) = rectangles(page, "conflict"), rectangles(page, "tensor")
    assert clash["width"] >= 10 and tensor["width"] > 4 * clash["width"]
    assert "Not to scale." in page.text


def test_page_shows_the_source_beside_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    report, module = check(LOCATED, grid=2), tilewright.parse(LOCATED, "twice.tileir")
    without = read(render_html(report, module))
    assert "y < y + y" not in without.text
    given = read(render_html(report, module, sources={SOURCE_NAME: SOURCE}))
    assert "src1-3" in given.ids and "Source: kernels/twice.py" in given.text
    assert given.text.count("y < y + y") == 2  # the excerpt and the listing
    path = tmp_path / SOURCE_NAME
    path.parent.mkdir()
    path.write_text(SOURCE)
    assert read(render_html(report, module)).text == given.text


def test_page_of_bytecode_shows_printed_text() -> None:
    module = tilewright.read(tilewright.write(tilewright.parse(PLAIN)))
    arrays = [np.zeros((8, 32), np.float32) for _ in range(2)]
    report = sanitize(module, None, 2, arrays)
    page = read(render_html(report, module))
    assert "printed module" in page.text
    marked = [
        value for _, name, value in page.attributes if (name, value) == ("class", "row side2")
    ]
    assert len(marked) == 2


def test_page_of_a_module_without_places() -> None:
    module = tilewright.parse(PLAIN).clone()
    arrays = [np.zeros((8, 32), np.float32) for _ in range(2)]
    report = sanitize(module, None, 2, arrays)
    assert report.diagnostics[0].location is None
    page = read(render_html(report, module))
    assert "(1) tile block (0, 0, 0) wrote %out[3, 0:16] here" in page.text
    assert ("class", "row side2") in [(name, value) for _, name, value in page.attributes]


def test_drawings_of_other_ranks() -> None:
    cube = "tensor_view<4x8x8xf32, strides=[64,8,1]>"
    tiles = f"partition_view<tile=(2x4x8), {cube}>"
    text = f"""
entry @cube(%out: tile<ptr<f32>>, %flag: tile<ptr<f32>>) {{
  %zero = constant <i32: 0> : tile<i32>
  %ones = constant <f32: 1.0> : tile<2x4x8xf32>
  %one = constant <f32: 1.0> : tile<f32>
  %view = make_tensor_view %out, shape = [4, 8, 8], strides = [64, 8, 1] : {cube}
  %tiles = make_partition_view %view : {tiles}
  %t = store_view_tko weak %ones, %tiles[%zero, %zero, %zero] : tile<2x4x8xf32>, {tiles}, tile<i32> -> token
  %u = store_ptr_tko weak %flag, %one : tile<ptr<f32>>, tile<f32> -> token
}}
"""
    module = tilewright.parse(text)
    arrays = [np.zeros((4, 8, 8), np.float32), np.zeros((), np.float32)]
    report = sanitize(module, None, 2, arrays)
    assert [str(f.accesses[0].elements) for f in report.findings] == [
        "%out[0:2, 0:4, 0:8]",
        "%flag",
    ]
    page = read(render_html(report, module))
    assert "The last two of 3 dimensions are drawn." in page.text
    assert page.tags["svg"] == 2 and "%flag (a scalar)." in page.text


def test_page_without_findings() -> None:
    report, module = check(grid=1), tilewright.parse(PLAIN)
    assert report.is_clean
    page = read(render_html(report, module, title="A title & more"))
    assert "Nothing found." in page.text and "A title & more" in page.text
    assert page.tags["section"] == page.tags["table"] == 0


def test_hostile_names_and_texts_stay_text() -> None:
    name = "</script><img src=x onerror=alert(1)>.py"
    text = LOCATED.replace(SOURCE_NAME, name)
    module = tilewright.parse(text, "<b>\u202e&.tileir")
    arrays = [np.zeros((8, 32), np.float32) for _ in range(2)]
    report = sanitize(module, None, 2, arrays)
    page = read(render_html(report, module, sources={name: "\n\n<script>alert(2)</script>\n"}))
    assert page.tags["script"] == 2
    assert "<script>alert(2)</script>" in page.text and "\u202e" not in page.text
    assert json.loads(page.scripts["report-data"]) == to_json(report)


KINDS = {case.expect[0]: case.kind for case in cases()}


@pytest.mark.parametrize("kind", sorted(KINDS.values()))
def test_a_page_for_every_code(kind: str) -> None:
    case, report = check_case(kind)
    page = read(render_html(report, case.module()))
    assert page.tags["section"] == len(report.findings)
    assert all(diagnostic.message in page.text for diagnostic in report.diagnostics)


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)  # fmt: skip


@pytest.mark.skipif(BROWSER is None, reason="no chromium on the path")
def test_page_in_a_browser(tmp_path: Path) -> None:
    report, module = check(), tilewright.parse(PLAIN, "twice.tileir")
    path = tmp_path / "report.html"
    # The page tells on itself: whatever the script or the policy stops shows in the title.
    probe = (
        "<script>addEventListener('error', (e) => { document.title += ' ' + e.message; });"
        "addEventListener('securitypolicyviolation', (e) => { document.title += ' policy'; });"
        "</script>"
    )
    text = render_html(report, module).replace("<body>", f"<body>{probe}")
    text = text.replace("</body>", "<script>document.querySelector('[data-site]')"
                        ".dispatchEvent(new Event('mouseenter')); document.title += ' '"
                        " + document.querySelectorAll('.lit').length;</script></body>")  # fmt: skip
    path.write_text(text)
    assert BROWSER is not None
    done = subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", path.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    # The first site is in the list, in the excerpt (a line and a label), and in the listing.
    assert re.search(r"<title>Sanitizer report: twice [23]</title>", done.stdout)
