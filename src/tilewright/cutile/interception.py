"""cuTile's functions that need a GPU, replaced while launches go to a machine of ours.

Every module that holds one of them, under whatever name, gets ours instead, and gets it back in the
end. Ours asks which settings hold where it is called; where none do, cuTile's own runs. References
kept elsewhere than in a module (in a closure, a default, an attribute of an object) are not found.
"""

from __future__ import annotations

import functools
import sys
import time
import types
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from tilewright.cutile.compilers import find_compiler, to_text
from tilewright.cutile.frontend import COMPUTE_CAPABILITY, does_not_work, front_end
from tilewright.cutile.launching import LAUNCH_SIGNATURE, checked_launch, launch_with
from tilewright.cutile.settings import Settings, active
from tilewright.diagnostics.tracebacks import hides_frames

__tracebackhide__ = hides_frames

#: The version that a driver is said to have, as CUDA numbers it: 13.4.
_DRIVER_VERSION = 13040
_MAX_GRID = (2**24 - 1, 2**24 - 1, 2**24 - 1)


_DEPENDENT = "programmatic_dependent_launch"


def _launch(settings: Settings, *args: Any, **keywords: Any) -> None:
    # In the words of cuTile's extension, not in those of Python.
    if len(args) == 4 and not keywords:
        launch_with(settings, *args)
        return
    if len(args) != 4:
        raise TypeError(f"Wrong number of arguments to {LAUNCH_SIGNATURE}")
    for name in keywords:
        if name != _DEPENDENT:
            raise RuntimeError(f"Unexpected keyword argument {name}")
    launch_with(settings, *args, keywords.get(_DEPENDENT, False))


def _launch_extended(settings: Settings, *args: Any, **keywords: Any) -> None:
    from tilewright.cutile.errors import RefusedError

    raise RefusedError(
        "cuda.lang kernels are written per thread, which no machine of Tilewright supports"
    )


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


def _benchmark_with_timeout(
    settings: Settings,
    stream: Any,
    grid: Any,
    kernel: Any,
    pyargs: Any,
    timeout_sec: float,
    flush_l2: bool = True,
) -> tuple[float, float | None]:
    from tilewright.cutile.tuning import measured_in_time

    started = time.perf_counter()
    microseconds = measured_in_time(settings, stream, grid, kernel, pyargs, timeout_sec)
    return microseconds, time.perf_counter() - started


def _exhaustive_search(settings: Settings, *args: Any, **keywords: Any) -> Any:
    from tilewright.cutile.searching import search, searcher_of

    searcher = searcher_of(settings)
    if searcher is None:
        return _native("cuda.tile.tune._tune", "exhaustive_search")(*args, **keywords)
    return search(searcher, *args, **keywords)


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


def _find_compiler(settings: Settings) -> Any:
    return find_compiler(_native("cuda.tile._compile", "_find_compiler_bin"))


def _to_text(settings: Settings, bytecode: bytes, **options: Any) -> str:
    return to_text(_native("cuda.tile._compile", "_bytecode_to_mlir_text"), bytecode, **options)


def _cutile_call(settings: Settings, *args: Any, **keywords: Any) -> None:
    from tilewright.cutile.errors import RefusedError

    raise RefusedError(
        "JAX hands kernels to a GPU by itself; launch them outside of JAX, with cuda.tile.launch"
    )


