"""What programs say to torch about devices elsewhere than in calls on tensors: mixed precision, operations
of their own, files, workers, profiles, generators."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")
torch = pytest.importorskip("torch", reason="torch is not installed")

from tilewright.cutile.torch_cuda import pretended_cuda  # noqa: E402


@pytest.fixture(autouse=True)
def hosted() -> Iterator[None]:
    with pretended_cuda():
        yield


def ones(device: str = "cuda") -> torch.Tensor:
    return torch.ones(4, 4, device=device)


@pytest.mark.parametrize("dtype", [None, torch.float16, torch.bfloat16])
def test_mixed_precision(dtype: torch.dtype | None) -> None:
    x = ones()
    wanted = dtype or torch.float16
    with torch.autocast("cuda", dtype=dtype):
        assert (x @ x).dtype == wanted
        assert torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == wanted
        with torch.autocast("cuda", enabled=False):
            assert (x @ x).dtype == torch.float32
        assert (x @ x).dtype == wanted
    assert (x @ x).dtype == torch.float32
    assert not torch.is_autocast_enabled("cpu")

    @torch.autocast("cuda", dtype=wanted)
    def decorated() -> torch.dtype:
        return torch.nn.functional.linear(x, x).dtype

    assert decorated() == wanted


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_mixed_precision_computes_in_float32_what_a_gpu_does(dtype: torch.dtype) -> None:
    x = (ones() * 300).to(dtype)
    weight = torch.ones(4, dtype=dtype, device="cuda", requires_grad=True)
    with torch.autocast("cuda", dtype=dtype):
        for found in (
            torch.softmax(x, -1), x.softmax(0), torch.nn.functional.log_softmax(x, dim=-1), x.exp(), x.pow(2),
            torch.nn.functional.layer_norm(x, (4,), weight), torch.nn.LayerNorm(4).cuda().to(dtype)(x),
            x.sum(), torch.cumsum(input=x, dim=0), torch.nn.functional.mse_loss(x, x), x**2,
        ):  # fmt: skip
            assert found.dtype == torch.float32
            assert found.is_cuda
        assert x.pow(2).max() == 90000  # beyond float16
        # What says its own type, what brings its result, other types, and the host are left alone.
        assert torch.softmax(x, -1, dtype=dtype).dtype == dtype
        assert torch.exp(x, out=torch.empty_like(x)).dtype == dtype
        assert x.double().exp().dtype == torch.float64
        assert x.cpu().rsqrt().dtype == dtype
        assert torch.relu(x).dtype == dtype
        torch.nn.functional.layer_norm(x, (4,), weight).sum().backward()
    assert weight.grad is not None
    assert weight.grad.dtype == dtype
    assert weight.grad.is_cuda
    assert x.exp().dtype == dtype


def test_scaled_gradients() -> None:
    model = torch.nn.Linear(4, 4).cuda()
    # With its usual scale of 65536, gradients leave float16 where a result is above 2: the step is left out.
    scaler = torch.amp.GradScaler("cuda", init_scale=1024)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    before = model.weight.detach().clone()
    with torch.autocast("cuda"):
        loss = model(ones()).float().square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(model.weight, before)


def test_operations_of_a_device() -> None:
    made = torch.library.Library("tw_surface", "DEF")
    made.define("f(Tensor x) -> Tensor")
    made.impl("f", lambda x: x * 2, "CUDA")
    operation: Any = torch.ops.tw_surface.f
    assert (operation(ones()) == 2).all()
    with pytest.raises(NotImplementedError, match=r"'CPU' backend.*available.*CUDA"):
        operation(ones("cpu"))
    made.impl("f", lambda x: x * 3, "CPU")
    assert (operation(ones()) == 2).all() and (operation(ones("cpu")) == 3).all()
    made.impl("f", lambda x: x * 4, "CUDA")
    assert (operation(ones()) == 4).all()


def test_custom_operations() -> None:
    @torch.library.custom_op("tw_surface::both", mutates_args=())
    def both(x: torch.Tensor) -> torch.Tensor:
        return x * 7

    assert (both(ones()) == 7).all()

    @both.register_kernel("cuda")
    def of_cuda(x: torch.Tensor) -> torch.Tensor:
        return x * 8

    assert (both(ones()) == 8).all() and (both(ones("cpu")) == 7).all()

    @torch.library.custom_op("tw_surface::one", mutates_args=("x",), device_types="cuda")
    def one(x: torch.Tensor) -> None:
        x.add_(1)

    x = ones()
    one(x)
    assert (x == 2).all()


def saved(*tensors: torch.Tensor, **how: Any) -> list[torch.Tensor]:
    file = io.BytesIO()
    torch.save(list(tensors), file)
    file.seek(0)
    return torch.load(file, **how)


@pytest.mark.parametrize(
    ("map_location", "on_cuda"),
    [
        (None, [False, True]),
        ("cpu", [False, False]),
        (torch.device("cpu"), [False, False]),
        ("cuda", [True, True]),
        ("cuda:0", [True, True]),
        ({"cuda:0": "cpu"}, [False, False]),
        ({"cpu": "cuda:0"}, [True, True]),
        (lambda storage, location: storage, [False, False]),
        (lambda storage, location: storage.cuda(), [True, True]),
        (lambda storage, location: None, [False, True]),
    ],
)
def test_files_tell_the_device(map_location: Any, on_cuda: list[bool]) -> None:
    loaded = saved(ones("cpu"), ones() * 2, map_location=map_location)
    assert [tensor.is_cuda for tensor in loaded] == on_cuda
    assert [tensor.sum().item() for tensor in loaded] == [16, 32]


def test_a_file_for_another_gpu() -> None:
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        saved(ones(), map_location="cuda:1")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_copies_stay_where_they_are(device: str) -> None:
    x = ones(device)
    assert copy.deepcopy(x).device == x.device
    assert pickle.loads(pickle.dumps(x)).device == x.device
    assert ForkingPickler.loads(ForkingPickler.dumps(x)).device == x.device


def test_workers_give_tensors_of_the_host() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=4, num_workers=1):
        assert not batch.is_cuda and batch.cuda().is_cuda


def test_generators_tell_their_device() -> None:
    generator = torch.Generator(device="cuda")
    assert generator.manual_seed(3) is generator and generator.device == torch.device("cuda:0")
    assert torch.Generator().device.type == "cpu"
    assert isinstance(torch.default_generator, torch.Generator)
    first = torch.randn(3, device="cuda", generator=generator)
    again = torch.Generator("cuda").manual_seed(3)
    assert torch.equal(first, torch.randn(3, device=again.device, generator=again))


def test_tensors_without_memory() -> None:
    x = torch.empty(3, device="meta")
    assert x.is_meta and x.device.type == "meta" and not x.is_cuda
    assert torch.empty_like(ones(), device="meta").is_meta
    assert torch.nn.Linear(2, 2, device="meta").to_empty(device="cuda").weight.is_cuda


def test_profiles_of_the_gpu(capfd: pytest.CaptureFixture[str]) -> None:
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        ones().add_(1)
    assert "aten::add_" in profile.key_averages().table(sort_by="cuda_time_total")
    assert "Failed" not in capfd.readouterr().err


@pytest.mark.parametrize("product", [torch.mm, torch.bmm])
def test_products_that_cuda_has_not(product: Any) -> None:
    shape = (2, 2) if product is torch.mm else (1, 2, 2)
    x = torch.ones(shape, dtype=torch.bfloat16, device="cuda")
    with pytest.raises(RuntimeError, match="out_dtype must be the same as input dtype"):
        product(x, x, out_dtype=torch.float16)


def test_properties_have_their_name() -> None:
    assert repr(torch.cuda.get_device_properties(0)).startswith("_CudaDeviceProperties(name=")


def test_tensors_without_elements() -> None:
    """torch's native code knows only devices that there are, and ends the process for others."""
    from torch.fx.experimental.proxy_tensor import make_fx

    made = make_fx(
        lambda t: torch.nn.functional.linear(t, torch.ones(2, 4, device=t.device)).sin(),
        tracing_mode="fake",
    )(ones())
    assert made(ones()).shape == (4, 2)


