"""The interface of machines: their table, loading a module, and the backend of each.

    program = load(module, machine="cpu")
    program.launch("add", 8, (x, y, out, 1000), LaunchOptions(threads=4))

A machine is a name and a record of capabilities. Its implementation is a module with the three functions of
:class:`Backend`, imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, runtime_checkable

from tilewright.diagnostics import TileIRError, define_code
from tilewright.diagnostics.tracebacks import hides_frames
from tilewright.garbage import rare_collections
from tilewright.launching.options import (
    DEFAULT_OPTIONS,
    NVGPU,
    TILE_IR,
    LaunchOptions,
    check_options,
    options_of_kind,
    with_deprecated,
)
from tilewright.launching.sources import READABLE, ModuleSource, Readable, Source
from tilewright.nesting import deep_recursion

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from tilewright.launching.described import Given, Value
    from tilewright.launching.interfaces import KernelInterface
    from tilewright.launching.result import RunResult
    from tilewright.numerics.arrays import Array

__tracebackhide__ = hides_frames

MACHINE_NOT_AVAILABLE = define_code(
    "machine-not-available", "The machine needs a package that is not installed."
)
UNSUPPORTED_LEVEL = define_code(
    "unsupported-level",
    "The machine does not run IR of this level.",
    "Kernels of `cuda_tile` and `nv_tileaa` run on every machine; those of `nvgpu` on the simulator "
    "and on GPUs.",
)

#: The default machine of launches.
DEFAULT_MACHINE = "reference"

Grid = int | Sequence[int]


class Program(Protocol):
    """A module that is loaded onto a machine.

    Its globals live as long as the program; kernels are compiled once. Whether several threads may launch at once is
    documented per machine.
    """

    @property
    def module(self) -> Operation:
        """The module that runs."""
        ...

    def launch(
        self,
        entry: str | None = None,
        grid: Grid = (1, 1, 1),
        args: Sequence[object] = (),
        options: LaunchOptions | None = None,
    ) -> RunResult:
        """Run a kernel, by default the only one, over a grid, to completion.

        ``args``: for each pointer an array (of NumPy, torch or DLPack), updated in place, or an address; for each
        scalar a number. ``options`` override those that the program was loaded with.

        Raises ``TileIRError`` before running, with the arrays unchanged: for invalid arguments, grids, kernel names and
        options, and for unsupported operations. While running: for errors of the kernel, and for failed assertions once
        all blocks have finished.
        """
        ...

    def launch_described(
        self,
        entry: str,
        grid: tuple[int, int, int],
        values: Sequence[Value],
        options: LaunchOptions | None = None,
    ) -> object:
        """Like :meth:`launch`, for clients that have checked and described the arguments (see ``launching.described``);
        for kernels of Tile IR, with values for all parameters.

        Returns what the machine reports besides the arrays, or None.
        """
        ...

    def map_array(self, array: Array) -> int:
        """The address of an array's first element, valid as long as the program.

        For kernels that receive addresses in memory, such as tables of arrays. The array is shared, not copied.
        """
        ...

    def global_array(self, name: str) -> Array:
        """The contents of a public global: an array over its memory, with 4-bit elements packed in bytes.

        Writing to it changes what later launches read. Raises ``KeyError`` if there is none of that name.
        """
        ...


@runtime_checkable
class RepeatingProgram(Protocol):
    """A program that can make a described launch again, without a description."""

    def repeated(
        self,
        entry: str,
        grid: tuple[int, int, int],
        given: Sequence[Given],
        options: LaunchOptions | None = None,
    ) -> Callable[[tuple[Any, ...]], bool] | None:
        """For a launch that was made by ``launch_described``: a function that takes the arguments of another one, as the
        client is given them. If they differ in addresses and numbers alone, it makes the launch, else it gives False.

        None for kernels and arguments for which there is no such way.
        """
        ...


class KnownModule(Protocol):
    """A module of Tile IR that was loaded before, as far as it is known without reading it."""

    def interface(self, entry: str | None) -> KernelInterface | None:
        """The interface of the kernel of that name, for None of the only one; None if there is no such kernel."""
        ...

    def load(self, options: LaunchOptions) -> Program:
        """A program that reads the module when it needs more than what is known of it."""
        ...


class RememberingBackend(Protocol):
    """What the module of a machine has beside ``Backend`` if it ``knows_modules``."""

    def find(self, source: Source) -> KnownModule | None:
        """The module in these bytes; None if it is not known."""
        ...

    def remember(self, source: Source, program: Program) -> None:
        """Make the module of a program, which was read from these bytes without a warning, known to later processes."""
        ...


class Backend(Protocol):
    """The interface of a machine's module. ``variant`` is the part of the name after the colon."""

    def check(self, variant: str) -> None:
        """Raise ``TileIRError`` with the reason if the machine is not available."""
        ...

    def load(self, module: Operation, variant: str, options: LaunchOptions) -> Program:
        """Load a verified module. ``options`` are the defaults of its launches.

        Raises ``TileIRError`` for a module that the machine cannot run.
        """
        ...

    def get_ready(self) -> None:
        """Import and start what launches need, ahead of the first one."""
        ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of a kind of machine.

    ``kind`` is the name before the colon; ``variant`` says whether an architecture follows it. ``levels``: the dialects
    whose kernels it runs. ``needs``: requirements besides Tilewright. ``options``: the fields of :class:`LaunchOptions`
    that it supports. ``knows_modules``: it can launch kernels of a module that was loaded before without reading it.
    """

    kind: str
    summary: str
    levels: tuple[str, ...]
    needs: str
    variant: Literal["none", "optional", "required"]
    home: str
    knows_modules: bool = False

    @property
    def options(self) -> frozenset[str]:
        """The names of the supported options."""
        return options_of_kind(self.kind)

    @property
    def spelled(self) -> str:
        """The pattern of its names."""
        return {
            "none": self.kind,
            "optional": f"{self.kind}[:ARCH]",
            "required": f"{self.kind}:ARCH",
        }[self.variant]


_TILE_LEVELS = ("cuda_tile", "nv_tileaa")

#: All kinds of machines, by the name before the colon.
MACHINES: Mapping[str, Capabilities] = MappingProxyType(
    {
        each.kind: each
        for each in (
            Capabilities(
                "reference",
                "defines what a kernel means: exact, deterministic, with optional checks",
                _TILE_LEVELS,
                "nothing",
                "none",
                "tilewright.machine.backend",
            ),
            Capabilities(
                "cpu",
                "native code for this computer, on all of its cores",
                _TILE_LEVELS,
                "llvmlite",
                "none",
                "tilewright.cpu.backend",
                knows_modules=True,
            ),
            Capabilities(
                "sim",
                "the threads of a simulated GPU: finds what hangs or corrupts one, counts events, draws timelines",
                (*_TILE_LEVELS, "nvgpu"),
                "nothing",
                "required",
                "tilewright.simulator.backend",
            ),
            Capabilities(
                "cuda",
                "an NVIDIA GPU, with code that Tilewright generates",
                (*_TILE_LEVELS, "nvgpu"),
                "a GPU, its driver, llvmlite and cuda-bindings",
                "optional",
                "tilewright.gpu.backend",
            ),
        )
    }
)


*_others, _last = [each.spelled for each in MACHINES.values()]
_ALL = f"{', '.join(_others)} and {_last}"
UNKNOWN_MACHINE = define_code(
    "unknown-machine",
    "The machine is unknown.",
    f"The machines are {_ALL}. ARCH is the architecture of a GPU, such as sm_90a.",
)


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine onto which kernels can be loaded: its name and capabilities."""

    name: str
    capabilities: Capabilities
    variant: str

    def check(self) -> None:
        """Raise ``TileIRError`` with the reason if the machine is not available: an unknown architecture, no GPU."""
        self._backend.check(self.variant)

    def check_options(self, options: LaunchOptions) -> None:
        """Raise ``TileIRError`` (``unsupported-option``) for options that it does not support, naming the machines that
        do.
        """
        check_options(options, self.capabilities.kind, machine=self.name)

    def load(self, module: Operation, options: LaunchOptions = DEFAULT_OPTIONS) -> Program:
        """Load a verified module. ``options`` are the defaults of its launches.

        Raises ``TileIRError`` for options that the machine does not support at the level of the module, for a module
        that it cannot run, and where it lacks a package.
        """
        check_options(options, self.capabilities.kind, _level_of(module), self.name)
        return self._backend.load(module, self.variant, options)

    def known(self, source: Source) -> KnownModule | None:
        """The module in these bytes, where the machine keeps compiled code and knows it from before; else None."""
        return self._remembering.find(source) if self.capabilities.knows_modules else None

    def remember(self, source: Source, program: Program) -> None:
        """Let ``known`` find the module of a program; it was read from these bytes, as they are and without a
        warning."""
        if self.capabilities.knows_modules:
            self._remembering.remember(source, program)

    def load_source(
        self, source: ModuleSource, options: LaunchOptions = DEFAULT_OPTIONS
    ) -> Program:
        """Load the module in these bytes, which is read and verified unless it is ``known``.

        Raises ``TileIRError`` for invalid IR, and as ``load`` does.
        """
        known = self.known(source)
        if known is not None:
            check_options(options, self.capabilities.kind, TILE_IR, self.name)
            return known.load(options)
        module, warnings = source.read_with_warnings()
        program = self.load(module, options)
        if not warnings:
            self.remember(source, program)
        return program

    def get_ready(self) -> None:
        """Import and start what launches need, ahead of the first one. Raises ``TileIRError`` where a package is
        missing.
        """
        self._backend.get_ready()

    @property
    def _remembering(self) -> RememberingBackend:
        return cast("RememberingBackend", self._backend)

    @property
    def _backend(self) -> Backend:
        try:
            return cast("Backend", cast("Any", import_module(self.capabilities.home)))
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing in ("", "tilewright"):
                raise
            raise TileIRError.single(
                MACHINE_NOT_AVAILABLE,
                f"the machine '{self.name}' needs {missing}, which is not installed",
                help=f"pip install {missing}",
            ) from None


