"""Products by ``wgmma``: which are possible, and their layouts."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.layouts import Layout, warpgroup_accumulator, warpgroup_operand_a

#: Bits of the elements that there are products of, and the type of the sums.
ELEMENTS = {
    "f16": (16, ("f16", "f32")),
    "bf16": (16, ("f32",)),
    "tf32": (32, ("f32",)),
    "f8E4M3FN": (8, ("f16", "f32")),
    "f8E5M2": (8, ("f16", "f32")),
    "i8": (8, ("i32",)),
}
#: Sums of products of these keep 14 bits, which a product must allow (``fast_acc``).
COARSE = ("f8E4M3FN", "f8E5M2")
ROWS, MOST_COLUMNS, STEP_BYTES, WARPS = 64, 256, 32, 4
#: The extents of a row of shared memory that swizzles know, in bytes.
LEAST_ROW_BYTES = 32
LEAST_BYTE_COLUMNS = 16


@dataclass(frozen=True, slots=True)
class WarpgroupPlan:
    """A product by warpgroups, in a grid of ``groups``: along rows, along columns."""

    name: str
    bits: int
    groups: tuple[int, int]
    a_dims: tuple[int, ...]
    b_dims: tuple[int, ...]
    dims: tuple[int, ...]

    @property
    def warps(self) -> tuple[int, int]:
        """The grid of warps along rows and columns."""
        return WARPS * self.groups[0], self.groups[1]

    @property
    def accumulator(self) -> Layout:
        """The layout of the accumulator."""
        return warpgroup_accumulator(self.dims, self.groups)

    @property
    def a(self) -> Layout:
        """The layout of the left operand, where it lies in registers."""
        return warpgroup_operand_a(self.a_dims, self.bits, self.groups)

    @property
    def rows(self) -> int:
        """The rows of a warpgroup."""
        return self.dims[-2] // self.groups[0]

    @property
    def columns(self) -> int:
        """The columns of a warpgroup."""
        return self.dims[-1] // self.groups[1]

    @property
    def is_possible(self) -> bool:
        """Whether there are instructions for the rows and columns of each warpgroup."""
        # Groups side by side begin where panels of 128 bytes do, or, of elements of 8 bits, which lie along k,
        # where a swizzle's pattern of 8 rows does.
        least = 128 if self.groups[1] > 1 else LEAST_ROW_BYTES
        columns = self.columns
        few = columns < LEAST_BYTE_COLUMNS if self.bits == 8 else columns * self.bits < least * 8
        return self.rows >= ROWS and columns <= MOST_COLUMNS and not few

    def describe(self) -> str:
        """As remarks call it."""
        depth = STEP_BYTES * 8 // self.bits
        down, across = self.groups
        return f"wgmma m{ROWS}n{self.columns}k{depth} of {self.name} by {down}x{across} warpgroups"


def plan_warpgroups(op: DotOp, warps: int) -> WarpgroupPlan | None:
    """How warpgroups make a product; None where they do not have its types or extents."""
    names = [T.element_name(T.element_of(value.type)) for value in (op.a, op.b, op.c)]
    if op.sfa is not None or names[0] != names[1] or names[0] not in ELEMENTS or warps % WARPS:
        return None
    bits, sums = ELEMENTS[names[0]]
    if names[2] not in sums or (names[0] in COARSE and "fast_acc" not in op.attributes):
        return None
    a_dims, b_dims, dims = (T.dims_of(value.type) for value in (op.a, op.b, op.c))
    if prod(dims[:-2]) != 1 or dims[-2] < ROWS or a_dims[-1] * bits < STEP_BYTES * 8:
        return None
    groups = warps // WARPS
    down = min(groups, dims[-2] // ROWS)
    plan = WarpgroupPlan(names[0], bits, (down, groups // down), a_dims, b_dims, dims)
    return plan if plan.is_possible else None
