"""The ``nv_tileaa`` dialect: tiles with explicit pointers, memory order, queues and plugins.

It stands between ``cuda_tile`` and ``nv_tileas``. ``load()`` gives the xDSL dialect; import the
parts that you need from the modules beside.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect

#: The name of the dialect; and names to ask for where loading it would take longer than the rest.
NAME = "nv_tileaa"
FUNC, TILE = f"{NAME}.func", f"{NAME}.tile"


@cache
def load() -> Dialect:
    """The dialect with all operations, attributes and types."""
    from xdsl.ir import Dialect

    from tilewright.dialects.nv_tileaa import attributes, enums, ops, types
    from tilewright.dialects.nv_tileaa.base import OPERATIONS

    assert ops.__all__
    return Dialect(
        NAME,
        list(OPERATIONS.values()),
        [*types.TYPES, *enums.ENUM_ATTRIBUTES, *attributes.ATTRIBUTES],
    )
