"""Products of a warpgroup for other types, layouts and extents than the worked kernels have."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright import LaunchOptions
from tilewright.numerics.tensor_cores import multiply_add, unit_of
from tilewright.simulator import Program, SimulationResult

_MAP = "!nvgpu.tensormap.descriptor<tensor = {}, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>"


def _loads(name: str, slabs: int, rows: int, columns: int, element: str) -> str:
    """TMA loads of the boxes of an operand, side by side in the tensor, one behind the other in
    shared memory."""
    found = ""
    for i in range(slabs):
        ty = f"memref<{rows}x{columns}x{element}, strided<[{columns}, 1], offset: {i * rows * columns}>, 3>"
        found += f"""
      %{name}{i}at = arith.constant {i * columns} : index
      %{name}{i} = memref.subview %{name}all[{i}, 0, 0] [1, {rows}, {columns}] [1, 1, 1] : memref<{slabs}x{rows}x{columns}x{element}, 3> to {ty}
      nvgpu.tma.async.load %{name}[%{name}{i}at, %c0], %bar[%c0] to %{name}{i}, predicate = %first : !map_{name}, !bars -> {ty}"""
    return found


def _text(element: str, m: int, n: int, k: int, flags: str, lines: tuple[int, int]) -> str:
    """One product of tiles that boxes of so many lines of 128 bytes fill; memrefs of whole tiles
    give the descriptors."""
    width = 128 // _size(element)
    a_slabs, b_slabs = m * k // (lines[0] * width), n * k // (lines[1] * width)
    boxes = [f"{count}x{width}" for count in lines]
    a_ty, b_ty = (f"memref<{box}x{element}, 3>" for box in boxes)
    loads = _loads("a", a_slabs, lines[0], width, element)
    loads += _loads("b", b_slabs, lines[1], width, element)
    return f"""
