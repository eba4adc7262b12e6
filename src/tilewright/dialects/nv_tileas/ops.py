"""Operations that say where tiles are: layouts, shared memory, products of what lies there."""

from __future__ import annotations

from math import prod
from typing import ClassVar, Self

from xdsl.dialects.builtin import NoneAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryAllocEffect, MemoryReadEffect, MemoryWriteEffect, Pure

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
from tilewright.dialects.nv_tileaa.base import TileAAOp, int_list
from tilewright.dialects.nv_tileaa.enums import SignednessAttr
from tilewright.dialects.nv_tileaa.ops.contraction import check_product_types
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.type_syntax import format_type
from tilewright.dialects.nv_tileas import types as S
from tilewright.dialects.nv_tileas.base import (
    LAYOUT,
    RESIDENCY,
    STORAGE_PLACE,
    VIEW_SHAPE,
    schedule_op,
)
from tilewright.layouts import Layout

GROUP = "placement"

ATOMS = ("mma_sync", "wgmma", "mma_sync_f16", "fma")
ATOM = K.ClassKind(f"one of {', '.join(ATOMS)}", (StringAttr,))
STORAGE = K.ClassKind("a tiled_view of nv_tileas", (S.TiledViewType,))
OPERAND = K.EitherKind("a tile of numbers or a tiled_view of nv_tileas", (K.NUMBER_TILE, STORAGE))


@schedule_op("convert_layout", group=GROUP)
class ConvertLayoutOp(TileAAOp):
    """The same tile, held by other threads."""

    source = operand_def(K.TILE)
    result = result_def(K.TILE)
    traits = traits_def(Pure())
    SAME: ClassVar = "source"
    EXAMPLES: ClassVar = examples(
        "%r = nv_tileas.convert_layout %f : tile<8xf32> -> tile<8xf32, #nv_tileas.layout<register = "
        "[], lane = [1, 2, 4, 0, 0], warp = [0, 0]>>"
    )

    @classmethod
    def to(cls, source: SSAValue, layout: Layout) -> Self:
        """The tile ``source`` in a layout."""
        return cls.create(operands=(source,), result_types=(S.with_layout(source.type, layout),))

    def check(self, report: Report) -> None:
        given, wanted = T.without_layout(self.source.type), T.without_layout(self.result.type)
        if given != wanted:
            report.error(
                LAYOUT,
                f"only the layout changes, but '{format_type(given)}' became '{format_type(wanted)}'",
                type_of("result"),
            )


@schedule_op("alloc_tensor", group=GROUP)
class AllocTensorOp(TileAAOp):
    """Storage of the block for one tile, or for as many stages as the first extent says.

    What it holds is undefined until it is written. ``offset``, in bytes, is its place in the block's
    shared memory, once it has one.
    """

    offset = opt_prop_def(K.INT64)
    result = result_def(STORAGE)
    traits = traits_def(MemoryAllocEffect())
    EXAMPLES: ClassVar = examples(
        "%r = nv_tileas.alloc_tensor : !nv_tileas.tiled_view<3x16x32xf16, smem>"
    )
    UNDEFINED: ClassVar = ("reading an element before it is written",)

    def check(self, report: Report) -> None:
        ty = self.result.type
        assert isinstance(ty, S.TiledViewType)
        if ty.residency.data not in ("smem", "tmem"):
            report.error(
                RESIDENCY,
                f"storage of a block is smem or tmem, got {ty.residency.data}",
                type_of("result"),
            )
        elif self.offset is not None:
            self._check_place(report)

    def _check_place(self, report: Report) -> None:
        """No storage that is needed at the same time has the same bytes."""
        # Who uses storage is told by operations that are defined behind this one.
        from tilewright.dialects.nv_tileas.storage import lifetimes, storage_bytes

        start = int_property(self, "offset")
        if start < 0 or start % 16:
            report.error(STORAGE_PLACE, f"expected a multiple of 16, got {start}", attr("offset"))
            return
        func = self.parent_op()
        if not isinstance(func, FuncOp):
            return
        end, live = start + storage_bytes(self.result), None
        for other in func.walk():
            if other is self:
                return
            if not isinstance(other, AllocTensorOp) or other.offset is None:
                continue
            begin = int_property(other, "offset")
            if begin >= end or start >= begin + storage_bytes(other.result):
                continue
            live = lifetimes(func) if live is None else live
            if live[self.result].meets(live[other.result]):
                report.error(
                    STORAGE_PLACE,
                    f"bytes {start} to {end - 1} are those of another storage, which is needed at the "
                    f"same time, at {begin}",
                    attr("offset"),
                )
                return


