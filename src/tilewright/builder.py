"""Write kernels in Python, without text.

    module = ModuleBuilder("kernels")
    with module.entry("scale", {"x": ptr("f32"), "n": "i32"}) as k:
        view = k.make_tensor_view(k.args.x, shape=[k.args.n], strides=[1])
        tiles = k.partition(view, tile=(128,), padding="zero")
        bx, _, _ = k.get_tile_block_id()
        value, token = k.load_view_tko(tiles, [bx])
        k.store_view_tko(k.mulf(value, 2.0), tiles, [bx], token=token)
    text = tilewright.print_text(module.build())

Every operation is a method named by its mnemonic (``for_``, ``if_``, ``assert_``, ``break_``,
``continue_``, ``return_``, ``yield_`` and ``global_`` where Python has the word). Operands are xDSL
values, in the order of the operation's text; a Python number stands for a constant of the type of
its neighbours. Loads and stores are ``weak`` unless told otherwise. Properties are keywords, enumerations by their spelling. Result types are computed
where the operation fixes them; elsewhere ``to=`` (an element type), ``shape=`` or ``type=`` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.dialects.builtin import i32 as builtin_i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import AttrSizedOperandSegments, OptOperandDef, OptPropertyDef, VarOperandDef

import tilewright.dialects.cuda_tile as cuda_tile
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.attributes import AssumePredicateAttr, OptimizationHintsAttr
from tilewright.dialects.cuda_tile.base import (
    OPERATIONS,
    TileOp,
    bool_array,
    ensure_terminator,
    is_terminator,
)
from tilewright.dialects.cuda_tile.constants import TileConstantAttr, value_to_bits
from tilewright.dialects.cuda_tile.constraints import FieldKind
from tilewright.dialects.cuda_tile.enums import PaddingValue, SymbolVisibility, SymbolVisibilityAttr
from tilewright.dialects.syntax.engine import fixed_type

Value = SSAValue
Operand = SSAValue | int | float | bool
TypeLike = Attribute | str

#: Accesses that are ``weak`` unless told otherwise: what ordinary code wants.
_WEAK_BY_DEFAULT = frozenset({"load_ptr_tko", "store_ptr_tko", "load_view_tko", "store_view_tko"})

_PYTHON_WORDS = {
    "assert_": "assert",
    "break_": "break",
    "continue_": "continue",
    "return_": "return",
    "yield_": "yield",
}


def element(name: TypeLike) -> Attribute:
    """The element type of a spelling such as ``f32``; ValueError for an unknown one."""
    if isinstance(name, Attribute):
        return name
    if (found := T.ELEMENT_TYPES.get(name)) is None:
        raise ValueError(f"unknown element type {name!r}; known: {', '.join(T.ELEMENT_TYPES)}")
    return found


def tile(shape: Sequence[int], elem: TypeLike) -> T.TileType:
    """``tile<AxBxelem>``; xDSL's VerifyException where the shape is no legal tile shape."""
    return T.tile(tuple(shape), element(elem))


def ptr(pointee: TypeLike) -> T.TileType:
    """``tile<ptr<pointee>>``, the type of a pointer parameter."""
    return T.tile((), T.PtrType(element(pointee)))


def _type(like: TypeLike) -> Attribute:
    """A spelling means a scalar tile of that element type."""
    return T.scalar(like) if isinstance(like, str) else like


