"""Loads, stores and atomics, each ordered by tokens alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.ir import Attribute
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
    enum_property,
    examples,
    operand,
    same_type,
    type_of,
)
from tilewright.dialects.facts import Elements, Pointing
from tilewright.dialects.nv_tileaa import codes
from tilewright.dialects.nv_tileaa import constraints as K
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import (
    TileAAOp,
    int_list,
    is_set,
    tileaa_op,
)
from tilewright.dialects.nv_tileaa.enums import RMWModeAttr
from tilewright.dialects.nv_tileaa.ops.access import (
    ATOM,
    CACHE,
    EVICTION,
    IN_BOUNDS,
    LATENCY,
    MULTIMEM,
    PADDING,
    TMA,
    Access,
    Reads,
    Writes,
    check_multimem,
    check_multimem_update,
    check_other,
    check_padding,
)
from tilewright.dialects.nv_tileaa.ops.symbols import check_global_reference
from tilewright.dialects.nv_tileaa.signature import Dictionary, Types
from tilewright.dialects.nv_tileaa.type_syntax import format_type
from tilewright.dialects.syntax.directives import SymbolField
from tilewright.dialects.syntax.engine import values_of

GROUP = "memory"

_RACE = "an access that conflicts with another one that no token, atomic or scope orders"
_OUTSIDE = "an access outside the memory that the base was made for"


@tileaa_op("get_global", group=GROUP)
class GetGlobalOp(TileAAOp):
    """The memory of a global: a pointer to its first element, or a memref of its shape."""

    symbol = prop_def(K.SYMBOL)
    result = result_def(K.GLOBAL_ADDRESS)
    traits = traits_def(Pure())
    POINTS: ClassVar = Pointing.GLOBAL
    HIDDEN: ClassVar = frozenset({"symbol"})
    SYNTAX: ClassVar = (SymbolField("symbol"), Dictionary(), Types())
    EXAMPLES: ClassVar = examples(
        "%r = nv_tileaa.get_global @table : !nv_tileaa.ptr<f32, 1>",
        "%r = nv_tileaa.get_global @table : !nv_tileaa.memref<2xf32, 1>",
    )

    def check(self, report: Report) -> None:
        check_global_reference(self, report)


class Tiled(Access):
    """Accesses to whole tiles, which TMA may carry out."""

    atom = opt_prop_def(ATOM)
    allow_tma = opt_prop_def(TMA)
    tma_eligible = opt_prop_def(TMA)

    def value_shape(self) -> tuple[int, ...] | str | None:
        """As for any access, but memrefs give tiles and no scalars."""
        base, value = self.base_type, self.moved.type
        if isinstance(base, T.MemrefType) and len(T.dims_of(value)) != base.rank:
            return (
                f"expected a tile of rank {base.rank}, the rank of '{format_type(base)}', got "
                f"'{format_type(value)}'"
            )
        return super().value_shape()


class Moves(Access):
    """What loads and stores share; the fields of an operation itself come before these."""

    cache_modifier = opt_prop_def(CACHE)
    eviction_policy = opt_prop_def(EVICTION)
    volatile = opt_prop_def(K.FLAG)
    in_bounds = opt_prop_def(IN_BOUNDS)


class Load(Moves):
    """Rules of the three loads."""

    mask = opt_operand_def(K.I1)
    other = opt_operand_def(K.NUMBER)
    traits = traits_def(Reads())
    ELEMENTS: ClassVar = Elements.READ
    VALUE: ClassVar = "result"
    SEMANTICS: ClassVar = ("weak", "relaxed", "acquire")
    KIND: ClassVar = "loads"

    @classmethod
    def fits(cls, sizes: Mapping[str, int], results: Sequence[Attribute]) -> bool:
        return bool(sizes["mask"]) or not sizes["other"]

    def check(self, report: Report) -> None:
        super().check(report)
        check_other(self, report, self.moved)


class Store(Moves):
    """Rules of the three stores."""

    mask = opt_operand_def(K.I1)
    traits = traits_def(Writes())
    VALUE: ClassVar = "value"
    SEMANTICS: ClassVar = ("weak", "relaxed", "release")
    KIND: ClassVar = "stores"


@tileaa_op("load", group=GROUP)
class LoadOp(Load):
    """Reads the element behind each pointer, or at the indices of a memref.

    Where the mask is off nothing is read: the value is ``other``, unspecified without one.
    """

    base = operand_def(K.ADDRESS)
    indices = var_operand_def(K.INDEX)
    latency = opt_prop_def(LATENCY)
    result = result_def(K.NUMBER)
    COST: ClassVar = 12
    EXAMPLES: ClassVar = examples(
        """
        %v, %u = nv_tileaa.load %ps, %mask, %f, %t
          {cache_modifier = cg, operandSegmentSizes = array<i32: 1, 0, 1, 1>}
          : tile<8x!nv_tileaa.ptr<f32, 1>>, tile<8xi1>, tile<8xf32>, !nv_tileaa.mem_token
            -> tile<8xf32>, !nv_tileaa.mem_token
        """,
        """
        %v, %u = nv_tileaa.load %pi, %t {mem_semantic = acquire, mem_scope = gpu}
          : !nv_tileaa.ptr<i32, 1>, !nv_tileaa.mem_token -> i32, !nv_tileaa.mem_token
        """,
        "%v = nv_tileaa.load %mr[%i, %j] : !nv_tileaa.memref<?x?xf32, 1>, index, index -> f32",
    )
    UNDEFINED: ClassVar = (_OUTSIDE, _RACE)


@tileaa_op("tiled_load", group=GROUP)
class TiledLoadOp(Tiled, Load):
    """Reads a tile at tile coordinates of a view, or from the given element of a memref on.

    ``in_bounds`` promises for each axis that the tile does not reach beyond the memory. What TMA
    may do (``allow_tma``, ``tma_eligible``, ``latency``) is permission, never obligation. With
    ``multimem`` the tile is read from every replica of multicast memory and combined so.
    """

    base = operand_def(K.VIEW)
    indices = var_operand_def(K.INDEX)
    padding_value = opt_prop_def(PADDING)
    latency = opt_prop_def(LATENCY)
    multimem = opt_prop_def(MULTIMEM)
    result = result_def(K.TILE)
    COST: ClassVar = 2
    EXAMPLES: ClassVar = examples(
        """
        %v, %u = nv_tileaa.tiled_load %view[%i, %j], %t
          {in_bounds = array<i1: true, false>, allow_tma = true}
          : !nv_tileaa.tiled_view<8x16xf32, source = !nv_tileaa.memref<?x?xf32, 1>>,
            index, index, !nv_tileaa.mem_token
            -> tile<8x16xf32>, !nv_tileaa.mem_token
        """,
        """
        %v = nv_tileaa.tiled_load %mr[%i, %j]
          : !nv_tileaa.memref<?x?xf32, 1>, index, index -> tile<4x4xf32>
        """,
        """
        %v = nv_tileaa.tiled_load %view[%i, %j] {multimem = add}
          : !nv_tileaa.tiled_view<8x16xf32, source = !nv_tileaa.memref<?x?xf32, 1>>, index, index
            -> tile<8x16xf32>
        """,
    )
    UNDEFINED: ClassVar = ("an axis with in_bounds that is left", _RACE)

    def check(self, report: Report) -> None:
        super().check(report)
        check_padding(self, report, T.element_of(self.result.type))
        if "multimem" in self.properties:
            check_multimem(self, report, enum_property(self, "multimem"), ("f16", "bf16"))


class Scattered(Access):
    """Rules of accesses whose indices along some axes are tiles."""

    def check_indices(self, report: Report) -> bool:
        """The same, and that index tiles are there, of one shape, along the axes of ``gather_axes``."""
        return super().check_indices(report) and self._check_axes(report)

    def _check_axes(self, report: Report) -> bool:
        """Some index is a tile, all of one shape, along the axes that ``gather_axes`` names."""
        shapes = {
            axis: T.dims_of(index.type)
            for axis, index in enumerate(values_of(self, "indices"))
            if T.dims_of(index.type)
        }
        problem, part = "", operand("indices")
        if not shapes or len(set(shapes.values())) > 1:
            problem = (
                f"expected index tiles of one shape along at least one axis, got shapes "
                f"{sorted(map(list, shapes.values())) or 'none'}"
            )
        elif "gather_axes" in self.properties:
            axes = int_list(self.properties["gather_axes"])
            if list(axes) != sorted(shapes):
                problem = (
                    f"expected gather_axes to list the axes with index tiles, {sorted(shapes)}, got "
                    f"{list(axes)}"
                )
                part = attr("gather_axes")
        if problem:
            report.error(codes.INDEX_COUNT, problem, part)
        return not problem

    def value_shape(self) -> tuple[int, ...] | str | None:
        base = self.base_type
        shapes = [(a, T.dims_of(v.type)) for a, v in enumerate(values_of(self, "indices"))]
        axis, shape = next((a, dims) for a, dims in shapes if dims)
        if isinstance(base, T.MemrefType):
            return shape
        assert isinstance(base, T.TiledViewType)
        if shape != (base.dims[axis],):
            return (
                f"expected {base.dims[axis]} indices along axis {axis}, the tile's extent, got "
                f"[{T.show_dims(shape)}]"
            )
        return base.dims


@tileaa_op("gather_load", group=GROUP)
class GatherLoadOp(Scattered, Load):
    """Reads the elements that tiles of indices select.

    From a memref, element e is at the indices' elements e, scalars holding for all. From a view
    with a sparse axis, the index tile there gives the element coordinate of each row.
    """

    base = operand_def(K.VIEW)
    indices = var_operand_def(K.INDICES)
    gather_axes = opt_prop_def(K.I64_ARRAY)
    result = result_def(K.TILE)
    COST: ClassVar = 12
    EXAMPLES: ClassVar = examples(
        """
        %v, %u = nv_tileaa.gather_load %mr[%lanes, %j], %mask, %f, %t {gather_axes = array<i64: 0>}
          : !nv_tileaa.memref<?x?xf32, 1>, tile<8xindex>, index, tile<8xi1>, tile<8xf32>,
            !nv_tileaa.mem_token -> tile<8xf32>, !nv_tileaa.mem_token
        """,
        """
        %v = nv_tileaa.gather_load %view[%lanes, %j]
          : !nv_tileaa.tiled_view<8x16xf32, source = !nv_tileaa.memref<?x?xf32, 1>>,
            tile<8xindex>, index -> tile<8x16xf32>
        """,
    )
    UNDEFINED: ClassVar = (_OUTSIDE, _RACE)


@tileaa_op("store", group=GROUP)
class StoreOp(Store):
    """Writes the value behind each pointer, or at the indices of a memref; not where masked off.

    Of several writes of one tile to one place, one takes effect, and which is not specified.
    """

    base = operand_def(K.ADDRESS)
    value = operand_def(K.NUMBER)
    indices = var_operand_def(K.INDEX)
    latency = opt_prop_def(LATENCY)
    EXAMPLES: ClassVar = examples(
        """
        %u = nv_tileaa.store %ps, %f, %mask, %t
          : tile<8x!nv_tileaa.ptr<f32, 1>>, tile<8xf32>, tile<8xi1>, !nv_tileaa.mem_token
            -> !nv_tileaa.mem_token
        """,
        """
        %u = nv_tileaa.store %pi, %n, %t {mem_semantic = release, mem_scope = sys}
          : !nv_tileaa.ptr<i32, 1>, i32, !nv_tileaa.mem_token -> !nv_tileaa.mem_token
        """,
        "nv_tileaa.store %mr[%i, %j], %x : !nv_tileaa.memref<?x?xf32, 1>, f32, index, index",
    )
    UNDEFINED: ClassVar = (_OUTSIDE, _RACE)


@tileaa_op("tiled_store", group=GROUP)
class TiledStoreOp(Tiled, Store):
    """Writes a tile at tile coordinates of a view, or from the given element of a memref on.

    Elements beyond the memory are not written, save along axes that ``in_bounds`` promises for.
    With ``multimem`` every replica of multicast memory is written.
    """

    base = operand_def(K.VIEW)
    value = operand_def(K.TILE)
    indices = var_operand_def(K.INDEX)
    latency = opt_prop_def(LATENCY)
    multimem = opt_prop_def(K.FLAG)
    EXAMPLES: ClassVar = examples(
        """
        %u = nv_tileaa.tiled_store %view[%i, %j], %tile, %t {in_bounds = array<i1: true, true>}
          : !nv_tileaa.tiled_view<8x16xf32, source = !nv_tileaa.memref<?x?xf32, 1>>,
            tile<8x16xf32>, index, index, !nv_tileaa.mem_token -> !nv_tileaa.mem_token
        """,
    )
    UNDEFINED: ClassVar = ("an axis with in_bounds that is left", _RACE)

    def check(self, report: Report) -> None:
        super().check(report)
        if is_set(self, "multimem"):
            check_multimem(self, report)


@tileaa_op("scatter_store", group=GROUP)
class ScatterStoreOp(Scattered, Store):
    """Writes the elements that tiles of indices select, as gather_load reads them."""

    base = operand_def(K.VIEW)
    value = operand_def(K.TILE)
    indices = var_operand_def(K.INDICES)
    gather_axes = opt_prop_def(K.I64_ARRAY)
    EXAMPLES: ClassVar = examples(
        """
        %u = nv_tileaa.scatter_store %mr[%lanes, %j], %f, %mask, %t
          : !nv_tileaa.memref<?x?xf32, 1>, tile<8xf32>, tile<8xindex>, index, tile<8xi1>,
            !nv_tileaa.mem_token -> !nv_tileaa.mem_token
        """,
    )
    UNDEFINED: ClassVar = (_OUTSIDE, _RACE)


class Atomic(Access):
    """Rules of the three atomics."""

    mask = opt_operand_def(K.I1)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    VALUE: ClassVar = "value"
    SEMANTICS: ClassVar = ("relaxed", "acquire", "release", "acq_rel")
    KIND: ClassVar = "atomics"

    def check(self, report: Report) -> None:
        super().check(report)
        space = getattr(T.element_of(self.base_type), "space", T.GLOBAL_SPACE)
        if enum_property(self, "mem_scope") == "tl_blk" and space == T.GLOBAL_SPACE:
            report.warning(
                codes.MEMORY_ORDER,
                "an atomic of scope tl_blk on global memory races with the same access by other "
                "blocks",
                attr("mem_scope"),
            )

    def check_element(self, report: Report, what: str, allowed: Sequence[str]) -> None:
        """Report elements that the atomic does not work on; ``what`` names it in the message."""
        found = T.element_name(T.element_of(self.moved.type))
        if found not in allowed:
            report.error(
                codes.ATOMIC_TYPE,
                f"{what} works on {', '.join(allowed)}, but the elements are {found}",
                type_of(self.VALUE),
            )


_WORDS = ("i32", "i64")
_SWAPPED = ("i32", "i64", "f32", "f64")
#: Element types by mode; modes that are not listed work on words.
_RMW_ELEMENTS: dict[str, tuple[str, ...]] = {
    "addf": ("f16", "bf16", "f32", "f64"),
    "xchg": _SWAPPED,
}


@tileaa_op("atomic_cas", group=GROUP)
class AtomicCasOp(Atomic):
    """Writes the replacement where the memory holds the bits of ``compare``; gives the old value.

    Masked-off elements give ``compare``. Absent semantics mean relaxed at scope gpu.
    """

    base = operand_def(K.ADDRESS)
    compare = operand_def(K.NUMBER)
    replacement = operand_def(K.NUMBER)
    indices = var_operand_def(K.INDEX)
    result = result_def(K.NUMBER)
    VALUE: ClassVar = "compare"
    RELATIONS: ClassVar = (same_type("compare", "replacement", "result"),)
    EXAMPLES: ClassVar = examples(
        """
        %old, %u = nv_tileaa.atomic_cas %pi, %n, %n, %c, %t {mem_semantic = relaxed, mem_scope = sys}
          : !nv_tileaa.ptr<i32, 1>, i32, i32, i1, !nv_tileaa.mem_token
            -> i32, !nv_tileaa.mem_token
        """,
    )
    UNDEFINED: ClassVar = (_OUTSIDE,)

    def check(self, report: Report) -> None:
        super().check(report)
        self.check_element(report, "atomic_cas", _SWAPPED)


class AtomicUpdate(Atomic):
    """Rules of the two atomics that have a mode."""

    def check(self, report: Report) -> None:
        super().check(report)
        mode = enum_property(self, "rmw_mode")
        self.check_element(report, f"mode {mode}", _RMW_ELEMENTS.get(mode, _WORDS))


@tileaa_op("atomic_rmw", group=GROUP)
class AtomicRMWOp(AtomicUpdate):
    """Replaces what is in memory by its combination with the value; gives the old value.

    min and max compare signed, umin and umax unsigned; addf rounds to nearest. Every element that
    is not masked off takes effect, also where places coincide.
    """

    base = operand_def(K.ADDRESS)
    value = operand_def(K.NUMBER)
    indices = var_operand_def(K.INDEX)
    rmw_mode = prop_def(K.enum_kind(RMWModeAttr))
    result = result_def(K.NUMBER)
    RELATIONS: ClassVar = (same_type("value", "result"),)
    EXAMPLES: ClassVar = examples(
        """
        %old, %u = nv_tileaa.atomic_rmw %pi, %n, %t
          {rmw_mode = add, mem_semantic = acq_rel, mem_scope = gpu}
          : !nv_tileaa.ptr<i32, 1>, i32, !nv_tileaa.mem_token -> i32, !nv_tileaa.mem_token
        """,
        """
        %old = nv_tileaa.atomic_rmw %ps, %f, %mask {rmw_mode = addf}
          : tile<8x!nv_tileaa.ptr<f32, 1>>, tile<8xf32>, tile<8xi1> -> tile<8xf32>
        """,
    )
    UNDEFINED: ClassVar = (_OUTSIDE,)


@tileaa_op("tiled_atomic_rmw", group=GROUP)
class TiledAtomicRMWOp(Tiled, AtomicUpdate):
    """atomic_rmw of a tile at tile coordinates of a view, or from an element of a memref on.

    Where the old value is not used, the access may become a reduction by TMA. With ``multimem``
    every replica of multicast memory is updated, and there is no old value to use.
    """

    base = operand_def(K.VIEW)
    value = operand_def(K.TILE)
    indices = var_operand_def(K.INDEX)
    rmw_mode = prop_def(K.enum_kind(RMWModeAttr))
    in_bounds = opt_prop_def(IN_BOUNDS)
    multimem = opt_prop_def(K.FLAG)
    result = result_def(K.ELEMENTS)
    RELATIONS: ClassVar = (same_type("value", "result"),)
    EXAMPLES: ClassVar = examples(
        """
        %old, %u = nv_tileaa.tiled_atomic_rmw %view[%i, %j], %tile, %t
          {rmw_mode = addf, mem_semantic = relaxed, mem_scope = gpu}
          : !nv_tileaa.tiled_view<8x16xf32, source = !nv_tileaa.memref<?x?xf32, 1>>,
            tile<8x16xf32>, index, index, !nv_tileaa.mem_token
            -> tile<8x16xf32>, !nv_tileaa.mem_token
        """,
    )
    UNDEFINED: ClassVar = ("an axis with in_bounds that is left",)

    def check(self, report: Report) -> None:
        super().check(report)
        if is_set(self, "multimem"):
            check_multimem_update(self, report)
