"""The ``vector`` dialect: xDSL's, with the operations and spellings that it lacks."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect


@cache
def load() -> Dialect:
    """xDSL's operations, with ours, which take the place of those of the same name."""
    from xdsl.dialects.vector import Vector
    from xdsl.ir import Dialect

    from tilewright.dialects.upstream.base.operations import OPERATIONS
    from tilewright.dialects.upstream.vector import indexed, memory, ops, shapes

    assert all((indexed, memory, ops, shapes))
    operations = {op.name: op for op in Vector.operations}
    operations |= {op.name: op for op in OPERATIONS["vector"].values()}
    return Dialect("vector", list(operations.values()), list(Vector.attributes))
