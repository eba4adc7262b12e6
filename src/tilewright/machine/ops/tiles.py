"""Creating, reshaping, concatenating and cutting tiles; block coordinates, globals, assumptions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.ir import SSAValue

from tilewright.dialects.cuda_tile.ops import core, memory, misc
from tilewright.dialects.declare import int_property
from tilewright.launching.constants import array_of_constant
from tilewright.launching.value_types import TileLike
from tilewright.machine.compile import Step, Translator, implements, tile_type
from tilewright.machine.faults import BAD_SUB_TILE_INDEX, Fault
from tilewright.machine.ops.elementwise import computed
from tilewright.machine.values import TOKEN, Registers
from tilewright.numerics.arrays import Array, dtype_of, from_bytes, to_bytes

Locate = Callable[[Registers], tuple[slice, ...]]
"""Where in a tile a part of it lies."""

# Below this size a filled copy is cheaper than NumPy's broadcast view.
_SMALL = 1 << 14


def rearranged(
    t: Translator, given: SSAValue, made: SSAValue, function: Callable[[Array], Array]
) -> Step | None:
    """Return a step for a pure rearrangement, or None if its operand is preset."""
    if t.is_preset(given):
        t.preset(made, function(t.registers[t.slot(given)]))
        return None
    return computed(function, t.slot(made), (t.slot(given),))


@implements(core.ConstantOp)
def _constant(op: core.ConstantOp, t: Translator) -> None:
    t.preset(op.result, array_of_constant(op.constant))


@implements(core.IotaOp)
def _iota(op: core.IotaOp, t: Translator) -> None:
    t.preset(op.result, counted(0, tile_type(op.result)))


def counted(start: int, ty: TileLike) -> Array:
    """Return ``start``, ``start`` + 1, ... as a tile of rank 1."""
    if ty.element == "i1":
        return np.arange(start, start + ty.element_count).astype(np.bool_)
    # Counting in 64 bits and truncating yields the unsigned reading of narrow types.
    return np.arange(start, start + ty.element_count, dtype=np.int64).astype(dtype_of(ty.element))


@implements(core.ReshapeOp)
def _reshape(op: core.ReshapeOp, t: Translator) -> Step | None:
    dims = tile_type(op.result).dims
    return rearranged(t, op.source, op.result, lambda tile: tile.reshape(dims))


@implements(core.PermuteOp)
def _permute(op: core.PermuteOp, t: Translator) -> Step | None:
    axes = op.axes
    return rearranged(t, op.source, op.result, lambda tile: tile.transpose(axes))


@implements(core.BroadcastOp)
def _broadcast(op: core.BroadcastOp, t: Translator) -> Step | None:
    return rearranged(t, op.source, op.result, spreading(tile_type(op.result)))


def spreading(ty: TileLike) -> Callable[[Array], Array]:
    """Return a function that broadcasts an array to a tile of a type."""
    dims, dtype = ty.dims, dtype_of(ty.element)

    def copied(tile: Array) -> Array:
        result = np.empty(dims, dtype)
        result[...] = tile
        return result

    def viewed(tile: Array) -> Array:
        return np.broadcast_to(tile, dims)

    return copied if ty.element_count <= _SMALL else viewed


@implements(core.CatOp)
def _cat(op: core.CatOp, t: Translator) -> Step:
    return cat_step(t.slot(op.lhs), t.slot(op.rhs), t.slot(op.result), int_property(op, "dim"))


def cat_step(lhs: int, rhs: int, result: int, axis: int) -> Step:
    """Concatenates two tiles along an axis."""

    def step(regs: Registers) -> None:
        regs[result] = np.concatenate((regs[lhs], regs[rhs]), axis)

    return step


def _sub_tile(
    t: Translator, op: core.ExtractOp | core.InsertOp, whole: tuple[int, ...], part: tuple[int, ...]
) -> Locate:
    """Return a function that computes the slice of the whole tile selected by the indices."""
    slots = t.slots(op.indices)
    counts = tuple(a // b for a, b in zip(whole, part, strict=True))
    dims = tuple(zip(slots, counts, part, strict=True))

    def locate(regs: Registers) -> tuple[slice, ...]:
        slices: list[slice] = []
        for slot, count, extent in dims:
            index = regs[slot].item() & 0xFFFFFFFF
            if index >= count:
                raise Fault(
                    BAD_SUB_TILE_INDEX,
                    f"index {index} of dimension {len(slices)} lies outside the grid of sub-tiles, "
                    f"[0, {count})",
                )
            slices.append(slice(index * extent, index * extent + extent))
        return tuple(slices)

    return locate


@implements(core.ExtractOp)
def _extract(op: core.ExtractOp, t: Translator) -> Step:
    source, result = t.slot(op.source), t.slot(op.result)
    locate = _sub_tile(t, op, tile_type(op.source).dims, tile_type(op.result).dims)

    def step(regs: Registers) -> None:
        # Indexing a rank-0 array with () yields a scalar, not an array.
        regs[result] = np.asarray(regs[source][locate(regs)])

    return step


@implements(core.InsertOp)
def _insert(op: core.InsertOp, t: Translator) -> Step:
    source, destination, result = t.slot(op.source), t.slot(op.destination), t.slot(op.result)
    locate = _sub_tile(t, op, tile_type(op.destination).dims, tile_type(op.source).dims)
    return insert_step(source, destination, result, locate)


def insert_step(source: int, destination: int, result: int, locate: Locate) -> Step:
    """Copies a tile, with another one in place of a part of it."""

    def step(regs: Registers) -> None:
        tile = regs[destination].copy()
        tile[locate(regs)] = regs[source]
        regs[result] = tile

    return step


@implements(core.PackOp)
def _pack(op: core.PackOp, t: Translator) -> Step:
    return pack_step(tile_type(op.source).element, t.slot(op.source), t.slot(op.result))


def pack_step(element: str, source: int, result: int) -> Step:
    """Converts a tile of rank 1 to its memory image, a tile of i8."""

    def step(regs: Registers) -> None:
        regs[result] = np.frombuffer(to_bytes(regs[source], element), np.int8)

    def bits(regs: Registers) -> None:
        regs[result] = np.packbits(regs[source], bitorder="little").view(np.int8)

    return bits if element == "i1" else step


@implements(core.UnpackOp)
def _unpack(op: core.UnpackOp, t: Translator) -> Step:
    return unpack_step(tile_type(op.result), t.slot(op.source), t.slot(op.result))


def unpack_step(ty: TileLike, source: int, result: int) -> Step:
    """Converts a memory image, a tile of i8, to a tile of rank 1."""
    element, count = ty.element, ty.element_count

    def step(regs: Registers) -> None:
        regs[result] = from_bytes(regs[source].tobytes(), element, count)

    def bits(regs: Registers) -> None:
        raw = np.ascontiguousarray(regs[source]).view(np.uint8)
        regs[result] = np.unpackbits(raw, bitorder="little").view(np.bool_)

    return bits if element == "i1" else step


@implements(core.GetGlobalOp)
def _get_global(op: core.GetGlobalOp, t: Translator) -> None:
    t.preset(op.result, np.array(t.global_addresses[op.symbol], np.uint64))


@implements(core.GetNumTileBlocksOp)
def _get_num_tile_blocks(op: core.GetNumTileBlocksOp, t: Translator) -> None:
    t.grid_slots.extend((t.slot(value), axis) for axis, value in enumerate(op.results))


@implements(core.GetTileBlockIdOp)
def _get_tile_block_id(op: core.GetTileBlockIdOp, t: Translator) -> None:
    t.block_slots.extend((t.slot(value), axis) for axis, value in enumerate(op.results))


@implements(memory.MakeTokenOp, memory.JoinTokensOp)
def _token(op: memory.MakeTokenOp | memory.JoinTokensOp, t: Translator) -> None:
    t.preset(op.result, TOKEN)


@implements(misc.AssumeOp)
def _assume(op: misc.AssumeOp, t: Translator) -> Step | None:
    return rearranged(t, op.value, op.result, _same)


def _same(tile: Array) -> Array:
    return tile
