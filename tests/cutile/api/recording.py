"""What of cuTile's public interface a kernel uses, seen while cuTile compiles it.

Names are those of :mod:`tests.cutile.api.reference`: ``load``, ``load(padding_mode)``, ``Tile.reshape``,
``Tile.__radd__``, ``PaddingMode.NAN``, ``float16``.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import cuda.tile as ct
import numpy as np
from cuda.tile._ir import hir_stubs
from cuda.tile._ir.hir import StaticEvalKind
from cuda.tile._ir.op_impl import ImplRegistry
from cuda.tile._ir.ops import tile_impl_registry
from cuda.tile._ir.type import (
    ArrayTy,
    DTypeConstructor,
    DTypeSpec,
    RawArrayMemoryTy,
    TiledViewTy,
    TileTy,
)
from cuda.tile._ir.typing_support import get_signature
from tests.corpus import cutile_release
from tests.cutile.api.reference import (
    DTYPES,
    ENUMS,
    FUNCTION_NAMES,
    REFLECTED_OPERATORS,
    parameter_name,
)

_CLASS_NAMES: Mapping[type, str] = {
    TileTy: "Tile",
    ArrayTy: "Array",
    TiledViewTy: "TiledView",
    RawArrayMemoryTy: "RawArrayMemory",
}
#: What cuTile evaluates at compile time, by the kind of the expression.
_STATIC: Mapping[StaticEvalKind, str] = {
    StaticEvalKind.STATIC_EVAL: "static_eval",
    StaticEvalKind.STATIC_ASSERT_CONDITION: "static_assert",
    StaticEvalKind.STATIC_ASSERT_MESSAGE: "static_assert(message)",
    StaticEvalKind.STATIC_ITER_ITERABLE: "static_iter",
}
if cutile_release() >= (1, 7):
    _STATIC = {**_STATIC, StaticEvalKind.STATIC_EXCEPTION: "static_exception"}
_OPERATOR_NAMES = frozenset(
    f"__{name}__"
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "getitem"),
        *("and", "or", "xor", "lshift", "rshift", "invert", "neg"),
        *("eq", "ne", "lt", "le", "gt", "ge"),
    )
)
#: The functions that stand for operators, with the method of a tile.
_OPERATORS: Mapping[Any, str] = {divmod: "__divmod__"} | {
    getattr(operator, name): name for name in vars(ct.Tile) if name in _OPERATOR_NAMES
}
_UNUSED = object()


class _Implementations(dict[Any, Any]):
    """cuTile's table of implementations, which notes those that are looked up and called."""

    def __init__(self, items: Mapping[Any, Any], used: set[str]):
        super().__init__(items)
        self._used = used

    def __getitem__(self, stub: Any) -> Any:
        found = super().__getitem__(stub)
        if stub is range:
            return self._wrapped(found, self._note_range)
        if stub is hir_stubs.do_static_eval:
            return self._wrapped(found, self._note_static)
        if stub in _OPERATORS:
            name = _OPERATORS[stub]
            return self._wrapped(found, lambda given: _note_operator(self._used, name, given))
        name = FUNCTION_NAMES.get(stub)
        if name is None:
            return found
        self._used.add(name)
        signature = get_signature(stub)
        return self._wrapped(
            found, lambda given: _note_arguments(self._used, name, signature, given)
        )

    def _note_range(self, arguments: tuple[Any, ...]) -> None:
        # One parameter takes all arguments.
        if any(isinstance(_type_of(argument), TileTy) for argument in arguments[0]):
            self._used.add("Tile.__index__")

    def _note_static(self, arguments: tuple[Any, ...]) -> None:
        self._used.add(_STATIC[arguments[0].kind])

    @staticmethod
    def _wrapped(found: Any, note: Callable[[tuple[Any, ...]], None]) -> Callable[..., Any]:
        # cuTile awaits what an implementation returns where that is a coroutine function, so that
        # one plain function stands in for either kind.
        def called(*arguments: Any) -> Any:
            note(arguments)
            return found(*arguments)

        called._is_coroutine = found._is_coroutine  # pyright: ignore[reportFunctionMemberAccess]
        return called


def _note_arguments(
    used: set[str], name: str, signature: inspect.Signature, arguments: tuple[Any, ...]
) -> None:
    for parameter, argument in zip(signature.parameters.values(), arguments, strict=False):
        value = _constant_of(argument)
        dtype = _element_type_of(argument)
        if dtype is not None:
            used.add(dtype)
        if type(value) in ENUMS:
            used.add(f"{type(value).__name__}.{value.name}")
        if parameter.default is inspect.Parameter.empty:
            continue
        if value is _UNUSED or value != parameter.default:
            used.add(parameter_name(name, parameter.name))


def _type_of(argument: Any) -> Any:
    return argument.get_type() if hasattr(argument, "get_type") else None


def _constant_of(argument: Any) -> Any:
    """The value of a constant argument."""
    if hasattr(argument, "is_constant") and argument.is_constant():
        return argument.get_constant()
    return _UNUSED


def _element_type_of(argument: Any) -> str | None:
    """The name of the element type that an argument is."""
    kind = _type_of(argument)
    dtype = (
        getattr(kind, "dtype", None) if isinstance(kind, (DTypeSpec, DTypeConstructor)) else None
    )
    return dtype.name if dtype is not None and dtype.name in DTYPES else None


def _note_operator(used: set[str], name: str, arguments: tuple[Any, ...]) -> None:
    """An operator, reflected where a number stands on the left of a tile."""
    if all(_constant_of(argument) is not _UNUSED for argument in arguments):
        return
    kinds = [_type_of(argument) for argument in arguments]
    compared = kinds[:1] if name == "__getitem__" else kinds
    if not all(isinstance(kind, TileTy) for kind in compared):
        return
    if len(compared) == 2 and not kinds[0].shape and kinds[1].shape:
        name = REFLECTED_OPERATORS.get(name, name)
    used.add(f"Tile.{name}")


def _note_attribute(used: set[str], key: tuple[Any, ...]) -> None:
    owner = _CLASS_NAMES.get(key[0])
    if owner is not None:
        used.add(f"{owner}.{key[1]}")


@contextmanager
def recording() -> Iterator[set[str]]:
    """The names that kernels use which are compiled inside."""
    used: set[str] = set()
    find = ImplRegistry._find_overload

    def find_noting(self: ImplRegistry, stub: Any, key: tuple[Any, ...]) -> Any:
        if stub is getattr:
            _note_attribute(used, key)
        return find(self, stub, key)

    noting = _Implementations(tile_impl_registry.op_implementations, used)
    with (
        mock.patch.object(tile_impl_registry, "op_implementations", noting),
        mock.patch.object(ImplRegistry, "_find_overload", find_noting),
    ):
        yield used


def dtypes_in(values: Any) -> set[str]:
    """The names of cuTile's element types of the arrays among arguments."""
    from tests.corpus.cutile._table import NUMPY_TYPES

    if isinstance(values, (tuple, list)):
        return {name for value in values for name in dtypes_in(value)}
    if not isinstance(values, np.ndarray):
        return set()
    names = {numpy_type: dtype.name for dtype, numpy_type in NUMPY_TYPES.items()}
    return {names[values.dtype]}
