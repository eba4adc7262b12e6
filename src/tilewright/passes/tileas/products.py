"""Selects the tensor-core instruction of a product and the warps that share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileas.elementwise import is_elementwise
from tilewright.layouts import Fragment, Layout, accumulator, operand_a, operand_b
from tilewright.passes.tileas.target import Target

#: By the type of the operands, the instruction with most k first.
FRAGMENTS: dict[str, tuple[Fragment, ...]] = {
    "f16": (Fragment(16, 8, 16, 16),),
    "bf16": (Fragment(16, 8, 16, 16),),
    "tf32": (Fragment(16, 8, 8, 32),),
    "f8E4M3FN": (Fragment(16, 8, 32, 8),),
    "f8E5M2": (Fragment(16, 8, 32, 8),),
    "i8": (Fragment(16, 8, 32, 8), Fragment(16, 8, 16, 8)),
    "f64": (Fragment(8, 8, 4, 64),),
}
#: The types whose numbers another type, that the tensor cores have, holds too.
WIDER = {"f8E4M3FN": "f16", "f8E5M2": "f16"}
#: The types of sums that instructions have, by the type of the operands.
SUMS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",), "i8": ("i32",)}
#: An operand of 8 bits that does not lie along k is taken in pairs of neighbours, of so many at a time.
TURNED_EXTENT, TURNED_DEPTH = 16, 32
_TRANSPOSED_COST = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """A product by ``fragment`` over a grid of ``warps``: rows, columns. ``name`` is the type of the
    operands, ``right_name`` that of the right one where it is another; ``atom`` the instruction, as ``nv_tileas.dot``
    says it. ``turned`` says which operands of 8 bits lie along the rows or columns of the result. ``spread``: threads that
    compute the right operand hold ``2**spread`` neighbours of its rows."""

    name: str
    fragment: Fragment
    warps: tuple[int, int]
    a_dims: tuple[int, ...]
    b_dims: tuple[int, ...]
    dims: tuple[int, ...]
    right_name: str = ""
    atom: str = "mma_sync"
    turned: tuple[bool, bool] = (False, False)
    spread: int = 0

    @property
    def bits(self) -> int:
        """The bits of an element of the operands."""
        return self.fragment.bits

    @property
    def accumulator(self) -> Layout:
        """The layout of the accumulator."""
        return accumulator(self.dims, self.fragment, self.warps, self.turned, self.spread)

    @property
    def a(self) -> Layout:
        """The layout of the left operand."""
        return operand_a(self.a_dims, self.fragment, self.warps, self.turned[0])

    @property
    def b(self) -> Layout:
        """The layout of the right operand."""
        return operand_b(self.b_dims, self.fragment, self.warps, self.turned[1], self.spread)

    @property
    def can_transpose(self) -> tuple[bool, bool]:
        """Which operands may lie along the rows or columns of the result, if they have 8 bits."""
        fits = self.bits == 8 and self.fragment.k == TURNED_DEPTH
        return fits and self.dims[-2] >= TURNED_EXTENT, fits and self.dims[-1] >= TURNED_EXTENT

    def with_turned(self, turned: tuple[bool, bool], chained: bool) -> Plan:
        """The same product, with these operands turned."""
        width = TURNED_EXTENT if turned[1] else self.fragment.n
        rows, columns = self.dims[-2] // self.fragment.m, self.dims[-1] // width
        # Bytes that are put together anew cost more than those that come as they are.
        costs = _TRANSPOSED_COST if turned[0] else 2, _TRANSPOSED_COST if turned[1] else 1
        grid = _grid(rows, columns, self.warps[0] * self.warps[1], chained, costs)
        return replace(self, turned=turned, warps=grid)

    def describe(self) -> str:
        """As remarks call it."""
        fragment, grid = self.fragment, "x".join(map(str, self.warps))
        names = " and ".join(dict.fromkeys((self.name, self.right_name or self.name)))
        found = f"mma.sync m{fragment.m}n{fragment.n}k{fragment.k} of {names} by {grid} warps"
        if self.atom == WIDENED:
            found += ", converted to f16 in registers"
        sides = " and ".join(side for side, on in zip("ab", self.turned, strict=True) if on)
        return f"{found}, {sides} transposed by ldmatrix in byte pairs" if sides else found


#: The instruction of nv_tileas.dot for floats of 8 bits that threads widen in fragments.
WIDENED = "mma_sync_f16"


def plan_product(op: DotOp, warps: int, chained: bool, target: Target | None = None) -> Plan | None:
    """How the tensor cores make a product; None where they do not have its types or extents.

    ``chained``: its result goes into the left operand of another product, or its left operand comes
    from one: warps are then stacked along the rows, so that it can stay in registers.
    """
    names = [T.element_name(T.element_of(value.type)) for value in (op.a, op.b, op.c)]
    left, right = (WIDER.get(name, name) for name in names[:2])
    if op.sfa is not None or left != right or names[2] not in SUMS.get(left, ()):
        return None
    a_dims, b_dims, dims = (T.dims_of(value.type) for value in (op.a, op.b, op.c))
    rows, columns, depth = dims[-2], dims[-1], a_dims[-1]
    atom = "mma_sync"
    (eighth,) = FRAGMENTS["f8E5M2"]
    if names[0] in WIDER and names[1] in WIDER and depth >= eighth.k:
        way = (target or Target()).byte_floats("fast_acc" in op.attributes)
        if way:
            left, right, atom = names[0], names[1], way
    for fragment in FRAGMENTS[left]:
        if rows >= fragment.m and columns >= fragment.n and depth >= fragment.k:
            grid = _grid(rows // fragment.m, columns // fragment.n, warps, chained)
            return Plan(left, fragment, grid, a_dims, b_dims, dims, right, atom)
    return None


def _grid(
    rows: int, columns: int, warps: int, chained: bool, costs: tuple[int, int] = (2, 1)
) -> tuple[int, int]:
    """Warps along rows and columns of fragments, which take these ``costs`` to load: the split that loads
    the least of both operands; those that find no part of their own repeat that of others."""
    best: tuple[float, tuple[int, int]] | None = None
    down = 1
    while down <= warps:
        across = warps // down
        used = min(down, rows) * min(across, columns)
        load = max(rows // down, 1) * costs[0] + max(columns // across, 1) * costs[1]
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
