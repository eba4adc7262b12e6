"""Records of modules that were loaded before: what launches need of a module, found by the bytes that it is read from.

A record is an entry of the disk cache, written when a module has been read, verified and loaded without a warning. Its
key is a hash of the bytes and of the compiler, so that it is found only where reading them again would give the same module.
Modules of ``nv_tileaa`` have none, nor have those that bytecode cannot hold, and files that hold more than a module.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any, TypeVar

from tilewright.cpu.runtime.modules import interface_of
from tilewright.cpu.runtime.records import compiler_facts
from tilewright.diagnostics import TileIRError
from tilewright.launching.accepted import ARRAY_DTYPES
from tilewright.launching.disk_cache import DiskCache, key_of
from tilewright.launching.global_memory import GlobalMemory
from tilewright.launching.interfaces import (
    KernelInterface,
    ModuleInterface,
    Parameter,
    PassedType,
)
from tilewright.numerics.arrays import PTR
from tilewright.numerics.element_types import FORMATS

if TYPE_CHECKING:
    from tilewright.launching.modules import Module

#: Contents of globals that are too large to stand in a record, in bytes.
_MOST_GLOBAL_BYTES = 1 << 20


def module_key(data: bytes) -> str:
    """The key of the record for the module in these bytes."""
    return key_of(["module", hashlib.sha256(data).hexdigest(), compiler_facts()])


def find_module(cache: DiskCache, data: bytes) -> ModuleInterface | None:
    """What is known of the module in these bytes; None where there is no record, or none of this layout."""
    try:
        return _record_of(json.loads(cache.get(module_key(data)) or b"null"))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def put_module(cache: DiskCache, data: bytes, module: Module, digest: str | None) -> None:
    """Write down what is known of the verified module that was read from these bytes, if it can be recorded."""
    from tilewright.launching.modules import globals_of, kernels_of

    if digest is None or not _is_whole(module):
        return
    held = globals_of(module)
    if sum(len(each.data) for each in held) > _MOST_GLOBAL_BYTES:
        return
    try:
        kernels = [interface_of(op) for op in kernels_of(module)]
    except TileIRError:  # launches of such a kernel are errors, which name positions
        return
    facts = {
        "digest": digest,
        "kernels": [_kernel_facts(each) for each in kernels],
        "globals": [_global_facts(each) for each in held],
    }
    cache.put(module_key(data), json.dumps(facts).encode())


def _is_whole(module: Module) -> bool:
    """Whether nothing stands beside a module, which not everybody would run then."""
    block = module.parent
    return block is None or (block.first_op is module and block.last_op is module)


def _kernel_facts(kernel: KernelInterface) -> list[object]:
    parameters = [
        [each.name, each.type.element, each.type.dims, each.type.pointee]
        for each in kernel.parameters
    ]
    return [kernel.symbol, parameters, sorted(kernel.written, key=str)]


def _global_facts(held: GlobalMemory) -> list[object]:
    data = base64.b64encode(held.data).decode()
    return [held.name, data, held.element, held.alignment, held.is_constant, held.is_private]


def _record_of(facts: Any) -> ModuleInterface:
    """The record that these facts make. Raises ValueError, TypeError or KeyError where they are of another layout."""
    digest = _of(str, facts["digest"])
    kernels = tuple(map(_kernel_of, _of(list, facts["kernels"])))
    return ModuleInterface(digest, kernels, tuple(map(_global_of, _of(list, facts["globals"]))))


def _kernel_of(facts: Any) -> KernelInterface:
    symbol, parameters, written = facts
    numbers = (None if number is None else _of(int, number) for number in written)
    return KernelInterface(
        _of(str, symbol), tuple(map(_parameter_of, parameters)), frozenset(numbers)
    )


def _parameter_of(facts: Any) -> Parameter:
    name, element, dims, pointee = facts
    extents = tuple(_of(int, extent) for extent in dims)
    if element not in FORMATS and not (element == PTR and pointee in ARRAY_DTYPES):
        raise ValueError(element)
    return Parameter(_of(str, name), PassedType(element, extents, _of(str, pointee)))


def _global_of(facts: Any) -> GlobalMemory:
    name, data, element, alignment, is_constant, is_private = facts
    if element not in FORMATS:
        raise ValueError(element)
    return GlobalMemory(
        _of(str, name),
        base64.b64decode(_of(str, data), validate=True),
        element,
        _of(int, alignment),
        _of(bool, is_constant),
        _of(bool, is_private),
    )


_T = TypeVar("_T")


def _of(kind: type[_T], value: Any) -> _T:
    """A value that is to have this type. Raises ValueError if it has another one."""
    if type(value) is not kind:
        raise ValueError(value)
    return value
