"""What programs ask torch about the memory of the device ``cuda``, and how they share out work between devices."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")
torch = pytest.importorskip("torch", reason="torch is not installed")

from tilewright.cutile import on  # noqa: E402
from tilewright.cutile.torch_cuda import pretended_cuda  # noqa: E402

MIB = 1 << 20


@pytest.fixture(autouse=True)
def hosted(quick_collections: None) -> Iterator[None]:
    with pretended_cuda():
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        yield


def test_memory_follows_what_comes_and_goes() -> None:
    before = torch.cuda.memory_allocated()
    x = torch.empty(MIB, device="cuda")
    assert torch.cuda.memory_allocated() - before == 4 * MIB
    host = x.cpu()
    view = (x + 1)[5:]
    assert torch.cuda.memory_allocated() - before == 8 * MIB
    again = host.cuda()
    assert torch.cuda.max_memory_allocated() - before == 12 * MIB
    del view, again
    assert torch.cuda.memory_allocated() - before == 4 * MIB
    assert torch.cuda.max_memory_allocated() - before == 12 * MIB
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() - before == 4 * MIB
    del x
    assert torch.cuda.memory_allocated() == before


def test_what_is_reserved_stays_until_the_cache_is_emptied() -> None:
    x = torch.empty(5 * MIB, dtype=torch.uint8, device="cuda")
    reserved = torch.cuda.memory_reserved()
    assert torch.cuda.memory_allocated() <= reserved < torch.cuda.memory_allocated() + 2 * MIB
    del x
    assert torch.cuda.memory_reserved() == reserved
    free, total = torch.cuda.mem_get_info()
    assert total - free == reserved == torch.cuda.device_memory_used()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= reserved - 4 * MIB
    assert torch.cuda.max_memory_reserved() == reserved


def test_statistics_and_their_summary() -> None:
    torch.cuda.reset_accumulated_memory_stats()
    x = [torch.empty(3, device="cuda") for _ in range(4)]
    stats = torch.cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == torch.cuda.memory_allocated()
    assert stats["requested_bytes.small_pool.current"] < stats["allocated_bytes.small_pool.current"]
    assert stats["num_ooms"] == 0
    count = stats["allocation.all.current"]
    del x[1:]
    assert torch.cuda.memory_stats()["allocation.all.current"] == count - 3
    assert "Allocated memory" in torch.cuda.memory_summary()
    assert torch.accelerator.memory_allocated() == torch.cuda.memory_allocated()
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.cuda.memory_allocated(3)


def test_host_memory_is_not_counted() -> None:
    before = torch.cuda.memory_allocated()
    kept = [
        torch.ones(MIB), torch.from_numpy(np.zeros(MIB)), torch.empty(MIB, pin_memory=True),
        torch.ones(MIB, device="cuda").cpu(), torch.empty(MIB, device="meta"),
    ]  # fmt: skip
    assert torch.cuda.memory_allocated() == before, kept


def test_gradients_are_counted_when_they_are_made() -> None:
    model = torch.nn.Linear(1024, 1024, bias=False).cuda()
    before = torch.cuda.memory_allocated()
    model(torch.ones(1, 1024, device="cuda")).sum().backward()
    assert torch.cuda.memory_allocated() - before >= 4 * MIB
    model.zero_grad(set_to_none=True)
    assert torch.cuda.memory_allocated() == before


def test_threads_count_together() -> None:
    before = torch.cuda.memory_allocated()

    def work() -> None:
        for _ in range(200):
            torch.empty(1000, device="cuda")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert torch.cuda.memory_allocated() == before


def test_data_parallel() -> None:
    x = torch.randn(6, 8, device="cuda")
    for model in (
        torch.nn.DataParallel(torch.nn.Linear(8, 4).cuda()),
        torch.nn.DataParallel(torch.nn.Linear(8, 4), device_ids=[0], output_device=0).cuda(),
    ):
        out = model(x)
        assert out.is_cuda
        out.sum().backward()
        assert model.module.weight.grad.is_cuda
        assert torch.equal(model(x.cpu()), model.module(x))
    assert torch.nn.parallel.data_parallel(torch.nn.Linear(8, 4).cuda(), x).is_cuda
    parts = torch.nn.parallel.comm.scatter(x, [0, 0], [2, 4])
    assert [len(part) for part in parts] == [2, 4]
    assert torch.equal(torch.nn.parallel.comm.gather(parts, destination="cpu"), x)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.nn.parallel.comm.broadcast(x, [1])


def test_streams_by_number() -> None:
    get: Any = torch._C._cuda_getCurrentRawStream
    assert get(0) == 0
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        assert get(0) == stream.cuda_stream
    with torch.accelerator.device_index(0):
        assert torch.Event("cuda", enable_timing=True) is not None


class Wrapped:
    """An object that says where the elements of a tensor are."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    @property
    def __cuda_array_interface__(self) -> Any:
        return self.tensor.__cuda_array_interface__


