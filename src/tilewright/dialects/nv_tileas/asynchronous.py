"""Operations that go on while others run, and waiting for them."""

from __future__ import annotations

from math import prod
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from tilewright.dialects.declare import (
    Report,
    attr,
    examples,
    int_property,
    same_type,
    type_of,
)
from tilewright.dialects.nv_tileaa import constraints as K
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import ALL_SEGMENTS, TileAAOp, int_list
from tilewright.dialects.nv_tileaa.ops.access import IN_BOUNDS
from tilewright.dialects.nv_tileaa.type_syntax import format_type
from tilewright.dialects.nv_tileas import types as S
from tilewright.dialects.nv_tileas.base import (
    AHEAD,
    IN_FLIGHT,
    LAYOUT,
    RESIDENCY,
    VIEW_SHAPE,
    schedule_op,
)
from tilewright.dialects.nv_tileas.ops import STORAGE, Product, atom_of
from tilewright.numerics.element_types import FORMATS

GROUP = "asynchronous"

ASYNC = K.ClassKind("an async_token", (S.AsyncTokenType,))


def check_ahead(op: TileAAOp, report: Report, stages: int | None = None) -> None:
    """Check that ``ahead`` is a number of iterations of a loop, for which there are stages: beside the one that is read, or
    all, which are then filled again as soon as they were read."""
    if "ahead" not in op.properties:
        return
    rounds = int_property(op, "ahead")
    if not isinstance(op.parent_op(), scf.ForOp):
        report.error(AHEAD, "it is not in a loop", attr("ahead"))
    elif rounds < 1 or (stages is not None and rounds > stages):
        most = "" if stages is None else f", as many as the pipeline has stages ({stages}) at most"
        report.error(AHEAD, f"ahead is at least 1 iteration{most}, got {rounds}", attr("ahead"))


class AsyncCopy(TileAAOp):
    """Rules of copies from global to shared memory that threads start."""

    target = operand_def(STORAGE)
    irdl_options = (ALL_SEGMENTS,)
    UNDEFINED: ClassVar = ("an access to the target before the token has been waited for",)

    def check_target(self, report: Report, target: S.TiledViewType) -> None:
        """Storage in shared memory, which vectors of 4, 8 or 16 bytes and no more than all of it fit."""
        if target.residency.data != "smem":
            report.error(
                RESIDENCY,
                f"asynchronous copies write smem, got {target.residency.data}",
                type_of("target"),
            )
        vector = int_property(self, "vector")
        if "proven" in self.properties:
            proven = int_property(self, "proven")
            if not 0 < proven < vector or proven & (proven - 1):
                report.error(
                    VIEW_SHAPE,
                    f"proven is a power of two below vector, {vector}, got {proven}",
                    attr("proven"),
                )
        bits = FORMATS[T.element_name(target.element_type)].storage_bits * vector
        if bits not in (32, 64, 128) or vector > prod(target.dims):
            report.error(
                VIEW_SHAPE,
                f"a copy moves 4, 8 or 16 bytes, but {vector} elements of "
                f"'{format_type(target.element_type)}' are none of these",
                attr("vector"),
            )


@schedule_op("async.tiled_load", group=GROUP)
class AsyncTiledLoadOp(AsyncCopy):
    """Starts to bring a tile of a view from global to shared memory; outside of the view zeros.

    ``vector`` neighbours, which are aligned in both, go by one copy. With ``proven`` only so many are known
    to be aligned in the view, and in it as a whole or not at all: where at run time ``vector`` of them are
    not, threads bring them by themselves before they go on. With ``ordered`` it comes behind what the kernel has
    written to memory before, and in front of what it writes when the copy has been waited for.

    The tile is there when the token of a group that holds this one's has been waited for.
    """

    base = operand_def(K.TILED_VIEW)
    indices = var_operand_def(K.INDEX)
    target = operand_def(STORAGE)
    in_bounds = opt_prop_def(IN_BOUNDS)
    vector = prop_def(K.INT64)
    proven = opt_prop_def(K.INT64)
    ordered = opt_prop_def(K.FLAG)
    result = result_def(ASYNC)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    BRACKETS: ClassVar = "indices"
    EXAMPLES: ClassVar = examples(
        """
        %s = nv_tileas.alloc_tensor : !nv_tileas.tiled_view<8x16xf32, smem>
        %u = nv_tileas.async.tiled_load %view[%i, %j], %s {vector = 4 : i64}
          : !nv_tileaa.tiled_view<8x16xf32, source = !nv_tileaa.memref<?x?xf32, 1>>, index, index,
            !nv_tileas.tiled_view<8x16xf32, smem> -> !nv_tileas.async_token
        """
    )

    def check(self, report: Report) -> None:
        view, target = self.base.type, self.target.type
        assert isinstance(view, T.TiledViewType) and isinstance(target, S.TiledViewType)
        if (view.dims, view.element_type) != (target.dims, target.element_type):
            report.error(
                VIEW_SHAPE,
                f"a tile of '{format_type(view)}' does not fit '{format_type(target)}'",
                type_of("target"),
            )
        if len(self.indices) != len(view.dims):
            report.error(
                VIEW_SHAPE,
                f"expects {len(view.dims)} coordinates, but got {len(self.indices)}",
                type_of("base"),
            )
        promised = self.properties.get("in_bounds")
        if promised is not None and len(int_list(promised)) != len(view.dims):
            report.error(
                VIEW_SHAPE,
                f"expected {len(view.dims)} booleans in in_bounds, got {len(int_list(promised))}",
                attr("in_bounds"),
            )
        self.check_target(report, target)


