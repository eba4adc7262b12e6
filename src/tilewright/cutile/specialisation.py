"""What a kernel was compiled for, in words, and the names of the parameters that follow from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.cutile.parameters import (
    SCALAR_DTYPES,
    TRAITS,
    ArrayTraits,
    ConstantKey,
    is_array,
    is_close,
    is_list,
    is_open,
)


def entry_parameters(parameters: Sequence[str], key: Sequence[object]) -> list[str]:
    """The names of the parameters of the compiled entry, in order.

    ``parameters`` are those of the Python function. An array ``q`` is followed by ``q.shape.0``, ...,
    ``q.strides.0``, ...; a list ``xs`` by ``xs.length``; items of a tuple ``t`` are ``t.item.0``, ....
    Constants have no parameter.
    """
    items = iter(key)
    return [name for parameter in parameters for name in _names(parameter, next(items), items)]


def _names(name: str, item: Any, items: Iterator[Any]) -> Iterator[str]:
    if isinstance(item, ConstantKey):
        return
    if not is_open(item):
        yield name
    if is_array(item):
        rank = TRAITS[item].rank
        yield from (f"{name}.shape.{axis}" for axis in range(rank))
        yield from (f"{name}.strides.{axis}" for axis in range(rank))
    elif is_list(item):
        next(items)
        yield f"{name}.length"
    elif is_open(item):
        position = 0
        while not is_close(part := next(items)):
            yield from _names(f"{name}.item.{position}", part, items)
            position += 1


def described(parameters: Sequence[str], key: Sequence[object]) -> dict[str, str]:
    """What the kernel was compiled for, by Python parameter.

    ``float32[?, 16n] strides [4n, 1]`` is an array of which the second extent and the first stride
    are multiples; ``= 128`` a constant.
    """
    items = iter(key)
    return {parameter: _describe(next(items), items) for parameter in parameters}


def constants_in(parameters: Sequence[str], key: Sequence[object]) -> dict[str, object]:
    """The constants among the arguments, by Python parameter; those inside of tuples are left out."""
    items = iter(key)
    found: dict[str, object] = {}
    for parameter in parameters:
        item = next(items)
        if isinstance(item, ConstantKey):
            found[parameter] = item.value
        else:
            _describe(item, items)  # goes on to the next parameter
    return found


def _describe(item: Any, items: Iterator[Any]) -> str:
    if isinstance(item, ConstantKey):
        return f"= {item.value!r}"
    if is_array(item):
        return _describe_array(TRAITS[item])
    if is_list(item):
        return f"list of {_describe_array(TRAITS[next(items)])}"
    if is_open(item):
        parts: list[str] = []
        while not is_close(part := next(items)):
            parts.append(_describe(part, items))
        return f"({', '.join(parts)})"
    return SCALAR_DTYPES[item]


def _describe_array(traits: ArrayTraits) -> str:
    shape = _numbers(traits.constant_shape, traits.shape_divisors)
    words = [f"{traits.dtype}{shape}"]
    if traits.rank:
        words.append(f"strides {_numbers(traits.constant_strides, traits.stride_divisors)}")
    if traits.base_divisor == 1:
        words.append("at any address")
    if not traits.is_disjoint:
        words.append("whose elements may share memory")
    if traits.is_index64:
        words.append("with indices of 64 bits")
    return " ".join(words)


def _numbers(constants: Sequence[int | None], divisors: Sequence[int]) -> str:
    shown = (
        str(constant) if constant is not None else f"{divisor}n" if divisor > 1 else "?"
        for constant, divisor in zip(constants, divisors, strict=True)
    )
    return f"[{', '.join(shown)}]"


def differences(kinds: Sequence[dict[str, str]]) -> list[str]:
    """For each of several specialisations of a kernel what tells it from the others, in words.

    Empty for the only one.
    """
    names = [name for name in kinds[0] if len({kind[name] for kind in kinds}) > 1] if kinds else []
    return [", ".join(_said(name, kind[name]) for name in names) for kind in kinds]


def _said(name: str, what: str) -> str:
    return f"{name}={what[2:]}" if what.startswith("= ") else f"{name}: {what}"
