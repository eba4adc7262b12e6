"""``memref``: ``global``, ``atomic_rmw``, ``transpose``, and custom forms."""

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
    from tilewright.dialects.upstream.memref import ops, transpose
    from tilewright.dialects.upstream.memref.scope import AllocaScopeOp

    assert transpose
    formatted = [with_format(op, form) for op, form in ops.FORMATS.items()]
    return extended(MemRef, [*formatted, ops.LoadOp, ops.StoreOp, AllocaScopeOp])
