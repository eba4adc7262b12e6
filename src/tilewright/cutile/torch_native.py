"""What torch's own modules, and programs, call of its native part where it is built for CUDA: copies between devices,
of which there is one, and streams by number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from tilewright.cutile.torch_devices import check_index
from tilewright.cutile.torch_memory import device_memory

Tensor = torch.Tensor


def _on_device(tensor: Tensor, device: int) -> Tensor:
    check_index(device)
    return tensor.to("cuda")


def _broadcast(tensor: Tensor, devices: Sequence[int]) -> tuple[Tensor, ...]:
    """The tensor on each of the devices: itself where it is on that one."""
    return tuple(_on_device(tensor, device) for device in devices)


def _broadcast_out(tensor: Tensor, out: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(each.copy_(tensor) for each in out)


def _broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Sequence[int], buffer_size: int
) -> list[list[Tensor]]:
    """The tensors themselves for the first device, copies for any further one."""
    for device in devices:
        check_index(device)
    return [list(tensors), *([each.clone() for each in tensors] for _ in devices[1:])]


def _chunks(tensor: Tensor, count: int, sizes: Sequence[int] | None, dim: int) -> list[Tensor]:
    if sizes is None:
        return list(tensor.chunk(count, dim))
    if sum(sizes) != tensor.size(dim):
        raise RuntimeError(
            f"given chunk sizes don't sum up to the tensor's size (sum(chunk_sizes) == {sum(sizes)}, but expected "
            f"{tensor.size(dim)})"
        )
    return list(tensor.split(list(sizes), dim))


def _scatter(
    tensor: Tensor,
    devices: Sequence[int],
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Any = None,
) -> tuple[Tensor, ...]:
    """Parts of the tensor along a dimension, one for each device."""
    parts = _chunks(tensor, len(devices), chunk_sizes, dim)
    return tuple(_on_device(part, device) for part, device in zip(parts, devices, strict=False))


def _scatter_out(
    tensor: Tensor, out: Sequence[Tensor], dim: int = 0, streams: Any = None
) -> tuple[Tensor, ...]:
    parts = _chunks(tensor, len(out), [each.size(dim) for each in out], dim)
    return tuple(each.copy_(part) for each, part in zip(out, parts, strict=True))


def _gather(tensors: Sequence[Tensor], dim: int, destination: int | None = None) -> Tensor:
    """All tensors behind one another, on a device or (-1) in host memory."""
    joined = torch.cat(list(tensors), dim)
    return joined.to("cpu") if destination == -1 else _on_device(joined, destination or 0)


def _gather_out(tensors: Sequence[Tensor], out: Tensor, dim: int) -> Tensor:
    return out.copy_(torch.cat(list(tensors), dim))


def _device(device: int = 0) -> int:
    check_index(device)
    return 0


def _stream_by_number(stream: Any) -> tuple[int, int, int]:
    """The number, the device and the kind of device of a stream."""
    return stream.stream_id, stream.device_index, stream.device_type


def _set_stream(stream_id: int, device_index: int = 0, device_type: int = 1) -> None:
    check_index(device_index)
    torch.cuda.set_stream(torch.cuda.ExternalStream(stream_id))


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Nothing: there is no such state."""


_PARTS: Mapping[str, Callable[..., Any]] = {
    "_broadcast": _broadcast,
    "_broadcast_out": _broadcast_out,
    "_broadcast_coalesced": _broadcast_coalesced,
    "_scatter": _scatter,
    "_scatter_out": _scatter_out,
    "_gather": _gather,
    "_gather_out": _gather_out,
    "_cuda_getCurrentRawStream": lambda device=0: torch.cuda.current_stream(device).cuda_stream,
    "_cuda_getCurrentStream": lambda device=0: _stream_by_number(torch.cuda.current_stream(device)),
    "_cuda_getDefaultStream": lambda device=0: _stream_by_number(torch.cuda.default_stream(device)),
    "_cuda_setStream": _set_stream,
    "_cuda_getDevice": lambda: 0,
    "_cuda_setDevice": check_index,
    "_cuda_exchangeDevice": _device,
    "_cuda_maybeExchangeDevice": _device,
    "_cuda_isCurrentStreamCapturing": lambda: torch.cuda.is_current_stream_capturing(),
    "_cuda_isInBadFork": lambda: False,
    "_cuda_hasPrimaryContext": lambda device: device == 0,
    "_cuda_canDeviceAccessPeer": lambda device, other: False,
    "_cuda_getCompiledVersion": lambda: 13000,
    # Versions of NCCL, which Gloo stands for.
    "_nccl_version": lambda: 2 << 32 | 27 << 16 | 3,
    "_nccl_version_suffix": lambda: b"",
    "_cuda_synchronize": lambda: torch.cuda.synchronize(),
    "_cuda_init": _nothing,
    "_cuda_clearCublasWorkspaces": _nothing,
    "_cuda_ipc_collect": _nothing,
    "_cuda_emptyCache": device_memory.empty_cache,
    "_cuda_memoryStats": device_memory.statistics,
    "_cuda_resetPeakMemoryStats": device_memory.reset_peaks,
    "_cuda_resetAccumulatedMemoryStats": device_memory.reset_totals,
}
#: What torch has without CUDA, too, where it is not for a GPU that there is not.
_OF_ACCELERATORS: Mapping[str, Callable[..., Any]] = {
    "_accelerator_exchangeDevice": _device,
    "_accelerator_maybeExchangeDevice": _device,
    "_accelerator_isAllocatorInitialized": lambda: True,
    "_accelerator_emptyCache": device_memory.empty_cache,
    "_accelerator_emptyHostCache": _nothing,
    "_accelerator_getDeviceStats": device_memory.statistics,
    "_accelerator_resetAccumulatedStats": device_memory.reset_totals,
    "_accelerator_resetPeakStats": device_memory.reset_peaks,
    "_accelerator_getMemoryInfo": device_memory.free_and_total,
    "_accelerator_setAllocatorSettings": _nothing,
}


def parts() -> Mapping[str, Callable[..., Any]]:
    """Functions of ``torch._C``, by name."""
    missing = {name: part for name, part in _PARTS.items() if not hasattr(torch._C, name)}
    known = {name: part for name, part in _OF_ACCELERATORS.items() if hasattr(torch._C, name)}
    return {**missing, **known}
