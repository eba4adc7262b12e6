"""``tileas-split-tiles``: let a block work through a tile part by part, where the accumulators of the whole do not fit
into registers.

A kernel of the form ::

    multiply tiles of 256 rows; store 256 rows

becomes one with a loop around that, each iteration of which multiplies and stores 64 or 128 rows. This is possible
where no row depends on another one: every store, and atomic update whose former values nobody uses, is traced back to what
it needs, and each value on the way is needed in parts along one axis, whole, or both. Whole values are computed before the loop.

Proof. By induction over the operations, a value in parts is the slice of the whole value: element-wise operations,
products by rows or columns, and reductions and scans along other axes act on each slice separately. Parts of a tile of a
view are tiles of a view with smaller tiles. Every element is stored once, by the same part in every execution of a store; relaxed updates may
happen in any order; what a part stores, no load reads that is ordered with the store, other than the same part of the same tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar, TypeAlias

from xdsl.dialects import builtin as b
from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator, is_side_effect_free

from tilewright.analysis.tileaa import Facts
from tilewright.analysis.tileaa.integers import is_splat
from tilewright.analysis.tileaa.slices import slicings
from tilewright.dialects import arith
from tilewright.dialects.arith.constants import ConstantOp
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp, ReduceOp, ScanOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.hints import CreateMemTokenOp, JoinMemTokenOp
from tilewright.dialects.nv_tileaa.ops.memory import (
    AtomicRMWOp,
    Load,
    LoadOp,
    StoreOp,
    TiledAtomicRMWOp,
    TiledLoadOp,
    TiledStoreOp,
)
from tilewright.dialects.nv_tileaa.ops.shapes import (
    MakeRangeOp,
    SplatOp,
)
from tilewright.dialects.syntax.engine import values_of
from tilewright.passes.base import inherit_location
from tilewright.passes.tileas import tile_ops
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.cleanup import erase_unused
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.product_costs import BESIDE_ACCUMULATORS, MOST_REGISTERS
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.schedule_builder import INDEX, ScheduleBuilder
from tilewright.passes.tileas.smaller_tiles import (
    CannotSplitError,
    InView,
    check_view,
    check_weak,
    part_type,
    smaller_view,
)
from tilewright.passes.tileas.target import REGISTERS
from tilewright.passes.tileas.thread_products import MOST_BYTES, is_by_threads
from tilewright.passes.tileas.warp_counts import DEFAULT_WARPS, block_warps
from tilewright.passes.tileas.warps import (
    MOST_WITH_PRODUCTS,
    accumulator_elements,
    largest_tile,
)

#: The fewest rows or columns of a part, if products are made of them.
LEAST_EXTENT = 16
#: The registers of a thread that it needs beside its part of the largest tile.
BESIDE_TILE = 40
#: What is put into memory in parts.
Put: TypeAlias = StoreOp | TiledStoreOp | AtomicRMWOp | TiledAtomicRMWOp
Form: TypeAlias = int | None
"""The axis along which a value is needed in parts; None for the whole."""


@dataclass(frozen=True)
class SplitTiles(FunctionPass):
    """Splits tiles whose accumulators do not fit into registers.

    ``num_warps``: the warps of a block of kernels without a hint, on whose registers that depends.
    """

    name: ClassVar[str] = "tileas-split-tiles"

    num_warps: int = DEFAULT_WARPS

    def rewrite_function(self, func: FuncOp) -> None:
        split_tiles(func, block_warps(func, self.num_warps))


def split_tiles(
    func: FuncOp, warps: int, remarks: Remarks | None = None, decided: int | None = None
) -> None:
    """Let the blocks of a kernel work through their tiles in as few parts as let accumulators fit into registers.

    That is, into those of ``warps`` warps, if they do not fit as a whole. ``decided``: in so many parts, 1 for the
    whole. Where that is not possible, a remark says why and nothing changes. Tiles have no layouts yet.
    """
    remarks = Remarks() if remarks is None else remarks
    parts, why = _wanted(func, warps) if decided is None else (decided, "")
    if parts == 1:
        return
    try:
        split_into(func, parts)
    except CannotSplitError as error:
        remarks.add("split", f"a tile is not worked through in {parts} parts: {error}", func)
        return
    message = f"each block works through its tiles in {parts} parts{why}"
    remarks.add("split", message, func, parts=parts)


def _wanted(func: FuncOp, warps: int) -> tuple[int, str]:
    """In how many parts accumulators fit into registers, or the largest tile of a kernel without products, and what they would
    take as a whole."""
    products = [op for op in func.walk() if isinstance(op, DotOp)]
    if products:
        what, held = "accumulators", max(accumulator_elements(op) for op in products)
        room = 32 * max(warps, MOST_WITH_PRODUCTS) * (MOST_REGISTERS - BESIDE_ACCUMULATORS)
    else:
        what, held = "a tile", largest_tile(func)
        room = 32 * warps * (min(MOST_REGISTERS, REGISTERS // (32 * warps)) - BESIDE_TILE)
    parts = 1
    while held > room * parts:
        parts *= 2
    batched = max(map(_bytes_of_threads, products), default=0)
    if batched > MOST_BYTES * parts:
        while batched > MOST_BYTES * parts:
            parts *= 2
        return parts, f": the operands of a product would take {batched} bytes of shared memory"
    return parts, f": {what} would take {held // (32 * warps)} registers of a thread"


def _bytes_of_threads(op: DotOp) -> int:
    """What the operands of a batch of products take that threads make by themselves; 0 for other products, which are split
    along k."""
    if len(T.dims_of(op.c.type)) == 2 or not is_by_threads(op):
        return 0
    return sum(prod(T.dims_of(value.type)) * element_bytes(value.type) for value in (op.a, op.b))


def split_into(func: FuncOp, parts: int, *, loops_once: bool = False) -> None:
    """Let the blocks of a kernel work through their tiles in ``parts`` parts, in place.

    ``loops_once``: no loop carries a tile as a whole, or along two axes, beside its parts.
    Raises ``CannotSplitError``, and changes nothing, if they cannot.
    """
    found = _analyse(func, parts)
    if loops_once:
        _check_loops(func, found)
    _Rewriting(func, found, parts).run()


def _check_loops(func: FuncOp, found: _Demands) -> None:
    for op in func.walk():
        if isinstance(op, scf.ForOp):
            forms = [found.forms.get(each, set()) for each in tile_ops.tiles_of(op.results)]
            if not all(map(_is_along_one, forms)):
                raise CannotSplitError("a loop carries a tile that is needed as a whole, too")


# What is needed in parts.


@dataclass(slots=True)
class _Demands:
    """In which forms values are needed, and along which axis each store goes in parts, of ``least`` elements at least."""

    parts: int
    least: int = LEAST_EXTENT
    forms: dict[SSAValue, set[Form]] = field(default_factory=dict)
    stores: dict[Operation, int] = field(default_factory=dict)

    def copy(self) -> _Demands:
        """A copy that can be added to."""
        forms = {value: set(found) for value, found in self.forms.items()}
        return _Demands(self.parts, self.least, forms, dict(self.stores))

    def need(self, value: SSAValue, form: Form) -> None:
        """A value in a form, and all that it comes from."""
        waiting = [(value, form)]
        while waiting:
            value, form = waiting.pop()
            if not isinstance(value.type, T.TileType):
                form = None
            held = self.forms.setdefault(value, set())
            if form in held:
                continue
            if form is not None:
                _check_extent(value, form, self.parts, self.least)
            held.add(form)
            waiting += self._sources(value, form)

    def _sources(self, value: SSAValue, form: Form) -> list[tuple[SSAValue, Form]]:
        owner = value.owner
        if isinstance(owner, Block) or owner.regions:
            outer = owner.parent_op() if isinstance(owner, Block) else owner
            if isinstance(outer, FuncOp):
                return []
            if isinstance(outer, scf.ForOp | scf.IfOp):
                return _through(outer, value, form)
            if not isinstance(outer, ReduceOp | ScanOp):
                raise CannotSplitError(f"a tile goes through '{getattr(outer, 'name', '')}'")
        op = owner
        assert isinstance(op, Operation)
        if isinstance(op, Put):
            return []  # a token: what the store needs is found at the store
        if isinstance(op, Load) and not isinstance(value.type, T.TileType):
            return [(each, None) for each in op.operands if not isinstance(each.type, T.TileType)]
        needs = [None] * len(op.operands) if form is None else _needs(op, form)
        return list(zip(op.operands, needs, strict=True))


def _check_extent(value: SSAValue, axis: int, parts: int, least: int) -> None:
    dims = T.dims_of(value.type)
    extent, is_batch = dims[axis], len(dims) > 2 and axis < len(dims) - 2
    if extent % parts or extent // parts < (1 if is_batch else least):
        raise CannotSplitError(f"a tile has {extent} elements along its axis")


def _through(op: scf.ForOp | scf.IfOp, value: SSAValue, form: Form) -> list[tuple[SSAValue, Form]]:
    """What a loop or branch needs for one of its results, or the body of a loop for an argument."""
    if isinstance(op, scf.IfOp):
        number = op.results.index(value)  # pyright: ignore[reportArgumentType]
        ends = [region.block.last_op for region in op.regions]
        return [(op.cond, None), *((end.operands[number], form) for end in ends if end is not None)]
    bounds: list[tuple[SSAValue, Form]] = [(bound, None) for bound in op.operands[:3]]
    if isinstance(value, BlockArgument):
        if value.index == 0:
            return bounds
        number = value.index - 1
    else:
        number = op.results.index(value)  # pyright: ignore[reportArgumentType]
    end = op.body.block.last_op
    assert end is not None
    carried = (op.operands[3 + number], end.operands[number], op.body.block.args[1 + number])
    return [*bounds, *((each, form) for each in carried)]


def _needs(op: Operation, axis: int) -> list[Form]:
    """In which forms an operation needs its operands for its result in parts along an axis."""
    whole: list[Form] = [None] * len(op.operands)
    if isinstance(op, ConstantOp) and not is_splat(op):
        raise CannotSplitError("a constant tile has several values")
    if isinstance(op, ConstantOp | SplatOp):
        return whole
    if isinstance(op, MakeRangeOp):
        if op.bounds:
            raise CannotSplitError("a range has computed bounds")
        return whole
    if isinstance(op, TiledLoadOp):
        check_view(op, op.result.type, axis)
        return whole
    if isinstance(op, LoadOp):
        check_weak(op)
        return _same_place(op, T.dims_of(op.result.type), axis)
    for slicing in slicings(op):
        if slicing.result == axis:
            return list(slicing.operands)
    raise CannotSplitError(f"'{op.name}' makes a tile as a whole along the axis of the parts")


def _same_place(op: Operation, dims: Sequence[int], axis: int) -> list[Form]:
    tiles = [isinstance(value.type, T.TileType) for value in op.operands]
    if any(
        T.dims_of(v.type) != tuple(dims) for v, tile in zip(op.operands, tiles, strict=True) if tile
    ):
        raise CannotSplitError(f"'{op.name}' takes tiles of several shapes")
    return [axis if tile else None for tile in tiles]


def _analyse(func: FuncOp, parts: int) -> _Demands:
    """What is needed in parts, with every product in parts of its own."""
    stores: list[Put] = []
    for op in func.walk():
        if isinstance(op, FuncOp | scf.ForOp | scf.IfOp | ReduceOp | ScanOp):
            continue
        if op.has_trait(IsTerminator) and not op.regions:
            continue
        if op.regions:
            raise CannotSplitError(f"the kernel has '{op.name}'")
        if isinstance(op, Put) and isinstance(_stored(op).type, T.TileType):
            stores.append(op)
        elif not is_side_effect_free(op) and not isinstance(op, Load):
            raise CannotSplitError(f"'{op.name}' has an effect that is not of parts")
        elif isinstance(op, Load):
            check_weak(op)
    has_products = any(isinstance(op, DotOp) for op in func.walk())
    found = _Demands(parts, LEAST_EXTENT if has_products else 1)
    for store in stores:
        found = _with_store(found, store)
    for op in func.walk():
        if isinstance(op, Load) and not any(
            value in found.forms for value in op.results if isinstance(value.type, T.TileType)
        ):
            for value in op.operands:  # it stays as it is, for its token
                found.need(value, None)
    for op in func.walk():
        if isinstance(op, DotOp) and not _is_along_one(found.forms.get(op.result, {0})):
            raise CannotSplitError("a product is needed as a whole, or along both axes")
        if isinstance(op, scf.IfOp | scf.ForOp) and _has_store(op):
            for value in op.operands[:3] if isinstance(op, scf.ForOp) else [op.cond]:
                found.need(value, None)
    _check_order(func, found)
    return found


def _is_along_one(forms: set[Form]) -> bool:
    """Whether a value is needed in parts only, along one axis."""
    return len(forms) == 1 and None not in forms


def _stored(op: Operation) -> SSAValue:
    return values_of(op, "value")[0]  # pyright: ignore[reportArgumentType]


def _has_store(op: Operation) -> bool:
    return any(isinstance(inner, Put) for inner in op.walk())


def _with_store(found: _Demands, op: Put) -> _Demands:
    """The demands with those of a store, along the longest axis for which all products are made in parts."""
    value, why = _stored(op), "a stored tile is too small"
    dims = T.dims_of(value.type)
    for axis in sorted(range(len(dims)), key=lambda axis: -dims[axis]):
        tried = found.copy()
        try:
            if isinstance(op, InView):
                check_view(op, value.type, axis)
                forms: Sequence[Form] = [axis if each is value else None for each in op.operands]
            else:
                check_weak(op)
                forms = _same_place(op, dims, axis)
            for operand, form in zip(op.operands, forms, strict=True):
                tried.need(operand, form)
            dots = [v for v in tried.forms if isinstance(v.owner, DotOp)]
            if not all(_is_along_one(tried.forms[v]) for v in dots):
                raise CannotSplitError("a product is needed as a whole, or along both axes")
        except CannotSplitError as error:
            why = str(error)
            continue
        tried.stores[op] = axis
        return tried
    raise CannotSplitError(why)


def _check_order(func: FuncOp, found: _Demands) -> None:
    """Refuse accesses that tokens order across parts: all but those of the same part of the same tiles."""
    graph = Facts(func)
    accesses = [op for op in func.walk() if isinstance(op, Access)]
    for store in found.stores:
        for other in accesses:
            # What has no token stays in its place.
            ordered = not all(map(graph.tokens.is_effect, (store, other))) or any(
                graph.tokens.ordered(*pair, around=True)
                for pair in ((store, other), (other, store))
            )
            bases = [op.operands[0] for op in (store, other)]
            if not ordered or (other is store and isinstance(store, InView)):
                continue
            if not graph.aliases.bases_may_alias(*bases) or _is_same_part(store, other, found):
                continue
            raise CannotSplitError(
                f"'{other.name}' and '{store.name}' are ordered, and may touch the same memory"
            )


def _is_same_part(store: Operation, other: Operation, found: _Demands) -> bool:
    if store.operands[0] is not other.operands[0] or not isinstance(other, InView):
        return False
    forms = (
        found.forms.get(other.results[0], set())
        if isinstance(other, Load)
        else {found.stores.get(other)}
    )
    return forms == {found.stores[store]}


# The rewrite.


class _Rewriting:
    """Puts a loop over parts around what is needed in parts, and around what depends on it."""

    def __init__(self, func: FuncOp, found: _Demands, parts: int):
        self.func, self.found, self.parts = func, found, parts
        self.part: SSAValue | None = None
        self.made: dict[tuple[SSAValue, int], SSAValue] = {}
        self.whole: dict[SSAValue, SSAValue] = {}
        self.views: dict[tuple[SSAValue, int], SSAValue] = {}

    def run(self) -> None:
        """Rewrite the function. Nothing is changed where a CannotSplitError is raised."""
        block = self._place()
        end = block.last_op
        assert end is not None
        inside = self._inside(block)
        outer = [op for op in self._preceding(block) if self._forms(op)]
        tokens = self._used_behind(inside, end)
        before = ScheduleBuilder(InsertPoint.before(end), inside[0])
        bounds = [before.index(number) for number in (0, self.parts, 1)]
        starts = [before.one(CreateMemTokenOp, (), value.type) for value in tokens]
        body = Block(arg_types=[INDEX, *(value.type for value in tokens)])
        self.part = body.args[0]
        self.part.name_hint = "part"
        for op in outer:
            self._emit_parts(op, body)
        for op in inside:
            self._emit(op, body)
        last = ScheduleBuilder(InsertPoint.at_end(body), inside[-1])
        joined = [
            last.one(JoinMemTokenOp, (argument, self.whole[value]), value.type)
            for argument, value in zip(body.args[1:], tokens, strict=True)
        ]
        body.add_op(scf.YieldOp.create(operands=joined))
        loop = scf.ForOp.create(
            operands=[*bounds, *starts],
            result_types=[value.type for value in tokens],
            regions=[Region(body)],
        )
        inherit_location(loop, inside[0])
        Rewriter.insert_op(loop, InsertPoint.before(end))
        for value, result in zip(tokens, loop.results, strict=True):
            value.replace_uses_with_if(result, lambda use: use.operation is end)
        for op in reversed(inside):
            op.detach()
            op.erase()
        erase_unused([op for op in self.func.walk() if not op.regions])

    @staticmethod
    def _used_behind(inside: Sequence[Operation], end: Operation) -> list[SSAValue]:
        """The tokens of what is done in parts that the end of the block uses."""
        found = [value for value in dict.fromkeys(end.operands) if value.owner in inside]
        if any(not isinstance(value.type, T.MemTokenType) for value in found):
            raise CannotSplitError("a value that comes from its parts is used as a whole")
        return found

    def _place(self) -> Block:
        """The innermost block around all that is in parts or stores."""
        block = self.func.body.block
        while True:
            heavy = [op for op in block.ops if _has_store(op) or self._carries(op)]
            if (
                len(heavy) != 1
                or not isinstance(heavy[0], scf.ForOp | scf.IfOp)
                or self._carries(heavy[0])
            ):
                return block
            inner = [
                r.block for r in heavy[0].regions if r.blocks and any(map(_has_store, r.block.ops))
            ]
            if len(inner) != 1 or any(
                not isinstance(value.type, T.MemTokenType) for value in heavy[0].results
            ):
                return block
            block = inner[0]

    def _carries(self, op: Operation) -> bool:
        return bool(op.regions) and bool(self._forms(op))

    def _forms(self, op: Operation) -> set[int]:
        """The axes along which results of an operation are needed in parts."""
        return {
            form
            for value in op.results
            for form in self.found.forms.get(value, ())
            if form is not None
        }

    def _preceding(self, block: Block) -> list[Operation]:
        """The operations of the blocks around a block, in front of it."""
        found: list[Operation] = []
        outer = block.parent_op()
        while outer is not None and not isinstance(outer, FuncOp):
            around = outer.parent
            assert around is not None
            found = [*self._before(around, outer), *found]
            outer = around.parent_op()
        return found

    @staticmethod
    def _before(block: Block, end: Operation) -> list[Operation]:
        found: list[Operation] = []
        for op in block.ops:
            if op is end:
                break
            found.append(op)
        return found

    def _inside(self, block: Block) -> list[Operation]:
        """The operations of a block that are in parts, store, or depend on such."""
        found: dict[Operation, None] = {}
        for op in block.ops:
            if op.has_trait(IsTerminator):
                continue
            operands = [value for inner in op.walk() for value in inner.operands]
            if self._forms(op) or _has_store(op) or any(v.owner in found for v in operands):
                found[op] = None
        return list(found)

    # Operations, one by one.

    def _emit(self, op: Operation, block: Block) -> None:
        """All forms of an operation that are needed, at the end of a block."""
        if isinstance(op, scf.ForOp | scf.IfOp):
            self._emit_region(op, block)
            return
        if isinstance(op, Put):
            self._emit_store(op, block)
            return
        forms = self._forms(op)
        whole = any(
            None in self.found.forms.get(value, ()) and not self._is_token(op, value, forms)
            for value in op.results
        )
        if whole:
            new = op.clone({v: self.whole.get(v, v) for v in op.operands})
            self._added(new, op, block)
            self.whole.update(zip(op.results, new.results, strict=True))
        self._emit_parts(op, block, tokens=not whole)

    @staticmethod
    def _is_token(op: Operation, value: SSAValue, forms: set[int]) -> bool:
        """Whether a load in parts gives this result beside its tile."""
        return bool(forms) and not isinstance(value.type, T.TileType)

    def _emit_parts(self, op: Operation, block: Block, *, tokens: bool = False) -> None:
        for axis in sorted(self._forms(op)):
            if isinstance(op, ConstantOp):
                made = ConstantOp.from_bits(self._type(op.result, axis), op.bits())
                news = [self._added(made, op, block).results[0]]
            elif isinstance(op, MakeRangeOp):
                news = [self._range(op, block)]
            elif isinstance(op, TiledLoadOp):
                news = self._load(op, axis, block)
            else:
                needs = _needs(op, axis)
                operands = [self._value(v, f) for v, f in zip(op.operands, needs, strict=True)]
                new = op.clone(dict(zip(op.operands, operands, strict=True)))
                new.operands = operands
                for result in new.results:
                    if isinstance(result.type, T.TileType):
                        result._type = self._type(result, axis)
                news = list(self._added(new, op, block).results)
            for result, value in zip(op.results, news, strict=True):
                if isinstance(result.type, T.TileType):
                    self.made[result, axis] = value
                elif tokens:
                    self.whole[result] = value

    def _emit_store(self, op: Put, block: Block) -> None:
        axis = self.found.stores[op]
        if isinstance(op, InView):
            forms: Sequence[Form] = [
                axis if value is _stored(op) else None for value in op.operands
            ]
        else:
            forms = _same_place(op, T.dims_of(_stored(op).type), axis)
        operands = [self._value(v, f) for v, f in zip(op.operands, forms, strict=True)]
        if isinstance(op, InView):
            operands = self._in_view(op, operands, axis, block)
        new = op.clone({})
        new.operands = operands
        for result in tile_ops.tiles_of(new.results):
            result._type = self._type(result, axis)
        self._added(new, op, block)
        self.whole.update(zip(op.results, new.results, strict=True))

    def _emit_region(self, op: scf.ForOp | scf.IfOp, block: Block) -> None:
        """A loop or branch that carries each value in all forms that are needed."""
        slots: list[tuple[int, Form]] = []
        carried = op.body.block.args[1:] if isinstance(op, scf.ForOp) else op.results
        for number, value in enumerate(carried):
            forms = set(self.found.forms.get(value, ())) | set(
                self.found.forms.get(op.results[number], ())
            )
            if not isinstance(value.type, T.TileType):
                forms = {None}
            slots += [
                (number, form)
                for form in sorted(forms, key=lambda form: -1 if form is None else form)
            ]
        types = [
            carried[number].type if form is None else self._type(carried[number], form)
            for number, form in slots
        ]
        regions: list[Region] = []
        for region in op.regions:
            new = Block()
            if isinstance(op, scf.ForOp):
                old = region.block.args[0]
                self.whole[old] = new.insert_arg(old.type, 0)
                self.whole[old].name_hint = old.name_hint
                for (number, form), ty in zip(slots, types, strict=True):
                    argument = new.insert_arg(ty, len(new.args))
                    argument.name_hint = carried[number].name_hint
                    self._bind(carried[number], form, argument)
            if region.blocks:
                for inner in region.block.ops:
                    if not isinstance(inner, scf.YieldOp):
                        self._emit(inner, new)
                end = region.block.last_op
                assert end is not None
                given = [self._value(end.operands[number], form) for number, form in slots]
                new.add_op(scf.YieldOp.create(operands=given))
                regions.append(Region(new))
            else:
                regions.append(Region())
        if isinstance(op, scf.ForOp):
            starts = [self._value(op.operands[3 + number], form) for number, form in slots]
            operands = [*(self._value(v, None) for v in op.operands[:3]), *starts]
        else:
            operands = [self._value(op.cond, None)]
        new_op = type(op).create(
            operands=operands,
            result_types=types,
            attributes=op.attributes,
            properties=op.properties,
            regions=regions,
        )
        self._added(new_op, op, block)
        for (number, form), result in zip(slots, new_op.results, strict=True):
            result.name_hint = op.results[number].name_hint
            self._bind(op.results[number], form, result)

    def _bind(self, value: SSAValue, form: Form, new: SSAValue) -> None:
        if form is None:
            self.whole[value] = new
        else:
            self.made[value, form] = new

    # Values.

    def _value(self, value: SSAValue, form: Form) -> SSAValue:
        if form is None or not isinstance(value.type, T.TileType):
            return self.whole.get(value, value)
        return self.made[value, form]

    def _type(self, value: SSAValue, axis: int) -> T.TileType:
        return part_type(value.type, axis, self.parts)

    def _added(self, new: Operation, old: Operation, block: Block) -> Operation:
        for mine, other in zip(new.walk(), old.walk(), strict=False):
            inherit_location(mine, other)
        for mine, other in zip(new.results, old.results, strict=False):
            mine.name_hint = other.name_hint
        block.add_op(new)
        return new

    def _range(self, op: MakeRangeOp, block: Block) -> SSAValue:
        """The range of a part: that of the first one, and where the part begins."""
        at = ScheduleBuilder(InsertPoint.at_end(block), op)
        ty = self._type(op.result, 0)
        start = int_property(op, "start")
        (extent,) = ty.dims
        bounds = {"start": start, "end": start + extent}
        held = {name: b.IntegerAttr(number, b.i64) for name, number in bounds.items()}
        first = at.add(
            MakeRangeOp.create(result_types=[ty], properties={**op.properties, **held})
        ).results[0]
        size = at.index(extent)
        begin = at.one(arith.MuliOp, (self._part(), size), INDEX)
        if ty.element_type != INDEX:
            begin = at.one(arith.IndexCastOp, (begin,), ty.element_type)
        return at.one(arith.AddiOp, (first, at.one(SplatOp, (begin,), ty)), ty)

    def _part(self) -> SSAValue:
        assert self.part is not None
        return self.part

    def _load(self, op: TiledLoadOp, axis: int, block: Block) -> list[SSAValue]:
        operands = self._in_view(op, [self._value(v, None) for v in op.operands], axis, block)
        new = op.clone({})
        new.operands = operands
        new.result._type = self._type(op.result, axis)
        return list(self._added(new, op, block).results)

    def _in_view(
        self, op: InView, operands: list[SSAValue], axis: int, block: Block
    ) -> list[SSAValue]:
        """The operands of an access with a view of smaller tiles, and the index of the part's."""
        at = ScheduleBuilder(InsertPoint.at_end(block), op)
        position = axis + (1 if isinstance(op, TiledLoadOp) else 2)
        first = at.one(arith.MuliOp, (operands[position], at.index(self.parts)), INDEX)
        index = at.one(arith.AddiOp, (first, self._part()), INDEX)
        view = self._view(op, axis)
        return [view, *operands[1:position], index, *operands[position + 1 :]]

    def _view(self, op: InView, axis: int) -> SSAValue:
        """The view of an access with tiles of parts, beside it."""
        found = self.views.get((op.base, axis))
        if found is None:
            found = self.views[op.base, axis] = smaller_view(op, axis, self.parts)
        return found
