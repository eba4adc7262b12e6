"""cuTile's functions that need a GPU, replaced while launches go to a machine of ours.

Every module that holds one of them, under whatever name, gets ours instead, and gets it back in the
end. Ours asks which settings hold where it is called; where none do, cuTile's own runs. References
kept elsewhere than in a module (in a closure, a default, an attribute of an object) are not found.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from tilewright.cutile.frontend import COMPUTE_CAPABILITY, front_end
from tilewright.cutile.launching import checked_launch, launch_with
from tilewright.cutile.scope import Settings, active

#: The version that a driver is said to have, as CUDA numbers it: 13.4.
_DRIVER_VERSION = 13040
_MAX_GRID = (2**24 - 1, 2**24 - 1, 2**24 - 1)


def _launch(
    settings: Settings,
    stream: Any,
    grid: Any,
    kernel: Any,
    kernel_args: Any,
    /,
    *,
    programmatic_dependent_launch: Any = False,
) -> None:
    launch_with(settings, stream, grid, kernel, kernel_args, programmatic_dependent_launch)


def _launch_extended(settings: Settings, *args: Any, **keywords: Any) -> None:
    from tilewright.cutile.errors import RefusedError

    raise RefusedError("kernels of cuda.lang have threads, which no machine of Tilewright runs")


def _benchmark(
    settings: Settings,
    stream: Any,
    grid: Any,
    kernel: Any,
    arguments: Any,
    flush_l2: bool = True,
    /,
) -> float:
    """The microseconds that one launch takes, compilation left out. There is no L2 to flush."""
    from tilewright.cutile.tuning import measured

    return measured(settings, stream, grid, kernel, arguments)


def _no_payload(settings: Settings, *args: Any) -> None:
    """There is no process to send a benchmark to; None makes cuTile measure in this one."""
    return


def _get_constraints(
    settings: Settings, kernel: Any, arguments: Any, calling_convention: Any, /
) -> list[object]:
    dispatcher, _ = checked_launch(0, (1,), kernel, arguments)
    return dispatcher.constraints(arguments)


def _get_compute_capability(settings: Settings, device_id: int = 0) -> tuple[int, int]:
    if device_id:
        raise RuntimeError(f"invalid device ordinal {device_id} (1 device(s) present)")
    return COMPUTE_CAPABILITY


def _bytecode_version(settings: Settings, *args: Any, **keywords: Any) -> object:
    return front_end().bytecode_version


#: What stands for each function of ``cuda.tile._cext``.
_OF_EXTENSION: Mapping[str, Callable[..., Any]] = {
    "launch": _launch,
    "launch_extended": _launch_extended,
    "_benchmark": _benchmark,
    "_export_ipc_benchmark_payload": _no_payload,
    "get_parameter_constraints_from_pyargs": _get_constraints,
    "get_compute_capability": _get_compute_capability,
    "_get_max_grid_size": lambda settings, device_id=0: _MAX_GRID,
    "get_driver_version": lambda settings: _DRIVER_VERSION,
    "_synchronize_context": lambda settings: None,
    "_create_stream": lambda settings: 0,
    "_destroy_stream": lambda settings, stream: None,
}
#: The same for ``cuda.tile._compile``.
_OF_COMPILER: Mapping[str, Callable[..., Any]] = {
    "_get_max_supported_bytecode_version": _bytecode_version,
}


def _shim(native: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(native)
    def shim(*args: Any, **keywords: Any) -> Any:
        settings = active()
        if settings is None:
            return native(*args, **keywords)
        return ours(settings, *args, **keywords)

    return shim


@functools.cache
def _shims() -> dict[int, tuple[Callable[..., Any], Callable[..., Any]]]:
    """(native, ours) by the identity of the native function."""
    front_end()
    found: dict[int, tuple[Callable[..., Any], Callable[..., Any]]] = {}
    for module_name, table in (
        ("cuda.tile._cext", _OF_EXTENSION),
        ("cuda.tile._compile", _OF_COMPILER),
    ):
        module = import_module(module_name)
        for name, ours in table.items():
            native = getattr(module, name)
            found[id(native)] = native, _shim(native, ours)
    return found


def install() -> None:
    """Put ours in place of cuTile's functions, in all modules that are loaded."""
    _replace({key: shim for key, (_, shim) in _shims().items()})


def uninstall() -> None:
    """Put cuTile's functions back, also into modules that have taken ours meanwhile."""
    _replace({id(shim): native for native, shim in _shims().values()})


def _replace(substitutes: Mapping[int, Callable[..., Any]]) -> None:
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if not isinstance(names, dict):
            continue
        changed = {
            name: substitutes[id(value)]
            for name, value in list(names.items())
            if id(value) in substitutes
        }
        names.update(changed)
