"""Translation of a kernel into closures over the registers of a warp, once for all warps.

Every SSA value gets a slot in ``warp.regs``. An operation becomes a step, a function of the warp
with its types, attributes and slots resolved; constants become preset registers. Operations at
which a warp may have to wait are ``Suspending`` steps, generators that yield what they wait for;
so are operations with regions. Everything else is a plain function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from tilewright.simulator import codes
from tilewright.simulator.architectures import Architecture, requirement_of
from tilewright.simulator.findings import Fault
from tilewright.simulator.shared_layout import SharedLayout
from tilewright.simulator.state import Block, Coroutine, Warp

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Block as IRBlock
    from xdsl.ir import Operation, SSAValue

Step = Callable[[Warp], None]
_MAX_DEPTH = 150


@dataclass(frozen=True, slots=True)
class Suspending:
    """A step that may wait."""

    start: Callable[[Warp], Coroutine]


Translation = Step | Suspending | None
Implementation = Callable[[Any, "Translator"], Translation]

#: How each operation is translated, by its name.
IMPLEMENTATIONS: dict[str, Implementation] = {}
#: What ends a block; the operation around it handles these.
TERMINATORS = frozenset(
    {
        "scf.yield",
        "scf.condition",
        "cf.br",
        "cf.cond_br",
        "cf.switch",
        "gpu.return",
        "func.return",
    }
)

_F = TypeVar("_F", bound=Implementation)


def implements(*names: str) -> Callable[[_F], _F]:
    """Enter a translation function into the table."""

    def enter(function: _F) -> _F:
        for name in names:
            assert name not in IMPLEMENTATIONS, name
            IMPLEMENTATIONS[name] = function
        return function

    return enter


@dataclass(slots=True)
class Code:
    """The steps of a block, without what ends it."""

    run: Step
    start: Callable[[Warp], Coroutine]
    suspends: bool
    end: Operation | None


@dataclass(slots=True)
class Translator:
    """Translates one kernel; afterwards ``registers`` are the initial ones of every warp."""

    module: ModuleOp
    arch: Architecture
    shared: SharedLayout
    numerics: str = "tensor-core"
    registers: list[Any] = field(default_factory=list)
    block_values: list[tuple[int, Callable[[Block], Any]]] = field(default_factory=list)
    """Slots whose values each block of threads makes."""
    barrier_groups: list[tuple[Operation, int]] = field(default_factory=list)
    """The barriers that each block has: who makes them, and how many."""
    global_values: dict[str, Any] = field(default_factory=dict)
    calls: list[Any] = field(default_factory=list)
    _slots: dict[SSAValue, int] = field(default_factory=dict)
    _depth: int = 0

    def slot(self, value: SSAValue) -> int:
        """The slot of a value, the same on every call."""
        found = self._slots.get(value)
        if found is None:
            found = self._slots[value] = self.new_slot()
        return found

    def slots(self, values: Sequence[SSAValue]) -> tuple[int, ...]:
        return tuple(self.slot(value) for value in values)

    def new_slot(self) -> int:
        self.registers.append(None)
        return len(self.registers) - 1

    def preset(self, value: SSAValue, content: object) -> None:
        """Give a value that is the same in every warp."""
        self.registers[self.slot(value)] = content

    def forget(self, values: Sequence[SSAValue]) -> None:
        """Give values new slots, for another copy of the operations that make them."""
        for value in values:
            self._slots.pop(value, None)

    def each_block(self, value: SSAValue, make: Callable[[Block], Any]) -> None:
        """Give a value that each block of threads makes when it begins."""
        self.block_values.append((self.slot(value), make))

    def block(self, block: IRBlock) -> Code:
        """Translate a block with all that is nested in it."""
        if self._depth == _MAX_DEPTH:
            raise Fault(
                codes.UNSUPPORTED,
                f"regions and calls are nested more than {_MAX_DEPTH} deep",
                block.parent_op(),
            )
        self._depth += 1
        steps: list[Any] = []
        end: Operation | None = None
        for op in block.ops:
            if op.name in TERMINATORS:
                end = op
                break
            if (step := self.operation(op)) is not None:
                steps.append(step)
        self._depth -= 1
        if any(isinstance(step, Suspending) for step in steps):
            return Code(_no_run, _coroutine(steps), True, end)
        return Code(_runner(steps), _no_coroutine, False, end)

    def operation(self, op: Operation) -> Translation:
        requirement = requirement_of(op)
        if requirement is not None and not self.arch.has(requirement):
            raise Fault(
                codes.ARCHITECTURE,
                f"'{op.name}' does not exist on {self.arch}; {requirement.where}",
                op,
            )
        implementation = IMPLEMENTATIONS.get(op.name)
        if implementation is None:
            raise Fault(codes.UNSUPPORTED, f"the simulator does not run '{op.name}'", op)
        try:
            return implementation(op, self)
        except Fault as fault:
            fault.op = fault.op or op
            raise


def _no_run(warp: Warp) -> None:
    raise AssertionError("a block that may wait runs as a coroutine")


def _no_coroutine(warp: Warp) -> Coroutine:
    raise AssertionError("a block that never waits runs as a function")


def _runner(steps: list[Step]) -> Step:
    sequence, count = tuple(steps), float(len(steps))

    def run(warp: Warp) -> None:
        warp.time += count
        for step in sequence:
            step(warp)

    return run


def _coroutine(steps: list[Any]) -> Callable[[Warp], Coroutine]:
    sequence = tuple(
        (step.start, True) if isinstance(step, Suspending) else (step, False) for step in steps
    )
    count = float(len(steps))

    def start(warp: Warp) -> Coroutine:
        warp.time += count
        for step, may_wait in sequence:
            if may_wait:
                yield from step(warp)
            else:
                step(warp)

    return start
