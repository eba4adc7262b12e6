"""Common to all lowerings: building operations at the end of a block, with the locations of those that they replace."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic, TypeAlias, TypeVar

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilewright.dialects.source_map import set_source, source_of

Properties: TypeAlias = Mapping[str, Attribute | None]
_OpT = TypeVar("_OpT", bound=Operation)


class BlockBuilder(ABC, Generic[_OpT]):
    """Builds the operations that a lowering replaces others by.

    ``op`` is the operation being lowered; new operations inherit its location. ``block`` is the insertion point, at its
    end. ``origins`` maps each new operation to the one it was lowered from.
    """

    op: _OpT
    block: Block

    def __init__(self) -> None:
        self.origins: dict[Operation, _OpT] = {}

    @abstractmethod
    def add(self, op: Operation) -> Operation:
        """Append a new operation to ``block``, with the location of the current operation."""

    def place(self, op: Operation, origin: _OpT) -> None:
        """Give a new operation the location of ``origin``, and record where it came from."""
        op.location = origin.location
        if (source := source_of(origin)) is not None:
            set_source(op, source)
        self.origins[op] = origin

    def emit(
        self,
        kind: type[Operation],
        operands: Sequence[SSAValue] = (),
        results: Sequence[Attribute] = (),
        properties: Properties | None = None,
        regions: Sequence[Region] = (),
    ) -> Sequence[SSAValue]:
        """Build an operation and return its results; properties that are None are omitted."""
        given = {} if properties is None else properties
        op = kind.create(
            operands=operands,
            result_types=results,
            properties={name: found for name, found in given.items() if found is not None},
            regions=regions,
        )
        return self.add(op).results

    @contextmanager
    def building(self, block: Block) -> Generator[None, None, None]:
        """Set the insertion point to the end of another block within the context."""
        previous, self.block = self.block, block
        try:
            yield
        finally:
            self.block = previous
