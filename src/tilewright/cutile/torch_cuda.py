"""torch without a GPU for programs that ask for one: what they put on ``cuda`` lives in host memory.

Nothing of torch computes differently: the tensors are plain CPU tensors. A mode of torch (a
``TorchFunctionMode``) sees each call, serves requests for ``cuda`` by the CPU, copies where data
would move between host and device, and tells tensors that were put on ``cuda`` from those that were
not, so that ``x.device`` and ``x.is_cuda`` answer as they would with a GPU. Tensors of unknown origin,
such as gradients, count as on ``cuda``.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tilewright.cutile.captures import of_thread
from tilewright.cutile.torch_api import patched_api
from tilewright.cutile.torch_capacity import (
    check_capacity,
    clone,
    clone_to_device,
    refuse_if_missing,
)
from tilewright.cutile.torch_devices import check_index
from tilewright.cutile.torch_host import HostStorages
from tilewright.cutile.torch_host import host_storages as _host
from tilewright.cutile.torch_host import is_on_host as is_on_host
from tilewright.cutile.torch_host import storage_of as _storage
from tilewright.cutile.torch_kernels import kernels_of_gpus
from tilewright.cutile.torch_memory import device_memory
from tilewright.cutile.torch_programs import is_own_operation
from tilewright.cutile.torch_streams import check_host_waits
from tilewright.cutile.torch_tools import CUDA_INTERFACE, cuda_interface, host_view, parse_to
from tilewright.cutile.torch_types import representation, type_method

CUDA = torch.device("cuda", 0)
CPU = torch.device("cpu")
_page_locked = HostStorages()
_users = 0


def is_pretended() -> bool:
    """Whether a GPU is pretended."""
    return _users > 0


def _is_cuda(device: object) -> bool:
    if isinstance(device, str):
        return device == "cuda" or device.startswith("cuda:")
    return isinstance(device, torch.device) and device.type == "cuda"


def _is_device(value: object) -> bool:
    if isinstance(value, torch.device):
        return True
    return isinstance(value, str) and value.partition(":")[0] in ("cuda", "cpu")


def _getter(name: str) -> Any:
    return getattr(torch.Tensor, name).__get__


class CudaOnHost(TorchFunctionMode):
    """Serves the device ``cuda`` by the CPU, in the thread that enters it."""

    #: Where tensors go that are made without a word about devices.
    default = CPU

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        special = _SPECIAL.get(func)
        if special is not None:
            return special(*args, **kwargs)
        if func in _FROM_DATA and args and hasattr(type(args[0]), CUDA_INTERFACE):
            args, kwargs = _from_device_memory(args, kwargs)
        if func in _LEFT_ALONE:
            return func(*args, **kwargs)
        asked, func = func, _REPLACED.get(func, func)
        is_passed_on = _is_passed_on(func)
        wanted = None if is_passed_on else _requested(func, args, kwargs)
        if wanted is CUDA:
            args = tuple(CPU if _is_cuda(a) else a for a in args)
            if func in _MOVES:
                args = tuple(CPU if type(a) is int else a for a in args)
            if kwargs.get("device") is not None:
                kwargs = {**kwargs, "device": CPU}
        pinned = kwargs.get("pin_memory", False)
        if "pin_memory" in kwargs:
            kwargs = {k: v for k, v in kwargs.items() if k != "pin_memory"}
        sources = _tensors((*args, *kwargs.values()))
        if torch.is_autocast_enabled("cuda") and getattr(func, "__name__", None) in _IN_FLOAT32:
            args, kwargs = _in_float32(args, kwargs)
        if wanted is not None:
            on_host = wanted.type == "cpu"
        else:
            # Something new from tensors of the host only is on the host, as is what nothing says.
            default = self.default.type == "cpu" and not is_passed_on
            on_host = all(t in _host for t in sources) if sources else default
        try:
            if not on_host:
                check_capacity(asked, args, kwargs, sources)
            if of_thread.capture is not None and _crosses(func, wanted, args, kwargs):
                check_host_waits()
            result = func(*args, **kwargs)
            if wanted is not None and func in _MOVES:
                result = _moved(result, sources, wanted)
        except RuntimeError as error:
            if on_host:
                raise
            refuse_if_missing(error)
            raise
        if is_own_operation(func):
            return result  # its own function has said where things are
        if pinned:
            _page_locked.add(result)
        if on_host:
            _keep_on_host(result, sources)
        else:
            _count(result)
        return result


_HALVES = (torch.float16, torch.bfloat16)
#: What ``torch.autocast("cuda")`` computes in float32 (torch's documentation of ``amp``); on the CPU it leaves most of them in the
#: type that they are given.
_IN_FLOAT32 = frozenset(
    [
        "__pow__",
        "__rdiv__",
        "__rpow__",
        "__rtruediv__",
        "acos",
        "asin",
        "binary_cross_entropy_with_logits",
        "cosh",
        "cosine_embedding_loss",
        "cdist",
        "cosine_similarity",
        "cross_entropy",
        "cumprod",
        "cumsum",
        "dist",
        "erfinv",
        "exp",
        "expm1",
        "group_norm",
        "hinge_embedding_loss",
        "kl_div",
        "l1_loss",
        "layer_norm",
        "log",
        "log10",
        "log_softmax",
        "log1p",
        "log2",
        "margin_ranking_loss",
        "mse_loss",
        "multilabel_margin_loss",
        "multi_margin_loss",
        "nll_loss",
        "norm",
        "normalize",
        "pdist",
        "poisson_nll_loss",
        "pow",
        "prod",
        "reciprocal",
        "rsqrt",
        "sinh",
        "smooth_l1_loss",
        "soft_margin_loss",
        "softmax",
        "softmin",
        "softplus",
        "sum",
        "renorm",
        "tan",
        "triplet_margin_loss",
    ]
)


def _in_float32(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call with tensors of 16-bit floats on the device in float32, unless it says its type or brings
    its result."""
    if kwargs.get("dtype") is not None or kwargs.get("out") is not None:
        return args, kwargs

    def wide(value: Any) -> Any:
        is_narrow = isinstance(value, torch.Tensor) and value.dtype in _HALVES
        return value.float() if is_narrow and value not in _host else value

    return tuple(map(wide, args)), {name: wide(value) for name, value in kwargs.items()}


