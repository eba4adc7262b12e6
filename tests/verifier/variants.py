"""Programs made from the examples by one change each: a type, an element type or a property.

They keep the form of a program, so that bytecode can hold most of them, whether legal or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, IntegerType, UnitAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl import OptPropertyDef
from xdsl.utils.exceptions import VerifyException

from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.base import OPERATIONS, TileOp
from tilewright.dialects.cuda_tile.constants import TileConstantAttr
from tilewright.dialects.cuda_tile.constraints import FieldKind
from tilewright.dialects.cuda_tile.enums import (
    IntegerOverflow,
    IntegerOverflowAttr,
    PtrAttr,
    TileEnumAttribute,
)
from tilewright.dialects.cuda_tile.examples import wrap
from tilewright.dialects.cuda_tile.ops.control_flow import ReturnOp
from tilewright.dialects.cuda_tile.ops.conversions import IntToPtrOp, TruncIOp
from tilewright.dialects.cuda_tile.ops.core import ConstantOp
from tilewright.dialects.cuda_tile.ops.memory import MakeTokenOp
from tilewright.dialects.cuda_tile.ops.module import EntryOp, ModuleOp
from tilewright.dialects.cuda_tile.ops.views import (
    MakeGatherScatterViewOp,
    MakePartitionViewOp,
    MakeStridedViewOp,
    MakeTensorViewOp,
)
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.text import parse


@dataclass(frozen=True, slots=True)
class Variant:
    """A changed example; ``name`` says of which operation and what was changed."""

    name: str
    module: ModuleOp


Change = Callable[[TileOp], None]


def variants(stride: int = 1) -> Iterator[Variant]:
    """Every ``stride``-th program made from the examples of all operations.

    Operations that stand inside regions, and so cannot be the last of their kernel, give none.
    """
    count = 0
    for mnemonic, cls in OPERATIONS.items():
        for number, example in enumerate(cls.EXAMPLES):
            module, op = _cut_after(mnemonic, example)
            for what, change in _changes(op) if op is not None else ():
                count += 1
                if count % stride == 0:
                    name = f"{mnemonic} {number}: {what}"
                    yield from _apply(change, module, cls.name, name)


def _apply(change: Change, module: ModuleOp, op_name: str, name: str) -> Iterator[Variant]:
    """The module with the change; nothing where the changed type does not exist."""
    copy = module.clone()
    target = next(op for op in copy.walk() if op.name == op_name)
    assert isinstance(target, TileOp)
    try:
        change(target)
    except VerifyException:
        return
    yield Variant(name, copy)


def _cut_after(mnemonic: str, example: str) -> tuple[ModuleOp, TileOp | None]:
    """The example's module, its kernel ending behind the first use of the operation."""
    module = parse(wrap(example))
    assert isinstance(module, ModuleOp)
    op = next(op for op in module.walk() if op.name == f"cuda_tile.{mnemonic}")
    block = op.parent
    if not isinstance(op, TileOp) or block is None or not isinstance(op.parent_op(), EntryOp):
        return module, None
    while (last := block.last_op) is not op:
        assert last is not None
        last.detach()
        last.erase()
    block.add_op(ReturnOp.create())
    return module, op


def _changes(op: TileOp) -> Iterator[tuple[str, Change]]:
    for index, value in enumerate(op.operands):
        for ty in _other_types(value.type):
            yield f"operand {index} is {format_type(ty)}", _operand_change(index, ty)
    for index, value in enumerate(op.results):
        for ty in _other_types(value.type):
            yield f"result {index} is {format_type(ty)}", _result_change(index, ty)
    values = (*op.operands, *op.results)
    tiles = [v.type for v in values if isinstance(v.type, T.TileType)]
    for element in sorted({ty.element for ty in tiles} - {"ptr"}):
        for other in T.ELEMENT_TYPES:
            if other != element:
                yield f"{other} in place of {element}", _element_change(element, other)
    yield from _property_changes(op)


def _operand_change(index: int, ty: Attribute) -> Change:
    def change(op: TileOp) -> None:
        op.operands[index] = _make_value(ty, op)

    return change


