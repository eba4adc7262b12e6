"""The functions of ``torch.cuda`` and its kin, for a GPU that is only pretended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch

from tilewright.cutile.frontend import COMPUTE_CAPABILITY

DEVICE_NAME = "Tilewright (host)"
#: What programs that size their grid by the GPU are told: the figures of a B200.
_MULTIPROCESSORS = 148
_L2_BYTES = 126 << 20
_MEMORY_BYTES = 180 << 30

_missing = object()


class Stream:
    """A stream on which everything has been done already: work runs when it is submitted."""

    cuda_stream = 0
    stream_id = 0
    device_index = 0
    priority = 0
    device = torch.device("cuda", 0)

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def synchronize(self) -> None: ...

    def wait_event(self, event: Any) -> None: ...

    def wait_stream(self, stream: Any) -> None: ...

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def record_event(self, event: Any = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: Any) -> None: ...


class Event:
    """An event: the time at which it was recorded, by the clock of the host."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._recorded: float | None = None

    def record(self, stream: Any = None) -> None:
        self._recorded = time.perf_counter()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds until another event."""
        if self._recorded is None or end_event._recorded is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end_event._recorded - self._recorded) * 1e3

    def query(self) -> bool:
        return True

    def synchronize(self) -> None: ...

    def wait(self, stream: Any = None) -> None: ...


_STREAM = Stream()


class _Nothing:
    """A context that changes nothing, whatever it is given."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *exception: Any) -> None: ...


