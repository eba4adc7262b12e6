"""The base class of passes, and helpers for rewriting that keep source locations."""

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
    "A cuda_tile pass ran on a module without cuda_tile operations.",
    "cuda_tile passes run on a cuda_tile.module, alone or inside a builtin module.",
)
NO_TILEAA = define_code(
    "no-nv-tileaa",
    "An nv_tileaa pass ran on a module without nv_tileaa operations.",
    "nv_tileaa passes run after `lower-cuda-tile-to-tileaa`.",
)


class Level(NamedTuple):
    """A level of the IR: its dialect, and the error reported if a pass finds nothing of that level."""

    dialect: str
    code: str
    help: str

    def stands_in(self, root: Operation) -> bool:
        """Whether ``root`` or anything below it is an operation of this level."""
        prefix = f"{self.dialect}."
        return any(op.name.startswith(prefix) for op in root.walk())


#: Tile IR, the input of every pipeline.
CUDA_TILE = Level(
    "cuda_tile", NO_TILE_IR, "wrap the kernels in `cuda_tile.module @kernels { ... }`"
)
#: The level below Tile IR: pointers, memory order and bounds are explicit.
NV_TILEAA = Level("nv_tileaa", NO_TILEAA, "put lower-cuda-tile-to-tileaa before the pass")
#: Per-thread code: kernels inside a ``gpu.module``.
NVGPU = Level("gpu", NO_TILEAA, "no pass runs on this level")
LEVELS = (CUDA_TILE, NV_TILEAA)


@dataclass(frozen=True)
class TilePass(ModulePass):
    """A rewrite of IR of one level, ``LEVEL``. The fields of the class are the options of the pass.

    Input and output are verified IR. The output is of the same level unless ``RESULT`` names another.
    ``apply`` makes the pass usable in xDSL's pipelines.
    """

    LEVEL: ClassVar[Level] = CUDA_TILE
    RESULT: ClassVar[Level | None] = None

    def apply(self, ctx: Context, op: builtin.ModuleOp) -> None:
        """Entry point for xDSL's pass manager. The context is unused. Raises ``TileIRError`` as ``apply_to``."""
        self.apply_to(op)

    @deep_recursion()
    def apply_to(self, root: Operation) -> Operation:
        """Rewrite everything below ``root``, a module or a function, in place.

        Returns the operation that holds the result: ``root``, unless a lowering had to replace a
        cuda_tile module.

        Raises ``TileIRError`` (``no-tile-ir``, ``no-nv-tileaa``) if ``root`` holds no IR of the pass's
        level.
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
        """Rewrite IR that holds operations of the level. Returns a new root if the old one cannot
        hold the result, else None."""


def modules(root: Operation) -> tuple[ModuleOp, ...]:
    """Return the cuda_tile modules at or below an operation, in order."""
    return tuple(op for op in root.walk() if isinstance(op, ModuleOp))


def functions(root: Operation) -> tuple[Function, ...]:
    """Return the entries and functions at or below an operation, in order."""
    return tuple(cast(Function, op) for op in root.walk() if isinstance(op, FUNCTIONS))


def blocks_below(root: Operation) -> list[Block]:
    """Return every block below an operation, outer blocks before inner ones. Not recursive."""
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
    """Yield the operands of an operation and of all operations in its regions."""
    for inner in op.walk():
        yield from inner.operands


def inherit_location(new: Operation, old: Operation) -> None:
    """Give ``new`` the location and the source of ``old``."""
    new.location = old.location
    if (source := source_of(old)) is not None:
        set_source(new, source)


def clone_with_locations(op: Operation, values: dict[SSAValue, SSAValue]) -> Operation:
    """Clone an operation, keeping source locations. ``values`` maps old values to new ones, and gets those of the
    clone.
    """
    copy = op.clone(values)
    for old, new in zip(op.walk(), copy.walk(), strict=True):
        inherit_location(new, old)
    return copy


def insert_before(rewriter: PatternRewriter, old: Operation, *new: Operation) -> None:
    """Insert operations before ``old`` and give them its source location."""
    for op in new:
        inherit_location(op, old)
        rewriter.insert(op, InsertPoint.before(old))


def replace_op(rewriter: PatternRewriter, old: Operation, new: Operation) -> None:
    """Replace ``old`` by ``new``, which takes over its source location."""
    inherit_location(new, old)
    rewriter.replace(old, new)


def replace_value(rewriter: PatternRewriter, old: Operation, value: SSAValue) -> None:
    """Erase an operation with one result and replace the result by ``value``, of the same type."""
    rewriter.replace(old, (), (value,))


def set_operand(rewriter: PatternRewriter, op: Operation, index: int, value: SSAValue) -> None:
    """Change one operand in place. The operation that defined the old operand may now be dead."""
    previous = op.operands[index].owner
    op.operands[index] = value
    rewriter.notify_op_modified(op)
    if isinstance(previous, Operation):
        rewriter.notify_op_modified(previous)


def erase_from(rewriter: PatternRewriter, first: Operation | None) -> None:
    """Erase an operation and everything after it in its block."""
    if first is None or first.parent is None:
        return
    doomed = [first]
    while (following := doomed[-1].next_op) is not None:
        doomed.append(following)
    for op in reversed(doomed):
        rewriter.erase(op)
