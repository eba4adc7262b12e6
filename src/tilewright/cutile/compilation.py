"""A cuTile kernel, compiled: its IR on every level, its page, and its launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilewright.cutile.launching import Dispatcher, Specialisation, checked_launch, launch_with
from tilewright.cutile.settings import current
from tilewright.garbage import rare_collections
from tilewright.nesting import deep_recursion

if TYPE_CHECKING:
    from tilewright.cutile.kernel_sources import KernelSource
    from tilewright.cutile.settings import Settings
    from tilewright.dialects.cuda_tile.ops.module import ModuleOp
    from tilewright.explain.levels import Explanation
    from tilewright.explain.stages import Stages

#: The GPU architecture whose code is shown where none is asked for.
DEFAULT_TARGET = "sm_100"


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """A kernel of cuTile compiled for arguments of one kind.

    ``kind`` says for each parameter what the kernel was compiled for. ``grid`` and ``args`` are those of the launch that it
    was compiled for.
    """

    _source: KernelSource
    kind: Mapping[str, str]
    grid: tuple[int, int, int]
    args: tuple[Any, ...]
    _kernel: Any
    _stages: dict[str, Stages] = field(default_factory=dict[str, "Stages"], repr=False)

    def __repr__(self) -> str:
        """The kernel and what it was compiled for."""
        kind = ", ".join(f"{name} {what}" for name, what in self.kind.items())
        return f"<kernel {self.name} compiled for {kind or 'no arguments'}>"

    @property
    def name(self) -> str:
        """The name of the Python function, and of the kernel in ``module``."""
        return self._source.entry

    @property
    def module(self) -> ModuleOp:
        """The verified module of ``cuda_tile``, with the author's names."""
        return self._source.module

    @property
    def bytecode(self) -> bytes:
        """What cuTile wrote, where the kernel is called ``symbol``."""
        return self._source.bytecode

    @property
    def symbol(self) -> str:
        """The mangled name of the kernel."""
        return self._source.symbol

    def is_of(self, made: Specialisation) -> bool:
        """Whether it is this specialisation of the kernel."""
        return self._source is made.source

    @property
    def levels(self) -> tuple[str, ...]:
        """The names of all levels, from ``cuda_tile`` down."""
        from tilewright.explain.stages import LEVELS

        return tuple(LEVELS)

    @property
    def location(self) -> tuple[str, int]:
        """The file and the line of the Python function."""
        code = self._kernel._annotated_function.pyfunc.__code__
        return code.co_filename, code.co_firstlineno

    def stages(self, target: str = DEFAULT_TARGET) -> Stages:
        """All levels for a GPU architecture; each is made once, when it is first asked for.

        Raises TileIRError for an architecture that there is not.
        """
        from tilewright.explain.stages import Stages, checked_target

        if target not in self._stages:
            checked_target(target)
            self._stages[target] = Stages(self.module, self.name, target)
        return self._stages[target]

    def text(self, level: str = "cuda_tile", *, target: str = DEFAULT_TARGET) -> str:
        """The text of a level (``levels`` has them all), for a GPU architecture.

        Raises TileIRError for a level or an architecture that there is not, where a tool is missing,
        and for a kernel that has no such level.
        """
        return self.stages(target).text(level)

    def ptx(self, target: str = DEFAULT_TARGET) -> str:
        """The code for NVIDIA's virtual machine: ``text("ptx")``. Raises TileIRError as ``text`` does."""
        return self.text("ptx", target=target)

    def sass(self, target: str = DEFAULT_TARGET) -> str:
        """The instructions of the GPU: ``text("sass")``. Raises TileIRError also where ptxas or nvdisasm is missing."""
        return self.text("sass", target=target)

    def explain(self, *, target: str = DEFAULT_TARGET, passes: str = "tileaa") -> Explanation:
        """All levels with the lines that stand for each other, and what the analyses find.

        ``passes`` is the pipeline that runs on ``nv_tileaa``, as text. Raises TileIRError for an architecture or a
        pipeline that there is not.
        """
        from tilewright.explain.levels import explain_kernel

        return explain_kernel(self.module, self.name, target=target, passes=passes, folded=True)

    def page(self, *, target: str = DEFAULT_TARGET) -> str:
        """The page of ``tilewright explain``, as HTML: the kernel beside its source, and all levels.

        Raises TileIRError for an architecture that there is not.
        """
        from tilewright.explain.about import About
        from tilewright.explain.page import render_page

        file, line = self.location
        return render_page(self.explain(target=target), about=About(f"{file}:{line}", self.kind))

    def launch(
        self,
        grid: tuple[int, ...] | None = None,
        args: tuple[Any, ...] | None = None,
        *,
        machine: str | None = None,
    ) -> None:
        """Run the kernel as :func:`tilewright.cutile.launch` does.

        ``grid`` and ``args`` are by default those that it was compiled with. Raises TypeError for
        arguments that cuTile would compile the kernel anew for, and what a launch raises.
        """
        chosen = self.args if args is None else args
        dispatcher, _ = checked_launch(0, grid or self.grid, self._kernel, chosen)
        if not self.is_of(dispatcher.compiled(dispatcher.read(chosen)[0])):
            raise TypeError(
                f"the kernel '{self.name}' was compiled for arguments of another kind; compile it for "
                "these"
            )
        launch_with(current(machine), 0, grid or self.grid, self._kernel, chosen)