def test_the_array_interface_of_tensors() -> None:
    x = torch.arange(8.0, device="cuda")
    assert x.__cuda_array_interface__["data"] == (x.data_ptr(), False)
    assert x.view(2, 4).T.__cuda_array_interface__["strides"] == (4, 16)
    assert not hasattr(x.cpu(), "__cuda_array_interface__")
    for made in (torch.as_tensor(Wrapped(x)), torch.as_tensor(Wrapped(x), device="cuda")):
        assert made.data_ptr() == x.data_ptr()
        assert made.is_cuda

    @ct.kernel
    def double(a, b):
        ct.store(b, 0, ct.load(a, 0, (8,)) * 2)

    out = torch.zeros(8, device="cuda")
    with on():
        ct.launch(0, (1,), double, (x, out))
    assert torch.equal(out, 2 * x)


def test_dlpack_keeps_the_device() -> None:
    x = torch.arange(4.0, device="cuda")
    assert torch.from_dlpack(x).is_cuda
    assert torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x)).is_cuda
    assert not torch.from_dlpack(x.cpu()).is_cuda
    assert not torch.from_dlpack(np.arange(4)).is_cuda


def test_devices_of_tensors_without_memory_of_their_own() -> None:
    eye = torch.eye(3)
    for sparse in (eye.to_sparse(), eye.to_sparse_csr()):
        assert not sparse.is_cuda
        assert sparse.cuda().is_cuda
        assert not sparse.cuda().cpu().is_cuda
    for parts in ([torch.ones(3), torch.ones(5)], [[1.0, 2.0], [3.0]]):
        jagged = torch.nested.nested_tensor(parts, device="cuda", layout=torch.jagged)
        assert jagged.is_cuda
        assert jagged.values().is_cuda
        assert jagged.offsets().is_cuda
        assert not torch.nested.nested_tensor(parts, layout=torch.jagged).values().is_cuda
    assert not torch.func.vmap(lambda t: t * 2)(torch.ones(4, 3)).is_cuda
    assert torch.func.vmap(lambda t: t * 2)(torch.ones(4, 3, device="cuda")).is_cuda
    there = torch.ones(2, device="cuda")
    assert torch.ones(2).type_as(there).is_cuda
    assert not there.type_as(torch.ones(2)).is_cuda
    assert there.type_as(torch.ones(2)).data_ptr() != there.data_ptr()


GIB = 1 << 30


def _until_it_is_refused(allocate: Any) -> int:
    """The number of allocations before the one that there is no memory for."""
    kept = []
    with pytest.raises(torch.cuda.OutOfMemoryError, match=r"^CUDA out of memory\. Tried to"):
        while len(kept) < 1000:
            kept.append(allocate())
    return len(kept)


