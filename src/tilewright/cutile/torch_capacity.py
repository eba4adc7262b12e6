"""What a call of torch will take of the memory of the pretended GPU, asked before the call is made.

The tensors of that device are in host memory. Of that there may be less than the GPU says to have, and a process that
takes too much of it is killed. So calls that may take much are first made on tensors without elements (torch's device
``meta``), which says how large the results will be.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from tilewright.cutile.torch_memory import device_memory

#: Results of less are not looked at; in bytes, and in elements, of which nothing says how large they are.
_MUCH = 128 << 20
_MANY = _MUCH // 8

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_META = torch.device("meta")
_CALLED = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
#: Of what torch makes without writing it, the host gives pages when they are used.
_NOT_WRITTEN = frozenset(
    f"{prefix}{name}"
    for prefix in ("", "new_")
    for name in ("empty", "zeros", "empty_strided", "empty_like", "zeros_like", "empty_permuted")
)
#: Calls whose results grow with their numbers, and with the product of their operands.
_BY_NUMBERS = frozenset(
    {"repeat", "tile", "repeat_interleave", "pad", "interpolate", "one_hot"}
    | {f"new_{name}" for name in ("empty", "zeros", "ones", "full", "empty_strided")}
)
_PRODUCTS = frozenset({"outer", "ger", "kron", "einsum", "tensordot", "cdist", "cartesian_prod"})
_MATRICES = frozenset({"matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "addmm", "baddbmm"})


def check_capacity(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    sources: Sequence[torch.Tensor],
) -> None:
    """``torch.OutOfMemoryError`` if the results of a call, in bytes, do not fit what is left of the device, or of the host's
    memory where they are written at once."""
    if not _may_take_much(func, args, kwargs, sources):
        return
    wanted = _taken(func, args, kwargs)
    if wanted < _MUCH:
        return
    device_memory.check(wanted)
    if getattr(func, "__name__", None) in _NOT_WRITTEN:
        return
    available = host_available()
    if available is not None and wanted > available:
        device_memory.refuse(
            wanted, f"the device is in host memory, of which {gib(available)} are available"
        )


def refuse_if_missing(error: RuntimeError) -> None:
    """``torch.OutOfMemoryError`` if an error is one of the host's allocator: memory that the host does not have is missing on
    the device."""
    if "DefaultCPUAllocator" in str(error):
        found = re.search(r"allocate (\d+) bytes", str(error))
        device_memory.refuse(int(found[1]) if found else 0)


def clone(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor; of a parameter that has no shape yet, which nothing can be copied of, another one."""
    if not torch.nn.parameter.is_lazy(tensor):
        return tensor.clone()
    return type(tensor)(requires_grad=tensor.requires_grad, dtype=tensor.dtype)


def clone_to_device(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor for the device, if that has room for it."""
    check_capacity(torch.clone, (tensor,), {}, (tensor,))
    try:
        return clone(tensor)
    except RuntimeError as error:
        refuse_if_missing(error)
        raise


def _may_take_much(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    sources: Sequence[torch.Tensor],
) -> bool:
    """Whether the results may be large; asked at each call."""
    product = 1
    for source in sources:
        if type(source) not in _PLAIN:
            return False  # what a program's own kind of tensor is asked for, it may record
        elements = source.numel()
        if type(elements) is not int:  # a symbol, or what TorchScript traces
            return False
        if elements >= _MANY:
            return True
        product *= elements or 1
    name = getattr(func, "__name__", "")
    if not sources or name in _BY_NUMBERS:
        return product * math.prod(_numbers((*args, *kwargs.values()))) >= _MANY
    if product < _MANY or name in _PRODUCTS:
        return product >= _MANY
    if name in _MATRICES:
        inner = sources[-1].shape[-2] if sources[-1].ndim > 1 else sources[-1].numel()
        return product >= _MANY * max(inner, 1) ** 2
    return _broadcast_elements(sources) >= _MANY


def _numbers(values: Sequence[Any]) -> Iterator[int]:
    """The numbers above 1 among arguments, also those in tuples and lists."""
    for value in values:
        if type(value) is int:
            if value > 1:
                yield value
        elif isinstance(value, list | tuple):
            yield from (each for each in value if type(each) is int and each > 1)


def _broadcast_elements(sources: Sequence[torch.Tensor]) -> int:
    """How many elements a shape has to which all of these are broadcast."""
    shapes = [source.shape for source in sources]
    if shapes.count(shapes[0]) == len(shapes):
        return shapes[0].numel()
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return math.prod(map(max, zip(*padded, strict=True)))


class _UnknownError(Exception):
    """A call that cannot be made on tensors without elements."""


def _taken(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """The bytes of new memory that the results of a call of torch have; 0 where it cannot be told."""
    module = getattr(func, "__module__", None) or ""
    if not isinstance(func, _CALLED) and not module.startswith("torch"):
        return 0
    given: set[int] = set()
    try:
        plain_args = [_without_elements(value, given) for value in args]
        plain = {name: _without_elements(value, given) for name, value in kwargs.items()}
        plain.pop("generator", None)
        result = func(*plain_args, **plain)
    except Exception:  # noqa: BLE001 (the call itself will say what is wrong with it)
        return 0
    found = [result] if isinstance(result, torch.Tensor) else result
    if not isinstance(found, list | tuple):
        return 0
    storages = {
        storage._cdata: storage.nbytes()
        for each in found
        if isinstance(each, torch.Tensor)
        for storage in (each.untyped_storage(),)
    }
    return sum(size for address, size in storages.items() if address not in given)


def _without_elements(value: Any, given: set[int]) -> Any:
    """An argument with tensors of the same form that have no elements; the addresses of their storages are added to ``given``."""
    if isinstance(value, torch.Tensor):
        if type(value) not in _PLAIN or value.layout != torch.strided:
            raise _UnknownError
        made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=_META)
        given.add(made.untyped_storage()._cdata)
        return made
    if isinstance(value, torch.device) or value == "cpu":
        return _META
    if type(value) in (list, tuple):
        return type(value)(_without_elements(each, given) for each in value)
    return value


def host_available() -> int | None:
    """The bytes that the host can still give, within the limit of the container; None where that is not known."""
    known = [_of_the_host(), *(_of_a_container(*paths) for paths in _LIMITS)]
    return min((each for each in known if each is not None), default=None)


def _of_the_host() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        told = {name: int(value.split()[0]) for name, _, value in (x.partition(":") for x in lines)}
        return (told["MemAvailable"] + told.get("SwapFree", 0)) << 10
    except (OSError, ValueError, KeyError, IndexError):
        return None


#: Where Linux has the limit of a group of processes, what it uses, and of what: both versions of its interface.
_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
    ),
)


def _of_a_container(limit: str, usage: str, statistics: str) -> int | None:
    try:
        most, used = (int(Path(path).read_text("ascii")) for path in (limit, usage))
        lines = (line.split() for line in Path(statistics).read_text("ascii").splitlines())
        # Pages of files that nobody is using can be dropped.
        idle = next((int(line[1]) for line in lines if line[0] == "inactive_file"), 0)
    except (OSError, ValueError, IndexError):
        return None
    return max(most - used + idle, 0)


def gib(size: int) -> str:
    """A number of bytes as CUDA's allocator writes it."""
    return f"{size / (1 << 30):.2f} GiB"
