"""torch tensors as arguments, and the device cuda that is served by the CPU."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")
torch = pytest.importorskip("torch", reason="torch is not installed")

from tilewright.cutile import launch  # noqa: E402
from tilewright.cutile.settings import Settings, use  # noqa: E402
from tilewright.cutile.torch_cuda import is_pretended, pretended_cuda  # noqa: E402

DTYPES = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e8m0fnu",
]


@ct.kernel
def copy(x, y, n: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(y, (i,), ct.load(x, (i,), (n,)))


@ct.kernel
def transpose(x, y):
    ct.store(y, (0, 0), ct.transpose(ct.load(x, (0, 0), (4, 8))))


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_of_torch(name: str) -> None:
    dtype = getattr(torch, name)
    bits = torch.arange(16, dtype=torch.uint8).repeat_interleave(dtype.itemsize)
    x = (bits > 0).view(dtype)[:16] if name == "bool" else bits.view(dtype)
    y = torch.zeros(16, dtype=torch.uint8).repeat_interleave(dtype.itemsize).view(dtype)
    launch(0, (2,), copy, (x, y, 8))
    assert torch.equal(x.view(torch.uint8), y.view(torch.uint8))


def test_views_and_leaves_of_autograd() -> None:
    x = torch.arange(32.0).reshape(4, 8).requires_grad_()
    y = torch.zeros(4, 8).T
    launch(0, (1,), transpose, (x, y))
    assert torch.equal(y, x.T)
    parameter = torch.nn.Parameter(torch.ones(4, 8))
    launch(0, (1,), transpose, (parameter, y))
    assert (y == 1).all()


@pytest.mark.parametrize(
    ("tensor", "error"),
    [
        (torch.zeros(4, dtype=torch.complex64), TypeError),
        (torch.zeros(4, device="meta"), ValueError),
        (torch.eye(4).to_sparse(), TypeError),
    ],
)
def test_tensors_that_are_refused(tensor: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        launch(0, (1,), copy, (tensor, torch.zeros(4), 4))


@pytest.fixture
def pretended() -> Iterator[None]:
    with pretended_cuda(), use(Settings(cuda_is_host=True)):
        yield


@pytest.mark.usefixtures("pretended")
class TestPretendedCuda:
    def test_tensors_know_where_they_were_put(self) -> None:
        on_cuda = [
            torch.zeros(4, device="cuda"),
            torch.ones(4, device=torch.device("cuda", 0)),
            torch.ones(4).cuda(),
            torch.ones(4).to("cuda:0", torch.float16),
            torch.ones(4).to(torch.zeros(1, device="cuda")),
            torch.tensor([1.0], device="cuda"),
            torch.nn.Linear(2, 2).cuda().weight,
            torch.nn.Linear(2, 2, device="cuda").weight,
        ]
        on_cuda += [t + 1 for t in on_cuda] + [t[:1] for t in on_cuda] + [on_cuda[0].half()]
        on_cuda.append(torch.empty_like(on_cuda[0]))
        for tensor in on_cuda:
            assert tensor.is_cuda
            assert not tensor.is_cpu
            assert tensor.device == torch.device("cuda", 0)
            assert tensor.get_device() == 0
        on_host = [
            torch.zeros(4),
            torch.from_numpy(np.ones(4)),
            torch.as_tensor(np.ones(4)),
            on_cuda[0].cpu(),
            on_cuda[0].to("cpu"),
            torch.empty_like(on_cuda[0], device="cpu"),
        ]
        on_host += [t * 2 for t in on_host] + [t.view(2, 2) for t in on_host]
        for tensor in on_host:
            assert tensor.device.type == "cpu"
            assert not tensor.is_cuda

    def test_moving_is_copying(self) -> None:
        array = np.zeros(4, np.float32)
        host = torch.from_numpy(array)
        device = host.cuda()
        device += 1
        back = device.cpu()
        device += 1
        assert array.tolist() == [0] * 4
        assert back.tolist() == [1] * 4
        assert device.tolist() == [2] * 4
        assert device.cuda() is device
        assert host.to("cpu").data_ptr() == host.data_ptr()

    def test_launches_take_what_is_on_cuda_only(self) -> None:
        x = torch.arange(16.0, device="cuda")
        y = torch.zeros_like(x)
        ct.launch(torch.cuda.current_stream(), (2,), copy, (x, y, 8))
        torch.testing.assert_close(x, y)
        with pytest.raises(ValueError, match="Input array is not on a CUDA device"):
            ct.launch(torch.cuda.current_stream(), (2,), copy, (x.cpu(), y, 8))

    def test_backward_functions_of_the_program_see_cuda(self) -> None:
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.save_for_backward(x)
                return x * 2

            @staticmethod
            def backward(ctx: Any, gradient: Any) -> Any:  # pyright: ignore
                (x,) = ctx.saved_tensors
                seen.append((x.is_cuda, gradient.is_cuda))
                return gradient * 2 * torch.ones(3, device="cuda")

        seen: list[tuple[bool, bool]] = []
        x = torch.rand(3, device="cuda", requires_grad=True)
        Double.apply(x).sum().backward()
        assert seen == [(True, True)]
        assert x.grad.is_cuda
        assert x.grad.tolist() == [2, 2, 2]

    def test_streams_and_events(self) -> None:
        stream = torch.cuda.Stream()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(stream):
            start.record()
            x = torch.ones(4, device="cuda")
            end.record(stream)
        stream.synchronize()
        torch.cuda.synchronize()
        assert start.elapsed_time(end) >= 0
        assert end.query()
        ct.launch(stream, (1,), copy, (x, torch.zeros_like(x), 4))

    def test_the_device_answers(self) -> None:
        assert torch.cuda.is_available()
        assert torch.cuda.device_count() == 1
        assert torch.cuda.get_device_capability() == (10, 0)
        properties = torch.cuda.get_device_properties("cuda")
        assert properties.multi_processor_count > 0
        assert (properties.major, properties.minor) == (10, 0)

    @pytest.mark.parametrize(
        "ask",
        [
            lambda: torch.cuda.get_device_properties(3),
            lambda: torch.cuda.get_device_name(1),
            lambda: torch.cuda.set_device("cuda:1"),
            lambda: torch.cuda.device(2),
            lambda: torch.cuda.synchronize(torch.device("cuda", 1)),
            lambda: torch.ones(2, device="cuda:1"),
            lambda: torch.ones(2, device=torch.device("cuda", 7)),
            lambda: torch.ones(2).to("cuda:1"),
            lambda: torch.ones(2).cuda(1),
            lambda: torch.ones(2).cuda(device="cuda:1"),
            lambda: torch.nn.Linear(2, 2).to("cuda:1"),
            lambda: torch.set_default_device("cuda:1"),
        ],
    )
    def test_there_is_one_device(self, ask: Callable[[], object]) -> None:
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            ask()

    def test_streams_of_tensors_and_page_locked_memory(self) -> None:
        x = torch.ones(4, device="cuda")
        x.record_stream(torch.cuda.current_stream())
        x.record_stream(torch.cuda.Stream())
        pinned = torch.ones(4).pin_memory()
        assert pinned.is_pinned() and not pinned.is_cuda
        assert torch.empty(4, pin_memory=True).is_pinned()
        assert not torch.empty(4, pin_memory=False).is_pinned()
        assert not torch.ones(4).is_pinned()
        assert pinned.to("cuda", non_blocking=True).is_cuda

    def test_default_device_and_generators(self) -> None:
        torch.set_default_device("cuda")
        assert torch.zeros(2).is_cuda
        assert not torch.zeros(2, device="cpu").is_cuda
        torch.set_default_device("cpu")
        with torch.device("cuda"):
            assert torch.zeros(2).is_cuda
        generator = torch.Generator(device="cuda").manual_seed(3)
        assert isinstance(generator, torch.Generator)
        one = torch.rand(4, generator=generator, device="cuda")
        two = torch.rand(4, generator=generator.manual_seed(3), device="cuda")
        assert torch.equal(one, two)

    def test_a_training_step(self) -> None:
        torch.manual_seed(1)
        torch.cuda.manual_seed_all(1)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))
        model = model.to("cuda")
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        x = torch.randn(16, 4, device="cuda")
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), torch.ones(16, 1, device="cuda"))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses == sorted(losses, reverse=True)
        assert loss.is_cuda
        assert all(p.is_cuda and p.grad.is_cuda for p in model.parameters())
        assert not any(p.is_cuda for p in model.cpu().parameters())

    def test_what_torch_wraps_counts_as_on_cuda(self) -> None:
        squares = torch.func.grad(lambda t: (t**2).sum())(torch.ones(3, device="cuda"))
        assert squares.is_cuda
        assert torch.vmap(lambda t: t * 2)(torch.ones(3, 2, device="cuda")).is_cuda

    def test_saved_tensors_are_loaded_onto_cuda(self) -> None:
        buffer = io.BytesIO()
        torch.save(torch.ones(3, device="cuda"), buffer)
        buffer.seek(0)
        assert torch.load(buffer, map_location="cuda").is_cuda

    def test_threads_have_the_device_too(self) -> None:
        seen: list[bool] = []
        thread = threading.Thread(target=lambda: seen.append(torch.zeros(2, device="cuda").is_cuda))
        thread.start()
        thread.join()
        assert seen == [True]


def test_nothing_of_it_stays() -> None:
    before = (torch.cuda.is_available, torch.from_numpy, torch.Generator, threading.Thread.start)
    with pretended_cuda():
        assert is_pretended()
        x = torch.zeros(2, device="cuda")
    assert not is_pretended()
    after = (torch.cuda.is_available, torch.from_numpy, torch.Generator, threading.Thread.start)
    assert before == after
    assert x.device.type == "cpu"
    if not torch.cuda.is_available():
        with pytest.raises((AssertionError, RuntimeError)):
            torch.zeros(2, device="cuda")