def _result_change(index: int, ty: Attribute) -> Change:
    def change(op: TileOp) -> None:
        _set_type(op.results[index], ty)

    return change


def _set_type(value: SSAValue, ty: Attribute) -> None:
    value._type = ty


def _element_change(element: str, other: str) -> Change:
    def change(op: TileOp) -> None:
        for index, value in enumerate(op.operands):
            if (ty := _with_element(value.type, element, other)) != value.type:
                op.operands[index] = _make_value(ty, op)
        for result in op.results:
            _set_type(result, _with_element(result.type, element, other))

    return change


def _with_element(ty: Attribute, element: str, other: str) -> Attribute:
    """The type with another element type throughout."""
    new = T.ELEMENT_TYPES[other]
    match ty:
        case T.TileType() if ty.element == element:
            return ty.with_element(new)
        case T.TileType(element_type=T.PtrType() as pointer):
            if T.element_name(pointer.pointee) == element:
                return ty.with_element(T.PtrType(new, _ptr_attr(pointer)))
        case T.TensorViewType() if T.element_name(ty.element_type) == element:
            return T.TensorViewType(new, ty.dims, ty.stride_dims, _ptr_attr(ty))
        case T.TileViewType():
            return _over(ty, _with_element(ty.tensor_view, element, other))
    return ty


def _ptr_attr(ty: T.PtrType | T.TensorViewType) -> PtrAttr | None:
    return getattr(ty.ptr_attr, "data", None)


def _over(ty: T.TileViewType, view: Attribute) -> T.TileViewType:
    """The tile view over another tensor view."""
    match ty:
        case T.PartitionViewType():
            return T.PartitionViewType(ty.tile_dims, view, ty.dim_map_dims, ty.padding)
        case T.StridedViewType():
            return T.StridedViewType(ty.tile_dims, ty.traversal, view, ty.dim_map_dims, ty.padding)
        case T.GatherScatterViewType():
            return T.GatherScatterViewType(ty.tile_dims, view, ty.sparse_dim.data, ty.padding)
        case _:
            raise AssertionError(ty)


def _other_types(ty: Attribute) -> list[Attribute]:
    """Types near a type and far from it."""
    view = T.TensorViewType(T.ELEMENT_TYPES["f32"], (8, 16), (16, 1))
    found: list[Attribute] = [
        T.TOKEN,
        *map(T.scalar, ("i1", "i32", "f32")),
        T.tile((8,), T.i32),
        T.tile((2, 4), T.i32),
        T.tile((), T.PtrType(T.ELEMENT_TYPES["f32"])),
        view,
        *_tile_views(view),
    ]
    if isinstance(ty, T.TileType):
        found += _other_tiles(ty)
    elif isinstance(ty, T.TensorViewType | T.TileViewType):
        base = ty if isinstance(ty, T.TensorViewType) else ty.view
        for mark in (None, *PtrAttr):
            for element in ("f32", "i32", "f16", "i8", "f64", "tf32"):
                near = T.TensorViewType(T.ELEMENT_TYPES[element], base.dims, base.stride_dims, mark)
                found += [near, *_tile_views(near)]
    return [other for other in dict.fromkeys(found) if other != ty]


def _tile_views(view: T.TensorViewType) -> list[T.TileViewType]:
    if view.rank != 2:
        return []
    return [
        T.PartitionViewType((4, 8), view),
        T.StridedViewType((4, 8), (1, 3), view),
        T.GatherScatterViewType((4, 8), view, 0),
    ]


def _other_tiles(ty: T.TileType) -> Iterator[T.TileType]:
    pointers = [
        T.PtrType(element)
        for name, element in T.ELEMENT_TYPES.items()
        if ty.element == "ptr" and name != "i4"
    ]
    marked = [T.PtrType(T.ELEMENT_TYPES["f32"], mark) for mark in PtrAttr]
    for element in (*T.ELEMENT_TYPES.values(), *pointers, *marked):
        yield from _if_legal(ty.dims, element)
    doubled = tuple(2 * extent for extent in ty.dims)
    for dims in ((*ty.dims, 1), ty.dims[1:], doubled, ty.dims[::-1], (1,) * ty.rank):
        yield from _if_legal(dims, ty.element_type)


