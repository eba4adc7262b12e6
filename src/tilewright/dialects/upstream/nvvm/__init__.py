"""``nvvm``, which xDSL has not: fences, groups, named barriers, clusters, conversions."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect


@cache
def load() -> Dialect:
    """The operations and attributes here."""
    from xdsl.ir import Dialect

    from tilewright.dialects.upstream.base.operations import extended
    from tilewright.dialects.upstream.nvvm import conversions, ops

    attributes = (*ops.ATTRIBUTE_TYPES, *conversions.ATTRIBUTE_TYPES)
    return extended(Dialect("nvvm"), attributes=attributes)
