"""What the operations on memory share: semantics and scopes, indices, masks, tokens, effects."""

from __future__ import annotations

from typing import ClassVar

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import opt_operand_def, opt_prop_def, opt_result_def
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind

from tilewright.dialects.cuda_tile.types import FLOAT_NAMES
from tilewright.dialects.declare import Report, attr, enum_property, operand, type_of
from tilewright.dialects.facts import Ordering
from tilewright.dialects.nv_tileaa import codes
from tilewright.dialects.nv_tileaa import constraints as K
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import ALL_BUT_TOKEN, TileAAOp, ancestors, int_list, is_set
from tilewright.dialects.nv_tileaa.enums import (
    CacheModifierAttr,
    EvictionPolicyAttr,
    MemScopeAttr,
    MemSemanticAttr,
    MultimemAttr,
    PaddingValueAttr,
)
from tilewright.dialects.nv_tileaa.type_syntax import format_type
from tilewright.dialects.syntax.engine import values_of

CACHE = K.enum_kind(CacheModifierAttr)
EVICTION = K.enum_kind(EvictionPolicyAttr)
SEMANTIC = K.enum_kind(MemSemanticAttr)
SCOPE = K.enum_kind(MemScopeAttr)
PADDING = K.enum_kind(PaddingValueAttr)
MULTIMEM = K.enum_kind(MultimemAttr)
ATOM = K.ANY_ATTRIBUTE
IN_BOUNDS = K.BOOL_ARRAY
TMA = K.FLAG
LATENCY = K.INT32

READ = EffectInstance(MemoryEffectKind.READ)
WRITE = EffectInstance(MemoryEffectKind.WRITE)


class Reads(MemoryEffect):
    """Reads memory; a stronger semantic than weak, or volatile, also orders other effects."""

    @classmethod
    def get_effects(cls, op: object) -> set[EffectInstance]:
        assert isinstance(op, Access)
        return {READ} if op.is_weak else {READ, WRITE}


class Writes(MemoryEffect):
    """Writes memory; a stronger semantic than weak, or volatile, also orders other effects."""

    @classmethod
    def get_effects(cls, op: object) -> set[EffectInstance]:
        assert isinstance(op, Access)
        return {WRITE} if op.is_weak else {READ, WRITE}


