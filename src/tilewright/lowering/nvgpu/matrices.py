"""Matrices in shared memory, with padded rows so that warps access them without bank conflicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import builtin as b
from xdsl.dialects import memref, vector
from xdsl.ir import Attribute, SSAValue

from tilewright.layouts.layout import coordinates_of
from tilewright.lowering.nvgpu.shared_conversion import Buffer, SharedConversion
from tilewright.lowering.nvgpu.state import ThreadLowering
from tilewright.lowering.nvgpu.types import SHARED_SPACE
from tilewright.lowering.nvgpu.vectors import as_index, moved, split

Index = tuple[SSAValue, SSAValue]


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix of ``rows`` x ``columns`` elements in shared memory, with padding after each row.

    It holds the rows of a tile of ``dims`` from ``first`` on, transposed if ``is_transposed``. Indices are those in memory.
    ``buffer`` is the same memory without its shape; rows are ``stride`` elements apart.
    """

    low: ThreadLowering
    buffer: Buffer
    memory: SSAValue
    element: Attribute
    rows: int
    columns: int
    stride: int
    dims: tuple[int, int]
    first: int
    is_transposed: bool

    def read(self, place: Index, width: int) -> SSAValue:
        """Load ``width`` adjacent elements of a row, as a vector; ``place`` is row and column in elements."""
        self.low.sync.shared = True
        ty = b.VectorType(self.element, [width])
        return self.low.one(vector.LoadOp, (self.memory, *place), ty)

    def write(self, place: Index, value: SSAValue) -> None:
        """Store a vector to adjacent elements of a row from ``place`` on: row and column in elements."""
        self.low.emit(vector.StoreOp, (value, self.memory, *place))

    def put(self, value: SSAValue) -> None:
        """Store those of the thread's elements of the tile that the matrix covers."""
        low = self.low

        def work() -> Sequence[SSAValue]:
            width = 1 if self.is_transposed else self._width
            parts = split(low, value, width)
            offsets = low.layout(self.dims).offsets[::width]
            for offset, part in zip(offsets, parts, strict=True):
                if self._has(offset):
                    self.write(self._place(offset), part)
            return ()

        low.either(low.owned(self.dims[0] * self.dims[1]), work)

    def take(self) -> list[SSAValue]:
        """Load the thread's chunks of the tile that the matrix covers. The matrix must not be transposed."""
        offsets = self.low.layout(self.dims).offsets[:: self._width]
        return [self.read(self._place(at), self._width) for at in offsets if self._has(at)]

    @property
    def _width(self) -> int:
        return min(self.low.layout(self.dims).chunk, self.columns)

    def _has(self, offset: int) -> bool:
        """Whether the matrix covers the thread's element at that offset."""
        row = coordinates_of(offset, self.dims)[0]
        return self.first <= row < self.first + (self.columns if self.is_transposed else self.rows)

    def _place(self, offset: int) -> Index:
        """The indices of the thread's element at that offset."""
        low = self.low
        with low.building(low.prologue):
            row, column = (as_index(low, at) for at in low.first_coordinates(self.dims))
            steps = coordinates_of(offset, self.dims)
            row = moved(low, row, steps[0] - self.first)
            column = moved(low, column, steps[1])
        return (column, row) if self.is_transposed else (row, column)


def matrix(
    shared_conversion: SharedConversion,
    low: ThreadLowering,
    element: Attribute,
    dims: tuple[int, int],
    padding: int,
    *,
    rows: int | None = None,
    first: int = 0,
    is_transposed: bool = False,
) -> Matrix:
    """Allocate ``rows`` rows of a tile from row ``first`` on, by default all, in shared memory.

    ``padding`` elements follow each row, so that warps access columns without bank conflicts. A transposed matrix has
    the tile's columns as rows.
    """
    shape = (dims[0] if rows is None else rows, dims[1])
    if is_transposed:
        shape = shape[1], shape[0]
    stride = shape[1] + padding
    buffer = shared_conversion.buffer(element, shape[0] * stride)
    view = buffer.memory.owner
    assert isinstance(view, memref.ViewOp)
    with low.building(low.prologue):
        ty = b.MemRefType(element, [shape[0], stride], memory_space=SHARED_SPACE)
        memory = low.one(memref.ViewOp, (view.source, view.byte_shift), ty)
    return Matrix(
        low, buffer, memory, element, shape[0], shape[1], stride, dims, first, is_transposed
    )


def padding(columns: int, bits: int) -> int:
    """The padding in elements per row by which 8 rows of 16 bytes fall into different banks: rows are an odd multiple
    of 16 bytes apart.
    """
    return 0 if columns * bits <= 128 else 128 // bits
