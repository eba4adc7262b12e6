"""Type names for llvmlite's values.

llvmlite has no type annotations, and what a checker infers from its code is wrong (builders return the instruction that
they make, not None). These names say what a value is; they are not checked.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Value: TypeAlias = Any
"""An LLVM value: an instruction, a constant, an argument."""

Builder: TypeAlias = Any
"""An ``ir.IRBuilder``: the place where instructions are put."""

Type: TypeAlias = Any
"""An LLVM type."""

Constant: TypeAlias = Any
"""An LLVM constant."""