def test_the_device_is_full_at_its_size() -> None:
    free, total = torch.cuda.mem_get_info()
    torch.cuda.reset_accumulated_memory_stats()
    most = free // (10 * GIB)
    count = _until_it_is_refused(lambda: torch.empty(10 * GIB, dtype=torch.uint8, device="cuda"))
    assert count == most
    assert torch.cuda.memory_stats()["num_ooms"] == 1
    gc.collect()
    assert torch.cuda.memory_allocated() < GIB
    with pytest.raises(
        torch.OutOfMemoryError, match=r"200\.00 GiB\. GPU 0 has a total capacity of 180"
    ):
        torch.empty(200 * GIB, dtype=torch.uint8, device="cuda")
    assert total == 180 * GIB


def test_a_fraction_of_the_memory_can_be_set() -> None:
    torch.cuda.set_per_process_memory_fraction(0.25)
    try:
        assert torch.cuda.get_per_process_memory_fraction() == 0.25
        with pytest.raises(torch.OutOfMemoryError):
            torch.zeros(46 * GIB, dtype=torch.uint8, device="cuda")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    with pytest.raises(ValueError, match="Invalid fraction value"):
        torch.cuda.set_per_process_memory_fraction(1.5)
    with pytest.raises(TypeError, match="must be `float`"):
        torch.cuda.set_per_process_memory_fraction(1)


# What takes far more than its arguments; a host that has it would say nothing.
ENORMOUS = {
    "ones": lambda: torch.ones(1 << 20, 1 << 20, device="cuda"),
    "full": lambda: torch.full((1 << 40,), 2.0, device="cuda"),
    "new_ones": lambda: torch.ones(1, device="cuda").new_ones(1 << 40),
    "arange": lambda: torch.arange(1 << 40, device="cuda"),
    "repeat": lambda: torch.ones(1 << 10, device="cuda").repeat(1 << 30),
    "outer": lambda: torch.outer(*[torch.ones(1 << 20, device="cuda")] * 2),
    "matmul": lambda: torch.ones(1 << 20, 1, device="cuda") @ torch.ones(1, 1 << 20, device="cuda"),
    "add": lambda: torch.ones(1 << 20, 1, device="cuda") + torch.ones(1 << 20, device="cuda"),
    "contiguous": lambda: torch.ones(1, device="cuda").expand(1 << 40).contiguous(),
    "cat": lambda: torch.cat([torch.ones(1, device="cuda").expand(1 << 39)] * 2),
    "to": lambda: torch.ones(1).expand(1 << 40).to("cuda"),
    "cuda": lambda: torch.ones(1).expand(1 << 40).cuda(),
    "parameters": lambda: torch.nn.Linear(1 << 20, 1 << 20, device="cuda"),
}


@pytest.mark.parametrize("allocate", ENORMOUS.values(), ids=ENORMOUS)
def test_what_is_far_too_large_is_refused_before_it_is_tried(allocate: Any) -> None:
    """Its size is known from tensors without elements."""
    with pytest.raises(torch.OutOfMemoryError, match=r"GPU 0 has a total capacity"):
        allocate()


def test_what_the_host_does_not_have_is_missing_on_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the process would be killed."""
    available = GIB // 4
    monkeypatch.setattr("tilewright.cutile.torch_capacity.host_available", lambda: available)
    doubled = torch.ones(8 * MIB, device="cuda")
    with pytest.raises(torch.OutOfMemoryError, match=r"host memory, of which 0\.25 GiB"):
        while True:
            doubled = torch.cat([doubled, doubled])
    assert doubled.numel() == 64 * MIB
    # Of these the host gives pages when they are used.
    assert torch.zeros(2 * available, dtype=torch.uint8, device="cuda")[-1] == 0
    # The host's own tensors are its own matter.
    assert (torch.ones(2 * available, dtype=torch.uint8)[[0, -1]] == 1).all()


def test_what_the_host_has_is_known() -> None:
    from tilewright.cutile.torch_capacity import host_available

    available = host_available()
    assert available is None or 0 <= available < 1 << 50