class ModuleBuilder:
    """Collects kernels and globals; ``build()`` gives the verified module."""

    def __init__(self, name: str = "kernels", producer: str | None = None):
        cuda_tile.load()
        from tilewright.dialects.cuda_tile.ops.module import ModuleOp

        self.module = ModuleOp.make(name, producer)

    @contextmanager
    def entry(
        self,
        name: str,
        parameters: Mapping[str, TypeLike] | Sequence[TypeLike] = (),
        hints: Mapping[str, Mapping[str, int | bool]] | None = None,
    ) -> Iterator[Builder]:
        """A kernel; leaves with a ``return`` appended unless the body ends in one."""
        from tilewright.dialects.cuda_tile.ops.control_flow import ReturnOp
        from tilewright.dialects.cuda_tile.ops.module import EntryOp

        named = dict(parameters) if isinstance(parameters, Mapping) else None
        types = [_type(t) for t in (named.values() if named is not None else parameters)]  # pyright: ignore[reportArgumentType]
        op = EntryOp.make(name, types, _hints(hints))
        if named is not None:
            for argument, argument_name in zip(op.block.args, named, strict=True):
                argument.name_hint = argument_name
        self.module.block.add_op(op)
        builder = Builder(op.block)
        builder.args = SimpleNamespace(**dict(zip(named or (), op.block.args, strict=False)))
        builder.arguments = tuple(op.block.args)
        yield builder
        ensure_terminator(op.regions[0], ReturnOp)

    def global_(
        self,
        name: str,
        values: Sequence[float],
        elem: TypeLike,
        *,
        alignment: int = 0,
        constant: bool = False,
        private: bool = False,
    ) -> None:
        """A global of rank 1 with these values."""
        from tilewright.dialects.cuda_tile.ops.module import GlobalOp

        ty = tile((len(values),), elem)
        bits = [value_to_bits(v, ty.element) for v in values]
        visibility = SymbolVisibility.PRIVATE if private else SymbolVisibility.PUBLIC
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "value": TileConstantAttr.from_bits(ty, bits),
            "alignment": IntegerAttr(alignment, 64),
            "symbol_visibility": SymbolVisibilityAttr(visibility),
        }
        if constant:
            properties["constant"] = UnitAttr()
        self.module.block.add_op(GlobalOp.create(properties=properties))

    def build(self):
        """The module, verified; raises TileIRError with every error otherwise."""
        from tilewright.analysis.verifier import verify

        verify(self.module)
        return self.module


def _hints(
    hints: Mapping[str, Mapping[str, int | bool]] | None,
) -> OptimizationHintsAttr | None:
    if not hints:
        return None
    return OptimizationHintsAttr(
        {
            target: {
                key: BoolAttr.from_bool(value)
                if isinstance(value, bool)
                else IntegerAttr(value, builtin_i32)
                for key, value in entries.items()
            }
            for target, entries in hints.items()
        }
    )


