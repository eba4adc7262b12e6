"""The functions of ``torch.cuda`` and its kin, for a GPU that is only pretended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch

from tilewright.cutile import torch_fakes, torch_memory, torch_script, torch_tools
from tilewright.cutile.frontend import COMPUTE_CAPABILITY
from tilewright.cutile.torch_callbacks import Holding
from tilewright.cutile.torch_callbacks import tables as tables_of_callbacks
from tilewright.cutile.torch_devices import check_index
from tilewright.cutile.torch_graphs import CUDAGraph, graph
from tilewright.cutile.torch_memory import TOTAL_BYTES
from tilewright.cutile.torch_programs import AnyGenerator, load
from tilewright.cutile.torch_programs import Host as Host
from tilewright.cutile.torch_programs import tables as tables_of_programs
from tilewright.cutile.torch_streams import (
    DEFAULT_STREAM,
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    is_capturing,
    set_stream,
    synchronize_device,
)
from tilewright.cutile.torch_types import (
    add_suffixes,
    initializer,
    named_type,
    tensor_types,
)

DEVICE_NAME = "Tilewright (host)"
#: What programs that size their grid by the GPU are told: the figures of a B200.
_MULTIPROCESSORS = 148
_L2_BYTES = 126 << 20

_UUID = "00000000-0000-0000-0000-000000000000"

_missing = object()


class _Nothing:
    """A context that changes nothing, whatever it is given."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *exception: Any) -> None: ...


