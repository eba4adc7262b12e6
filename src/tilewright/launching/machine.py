"""The interface of all machines: what a machine is, what it makes of a module, and where each lives.

    program = load(module, machine="cpu")
    program.launch("add", 8, (x, y, out, 1000), LaunchOptions(threads=4))

A machine is a name and capabilities, which are data; the code behind it is a module with the three
functions of :class:`Backend`, imported when the machine is first used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

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
from tilewright.nesting import deep_recursion

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from tilewright.launching.described import Value
    from tilewright.launching.result import RunResult
    from tilewright.numerics.arrays import Array

__tracebackhide__ = hides_frames

UNKNOWN_MACHINE = define_code(
    "unknown-machine",
    "There is no machine of that name.",
    "The machines are `reference`, `cpu`, `sim:ARCH` with the architecture of a GPU, such as "
    "`sim:sm_90a`, and `cuda`.",
)
MACHINE_NOT_AVAILABLE = define_code(
    "machine-not-available", "The machine needs a package that is not installed."
)
UNSUPPORTED_LEVEL = define_code(
    "unsupported-level",
    "The machine does not run IR of this level.",
    "Kernels of `cuda_tile` and `nv_tileaa` run on every machine; those of `nvgpu` on the simulator "
    "and on GPUs.",
)

#: The machine that launches use unless told otherwise.
DEFAULT_MACHINE = "reference"

Grid = int | Sequence[int]


class Program(Protocol):
    """A module that is loaded onto a machine.

    Its globals live as long as it does; what a kernel needs to run is made once. The machine's own
    page says whether several threads may launch at once.
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
        """Run a kernel, the only one by default, over a grid, to its end.

        ``args``: for each pointer an array (of NumPy, torch, or whatever speaks DLPack), which is
        updated in place, or an address; a number for each scalar. ``options``: what they leave at its
        default is as the program was loaded with.

        A TileIRError before anything runs, with arrays as they were: bad arguments, grid or kernel
        name, options that the machine lacks, and operations that it does not run. While running:
        whatever the kernel must not do, and failed assertions, once all blocks have run.
        """
        ...

    def launch_described(
        self,
        entry: str,
        grid: tuple[int, int, int],
        values: Sequence[Value],
        options: LaunchOptions | None = None,
    ) -> object:
        """:meth:`launch`, for clients that have checked and described the arguments themselves (see
        ``launching.described``): kernels of Tile IR, with values for all of their parameters. Gives what
        the machine knows of the run beside the arrays; None where that is nothing."""
        ...

    def map_array(self, array: Array) -> int:
        """The address of an array's first element, valid as long as the program.

        For kernels that get addresses inside other arrays, such as tables of arrays.
        """
        ...

    def global_array(self, name: str) -> Array:
        """The contents of a public global: an array over its memory, 4-bit elements packed in bytes.

        A KeyError where there is none of that name.
        """
        ...


