"""``tileas-plan-warps``: how many warps share a block's work."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import DictionaryAttr, IntAttr
from xdsl.ir import Operation

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.attributes import KernelSpecAttr
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.numerics.element_types import FORMATS
from tilewright.passes.base import NV_TILEAA, TilePass
from tilewright.passes.tileas.products import chained_products
from tilewright.passes.tileas.remarks import Remarks

#: Of the 255 registers of a thread, those that sums of products may take: the others are for
#: operands, addresses, and what is computed of the sums.
SUM_REGISTERS = 128
MOST_WARPS = 16


@dataclass(frozen=True)
class PlanWarps(TilePass):
    """Gives kernels whose sums of products do not fit the registers of their warps more of them."""

    name: ClassVar[str] = "tileas-plan-warps"
    LEVEL: ClassVar = NV_TILEAA

    def rewrite(self, root: Operation) -> None:
        functions = [root] if isinstance(root, FuncOp) else list(root.walk())
        for func in functions:
            if isinstance(func, FuncOp) and func.body.blocks:
                plan_warps(func)


def plan_warps(func: FuncOp, remarks: Remarks | None = None) -> None:
    """Choose the warps of a block of a kernel, in its ``kernel_spec``, unless a hint has."""
    spec = func.properties.get("kernel_spec")
    if not isinstance(spec, KernelSpecAttr):
        return
    warps, needed = spec.integer("numWarps"), _sum_words(func)
    if needed <= SUM_REGISTERS * 32 * warps:
        return
    if spec.integer("warpsHinted"):
        if remarks is not None:
            remarks.add(
                "warps",
                f"sums of products take {needed // (32 * warps)} registers of each thread: the hint "
                f"num_worker_warps_per_cta = {warps} is kept",
                func,
            )
        return
    while needed > SUM_REGISTERS * 32 * warps and warps < MOST_WARPS:
        warps *= 2
    fields = dict(spec.value.data) | {"numWarps": IntAttr(warps)}
    func.properties["kernel_spec"] = KernelSpecAttr(DictionaryAttr(fields))
    if remarks is not None:
        each = needed // (32 * warps)
        remarks.add(
            "warps", f"{warps} warps: sums of products take {each} registers of each thread", func
        )


def _sum_words(func: FuncOp) -> int:
    """The most words that sums of products take at once: those of chained products together."""
    chained = chained_products(func)
    most = together = 0
    for op in func.walk():
        if isinstance(op, DotOp):
            bits = max(FORMATS[T.element_name(T.element_of(op.c.type))].storage_bits, 32)
            words = prod(T.dims_of(op.c.type)) * bits // 32
            most = max(most, words)
            together += words if op in chained else 0
    return max(most, together)
