"""The stub ``operations.pyi``: signatures of the builder's methods, for editors and type checkers.

Generated from the operations by ``python -m tilewright.builder.stub``; a test compares the file with
the generator's output.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

from xdsl.irdl import OptOperandDef, VarOperandDef, VarResultDef

from tilewright.builder.kernel import Builder
from tilewright.builder.operations import (
    OPERATIONS,
    Operations,
    method_name,
    parameters_of,
    python_name,
)
from tilewright.bytecode.layout import NOT_IN_BODIES
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.constraints import FieldKind

PATH = Path(__file__).with_name("operations.pyi")

_HEAD = '''"""Written by stub.py from the operations; see there."""

from collections.abc import Mapping, Sequence
from inspect import Parameter
from typing import Any, Literal, SupportsFloat, TypeAlias

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.builder.values import Value
from tilewright.dialects.cuda_tile.attributes import AssumePredicateAttr
from tilewright.dialects.cuda_tile.base import TileOp

_Operand: TypeAlias = Value | SSAValue | SupportsFloat | np.ndarray[Any, Any]
_Hints: TypeAlias = Mapping[str, Mapping[str, int | bool]]
_Type: TypeAlias = Attribute | str

OPERATIONS: dict[str, type[TileOp]]
PYTHON_WORDS: frozenset[str]
WEAK_BY_DEFAULT: frozenset[str]
SEGMENTS: str

def method_name(mnemonic: str) -> str: ...
def python_name(name: str) -> str: ...
def parameters_of(cls: type[TileOp]) -> list[Parameter]: ...
def document(cls: type[TileOp]) -> str: ...

class Operations:
    def op(self, mnemonic: str, *operands: Any, **fields: Any) -> Any: ...
'''

#: The argument type for each kind of property.
_KINDS = {
    "unit": "bool",
    "int": "int",
    "bool": "bool",
    "str": "str",
    "sym": "str",
    "i32s": "Sequence[int]",
    "bools": "Sequence[bool]",
    "hints": "_Hints",
    "tagged": "AssumePredicateAttr",
}
_OF_RESULTS = {"to": "_Type", "shape": "Sequence[int]", "type": "_Type | Sequence[_Type]"}


def stub_text() -> str:
    """Return the stub of ``operations.py``, with one method for each operation."""
    return _HEAD + "".join(f"{line}\n" for cls in _documented() for line in _method(cls))


def _documented() -> Iterator[type[TileOp]]:
    """Yield the operations with generated methods, family by family, regardless of import order. Others have
    handwritten methods."""
    for mnemonic, cls in sorted(OPERATIONS.items(), key=lambda item: item[1].__module__):
        name = method_name(mnemonic)
        own = getattr(Builder, name, None) is not getattr(Operations, name, None)
        if mnemonic.isidentifier() and mnemonic not in NOT_IN_BODIES and not own:
            yield cls


def _method(cls: type[TileOp]) -> Iterator[str]:
    types = _types(cls)
    parts, keywords = ["self"], False
    for parameter in parameters_of(cls):
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            parts.append("*")
            keywords = True
        ty = types[parameter.name]
        if parameter.default is inspect.Parameter.empty:
            parts.append(f"{parameter.name}: {ty}")
        else:
            optional = f"{ty} | None" if parameter.default is None else ty
            parts.append(f"{parameter.name}: {optional} = {parameter.default!r}".replace("'", '"'))
    summary = inspect.cleandoc(cls.__doc__ or "").partition("\n")[0].replace("\\", "\\\\")
    yield f"    def {method_name(cls.mnemonic())}("
    yield from (f"        {part}," for part in parts)
    yield f"    ) -> {_result(cls)}:"
    yield f'        """{summary}"""'


def _types(cls: type[TileOp]) -> dict[str, str]:
    definition = cls.get_irdl_definition()
    found = dict(_OF_RESULTS)
    for name, group in definition.operands:
        many = isinstance(group, VarOperandDef) and not isinstance(group, OptOperandDef)
        found[name] = "Sequence[_Operand]" if many else "_Operand"
    for name, prop in definition.properties.items():
        kind = prop.constr
        if not isinstance(kind, FieldKind):
            continue
        if kind.wire == "enum":
            members = ", ".join(f'"{member.value}"' for member in kind.enum.enum_type)
            found[python_name(name)] = f"Literal[{members}]"
        else:
            found[python_name(name)] = _KINDS.get(kind.wire, "Attribute")
    return found


def _result(cls: type[TileOp]) -> str:
    results = cls.get_irdl_definition().results
    if any(isinstance(result, VarResultDef) for _, result in results):
        return "Any"
    if len(results) < 2:
        return "Value" if results else "Operation"
    return f"tuple[{', '.join(['Value'] * len(results))}]"


if __name__ == "__main__":
    PATH.write_text(stub_text(), encoding="utf-8")
