"""What every pass shares: what it applies to, and keeping track of where operations came from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, cast

from xdsl.context import Context
from xdsl.dialects import builtin
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from tilewright.diagnostics import TileIRError, define_code
from tilewright.dialects.cuda_tile.ops.module import FUNCTIONS, Function, ModuleOp
from tilewright.dialects.source_map import location_of, set_source, source_of
from tilewright.nesting import deep_recursion

NO_TILE_IR = define_code(
    "no-tile-ir",
    "A pass on Tile IR was given a module without any cuda_tile operation.",
    "Passes on cuda_tile work on a cuda_tile.module, alone or inside a builtin module.",
)
NO_TILEAA = define_code(
    "no-nv-tileaa",
    "A pass on nv_tileaa was given a module without any operation of nv_tileaa.",
    "Passes on nv_tileaa come behind `lower-cuda-tile-to-tileaa`.",
)


class Level(NamedTuple):
    """A level of the IR: its dialect, and what is said where a pass finds nothing of it."""

    dialect: str
    code: str
    help: str

    def stands_in(self, root: Operation) -> bool:
        """Whether an operation of the level is at or below ``root``."""
        prefix = f"{self.dialect}."
        return any(op.name.startswith(prefix) for op in root.walk())


#: Tile IR, where pipelines begin.
CUDA_TILE = Level(
    "cuda_tile", NO_TILE_IR, "wrap the kernels in `cuda_tile.module @kernels { ... }`"
)
#: The level below it, where pointers, memory order and bounds are explicit.
NV_TILEAA = Level("nv_tileaa", NO_TILEAA, "put lower-cuda-tile-to-tileaa before the pass")
#: Per-thread code: kernels in a ``gpu.module``.
NVGPU = Level("gpu", NO_TILEAA, "there are no passes on this level")
LEVELS = (CUDA_TILE, NV_TILEAA)


@dataclass(frozen=True)
class TilePass(ModulePass):
    """A rewrite of IR of one level, ``LEVEL``; its fields are its options.

    Takes verified IR and leaves verified IR, of the same level unless ``RESULT`` is another one.
    ``apply`` makes it usable in xDSL's pipelines.
    """

    LEVEL: ClassVar[Level] = CUDA_TILE
    RESULT: ClassVar[Level | None] = None

    def apply(self, ctx: Context, op: builtin.ModuleOp) -> None:
        """What xDSL's pass manager calls; the context is not needed."""
        self.apply_to(op)

    @deep_recursion()
    def apply_to(self, root: Operation) -> Operation:
        """Rewrite everything below ``root``: a module, or one function; gives what holds the
        result, which is ``root`` unless a lowering had to replace a cuda_tile module.

        Raises ``TileIRError`` (``no-tile-ir``, ``no-nv-tileaa``) where nothing of the level of the
        pass is there.
        """
        level = self.LEVEL
        if not level.stands_in(root):
            raise self._nothing_there(root)
        return self.rewrite(root) or root

    def _nothing_there(self, root: Operation) -> TileIRError:
        level = self.LEVEL
        other = next((o for o in LEVELS if o is not level and o.stands_in(root)), None)
        found = "" if other is None else f"; it is of {other.dialect}"
        message = f"the pass '{self.name}' found no {level.dialect} operation in the module{found}"
        help = (
            level.help if other is None or level is not CUDA_TILE else "run it before the lowering"
        )
        return TileIRError.single(level.code, message, location_of(root), help=help)

    @abstractmethod
    def rewrite(self, root: Operation) -> Operation | None:
        """Do the work on IR that is known to hold operations of the level; gives a new root where
        the old one cannot hold the result."""


def modules(root: Operation) -> tuple[ModuleOp, ...]:
    """The cuda_tile modules at or below an operation, in order."""
    return tuple(op for op in root.walk() if isinstance(op, ModuleOp))


def functions(root: Operation) -> tuple[Function, ...]:
    """The entries and functions at or below an operation, in order."""
    return tuple(cast(Function, op) for op in root.walk() if isinstance(op, FUNCTIONS))


def blocks_below(root: Operation) -> list[Block]:
    """Every block below an operation, outer before inner, in order; works at any depth."""
    found: list[Block] = []
    waiting = [block for region in reversed(root.regions) for block in reversed(region.blocks)]
    while waiting:
        block = waiting.pop()
        found.append(block)
        waiting += [
            inner
            for op in reversed(block.ops)
            for region in reversed(op.regions)
            for inner in reversed(region.blocks)
        ]
    return found


def uses_below(op: Operation) -> Iterator[SSAValue]:
    """The operands of an operation and of all operations in its regions."""
    for inner in op.walk():
        yield from inner.operands


def inherit_location(new: Operation, old: Operation) -> None:
    """Make ``new`` stand where ``old`` stood: its location and its source."""
    new.location = old.location
    if (source := source_of(old)) is not None:
        set_source(new, source)


def clone_with_locations(op: Operation, values: dict[SSAValue, SSAValue]) -> Operation:
    """A copy whose operations keep the sources of the originals; fills the map of values."""
    copy = op.clone(values)
    for old, new in zip(op.walk(), copy.walk(), strict=True):
        inherit_location(new, old)
    return copy


def insert_before(rewriter: PatternRewriter, old: Operation, *new: Operation) -> None:
    """Put operations before ``old``, at its place in the source."""
    for op in new:
        inherit_location(op, old)
        rewriter.insert(op, InsertPoint.before(old))


def replace_op(rewriter: PatternRewriter, old: Operation, new: Operation) -> None:
    """Put ``new`` in the stead of ``old``, with its place in the source."""
    inherit_location(new, old)
    rewriter.replace(old, new)


def replace_value(rewriter: PatternRewriter, old: Operation, value: SSAValue) -> None:
    """Erase an operation with one result, whose users take ``value``."""
    rewriter.replace(old, (), (value,))


def set_operand(rewriter: PatternRewriter, op: Operation, index: int, value: SSAValue) -> None:
    """Change one operand in place; the operation that made the old one may now be dead."""
    previous = op.operands[index].owner
    op.operands[index] = value
    rewriter.notify_op_modified(op)
    if isinstance(previous, Operation):
        rewriter.notify_op_modified(previous)


def erase_from(rewriter: PatternRewriter, first: Operation | None) -> None:
    """Erase an operation and all that follow it in its block."""
    if first is None or first.parent is None:
        return
    doomed = [first]
    while (following := doomed[-1].next_op) is not None:
        doomed.append(following)
    for op in reversed(doomed):
        rewriter.erase(op)