def _refused(what: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        from tilewright.cutile.errors import RefusedError

        raise RefusedError(f"{what} needs a GPU")

    return refuse


def _always(value: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: value


def _check_index(device: Any = None) -> None:
    index = device if isinstance(device, int) else getattr(torch.device(device or 0), "index", 0)
    if index not in (None, 0, -1):
        raise RuntimeError("CUDA error: invalid device ordinal")


def _properties(device: Any = None) -> Any:
    _check_index(device if not isinstance(device, str) else torch.device(device))
    major, minor = COMPUTE_CAPABILITY
    return SimpleNamespace(
        name=DEVICE_NAME,
        major=major,
        minor=minor,
        total_memory=_MEMORY_BYTES,
        multi_processor_count=_MULTIPROCESSORS,
        L2_cache_size=_L2_BYTES,
        warp_size=32,
        max_threads_per_multi_processor=2048,
        shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=227 << 10,
        shared_memory_per_multiprocessor=228 << 10,
        regs_per_multiprocessor=65536,
        is_integrated=0,
        is_multi_gpu_board=0,
        gcnArchName="",
    )


_ZERO = (
    "memory_allocated",
    "max_memory_allocated",
    "memory_reserved",
    "max_memory_reserved",
    "utilization",
    "current_device",
)
_DOES_NOTHING = (
    "init",
    "_lazy_init",
    "synchronize",
    "set_device",
    "set_stream",
    "empty_cache",
    "ipc_collect",
    "reset_peak_memory_stats",
    "reset_max_memory_allocated",
    "reset_accumulated_memory_stats",
)


def _context(name: str) -> type:
    return type(name, (_Nothing,), {})


def _seed(seed: int) -> None:
    # Not torch.manual_seed, which calls this.
    torch.default_generator.manual_seed(int(seed))


def _cuda() -> Mapping[str, Any]:
    major, minor = COMPUTE_CAPABILITY
    # An object for each name: torch keeps rules for functions by their identity.
    numbers = {name: _always(0) for name in _ZERO}
    nothing = {name: _always(None) for name in _DOES_NOTHING}
    return {
        **numbers,
        **nothing,
        "is_available": _always(True),
        "is_initialized": _always(True),
        "is_bf16_supported": _always(True),
        "is_tf32_supported": _always(True),
        "is_current_stream_capturing": _always(False),
        "can_device_access_peer": _always(False),
        "device_count": _always(1),
        "device": _context("device"),
        "device_of": _context("device_of"),
        "Stream": Stream,
        "ExternalStream": type("ExternalStream", (Stream,), {}),
        "StreamContext": _context("StreamContext"),
        "stream": _context("stream"),
        "current_stream": _always(_STREAM),
        "default_stream": _always(_STREAM),
        "Event": Event,
        "get_device_name": _always(DEVICE_NAME),
        "get_device_capability": _always(COMPUTE_CAPABILITY),
        "get_device_properties": _properties,
        "get_arch_list": _always([f"sm_{major}{minor}"]),
        "memory_stats": _always({}),
        "mem_get_info": _always((_MEMORY_BYTES, _MEMORY_BYTES)),
        "manual_seed": lambda seed: _seed(seed),
        "manual_seed_all": lambda seed: _seed(seed),
        "initial_seed": torch.initial_seed,
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
        "default_generators": (torch.default_generator,),
        "CUDAGraph": _refused("a CUDA graph"),
        "graph": _refused("a CUDA graph"),
        "make_graphed_callables": _refused("a CUDA graph"),
    }


_NVTX = {
    "range_push": _always(0),
    "range_pop": _always(0),
    "range_start": _always(0),
    "range_end": _always(None),
    "mark": _always(None),
    "range": _context("range"),
}
_ACCELERATOR = {
    "is_available": _always(True),
    "device_count": _always(1),
    "current_accelerator": _always(torch.device("cuda")),
    "current_device_index": _always(0),
    "set_device_index": _always(None),
    "current_stream": _always(_STREAM),
    "set_stream": _always(None),
    "synchronize": _always(None),
}


class _GeneratorType(type(torch._C.Generator)):
    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, torch._C.Generator)


class _Generator(torch._C.Generator, metaclass=_GeneratorType):
    """A random generator, of the CPU whatever device it is asked for."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return torch._C.Generator.__new__(torch._C.Generator)


def _torch(mode: Any, keep_on_host: Callable[[torch.Tensor], object]) -> Mapping[str, Any]:
    def of_host(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def made(*args: Any, **kwargs: Any) -> torch.Tensor:
            tensor = function(*args, **kwargs)
            keep_on_host(tensor)
            return tensor

        return made

    load = torch.load

    def load_on_host(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(map_location, str | torch.device):
            map_location = "cpu"
        return load(f, map_location, *args, **kwargs)

    def set_default_device(device: Any) -> None:
        type(mode).default = torch.device("cpu" if device is None else device)

    return {
        "from_numpy": of_host(torch.from_numpy),
        "frombuffer": of_host(torch.frombuffer),
        "set_default_device": set_default_device,
        "get_default_device": lambda: type(mode).default,
        "Generator": _Generator,
        "load": load_on_host,
    }


def _autograd(mode: Any) -> Mapping[str, Any]:
    """A mode is off while it serves a call, also the call that runs the program's own backward
    functions; for those it is to hold."""
    run_backward: Callable[..., Any] = getattr(torch.autograd, "_engine_run_backward")  # noqa: B009

    def run_backward_with_mode(*args: Any, **kwargs: Any) -> Any:
        with type(mode)():
            return run_backward(*args, **kwargs)

    return {"_engine_run_backward": run_backward_with_mode}


@contextmanager
def patched_api(mode: Any, keep_on_host: Callable[[torch.Tensor], object]) -> Iterator[None]:
    """torch's functions about GPUs answer for the one that is pretended."""
    tables: list[tuple[Any, Mapping[str, Any]]] = [
        (torch, _torch(mode, keep_on_host)),
        (torch.cuda, _cuda()),
        (torch.cuda.nvtx, _NVTX),
        (torch.autograd, _autograd(mode)),
        (torch.version, {"cuda": "13.0"}),
    ]
    if hasattr(torch, "accelerator"):
        tables.append((torch.accelerator, _ACCELERATOR))
    saved: list[tuple[Any, str, Any]] = []
    for owner, table in tables:
        for name, value in table.items():
            saved.append((owner, name, getattr(owner, name, _missing)))
            setattr(owner, name, value)
    try:
        yield
    finally:
        type(mode).default = torch.device("cpu")
        for owner, name, value in reversed(saved):
            if value is _missing:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
