"""Register pressure while threads evaluate f64 functions, each of which is a routine of about a hundred instructions."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from xdsl.dialects.builtin import Float64Type
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects.facts import cost
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.passes.tileas import tile_ops
from tilewright.passes.tileas.access_layouts import element_bytes

#: What an element takes at least that a routine computes, where an addition takes 1.
ROUTINE = 12


def tile_registers(value: SSAValue) -> int:
    """The registers of 32 bits that a tile takes in all threads together."""
    return prod(T.dims_of(value.type)) * max(element_bytes(value.type) // 4, 1)


def pressure_of_routines(func: FuncOp) -> int:
    """The most registers that all threads together need for tiles while they compute a function of f64; 0 where they
    compute none. Constants, ranges and broadcasts take none; what a loop around an operation carries is not counted."""
    blocks = dict.fromkeys(op.parent for op in func.walk() if _is_routine(op))
    return max((held for block in blocks if block is not None for held in _held(block)), default=0)


def _held(block: Block) -> Iterator[int]:
    """What is held at each routine of a block."""
    numbers = {op: number for number, op in enumerate(block.ops)}
    starts: dict[int, int] = {}
    for number, op in enumerate(block.ops):
        if tile_ops.is_source(op) or op.name == tile_ops.BROADCAST:
            continue
        for value in tile_ops.tiles_of(op.results):
            last = max(
                (_number_in(block, numbers, use.operation) for use in value.uses), default=number
            )
            size = tile_registers(value)
            starts[number] = starts.get(number, 0) + size
            starts[last + 1] = starts.get(last + 1, 0) - size
    held = 0
    for number, op in enumerate(block.ops):
        held += starts.get(number, 0)
        if _is_routine(op):
            yield held


def _number_in(block: Block, numbers: dict[Operation, int], op: Operation) -> int:
    """Where in a block an operation is, or is within."""
    while op.parent is not block:
        outer = op.parent_op()
        assert outer is not None
        op = outer
    return numbers[op]


def _is_routine(op: Operation) -> bool:
    if (
        not tile_ops.is_elementwise(op)
        or len(op.results) != 1
        or not tile_ops.is_tile(op.results[0])
    ):
        return False
    is_f64 = isinstance(T.element_of(op.results[0].type), Float64Type)
    return is_f64 and getattr(op, "COST", None) is not None and cost(op) >= ROUTINE
