"""Live ranges of values, and the bytes of tiles that are live at once."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.numerics.element_types import FORMATS


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A live range, both ends included. Positions count operations in program order. A value that a
    loop needs again lives to the end of the loop."""

    start: int
    end: int
    size: int
    """Bytes. Pointers and indices take 8, an i1 takes 1."""

    def __str__(self) -> str:
        return f"{self.start}..{self.end}, {self.size} bytes"


class Lifetimes:
    """The live ranges of the values of a function."""

    def __init__(self, function: FuncOp):
        self.function = function
        self._start: dict[Operation, int] = {}
        self._end: dict[Operation, int] = {}
        self.length = self._number(function, 0)
        self._found = {value: self._of(value) for value in self._values()}

    def of(self, value: SSAValue) -> Lifetime:
        """Return the live range of a value of the function; a ``KeyError`` for values of another one."""
        return self._found[value]

    def position(self, op: Operation) -> int:
        """Return the position of an operation in program order, from 0 for the function itself."""
        return self._start[op]

    def peak(self) -> tuple[int, Operation]:
        """Return the maximum of the bytes of tiles live at once, and an operation where it is reached."""
        change = [0] * (self.length + 2)
        for value, life in self._found.items():
            if isinstance(value.type, T.TileType):
                change[life.start] += life.size
                change[life.end + 1] -= life.size
        at = {position: op for op, position in self._start.items()}
        alive = most = 0
        where: Operation = self.function
        for position, step in enumerate(change):
            alive += step
            if alive > most:
                most, where = alive, at.get(position, where)
        return most, where

    def _number(self, op: Operation, position: int) -> int:
        """Number operations, including those in regions. Returns the last number assigned."""
        self._start[op] = position
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    position = self._number(inner, position + 1)
        self._end[op] = position
        return position

    def _values(self) -> list[SSAValue]:
        found: list[SSAValue] = []
        for op in self.function.walk():
            found += op.results
            for region in op.regions:
                for block in region.blocks:
                    found += block.args
        return found

    def _of(self, value: SSAValue) -> Lifetime:
        if isinstance(value, BlockArgument):
            home = value.owner
            parent = home.parent_op()
            assert parent is not None
            start = self._start[parent]
            # A loop needs its carried values in every iteration.
            end = self._end[parent] if parent is not self.function else start
        else:
            owner = value.owner
            assert isinstance(owner, Operation)
            home = owner.parent_block()
            start = end = self._end[owner]
        for use in value.uses:
            end = max(end, self._end_of_use(use.operation, home))
        return Lifetime(start, end, bytes_of(value))

    def _end_of_use(self, user: Operation, home: Block | None) -> int:
        """Return the end of a use: inside a nested region, the operation that holds the region."""
        inner = user
        while (block := inner.parent_block()) is not home:
            parent = None if block is None else block.parent_op()
            if parent is None:
                return self._start[user]
            inner = parent
        return self._start[user] if inner is user else self._end[inner]


def bytes_of(value: SSAValue) -> int:
    """Return the bytes of a value: those of all elements for a tile, rounded up to whole bytes; 0 for views and
    tokens.
    """
    element = T.element_name(T.element_of(value.type))
    if element in ("ptr", "index"):
        each = 64
    elif element in FORMATS:
        each = FORMATS[element].storage_bits
    else:
        return 0
    return (prod(T.dims_of(value.type)) * each + 7) // 8
