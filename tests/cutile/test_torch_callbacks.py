"""Functions of a program that torch calls in the midst of its own calls see the device ``cuda`` as the program
does: kernels of operations, backward functions, functions that pack saved tensors, compiled functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")
torch = pytest.importorskip("torch", reason="torch is not installed")

from tilewright.cutile.torch_cuda import pretended_cuda  # noqa: E402


@pytest.fixture(autouse=True)
def hosted() -> Iterator[None]:
    with pretended_cuda():
        yield


def doubled(x: torch.Tensor) -> torch.Tensor:
    """Twice ``x``, by a function that asks where things are, as a launch does."""
    assert x.is_cuda and x.device.type == "cuda"
    made = torch.empty(x.shape, device="cuda")
    assert made.is_cuda
    return made.copy_(x * 2)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return doubled(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return doubled(grad)


def leaf() -> torch.Tensor:
    return torch.ones(5, device="cuda", requires_grad=True)


def _define_custom_op(name: str) -> Callable[..., Any]:
    made = torch.library.custom_op(name, mutates_args=())(_typed)
    made.register_autograd(lambda ctx, grad: doubled(grad))
    return made


def _typed(x: torch.Tensor) -> torch.Tensor:
    return doubled(x)


def test_kernels_of_operations() -> None:
    operation = _define_custom_op("tw_callbacks::a")
    x = leaf()
    for call in (operation, torch.ops.tw_callbacks.a, torch.ops.tw_callbacks.a.default):
        y = call(x)
        assert y.is_cuda and (y == 2).all()
    operation(x).sum().backward()
    assert x.grad is not None and x.grad.is_cuda and (x.grad == 2).all()


@pytest.mark.parametrize("key", ["CUDA", "CompositeExplicitAutograd", "CompositeImplicitAutograd"])
def test_kernels_of_libraries(key: str) -> None:
    made = torch.library.Library(f"tw_callbacks_{key}", "DEF")
    made.define("f(Tensor x) -> Tensor")
    made.impl("f", doubled, key)
    assert getattr(torch.ops, f"tw_callbacks_{key}").f(leaf().detach()).is_cuda


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_operations_that_make_tensors(device: str) -> None:
    seen: list[str] = []

    def make(n: int, device: torch.device) -> torch.Tensor:
        made = torch.zeros(n, device=device)
        seen.append(made.device.type)
        return made

    operation = torch.library.custom_op(
        f"tw_callbacks::make_{device}",
        make,
        mutates_args=(),
        schema="(int n, Device device) -> Tensor",
    )
    assert operation(3, torch.device(device)).device.type == device
    assert seen == [device]


@pytest.mark.parametrize(
    "differentiate",
    [
        lambda x, y: y.sum().backward(),
        lambda x, y: torch.autograd.backward(y.sum()),
        lambda x, y: torch.autograd.backward([y], [torch.ones_like(y)]),
        lambda x, y: setattr(x, "grad", torch.autograd.grad(y.sum(), x)[0]),
    ],
    ids=["method", "function", "list", "grad"],
)
def test_backward_functions(differentiate: Callable[..., None]) -> None:
    x = leaf()
    differentiate(x, Doubled.apply(x))
    assert x.grad is not None and x.grad.is_cuda and (x.grad == 2).all()


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpoints(reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    x = leaf()
    y: Any = checkpoint(lambda t: Doubled.apply(t.sin()), x, use_reentrant=reentrant)
    y.sum().backward()
    assert x.grad is not None and x.grad.is_cuda
    assert torch.allclose(x.grad, 2 * torch.cos(torch.ones(5, device="cuda")))


def test_saved_tensors() -> None:
    seen: list[str] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        seen.append(tensor.device.type)
        return tensor.cpu()

    def unpack(tensor: torch.Tensor) -> torch.Tensor:
        seen.append(tensor.device.type)
        return tensor.cuda()

    x = leaf()
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        x.sin().sum().backward()
    assert seen == ["cuda", "cpu"]
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        x.sin().sum().backward()
    assert x.grad is not None and x.grad.is_cuda


@pytest.mark.parametrize("options", [{}, {"fullgraph": True}, {"backend": "eager"}], ids=str)
def test_compiled_functions(options: dict[str, Any]) -> None:
    x = leaf()
    y = torch.compile(Doubled.apply, **options)(x)
    assert y.is_cuda and (y == 2).all()

    @torch.compile(**options)
    def decorated(x: torch.Tensor) -> torch.Tensor:
        return doubled(x.detach())

    assert decorated(x).is_cuda
    model = torch.nn.Linear(5, 1).cuda()
    model.compile()
    assert torch.compile(model)(x).is_cuda
    torch.compiler.reset()


def test_bare_numbers_are_gpus() -> None:
    assert torch.device(0) == torch.device("cuda", 0)
    assert torch.zeros(1).to(0).is_cuda and torch.zeros(1).to(torch.device(0)).is_cuda
    module = torch.nn.Linear(2, 2)
    assert module.to(0).weight.is_cuda
    module.to("cpu")
    assert module.to(device=0).weight.is_cuda
    assert torch.nn.Linear(2, 2).to(device="cuda", dtype=torch.float16).weight.is_cuda
    assert not module.to(device="cpu").weight.is_cuda
    assert torch.get_device(torch.zeros(1, device="cuda")) == 0
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.zeros(1).to(1)


def test_out_of_memory() -> None:
    with pytest.raises(torch.OutOfMemoryError, match=r"CUDA out of memory.*1048576.00 GiB"):
        torch.empty(1 << 50, device="cuda", dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="DefaultCPUAllocator") as caught:
        torch.empty(1 << 50, device="cpu", dtype=torch.uint8)
    assert not isinstance(caught.value, torch.OutOfMemoryError)


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors(layout: torch.layout) -> None:
    host, device = [torch.ones(2), torch.ones(3)], [torch.ones(2, device="cuda")] * 2
    assert torch.nested.nested_tensor(host, layout=layout, device="cuda").is_cuda
    assert torch.nested.nested_tensor(device, layout=layout).is_cuda
    assert torch.nested.as_nested_tensor(device, layout=layout).is_cuda
    assert not torch.nested.nested_tensor(host, layout=layout).is_cuda


def test_tools_around_programs(tmp_path: Any) -> None:
    torch.cuda._sleep(1000)
    torch.cuda.memory._record_memory_history(max_entries=100)
    torch.cuda.memory._dump_snapshot(str(tmp_path / "memory.pickle"))
    torch.cuda.memory._record_memory_history(enabled=None)
    assert torch.cuda.memory._snapshot()["segments"] == []
    assert torch.cuda.memory.memory_allocated() == torch.cuda.memory_allocated()
    with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
        assert torch.ones(1, device="cuda").is_cuda
    with torch.autograd.profiler.emit_nvtx():
        torch.ones(1, device="cuda")
    torch.cuda.cudart().cudaProfilerStart()
    torch.cuda.profiler.stop()
    assert torch.backends.cuda.is_built()

    @torch.cuda.nvtx.range("ranged {}", 1)
    def ranged() -> int:
        return 3

    assert ranged() == 3
    stream, event = torch.cuda.Stream(), torch.cuda.Event()
    assert stream._as_parameter_.value == stream.cuda_stream
    assert stream.__cuda_stream__() == (0, stream.cuda_stream) and event.cuda_event
