"""``launch``: a cuTile kernel on a machine of ours."""

from __future__ import annotations

import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.cutile.captures import capture_of, of_thread
from tilewright.cutile.errors import type_name
from tilewright.cutile.frontend import FrontEnd, front_end
from tilewright.cutile.kernel_sources import KernelSource
from tilewright.cutile.parameters import Key, Value, constraints_of, parameter
from tilewright.cutile.repeats import Repeats
from tilewright.cutile.settings import Launched, Settings, current
from tilewright.diagnostics import TileIRError
from tilewright.diagnostics.tracebacks import hides_frames
from tilewright.launching.accepted import MAX_GRID_EXTENT

if TYPE_CHECKING:
    from tilewright.cutile.machines import LoadedKernel
    from tilewright.dialects.cuda_tile.ops.module import ModuleOp

__tracebackhide__ = hides_frames

LAUNCH_SIGNATURE = (
    "launch(stream, grid, kernel, kernel_args, /, *, programmatic_dependent_launch=False)"
)
_MAX_UINT, _MAX_ULONG, _MIN_LONG = 2**32 - 1, 2**64 - 1, -(2**63)


def launch(
    stream: Any,
    grid: tuple[int, ...],
    kernel: Any,
    kernel_args: tuple[Any, ...],
    /,
    *,
    programmatic_dependent_launch: bool = False,
    machine: str | None = None,
) -> None:
    """Run a cuTile kernel to its end, with the arguments and the errors of ``cuda.tile.launch``.

    Arrays may be NumPy arrays, torch tensors on the CPU and whatever speaks DLPack, the array
    interface or the buffer protocol; they are used in place. ``stream`` and
    ``programmatic_dependent_launch`` are checked and change nothing: launches run one after the
    other. ``machine`` overrides the one that holds here, the reference machine by default.

    What cuTile refuses is refused in the same way, before anything runs: TypeError for what is no stream, grid,
    kernel or argument, ValueError for extents out of range. A :class:`~tilewright.cutile.KernelError` where the
    kernel does what it must not do, a :class:`~tilewright.cutile.RefusedError` where the machine lacks something.
    """
    launch_with(current(machine), stream, grid, kernel, kernel_args, programmatic_dependent_launch)


def launch_with(
    settings: Settings,
    stream: Any,
    grid: Any,
    kernel: Any,
    kernel_args: Any,
    programmatic_dependent_launch: Any = False,
) -> None:
    """:func:`launch`, with settings.

    Raises TypeError as it does, before anything runs, for arguments of wrong types.
    """
    dispatcher, extents = checked_launch(stream, grid, kernel, kernel_args)
    if type(programmatic_dependent_launch) is not bool:
        raise TypeError("expected argument programmatic_dependent_launch to have type bool")
    if of_thread.capture is None:
        dispatcher.launch(extents, kernel_args, settings)
        return
    number = _stream_number(stream)
    capture = capture_of(number)
    if capture is None:
        dispatcher.launch(extents, kernel_args, settings)
        return
    capture.before_launch(kernel_args)
    dispatcher.launch(extents, kernel_args, settings)
    capture.launched(
        number, settings, stream, grid, kernel, kernel_args, programmatic_dependent_launch
    )


def checked_launch(
    stream: Any, grid: Any, kernel: Any, kernel_args: Any
) -> tuple[Dispatcher, tuple[int, int, int]]:
    """What launches the kernel, and the grid of three extents.

    Raises cuTile's TypeError for a stream, a grid, a kernel or arguments that are none, ValueError and OverflowError
    for extents out of range.
    """
    if type(stream) is not int or stream:
        _check_stream(stream)
    known, extents = _latest_grid.pair
    if grid is not known:
        extents = _grid(grid)
        _latest_grid.pair = grid, extents
    try:
        dispatcher = _dispatchers[kernel]
    except (KeyError, TypeError):  # new, or nothing that a dictionary of weak references holds
        dispatcher = _new_dispatcher(kernel)
    if not isinstance(kernel_args, tuple):
        raise TypeError(
            f"{LAUNCH_SIGNATURE} expects a tuple as the fourth argument, got {type_name(kernel_args)}"
        )
    return dispatcher, extents


@dataclass(slots=True)
class _Grid:
    """The latest grid, and its three extents: most launches of a program are given one and the same tuple.
    Both are in one pair, for launches on several threads."""

    pair: tuple[object, tuple[int, int, int]] = (object(), (1, 1, 1))


_latest_grid = _Grid()

#: Where stream objects of torch, cupy and numba keep the number of the stream.
_STREAM_ATTRIBUTES = ("cuda_stream", "ptr", "handle")


def _stream_number(stream: Any) -> int:
    """The number of a stream that has been checked."""
    if isinstance(stream, int):
        return stream
    name = next(name for name in _STREAM_ATTRIBUTES if hasattr(stream, name))
    return int(getattr(stream, name))


