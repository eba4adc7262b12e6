"""The ``arith`` dialect around ``nvgpu``: xDSL's, with ``arith.index_castui``."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

from xdsl.dialects.arith import Arith
from xdsl.ir import Dialect

from tilewright.dialects.declare import examples
from tilewright.dialects.upstream.arith import floats as arith_floats
from tilewright.dialects.upstream.arith import vectors as arith_vectors
from tilewright.dialects.upstream.base.operations import support_op


@support_op("arith", "index_castui")
class IndexCastUIOp(arith_vectors.IndexCast):
    """An index as an integer or the reverse; what is too narrow is filled with zeros."""

    EXAMPLES: ClassVar = examples("%wide = arith.index_castui %i : index to i64")


@cache
def load() -> Dialect:
    """xDSL's operations, ours in place of those that take no vectors, and the unsigned cast."""
    ours = [*arith_vectors.OPERATIONS, *arith_floats.OPERATIONS, IndexCastUIOp]
    names = {op.name for op in ours}
    theirs = [op for op in Arith.operations if op.name not in names]
    return Dialect("arith", [*theirs, *ours], list(Arith.attributes))
