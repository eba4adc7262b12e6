"""Pointer provenance, and which accesses may alias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.dialects import scf
from xdsl.dialects.builtin import SymbolRefAttr
from xdsl.ir import Block, Operation, SSAValue

from tilewright.analysis.tileaa.flow import ForwardAnalysis
from tilewright.analysis.tileaa.geometry import cut_by, source_of_assumes, view_axes
from tilewright.analysis.tileaa.ranges import Ranges
from tilewright.dialects import facts
from tilewright.dialects.facts import Pointing
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.syntax.engine import values_of

RootKind = Literal["argument", "global", "alloca", "int_to_ptr", "unknown"]


@dataclass(frozen=True, slots=True, order=True)
class Root:
    """The memory that pointers are derived from.

    ``name`` distinguishes roots of one kind: the index of an argument, the symbol of a global, the
    number of an allocation. Memory of unknown root may be any memory that a caller can reach.
    """

    kind: RootKind
    name: str = ""

    def __str__(self) -> str:
        return {"argument": f"argument {self.name}", "global": f"@{self.name}"}.get(
            self.kind, f"{self.kind} {self.name}".strip()
        )


@dataclass(frozen=True, slots=True)
class Provenance:
    """The roots that a pointer, memref or view may be derived from, and its alias scope if any."""

    roots: frozenset[Root] = frozenset()
    scope: int | None = None

    def __str__(self) -> str:
        roots = ", ".join(map(str, sorted(self.roots))) or "nothing"
        return roots if self.scope is None else f"{roots}; alias scope {self.scope}"


_UNKNOWN = Provenance(frozenset({Root("unknown")}))
_NONE = Provenance()


def points(value: SSAValue) -> bool:
    """Whether a value is, contains or describes pointers."""
    ty = value.type
    return isinstance(ty, T.MemrefType | T.TiledViewType) or isinstance(T.element_of(ty), T.PtrType)


def origin_of(value: SSAValue) -> SSAValue:
    """Return the origin of a pointer, memref or view: walks back through operations whose results
    point into the memory of one operand. Values that come from control flow are origins."""
    while not isinstance(op := value.owner, Block):
        sources = [operand for operand in op.operands if points(operand)]
        if facts.points(op) is not Pointing.OPERANDS or len(sources) != 1:
            break
        value = sources[0]
    return value


def name_of_global(op: Operation) -> str:
    """Return the symbol of the global whose address an operation takes."""
    symbol = op.properties["symbol"]
    return symbol.string_value() if isinstance(symbol, SymbolRefAttr) else str(symbol)


class Provenances(ForwardAnalysis[Provenance]):
    """``of(value)``: the roots of a pointer-like value. Every address it holds belongs to one."""

    def __init__(self, function: FuncOp):
        allocations = (op for op in function.walk() if facts.points(op) is Pointing.NEW)
        self._allocations = {op: number for number, op in enumerate(allocations)}
        super().__init__(function)

    def unknown(self, value: SSAValue) -> Provenance:
        return _UNKNOWN if points(value) else _NONE

    def argument(self, value: SSAValue) -> Provenance:
        if not points(value):
            return _NONE
        index = self.function.body.block.args.index(value)
        return Provenance(frozenset({Root("argument", str(index))}), _scope_of(value))

    def join(self, one: Provenance, other: Provenance) -> Provenance:
        scope = one.scope if one.scope == other.scope else None
        return Provenance(one.roots | other.roots, scope)

    def widen(self, value: SSAValue, old: Provenance, new: Provenance) -> Provenance:
        return new  # terminates: the number of roots is finite

    def transfer(self, op: Operation) -> Sequence[Provenance] | None:
        match facts.points(op):
            case Pointing.EACH:
                return [self.of(operand) for operand in op.operands]
            case Pointing.OPERANDS:
                return [self._derived(op, result) for result in op.results]
            case Pointing.GLOBAL:
                root = Root("global", name_of_global(op))
            case Pointing.ADDRESS:
                root = Root("int_to_ptr")
            case Pointing.NEW:
                root = Root("alloca", str(self._allocations[op]))
            case Pointing.ANYWHERE:
                return None
        return [Provenance(frozenset({root}), _scope_of(op.results[0]))]

    def _derived(self, op: Operation, result: SSAValue) -> Provenance:
        sources = [self.of(operand) for operand in op.operands if points(operand)]
        if not sources or not points(result):
            return self.unknown(result)
        roots = frozenset[Root]().union(*(source.roots for source in sources))
        scopes = {source.scope for source in sources}
        inherited = scopes.pop() if len(scopes) == 1 else None
        found = _scope_of(result)
        return Provenance(roots, inherited if found is None else found)


def _scope_of(value: SSAValue) -> int | None:
    ty = value.type
    if isinstance(ty, T.TiledViewType):
        ty = ty.source
    return ty.alias_scope if isinstance(ty, T.MemrefType) else None


#: Roots that may overlap each other, and memory of a known name.
_ANYWHERE = frozenset({"int_to_ptr", "unknown"})


def may_overlap(one: Root, other: Root) -> bool:
    """Whether two roots can overlap.

    Arguments may overlap each other and a global. Results of ``alloca`` and distinct globals are
    disjoint from each other, as is an allocation from any argument.
    """
    if one == other or one.kind in _ANYWHERE or other.kind in _ANYWHERE:
        return True
    kinds = {one.kind, other.kind}
    return kinds <= {"argument"} or kinds == {"argument", "global"}


#: A memref and spans of elements along its axes; None if unknown.
Box = tuple[SSAValue | None, list[tuple[int, int]] | None]


class Aliases:
    """Determines which accesses of a function may touch the same memory."""

    def __init__(self, provenances: Provenances, ranges: Ranges):
        self.provenances = provenances
        self.ranges = ranges
        # Each access is compared with many others.
        self._boxes: dict[Access, Box] = {}

    def may_alias(self, one: Operation, other: Operation) -> bool:
        """Whether two operations can touch a common byte. True if unknown."""
        if not isinstance(one, Access) or not isinstance(other, Access):
            return True
        if _space(one) != _space(other) and 0 not in (_space(one), _space(other)):
            return False
        if not self.bases_may_alias(one.operands[0], other.operands[0]):
            return False
        return not self._boxes_apart(one, other)

    def bases_may_alias(self, one: SSAValue, other: SSAValue) -> bool:
        """Whether the memory that two values point to, or view, can overlap."""
        a, b = self.provenances.of(one), self.provenances.of(other)
        if a.scope is not None and b.scope is not None and a.scope != b.scope:
            return False
        return any(may_overlap(x, y) for x in a.roots for y in b.roots)

    def _boxes_apart(self, one: Access, other: Access) -> bool:
        """Whether both accesses are to constant, disjoint tiles of the same memref.

        A memref created in a loop may be at another address in each iteration.
        """
        places = [self._box(access) for access in (one, other)]
        (base_one, box_one), (base_other, box_other) = places
        if base_one is None or base_one is not base_other or box_one is None or box_other is None:
            return False
        if _changes(base_one):
            return False
        return any(
            a_high <= b_low or b_high <= a_low
            for (a_low, a_high), (b_low, b_high) in zip(box_one, box_other, strict=True)
        )

    def _box(self, access: Access) -> Box:
        found = self._boxes.get(access)
        if found is None:
            found = self._boxes[access] = self._find_box(access)
        return found

    def _find_box(self, access: Access) -> Box:
        """Return the memref of an access and the elements touched along each of its axes."""
        base = source_of_assumes(access.operands[0])
        moved = T.dims_of(access.moved.type)
        indices = values_of(access, "indices")
        axes = view_axes(base, moved) if points_to_memref(base) else None
        if (
            axes is None
            or any(axis.sparse for axis in axes)
            or any(T.dims_of(index.type) for index in indices)
        ):
            return None, None
        spans = []
        for axis, index in zip(axes, indices, strict=True):
            found = self.ranges.of(index)
            spans.append((found.low * axis.step, found.high * axis.step + axis.tile))
        cutter = cut_by(base)
        if cutter is None:
            return base, spans
        assert cutter.cut is not None
        return (
            source_of_assumes(cutter.source),
            [span for _, span in sorted(zip(cutter.cut.dim_map, spans, strict=True))],
        )


def _changes(value: SSAValue) -> bool:
    """Whether a value may change from iteration to iteration: defined in, or carried by, a loop."""
    at = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
    while at is not None and not isinstance(at, scf.ForOp | scf.WhileOp):
        at = at.parent_op()
    return at is not None


def points_to_memref(base: SSAValue) -> bool:
    """Whether a base is a memref or a view of one, not a pointer."""
    return isinstance(base.type, T.MemrefType | T.TiledViewType)


def _space(access: Access) -> int:
    ty = T.element_of(access.operands[0].type)
    return getattr(ty, "space", T.GLOBAL_SPACE)
