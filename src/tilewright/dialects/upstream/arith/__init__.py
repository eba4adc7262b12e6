"""``arith``: comparisons, choices and conversions on vectors, rounding modes, ``index_castui``."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect


@cache
def load() -> Dialect:
    """xDSL's dialect with what is declared here, which takes the place of what it has under the same name."""
    from xdsl.dialects.arith import Arith

    from tilewright.dialects.upstream.arith import floats, vectors
    from tilewright.dialects.upstream.base.operations import extended

    assert all((floats, vectors))
    return extended(Arith)