def _from_device_memory(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call that makes a tensor of an object with elements on the device."""
    if isinstance(args[0], torch.Tensor):
        return args, kwargs
    with CudaOnHost():  # the object may ask a tensor
        view = host_view(args[0])
    return (view, *args[1:]), {"device": CUDA, **kwargs}


def _requested(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> torch.device | None:
    """The device that a call asks for, if it does."""
    device = kwargs.get("device")
    if device is None and func in _MOVES:
        device = next((a for a in args[1:] if _is_device(a) or type(a) is int), None)
        if (
            device is None
            and func in _MOVES
            and len(args) > 1
            and isinstance(args[1], torch.Tensor)
        ):
            device = CPU if args[1] in _host else CUDA
    if not isinstance(device, int | str | torch.device):
        return None  # none, or what only stands for one (torch.fx)
    if not isinstance(device, int) and not _is_cuda(device):
        return torch.device(device)
    check_index(device)
    return CUDA


def _is_passed_on(func: Callable[..., Any]) -> bool:
    """Whether a mode of torch below passes on what torch does, where the device is the CPU in any case. In a backward pass, modes
    below are called with this one on."""
    if not isinstance(func, torch._ops.OpOverload):
        return False
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_name == "__torch_dispatch__":
            return True
        frame = frame.f_back
    return False


def _crosses(
    func: Callable[..., Any],
    wanted: torch.device | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> bool:
    """Whether a call moves elements between host and device, and the host waits for it."""
    if func in _TO_HOST:
        return args[0] not in _host
    if kwargs.get("non_blocking", False):
        return False
    if func is torch.Tensor.new_tensor and wanted is None:
        wanted = _device_of(args[0])
    if wanted is None:
        return False
    if func in _MOVES:
        return (args[0] in _host) != (wanted.type == "cpu")
    if func not in _FROM_DATA and func is not torch.Tensor.new_tensor:
        return False
    given = args[-1] if args else kwargs.get("data")
    on_device = isinstance(given, torch.Tensor) and given not in _host
    return on_device != (wanted.type == "cuda")


def _tensors(values: tuple[Any, ...]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += [item for item in value if isinstance(item, torch.Tensor)]
    return found


def _keep_on_host(result: Any, sources: list[torch.Tensor]) -> None:
    known = {_address(source) for source in sources}
    for tensor in _tensors((result,)):
        if _address(tensor) not in known:
            _host.add(tensor)


def _count(result: Any) -> None:
    """What a call gave is in the memory of the device, unless it was in that of the host before."""
    for tensor in _tensors((result,)):
        storage = _storage(tensor)
        if storage is not None and not _host.has_storage(storage):
            device_memory.add(storage)


def _address(tensor: torch.Tensor) -> int | None:
    storage = _storage(tensor)
    return None if storage is None else storage._cdata


def _moved(result: Any, sources: list[torch.Tensor], wanted: torch.device) -> Any:
    """A copy, where data would have gone from host to device or back."""
    source = sources[0]
    if not isinstance(result, torch.Tensor) or _address(result) != _address(source):
        return result
    return result if (source in _host) == (wanted.type == "cpu") else clone(result)


def _to_cuda(tensor: torch.Tensor, device: Any = None, *args: Any, **kwargs: Any) -> torch.Tensor:
    check_index(device)
    if tensor not in _host:
        return tensor
    if not (args[0] if args else kwargs.get("non_blocking", False)):
        check_host_waits()
    copied = clone_to_device(tensor)
    _count(copied)
    return copied


def _to_cpu(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    if tensor in _host:
        return tensor
    check_host_waits()
    copied = clone(tensor)
    _host.add(copied)
    return copied


def _represented(tensor: torch.Tensor, **kwargs: Any) -> str:
    on_cuda = _device_of(tensor).type == "cuda"
    if on_cuda:
        check_host_waits()
    return representation(tensor, on_cuda, **kwargs)


def _formatted(tensor: torch.Tensor, spec: str) -> str:
    """A number as numbers are, anything else as it is printed."""
    if spec or (tensor.dim() == 0 and type(tensor) is torch.Tensor):
        return torch.Tensor.__format__(tensor, spec)
    with CudaOnHost():
        return str(tensor)


def _type_as(tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """With the type and on the device of another tensor."""
    converted = tensor.to(other.dtype)
    on_host = other in _host
    if (tensor in _host) != on_host and _address(converted) == _address(tensor):
        converted = converted.clone()
    if on_host:
        _host.add(converted)
    else:
        _count(converted)
    return converted


def _pinned(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    copied = tensor.clone()
    _host.add(copied)
    _page_locked.add(copied)
    return copied


def _device_of(tensor: torch.Tensor, *_: Any) -> torch.device:
    device = _plain_device(tensor)
    return CUDA if device.type == "cpu" and tensor not in _host else device


_plain_device = _getter("device")


def _attention(*args: Any, **kwargs: Any) -> torch.Tensor:
    """Attention, whatever kernels of it a program has selected: of those the CPU may have none."""
    sdp = torch.backends.cuda
    if sdp.math_sdp_enabled():
        return _plain_attention(*args, **kwargs)
    sdp.enable_math_sdp(True)
    try:
        return _plain_attention(*args, **kwargs)
    finally:
        sdp.enable_math_sdp(False)


_plain_attention: Callable[..., torch.Tensor] = torch.nn.functional.scaled_dot_product_attention


def _with_out_dtype(product: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A product that also takes the type of its result, which the CPU does not: its elements are
    converted first, and it is computed in that type."""

    def call(
        *args: Any, out_dtype: torch.dtype | None = None, out: Any = None, **kwargs: Any
    ) -> torch.Tensor:
        if args and isinstance(args[-1], torch.dtype):
            args, out_dtype = args[:-1], args[-1]
        if out_dtype is None:
            return product(*args, **kwargs) if out is None else product(*args, out=out, **kwargs)
        _check_out_dtype(out_dtype, _tensors((*args, *kwargs.values()))[-1].dtype)
        wide = [a.to(out_dtype) if isinstance(a, torch.Tensor) else a for a in args]
        named = {
            k: v.to(out_dtype) if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()
        }
        result = product(*wide, **named)
        return result if out is None else out.copy_(result)

    return call


def _check_out_dtype(out_dtype: torch.dtype, operand: torch.dtype) -> None:
    """CUDA has products of one type, and those of short floats with results in f32."""
    is_wider = out_dtype == torch.float32 and operand in (torch.float16, torch.bfloat16)
    if out_dtype != operand and not is_wider:
        raise RuntimeError("out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs")


#: Calls that are made otherwise, on the tensors that the call is for.
_REPLACED: dict[Any, Callable[..., Any]] = {
    _plain_attention: _attention,
    **{
        product: _with_out_dtype(product)
        for product in (torch.mm, torch.bmm, torch.addmm, torch.baddbmm)
    },
}


def _device(*args: Any, **kwargs: Any) -> torch.device:
    """``torch.device``, which takes a bare number for that of a GPU."""
    number = args[0] if args else kwargs.get("device", kwargs.get("type", kwargs.get("index")))
    if isinstance(number, int) and len(args) + len(kwargs) == 1:
        return torch.device("cuda", number)
    return torch.device(*args, **kwargs)


#: Calls that are answered by a function of ours.
_SPECIAL: dict[Any, Callable[..., Any]] = {
    torch.device: _device,
    torch.Tensor.cuda: _to_cuda,
    torch.Tensor.cpu: _to_cpu,
    torch.Tensor.type_as: _type_as,
    torch.Tensor.pin_memory: _pinned,
    torch.Tensor.is_pinned: lambda tensor, *a, **k: tensor in _page_locked,
    torch.Tensor.is_shared: lambda tensor: tensor not in _host or tensor.is_shared(),
    **dict.fromkeys(
        (torch.Tensor.get_device, torch.get_device), lambda tensor: -1 if tensor in _host else 0
    ),
    torch.Tensor.type: type_method(_host),
    torch.Tensor.__repr__: _represented,
    torch.Tensor.__format__: _formatted,
    _getter("device"): _device_of,
    _getter("is_cuda"): lambda tensor, *_: _device_of(tensor).type == "cuda",
    _getter(CUDA_INTERFACE): lambda tensor, *_: cuda_interface(tensor, tensor in _host),
    _getter("is_cpu"): lambda tensor, *_: _device_of(tensor).type == "cpu",
}

#: What makes tensors of whatever holds elements.
_FROM_DATA = frozenset({torch.tensor, torch.as_tensor, torch.asarray})
#: Methods that take a device among their positional arguments, and then copy between devices.
_MOVES = frozenset({torch.Tensor.to})
#: What gives the elements of a tensor to the host.
_TO_HOST = frozenset(
    getattr(torch.Tensor, name)
    for name in (
        *("tolist", "numpy", "item", "__array__", "__bool__", "__int__", "__float__"),
        *("__index__", "__complex__", "__contains__"),
    )
)
#: What makes no tensor, and is asked often or is to see the device as it was given.
_LEFT_ALONE = frozenset(
    {
        *(_getter(name) for name in ("shape", "dtype", "layout", "requires_grad", "ndim")),
        torch.Tensor.size,
        torch.Tensor.stride,
        torch.Tensor.dim,
        torch.Tensor.numel,
        torch.Tensor.data_ptr,
        torch.Tensor.untyped_storage,
        torch.Tensor.__hash__,
        parse_to,
    }
)


@contextmanager
def pretended_cuda() -> Iterator[None]:
    """A GPU is pretended inside, in this thread and in those started inside."""
    global _users
    mode = CudaOnHost()
    with mode, kernels_of_gpus(), patched_api(mode, _host), _threads_too():
        _users += 1
        try:
            yield
        finally:
            _users -= 1


@contextmanager
def _threads_too() -> Iterator[None]:
    """Threads that are started inside have the mode, too: torch keeps modes for each thread."""
    original = threading.Thread.start

    def start(self: threading.Thread) -> None:
        run = self.run

        def run_with_mode() -> None:
            with CudaOnHost():
                run()

        self.run = run_with_mode
        original(self)

    threading.Thread.start = start
    try:
        yield
    finally:
        threading.Thread.start = original
