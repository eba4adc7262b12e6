"""Launches on the machine ``cuda`` without a GPU: a driver whose kernels the simulator runs (``fake_cuda``)."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.gpu.fake_cuda import FakeCuda, installed

import tilewright
from tilewright import LaunchOptions, gpu
from tilewright.diagnostics import TileIRError
from tilewright.gpu import launch as launching
from tilewright.gpu import tools
from tilewright.gpu.driver import open_gpu
from tilewright.gpu.launch import launch
from tilewright.numerics.arrays import Array
from tilewright.text import parse

EXAMPLES = Path(__file__).parents[2] / "examples"
OVERLAP = LaunchOptions(allow_overlap=True)

ADD = """
entry @add(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %out: tile<ptr<f32>>) {
  %i = iota : tile<64xi32>
  %t0 = make_token : token
  %px0 = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
  %px1 = broadcast %px0 : tile<1xptr<f32>> -> tile<64xptr<f32>>
  %px = offset %px1, %i : tile<64xptr<f32>>, tile<64xi32> -> tile<64xptr<f32>>
  %py0 = reshape %y : tile<ptr<f32>> -> tile<1xptr<f32>>
  %py1 = broadcast %py0 : tile<1xptr<f32>> -> tile<64xptr<f32>>
  %py = offset %py1, %i : tile<64xptr<f32>>, tile<64xi32> -> tile<64xptr<f32>>
  %po0 = reshape %out : tile<ptr<f32>> -> tile<1xptr<f32>>
  %po1 = broadcast %po0 : tile<1xptr<f32>> -> tile<64xptr<f32>>
  %po = offset %po1, %i : tile<64xptr<f32>>, tile<64xi32> -> tile<64xptr<f32>>
  %a, %t1 = load_ptr_tko weak %px : tile<64xptr<f32>> -> tile<64xf32>, token
  %b, %t2 = load_ptr_tko weak %py : tile<64xptr<f32>> -> tile<64xf32>, token
  %j = join_tokens %t1, %t2 : token
  %c = addf %a, %b rounding<nearest_even> : tile<64xf32>
  %t3 = store_ptr_tko weak %po, %c token=%j : tile<64xptr<f32>>, tile<64xf32> -> token
  return
}
"""


def load(text: str = ADD, **options: Any) -> Any:
    return tilewright.load(parse(text), "cuda", LaunchOptions(**options))


def refused(function: Any, *args: Any, **keywords: Any) -> list[Any]:
    with pytest.raises(TileIRError) as caught:
        function(*args, **keywords)
    return list(caught.value.diagnostics)


def numbers(count: int, start: float = 0.0) -> Array:
    return np.arange(count, dtype=np.float32) + np.float32(start)


# Overlaps and identity


def on_every_machine(make: Any) -> tuple[Array, Array]:
    """What a launch leaves of an array of which all arguments are parts: on the reference, on the GPU."""
    found: list[Array] = []
    for machine in ("reference", "cuda"):
        base, args = make()
        tilewright.run(parse(ADD), None, 1, args, machine, OVERLAP)
        found.append(base)
    return found[0], found[1]


def _same() -> tuple[Array, list[Array]]:
    base = numbers(64)
    return base, [base, base, base]


def _two_views_of_one() -> tuple[Array, list[Array]]:
    base = numbers(200)
    return base, [base[8:72], base[100:164], base[40:104]]


def _shifted_by_one() -> tuple[Array, list[Array]]:
    base = numbers(65)
    return base, [base[1:], base[1:], base[:64]]


def _with_gaps() -> tuple[Array, list[Array]]:
    base = numbers(400).reshape(100, 4)
    return base, [base[:, 1], base[:, 2], base[:, 3]]


def _backwards() -> tuple[Array, list[Array]]:
    base = numbers(400)
    return base, [base[100:164], base[300:364], base[99:20:-1][-64:][::-1]]


@pytest.mark.parametrize(
    "make", [_same, _two_views_of_one, _shifted_by_one, _with_gaps, _backwards]
)
def test_what_is_one_array_is_one_on_the_gpu(make: Any, fake: FakeCuda) -> None:
    wanted, found = on_every_machine(make)
    np.testing.assert_array_equal(found, wanted)
    assert fake.used == 0


def test_an_array_that_is_passed_three_times_is_copied_once(fake: FakeCuda) -> None:
    base = numbers(64)
    tilewright.run(parse(ADD), None, 1, [base, base, base], "cuda", OVERLAP)
    assert fake.counts["cuMemcpyHtoDAsync"] == fake.counts["cuMemcpyDtoHAsync"] == 1
    assert fake.counts["cuMemAllocFromPoolAsync"] == 1


def test_only_what_may_be_written_comes_back(fake: FakeCuda) -> None:
    x, y, out = numbers(64), numbers(64, 5), np.zeros(64, np.float32)
    load().launch(None, 1, [x, y, out])
    assert fake.counts["cuMemcpyHtoDAsync"] == 3
    assert fake.counts["cuMemcpyDtoHAsync"] == 1
    np.testing.assert_array_equal(out, x + y)


def test_bytes_between_the_elements_stay_as_the_host_has_them(fake: FakeCuda) -> None:
    """While the kernel runs, somebody else writes what lies between the elements of its arrays."""
    base = np.zeros((64, 4), np.float32)
    program = load(STRIDED)
    program.launch(None, 1, [base[:, 1], 4])

    def elsewhere() -> None:
        base[:, 0] = 7

    fake.on_query = elsewhere
    program.launch(None, 1, [base[:, 1], 4])
    assert (base[:, 0] == 7).all() and (base[:, 1] == 2).all() and not base[:, 2:].any()


STRIDED = """
entry @bump(%x: tile<ptr<f32>>, %step: tile<i32>) {
  %i = iota : tile<64xi32>
  %s0 = reshape %step : tile<i32> -> tile<1xi32>
  %s = broadcast %s0 : tile<1xi32> -> tile<64xi32>
  %at = muli %i, %s : tile<64xi32>
  %p0 = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
  %p1 = broadcast %p0 : tile<1xptr<f32>> -> tile<64xptr<f32>>
  %p = offset %p1, %at : tile<64xptr<f32>>, tile<64xi32> -> tile<64xptr<f32>>
  %a, %t = load_ptr_tko weak %p : tile<64xptr<f32>> -> tile<64xf32>, token
  %one = constant <f32: 1.0> : tile<64xf32>
  %b = addf %a, %one rounding<nearest_even> : tile<64xf32>
  %t1 = store_ptr_tko weak %p, %b token=%t : tile<64xptr<f32>>, tile<64xf32> -> token
  return
}
"""


@pytest.mark.parametrize("step", [1, 3, -1, -2])
def test_strides_forward_and_backward(step: int, fake: FakeCuda) -> None:
    base = np.zeros(400, np.float32)
    view = base[200 : 200 + 64 * step : step]
    assert view.size == 64
    load(STRIDED).launch(None, 1, [view, step])
    assert (view == 1).all() and base.sum() == 64


def test_alignment_is_that_of_the_host(fake: FakeCuda) -> None:
    """What a kernel may assume of an address on the host holds on the GPU: they are the same in a page."""
    room = np.zeros(3000, np.float32)
    for start in (0, 1, 4, 64, 1000):
        view = room[start : start + 64]
        seen: list[int] = []

        def note(name: str = "", seen: list[int] = seen) -> None:
            seen += list(fake.allocations)

        fake.on_query = note
        load(STRIDED).launch(None, 1, [view, 1])
        sent = [a for n, a in fake.calls if n == "cuMemcpyHtoDAsync"][-1]
        assert (sent[0] - view.ctypes.data) % 4096 == 0 and seen


def test_arrays_that_nobody_may_write_do_not_come_back(fake: FakeCuda) -> None:
    x, out = numbers(64), np.zeros(64, np.float32)
    x.flags.writeable = False
    load().launch(None, 1, [x, np.broadcast_to(np.float32(2), (64,)).copy(), out])
    assert fake.counts["cuMemcpyDtoHAsync"] == 1
    (found,) = refused(load().launch, None, 1, [x, x, x])
    assert found.code == "read-only-memory"


def test_broadcast_arrays_are_one_element_on_the_gpu(fake: FakeCuda) -> None:
    one = np.broadcast_to(np.float32(3), (64,))
    base = np.zeros(8, np.float32)
    program = load(STRIDED)
    (found,) = refused(program.launch, None, 1, [one, 0])
    assert found.code == "read-only-memory"
    wide = np.lib.stride_tricks.as_strided(base, (64,), (0,), writeable=True)
    program.launch(None, 1, [wide, 0])
    assert base[0] == 1 and not base[1:].any()


def test_tensors_of_the_host_are_taken_as_they_are(fake: FakeCuda) -> None:
    torch = pytest.importorskip("torch")
    base = torch.arange(256, dtype=torch.float32).reshape(64, 4)
    x, out = base.t()[2], torch.zeros(64)
    result = load().launch(None, 1, [torch.ones(64), torch.full((64,), 2.0), out])
    assert (out == 3).all() and result.outputs[2].ctypes.data == out.data_ptr()
    load(STRIDED).launch(None, 1, [x, 4])
    assert torch.equal(base[:, 2], torch.arange(64) * 4 + 3.0)


def test_globals_and_scratch_memory(fake: FakeCuda) -> None:
    from tests.gpu.test_tiles import WITH_MEMORY

    program = load(WITH_MEMORY)
    out = np.zeros(1, np.float32)
    program.launch(None, (2, 2), [out])
    assert out[0] == 1.0 and fake.used == 0
    # Memory that is the kernel's alone is not copied: only the argument and the global are.
    assert fake.counts["cuMemcpyHtoDAsync"] == 2
    assert fake.counts["cuMemAllocFromPoolAsync"] == 3


def test_mapped_arrays_and_globals_keep_their_place(fake: FakeCuda) -> None:
    held = numbers(64)
    program = load()
    address = program.map_array(held)
    assert program.map_array(held[16:]) == address + 64
    out = np.zeros(64, np.float32)
    program.launch(None, 1, [address, address, out])
    np.testing.assert_array_equal(out, 2 * held)
    held += 1
    program.launch(None, 1, [address, held, out], OVERLAP)
    np.testing.assert_array_equal(out, 2 * held)
    program.launch(None, 1, [address, address, address])
    np.testing.assert_array_equal(held, out)
    beyond = np.lib.stride_tricks.as_strided(held[32:], (64,))
    assert "extends past" in refused(program.map_array, beyond)[0].message
    used = fake.used
    del program
    gc.collect()
    assert fake.used < used


# Code that is loaded once


def test_a_warm_launch_loads_and_compiles_nothing(
    fake: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = load()
    args = [numbers(64), numbers(64), np.zeros(64, np.float32)]
    program.launch(None, 1, args)
    assert fake.counts["cuModuleLoadData"] == 1

    def never(*args: Any) -> Any:
        raise AssertionError("compiled again")

    monkeypatch.setattr("tilewright.gpu.tiles.compile_kernel", never)
    monkeypatch.setattr(tools, "assemble", never)
    before = fake.counts.copy()
    for _ in range(3):
        program.launch(None, 1, args)
    fresh = fake.counts - before
    loading = {"cuModuleLoadData", "cuModuleGetFunction", "cuFuncGetAttribute", "cuMemPoolCreate"}
    assert not loading & fresh.keys() and fresh["cuLaunchKernelEx"] == 3
    assert "cuModuleUnload" not in fake.counts


def test_programs_of_the_same_code_share_a_module(fake: FakeCuda) -> None:
    for _ in range(2):
        load().launch(None, 1, [numbers(64), numbers(64), np.zeros(64, np.float32)])
    assert fake.counts["cuModuleLoadData"] == 1


def test_modules_that_were_used_longest_ago_are_unloaded(fake: FakeCuda) -> None:
    open_gpu().modules.limit = 2
    programs = [load(ADD.replace("@add", f"@add{n}")) for n in range(4)]
    args = [numbers(64), numbers(64), np.zeros(64, np.float32)]
    for program in programs:
        program.launch(None, 1, args)
    assert fake.loaded == 2 and fake.counts["cuModuleUnload"] == 2
    programs[3].launch(None, 1, args)
    assert fake.counts["cuModuleLoadData"] == 4
    programs[0].launch(None, 1, args)
    assert fake.counts["cuModuleLoadData"] == 5 and fake.loaded == 2
    open_gpu().modules.clear()
    assert fake.loaded == 0


@pytest.mark.parametrize(("version", "is_cubin"), [(13050, True), (14000, True), (12080, False)])
def test_the_driver_gets_machine_code_where_it_takes_it(version: int, is_cubin: bool) -> None:
    """An older driver gets PTX, which it assembles by itself."""
    if tools.ptxas_version() is None:
        is_cubin = False
    with installed(FakeCuda(version=version)) as fake:
        out = np.zeros(64, np.float32)
        load().launch(None, 1, [numbers(64), numbers(64), out])
        np.testing.assert_array_equal(out, 2 * numbers(64))
        (image,) = (args[0] for name, args in fake.calls if name == "cuModuleLoadData")
        assert image.startswith(b"\x7fELF") == is_cubin


def test_without_pools_memory_comes_from_the_driver() -> None:
    with installed(FakeCuda(pools=False)) as fake:
        out = np.zeros(64, np.float32)
        load().launch(None, 1, [numbers(64), numbers(64), out])
        assert fake.counts["cuMemAlloc"] == fake.counts["cuMemFree"] == 3 and fake.used == 0
        np.testing.assert_array_equal(out, 2 * numbers(64))


# Arrays of the GPU


class Interface:
    """An array with the CUDA array interface, as CuPy and Numba have it."""

    def __init__(self, address: int, array: Any, **further: Any):
        self.view = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (address, False),
            "strides": None,
            "version": 3,
            **further,
        }


class Capsule:
    """An array that speaks DLPack; with versions, or as before there were any."""

    def __init__(self, address: int, array: Any, *, versioned: bool, flags: int = 0):
        self.address, self.array, self.flags, self.versioned = address, array, flags, versioned
        self.streams: list[Any] = []
        self.kept: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, **keywords: Any) -> Any:
        from tilewright.launching import dlpack

        if not self.versioned and "max_version" in keywords:
            raise TypeError("unexpected keyword argument 'max_version'")
        self.streams.append(keywords["stream"])
        rank = self.array.ndim
        shape = (ctypes.c_int64 * rank)(*self.array.shape)
        strides = (ctypes.c_int64 * rank)(*(s // self.array.itemsize for s in self.array.strides))
        bits = 8 * self.array.itemsize
        tensor = dlpack.Tensor(self.address, 2, 0, rank, 2, bits, 1, shape, strides, 0)
        holder: Any = tensor
        if self.versioned:
            holder = dlpack.VersionedTensor(1, 0, None, None, self.flags, tensor)
        self.kept += [holder, shape, strides]
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        return new(ctypes.addressof(holder), name, None)


@pytest.fixture
def held(fake: FakeCuda) -> Iterator[tuple[FakeCuda, tuple[int, Array], tuple[int, Array]]]:
    yield fake, fake.array(numbers(64)), fake.array(np.zeros(64, np.float32))


def test_arrays_of_the_gpu_are_used_where_they_are(held: Any) -> None:
    fake, (x, x_view), (out, out_view) = held
    host = numbers(64, 100)
    args = [Interface(x, x_view), host, Capsule(out, out_view, versioned=True)]
    result = load().launch(None, 1, args)
    np.testing.assert_array_equal(out_view, x_view + host)
    assert fake.counts["cuMemcpyHtoDAsync"] == 1 and not fake.counts["cuMemcpyDtoHAsync"]
    assert result.outputs[0] is args[0] and result.outputs[2] is args[2]


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack_of_both_kinds(versioned: bool, held: Any) -> None:
    _fake, (x, x_view), (out, out_view) = held
    given = Capsule(x, x_view, versioned=versioned)
    load().launch(None, 1, [given, given, Capsule(out, out_view, versioned=versioned)])
    np.testing.assert_array_equal(out_view, 2 * x_view)
    assert set(given.streams) == {1}


def test_a_launch_is_on_the_stream_that_an_array_names(held: Any) -> None:
    fake, (x, x_view), (out, out_view) = held
    first, second = fake.new_stream(), fake.new_stream()
    args = [
        Interface(x, x_view, stream=first),
        Capsule(x, x_view, versioned=True),
        Interface(out, out_view, stream=second),
    ]
    load().launch(None, 1, args)
    np.testing.assert_array_equal(out_view, 2 * x_view)
    (config, *_) = next(args for name, args in fake.calls if name == "cuLaunchKernelEx")
    assert config.hStream == first
    waits = [args[0] for name, args in fake.calls if name == "cuStreamWaitEvent"]
    recorded = [args[1] for name, args in fake.calls if name == "cuEventRecord"]
    assert waits == [first, first] and set(recorded[:2]) == {second, 1}
    names = [name for name, _ in fake.calls]
    assert names.index("cuStreamWaitEvent") < names.index("cuLaunchKernelEx")


@pytest.mark.parametrize(
    ("further", "code", "says"),
    [
        ({"stream": 0}, "gpu-launch", "names the stream 0"),
        ({"typestr": "<f8"}, "bad-argument", "is an array of float64"),
        ({"typestr": ">f4"}, "gpu-launch", "big-endian"),
        ({"strides": (6,)}, "gpu-launch", "not multiples of 4"),
        ({"strides": (4, 4)}, "gpu-launch", "has an invalid array interface"),
        ({"shape": (0,)}, "bad-argument", "no elements"),
        ({"mask": 1}, "gpu-launch", "has a mask"),
    ],
)
def test_arrays_of_the_gpu_that_do_not_fit(
    further: dict[str, Any], code: str, says: str, held: Any
) -> None:
    fake, (x, x_view), (out, out_view) = held
    args = [Interface(x, x_view, **further), Interface(x, x_view), Interface(out, out_view)]
    (found,) = refused(load().launch, None, 1, args)
    assert found.code == code and says in found.message
    assert not fake.counts["cuLaunchKernelEx"]


def test_read_only_arrays_of_the_gpu(held: Any) -> None:
    _fake, (x, x_view), (out, out_view) = held
    address, _ = x, x_view
    interface = Interface(out, out_view, data=(out, True))
    capsule = Capsule(out, out_view, versioned=True, flags=1)
    for output in (interface, capsule):
        plain = Interface(address, x_view)
        (found,) = refused(load().launch, None, 1, [plain, plain, output])
        assert found.code == "read-only-memory"
        load().launch(None, 1, [output, plain, Interface(x, x_view)], OVERLAP)


def test_overlaps_on_the_gpu_are_found(held: Any) -> None:
    _fake, (x, x_view), _ = held
    args = [Interface(x, x_view), Interface(x, x_view), Interface(x, x_view)]
    found = refused(load().launch, None, 1, args)
    assert {each.code for each in found} == {"overlapping-arguments"}
    load().launch(None, 1, args, OVERLAP)
    np.testing.assert_array_equal(x_view, 2 * numbers(64))


def test_strides_of_arrays_of_the_gpu(held: Any) -> None:
    fake, _, _ = held
    address, view = fake.array(np.zeros(300, np.float32))
    third = Interface(address + 4 * 200, view[200:8:-3], strides=(-12,), shape=(64,))
    load(STRIDED).launch(None, 1, [third, -3])
    assert (view[200:8:-3][:64] == 1).all() and view.sum() == 64


def test_arrays_of_the_gpu_for_memrefs(held: Any) -> None:
    """Kernels of nvgpu: descriptors have the strides of the array."""
    _fake, (x, x_view), (out, out_view) = held
    module = parse((EXAMPLES / "nvgpu" / "vector_add.mlir").read_bytes())
    program = tilewright.load(module, "cuda")
    host = numbers(64, 3)
    program.launch(None, 1, [Interface(x, x_view), host, Capsule(out, out_view, versioned=True)])
    np.testing.assert_array_equal(out_view, x_view + host)


def test_a_stand_in_is_not_looked_into(held: Any) -> None:
    """An address that nobody can read: only its numbers are used."""
    from tilewright.gpu.device_arrays import DeviceArray, stand_in

    array = DeviceArray(1 << 46, (4, 4), (4, 1), 32, "f", None, np.dtype(np.float32))
    found = stand_in(array, "x")
    assert found.ctypes.data == 1 << 46 and found.strides == (16, 4)
    assert "on the GPU" in repr(found) and "on the GPU" in str(found)
    wide = DeviceArray(64, (4,), (1,), 4, "f", None)
    assert "no kernel takes" in refused(stand_in, wide, "x")[0].message
    kind = ml_dtypes.bfloat16
    narrow = DeviceArray(1 << 46, (8,), (-2,), 16, "f", None, np.dtype(kind))
    assert stand_in(narrow, "x").strides == (-4,)


# What kernels say


SAYS = """
entry @says(%n: tile<i32>, %h: tile<f16>, %p: tile<ptr<f32>>) {
  %b, %b1, %b2 = get_tile_block_id : tile<i32>
  %t = print_tko "block %d of %i: %x %5.2f\\0A", %b, %n, %n, %h : tile<i32>, tile<i32>, tile<i32>, tile<f16> -> token
  %i0 = iota : tile<32xi32>
  %i = reshape %i0 : tile<32xi32> -> tile<4x8xi32>
  %t1 = print_tko "%d|" , %i token=%t : tile<4x8xi32> -> token
  %m = reshape %n : tile<i32> -> tile<1x1xi32>
  %w = broadcast %m : tile<1x1xi32> -> tile<4x8xi32>
  %c = cmpi less_than %i, %w, signed : tile<4x8xi32> -> tile<4x8xi1>
  assert %c, "below %n" : tile<4x8xi1>
  %zero = constant <i32: 0> : tile<i32>
  %d = cmpi not_equal %b, %zero, signed : tile<i32> -> tile<i1>
  assert %d, "not the first" : tile<i1>
  return
}
"""


@cache
def says() -> Any:
    """Parsed once: positions in texts that were parsed twice are not equal."""
    return parse(SAYS)


SAID = [-5, np.float16(1.5), np.zeros(1, np.float32)]


@pytest.mark.parametrize("optimization", [0, 1])
@pytest.mark.parametrize("seed", [0, 3])
def test_texts_are_those_of_the_reference(optimization: int, seed: int, fake: FakeCuda) -> None:
    """Whatever the order in which blocks and warps run."""
    fake.seed = seed
    options = LaunchOptions(check_asserts=False)
    wanted = tilewright.run(says(), None, (2, 2), SAID, "reference", options)
    heard: list[str] = []
    how = LaunchOptions(check_asserts=False, optimization=optimization, print_to=heard.append)
    found = tilewright.run(says(), None, (2, 2), SAID, "cuda", how)
    assert found.text == wanted.text == "".join(heard)
    assert found.failures == wanted.failures and len(found.failures) > 100


@pytest.mark.parametrize("limit", [31, 20, 0])
def test_failed_assertions_are_those_of_the_reference(limit: int, fake: FakeCuda) -> None:
    args = [limit, *SAID[1:]]
    errors = [
        [
            (d.code, d.message, d.location)
            for d in refused(tilewright.run, says(), None, 3, args, machine)
        ]
        for machine in ("reference", "cuda")
    ]
    assert errors[0] == errors[1]
    # The GPU goes on being used.
    assert tilewright.run(says(), None, 1, args, "cuda", LaunchOptions(check_asserts=False))


def test_arrays_come_back_from_a_kernel_whose_assertion_failed(fake: FakeCuda) -> None:
    text = STRIDED.replace(
        "  return", '  %no = constant <i1: 0> : tile<i1>\n  assert %no, "no" : tile<i1>\n  return'
    )
    x = np.zeros(64, np.float32)
    (found,) = refused(load(text).launch, None, 1, [x, 1])
    assert found.code == "assertion-failed" and (x == 1).all()


def test_what_does_not_fit_into_the_buffer_is_left_out(
    fake: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.gpu.messages.CAPACITY", 200)
    options = LaunchOptions(check_asserts=False)
    found = tilewright.run(says(), None, 2, SAID, "cuda", options)
    assert found.text.startswith("block 0 of -5") and found.text.endswith(launching.CUT)


def test_kernels_of_threads_say_it_too(fake: FakeCuda) -> None:
    text = """module attributes {gpu.container_module} { gpu.module @m {
    gpu.func @k(%n: i32, %x: f32) kernel attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
      %t = gpu.thread_id x
      %i = arith.index_cast %t : index to i32
      %odd = arith.cmpi slt, %i, %n : i32
      scf.if %odd { gpu.printf "%d: %g %u\\0A" %t, %x, %n : index, f32, i32 }
      cf.assert %odd, "few"
      gpu.return } } }"""
    options = LaunchOptions(check_asserts=False)
    found = tilewright.run(parse(text), None, 2, [62, 0.5], "cuda", options)
    assert found.text.count("61: 0.5 62\n") == 2 and found.text.count("\n") == 124
    assert [f.block for f in found.failures] == [(0, 0, 0), (1, 0, 0)]
    assert found.failures[0].message == "few"


# Kernels that fail


WILD = STRIDED.replace("@bump", "@wild")


def test_a_wild_access_names_the_kernel_and_loses_the_gpu(fake: FakeCuda) -> None:
    x = np.zeros(64, np.float32)
    (found,) = refused(load(WILD).launch, None, 1, [x, 1 << 20])
    assert found.code == "gpu-kernel-failed"
    assert "kernel 'wild' failed: it accessed memory that is not allocated" in found.message
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in found.message and "sim:ARCH" in found.help
    (found,) = refused(load().launch, None, 1, [x, x, np.zeros(64, np.float32)])
    assert found.code == "gpu-lost" and "since kernel 'wild' failed" in found.message


def test_what_a_kernel_said_before_it_failed_is_told(fake: FakeCuda) -> None:
    text = WILD.replace(
        "  %a, %t",
        '  %no = constant <i1: 0> : tile<i1>\n  assert %no, "too far" : tile<i1>\n  %a, %t',
    )
    x = np.zeros(64, np.float32)
    first, second = refused(load(text).launch, None, 1, [x, 1 << 20])
    assert first.code == "assertion-failed" and "too far" in first.message
    assert second.code == "gpu-kernel-failed"


def test_memory_that_the_gpu_has_not(fake: FakeCuda) -> None:
    fake.memory = 100_000
    big = np.zeros(50_000, np.float32)
    (found,) = refused(load(STRIDED).launch, None, 1, [big, 1])
    assert found.code == "gpu-out-of-memory" and "kernel 'bump'" in found.message
    x = np.zeros(64, np.float32)
    load(STRIDED).launch(None, 1, [x, 1])
    assert (x == 1).all() and fake.used == 0


FAILING = (
    *("cuModuleLoadData", "cuModuleGetFunction", "cuMemAllocFromPoolAsync", "cuMemcpyHtoDAsync"),
    *("cuEventCreate", "cuEventRecord", "cuLaunchKernelEx", "cuEventQuery", "cuMemcpyDtoHAsync"),
    *("cuStreamSynchronize", "cuEventElapsedTime", "cuCtxSetCurrent", "cuFuncGetAttribute"),
    *("cuMemHostAlloc", "cuMemHostGetDevicePointer", "cuMemPoolCreate"),
)


@pytest.mark.parametrize("function", FAILING)
@pytest.mark.parametrize("after", [0, 1])
def test_whatever_fails_nothing_is_left_behind(function: str, after: int, fake: FakeCuda) -> None:
    program = load(SAYS, check_asserts=False)
    fake.failures[function] = (after + fake.counts[function], 1)
    try:
        program.launch(None, 1, SAID)
    except TileIRError as error:
        found = error.diagnostics[-1]
        assert found.code == "gpu-launch" and "CUDA_ERROR_INVALID_VALUE" in found.message
    fake.failures.clear()
    assert fake.used == 0
    assert fake.counts["cuEventCreate"] >= fake.counts["cuEventDestroy"]
    program.launch(None, 1, SAID)
    assert fake.used == 0


def test_the_wait_ends_at_the_limit_and_the_memory_stays_with_the_kernel(fake: FakeCuda) -> None:
    fake.unfinished = 1 << 30
    x = np.zeros(64, np.float32)
    (found,) = refused(load(STRIDED, time_limit=0.05).launch, None, 1, [x, 1])
    assert found.code == "time-limit" and "kernel 'bump' keeps running" in found.message
    assert not x.any() and fake.used > 0 and not fake.counts["cuEventDestroy"]
    fake.unfinished = 0
    load().launch(None, 1, [x, x, np.zeros(64, np.float32)])
    assert fake.used == 0


def test_ctrl_c_ends_the_wait(fake: FakeCuda) -> None:
    def interrupt() -> None:
        fake.on_query = None
        raise KeyboardInterrupt

    fake.on_query = interrupt
    x = np.zeros(64, np.float32)
    program = load(STRIDED)
    with pytest.raises(KeyboardInterrupt):
        program.launch(None, 1, [x, 1])
    assert fake.used > 0
    program.launch(None, 1, [x, 1])
    assert fake.used == 0 and (x == 1).all()


def test_other_threads_have_the_context(fake: FakeCuda) -> None:
    from concurrent.futures import ThreadPoolExecutor

    program = load()

    def one(start: int) -> bool:
        x, out = numbers(64, start), np.zeros(64, np.float32)
        program.launch(None, 1, [x, x, out])
        return bool((out == 2 * x).all())

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(one, range(6)))
    assert fake.counts["cuModuleLoadData"] == 1


# Grids, clusters and shared memory


IDS = """
entry @ids(%out: tile<ptr<i32>>, %far: tile<i32>) {
  %x, %y, %z = get_tile_block_id : tile<i32>
  %nx, %ny, %nz = get_num_tile_blocks : tile<i32>
  %a = muli %z, %ny : tile<i32>
  %b = addi %a, %y : tile<i32>
  %c = muli %b, %nx : tile<i32>
  %d = addi %c, %x : tile<i32>
  %p = offset %out, %d : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
  %m = muli %z, %far : tile<i32>
  %e = addi %m, %y : tile<i32>
  %t = store_ptr_tko weak %p, %e : tile<ptr<i32>>, tile<i32> -> token
  return
}
"""


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """y and z end at 3, so that folded grids are small."""
    monkeypatch.setattr("tilewright.lowering.nvgpu.linear_grid.MAX_YZ", 3)


@pytest.mark.parametrize("machine", ["cuda", "sim:sm_90a"])
@pytest.mark.parametrize("grid", [(2, 5, 3), (3, 2, 7), (1, 1, 4), (1, 4), (5, 3, 3)])
def test_large_grids_are_folded(
    grid: tuple[int, ...], machine: str, fake: FakeCuda, small_limit: None
) -> None:
    count = int(np.prod(grid))
    wanted, found = np.zeros(count, np.int32), np.zeros(count, np.int32)
    tilewright.run(parse(IDS), None, grid, [wanted, 1000])
    program = tilewright.load(parse(IDS), machine)
    program.launch(None, grid, [found, 1000])
    np.testing.assert_array_equal(found, wanted)
    if machine == "cuda":
        (config, *_) = next(args for name, args in fake.calls if name == "cuLaunchKernelEx")
        row = max(grid[1:]) > 3
        assert (config.gridDimX == count and config.gridDimY == 1) == row
        # The same program takes small grids, too.
        program.launch(None, 2, [found, 1000])


@pytest.mark.parametrize("machine", ["cuda", "sim:sm_90a"])
def test_grids_that_no_row_takes_are_refused(machine: str, fake: FakeCuda) -> None:
    out = np.zeros(1, np.int32)
    grid = (1 << 16, 1 << 16, 2)
    (found,) = refused(tilewright.run, parse(IDS), None, grid, [out, 1], machine)
    assert found.code == "grid-too-large" and "8,589,934,592 blocks" in found.message


def test_a_real_large_grid(fake: FakeCuda) -> None:
    """One more than the hardware takes, as the command line passes it."""
    text = """
