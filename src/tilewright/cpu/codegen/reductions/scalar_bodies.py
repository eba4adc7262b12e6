"""Reductions, scans and generated tiles whose bodies hold more than element-wise operations.

Such a body runs as it is written, for one element at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir
from xdsl.ir import Block

from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I64, Element, element_of
from tilewright.cpu.codegen.ir.types import Type, Value
from tilewright.cpu.codegen.loops.indices import Coords, Index, Lane
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Strided, Tile, store_at
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp, ScanOp
from tilewright.dialects.nv_tileaa.ops.functions import YieldOp
from tilewright.dialects.nv_tileaa.ops.shapes import GenerateOp

ONE_BY_ONE = "runs element by element: its body contains more than element-wise operations"


def _run(f: FunctionEmitter, block: Block, arguments: Sequence[Value]) -> list[Value]:
    """What a body yields for these arguments."""
    f.values.update(zip(block.args, arguments, strict=True))
    for op in block.ops:
        if isinstance(op, YieldOp):
            f.flush()
            f.now = f.plan.position[op]
            return [f.scalar(value) for value in op.operands]
        f.operation(op)
    raise AssertionError("a body ends in a terminator")


def _each(
    f: FunctionEmitter,
    dims: Sequence[int],
    body: Callable[[tuple[Value, ...]], None],
    first: int = 0,
) -> None:
    """Run a body for all positions in a shape, in row-major order, from ``first`` on along each axis."""

    def along(position: tuple[Value, ...]) -> None:
        if len(position) == len(dims):
            body(position)
            return
        bounds = (ir.Constant(I64, n) for n in (first, dims[len(position)], 1))
        start, end, step = bounds
        llvm.count(f.builder, start, end, step, lambda b, at: along((*position, at)))

    f.flush()
    along(())


def _coords(position: Sequence[Value]) -> Coords:
    return tuple(Index(Lane(at), None, 1) for at in position)


def _put(f: FunctionEmitter, target: Strided, position: Sequence[Value], value: Value) -> None:
    nest = LoopNest(f.builder)
    offset = target.offset(nest, _coords(position))
    store_at(nest, target.pointer, target.element, offset, value)


def generate_each(f: FunctionEmitter, op: GenerateOp) -> None:
    """A generate whose body is run for one element after the other, into a buffer."""
    f.unit.remarks.add("loop", f"a generate {ONE_BY_ONE}", op)
    dims = T.dims_of(op.result.type)
    last = max(f.plan.last_inside[op], f.plan.last_use(op.result))
    target = f.buffer(element_of(op.result.type), dims, last)

    def element(position: tuple[Value, ...]) -> None:
        (value,) = _run(f, op.body.blocks[0], position)
        _put(f, target, position, value)

    _each(f, dims, element)
    f.values[op.result] = target


@dataclass(frozen=True, slots=True)
class State:
    """The accumulated values of a row, in variables."""

    cells: tuple[Value, ...]
    types: tuple[Type, ...]

    @classmethod
    def of(cls, f: FunctionEmitter, elements: Sequence[Element]) -> State:
        """A place on the stack, in the entry block, for a scalar of each element type."""
        types = tuple(element.register for element in elements)
        with f.builder.goto_entry_block():
            cells = tuple(llvm.stack(f.builder, ty) for ty in types)
        return cls(cells, types)

    def set(self, f: FunctionEmitter, values: Sequence[Value]) -> None:
        """Store a scalar in each place."""
        for cell, value in zip(self.cells, values, strict=True):
            f.builder.store(value, cell)

    def get(self, f: FunctionEmitter) -> list[Value]:
        """Load the scalar of each place."""
        pairs = zip(self.cells, self.types, strict=True)
        return [f.builder.load(cell, typ=ty) for cell, ty in pairs]


def combine_each(
    f: FunctionEmitter,
    op: ReduceOp | ScanOp,
    axis: int,
    *,
    reverse: bool = False,
) -> None:
    """A reduction or scan, row by row; each begins with its first element."""
    kind = "scan" if isinstance(op, ScanOp) else "reduction"
    f.unit.remarks.add("loop", f"a {kind} {ONE_BY_ONE}", op)
    inside = f.plan.last_inside[op]
    sources = [_held(f, f.tile(value), inside) for value in op.operands]
    dims = sources[0].dims
    rest = (*dims[:axis], *dims[axis + 1 :])
    keeps_all = isinstance(op, ScanOp)
    shape = dims if keeps_all else rest
    targets: list[Strided] = []
    if shape:
        lasts = [max(inside, f.plan.last_use(result)) for result in op.results]
        pairs = zip(sources, lasts, strict=True)
        targets = [f.buffer(source.element, shape, last) for source, last in pairs]
    state = State.of(f, [source.element for source in sources])

    def row(position: tuple[Value, ...]) -> None:
        def element(number: Value, *, is_first: bool) -> None:
            place = number
            if reverse:
                place = f.builder.sub(ir.Constant(I64, dims[axis] - 1), place)
            at = (*position[:axis], place, *position[axis:])
            found = [f.element(source, _coords(at)) for source in sources]
            if not is_first:
                pairs = zip(state.get(f), found, strict=True)
                found = _run(f, op.regions[0].blocks[0], [v for pair in pairs for v in pair])
            state.set(f, found)
            if keeps_all:
                for target, value in zip(targets, found, strict=True):
                    _put(f, target, at, value)

        element(ir.Constant(I64, 0), is_first=True)
        _each(f, dims[axis : axis + 1], lambda at: element(at[0], is_first=False), 1)
        if not keeps_all:
            for target, value in zip(targets, state.get(f), strict=False):
                _put(f, target, position, value)

    _each(f, rest, row)
    found = targets or state.get(f)
    f.values.update(zip(op.results, found, strict=True))


def _held(f: FunctionEmitter, tile: Tile, last: int) -> Tile:
    """A tile in a buffer."""
    return tile if isinstance(tile, Strided) else f.keep(tile, last)