@schedule_op("extract_slice", group=GROUP)
class ExtractSliceOp(TileAAOp):
    """One stage of a storage that has several, in any shape of as many elements; ``index`` counts
    from 0."""

    source = operand_def(STORAGE)
    index = operand_def(K.INDEX)
    result = result_def(STORAGE)
    traits = traits_def(Pure())
    BRACKETS: ClassVar = "index"
    EXAMPLES: ClassVar = examples(
        """
        %s = nv_tileas.alloc_tensor : !nv_tileas.tiled_view<3x16x32xf16, smem>
        %r = nv_tileas.extract_slice %s[%i] : !nv_tileas.tiled_view<3x16x32xf16, smem>, index
          -> !nv_tileas.tiled_view<16x32xf16, smem>
        """
    )
    UNDEFINED: ClassVar = ("an index that is not a stage",)

    def check(self, report: Report) -> None:
        source, result = self.source.type, self.result.type
        assert isinstance(source, S.TiledViewType) and isinstance(result, S.TiledViewType)
        size = prod(source.dims[1:])
        if len(source.dims) < 2 or (
            not isinstance(source.layout, NoneAttr) and source.shared.size != size
        ):
            report.error(VIEW_SHAPE, f"'{format_type(source)}' has no stages", type_of("source"))
            return
        wanted = S.TiledViewType(
            source.dims[1:], source.element_type, source.residency.data, source.layout
        )
        parts = (result.element_type, result.residency, result.layout, prod(result.dims))
        if parts != (source.element_type, source.residency, source.layout, size):
            report.error(
                VIEW_SHAPE,
                f"a stage of '{format_type(source)}' is '{format_type(wanted)}', got "
                f"'{format_type(result)}'",
                type_of("result"),
            )


@schedule_op("copy", group=GROUP)
class CopyOp(TileAAOp):
    """Writes a tile to storage."""

    source = operand_def(K.TILE)
    target = operand_def(STORAGE)
    traits = traits_def(MemoryWriteEffect())
    EXAMPLES: ClassVar = examples(
        """
        %s = nv_tileas.alloc_tensor : !nv_tileas.tiled_view<16x32xf16, smem>
        nv_tileas.copy %a, %s : tile<16x32xf16>, !nv_tileas.tiled_view<16x32xf16, smem>
        """
    )

    def check(self, report: Report) -> None:
        target, source = self.target.type, self.source.type
        assert isinstance(target, S.TiledViewType)
        if (target.dims, target.element_type) != (T.dims_of(source), T.element_of(source)):
            report.error(
                VIEW_SHAPE,
                f"a tile '{format_type(T.without_layout(source))}' does not fit "
                f"'{format_type(target)}'",
                type_of("target"),
            )


@schedule_op("local_load", group=GROUP)
class LocalLoadOp(TileAAOp):
    """The tile that a storage holds: the opposite of ``copy``."""

    source = operand_def(STORAGE)
    result = result_def(K.TILE)
    traits = traits_def(MemoryReadEffect())
    EXAMPLES: ClassVar = examples(
        """
        %s = nv_tileas.alloc_tensor : !nv_tileas.tiled_view<16x32xf16, smem>
        nv_tileas.copy %a, %s : tile<16x32xf16>, !nv_tileas.tiled_view<16x32xf16, smem>
        %r = nv_tileas.local_load %s : !nv_tileas.tiled_view<16x32xf16, smem> -> tile<16x32xf16>
        """
    )

    def check(self, report: Report) -> None:
        source, result = self.source.type, self.result.type
        assert isinstance(source, S.TiledViewType)
        if (source.dims, source.element_type) != (T.dims_of(result), T.element_of(result)):
            report.error(
                VIEW_SHAPE,
                f"'{format_type(source)}' holds no '{format_type(T.without_layout(result))}'",
                type_of("result"),
            )


@schedule_op("permute_view", group=GROUP)
class PermuteViewOp(TileAAOp):
    """The same storage with its axes in another order: axis i is axis ``permutation[i]`` of the
    source; no element moves."""

    source = operand_def(STORAGE)
    permutation = prop_def(K.I64_ARRAY)
    result = result_def(STORAGE)
    traits = traits_def(Pure())
    EXAMPLES: ClassVar = examples(
        """
        %s = nv_tileas.alloc_tensor : !nv_tileas.tiled_view<2x4xf32, smem>
        %r = nv_tileas.permute_view %s {permutation = array<i64: 1, 0>}
          : !nv_tileas.tiled_view<2x4xf32, smem>
          -> !nv_tileas.tiled_view<4x2xf32, smem, #nv_tileas.shared<[4, 1, 2]>>
        """
    )

    def check(self, report: Report) -> None:
        source, result = self.source.type, self.result.type
        assert isinstance(source, S.TiledViewType) and isinstance(result, S.TiledViewType)
        order = int_list(self.properties["permutation"])
        if sorted(order) != list(range(len(source.dims))) or source.stages != 1:
            report.error(
                VIEW_SHAPE,
                f"{order} is not a permutation of the axes of a stage, '{format_type(source)}'",
                attr("permutation"),
            )
            return
        wanted = S.permuted_view(source, order)
        if (result.dims, result.element_type, result.residency, result.shared) != (
            wanted.dims,
            wanted.element_type,
            wanted.residency,
            wanted.shared,
        ):
            report.error(
                VIEW_SHAPE,
                f"expected '{format_type(wanted)}', got '{format_type(result)}'",
                type_of("result"),
            )


