"""The ``nv_tileas`` dialect: where tiles are, and when they move.

It stands between ``nv_tileaa`` and per-thread code. Operations whose meaning a schedule does not
change stay those of ``nv_tileaa``, on tiles that carry a layout: ``tile<8x16xf32, #nv_tileas.layout<...>>``.
``load()`` gives the xDSL dialect.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect


@cache
def load() -> Dialect:
    """The dialect with all operations, attributes and types."""
    from xdsl.ir import Dialect

    from tilewright.dialects.nv_tileas import agents, asynchronous, ops, pipelines, stores, types
    from tilewright.dialects.nv_tileas.base import OPERATIONS

    assert ops.GROUP and asynchronous.GROUP and stores.GROUP and agents.GROUP
    return Dialect(
        "nv_tileas", list(OPERATIONS.values()), [*types.TYPES, *pipelines.TYPES, *types.ATTRIBUTES]
    )
