"""Result types inferred from operands and properties, and the types of constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.ir import Attribute, SSAValue

from tilewright.builder.checks import is_integer, listed
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.dialects.syntax.engine import fixed_type

Values = Mapping[str, Sequence[SSAValue]]
Properties = dict[str, Attribute]
TypeLike = Attribute | str


def element(name: TypeLike) -> Attribute:
    """Return an element type by spelling, such as ``f32``. Raises ValueError for an unknown
    one, TypeError for what is not a spelling."""
    if isinstance(name, Attribute):
        return name
    if not isinstance(name, str):
        raise TypeError(f"expected an element type such as 'f32', got {name!r:.60}")
    if (found := T.ELEMENT_TYPES.get(name)) is None:
        raise ValueError(f"unknown element type {name!r}; known: {', '.join(T.ELEMENT_TYPES)}")
    return found


def tile(shape: Sequence[int], elem: TypeLike) -> T.TileType:
    """Return ``tile<AxBxelem>``. Raises xDSL's VerifyException for an illegal tile shape.

    For what is no element type raises TypeError or ValueError as ``element`` does.
    """
    return T.tile(tuple(shape), element(elem))


def ptr(pointee: TypeLike) -> T.TileType:
    """Return ``tile<ptr<pointee>>``, the type of a pointer parameter.

    Raises like ``element``, and xDSL's VerifyException for what is no type of numbers, such as i4.
    """
    return T.tile((), T.PtrType(element(pointee)))


def type_like(like: TypeLike) -> Attribute:
    """Return a type; a spelling means a scalar tile of that element type. Raises like ``element``."""
    return like if isinstance(like, Attribute) else T.tile((), element(like))


def constant_type(
    cls: type[TileOp], groups: Mapping[str, Sequence[Any]], name: str
) -> T.TileType | None:
    """Return the type of a constant operand: the only legal one, or that of a related operand; None if
    undetermined.

    Raises TypeError for padding of a load through what are no pointers.
    """
    fixed = fixed_type(cls, name)
    if isinstance(fixed, T.TileType):
        return fixed
    related = [r.groups for r in cls.RELATIONS if r.what == "type" and name in r.groups]
    for other in (*(g for group in related for g in group), name):
        for value in groups.get(other, ()):
            if isinstance(value, SSAValue) and isinstance(value.type, T.TileType):
                return value.type
    if name in ("index", "indices"):
        return T.scalar("i32")
    for pointers in groups.get("source", ()) if name == "paddingValue" else ():
        if isinstance(pointers, SSAValue):
            return _pointee(pointers)
    return None


def result_types(
    cls: type[TileOp], values: Values, properties: Properties, fields: dict[str, Any]
) -> list[Attribute]:
    """Return the result types. Removes ``to`` and ``shape`` from ``fields``.

    Raises TypeError if they cannot be inferred and are not given, ValueError for an unknown element type and for
    properties that fit no result, such as a permutation of other axes.
    """
    definition = cls.get_irdl_definition()
    if not definition.results:
        return []
    to, shape = fields.pop("to", None), fields.pop("shape", None)
    if shape is not None and not listed(shape, is_integer):
        raise TypeError(f"shape is a list of whole numbers, not {shape!r:.60}")
    if to is not None or shape is not None:
        first = next((_tile_of(v) for group in values.values() for v in group), None)
        dims = shape if shape is not None else first.dims if first else ()
        if to is not None:
            return [T.tile(tuple(dims), element(to))]
        if first is None:
            raise TypeError(f"{cls.mnemonic()} needs to=, an element type")
        return [T.tile(tuple(dims), first.element_type)]
    if (rule := _RULES.get(cls.mnemonic())) is not None:
        return rule(values, properties)
    return [_result_type(cls, values, name) for name, _ in definition.results]


def needs_result_type(cls: type[TileOp]) -> bool:
    """Whether the caller must give the result type: ``to=``, ``shape=`` or ``type=``."""
    results = cls.get_irdl_definition().results
    if not results or cls.mnemonic() in _RULES:
        return False
    related = {g for r in cls.RELATIONS if r.what == "type" for g in r.groups}
    return any(fixed_type(cls, name) is None and name not in related for name, _ in results)


def _result_type(cls: type[TileOp], values: Values, name: str) -> Attribute:
    if (fixed := fixed_type(cls, name)) is not None:
        return fixed
    for relation in cls.RELATIONS:
        if relation.what == "type" and name in relation.groups:
            for other in relation.groups:
                if values.get(other):
                    return values[other][0].type
    raise TypeError(f"{cls.mnemonic()} needs its result type: give to=, shape= or type=")


def _tile_of(value: SSAValue) -> T.TileType:
    ty = value.type
    if not isinstance(ty, T.TileType):
        raise TypeError(f"expected a tile, got {format_type(ty)}")
    return ty


def _pointee(value: SSAValue) -> T.TileType:
    ty = _tile_of(value)
    if not isinstance(ty.element_type, T.PtrType):
        raise TypeError(f"expected a tile of pointers, got {format_type(ty)}")
    return ty.with_element(ty.element_type.pointee)


def _view_tile(value: SSAValue) -> T.TileType:
    if not isinstance(value.type, T.TileViewType):
        raise TypeError(
            f"expected a view of tiles, got {format_type(value.type)}; see partition, strided and "
            "gather_scatter"
        )
    return value.type.tile_type


def _rank(value: SSAValue) -> int:
    rank = getattr(value.type, "rank", None)
    if not isinstance(rank, int):
        raise TypeError(f"expected a view, got {format_type(value.type)}")
    return rank


def _permuted(values: Values, properties: Properties) -> T.TileType:
    ty = _tile_of(values["source"][0])
    axes = properties["permutation"]
    assert isinstance(axes, DenseArrayBase)
    order = [int(axis) for axis in axes.iter_values()]
    if sorted(order) != list(range(ty.rank)):
        raise ValueError(f"{order} is not a permutation of the axes of {format_type(ty)}")
    return ty.with_shape([ty.dims[axis] for axis in order])


def _joined(values: Values, properties: Properties) -> T.TileType:
    lhs, rhs = _tile_of(values["lhs"][0]), _tile_of(values["rhs"][0])
    given = properties["dim"]
    assert isinstance(given, IntegerAttr)
    dim = given.value.data
    if not 0 <= dim < min(lhs.rank, rhs.rank):
        raise ValueError(f"dim {dim} is not an axis of {format_type(lhs)} and {format_type(rhs)}")
    dims = list(lhs.dims)
    dims[dim] += rhs.dims[dim]
    return lhs.with_shape(dims)


#: Result types inferred from operands and properties other than by relations.
_RULES: dict[str, Callable[[Values, Properties], list[Attribute]]] = {
    "cmpf": lambda v, p: [_tile_of(v["lhs"][0]).with_element(T.i1)],
    "cmpi": lambda v, p: [_tile_of(v["lhs"][0]).with_element(T.i1)],
    "permute": lambda v, p: [_permuted(v, p)],
    "cat": lambda v, p: [_joined(v, p)],
    "load_ptr_tko": lambda v, p: [_pointee(v["source"][0]), T.TOKEN],
    "load_view_tko": lambda v, p: [_view_tile(v["view"][0]), T.TOKEN],
    "multimem_load_reduce_view_tko": lambda v, p: [_view_tile(v["view"][0]), T.TOKEN],
    "atomic_rmw_tko": lambda v, p: [v["arg"][0].type, T.TOKEN],
    "atomic_cas_tko": lambda v, p: [v["cmp"][0].type, T.TOKEN],
    "ptr_to_int": lambda v, p: [_tile_of(v["source"][0]).with_element(T.i64)],
    "get_tensor_shape": lambda v, p: [T.scalar("i32")] * _rank(v["src"][0]),
    "get_index_space_shape": lambda v, p: [T.scalar("i32")] * _rank(v["src"][0]),
}
