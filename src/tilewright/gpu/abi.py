"""The parameters of a compiled kernel, in the order of its PTX."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Attribute

#: The bytes of a tensor map, and to how many they are aligned.
TENSOR_MAP_BYTES, TENSOR_MAP_ALIGNMENT = 128, 64


@dataclass(frozen=True, slots=True)
class Field:
    """One parameter of PTX: ``what`` it is of its argument, and its bytes."""

    what: str
    size: int


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument of the kernel, and the parameters of PTX that it becomes.

    A memref becomes what upstream makes of it: the pointer twice, `allocated` and `aligned`, the
    `offset`, then each `size` and each `stride`, in elements of 64 bits. A number is one `value`, a pointer one `pointer`. A
    tensor map is a `tensor_map`, the object itself.
    """

    name: str
    type: Attribute
    fields: tuple[Field, ...]
