"""The kernels of the corpus, launched from Python as cuTile launches them."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from cuda.tile.compilation import ConstantConstraint, TupleConstraint
from tests.corpus import CorpusKernel, cutile_kernels
from tests.corpus.launching import check_outputs

from tilewright.cutile import launch

#: What is exported for arguments that no launch can give.
_NOT_LAUNCHABLE = {
    "scalars": "its parameters are scalars of types that Python has no numbers of",
    "extreme_hints": "cuTile 1.7 writes a version that one of its hints is too new for",
}
KERNELS = [k for k in cutile_kernels() if k.launch is not None and k.name not in _NOT_LAUNCHABLE]


def _argument(value: Any, constraint: Any) -> Any:
    """The argument as a program gives it: constants in their places, plain Python numbers."""
    if isinstance(constraint, TupleConstraint):
        return tuple(_argument(v, c) for v, c in zip(value, constraint.items, strict=True))
    if isinstance(constraint, ConstantConstraint):
        return constraint.value
    return value.item() if isinstance(value, np.generic) else value


@pytest.mark.rotates(3)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_launched_from_python(kernel: CorpusKernel) -> None:
    assert kernel.launch is not None
    before, after = kernel.launch.arguments(), kernel.launch.arguments()
    names = inspect.signature(kernel.kernel._pyfunc).parameters
    arguments = tuple(
        _argument(after.get(name), constraint)
        for name, constraint in zip(names, kernel.signature().parameters, strict=True)
    )
    launch(0, kernel.launch.grid, kernel.kernel, arguments)
    assert not check_outputs(kernel.launch, before, after)


def test_what_is_left_out_is_in_the_corpus() -> None:
    assert _NOT_LAUNCHABLE.keys() <= {kernel.name for kernel in cutile_kernels()}
