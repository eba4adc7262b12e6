"""Rejects kernels that cannot fit on a GPU before they are compiled, which would take minutes."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation

from tilewright.diagnostics import TileIRError
from tilewright.dialects.cuda_tile.ops.control_flow import ForOp, LoopOp
from tilewright.dialects.cuda_tile.ops.matrix import MmaFOp, MmaFScaledOp, MmaIOp
from tilewright.dialects.cuda_tile.types import TileType
from tilewright.model.tables import Gpu
from tilewright.numerics import FORMATS
from tilewright.tuning.codes import TOO_LARGE

_ADDRESS_BITS = 64


def check_fits(kernel: Operation, gpu: Gpu) -> None:
    """Raise ``TileIRError`` (``tune-too-large``) if the loop-carried tiles of a loop, or the accumulator of a product,
    exceed the registers of a multiprocessor: any block would be dominated by spills.
    """
    whole = int(gpu["registers"]) * 4
    for op in kernel.walk():
        tiles = [*_held(op)]
        size = sum(map(_bytes, tiles))
        if size > whole:
            largest = max(tiles, key=_bytes)
            extents = "x".join(map(str, largest.dims))
            what = "a loop carries" if isinstance(op, ForOp | LoopOp) else "a product accumulates"
            raise TileIRError.single(
                TOO_LARGE,
                f"{what} {size >> 10} KiB in tiles up to {extents}x{largest.element}, and a multiprocessor of "
                f"{gpu.title} has {whole >> 10} KiB of registers",
            )


def _held(op: Operation) -> Iterator[TileType]:
    """The tiles that an operation needs in registers as a whole."""
    if isinstance(op, ForOp | LoopOp | MmaFOp | MmaFScaledOp | MmaIOp):
        for result in op.results:
            if isinstance(result.type, TileType):
                yield result.type


def _bytes(tile: TileType) -> int:
    held = FORMATS.get(tile.element)
    return tile.element_count * (_ADDRESS_BITS if held is None else held.bits) // 8
