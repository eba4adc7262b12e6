"""Storage in shared memory: what uses it, while which operations it holds something, how large it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nv_tileas.agents import is_of_other_agent, main_block
from tilewright.dialects.nv_tileas.asynchronous import (
    AsyncCopy,
    AsyncDotOp,
    AsyncGroupOp,
    FutureWaitOp,
)
from tilewright.dialects.nv_tileas.types import TiledViewType
from tilewright.numerics.element_types import FORMATS

#: The discardable attribute of a function: the bytes of shared memory that a block takes, if it does not need more.
SHARED_BYTES = "nv_tileas.shared_bytes"


def storage_bytes(storage: SSAValue) -> int:
    """What a storage takes, in bytes of shared memory: whole bytes for each element."""
    ty = storage.type
    assert isinstance(ty, TiledViewType)
    bits = FORMATS[T.element_name(ty.element_type)].storage_bits
    return prod(ty.dims) * max(bits // 8, 1)


def held_bytes(func: FuncOp) -> int:
    """The bytes of shared memory up to the end of the last storage that has a place."""
    return max(
        (
            int_property(op, "offset") + storage_bytes(op.result)
            for op in func.walk()
            if isinstance(op, S.AllocTensorOp) and "offset" in op.properties
        ),
        default=0,
    )


def base_of(storage: SSAValue) -> SSAValue:
    """The storage that a stage, or a view of it, is of."""
    while True:
        owner = storage.owner
        if isinstance(owner, S.ExtractSliceOp | S.PermuteViewOp):
            storage = owner.source
        elif isinstance(owner, P.ProducerWriteOp | P.ConsumerReadOp):
            made = owner.pipeline.owner
            assert isinstance(made, P.CreatePipelineOp)
            storage = made.storages[[*map(id, owner.views)].index(id(storage))]
        else:
            return storage


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The operations of a function, numbered in the order of the text, from the first one during which a
    storage holds something that is needed to the last. Of rings no two share bytes, whenever they are needed:
    nobody meets between them."""

    first: int
    last: int
    is_ring: bool = False

    def meets(self, other: Lifetime) -> bool:
        """Whether both need their storage at some operation, so that they cannot share bytes; rings
        always do."""
        both = self.is_ring and other.is_ring
        return both or (self.first <= other.last and other.first <= self.last)


def lifetimes(func: FuncOp) -> dict[SSAValue, Lifetime]:
    """When each storage of a function is needed.

    Storage of one tile that a block of operations begins by writing is needed there only up to its last
    use, also where the block is the body of a loop; any other one is needed during the loops around all
    that use it. Storage of several stages, which copies fill beside the threads, is needed from the beginning
    until the loops that use it have ended: what is started in them is waited for there.
    """
    numbers = {op: number for number, op in enumerate(func.walk())}
    users = {op.result: [] for op in numbers if isinstance(op, S.AllocTensorOp)} | _users(func)
    return {
        storage: _lifetime(func, storage, ops, numbers)
        if ops
        else Lifetime(0, len(numbers), is_ring(storage))
        for storage, ops in users.items()
    }


def _users(func: FuncOp) -> dict[SSAValue, list[Operation]]:
    """By storage what touches it, in the order of the text. Of one tile that a product reads while others run, also what
    waits for products: until then it is read."""
    found: dict[SSAValue, list[Operation]] = {}
    waits: list[Operation] = []
    read_on: set[SSAValue] = set()
    for op in func.walk():
        if is_of_other_agent(op) or isinstance(op, S.ExtractSliceOp | S.PermuteViewOp):
            continue
        bases = [base_of(value) for value in op.operands if isinstance(value.type, TiledViewType)]
        for base in bases:
            found.setdefault(base, []).append(op)
        if isinstance(op, FutureWaitOp):
            waits.append(op)
        elif isinstance(op, AsyncDotOp):
            read_on |= {base for base in bases if not is_ring(base)}
    if waits and read_on:
        numbers = {op: number for number, op in enumerate(func.walk())}
        for base in read_on:
            first = numbers[found[base][0]]
            later = [op for op in waits if numbers[op] > first]
            found[base] = sorted({*found[base], *later}, key=numbers.__getitem__)
    return found


def is_ring(storage: SSAValue) -> bool:
    """Whether a storage has stages that are filled while threads do something else: several, or one that is filled again
    where it has been read."""
    ty = storage.type
    assert isinstance(ty, TiledViewType)
    if ty.stages > 1:
        return True
    users = [use.operation for use in storage.uses]
    if any(isinstance(op, P.CreatePipelineOp) for op in users):
        return True
    slices = [op for op in users if isinstance(op, S.ExtractSliceOp)]
    readers = [use.operation for op in slices for use in op.result.uses]
    copies = [op for op in readers if isinstance(op, AsyncCopy)]
    if len(copies) != 1:
        return bool(copies)
    # One copy is a ring's, too, where it shall start ahead, or those that read the stage are not all behind it in its block.
    behind = list(_from(copies[0]))
    group = next((op for op in behind if isinstance(op, AsyncGroupOp)), None)
    if group is not None and "ahead" in group.properties:
        return True
    return not {inner for op in behind for inner in op.walk()}.issuperset(readers)


def _from(op: Operation) -> Iterator[Operation]:
    """An operation, and those behind it in its block."""
    found: Operation | None = op
    while found is not None:
        yield found
        found = found.next_op


def _lifetime(
    func: FuncOp, storage: SSAValue, ops: list[Operation], numbers: dict[Operation, int]
) -> Lifetime:
    if is_ring(storage):
        ending = at_level(ops[-1], main_block(func))
        return Lifetime(0, max(numbers[op] for op in ending.walk()), is_ring=True)
    block = _block_that_needs(func, storage, ops)
    first, last = (at_level(op, block) for op in (ops[0], ops[-1]))
    return Lifetime(numbers[first], max(numbers[op] for op in last.walk()))


def _block_that_needs(func: FuncOp, storage: SSAValue, ops: Sequence[Operation]) -> Block:
    """The block up to whose last use a storage of one tile is needed: that of all uses, if it begins by writing the tile."""
    block, begins = common_block(ops), ops[0]
    writes = isinstance(begins, S.CopyOp | AsyncCopy) and base_of(begins.target) is storage
    return block if begins.parent is block and writes else main_block(func)


def last_uses(func: FuncOp) -> dict[SSAValue, Operation]:
    """By storage, the operation behind which nobody uses it: one of the function's own block, for what is filled anew in each
    iteration of a loop one of the loop's. A ring in a loop is, behind a barrier, so that it holds nothing from one iteration of
    the loop around it to the next."""
    found: dict[SSAValue, Operation] = {}
    for storage, ops in _users(func).items():
        if not is_ring(storage):
            within = _block_that_needs(func, storage, ops)
        elif (within := common_block(ops)) is func.body.block:
            within = main_block(func)
        found[storage] = at_level(ops[-1], within)
    return found


def at_level(op: Operation, block: Block) -> Operation:
    """The operation of a block that an operation is, or is in."""
    while op.parent is not block:
        outer = op.parent_op()
        assert outer is not None
        op = outer
    return op


def common_block(ops: Iterable[Operation]) -> Block:
    """The innermost block that all of the operations are in."""

    def blocks(op: Operation) -> list[Block]:
        found: list[Block] = []
        block = op.parent
        while block is not None:
            found.append(block)
            outer = block.parent_op()
            block = None if outer is None else outer.parent
        return found[::-1]

    paths = [blocks(op) for op in ops]
    common = [path[0] for path in zip(*paths, strict=False) if len(set(path)) == 1]
    return common[-1]
