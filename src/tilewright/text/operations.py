"""Which operation a name stands for: short, prefixed, old and foreign spellings."""

from __future__ import annotations

from functools import cache

from xdsl.context import Context
from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Dialect, Operation

from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile import load
from tilewright.dialects.cuda_tile.base import OPERATIONS, TileOp
from tilewright.text.suggestions import did_you_mean

UNKNOWN_OPERATION = define_code(
    "unknown-op",
    "No known operation has this name.",
    "Operations of cuda_tile may be written with or without `cuda_tile.`. Operations of builtin, "
    "func, arith and scf are known, too. Others are read in generic form where unregistered "
    "operations are allowed.",
)

_PREFIX = "cuda_tile."
_EXPERIMENTAL = "experimental$"


def _builtin() -> Dialect:
    from xdsl.dialects.builtin import Builtin

    return Builtin


def _func() -> Dialect:
    from xdsl.dialects.func import Func

    return Func


def _arith() -> Dialect:
    from xdsl.dialects.arith import Arith

    return Arith


def _scf() -> Dialect:
    from xdsl.dialects.scf import Scf

    return Scf


def make_context(allow_unregistered: bool) -> Context:
    """A context with our dialect, and foreign ones that load when their name is met."""
    context = Context(allow_unregistered=allow_unregistered)
    context.load_dialect(_builtin())
    context.load_dialect(load())
    for name, dialect in (("func", _func), ("arith", _arith), ("scf", _scf)):
        context.register_dialect(name, dialect)
    return context


@cache
def short_names() -> dict[str, type[TileOp]]:
    """The operations of cuda_tile by every spelling without the dialect's prefix."""
    load()
    names: dict[str, type[TileOp]] = {}
    for mnemonic, op_type in OPERATIONS.items():
        names.setdefault(_EXPERIMENTAL + mnemonic, op_type)
        for alias in op_type.ALIASES:
            names[alias] = op_type
    return names | OPERATIONS


def is_operation_name(word: str) -> bool:
    """Whether a bare word at the start of a line starts an operation."""
    return word.removeprefix(_PREFIX) in short_names() or "." in word or word == "module"


def find_operation(
    context: Context, name: str, dialects: list[str], generic: bool
) -> type[Operation] | None:
    """The operation that a name means where ``dialects`` are those of the enclosing operations."""
    if name.startswith(_PREFIX):
        return short_names().get(name.removeprefix(_PREFIX))
    if generic:
        return context.get_optional_op(name)
    default = dialects[-1]
    if default == "cuda_tile" and (found := short_names().get(name)) is not None:
        return found
    known = Context.get_optional_op(_registered_only(context), name, dialect_stack=dialects)
    if known is not None and not issubclass(known, UnregisteredOp):
        return known
    return short_names().get(name)


def _registered_only(context: Context) -> Context:
    """The same tables, without making unregistered operations up: those have no custom form."""
    if not context.allow_unregistered:
        return context
    return Context(
        False,
        context._loaded_dialects,
        context._loaded_ops,
        context._loaded_attrs,
        context._loaded_types,
        context._registered_dialects,
    )


def suggest_operation(name: str, generic: bool) -> str:
    """A help text for an unknown name."""
    if generic and name in short_names():
        return f"did you mean 'cuda_tile.{name}'?"
    prefix = _PREFIX if name.startswith(_PREFIX) else ""
    return did_you_mean(name.removeprefix(_PREFIX), short_names(), prefix)
