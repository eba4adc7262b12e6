"""Folding rules for accesses and tokens: constant masks, atomics that only read, token joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.dialects.builtin import i32 as builtin_i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.enums import MemScopeAttr, MemSemanticAttr
from tilewright.dialects.nv_tileaa.groups import SEGMENTS
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.hints import CreateMemTokenOp, JoinMemTokenOp
from tilewright.dialects.nv_tileaa.ops.memory import (
    AtomicCasOp,
    AtomicRMWOp,
    GatherLoadOp,
    LoadOp,
    ScatterStoreOp,
    StoreOp,
    TiledLoadOp,
    TiledStoreOp,
)
from tilewright.dialects.syntax.engine import values_of
from tilewright.passes.base import insert_before, replace_op, replace_value
from tilewright.passes.canonicalize import Rule
from tilewright.passes.tileaa.matching import integer_of, replace_with

_LOAD_GROUPS = ("base", "indices", "mask", "other")
_STORE_GROUPS = ("base", "value", "indices", "mask")


def rebuilt(
    kind: type[Access],
    groups: Mapping[str, Sequence[SSAValue]],
    token: Sequence[SSAValue],
    old: Access,
    properties: Mapping[str, Attribute],
) -> Access:
    """Return an access of class ``kind`` with results and attributes of ``old`` but other operands; not inserted yet.

    ``groups`` has all operands by name, in order, except for the token.
    """
    made = kind.create(
        operands=[*(value for group in groups.values() for value in group), *token],
        result_types=[result.type for result in old.results],
        properties={
            **properties,
            SEGMENTS: DenseArrayBase.from_list(builtin_i32, [len(g) for g in groups.values()]),
        },
        attributes=dict(old.attributes),
    )
    for new, before in zip(made.results, old.results, strict=True):
        new.name_hint = before.name_hint
    return made


def constant_load_mask(op: Access, rewriter: PatternRewriter) -> None:
    """Drop an all-true load mask; replace an all-false load by its fallback value."""
    known = _known_mask(op)
    if known is None:
        return
    token, other = values_of(op, "token"), values_of(op, "other")
    if known:
        groups = {name: values_of(op, name) for name in _LOAD_GROUPS}
        groups |= {"mask": (), "other": ()}
        replace_op(rewriter, op, rebuilt(type(op), groups, token, op, op.properties))
    elif other and op.semantic == "weak" and (token or len(op.results) == 1):
        replace_with(rewriter, op, (*other, *(token if len(op.results) > 1 else ())))


def constant_store_mask(op: Access, rewriter: PatternRewriter) -> None:
    """Drop an all-true store mask; erase an all-false store."""
    known = _known_mask(op)
    if known is None:
        return
    token = values_of(op, "token")
    if known:
        groups = {name: values_of(op, name) for name in _STORE_GROUPS}
        groups |= {"mask": ()}
        replace_op(rewriter, op, rebuilt(type(op), groups, token, op, op.properties))
    elif op.semantic == "weak" and (token or not op.results):
        replace_with(rewriter, op, token if op.results else ())


def _known_mask(op: Access) -> bool | None:
    mask = values_of(op, "mask")
    known = integer_of(mask[0]) if mask else None
    return None if known is None else bool(known)


#: The argument with which each update leaves memory unchanged; all ones are -1, read signed.
_IDLE = {"add": 0, "or": 0, "xor": 0, "and": -1, "umax": 0}


def idle_update(op: AtomicRMWOp, rewriter: PatternRewriter) -> None:
    """Turn an atomic update that does not change memory into an atomic load, unless it releases."""
    value = values_of(op, "value")[0]
    neutral = _IDLE.get(enum_property(op, "rmw_mode"))
    if neutral is not None and integer_of(value) == neutral:
        _read_instead(op, (), rewriter)


def idle_exchange(op: AtomicCasOp, rewriter: PatternRewriter) -> None:
    """Turn a compare-and-swap of a constant with itself into an atomic load, unless it releases."""
    compare, replacement = values_of(op, "compare")[0], values_of(op, "replacement")[0]
    known = integer_of(compare)
    if compare is replacement or (known is not None and known == integer_of(replacement)):
        _read_instead(op, (compare,) if values_of(op, "mask") else (), rewriter)


def _read_instead(op: Access, other: Sequence[SSAValue], rewriter: PatternRewriter) -> None:
    semantic = op.semantic
    if semantic not in ("relaxed", "acquire") or len(op.results) != 2:
        return
    groups = {
        "base": values_of(op, "base"),
        "indices": values_of(op, "indices"),
        "mask": values_of(op, "mask"),
        "other": other,
    }
    properties = {
        "mem_semantic": MemSemanticAttr.of(semantic),
        "mem_scope": MemScopeAttr.of(enum_property(op, "mem_scope") or "gpu"),
    }
    replace_op(rewriter, op, rebuilt(LoadOp, groups, values_of(op, "token"), op, properties))


def flat_join(op: JoinMemTokenOp, rewriter: PatternRewriter) -> None:
    """Flatten nested joins and drop duplicates. A join of no token becomes a fresh one, of one
    token that token."""
    parts: dict[SSAValue, None] = {}
    for token in op.tokens:
        inner = token.owner
        if isinstance(inner, JoinMemTokenOp):
            parts.update(dict.fromkeys(inner.tokens))
        elif not isinstance(inner, CreateMemTokenOp):
            parts[token] = None
    if not parts:
        made = CreateMemTokenOp.create(result_types=[T.MEM_TOKEN])
        insert_before(rewriter, op, made)
        replace_value(rewriter, op, made.result)
    elif len(parts) == 1:
        replace_value(rewriter, op, next(iter(parts)))
    elif tuple(parts) != tuple(op.tokens):
        made = JoinMemTokenOp.create(operands=list(parts), result_types=[T.MEM_TOKEN])
        replace_op(rewriter, op, made)


MEMORY_RULES: dict[type[Operation], tuple[Rule, ...]] = {
    LoadOp: (constant_load_mask,),
    TiledLoadOp: (constant_load_mask,),
    GatherLoadOp: (constant_load_mask,),
    StoreOp: (constant_store_mask,),
    TiledStoreOp: (constant_store_mask,),
    ScatterStoreOp: (constant_store_mask,),
    AtomicRMWOp: (idle_update,),
    AtomicCasOp: (idle_exchange,),
    JoinMemTokenOp: (flat_join,),
}