class Access(TileAAOp):
    """An access to memory and the rules of all of them.

    ``VALUE`` names the operand or result whose elements move. ``SEMANTICS`` are the legal values
    of ``mem_semantic``, the first one being meant where it is absent.
    """

    token = opt_operand_def(K.TOKEN)
    mem_semantic = opt_prop_def(SEMANTIC)
    mem_scope = opt_prop_def(SCOPE)
    result_token = opt_result_def(K.TOKEN)
    irdl_options = (ALL_BUT_TOKEN,)
    ORDERING: ClassVar = Ordering.ACCESS
    BRACKETS: ClassVar = "indices"
    VALUE: ClassVar[str] = ""
    SEMANTICS: ClassVar[tuple[str, ...]] = ()
    KIND: ClassVar[str] = ""

    def check(self, report: Report) -> None:
        self.check_semantic(report)
        self.check_cache(report)
        check_token(self, report)
        self.check_space(report)
        if self.check_indices(report) and self.check_value(report):
            self.check_mask(report)
            self.check_in_bounds(report)

    @property
    def base_type(self) -> Attribute:
        """The type of what is accessed: a pointer tile, a memref or a tiled view."""
        return values_of(self, "base")[0].type

    @property
    def semantic(self) -> str:
        """The memory semantic; where none is written, the one that is meant."""
        return enum_property(self, "mem_semantic") or self.SEMANTICS[0]

    @property
    def is_weak(self) -> bool:
        """Whether it neither orders other accesses nor has to happen as often as it is written."""
        return self.semantic == "weak" and not is_set(self, "volatile")

    @property
    def moved(self) -> SSAValue:
        """The value that is read or written."""
        return values_of(self, self.VALUE)[0]

    def check_semantic(self, report: Report) -> None:
        """Report a memory ordering that the operation does not have, or a scope that does not go
        with it."""
        semantic, scope = enum_property(self, "mem_semantic"), enum_property(self, "mem_scope")
        if semantic and semantic not in self.SEMANTICS:
            named = [s for s in self.SEMANTICS if s != "weak"]
            listed = f"{', '.join(named[:-1])} or {named[-1]}"
            report.error(
                codes.MEMORY_ORDER,
                f"{self.KIND} accept only {listed}",
                attr("mem_semantic"),
                label=f"this is {semantic}",
            )
        elif self.semantic == "weak":
            if scope:
                report.error(
                    codes.MEMORY_ORDER,
                    "weak memory ordering must not carry a scope",
                    attr("mem_scope"),
                    help="leave mem_scope out, or give the access a stronger mem_semantic",
                )
        elif semantic and not scope:
            report.error(
                codes.MEMORY_ORDER,
                "non-weak memory ordering requires explicit scope",
                attr("mem_semantic"),
                help="add mem_scope = tl_blk, cluster, gpu or sys",
            )

    def check_cache(self, report: Report) -> None:
        """Report a cache modifier on anything but a weak access, or beside an eviction policy."""
        modifier = enum_property(self, "cache_modifier")
        if modifier in ("", "none"):
            return
        if (semantic := enum_property(self, "mem_semantic")) not in ("", "weak"):
            report.error(
                codes.CACHE_POLICY,
                f"cache modifiers apply to weak accesses only, got {modifier} with {semantic}",
                attr("cache_modifier"),
            )
        if (policy := enum_property(self, "eviction_policy")) not in ("", "none"):
            report.error(
                codes.CACHE_POLICY,
                f"expected a cache modifier or an eviction policy, got {modifier} and {policy}",
                attr("eviction_policy"),
            )

    def check_space(self, report: Report) -> None:
        """Shared and tensor memory are seen by the agents of execute only."""
        ty = T.element_of(self.base_type)
        space = getattr(ty, "space", T.GLOBAL_SPACE)
        if space in T.INNER_SPACES and not any(
            a.name == "nv_tileaa.execute" for a in ancestors(self)
        ):
            report.error(
                codes.ADDRESS_SPACE,
                f"address space {space} ({T.SPACES[space]}) is accessible inside "
                f"'nv_tileaa.execute' only",
                type_of("base"),
            )

    def check_indices(self, report: Report) -> bool:
        """Whether there is one index for each axis of the base; reported if not."""
        ty, count = self.base_type, len(values_of(self, "indices"))
        rank = ty.rank if isinstance(ty, T.MemrefType | T.TiledViewType) else 0
        if count != rank:
            report.error(
                codes.INDEX_COUNT,
                f"expected {rank} indices, one for each axis of '{format_type(ty)}', got {count}",
                operand("indices"),
            )
        return count == rank

    def check_value(self, report: Report) -> bool:
        """The moved value fits the base; returns whether it does."""
        base, value = self.base_type, self.moved.type
        held = _held(base)
        if held != T.element_of(value):
            report.error(
                codes.POINTEE,
                f"expected elements of type '{format_type(held)}' as in the memory of the base, "
                f"got '{format_type(value)}'",
                type_of(self.VALUE),
            )
            return False
        wanted = self.value_shape()
        if isinstance(wanted, str):
            report.error(codes.SHAPE, wanted, type_of(self.VALUE))
            return False
        if wanted is not None and wanted != T.dims_of(value):
            report.error(
                codes.SHAPE,
                f"expected a value of shape [{T.show_dims(wanted)}] for a base "
                f"'{format_type(base)}', got '{format_type(value)}'",
                type_of(self.VALUE),
            )
            return False
        return True

    def value_shape(self) -> tuple[int, ...] | str | None:
        """The shape of the moved value; what is wrong, in words; or None for any."""
        base, value = self.base_type, self.moved.type
        if isinstance(base, T.TiledViewType):
            return base.dims
        if isinstance(base, T.MemrefType):
            rank = len(T.dims_of(value))
            if rank not in (0, base.rank):
                return (
                    f"expected a scalar or a tile of rank {base.rank} for '{format_type(base)}', "
                    f"got '{format_type(value)}'"
                )
            return None
        return T.dims_of(base)

    def check_mask(self, report: Report) -> None:
        """Report a mask of another shape than the value."""
        value = self.moved.type
        for mask in values_of(self, "mask"):
            if T.dims_of(mask.type) != T.dims_of(value):
                report.error(
                    codes.MASK,
                    f"expected the mask to have the shape of the value, "
                    f"[{T.show_dims(T.dims_of(value))}], got '{format_type(mask.type)}'",
                    type_of("mask"),
                )

    def check_in_bounds(self, report: Report) -> None:
        """Report ``in_bounds`` that does not have one boolean for each axis of the value."""
        facts = self.properties.get("in_bounds")
        rank = len(T.dims_of(self.moved.type))
        if facts is not None and (count := len(int_list(facts))) != rank:
            report.error(
                codes.IN_BOUNDS,
                f"expected {rank} booleans in in_bounds, one for each axis of the value, got "
                f"{count}",
                attr("in_bounds"),
            )


