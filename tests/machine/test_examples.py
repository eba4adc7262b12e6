"""Every operation's examples run on the machine, and the sanitizer finds nothing in them."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
from tilewright.dialects.cuda_tile import load
from tilewright.dialects.cuda_tile.base import OPERATIONS
from tilewright.dialects.cuda_tile.examples import ELEMENTS, N, wrap
from tilewright.dialects.cuda_tile.types import PtrType, TileType
from tilewright.numerics.arrays import dtype_of

load()

EXAMPLES = [
    pytest.param(mnemonic, text, id=f"{mnemonic}-{number}")
    for mnemonic, cls in OPERATIONS.items()
    for number, text in enumerate(cls.EXAMPLES)
]


def argument(ty: object) -> object:
    """Zeros behind a pointer; ``N`` for a number."""
    assert isinstance(ty, TileType)
    if isinstance(ty.element_type, PtrType):
        element = TileType((), ty.element_type.pointee).element
        return np.zeros(ELEMENTS, dtype_of(element))
    return N


@pytest.mark.parametrize(("mnemonic", "text"), EXAMPLES)
def test_example_runs_clean(mnemonic: str, text: str) -> None:
    module = tilewright.parse(wrap(text))
    for entry in module.entries:
        types = entry.function_type_value.inputs.data
        report = tilewright.sanitize(module, entry.symbol, (1, 1, 1), [argument(t) for t in types])
        assert [d.brief() for d in report.diagnostics] == []
        assert report.result is not None
