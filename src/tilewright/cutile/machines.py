"""The machines that cuTile kernels can be launched on, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from tilewright.cutile.errors import RefusedError
from tilewright.diagnostics import TileIRError

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
    from tilewright.cutile.on_cpu import CpuKernel

    return CpuKernel(module, entry)


def _load_simulator(module: ModuleOp, entry: str, settings: Settings) -> LoadedKernel:
    from tilewright.cutile.simulated import SimulatedKernel

    return SimulatedKernel(module, entry, settings.machine.partition(":")[2])


def _load_gpu(module: ModuleOp, entry: str, settings: Settings) -> LoadedKernel:
    from tilewright.cutile.on_gpu import GpuKernel

    return GpuKernel(module, entry)


_LOADERS: dict[str, Loader] = {
    "reference": _load_reference,
    "cpu": _load_cpu,
    "sim": _load_simulator,
    "cuda": _load_gpu,
}
_KNOWN = "reference, cpu, sim:ARCH and cuda"
_READING = ("tilewright.bytecode.reader", "tilewright.analysis.verifier")
#: What the first launch of a kernel needs on each machine.
_MODULES = {
    "reference": (*_READING, "tilewright.cutile.reference"),
    "cpu": (*_READING, "tilewright.cutile.on_cpu"),
    "sim": (*_READING, "tilewright.cutile.simulated", "tilewright.simulator.tiles"),
    "cuda": (*_READING, "tilewright.cutile.on_gpu"),
}


def get_ready(name: str) -> None:
    """Import and start what launches on a machine need, so that the first one does not have to."""
    kind = name.partition(":")[0]
    for module in _MODULES[kind]:
        import_module(module)
    if kind == "cpu":
        from tilewright.cpu.runtime.ready import get_ready as get_cpu_ready

        get_cpu_ready()


def check_machine(name: str) -> None:
    """A :class:`RefusedError` that says why, unless kernels can be launched on that machine."""
    kind, _, arch = name.partition(":")
    if kind not in _LOADERS or bool(arch) != (kind == "sim"):
        raise RefusedError(f"there is no machine '{name}'; the machines are {_KNOWN}")
    if kind == "sim":
        from tilewright.simulator.architectures import check_architecture

        try:
            check_architecture(arch)
        except TileIRError as error:
            raise RefusedError(error.diagnostics) from None
    elif kind == "cpu":
        try:
            import_module("tilewright.launching.native_code")
        except TileIRError as error:
            raise RefusedError(error.diagnostics) from None
    elif kind == "cuda":
        from tilewright.gpu.driver import open_gpu

        try:
            open_gpu()
        except TileIRError as error:
            raise RefusedError(error.diagnostics) from None


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
