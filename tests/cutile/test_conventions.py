"""Kernels exported by both of cuTile's calling conventions are read, checked and run."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from cuda.tile.compilation import (  # noqa: E402
    ArrayConstraint,
    CallingConvention,
    ConstantConstraint,
    KernelSignature,
    ScalarConstraint,
    TupleConstraint,
    export_kernel,
)

import tilewright  # noqa: E402
from tilewright.cutile import on  # noqa: E402

CONVENTIONS = {
    "v1": CallingConvention.cutile_python_v1(),
    "v2": CallingConvention.cutile_python_v2(),
}
VERSIONS = ["13.1", "13.2", "13.3", "13.4"]
ARRAY = ArrayConstraint(
    ct.float32,
    1,
    index_dtype=ct.int32,
    stride_lower_bound_incl=0,
    stride_constant=[1],
    alias_groups=(),
    may_alias_internally=False,
)


@ct.kernel
def scaled(x, out, factor, n: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (n,), padding_mode=ct.PaddingMode.ZERO) * factor)


@ct.kernel
def moved(pair, out):
    x, bias = pair
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (16,)) + bias)


def _exported(kernel: Any, parameters: Sequence[Any], convention: str, version: str) -> Any:
    signature = KernelSignature(parameters, CONVENTIONS[convention])
    out = io.BytesIO()
    export_kernel(
        kernel,
        [signature.with_mangled_symbol("kernel")],
        out,
        gpu_code="sm_100",
        output_format="tileir_bytecode",
        bytecode_version=version,
    )
    module = tilewright.read(out.getvalue())
    tilewright.verify(module)
    return module


def _passed(array: np.ndarray) -> list[object]:
    """An array of one dimension as both conventions pass it: memory, extent, stride."""
    return [array, array.size, 1]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_arrays_numbers_and_constants(convention: str, version: str) -> None:
    parameters = [ARRAY, ARRAY, ScalarConstraint(ct.float32), ConstantConstraint(16)]
    module = _exported(scaled, parameters, convention, version)
    x = np.arange(40, dtype=np.float32)
    out = np.zeros_like(x)
    tilewright.run(module, None, (3, 1, 1), [*_passed(x), *_passed(out), 2.5])
    np.testing.assert_array_equal(out, x * np.float32(2.5))


@pytest.mark.parametrize("version", VERSIONS)
def test_tuples(version: str) -> None:
    """The first convention has none; the second passes their items one after the other."""
    parameters = [TupleConstraint((ARRAY, ScalarConstraint(ct.float32))), ARRAY]
    with pytest.raises(ValueError, match="not supported by calling convention cutile_python_v1"):
        _exported(moved, parameters, "v1", version)
    module = _exported(moved, parameters, "v2", version)
    x = np.arange(32, dtype=np.float32)
    out = np.zeros_like(x)
    tilewright.run(module, None, (2, 1, 1), [*_passed(x), 1.5, *_passed(out)])
    np.testing.assert_array_equal(out, x + 1.5)


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_the_signature_of_arguments(convention: str) -> None:
    """cuTile's own question for the signature of a launch is answered without a GPU."""
    x = np.zeros(48, np.float32)
    with on("reference"):
        signature = KernelSignature.from_kernel_args(
            scaled, (x, x.copy(), 2.5, 16), CONVENTIONS[convention]
        )
    kinds = [type(parameter) for parameter in signature.parameters]
    assert kinds == [ArrayConstraint, ArrayConstraint, ScalarConstraint, ConstantConstraint]
    assert signature.calling_convention == CONVENTIONS[convention]
