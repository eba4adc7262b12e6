"""How elements of tiles are dealt to threads."""

from __future__ import annotations

import pytest

from tilewright.lowering.nvgpu.layouts import Layout


def held(layout: Layout) -> list[int]:
    """The elements of all threads, by the description of the layout."""
    if layout.is_replicated:
        return [thread % layout.size for thread in range(layout.threads)]
    return [
        thread * layout.chunk + offset
        for thread in range(layout.threads)
        for offset in layout.offsets
    ]


@pytest.mark.parametrize("threads", [32, 128, 1024])
@pytest.mark.parametrize("size", [2**n for n in range(15)])
def test_every_element_is_held(size: int, threads: int) -> None:
    layout = Layout(size, threads)
    found = held(layout)
    assert sorted(set(found)) == list(range(size))
    assert len(found) == threads * layout.registers
    if size >= threads:
        assert len(set(found)) == len(found)


def test_chunks_are_side_by_side_and_rows_apart() -> None:
    assert Layout(1024, 32).offsets[:8] == (0, 1, 2, 3, 128, 129, 130, 131)
    assert Layout(64, 32).offsets == (0, 1)