def check_padding(op: TileAAOp, report: Report, element: Attribute) -> None:
    """Only zero is a padding of integers."""
    padding, name = enum_property(op, "padding_value"), T.element_name(element)
    if padding not in ("", "zero") and name not in FLOAT_NAMES:
        report.error(
            codes.ELEMENT_TYPE,
            f"padding_value {padding} is for float elements, but the elements are {name}",
            attr("padding_value"),
        )


_MULTIMEM_ELEMENTS = ("i32", "i64", "f16", "bf16", "f32", "f64")


def check_multimem(
    op: Access, report: Report, reduction: str = "", float_min_max: tuple[str, ...] = ()
) -> None:
    """Multicast memory is reached through a tiled view, and its elements can be combined so;
    ``float_min_max`` are the floats that min and max exist for."""
    element = T.element_name(T.element_of(op.moved.type))
    combined = (
        reduction in ("", "add")
        or element not in FLOAT_NAMES
        or (reduction in ("min", "max") and element in float_min_max)
    )
    problem = ""
    if not isinstance(op.base_type, T.TiledViewType):
        problem = f"through a tiled_view, but the base is '{format_type(op.base_type)}'"
    elif element not in _MULTIMEM_ELEMENTS:
        problem = f"with elements of {', '.join(_MULTIMEM_ELEMENTS)}, got {element}"
    elif not combined:
        problem = f"with another reduction for floats than {reduction}, got {element}"
    if problem:
        report.error(codes.MULTIMEM, f"multicast memory is accessed {problem}", attr("multimem"))


def check_multimem_update(op: Access, report: Report) -> None:
    """Updates of multicast memory are relaxed or release, combine, and give no old value."""
    mode, semantic = enum_property(op, "rmw_mode"), enum_property(op, "mem_semantic")
    reduction = "add" if mode == "addf" else mode
    check_multimem(op, report, reduction)
    if mode == "xchg":
        report.error(
            codes.MULTIMEM, "multicast memory cannot be exchanged, got mode xchg", attr("rmw_mode")
        )
    if semantic not in ("", "relaxed", "release"):
        report.error(
            codes.MULTIMEM,
            f"updates of multicast memory are relaxed or release, but got {semantic}",
            attr("mem_semantic"),
        )
    if (old := values_of(op, "result")[0]).uses:
        report.error(
            codes.MULTIMEM,
            "an update of multicast memory returns no old value, but its result has "
            f"{len(list(old.uses))} uses",
            type_of("result"),
        )


def _held(base: Attribute) -> Attribute:
    """The element type of the memory behind a base."""
    if isinstance(base, T.MemrefType | T.TiledViewType):
        return base.element_type
    pointer = T.element_of(base)
    assert isinstance(pointer, T.PtrType)
    return pointer.pointee


def check_token(op: TileAAOp, report: Report) -> None:
    """What takes a token gives one."""
    takes = any(isinstance(v.type, T.MemTokenType) for v in op.operands)
    gives = any(isinstance(v.type, T.MemTokenType) for v in op.results)
    if takes and not gives:
        report.error(
            codes.TOKEN_ARITY,
            f"'{op.name}' takes a token, and so must return the token of its own effect",
            operand("token"),
        )


def check_other(op: TileAAOp, report: Report, value: SSAValue) -> None:
    """The fallback value has the type of the result, and a mask to fall back from."""
    for other in values_of(op, "other"):
        if not values_of(op, "mask"):
            report.error(
                codes.MASK,
                "'other' replaces masked-off elements, but there is no mask",
                operand("other"),
            )
        if other.type != value.type:
            report.error(
                codes.MASK,
                f"expected 'other' to have the type of the value, '{format_type(value.type)}', got "
                f"'{format_type(other.type)}'",
                type_of("other"),
            )
