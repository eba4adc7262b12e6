"""The ``memref`` dialect: xDSL's, with the custom forms and operations that it lacks."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect


@cache
def load() -> Dialect:
    """xDSL's operations, with more custom forms, and ours in place of some of them."""
    from xdsl.dialects.memref import MemRef
    from xdsl.ir import Dialect

    from tilewright.dialects.upstream.base.formats import with_format
    from tilewright.dialects.upstream.base.operations import OPERATIONS
    from tilewright.dialects.upstream.memref import ops, transpose
    from tilewright.dialects.upstream.memref.scope import AllocaScopeOp

    assert transpose
    operations = {op.name: with_format(op, ops.FORMATS.get(op)) for op in MemRef.operations}
    ours = (ops.LoadOp, ops.StoreOp, AllocaScopeOp, *OPERATIONS["memref"].values())
    operations |= {op.name: op for op in ours}
    return Dialect("memref", list(operations.values()), list(MemRef.attributes))
