"""``memref``: ``global``, ``atomic_rmw``, ``transpose``, custom forms, and rules that xDSL lacks."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect


@cache
def load() -> Dialect:
    """xDSL's dialect with what is declared here, which takes the place of what it has under the same name."""
    from xdsl.dialects.memref import MemRef

    from tilewright.dialects.upstream.base.formats import with_format
    from tilewright.dialects.upstream.base.operations import extended
    from tilewright.dialects.upstream.memref import checked, ops, transpose
    from tilewright.dialects.upstream.memref.scope import AllocaScopeOp

    assert transpose
    rules = {op.name: op for op in (checked.CastOp, checked.CopyOp)}
    formatted = [with_format(rules.get(op.name, op), form) for op, form in ops.FORMATS.items()]
    own = (ops.LoadOp, ops.StoreOp, AllocaScopeOp)
    return extended(MemRef, [*formatted, *checked.OPERATIONS, *own])
