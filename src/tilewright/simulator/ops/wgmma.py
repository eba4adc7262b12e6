"""``nvvm.wgmma.product``: operands by the descriptors that PTX defines, accumulators in the threads' registers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright.dialects.narrowing import integers_of
from tilewright.dialects.nvgpu.wgmma import STEP_BYTES, WgmmaProductOp
from tilewright.numerics.arrays import Array
from tilewright.numerics.tensor_cores import multiply_add, multiply_add_integers, unit_of
from tilewright.simulator import codes
from tilewright.simulator.compile import Step, Translator, implements
from tilewright.simulator.faults import Fault
from tilewright.simulator.layouts import swizzled
from tilewright.simulator.ops.threads import collective
from tilewright.simulator.ops.warpgroups import (
    GROUP_WARPS,
    ROWS,
    WARP_ROWS,
    begin_product,
    place_in_group,
    wait_products,
)
from tilewright.simulator.pending import Pending
from tilewright.simulator.shadow import Proxy
from tilewright.simulator.state import WARP_SIZE, Warp
from tilewright.simulator.values import Element, element_of, uniform

#: The swizzle field of a descriptor: name, and bytes of a row.
_SWIZZLES = {1: ("swizzle_128b", 128), 2: ("swizzle_64b", 64), 3: ("swizzle_32b", 32)}
_FIELD, _ADDRESS_UNIT = 0x3FFF, 4


@dataclass(frozen=True, slots=True)
class _Matrix:
    """A decoded descriptor: start, byte offsets of its parts, and swizzle."""

    start: int
    leading: int
    stride: int
    swizzle: str
    row: int

    @staticmethod
    def of(number: int, warp: Warp, op: Operation) -> _Matrix:
        fields = [number >> shift & _FIELD for shift in (0, 16, 32)]
        start, leading, stride = (field << _ADDRESS_UNIT for field in fields)
        kind = _SWIZZLES.get(number >> 62 & 3)
        if kind is None or number >> 49 & 7:
            raise Fault(
                codes.UNSUPPORTED,
                f"a descriptor of {warp.name()}, 0x{number & (1 << 64) - 1:x}, has no swizzle, or a base offset",
                op,
            )
        if start % (8 * kind[1]):
            raise Fault(
                codes.MISALIGNED,
                f"a descriptor of {warp.name()} begins at shared byte {start}, which is not a "
                f"multiple of the {8 * kind[1]} bytes of its swizzle's pattern",
                op,
            )
        return _Matrix(start, leading, stride, *kind)


@cache
def _places(
    matrix: _Matrix, extent: int, offsets: tuple[int, ...], size: int, along_k: bool
) -> Array:
    """Byte addresses of the elements, extent x k, that steps at ``offsets`` read."""
    depth = STEP_BYTES // size
    outer, k = np.arange(extent)[:, None, None], np.arange(depth)[None, None, :]
    first = matrix.start + np.array(offsets)[None, :, None]
    if along_k:
        linear = first + matrix.row * (outer % 8) + matrix.stride * (outer // 8) + k * size
    else:
        along = outer * size
        linear = first + along % matrix.row + matrix.leading * (along // matrix.row)
        linear = linear + matrix.row * (k % 8) + matrix.stride * (k // 8)
    return swizzled(np.broadcast_to(linear, (extent, len(offsets), depth)), matrix.swizzle).reshape(
        extent, -1
    )


def _positions(columns: int) -> tuple[Array, Array]:
    """Row, of the warp's 16, and column of each register of a lane, for a block of 64 rows."""
    lane, register = np.arange(WARP_SIZE)[:, None], np.arange(columns // 2)[None, :]
    rows = (lane >> 2) + 8 * (register >> 1 & 1)
    return rows, 2 * (lane & 3) + 8 * (register >> 2) + (register & 1)


@cache
def _left_positions(size: int, steps: int) -> tuple[Array, Array]:
    """Row and k of each register of a lane of A's fragments, for a block of 64 rows."""
    pack = 4 // size
    lane, place = np.arange(WARP_SIZE)[:, None], np.arange(steps * 4 * pack)[None, :]
    step, inner = place // (4 * pack), place % (4 * pack)
    rows = (lane >> 2) + 8 * (inner // pack & 1)
    k = step * 8 * pack + (lane & 3) * pack + inner % pack + 4 * pack * (inner // (2 * pack))
    return rows, k


class _Product:
    """The part of a product that does not depend on the warp."""

    def __init__(self, op: WgmmaProductOp, t: Translator):
        self.op = op
        self.rows, self.columns, self.depth = op.shape
        self.element: Element = element_of(op.element)
        self.size = self.element.size
        self.blocks, self.steps = self.rows // ROWS, op.steps
        self.in_registers = not integers_of(op.properties.get("aOffsets"))
        offsets = integers_of(op.properties.get("aOffsets"))
        self.of_a = [
            offsets[block * self.steps : (block + 1) * self.steps] for block in range(self.blocks)
        ]
        self.of_b = integers_of(op.bOffsets)
        self.a_along_k, self.b_along_k = op.transposeA is None, op.transposeB is None
        self.unit = unit_of("wgmma", self.element.name, t.arch.compute)
        self.numerics: Any = t.numerics
        self.unsigned = op.unsignedA is not None, op.unsignedB is not None

    def multiply(self, lhs: Array, rhs: Array, sums: Array) -> Array:
        """Multiply both matrices and add the accumulator."""
        if self.element.is_float:
            return multiply_add(lhs, rhs, sums, self.element.name, self.unit, self.numerics)
        left, right = (
            side.view(np.uint8) if is_unsigned else side
            for side, is_unsigned in zip((lhs, rhs), self.unsigned, strict=True)
        )
        return multiply_add_integers(left, right, sums, saturating=False)

    def left(self, warp: Warp, given: Any, place: int) -> list[Array]:
        """The warp's 16 rows of each block of A."""
        if self.in_registers:
            held = np.asarray(given).reshape(WARP_SIZE, self.blocks, -1)
            found = []
            for block in range(self.blocks):
                rows = np.zeros((WARP_ROWS, self.depth), held.dtype)
                rows[_left_positions(self.size, self.steps)] = held[:, block]
                found.append(rows)
            return found
        matrix = _Matrix.of(self._number(warp, given), warp, self.op)
        own = slice(WARP_ROWS * place, WARP_ROWS * (place + 1))
        return [
            self._read(warp, _places(matrix, ROWS, offsets, self.size, self.a_along_k)[own])
            for offsets in self.of_a
        ]

    def right(self, warp: Warp, given: Any) -> Array:
        matrix = _Matrix.of(self._number(warp, given), warp, self.op)
        found = _places(matrix, self.columns, self.of_b, self.size, self.b_along_k)
        return self._read(warp, found).T

    def _number(self, warp: Warp, given: Any) -> int:
        found = uniform(given, np.ones(WARP_SIZE, bool))
        if found is None:
            raise Fault(codes.DIVERGENT, f"lanes of {warp.name()} have different matrices", self.op)
        return found

    def _read(self, warp: Warp, places: Array) -> Array:
        shared = warp.block.shared
        first, last = int(places.min()), int(places.max()) + self.size
        if last > shared.data.size:
            raise Fault(
                codes.OUT_OF_BOUNDS,
                f"{self.op.name} of {warp.name()} leaves shared memory",
                self.op,
            )
        where = slice(first, last)
        warp.block.shadow.check_read(where, warp, self.op, "reads", Proxy.ASYNC)
        self.ranges.append(where)
        return shared.view(self.element.dtype)[places // self.size]

    #: The byte ranges that the current product reads.
    ranges: list[slice]


@implements("nvvm.wgmma.product")
def _product(op: Any, t: Translator) -> Step:
    """A product of a warpgroup with the accumulator in registers, one group of ``wgmma.mma_async``; waits as
    ``waitGroup`` says.

    A is in registers or, as B is, in shared memory by a descriptor.
    """
    left, right, acc, result = (t.slot(value) for value in (op.a, op.b, op.c, op.results[0]))
    product, unfinished = _Product(op, t), op.unfinished
    rows, columns = _positions(product.columns)
    multiplications = product.rows * product.columns * product.depth // GROUP_WARPS

    def step(warp: Warp) -> None:
        r = warp.regs
        place = place_in_group(warp, op)
        product.ranges = []
        lefts, rhs = product.left(warp, r[left], place), product.right(warp, r[right])
        sums = r[acc].data if isinstance(r[acc], Pending) else r[acc]
        given = np.asarray(sums).reshape(WARP_SIZE, product.blocks, -1)
        made = np.empty_like(given)
        for block, lhs in enumerate(lefts):
            sums = np.empty((WARP_ROWS, product.columns), given.dtype)
            sums[rows, columns] = given[:, block]
            made[:, block] = product.multiply(lhs, rhs, sums)[rows, columns]
        begin_product(warp, op, tuple(product.ranges), multiplications)
        found = made.reshape(WARP_SIZE, -1)
        r[result] = found if unfinished == 0 else Pending(found, warp.product_groups, op)
        if unfinished is not None:
            wait_products(warp, unfinished, op)

    return step


@implements("nvvm.wgmma.sums")
def _sums(op: Any, t: Translator) -> Step:
    """The accumulator of a product, once all but ``waitGroup`` groups have completed."""
    source, result, unfinished = t.slot(op.c), t.slot(op.d), op.unfinished

    def step(warp: Warp) -> None:
        collective(warp, op)
        wait_products(warp, unfinished, op)
        held = warp.regs[source]
        warp.regs[result] = held.data if isinstance(held, Pending) else held

    return step
