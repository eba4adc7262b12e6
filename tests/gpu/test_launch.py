"""Launches: what is checked before a GPU is asked for, and runs on one where there is one."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    MemRefType,
)

from tilewright import gpu
from tilewright.diagnostics import TileIRError
from tilewright.dialects.nvgpu.types import TensorMapDescriptorType
from tilewright.gpu.device_arrays import DeviceArray, device_array
from tilewright.gpu.driver import Gpu, open_gpu
from tilewright.gpu.launch import launch, pack_number
from tilewright.gpu.tensor_maps import plan_map
from tilewright.numerics.strides import row_major
from tilewright.text import parse

EXAMPLES = Path(__file__).parents[2] / "examples" / "nvgpu"


def _missing_gpu() -> str:
    """Why there is no GPU to run on; empty where there is one."""
    try:
        open_gpu()
    except TileIRError as error:
        return error.diagnostics[0].message
    return ""


MISSING = _missing_gpu()
requires_gpu = pytest.mark.skipif(bool(MISSING), reason=MISSING or "there is a GPU")


def vector_add() -> gpu.CompiledKernel:
    module = parse((EXAMPLES / "vector_add.mlir").read_bytes())
    return gpu.compile_kernel(module, "sm_80")


def refused(function: Any, *args: Any, **keywords: Any) -> str:
    with pytest.raises(TileIRError) as caught:
        function(*args, **keywords)
    (found,) = caught.value.diagnostics
    return found.message


def test_parameters_are_those_of_upstream() -> None:
    kernel = vector_add()
    fields = [each.what for each in kernel.parameters[0].fields]
    assert fields == ["allocated", "aligned", "offset", "size0", "stride0"]
    assert kernel.ptx.count(".param .u64") == 3 * len(fields)
    assert kernel.block == (128, 1, 1)


@pytest.mark.skipif(not MISSING, reason="there is a GPU")
def test_a_missing_gpu_is_one_line() -> None:
    arrays = [np.zeros(8, np.float32)] * 3
    message = refused(launch, vector_add(), 1, arrays)
    assert message == MISSING
    assert "\n" not in message


def test_what_a_launch_lacks_is_said_before_a_gpu_is_asked_for() -> None:
    kernel = vector_add()
    assert "takes 3 arguments (a, b, c), got 1" in refused(launch, kernel, 1, [1])
    assert "requires a block of (128, 1, 1), got (64, 1, 1)" in refused(
        launch, kernel, 1, [1, 2, 3], block=64
    )
    assert "not a multiple of the cluster" in refused(launch, kernel, 3, [1, 2, 3], cluster=2)
    assert "at least 1" in refused(launch, kernel, (0, 1), [1, 2, 3])
    for grid in ((1, 65_536), (1, 1, 65_536)):
        assert "at most 65,535 blocks in y and in z" in refused(launch, kernel, grid, [1, 2, 3])


@pytest.mark.parametrize(
    ("ty", "number", "data"),
    [
        (IntegerType(32), -2, struct.pack("<i", -2)),
        (IntegerType(32), 2**32 - 1, b"\xff" * 4),
        (IntegerType(1), 1, b"\x01"),
        (IndexType(), np.int32(7), struct.pack("<q", 7)),
        (Float32Type(), 1.5, struct.pack("<f", 1.5)),
        (Float64Type(), 0.1, struct.pack("<d", 0.1)),
        (Float16Type(), -2.0, struct.pack("<e", -2.0)),
        (BFloat16Type(), 1.0, b"\x80\x3f"),
        # Through f32 it would be midway between two numbers, and then the even one.
        (BFloat16Type(), 1 + 2**-8 + 2**-40, b"\x81\x3f"),
    ],
)
def test_numbers_are_packed_as_their_type(ty: Any, number: Any, data: bytes) -> None:
    assert pack_number(ty, number, "n") == data


def test_numbers_that_do_not_fit_are_refused() -> None:
    assert "'n' takes an integer of 8 bits, got 300" in refused(
        pack_number, IntegerType(8), 300, "n"
    )
    assert "'n' takes an integer" in refused(pack_number, IntegerType(8), 1.5, "n")
    assert "'n' takes a number" in refused(pack_number, Float32Type(), "x", "n")


# Tensor maps


def _map(shape: tuple[int, ...], element: Any, swizzle: str = "none") -> TensorMapDescriptorType:
    box = MemRefType(element, shape, memory_space=_shared())
    return TensorMapDescriptorType(box, swizzle)


def _shared() -> Any:
    from xdsl.dialects.builtin import IntegerAttr

    return IntegerAttr(3, 64)


def _dense(shape: tuple[int, ...], bits: int, address: int = 4096) -> DeviceArray:
    return DeviceArray(address, shape, row_major(shape), bits, "f", None)


def test_a_map_names_the_innermost_dimension_first() -> None:
    plan = plan_map(_map((8, 64), Float16Type(), "swizzle_128b"), _dense((100, 256), 16), "m")
    assert plan.extents == (256, 100)
    assert plan.strides == (512,)
    assert plan.box == (64, 8)
    assert (plan.element, plan.swizzle, plan.oob) == (6, 3, 0)


@pytest.mark.parametrize(
    ("array", "swizzle", "says"),
    [
        (_dense((100, 256), 32), "none", "takes elements of 16 bits"),
        (_dense((100,), 16), "none", "takes an array of rank 2"),
        (_dense((100, 256), 16, 4100), "none", "address is a multiple of 16"),
        (_dense((100, 100), 16), "none", "row strides are multiples of 16 bytes, got (200,)"),
        (DeviceArray(0, (9, 8), (8, 2), 16, "f", None), "none", "last dimension is dense"),
        (_dense((0, 256), 16), "none", "not empty"),
        (_dense((100, 256), 16), "swizzle_64b", "do not fit 64"),
    ],
)
def test_a_map_of_what_cannot_be_mapped_is_refused(
    array: DeviceArray, swizzle: str, says: str
) -> None:
    assert says in refused(plan_map, _map((8, 64), Float16Type(), swizzle), array, "m")


@pytest.mark.parametrize(
    ("box", "extents", "says"),
    [
        ((512, 64), (1024, 256), r"box of \(512, 64\), but a box has at most 256"),
        (
            (2, 2, 2, 2, 2, 64),
            (4, 4, 4, 4, 4, 64),
            "has 6 dimensions, but tensor maps have at most 5",
        ),
        ((8, 64), (1 << 33, 64), "extents of at most 4,294,967,296"),
    ],
)
def test_boxes_and_arrays_beyond_all_maps_are_refused(
    box: tuple[int, ...], extents: tuple[int, ...], says: str
) -> None:
    """What the driver answers by "invalid value"."""
    with pytest.raises(TileIRError, match=says):
        plan_map(_map(box, Float16Type()), _dense(extents, 16), "m")


@pytest.mark.parametrize("threads", ["2048, 1, 1", "0, 1, 1", "1, 1, 128", "32, 33, 1"])
def test_blocks_that_no_gpu_has_are_refused(threads: str) -> None:
    text = (
        "module attributes {gpu.container_module} { gpu.module @m { gpu.func @k() kernel attributes "
        f"{{gpu.known_block_size = array<i32: {threads}>}} {{ gpu.return }} }} }}"
    )
    with pytest.raises(TileIRError, match="no GPU has blocks of") as caught:
        gpu.compile_kernel(parse(text), "sm_90a")  # pyright: ignore[reportArgumentType]
    assert caught.value.diagnostics[0].code == "gpu-unsupported"
    assert gpu.compile_kernel(parse(text.replace(threads, "32, 32, 1")), "sm_90a")  # pyright: ignore[reportArgumentType]


def test_arrays_in_host_memory_are_told_from_those_on_a_gpu() -> None:
    torch = pytest.importorskip("torch")
    assert "is not on a GPU" in refused(device_array, torch.zeros(4), "a")
    assert "takes an array, got int" in refused(device_array, 5, "a")


# What a GPU can run


def _gpu(capability: int, version: int = 13000) -> Gpu:
    return Gpu(None, None, "Test GPU", capability, version)


@pytest.mark.parametrize(
    ("capability", "arch"),
    [(80, "sm_80"), (90, "sm_90a"), (100, "sm_100a"), (120, "sm_120a"), (110, "sm_103")],
)
def test_a_gpu_gets_the_most_that_it_can_run(capability: int, arch: str) -> None:
    assert _gpu(capability).best_architecture().name == arch


def test_a_gpu_that_is_too_old_says_so() -> None:
    archs = gpu.ARCHITECTURES
    _gpu(90).check(archs["sm_80"], 80)
    assert "of sm_75" in refused(_gpu(75).best_architecture)
    assert "cannot run code for sm_90a" in refused(_gpu(100).check, archs["sm_90a"], 80)
    assert "cannot run code for sm_90" in refused(_gpu(86).check, archs["sm_90"], 80)
    assert "the driver is too old: it knows CUDA 12.0, and the code needs 12.8" in refused(
        _gpu(120, 12000).check, archs["sm_120a"], 87
    )


@requires_gpu
def test_it_runs() -> None:
    a, b = np.arange(2000, dtype=np.float32), np.full(2000, 0.5, np.float32)
    c = np.zeros(2000, np.float32)
    found = launch(vector_add(), 4, [a, b, c])
    np.testing.assert_array_equal(c, a + b)
    assert found.milliseconds > 0


@requires_gpu
def test_it_runs_on_arrays_of_torch() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    a, b = torch.rand(2000, device="cuda"), torch.rand(2000, device="cuda")
    c = torch.zeros_like(a)
    launch(vector_add(), 4, [a, b, c])
    assert torch.equal(c, a + b)
