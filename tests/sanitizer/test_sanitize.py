"""The sanitizer's interface: what it raises, returns and leaves behind."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
from tilewright import LaunchOptions

OVERLAP = """
entry @k(%out: tile<ptr<f32>>) {
  %x, %y, %z = get_tile_block_id : tile<i32>
  %zero = constant <i32: 0> : tile<i32>
  %value = constant <f32: 1.0> : tile<4x8xf32>
  %view = make_tensor_view %out, shape = [8, 8], strides = [8, 1] : tensor_view<8x8xf32, strides=[8,1]>
  %tiles = make_partition_view %view : partition_view<tile=(4x8), tensor_view<8x8xf32, strides=[8,1]>>
  %t = store_view_tko weak %value, %tiles[%zero, %zero] : tile<4x8xf32>, partition_view<tile=(4x8), tensor_view<8x8xf32, strides=[8,1]>>, tile<i32> -> token
}
"""


def test_a_race_names_blocks_elements_and_both_places() -> None:
    module = tilewright.parse(OVERLAP, "overlap.tileir")
    report = tilewright.sanitize(module, None, (3, 1, 1), [np.zeros((8, 8), np.float32)])
    (found,) = report.diagnostics
    assert found.code == "race"
    assert "%out[0:4, 0:8]" in found.message
    assert found.line == 8
    assert found.notes[0].location is not None
    texts = [note.message for note in found.notes]
    assert texts[0].startswith("(1) tile block (0, 0, 0) wrote %out[0:4, 0:8]")
    assert "in tile block (1, 0, 0)" in texts


def test_run_with_sanitize_raises_what_is_found_and_passes_clean_kernels() -> None:
    module = tilewright.parse(OVERLAP)
    out = np.zeros((8, 8), np.float32)
    with pytest.raises(tilewright.TileIRError, match="race"):
        tilewright.run(module, None, (2, 1, 1), [out], options=LaunchOptions(sanitize=True))
    result = tilewright.run(module, None, (1, 1, 1), [out], options=LaunchOptions(sanitize=True))
    assert result.outputs[0] is out and out[:4].all() and not out[4:].any()


def test_bad_arguments_are_an_error_not_a_finding() -> None:
    with pytest.raises(tilewright.TileIRError, match="bad-argument"):
        tilewright.sanitize(tilewright.parse(OVERLAP), None, (1, 1, 1), [])


def test_each_seed_starts_from_the_same_arrays() -> None:
    counter = """
entry @k(%p: tile<ptr<i32>>) {
  %one = constant <i32: 1> : tile<i32>
  %old, %t = atomic_rmw_tko relaxed device %p, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
}
"""
    cell = np.array([5], np.int32)
    report = tilewright.sanitize(
        tilewright.parse(counter), None, (4, 1, 1), [cell], options=LaunchOptions(seeds=3)
    )
    assert report.is_clean and report.seeds == (0, 1, 2)
    assert cell[0] == 9


def test_races_can_be_left_out() -> None:
    module = tilewright.parse(OVERLAP)
    out = np.zeros((8, 8), np.float32)
    assert tilewright.sanitize(
        module, None, (2, 1, 1), [out], options=LaunchOptions(races=False)
    ).is_clean
