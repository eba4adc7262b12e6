"""Loops that read again what others have read: how many blocks a multiprocessor holds then, and for which kernels."""

from __future__ import annotations

import pytest
from tests.passes.tileas.test_order_blocks import function

from tilewright.dialects.nv_tileas.storage import SHARED_BYTES
from tilewright.lowering import lower_to_tileaa
from tilewright.model.choices import blocks_for_rereads, bytes_that_leave, resident_blocks
from tilewright.model.tables import GPUS
from tilewright.passes.pipelines import run_pipeline
from tilewright.passes.tileas.limit_residency import limit_residency
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.target import Target
from tilewright.text import parse

VIEW = "tensor_view<?x?xf32, strides=[?,1]>"
TILES = f"partition_view<tile=(1x2048), {VIEW}>"
TILE = "tile<1x2048xf32>"
KERNEL = """
entry{hints} @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>, %m: tile<i32>) {{
  %x, %y, %z = get_tile_block_id : tile<i32>
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %none = constant <f32: 0.0> : {tile}
  %a = make_tensor_view %p, shape = [%n, %m], strides = [%m, 1] : tile<i32> -> {view}
  %b = make_tensor_view %q, shape = [%n, %m], strides = [%m, 1] : tile<i32> -> {view}
  %ta = make_partition_view %a : {tiles}
  %tb = make_partition_view %b : {tiles}
  %sum = for %i in (%zero to %m, step %one) : tile<i32> iter_values(%s = %none) -> ({tile}) {{
    %v, %t = load_view_tko weak %ta[%x, %i] : {tiles}, tile<i32> -> {tile}, token
    {work}
    %u = addf %s, %w : {tile}
    continue %u : {tile}
  }}
  for %i in (%zero to %m, step %one) : tile<i32> {{
    %v, %t = load_view_tko weak {again} : {tiles}, tile<i32> -> {tile}, token
    %w = mulf %v, %sum : {tile}
    %d = store_view_tko weak %w, %tb[%x, %i] : {tile}, {tiles}, tile<i32> -> token
    continue
  }}
  return
}}
"""
LIGHT = f"%w = mulf %v, %v : {TILE}"
MUCH = "\n".join(f"%w{n} = divf %v, {'%v' if not n else f'%w{n - 1}'} : {TILE}" for n in range(30))


def limited(
    arch: str = "sm_90a",
    *,
    again: str = "%ta[%x, %i]",
    work: str = LIGHT,
    hints: str = "",
    decided: int | None = None,
) -> tuple[int | None, list[str]]:
    """The shared memory that a block takes, and what is told."""
    text = KERNEL.format(again=again, work=work, hints=hints, view=VIEW, tiles=TILES, tile=TILE)
    module = lower_to_tileaa(parse(text)).module
    run_pipeline(module, "tileaa")
    func, remarks = function(module), Remarks()
    limit_residency(func, 4, Target(arch, 227 << 10), remarks, decided)
    found = func.attributes.get(SHARED_BYTES)
    size = None if found is None else found.value.data  # pyright: ignore
    return size, [each.message for each in remarks.found]


def test_rows_that_are_read_twice_stay_in_l2() -> None:
    size, told = limited()
    assert size is not None
    (message,) = told
    assert "at most 3 blocks per multiprocessor" in message


@pytest.mark.parametrize(
    ("again", "work"),
    [
        ("%tb[%x, %i]", LIGHT),
        ("%ta[%y, %i]", LIGHT),
        ("%ta[%x, %zero]", LIGHT),
        ("%ta[%x, %i]", f"{MUCH}\n%w = mulf %w29, %v : {TILE}"),
    ],
    ids=["another array", "another row", "one tile", "much to compute"],
)
def test_others_stay_as_they_are(again: str, work: str) -> None:
    assert limited(again=again, work=work) == (None, [])


def test_a_decision_goes_before_the_model() -> None:
    assert limited(decided=0) == (None, [])
    size, told = limited(decided=5)
    assert size is not None and "at most 5 blocks per multiprocessor: as requested" in told[0]


@pytest.mark.parametrize("gpu", GPUS.values(), ids=[*GPUS])
@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 7])
def test_so_many_blocks_fit_and_not_one_more(gpu: object, blocks: int) -> None:
    size = bytes_that_leave(gpu, blocks)  # pyright: ignore
    assert resident_blocks(gpu, 1, 16, size) == blocks  # pyright: ignore


def test_more_bytes_in_flight_need_fewer_blocks() -> None:
    gpu = GPUS["h100"] if "h100" in GPUS else next(iter(GPUS.values()))
    found = [blocks_for_rereads(gpu, size, 0, 0) for size in (1 << 10, 8 << 10, 64 << 10)]
    known = [blocks for blocks in found if blocks is not None]
    assert len(known) == 3 and known == sorted(known, reverse=True)
    assert blocks_for_rereads(gpu, 1024, 0, float("inf")) is None