def _check_stream(stream: Any) -> None:
    if isinstance(stream, int):
        if stream > _MAX_ULONG:
            raise OverflowError("Python int too large to convert to C unsigned long")
        if stream < _MIN_LONG:
            raise OverflowError("Python int too large to convert to C long")
        return
    if stream is None:
        raise TypeError("Stream is required, got None")
    if not any(hasattr(stream, name) for name in _STREAM_ATTRIBUTES):
        raise TypeError(f"Unsupported stream type '{type_name(stream)}'.")


def _grid(grid: Any) -> tuple[int, int, int]:
    if not isinstance(grid, tuple):
        raise TypeError("Grid must be a tuple")
    if len(grid) > 3:
        raise ValueError(f"Grid dimensions must be at most 3, got length {len(grid)}")
    for axis, extent in enumerate(grid):
        if not isinstance(extent, int):
            raise TypeError("an integer is required")
        if extent < 0:
            raise OverflowError("can't convert negative value to unsigned int")
        if extent > _MAX_ULONG:
            raise OverflowError("Python int too large to convert to C unsigned long")
        if extent > _MAX_UINT:
            raise ValueError(f"Grid[{axis}] value too big: {extent}")
        if extent > MAX_GRID_EXTENT:
            raise ValueError(
                f"Grid[{axis}] exceeds 24-bit limit: max={MAX_GRID_EXTENT}, got={extent}. "
                f"Use multiple kernel launches for larger workloads."
            )
    x, y, z = (*map(int, grid), 1, 1, 1)[:3]
    return x, y, z


@dataclass(slots=True)
class Specialisation:
    """A kernel compiled for arguments of one kind, and loaded onto the machines it ran on.

    ``source`` is what cuTile has made of it. ``kind`` says for each parameter of the Python function what the
    kernel was compiled for, and ``constants`` has those that are constants. ``number`` counts the specialisations of the
    kernel, from 1.
    """

    source: KernelSource
    kind: Mapping[str, str]
    constants: Mapping[str, object]
    number: int
    loaded: dict[object, LoadedKernel]

    @property
    def entry(self) -> str:
        """The author's name of the kernel, by which ``module`` has it."""
        return self.source.entry

    @property
    def module(self) -> ModuleOp:
        """The verified module, with the author's names."""
        return self.source.module

    @property
    def bytecode(self) -> bytes:
        """What cuTile wrote, where the kernel is called ``symbol``."""
        return self.source.bytecode

    @property
    def symbol(self) -> str:
        """The mangled name of the kernel."""
        return self.source.symbol


