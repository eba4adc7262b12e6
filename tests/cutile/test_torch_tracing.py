"""Programs that torch takes down instead of running them (TorchScript, ``torch.fx``, tensors without elements), on the device
``cuda``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")
torch = pytest.importorskip("torch", reason="torch is not installed")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from tilewright.cutile.torch_cuda import pretended_cuda  # noqa: E402

CUDA = torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def hosted() -> Iterator[None]:
    with pretended_cuda(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*torch\.jit", DeprecationWarning)
        yield


class Shifted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x)) + torch.ones(3, device=x.device)


def test_tensors_without_elements_are_on_their_device() -> None:
    real, on_host = torch.ones(2, 3, device="cuda"), torch.ones(3)
    with FakeTensorMode() as mode:
        made = torch.empty(3, 4, device="cuda")
        product = mode.from_tensor(real) @ made
        assert made.device == product.device == product.new_ones(2).device == CUDA
        assert product.is_cuda and product.shape == (2, 4)
        assert product.cpu().device.type == torch.ones(2).device.type == "cpu"
        assert "cuda:0" in repr(product)
    assert real.device == CUDA
    assert on_host.device.type == "cpu"


def test_gradients_of_tensors_without_elements() -> None:
    """torch ends the process where these are on a device that there is not."""
    with FakeTensorMode():
        linear = torch.nn.Linear(3, 3, device="cuda")
        linear(torch.ones(2, 3, device="cuda")).sum().backward()
        assert linear.weight.grad is not None
        assert linear.weight.grad.device == linear.weight.device == CUDA


def test_programs_taken_down_by_fx_ask_for_the_device_of_an_argument() -> None:
    x = torch.randn(2, 3, device="cuda")
    module = Shifted().to("cuda")
    traced = torch.fx.symbolic_trace(module)
    assert torch.equal(traced(x), module(x))
    assert traced(x).device == CUDA


def test_exported_programs_run_on_the_device() -> None:
    x = torch.randn(2, 3, device="cuda")
    module = Shifted().to("cuda")
    batch = torch.export.Dim("batch", min=2, max=64)
    exported = torch.export.export(module, (x,), dynamic_shapes=({0: batch},)).module()
    wide = torch.randn(5, 3, device="cuda")
    assert torch.equal(exported(wide), module(wide))
    assert exported(wide).device == CUDA


def test_scripted_functions_see_the_device() -> None:
    @torch.jit.script
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x.to("cuda") + torch.zeros([2], device=torch.device("cuda"))

    @torch.jit.script
    def outer(x: torch.Tensor) -> tuple[torch.Tensor, torch.device, bool]:
        return inner(x).cuda(), x.device, x.is_cuda

    made, device, is_cuda = outer(torch.ones(2, device="cuda"))
    assert made.device == device == CUDA and is_cuda
    made, device, is_cuda = outer(torch.ones(2))
    assert made.device == CUDA and device.type == "cpu" and not is_cuda
    assert "inner" in str(outer.graph)


def test_tracing_says_nothing_of_ours() -> None:
    x = torch.randn(2, 3, device="cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        traced = torch.jit.trace(Shifted().to("cuda"), x)
    assert traced(x).device == CUDA


def test_scripted_modules_are_read_to_where_they_are_wanted(tmp_path: Path) -> None:
    file = str(tmp_path / "module.pt")
    x = torch.randn(2, 3, device="cuda")
    module = Shifted().to("cuda")
    torch.jit.script(module).save(file)
    loaded = torch.jit.load(file, map_location="cuda")
    assert torch.equal(loaded(x), module(x))
    assert {p.device for p in loaded.parameters()} == {CUDA}
    on_host = torch.jit.load(file, map_location="cpu")
    assert {p.device.type for p in on_host.parameters()} == {"cpu"}
    assert on_host(x.cpu()).device.type == "cpu"


class Making(torch.nn.Module):
    """Asks for tensors on the device in code that TorchScript runs."""

    def __init__(self) -> None:
        super().__init__()
        self.place = torch.device("cuda")

    def forward(self, x: torch.Tensor, name: str) -> torch.Tensor:
        made = torch.zeros([2], device="cuda") + torch.arange(2, device=name)
        made = made + torch.full([2], 2.0, device=self.place) + torch.eye(2, device="cuda:0")[0]
        made = made + torch.tril_indices(2, 1, device="cuda")[0]
        return made + torch.zeros_like(x, device="cuda") + x.new_zeros([2], device="cuda")


class Copying(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to("cuda")


def test_scripted_modules_make_tensors_on_the_device(tmp_path: Path) -> None:
    module = torch.jit.script(Making())
    torch.jit.save(module, str(tmp_path / "module.pt"))
    wanted = [3.0, 4.0]
    for scripted in (module, torch.jit.load(str(tmp_path / "module.pt"))):
        for x in (torch.ones(2, device="cuda"), torch.ones(2)):
            made = scripted(x, "cuda")
            assert made.device == CUDA and made.tolist() == wanted
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            scripted(x, "cuda:1")


def test_scripted_modules_that_copy_to_the_device_are_refused() -> None:
    with pytest.raises(RuntimeError, match="but not copies to the device"):
        torch.jit.script(Copying())(torch.ones(2))
