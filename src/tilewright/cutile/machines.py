"""The machines that cuTile kernels can be launched on, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from tilewright.cutile.errors import RefusedError

if TYPE_CHECKING:
    from tilewright.cutile.parameters import Value
    from tilewright.cutile.scope import Settings
    from tilewright.dialects.cuda_tile.ops.module import ModuleOp

#: The machine that launches use unless told otherwise.
DEFAULT_MACHINE = "reference"


class LoadedKernel(Protocol):
    """A compiled kernel that is ready to run."""

    def launch(
        self, grid: tuple[int, int, int], values: Sequence[Value], settings: Settings
    ) -> None:
        """Run it to its end. A TileIRError where it does what it must not, or assertions failed."""
        ...


Loader = Callable[["ModuleOp", str, "Settings"], LoadedKernel]
"""Loads the entry of that name of a verified ``cuda_tile`` module."""


def _load_reference(module: ModuleOp, entry: str, settings: Settings) -> LoadedKernel:
    if settings.sanitize or settings.trace is not None:
        from tilewright.cutile.checked import CheckedKernel

        return CheckedKernel(module, entry)
    from tilewright.cutile.reference import ReferenceKernel

    return ReferenceKernel(module, entry)


def _load_cpu(module: ModuleOp, entry: str, settings: Settings) -> LoadedKernel:
    from tilewright.cpu import Program
    from tilewright.cutile.compiled import CompiledKernel

    return CompiledKernel(Program(module), entry)


_LOADERS: dict[str, Loader] = {"reference": _load_reference, "cpu": _load_cpu}
#: Machines of Tilewright that run no cuTile kernels, with the reason.
_REFUSED = {
    "sim": "the simulator runs kernels of nvgpu, and there is no lowering of Tile IR to that level yet",
    "cuda": "on a GPU, cuTile launches its kernels itself: run the program without Tilewright",
}
_KNOWN = "reference, cpu, sim:ARCH and cuda"


def check_machine(name: str) -> None:
    """A :class:`RefusedError` that says why, unless kernels can be launched on that machine."""
    kind, _, arch = name.partition(":")
    is_named = kind in _LOADERS or kind in _REFUSED
    if not is_named or bool(arch) != (kind == "sim"):
        raise RefusedError(f"there is no machine '{name}'; the machines are {_KNOWN}")
    if kind in _REFUSED:
        raise RefusedError(f"the machine '{name}' runs no cuTile kernels: {_REFUSED[kind]}")


def check_settings(settings: Settings) -> None:
    """A :class:`RefusedError` that says why, unless launches can run as the settings want it."""
    check_machine(settings.machine)
    if (settings.sanitize or settings.trace is not None) and settings.machine != "reference":
        what = "the sanitizer" if settings.sanitize else "a trace"
        raise RefusedError(f"{what} needs the reference machine, not '{settings.machine}'")


def load(module: ModuleOp, entry: str, settings: Settings) -> LoadedKernel:
    """Load a kernel onto the machine that the settings name."""
    check_settings(settings)
    return _LOADERS[settings.machine.partition(":")[0]](module, entry, settings)
