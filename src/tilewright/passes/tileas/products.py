"""Which instruction of the tensor cores makes a product, and the warps that share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileas.elementwise import is_elementwise
from tilewright.layouts import Fragment, Layout, accumulator, operand_a, operand_b

#: By the type of the operands, the instruction with most k first.
FRAGMENTS: dict[str, tuple[Fragment, ...]] = {
    "f16": (Fragment(16, 8, 16, 16),),
    "bf16": (Fragment(16, 8, 16, 16),),
    "tf32": (Fragment(16, 8, 8, 32),),
    "i8": (Fragment(16, 8, 32, 8), Fragment(16, 8, 16, 8)),
    "f64": (Fragment(8, 8, 4, 64),),
}
#: The types whose numbers another type, that the tensor cores have, holds too.
WIDER = {"f8E4M3FN": "f16", "f8E5M2": "f16"}
_SUMS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",), "i8": ("i32",)}


@dataclass(frozen=True, slots=True)
class Plan:
    """A product by ``fragment`` over a grid of ``warps``: rows, columns. ``name`` is the type of the
    operands."""

    name: str
    fragment: Fragment
    warps: tuple[int, int]
    a_dims: tuple[int, ...]
    b_dims: tuple[int, ...]
    dims: tuple[int, ...]

    @property
    def bits(self) -> int:
        """The bits of an element of the operands."""
        return self.fragment.bits

    @property
    def sums(self) -> Layout:
        return accumulator(self.dims, self.fragment, self.warps)

    @property
    def a(self) -> Layout:
        return operand_a(self.a_dims, self.fragment, self.warps)

    @property
    def b(self) -> Layout:
        return operand_b(self.b_dims, self.fragment, self.warps)


def plan_product(op: DotOp, warps: int, chained: bool) -> Plan | None:
    """How the tensor cores make a product; None where they do not have its types or extents.

    ``chained``: its result goes into the left operand of another product, or its left operand comes
    from one: warps are then stacked along the rows, so that it can stay in registers.
    """
    names = [T.element_name(T.element_of(value.type)) for value in (op.a, op.b, op.c)]
    left, right = (WIDER.get(name, name) for name in names[:2])
    if op.sfa is not None or left != right or names[2] not in _SUMS.get(left, ()):
        return None
    if left == "i8" and any(enum_property(op, f"signedness_{x}") == "unsigned" for x in "ab"):
        return None
    a_dims, b_dims, dims = (T.dims_of(value.type) for value in (op.a, op.b, op.c))
    rows, columns, depth = dims[-2], dims[-1], a_dims[-1]
    for fragment in FRAGMENTS[left]:
        if rows >= fragment.m and columns >= fragment.n and depth >= fragment.k:
            grid = _grid(rows // fragment.m, columns // fragment.n, warps, chained)
            return Plan(left, fragment, grid, a_dims, b_dims, dims)
    return None


def _grid(rows: int, columns: int, warps: int, chained: bool) -> tuple[int, int]:
    """Warps along rows and columns of fragments: the split that loads the least of both operands;
    those that find no part of their own repeat that of others."""
    best: tuple[float, tuple[int, int]] | None = None
    down = 1
    while down <= warps:
        across = warps // down
        used = min(down, rows) * min(across, columns)
        load = max(rows // down, 1) * 2 + max(columns // across, 1)
        cost = (-used, -min(down, rows) if chained else load, -down)
        if best is None or cost < best[0]:  # pyright: ignore[reportOperatorIssue]
            best = cost, (down, across)  # pyright: ignore[reportAssignmentType]
        down *= 2
    assert best is not None
    return best[1]


def chained_products(root: Operation) -> set[Operation]:
    """The products of a function of which one goes into the left operand of another."""
    found: set[Operation] = set()
    for op in root.walk():
        if isinstance(op, DotOp):
            for source in _sources(op.a):
                found |= {op, source}
    return found


def _sources(value: SSAValue) -> Sequence[DotOp]:
    """The products that a value comes from, element by element."""
    seen: set[SSAValue] = set()
    waiting, found = [value], []
    while waiting:
        owner = waiting.pop().owner
        if isinstance(owner, DotOp):
            found.append(owner)
        elif isinstance(owner, Operation) and is_elementwise(owner):
            for operand in owner.operands:
                if isinstance(operand.type, T.TileType) and operand not in seen:
                    seen.add(operand)
                    waiting.append(operand)
    return found