entry @count(%out: tile<ptr<i32>>) {
  %x, %y, %z = get_tile_block_id : tile<i32>
  return
}
"""
    program = load(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeCuda, "_run", lambda *args: None)
        program.launch(None, (2, 65_536), [np.zeros(1, np.int32)])
    (config, *_) = next(args for name, args in fake.calls if name == "cuLaunchKernelEx")
    assert (config.gridDimX, config.gridDimY, config.gridDimZ) == (131_072, 1, 1)


def test_prints_of_folded_grids_name_their_block(fake: FakeCuda, small_limit: None) -> None:
    wanted = tilewright.run(
        says(), None, (1, 5), SAID, "reference", LaunchOptions(check_asserts=False)
    )
    found = tilewright.run(says(), None, (1, 5), SAID, "cuda", LaunchOptions(check_asserts=False))
    assert found.text == wanted.text and found.failures == wanted.failures


SHARED = """module attributes {gpu.container_module} { gpu.module @m {
  gpu.func @k(%out: memref<?xf32>) workgroup(%w: memref<SIZExf32, 3>) kernel attributes {EXTRA} {
    %t = gpu.thread_id x
    %v = arith.constant 2.0 : f32
    memref.store %v, %w[%t] : memref<SIZExf32, 3>
    gpu.barrier
    %r = memref.load %w[%t] : memref<SIZExf32, 3>
    memref.store %r, %out[%t] : memref<?xf32>
    gpu.return } } }"""


def shared_kernel(size: int, extra: str = "") -> Any:
    return parse(SHARED.replace("SIZE", str(size)).replace("EXTRA", extra))


@pytest.mark.parametrize(
    ("own", "given", "asked"),
    [
        (64, 0, None),
        (64, 40 << 10, None),
        (64, 60 << 10, 60 << 10),
        (20 << 10, 0, 80 << 10),
        (20 << 10, 1024, (80 << 10) + 1024),
    ],
)
def test_large_shared_memory_is_asked_for(
    own: int, given: int, asked: int | None, fake: FakeCuda
) -> None:
    """``own`` words of the kernel's, ``given`` bytes by the launch."""
    program = tilewright.load(shared_kernel(own), "cuda")
    options = LaunchOptions(block=64, dynamic_shared_bytes=given)
    out = np.zeros(64, np.float32)
    for _ in range(2):
        program.launch(None, 1, [out], options)
    assert (out == 2).all()
    sizes = [args[2] for name, args in fake.calls if name == "cuFuncSetAttribute"]
    assert sizes == ([] if asked is None else [asked])