#: What stands for functions of cuTile, by module and name.
_OURS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "cuda.tile._cext": {
        "launch": _launch,
        "launch_extended": _launch_extended,
        "_benchmark": _benchmark,
        "get_parameter_constraints_from_pyargs": _get_constraints,
        "get_compute_capability": _get_compute_capability,
        "_get_max_grid_size": lambda settings, device_id=0: _MAX_GRID,
        "get_driver_version": lambda settings: _DRIVER_VERSION,
        "_synchronize_context": lambda settings: None,
        "_create_stream": lambda settings: 0,
        "_destroy_stream": lambda settings, stream: None,
    },
    "cuda.tile._compile": {
        "_get_max_supported_bytecode_version": _bytecode_version,
        "_find_compiler_bin": _find_compiler,
        "_bytecode_to_mlir_text": _to_text,
    },
    "cuda.tile.tune._tune": {"exhaustive_search": _exhaustive_search},
    "cuda.tile.tune._tune_utils": {"benchmark_with_timeout": _benchmark_with_timeout},
}
#: The same for modules that are not loaded for our sake: JAX takes seconds.
_OURS_IF_LOADED: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "cuda.tile.jax._jax": {"cutile_call": _cutile_call},
}
#: Packages whose modules hold none of cuTile's functions; they have most of the names that there are to look at.
_WITHOUT = frozenset({"llvmlite", "numpy", "tilewright", "torch", "xdsl"})
#: Functions that cuTile has had only since a release.
_SINCE: Mapping[str, tuple[int, int]] = {"_bytecode_to_mlir_text": (1, 7)}
#: The modules after whose import :func:`install` has more to do.
LATE_MODULES = ("cuda.tile.jax",)


#: What functions have whose results are kept.
_OF_CACHES = ("cache_clear", "cache_info", "cache_parameters")
#: By which cuTile knows that a function is none of the user's, as it knows it of those of its extension.
_STUB = "_cutile_python_stub"


def _shim(native: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(native)
    def shim(*args: Any, **keywords: Any) -> Any:
        settings = active()
        if settings is None:
            return native(*args, **keywords)
        return ours(settings, *args, **keywords)

    for name in _OF_CACHES:
        if hasattr(native, name):
            setattr(shim, name, getattr(native, name))
    if isinstance(native, types.BuiltinFunctionType):
        # Otherwise cuTile would compile ours into a kernel that calls it by mistake.
        setattr(shim, _STUB, import_module("cuda.tile._execution").StubInfo(static_eval_ok=False))
    return shim


# (cuTile's, ours) by module and name.
_made: dict[tuple[str, str], tuple[Callable[..., Any], Callable[..., Any]]] = {}


def _native(module: str, name: str) -> Callable[..., Any]:
    """cuTile's own function, for one of ours that calls it."""
    return _made[module, name][0]


def _shims() -> list[tuple[Callable[..., Any], Callable[..., Any]]]:
    release = front_end().release
    loaded = {
        name: table for name, table in _OURS_IF_LOADED.items() if sys.modules.get(name) is not None
    }
    for module_name, table in {**_OURS, **loaded}.items():
        try:
            module = import_module(module_name)
        except ImportError as error:
            raise does_not_work(error) from error
        for name, ours in table.items():
            if (module_name, name) not in _made and release >= _SINCE.get(name, release):
                try:
                    native = getattr(module, name)
                except AttributeError as error:
                    raise does_not_work(error) from error
                _made[module_name, name] = native, _shim(native, ours)
    return list(_made.values())


def install() -> None:
    """Put ours in place of cuTile's functions, in all modules that are loaded.

    Raises FrontEndError where cuTile cannot be used.
    """
    _replace({id(native): shim for native, shim in _shims()})


def uninstall() -> None:
    """Put cuTile's functions back, also into modules that have taken ours meanwhile.

    Raises FrontEndError where cuTile cannot be used.
    """
    _replace({id(shim): native for native, shim in _shims()})


def _replace(substitutes: Mapping[int, Callable[..., Any]]) -> None:
    wanted = frozenset(substitutes)
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] in _WITHOUT:
            continue
        names = getattr(module, "__dict__", None)
        if not isinstance(names, dict) or wanted.isdisjoint(map(id, list(names.values()))):
            continue
        changed = {
            name: substitutes[id(value)]
            for name, value in list(names.items())
            if id(value) in substitutes
        }
        names.update(changed)
