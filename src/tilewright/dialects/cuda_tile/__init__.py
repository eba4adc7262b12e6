"""The ``cuda_tile`` dialect: types, attributes and the 113 operations of Tile IR 13.1 to 13.5.

``load()`` gives the xDSL dialect; import the parts that you need from the modules beside.
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

    from tilewright.dialects.cuda_tile import (
        attributes,
        constants,
        debug_info,
        enums,
        ops,
        types,
    )
    from tilewright.dialects.cuda_tile.base import OPERATIONS

    assert ops.__all__
    return Dialect(
        "cuda_tile",
        list(OPERATIONS.values()),
        [
            *types.TYPES,
            types.DimsAttr,
            *enums.ENUM_ATTRIBUTES,
            *attributes.ATTRIBUTES,
            constants.TileConstantAttr,
            constants.FloatBitsAttr,
            *debug_info.ATTRIBUTES,
        ],
    )
