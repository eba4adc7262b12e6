"""cuTile programs on the machine ``cuda`` without a GPU, and kernels of the corpus."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.corpus import CorpusKernel
from tests.corpus.launching import check_outputs, flat_arguments
from tests.gpu import fake_cuda
from tests.gpu.fake_cuda import FakeCuda
from tests.gpu.test_fake_launches import Interface
from tests.gpu.test_tiles import RUNNABLE

from tilewright import cutile
from tilewright.bytecode import read
from tilewright.launching.machine import load

ct: Any = pytest.importorskip("cuda.tile")


@ct.kernel
def add(x, y, out, width: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (width,)) + ct.load(y, (i,), (width,)))


@ct.kernel
def total(parts, out, width: ct.Constant[int]):
    found = ct.zeros((width,), ct.float32)
    for i in range(len(parts)):
        found += ct.load(parts[i], (0,), (width,))
    ct.store(out, (0,), found)


def numbers(count: int, start: float = 0.0) -> Any:
    return np.arange(count, dtype=np.float32) + np.float32(start)


def test_host_arrays(fake: FakeCuda) -> None:
    x, out = numbers(100), np.zeros(100, np.float32)
    with cutile.on("cuda"):
        for _ in range(2):
            ct.launch(0, (7,), add, (x, x, out, 16))
    np.testing.assert_array_equal(out, 2 * x)
    assert fake.counts["cuModuleLoadData"] == 1 and fake.used == 0


def test_arrays_that_overlap(fake: FakeCuda) -> None:
    base = numbers(200)
    with cutile.on("cuda"):
        ct.launch(0, (4,), add, (base[:64], base[16:80], base[128:192], 16))
    np.testing.assert_array_equal(base[128:192], 2 * numbers(64) + 16)
    np.testing.assert_array_equal(base[:128], numbers(128))


def test_lists_of_arrays(fake: FakeCuda) -> None:
    parts = [numbers(32), numbers(64)[::2], numbers(64)[32:]]
    out = np.zeros(32, np.float32)
    with cutile.on("cuda"):
        ct.launch(0, (1,), total, (parts, out, 32))
    np.testing.assert_array_equal(out, sum(parts))


def test_arrays_of_the_gpu(fake: FakeCuda) -> None:
    x, view = fake.array(numbers(64))
    out, out_view = fake.array(np.zeros(64, np.float32))
    host = numbers(64, 5)
    with cutile.on("cuda"):
        ct.launch(0, (4,), add, (Interface(x, view), host, Interface(out, out_view), 16))
        np.testing.assert_array_equal(out_view, view + host)
        assert fake.counts["cuCtxSynchronize"] == 1 and not fake.counts["cuMemcpyDtoHAsync"]
        parts = [Interface(x, view), host]
        ct.launch(0, (1,), total, (parts, Interface(out, out_view), 64))
    np.testing.assert_array_equal(out_view, view + host)


def test_arrays_of_the_gpu_are_for_the_gpu_only(fake: FakeCuda) -> None:
    x, view = fake.array(numbers(64))
    given = Interface(x, view)
    with cutile.on("cpu"), pytest.raises(ValueError, match="takes host memory"):
        ct.launch(0, (1,), add, (given, given, given, 64))


@pytest.mark.parametrize("kernel", RUNNABLE[::15], ids=lambda kernel: kernel.name)
def test_corpus_kernels_compute_what_is_expected(kernel: CorpusKernel, fake: FakeCuda) -> None:
    launch = kernel.launch
    assert launch is not None
    arguments = launch.arguments()
    program = load(read(kernel.export()), "cuda")
    flat = flat_arguments(kernel, arguments, program.map_array)
    program.launch(None, launch.grid, flat)
    assert check_outputs(launch, launch.arguments(), arguments) == []


def test_the_fake_has_what_the_real_driver_has() -> None:
    """By cuda-bindings, which can be imported without a GPU: names, numbers and fields."""
    driver: Any = pytest.importorskip("cuda.bindings.driver")
    for name in [n for n in dir(FakeCuda) if n.startswith("cu")]:
        assert hasattr(driver, name), name
    for ours, theirs in (
        (FakeCuda.CUdevice_attribute, driver.CUdevice_attribute),
        (FakeCuda.CUfunction_attribute, driver.CUfunction_attribute),
        (FakeCuda.CUlaunchAttributeID, driver.CUlaunchAttributeID),
        (FakeCuda.CUmemAllocationType, driver.CUmemAllocationType),
        (FakeCuda.CUmemAllocationHandleType, driver.CUmemAllocationHandleType),
        (FakeCuda.CUmemLocationType, driver.CUmemLocationType),
        (FakeCuda.CUmemPool_attribute, driver.CUmemPool_attribute),
    ):
        for member in ours:
            assert int(getattr(theirs, member.name)) == int(member), member.name
    for number, name in fake_cuda._NAMES.items():  # pyright: ignore[reportPrivateUsage]
        assert driver.CUresult(number).name == name
    for ours, theirs in (
        (fake_cuda._Config, driver.CUlaunchConfig),  # pyright: ignore[reportPrivateUsage]
        (fake_cuda._LaunchAttribute, driver.CUlaunchAttribute),  # pyright: ignore[reportPrivateUsage]
        (fake_cuda._PoolProps, driver.CUmemPoolProps),  # pyright: ignore[reportPrivateUsage]
        (fake_cuda._Location, driver.CUmemLocation),  # pyright: ignore[reportPrivateUsage]
    ):
        made = theirs()
        assert all(hasattr(made, field) for field in ours.__slots__), ours
    flags = driver.CU_MEMHOSTALLOC_PORTABLE, driver.CU_MEMHOSTALLOC_DEVICEMAP
    assert flags == (FakeCuda.CU_MEMHOSTALLOC_PORTABLE, FakeCuda.CU_MEMHOSTALLOC_DEVICEMAP)
