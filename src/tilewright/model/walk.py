"""Follows the path of warps through machine code, without data: which basic blocks each executes.

The first thread of each warp is followed. Only the values on which branches depend are computed (``scalars``): launch
parameters, thread and block indices, loop counters. Waits for barriers succeed immediately. A branch on data is
unknown: loops then need a trip count, and other branches fall through; both are counted, so that reports can mention
them.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.diagnostics import TileIRError
from tilewright.model.codes import UNKNOWN_TRIPS
from tilewright.model.sass import Block, Instruction, Kernel, Loop, is_always
from tilewright.model.scalars import (
    Environment,
    Getter,
    Operation,
    Registers,
    announces_bytes,
    float_bits,
    getter,
    names_in,
    operation,
    packed_predicates,
    predicate,
    results_of,
)
from tilewright.model.traces import Event, is_load, is_traced, load_tracer, traced_names, tracer

WARP = 32
#: The basic blocks that a warp may execute; longer paths count as endless.
_MOST_STEPS = 2_000_000
#: The layouts of constant bank 0: offsets of the extents of block, grid and cluster, and of the stack, by the first
#: architecture with it.
_LAYOUTS = ((100, 0x360, 0x370, 0x200, 0x37C), (0, 0x0, 0xC, 0x144, 0x28))
_STACK = 0x00FFF000
#: The pseudo-register with the bytes announced to barriers.
_ANNOUNCED = "announced"


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """A launch: extents, and the words of parameters by their offset from the first one."""

    grid: tuple[int, int, int]
    threads: tuple[int, int, int]
    parameters: Mapping[int, int] = field(default_factory=dict)


def parameter_words(
    kernel: Kernel, values: Sequence[tuple[int, int | float | None]]
) -> dict[int, int]:
    """The words of parameters, given as (bytes, value) in order. None and missing values are unknown.

    Offsets, in bytes, are those of the file; without them each parameter is aligned to its size. A float of 2 bytes is
    unknown, too, since these do not say whether it is f16 or bf16.
    """
    words: dict[int, int] = {}
    end = 0
    places = kernel.file.parameters
    for number, (size, value) in enumerate(values):
        offset = places[number].offset if number < len(places) else -(-end // size) * size
        end = offset + size
        if value is None:
            continue
        if isinstance(value, float):
            if size not in (4, 8):
                continue
            value = (
                float_bits(value)
                if size == 4
                else int.from_bytes(struct.pack("<d", value), "little")
            )
        for at in range(0, size, 4):
            words[offset + at] = value >> 8 * at & 0xFFFFFFFF
    return words


@dataclass(slots=True)
class WarpPath:
    """The path of a warp: ``blocks`` in order.

    ``guesses``: how often a block ended with an unknown branch, which fell through. ``loaded_bytes``: announced to
    barriers for bulk copies. ``events``: at mbarriers and copy units.
    """

    blocks: list[int]
    guesses: Counter[int]
    loaded_bytes: int = 0
    events: list[Event] = field(default_factory=list[Event])

    def counts(self) -> Counter[int]:
        """How often each block was executed."""
        return Counter(self.blocks)


#: Instructions that do not fall through, unless guarded.
_JUMPS = frozenset({"BRA", "JMP", "EXIT", "RET", "KILL"})
#: Those after which another block than the next one may follow.
_ENDS = _JUMPS | {"CALL", "BRX", "BRXU", "BPT"}


@dataclass(slots=True)
class _Step:
    """A translated basic block: operations, then the branch, whose opcode without modifiers is ``base``.

    ``always``: the branch does not depend on a predicate.
    """

    operations: list[Operation]
    last: Instruction
    base: str
    always: bool
    condition: Getter
    after: int | None
    target: int | None


class Walker:
    """Walks through a kernel for one launch.

    ``trips``: iterations of loops by name, which override the code; unknown branches lead to these loops.
    ``otherwise``: iterations where the code does not determine them. ``loads``: record the loads of global memory as
    events, instead of those of barriers. ``most_blocks``: limit of a walk in basic blocks, 0 for none.
    """

    def __init__(
        self,
        kernel: Kernel,
        launch: LaunchShape,
        trips: Mapping[str, int] | None = None,
        otherwise: Mapping[str, int] | None = None,
        loads: bool = False,
        most_blocks: int = 0,
    ) -> None:
        self._kernel, self._launch, self._trips = kernel, launch, dict(trips or {})
        self._otherwise = dict(otherwise or {})
        self._constants = _constants(kernel, launch)
        self._loads, self._most_blocks = loads, most_blocks
        if loads not in kernel.slices:
            kernel.slices[loads] = _slice(kernel, loads)
        self._needed = kernel.slices[loads]
        self._inner: dict[int, Loop] = {}
        for loop in sorted(kernel.loops, key=lambda loop: loop.depth):
            for block in loop.blocks:
                self._inner[block] = loop
        self._heads = {loop.head: loop for loop in kernel.loops}
        self._forced = {
            loop.number: self._trips[loop.name] for loop in kernel.loops if loop.name in self._trips
        }
        self._events: list[Event] = []
        self._steps = self._made_steps()
        self._ways = self._ways_to_given()
        self._ended_by_exits = frozenset(
            loop.number
            for loop in kernel.loops
            if not loop.waits and all(n in loop.blocks for b in loop.blocks for n in self._after(b))
        )
        self._leaving = frozenset(self._calls_without_return())

    def _calls_without_return(self) -> Iterator[int]:
        """Blocks that end with a call of code that never returns, by which compilers leave loops; they count as
        branches.
        """
        for number, step in enumerate(self._steps):
            if step.base == "CALL" and step.target is not None:
                waiting, seen = [step.target], {step.target}
                while waiting:
                    found = [n for n in self._after(waiting.pop()) if n not in seen]
                    waiting += found
                    seen.update(found)
                if all(self._steps[n].base != "RET" for n in seen):
                    yield number

    def _after(self, number: int) -> list[int]:
        """The blocks that may follow one."""
        step = self._steps[number]
        ends = step.base in _JUMPS and step.always
        return [n for n in (None if ends else step.after, step.target) if n is not None]

    def _ways_to_given(self) -> dict[int, frozenset[int]]:
        """For each loop with given iterations, the blocks from which it can be reached."""
        before: dict[int, list[int]] = {}
        for number in range(len(self._steps)):
            for after in self._after(number):
                before.setdefault(after, []).append(number)
        ways: dict[int, frozenset[int]] = {}
        for loop in self._kernel.loops:
            if self._forced.get(loop.number):
                waiting, seen = [loop.head], {loop.head}
                while waiting:
                    found = [n for n in before.get(waiting.pop(), ()) if n not in seen]
                    waiting += found
                    seen.update(found)
                ways[loop.number] = frozenset(seen)
        return ways

    def walk(self, warp: int, block: tuple[int, int, int]) -> WarpPath:
        """The path of a warp of a block.

        Raises ``TileIRError`` (``model-unknown-trips``) if a loop depends on data and no iterations are given.
        """
        path = WarpPath([], Counter())
        self._events.clear()
        steps, most = self._steps, self._most_blocks or _MOST_STEPS
        registers: Registers = {**self._special(warp, block), _ANNOUNCED: 0}
        visits: dict[int, int] = {}
        calls: list[int] = []
        at: int | None = 0
        while at is not None:
            path.blocks.append(at)
            if len(path.blocks) > most:
                if self._most_blocks:
                    break
                raise self._endless(at)
            if (loop := self._heads.get(at)) is not None:
                came_from = path.blocks[-2] if len(path.blocks) > 1 else None
                again = came_from in loop.blocks and loop.number in visits
                visits[loop.number] = visits[loop.number] + 1 if again else 1
            step = steps[at]
            for run in step.operations:
                run(registers)
            ends = step.base in _ENDS
            at = self._next(at, step, registers, visits, calls, path) if ends else step.after
        path.loaded_bytes = registers[_ANNOUNCED] or 0
        path.events = [*self._events]
        return path

    def _special(self, warp: int, block: tuple[int, int, int]) -> dict[str, int]:
        x, y, _ = self._launch.threads
        thread = warp * WARP
        return {
            "SR_TID.X": thread % x,
            "SR_TID.Y": thread // x % y,
            "SR_TID.Z": thread // (x * y),
            "SR_LANEID": 0,
            "SR_CgaCtaId": 0,
            "SR_CgaSize": 1,
            **{f"SR_CTAID.{axis}": number for axis, number in zip("XYZ", block, strict=True)},
        }

    def _made_steps(self) -> list[_Step]:
        environment = Environment(self._constants)
        code, blocks = self._kernel.instructions, self._kernel.blocks
        firsts = self._kernel.block_at
        steps: list[_Step] = []
        for block in blocks:
            operations: list[Operation] = []
            for index in range(block.first, block.last + 1):
                if self._loads and is_load(code[index]):
                    put = load_tracer(index, code[index], environment, self._events.append)
                    operations.append(put)
                elif not self._loads and is_traced(code[index]):
                    operations.append(tracer(index, code[index], environment, self._events.append))
                if index in self._needed:
                    operations.append(operation(code[index], environment))
                if announces_bytes(code[index]):
                    operations.append(_expectation(code[index], environment))
            last = code[block.last]
            steps.append(
                _Step(
                    operations,
                    last,
                    last.base,
                    is_always(_condition_text(last)),
                    _condition(last),
                    block.number + 1 if block.number + 1 < len(blocks) else None,
                    firsts.get(last.target) if last.target is not None else None,
                )
            )
        return steps

    def _next(
        self,
        at: int,
        step: _Step,
        registers: Registers,
        visits: dict[int, int],
        calls: list[int],
        path: WarpPath,
    ) -> int | None:
        """The next block behind one that ends with one of ``_ENDS``; None at the end."""
        base = step.base
        taken = step.condition(registers)
        loop = self._inner.get(at)
        ends = base == "EXIT" and loop is not None and loop.number in self._ended_by_exits
        if ends and loop is not None and (taken is None or loop.number in self._forced):
            # Warps leave such a loop by exiting.
            return step.after if self._stays(at, loop, visits) else None
        if base in ("EXIT", "KILL", "BPT"):
            path.guesses[at] += taken is None
            return None if taken else step.after
        if base == "CALL" and at not in self._leaving:
            if taken and step.target is not None and step.after is not None:
                calls.append(step.after)
                return step.target
            return step.after
        if base == "RET":
            return calls.pop() if taken and calls else None if taken else step.after
        if step.target is None:
            raise self._endless(at)
        if loop is not None and step.after is not None:
            stays = [step.after in loop.blocks, step.target in loop.blocks]
            decides = stays[0] != stays[1] and not step.always
            if decides and (loop.number in self._forced or taken is None):
                return self._turn(at, loop, step, visits, stays[1])
        if taken is None:
            path.guesses[at] += 1
            led = self._led_to_given(step, visits)
            taken = self._prefers_target(step) if led is None else led
        return step.target if taken else step.after

    def _turn(
        self, at: int, loop: Loop, step: _Step, visits: dict[int, int], target_stays: bool
    ) -> int | None:
        """The next block at the exit of a loop whose iterations are given, or not determined by known values."""
        return step.target if self._stays(at, loop, visits) == target_stays else step.after

    def _stays(self, at: int, loop: Loop, visits: Mapping[int, int]) -> bool:
        """Whether such a loop continues. Raises ``TileIRError`` if its iterations are unknown."""
        turns = self._forced.get(loop.number)
        if turns is None:
            turns = self._otherwise.get(loop.name)
        if turns is None:
            if not loop.waits:
                raise self._unknown(loop)
            turns = 1
        before = at == loop.head and len(loop.blocks) > 1
        return visits.get(loop.number, 1) <= turns - (0 if before else 1)

    def _led_to_given(self, step: _Step, visits: Mapping[int, int]) -> bool | None:
        """Whether an unknown branch must be taken to reach a loop with given iterations; None if both ways or neither
        lead there.
        """
        for number, ways in self._ways.items():
            there = step.target in ways, step.after in ways
            if number not in visits and there[0] != there[1]:
                return there[0]
        return None

    def _prefers_target(self, step: _Step) -> bool:
        """Whether an unknown branch is taken: it skips a slow path that calls a function."""
        block = self._kernel.blocks[step.after] if step.after is not None else None
        if block is None:
            return True
        code = self._kernel.instructions
        return any(code[i].base == "CALL" for i in range(block.first, block.last + 1))

    def _unknown(self, loop: Loop) -> TileIRError:
        code, blocks = self._kernel.instructions, self._kernel.blocks
        first = code[blocks[loop.head].first].address
        last = code[max(blocks[number].last for number in loop.blocks)].address
        count = len(self._kernel.body(loop))
        return TileIRError.single(
            UNKNOWN_TRIPS,
            f"how often loop {loop.name} of '{self._kernel.name}' runs is unknown: it depends on "
            f"data or on missing arguments ({count} instructions, 0x{first:x} to 0x{last:x})",
            help=f"give the launch arguments, or the trip count: --trips {loop.name}=N",
        )

    def _endless(self, at: int) -> TileIRError:
        loop = self._inner.get(at)
        if loop is not None:
            return self._unknown(loop)
        return TileIRError.single(
            UNKNOWN_TRIPS,
            f"the control flow of '{self._kernel.name}' is unknown: block {at} ends with "
            f"'{self._kernel.instructions[self._kernel.blocks[at].last]}'",
        )


def _constants(kernel: Kernel, launch: LaunchShape) -> dict[int, int]:
    layout = next(layout for layout in _LAYOUTS if kernel.compute >= layout[0])
    _, threads_at, grid_at, cluster_at, stack_at = layout
    words = {stack_at: _STACK}
    cluster = kernel.file.cluster or (1, 1, 1)
    clusters = tuple(-(-g // c) for g, c in zip(launch.grid, cluster, strict=True))
    # The reciprocals by which block indices are multiplied to compute the cluster index.
    inverse = tuple(float_bits(1 / extent) for extent in cluster)
    places = [(threads_at, launch.threads), (grid_at, launch.grid), (cluster_at, cluster)]
    if kernel.compute >= 100:
        places += [(0x210, inverse), (0x220, clusters), (0x22C, (math.prod(cluster),))]
    else:
        places += [(0x150, inverse), (0x15C, clusters), (0x188, (math.prod(cluster),))]
    for place, extents in places:
        words |= {place + 4 * axis: extent for axis, extent in enumerate(extents)}
    first = kernel.file.parameters_at
    return words | {first + offset: word for offset, word in launch.parameters.items()}


def _condition_text(instruction: Instruction) -> str:
    """The predicate on which a branch depends; for `BRA.U` an operand."""
    if instruction.base == "BRA" and len(instruction.operands) > 1:
        return instruction.operands[0]
    return instruction.predicate


def _condition(instruction: Instruction) -> Getter:
    guard = predicate(instruction.predicate)
    if instruction.base != "BRA" or len(instruction.operands) < 2:
        return guard
    operand = predicate(instruction.operands[0])

    def both(r: Registers) -> int | None:
        first, second = guard(r), operand(r)
        return False if False in (first, second) else None if None in (first, second) else True

    return both


def _expectation(instruction: Instruction, environment: Environment) -> Operation:
    guard = predicate(instruction.predicate)
    size = getter(instruction.operands[-1], environment)

    def run(r: Registers) -> None:
        if guard(r) is not False:
            r[_ANNOUNCED] = (r[_ANNOUNCED] or 0) + (size(r) or 0)

    return run


def _slice(kernel: Kernel, loads: bool) -> frozenset[int]:
    """The backward slice of branches, guards of traced work, and announced bytes."""
    code, blocks = kernel.instructions, kernel.blocks
    before: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for after in _flows_to(kernel, block):
            before[after].append(block.number)
    live: list[set[str]] = [set() for _ in blocks]
    results = [frozenset(results_of(i)) | ({"local"} if i.base == "STL" else set()) for i in code]
    sources, roots = [_sources(i) for i in code], [_roots(i, loads) for i in code]
    found: set[int] = set()
    todo = [block.number for block in blocks]
    while todo:
        number = todo.pop()
        block = blocks[number]
        names: set[str] = set()
        for after in _flows_to(kernel, block):
            names |= live[after]
        for index in range(block.last, block.first - 1, -1):
            if not results[index].isdisjoint(names):
                found.add(index)
                if is_always(code[index].predicate):
                    names -= results[index] - {"local"}
                names.update(sources[index])
            names.update(roots[index])
        if not names <= live[number]:
            live[number] |= names
            todo += before[number]
    return frozenset(found)


def _flows_to(kernel: Kernel, block: Block) -> list[int]:
    """The blocks that may follow, including called ones."""
    last = kernel.instructions[block.last]
    found = list(block.successors)
    if last.base == "CALL" and last.target is not None:
        starts = kernel.block_at
        found += [starts[last.target]] if last.target in starts else []
    return found


def _roots(instruction: Instruction, loads: bool) -> list[str]:
    """The registers whose values the walk needs."""
    found = traced_names(instruction, loads)
    if instruction.is_branch or instruction.base in ("EXIT", "CALL", "RET"):
        found += names_in(instruction.predicate) + names_in(_condition_text(instruction))
    if announces_bytes(instruction):
        found += names_in(instruction.operands[-1]) + names_in(instruction.predicate)
    return found


def _sources(instruction: Instruction) -> list[str]:
    if instruction.base in ("LDG", "LDS", "LDSM") or instruction.base.endswith("MMA"):
        return []
    found = names_in(instruction.predicate)
    if instruction.base == "P2R":
        found += packed_predicates(instruction)
    for operand in instruction.operands:
        found += names_in(operand)
    # Pairs are named by their first register.
    pairs = [name for name in found if name.startswith(("R", "UR"))]
    found += [_second(name) for name in pairs] if _reads_pairs(instruction) else []
    return [*found, "local"] if instruction.base == "LDL" else found


def _reads_pairs(instruction: Instruction) -> bool:
    return bool(
        {"WIDE", "HI", "64", "U64", "S64", "128"} & set(instruction.modifiers)
    ) or instruction.base in ("STL", "IMAD")


def _second(name: str) -> str:
    head = name.rstrip("0123456789")
    return f"{head}{int(name[len(head) :]) + 1}"
