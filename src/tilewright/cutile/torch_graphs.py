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
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tilewright.cutile.captures import of_thread

_Replay = Callable[[], None]


def _tensors(*values: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _place(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class _Recorder(TorchDispatchMode):
    """Records the operations of torch and the launches of this thread."""

    def __init__(self) -> None:
        super().__init__()
        self.replays: list[_Replay] = []
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
        written = _written(func, args, kwargs)
        self._remember(written)
        results = func(*args, **kwargs)
        known = {_place(tensor) for tensor in _tensors(args, kwargs)}
        made = [tensor for tensor in _tensors(results) if _place(tensor) not in known]
        self._made.update(map(_place, made))
        # No memory of the capture may become that of something else.
        self._kept.append(results)
        if not made and not written:
            return results  # a view

        def replay() -> None:
            again = func(*args, **kwargs)
            for old, new in zip(_tensors(results), _tensors(again), strict=True):
                if _place(old) not in known:
                    old.copy_(new)

        self.replays.append(replay)
        return results

    def before_launch(self, kernel_args: tuple[Any, ...]) -> None:
        self._remember(_tensors(kernel_args))

    def launched(self, *launch: Any) -> None:
        from tilewright.cutile.launching import launch_with

        self.replays.append(lambda: launch_with(*launch))

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


class CUDAGraph:
    """A recorded sequence of operations; as ``torch.cuda.CUDAGraph``."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._recorder: _Recorder | None = None
        self._replays: list[_Replay] | None = None
        self._open = ExitStack()

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Record what this thread does from now on. Raises RuntimeError inside of another capture.
        The arguments change nothing."""
        if of_thread.capture is not None:
            raise RuntimeError("CUDA graphs cannot be captured inside of another capture")
        recorder: _Recorder = self._open.enter_context(_Recorder())
        self._recorder = of_thread.capture = recorder
        self._open.callback(setattr, of_thread, "capture", None)

    def capture_end(self) -> None:
        """End the recording; memory is as it was before it. Raises RuntimeError without a
        beginning."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            raise RuntimeError("capture_end() was called before capture_begin()")
        self._open.close()
        recorder.restore()
        # The recorder keeps the memory of all results alive.
        self._replays = recorder.replays

    def instantiate(self) -> None:
        """Nothing: graphs are replayed as they were recorded."""

    def replay(self) -> None:
        """Do all that was captured again, on the same memory."""
        if self._replays is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        with torch.no_grad():
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
    """A context in which everything is captured; as ``torch.cuda.graph``."""

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
    ) -> None:
        self.cuda_graph = cuda_graph
        self._stream = stream
        self._pool = pool

    def __enter__(self) -> None:
        if self._stream is not None:
            self._stream.__enter__()
        self.cuda_graph.capture_begin(self._pool)

    def __exit__(self, *exception: Any) -> None:
        self.cuda_graph.capture_end()
        if self._stream is not None:
            self._stream.__exit__(*exception)


def make_graphed_callables(callables: Any, *args: Any, **kwargs: Any) -> Any:
    """The callables themselves: they do what their graphs would do."""
    return callables


def is_capturing() -> bool:
    """Whether this thread captures a graph."""
    return of_thread.capture is not None
