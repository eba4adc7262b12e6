"""``vector``: rearrangements, masks, reductions, gathers and scatters."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect


@cache
def load() -> Dialect:
    """xDSL's dialect with what is declared here, which takes the place of what it has under the same name."""
    from xdsl.dialects.vector import Vector

    from tilewright.dialects.upstream.base.operations import extended
    from tilewright.dialects.upstream.vector import checked, indexed, memory, ops, shapes

    assert all((indexed, memory, ops, shapes))
    return extended(Vector, checked.OPERATIONS)
