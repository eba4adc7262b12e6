"""`nvvm.wgmma.product` by itself: what it computes of registers and a descriptor, and which descriptors and
waits it refuses. Products of real tiles are in `tests/passes/tileas/test_tma.py`."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import LaunchOptions
from tilewright.diagnostics import TileIRError
from tilewright.simulator import Program
from tilewright.text import parse

_SWIZZLED, _STRIDE = 1 << 62, 1024 >> 4 << 32


def kernel(fields: int = _SWIZZLED | _STRIDE, shift: int = 0, fence: bool = True) -> str:
    """64x64 ones in registers times 64x64 ones in shared memory, at ``shift`` bytes, plus 2.
    What lies behind the ones is larger."""
    proxy = (
        "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}"
    )
    return f"""
module attributes {{gpu.container_module}} {{
  gpu.module @m {{
    memref.global "private" @t : memref<8192xf16, 3> {{alignment = 1024 : i64}}
    gpu.func @k(%out: memref<128x32xf32>) kernel {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c128 = arith.constant 128 : index
      %size = arith.constant 8192 : index
      %one = arith.constant 1.0 : f16
      %other = arith.constant 9.0 : f16
      %half = arith.constant 4096 : index
      %t = memref.get_global @t : memref<8192xf16, 3>
      %tid = gpu.thread_id x
      scf.for %i = %tid to %size step %c128 {{
        %inside = arith.cmpi ult, %i, %half : index
        %x = arith.select %inside, %one, %other : f16
        memref.store %x, %t[%i] : memref<8192xf16, 3>
      }}
      {proxy if fence else ""}
      gpu.barrier
      %at = memref.extract_aligned_pointer_as_index %t : memref<8192xf16, 3> -> index
      %shift = arith.constant {shift} : index
      %begin = arith.addi %at, %shift : index
      %start = arith.index_cast %begin : index to i64
      %four = arith.constant 4 : i64
      %mask = arith.constant 262143 : i64
      %low = arith.andi %start, %mask : i64
      %units = arith.shrui %low, %four : i64
      %fields = arith.constant {fields - (1 << 64) if fields >> 63 else fields} : i64
      %b = arith.addi %units, %fields : i64
      %a = arith.constant dense<1.0> : vector<32xf16>
      %c = arith.constant dense<2.0> : vector<32xf32>
      %d = nvvm.wgmma.product %a, %b, %c {{mmaShape = [64, 64, 64], element = f16, bOffsets = [0, 32, 64, 96], waitGroup = 0 : i32}} : vector<32xf16>, i64, vector<32xf32> -> vector<32xf32>
      vector.store %d, %out[%tid, %c0] : memref<128x32xf32>, vector<32xf32>
      gpu.return
    }}
  }}
}}
"""


def run(text: str) -> np.ndarray:
    out = np.zeros((128, 32), np.float32)
    Program(parse(text), "sm_90a").launch("k", 1, [out], LaunchOptions(block=128))
    return out


@pytest.mark.parametrize("swizzle", [1, 2, 3])
def test_ones(swizzle: int) -> None:
    rows = {1: 128, 2: 64, 3: 32}[swizzle]
    stride = 8 * rows >> 4 << 32
    assert (run(kernel(swizzle << 62 | stride)) == 66).all()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"fields": _STRIDE}, "has no swizzle, or a base offset"),
        ({"fields": _SWIZZLED | _STRIDE | 1 << 49}, "has no swizzle, or a base offset"),
        ({"shift": 512}, "begins at shared byte 512, which is not a multiple of the 1024"),
        ({"fields": _SWIZZLED | 0x3FFF << 32}, "leaves shared memory"),
        ({"fence": False}, "through the async proxy"),
    ],
)
def test_descriptors_that_are_refused(changes: dict[str, int], says: str) -> None:
    with pytest.raises(TileIRError, match=says):
        run(kernel(**changes))  # pyright: ignore[reportArgumentType]


def test_only_hopper_has_it() -> None:
    with pytest.raises(TileIRError, match="sm_90a"):
        Program(parse(kernel()), "sm_100a").launch(
            "k", 1, [np.zeros((128, 32), np.float32)], LaunchOptions(block=128)
        )


#: Two products one behind the other, of which none has been waited for at the end.
_CHAIN = """\
      %e = nvvm.wgmma.product %a, %b, %c {{mmaShape = [64, 64, 64], element = f16, bOffsets = [0, 32, 64, 96], waitGroup = 1 : i32}} : vector<32xf16>, i64, vector<32xf32> -> vector<32xf32>
      %d = nvvm.wgmma.product %a, %b, %e {{mmaShape = [64, 64, 64], element = f16, bOffsets = [0, 32, 64, 96], waitGroup = 1 : i32}} : vector<32xf16>, i64, vector<32xf32> -> vector<32xf32>
      {wait}
"""
_LOOP = """\
      %d = scf.for %i = %c0 to %c128 step %c64 iter_args(%s = %c) -> (vector<32xf32>) {{
        %e = nvvm.wgmma.product %a, %b, %s {{mmaShape = [64, 64, 64], element = f16, bOffsets = [0, 32, 64, 96], waitGroup = 1 : i32}} : vector<32xf16>, i64, vector<32xf32> -> vector<32xf32>
        {inside}
        scf.yield %e : vector<32xf32>
      }}
      {wait}
"""
_WAIT = "nvvm.wgmma.wait.group.sync.aligned {}"
_TOUCH = "%y = arith.addf %e, %e : vector<32xf32>"


def _unfinished(products: str) -> str:
    before, _, rest = kernel().partition("      %d = nvvm")
    return f"{before}      %c64 = arith.constant 64 : index\n{products}{rest.partition(chr(10))[2]}"


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "products, is_right",
    [
        (_CHAIN.format(wait=_WAIT.format(0)), True),
        (_CHAIN.format(wait=_WAIT.format(1)), False),
        (_CHAIN.format(wait=""), False),
        (_LOOP.format(inside="", wait=_WAIT.format(0)), True),
        (_LOOP.format(inside=_WAIT.format(0) + "\n" + _TOUCH, wait=""), True),
        (_LOOP.format(inside=_TOUCH, wait=_WAIT.format(0)), False),
        (_LOOP.format(inside="", wait=""), False),
    ],
)
def test_sums_are_ready_when_they_have_been_waited_for(
    products: str, is_right: bool, seed: int
) -> None:
    out = np.zeros((128, 32), np.float32)
    options = LaunchOptions(block=128, seed=seed, strict=False)
    found = Program(parse(_unfinished(products)), "sm_90a").launch("k", 1, [out], options)
    assert (out == 130).all()
    if is_right:
        assert not found.diagnostics
        return
    (diagnostic,) = found.diagnostics
    assert diagnostic.code == "sim-accumulator-not-awaited"
    assert "reads an accumulator whose product is still in flight" in diagnostic.message
    assert diagnostic.location is not None and diagnostic.notes[0].location is not None
