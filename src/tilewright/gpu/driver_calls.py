"""Calls of NVIDIA's driver, whose error codes become diagnostics that name the kernel."""

from __future__ import annotations

from typing import Any

from tilewright.diagnostics import TileIRError
from tilewright.gpu.codes import ASSEMBLER_FAILED, KERNEL_FAILED, LAUNCH, LOST_GPU, OUT_OF_MEMORY

_OUT_OF_MEMORY, _NOT_READY = 2, 600
#: What a kernel has done, by error number. After any of these errors the driver refuses all further calls of the
#: process.
_FATAL = {
    700: "it accessed memory that is not allocated",
    702: "it exceeded the time limit of the system for kernels",
    710: "one of its assertions failed; the driver has written which one to standard error",
    714: "the stack of a thread was overrun or corrupted",
    715: "it executed an illegal instruction",
    716: "it accessed memory at an address that is not a multiple of the access's size",
    717: "it used an instruction on an unsupported address space",
    718: "a thread jumped to an invalid program counter",
    719: "the GPU stopped it",
}
#: Errors of a launch that did not start.
_REFUSED = {
    701: "a block needs more registers than a multiprocessor has",
    720: "a cooperative launch has more blocks than fit at once",
}
#: Errors of loading code.
_BAD_IMAGE = frozenset({200, 209, 218, 221, 222, 223})
_SIMULATE = (
    "run it with `--machine sim:ARCH`, which names the operation, the thread and the address"
)


class Driver:
    """The driver's functions, which return a status and results.

    ``api`` has the names and signatures of ``cuda.bindings.driver``. After a kernel has failed, ``lost`` says which,
    and the driver refuses all further calls of the process.
    """

    def __init__(self, api: Any) -> None:
        self.api = api
        self.lost = ""

    def call(self, function: str, *args: Any, kernel: str = "") -> Any:
        """Call a function of the driver and return its results. ``kernel`` is the one that runs or is to run.

        Raises ``TileIRError``: ``gpu-kernel-failed``, ``gpu-out-of-memory``, ``gpu-lost`` after a failed kernel, else
        ``gpu-launch`` with the driver's message.
        """
        status, *values = getattr(self.api, function)(*args)
        if int(status):
            raise self._error(function, status, kernel)
        return values[0] if len(values) == 1 else tuple(values)

    def is_done(self, event: Any, kernel: str) -> bool:
        """Whether the work before an event has ended. Raises as ``call``."""
        (status,) = self.api.cuEventQuery(event)
        if int(status) == _NOT_READY:
            return False
        if int(status):
            raise self._error("cuEventQuery", status, kernel)
        return True

    def release(self, function: str, *handles: Any) -> None:
        """Release handles. Errors are ignored: after a failed kernel every call fails."""
        getattr(self.api, function)(*handles)

    def _error(self, function: str, status: Any, kernel: str) -> TileIRError:
        number, said = int(status), words(self.api, status)
        if self.lost:
            return TileIRError.single(
                LOST_GPU,
                f"this process cannot use the GPU any more, since {self.lost}",
                help="start a new process",
            )
        if number in _FATAL:
            who = f"kernel '{kernel}'" if kernel else "earlier work on the GPU"
            self.lost = f"{who} failed: {_FATAL[number]}"
            return TileIRError.single(KERNEL_FAILED, f"{self.lost} ({said})", help=_SIMULATE)
        if number == _OUT_OF_MEMORY:
            return TileIRError.single(
                OUT_OF_MEMORY, _named(kernel, f"the GPU has no memory left ({said})")
            )
        if number in _REFUSED:
            return TileIRError.single(LAUNCH, _named(kernel, f"{_REFUSED[number]} ({said})"))
        if number in _BAD_IMAGE and function.startswith("cuModule"):
            return TileIRError.single(
                ASSEMBLER_FAILED, _named(kernel, f"the driver rejected the code: {said}")
            )
        return TileIRError.single(LAUNCH, _named(kernel, f"{function} failed: {said}"))


def _named(kernel: str, message: str) -> str:
    return f"kernel '{kernel}': {message}" if kernel else message


def words(api: Any, status: Any) -> str:
    """The driver's name and description of a status."""
    parts = []
    for function in (api.cuGetErrorName, api.cuGetErrorString):
        found, text = function(status)
        if not int(found) and text:
            parts.append(text.decode())
    return ": ".join(parts) or f"error {int(status)}"
