"""``arith`` and ``math`` at the level of ``nv_tileaa``: on its tiles and all its element types.

The operations are spelled as upstream in MLIR; where a meaning differs, it is that of the
``cuda_tile`` operation that becomes the operation here. ``load()`` gives the xDSL dialects, which
stand in the place of xDSL's own.
"""

# pyright: reportUnusedImport=false

from __future__ import annotations

from functools import cache

from xdsl.dialects.arith import IntegerOverflowAttr
from xdsl.ir import Dialect, Operation

from tilewright.dialects.arith.base import OPERATIONS, ArithOp, ElementCall, overflow_attr
from tilewright.dialects.arith.comparison import (
    CmpfOp,
    CmpiOp,
    SelectOp,
)
from tilewright.dialects.arith.constants import ConstantOp, ElementsAttr
from tilewright.dialects.arith.conversion import (
    BitcastOp,
    Extension,
    ExtSIOp,
    ExtUIOp,
    FPToSIOp,
    FPToUIOp,
    IndexCastOp,
    IndexCastUIOp,
    IndexConversion,
    SIToFPOp,
    TruncIOp,
    UIToFPOp,
)
from tilewright.dialects.arith.floating import (
    AbsFOp,
    Atan2Op,
    CeilOp,
    CoshOp,
    CosOp,
    ExpOp,
    FloorOp,
    FPowIOp,
    Log2Op,
    LogOp,
    MaximumfOp,
    MaxnumfOp,
    MinimumfOp,
    MinnumfOp,
    NegfOp,
    PowFOp,
    RemfOp,
    SinhOp,
    SinOp,
    TanhOp,
    TanOp,
)
from tilewright.dialects.arith.integer import (
    AbsIOp,
    AddiOp,
    AndIOp,
    CeilDivSIOp,
    CeilDivUIOp,
    Division,
    DivSIOp,
    DivUIOp,
    FloorDivSIOp,
    MaxSIOp,
    MaxUIOp,
    MinSIOp,
    MinUIOp,
    MuliOp,
    OrIOp,
    RemSIOp,
    RemUIOp,
    ShLIOp,
    ShRSIOp,
    ShRUIOp,
    SubiOp,
    XOrIOp,
)


@cache
def load() -> tuple[Dialect, Dialect]:
    """The dialects ``arith`` and ``math`` with all operations and attributes."""

    def named(name: str) -> list[type[Operation]]:
        return [op for full, op in OPERATIONS.items() if full.startswith(f"{name}.")]

    return (
        Dialect("arith", named("arith"), [ElementsAttr, IntegerOverflowAttr]),
        Dialect("math", named("math"), []),
    )