class Dispatcher:
    """The launches of one kernel: reads arguments, and keeps what was compiled for their kinds."""

    def __init__(self, kernel: Any, front: FrontEnd):
        function = kernel._annotated_function
        self._kernel = weakref.ref(kernel)
        self._front = front
        self._names = tuple(function.pysig.parameters)
        self._parameters = [
            parameter(name, f"kernel argument #{number}", node, front)
            for number, (name, node) in enumerate(
                zip(function.pysig.parameters, function.parameter_annotations, strict=True)
            )
        ]
        self._compiled: dict[tuple[object, ...], Specialisation] = {}
        self._repeats = Repeats()

    @property
    def kernel(self) -> Any:
        """The kernel, which lives as long as somebody else keeps it."""
        return self._kernel()

    def launch(
        self, grid: tuple[int, int, int], kernel_args: tuple[Any, ...], settings: Settings
    ) -> None:
        """Compile the kernel for the kinds of these arguments, unless that is done, and run it on
        the machine of the settings.

        Raises RuntimeError for an empty grid, as cuTile does; KernelError where the kernel does what it must not do;
        and as ``read`` does.
        """
        if self._repeats.launch(grid, kernel_args, settings):
            return
        key, values = self.read(kernel_args)
        if settings.instead is not None and not self._stands_in(
            self.compiled(key), grid, kernel_args, values, settings
        ):
            return
        if settings.only is not None:
            found = self.compiled(key)
            settings = settings.for_kernel(found.entry, found.number)
        compiled, loaded = self._loaded(key, settings, grid, kernel_args)
        if 0 in grid:
            raise RuntimeError("Failed to launch cuTile kernel: invalid argument")
        try:
            if settings.on_launch is None:
                loaded.launch(grid, values, settings)
                if settings.only is None and settings.instead is None:
                    again = loaded.repeated
                    self._repeats.learn(grid, kernel_args, key, values, settings, again)
            else:
                _launch_and_tell(compiled, loaded, grid, values, settings)
        except TileIRError as error:
            from tilewright.cutile.errors import in_python

            raise in_python(error, compiled.module) from None

    def _stands_in(
        self,
        compiled: Specialisation,
        grid: tuple[int, int, int],
        kernel_args: tuple[Any, ...],
        values: Sequence[Value],
        settings: Settings,
    ) -> bool:
        """Tell of a launch; whether it is to run as well."""
        assert settings.instead is not None
        if 0 in grid:
            raise RuntimeError("Failed to launch cuTile kernel: invalid argument")
        if settings.on_compile is not None:
            settings.on_compile(self, compiled, grid, kernel_args)
        return settings.instead(compiled, grid, values)

    def prepare(self, kernel_args: tuple[Any, ...], settings: Settings) -> None:
        """Compile and load what a launch with such arguments needs. Raises TypeError as ``read`` does."""
        self._loaded(self.read(kernel_args)[0], settings, (1, 1, 1), kernel_args)

    def _loaded(
        self,
        key: Key,
        settings: Settings,
        grid: tuple[int, int, int],
        kernel_args: tuple[Any, ...],
    ) -> tuple[Specialisation, LoadedKernel]:
        compiled = self._compiled.get(tuple(key))
        if compiled is None:
            compiled = self.compiled(key, settings)
        loaded = compiled.loaded.get(settings.loading)
        if loaded is None:
            if settings.on_compile is not None:
                settings.on_compile(self, compiled, grid, kernel_args)
            loaded = compiled.loaded[settings.loading] = _load(compiled, settings)
        return compiled, loaded

    def read(self, kernel_args: tuple[Any, ...]) -> tuple[Key, list[Value]]:
        """The key and the values of the arguments of a launch, in the order of the parameters.

        The key says what the kernel is compiled for. Raises TypeError for another number of arguments, and TypeError,
        ValueError or OverflowError for those that cuTile refuses.
        """
        parameters = self._parameters
        if len(kernel_args) != len(parameters):
            given, wanted = len(kernel_args), len(parameters)
            raise TypeError(
                f"Kernel expects {wanted} argument{'s' if wanted != 1 else ''} but {given} "
                f"{'was' if given == 1 else 'were'} given"
            )
        key: Key = []
        values: list[Value] = []
        try:
            for parameter, value in zip(parameters, kernel_args):
                reader = parameter.readers.get(type(value)) or parameter.reader_for(value)
                reader(value, key, values)
        except (TypeError, ValueError, OverflowError) as error:
            wrong = error
        else:
            return key, values
        try:
            # cuTile looks at the types of all arguments before it looks into any.
            for parameter, value in zip(parameters, kernel_args, strict=True):
                parameter.classify(value)
            raise wrong
        finally:
            del wrong  # or the arguments would live until the garbage is collected

    def constraints(self, kernel_args: tuple[Any, ...]) -> list[object]:
        """cuTile's constraints that the kernel is compiled for, given these arguments. Raises TypeError as ``read``
        does.
        """
        return constraints_of(self.read(kernel_args)[0], self._front)

    def compiled(self, key: Key, settings: Settings | None = None) -> Specialisation:
        """The kernel for arguments of these kinds, compiled at the first call.

        Its module has been read, unless the machine of the settings for which it is compiled knows it.
        """
        frozen = tuple(key)
        found = self._compiled.get(frozen)
        if found is None:
            found = self._compiled[frozen] = self._compile(frozen, settings)
        return found

    def _compile(self, key: Sequence[object], settings: Settings | None) -> Specialisation:
        from tilewright.cutile.machines import is_known
        from tilewright.cutile.specialisation import constants_in, described, entry_parameters

        kernel = self._kernel()
        assert kernel is not None
        function = kernel._annotated_function.pyfunc
        entry, code = function.__name__, function.__code__
        bytecode, symbol = self._front.compile(kernel, constraints_of(key, self._front))
        source = KernelSource(
            bytecode,
            symbol,
            entry,
            entry_parameters(self._names, key),
            (code.co_filename, code.co_firstlineno, 1, code.co_name),
            self._front,
        )
        if settings is None or not is_known(source, settings):
            source.read()
        kind, constants = described(self._names, key), constants_in(self._names, key)
        return Specialisation(source, kind, constants, len(self._compiled) + 1, {})


_dispatchers: weakref.WeakKeyDictionary[Any, Dispatcher] = weakref.WeakKeyDictionary()


def _new_dispatcher(kernel: Any) -> Dispatcher:
    front = front_end()
    if not isinstance(kernel, front.kernel_type):
        raise TypeError(
            f"{LAUNCH_SIGNATURE} expects a tile kernel as the third argument, got {type_name(kernel)}"
        )
    return _dispatchers.setdefault(kernel, Dispatcher(kernel, front))


def _launch_and_tell(
    compiled: Specialisation,
    loaded: LoadedKernel,
    grid: tuple[int, int, int],
    values: Sequence[Value],
    settings: Settings,
) -> None:
    """Launch, and tell ``settings.on_launch``."""
    assert settings.on_launch is not None
    started = time.perf_counter()
    result = loaded.launch(grid, values, settings)
    seconds = time.perf_counter() - started
    settings.on_launch(
        Launched(
            compiled.entry,
            compiled.number,
            compiled.kind,
            settings.machine,
            grid,
            seconds,
            result,
        )
    )


def _load(compiled: Specialisation, settings: Settings) -> LoadedKernel:
    from tilewright.cutile.errors import in_python
    from tilewright.cutile.machines import load

    try:
        return load(compiled.source, settings, compiled.constants)
    except TileIRError as error:
        raise in_python(error, compiled.module) from None