@rare_collections
@deep_recursion()
def compile(kernel: Any, args: tuple[Any, ...], grid: tuple[int, ...] = (1, 1, 1)) -> Compiled:
    """A cuTile kernel compiled for arguments of this kind, as a launch would; nothing runs.

    ``args`` are those of ``cuda.tile.launch``; only their kinds count, but for constants. What cuTile
    refuses is refused with its own exceptions, TypeError for what is no kernel or no arguments. Raises
    :class:`~tilewright.cutile.RefusedError` for code that is not Tile IR, and
    :class:`~tilewright.cutile.FrontEndError` where cuTile cannot be used.
    """
    dispatcher, extents = checked_launch(0, grid, kernel, args)
    return of_specialisation(
        dispatcher, dispatcher.compiled(dispatcher.read(args)[0]), extents, args
    )


def of_specialisation(
    dispatcher: Dispatcher,
    made: Specialisation,
    grid: tuple[int, int, int],
    args: tuple[Any, ...],
) -> Compiled:
    """What users see of a kernel that was compiled for such arguments."""
    return Compiled(made.source, made.kind, grid, args, dispatcher.kernel)


@dataclass(slots=True)
class ProgramRun:
    """What a program has compiled, in order, and how it ended.

    ``status`` is the exit status; ``error`` what it ended with, if that was an exception.
    """

    kernels: list[Compiled] = field(default_factory=list[Compiled])
    status: int = 0
    error: BaseException | None = None


def compile_program(
    path: str,
    arguments: Sequence[str],
    settings: Settings,
    *,
    torch_cuda: bool = True,
    stdout: Any = None,
    told: Callable[[Compiled], object] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> ProgramRun:
    """Run a cuTile program, with its launches, and keep each kernel that it compiles.

    ``settings`` say on which machine. What the program prints goes to ``stdout`` where that is given.
    ``told`` gets each kernel as soon as it is compiled. ``constants`` are those of :func:`run_program`.
    """
    from contextlib import nullcontext
    from dataclasses import replace

    from tilewright.cutile.program import hosting, run_program

    run = ProgramRun()

    def keep(
        dispatcher: Dispatcher,
        made: Specialisation,
        grid: tuple[int, int, int],
        args: tuple[Any, ...],
    ) -> None:
        if not any(known.is_of(made) for known in run.kernels):
            run.kernels.append(of_specialisation(dispatcher, made, grid, args))
            if told is not None:
                told(run.kernels[-1])

    def end(error: BaseException) -> None:
        run.error = error

    with (
        # The first kernel is told before anything of the machine is imported: others may begin with it.
        hosting(replace(settings, on_compile=keep), torch_cuda=torch_cuda, ready=False),
        nullcontext() if stdout is None else redirect_stdout(stdout),
    ):
        run.status = run_program(path, arguments, show=end, constants=constants)
    return run