def _always(value: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: value


def _of_device(value: Any) -> Callable[..., Any]:
    """An answer for the only device."""

    def answer(device: Any = None) -> Any:
        check_index(device)
        return value

    return answer


def _synchronize(device: Any = None) -> None:
    check_index(device)
    synchronize_device()


class _Device(_Nothing):
    def __init__(self, device: Any = None) -> None:
        check_index(device)


class _CudaDeviceProperties(SimpleNamespace):
    """What torch tells of a GPU, under the name that it has there."""

    def __repr__(self) -> str:
        return super().__repr__().replace("namespace", type(self).__name__, 1)


def _properties(device: Any = None) -> Any:
    check_index(device if not isinstance(device, str) else torch.device(device))
    major, minor = COMPUTE_CAPABILITY
    return _CudaDeviceProperties(
        name=DEVICE_NAME,
        major=major,
        minor=minor,
        total_memory=TOTAL_BYTES,
        multi_processor_count=_MULTIPROCESSORS,
        L2_cache_size=_L2_BYTES,
        warp_size=32,
        max_threads_per_multi_processor=2048,
        shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=227 << 10,
        shared_memory_per_multiprocessor=228 << 10,
        regs_per_multiprocessor=65536,
        max_threads_per_block=1024,
        clock_rate=1_965_000,
        memory_clock_rate=3_996_000,
        memory_bus_width=7680,
        pci_bus_id=1,
        pci_device_id=0,
        pci_domain_id=0,
        uuid=_UUID,
        is_integrated=0,
        is_multi_gpu_board=0,
        gcnArchName="",
    )


_ZERO = (
    "memory_usage",
    "utilization",
    "power_draw",
    "temperature",
    "clock_rate",
    "current_device",
)
_DOES_NOTHING = (
    "init",
    "_lazy_init",
    "ipc_collect",
    "set_sync_debug_mode",
    "caching_allocator_delete",
    "check_error",
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
        "is_current_stream_capturing": is_capturing,
        "can_device_access_peer": _always(False),
        "device_count": _always(1),
        "device": _Device,
        "set_device": _of_device(None),
        "synchronize": _synchronize,
        "device_of": _context("device_of"),
        "Stream": Stream,
        "ExternalStream": ExternalStream,
        "StreamContext": StreamContext,
        "stream": StreamContext,
        "set_stream": set_stream,
        "current_stream": current_stream,
        "default_stream": _always(DEFAULT_STREAM),
        "get_stream_from_external": lambda data_ptr, device=None: ExternalStream(data_ptr),
        "Event": Event,
        "get_device_name": _of_device(DEVICE_NAME),
        "get_device_capability": _of_device(COMPUTE_CAPABILITY),
        "get_device_properties": _properties,
        "get_arch_list": _always([f"sm_{major}{minor}"]),
        "get_gencode_flags": lambda: (
            f"-gencode compute=compute_{major}{minor},code=sm_{major}{minor}"
        ),
        "get_sync_debug_mode": _always(0),
        "get_allocator_backend": _always("native"),
        "is_in_bad_fork": _always(False),
        "_is_in_bad_fork": _always(False),
        "list_gpu_processes": lambda device=None: "GPU:0\nno processes are running",
        "memory_snapshot": lambda *args, **kwargs: [],
        **torch_memory.functions(),
        **_random_state(),
        "host_memory_stats": _Zeros,
        "default_generators": (torch.default_generator,),
        "CUDAGraph": CUDAGraph,
        "graph": graph,
        "graph_pool_handle": lambda: (0, 1),
    }


def _random_state() -> Mapping[str, Any]:
    """The device's random numbers are those of the CPU."""
    return {
        "manual_seed": lambda seed: _seed(seed),
        "manual_seed_all": lambda seed: _seed(seed),
        "initial_seed": torch.initial_seed,
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "set_rng_state_all": lambda states: torch.set_rng_state(states[0]),
        "seed": torch.seed,
        "seed_all": torch.seed,
    }


class _Zeros(dict[str, int]):
    """Statistics of which every number is 0."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def __missing__(self, key: str) -> int:
        return 0


_NVTX = {
    "range_push": _always(0),
    "range_pop": _always(0),
    "range_start": _always(0),
    "range_end": _always(None),
    "mark": _always(None),
}
_ACCELERATOR = {
    "is_available": _always(True),
    "device_count": _always(1),
    "current_accelerator": _always(torch.device("cuda")),
    "current_device_index": _always(0),
    "set_device_index": _always(None),
    # Functions of their own: torch keeps rules for functions by their identity.
    "current_stream": lambda device=None: current_stream(device),
    "set_stream": lambda stream: set_stream(stream),
    "synchronize": lambda device=None: _synchronize(device),
}


def _torch(mode: Any, host: Host) -> Mapping[str, Any]:
    def of_host(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def made(*args: Any, **kwargs: Any) -> torch.Tensor:
            tensor = function(*args, **kwargs)
            host.add(tensor)
            return tensor

        return made

    def set_default_device(device: Any) -> None:
        check_index(device)
        type(mode).default = torch.device("cpu" if device is None else device)

    native_default = torch.set_default_tensor_type

    def set_default_tensor_type(t: Any) -> None:
        found = named_type(t)
        if found is None:
            native_default(t)
            return
        dtype, on_cuda = found
        torch.set_default_dtype(dtype)
        set_default_device("cuda" if on_cuda else None)

    return {
        **tensor_types("torch", host),
        "set_default_tensor_type": set_default_tensor_type,
        "from_numpy": of_host(torch.from_numpy),
        "frombuffer": of_host(torch.frombuffer),
        "set_default_device": set_default_device,
        "get_default_device": lambda: type(mode).default,
        "Generator": AnyGenerator,
        "Stream": Stream,
        "Event": Event,
        "load": load(host),
    }


@contextmanager
def patched_api(mode: Any, host: Host) -> Iterator[None]:
    """torch's functions about GPUs answer for the one that is pretended."""
    holding = Holding(type(mode))
    cuda = {**_cuda(), **torch_tools.cuda(), **tensor_types("torch.cuda", host)}
    tables: list[tuple[Any, Mapping[str, Any]]] = [
        (torch, _torch(mode, host)),
        (
            torch.Tensor,
            {
                # torch asks for a stream of its own before it asks the mode.
                "record_stream": lambda tensor, stream: None,
                "__init__": initializer(host),
            },
        ),
        (torch._tensor_str, {"_add_suffixes": add_suffixes}),
        (torch.cuda, cuda),
        *torch_tools.in_submodules(cuda),
        (torch.cuda.nvtx, _NVTX),
        (torch.version, {"cuda": "13.0"}),
        *tables_of_callbacks(holding),
        *tables_of_programs(host, holding),
        *torch_tools.tables(host),
        *torch_fakes.tables(host, holding.is_on),
        *torch_script.tables(host),
    ]
    if hasattr(torch, "accelerator"):
        tables.append((torch.accelerator, _ACCELERATOR))
    saved: list[tuple[Any, str, Any]] = []
    for owner, table in tables:
        for name, value in table.items():
            # What a class inherits is not put into it afterwards.
            own = vars(owner) if isinstance(owner, type) else None
            held = getattr(owner, name, _missing) if own is None else own.get(name, _missing)
            saved.append((owner, name, held))
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
