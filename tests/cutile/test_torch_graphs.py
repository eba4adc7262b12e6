"""CUDA graphs: what a capture takes, what it refuses as CUDA does, and what a replay does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")
torch = pytest.importorskip("torch", reason="torch is not installed")

from tilewright.cutile.settings import Settings, use  # noqa: E402
from tilewright.cutile.torch_cuda import pretended_cuda  # noqa: E402

CudaError = getattr(torch, "AcceleratorError", RuntimeError)


@ct.kernel
def add_one(x, y):
    i = ct.bid(0)
    ct.store(y, i, ct.load(x, i, (16,)) + 1)


@pytest.fixture(autouse=True)
def hosted() -> Iterator[None]:
    with pretended_cuda(), use(Settings("reference", cuda_is_host=True)):
        yield


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(*(shape or (32,)), device="cuda")


def launch(x: torch.Tensor, y: torch.Tensor, stream: torch.cuda.Stream | None = None) -> None:
    ct.launch(stream or torch.cuda.current_stream(), (len(x) // 16,), add_one, (x, y))


def mask(x: torch.Tensor) -> torch.Tensor:
    return x > 0


#: What makes the host wait for the GPU.
WAITING: dict[str, Callable[[torch.Tensor], object]] = {
    "cpu": lambda x: x.cpu(),
    "to": lambda x: x.to("cpu"),
    "to another type": lambda x: x.to("cpu", torch.float64),
    "to by keyword": lambda x: x.to(device="cpu"),
    "to like": lambda x: x.to(torch.zeros(1)),
    "item": lambda x: x[0].item(),
    "tolist": lambda x: x.tolist(),
    "bool": lambda x: bool(x[0]),
    "float": lambda x: float(x[0]),
    "int": lambda x: int(x[0]),
    "index": lambda x: [1, 2][x[0].long()],
    "contains": lambda x: 3 in x,
    "if": lambda x: 1 if x.sum() > 0 else 2,
    "print": str,
    "nonzero": lambda x: x.nonzero(),
    "where": lambda x: torch.where(x),
    "mask": lambda x: x[mask(x)],
    "masked_select": lambda x: x.masked_select(mask(x)),
    "index_put": lambda x: x.__setitem__(mask(x), zeros(32)[mask(x)]),
    "unique": lambda x: x.unique(),
    "equal": lambda x: torch.equal(x, x),
    "allclose": lambda x: torch.allclose(x, x),
    "bincount": lambda x: x.long().bincount(),
    "repeat_interleave": lambda x: x.repeat_interleave(torch.ones_like(x).long()),
    "copy to the host": lambda x: torch.empty(32).copy_(x),
    "copy from the host": lambda x: x.copy_(torch.empty(32)),
    "cuda": lambda x: torch.empty(32).cuda(),
    "from data": lambda x: torch.tensor([1.0, 2.0], device="cuda"),
    "new_tensor": lambda x: x.new_tensor([1.0, 2.0]),
    "synchronize": lambda x: torch.cuda.synchronize(),
    "the accelerator": lambda x: torch.accelerator.synchronize(),
    "the stream": lambda x: torch.cuda.current_stream().synchronize(),
    "query": lambda x: torch.cuda.current_stream().query(),
}


@pytest.mark.parametrize("name", WAITING)
def test_the_host_cannot_wait_for_a_graph_that_is_captured(name: str) -> None:
    x, y = zeros(), zeros()
    graph = torch.cuda.CUDAGraph()
    with (
        pytest.raises(CudaError, match="due to a previous error during capture") as told,
        torch.cuda.graph(graph),
    ):
        launch(x, y)
        WAITING[name](x)
    first = told.value.__context__
    assert isinstance(first, CudaError)
    assert "operation not permitted when stream is capturing" in str(first)
    # Nothing has happened, and all goes on.
    assert y.sum().item() == 0
    assert not torch.cuda.is_current_stream_capturing()
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    WAITING[name](x)


BEFORE: dict[str, Any] = {}

#: What looks like it and does not.
NOT_WAITING: dict[str, Callable[[torch.Tensor], object]] = {
    "of the host": lambda x: torch.ones(3).sum().item(),
    "masks of the host": lambda x: torch.ones(3)[torch.ones(3) > 0],
    "copies that nobody waits for": lambda x: x.to("cpu", non_blocking=True),
    "copies of pinned memory": lambda x: torch.ones(32).pin_memory().cuda(non_blocking=True),
    "copy_": lambda x: x.copy_(torch.ones(32).pin_memory(), non_blocking=True),
    "one number under a mask": lambda x: x.__setitem__(mask(x), 1.0),
    "masked_fill": lambda x: x.masked_fill(mask(x), 2.0),
    "where": lambda x: torch.where(mask(x), x, 0.0),
    "full": lambda x: torch.full((4,), 3.0, device="cuda"),
    "to where it is": lambda x: x.to("cuda").cuda(),
    "as_tensor": lambda x: torch.as_tensor(x, device="cuda"),
    "indices": lambda x: x[torch.zeros(3, dtype=torch.long, device="cuda")],
    "a class of each": lambda x: torch.nn.functional.one_hot(x.long(), 4),
    "an output size": lambda x: x.repeat_interleave(torch.ones_like(x).long(), output_size=32),
    "another stream": lambda x: torch.cuda.Stream().synchronize(),
    "an event before": lambda x: BEFORE["event"].synchronize(),
}


@pytest.mark.parametrize("name", NOT_WAITING)
def test_what_can_be_captured(name: str) -> None:
    BEFORE["event"] = torch.cuda.Event()
    BEFORE["event"].record()
    x = zeros()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        NOT_WAITING[name](x)
    graph.replay()


def test_a_capture_that_has_failed_stays_so() -> None:
    x, y = zeros(), zeros()
    with (
        pytest.raises(CudaError, match="due to a previous error"),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        with pytest.raises(CudaError, match="not permitted when stream is capturing"):
            x.cpu()
        with pytest.raises(CudaError, match="due to a previous error"):
            torch.add(x, y)


def test_work_of_the_host_is_done_once() -> None:
    x, total, of_host = zeros(), zeros(), torch.zeros(3)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        of_host += 1
        made = torch.zeros(2)
        made += 5
        total += x + 1
    assert of_host.tolist() == [1.0] * 3 and made.tolist() == [5.0] * 2
    graph.replay()
    graph.replay()
    assert of_host.tolist() == [1.0] * 3 and made.tolist() == [5.0] * 2
    assert total.tolist() == [2.0] * 32


def test_a_copy_into_host_memory_is_made_again() -> None:
    x, pinned = zeros(), torch.zeros(32).pin_memory()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x += 1
        pinned.copy_(x, non_blocking=True)
    for turn in range(1, 4):
        graph.replay()
        torch.cuda.synchronize()
        assert pinned.tolist() == [turn] * 32


def test_a_stream_that_forks_and_joins_is_captured() -> None:
    x, y, z = zeros(), zeros(), zeros()
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        main = torch.cuda.current_stream()
        assert not side.is_capturing()
        side.wait_stream(main)
        assert side.is_capturing()
        with torch.cuda.stream(side):
            launch(x, y)
            y *= 2
        launch(x, z, main)
        main.wait_stream(side)
        z += y
    assert y.sum() == z.sum() == 0
    assert not side.is_capturing()
    for value in (1, 5):
        x.fill_(value)
        graph.replay()
        assert (y == 2 * (value + 1)).all() and (z == 3 * (value + 1)).all()


def test_events_join_through_another_stream() -> None:
    x, y = zeros(), zeros()
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        begun, ended = torch.cuda.Event(), torch.cuda.Event()
        begun.record()
        first.wait_event(begun)
        launch(x, y, first)
        second.wait_stream(first)
        launch(y, x, second)
        ended.record(second)
        torch.cuda.current_stream().wait_event(ended)
    graph.replay()
    assert (x == 2).all()


def test_work_that_is_not_joined_is_an_error() -> None:
    x, y = zeros(), zeros()
    side = torch.cuda.Stream()
    with (
        pytest.raises(CudaError, match="capturing stream has unjoined work"),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        side.wait_stream(torch.cuda.current_stream())
        launch(x, y, side)
    with (
        pytest.raises(CudaError, match="capturing stream has unjoined work"),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        main = torch.cuda.current_stream()
        side.wait_stream(main)
        main.wait_stream(side)
        launch(x, y, side)
    assert y.sum() == 0


@pytest.mark.parametrize("stream", [0, None], ids=["number", "object"])
def test_a_stream_that_is_not_captured_works_at_once(stream: int | None) -> None:
    """Kernels on the default stream are none of the capture."""
    x, y = zeros(), zeros()
    before = torch.cuda.current_stream() if stream is None else stream
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ct.launch(before, (2,), add_one, (x, y))
    assert (y == 1).all()
    y.zero_()
    graph.replay()
    assert (y == 0).all()


def test_a_capture_does_not_wait_for_others() -> None:
    with (
        pytest.raises(CudaError, match="due to a previous error") as told,
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
    assert "dependency created on uncaptured work in another stream" in str(told.value.__context__)


def test_events_of_a_capture_have_no_time() -> None:
    first, second = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        first.record()
        second.record()
    for call in (first.query, second.synchronize, lambda: first.elapsed_time(second)):
        with pytest.raises(CudaError, match="event last recorded in a capturing stream"):
            call()
    first.record()
    assert first.query()


def test_external_events_are_recorded_by_replays() -> None:
    first, second = (torch.cuda.Event(enable_timing=True, external=True) for _ in range(2))
    x, y = zeros(), zeros()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first.record()
        launch(x, y)
        second.record()
    graph.replay()
    second.synchronize()
    assert first.elapsed_time(second) > 0


def test_the_default_stream_cannot_be_captured() -> None:
    with pytest.raises(RuntimeError, match="must be captured on a non-default stream"):
        torch.cuda.CUDAGraph().capture_begin()
    with (
        pytest.raises(RuntimeError, match="non-default stream"),
        torch.cuda.graph(torch.cuda.CUDAGraph(), stream=torch.cuda.default_stream()),
    ):
        pass
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_graphed_functions() -> None:
    calls = []

    def work(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        made = torch.empty_like(x)
        launch(x, made)
        return made * y

    graphed = torch.cuda.make_graphed_callables(work, (zeros(), zeros()))
    captured = len(calls)
    assert captured == 4  # three to warm up
    x, y = torch.rand(32, device="cuda"), torch.rand(32, device="cuda")
    first = graphed(x, y)
    assert torch.equal(first, (x + 1) * y) and first.is_cuda
    assert len(calls) == captured
    # Results are in the memory of the graph.
    second = graphed(y, x)
    assert torch.equal(first, second) and torch.equal(second, (y + 1) * x)


def test_graphed_modules_learn() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)
    ).cuda()
    plain = [parameter.detach().clone().requires_grad_() for parameter in model.parameters()]
    graphed = torch.cuda.make_graphed_callables(model, (torch.rand(8, 4, device="cuda"),))
    assert graphed is model
    given = torch.rand(8, 4, device="cuda")

    def by_hand(x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(x @ plain[0].T + plain[1])
        return hidden @ plain[2].T + plain[3]

    optimizers = [torch.optim.SGD(each, lr=0.1) for each in (model.parameters(), plain)]
    for _ in range(3):
        for optimizer, call in zip(optimizers, (graphed, by_hand), strict=True):
            optimizer.zero_grad()
            call(given).square().mean().backward()
            optimizer.step()
    for parameter, wanted in zip(model.parameters(), plain, strict=True):
        torch.testing.assert_close(parameter, wanted)


def test_a_function_that_waits_cannot_be_graphed() -> None:
    with pytest.raises(CudaError):
        torch.cuda.make_graphed_callables(lambda x: x * x.sum().item(), (zeros(),))
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_gradients_of_a_capture_are_on_the_device() -> None:
    model = torch.nn.Linear(4, 4).cuda()
    given = torch.rand(2, 4, device="cuda")
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        model(given).square().sum().backward()
    assert all(parameter.grad.is_cuda for parameter in model.parameters())


def test_a_capture_in_the_inference_mode() -> None:
    x, cache, place = zeros(4), zeros(3, 4), torch.zeros(1, dtype=torch.long, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph):
        cache.index_copy_(0, place, (x + 1)[None])
        place += 1
        total = cache.sum(0)
    for turn in range(3):
        x.fill_(turn)
        graph.replay()
    assert cache[:, 0].tolist() == [1.0, 2.0, 3.0] and total.tolist() == [6.0] * 4


def test_clipped_gradients_in_a_graph() -> None:
    model = torch.nn.Linear(4, 4).cuda()
    given = torch.rand(2, 4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(given).square().sum().backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    graph.replay()
    clipped = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    assert norm.item() > 0.5 and abs(clipped.norm().item() - 0.5) < 1e-4
