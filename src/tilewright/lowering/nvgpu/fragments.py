"""Which registers of which lanes hold the operands and the accumulator of ``mma.sync``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects import builtin as b
from xdsl.ir import Attribute, SSAValue

_F32, _I32 = b.Float32Type(), b.IntegerType(32)


@dataclass(frozen=True, slots=True)
class Instruction:
    """A shape of ``mma.sync``: ``m`` x ``k`` times ``k`` x ``n``, accumulated in ``sums``.

    ``element`` is the type of the operands in registers and in shared memory, of ``bits`` bits.
    """

    m: int
    n: int
    k: int
    element: Attribute
    bits: int
    sums: Attribute

    @property
    def per_register(self) -> int:
        """How many adjacent elements along k a register holds."""
        return max(32 // self.bits, 1)

    @property
    def group(self) -> int:
        """How many elements along k the four lanes of a row hold in one register each."""
        return 4 * self.per_register

    @property
    def a_shape(self) -> tuple[int, int]:
        """The shape of a thread's vector of A: registers, elements per register."""
        return self.m // 8 * (self.k // self.group), self.per_register

    @property
    def b_shape(self) -> tuple[int, int]:
        """The shape of a thread's vector of B: registers, elements per register."""
        return self.k // self.group, self.per_register

    @property
    def c_shape(self) -> tuple[int, int]:
        """The shape of a thread's vector of the accumulator: rows, and two adjacent elements in each."""
        return self.m // 8, 2


#: Keyed by the operand type, the largest k first.
INSTRUCTIONS: dict[str, tuple[Instruction, ...]] = {
    "f16": (Instruction(16, 8, 16, b.Float16Type(), 16, _F32),),
    "bf16": (Instruction(16, 8, 16, b.BFloat16Type(), 16, _F32),),
    "tf32": (Instruction(16, 8, 8, _F32, 32, _F32),),
    "f64": (Instruction(8, 8, 4, b.Float64Type(), 64, b.Float64Type()),),
    "f8E4M3FN": (Instruction(16, 8, 32, b.Float8E4M3FNType(), 8, _F32),),
    "f8E5M2": (Instruction(16, 8, 32, b.Float8E5M2Type(), 8, _F32),),
    "i8": (
        Instruction(16, 8, 32, b.IntegerType(8), 8, _I32),
        Instruction(16, 8, 16, b.IntegerType(8), 8, _I32),
    ),
}


@dataclass(frozen=True, slots=True)
class FragmentLayout:
    """How ``batches`` matrices of ``rows`` x ``columns`` elements are distributed in fragments of ``m`` x ``n``.

    The warps form a grid. A warp has every ``grid[i]``-th fragment along axis i, so that at any time all warps together
    work on adjacent ones. Warps beyond the grid hold copies. A thread's fragments are numbered by matrix, row, column.
    Each is a vector of ``m // 8`` rows of 2 elements: element (i, j) is at row ``lane // 4 + 8 i``, column ``2 (lane %
    4) + j``.
    """

    batches: int
    rows: int
    columns: int
    m: int
    n: int
    grid: tuple[int, int, int]
    element: Attribute

    @property
    def counts(self) -> tuple[int, int, int]:
        """The number of fragments per thread along each axis: matrices, rows, columns."""
        tiles = self.batches, self.rows // self.m, self.columns // self.n
        return tuple(n // warps for n, warps in zip(tiles, self.grid, strict=True))  # pyright: ignore[reportReturnType]

    @property
    def vector(self) -> b.VectorType:
        """The per-thread type of one fragment of the accumulator."""
        return b.VectorType(self.element, [self.m // 8, 2])

    @property
    def warps(self) -> int:
        """The number of warps in the grid."""
        batches, rows, columns = self.grid
        return batches * rows * columns

    def places(self) -> Iterator[tuple[int, int, int]]:
        """Yields the position of each fragment of a thread: matrix, row, column."""
        batches, rows, columns = self.counts
        for batch in range(batches):
            for row in range(rows):
                for column in range(columns):
                    yield batch, row, column


@dataclass(frozen=True, slots=True)
class Fragments:
    """A tile held in fragments, as accumulators are between products."""

    layout: FragmentLayout
    parts: tuple[SSAValue, ...]


def instruction_for(name: str, rows: int, columns: int, depth: int) -> Instruction | None:
    """The first instruction for an operand type that is no larger than these extents, in elements; else None."""
    return next(
        (
            found
            for found in INSTRUCTIONS.get(name, ())
            if rows >= found.m and columns >= found.n and depth >= found.k
        ),
        None,
    )


def layout_for(
    instruction: Instruction, batches: int, rows: int, columns: int, warps: int, element: Attribute
) -> FragmentLayout:
    """The layout whose grid of warps loads the fewest operands: matrices are split first, then rows and columns as
    evenly as the extents allow.
    """
    along_batches = min(batches, warps)
    left = warps // along_batches
    tiles = rows // instruction.m, columns // instruction.n
    left = min(left, tiles[0] * tiles[1])
    choices = [
        (down, left // down)
        for down in (1 << power for power in range(left.bit_length()))
        if down <= tiles[0] and left // down <= tiles[1]
    ]
    down, across = min(choices, key=lambda grid: rows // grid[0] + columns // grid[1])
    return FragmentLayout(
        batches,
        rows,
        columns,
        instruction.m,
        instruction.n,
        (along_batches, down, across),
        element,
    )
