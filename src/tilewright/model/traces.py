"""The operands of barrier and copy instructions, computed while walking through the code.

Each execution of such an instruction is an ``Event`` in path order, so that the timing knows which barrier is meant, in
which phase, and how many bytes arrive.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.model.sass import Instruction
from tilewright.model.scalars import (
    Environment,
    Getter,
    Registers,
    getter,
    getter64,
    names_in,
    predicate,
)

_ADDRESS = re.compile(r"^\[(?:(U?R\d+|U?RZ))?(?:\+(U?R\d+|U?RZ))?(?:\+?(-?0x[0-9a-f]+))?\]$")
_DIMS = re.compile(r"\.(\d)D\b")
#: Copies that are counted by mbarriers.
BULK_LOADS = frozenset({"UTMALDG", "UBLKCP"})


@dataclass(frozen=True, slots=True)
class Event:
    """An instruction encountered on a path.

    ``executed``: its guard is true, as far as known. ``barrier``: the address in shared memory. ``value``: the parity
    of a wait, the bytes that an arrival announces, or the word of an init. ``where``: the map and coordinates of a bulk
    copy. None for unknown values.
    """

    index: int
    executed: bool
    barrier: int | None
    value: int | None
    where: tuple[int | None, ...] = ()


_LOADS = frozenset({"LDG", "LDGSTS", *BULK_LOADS})
_GLOBAL = re.compile(r"\[(U?R\d+)(?:\.64)?(?:\.U32)?(?:\+(UR\d+))?(?:\+?(-?0x[0-9a-f]+))?\]$")


def is_load(instruction: Instruction) -> bool:
    """Whether an instruction loads from global memory."""
    return instruction.base in _LOADS


def is_traced(instruction: Instruction) -> bool:
    """Whether an instruction has events."""
    return instruction.base in ("SYNCS", "ARRIVES") or instruction.base in BULK_LOADS


def traced_names(instruction: Instruction, loads: bool) -> list[str]:
    """The registers on which the events of an instruction, or with ``loads`` the addresses that it loads, depend."""
    if not (is_load(instruction) if loads else is_traced(instruction)):
        return []
    found = names_in(instruction.predicate)
    if instruction.base in BULK_LOADS:
        return [*found, *_copy_registers(instruction)]
    if loads:
        place = _global(instruction)
        return [*found, *(_after(name, by) for name in place[:2] if name for by in (0, 1))]
    for operand in instruction.operands[1:] or instruction.operands:
        found += names_in(operand)
    if "EXCH" in instruction.modifiers:
        found += [_after(name, 1) for name in names_in(instruction.operands[-1])]
    return found


def _after(name: str, by: int) -> str:
    head = name.rstrip("0123456789")
    return f"{head}{int(name[len(head) :]) + by}"


def _global(instruction: Instruction) -> tuple[str, str, int]:
    """The register, uniform register and offset of a load's address; the first is empty if there is none."""
    for operand in reversed(instruction.operands):
        if match := _GLOBAL.search(operand):
            return match[1], match[2] or "", int(match[3] or "0", 16)
    return "", "", 0


def load_tracer(
    index: int, instruction: Instruction, environment: Environment, put: Callable[[Event], None]
) -> Callable[[Registers], None]:
    """An operation that records the address of a global load.

    If the map of a bulk copy is unknown, the instruction stands for it.
    """
    guard = predicate(instruction.predicate)
    if instruction.base == "UTMALDG":
        names = _copy_registers(instruction)[1:]

        def boxed(r: Registers) -> None:
            values = tuple(r.get(name) for name in names)
            *box, low, _ = values if len(values) > 2 else (None, None, None)
            put(Event(index, guard(r) is not False, None, None, (low or -1 - index, *box)))

        return boxed
    register, uniform, offset = _global(instruction)
    if instruction.base == "UBLKCP":
        register = next(iter(names_in(instruction.operands[1])), "")
    place = getter64(register or "RZ", environment)
    base = getter64(uniform or "RZ", environment)

    def loaded(r: Registers) -> None:
        a, b = place(r), base(r)
        known = None if a is None or b is None or not register else a + b + offset
        put(Event(index, guard(r) is not False, None, None, (known,)))

    return loaded


def _copy_registers(instruction: Instruction) -> list[str]:
    """The registers with mbarrier, coordinates and map of a bulk copy: after that of its target, and in its source."""
    target = names_in(instruction.operands[0])
    source = names_in(instruction.operands[1]) if len(instruction.operands) > 1 else []
    if not target:
        return []
    dims = _DIMS.search(instruction.opcode)
    count = 1 + (int(dims[1]) if dims else 0)
    found = [_after(target[0], by) for by in range(1, 1 + count)]
    return [*found, *(_after(name, by) for name in source[:1] for by in (0, 1))]


def tracer(
    index: int, instruction: Instruction, environment: Environment, put: Callable[[Event], None]
) -> Callable[[Registers], None]:
    """An operation that passes the event of an instruction, the ``index``-th of its kernel, to ``put`` when it is
    walked over.
    """
    guard = predicate(instruction.predicate)
    if instruction.base in BULK_LOADS:
        names = _copy_registers(instruction)

        def copied(r: Registers) -> None:
            values = [r.get(name) for name in names]
            barrier = values[0] if values else None
            put(Event(index, guard(r) is not False, barrier, None, tuple(values[1:])))

        return copied
    place = next((o for o in instruction.operands if o.startswith("[")), "")
    address = _address(place, environment)
    value: Getter = (
        getter(instruction.operands[-1], environment)
        if instruction.operands and not instruction.operands[-1].startswith("[")
        else lambda r: 0
    )

    def met(r: Registers) -> None:
        put(Event(index, guard(r) is not False, address(r), value(r)))

    return met


def _address(operand: str, environment: Environment) -> Getter:
    match = _ADDRESS.match(operand)
    if match is None:
        return lambda r: None
    parts = [getter(match[n], environment) for n in (1, 2) if match[n]]
    offset = int(match[3], 16) if match[3] else 0

    def run(r: Registers) -> int | None:
        total = offset
        for part in parts:
            value = part(r)
            if value is None:
                return None
            total += value
        return total & 0xFFFFFFFF

    return run
