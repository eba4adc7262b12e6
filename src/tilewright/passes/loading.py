"""Loads external passes: from a Python file, a module, or entry points of installed packages."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from tilewright.diagnostics import NamedLocation, TileIRError, define_code
from tilewright.passes.base import TilePass

PASSES_NOT_LOADED = define_code(
    "passes-not-loaded",
    "A file or module with passes cannot be loaded.",
    "It must be importable and define at least one subclass of tilewright.passes.TilePass with a "
    "name; see `docs/own_passes.md`.",
)

PASS_FAILED = define_code(
    "pass-failed",
    "A user-defined pass raised an exception.",
    "The location is the last executed line of the pass's module. In Python, `run_pipeline` "
    "raises the TileIRError from the exception, which has the full traceback.",
)

#: The entry point group in which packages announce passes: ``name = "package.module:Class"``.
ENTRY_POINTS = "tilewright.passes"


def load_passes(source: str) -> list[type[TilePass]]:
    """Return the passes that a Python file (``*.py``) or an importable module defines.

    Passes that it merely imports do not count. Raises ``TileIRError`` (``passes-not-loaded``) if the
    source cannot be loaded or defines no pass.
    """
    path = Path(source)
    is_file = path.suffix == ".py" or path.is_file()
    try:
        module = _from_file(path) if is_file else importlib.import_module(source)
    except Exception as error:  # external code may raise anything
        raise _not_loaded(source, f"{type(error).__name__}: {error}") from error
    found = list(passes_in(module))
    if not found:
        raise _not_loaded(source, "it defines no subclass of tilewright.passes.TilePass")
    return found


def passes_in(module: ModuleType) -> Iterator[type[TilePass]]:
    """Yield the passes defined in a module, in definition order."""
    for value in vars(module).values():
        if (
            isinstance(value, type)
            and issubclass(value, TilePass)
            and value.__module__ == module.__name__
            and isinstance(value.__dict__.get("name"), str)
        ):
            yield value


def announced_passes() -> dict[str, EntryPoint]:
    """Return the pass entry points of installed packages, by pass name."""
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def load_announced(point: EntryPoint) -> type[TilePass]:
    """Load the pass of an entry point; its name must match the entry point's.

    Raises ``TileIRError`` (``passes-not-loaded``) if the import fails, or finds anything else than a ``TilePass`` of
    that name.
    """
    try:
        cls = point.load()
    except Exception as error:  # external code may raise anything
        raise _not_loaded(point.value, f"{type(error).__name__}: {error}") from error
    if not (isinstance(cls, type) and issubclass(cls, TilePass)):
        raise _not_loaded(point.value, "it is not a subclass of tilewright.passes.TilePass")
    if getattr(cls, "name", None) != point.name:
        found = getattr(cls, "name", None)
        raise _not_loaded(point.value, f"the pass is named {found!r}, not {point.name!r}")
    return cls


def location_of_failure(error: Exception, cls: type[TilePass]) -> NamedLocation | None:
    """Return the innermost line of the pass's own module in the exception's traceback, or None."""
    module = sys.modules.get(cls.__module__)
    own = getattr(module, "__file__", None)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == own]
    return NamedLocation(frames[-1].filename, frames[-1].lineno or 0) if frames else None


def _from_file(path: Path) -> ModuleType:
    name = f"tilewright_passes_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up their module in ``sys.modules``.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _not_loaded(source: str, reason: str) -> TileIRError:
    return TileIRError.single(PASSES_NOT_LOADED, f"cannot load passes from '{source}': {reason}")
