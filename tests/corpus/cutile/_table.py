"""How a theme registers its kernels: a table, signature shorthands, input generators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuda.tile as ct
import ml_dtypes
import numpy as np
from cuda.tile.compilation import ArrayConstraint, ScalarConstraint
from tests.corpus import CorpusKernel, Launch, cutile_release

NUMPY_TYPES: dict[Any, np.dtype] = {
    ct.bool_: np.dtype(np.bool_),
    ct.int8: np.dtype(np.int8),
    ct.int16: np.dtype(np.int16),
    ct.int32: np.dtype(np.int32),
    ct.int64: np.dtype(np.int64),
    ct.uint8: np.dtype(np.uint8),
    ct.uint16: np.dtype(np.uint16),
    ct.uint32: np.dtype(np.uint32),
    ct.uint64: np.dtype(np.uint64),
    ct.float16: np.dtype(np.float16),
    ct.bfloat16: np.dtype(ml_dtypes.bfloat16),
    ct.float32: np.dtype(np.float32),
    ct.float64: np.dtype(np.float64),
    ct.float8_e4m3fn: np.dtype(ml_dtypes.float8_e4m3fn),
    ct.float8_e5m2: np.dtype(ml_dtypes.float8_e5m2),
    ct.float8_e8m0fnu: np.dtype(ml_dtypes.float8_e8m0fnu),
}
"""The NumPy type of one element in memory, for the types that a launch can pass in arrays."""


#: A number of worker warps that asks for bytecode 13.5, where cuTile knows one.
FEW_WARPS = 2 if cutile_release() >= (1, 7) else 8


class KernelTable(list[CorpusKernel]):
    """The kernels of one theme, in the order of registration."""

    def __init__(self, theme: str) -> None:
        super().__init__()
        self.theme = theme

    def register(
        self,
        kernel: Any,
        *parameters: Any,
        ops: str,
        name: str | None = None,
        since: str = "13.1",
        launch: Launch | None = None,
        refusal: str = "",
    ) -> None:
        """Add one entry; `ops` are mnemonics between spaces, `name` is the function's by default."""
        self.append(
            CorpusKernel(
                name=name or kernel._pyfunc.__name__,
                theme=self.theme,
                kernel=kernel,
                parameters=parameters,
                ops=frozenset(ops.split()),
                since=since,
                launch=launch,
                refusal=refusal,
            )
        )

    def add(
        self, *parameters: Any, cutile: tuple[int, ...] = (1, 6), **entry: Any
    ) -> Callable[[Any], Any]:
        """The same as a decorator above `@ct.kernel`, with the keywords of `register`.

        `cutile` is the first release of cuTile that compiles the kernel; an older one leaves it out.
        """

        def decorate(kernel: Any) -> Any:
            if cutile_release() >= cutile:
                self.register(kernel, *parameters, **entry)
            return kernel

        return decorate


def array(dtype: Any, ndim: int = 1, **assumptions: Any) -> ArrayConstraint:
    """An array whose last axis is contiguous and that shares no memory with any other."""
    defaults = {
        "index_dtype": ct.int32,
        "stride_lower_bound_incl": 0,
        "alias_groups": (),
        "may_alias_internally": False,
        "stride_constant": (None,) * (ndim - 1) + (1,) if ndim else None,
    }
    return ArrayConstraint(dtype, ndim, **(defaults | assumptions))


def strided(dtype: Any, ndim: int = 1, **assumptions: Any) -> ArrayConstraint:
    """An array of which no stride is known at compile time."""
    return array(dtype, ndim, **({"stride_constant": None} | assumptions))


def scalar(dtype: Any) -> ScalarConstraint:
    """A run-time scalar."""
    return ScalarConstraint(dtype)


def integers(
    rng: np.random.Generator,
    shape: int | tuple[int, ...],
    low: int,
    high: int,
    dtype: Any = np.int32,
) -> np.ndarray:
    """Integers from `low` to `high`, both included, held in any element type."""
    return rng.integers(low, high, shape, dtype=np.int64, endpoint=True).astype(dtype)


def uniform(
    rng: np.random.Generator,
    shape: int | tuple[int, ...],
    low: float = -1.0,
    high: float = 1.0,
    dtype: Any = np.float32,
) -> np.ndarray:
    """Values spread evenly from `low` to `high`, rounded to the element type."""
    return rng.uniform(low, high, shape).astype(dtype)


def canvas(shape: int | tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """An output before the launch: a value that shows where nothing was stored."""
    return np.full(shape, 77).astype(dtype)


def ceil_div(dividend: int, divisor: int) -> int:
    """The quotient rounded up."""
    return -(-dividend // divisor)