class Builder:
    """Appends operations to a block. ``args`` holds an entry's parameters by name."""

    args: SimpleNamespace
    arguments: tuple[Value, ...]

    def __init__(self, block: Block):
        self.block = block

    def __getattr__(self, name: str) -> Callable[..., Any]:
        mnemonic = _PYTHON_WORDS.get(name, name)
        if mnemonic not in OPERATIONS:
            raise AttributeError(f"cuda_tile has no operation {name!r}")
        return lambda *operands, **fields: self.op(mnemonic, *operands, **fields)

    def op(self, mnemonic: str, *operands: Operand | Sequence[Operand], **fields: Any) -> Any:
        """Append an operation; gives its result, a tuple of several, or the operation if none.

        Raises TypeError for operands or keywords that the operation does not have.
        """
        cls = OPERATIONS[mnemonic]
        definition = cls.get_irdl_definition()
        if "memory_ordering_semantics" in definition.properties and mnemonic in _WEAK_BY_DEFAULT:
            fields.setdefault("memory_ordering_semantics", "weak")
        groups = self._operand_groups(cls, operands, fields)
        properties = self._properties(cls, fields)
        result_types = fields.pop("type", None)
        values = self._materialise(cls, groups)
        if any(isinstance(o, AttrSizedOperandSegments) for o in definition.options):
            sizes = [len(values[name]) for name, _ in definition.operands]
            properties["operandSegmentSizes"] = DenseArrayBase.from_list(builtin_i32, sizes)
        if result_types is None:
            types = _result_types(cls, values, properties, fields)
        else:
            one = isinstance(result_types, str | Attribute)
            types = [_type(t) for t in ([result_types] if one else result_types)]
        if fields:
            raise TypeError(f"{mnemonic} has no {', '.join(sorted(fields))}")
        made = cls.create(
            operands=[v for name, _ in definition.operands for v in values[name]],
            result_types=types,
            properties=properties,
            regions=[Region() for _ in definition.regions],
        )
        return self.append(made)

    def append(self, made: Operation) -> Any:
        self.block.add_op(made)
        if not made.results:
            return made
        return made.results[0] if len(made.results) == 1 else tuple(made.results)

    def _operand_groups(
        self,
        cls: type[TileOp],
        operands: tuple[Operand | Sequence[Operand], ...],
        fields: dict[str, Any],
    ) -> dict[str, list[Operand]]:
        """Operands by group: positional ones in order, optional ones also by keyword."""
        groups: dict[str, list[Operand]] = {}
        positional = list(operands)
        for name, group in cls.get_irdl_definition().operands:
            given: Operand | Sequence[Operand]
            if name in fields:
                given = fields.pop(name) if fields[name] is not None else ()
                fields.pop(name, None)
            elif positional:
                given = positional.pop(0)
            elif isinstance(group, VarOperandDef):
                given = ()
            else:
                raise TypeError(f"{cls.mnemonic()} needs an operand '{name}'")
            is_list = isinstance(given, Sequence)
            if is_list and (
                not isinstance(group, VarOperandDef) or (isinstance(group, OptOperandDef) and given)
            ):
                raise TypeError(f"operand '{name}' of {cls.mnemonic()} is one value, not a list")
            groups[name] = list(given) if isinstance(given, Sequence) else [given]
        if positional:
            raise TypeError(f"{cls.mnemonic()} got {len(positional)} operands too many")
        return groups

    def _properties(self, cls: type[TileOp], fields: dict[str, Any]) -> dict[str, Attribute]:
        found: dict[str, Attribute] = {}
        for name, definition in cls.get_irdl_definition().properties.items():
            if name not in fields and name.rstrip("_") not in fields:
                continue
            value = fields.pop(name if name in fields else name.rstrip("_"))
            constraint = definition.constr
            if value is None or (value is False and getattr(constraint, "wire", "") == "unit"):
                continue
            found[name] = _property(constraint, value)
        for name, definition in cls.get_irdl_definition().properties.items():
            optional = (
                isinstance(definition, OptPropertyDef) or definition.default_value is not None
            )
            if name not in found and not optional and name != "operandSegmentSizes":
                raise TypeError(f"{cls.mnemonic()} needs {name}=")
        return found

    def _materialise(
        self, cls: type[TileOp], groups: dict[str, list[Operand]]
    ) -> dict[str, list[Value]]:
        """Turn Python numbers into constants of the type that the operation asks for there."""
        known: dict[str, list[Value]] = {}
        for name, values in groups.items():
            known[name] = [
                v
                if isinstance(v, SSAValue)
                else self.constant(v, _neighbour_type(cls, groups, name))
                for v in values
            ]
        return known

    def constant(self, value: float | bool | Sequence[Any], type: TypeLike) -> Value:
        """A constant tile: a number fills it, nested lists give the elements row by row."""
        ty = _type(type)
        assert isinstance(ty, T.TileType)
        flat = _flatten(value)
        bits = [value_to_bits(v, ty.element) for v in flat]
        if len(bits) not in (1, ty.element_count):
            raise ValueError(f"{len(bits)} numbers do not fill {ty.element_count} elements")
        cls = OPERATIONS["constant"]
        attribute = TileConstantAttr.from_bits(ty, bits)
        return self.append(cls.create(properties={"value": attribute}, result_types=[ty]))

    def make_tensor_view(
        self, base: Value, shape: Sequence[int | Value], strides: Sequence[int | Value]
    ) -> Value:
        """A tensor view; entries of ``shape`` and ``strides`` are numbers or scalar values."""
        pointer = base.type
        assert isinstance(pointer, T.TileType)
        pointee = pointer.element_type
        assert isinstance(pointee, T.PtrType), "the base of a tensor view is a pointer"
        dims = [d if isinstance(d, int) else T.DYNAMIC for d in shape]
        steps = [s if isinstance(s, int) else T.DYNAMIC for s in strides]
        ptr_attr = getattr(pointee.ptr_attr, "data", None)
        return self.op(
            "make_tensor_view",
            base,
            [d for d in shape if isinstance(d, SSAValue)],
            [s for s in strides if isinstance(s, SSAValue)],
            type=T.TensorViewType(pointee.pointee, dims, steps, ptr_attr),
        )

    def partition(
        self,
        view: Value,
        tile: Sequence[int],
        *,
        dim_map: Sequence[int] | None = None,
        padding: str | None = None,
    ) -> Value:
        """``make_partition_view`` over a tensor view."""
        ty = T.PartitionViewType(tile, view.type, dim_map, _padding(padding))
        return self.op("make_partition_view", view, type=ty)

    def strided(
        self,
        view: Value,
        tile: Sequence[int],
        traversal_strides: Sequence[int],
        *,
        dim_map: Sequence[int] | None = None,
        padding: str | None = None,
    ) -> Value:
        """``make_strided_view`` over a tensor view."""
        ty = T.StridedViewType(tile, traversal_strides, view.type, dim_map, _padding(padding))
        return self.op("make_strided_view", view, type=ty)

    def gather_scatter(
        self, view: Value, tile: Sequence[int], sparse_dim: int, *, padding: str | None = None
    ) -> Value:
        """``make_gather_scatter_view`` over a tensor view."""
        ty = T.GatherScatterViewType(tile, view.type, sparse_dim, _padding(padding))
        return self.op("make_gather_scatter_view", view, type=ty)

    def if_(
        self,
        condition: Value,
        then: Callable[[Builder], Sequence[Value] | Value | None],
        otherwise: Callable[[Builder], Sequence[Value] | Value | None] | None = None,
    ) -> tuple[Value, ...]:
        """An ``if``; each branch is a function that builds it and returns what it yields."""
        from tilewright.dialects.cuda_tile.ops.control_flow import IfOp, YieldOp

        regions, types = [], None
        for branch in (then, otherwise):
            region = Region()
            if branch is not None:
                region.add_block(Block())
                yielded = _fill(Builder(region.blocks[0]), branch, YieldOp)
                if yielded is not None:
                    types = [v.type for v in yielded]
            regions.append(region)
        made = IfOp.create(operands=[condition], regions=regions, result_types=types or [])
        self.block.add_op(made)
        return tuple(made.results)

    def for_(
        self,
        lower: Value,
        upper: Value,
        step: Value,
        carried: Sequence[Value],
        body: Callable[..., Sequence[Value] | Value | None],
        *,
        unsigned: bool = False,
    ) -> tuple[Value, ...]:
        """A ``for``; ``body(builder, iv, *carried)`` returns the values for the next iteration."""
        from tilewright.dialects.cuda_tile.ops.control_flow import ContinueOp, ForOp

        types = [v.type for v in carried]
        block = Block(arg_types=[lower.type, *types])
        _fill(Builder(block), lambda b: body(b, *block.args), ContinueOp)
        made = ForOp.create(
            operands=[lower, upper, step, *carried],
            result_types=types,
            regions=[Region(block)],
            properties={"unsignedCmp": UnitAttr()} if unsigned else {},
        )
        self.block.add_op(made)
        return tuple(made.results)

    def loop_(
        self,
        carried: Sequence[Value],
        body: Callable[..., Sequence[Value] | Value | None],
        result_types: Sequence[TypeLike] = (),
    ) -> tuple[Value, ...]:
        """A ``loop``; the body leaves it with ``break_`` in a branch of an ``if_``."""
        from tilewright.dialects.cuda_tile.ops.control_flow import ContinueOp, LoopOp

        block = Block(arg_types=[v.type for v in carried])
        _fill(Builder(block), lambda b: body(b, *block.args), ContinueOp)
        made = LoopOp.create(
            operands=list(carried),
            result_types=[_type(t) for t in result_types],
            regions=[Region(block)],
        )
        self.block.add_op(made)
        return tuple(made.results)

    def reduce(
        self,
        operands: Value | Sequence[Value],
        dim: int,
        identities: float | Sequence[float],
        body: Callable[..., Sequence[Value] | Value],
    ) -> Any:
        """A ``reduce``; ``body(builder, a, b, ...)`` combines a pair for each operand."""
        return self._fold("reduce", operands, dim, identities, body, {})

    def scan(
        self,
        operands: Value | Sequence[Value],
        dim: int,
        identities: float | Sequence[float],
        body: Callable[..., Sequence[Value] | Value],
        *,
        reverse: bool = False,
    ) -> Any:
        """An inclusive ``scan``, from the last element down where ``reverse``."""
        extra: dict[str, Attribute] = {"reverse": BoolAttr.from_bool(reverse)}
        return self._fold("scan", operands, dim, identities, body, extra)

    def _fold(
        self,
        mnemonic: str,
        operands: Value | Sequence[Value],
        dim: int,
        identities: float | Sequence[float],
        body: Callable[..., Sequence[Value] | Value],
        extra: dict[str, Attribute],
    ) -> Any:
        from tilewright.dialects.cuda_tile.ops.control_flow import YieldOp
        from tilewright.dialects.cuda_tile.ops.reductions import Fold, identity

        values = [operands] if isinstance(operands, SSAValue) else list(operands)
        numbers = identities if isinstance(identities, Sequence) else [identities]
        types = [v.type for v in values]
        tiles = [ty for ty in types if isinstance(ty, T.TileType)]
        cls = OPERATIONS[mnemonic]
        assert issubclass(cls, Fold)
        block = Block(arg_types=[T.tile((), t.element_type) for t in tiles for _ in range(2)])
        _fill(Builder(block), lambda b: body(b, *block.args), YieldOp)
        scalars = [
            identity(t.element, value_to_bits(n, t.element))
            for t, n in zip(tiles, numbers, strict=True)
        ]
        made = cls.create(
            operands=values,
            properties={
                "dim": IntegerAttr(dim, builtin_i32),
                "identities": ArrayAttr(scalars),
                **extra,
            },
            regions=[Region(block)],
        )
        result_types = [made.result_type(t, dim) for t in tiles]
        made = cls.create(
            operands=values,
            properties=made.properties,
            regions=[made.detach_region(0)],
            result_types=result_types,
        )
        return self.append(made)


