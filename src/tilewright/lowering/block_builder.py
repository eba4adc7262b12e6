"""What lowerings share: new operations at the end of a block, where the old ones stood."""

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
    """Fills blocks with operations that stand for others.

    ``op`` is the operation being lowered, whose place new operations inherit; ``block`` is where
    they go. ``origins`` tells for each new operation which one it stands for.
    """

    op: _OpT
    block: Block

    def __init__(self) -> None:
        self.origins: dict[Operation, _OpT] = {}

    @abstractmethod
    def add(self, op: Operation) -> Operation:
        """Put a new operation at the end of the block, at the place of the one being lowered."""

    def place(self, op: Operation, origin: _OpT) -> None:
        """Let a new operation stand where ``origin`` stood."""
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
        """The results of a new operation; properties that are None are left out."""
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
        """Put new operations at the end of another block for a while."""
        previous, self.block = self.block, block
        try:
            yield
        finally:
            self.block = previous