class Product(TileAAOp):
    """a x b + c by the tensor cores, or by threads; operands may lie in shared memory."""

    a = operand_def(OPERAND)
    b = operand_def(OPERAND)
    c = operand_def(K.NUMBER_TILE)
    warps = prop_def(K.I64_ARRAY)
    atom = opt_prop_def(ATOM)
    signedness_a = opt_prop_def(K.enum_kind(SignednessAttr))
    signedness_b = opt_prop_def(K.enum_kind(SignednessAttr))
    propagate_nan = opt_prop_def(K.FLAG)
    RELATIONS: ClassVar = (same_type("c", "result"),)

    def check(self, report: Report) -> None:
        shapes = [_dims(value.type) for value in (self.a, self.b, self.c)]
        batch, k = shapes[2][:-2], shapes[0][-1]
        if (
            len(shapes[2]) not in (2, 3)
            or shapes[0] != (*batch, shapes[2][-2], k)
            or shapes[1] != (*batch, k, shapes[2][-1])
        ):
            report.error(
                VIEW_SHAPE,
                f"expected MxK, KxN and MxN, got {' '.join(map(str, map(list, shapes)))}",
                type_of("a"),
            )
            return
        for name, value in (("a", self.a), ("b", self.b)):
            ty = value.type
            if isinstance(ty, S.TiledViewType) and ty.residency.data != "smem":
                report.error(
                    RESIDENCY,
                    f"operands lie in registers or smem, got {ty.residency.data}",
                    type_of(name),
                )
        check_product_types(self, report, self.a, self.b, self.c)
        if atom_of(self) not in ATOMS:
            report.error(
                LAYOUT, f"expected one of {', '.join(ATOMS)}, got {atom_of(self)}", attr("atom")
            )
        if atom_of(self) == "wgmma" and not isinstance(self.b.type, S.TiledViewType):
            report.error(RESIDENCY, "the right operand of wgmma is in smem", type_of("b"))
        if atom_of(self) == "fma":
            for name, value in (("a", self.a), ("b", self.b)):
                if not isinstance(value.type, S.TiledViewType):
                    report.error(RESIDENCY, "the operands of fma are in smem", type_of(name))
        if atom_of(self) == "mma_sync_f16":
            for name, value in (("a", self.a), ("b", self.b)):
                ty = value.type
                assert isinstance(ty, T.TileType | S.TiledViewType)
                element = T.element_name(ty.element_type)
                if element not in ("f8E4M3FN", "f8E5M2"):
                    message = f"mma_sync_f16 takes floats of 8 bits, got {element}"
                    report.error(LAYOUT, message, type_of(name))
                    break
        warps = int_list(self.properties["warps"])
        if len(warps) != 2 or any(n <= 0 or n & (n - 1) for n in warps) or prod(warps) > 32:
            report.error(
                LAYOUT,
                f"expected two powers of two, of warps along rows and columns, and at most 32 warps, "
                f"got {warps}",
                attr("warps"),
            )


@schedule_op("dot", group=GROUP)
class DotOp(Product):
    """a x b + c, as in ``nv_tileaa.dot``, by the tensor cores, or by threads; operands may lie in shared memory.

    ``warps`` is the grid of warps over rows and columns of the result, whose layout is that of the
    instruction's sums. ``atom`` is the instruction: ``mma_sync`` where it is absent, ``wgmma``, whose
    right operand is in storage, ``mma_sync_f16``, of 8-bit floats that threads widen in registers, or ``fma``, by
    arithmetic of threads on operands in storage.
    """

    result = result_def(K.NUMBER_TILE)
    traits = traits_def(MemoryReadEffect())
    EXAMPLES: ClassVar = examples(
        """
        %s = nv_tileas.alloc_tensor : !nv_tileas.tiled_view<16x32xf16, smem>
        nv_tileas.copy %a, %s : tile<16x32xf16>, !nv_tileas.tiled_view<16x32xf16, smem>
        %r = nv_tileas.dot %s, %b, %acc {warps = array<i64: 1, 1>}
          : !nv_tileas.tiled_view<16x32xf16, smem>, tile<32x8xf16>, tile<16x8xf32> -> tile<16x8xf32>
        """
    )


def atom_of(op: Product) -> str:
    """The instruction that makes a product."""
    held = op.properties.get("atom")
    return held.data if isinstance(held, StringAttr) else ATOMS[0]


def _dims(ty: object) -> tuple[int, ...]:
    assert isinstance(ty, T.TileType | S.TiledViewType)
    return ty.dims