def _if_legal(dims: tuple[int, ...], element: Attribute) -> Iterable[T.TileType]:
    try:
        return [T.tile(dims, element)]
    except VerifyException:
        return []


def _property_changes(op: TileOp) -> Iterator[tuple[str, Change]]:
    for name, definition in op.get_irdl_definition().properties.items():
        kind, value = definition.constr, op.properties.get(name)
        if not isinstance(kind, FieldKind) or kind.wire in ("sym", "str", "type", "const"):
            continue
        if value is None and kind.wire == "unit":
            yield f"with {name}", _property_change(name, UnitAttr())
        elif value is not None:
            if isinstance(definition, OptPropertyDef):
                yield f"without {name}", _property_change(name, None)
            for other in _other_values(value):
                yield f"{name} is {other}", _property_change(name, other)


def _property_change(name: str, value: Attribute | None) -> Change:
    def change(op: TileOp) -> None:
        if value is None:
            del op.properties[name]
        else:
            op.properties[name] = value

    return change


def _other_values(value: Attribute) -> list[Attribute]:
    """Other values of the kind of a property's value, in its range and beyond."""
    match value:
        case TileEnumAttribute():
            return [type(value)(member) for member in value.enum_type if member != value.data]  # pyright: ignore[reportCallIssue]
        case IntegerAttr(type=IntegerType(width=width)) if width.data == 1:
            return [IntegerAttr(int(not value.value.data), 1)]
        case IntegerAttr():
            return [IntegerAttr(n, value.type) for n in (-1, 0, 1, 2, 3, 16, 1 << 30)]
        case DenseArrayBase():
            numbers = [int(n) for n in value.iter_values()]
            others = (numbers + numbers[:1], numbers[1:], numbers[::-1])
            return [DenseArrayBase.from_list(value.elt_type, n) for n in others if n]
        case ArrayAttr():
            entries = list(value.data)
            return [ArrayAttr(entries + entries[:1]), ArrayAttr(entries[1:])]
        case _:
            return []


_VIEW_MAKERS: dict[str, type[TileOp]] = {
    "partition_view": MakePartitionViewOp,
    "strided_view": MakeStridedViewOp,
    "gather_scatter_view": MakeGatherScatterViewOp,
}


def _make_value(ty: Attribute, user: Operation) -> SSAValue:
    """A value of a type, defined just before ``user``."""
    block = user.parent
    assert isinstance(block, Block)
    op = _maker(ty, lambda part: _make_value(part, user))
    block.insert_op_before(op, user)
    return op.results[0]


def _maker(ty: Attribute, make: Callable[[Attribute], SSAValue]) -> Operation:
    """An operation whose result has a type; ``make`` gives its operands."""
    match ty:
        case T.TokenType():
            return MakeTokenOp.create(result_types=[ty])
        case T.TileType() if ty.element == "ptr":
            return IntToPtrOp.create(operands=[make(ty.with_element(T.i64))], result_types=[ty])
        case T.TileType() if ty.element == "i4":
            flags = {"overflow": IntegerOverflowAttr(IntegerOverflow.NONE)}
            wide = make(ty.with_element(T.i32))
            return TruncIOp.create(operands=[wide], result_types=[ty], properties=flags)
        case T.TileType():
            value = {"value": TileConstantAttr.splat(ty, 1)}
            return ConstantOp.create(result_types=[ty], properties=value)
        case T.TensorViewType():
            counts = [sum(d == T.DYNAMIC for d in dims) for dims in (ty.dims, ty.stride_dims)]
            dynamic = [make(T.scalar("i32")) for _ in range(sum(counts))]
            sizes = DenseArrayBase.from_list(T.i32, [1, *counts])
            return MakeTensorViewOp.create(
                operands=[make(ty.pointer), *dynamic],
                result_types=[ty],
                properties={"operandSegmentSizes": sizes},
            )
        case T.TileViewType():
            return _VIEW_MAKERS[ty.MNEMONIC].create(
                operands=[make(ty.tensor_view)], result_types=[ty]
            )
        case _:
            raise AssertionError(ty)
