"""Every operation of ``cuda_tile`` as a method named by its mnemonic.

The methods are generated from the operations when this module is loaded. ``operations.pyi``,
written by ``stub.py``, describes them to editors and type checkers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from keyword import iskeyword
from typing import Any, NoReturn

from xdsl.irdl import OptOperandDef, OptPropertyDef, VarOperandDef

import tilewright.dialects.cuda_tile as cuda_tile
from tilewright.builder.result_types import needs_result_type
from tilewright.dialects.cuda_tile.base import OPERATIONS, TileOp

cuda_tile.load()

#: Methods whose mnemonics are reserved words in Python; without the underscore.
PYTHON_WORDS = frozenset(
    ("assert_", "break_", "continue_", "return_", "yield_", "for_", "if_", "loop_", "global_")
)
#: Accesses that are ``weak`` by default, as ordinary code needs.
WEAK_BY_DEFAULT = frozenset({"load_ptr_tko", "store_ptr_tko", "load_view_tko", "store_view_tko"})
SEGMENTS = "operandSegmentSizes"

_Parameter = inspect.Parameter


def method_name(mnemonic: str) -> str:
    """Return the Python name of an operation: ``if`` is ``if_``."""
    return f"{mnemonic}_" if f"{mnemonic}_" in PYTHON_WORDS else mnemonic


def python_name(name: str) -> str:
    """Return the Python name of an operand or property: ``global`` is ``global_``."""
    return f"{name}_" if iskeyword(name) else name


class Operations:
    """The operation methods; all call ``op``, which ``Builder`` implements."""

    def op(self, mnemonic: str, *operands: Any, **fields: Any) -> Any:
        """Append an operation by name. Returns its result, a tuple of several, or the operation if none.

        ``Builder`` implements it, and says what it raises.
        """
        raise NotImplementedError

    def __getattr__(self, name: str) -> NoReturn:
        from difflib import get_close_matches

        near = get_close_matches(name, [method_name(m) for m in OPERATIONS], 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise AttributeError(f"cuda_tile has no operation {name!r}{hint}")


def parameters_of(cls: type[TileOp]) -> list[inspect.Parameter]:
    """Return operands in the order of the text, then properties and the result type as keywords."""
    definition = cls.get_irdl_definition()
    found: list[inspect.Parameter] = []
    trailing = True
    for name, group in reversed(definition.operands):
        trailing = trailing and isinstance(group, VarOperandDef)
        default = _Parameter.empty
        if trailing:
            default = None if isinstance(group, OptOperandDef) else ()
        found.append(_Parameter(name, _Parameter.POSITIONAL_OR_KEYWORD, default=default))
    found.reverse()
    for name, prop in definition.properties.items():
        if name == SEGMENTS:
            continue
        default = None
        weak = name == "memory_ordering_semantics" and cls.mnemonic() in WEAK_BY_DEFAULT
        if not isinstance(prop, OptPropertyDef) and prop.default_value is None:
            default = "weak" if weak else _Parameter.empty
        found.append(_Parameter(python_name(name), _Parameter.KEYWORD_ONLY, default=default))
    if definition.results:
        names = ("to", "shape", "type") if needs_result_type(cls) else ("type",)
        found += [_Parameter(name, _Parameter.KEYWORD_ONLY, default=None) for name in names]
    return found


def _method(cls: type[TileOp]) -> Callable[..., Any]:
    mnemonic = cls.mnemonic()

    def method(self: Operations, *operands: Any, **fields: Any) -> Any:
        return self.op(mnemonic, *operands, **fields)

    method.__name__ = method_name(mnemonic)
    method.__qualname__ = f"Builder.{method.__name__}"
    method.__doc__ = document(cls)
    own = _Parameter("self", _Parameter.POSITIONAL_ONLY)
    method.__signature__ = inspect.Signature([own, *parameters_of(cls)])
    return method


def document(cls: type[TileOp]) -> str:
    """Return the meaning of an operation, and its syntax."""
    text = inspect.cleandoc(cls.__doc__ or "")
    form = " ".join(part.grammar() for part in cls.SYNTAX)
    return f"{text}\n\nAs text: {cls.mnemonic()} {form}".rstrip() if form else text


for _mnemonic, _cls in OPERATIONS.items():
    if _mnemonic.isidentifier():
        setattr(Operations, method_name(_mnemonic), _method(_cls))
