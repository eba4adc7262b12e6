"""The ``llvm`` dialect: xDSL's, with pointers and what reaches memory by them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect


@cache
def load() -> Dialect:
    """xDSL's operations, and ours in place of some of them."""
    from xdsl.dialects.llvm import LLVM
    from xdsl.ir import Dialect

    from tilewright.dialects.upstream.base.operations import OPERATIONS
    from tilewright.dialects.upstream.llvm import atomics, calls, ops
    from tilewright.dialects.upstream.llvm.syntax import OldVectorType

    assert all((atomics, calls, ops))
    operations = {op.name: op for op in LLVM.operations}
    operations |= {op.name: op for op in OPERATIONS["llvm"].values()}
    return Dialect("llvm", list(operations.values()), [*LLVM.attributes, OldVectorType])
