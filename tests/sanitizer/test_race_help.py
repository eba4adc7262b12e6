"""The help of a race names the access that would have ordered its two sides."""

from __future__ import annotations

import pytest
from tests.sanitizer.cases import FOLDER, load
from tests.sanitizer.test_bugs import findings

from tilewright.diagnostics import Span


@pytest.mark.parametrize(
    ("kind", "help"),
    [
        ("race-flag-relaxed", "make the relaxed store at FILE:16 release and the relaxed load at FILE:19 acquire"),
        ("race-flag-relaxed-consumer", "make the relaxed load at FILE:19 acquire"),
        ("race-flag-relaxed-producer", "make the relaxed store at FILE:16 release"),
        ("race-lock-relaxed", "make the relaxed atomic at FILE:12 acquire"),
        ("race-unlock-relaxed", "make the relaxed store at FILE:22 release"),
        ("race-barrier-relaxed", "make the relaxed atomic at FILE:14 acq_rel"),
        (
            "race-flag-scope-one-side",
            "make the acquire load with scope tl_blk at FILE:20 of device scope",
        ),
    ],
)  # fmt: skip
def test_the_access_that_lacks_an_ordering_is_named(kind: str, help: str) -> None:
    case = load(FOLDER / f"{kind}.tileir")
    helps = [d.help for d in findings(case, "bug", range(4)) if d.code == "race"]
    wanted = f"{help.replace('FILE', f'{kind}.tileir')}, so that (1) happens before (2)"
    assert wanted in helps


def test_it_is_shown_in_a_note() -> None:
    case = load(FOLDER / "race-flag-relaxed-producer.tileir")
    (race,) = (d for d in findings(case, "bug", range(4)) if d.code == "race")
    (note,) = (n for n in race.notes if n.message.startswith("(3)"))
    assert note.message == "(3) this relaxed store must be release"
    assert isinstance(note.location, Span)
    assert note.location.line == 16


@pytest.mark.parametrize(
    "kind",
    ["race-release-without-token", "race-split-k", "race-load-after-store", "race-histogram"],
)
def test_where_no_ordering_lacks_none_is_named(kind: str) -> None:
    case = load(FOLDER / f"{kind}.tileir")
    for found in findings(case, "bug", range(4)):
        assert "make the" not in found.help
        assert not any(note.message.startswith("(3)") for note in found.notes)
