"""Kernels of cuTile explained: every line has its origin, and what was written lies in footprints.

Every seventh kernel of the corpus is taken; the order of the corpus mixes the themes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from tests.corpus import CUTILE_MISSING, CorpusKernel, cutile_available, cutile_kernels
from tests.corpus.launching import flat_arguments
from tests.explain.kernels import tile_levels

from tilewright.bytecode import read
from tilewright.explain.footprints import Footprints, record_footprints
from tilewright.explain.levels import Explanation, explain_kernel
from tilewright.explain.page import render_page

pytestmark = pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING)

KERNELS = (
    [k for k in cutile_kernels() if k.launch is not None and not k.refusal]
    if cutile_available()
    else []
)


class _TableOfArraysError(Exception):
    """The kernel takes a list of arrays, whose addresses only a program can give."""


def _no_address(array: np.ndarray) -> int:
    raise _TableOfArraysError


@pytest.mark.rotates(2)
@pytest.mark.parametrize("kernel", KERNELS[::7], ids=lambda kernel: kernel.name)
def test_kernel_is_explained(kernel: CorpusKernel) -> None:
    assert kernel.launch is not None
    found = explain_kernel(read(kernel.export()), grid=kernel.launch.grid, below=())
    assert tile_levels(found) == ["source", "tile", "lowered", "final"]
    for level in found.levels[2:]:
        for line in level.lines:
            text = line.text.strip()
            assert line.links or not text or text[0] in "}^", text
    try:
        values = flat_arguments(kernel, kernel.launch.arguments(), _no_address)
    except _TableOfArraysError:
        render_page(found)
        return
    before = {index: np.copy(v) for index, v in enumerate(values) if isinstance(v, np.ndarray)}
    told = record_footprints(found.module, None, kernel.launch.grid, values)
    render_page(found, told)
    _check_writes(found, told, before, values)


def _check_writes(
    found: Explanation, told: Footprints, before: Mapping[int, np.ndarray], values: list[Any]
) -> None:
    """Elements that changed lie in boxes of stores or atomics."""
    written: dict[str, list[Any]] = defaultdict(list)
    for access in told.accesses:
        if access.kind != "load":
            written[access.tensor] += [box for boxes in access.boxes.values() for box in boxes]
    arrays = [v for v in values if isinstance(v, np.ndarray)]
    for index, old in before.items():
        # Where memory is shared, another argument may be named.
        if sum(np.shares_memory(values[index], other) for other in arrays) > 1:
            continue
        new = values[index]
        bits = np.dtype(f"V{new.itemsize}")
        changed = np.ascontiguousarray(new).view(bits) != np.ascontiguousarray(old).view(bits)
        name = found.tile_kernel.block.args[index].name_hint
        for box in written[f"%{name}"]:
            changed[tuple(slice(low, high) for low, high in box)] = False
        assert not changed.any(), name
