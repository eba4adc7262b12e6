"""Translates a kernel into closures over the registers of a warp, once for all warps.

Every SSA value gets a slot in ``warp.regs``. An operation becomes a step, a function of the warp with its types,
attributes and slots resolved; constants become preset registers. Operations at which a warp may have to wait are
``Suspending`` steps, generators that yield what they wait for; so are operations whose regions contain such a step.
Everything else is a plain function. For groups of warps each step has a second function, see ``groups``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block as IRBlock
from xdsl.ir import Operation, SSAValue

from tilewright.analysis.preorder import operations
from tilewright.dialects.backends import Table
from tilewright.simulator import codes
from tilewright.simulator.architectures import Architecture, requirement_of
from tilewright.simulator.atomics import is_atomic, takes_locks
from tilewright.simulator.faults import Fault, OneByOne
from tilewright.simulator.groups import one_by_one
from tilewright.simulator.pending import settling, takes_pending
from tilewright.simulator.shared_layout import SharedLayout
from tilewright.simulator.state import FALL_APART, WARP_SIZE, Block, Coroutine, GiveWay, Warp

Step = Callable[[Warp], None]
_MAX_DEPTH = 150


@dataclass(frozen=True, slots=True)
class Suspending:
    """A step that may wait.

    Before it runs a region or waits, it pushes its position onto ``warp.path``, and pops it at its end; nested regions
    push theirs after it. ``resume`` continues from a saved path, whose front it removes. The position is None for
    diverged lanes, which cannot be resumed. A step without ``resume`` cannot run in a group: the group falls apart
    before it.
    """

    start: Callable[[Warp], Coroutine]
    resume: Callable[[Warp, list[Any]], Coroutine] | None = None


@dataclass(frozen=True, slots=True)
class Nested:
    """A step with regions that never wait. It handles groups itself."""

    run: Step


Translation = Step | Suspending | Nested | None
Implementation = Callable[[Any, "Translator"], Translation]

IMPLEMENTATIONS: Table[Implementation] = Table("the simulator")
"""The translation of each operation, by name."""
#: Operations whose steps take any number of lanes, ``warp.size``.
WIDE: set[str] = set()
#: Terminators, which the enclosing operation handles.
TERMINATORS = frozenset(
    {
        "scf.yield",
        "scf.condition",
        "scf.reduce",
        "scf.reduce.return",
        "memref.alloca_scope.return",
        "gpu.yield",
        "cf.br",
        "cf.cond_br",
        "cf.switch",
        "gpu.return",
        "func.return",
    }
)

_F = TypeVar("_F", bound=Implementation)


def implements(*names: str, wide: bool = False) -> Callable[[_F], _F]:
    """Register a translation function for operations.

    ``wide`` asserts that its steps process all lanes of a group at once: they see ``warp.size`` lanes, use no state of
    individual warps, and raise ``Fault`` or ``OneByOne`` before they change anything. The step then runs warp by warp.
    """

    if wide:
        WIDE.update(names)
    return IMPLEMENTATIONS.rule(*names)


@dataclass(slots=True)
class Code:
    """The steps of a block, without its terminator."""

    run: Step
    start: Callable[[Warp], Coroutine]
    resume: Callable[[Warp, list[Any]], Coroutine]
    suspends: bool
    end: Operation | None


@dataclass(slots=True)
class Translator:
    """Translates one kernel. ``registers`` are then the initial registers of every warp."""

    module: ModuleOp
    arch: Architecture
    shared: SharedLayout
    numerics: str = "tensor-core"
    pending: frozenset[SSAValue] = frozenset()
    """Values that may be accumulators of products in flight."""
    by_turns: bool = False
    """Whether warps yield to other clusters after accesses that order blocks."""
    registers: list[Any] = field(default_factory=list)
    block_values: list[tuple[int, Callable[[Block], Any]]] = field(default_factory=list)
    """Slots whose values each block creates."""
    barrier_groups: list[tuple[Operation, int]] = field(default_factory=list)
    """The mbarriers of each block: the operation that creates them, and how many."""
    global_values: dict[str, Any] = field(default_factory=dict)
    calls: list[Any] = field(default_factory=list)
    fixed: set[int] = field(default_factory=set)
    """Slots whose values never change during a run."""
    _slots: dict[SSAValue, int] = field(default_factory=dict)
    _depth: int = 0

    def slot(self, value: SSAValue) -> int:
        """The slot of a value, the same on every call."""
        found = self._slots.get(value)
        if found is None:
            found = self._slots[value] = self.new_slot()
        return found

    def slots(self, values: Sequence[SSAValue]) -> tuple[int, ...]:
        """The slots of values, in order."""
        return tuple(self.slot(value) for value in values)

    def new_slot(self) -> int:
        """A new slot that belongs to no value."""
        self.registers.append(None)
        return len(self.registers) - 1

    def preset(self, value: SSAValue, content: object) -> None:
        """Set a value that is the same in every warp."""
        self.registers[self.slot(value)] = content
        self.fixed.add(self.slot(value))

    def forget(self, values: Sequence[SSAValue]) -> None:
        """Detach values from their slots, so that another copy of their operations gets new ones."""
        for value in values:
            self._slots.pop(value, None)

    def each_block(self, value: SSAValue, make: Callable[[Block], Any]) -> None:
        """Set a value that each block creates when it starts."""
        self.block_values.append((self.slot(value), make))
        self.fixed.add(self.slot(value))

    def block(self, block: IRBlock) -> Code:
        """Translate a block and everything nested in it. Raises ``Fault`` for what the simulator does not run."""
        if self._depth == _MAX_DEPTH:
            raise Fault(
                codes.UNSUPPORTED,
                f"regions and calls are nested more than {_MAX_DEPTH} deep",
                block.parent_op(),
            )
        self._depth += 1
        items: list[Suspending | tuple[Step, Step, Step | None]] = []
        end: Operation | None = None
        for op in block.ops:
            if op.name in TERMINATORS:
                end = op
                break
            step = self.operation(op)
            if isinstance(step, Suspending):
                items.append(step)
            elif step is not None:
                items.append(self._plain(op, step))
                if self.by_turns and is_atomic(op):
                    items.append(_giving_way(op))
        self._depth -= 1
        plain = [item for item in items if not isinstance(item, Suspending)]
        if len(plain) == len(items):
            return Code(_runner(plain), _no_coroutine, _no_resume, False, end)
        go = _coroutine(items)
        return Code(_no_run, lambda warp: go(warp, None), go, True, end)

    def _plain(self, op: Operation, step: Step | Nested) -> tuple[Step, Step, Step | None]:
        """A step for a single warp, one for a group, and one for a group where that raises."""
        if isinstance(step, Nested):
            return step.run, step.run, None
        taken = takes_pending(op, self.pending)
        if taken:
            step = _behind(settling(op, self.slots(taken)), step)
        alone = one_by_one(step, self._inputs(op), self.slots(op.results))
        return (step, step, alone) if op.name in WIDE else (step, alone, None)

    def _inputs(self, op: Operation) -> list[int]:
        """The slots of values that an operation uses, also in its regions, and that may change."""
        used = [value for inner in operations(op) for value in inner.operands]
        return [slot for slot in dict.fromkeys(self.slots(used)) if slot not in self.fixed]

    def operation(self, op: Operation) -> Translation:
        """Translate an operation by the table.

        Raises ``Fault`` if the architecture lacks the operation, or if it has no rule.
        """
        requirement = requirement_of(op)
        if requirement is not None and not self.arch.has(requirement):
            raise Fault(
                codes.ARCHITECTURE,
                f"'{op.name}' does not exist on {self.arch}; {requirement.where}",
                op,
            )
        implementation = IMPLEMENTATIONS.rule_of(op)
        if implementation is None:
            raise Fault(codes.UNSUPPORTED, f"the simulator does not run '{op.name}'", op)
        try:
            return implementation(op, self)
        except Fault as fault:
            fault.op = fault.op or op
            raise


def _behind(first: Step, second: Step) -> Step:
    def run(warp: Warp) -> None:
        first(warp)
        second(warp)

    return run


def _giving_way(op: Operation) -> Suspending:
    wait = GiveWay(takes_locks(op))

    def start(warp: Warp) -> Coroutine:
        yield wait

    return Suspending(start)


def _no_run(warp: Warp) -> None:
    raise AssertionError("a block that may wait runs as a coroutine")


def _no_coroutine(warp: Warp) -> Coroutine:
    raise AssertionError("a block that never waits runs as a function")


def _no_resume(warp: Warp, saved: list[Any]) -> Coroutine:
    raise AssertionError("a block that never waits runs as a function")


def _runner(steps: list[tuple[Step, Step, Step | None]]) -> Step:
    narrow = tuple(step for step, _, _ in steps)
    wide = tuple((together, alone) for _, together, alone in steps)
    count = float(len(steps))

    def run(warp: Warp) -> None:
        warp.time += count
        if warp.size == WARP_SIZE:
            for step in narrow:
                step(warp)
            return
        for together, alone in wide:
            try:
                together(warp)
            except (Fault, OneByOne):
                if alone is None:
                    raise
                alone(warp)

    return run


def _segments(
    items: list[Suspending | tuple[Step, Step, Step | None]],
) -> Iterator[Step | Suspending]:
    """Merge adjacent steps that never wait into one function."""
    plain: list[tuple[Step, Step, Step | None]] = []
    for item in items:
        if not isinstance(item, Suspending):
            plain.append(item)
            continue
        if plain:
            yield _runner(plain)
            plain = []
        yield item
    if plain:
        yield _runner(plain)


def _coroutine(
    items: list[Suspending | tuple[Step, Step, Step | None]],
) -> Callable[[Warp, list[Any] | None], Coroutine]:
    segments = tuple(_segments(items))

    def go(warp: Warp, saved: list[Any] | None) -> Coroutine:
        path = warp.path
        depth, first = len(path), 0
        path.append(0)
        if saved is not None:
            first = path[depth] = saved.pop(0)
            if saved:
                resume: Any = segments[first].resume
                yield from resume(warp, saved)
                first += 1
        for number in range(first, len(segments)):
            segment = segments[number]
            if not isinstance(segment, Suspending):
                segment(warp)
                continue
            path[depth] = number
            warp.time += 1.0
            if segment.resume is None:
                if warp.size > WARP_SIZE:
                    yield FALL_APART
                path[depth] = None
            yield from segment.start(warp)
        del path[depth:]

    return go
