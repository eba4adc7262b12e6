"""Translates a kernel into functions over register slots, once for all tile blocks.

Every SSA value gets a slot. An operation becomes a *step*: a function of the registers, with its types, shapes,
attributes and slots already resolved. Constants become preset registers and need no step. A block of operations
becomes one function that runs its steps (see ``fused_block``); a step that ends the block early returns a signal,
which enclosing blocks pass on to the loop or kernel it is for.

Tile blocks may have to wait for one another. Operations after which another block may run are ``SwitchPoint`` steps. A
region that contains one runs as a generator that yields there; other regions run as plain functions.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, ItemsView, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects.backends import Table
from tilewright.launching.codes import UNSUPPORTED
from tilewright.launching.value_types import pointee_of as pointee_of
from tilewright.launching.value_types import tile_like
from tilewright.launching.value_types import tile_type as tile_type
from tilewright.machine.faults import Fault
from tilewright.machine.fused_blocks import Signal, Step, called, fused_block
from tilewright.machine.state import Machine
from tilewright.machine.values import ARENA, Registers
from tilewright.numerics.arithmetic import REFERENCE, Arithmetic

BREAK, CONTINUE, RETURN = 1, 2, 3
"""Signals. A block that ends in a yield returns None."""

Coroutine = Generator["Operation", None, Signal]
"""Yields the operation of each switch point, after executing it."""


# A nesting level takes several Python frames, here and in the run.
_MAX_DEPTH = 210
# NumPy allows 64, of which the sanitizer's checks and some operations use a few.
_MAX_RANK = 60


@dataclass(frozen=True, slots=True)
class SwitchPoint:
    """A step after which another tile block may run."""

    step: Step


@dataclass(frozen=True, slots=True)
class Nested:
    """A step that contains switch points."""

    start: Callable[[Registers], Coroutine]


Implementation = Callable[[Any, "Translator"], "Step | SwitchPoint | Nested | None"]

IMPLEMENTATIONS: Table[Implementation] = Table("the reference machine", by_class=True)
"""The translation of each operation."""
REFUSED: dict[type[Operation], str] = IMPLEMENTATIONS.refused
"""Operations that the machine does not run, with the reason."""
implements = IMPLEMENTATIONS.rule


@dataclass(slots=True)
class CompiledBlock:
    """The steps of a block. ``run`` executes them; if ``suspends``, ``start`` must be used instead."""

    run: Callable[[Registers], Signal]
    start: Callable[[Registers], Coroutine]
    suspends: bool


@dataclass(slots=True)
class Scope:
    """The slots that the terminators inside a region write."""

    results: tuple[int, ...] = ()
    carried: tuple[int, ...] = ()


@dataclass(slots=True)
class Translator:
    """Translates one kernel. Afterwards ``registers`` is the initial state of every tile block.

    ``is_observed``: an observer looks at each operation as it runs.
    """

    is_observed: ClassVar[bool] = False
    machine: Machine
    global_addresses: dict[str, int]
    arithmetic: Arithmetic = REFERENCE
    registers: Registers = field(default_factory=lambda: [None])
    loops: list[Scope] = field(default_factory=list[Scope])
    yields: list[Scope] = field(default_factory=list[Scope])
    grid_slots: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    block_slots: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    agents: int | None = None
    """The slot of a tile block's agents, in kernels that start any."""
    waits: dict[Operation, list[Nested]] = field(default_factory=dict["Operation", list[Nested]])
    """Steps to run before an operation that is not translated yet."""
    functions: dict[str, Any] = field(default_factory=dict[str, Any])
    """The functions that the kernel calls, as far as they have been translated."""
    block_state: dict[str, int] = field(default_factory=dict[str, int])
    """Slots of per-block state other than values, by name; empty when a block begins."""
    _slots: dict[SSAValue, int] = field(default_factory=dict["SSAValue", int])
    _has_alloca: bool = False
    _depth: int = 0

    def for_function(self) -> Self:
        """Return a translator like this one for a function with its own registers."""
        return replace(
            self,
            registers=[None],
            loops=[],
            yields=[],
            grid_slots=[],
            block_slots=[],
            waits={},
            block_state={},
            _slots={},
            _has_alloca=False,
        )

    def slot(self, value: SSAValue) -> int:
        """Return the slot of a value, the same on every call."""
        found = self._slots.get(value)
        if found is None:
            found = self._slots[value] = self.new_slot()
        return found

    def slots(self, values: Any) -> tuple[int, ...]:
        """Return the slots of values, in order."""
        return tuple(self.slot(value) for value in values)

    def value_slots(self) -> ItemsView[SSAValue, int]:
        """All values that have a slot, with their slots."""
        return self._slots.items()

    def flow(self, values: Any) -> tuple[int, ...]:
        """Return the slots to copy when values flow between regions. A checking translator adds its own."""
        return self.slots(values)

    def state_slot(self, name: str) -> int:
        """Return the slot of per-block state by name, the same on every call."""
        found = self.block_state.get(name)
        if found is None:
            found = self.block_state[name] = self.new_slot()
        return found

    def new_slot(self) -> int:
        """Return a slot that belongs to no value. It holds None when a tile block begins."""
        self.registers.append(None)
        return len(self.registers) - 1

    def optional(self, value: SSAValue | None) -> int | None:
        """Return the slot of an optional operand, or None if it is absent."""
        return None if value is None else self.slot(value)

    def preset(self, value: SSAValue, content: object) -> None:
        """Set a value that is the same in every tile block."""
        self.registers[self.slot(value)] = content

    def is_preset(self, value: SSAValue) -> bool:
        """Whether a value is the same in every tile block and known before any runs."""
        return self.registers[self.slot(value)] is not None

    @contextmanager
    def renamed(self, slots: Mapping[SSAValue, int]) -> Generator[None]:
        """Context manager under which these values live in other slots."""
        outer = {value: self.slot(value) for value in slots}
        self._slots.update(slots)
        yield
        self._slots.update(outer)

    def note_alloca(self) -> None:
        """Record that the block being translated allocates memory, which is freed when it ends."""
        self._has_alloca = True

    def block(self, block: Block) -> CompiledBlock:
        """Translate a block and everything nested in it. Raises ``Fault`` for operations that the machine does not
        run, and for regions nested too deep.
        """
        if self._depth == _MAX_DEPTH:
            raise self.refusal(block.parent_op(), f"regions are nested more than {_MAX_DEPTH} deep")
        self._depth += 1
        outer, self._has_alloca = self._has_alloca, False
        steps: list[Step | SwitchPoint | Nested] = []
        ops: list[Operation] = []
        for op in block.ops:
            for wait in self.waits.pop(op, ()):
                steps.append(wait)
                ops.append(op)
            step = self.operation(op)
            if step is not None:
                steps.append(step)
                ops.append(op)
        plain = [step for step in steps if not isinstance(step, SwitchPoint | Nested)]
        if len(plain) < len(steps):
            run, start, suspends = _no_plain_run, _coroutine(steps, ops), True
        else:
            run, start, suspends = fused_block(plain, ops), _no_coroutine, False
        if self._has_alloca:
            if suspends:
                start = self._freeing_coroutine(start)
            else:
                run = self._freeing(run)
        self._has_alloca = outer
        self._depth -= 1
        return CompiledBlock(run, start, suspends)

    def operation(self, op: Operation) -> Step | SwitchPoint | Nested | None:
        """Return the step of an operation, or None if all its results are preset.

        Raises :class:`Fault` for an operation that the table refuses or lacks, and for a result with
        more dimensions than NumPy and the surrounding checks support.
        """
        implementation = IMPLEMENTATIONS.rule_of(op)
        if implementation is None:
            reason = IMPLEMENTATIONS.reason(op, "the machine knows no such operation at this level")
            raise self.refusal(op, f"'{op.name}' cannot be run: {reason}")
        for result in op.results:
            tile = tile_like(result.type)
            if tile is not None and tile.rank > _MAX_RANK:
                raise self.refusal(
                    op,
                    f"'{op.name}' makes a tile of rank {tile.rank}; the machine goes up to {_MAX_RANK}",
                )
        return implementation(op, self)

    @staticmethod
    def refusal(op: Operation | None, message: str) -> Fault:
        """Return the fault ``unsupported`` at an operation."""
        fault = Fault(UNSUPPORTED, message)
        fault.op = op
        return fault

    def _freeing(self, run: Callable[[Registers], Signal]) -> Callable[[Registers], Signal]:
        memory = self.machine.memory

        def run_and_free(regs: Registers) -> Signal:
            arena = regs[ARENA]
            count = len(arena)
            signal = run(regs)
            while len(arena) > count:
                memory.free(arena.pop())
            return signal

        return run_and_free

    def _freeing_coroutine(
        self, start: Callable[[Registers], Coroutine]
    ) -> Callable[[Registers], Coroutine]:
        memory = self.machine.memory

        def start_and_free(regs: Registers) -> Coroutine:
            arena = regs[ARENA]
            count = len(arena)
            signal = yield from start(regs)
            while len(arena) > count:
                memory.free(arena.pop())
            return signal

        return start_and_free