def _fill(
    builder: Builder, body: Callable[[Builder], Any], terminator: type[TileOp]
) -> list[Value] | None:
    """Build a region's block; ends it with the returned values unless it has ended itself."""
    returned = body(builder)
    if is_terminator(builder.block.last_op):
        return None
    values = (
        [] if returned is None else [returned] if isinstance(returned, SSAValue) else list(returned)
    )
    builder.block.add_op(terminator.create(operands=values))
    return values


def _padding(padding: str | None) -> PaddingValue | None:
    return None if padding is None else PaddingValue(padding)


def _flatten(value: Any) -> list[Any]:
    if isinstance(value, Sequence):
        return [leaf for part in value for leaf in _flatten(part)]
    return [value]


def _property(constraint: object, value: Any) -> Attribute:
    """A property from a Python value, by its kind."""
    if isinstance(value, Attribute):
        return value
    assert isinstance(constraint, FieldKind)
    makers: dict[str, Callable[[], Attribute]] = {
        "enum": lambda: constraint.enum(constraint.enum.enum_type(value)),  # pyright: ignore[reportCallIssue]
        "unit": UnitAttr,
        "int": lambda: IntegerAttr(value, IntegerType(constraint.width)),
        "bool": lambda: BoolAttr.from_bool(value),
        "str": lambda: StringAttr(value),
        "sym": lambda: SymbolRefAttr(value),
        "i32s": lambda: DenseArrayBase.from_list(builtin_i32, list(value)),
        "bools": lambda: bool_array(value),
        "hints": lambda: _hints(value) or OptimizationHintsAttr({}),
    }
    if constraint.wire not in makers:
        raise TypeError(f"expected {constraint.description}, got {value!r}")
    return makers[constraint.wire]()