def test_shared_memory_beyond_the_block_is_refused(fake: FakeCuda) -> None:
    program = tilewright.load(shared_kernel(64), "cuda")
    options = LaunchOptions(block=64, dynamic_shared_bytes=227 << 10)
    (found,) = refused(program.launch, None, 1, [np.zeros(64, np.float32)], options)
    assert "232,704 bytes of shared memory" in found.message and "232,448" in found.message


def test_clusters(fake: FakeCuda) -> None:
    program = tilewright.load(shared_kernel(64), "cuda")
    for cluster, says in ((3, "not a multiple of the cluster"), ((2, 2, 8), "at most 16 blocks")):
        options = LaunchOptions(block=64, cluster=cluster)
        (found,) = refused(program.launch, None, (4, 4, 8), [np.zeros(64, np.float32)], options)
        assert says in found.message
    out = np.zeros(64, np.float32)
    program.launch(None, (4, 2), [out], LaunchOptions(block=64, cluster=(2, 2)))
    (config, *_) = next(args for name, args in fake.calls if name == "cuLaunchKernelEx")
    dim = config.attrs[0].value.clusterDim
    assert (dim.x, dim.y, dim.z, config.numAttrs) == (2, 2, 1, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeCuda, "_run", lambda *args: None)
        program.launch(None, 16, [out], LaunchOptions(block=64, cluster=16))
    assert [a[2] for n, a in fake.calls if n == "cuFuncSetAttribute"] == [1]