!bars = !nvgpu.mbarrier.group<memorySpace = 3>
!map_a = {_MAP.format(a_ty)}
!map_b = {_MAP.format(b_ty)}
!desc_a = !nvgpu.warpgroup.descriptor<tensor = memref<{m}x{k}x{element}, 3>>
!desc_b = !nvgpu.warpgroup.descriptor<tensor = memref<{k}x{n}x{element}, 3>>
!acc = !nvgpu.warpgroup.accumulator<fragmented = vector<{m}x{n}xf32>>
module attributes {{gpu.container_module}} {{
  gpu.module @m {{
    memref.global "private" @a : memref<{a_slabs}x{boxes[0]}x{element}, 3> {{alignment = 1024 : i64}}
    memref.global "private" @b : memref<{b_slabs}x{boxes[1]}x{element}, 3> {{alignment = 1024 : i64}}
    gpu.func @k(%a: !map_a, %b: !map_b, %d: memref<{m}x{n}xf32>) kernel {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %bytes = arith.constant {(m + n) * k * _size(element)} : index
      %even = arith.constant false
      %tid = gpu.thread_id x
      %first = arith.cmpi eq, %tid, %c0 : index
      %aall = memref.get_global @a : memref<{a_slabs}x{boxes[0]}x{element}, 3>
      %ball = memref.get_global @b : memref<{b_slabs}x{boxes[1]}x{element}, 3>
      %bar = nvgpu.mbarrier.create -> !bars
      nvgpu.mbarrier.init %bar[%c0], %c1, predicate = %first : !bars
      nvvm.fence.mbarrier.init
      gpu.barrier
      nvgpu.mbarrier.arrive.expect_tx %bar[%c0], %bytes, predicate = %first : !bars
      {loads}
      nvgpu.mbarrier.try_wait.parity %bar[%c0], %even, %bytes : !bars
      %ta = memref.reinterpret_cast %aall to offset: [0], sizes: [{m}, {k}], strides: [{k}, 1] : memref<{a_slabs}x{boxes[0]}x{element}, 3> to memref<{m}x{k}x{element}, 3>
      %tb = memref.reinterpret_cast %ball to offset: [0], sizes: [{k}, {n}], strides: [{n}, 1] : memref<{b_slabs}x{boxes[1]}x{element}, 3> to memref<{k}x{n}x{element}, 3>
      %da = nvgpu.warpgroup.generate.descriptor %ta, %a : memref<{m}x{k}x{element}, 3>, !map_a -> !desc_a
      %db = nvgpu.warpgroup.generate.descriptor %tb, %b : memref<{k}x{n}x{element}, 3>, !map_b -> !desc_b
      %zero = nvgpu.warpgroup.mma.init.accumulator -> !acc
      %sum = nvgpu.warpgroup.mma %da, %db, %zero {{waitGroup = 0 : i32{flags}}} : !desc_a, !desc_b, !acc -> !acc
      nvgpu.warpgroup.mma.store %sum, %d : !acc to memref<{m}x{n}xf32>
      gpu.return
    }}
  }}
}}
"""


def _size(element: str) -> int:
    return {"f16": 2, "bf16": 2, "tf32": 4}.get(element, 1)


_DTYPES: dict[str, tuple[Any, str]] = {
    "f16": (np.float16, "f16"),
    "bf16": (ml_dtypes.bfloat16, "bf16"),
    "tf32": (np.float32, "tf32"),
    "f8E4M3FN": (ml_dtypes.float8_e4m3fn, "f8E4M3FN"),
    "f8E5M2": (ml_dtypes.float8_e5m2, "f8E5M2"),
}


def _run(
    element: str, m: int, n: int, k: int, *, a_transposed: bool = False, b_transposed: bool = False
) -> tuple[np.ndarray, np.ndarray, SimulationResult]:
    dtype, name = _DTYPES[element]
    rng = np.random.default_rng(m + n + k)
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    lines = (k if a_transposed else m, k if b_transposed else n)
    flags = (", transposeA" if a_transposed else "") + (", transposeB" if b_transposed else "")
    stored_a = np.ascontiguousarray(a.T if a_transposed else a)
    stored_b = np.ascontiguousarray(b if b_transposed else b.T)
    d = np.zeros((m, n), np.float32)
    program = Program.parse(_text(element, m, n, k, flags, lines))
    result = program.launch(
        "k", 1, [stored_a, stored_b, d], options=LaunchOptions(block=128, strict=False)
    )
    wanted = multiply_add(a, b, np.zeros_like(d), name, unit_of("wgmma", name, 90))
    return d, wanted, result


@pytest.mark.parametrize(
    ("element", "m", "n", "k"),
    [
        ("f16", 64, 64, 64),
        ("f16", 128, 8, 64),
        ("f16", 192, 256, 64),
        ("bf16", 128, 40, 64),
        ("tf32", 64, 24, 32),
        ("f8E4M3FN", 64, 32, 128),
        ("f8E5M2", 128, 64, 128),
    ],
)
def test_k_major_operands(element: str, m: int, n: int, k: int) -> None:
    d, wanted, result = _run(element, m, n, k)
    assert not result.diagnostics, [found.brief() for found in result.diagnostics]
    assert d.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(("m", "n"), [(64, 64), (128, 192)])
@pytest.mark.parametrize("a_transposed", [False, True])
def test_transposed_operands(m: int, n: int, a_transposed: bool) -> None:
    d, wanted, result = _run("f16", m, n, 64, a_transposed=a_transposed, b_transposed=True)
    assert not result.diagnostics, [found.brief() for found in result.diagnostics]
    assert d.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("operand", "row", "flags"),
    [
        *(("ta", row, "") for row in (0, 17, 40, 63, 64, 127)),
        ("ta", 127, ", transposeA, transposeB"),
        ("tb", 60, ""),
    ],
)
def test_all_of_both_operands_is_read_by_a_warp(operand: str, row: int, flags: str) -> None:
    """What threads have stored there without a proxy fence is found, in whichever warp's rows; what they store elsewhere
    is not."""
    n = 64 if flags else 8
    shape = {"ta": "128x64", "tb": f"64x{n}"}[operand]
    store = f"""
      %row = arith.constant {row} : index
      scf.if %first {{
        memref.store %one, %{operand}[%row, %c0] : memref<{shape}xf16, 3>
      }}
      gpu.barrier
"""
    other = """
      %one = arith.constant 1.0 : f16
      %call = memref.get_global @c : memref<2048xf16, 3>
      memref.store %one, %call[%tid] : memref<2048xf16, 3>
"""
    text = _text("f16", 128, n, 64, flags, (64, 64) if flags else (128, 8))
    held = 'memref.global "private" @a'
    text = text.replace(held, f'memref.global "private" @c : memref<2048xf16, 3>\n    {held}')
    before, da, behind = text.replace("      %ta =", f"{other}      %ta =").partition("      %da =")
    a = np.ones((64, 128) if flags else (128, 64), np.float16)
    b, d = np.ones((n, 64), np.float16), np.zeros((128, n), np.float32)
    for text, wanted in (
        (before + store + da + behind, {"sim-missing-proxy-fence"}),
        (before + da + behind, set()),
    ):
        options = LaunchOptions(block=128, strict=False)
        result = Program.parse(text).launch("k", 1, [a, b, d], options=options)
        assert {found.code for found in result.diagnostics} == wanted
