"""Which loads of a loop can be prefetched to shared memory, by threads or by tensor maps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import TypeAlias

from xdsl.dialects import builtin as b
from xdsl.dialects import scf
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from tilewright.analysis.tileaa import Facts, must_stay
from tilewright.analysis.tileaa.geometry import source_of_assumes
from tilewright.dialects.arith.constants import ConstantOp
from tilewright.dialects.declare import bool_array, enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import int_list
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp, ScanOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import Load, LoadOp, TiledLoadOp
from tilewright.dialects.nv_tileaa.ops.shapes import BlockTileOp, BroadcastOp, SplatOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.asynchronous import AsyncCopy, AsyncLoadOp, AsyncTiledLoadOp
from tilewright.dialects.nv_tileas.base import is_within
from tilewright.dialects.nv_tileas.types import (
    ASYNC_TOKEN,
    SharedAttr,
    TiledViewType,
    layout_of,
    permuted_view,
)
from tilewright.dialects.syntax.engine import values_of
from tilewright.layouts import Layout, SharedLayout
from tilewright.layouts.conversions import (
    WIDEST,
    ordered_for,
    plan_conversion,
    plan_shared_conversion,
)
from tilewright.numerics.element_types import FORMATS
from tilewright.passes.tileas import tile_ops
from tilewright.passes.tileas.access_layouts import (
    Shape,
    access_shape,
    coalesced,
    copied,
    element_bytes,
    storage_between,
)
from tilewright.passes.tileas.cleanup import pass_token_on
from tilewright.passes.tileas.element_accesses import goes_by_element
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.schedule_builder import ScheduleBuilder

#: The least that an asynchronous copy moves, in bytes.
LEAST_BYTES = 4
TileLoad: TypeAlias = TiledLoadOp | LoadOp


@dataclass(frozen=True, slots=True)
class Reader:
    """A copy of a loaded tile to storage, after changes of its shape and at last maybe of the order of
    its axes."""

    copy: S.CopyOp
    shapes: tuple[Operation, ...]

    @property
    def storage(self) -> SSAValue:
        """The shared memory that the tile is copied to."""
        return self.copy.target

    @property
    def users(self) -> set[Operation]:
        """What reads the storage."""
        return {use.operation for use in self.storage.uses} - {self.copy}

    @property
    def order(self) -> list[int] | None:
        """The order of axes, where it changes; else None."""
        if not self.shapes or self.shapes[-1].name != tile_ops.PERMUTE:
            return None
        return list(int_list(self.shapes[-1].properties["permutation"]))

    @property
    def unpermuted(self) -> TiledViewType:
        """The storage before its axes are put in order."""
        ty, order = self.storage.type, self.order
        assert isinstance(ty, TiledViewType)
        if order is None:
            return ty
        return permuted_view(ty, [order.index(axis) for axis in range(len(order))])


@dataclass(frozen=True, slots=True)
class PrefetchedLoad:
    """A load of the loop that can be prefetched, and the operations that its indices, or its pointers and mask, come
    from, other loads among them.

    ``target`` is a stage, in the shape of what is loaded. Where all that takes the tile are copies to
    storage of one layout, products read the stage itself; else, without ``readers``, the tile is read
    from there to registers.
    """

    load: TileLoad
    target: TiledViewType
    readers: tuple[Reader, ...]
    needs: tuple[Operation, ...]
    width: int

    @property
    def users(self) -> set[Operation]:
        """What reads the tile from storage."""
        return {user for reader in self.readers for user in reader.users}

    @property
    def bytes(self) -> int:
        """The bytes of one tile, which is one stage of the ring."""
        return prod(self.target.dims) * element_bytes(self.target.element_type)

    @property
    def loaded(self) -> tuple[Load, ...]:
        """The loads that have to be made before it can begin."""
        return tuple(op for op in self.needs if isinstance(op, Load))

    @property
    def roots(self) -> list[SSAValue]:
        """What is computed anew for each iteration."""
        return roots_of(self.load)

    @property
    def seen(self) -> TiledViewType:
        """A stage in the shape that it has before its axes are put in order."""
        return self.readers[0].unpermuted if self.readers else self.target


def roots_of(load: TileLoad) -> list[SSAValue]:
    """What says from where a tile is loaded: indices of a view, or pointers, and a mask."""
    if isinstance(load, TiledLoadOp):
        return list(load.indices)
    return [load.base, *values_of(load, "mask")]


class Loads:
    """What is known of the loads of a function, as long as it is not changed."""

    def __init__(self, func: FuncOp):
        self.func = func
        self.facts = Facts(func)

    def follows_access(self, load: Load, within: Collection[Operation] = ()) -> bool:
        """Whether tokens order an access, none of those ``within`` a loop, which may touch the same memory, before a
        load: what threads have done there must be visible to others before copies start."""
        tokens, aliases = self.facts.tokens, self.facts.aliases
        return any(
            isinstance(op, Access)
            and op not in within
            and must_stay(op, load, aliases)
            and tokens.ordered(op, load, around=True)
            for op in self.func.walk()
        )

    def leads_access(self, load: Load) -> bool:
        """Whether an access that may change what is loaded comes behind a load."""
        tokens, aliases = self.facts.tokens, self.facts.aliases
        return any(
            isinstance(op, Access)
            and op is not load
            and must_stay(load, op, aliases)
            and (not tokens.is_effect(op) or tokens.ordered(load, op, around=True))
            for op in self.func.walk()
        )

    def width(self, load: TileLoad, target: TiledViewType) -> int:
        """How many neighbours, in memory and in storage, a thread copies at once, in elements."""
        shape, dims = access_shape(self.facts, load), T.dims_of(load.result.type)
        layout = self.filled(load, shape)
        width = min(shape.width, layout.run(dims, shape.axis))
        return min(width, target.shared.vector(layout, width))

    def filled(self, load: TileLoad, shape: Shape) -> Layout:
        """The layout in which threads copy a tile to storage: one through pointers as they hold these."""
        layout, dims = layout_of(load.result.type), T.dims_of(load.result.type)
        assert layout is not None
        if not isinstance(load, TiledLoadOp):
            return layout
        found = coalesced(dims, layout.threads, shape)
        # Copies cannot be as narrow as loads.
        least = min(LEAST_BYTES // element_bytes(load.result.type), shape.width)
        if found.run(dims, shape.axis) < least:
            return copied(dims, layout.threads, Shape(shape.axis, least))
        return found

    def padding(self, load: TiledLoadOp) -> str:
        """The keyword of what a load has outside of its view, as it or the view says; empty if neither does."""
        own = enum_property(load, "padding_value") if "padding_value" in load.properties else ""
        cutter = source_of_assumes(load.base).owner
        if own or not isinstance(cutter, BlockTileOp):
            return own
        return enum_property(cutter, "padding_value")

    def copy(self, load: TileLoad, target: SSAValue, width: int, *, ordered: bool) -> AsyncCopy:
        """The copy of a loaded tile to storage, ``width`` elements at a time; not inserted yet."""
        properties: dict[str, Attribute] = {"vector": b.IntegerAttr(width, b.i64)}
        if ordered:
            properties["ordered"] = b.UnitAttr()
        proven = access_shape(self.facts, load).known
        if proven < width:
            properties["proven"] = b.IntegerAttr(proven, b.i64)
        operands = [*roots_of(load), target]
        if isinstance(load, LoadOp):
            sizes = [1, len(operands) - 2, 1]
        else:
            bounds = self.facts.bounds.of(load)
            inside = [fact.verdict == "inside" for fact in bounds] or [False] * len(load.indices)
            properties["in_bounds"] = bool_array(inside)
            operands, sizes = [load.base, *operands], [1, len(load.indices), 1]
        properties["operandSegmentSizes"] = b.DenseArrayBase.from_list(b.i32, sizes)
        kind = AsyncLoadOp if isinstance(load, LoadOp) else AsyncTiledLoadOp
        return kind.create(operands=operands, result_types=(ASYNC_TOKEN,), properties=properties)


class LoopLoads(Loads):
    """Finds what can be prefetched in a loop."""

    def __init__(self, func: FuncOp, loop: scf.ForOp, remarks: Remarks):
        super().__init__(func)
        self.loop, self.body = loop, loop.body.block
        self.remarks = remarks

    def loads(self, *, boxes: bool = False) -> list[PrefetchedLoad]:
        """What can be prefetched, thread by thread, or in ``boxes``, for which neighbours need not be
        aligned, and which products read as they come. Of threads remarks say why others cannot."""
        taken = TiledLoadOp if boxes else (TiledLoadOp, LoadOp)
        found = [
            candidate
            for op in self.body.ops
            if isinstance(op, taken) and (candidate := self._candidate(op, boxes)) is not None
        ]
        # What says where others lie must be there before their copies begin.
        indices = {load for candidate in found for load in candidate.loaded}
        return [candidate for candidate in found if candidate.load not in indices]

    def _candidate(self, load: TileLoad, boxes: bool) -> PrefetchedLoad | None:
        if not self.is_wanted(load):
            return None
        readers = readers_of(load)
        if boxes and not readers:
            return None
        target = stage_of(load, readers[0]) if readers else self._whole(load)
        needs = self._needs(roots_of(load))
        why = self._obstacle(load) or self._obstacle_of_storage(readers)
        if not self._can_pad(load, readers):
            why = why or "asynchronous copies can pad with zeros only"
        if not why and needs is None:
            why = "its address depends on a loop-carried value or on memory that the loop may write"
        width = 0 if why else self.width(load, target)
        if not boxes and not why and width * element_bytes(target.element_type) < LEAST_BYTES:
            # Storage may have its neighbours along another axis than memory.
            readers, target = (), self._whole(load)
            width = self.width(load, target)
            if width * element_bytes(target.element_type) < LEAST_BYTES:
                why = (
                    f"neighbours of {width * element_bytes(target.element_type)} bytes only are known "
                    "to be aligned in memory and in storage"
                )
        if boxes and (why or needs is None or any(map(_has_tile, needs))):
            return None
        if why:
            name = load.result.name_hint or "a tile"
            self.remarks.add("pipeline", f"'{name}' is not prefetched: {why}", load)
            return None
        assert needs is not None
        return PrefetchedLoad(load, target, readers, needs, width)

    def is_wanted(self, load: TileLoad) -> bool:
        """Whether a product of the loop's body takes what is loaded, or what is computed from it, and not only to find
        what it takes."""
        waiting: list[SSAValue] = [load.result]
        seen: set[Operation] = set()
        while waiting:
            for use in waiting.pop().uses:
                op = use.operation
                if isinstance(op, S.CopyOp | S.DotOp):
                    if op.parent is self.body:
                        return True
                elif op not in seen and _computes(op):
                    seen.add(op)
                    waiting += op.results
        return False

    def _whole(self, load: TileLoad) -> TiledViewType:
        """Storage that threads fill as copies come, and read in the layout of the load, or in the one into which all that
        take it would convert it, without conflicts."""
        layout = layout_of(load.result.type)
        dims = T.dims_of(load.result.type)
        assert layout is not None
        element, size = T.element_of(load.result.type), element_bytes(load.result.type)
        own = layout.without_copies()
        shape = access_shape(self.facts, load)
        filled = self.filled(load, shape).without_copies()
        shared = _storage_between(load, filled, shape, size)
        if shared is None:
            shared = plan_shared_conversion(own, own, size).shared
            both = plan_shared_conversion(filled, own, size).shared
            if _waves(shared, filled, size) > max(
                _waves(both, each, size) for each in (filled, own)
            ):
                shared = both
        return TiledViewType(dims, element, "smem", SharedAttr.of(shared))

    def _obstacle(self, load: TileLoad) -> str:
        """Why a load cannot be prefetched, whatever takes it."""
        why = _of_view(load, self.loop) if isinstance(load, TiledLoadOp) else _of_pointers(load)
        if why:
            return why
        if isinstance(load, TiledLoadOp) and self.padding(load) not in ("", "zero"):
            return "asynchronous copies can pad with zeros only"
        if FORMATS[T.element_name(T.element_of(load.result.type))].storage_bits < 8:
            return "its elements are narrower than 8 bits"
        return "it must follow another access of the loop" if self._waits(load) else ""

    def _waits(self, load: Load) -> bool:
        """Whether tokens put an access of the loop, which may touch the same memory, before a load."""
        tokens, aliases = self.facts.tokens, self.facts.aliases
        return any(
            isinstance(op, Access)
            and op is not load
            and must_stay(op, load, aliases)
            and (
                not (tokens.is_effect(op) and tokens.is_effect(load))
                or tokens.ordered(op, load, around=True)
            )
            for op in self.body.walk()
        )

    def _can_pad(self, load: TileLoad, readers: Sequence[Reader]) -> bool:
        """Whether what a load has where its mask is off can be put in when the tile is read: by threads, for which the mask
        is there without another load."""
        if padding_of(load) is None:
            return True
        needs = self._needs(values_of(load, "mask"))
        return not readers and not any(isinstance(op, Load) for op in needs or ())

    def _obstacle_of_storage(self, readers: Sequence[Reader]) -> str:
        users = {user for reader in readers for user in reader.users}
        if any(user.parent is not self.body for user in users):
            return "its shared memory is used outside of the loop"
        if any(isinstance(user, S.CopyOp) for user in users):
            return "its shared memory has other writers"
        return ""

    def _needs(self, roots: Iterable[SSAValue]) -> tuple[Operation, ...] | None:
        """The operations of the body from which values are computed, in order; None where they need more than the
        counter of the loop and memory that the loop leaves as it is."""
        found: set[Operation] = set()
        waiting = list(roots)
        while waiting:
            value = waiting.pop()
            if not is_within(value, self.loop) or value is self.body.args[0]:
                continue
            owner = value.owner
            if isinstance(owner, Block) or owner.parent is not self.body or owner.regions:
                return None
            if not (is_side_effect_free(owner) or self._may_come_early(owner)):
                return None
            if owner not in found:
                found.add(owner)
                waiting += owner.operands
        return tuple(op for op in self.body.ops if op in found)

    def _may_come_early(self, op: Operation) -> bool:
        """Whether an operation is a load that gives the same in an earlier iteration, for the indices of this one."""
        if not isinstance(op, Load) or goes_by_element(op):
            return False
        if self._waits(op) or self.leads_access(op):
            return False
        return all(not is_within(token, self.loop) for token in values_of(op, "token"))


def _storage_between(
    load: TileLoad, filled: Layout, shape: Shape, size: int
) -> SharedLayout | None:
    """Storage for a tile that is copied there as layout ``filled`` says, and read in another one: that of the load, where
    threads would load fewer neighbours by it, or the one into which all who take the tile would bring it through shared
    memory. None where neither is so, or where either side has conflicts of banks."""
    own, wanted = layout_of(load.result.type), _wanted(load, size)
    assert own is not None
    if wanted is None:
        dims = T.dims_of(load.result.type)
        if own.run(dims, shape.axis) >= filled.run(dims, shape.axis):
            return None
        wanted = own
    return storage_between(filled, wanted.without_copies(), size)


def _wanted(load: TileLoad, size: int) -> Layout | None:
    """The layout into which all who take a tile bring it through shared memory, if that is one."""
    users = {use.operation for use in load.result.uses}
    found = {layout_of(op.result.type) for op in users if isinstance(op, S.ConvertLayoutOp)}
    own, wanted = layout_of(load.result.type), found.pop() if len(found) == 1 else None
    if own is None or wanted is None or not all(isinstance(op, S.ConvertLayoutOp) for op in users):
        return None
    return None if plan_conversion(own, wanted, size).shared_conversion is None else wanted


def _waves(shared: SharedLayout, layout: Layout, size: int) -> float:
    """What an access of threads takes of shared memory, in waves for the data that it needs; without end where it is
    narrower than threads could access."""
    ordered, _ = ordered_for(layout, shared, size)
    if shared.vector(ordered, WIDEST // size) * size < min(WIDEST, layout.registers * size):
        return inf
    return shared.waves(ordered, shared.vector(ordered, WIDEST // size), size)


def _computes(op: Operation) -> bool:
    """Whether an operation makes its results from its operands alone."""
    return is_side_effect_free(op) and (not op.regions or isinstance(op, ReduceOp | ScanOp))


def _has_tile(op: Operation) -> bool:
    """Whether an operation makes a tile of several elements, of which each thread holds some."""
    return any(prod(T.dims_of(value.type)) > 1 for value in tile_ops.tiles_of(op.results))


def _of_view(load: TiledLoadOp, loop: scf.ForOp) -> str:
    if load.mask is not None or goes_by_element(load):
        return "it is ordered, volatile or masked"
    if not isinstance(load.base.type, T.TiledViewType) or is_within(load.base, loop):
        return "its view is created in the loop"
    return ""


def _of_pointers(load: LoadOp) -> str:
    if goes_by_element(load):
        return "it is ordered or volatile"
    if not isinstance(T.element_of(load.base.type), T.PtrType) or not tile_ops.is_tile(load.base):
        return "it does not load through a tile of pointers"
    return ""


def padding_of(load: TileLoad) -> SSAValue | None:
    """What a load through pointers has where its mask is off, other than the zeros of a copy; else None.

    It is put in when threads read the tile.
    """
    if not isinstance(load, LoadOp) or load.other is None or _is_zero(load.other):
        return None
    return load.other


def _is_zero(value: SSAValue) -> bool:
    """Whether all bits of all elements are known to be 0."""
    while isinstance(value.owner, SplatOp | BroadcastOp):
        value = value.owner.operands[0]
    return isinstance(value.owner, ConstantOp) and not any(value.owner.bits())


def readers_of(load: TileLoad) -> tuple[Reader, ...]:
    """The copies to storage that take a tile; none where anything else does, or where they do not take
    it as it could lie in one storage."""
    found: list[Reader] = []

    def follow(value: SSAValue, shapes: tuple[Operation, ...]) -> bool:
        for use in value.uses:
            op = use.operation
            permuted = bool(shapes) and shapes[-1].name == tile_ops.PERMUTE
            if op.parent is not load.parent:
                return False
            if isinstance(op, S.CopyOp):
                found.append(Reader(op, shapes))
                continue
            kept = not permuted and op.name in (tile_ops.PERMUTE, *tile_ops.RESHAPES)
            if not kept or not follow(op.results[0], (*shapes, op)):
                return False
        return True

    if not follow(load.result, ()) or len({reader.unpermuted for reader in found}) != 1:
        return ()
    return tuple(found)


def stage_of(load: TileLoad, reader: Reader) -> TiledViewType:
    """The storage of a reader, as what is loaded lies there."""
    ty = reader.unpermuted
    return TiledViewType(T.dims_of(load.result.type), ty.element_type, ty.residency.data, ty.layout)


def read_from(builder: ScheduleBuilder, load: PrefetchedLoad, stage: SSAValue) -> list[Operation]:
    """Let all that reads a tile from storage read a stage, its axes in their order; the operations
    that are in vain then, each behind its users."""
    storages: list[Operation] = []
    shapes: dict[Operation, None] = {}
    for reader in load.readers:
        view, order = stage, reader.order
        if order is not None:
            assert isinstance(stage.type, TiledViewType)
            new = S.PermuteViewOp.create(
                operands=(stage,),
                result_types=(permuted_view(stage.type, order),),
                properties={"permutation": reader.shapes[-1].properties["permutation"]},
            )
            view = builder.add(new).results[0]
        for use in list(reader.storage.uses):
            if use.operation is not reader.copy:
                use.operation.operands[use.index] = view
        assert isinstance(reader.storage.owner, Operation)
        storages.append(reader.storage.owner)
        shapes |= dict.fromkeys(reader.shapes)
    pass_token_on(load.load)
    copies = [reader.copy for reader in load.readers]
    return [*copies, *reversed(shapes), load.load, *storages]
