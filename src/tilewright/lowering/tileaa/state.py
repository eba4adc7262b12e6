"""The state of lowering one module: values, the insertion point, and what functions share."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, i32, i64
from xdsl.dialects.ub import PoisonAttr, PoisonOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tilewright.dialects import arith
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.groups import SEGMENTS
from tilewright.dialects.nv_tileaa.ops.hints import CreateMemTokenOp
from tilewright.lowering.block_builder import BlockBuilder, Properties
from tilewright.lowering.tileaa.options import TileAAOptions
from tilewright.lowering.tileaa.types import lower_type

POISON = PoisonAttr()
I1 = IntegerType(1)
TRUE, FALSE = IntegerAttr(1, I1), IntegerAttr(0, I1)

#: The lowering of an operation with regions: a generator that yields the lowerings of its regions in order and returns
#: the result values. ``run`` drives it without recursion, at any depth.
Nested: TypeAlias = Generator["Nested", Sequence[SSAValue], Sequence[SSAValue]]


class Lowering(BlockBuilder[TileOp]):
    """Builds the ``nv_tileaa`` operations of a module."""

    def __init__(self, options: TileAAOptions):
        super().__init__()
        self.options = options
        self._values: dict[SSAValue, SSAValue] = {}
        self._indices: dict[tuple[SSAValue, Block], SSAValue] = {}
        self._shared: dict[tuple[type[Operation], Attribute, object], Operation] = {}
        self._function: TileOp
        #: Nesting depth of ``block`` in the function.
        self.depth = 0
        #: The exits of each ``if`` and ``loop`` of the function, and the function's return types.
        self.exits: Mapping[Operation, frozenset[Any]] = {}
        self.returned: Sequence[Attribute] = ()

    # Values.

    def value(self, old: SSAValue) -> SSAValue:
        """The lowered value of a source value, which must have been bound."""
        return self._values[old]

    def values(self, old: Sequence[SSAValue]) -> list[SSAValue]:
        """The lowered value of each source value."""
        found = self._values
        return [found[value] for value in old]

    def is_bound(self, old: SSAValue) -> bool:
        """Whether a source value has been lowered already."""
        return old in self._values

    def bind(self, old: Sequence[SSAValue], new: Sequence[SSAValue]) -> None:
        """Bind source values to their lowered values, which inherit their names unless they have one."""
        for was, value in zip(old, new, strict=True):
            self._values[was] = value
            if value.name_hint is None and was.name_hint is not None:
                value.name_hint = was.name_hint

    def type_of(self, old: SSAValue) -> Attribute:
        """The lowered type of a source value."""
        return lower_type(old.type)

    def types_of(self, old: Sequence[SSAValue]) -> list[Attribute]:
        """The lowered types of source values."""
        return [lower_type(value.type) for value in old]

    # Operations.

    def add(self, op: Operation) -> Operation:
        """Append a new operation to ``block``, with the location of the current operation."""
        self.place(op, self.op)
        self.block.add_op(op)
        return op

    def grouped(
        self,
        kind: type[Operation],
        groups: Sequence[Sequence[SSAValue]],
        results: Sequence[Attribute],
        properties: Properties | None = None,
        *,
        token: SSAValue | None = None,
    ) -> Sequence[SSAValue]:
        """Build an operation with operand groups, whose sizes are a property; ``token`` follows them uncounted."""
        operands = [value for group in groups for value in group]
        if token is not None:
            operands.append(token)
        sizes = segment_sizes(tuple(map(len, groups)))
        return self.emit(kind, operands, results, {**(properties or {}), SEGMENTS: sizes})

    # Casts to index, built once for each value and block.

    def index(self, value: SSAValue) -> SSAValue:
        """Cast an unsigned integer, or each element of a tile, to ``index``."""
        found = self._indices.get((value, self.block))
        if found is None:
            ty = T.tile_or_scalar(T.dims_of(value.type), T.INDEX)
            (found,) = self.emit(arith.IndexCastUIOp, (value,), (ty,))
            self._indices[(value, self.block)] = found
        return found

    def indices(self, old: Sequence[SSAValue]) -> list[SSAValue]:
        """The lowered value of each source value, cast to ``index``."""
        return [self.index(value) for value in self.values(old)]

    # Operations that are built once per function, at its start, when first needed.

    def enter_function(
        self,
        function: TileOp,
        exits: Mapping[Operation, frozenset[Any]],
        returned: Sequence[Attribute],
    ) -> None:
        """Begin a function with these exits and return types."""
        self._function, self.exits, self.returned = function, exits, returned
        self.op = function
        self.depth = 0
        self._values.clear()
        self._indices.clear()
        self._shared.clear()

    def shared_operations(self) -> list[Operation]:
        """The operations to insert before the function's first operation."""
        return list(self._shared.values())

    def _share(
        self,
        kind: type[Operation],
        ty: Attribute,
        name: str,
        properties: Mapping[str, Attribute],
    ) -> SSAValue:
        key = (kind, ty, tuple(properties.values()))
        op = self._shared.get(key)
        if op is None:
            op = kind.create(result_types=(ty,), properties=dict(properties))
            op.results[0].name_hint = name
            self.place(op, self._function)
            self._shared[key] = op
        return op.results[0]

    def no_order(self) -> SSAValue:
        """A token without dependences."""
        return self._share(CreateMemTokenOp, T.MEM_TOKEN, "unordered", {})

    def token(self, old: SSAValue | None) -> SSAValue:
        """The lowered token of a source operation, or one without dependences."""
        return self.no_order() if old is None else self._values[old]

    def poison(self, ty: Attribute) -> SSAValue:
        """A placeholder for a value that is never used."""
        if isinstance(ty, T.MemTokenType):
            return self.no_order()
        return self._share(PoisonOp, ty, "poison", {"value": POISON})

    def flag(self, value: bool) -> SSAValue:
        """A constant of type i1."""
        return self._share(
            arith.ConstantOp, I1, str(value).lower(), {"value": TRUE if value else FALSE}
        )

    def index_constant(self, value: int) -> SSAValue:
        """A constant of type ``index``, one per function."""
        number = {"value": IntegerAttr(value, T.INDEX)}
        return self._share(arith.ConstantOp, T.INDEX, f"c{value}", number)


def run(work: Nested) -> Sequence[SSAValue]:
    """Run a lowering and those it yields, without recursion; returns its result. Deep nesting takes no Python stack."""
    waiting = [work]
    given: Any = None
    while waiting:
        try:
            inner = waiting[-1].send(given)
        except StopIteration as stop:
            waiting.pop()
            given = stop.value
        else:
            waiting.append(inner)
            given = None
    return cast("Sequence[SSAValue]", given)


@lru_cache(maxsize=256)
def segment_sizes(sizes: tuple[int, ...]) -> DenseArrayBase:
    """The property with the sizes of operand groups. Cached: equal sizes share one object."""
    return DenseArrayBase.from_list(i32, list(sizes))


@lru_cache(maxsize=1024)
def i64_list(values: tuple[int, ...]) -> DenseArrayBase:
    """An array of 64-bit integers. Cached: equal values share one object."""
    return DenseArrayBase.from_list(i64, list(values))


@lru_cache(maxsize=256)
def i32_number(value: int) -> IntegerAttr:
    """A 32-bit integer attribute. Cached: equal values share one object."""
    return IntegerAttr(value, i32)
