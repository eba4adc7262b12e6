"""``gpu``: custom forms, address spaces, numbers of threads, barriers, reductions."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect


@cache
def load() -> Dialect:
    """xDSL's dialect with what is declared here, which takes the place of what it has under the same name."""
    from xdsl.dialects.gpu import GPU, TerminatorOp, YieldOp

    from tilewright.dialects.upstream.base.formats import with_format
    from tilewright.dialects.upstream.base.operations import extended
    from tilewright.dialects.upstream.gpu import attributes, kernels, launch, ops, reduce

    assert all((kernels, launch, ops, reduce))
    formatted = (
        with_format(TerminatorOp, "attr-dict"),
        with_format(YieldOp, "attr-dict ($values^ `:` type($values))?"),
    )
    return extended(GPU, formatted, attributes.ATTRIBUTES)
