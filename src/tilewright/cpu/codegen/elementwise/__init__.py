"""LLVM code of element-wise operations, keyed as ``numerics.semantics`` is."""

from tilewright.cpu.codegen.elementwise import floats, integers, mathematics  # noqa: F401
from tilewright.cpu.codegen.elementwise.table import EMITTERS

__all__ = ["EMITTERS"]
