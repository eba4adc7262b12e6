"""The parameters of a compiled kernel, in the order of its PTX."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Attribute

#: The size and the alignment of a tensor map, in bytes.
TENSOR_MAP_BYTES, TENSOR_MAP_ALIGNMENT = 128, 64


@dataclass(frozen=True, slots=True)
class Field:
    """A PTX parameter: ``what`` part of its argument it is, and its size in bytes."""

    what: str
    size: int


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument of the kernel, and the PTX parameters that it becomes.

    A memref becomes, as upstream defines it, the pointer twice (`allocated` and `aligned`), the `offset`, then each
    `size` and each `stride`, in elements, as 64-bit integers. A number is one `value`, a pointer one `pointer`, a
    tensor map one `tensor_map`, the object itself.
    """

    name: str
    type: Attribute
    fields: tuple[Field, ...]