def _no_plain_run(regs: Registers) -> Signal:
    raise AssertionError("a block with switch points runs as a coroutine")


def _no_coroutine(regs: Registers) -> Coroutine:
    raise AssertionError("a block without switch points runs as a function")


def _coroutine(
    steps: list[Step | SwitchPoint | Nested], ops: list[Operation]
) -> Callable[[Registers], Coroutine]:
    """Like ``fused_block``, but yields at switch points."""
    sequence: list[tuple[Callable[[Registers], Any], bool, Operation, Operation | None]] = []
    plain: list[tuple[Step, Operation]] = []

    def end_plain() -> None:
        if plain:
            function = fused_block([step for step, _ in plain], [op for _, op in plain])
            sequence.append((function, False, plain[-1][1], None))
            plain.clear()

    for step, op in zip(steps, ops, strict=True):
        if isinstance(step, Nested):
            end_plain()
            sequence.append((step.start, True, op, None))
        elif isinstance(step, SwitchPoint):
            end_plain()
            sequence.append((called(step.step), False, op, op))
        else:
            plain.append((step, op))
    end_plain()

    def start(regs: Registers) -> Coroutine:
        op: Operation | None = None
        try:
            for function, nested, at, switch in sequence:
                op = at
                if nested:
                    nest: Coroutine = function(regs)
                    signal = yield from nest
                else:
                    signal = function(regs)
                    if switch is not None:
                        yield switch
                if signal is not None:
                    return signal
        except Fault as fault:
            if fault.op is None:
                fault.op = op
            raise
        return None

    return start
