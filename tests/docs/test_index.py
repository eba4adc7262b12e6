"""Every page is listed once in docs/index.md, is reached from README.md, and links to places that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INDEX = ROOT / "docs" / "index.md"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_ENTRY = re.compile(r"^\* \[[^\]]+\]\(([^)]+)\): (.+)$", re.MULTILINE)


def _text(page: Path) -> str:
    """A page without its code, in which brackets mean something else."""
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's titles, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", _text(page), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


def test_every_page_is_listed_once() -> None:
    listed = [(INDEX.parent / link).resolve() for link, _ in _ENTRY.findall(_text(INDEX))]
    assert len(listed) == len(set(listed))
    assert set(listed) == {*PAGES} - {INDEX, ROOT / "README.md"}


def test_entries_say_something() -> None:
    assert all(line.endswith(".") for _, line in _ENTRY.findall(_text(INDEX)))
    assert "](docs/index.md)" in _text(ROOT / "README.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(_text(page)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        assert not anchor or anchor in _anchors(target), link
