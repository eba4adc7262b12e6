"""Making tiles, changing their shape, and cutting tiles out of memory."""

from __future__ import annotations

from math import prod
from typing import ClassVar

from xdsl.ir import Attribute
from xdsl.irdl import (
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure, RecursiveMemoryEffect

from tilewright.dialects.cuda_tile.types import DYNAMIC, Cut
from tilewright.dialects.declare import (
    Report,
    attr,
    examples,
    int_property,
    operand,
    type_of,
)
from tilewright.dialects.facts import Elements, Pointing
from tilewright.dialects.narrowing import integers_of, is_array, is_integer
from tilewright.dialects.nv_tileaa import codes
from tilewright.dialects.nv_tileaa import constraints as K
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import TileAAOp, check_same_element, int_list, tileaa_op
from tilewright.dialects.nv_tileaa.enums import PaddingValueAttr
from tilewright.dialects.nv_tileaa.ops.access import check_padding
from tilewright.dialects.nv_tileaa.ops.bodies import check_arguments, check_end, check_pure_body
from tilewright.dialects.nv_tileaa.ops.contraction import check_conv_params
from tilewright.dialects.nv_tileaa.signature import Arguments, Body, Dictionary, Types
from tilewright.dialects.nv_tileaa.type_syntax import format_type
from tilewright.dialects.syntax.engine import values_of

GROUP = "shape"


class Rearrangement(TileAAOp):
    """Elements of the operands at other places: nothing is computed, and pointers point where they did."""

    traits = traits_def(Pure())
    ELEMENTS: ClassVar = Elements.MOVED
    COST: ClassVar = 0
    POINTS: ClassVar = Pointing.OPERANDS


def _expect_shape(report: Report, wanted: tuple[int, ...], found: Attribute, why: str) -> None:
    if T.dims_of(found) != wanted:
        report.error(
            codes.SHAPE,
            f"expected a result of shape [{T.show_dims(wanted)}], {why}, got "
            f"'{format_type(found)}'",
            type_of("result"),
        )


@tileaa_op("splat", group=GROUP)
class SplatOp(Rearrangement):
    """A tile whose elements are all the scalar."""

    source = operand_def(K.SCALAR)
    result = result_def(K.TILE)
    ELEMENTS: ClassVar = Elements.MADE
    EXAMPLES: ClassVar = examples(
        "%s = nv_tileaa.splat %x : f32 -> tile<4x4xf32>",
        "%s = nv_tileaa.splat %p32 : !nv_tileaa.ptr<f32, 1> -> tile<8x!nv_tileaa.ptr<f32, 1>>",
    )

    def check(self, report: Report) -> None:
        check_same_element(self, report, ["result"], "source")


@tileaa_op("broadcast", group=GROUP)
class BroadcastOp(Rearrangement):
    """Repeats the tile along the axes where its extent is 1."""

    source = operand_def(K.TILE)
    result = result_def(K.TILE)
    EXAMPLES: ClassVar = examples(
        """
        %r = nv_tileaa.view %f : tile<8xf32> -> tile<8x1xf32>
        %s = nv_tileaa.broadcast %r : tile<8x1xf32> -> tile<8x4xf32>
        """,
    )

    def check(self, report: Report) -> None:
        check_same_element(self, report, ["result"], "source")
        source, result = T.dims_of(self.source.type), T.dims_of(self.result.type)
        fits = len(source) == len(result) and all(
            a in (1, b) for a, b in zip(source, result, strict=True)
        )
        if not fits:
            report.error(
                codes.SHAPE,
                f"expected a result of rank {len(source)} whose extents are those of the source, or "
                f"any where the source has 1: source [{T.show_dims(source)}], result "
                f"[{T.show_dims(result)}]",
                type_of("result"),
            )


@tileaa_op("expand_dims", group=GROUP)
class ExpandDimsOp(Rearrangement):
    """Inserts axes of extent 1; ``axes`` are their positions in the result, ascending."""

    source = operand_def(K.ELEMENTS)
    axes = prop_def(K.I64_ARRAY)
    result = result_def(K.TILE)
    ELEMENTS: ClassVar = Elements.RESHAPED
    EXAMPLES: ClassVar = examples(
        "%s = nv_tileaa.expand_dims %f {axes = array<i64: 0, 2>} : tile<8xf32> -> tile<1x8x1xf32>",
    )

    def check(self, report: Report) -> None:
        check_same_element(self, report, ["result"], "source")
        axes, source = int_list(self.properties["axes"]), T.dims_of(self.source.type)
        rank = len(source) + len(axes)
        if list(axes) != sorted(set(axes)) or any(not 0 <= axis < rank for axis in axes):
            report.error(
                codes.AXIS,
                f"expected axes to be ascending positions in [0, {rank}), got {list(axes)}",
                attr("axes"),
            )
            return
        kept = iter(source)
        wanted = tuple(1 if axis in axes else next(kept) for axis in range(rank))
        _expect_shape(report, wanted, self.result.type, "the source with the new axes")


@tileaa_op("view", group=GROUP)
class ViewOp(Rearrangement):
    """The same elements in row-major order under another shape; memrefs keep where they point."""

    source = operand_def(K.RESHAPABLE)
    result = result_def(K.RESHAPABLE)
    ELEMENTS: ClassVar = Elements.RESHAPED
    EXAMPLES: ClassVar = examples(
        "%s = nv_tileaa.view %tile : tile<8x16xf32> -> tile<128xf32>",
        """
        %s = nv_tileaa.view %mr
          : !nv_tileaa.memref<?x?xf32, 1> -> !nv_tileaa.memref<?x?xf32, strides = [?, 1], 1>
        """,
    )
    UNDEFINED: ClassVar = (
        "a memref result whose static extents or strides are not the actual ones",
    )
    UNDEFINED_AT_USE: ClassVar = True

    def check(self, report: Report) -> None:
        source, result = self.source.type, self.result.type
        if isinstance(source, T.MemrefType) != isinstance(result, T.MemrefType):
            report.error(
                codes.SHAPE,
                f"expected a memref to be viewed as a memref and a tile as a tile, got "
                f"'{format_type(source)}' and '{format_type(result)}'",
                type_of("result"),
            )
        elif isinstance(source, T.MemrefType) and isinstance(result, T.MemrefType):
            self._check_memrefs(report, source, result)
        else:
            check_same_element(self, report, ["result"], "source")
            counts = [prod(T.dims_of(ty)) for ty in (source, result)]
            if counts[0] != counts[1]:
                report.error(
                    codes.SHAPE,
                    f"expected a view of the source's {counts[0]} elements, got "
                    f"'{format_type(result)}' of {counts[1]}",
                    type_of("result"),
                )

    def _check_memrefs(self, report: Report, source: T.MemrefType, result: T.MemrefType) -> None:
        if result.element_type != source.element_type:
            report.error(
                codes.ELEMENT_TYPE,
                f"expected a view of '{format_type(source.element_type)}' elements, got "
                f"'{format_type(result.element_type)}'",
                type_of("result"),
            )
        if result.space != source.space:
            report.error(
                codes.ADDRESS_SPACE,
                f"expected a view in address space {source.space} of its source, got "
                f"{result.space}",
                type_of("result"),
            )
        if result.alias_scope != source.alias_scope:
            report.error(
                codes.PROVENANCE,
                f"expected a view with the alias scope of its source, "
                f"{_scope(source.alias_scope)}, got {_scope(result.alias_scope)}",
                type_of("result"),
            )
        static = [DYNAMIC not in ty.dims for ty in (source, result)]
        if all(static) and prod(source.dims) != prod(result.dims):
            report.error(
                codes.SHAPE,
                f"expected a view of the source's {prod(source.dims)} elements, got "
                f"{prod(result.dims)}",
                type_of("result"),
            )


def _scope(scope: int | None) -> str:
    return "none" if scope is None else str(scope)


@tileaa_op("extract", group=GROUP)
class ExtractOp(Rearrangement):
    """The sub-tile, or scalar, that the indices select along the leading axes."""

    source = operand_def(K.TILE)
    indices = var_operand_def(K.OFFSET)
    result = result_def(K.ELEMENTS)
    BRACKETS: ClassVar = "indices"
    EXAMPLES: ClassVar = examples(
        "%s = nv_tileaa.extract %f[%i] : tile<8xf32>, index -> f32",
        "%s = nv_tileaa.extract %tile[%i] : tile<8x16xf32>, index -> tile<16xf32>",
    )
    UNDEFINED: ClassVar = ("an index outside the extent of its axis",)

    def check(self, report: Report) -> None:
        check_same_element(self, report, ["result"], "source")
        source, count = T.dims_of(self.source.type), len(self.indices)
        if not 1 <= count <= len(source):
            report.error(
                codes.INDEX_COUNT,
                f"expected 1 to {len(source)} indices, at most one for each axis, got {count}",
                operand("indices"),
            )
        else:
            _expect_shape(report, source[count:], self.result.type, "the axes without an index")


@tileaa_op("extract_slice", group=GROUP)
class ExtractSliceOp(Rearrangement):
    """The part of the source that starts at the offsets and has the shape of the result.

    Offsets are given as ``offsets``, or as one operand for each axis.
    """

    source = operand_def(K.TILE)
    indices = var_operand_def(K.OFFSET)
    offsets = opt_prop_def(K.I64_ARRAY)
    result = result_def(K.TILE)
    BRACKETS: ClassVar = "indices"
    EXAMPLES: ClassVar = examples(
        "%s = nv_tileaa.extract_slice %f {offsets = array<i64: 4>} : tile<8xf32> -> tile<4xf32>",
        """
        %s = nv_tileaa.extract_slice %tile[%i, %j]
          : tile<8x16xf32>, index, index -> tile<2x16xf32>
        """,
    )
    UNDEFINED: ClassVar = ("a slice that leaves the source",)

    def check(self, report: Report) -> None:
        check_same_element(self, report, ["result"], "source")
        check_slice(self, report, "source", "result")


def check_slice(op: TileAAOp, report: Report, whole: str, part: str) -> None:
    """The tile ``part`` lies within ``whole`` from the offsets on: an attribute, or operands."""
    extents, sizes = (T.dims_of(values_of(op, group)[0].type) for group in (whole, part))
    if len(extents) != len(sizes):
        report.error(
            codes.SHAPE,
            f"expected a slice of rank {len(extents)}, the rank of the {whole}, got {len(sizes)}",
            type_of(part),
        )
        return
    indices = values_of(op, "indices")
    static = "offsets" in op.properties
    offsets = int_list(op.properties.get("offsets"))
    if static == bool(indices) or len(indices) + len(offsets) != len(extents):
        report.error(
            codes.INDEX_COUNT,
            f"expected an offset for each of {len(extents)} axes, all in 'offsets' or all as "
            f"operands, got {len(offsets)} and {len(indices)}",
            operand("indices"),
        )
        return
    for axis, (extent, size) in enumerate(zip(extents, sizes, strict=True)):
        start = offsets[axis] if static else 0
        if start < 0 or start + size > extent:
            report.error(
                codes.RANGE,
                f"expected a slice within [0, {extent}) along axis {axis}, got "
                f"[{start}, {start + size})",
                attr("offsets") if static else type_of(part),
            )
            return


@tileaa_op("cat", group=GROUP)
class CatOp(Rearrangement):
    """The second tile behind the first along ``axis``."""

    lhs = operand_def(K.TILE)
    rhs = operand_def(K.TILE)
    axis = prop_def(K.INT32)
    result = result_def(K.TILE)
    COST: ClassVar = 2
    EXAMPLES: ClassVar = examples(
        """
        %s = nv_tileaa.cat %f, %g {axis = 0 : i32} : tile<8xf32>, tile<8xf32> -> tile<16xf32>
        """,
    )

    def check(self, report: Report) -> None:
        check_same_element(self, report, ["rhs", "result"], "lhs")
        lhs, rhs = T.dims_of(self.lhs.type), T.dims_of(self.rhs.type)
        axis = int_property(self, "axis")
        if not 0 <= axis < len(lhs):
            report.error(codes.AXIS, f"axis {axis} is outside of [0, {len(lhs)})", attr("axis"))
            return
        if len(lhs) != len(rhs) or lhs[:axis] + lhs[axis + 1 :] != rhs[:axis] + rhs[axis + 1 :]:
            report.error(
                codes.SHAPE,
                f"expected operands that differ along axis {axis} only, got "
                f"[{T.show_dims(lhs)}] and [{T.show_dims(rhs)}]",
                type_of("rhs"),
            )
            return
        wanted = (*lhs[:axis], lhs[axis] + rhs[axis], *lhs[axis + 1 :])
        _expect_shape(report, wanted, self.result.type, "both operands")


@tileaa_op("permute", group=GROUP)
class PermuteOp(Rearrangement):
    """Reorders axes: axis i of the result is axis ``permutation[i]`` of the source."""

    source = operand_def(K.TILE)
    permutation = prop_def(K.I64_ARRAY)
    result = result_def(K.TILE)
    EXAMPLES: ClassVar = examples(
        """
        %s = nv_tileaa.permute %tile {permutation = array<i64: 1, 0>}
          : tile<8x16xf32> -> tile<16x8xf32>
        """,
    )

    def check(self, report: Report) -> None:
        check_same_element(self, report, ["result"], "source")
        order, source = int_list(self.properties["permutation"]), T.dims_of(self.source.type)
        if sorted(order) != list(range(len(source))):
            report.error(
                codes.AXIS,
                f"expected a permutation of 0 to {len(source) - 1}, got {list(order)}",
                attr("permutation"),
            )
            return
        wanted = tuple(source[axis] for axis in order)
        _expect_shape(report, wanted, self.result.type, "the source's extents in that order")


@tileaa_op("make_range", group=GROUP)
class MakeRangeOp(TileAAOp):
    """The integers from start up to end, without end; bounds are operands or attributes."""

    bounds = var_operand_def(K.OFFSET)
    start = opt_prop_def(K.INT64)
    end = opt_prop_def(K.INT64)
    result = result_def(K.RANGE_TILE)
    traits = traits_def(Pure())
    ELEMENTS: ClassVar = Elements.MADE
    COST: ClassVar = 0
    EXAMPLES: ClassVar = examples(
        "%r = nv_tileaa.make_range {start = 0, end = 8} : tile<8xi32>",
        "%r = nv_tileaa.make_range %i, %j : index, index -> tile<8xindex>",
    )
    UNDEFINED: ClassVar = ("operands whose difference is not the extent of the result",)

    def check(self, report: Report) -> None:
        names = [name for name in ("start", "end") if name in self.properties]
        if (len(self.bounds), len(names)) not in ((2, 0), (0, 2)):
            report.error(
                codes.RANGE,
                f"expected start and end both as operands or both as attributes, got "
                f"{len(self.bounds)} operands and the attributes: {', '.join(names) or 'none'}",
            )
            return
        check_same_element(self, report, ["bounds"], "result")
        if not names:
            return
        start, end = int_property(self, "start"), int_property(self, "end")
        (extent,) = T.dims_of(self.result.type)
        if end - start != extent:
            report.error(
                codes.RANGE,
                f"expected end - start to be the extent of the result, {extent}, got {end - start}",
                attr("end"),
            )


@tileaa_op("generate", group=GROUP)
class GenerateOp(TileAAOp):
    """A tile whose element at an index is what the body yields for it.

    The body has an index argument for each axis; scalars that it uses may be listed as operands.
    """

    captures = var_operand_def(K.ANY_VALUE)
    body = region_def("single_block")
    result = result_def(K.TILE)
    traits = traits_def(RecursiveMemoryEffect())
    ELEMENTS: ClassVar = Elements.MADE
    COST: ClassVar = 4
    SYNTAX: ClassVar = (Arguments(), Dictionary(), Types(), Body())
    EXAMPLES: ClassVar = examples(
        """
        %g2 = nv_tileaa.generate %x : f32 -> tile<8x8xf32> {
        ^bb0(%row: index, %column: index):
          %y = nv_tileaa.addf %x, %x : f32
          nv_tileaa.yield %y : f32
        }
        """,
    )

    def check(self, report: Report) -> None:
        dims, element = T.dims_of(self.result.type), T.element_of(self.result.type)
        check_arguments(self, report, self.body, [T.INDEX] * len(dims))
        check_end(self, report, self.body, "nv_tileaa.yield", [element])
        check_pure_body(self, report, self.body)


def _groups(attribute: Attribute) -> list[list[int]] | None:
    """The lists of axes of dimGroups, or None where it is no array of arrays of integers."""
    assert is_array(attribute)
    found: list[list[int]] = []
    for group in attribute.data:
        if not is_array(group) or not all(map(is_integer, group.data)):
            return None
        found.append(list(integers_of(group)))
    return found


class TilingOp(TileAAOp):
    """Rules that block_tile and conv_tile share."""

    def check_groups(self, report: Report) -> list[list[int]] | None:
        """The tile axes' groups of memref axes, where each is legal and used once."""
        groups = _groups(self.properties["dimGroups"])
        memref = self.operands[0].type
        assert isinstance(memref, T.MemrefType)
        if groups is None:
            report.error(
                codes.TILING,
                f"expects dimGroups to be lists of axes, as in [[0], [1]], but got "
                f"{self.properties['dimGroups']}",
                attr("dimGroups"),
            )
            return None
        if not groups or not all(groups):
            report.error(codes.TILING, "expects non-empty dimGroups", attr("dimGroups"))
            return None
        seen: set[int] = set()
        for axis in (axis for group in groups for axis in group):
            if not 0 <= axis < memref.rank:
                report.error(
                    codes.TILING,
                    f"expects dims of the memref, in [0, {memref.rank}), but got {axis}",
                    attr("dimGroups"),
                )
                return None
            if axis in seen:
                report.error(
                    codes.TILING,
                    f"expects dim is being tiled only one time, but got {axis}",
                    attr("dimGroups"),
                )
                return None
            seen.add(axis)
        return groups

    def check_view(self, report: Report, sizes: tuple[int, ...]) -> None:
        """The result cuts tiles of these sizes out of the operand."""
        result = self.results[0].type
        assert isinstance(result, T.TiledViewType)
        source = self.operands[0].type
        if result.source != source:
            report.error(
                codes.PROVENANCE,
                f"expected a view of the operand, '{format_type(source)}', got a view of "
                f"'{format_type(result.source)}'",
                type_of("result"),
            )
        if result.dims != sizes:
            report.error(
                codes.SHAPE,
                f"expected a view of tiles of shape [{T.show_dims(sizes)}], got "
                f"[{T.show_dims(result.dims)}]",
                type_of("result"),
            )
        check_padding(self, report, result.element_type)


@tileaa_op("block_tile", group=GROUP)
class BlockTileOp(TilingOp):
    """Cuts a memref into tiles: tile axis i covers the axes ``dimGroups[i]``.

    Index k along it starts at element k * tileSizes[i], or k * traversalStrides[i] where given.
    Elements beyond the memref read as ``padding_value``, unspecified without one, and are not
    written. Along ``sparseDim`` an access gives the element index of each row. Where ``groupSizes`` says
    that several tiles along an axis make a group, a tile of a group that begins in the memref may lie
    outside of it.
    """

    source = operand_def(K.MEMREF)
    tileSizes = prop_def(K.I64_ARRAY)
    dimGroups = prop_def(K.ARRAY)
    padding_value = opt_prop_def(K.enum_kind(PaddingValueAttr))
    traversalStrides = opt_prop_def(K.I64_ARRAY)
    sparseDim = opt_prop_def(K.INT32)
    groupSizes = opt_prop_def(K.I64_ARRAY)
    result = result_def(K.TILED_VIEW)
    traits = traits_def(Pure())
    POINTS: ClassVar = Pointing.OPERANDS
    EXAMPLES: ClassVar = examples(
        """
        %v = nv_tileaa.block_tile %mr
          {tileSizes = array<i64: 8, 16>, dimGroups = [[1], [0]], padding_value = zero}
          : !nv_tileaa.memref<?x?xf32, 1>
            -> !nv_tileaa.tiled_view<8x16xf32, source = !nv_tileaa.memref<?x?xf32, 1>>
        """,
        """
        %v = nv_tileaa.block_tile %mr
          {tileSizes = array<i64: 8, 16>, dimGroups = [[0], [1]],
           traversalStrides = array<i64: 4, 16>}
          : !nv_tileaa.memref<?x?xf32, 1>
            -> !nv_tileaa.tiled_view<8x16xf32, source = !nv_tileaa.memref<?x?xf32, 1>>
        """,
    )

    @property
    def cut(self) -> Cut | None:
        """How tiles are cut; None where a tile axis covers several axes, in an order that nothing says."""
        groups = _groups(self.dimGroups)
        if groups is None or any(len(group) != 1 for group in groups):
            return None
        sizes = int_list(self.tileSizes)
        steps = sizes if self.traversalStrides is None else int_list(self.traversalStrides)
        sparse = None if self.sparseDim is None else int_property(self, "sparseDim")
        counted = () if self.groupSizes is None else int_list(self.groupSizes)
        return Cut(sizes, tuple(axis for (axis,) in groups), steps, sparse, counted)

    def check(self, report: Report) -> None:
        sizes = int_list(self.properties["tileSizes"])
        if not sizes:
            report.error(codes.TILING, "expects non-empty tileSizes", attr("tileSizes"))
            return
        groups = self.check_groups(report)
        if groups is None:
            return
        if len(sizes) != len(groups):
            report.error(
                codes.TILING,
                f"expects rank of tileSizes be equal to rank of dimGroups, but got {len(sizes)} vs "
                f"{len(groups)}",
                attr("tileSizes"),
            )
            return
        if any(size <= 0 for size in sizes):
            report.error(
                codes.TILING,
                "expects all tile size bigger than zero",
                attr("tileSizes"),
            )
            return
        self._check_steps(report, len(sizes))
        self.check_view(report, sizes)

    def _check_steps(self, report: Report, rank: int) -> None:
        strides = self.properties.get("traversalStrides")
        steps = int_list(strides)
        if strides is not None and (len(steps) != rank or any(step <= 0 for step in steps)):
            report.error(
                codes.TILING,
                f"expects a positive traversal stride for each of {rank} tile axes, but got "
                f"{list(steps)}",
                attr("traversalStrides"),
            )
        if "sparseDim" in self.properties:
            axis = int_property(self, "sparseDim")
            if not 0 <= axis < rank:
                report.error(
                    codes.AXIS, f"sparseDim {axis} is outside of [0, {rank})", attr("sparseDim")
                )


@tileaa_op("conv_tile", group=GROUP)
class ConvTileOp(TilingOp):
    """The windows of a convolution over an activation in memory.

    ``filterSizes`` are the taps of each spatial axis, ``channel`` is the memref axis of the
    channels, which stands alone in its group of ``dimGroups``.
    """

    source = operand_def(K.MEMREF)
    conv_params = prop_def(K.CONV_PARAMS)
    filterSizes = prop_def(K.I64_ARRAY)
    dimGroups = prop_def(K.ARRAY)
    channel = prop_def(K.INT32)
    padding_value = opt_prop_def(K.enum_kind(PaddingValueAttr))
    result = result_def(K.TILED_VIEW)
    traits = traits_def(Pure())
    POINTS: ClassVar = Pointing.OPERANDS
    EXAMPLES: ClassVar = examples(
        """
        %v = nv_tileaa.conv_tile %mr
          {conv_params = #nv_tileaa.conv_params<filter = [3], stride = [1], padding_low = [1],
             padding_high = [1], dilation = [1]>,
           filterSizes = array<i64: 3>, dimGroups = [[0], [1]], channel = 1, padding_value = zero}
          : !nv_tileaa.memref<?x?xf32, 1>
            -> !nv_tileaa.tiled_view<8x16xf32, source = !nv_tileaa.memref<?x?xf32, 1>>
        """,
    )

    def check(self, report: Report) -> None:
        taps = int_list(self.properties["filterSizes"])
        if not 1 <= len(taps) <= 3:
            report.error(
                codes.CONVOLUTION,
                "expects filter size must be in range 1 to 3",
                attr("filterSizes"),
                label=f"the filter has {len(taps)}",
            )
            return
        spatial = check_conv_params(self, report)
        if spatial is None:
            return
        if spatial != len(taps):
            report.error(
                codes.CONVOLUTION,
                "expects conv params size matched with each other",
                attr("filterSizes"),
                label=f"{len(taps)} filterSizes, and conv_params of {spatial}",
            )
            return
        groups = self.check_groups(report)
        if groups is None:
            return
        self._check_channel(report, groups)
        result = self.result.type
        assert isinstance(result, T.TiledViewType)
        if result.rank != len(groups):
            report.error(
                codes.SHAPE,
                f"expected tiles with an axis for each of {len(groups)} dimGroups, got rank "
                f"{result.rank}",
                type_of("result"),
            )
            return
        self.check_view(report, result.dims)

    def _check_channel(self, report: Report, groups: list[list[int]]) -> None:
        channel = int_property(self, "channel")
        home = next((group for group in groups if channel in group), None)
        if home is None:
            report.error(
                codes.CONVOLUTION,
                "expects channel must be a dimGroup",
                attr("channel"),
                label=f"{channel} is in none of {groups}",
            )
        elif len(home) > 1:
            report.error(
                codes.CONVOLUTION,
                "expects channel dimGroup should contain only channel",
                attr("channel"),
                label=f"its group is {home}",
            )


@tileaa_op("get_dim_size", group=GROUP)
class GetDimSizeOp(TileAAOp):
    """The extent of a memref along ``axis``; of a tiled view, how many tiles cover it."""

    source = operand_def(K.VIEW)
    axis = prop_def(K.INT32)
    result = result_def(K.INDEX)
    traits = traits_def(Pure())
    EXAMPLES: ClassVar = examples(
        "%n0 = nv_tileaa.get_dim_size %mr {axis = 0 : i32} : !nv_tileaa.memref<?x?xf32, 1> -> index",
        """
        %n1 = nv_tileaa.get_dim_size %view {axis = 1 : i32}
          : !nv_tileaa.tiled_view<8x16xf32, source = !nv_tileaa.memref<?x?xf32, 1>> -> index
        """,
    )

    def check(self, report: Report) -> None:
        axis, ty = int_property(self, "axis"), self.source.type
        assert isinstance(ty, T.MemrefType | T.TiledViewType)
        if not 0 <= axis < ty.rank:
            report.error(codes.AXIS, f"axis {axis} is outside of [0, {ty.rank})", attr("axis"))