def machine_named(name: str) -> Machine:
    """The machine of that name. Raises ``TileIRError`` (``unknown-machine``) if there is none.

    Neither imports the machine's backend nor checks its availability; see ``Machine.check``.
    """
    kind, colon, variant = name.partition(":") if isinstance(name, str) else ("", "", "")
    found = MACHINES.get(kind)
    if found is None or not _fits(found.variant, colon, variant):
        raise TileIRError.single(
            UNKNOWN_MACHINE,
            f"there is no machine {name!r}; the machines are {_ALL}",
            help=_HELP.get(found.variant if found else "", "").format(kind),
        )
    return Machine(name, found, variant)


#: Help for an invalid name of a known kind, by the kind's variant.
_HELP = {
    "none": "'{0}' has no architectures",
    "optional": "an architecture follows the colon: '{0}:sm_90a'",
    "required": "'{0}' needs a GPU architecture after a colon: '{0}:sm_90a'",
}


def _fits(wanted: str, colon: str, variant: str) -> bool:
    """Whether the part of a name after its kind is valid for that kind."""
    if not colon:
        return wanted != "required"
    return wanted != "none" and bool(variant)


@rare_collections
@deep_recursion()
def load(
    module: Operation | Readable,
    machine: str = DEFAULT_MACHINE,
    options: LaunchOptions = DEFAULT_OPTIONS,
) -> Program:
    """Verify a module and load it onto a machine.

    ``module``: of ``cuda_tile``, ``nv_tileaa``, or, for ``sim`` and ``cuda``, of ``nvgpu``; as an operation, as the bytes of
    bytecode or text, or as the path of a file of such bytes. From bytes, a process can launch kernels on ``cpu`` that an
    earlier one has compiled without reading the module. ``machine``: one of :data:`MACHINES`, with an architecture behind
    the colon where it takes one. ``options``: the defaults of launches.

    Raises ``TileIRError`` for invalid IR, unknown or unavailable machines, and unsupported options; ``OSError`` for a file that
    cannot be read.
    """
    found = machine_named(machine)
    found.check_options(options)
    found.check()
    if isinstance(module, READABLE):
        return found.load_source(ModuleSource.of(module), options)
    from tilewright.analysis.verifier import verify

    verify(cast("Any", module))
    return found.load(module, options)


