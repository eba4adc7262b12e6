"""Extracts what is known of a type as plain values, for ``tilewright explain``."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from xdsl.ir import Attribute

from tilewright.bytecode.format import TYPE_SINCE, TypeTag
from tilewright.cli.op_facts import Facts
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.enums import PaddingValue
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.dialects.versions import format_version
from tilewright.numerics import FORMATS, ElementFormat

_TENSOR = T.TensorViewType(T.ELEMENT_TYPES["f32"], (T.DYNAMIC, 64), (64, 1))

#: A sample of each type class, to show its syntax.
_SAMPLES: dict[type[Attribute], Callable[[], Attribute]] = {
    T.TileType: lambda: T.TileType((16, 32), T.ELEMENT_TYPES["f32"]),
    T.PtrType: lambda: T.PtrType(T.ELEMENT_TYPES["f32"]),
    T.TokenType: lambda: T.TOKEN,
    T.TensorViewType: lambda: _TENSOR,
    T.PartitionViewType: lambda: T.PartitionViewType(
        (16, 32), _TENSOR, padding_value=PaddingValue.ZERO
    ),
    T.StridedViewType: lambda: T.StridedViewType((16, 32), (8, 32), _TENSOR),
    T.GatherScatterViewType: lambda: T.GatherScatterViewType((16, 32), _TENSOR, 0),
}


def type_names() -> list[str]:
    """Return every type by its spelling: those of the dialect, then the element types."""
    return [*_classes(), *FORMATS]


def type_facts(name: str) -> Facts | None:
    """Return what is known of the type spelled ``name``, or None if there is no such type."""
    if name in FORMATS:
        return _element_facts(FORMATS[name])
    cls = _classes().get(name)
    return None if cls is None else _class_facts(name, cls)


def _classes() -> dict[str, type[Attribute]]:
    return {cls.name.removeprefix("cuda_tile."): cls for cls in _SAMPLES}


def _class_facts(name: str, cls: type[Attribute]) -> Facts:
    text = inspect.cleandoc(cls.__doc__ or "")
    return {
        "kind": "type",
        "name": name,
        "summary": text.partition("\n")[0],
        "description": text,
        "since": format_version(TYPE_SINCE[TypeTag[name.upper()]]),
        "example": format_type(_SAMPLES[cls]()),
    }


def _element_facts(form: ElementFormat) -> Facts:
    facts: Facts = {
        "kind": "element type",
        "name": form.name,
        "since": format_version(form.since),
        "bits": form.bits,
        "storage_bits": form.storage_bits,
        "has_constants": form.constant_bytes is not None,
    }
    if form.is_int:
        return facts | {"summary": f"Integer of {form.bits} bits; operations say how to read it."}
    return facts | {
        "summary": f"Floating point number of {form.bits} bits.",
        "signed": form.signed,
        "exponent_bits": form.exponent_bits,
        "mantissa_bits": form.mantissa_bits,
        "bias": form.bias,
        "has_zero": form.has_zero,
        "has_infinity": form.has_inf,
        "has_nan": form.nan != "none",
        "smallest_normal": 2.0**form.min_exponent,
        "largest": _largest(form),
    }


def _largest(form: ElementFormat) -> float:
    mantissa = form.max_finite_bits & ((1 << form.mantissa_bits) - 1)
    return (1 + mantissa / (1 << form.mantissa_bits)) * 2.0**form.max_exponent
