"""``llvm``: pointers and what reaches memory by them, atomics, intrinsics of NVIDIA's GPUs."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect


@cache
def load() -> Dialect:
    """xDSL's dialect with what is declared here, which takes the place of what it has under the same name."""
    from xdsl.dialects.llvm import LLVM

    from tilewright.dialects.upstream.base.operations import extended
    from tilewright.dialects.upstream.llvm import atomics, calls, checked, ops
    from tilewright.dialects.upstream.llvm.types import TYPES

    assert all((atomics, calls, ops))
    return extended(LLVM, checked.OPERATIONS, TYPES)
