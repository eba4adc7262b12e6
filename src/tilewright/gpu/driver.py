"""NVIDIA's driver through cuda-bindings: one GPU, and calls whose failures become diagnostics."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tilewright.diagnostics import TileIRError
from tilewright.gpu.architectures import ARCHITECTURES, Architecture
from tilewright.gpu.codes import NO_GPU
from tilewright.gpu.device_memory import DeviceMemory
from tilewright.gpu.driver_calls import Driver, words
from tilewright.gpu.messages import MessageBuffer
from tilewright.gpu.modules import ModuleCache


def _not_available(why: str, help: str = "") -> TileIRError:
    return TileIRError.single(NO_GPU, why, help=help)


#: The version of CUDA that a driver must have for a version of PTX, as the driver numbers it.
CUDA_OF_PTX = {
    **{isa: 12000 + 10 * (isa - 80) for isa in range(80, 86)},
    86: 12070,
    87: 12080,
    88: 12090,
}


@dataclass(slots=True, eq=False)
class Gpu:
    """A GPU: the driver's functions, and the context, which each calling thread must make current.

    ``modules`` and ``memory`` belong to the context and live as long as the process.
    """

    api: Any
    device: Any
    name: str
    capability: int
    version: int
    context: Any = None
    driver: Driver = field(init=False)
    modules: ModuleCache = field(init=False)
    memory: DeviceMemory = field(init=False)
    messages: MessageBuffer = field(init=False)
    _abandoned: list[tuple[Any, ExitStack]] = field(
        init=False, default_factory=list["tuple[Any, ExitStack]"]
    )
    _attributes: dict[str, int] = field(init=False, default_factory=dict[str, int])

    def __post_init__(self) -> None:
        self.driver = Driver(self.api)
        self.modules = ModuleCache(self.driver)
        self.memory = DeviceMemory(self.driver, self._has_pools)
        self.messages = MessageBuffer(self.driver)

    def call(self, function: str, *args: Any, kernel: str = "") -> Any:
        """Call a function of the driver; results and errors are those of ``Driver.call``."""
        return self.driver.call(function, *args, kernel=kernel)

    def release(self, function: str, *handles: Any) -> None:
        """Release a handle. Errors are ignored: after a failed kernel every call fails."""
        self.driver.release(function, *handles)

    def enter(self) -> None:
        """Make the context current in the calling thread."""
        self.call("cuCtxSetCurrent", self.context)

    def attribute(self, name: str) -> int:
        """A device attribute, by the driver's name without ``CU_DEVICE_ATTRIBUTE_``."""
        found = self._attributes.get(name)
        if found is None:
            kind = getattr(self.api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
            found = int(self.call("cuDeviceGetAttribute", kind, self.device))
            self._attributes[name] = found
        return found

    def abandon(self, event: Any, held: ExitStack) -> None:
        """Keep the resources of a kernel that is no longer waited for, until its event."""
        self._abandoned.append((event, held))

    def reap(self) -> None:
        """Release the resources of abandoned kernels that have ended."""
        for pair in list(self._abandoned):
            event, held = pair
            if self.driver.is_done(event, ""):
                self._abandoned.remove(pair)
                held.close()

    def _has_pools(self) -> bool:
        return bool(self.attribute("MEMORY_POOLS_SUPPORTED"))

    def best_architecture(self) -> Architecture:
        """The architecture with the most features whose code the GPU runs.

        Raises ``TileIRError`` (``gpu-not-available``) if it is older than all.
        """
        names = [a for a in ARCHITECTURES.values() if a.number == self.capability]
        if not names:
            names = [a for a in ARCHITECTURES.values() if a.number < self.capability]
            names = [a for a in names if not a.name.endswith("a")]
        if not names:
            raise _not_available(f"{self.name} is of sm_{self.capability}, which is too old")
        return max(names, key=lambda a: (a.number, a.name))

    def check(self, arch: Architecture, isa: int) -> None:
        """Raises ``TileIRError`` (``gpu-not-available``) if the GPU or its driver cannot run code for an architecture.

        ``isa``: the PTX version times ten, which newer drivers know.
        """
        exact = arch.name.endswith("a")
        fits = self.capability == arch.number if exact else self.capability >= arch.number
        if not fits:
            raise _not_available(
                f"{self.name} is of sm_{self.capability} and cannot run code for {arch.name}",
                help=f"compile for sm_{self.capability}",
            )
        needed = CUDA_OF_PTX[isa]
        if self.version < needed:
            raise _not_available(
                f"the driver is too old: it knows CUDA {_shown(self.version)}, and the code needs "
                f"{_shown(needed)}",
                help="update the driver",
            )


def _shown(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def driver_api() -> Any:
    """``cuda.bindings.driver``. Raises ``TileIRError`` (``gpu-not-available``) if it is not installed."""
    try:
        from cuda.bindings import driver  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise _not_available(
            "running on a GPU needs the package cuda-bindings, which is not installed",
            help="pip install cuda-bindings",
        ) from None
    return driver


def open_gpu(ordinal: int = 0) -> Gpu:
    """The GPU of this number, with its primary context, which other libraries share; the same object each time.

    Raises ``TileIRError`` if the package, the driver or the GPU is missing or unavailable.
    """
    return _opened(ordinal)


def forget_gpus() -> None:
    """Forget the opened GPUs, and everything loaded on them."""
    _opened.cache_clear()


@cache
def _opened(ordinal: int) -> Gpu:
    api = driver_api()
    try:
        (status,) = api.cuInit(0)
    except RuntimeError:
        raise _not_available("there is no NVIDIA driver here") from None
    if int(status):
        raise _not_available(f"the NVIDIA driver cannot be initialized: {words(api, status)}")
    steps: list[Any] = []
    for function, args in (
        ("cuDriverGetVersion", ()),
        ("cuDeviceGet", (ordinal,)),
    ):
        status, value = getattr(api, function)(*args)
        if int(status):
            raise _not_available(f"there is no GPU {ordinal}: {words(api, status)}")
        steps.append(value)
    version, device = steps
    status, context = api.cuDevicePrimaryCtxRetain(device)
    if not int(status):
        (status,) = api.cuCtxSetCurrent(context)
    if int(status):
        raise _not_available(f"GPU {ordinal} is not available: {words(api, status)}")
    kinds = api.CUdevice_attribute
    _, major = api.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)
    _, minor = api.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)
    _, name = api.cuDeviceGetName(128, device)
    shown = name.split(b"\0")[0].decode()
    return Gpu(api, device, shown, 10 * major + minor, version, context)
