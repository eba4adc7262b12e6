"""What programs for GPUs say to torch about devices elsewhere than in calls on tensors: mixed precision,
operations of their own, files, profiles and random generators, for a GPU that is only pretended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Mapping
from multiprocessing.reduction import ForkingPickler
from typing import Any, Protocol

import torch
import torch.distributed
import torch.multiprocessing
from torch.utils._pytree import tree_leaves

from tilewright.cutile.torch_callbacks import Holding
from tilewright.cutile.torch_devices import check_index
from tilewright.cutile.torch_memory import device_memory

#: The key of what computes on every device.
_ANY = "CompositeExplicitAutograd"
_AUTOCAST: Any = torch.amp.autocast_mode.autocast
_OF_TORCH = ("aten", "prims")
_CUDA = torch.device("cuda", 0)


class Host(Protocol):
    """The tensors and storages that a program keeps in host memory."""

    def add(self, tensor: torch.Tensor) -> None:
        """The tensor is one of host memory, as are its views."""

    def __contains__(self, tensor: torch.Tensor) -> bool: ...
    def add_storage(self, storage: torch.UntypedStorage) -> None:
        """The same of a storage."""

    def has_storage(self, storage: torch.UntypedStorage) -> bool:
        """Whether a storage is one of host memory."""
        ...


Table = tuple[Any, Mapping[str, Any]]


def tables(host: Host, holding: Holding) -> list[Table]:
    """Owners in torch, and what stands in them instead, by name."""
    registry = [(-1, _tagger(host), _deserializer(host)), *torch.serialization._package_registry]
    return [
        (_AUTOCAST, _autocast()),
        (torch.library.Library, {"impl": _implementation(host, holding)}),
        (torch.serialization, {"_package_registry": registry}),
        (torch.UntypedStorage, {"cuda": _storage_to_cuda(host)}),
        (ForkingPickler, {"_extra_reducers": _reducers(host)}),
        (torch.autograd.profiler.profile, {"__init__": _profile_of_host()}),
        *_groups(),
    ]


class Generator(torch._C.Generator):
    """A random generator: it computes as that of the CPU, and tells the device that it was asked for."""

    def __new__(cls, device: Any = "cpu") -> Generator:
        made: Any = torch._C.Generator.__new__(cls)
        made.wanted = torch.device(device)
        return made

    def __init__(self, device: Any = "cpu") -> None:
        super().__init__()

    wanted: torch.device

    @property
    def device(self) -> torch.device:  # pyright: ignore[reportIncompatibleVariableOverride]
        return _CUDA if self.wanted.type == "cuda" else self.wanted


class _GeneratorType(type(torch._C.Generator)):
    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, torch._C.Generator)


class AnyGenerator(Generator, metaclass=_GeneratorType):
    """What ``torch.Generator`` is meanwhile; those that torch has made are instances of it, too."""

    def __new__(cls, device: Any = "cpu") -> Generator:
        return Generator(device)


def _autocast() -> Mapping[str, Any]:
    """Where ``cuda`` computes in another type, the CPU does, by its own list of operations."""
    enter, leave = _AUTOCAST.__enter__, _AUTOCAST.__exit__

    def enter_both(context: Any) -> Any:
        if context.device == "cuda":
            context._of_cpu = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
            torch.set_autocast_enabled("cpu", context._enabled)
            torch.set_autocast_dtype("cpu", context.fast_dtype)
        return enter(context)

    def leave_both(context: Any, *exception: Any) -> Any:
        result = leave(context, *exception)
        if context.device == "cuda":
            is_enabled, dtype = context._of_cpu
            torch.set_autocast_enabled("cpu", is_enabled)
            torch.set_autocast_dtype("cpu", dtype)
        return result

    return {"__enter__": enter_both, "__exit__": leave_both}


class _Kernels:
    """What a program does for one operation of its own, on each device."""

    def __init__(self, full_name: str, name: str, host: Host) -> None:
        self.of: dict[str, tuple[Callable[..., Any], bool]] = {}
        self._full_name, self._name, self._host = full_name, name, host

    def is_registered(self, registered: Container[str]) -> bool:
        """Whether torch still has one of them: it forgets them with the library that made them."""
        return any(f"{self._full_name}/{key}" in registered for key in ("CPU", _ANY))

    def __call__(self, keys: Any, *args: Any, **kwargs: Any) -> Any:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        on_host = bool(tensors) and all(tensor in self._host for tensor in tensors)
        wanted = "CPU" if on_host else "CUDA"
        found = self.of.get(wanted) or self.of.get(_ANY)
        if found is None and tensors:
            raise NotImplementedError(
                f"Could not run '{self._name}' with arguments from the '{wanted}' backend. "
                f"'{self._name}' is only available for these backends: [{', '.join(self.of)}]"
            )
        function, with_keys = found or next(iter(self.of.values()))
        return function(keys, *args, **kwargs) if with_keys else function(*args, **kwargs)


def _implementation(host: Host, holding: Holding) -> Callable[..., None]:
    """``Library.impl``: torch asks for the CPU's implementation of an operation, whatever device its
    tensors say that they are on; that calls the one of the device."""
    native = torch.library.Library.impl
    known: dict[str, _Kernels] = {}
    lock = threading.Lock()

    def impl(
        library: Any,
        op_name: Any,
        fn: Any,
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        **options: Any,
    ) -> None:
        key = dispatch_key or library.dispatch_key
        # torch's own operations have implementations already.
        if not callable(fn) or library.ns in _OF_TORCH:
            native(library, op_name, fn, dispatch_key, with_keyset=with_keyset, **options)
            return
        if key in ("CPU", "CUDA", _ANY):
            fn = holding(fn)
        elif key != "Meta":
            fn = holding.unless_checked(fn)
        if key not in ("CPU", "CUDA", _ANY):
            native(library, op_name, fn, dispatch_key, with_keyset=with_keyset, **options)
            return
        name = op_name if isinstance(op_name, str) else op_name.name()
        full_name = f"{library.ns}/{name.rpartition('::')[2]}"
        with lock:
            kernels = known.get(full_name)
            if kernels is None or not kernels.is_registered(torch.library._impls):
                kernels = known[full_name] = _Kernels(full_name, name, host)
            elif key in kernels.of and not options.get("allow_override", True):
                raise RuntimeError(f"This is not allowed since {name} has a kernel for {key}")
            kernels.of[key] = fn, with_keyset
            if key == _ANY:
                native(library, op_name, fn, key, with_keyset=with_keyset, **options)
            elif f"{full_name}/CPU" not in torch.library._impls:
                native(library, op_name, kernels, "CPU", with_keyset=True, **options)

    return impl


def is_own_operation(func: object) -> bool:
    """Whether a call is one of an operation that a program has made."""
    ops: Any = torch._ops
    if isinstance(func, ops.OpOverload):
        name: str = getattr(func, "namespace")  # noqa: B009
    elif isinstance(func, ops.OpOverloadPacket):
        name = getattr(func, "_qualified_op_name")  # noqa: B009
    else:
        return False
    return name.partition("::")[0] not in _OF_TORCH


def _tagger(host: Host) -> Callable[[Any], str | None]:
    """Where a file says that a storage was."""

    def tag(storage: Any) -> str | None:
        plain = getattr(storage, "_untyped_storage", storage)
        if plain.device.type != "cpu":
            return None
        return "cpu" if host.has_storage(plain) else "cuda:0"

    return tag


def _deserializer(host: Host) -> Callable[[Any, str], Any]:
    """Puts a storage of a file where it was, or where the program says."""

    def restore(storage: Any, location: str) -> Any:
        if location == "cpu":
            host.add_storage(storage)
            return storage
        if location.partition(":")[0] != "cuda":
            return None
        check_index(location)
        device_memory.add(storage)
        return storage

    return restore


def load(host: Host) -> Callable[..., Any]:
    """``torch.load``, which also may be told by a function where storages go."""
    native = torch.load

    def call(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        where = map_location
        if callable(map_location) and not isinstance(map_location, torch.device):

            def where(storage: Any, location: str) -> Any:
                moved = map_location(storage, location)
                if moved is storage:
                    host.add_storage(storage)
                return moved

        return native(f, where, *args, **kwargs)

    return call


def _storage_to_cuda(host: Host) -> Callable[..., torch.UntypedStorage]:
    def cuda(storage: Any, device: Any = None, *args: Any, **kwargs: Any) -> torch.UntypedStorage:
        check_index(device)
        copied = storage.clone()
        device_memory.add(copied)
        return copied

    return cuda


def _reducers(host: Host) -> dict[type, Callable[[Any], Any]]:
    """How tensors go to other processes: those in host memory are there, too."""
    own: dict[type, Callable[[Any], Any]] = dict(getattr(ForkingPickler, "_extra_reducers"))  # noqa: B009

    def told(reduce: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(tensor: torch.Tensor) -> Any:
            function, arguments, *more = reduce(tensor)
            if tensor not in host:
                return function, arguments, *more
            return _rebuilt_on_host, (function, arguments), *more

        return call

    return {
        kind: told(reduce) if issubclass(kind, torch.Tensor) else reduce
        for kind, reduce in own.items()
    }


def _rebuilt_on_host(function: Callable[..., torch.Tensor], arguments: Any) -> torch.Tensor:
    from tilewright.cutile.torch_host import keep_on_host

    tensor = function(*arguments)
    keep_on_host(tensor)
    return tensor


def _groups() -> list[Table]:
    """Groups of processes that talk by NCCL, which is for GPUs, talk by Gloo."""
    if not torch.distributed.is_available():
        return []
    from torch.distributed import distributed_c10d as c10d

    places = {"init_process_group": 0, "new_group": 2}
    made = {name: _by_gloo(getattr(c10d, name), place) for name, place in places.items()}
    made["is_nccl_available"] = lambda: True
    return [(torch.distributed, made), (c10d, made)]


def _by_gloo(native: Callable[..., Any], place: int) -> Callable[..., Any]:
    """A function whose argument in that place, or by the name ``backend``, says how processes talk."""

    def gloo(backend: Any) -> Any:
        return backend.lower().replace("nccl", "gloo") if isinstance(backend, str) else backend

    def call(*args: Any, **kwargs: Any) -> Any:
        args = tuple(gloo(arg) if at == place else arg for at, arg in enumerate(args))
        if "backend" in kwargs:
            kwargs = {**kwargs, "backend": gloo(kwargs["backend"])}
        # A GPU that NCCL is to connect at once.
        return native(*args, **{name: v for name, v in kwargs.items() if name != "device_id"})

    return call


def _profile_of_host() -> Callable[..., None]:
    """Profiles of the GPU are those of the host: its events are all that there are."""
    native = torch.autograd.profiler.profile.__init__

    def initialize(profile: Any, *args: Any, **options: Any) -> None:
        native(profile, *args, **_without_cuda(options))

    return initialize


def _without_cuda(options: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in options.items() if name != "use_cuda"}
    if kept.get("use_device") == "cuda":
        kept.update(use_device=None, use_cpu=True)
    return kept