def test_clusters_before_sm_90(fake: FakeCuda) -> None:
    kernel = gpu.compile_kernel(shared_kernel(64), "sm_80")
    (found,) = refused(launch, kernel, 4, [np.zeros(64, np.float32)], block=64, cluster=2)
    assert "sm_80 has no clusters" in found.message


def test_blocks_that_do_not_fit(fake: FakeCuda) -> None:
    program = tilewright.load(shared_kernel(2048), "cuda")
    out = np.zeros(2048, np.float32)
    (found,) = refused(program.launch, None, 1, [out], LaunchOptions(block=2048))
    assert "at most 1,024 threads" in found.message
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeCuda, "_most_threads", lambda *args: 256)
        (found,) = refused(program.launch, None, 1, [out], LaunchOptions(block=512))
    assert "has at most 256 threads, got 512" in found.message


@pytest.mark.parametrize(
    ("arch", "threads", "extra", "line"),
    [
        ("sm_90a", 128, "nvvm.minctasm = 32 : i32", ".minnctapersm 16"),
        ("sm_86", 128, "nvvm.minctasm = 32 : i32", ".minnctapersm 12"),
        ("sm_120a", 32, "nvvm.minctasm = 32 : i32", ".minnctapersm 24"),
        ("sm_90a", 1024, "nvvm.minctasm = 3 : i32", ".minnctapersm 2"),
        ("sm_90a", 1024, "nvvm.maxnreg = 255 : i32", ".maxnreg 64"),
        ("sm_90a", 384, "nvvm.maxnreg = 255 : i32", ".maxnreg 168"),
        ("sm_90a", 128, "nvvm.maxnreg = 96 : i32", ".maxnreg 96"),
    ],
)
def test_limits_are_what_blocks_can_keep(arch: str, threads: int, extra: str, line: str) -> None:
    """ptxas leaves out what no multiprocessor can do, and with it the bound of registers."""
    size = f"gpu.known_block_size = array<i32: {threads}, 1, 1>"
    kernel = gpu.compile_kernel(shared_kernel(threads, f"{size}, {extra}"), arch)
    assert line in kernel.ptx
    if tools.find("bin/ptxas") is not None:
        assert "warning" not in kernel.assemble().messages


def test_a_program_without_a_given_architecture_is_for_the_gpu() -> None:
    with installed(FakeCuda(capability=80)):
        program = load()
        out = np.zeros(64, np.float32)
        program.launch(None, 1, [numbers(64), numbers(64), out])
        assert program.arch == "sm_80"
        np.testing.assert_array_equal(out, 2 * numbers(64))


def test_tensor_maps(fake: FakeCuda) -> None:
    """The Hopper example: tensor maps of host arrays, transactions, `wgmma`, more than 48 KiB."""
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (128, 128)).astype(np.float16)
    b = rng.integers(-3, 4, (128, 128)).astype(np.float16)
    d = np.full((128, 128), np.nan, np.float32)
    module = parse((EXAMPLES / "nvgpu" / "matmul_hopper.mlir").read_bytes())
    program = tilewright.load(module, "cuda")
    program.launch(None, 1, [a, b, d, 2])
    np.testing.assert_array_equal(d, a.astype(np.float32) @ b.astype(np.float32))
    (found,) = refused(program.launch, None, 1, [a, b, 5, 2])
    assert "'d' takes an array, got int 5" in found.message