def test_operations_are_checked() -> None:
    @torch.library.custom_op("tilewright_checked::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        assert x.is_cuda
        return x * torch.full((1,), 2.0, device="cuda")

    twice.register_fake(torch.empty_like)
    twice.register_autograd(lambda context, gradient: twice(gradient))
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    for needs in (False, True):
        x = torch.ones(4, device="cuda", requires_grad=needs)
        done = torch.library.opcheck(twice, (x,), test_utils=tests)
        assert set(done.values()) == {"SUCCESS"}


def test_a_profile_of_the_device_alone() -> None:
    from torch.profiler import ProfilerActivity, profile, schedule

    steps = schedule(wait=1, warmup=1, active=1)
    with profile(activities=[ProfilerActivity.CUDA], schedule=steps) as profiler:
        for _ in range(3):
            ones().sum()
            profiler.step()
    assert len(profiler.key_averages()) > 0


@pytest.mark.parametrize("backend", ["nccl", "cpu:gloo,cuda:nccl", None])
def test_groups_of_processes(backend: str | None, tmp_path: Path) -> None:
    distributed = torch.distributed
    assert distributed.is_nccl_available()
    where = f"file://{tmp_path / 'store'}"
    distributed.init_process_group(
        backend, where, rank=0, world_size=1, device_id=torch.device("cuda:0") if backend else None
    )
    try:
        x = ones()
        distributed.all_reduce(x, group=distributed.new_group([0], backend="nccl"))
        assert x.is_cuda
        model = torch.nn.parallel.DistributedDataParallel(
            torch.nn.Linear(4, 4).cuda(), device_ids=[0]
        )
        model(x).sum().backward()
        assert model.module.weight.grad.is_cuda
    finally:
        distributed.destroy_process_group()


def test_tensors_in_texts_tell_their_device() -> None:
    x = torch.ones(2, device="cuda")
    assert f"{x}" == "{}".format(x) == "tensor([1., 1.], device='cuda:0')"  # noqa: UP032
    assert f"{torch.ones(2)}" == "tensor([1., 1.])"
    assert f"{torch.tensor(1.5, device='cuda'):.2f}" == "1.50"
    assert "device='cuda:0'" in f"{torch.nn.Parameter(torch.tensor(1.5, device='cuda'))}"
    with pytest.raises(TypeError, match="unsupported format string"):
        f"{x:.2f}"
    event = torch.cuda.Event()
    assert repr(event) == "<torch.cuda.Event uninitialized>"
    event.record()
    assert repr(event) == f"<torch.cuda.Event {event.cuda_event:#x}>"


@pytest.mark.parametrize("move", [lambda m: m.cuda(), lambda m: m.to("cuda")], ids=["cuda", "to"])
def test_modules_without_shapes_are_moved(move: Any) -> None:
    module = move(torch.nn.LazyLinear(3))
    assert module(torch.ones(2, 4, device="cuda")).is_cuda
    assert module.weight.shape == (3, 4) and module.weight.is_cuda and module.bias.is_cuda
    back = torch.nn.LazyLinear(3, device="cuda").cpu()
    assert not back(torch.ones(2, 4)).is_cuda and not back.weight.is_cuda
    norm = move(torch.nn.LazyBatchNorm1d())
    assert norm(torch.ones(2, 4, device="cuda")).is_cuda and norm.running_mean.is_cuda


def test_tensors_of_a_programs_own_kind_are_asked_only_by_the_program() -> None:
    seen: list[str] = []

    class Recording(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):  # pyright: ignore
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2, device="cuda").as_subclass(Recording)
    seen.clear()
    assert (x + 1) is not None
    assert seen == ["add"]


def test_the_version_of_nccl() -> None:
    assert torch.cuda.nccl.version()[0] == 2
