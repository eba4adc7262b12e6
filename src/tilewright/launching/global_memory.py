"""The globals of a module: their initial contents, and arrays over their memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tilewright.launching.storage import storage_of
from tilewright.numerics.arrays import Array, dtype_of


@dataclass(frozen=True, slots=True)
class GlobalMemory:
    """A global with its initial contents."""

    name: str
    data: bytes
    element: str
    alignment: int
    is_constant: bool = False
    is_private: bool = False


def public_global(name: str, held: Iterable[GlobalMemory], memory: Callable[[str], Array]) -> Array:
    """The contents of a public global: an array over its memory, which ``memory`` returns as bytes.

    4-bit elements stay packed in bytes, and i1 are bytes. Raises ``KeyError`` if there is no public global of that
    name.
    """
    public = {each.name: each for each in held if not each.is_private}
    found = public.get(name)
    if found is None:
        known = ", ".join(public) or "none"
        raise KeyError(f"the module has no public global '{name}'; public globals: {known}")
    raw = memory(name).view(storage_of(found.element).raw)
    dtype = dtype_of(found.element)
    return raw.view(dtype) if raw.itemsize == dtype.itemsize and dtype != np.bool_ else raw
