"""CUDA graphs without a GPU: what torch and cuTile do is recorded, and done again by a replay.

A GPU does nothing while a graph is captured. Here everything is done once, so that results have
shapes and programs can go on; in the end all memory that was there before holds again what it held.
A replay repeats each operation of torch on the same tensors, and puts what it gives into the memory
of the tensors that the capture gave; launches have the arguments that they had.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NoReturn

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tilewright.cutile.captures import Clock, of_thread
from tilewright.cutile.torch_host import is_on_host
from tilewright.cutile.torch_streams import (
    DEFAULT_STREAM,
    Stream,
    StreamContext,
    cuda_error,
    current_stream,
    synchronize_device,
)

_Replay = Callable[[], None]
_FAILED = "operation failed due to a previous error during capture"


def _tensors(*values: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _place(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class _Recorder(TorchDispatchMode):
    """Records the operations of torch and the launches of this thread on a stream, and on those that wait for it.

    Work on other streams is none of the capture, nor is what touches host memory only: both are done once, at once.
    """

    def __init__(self, stream: int) -> None:
        super().__init__()
        self.replays: list[_Replay] = []
        self.has_failed = False
        self._stream = stream
        #: The pieces of work on each stream that come before the next one on it, its own included.
        self._clocks: dict[int, dict[int, int]] = {stream: {}}
        self._made: set[int] = set()
        self._before: dict[int, tuple[torch.UntypedStorage, bytes]] = {}
        self._kept: list[object] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise torch imports its compiler, which takes seconds

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        given = _tensors(args, kwargs)
        stream = current_stream().cuda_stream
        if not self.takes(stream) or (given and all(map(is_on_host, given))):
            return func(*args, **kwargs)
        if self.has_failed:
            self.fail(_FAILED)
        if _waits(func, args, kwargs):
            self.fail("operation not permitted when stream is capturing")
        written = _written(func, args, kwargs)
        self._remember(written)
        results = func(*args, **kwargs)
        known = set(map(_place, given))
        made = [tensor for tensor in _tensors(results) if _place(tensor) not in known]
        self._made.update(map(_place, made))
        # No memory of the capture may become that of something else.
        self._kept.append(results)
        if not made and not written:
            return results  # a view

        def replay() -> None:
            if not given and made and all(map(is_on_host, made)):
                return  # only now is it known where what was made of nothing is
            again = func(*args, **kwargs)
            for old, new in zip(_tensors(results), _tensors(again), strict=True):
                if _place(old) not in known:
                    old.copy_(new)

        self._add(stream, replay)
        return results

    def takes(self, stream: int) -> bool:
        """Whether what is put on a stream is recorded."""
        return stream in self._clocks

    def clock(self, stream: int) -> Clock:
        """The work that an event on a recorded stream comes after."""
        self._tick(stream)
        return dict(self._clocks[stream])

    def wait(self, stream: int, clock: Clock | None) -> None:
        """A stream waits for recorded work, or for work that is not."""
        if clock is None:
            if self.takes(stream):
                self.fail("dependency created on uncaptured work in another stream")
            return
        seen = self._clocks.setdefault(stream, {})
        for other, count in clock.items():
            seen[other] = max(count, seen.get(other, 0))
        if stream != self._stream:
            self._tick(stream)

    def check_joined(self) -> None:
        """CUDA's error where the stream of the capture has not waited for all work on others."""
        seen = self._clocks[self._stream]
        if any(
            seen.get(stream, 0) < clock[stream] for stream, clock in self._clocks.items() if clock
        ):
            raise cuda_error("capturing stream has unjoined work")

    def fail(self, reason: str) -> NoReturn:
        """CUDA's error of something that cannot be captured."""
        self.has_failed = True
        raise cuda_error(reason)

    def record(self, event: Any) -> None:
        """An event is recorded at each replay."""
        self._add(current_stream().cuda_stream, event.record)

    def before_launch(self, kernel_args: tuple[Any, ...]) -> None:
        self._remember(_tensors(kernel_args))

    def launched(self, stream: int, *launch: Any) -> None:
        from tilewright.cutile.launching import launch_with

        self._add(stream, lambda: launch_with(*launch))

    def _add(self, stream: int, replay: _Replay) -> None:
        self._tick(stream)
        self.replays.append(replay)

    def _tick(self, stream: int) -> None:
        clock = self._clocks[stream]
        clock[stream] = clock.get(stream, 0) + 1

    def _remember(self, written: list[torch.Tensor]) -> None:
        """Keep what memory that was there before the capture holds."""
        for tensor in written:
            place = _place(tensor)
            if place not in self._made and place not in self._before:
                # Not by operations of torch, which would be recorded.
                storage = tensor.untyped_storage()
                self._before[place] = storage, ctypes.string_at(place, storage.nbytes())

    def restore(self) -> None:
        """Memory that was there before holds what it held."""
        for storage, content in self._before.values():
            ctypes.memmove(storage.data_ptr(), content, len(content))
        self._before.clear()


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors that an operation writes to, by its schema."""
    found: list[torch.Tensor] = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        if argument.name in kwargs:
            found += _tensors(kwargs[argument.name])
        elif position < len(args):
            found += _tensors(args[position])
    return found


#: Operations whose results the host has to know, or whose forms depend on elements: the host waits for the GPU in them.
#: Not the reading of single numbers, which operations do by themselves on a CPU: where a program does it, the mode sees it.
_WAITING = frozenset(
    {
        "_linalg_check_errors",
        "_unique",
        "_unique2",
        "allclose",
        "bincount",
        "equal",
        "is_nonzero",
        "masked_select",
        "nonzero",
        "nonzero_numpy",
        "unique_consecutive",
        "unique_dim",
        "unique_dim_consecutive",
    }
)


def _waits(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the host waits for the GPU in an operation on tensors of the device."""
    name = func.overloadpacket.__name__
    if name in _WAITING:
        return True
    if name == "repeat_interleave":
        return kwargs.get("output_size") is None and isinstance(args[-1], torch.Tensor)
    if name == "copy_":
        crosses = isinstance(args[1], torch.Tensor) and is_on_host(args[0]) != is_on_host(args[1])
        return crosses and not (args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
    if name not in ("index", "index_put_", "index_put", "_index_put_impl_"):
        return False
    by_mask = any(t.dtype in (torch.bool, torch.uint8) for t in _tensors(args[1]))
    # One number is written under the mask itself.
    return by_mask and (name == "index" or args[2].numel() != 1)


class CUDAGraph:
    """A recorded sequence of operations; as ``torch.cuda.CUDAGraph``."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._recorder: _Recorder | None = None
        self._replays: list[_Replay] | None = None
        self._open = ExitStack()

    def capture_begin(
        self,
        pool: Any = None,
        capture_error_mode: str = "global",
        check_input_liveness: bool = False,
    ) -> None:
        """Record what this thread puts on the current stream from now on. Raises RuntimeError inside of another capture and
        on the default stream. The arguments change nothing."""
        stream = current_stream()
        if of_thread.capture is not None:
            raise RuntimeError("CUDA graphs cannot be captured inside of another capture")
        if stream == DEFAULT_STREAM:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them "
                "on the default stream.)"
            )
        recorder: _Recorder = self._open.enter_context(_Recorder(stream.cuda_stream))
        self._recorder = of_thread.capture = recorder
        self._open.callback(setattr, of_thread, "capture", None)

    def capture_end(self) -> None:
        """End the recording; memory is as it was before it. Raises RuntimeError without a beginning, and CUDA's errors where
        something that cannot be captured was tried, or work on another stream was not waited for."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            raise RuntimeError("capture_end() was called before capture_begin()")
        self._open.close()
        recorder.restore()
        if recorder.has_failed:
            raise cuda_error(_FAILED)
        recorder.check_joined()
        # The recorder keeps the memory of all results alive.
        self._replays = recorder.replays

    def instantiate(self) -> None:
        """Nothing: graphs are replayed as they were recorded."""

    def replay(self) -> None:
        """Do all that was captured again, on the same memory. Raises RuntimeError if nothing was captured."""
        if self._replays is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        # Where gradients are not computed, and where results of the inference mode may be written to.
        with torch.inference_mode():
            for replay in self._replays:
                replay()

    def reset(self) -> None:
        """Forget what was recorded."""
        self._replays = None

    def pool(self) -> tuple[int, int]:
        """The same memory pool for every graph."""
        return 0, 1

    def enable_debug_mode(self) -> None:
        """Nothing; it is there because programs call it."""

    def debug_dump(self, debug_path: str) -> None:
        """Write a graph of Graphviz without nodes: there is no CUDA graph to show."""
        with open(debug_path, "w", encoding="utf-8") as file:
            file.write("digraph {}\n")


class graph:
    """A context in which everything is captured, on a stream of its own unless one is given; as ``torch.cuda.graph``."""

    #: That of all captures without one.
    default_capture_stream: Stream | None = None

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Any = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
        enable_annotations: bool = False,
        check_input_liveness: bool = False,
    ) -> None:
        if stream is None and graph.default_capture_stream is None:
            graph.default_capture_stream = Stream()
        self.cuda_graph = cuda_graph
        self.capture_stream = stream or graph.default_capture_stream
        self.stream_ctx = StreamContext(self.capture_stream)

    def __enter__(self) -> None:
        synchronize_device()
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin()
        except RuntimeError:
            self.stream_ctx.__exit__()
            raise

    def __exit__(self, *exception: Any) -> None:
        try:
            self.cuda_graph.capture_end()
        finally:
            self.stream_ctx.__exit__(*exception)
