"""torch without a GPU for programs that ask for one: what they put on ``cuda`` lives in host memory.

Nothing of torch computes differently: the tensors are plain CPU tensors. A mode of torch (a
``TorchFunctionMode``) sees each call, serves requests for ``cuda`` by the CPU, copies where data
would move between host and device, and tells tensors that were put on ``cuda`` from those that were
not, so that ``x.device`` and ``x.is_cuda`` answer as they would with a GPU. Tensors of unknown origin,
such as gradients, count as on ``cuda``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode

from tilewright.cutile.torch_api import patched_api
from tilewright.cutile.torch_capacity import (
    check_capacity,
    clone,
    clone_to_device,
    refuse_if_missing,
)
from tilewright.cutile.torch_devices import check_index
from tilewright.cutile.torch_memory import device_memory
from tilewright.cutile.torch_programs import is_own_operation
from tilewright.cutile.torch_tools import CUDA_INTERFACE, cuda_interface, host_view, parse_to
from tilewright.cutile.torch_types import representation, type_method

CUDA = torch.device("cuda", 0)
CPU = torch.device("cpu")

_PURGE_ABOVE = 10_000


class HostStorages:
    """The storages of tensors that a program keeps in host memory."""

    def __init__(self) -> None:
        # A weak reference keeps the address of a storage from being used again.
        self._known: dict[int, StorageWeakRef] = {}
        self._lock = threading.Lock()
        self._purge_above = _PURGE_ABOVE

    def add(self, tensor: torch.Tensor) -> None:
        """The tensor is one of host memory, as are its views; nothing for tensors without
        storage."""
        storage = _storage(tensor)
        if storage is not None:
            self.add_storage(storage)

    def add_storage(self, storage: torch.UntypedStorage) -> None:
        """The same of a storage."""
        if storage._cdata in self._known:
            return
        device_memory.remove(storage)
        with self._lock:
            if len(self._known) >= self._purge_above:
                self._known = {k: ref for k, ref in self._known.items() if not ref.expired()}
                self._purge_above = max(_PURGE_ABOVE, 2 * len(self._known))
            self._known[storage._cdata] = StorageWeakRef(storage)

    def __contains__(self, tensor: torch.Tensor) -> bool:
        storage = _storage(tensor)
        return storage is not None and storage._cdata in self._known

    def has_storage(self, storage: torch.UntypedStorage) -> bool:
        """Whether a storage is one of host memory."""
        return storage._cdata in self._known


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """The storage of a tensor, or of what it stands for: the elements of a sparse one, what functorch has wrapped. None
    where there is none."""
    with torch._C.DisableTorchFunction():
        try:
            return tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            part = _part(tensor)
            return None if part is None else _storage(part)


_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def _part(tensor: torch.Tensor) -> torch.Tensor | None:
    functorch: Any = torch._C._functorch
    if functorch.is_functorch_wrapped_tensor(tensor):
        return functorch.get_unwrapped(tensor)
    if tensor.layout == torch.sparse_coo:
        return tensor._values()
    return tensor.values() if tensor.layout in _COMPRESSED else None


_host = HostStorages()
_page_locked = HostStorages()
_users = 0


def is_pretended() -> bool:
    """Whether a GPU is pretended."""
    return _users > 0


def is_on_host(tensor: torch.Tensor) -> bool:
    """Whether a program has kept a tensor off the GPU that is pretended."""
    return tensor in _host


def keep_on_host(tensor: torch.Tensor) -> None:
    """Count a tensor among those that a program keeps off the GPU."""
    _host.add(tensor)


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
        wanted = _requested(func, args, kwargs)
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
            on_host = all(t in _host for t in sources) if sources else self.default.type == "cpu"
        try:
            if not on_host:
                check_capacity(asked, args, kwargs, sources)
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
    copied = clone_to_device(tensor)
    _count(copied)
    return copied


def _to_cpu(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    if tensor in _host:
        return tensor
    copied = clone(tensor)
    _host.add(copied)
    return copied


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
    torch.Tensor.__repr__: lambda tensor, **k: representation(
        tensor, _device_of(tensor).type == "cuda", **k
    ),
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
    with mode, patched_api(mode, _host), _threads_too():
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
