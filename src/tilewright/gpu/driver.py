"""NVIDIA's driver through cuda-bindings: one GPU, and calls whose failures are diagnostics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from tilewright.diagnostics import TileIRError
from tilewright.gpu.architectures import ARCHITECTURES, Architecture
from tilewright.gpu.codes import LAUNCH, NO_GPU


def _not_available(why: str, help: str = "") -> TileIRError:
    return TileIRError.single(NO_GPU, why, help=help)


#: The version of CUDA that a driver must have for a version of PTX, as the driver numbers it.
_CUDA_OF_PTX = {
    **{isa: 12000 + 10 * (isa - 80) for isa in range(80, 86)},
    86: 12070,
    87: 12080,
    88: 12090,
}


@dataclass(frozen=True, slots=True)
class Gpu:
    """The driver's functions, the GPU that they work on, and its context, which every thread that calls
    them must make its own."""

    api: Any
    device: Any
    name: str
    capability: int
    version: int
    context: Any = None

    def call(self, function: str, *args: Any) -> Any:
        """What a function of the driver gives; a TileIRError with the driver's own words."""
        status, *values = getattr(self.api, function)(*args)
        if int(status):
            raise TileIRError.single(LAUNCH, f"{function} failed: {_words(self.api, status)}")
        return values[0] if len(values) == 1 else tuple(values)

    def release(self, function: str, handle: Any) -> None:
        """Give something back; behind a failed kernel that fails too, which says nothing new."""
        getattr(self.api, function)(handle)

    def best_architecture(self) -> Architecture:
        """The architecture that has the most of those whose code the GPU runs."""
        names = [a for a in ARCHITECTURES.values() if a.number == self.capability]
        if not names:
            names = [a for a in ARCHITECTURES.values() if a.number < self.capability]
            names = [a for a in names if not a.name.endswith("a")]
        if not names:
            raise _not_available(f"{self.name} is of sm_{self.capability}, which is too old")
        return max(names, key=lambda a: (a.number, a.name))

    def check(self, arch: Architecture, isa: int) -> None:
        """A TileIRError where the GPU or its driver cannot run code for an architecture."""
        exact = arch.name.endswith("a")
        fits = self.capability == arch.number if exact else self.capability >= arch.number
        if not fits:
            raise _not_available(
                f"{self.name} is of sm_{self.capability} and cannot run code for {arch.name}",
                help=f"compile for sm_{self.capability}",
            )
        needed = _CUDA_OF_PTX[isa]
        if self.version < needed:
            raise _not_available(
                f"the driver is too old: it knows CUDA {_shown(self.version)}, and the code needs "
                f"{_shown(needed)}",
                help="update the driver",
            )


def _shown(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _words(api: Any, status: Any) -> str:
    parts = []
    for function in (api.cuGetErrorName, api.cuGetErrorString):
        found, text = function(status)
        if not int(found) and text:
            parts.append(text.decode())
    return ": ".join(parts) or f"error {int(status)}"


@cache
def open_gpu(ordinal: int = 0) -> Gpu:
    """The GPU of that number, with the context that other libraries use too.

    A TileIRError of one line where the package, the driver or the GPU is missing, or is not to be had.
    """
    try:
        from cuda.bindings import driver as api  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise _not_available(
            "running on a GPU needs the package cuda-bindings, which is not installed",
            help="pip install cuda-bindings",
        ) from None
    try:
        (status,) = api.cuInit(0)
    except RuntimeError:
        raise _not_available("there is no NVIDIA driver here") from None
    if int(status):
        raise _not_available(f"the NVIDIA driver does not start: {_words(api, status)}")
    steps: list[Any] = []
    for function, args in (
        ("cuDriverGetVersion", ()),
        ("cuDeviceGet", (ordinal,)),
    ):
        status, value = getattr(api, function)(*args)
        if int(status):
            raise _not_available(f"there is no GPU {ordinal}: {_words(api, status)}")
        steps.append(value)
    version, device = steps
    status, context = api.cuDevicePrimaryCtxRetain(device)
    if not int(status):
        (status,) = api.cuCtxSetCurrent(context)
    if int(status):
        raise _not_available(f"GPU {ordinal} is not to be had: {_words(api, status)}")
    kinds = api.CUdevice_attribute
    _, major = api.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)
    _, minor = api.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)
    _, name = api.cuDeviceGetName(128, device)
    shown = name.split(b"\0")[0].decode()
    return Gpu(api, device, shown, 10 * major + minor, version, context)