def _neighbour_type(cls: type[TileOp], groups: dict[str, list[Operand]], name: str) -> T.TileType:
    """The type of a constant for an operand: its only legal type, or that of a related operand."""
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
    raise TypeError(
        f"the type of a number for operand '{name}' of {cls.mnemonic()} is not known; "
        "use constant(value, type)"
    )


_Values = dict[str, list[Value]]


def _tile_of(value: Value) -> T.TileType:
    ty = value.type
    if not isinstance(ty, T.TileType):
        raise TypeError(f"expected a tile, got {ty}")
    return ty


def _pointee(value: Value) -> T.TileType:
    ty = _tile_of(value)
    assert isinstance(ty.element_type, T.PtrType), "expected pointers"
    return ty.with_element(ty.element_type.pointee)


def _view_tile(value: Value) -> T.TileType:
    assert isinstance(value.type, T.TileViewType), "expected a tile view"
    return value.type.tile_type


def _permuted(values: _Values, properties: dict[str, Attribute]) -> T.TileType:
    ty = _tile_of(values["source"][0])
    axes = properties["permutation"]
    assert isinstance(axes, DenseArrayBase)
    return ty.with_shape([ty.dims[int(a)] for a in axes.iter_values()])


def _joined(values: _Values, properties: dict[str, Attribute]) -> T.TileType:
    lhs, rhs = _tile_of(values["lhs"][0]), _tile_of(values["rhs"][0])
    dim = properties["dim"].value.data  # pyright: ignore[reportAttributeAccessIssue]
    dims = list(lhs.dims)
    dims[dim] += rhs.dims[dim]
    return lhs.with_shape(dims)