def run(
    module: Operation | Readable,
    entry: str | None = None,
    grid: Grid = (1, 1, 1),
    args: Sequence[object] = (),
    machine: str = DEFAULT_MACHINE,
    options: LaunchOptions | None = None,
    **deprecated: Any,
) -> RunResult:
    """Load a module onto a machine, run one of its kernels (by default the only one), and unload it.

    ``grid`` is the number of tile blocks along up to three axes, x first; ``args`` are updated in place. See
    :func:`load` for modules and machines, and :meth:`Program.launch` for arguments. Raises ``TileIRError`` as both
    do.
    """
    chosen = with_deprecated(options, deprecated, "run")
    return load(module, machine, chosen).launch(entry, grid, args)


def _level_of(module: Operation) -> str:
    """The IR level of a module, as options name it."""
    from tilewright.launching.modules import is_tile_ir

    return TILE_IR if is_tile_ir(module) else NVGPU


def unsupported_level(machine: str) -> TileIRError:
    """The error for a module of ``nvgpu`` on a machine that does not support it."""
    able = [each.spelled for each in MACHINES.values() if "nvgpu" in each.levels]
    return TileIRError.single(
        UNSUPPORTED_LEVEL,
        f"the machine '{machine}' runs no kernels of nvgpu; those that do are {' and '.join(able)}",
    )
