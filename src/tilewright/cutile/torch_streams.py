"""Streams and events of a GPU that is only pretended: whatever is put on a stream is done at once, or captured."""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
from typing import Any

import torch

from tilewright.cutile.captures import Capture, Clock, capture_of, check_waiting, of_thread


class _Current(threading.local):
    """The streams that this thread has chosen, innermost last."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []


_current = _Current()
_numbers = itertools.count(1)


class Stream:
    """A stream on which everything has been done already: work runs when it is submitted.

    ``cuda_stream`` is its number, of its own for each but the default one.
    """

    device_index = 0
    device_type = 1
    device = torch.device("cuda", 0)

    def __init__(
        self, device: Any = None, priority: int = 0, *, stream_ptr: int | None = None, **kwargs: Any
    ) -> None:
        self.cuda_stream = next(_numbers) << 4 if stream_ptr is None else stream_ptr
        self.stream_id = self.cuda_stream
        self.priority = priority

    def synchronize(self) -> None:
        """Nothing: launches are over when they return. CUDA's error while the stream is captured."""
        check_waiting(self.cuda_stream)

    def wait_event(self, event: Event) -> None:
        """What was recorded has happened, or comes before what the stream will record."""
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        """Other streams have no work left, or what they record comes before what this one will record."""
        self.wait_event(stream.record_event())

    def query(self) -> bool:
        """True: all work is done. CUDA's error while the stream is captured."""
        check_waiting(self.cuda_stream)
        return True

    def is_capturing(self) -> bool:
        """Whether what is put on the stream is captured."""
        return capture_of(self.cuda_stream) is not None

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least and the greatest priority, as on GPUs; they change nothing here."""
        return 0, -5

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.cuda_stream)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.cuda_stream

    def record_event(self, event: Any = None) -> Event:
        """Record an event, a new one if none is given; the event."""
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        _current.streams.append(self)
        return self

    def __exit__(self, *exception: Any) -> None:
        _current.streams.pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.cuda_stream == self.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device=cuda:0 cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream that the program has a number for."""

    def __init__(self, stream_ptr: int, device: Any = None, **kwargs: Any) -> None:
        super().__init__(device, stream_ptr=stream_ptr)


class StreamContext:
    """A stream is the current one inside; none changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        _current.streams.append(current_stream() if self.stream is None else self.stream)

    def __exit__(self, *exception: Any) -> None:
        _current.streams.pop()


def current_stream(device: Any = None) -> Stream:
    """The stream that this thread has chosen last; the default one where it has chosen none."""
    return _current.streams[-1] if _current.streams else DEFAULT_STREAM


def set_stream(stream: Stream | None) -> None:
    """Make a stream the current one of this thread; none changes nothing."""
    if stream is not None:
        _current.streams[-1:] = [stream]


def is_capturing() -> bool:
    """Whether what this thread puts on its current stream is captured."""
    return current_stream().is_capturing()


def check_host_waits() -> None:
    """The host waits for what is on the current stream, which CUDA does not allow while it is captured."""
    if of_thread.capture is not None:
        check_waiting(current_stream().cuda_stream)


def synchronize_device() -> None:
    """Nothing: all work is done. CUDA's error while this thread captures."""
    if of_thread.capture is not None:
        of_thread.capture.fail("operation not permitted when stream is capturing")


class Event:
    """An event: the time at which it was recorded, by the clock of the host, or a place in a capture."""

    device = torch.device("cuda", 0)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # What comes first says that of torch.cuda.Event; that of torch.Event is the device.
        self._times = bool(kwargs.get("enable_timing", args[:1] == (True,)))
        self._is_external = bool(kwargs.get("external", False))
        self._recorded: float | None = None
        self._captured: tuple[Capture, Clock] | None = None
        self.cuda_event = next(_numbers) << 4

    def __repr__(self) -> str:
        is_new = self._recorded is None and self._captured is None
        told = "uninitialized" if is_new else f"{self.cuda_event:#x}"
        return f"<torch.cuda.Event {told}>"

    def record(self, stream: Stream | None = None) -> None:
        """Remember the time, or the place in what is captured. An external event remembers the time of each replay."""
        number = (stream or current_stream()).cuda_stream
        capture = capture_of(number)
        self._captured = None
        if capture is None:
            self._recorded = time.perf_counter()
        elif self._is_external:
            capture.record(self)
        else:
            self._captured = capture, capture.clock(number)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds until another event, of the host's clock.

        Raises ValueError unless both were recorded, with timing; CUDA's RuntimeError if one was captured.
        """
        if not (self._times and end_event._times):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        self._check_host()
        end_event._check_host()
        if self._recorded is None or end_event._recorded is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event._recorded - self._recorded) * 1e3

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.cuda_event)

    def query(self) -> bool:
        """True: what was recorded has happened. CUDA's RuntimeError if it was captured."""
        self._check_host()
        return True

    def synchronize(self) -> None:
        """Nothing: what was recorded has happened. CUDA's RuntimeError if it was captured."""
        self._check_host()

    def wait(self, stream: Stream | None = None) -> None:
        """What was recorded has happened, or comes before what the stream will record."""
        capture = of_thread.capture
        if capture is None or (self._recorded is None and self._captured is None):
            return
        of_this_capture = self._captured is not None and self._captured[0] is capture
        clock = self._captured[1] if self._captured is not None and of_this_capture else None
        capture.wait((stream or current_stream()).cuda_stream, clock)

    def _check_host(self) -> None:
        if self._captured is None:
            return
        reason = "operation not permitted on an event last recorded in a capturing stream"
        capture = of_thread.capture
        if capture is not None and capture is self._captured[0]:
            capture.fail(reason)
        raise cuda_error(reason)


def cuda_error(reason: str) -> RuntimeError:
    """The error of torch for one of CUDA."""
    kind = getattr(torch, "AcceleratorError", RuntimeError)
    return kind(f"CUDA error: {reason}")


DEFAULT_STREAM = Stream(stream_ptr=0)
