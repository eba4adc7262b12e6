"""Resolves operation names: short, prefixed, old and foreign spellings."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import UnregisteredAttr, UnregisteredOp
from xdsl.ir import Attribute, Dialect, Operation, TypeAttribute

from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile import load
from tilewright.dialects.cuda_tile.base import OPERATIONS, TileOp
from tilewright.dialects.loading import dialect_loader
from tilewright.dialects.syntax.types import TypeMemos
from tilewright.text.suggestions import did_you_mean

UNKNOWN_OPERATION = define_code(
    "unknown-op",
    "No known operation has this name.",
    "Operations of cuda_tile may be written with or without `cuda_tile.`. Operations of nv_tileaa, "
    "builtin, func, arith, math, scf and ub are known, too. Others are read in generic form where "
    "unregistered operations are allowed.",
)

_PREFIX = "cuda_tile."
_EXPERIMENTAL = "experimental$"


_FIRST = ("builtin", "cuda_tile")
#: Dialects that are loaded when their name occurs.
_OTHERS = (
    *("nv_tileaa", "nv_tileas", "func", "arith", "scf", "nvgpu", "gpu"),
    *("nvvm", "memref", "vector", "cf", "math", "ub", "llvm"),
)


def _arith_of_tiles() -> Dialect:
    from tilewright.dialects.arith import load

    return load()[0]


def _math_of_tiles() -> Dialect:
    from tilewright.dialects.arith import load

    return load()[1]


class TileContext(Context):
    """A context with one class for each name of an unregistered attribute or type.

    Such attributes of different texts therefore compare equal, unlike xDSL's own. ``type_memos`` are the types that
    have been read in contexts with the same dialects.
    """

    def __init__(self, allow_unregistered: bool, type_memos: TypeMemos):
        super().__init__(allow_unregistered)
        self.type_memos = type_memos

    def load_registered_dialect(self, name: str) -> None:
        """Load a dialect that is registered. Each text has its own context, so tables are copied, not made."""
        if name not in self._registered_dialects:
            super().load_registered_dialect(name)
        content = _content(self._registered_dialects[name])
        self._loaded_dialects |= content._loaded_dialects
        self._loaded_ops |= content._loaded_ops
        self._loaded_attrs |= content._loaded_attrs
        self._loaded_types |= content._loaded_types

    def get_optional_type(self, name: str) -> type[TypeAttribute] | None:
        if name in self._loaded_types or not self.allow_unregistered:
            return super().get_optional_type(name)
        found = self._registered("get_optional_type", name)
        return found or unregistered_attribute(name, True)  # pyright: ignore[reportReturnType]

    def get_optional_attr(self, name: str) -> type[Attribute] | None:
        if name in self._loaded_attrs or not self.allow_unregistered:
            return super().get_optional_attr(name)
        return self._registered("get_optional_attr", name) or unregistered_attribute(name, False)

    def registered_op(self, name: str, dialects: list[str]) -> type[Operation] | None:
        """Return the operation of that name, possibly in an enclosing dialect; None if none is registered. Never
        creates one.
        """
        found = self._registered("get_optional_op", name, dialect_stack=dialects)
        return None if found is not None and issubclass(found, UnregisteredOp) else found

    def _registered(self, lookup: str, name: str, **options: object) -> Any:
        allowed, self.allow_unregistered = self.allow_unregistered, False
        try:
            return getattr(super(), lookup)(name, **options)
        finally:
            self.allow_unregistered = allowed


@cache
def _content(loader: Callable[[], Dialect]) -> Context:
    """A context with nothing but the dialect that a function gives."""
    context = Context()
    context.load_dialect(loader())
    return context


@cache
def _loaders(tileaa: bool) -> dict[str, Callable[[], Dialect]]:
    of_tiles = {"arith": _arith_of_tiles, "math": _math_of_tiles} if tileaa else {}
    return {name: _loader(name) for name in (*_FIRST, *_OTHERS)} | of_tiles


_loader = cache(dialect_loader)


@cache
def _read_types(tileaa: bool) -> TypeMemos:
    return {}


@lru_cache(maxsize=4096)
def unregistered_attribute(name: str, is_type: bool) -> type[Attribute]:
    """Return the class for attributes of an unknown dialect, which store their text."""
    return UnregisteredAttr.with_name_and_type(name, is_type)


def make_context(allow_unregistered: bool, *, tileaa: bool = False) -> TileContext:
    """Return a context with our dialect, and others that are loaded when their name occurs.

    ``tileaa``: for text at the level of ``nv_tileaa``, where ``arith`` is that of its tiles.
    """
    # The classes of unregistered types are not kept for ever.
    context = TileContext(allow_unregistered, {} if allow_unregistered else _read_types(tileaa))
    context._registered_dialects |= _loaders(tileaa)
    for name in _FIRST:
        context.load_registered_dialect(name)
    return context


@cache
def short_names() -> dict[str, type[TileOp]]:
    """Return the operations of cuda_tile by every spelling without the dialect prefix."""
    load()
    names: dict[str, type[TileOp]] = {}
    for mnemonic, op_type in OPERATIONS.items():
        names.setdefault(_EXPERIMENTAL + mnemonic, op_type)
        for alias in op_type.ALIASES:
            names[alias] = op_type
    return names | OPERATIONS


def is_operation_name(word: str) -> bool:
    """Whether a bare word at the start of a line begins an operation."""
    return word.removeprefix(_PREFIX) in short_names() or "." in word or word == "module"


def find_operation(
    context: TileContext, name: str, dialects: list[str], generic: bool
) -> type[Operation] | None:
    """Return the operation of a name, or None; ``dialects`` are those of the enclosing operations.

    ``generic``: of the generic form, where names are full, and unregistered ones may be allowed.
    """
    if name.startswith(_PREFIX):
        return short_names().get(name.removeprefix(_PREFIX))
    if generic:
        return context.get_optional_op(name)
    default = dialects[-1]
    if default == "cuda_tile" and (found := short_names().get(name)) is not None:
        return found
    return context.registered_op(name, dialects) or short_names().get(name)


def suggest_operation(context: Context, name: str, generic: bool) -> str:
    """Return a help text for an unknown name."""
    dialect, dot, _ = name.partition(".")
    if dot and not name.startswith(_PREFIX):
        known = (op.name for op in context.loaded_ops if op.name.startswith(f"{dialect}."))
        return did_you_mean(name, known)
    if generic and name in short_names():
        return f"did you mean 'cuda_tile.{name}'?"
    prefix = _PREFIX if name.startswith(_PREFIX) else ""
    return did_you_mean(name.removeprefix(_PREFIX), short_names(), prefix)
