"""Whatever arguments a kernel gets, its run ends, and ends well or in a diagnostic."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from tests.corpus import CUTILE_MISSING, CorpusKernel, cutile_available, cutile_kernels

from tilewright import LaunchOptions
from tilewright.bytecode import read
from tilewright.diagnostics import TileIRError
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.ops.module import EntryOp
from tilewright.launching.accepted import ARRAY_DTYPES
from tilewright.machine import Program

pytestmark = pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING)

KERNELS = [k for k in cutile_kernels() if not k.refusal] if cutile_available() else []


def _arbitrary_arguments(entry: EntryOp, rng: np.random.Generator) -> list[Any]:
    """Arrays of any length and bytes; scalars that are small, as extents and strides are."""
    found: list[Any] = []
    for parameter in entry.block.args:
        assert isinstance(parameter.type, T.TileType)
        pointer = parameter.type.element_type
        element = parameter.type.element
        if isinstance(pointer, T.PtrType):
            dtype = ARRAY_DTYPES[T.element_name(pointer.pointee)][0]
            high = 2 if dtype == np.bool_ else 256
            size = int(rng.integers(0, 600)) * 8 * dtype.itemsize
            found.append(rng.integers(0, high, size, dtype=np.uint8).view(dtype))
        elif element == "i1":
            found.append(bool(rng.integers(2)))
        elif element.startswith("i"):
            found.append(int(rng.choice([0, 1, 1, 2, 4, 8, 16, 64])))
        else:
            found.append(float(rng.choice([0, 1, 2, 0.5])))
    return found


@pytest.mark.rotates(3)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_any_arguments(kernel: CorpusKernel):
    module = read(kernel.export(kernel.versions[-1]))
    program = Program(module)
    for trial in range(2):
        arguments = _arbitrary_arguments(module.entry(), np.random.default_rng(trial))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                program.launch(
                    None, (2,), arguments, options=LaunchOptions(seed=trial, max_iterations=2000)
                )
            except TileIRError as error:
                assert all(d.code for d in error.diagnostics)
