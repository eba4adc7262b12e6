"""Runs a kernel with breakpoints and a trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.diagnostics import TileIRError
from tilewright.dialects.cuda_tile.ops.module import EntryOp
from tilewright.dialects.cuda_tile.ops.reductions import ReduceOrScan
from tilewright.launching.modules import cuda_kernel_of
from tilewright.launching.options import (
    BAD_RUN_OPTION,
    LaunchOptions,
    check_options,
    with_deprecated,
)
from tilewright.machine.compile import Nested, Step, SwitchPoint, Translator
from tilewright.machine.find_nan import NanFinder
from tilewright.machine.grid import BlockId
from tilewright.machine.hooks import Hook, surround
from tilewright.machine.inspect.breakpoints import (
    Breakpoint,
    block_filter,
    names_for,
    resolve,
)
from tilewright.machine.inspect.stops import (
    Stop,
    StopRun,
    Value,
    When,
    look_at,
    named_values,
    visible_tiles,
)
from tilewright.machine.inspect.trace import Recorder, Trace
from tilewright.machine.launch import Given, Program, RunResult, given_arguments
from tilewright.machine.values import Registers
from tilewright.numerics.arithmetic import Arithmetic


class Observer(Protocol):
    """Places hooks around the operations it observes."""

    def hook(self, op: Operation, t: Translator, when: When) -> Hook | None:
        """Return the hook to run before or after (``when``) the operation; None for no hook.

        Called once for each operation and side, when the kernel is translated.
        """


@dataclass(slots=True)
class InspectingTranslator(Translator):
    """Translates a kernel with the hooks of observers, except in the bodies of reductions and scans."""

    is_observed: ClassVar[bool] = True
    observers: tuple[Observer, ...] = ()
    _folds: int = 0

    def operation(self, op: Operation) -> Step | SwitchPoint | Nested | None:
        fold = isinstance(op, ReduceOrScan)
        self._folds += fold
        step = Translator.operation(self, op)
        self._folds -= fold
        if self._folds:
            return step
        return surround(op, step, self._hooks(op, "before"), self._hooks(op, "after"))

    def _hooks(self, op: Operation, when: When) -> tuple[Hook, ...]:
        return tuple(hook for o in self.observers if (hook := o.hook(op, self, when)) is not None)


@dataclass(slots=True)
class _Stopper:
    """A breakpoint in a launch."""

    breakpoint: Breakpoint
    operations: frozenset[Operation]
    is_wanted: Callable[[BlockId], bool]
    names: Mapping[int, str]
    hits: int = 0
    last: Stop | None = None
    has_ended: bool = False
    """Whether the action has ended the run."""

    def hook(self, op: Operation, t: Translator, when: When) -> Hook | None:
        if op not in self.operations or when != self.breakpoint.when:
            return None
        operands = named_values(tuple(op.operands), self.names)
        results = named_values(tuple(op.results), self.names) if when == "after" else {}
        types = {name: value.type for name, value in {**operands, **results}.items()}
        slots = _slots(operands, t), _slots(results, t), _slots(visible_tiles(op), t)
        machine = t.machine

        def hook(regs: Registers) -> None:
            if self.is_wanted(machine.block):
                self._hit(op, machine.block, regs, slots, types)

        return hook

    def _hit(
        self,
        op: Operation,
        block: BlockId,
        regs: Registers,
        slots: tuple[dict[str, int], dict[str, int], dict[str, int]],
        types: Mapping[str, Attribute],
    ) -> None:
        given = self.breakpoint
        self.hits += 1
        if self.hits <= given.skip:
            return
        if given.limit is not None and self.hits > given.skip + given.limit:
            return
        operands, results, variables = (_read(some, regs) for some in slots)
        self.last = Stop(op, block, given.when, self.hits, operands, results, types, variables)
        try:
            given.action(self.last)
        except StopRun:
            self.has_ended = True
            raise


def stopper(given: object, kernel: EntryOp, grid: BlockId, names: Mapping[int, str]) -> _Stopper:
    """Return the stopper for a breakpoint in a launch. Raises TileIRError if its target does not exist."""
    if not isinstance(given, Breakpoint):
        message = f"lines are breakpoints in cuTile programs only, not in launches of modules: {given!r:.60}"
        raise TileIRError.single(BAD_RUN_OPTION, message, help="Breakpoint stops at operations")
    return _Stopper(
        given, resolve(given.target, kernel, names), block_filter(given.block, grid), names
    )


def _slots(values: Mapping[str, SSAValue], t: Translator) -> dict[str, int]:
    return {name: t.slot(value) for name, value in values.items()}


def _read(slots: Mapping[str, int], regs: Registers) -> dict[str, Value]:
    values = {name: look_at(regs[slot]) for name, slot in slots.items()}
    return {name: value for name, value in values.items() if value is not None}


class InspectingProgram(Program):
    """A program whose kernels are translated for observers."""

    def __init__(self, module: Operation, arithmetic: Arithmetic):
        super().__init__(module, LaunchOptions(arithmetic=arithmetic))
        self.observers: tuple[Observer, ...] = ()
        # A breakpoint's action may modify an array.
        self._machine.memo.is_off = True

    def _translator(self, global_addresses: dict[str, int]) -> Translator:
        return InspectingTranslator(
            self._machine, global_addresses, self.arithmetic, observers=self.observers
        )


@dataclass(frozen=True, slots=True)
class InspectedRun:
    """How a run with breakpoints ended.

    ``result`` is None if ``StopRun`` ended it, at the stop ``stopped_at``. ``hits`` counts for each
    breakpoint the executions that matched, including those skipped.
    """

    result: RunResult | None
    hits: tuple[int, ...] = ()
    stopped_at: Stop | None = None


def run_with(
    module: Operation,
    entry: str | None = None,
    grid: int | Sequence[int] = (1, 1, 1),
    args: Sequence[object] = (),
    options: LaunchOptions | None = None,
    *,
    loaded: Program | None = None,
    **deprecated: Any,
) -> InspectedRun:
    """Run a kernel, stopping at breakpoints (in order, if several match) and recording a trace.

    ``options.breakpoints`` and ``options.trace`` say what is wanted. ``loaded`` is a program of the
    module whose globals and mapped arrays are used. Errors are those of any launch. Also raises
    TileIRError if a breakpoint or the trace names something that the kernel or the grid does not
    have, and ``NanError`` for the findings of ``options.find_nan``. Exceptions of an action propagate
    unchanged. The trace keeps what it has recorded however the run ends.
    """
    chosen = with_deprecated(options, deprecated, "run_with")
    check_options(chosen, "reference")
    kernel = cuda_kernel_of(module, entry, "a run that looks at operations")
    given = given_arguments(kernel, grid, args, chosen.allow_overlap)
    return inspect_given(given, chosen, loaded or Program(module))


def inspect_given(given: Given, options: LaunchOptions, loaded: Program) -> InspectedRun:
    """:func:`run_with` with checked arguments.

    Raises TileIRError for a trace that is none, and as ``run_with`` does.
    """
    kernel = cuda_kernel_of(loaded.module, given.kernel.symbol, "a run that looks at operations")
    trace: object = options.trace
    if trace is not None and not isinstance(trace, Trace):
        message = f"a launch of a module records a Trace, not {trace!r:.60}"
        raise TileIRError.single(BAD_RUN_OPTION, message)
    program = InspectingProgram(loaded.module, options.arithmetic)
    program.share_memory_of(loaded)
    names = names_for(program.module, kernel)
    stoppers = tuple(stopper(each, kernel, given.grid, names) for each in options.breakpoints)
    observers: list[Observer] = [*stoppers]
    if trace is not None:
        recorder = Recorder(trace, kernel, given.grid, options.seed, names, given.names)
        observers.insert(0, recorder)
    finder = NanFinder(names, given.names) if options.find_nan else None
    if finder is not None:
        observers.append(finder)
    program.observers = tuple(observers)
    try:
        with nullcontext() if finder is None else finder.raising():
            result = program.start(given, options)
    except StopRun:
        stopped = next(s.last for s in stoppers if s.has_ended)
        return InspectedRun(None, tuple(s.hits for s in stoppers), stopped)
    return InspectedRun(result, tuple(s.hits for s in stoppers))
