"""The page of a kernel as text: what it holds, and that it holds nothing of another's making."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest
from tests.explain.kernels import (
    HOSTILE,
    HOSTILE_TEXT,
    explain_example,
    footprints_of,
    matmul_page,
)

from tilewright import parse
from tilewright.explain.footprint_drawing import draw_tensors
from tilewright.explain.footprints import Footprint, record_footprints
from tilewright.explain.levels import explain_kernel
from tilewright.explain.page import render_page

_VOID = {"meta", "input", "br"}


class Page(HTMLParser):
    """Elements with their attributes, and the text of each line of a level."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: dict[str, str] = {}
        self.text = ""
        self._open: list[str] = []
        self._row = ""
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        if tag == "div" and attributes.get("class") == "row":
            self._row = attributes["id"] or ""
            self.rows[self._row] = ""
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag == "div":
            self._row = ""

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self._open[-1:] not in (["script"], ["style"]):
            self.text += data
        if self._row:
            self.rows[self._row] += data

    def data(self, text: str) -> dict[str, object]:
        found = re.search(r'id="page-data">(.*?)</script>', text, re.DOTALL)
        assert found is not None
        return json.loads(found[1])


@pytest.fixture(scope="module")
def matmul() -> str:
    return matmul_page()


def test_page_is_well_formed_and_whole(matmul: str) -> None:
    page = Page(matmul)
    ids = Counter(a["id"] for _, a in page.elements if "id" in a)
    assert all(count == 1 for count in ids.values()), ids.most_common(3)
    for tag, attributes in page.elements:
        if tag == "a":
            target = attributes.get("href") or ""
            assert target.startswith("#")
            assert target[1:] in ids
        assert "src" not in attributes
        assert not any(name.startswith("on") or name == "style" for name in attributes)
    assert {tag for tag, _ in page.elements}.isdisjoint({"link", "img", "iframe", "object"})
    assert "http" not in matmul.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert "default-src 'none'" in matmul


def test_every_line_of_every_level_is_there(matmul: str) -> None:
    page = Page(matmul)
    for level in explain_example("matmul").levels:
        for number, line in enumerate(level.lines, level.first):
            assert page.rows[f"{level.key}-{number}"] == f"{number}{line.text}\n"


def test_links_of_lines(matmul: str) -> None:
    page = Page(matmul)
    links = {a["id"]: a.get("data-links") for tag, a in page.elements if a.get("class") == "row"}
    for level in explain_example("matmul").levels:
        for number, line in enumerate(level.lines, level.first):
            shown = links[f"{level.key}-{number}"]
            assert tuple(map(int, (shown or "").split())) == line.links


def test_facts_of_the_kernel(matmul: str) -> None:
    text = Page(matmul).text
    for part in (
        "Kernel matmul",
        "%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %m: tile<i32>",
        "sm_100",
        "3 x 2 x 1",
        "3\N{NO-BREAK SPACE}make_partition_view",
        "at most 49152 bytes at scf.yield",
    ):
        assert part in text, part
    # The kernel and what is in it, its own line included.
    assert re.search(r"operations, cuda_tile19 \(3\sconstant", text.replace("\n", ""))


def test_hints() -> None:
    text = (
        "entry @k() optimization_hints=<sm_100 = {num_cta_in_cga = 2, occupancy = 4}> {\n"
        "  return\n}\n"
    )
    page = Page(render_page(explain_kernel(parse(text))))
    assert "hintssm_100 = {num_cta_in_cga = 2, occupancy = 4}" in page.text.replace("\n", "")
    none = "entry @k() optimization_hints=<default = {}> {\n  return\n}\n"
    page = Page(render_page(explain_kernel(parse(none))))
    assert "hintsnone" in page.text.replace("\n", "")


def test_operations_that_dialects_share_the_name_of_are_told_apart() -> None:
    text = """entry @k(%out: tile<ptr<f32>>) {
      %x = iota : tile<64xi32>
      %y = itof %x signed : tile<64xi32> -> tile<64xf32>
      %s = reduce %y dim=0 identities=[0.0 : f32] : tile<64xf32> -> tile<f32>
        (%a: tile<f32>, %b: tile<f32>) { %c = addf %a, %b : tile<f32> yield %c : tile<f32> }
      %t = store_ptr_tko weak %out, %s : tile<ptr<f32>>, tile<f32> -> token
    }"""
    page = Page(render_page(explain_kernel(parse(text), target="sm_90a")))
    (counted,) = re.findall(r"operations, nvgpu\d+ \((.*?)\)", page.text.replace("\n", ""))
    names = [name.split("\N{NO-BREAK SPACE}")[1] for name in counted.split(", ")]
    assert len(names) == len(set(names)) and "gpu.module" in names and "gpu.shuffle" in names


def test_data_of_the_script(matmul: str) -> None:
    data = Page(matmul).data(matmul)
    found = explain_example("matmul", grid=(3, 2))
    facts = data["facts"]
    assert isinstance(facts, dict)
    assert list(facts) == ["lowered", "final"]
    for key, level in found.analyses.items():
        told = {
            name: {str(line): list(remarks) for line, remarks in by_line.items()}
            for name, by_line in level.remarks.items()
        }
        assert facts[key] == told
    footprints = data["footprints"]
    assert isinstance(footprints, dict)
    assert footprints["blocks"][:2] == [[0, 0, 0], [1, 0, 0]]
    assert footprints["touched"][0][2] == ["store", 24, "store of %c[0:64, 0:64]"]


def test_passes(matmul: str) -> None:
    text = Page(matmul).text
    assert "1. tileaa-canonicalize +0 -3" in text
    assert "2. tileaa-cse nothing" in text
    assert "The pass changed nothing." in text
    assert matmul.count('<details class="change">') == 7
    assert re.search(r'class="row removed">.*%bz = nv_tileaa.get_program_id', matmul)


