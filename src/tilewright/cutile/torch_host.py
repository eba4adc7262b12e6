"""Which tensors a program keeps in host memory, off the GPU that is only pretended."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from tilewright.cutile.torch_memory import device_memory

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
        storage = storage_of(tensor)
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
        storage = storage_of(tensor)
        return storage is not None and storage._cdata in self._known

    def has_storage(self, storage: torch.UntypedStorage) -> bool:
        """Whether a storage is one of host memory."""
        return storage._cdata in self._known


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """The storage of a tensor, or of what it stands for: the elements of a sparse one, what functorch has wrapped. None
    where there is none."""
    with torch._C.DisableTorchFunction():
        try:
            return tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            part = _part(tensor)
            return None if part is None else storage_of(part)


_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def _part(tensor: torch.Tensor) -> torch.Tensor | None:
    functorch: Any = torch._C._functorch
    if functorch.is_functorch_wrapped_tensor(tensor):
        return functorch.get_unwrapped(tensor)
    if tensor.layout == torch.sparse_coo:
        return tensor._values()
    return tensor.values() if tensor.layout in _COMPRESSED else None


host_storages = HostStorages()
"""Those of this process."""


def is_on_host(tensor: torch.Tensor) -> bool:
    """Whether a program has kept a tensor off the GPU that is pretended."""
    return tensor in host_storages


def keep_on_host(tensor: torch.Tensor) -> None:
    """Count a tensor among those that a program keeps off the GPU."""
    host_storages.add(tensor)
