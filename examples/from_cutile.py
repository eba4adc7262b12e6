"""A kernel from cuTile Python to a result, without a GPU."""
# $ python examples/from_cutile.py
#
# cuTile's own front end compiles the Python function to Tile IR bytecode; Tilewright reads, checks,
# prints and runs it. Needs the ``cutile`` extra: ``pip install tilewright[cutile]``.

from __future__ import annotations

import io

import cuda.tile as ct
import numpy as np
from cuda.tile.compilation import (
    ArrayConstraint,
    CallingConvention,
    KernelSignature,
    export_kernel,
)

import tilewright

ROWS, COLUMNS, TILE = 100, 70, 32


@ct.kernel
def scale_rows(x, factors, out):
    """out[i, j] = x[i, j] * factors[i]"""
    i, j = ct.bid(0), ct.bid(1)
    tile = ct.load(x, index=(i, j), shape=(TILE, TILE), padding_mode=ct.PaddingMode.ZERO)
    factor = ct.load(factors, index=(i,), shape=(TILE,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, index=(i, j), tile=tile * factor.reshape((TILE, 1)))


def contiguous(ndim: int) -> ArrayConstraint:
    """A float32 array of any extents whose last stride is 1 and that overlaps no other."""
    return ArrayConstraint(
        ct.float32,
        ndim,
        index_dtype=ct.int32,
        stride_lower_bound_incl=0,
        stride_constant=[None] * (ndim - 1) + [1],
        alias_groups=(),
        may_alias_internally=False,
    )


def export() -> bytes:
    """The kernel's bytecode."""
    parameters = [contiguous(2), contiguous(1), contiguous(2)]
    signature = KernelSignature(parameters, CallingConvention.cutile_python_v2())
    signature = signature.with_mangled_symbol("scale_rows")
    out = io.BytesIO()
    # With a version and without a GPU cuTile looks for no compiler of NVIDIA's to ask.
    export_kernel(
        scale_rows, [signature], out, output_format="tileir_bytecode", bytecode_version="13.3"
    )
    return out.getvalue()


def array_arguments(array: np.ndarray) -> list[object]:
    """How cuTile passes an array: its memory, then its shape, then its strides in elements."""
    strides = [step // array.itemsize for step in array.strides]
    return [array, *array.shape, *strides]


def main() -> None:
    module = tilewright.read(export(), "scale_rows.tileirbc")
    tilewright.verify(module)
    print(tilewright.print_text(module, bare=True))

    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, COLUMNS), dtype=np.float32)
    factors = rng.standard_normal(ROWS, dtype=np.float32)
    out = np.zeros_like(x)
    arguments = [*array_arguments(x), *array_arguments(factors), *array_arguments(out)]
    grid = (-(-ROWS // TILE), -(-COLUMNS // TILE), 1)
    tilewright.run(module, None, grid, arguments)

    np.testing.assert_array_equal(out, x * factors[:, None])
    print(f"scale_rows on a grid of {grid}: equal to NumPy, element by element")


if __name__ == "__main__":
    main()
