"""``nv_tileas``: layouts, which do not change values; storage of the block; asynchronous copies.

An asynchronous copy reads global memory when it starts, and its target holds noise until its group has completed. A
schedule that waits too little therefore computes wrong results here, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Attribute, SSAValue

from tilewright.diagnostics import define_code
from tilewright.dialects.declare import enum_property, int_property
from tilewright.dialects.nv_tileaa import types as A
from tilewright.dialects.nv_tileaa.base import int_list
from tilewright.dialects.nv_tileas import asynchronous as S
from tilewright.dialects.nv_tileas import ops
from tilewright.dialects.nv_tileas.pipelines import AsyncTiledTmaLoadOp
from tilewright.dialects.nv_tileas.types import TiledViewType
from tilewright.launching.value_types import TileLike, tile_like
from tilewright.machine.compile import Nested, Step, SwitchPoint, Translator, implements
from tilewright.machine.faults import Fault
from tilewright.machine.ops import memory as pointer_steps
from tilewright.machine.ops import views as view_steps
from tilewright.machine.ops.matrix import integer_step
from tilewright.machine.ops.tiles import rearranged
from tilewright.machine.tileaa.accesses import Parts, with_view
from tilewright.machine.values import Registers
from tilewright.machine.view_access import ViewAccess
from tilewright.numerics.accumulation import mmaf_of
from tilewright.numerics.arrays import Array, dtype_of
from tilewright.numerics.element_types import FORMATS

NOT_AWAITED = define_code(
    "group-not-awaited",
    "A wait allows more pending groups of copies or products than were started after the one that it waits for.",
    help="lower `pending` to the number of groups started after the awaited one",
)
OPERAND_CHANGED = define_code(
    "product-operand-changed",
    "Storage is written while a product that reads it may still be in flight.",
    help="wait for the product before the stage is released or written",
)
BAD_STAGE = define_code(
    "stage-outside",
    "An index is not a stage of the storage.",
    help="keep the index below the number of stages",
)
#: The byte that fills storage before it is written.
_NOISE = 0xA5


def noise(ty: TiledViewType) -> Array:
    """Return the contents of storage of a type while it must not be read."""
    dtype = dtype_of(A.element_name(ty.element_type))
    size = int(np.prod(ty.dims))
    if dtype == np.bool_:
        return np.ones(ty.dims, dtype)
    return np.full(size * dtype.itemsize, _NOISE, np.uint8).view(dtype).reshape(ty.dims)


@dataclass(slots=True)
class Copies:
    """The asynchronous copies of a block: those not yet in a group, and those of each group."""

    open: list[tuple[Array, Array]] = field(default_factory=list[tuple[Array, Array]])
    groups: list[list[tuple[Array, Array]]] = field(default_factory=list[list[tuple[Array, Array]]])
    done: int = 0

    def group(self) -> int:
        """Close the group. Returns its number, from 1."""
        self.groups.append(self.open)
        self.open = []
        return len(self.groups)

    def end(self, count: int) -> None:
        """Complete the first ``count`` groups."""
        while self.done < count:
            for target, value in self.groups[self.done]:
                target[...] = value
            self.groups[self.done] = []
            self.done += 1


_COPIES = "copies"


def _copies(regs: Registers, slot: int) -> Copies:
    found: Any = regs[slot]
    if found is None:
        found = regs[slot] = Copies()
    return found


@implements(ops.ConvertLayoutOp)
def _convert_layout(op: ops.ConvertLayoutOp, t: Translator) -> Step | None:
    return rearranged(t, op.source, op.result, lambda tile: tile)


@implements(ops.AllocTensorOp)
def _alloc_tensor(op: ops.AllocTensorOp, t: Translator) -> Step:
    ty, result = op.result.type, t.slot(op.result)
    assert isinstance(ty, TiledViewType)

    def step(regs: Registers) -> None:
        regs[result] = noise(ty)

    return step


@implements(ops.ExtractSliceOp)
def _extract_slice(op: ops.ExtractSliceOp, t: Translator) -> Step:
    source, index, result = t.slots((op.source, op.index, op.result))
    ty = op.result.type
    assert isinstance(ty, TiledViewType)

    def step(regs: Registers) -> None:
        storage, number = regs[source], int(regs[index])
        if not 0 <= number < len(storage):
            raise Fault(BAD_STAGE, f"stage {number} of a storage of {len(storage)}")
        regs[result] = storage[number].reshape(ty.dims)

    return step


@implements(ops.CopyOp)
def _copy(op: ops.CopyOp, t: Translator) -> Step:
    source, target = t.slots((op.source, op.target))

    def step(regs: Registers) -> None:
        regs[target][...] = regs[source]

    return step


@implements(ops.LocalLoadOp)
def _local_load(op: ops.LocalLoadOp, t: Translator) -> Step:
    source, result = t.slots((op.source, op.result))

    def step(regs: Registers) -> None:
        # Storage is mutable, a tile is not, so copy.
        regs[result] = np.array(regs[source])

    return step


@implements(ops.PermuteViewOp)
def _permute_view(op: ops.PermuteViewOp, t: Translator) -> Step:
    source, result = t.slots((op.source, op.result))
    order = int_list(op.properties["permutation"])

    def step(regs: Registers) -> None:
        regs[result] = regs[source].transpose(order)

    return step


@implements(ops.DotOp)
def _dot(op: ops.DotOp, t: Translator) -> Step:
    return _product(op, t)


def _product(op: ops.DotOp | S.AsyncDotOp, t: Translator) -> Step:
    lhs, rhs, acc, result = t.slots((op.a, op.b, op.c, op.result))
    factor, acc_type = op.a.type, op.c.type
    assert isinstance(factor, A.TileType | TiledViewType) and isinstance(acc_type, A.TileType)
    element = A.element_name(factor.element_type)
    acc_element = A.element_name(acc_type.element_type)
    if FORMATS[element].is_float:
        mmaf = mmaf_of(t.arithmetic, element)

        def step(regs: Registers) -> None:
            # Storage is mutable, and operands may be memoized by array identity, so copy.
            a, b = np.array(regs[lhs]), np.array(regs[rhs])
            regs[result] = mmaf(a, b, regs[acc], element, acc_element=acc_element)

        return step
    signs = [enum_property(op, f"signedness_{name}") or "signed" for name in "ab"]

    return integer_step(t, op.a, op.b, op.c, op.result, (signs[0], signs[1]))


@dataclass(slots=True)
class Products:
    """The products that a block has started. For those in flight: the operands, and their contents at the
    start."""

    started: int = 0
    going: list[tuple[tuple[Array, Array], ...]] = field(
        default_factory=list[tuple[tuple[Array, Array], ...]]
    )

    def start(self, operands: Sequence[Array]) -> int:
        """Start a product. Returns its number, from 1."""
        self.started += 1
        self.going.append(tuple((held, np.array(held)) for held in operands))
        return self.started

    def end(self, pending: int) -> None:
        """Complete all but the latest ``pending`` products. Raises ``Fault`` if storage that one reads was written
        since it began.
        """
        count = max(len(self.going) - pending, 0)
        for reads in self.going[:count]:
            if any(held.tobytes() != given.tobytes() for held, given in reads):
                raise Fault(
                    OPERAND_CHANGED,
                    "storage was written while a product that reads it was in flight",
                )
        del self.going[:count]


_PRODUCTS = "products"


def _products(regs: Registers, slot: int) -> Products:
    found: Any = regs[slot]
    if found is None:
        found = regs[slot] = Products()
    return found


@implements(S.AsyncDotOp)
def _async_dot(op: S.AsyncDotOp, t: Translator) -> Step:
    """Computes the accumulator immediately; the verifier checks that nothing reads it early."""
    multiply, products = _product(op, t), t.state_slot(_PRODUCTS)
    lhs, rhs, token = t.slots((op.a, op.b, op.token))

    def step(regs: Registers) -> None:
        multiply(regs)
        regs[token] = _products(regs, products).start((regs[lhs], regs[rhs]))

    return step


@implements(S.CreateNoneOp)
def _create_none(op: S.CreateNoneOp, t: Translator) -> None:
    t.preset(op.result, 0)


@implements(S.FutureWaitOp)
def _future_wait(op: S.FutureWaitOp, t: Translator) -> Step:
    source, result, products = t.slot(op.source), t.slot(op.result), t.state_slot(_PRODUCTS)
    token, pending = t.slot(op.token), 0 if op.pending is None else int_property(op, "pending")

    def step(regs: Registers) -> None:
        _await_product(_products(regs, products), regs[token], pending)
        regs[result] = regs[source]

    return step


@implements(S.AsyncTiledLoadOp)
def _async_tiled_load(op: S.AsyncTiledLoadOp, t: Translator) -> Step | SwitchPoint | Nested:
    load, scratch = load_of(t, op, op.base)
    return _started(t, load, scratch, op.target)


def load_of(
    t: Translator, op: S.AsyncTiledLoadOp | AsyncTiledTmaLoadOp, base: SSAValue
) -> tuple[Step, int]:
    """The step that loads the tile of a view whose copy begins, and the slot where it leaves the tile."""
    parts = Parts(op, base, tuple(op.indices), None, None, _copied(op.target.type))  # pyright: ignore[reportArgumentType]
    scratch = t.new_slot()
    t.preset(op.result, 0)

    def whole_tile(access: ViewAccess, padding: Array) -> Step:
        return view_steps.load_step(t, access, scratch, padding, is_weak=True)

    return with_view(parts, t, whole_tile), scratch


def _copied(target: Attribute) -> TileLike:
    """The type of the tile that a copy to storage moves."""
    assert isinstance(target, TiledViewType)
    moved = tile_like(A.TileType(target.dims, target.element_type))
    assert moved is not None
    return moved


@implements(S.AsyncLoadOp)
def _async_load(op: S.AsyncLoadOp, t: Translator) -> Step | SwitchPoint | Nested:
    moved = _copied(op.target.type)
    storage = pointer_steps.storage_behind(op, op.mnemonic(), op.base)
    scratch = t.new_slot()
    t.preset(op.result, 0)
    pointers, mask = t.slot(op.base), t.optional(op.mask)
    load = pointer_steps.load_step(t, storage, pointers, scratch, moved, mask, None)
    return _started(t, load, scratch, op.target)


def _started(t: Translator, load: Step, scratch: int, storage: SSAValue) -> Step:
    """Return the step of a copy of what ``load`` leaves in a slot. Its storage holds noise until the copy ends."""
    ty = storage.type
    assert isinstance(ty, TiledViewType)
    target, copies = t.slot(storage), t.state_slot(_COPIES)

    def step(regs: Registers) -> None:
        load(regs)
        held: Array = regs[target]
        held[...] = noise(ty)
        _copies(regs, copies).open.append((held, np.array(regs[scratch])))

    return step


@implements(S.AsyncGroupOp)
def _async_group(op: S.AsyncGroupOp, t: Translator) -> Step:
    result, copies = t.slot(op.result), t.state_slot(_COPIES)

    def step(regs: Registers) -> None:
        regs[result] = _copies(regs, copies).group()

    return step


def _await_product(held: Products, number: int, pending: int) -> None:
    """Complete all but the latest ``pending`` products, which must include the one of this number."""
    if number > max(held.started - pending, 0):
        raise Fault(
            NOT_AWAITED,
            f"the wait for product {number} allows {pending} pending products, but {held.started} were started",
        )
    held.end(pending)


def _wait_for_products(op: S.AsyncWaitOp, t: Translator) -> Step:
    token, products, pending = (
        t.slot(op.token),
        t.state_slot(_PRODUCTS),
        int_property(op, "pending"),
    )

    def step(regs: Registers) -> None:
        _await_product(_products(regs, products), regs[token], pending)

    return step


@implements(S.AsyncWaitOp)
def _async_wait(op: S.AsyncWaitOp, t: Translator) -> Step:
    if S.waits_for_products(op.token):
        return _wait_for_products(op, t)
    token, copies, pending = t.slot(op.token), t.state_slot(_COPIES), int_property(op, "pending")

    def step(regs: Registers) -> None:
        held = _copies(regs, copies)
        ended = len(held.groups) - pending
        if regs[token] > ended:
            raise Fault(
                NOT_AWAITED,
                f"group {regs[token]} is awaited, but {pending} of {len(held.groups)} groups may stay pending",
            )
        held.end(ended)

    return step


@implements(S.BarrierOp)
def _barrier(op: S.BarrierOp, t: Translator) -> None:
    """A block's threads run in lockstep here, so a barrier does nothing."""
