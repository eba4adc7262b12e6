"""The state of lowering one module: values, the block being filled, what functions share."""

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

#: The lowering of an operation with regions: yields the lowerings inside, one after the other, and
#: gives the values of the results. The driver runs them without recursion, at any depth.
Nested: TypeAlias = Generator["Nested", Sequence[SSAValue], Sequence[SSAValue]]


class Lowering(BlockBuilder[TileOp]):
    """Fills blocks with operations of ``nv_tileaa`` that stand for those of ``cuda_tile``."""

    def __init__(self, options: TileAAOptions):
        super().__init__()
        self.options = options
        self._values: dict[SSAValue, SSAValue] = {}
        self._indices: dict[tuple[SSAValue, Block], SSAValue] = {}
        self._shared: dict[tuple[type[Operation], Attribute, object], Operation] = {}
        self._function: TileOp
        #: How many regions of the function are around ``block``.
        self.depth = 0
        #: How each ``if`` and ``loop`` of the function can be left; what the function returns.
        self.exits: Mapping[Operation, frozenset[Any]] = {}
        self.returned: Sequence[Attribute] = ()

    # Values.

    def value(self, old: SSAValue) -> SSAValue:
        """What stands for a value of the source."""
        return self._values[old]

    def values(self, old: Sequence[SSAValue]) -> list[SSAValue]:
        """What has become of each value."""
        found = self._values
        return [found[value] for value in old]

    def is_bound(self, old: SSAValue) -> bool:
        """Whether a value of the source is stood for already."""
        return old in self._values

    def bind(self, old: Sequence[SSAValue], new: Sequence[SSAValue]) -> None:
        """Let values of the source be stood for by ``new``, which take their names."""
        for was, value in zip(old, new, strict=True):
            self._values[was] = value
            if value.name_hint is None and was.name_hint is not None:
                value.name_hint = was.name_hint

    def type_of(self, old: SSAValue) -> Attribute:
        """The type of what stands, or will stand, for a value of the source."""
        return lower_type(old.type)

    def types_of(self, old: Sequence[SSAValue]) -> list[Attribute]:
        """The types that values of ``cuda_tile`` have afterwards."""
        return [lower_type(value.type) for value in old]

    # Operations.

    def add(self, op: Operation) -> Operation:
        """Put a new operation at the end of the block, at the place of the one being lowered."""
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
        """The results of an operation whose operand groups are counted; a token is not."""
        operands = [value for group in groups for value in group]
        if token is not None:
            operands.append(token)
        sizes = segment_sizes(tuple(map(len, groups)))
        return self.emit(kind, operands, results, {**(properties or {}), SEGMENTS: sizes})

    # Casts to index, one for each value in a block.

    def index(self, value: SSAValue) -> SSAValue:
        """An integer of the target read unsigned, as an index; tiles element by element."""
        found = self._indices.get((value, self.block))
        if found is None:
            ty = T.tile_or_scalar(T.dims_of(value.type), T.INDEX)
            (found,) = self.emit(arith.IndexCastUIOp, (value,), (ty,))
            self._indices[(value, self.block)] = found
        return found

    def indices(self, old: Sequence[SSAValue]) -> list[SSAValue]:
        """What has become of each value, cast to ``index``."""
        return [self.index(value) for value in self.values(old)]

    # What stands once at the start of a function, and only where something needs it.

    def enter_function(
        self,
        function: TileOp,
        exits: Mapping[Operation, frozenset[Any]],
        returned: Sequence[Attribute],
    ) -> None:
        """Begin a function: how its regions may end, and the types that it returns."""
        self._function, self.exits, self.returned = function, exits, returned
        self.op = function
        self.depth = 0
        self._values.clear()
        self._indices.clear()
        self._shared.clear()

    def shared_operations(self) -> list[Operation]:
        """The operations that belong in front of the function's first block."""
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
        """A token that comes after nothing."""
        return self._share(CreateMemTokenOp, T.MEM_TOKEN, "unordered", {})

    def token(self, old: SSAValue | None) -> SSAValue:
        """The token that an operation of the source takes, or one without order."""
        return self.no_order() if old is None else self._values[old]

    def poison(self, ty: Attribute) -> SSAValue:
        """A value for a place that is never looked at."""
        if isinstance(ty, T.MemTokenType):
            return self.no_order()
        return self._share(PoisonOp, ty, "poison", {"value": POISON})

    def flag(self, value: bool) -> SSAValue:
        """A constant of i1."""
        return self._share(
            arith.ConstantOp, I1, str(value).lower(), {"value": TRUE if value else FALSE}
        )

    def index_constant(self, value: int) -> SSAValue:
        """A constant of ``index``, one for the function."""
        number = {"value": IntegerAttr(value, T.INDEX)}
        return self._share(arith.ConstantOp, T.INDEX, f"c{value}", number)


def run(work: Nested) -> Sequence[SSAValue]:
    """What a lowering gives in the end, after those inside it; uses no recursion."""
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
    """The property of how many operands each group has; one object for the same sizes."""
    return DenseArrayBase.from_list(i32, list(sizes))


@lru_cache(maxsize=1024)
def i64_list(values: tuple[int, ...]) -> DenseArrayBase:
    """An array of 64-bit integers; one object for the same numbers."""
    return DenseArrayBase.from_list(i64, list(values))


@lru_cache(maxsize=256)
def i32_number(value: int) -> IntegerAttr:
    """A 32-bit integer; one object for the same number."""
    return IntegerAttr(value, i32)
