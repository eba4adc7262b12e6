"""Several threads that launch from one program at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.launching.test_machines import every_machine

import tilewright
from tilewright.numerics.arrays import Array

_KERNEL = """
cuda_tile.module @m {
  entry @scaled(%x: tile<ptr<f32>>, %out: tile<ptr<f32>>, %by: tile<f32>) {
    %i = iota : tile<64xi32>
    %x1 = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
    %x2 = broadcast %x1 : tile<1xptr<f32>> -> tile<64xptr<f32>>
    %from = offset %x2, %i : tile<64xptr<f32>>, tile<64xi32> -> tile<64xptr<f32>>
    %a, %t = load_ptr_tko weak %from : tile<64xptr<f32>> -> tile<64xf32>, token
    %by1 = reshape %by : tile<f32> -> tile<1xf32>
    %by2 = broadcast %by1 : tile<1xf32> -> tile<64xf32>
    %b = mulf %a, %by2 : tile<64xf32>
    %out1 = reshape %out : tile<ptr<f32>> -> tile<1xptr<f32>>
    %out2 = broadcast %out1 : tile<1xptr<f32>> -> tile<64xptr<f32>>
    %to = offset %out2, %i : tile<64xptr<f32>>, tile<64xi32> -> tile<64xptr<f32>>
    %u = store_ptr_tko weak %to, %b : tile<64xptr<f32>>, tile<64xf32> -> token
    return
  }
}
"""


@pytest.fixture
def eager_switches() -> Iterator[None]:
    """Threads change as often as the interpreter lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@every_machine
def test_launches_of_several_threads_do_not_mix(machine: str, eager_switches: None) -> None:
    for _ in range(3):  # The first launch of a program does more than later ones.
        program = tilewright.load(tilewright.parse(_KERNEL), machine)

        def launched(number: int, program: object = program) -> tuple[Array, Array]:
            x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
            program.launch("scaled", 1, [x, out, float(number)])  # pyright: ignore
            return out, x * number

        with ThreadPoolExecutor(4) as pool:
            for out, wanted in pool.map(launched, range(8)):
                assert (out == wanted).all()