@schedule_op("async.load", group=GROUP)
class AsyncLoadOp(AsyncCopy):
    """Starts to bring what a tile of pointers points to from global to shared memory; zeros where the mask is off.

    Each thread copies what it holds the pointers of: ``vector`` neighbours, which are aligned and lie side by side in
    both, by one copy. With ``proven`` only so many are known to be aligned in global memory, and to share their mask:
    where at run time not all of a thread's are, it brings them by itself before it goes on. ``ordered`` and the token
    are those of ``async.tiled_load``.
    """

    base = operand_def(K.PTRS)
    mask = opt_operand_def(K.I1)
    target = operand_def(STORAGE)
    vector = prop_def(K.INT64)
    proven = opt_prop_def(K.INT64)
    ordered = opt_prop_def(K.FLAG)
    result = result_def(ASYNC)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    EXAMPLES: ClassVar = examples(
        """
        %s = nv_tileas.alloc_tensor : !nv_tileas.tiled_view<8xf32, smem>
        %u = nv_tileas.async.load %ps, %mask, %s {vector = 1 : i64}
          : tile<8x!nv_tileaa.ptr<f32, 1>>, tile<8xi1>, !nv_tileas.tiled_view<8xf32, smem>
          -> !nv_tileas.async_token
        """,
    )

    def check(self, report: Report) -> None:
        base, target = self.base.type, self.target.type
        assert isinstance(target, S.TiledViewType)
        pointer = T.element_of(base)
        assert isinstance(pointer, T.PtrType)
        if (T.dims_of(base), pointer.pointee) != (target.dims, target.element_type):
            report.error(
                VIEW_SHAPE,
                f"what '{format_type(base)}' points to does not fit '{format_type(target)}'",
                type_of("target"),
            )
        if self.mask is not None and T.dims_of(self.mask.type) != T.dims_of(base):
            report.error(
                VIEW_SHAPE,
                f"expected a mask of shape [{T.show_dims(T.dims_of(base))}], got "
                f"'{format_type(self.mask.type)}'",
                type_of("mask"),
            )
        elif self.mask is not None and S.layout_of(self.mask.type) != S.layout_of(base):
            report.error(LAYOUT, "pointers and mask have different layouts", type_of("mask"))
        self.check_target(report, target)


@schedule_op("async.group", group=GROUP)
class AsyncGroupOp(TileAAOp):
    """All of these, which must be what was started since the last group; groups end in their order.

    ``ahead``: in an iteration of a loop, how many iterations before it the copies shall start; ``tileas-expand`` lets them.
    """

    tokens = var_operand_def(ASYNC)
    ahead = opt_prop_def(K.INT64)
    result = result_def(ASYNC)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    EXAMPLES: ClassVar = examples("%u = nv_tileas.async.group : !nv_tileas.async_token")

    def check(self, report: Report) -> None:
        check_ahead(self, report)


@schedule_op("async.create_none", group=GROUP)
class CreateNoneOp(TileAAOp):
    """A token of what has ended: that of the product before the first one."""

    result = result_def(ASYNC)
    traits = traits_def(Pure())
    EXAMPLES: ClassVar = examples("%u = nv_tileas.async.create_none : !nv_tileas.async_token")


_IN_STORAGE = """
%left = nv_tileas.alloc_tensor : !nv_tileas.tiled_view<64x16xf16, smem>
%right = nv_tileas.alloc_tensor : !nv_tileas.tiled_view<16x64xf16, smem>
%none = arith.constant dense<0.0> : tile<64x64xf32>
%sums, %u = nv_tileas.async.dot %left, %right, %none {warps = array<i64: 4, 1>, atom = "wgmma"}
  : !nv_tileas.tiled_view<64x16xf16, smem>, !nv_tileas.tiled_view<16x64xf16, smem>, tile<64x64xf32>
  -> tile<64x64xf32>, !nv_tileas.async_token
"""
_TAKEN = (
    "%r = nv_tileas.async.future_wait %sums, %u : tile<64x64xf32>, !nv_tileas.async_token "
    "-> tile<64x64xf32>"
)


