"""Distributions of tiles over the threads of a block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from tilewright.layouts import gf2


def bits_of(extent: int) -> int:
    """The binary logarithm of a power of two. Raises ``ValueError`` for other numbers."""
    if extent <= 0 or extent & (extent - 1):
        raise ValueError(f"an extent must be a power of two, got {extent}")
    return extent.bit_length() - 1


def axis_bits(shape: Sequence[int]) -> list[range]:
    """For each axis, the bits of an element's row-major number that are its coordinate, the lowest first.

    The last axis has the lowest bits. Raises ``ValueError`` if an extent is not a power of two.
    """
    found: list[range] = []
    below = 0
    for extent in reversed(shape):
        found.append(range(below, below + bits_of(extent)))
        below += bits_of(extent)
    return found[::-1]


@dataclass(frozen=True)
class Layout:
    """Which element each register of each thread holds: a linear map over GF(2).

    Elements are numbered in row-major order. A basis vector is the element of one input bit: register ``r`` of lane
    ``l`` of warp ``w`` holds the XOR of ``register[i]``, ``lane[i]``, ``warp[i]`` over the set bits i of r, l and w. A
    zero vector means that elements are replicated; the owner of an element is the holder with zeros in those bits.
    Since the numbers are row-major, reshaping a tile does not change its layout.

    ``size`` is the number of elements. Raises ``ValueError`` if a basis vector is out of range, or an
    element has no holder.
    """

    size: int
    register: tuple[int, ...]
    lane: tuple[int, ...]
    warp: tuple[int, ...]

    def __post_init__(self) -> None:
        bits = bits_of(self.size)
        if any(not 0 <= basis < self.size for basis in self.bases):
            raise ValueError(f"a basis vector is not an element of a tile of {self.size}")
        if len(gf2.Space(self.bases)) != bits:
            raise ValueError("some elements are held by no thread")

    @property
    def bases(self) -> tuple[int, ...]:
        """All basis vectors: registers, then lanes, then warps."""
        return self.register + self.lane + self.warp

    @property
    def thread(self) -> tuple[int, ...]:
        """The basis vectors of the bits of the thread number in its block."""
        return self.lane + self.warp

    @property
    def registers(self) -> int:
        """The number of elements per thread."""
        return 1 << len(self.register)

    @property
    def threads(self) -> int:
        """The number of threads."""
        return 1 << len(self.lane) + len(self.warp)

    @property
    def bits(self) -> int:
        """The number of bits of an element's number."""
        return bits_of(self.size)

    def element(self, register: int, thread: int) -> int:
        """The row-major number of the element in a register of a thread, which is numbered within its block."""
        return self.offsets[register] ^ self.first_of_thread[thread]

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """For each register, the element that thread 0 holds; for other threads they are XORed with
        ``first_of_thread``.
        """
        return gf2.sums(self.register)

    @cached_property
    def first_of_thread(self) -> tuple[int, ...]:
        """For each thread, the element in its register 0."""
        return gf2.sums(self.thread)

    @cached_property
    def free_thread_bits(self) -> int:
        """A mask of the thread bits that are zero for owners of elements.

        A thread bit is free if its vector depends on those of registers and of lower thread bits.
        """
        space = gf2.Space(self.register)
        mask = 0
        for position, basis in enumerate(self.thread):
            if not space.add(basis):
                mask |= 1 << position
        return mask

    @property
    def is_replicated(self) -> bool:
        """Whether several threads hold the same element."""
        return bool(self.free_thread_bits)

    # Derived layouts.

    def without_copies(self) -> Layout:
        """The layout without registers that duplicate others of the same thread; copies in other threads stay."""
        return Layout(self.size, tuple(gf2.independent(self.register)), self.lane, self.warp)

    def mapped(self, size: int, bit_to: Sequence[int | None]) -> Layout:
        """The layout after moving bits of the element's number: bit i goes to ``bit_to[i]``, None drops it.

        ``size`` is the number of elements afterwards. Registers that become copies are kept. Raises ``ValueError`` if
        an element of the new tile has no holder.
        """

        def move(basis: int) -> int:
            found = 0
            for bit, target in enumerate(bit_to):
                if basis >> bit & 1 and target is not None:
                    found |= 1 << target
            return found

        return Layout(
            size,
            tuple(map(move, self.register)),
            tuple(map(move, self.lane)),
            tuple(map(move, self.warp)),
        )

    def permuted(self, shape: Sequence[int], order: Sequence[int]) -> Layout:
        """The layout of the transposed tile whose axis i is axis ``order[i]`` of this one, of extents ``shape``."""
        return self.mapped(self.size, permuted_bits(shape, order))

    def sliced(self, shape: Sequence[int], axis: int) -> Layout:
        """The layout of the result of a reduction along an axis, without duplicate registers; threads that differed
        along the axis hold the same element. ``shape`` is that of the tile, from which ``axis`` goes.
        """
        dropped = axis_bits(shape)[axis]
        below = iter(range(self.bits))
        bit_to = [None if bit in dropped else next(below) for bit in range(self.bits)]
        return self.mapped(self.size // shape[axis], bit_to).without_copies()

    def with_registers(self, register: Sequence[int]) -> Layout:
        """The layout with other register vectors, lowest bit first; lanes and warps keep theirs.

        Raises ``ValueError`` if an element is then held by no thread.
        """
        return Layout(self.size, tuple(register), self.lane, self.warp)

    def run(self, shape: Sequence[int], axis: int) -> int:
        """The number of adjacent elements along an axis in successive registers, aligned: a power of two.

        ``shape`` is that of the tile. They are neighbours in memory, too, where the axis is contiguous there.
        """
        found = 0
        for basis, bit in zip(self.register, axis_bits(shape)[axis], strict=False):
            if basis != 1 << bit:
                break
            found += 1
        return 1 << found

    # Standard layouts.

    @staticmethod
    def dealt(size: int, threads: int, chunk: int = 4) -> Layout:
        """Chunks of ``chunk`` adjacent elements, distributed cyclically over ``threads`` threads.

        A tile with fewer elements than threads is replicated. Raises ``ValueError`` if one of the three is not a
        power of two.
        """
        bits, over = bits_of(size), bits_of(threads)
        own = max(bits - over, 0)
        inner = min(own, bits_of(chunk))
        register = [1 << bit for bit in range(inner)]
        register += [1 << bit for bit in range(inner + over, bits)]
        thread = [1 << (inner + bit) if inner + bit < bits else 0 for bit in range(over)]
        return Layout(size, tuple(register), tuple(thread[:5]), tuple(thread[5:]))

    @staticmethod
    def blocked(shape: Sequence[int], threads: int, order: Sequence[int], chunk: int) -> Layout:
        """A layout for coalesced accesses along the axes of ``order``, the fastest first.

        Each thread holds ``chunk`` adjacent elements; lanes follow, then warps, which prefer the other axes; the rest
        are registers. Up to ``chunk`` adjacent elements along the second axis also stay in a thread, if every thread
        still has elements, which makes transposing and reducing the tile cheaper. A tile with fewer elements than
        threads is replicated over the upper thread bits. Raises ``ValueError`` if an extent or a count is not a power
        of two.
        """
        ranges = axis_bits(shape)
        first = list(ranges[order[0]])
        others = [bit for axis in order[1:] for bit in ranges[axis]]
        over = bits_of(threads)
        free = max(len(first) + len(others) - over, 0)
        inner = min(bits_of(chunk), len(first), free)
        second = min(inner, free - inner, len(ranges[order[1]]) if len(order) > 1 else 0)
        along = first[inner:] + others[second:]
        lanes, rest = along[:5], along[5:]
        # Warps prefer the other axes, so that a reduction along the first one stays within a warp.
        rest = [bit for bit in rest if bit not in first] + [bit for bit in rest if bit in first]
        warps = rest[: max(over - 5, 0)]
        left = sorted(rest[len(warps) :], key=along.index)
        register = [1 << bit for bit in (*first[:inner], *others[:second], *left)]
        thread = [1 << bit for bit in (*lanes, *warps)]
        thread += [0] * (over - len(thread))
        return Layout(prod(shape), tuple(register), tuple(thread[:5]), tuple(thread[5:]))


def permuted_bits(shape: Sequence[int], order: Sequence[int]) -> list[int]:
    """For each bit of an element's number, its position after permuting axes: new axis i is axis ``order[i]`` of
    ``shape``.
    """
    given = axis_bits(shape)
    wanted = axis_bits([shape[axis] for axis in order])
    bit_to = [0] * sum(len(bits) for bits in given)
    for position, axis in enumerate(order):
        for bit, target in zip(given[axis], wanted[position], strict=True):
            bit_to[bit] = target
    return bit_to


def coordinates_of(number: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The coordinates of an element, one per axis of ``shape``, from its row-major number."""
    found: list[int] = []
    for extent in reversed(shape):
        found.append(number & (extent - 1))
        number >>= bits_of(extent)
    return tuple(reversed(found))