#: Result types that follow from operands and properties, apart from relations.
_RULES: dict[str, Callable[[_Values, dict[str, Attribute]], list[Attribute]]] = {
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
    "get_tensor_shape": lambda v, p: [T.scalar("i32")] * v["src"][0].type.rank,  # pyright: ignore[reportAttributeAccessIssue]
    "get_index_space_shape": lambda v, p: [T.scalar("i32")] * v["src"][0].type.rank,  # pyright: ignore[reportAttributeAccessIssue]
}


def _result_types(
    cls: type[TileOp], values: _Values, properties: dict[str, Attribute], fields: dict[str, Any]
) -> list[Attribute]:
    definition = cls.get_irdl_definition()
    if not definition.results:
        return []
    to, shape = fields.pop("to", None), fields.pop("shape", None)
    if to is not None or shape is not None:
        first = next((_tile_of(v) for group in values.values() for v in group), None)
        dims = shape if shape is not None else first.dims if first else ()
        if to is None and first is None:
            raise TypeError(f"{cls.mnemonic()} needs to=, an element type")
        return [T.tile(tuple(dims), element(to) if to is not None else first.element_type)]  # pyright: ignore[reportOptionalMemberAccess]
    if (rule := _RULES.get(cls.mnemonic())) is not None:
        return rule(values, properties)
    return [_result_type(cls, values, name) for name, _ in definition.results]


def _result_type(cls: type[TileOp], values: _Values, name: str) -> Attribute:
    if (fixed := fixed_type(cls, name)) is not None:
        return fixed
    for relation in cls.RELATIONS:
        if relation.what == "type" and name in relation.groups:
            for other in relation.groups:
                if values.get(other):
                    return values[other][0].type
    raise TypeError(f"{cls.mnemonic()} needs its result type: give to=, shape= or type=")


__all__ = [
    "AssumePredicateAttr",
    "Builder",
    "ModuleBuilder",
    "element",
    "ptr",
    "tile",
]