@schedule_op("async.dot", group=GROUP)
class AsyncDotOp(Product):
    """Starts a product of ``nv_tileas.dot`` by ``wgmma``, each a group of its own; products end in their
    order.

    Its operands in shared memory must stay as they are, and its result may only be added to by the next product, until
    the token has been waited for. ``async.future_wait`` gives the sums.
    """

    result = result_def(K.NUMBER_TILE)
    token = result_def(ASYNC)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    UNDEFINED: ClassVar = ("a change of the operands before the token has been waited for",)
    EXAMPLES: ClassVar = examples(_IN_STORAGE + _TAKEN)

    def check(self, report: Report) -> None:
        super().check(report)
        if atom_of(self) != "wgmma":
            report.error(LAYOUT, f"only wgmma is asynchronous, got {atom_of(self)}", attr("atom"))
        if T.element_name(T.element_of(self.c.type)) == "f16":
            report.error(LAYOUT, "an asynchronous accumulator is f32 or i32", type_of("c"))
        found = _early_use(self.result)
        if found is not None:
            report.error(
                IN_FLIGHT,
                f"'{found.name}' uses the accumulator of a product that may still be in flight",
                type_of("result"),
            )


def _early_use(sums: SSAValue) -> Operation | None:
    """What takes sums that are in flight but may not."""
    waiting, seen = [sums], {sums}
    while waiting:
        for use in waiting.pop().uses:
            op = use.operation
            if isinstance(op, FutureWaitOp) or (isinstance(op, AsyncDotOp) and use.index == 2):
                continue
            loop = op.parent_op()
            if isinstance(op, scf.YieldOp) and isinstance(loop, scf.ForOp):
                passed = [loop.results[use.index], loop.body.block.args[1 + use.index]]
            elif isinstance(op, scf.ForOp) and use.index >= 3:
                # Of no iteration the result is what was given.
                passed = [op.body.block.args[use.index - 2], op.results[use.index - 3]]
            else:
                return op
            waiting += [value for value in passed if value not in seen]
            seen.update(passed)
    return None


@schedule_op("async.future_wait", group=GROUP)
class FutureWaitOp(TileAAOp):
    """The sums of a product, when it and all before it have ended; ``pending`` that were started behind it may go
    on."""

    source = operand_def(K.NUMBER_TILE)
    token = operand_def(ASYNC)
    pending = opt_prop_def(K.INT64)
    result = result_def(K.NUMBER_TILE)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    RELATIONS: ClassVar = (same_type("source", "result"),)
    EXAMPLES: ClassVar = examples(_IN_STORAGE + _TAKEN)

    def check(self, report: Report) -> None:
        if self.pending is not None and int_property(self, "pending") < 0:
            report.error(LAYOUT, "pending must be at least 0", type_of("token"))


def waits_for_products(token: SSAValue) -> bool:
    """Whether a token is that of a product, or of none before the first, and not of a group of copies."""
    waiting, seen = [token], {token}
    while waiting:
        value = waiting.pop()
        passed: list[SSAValue] = []
        if isinstance(value, BlockArgument):
            loop = value.owner.parent_op()
            end = value.owner.last_op
            if isinstance(loop, scf.ForOp) and value.index and end is not None:
                passed = [loop.operands[2 + value.index], end.operands[value.index - 1]]
        elif isinstance(value.owner, scf.ForOp):
            passed = [value.owner.body.block.args[1 + value.owner.results.index(value)]]
        elif isinstance(value.owner, AsyncDotOp):
            return True
        waiting += [found for found in passed if found not in seen]
        seen.update(passed)
    return False


@schedule_op("async.wait", group=GROUP)
class AsyncWaitOp(TileAAOp):
    """Waits until the group of copies, or the product, has ended; ``pending`` that were made behind it
    may go on."""

    token = operand_def(ASYNC)
    pending = prop_def(K.INT64)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    EXAMPLES: ClassVar = examples(
        """
        %u = nv_tileas.async.group : !nv_tileas.async_token
        nv_tileas.async.wait %u {pending = 0 : i64} : !nv_tileas.async_token
        """
    )

    def check(self, report: Report) -> None:
        if int_property(self, "pending") < 0:
            report.error(LAYOUT, "pending must be at least 0", type_of("token"))


@schedule_op("barrier", group=GROUP)
class BarrierOp(TileAAOp):
    """All threads of the agent meet: what each has written to storage, or waited for, all may read. With ``fence`` so
    may products of warpgroups and tensor maps, which read storage by another way than threads write it."""

    fence = opt_prop_def(K.FLAG)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    EXAMPLES: ClassVar = examples("nv_tileas.barrier", "nv_tileas.barrier {fence}")
