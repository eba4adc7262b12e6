"""The machines that cuTile kernels can be launched on, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from tilewright.cutile.errors import RefusedError
from tilewright.diagnostics import TileIRError
from tilewright.launching.machine import machine_named

if TYPE_CHECKING:
    from tilewright.cutile.parameters import Value
    from tilewright.cutile.scope import Settings
    from tilewright.dialects.cuda_tile.ops.module import ModuleOp


class LoadedKernel(Protocol):
    """A compiled kernel that is ready to run."""

    def launch(
        self, grid: tuple[int, int, int], values: Sequence[Value], settings: Settings
    ) -> None:
        """Run it to its end. A TileIRError where it does what it must not, or assertions failed."""
        ...


Constants = Mapping[str, object]
"""The constants that a kernel was compiled for, by parameter."""

Loader = Callable[["ModuleOp", str, "Settings", Constants], LoadedKernel]
"""Loads the entry of that name of a verified ``cuda_tile`` module."""


def _load_reference(
    module: ModuleOp, entry: str, settings: Settings, constants: Constants
) -> LoadedKernel:
    if settings.is_observed:
        from tilewright.cutile.checked import CheckedKernel

        return CheckedKernel(module, entry, constants)
    from tilewright.cutile.reference import ReferenceKernel

    return ReferenceKernel(module, entry)


def _load_cpu(
    module: ModuleOp, entry: str, settings: Settings, constants: Constants
) -> LoadedKernel:
    from tilewright.cutile.on_cpu import CpuKernel

    return CpuKernel(module, entry)


def _load_simulator(
    module: ModuleOp, entry: str, settings: Settings, constants: Constants
) -> LoadedKernel:
    from tilewright.cutile.simulated import SimulatedKernel

    return SimulatedKernel(module, entry, settings.machine.partition(":")[2])


def _load_gpu(
    module: ModuleOp, entry: str, settings: Settings, constants: Constants
) -> LoadedKernel:
    from tilewright.cutile.on_gpu import GpuKernel

    return GpuKernel(module, entry)


_LOADERS: dict[str, Loader] = {
    "reference": _load_reference,
    "cpu": _load_cpu,
    "sim": _load_simulator,
    "cuda": _load_gpu,
}
_READING = ("tilewright.bytecode.reader", "tilewright.analysis.verifier")
#: What the first launch of a kernel needs here, beside what its machine needs.
_MODULES = {
    "reference": (*_READING, "tilewright.cutile.reference"),
    "cpu": (*_READING, "tilewright.cutile.on_cpu"),
    "sim": (*_READING, "tilewright.cutile.simulated"),
    "cuda": (*_READING, "tilewright.cutile.on_gpu"),
}


def get_ready(name: str) -> None:
    """Import and start what launches on a machine need, so that the first one does not have to."""
    machine = machine_named(name)
    for module in _MODULES[machine.capabilities.kind]:
        import_module(module)
    machine.get_ready()


def check_settings(settings: Settings) -> None:
    """A :class:`RefusedError` that says why, unless launches can run as the settings want it."""
    options = settings.options
    try:
        machine = machine_named(settings.machine)
        wanted = options if settings.trace is None else replace(options, trace=settings.trace)
        # The simulator and GPUs print by themselves where kernels of cuTile do.
        machine.check_options(replace(wanted, print_to=None))
        machine.check()
    except TileIRError as error:
        raise RefusedError(error.diagnostics) from None


def load(module: ModuleOp, entry: str, settings: Settings, constants: Constants) -> LoadedKernel:
    """Load a kernel onto the machine that the settings name."""
    check_settings(settings)
    return _LOADERS[settings.machine.partition(":")[0]](module, entry, settings, constants)
