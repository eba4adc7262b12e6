"""What programs for GPUs ask of torch beyond tensors: graphs, streams, kernels to choose, timing."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")
torch = pytest.importorskip("torch", reason="torch is not installed")

from tilewright.cutile.settings import Settings, use  # noqa: E402
from tilewright.cutile.torch_cuda import pretended_cuda  # noqa: E402


@ct.kernel
def add_one(x, y):
    i = ct.bid(0)
    ct.store(y, i, ct.load(x, i, (16,)) + 1)


@pytest.fixture(autouse=True)
def hosted() -> Iterator[None]:
    with pretended_cuda(), use(Settings("reference", cuda_is_host=True)):
        yield


def zeros(count: int = 32) -> torch.Tensor:
    return torch.zeros(count, device="cuda")


def launch(x: torch.Tensor, y: torch.Tensor) -> None:
    ct.launch(torch.cuda.current_stream(), (len(x) // 16,), add_one, (x, y))


def test_a_graph_does_nothing_before_it_is_replayed() -> None:
    x, y, total = zeros(), zeros(), zeros()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=torch.cuda.graph_pool_handle()):
        assert torch.cuda.is_current_stream_capturing()
        doubled = x * 2
        launch(doubled, y)
        total += y
        norm = (y @ y).reshape(1)[0]
    assert not torch.cuda.is_current_stream_capturing()
    assert y.sum() == total.sum() == 0
    for value, wanted, summed in ((3, 7, 7), (5, 11, 18)):
        x.fill_(value)
        graph.replay()
        assert (y == wanted).all() and (total == summed).all()
        assert norm == wanted * wanted * 32
    assert doubled.is_cuda and doubled[0] == 10


def test_a_graph_of_a_training_step() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    given = torch.randn(8, 4, device="cuda")
    before = model.weight.detach().clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = model(given).square().sum()
        loss.backward()
        optimizer.step()
    assert torch.equal(model.weight, before)
    losses = []
    for _ in range(3):
        graph.replay()
        losses.append(loss.item())
    assert losses[0] > losses[1] > losses[2]


def test_graphs_by_hand() -> None:
    x, y = zeros(), zeros()
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    with pytest.raises(RuntimeError, match="before capture_begin"):
        graph.capture_end()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        graph.capture_begin()
        launch(x, y)
        graph.capture_end()
    graph.replay()
    assert (y == 1).all()
    graph.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()


def test_what_fails_while_it_is_captured_ends_the_capture() -> None:
    x, y = zeros(), zeros()
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(ZeroDivisionError), torch.cuda.graph(graph):
        launch(x, y)
        raise ZeroDivisionError
    assert not torch.cuda.is_current_stream_capturing()
    launch(x, y)
    assert (y == 1).all()


def test_streams() -> None:
    default = torch.cuda.current_stream()
    assert default == torch.cuda.default_stream() and default.cuda_stream == 0
    first, second = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
    assert first != second and first != default and len({first, second, default}) == 3
    with torch.cuda.stream(first):
        assert torch.cuda.current_stream() == first
        with second:
            assert torch.cuda.current_stream() == second
        with torch.cuda.stream(None):
            assert torch.cuda.current_stream() == first
        seen = []
        thread = threading.Thread(target=lambda: seen.append(torch.cuda.current_stream()))
        thread.start()
        thread.join()
        assert seen == [default]
    assert torch.cuda.current_stream() == default
    outside = torch.cuda.ExternalStream(first.cuda_stream)
    assert outside == first
    x, y = zeros(), zeros()
    first.wait_stream(default)
    ct.launch(first, (2,), add_one, (x, y))
    ct.launch(second.cuda_stream, (2,), add_one, (y, y))
    done = second.record_event()
    done.synchronize()
    default.wait_event(done)
    assert done.query() and (y == 2).all()


def test_a_stream_can_be_set() -> None:
    default, stream = torch.cuda.current_stream(), torch.cuda.Stream()
    torch.cuda.set_stream(stream)
    assert torch.cuda.current_stream() == stream
    torch.cuda.set_stream(default)
    assert torch.cuda.current_stream() == default


def test_events_tell_the_time_if_they_are_made_for_it() -> None:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with pytest.raises(ValueError, match="must be recorded"):
        start.elapsed_time(end)
    start.record()
    end.record(torch.cuda.Stream())
    assert start.elapsed_time(end) >= 0
    with pytest.raises(ValueError, match="enable_timing=True"):
        start.elapsed_time(torch.cuda.Event())


@pytest.mark.parametrize("name", ["MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION"])
def test_kernels_of_attention_can_be_selected(name: str) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 16, 8, device="cuda") for _ in range(3))
    attention = torch.nn.functional.scaled_dot_product_attention
    wanted = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1) @ v
    for selected in (getattr(SDPBackend, name), [getattr(SDPBackend, name), SDPBackend.MATH]):
        with sdpa_kernel(selected):
            found = attention(q, k, v)
        assert found.is_cuda
        torch.testing.assert_close(found, wanted)
    assert torch.backends.cuda.math_sdp_enabled()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_products_of_another_type(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    a = torch.randn(3, 4, 5, device="cuda", dtype=dtype)
    b = torch.randn(3, 5, 6, device="cuda", dtype=dtype)
    c = torch.randn(4, 6, device="cuda", dtype=torch.float32)
    wide = a.float() @ b.float()
    for found, wanted in (
        (torch.bmm(a, b, out_dtype=torch.float32), wide),
        (torch.mm(a[0], b[0], out_dtype=torch.float32), wide[0]),
        (torch.mm(a[0], b[0], torch.float32), wide[0]),
        (torch.addmm(c, a[0], b[0], out_dtype=torch.float32), c + wide[0]),
    ):
        assert found.dtype == torch.float32 and found.is_cuda
        torch.testing.assert_close(found, wanted)
    assert torch.mm(a[0], b[0]).dtype == dtype
    out = torch.empty(4, 6, device="cuda")
    assert torch.mm(a[0], b[0], out_dtype=torch.float32, out=out) is out
    assert torch.equal(out, wide[0])


def test_what_nvidia_smi_would_tell() -> None:
    for name in ("utilization", "memory_usage", "temperature", "power_draw", "clock_rate"):
        assert getattr(torch.cuda, name)() == 0
    in_use = torch.cuda.memory_stats()["allocated_bytes.all.current"]
    assert in_use == torch.cuda.memory_allocated()
    assert isinstance(torch.cuda.memory_summary(), str)
    assert "no processes" in torch.cuda.list_gpu_processes()
    properties = torch.cuda.get_device_properties(0)
    assert properties.max_threads_per_block == 1024 and properties.uuid


def test_timing_functions_of_triton() -> None:
    testing = pytest.importorskip("triton.testing", reason="Triton is not installed")
    from triton.runtime.driver import driver

    from tilewright.cutile.triton_host import install

    install()
    x, y = zeros(), zeros()
    milliseconds = testing.do_bench(lambda: launch(x, y), warmup=1, rep=2)
    assert milliseconds > 0
    low, high = testing.do_bench(lambda: launch(x, y), warmup=1, rep=2, quantiles=[0.2, 0.8])
    assert 0 < low <= high
    assert testing.do_bench_cudagraph(lambda: x + y, rep=1) > 0
    told = driver.active.utils.get_device_properties(0)
    assert told["multiprocessor_count"] == 148 and testing.get_dram_gbps() > 1000


def test_torch_compiles_functions() -> None:
    """torch keeps rules for its own functions by their identity, and takes no two for one."""
    compiled = torch.compile(lambda x: torch.relu(x) * 2, backend="eager")
    result = compiled(zeros() + 3)
    assert result.is_cuda and (result == 6).all()