class Backend(Protocol):
    """What the module of a machine has. ``variant`` is what follows the colon in the name."""

    def check(self, variant: str) -> None:
        """A TileIRError that says why, unless the machine is there."""
        ...

    def load(self, module: Operation, variant: str, options: LaunchOptions) -> Program:
        """A module that has passed the verifier, loaded; ``options`` are those of its launches."""
        ...

    def get_ready(self) -> None:
        """Import and start what launches need, so that the first one does not have to."""
        ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a kind of machine can do.

    ``kind`` is the name without what follows the colon; ``variant`` tells whether an architecture
    follows. ``levels`` are the dialects whose kernels it runs, ``needs`` what must be installed beside
    Tilewright, and ``options`` the fields of :class:`LaunchOptions` that it knows.
    """

    kind: str
    summary: str
    levels: tuple[str, ...]
    needs: str
    variant: Literal["none", "optional", "required"]
    home: str

    @property
    def options(self) -> frozenset[str]:
        """The names of the options that the machine knows."""
        return options_of_kind(self.kind)

    @property
    def spelled(self) -> str:
        """The names that it is called by."""
        return {
            "none": self.kind,
            "optional": f"{self.kind}[:ARCH]",
            "required": f"{self.kind}:ARCH",
        }[self.variant]


_TILE_LEVELS = ("cuda_tile", "nv_tileaa")

#: All kinds of machines, by the first part of their names.
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


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine that kernels can be loaded onto: its name, and what it can do."""

    name: str
    capabilities: Capabilities
    variant: str

    def check(self) -> None:
        """A TileIRError that says why, unless the machine is there: an unknown architecture, no GPU."""
        self._backend.check(self.variant)

    def check_options(self, options: LaunchOptions) -> None:
        """A TileIRError that names the options that it does not know, and the machines that do."""
        check_options(options, self.capabilities.kind, machine=self.name)

    def load(self, module: Operation, options: LaunchOptions = DEFAULT_OPTIONS) -> Program:
        """A module that has passed the verifier, loaded. ``options`` are those that its launches use
        unless they are given others."""
        check_options(options, self.capabilities.kind, _level_of(module), self.name)
        return self._backend.load(module, self.variant, options)

    def get_ready(self) -> None:
        """Import and start what launches need, so that the first one does not have to."""
        self._backend.get_ready()

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
    """The machine of that name; a TileIRError (``unknown-machine``) where there is none.

    Nothing of the machine is imported yet, and whether it can be used here is not asked:
    ``Machine.check`` does that.
    """
    kind, colon, variant = name.partition(":") if isinstance(name, str) else ("", "", "")
    found = MACHINES.get(kind)
    if found is None or not _fits(found.variant, colon, variant):
        *others, last = [each.spelled for each in MACHINES.values()]
        raise TileIRError.single(
            UNKNOWN_MACHINE,
            f"there is no machine {name!r}; the machines are {', '.join(others)} and {last}",
            help=_HELP.get(found.variant if found else "", "").format(kind),
        )
    return Machine(name, found, variant)


#: What is said of a name whose kind is known, by what follows that kind.
_HELP = {
    "none": "'{0}' has no architectures",
    "optional": "an architecture follows the colon: '{0}:sm_90a'",
    "required": "'{0}' needs the architecture of a GPU behind a colon: '{0}:sm_90a'",
}


def _fits(wanted: str, colon: str, variant: str) -> bool:
    """Whether what follows the kind of a machine is what its name needs."""
    if not colon:
        return wanted != "required"
    return wanted != "none" and bool(variant)


@rare_collections
@deep_recursion()
def load(
    module: Operation,
    machine: str = DEFAULT_MACHINE,
    options: LaunchOptions = DEFAULT_OPTIONS,
) -> Program:
    """A module on a machine, ready for launches.

    ``module``: of ``cuda_tile``, ``nv_tileaa`` or, on machines that have threads, of ``nvgpu``. It is
    verified. ``machine``: ``reference``, ``cpu``, ``sim:ARCH``, ``cuda`` or ``cuda:ARCH``. ``options``:
    what launches use unless they give others.

    A TileIRError for IR that is not valid, a machine that there is not, and options that it lacks.
    """
    from tilewright.analysis.verifier import verify

    found = machine_named(machine)
    found.check_options(options)
    found.check()
    verify(cast("Any", module))
    return found.load(module, options)


def run(
    module: Operation,
    entry: str | None = None,
    grid: Grid = (1, 1, 1),
    args: Sequence[object] = (),
    machine: str = DEFAULT_MACHINE,
    options: LaunchOptions | None = None,
    **deprecated: Any,
) -> RunResult:
    """Load a module onto a machine, run one of its kernels (the only one by default), and unload it.

    See :func:`load` for modules and machines, and :meth:`Program.launch` for arguments and errors.
    """
    chosen = with_deprecated(options, deprecated, "run")
    return load(module, machine, chosen).launch(entry, grid, args)


def _level_of(module: Operation) -> str:
    """The level of IR of a module, as options know it."""
    from tilewright.launching.modules import is_tile_ir

    return TILE_IR if is_tile_ir(module) else NVGPU


def unsupported_level(machine: str) -> TileIRError:
    """The error for a module of threads on a machine that has none."""
    able = [each.spelled for each in MACHINES.values() if "nvgpu" in each.levels]
    return TileIRError.single(
        UNSUPPORTED_LEVEL,
        f"the machine '{machine}' runs no kernels of nvgpu; those that do are {' and '.join(able)}",
    )
