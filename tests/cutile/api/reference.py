"""Every name of cuTile's public interface, taken from the installed package.

``load`` is a function, ``load(latency)`` one of its optional parameters, ``Tile.reshape`` a member of a
class, ``PaddingMode.NAN`` a value.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Any

import cuda.tile as ct
from cuda.tile import compilation, tune
from cuda.tile._execution import is_stub
from cuda.tile._stub import RawArrayMemory

#: Classes of values inside of kernels.
CLASSES: Mapping[str, type] = {
    "Array": ct.Array,
    "RawArrayMemory": RawArrayMemory,
    "Tile": ct.Tile,
    "TiledView": ct.TiledView,
}
ENUMS: frozenset[type] = frozenset(
    {ct.MemoryOrder, ct.MemoryScope, ct.PaddingMode, ct.RoundingMode}
)
DTYPES: tuple[str, ...] = tuple(n for n in ct.__all__ if isinstance(getattr(ct, n), ct.DType))
#: What the host does; everything else happens in kernels.
_HOST_MODULES = {"compilation": compilation, "tune": tune}
REFLECTED_OPERATORS: Mapping[str, str] = {
    f"__{name}__": f"__r{name}__"
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"),
        *("matmul", "divmod", "lshift", "rshift"),
    )
}


def parameter_name(function: str, parameter: str) -> str:
    return f"{function}({parameter})"


def _functions() -> Iterator[tuple[Any, str]]:
    """Functions and methods that have an implementation in cuTile's compiler, with their names."""
    for name in ct.__all__:
        value = getattr(ct, name)
        if inspect.isfunction(value) and is_stub(value):
            yield value, name
    yield ct.Slice, "Slice"
    for owner, cls in CLASSES.items():
        for name, value in vars(cls).items():
            function = value.__func__ if isinstance(value, staticmethod) else value
            if inspect.isfunction(function) and is_stub(function) and not name.startswith("_"):
                yield function, f"{owner}.{name}"


FUNCTION_NAMES: Mapping[Any, str] = dict(_functions())


def _members() -> Iterator[str]:
    for owner, cls in CLASSES.items():
        for name, value in vars(cls).items():
            if inspect.isfunction(value) or isinstance(value, (property, staticmethod)):
                yield f"{owner}.{name}"


def _optional_parameters() -> Iterator[str]:
    for function, name in FUNCTION_NAMES.items():
        for parameter in inspect.signature(function).parameters.values():
            if parameter.default is not inspect.Parameter.empty:
                yield parameter_name(name, parameter.name)


@cache
def in_kernels() -> dict[str, tuple[str, ...]]:
    """The names that kernels can use, by the kind of name."""
    return {
        "functions": tuple(name for name in FUNCTION_NAMES.values() if "." not in name),
        "methods": tuple(_members()),
        "parameters": tuple(_optional_parameters()),
        "values": tuple(
            f"{cls.__name__}.{member.name}"
            for cls in sorted(ENUMS, key=lambda cls: cls.__name__)
            for member in _enum(cls)
        ),
        "element types": DTYPES,
    }


@cache
def on_the_host() -> tuple[str, ...]:
    """The names that programs use around their kernels: launches, annotations, errors, tuning."""
    inside = set(in_kernels()["functions"]) | set(DTYPES) | {cls.__name__ for cls in ENUMS}
    names = [n for n in ct.__all__ if n not in inside | set(CLASSES) | set(_HOST_MODULES)]
    names.append("kernel.replace_hints")
    for module_name, module in _HOST_MODULES.items():
        names += [f"{module_name}.{name}" for name in module.__all__]
    return tuple(names)


def _enum(cls: type) -> Iterator[Enum]:
    assert issubclass(cls, Enum)
    return iter(cls)
