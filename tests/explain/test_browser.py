"""The page of a kernel in a real browser: pointing, keys, links, both colour schemes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.explain.browser import Browser, executable
from tests.explain.kernels import HOSTILE, matmul_page

from tilewright import parse
from tilewright.explain.levels import explain_kernel
from tilewright.explain.page import render_page

pytestmark = pytest.mark.skipif(executable() is None, reason="no Chromium is installed")

LOAD, CASTS_AND_LOAD = "tile-19", ["lowered-24", "lowered-25", "lowered-26"]
LIT = "[...document.querySelectorAll('.level:not([hidden]) .row.lit')].map(row => row.id)"
HERE = "document.getElementById('here').innerText"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = executable()
    assert program is not None
    with Browser(program) as found:
        yield found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "matmul.html"
    path.write_text(matmul_page(), encoding="utf-8")
    return path


@pytest.fixture
def matmul(browser: Browser, page: Path) -> Iterator[Browser]:
    """The page, freshly loaded; whatever a test does, nothing is complained of or fetched."""
    browser.open(page)
    yield browser
    assert browser.complaints() == []
    assert browser.requests() == [page.as_uri()]


def visible(browser: Browser, row: str) -> bool:
    """Whether a line is inside what its level shows."""
    return browser.value(
        f"(() => {{ const row = document.getElementById('{row}').getBoundingClientRect();"
        f" const box = document.getElementById('{row}').parentElement.getBoundingClientRect();"
        " return row.top >= box.top && row.bottom <= box.bottom; })()"
    )


def test_pointing_at_a_line_lights_all_levels(matmul: Browser) -> None:
    assert matmul.value(LIT) == []
    matmul.point_at(f"#{LOAD}")
    lit = matmul.value(LIT)
    assert [row for row in lit if not row.startswith("final")] == [LOAD, *CASTS_AND_LOAD]
    assert [row for row in lit if row.startswith("final")] == ["final-20", "final-23", "final-24"]
    matmul.point_at("#final-26")
    assert matmul.value(LIT) == ["tile-21", "lowered-29", "final-26"]
    matmul.point_at("h1")
    assert matmul.value(LIT) == []


def test_lines_are_scrolled_into_view(matmul: Browser) -> None:
    matmul.value("document.querySelectorAll('.lines').forEach(box => box.style.height = '120px')")
    matmul.point_at("#tile-3")
    matmul.value("document.querySelectorAll('.lines').forEach(box => box.scrollTop = 0)")
    assert not visible(matmul, "final-31")
    matmul.point_at("#tile-24")
    assert matmul.value(LIT)[-1] == "final-31"
    assert visible(matmul, "lowered-32")
    assert visible(matmul, "final-29")


def test_facts_at_a_line(matmul: Browser) -> None:
    matmul.point_at("#lowered-4")
    text = matmul.value(HERE)
    assert "Facts at line 4 of nv_tileaa, as lowered" in text
    assert "%row: [0, 2]" in text
    assert "%row: uniform" in text
    assert "nv_tileaa, after the passes, line 4" in text
    matmul.value(
        "(() => { const box = document.getElementById('analysis'); box.value = 'ranges';"
        " box.dispatchEvent(new Event('change')); })()"
    )
    matmul.point_at("#lowered-5")
    text = matmul.value(HERE)
    assert "%column: [0, 1]" in text
    assert "uniform" not in text
    listed = matmul.value("document.getElementById('remarks').innerText")
    assert "%row: [0, 2]" in listed
    assert "uniform" not in listed


def test_click_pins_until_escape(matmul: Browser) -> None:
    matmul.click(f"#{LOAD}")
    pinned = matmul.value(LIT)
    assert LOAD in pinned
    matmul.point_at("#tile-5")
    assert matmul.value(LIT) == pinned
    assert matmul.value(f"document.getElementById('{LOAD}').ariaSelected") == "true"
    matmul.press("Escape")
    assert matmul.value("document.querySelectorAll('.pinned').length") == 0
    matmul.point_at("#tile-6")
    assert "tile-6" in matmul.value(LIT)


def test_keyboard(matmul: Browser) -> None:
    focused = "document.activeElement.id"
    matmul.value("document.querySelector('#level-tile .row[tabindex=\"0\"]').focus()")
    start = int(matmul.value(focused).removeprefix("tile-"))
    for _ in range(19 - start):
        matmul.press("ArrowDown")
    assert matmul.value(focused) == LOAD
    assert matmul.value(LIT)[1:4] == CASTS_AND_LOAD
    matmul.press("ArrowRight")
    assert matmul.value(focused) in CASTS_AND_LOAD
    matmul.press("Enter")
    assert matmul.value("document.querySelector('.pinned').id") in CASTS_AND_LOAD
    matmul.press("End")
    assert matmul.value(focused) == "lowered-37"
    assert LOAD in matmul.value(LIT)
    matmul.press("Escape")
    # One stop of the Tab key for each level.
    assert (
        matmul.value(
            "document.querySelectorAll('.level:not([hidden]) .row[tabindex=\"0\"]').length"
        )
        == 3
    )


def test_tokens_lead_to_lines(matmul: Browser) -> None:
    matmul.point_at('.tokens a[href="#final-31"] text')
    assert "tile-24" in matmul.value(LIT)
    matmul.click('.tokens a[href="#final-31"] text')
    assert matmul.value("document.querySelector('.pinned').id") == "final-31"
    assert matmul.value("document.querySelectorAll('.tokens a.lit').length") == 2
    assert visible(matmul, "final-31")


def test_levels_can_be_hidden(matmul: Browser) -> None:
    matmul.click('input[data-shows="level-lowered"]')
    assert matmul.value("document.getElementById('level-lowered').offsetWidth") == 0
    # A link to a line of a hidden level brings it back.
    matmul.click('.tokens a[href="#lowered-34"] text')
    assert matmul.value("document.getElementById('level-lowered').offsetWidth") > 0
    assert matmul.value("document.querySelector('.pinned').id") == "lowered-34"
    matmul.click("#wrap")
    matmul.press("Escape")
    for level in ("tile", "lowered", "final"):
        box = f"document.querySelector('#level-{level} .lines')"
        assert matmul.value(f"{box}.scrollWidth <= {box}.clientWidth")


def test_tile_blocks(matmul: Browser) -> None:
    chosen = "[...document.querySelectorAll('rect.on')].map(rect => rect.dataset.block)"
    assert set(matmul.value(chosen)) == {"0"}
    matmul.value("document.getElementById('block').focus()")
    matmul.press("ArrowRight")
    assert matmul.value(chosen) == ["1"] * 9
    assert matmul.value("document.getElementById('block-name').textContent") == "(1, 0, 0)"
    touched = matmul.value("document.getElementById('touched').innerText")
    assert "store of %c[64:128, 0:64]" in touched
    matmul.press("End")
    assert "store of %c[128:150, 64:90]" in matmul.value(
        "document.getElementById('touched').innerText"
    )
    matmul.click('rect.store[data-block="0"]')
    assert matmul.value("document.getElementById('block').value") == "0"
    matmul.click("#touched a")
    assert matmul.value("document.querySelector('.pinned').id") == LOAD
    # The line and what it touches light up together.
    assert matmul.value("document.querySelectorAll('rect.on.lit').length") == 4


def test_narrow_windows(matmul: Browser) -> None:
    """Only the levels are scrolled sideways, not the page."""
    matmul.resize(600, 900)
    assert matmul.value("document.documentElement.scrollWidth <= innerWidth")
    matmul.resize(1600, 1200)


def test_address_of_a_line(browser: Browser, page: Path) -> None:
    browser.open(page, "#final-31")
    assert browser.value("document.querySelector('.pinned').id") == "final-31"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(matmul: Browser, scheme: str) -> None:
    """Every colour of text has the contrast of 4.5 that WCAG asks for, lit lines included."""
    matmul.prefer(scheme)
    matmul.click(f"#{LOAD}")
    matmul.value("document.querySelectorAll('details').forEach(part => part.open = true)")
    ratios = matmul.value(_CONTRASTS)
    assert len(ratios) > 8
    low = {words: ratio for words, ratio in ratios.items() if ratio < 4.5}
    assert not low
    page_is_dark = (
        matmul.value("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    )
    assert page_is_dark == (scheme == "dark")


def test_nothing_of_the_input_runs(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(render_page(explain_kernel(parse(HOSTILE))), encoding="utf-8")
    browser.open(path)
    assert browser.value("document.title") == "Kernel hostile"
    assert browser.value("document.querySelectorAll('img').length") == 0
    assert browser.complaints() == []
    assert browser.requests() == [path.as_uri()]


# For each pair of text colour and class the ratio of its luminance to that of what is behind it;
# half-transparent backgrounds are laid over those around them.
_CONTRASTS = """
(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const over = (colors) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const color of colors) { canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = {};
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const part = node.parentElement;
    if (!node.data.trim() || !part.offsetParent || part.closest("svg, option")) continue;
    const behind = [];
    for (let at = part; at; at = at.parentElement) behind.unshift(getComputedStyle(at).backgroundColor);
    const color = getComputedStyle(part).color;
    const [one, two] = [luminance(over(behind)), luminance(over([...behind, color]))];
    const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    const key = `${part.tagName}.${part.className} in ${part.parentElement.className}: ${color} on ${over(behind)}`;
    found[key] = Math.min(found[key] ?? 99, ratio);
  }
  return found;
})()
"""
