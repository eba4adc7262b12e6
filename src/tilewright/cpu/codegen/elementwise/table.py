"""The table of element-wise operations.

A function of the table is called as ``function(builder, *values, element, **attributes)``: values
are scalars or vectors in register form, of one number of lanes; ``element`` is the element type of
the operand that the meaning names, and attributes are those of ``numerics.semantics``, but for
``to`` and ``pointee``, which are ``Element`` here. The result has the lanes of the values.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.cpu.codegen.ir.types import Value

EmitOp = Callable[..., Value]

#: The comparisons as LLVM's builder names them, by the predicates of ``cuda_tile``.
PREDICATES = {
    "equal": "==",
    "not_equal": "!=",
    "less_than": "<",
    "less_than_or_equal": "<=",
    "greater_than": ">",
    "greater_than_or_equal": ">=",
}

EMITTERS: dict[str, EmitOp] = {}
"""By the name of the operation in ``numerics.semantics.ELEMENTWISE``."""


def emitter(*names: str) -> Callable[[EmitOp], EmitOp]:
    """Enter a function under these names."""

    def enter(function: EmitOp) -> EmitOp:
        for name in names:
            assert name not in EMITTERS, name
            EMITTERS[name] = function
        return function

    return enter
