"""Arrays of other libraries as NumPy arrays over the same memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.diagnostics import SourceLocation, TileIRError
from tilewright.launching.codes import BAD_ARGUMENT

#: The torch dtypes that NumPy lacks: an integer type of the same size, and the dtype of ml_dtypes.
_TORCH_ONLY: Mapping[str, tuple[str, np.dtype[Any]]] = MappingProxyType(
    {
        "torch.bfloat16": ("int16", np.dtype(ml_dtypes.bfloat16)),
        "torch.float8_e4m3fn": ("uint8", np.dtype(ml_dtypes.float8_e4m3fn)),
        "torch.float8_e5m2": ("uint8", np.dtype(ml_dtypes.float8_e5m2)),
        "torch.float8_e8m0fnu": ("uint8", np.dtype(ml_dtypes.float8_e8m0fnu)),
    }
)
#: Types that need no conversion.
_PLAIN = frozenset({np.ndarray, int, float, bool})


def in_numpy(
    args: Sequence[object], location: Callable[[], SourceLocation | None]
) -> Sequence[object]:
    """Convert the arrays of other libraries to NumPy arrays over the same memory.

    Raises ``TileIRError`` (``bad-argument``) if the host cannot access the memory; ``location`` is asked for the
    kernel's then.
    """
    if not isinstance(args, tuple | list) or all(type(value) in _PLAIN for value in args):
        return args
    return [
        value if type(value) in _PLAIN else as_array(value, f"argument {number}", location)
        for number, value in enumerate(args)
    ]


def as_array(
    value: Any, name: str, location: Callable[[], SourceLocation | None] = lambda: None
) -> Any:
    """Convert a torch tensor or DLPack object to a NumPy array over the same memory; other values are returned as they
    are.

    Raises ``TileIRError`` (``bad-argument``) if the host cannot access the memory.
    """
    if isinstance(value, np.ndarray | np.generic | int | float) or value is None:
        return value
    torch = sys.modules.get("torch")
    try:
        if torch is not None and isinstance(value, torch.Tensor):
            return _from_torch(value, torch)
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
    except (TypeError, RuntimeError, BufferError, ValueError) as error:
        raise TileIRError.single(
            BAD_ARGUMENT,
            f"{name} cannot be used where it is: {error}",
            location(),
            help="pass an array in host memory",
        ) from None
    return value


def _from_torch(tensor: Any, torch: Any) -> Any:
    if tensor.requires_grad:
        tensor = tensor.detach()
    only = _TORCH_ONLY.get(str(tensor.dtype))
    if only is None:
        return tensor.numpy()
    integer, dtype = only
    return tensor.view(getattr(torch, integer)).numpy().view(dtype)
