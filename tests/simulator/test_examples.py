"""The worked kernels against NumPy, in several schedules, without diagnostics."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.simulator.kernels import EXAMPLES

from tilewright import LaunchOptions
from tilewright.numerics.tensor_cores import MODES, multiply_add, unit_of
from tilewright.simulator import Program

_PROGRAMS: dict[str, Program] = {}


def program(name: str) -> Program:
    if name not in _PROGRAMS:
        path = EXAMPLES / name
        _PROGRAMS[name] = Program.parse(path.read_text(), str(path))
    return _PROGRAMS[name]


def _operands(rows: int, columns: int, depth: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(rows + columns + depth)
    a, b = rng.standard_normal((rows, depth)), rng.standard_normal((depth, columns))
    return a.astype(np.float16), b.astype(np.float16)


@pytest.mark.parametrize("count", [1, 511, 512, 2000])
def test_vector_add(count: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random(count, np.float32), rng.random(count, np.float32)
    c = np.zeros(count, np.float32)
    result = program("vector_add.mlir").launch(
        None, -(-count // 512), [a, b, c], arch="sm_80", options=LaunchOptions(block=128)
    )
    assert (c == a + b).all() and not result.diagnostics


@pytest.mark.parametrize("count", [1, 512, 2000])
def test_histogram(count: int) -> None:
    numbers = np.random.default_rng(0).random(count, np.float32)
    bins = np.zeros(64, np.int32)
    args = [numbers, bins, count]
    result = program("histogram.mlir").launch(
        None, -(-count // 512), args, arch="sm_80", options=LaunchOptions(block=128)
    )
    assert bins.tolist() == np.bincount((numbers * 64).astype(int), minlength=64).tolist()
    assert not result.diagnostics


@pytest.mark.parametrize("seed", [0, 1])
def test_matmul_of_8_bit_floats(seed: int) -> None:
    dtype = ml_dtypes.float8_e4m3fn
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal((rows, 256)).astype(dtype) for rows in (128, 64))
    d = np.zeros((128, 64), np.float32)
    result = program("matmul_fp8.mlir").launch(
        None, (1, 2), [a, b, d, 2], options=LaunchOptions(block=128, seed=seed)
    )
    unit = unit_of("wgmma", "f8E4M3FN", 90)
    wanted = np.zeros_like(d)
    for k in (0, 128):
        wanted = multiply_add(a[:, k : k + 128], b[:, k : k + 128].T, wanted, "f8E4M3FN", unit)
    assert d.tobytes() == wanted.tobytes()
    assert not result.diagnostics, [found.brief() for found in result.diagnostics]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a"])
def test_matmul_by_mma(arch: str, seed: int) -> None:
    a, b = _operands(64, 128, 64)
    d = np.zeros((64, 128), np.float32)
    result = program("matmul_mma.mlir").launch(
        None, (2, 1), [a, b, d], arch=arch, options=LaunchOptions(block=128, seed=seed)
    )
    unit = unit_of("mma", "f16", int(arch[3:5]))
    wanted = np.zeros_like(d)
    for k in range(0, 64, 16):
        wanted = multiply_add(a[:, k : k + 16], b[k : k + 16], wanted, "f16", unit)
    assert d.tobytes() == wanted.tobytes()
    assert not result.diagnostics
    assert result.counters.bank_conflicts == 0


def _hopper(name: str, m: int, n: int, k: int, **options: Any) -> tuple[Any, Any, Any]:
    a, b = _operands(m, n, k)
    d = np.zeros((m, n), np.float32)
    grid = -(-n // 128), -(-m // 128)
    result = program(name).launch(
        None, grid, [a, b, d, k // 64], options=LaunchOptions(block=384, **options)
    )
    assert not result.diagnostics
    wanted = multiply_add(
        a,
        b,
        np.zeros_like(d),
        "f16",
        unit_of("wgmma", "f16", 90),
        options.get("numerics", MODES[0]),
    )
    return d, wanted, result


@pytest.mark.parametrize("seed", range(4))
def test_hopper_matmul(seed: int) -> None:
    d, wanted, result = _hopper("matmul_hopper.mlir", 128, 128, 320, seed=seed)
    assert d.tobytes() == wanted.tobytes()
    assert result.counters.wgmma_instructions == 2 * 5
    assert result.counters.tensor_operations == 2 * 128 * 128 * 320
    assert result.counters.tma_bytes_loaded == 5 * 32768


def test_hopper_matmul_of_several_blocks() -> None:
    d, wanted, _ = _hopper("matmul_hopper.mlir", 256, 256, 64)
    assert d.tobytes() == wanted.tobytes()


def test_hopper_matmul_portable() -> None:
    d, wanted, _ = _hopper("matmul_hopper.mlir", 128, 128, 64, numerics="portable")
    assert d.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("rows", [128, 100])
def test_hopper_matmul_with_tma_store(rows: int) -> None:
    """Rows outside of the tensors are zeros when loaded, and left out when stored."""
    d, wanted, result = _hopper("matmul_hopper_tma_store.mlir", rows, 128, 128)
    assert d.tobytes() == wanted.tobytes()
    assert result.counters.tma_bytes_stored == 128 * 128 * 4


def test_schedules_differ_in_time_only() -> None:
    found = [
        _hopper("matmul_hopper.mlir", 128, 128, 320, seed=seed)[0].tobytes() for seed in (5, 6)
    ]
    assert found[0] == found[1]


TYPES = {
    "bf16": (ml_dtypes.bfloat16, np.float32, (16, 8, 16)),
    "tf32": (np.float32, np.float32, (16, 8, 8)),
    "i8": (np.int8, np.int32, (16, 8, 32)),
    "f64": (np.float64, np.float64, (8, 8, 4)),
}


@pytest.mark.parametrize("name", TYPES)
def test_element_types(name: str) -> None:
    dtype, acc, (m, n, k) = TYPES[name]
    rng = np.random.default_rng(3)
    a = rng.integers(-8, 9, (m, k)).astype(dtype)
    b = rng.integers(-8, 9, (n, k)).astype(dtype)
    d = np.zeros((m, n), acc)
    result = program("mma_types.mlir").launch(
        name, 1, [a, b, d], arch="sm_80", options=LaunchOptions(block=32)
    )
    assert (d == a.astype(np.float64) @ b.astype(np.float64).T).all()
    assert not result.diagnostics


def test_sparse_product() -> None:
    """The public test data of LLVM: stored i + j + 1, b[k][n] = n - k."""
    a = (np.arange(16)[:, None] + np.arange(16) + 1).astype(np.float16)
    b = (np.arange(8)[:, None] - np.arange(32)).astype(np.float16)
    d = np.zeros((16, 8), np.float32)
    program("mma_types.mlir").launch(
        "sparse_f16", 1, [a, b, d], arch="sm_80", options=LaunchOptions(block=32)
    )
    assert d[0].tolist() == [-2720, -2584, -2448, -2312, -2176, -2040, -1904, -1768]
    assert d[1, 0] == -2960