def test_token_graph_leads_to_lines() -> None:
    found = explain_example("vector_add")
    page = Page(render_page(found))
    anchors = [a["href"] for tag, a in page.elements if tag == "a"]
    stores = [n for n, line in page.rows.items() if "nv_tileaa.tiled_store" in line]
    assert {f"#{name}" for name in stores} <= set(anchors)
    assert page.text.count("no effect waits for another") == 2


def test_arrows_are_drawn() -> None:
    text = (
        'entry @k() {\n  %n = constant <i32: 4> : tile<i32>\n  %t = print_tko "%i", %n : tile<i32> -> token\n'
        '  %u = print_tko "%i", %n token=%t : tile<i32> -> token\n  return\n}\n'
    )
    found = explain_kernel(parse(text))
    assert found.analyses["lowered"].edges == 1
    page = render_page(found)
    assert page.count('marker-end="url(#lowered-arrow)"') == 1
    assert "waits for another" not in page


def test_rectangles(matmul: str) -> None:
    page = Page(matmul)
    kinds = Counter((a["class"], a["data-block"]) for tag, a in page.elements if "data-block" in a)
    assert kinds == {
        **{("load", str(block)): 8 for block in range(6)},
        **{("store", str(block)): 1 for block in range(6)},
    }


def test_without_arguments() -> None:
    page = render_page(explain_example("matmul"), how_to_run="tilewright explain <x> --arg a=1")
    assert "Not recorded" in page
    assert "tilewright explain &lt;x&gt; --arg a=1" in page
    assert 'id="block"' not in page


def test_kernel_that_touches_nothing() -> None:
    found = explain_kernel(parse("entry @k() {\n  return\n}\n"))
    page = render_page(found, footprints_of(found, 2, []))
    assert "No tile block touches any memory." in page


def test_nothing_in_the_input_becomes_part_of_the_page(tmp_path) -> None:  # type: ignore[no-untyped-def]
    source = tmp_path / "</script><b>.py"
    source = tmp_path / "<b>&.py"
    source.write_text(f"{HOSTILE_TEXT}\n", encoding="utf-8")
    text = HOSTILE.replace("  return\n", f'  return loc("{source}":1:1)\n')
    found = explain_kernel(parse(text, "<i>name</i>.tileir"))
    page = render_page(found)
    counted = Counter(tag for tag, _ in Page(page).elements)
    assert counted["script"] == 2
    assert not {"img", "b", "i"} & set(counted)
    assert Page(page).rows["source-1"] == f"1{HOSTILE_TEXT}\n"
    assert Page(page).rows["tile-1"] == f"1{text.splitlines()[0]}\n"


def test_characters_that_hide_are_shown() -> None:
    found = explain_kernel(parse("// \u202ereversed\nentry @k() {\n  return\n}\n"))
    page = render_page(found)
    assert "\u202e" not in page
    assert "\ufffdreversed" in page


def _footprint(shape: tuple[int, ...], *boxes: tuple[tuple[int, int], ...]) -> Footprint:
    found = explain_kernel(parse("entry @k() {\n  return\n}\n"))
    blocks = {(0, 0, 0): dict.fromkeys(boxes)}
    return Footprint(found.kernel, "load", "%x", shape, blocks)


@pytest.mark.parametrize(
    ("shape", "box", "place", "notes"),
    [
        ((10,), ((2, 5),), (36, 0, 54, 34), ()),
        ((1000,), ((500, 1000),), (280, 0, 280, 34), ()),
        ((100, 200), ((0, 50), (100, 200)), (280, 0, 280, 140), ()),
        ((4, 100, 200), ((1, 2), (0, 50), (100, 200)), (280, 0, 280, 140), ("last two of 3",)),
        ((), (), (0, 0, 18, 34), ()),
    ],
)
def test_drawing_is_to_scale(
    shape: tuple[int, ...],
    box: tuple[tuple[int, int], ...],
    place: tuple[float, float, float, float],
    notes: tuple[str, ...],
) -> None:
    access = _footprint(shape, box)
    (drawing,) = draw_tensors([access], [(0, 0, 0)], {access: "7"})
    found = re.search(
        r'<rect class="load" data-block="0" data-links="7" x="(.*)" y="(.*)" width="(.*)" '
        r'height="(.*)"/>',
        drawing.svg,
    )
    assert found is not None
    assert tuple(map(float, found.groups())) == pytest.approx(place, abs=0.05)
    assert all(note in " ".join(drawing.notes) for note in notes)
    assert len(drawing.notes) == len(notes)


def test_thin_tensors_say_that_scales_differ() -> None:
    access = _footprint((2, 4000), ((0, 1), (0, 4000)))
    (drawing,) = draw_tensors([access], [(0, 0, 0)], {access: ""})
    assert drawing.notes == ("Rows and columns are drawn at different scales.",)


def test_drawings_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.explain import footprint_drawing

    monkeypatch.setattr(footprint_drawing, "MAX_RECTANGLES", 3)
    access = _footprint((10,), *(((n, n + 1),) for n in range(5)))
    (drawing,) = draw_tensors([access], [(0, 0, 0)], {access: ""})
    assert drawing.svg.count("data-block") == 3
    assert drawing.notes == ("2 rectangles are left out of the drawing.",)


def test_what_is_left_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.explain import footprints

    monkeypatch.setattr(footprints, "MAX_ACCESSES", 2)
    found = explain_example("softmax")
    x, out = (np.zeros((64, 200), np.float32) for _ in range(2))
    told = record_footprints(found.module, None, 16, [x, out, 64, 200])
    assert "30 more accesses were not recorded." in render_page(found, told)
