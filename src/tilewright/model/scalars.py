"""Evaluates scalar SASS instructions, as far as branches can depend on them.

``operation`` translates an instruction to a function on the registers of one thread. Registers are a dict from names
(`R5`, `UR4`, `P0`) to values: 32-bit integers, booleans for predicates, nothing where a value is unknown. Values from
memory and floats are unknown; an operation without a rule here makes its results unknown, so nothing is ever assumed.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.model.sass import Instruction, is_always

Registers = dict[str, int | None]
Getter = Callable[[Registers], int | None]
Operation = Callable[[Registers], None]

_MASK, _MASK64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
_SIGN, _SIGN64 = 1 << 31, 1 << 63
_REGISTER = re.compile(r"^(U?R)(\d+)$")
_PREDICATE = re.compile(r"^!?(U?P)(\d+|T)$")
_CONSTANT = re.compile(r"^c\[0x0\]\[(?:(U?R\w+)(?:\+)?)?(-?0x[0-9a-f]+)?\]$")
_INTEGER = re.compile(r"^-?0x[0-9a-f]+$")
_ADDRESS = re.compile(r"^\[(R\d+|RZ)?\+?(-?0x[0-9a-f]+)?\]$")


@dataclass(frozen=True, slots=True)
class Environment:
    """The constant bank 0, by offset, and special registers by name (`SR_TID.X`). Special registers that are missing
    here are looked up among the registers.
    """

    constants: Mapping[int, int]
    special: Mapping[str, int] = field(default_factory=dict)


def is_predicate(operand: str) -> bool:
    """Whether an operand is a predicate, negated or not."""
    return _PREDICATE.match(operand) is not None


def names_in(operand: str) -> list[str]:
    """The registers that an operand refers to, except constant ones."""
    found = re.findall(r"\b(U?[RP]\d+)\b", operand)
    wide = ".64" in operand or ".WIDE" in operand
    return [*found, *(after(name) for name in found if wide and "P" not in name)]


def after(name: str, by: int = 1) -> str:
    """The register ``by`` after another one; anything else, such as a predicate, unchanged."""
    match = _REGISTER.match(name)
    return f"{match[1]}{int(match[2]) + by}" if match else name


#: Opcodes that write no register.
_NO_RESULT = frozenset(
    [
        "STG",
        "STS",
        "STL",
        "ST",
        "STSM",
        "RED",
        "BAR",
        "BRA",
        "BRX",
        "BRXU",
        "EXIT",
        "RET",
        "CALL",
        "BSSY",
        "BSYNC",
        "NOP",
        "MEMBAR",
        "FENCE",
        "ERRBAR",
        "CCTL",
        "CGAERRBAR",
        "DEPBAR",
        "LDGDEPBAR",
        "LDGSTS",
        "UTMALDG",
        "UTMASTG",
        "UTMAREDG",
        "UTMACCTL",
        "UTMACMDFLUSH",
        "UTMAPF",
        "NANOSLEEP",
        "WARPSYNC",
        "WARPGROUP",
        "ARRIVES",
        "YIELD",
        "BREAK",
        "PREEXIT",
        "ACQBULK",
        "UCGABAR_ARV",
        "UCGABAR_WAIT",
        "UBLKCP",
        "UBLKPF",
        "ENDCOLLECTIVE",
        "PMTRIG",
        "BPT",
        "KILL",
        "UTCBAR",
        "UTCCP",
        "LDTM",
        "STTM",
        "WARPGROUPSET",
    ]
)
_TENSOR_SHAPE = re.compile(r"64x(\d+)x")


def _width(instruction: Instruction) -> int:
    """The number of registers of the first result."""
    base, modifiers = instruction.base, instruction.modifiers
    if base.endswith("GMMA"):
        shape = _TENSOR_SHAPE.search(instruction.opcode)
        return (
            int(shape[1]) // (2 if "F32" in modifiers or base == "IGMMA" else 4) if shape else 128
        )
    if base.endswith("MMA"):
        return 4
    if "128" in modifiers or (base == "LDSM" and modifiers[-1] == "4"):
        return 4
    if base == "CS2R":
        return 1 if "32" in modifiers else 2
    double = base[0] == "D" and base in ("DADD", "DMUL", "DFMA", "DMNMX")
    wide = {"64", "WIDE", "S64", "U64", "F64"} & set(modifiers)
    pair = base == "LDSM" and modifiers[-1] == "2"
    return 2 if wide or double or pair else 1


def announces_bytes(instruction: Instruction) -> bool:
    """Whether an instruction announces expected bytes to an mbarrier."""
    return (
        instruction.base == "SYNCS"
        and "ARRIVE" in instruction.modifiers
        and not {"A1T0", "ART0"} & set(instruction.modifiers)
        and len(instruction.operands) > 2
    )


def packed_predicates(instruction: Instruction) -> list[str]:
    """The predicates that `P2R` and `R2P` move, by the mask that is their last operand; all 7 if it is not a number."""
    mask = instruction.operands[-1]
    bits = int(mask, 16) if _INTEGER.match(mask) else 0x7F
    return [f"P{number}" for number in range(7) if bits >> number & 1]


def results_of(instruction: Instruction) -> list[str]:
    """The registers and predicates that an instruction may write: all registers of a wide result, none of a store."""
    if instruction.base in _NO_RESULT or not instruction.operands:
        return []
    if instruction.base == "R2P":
        return packed_predicates(instruction)
    found: list[str] = []
    for place, operand in enumerate(instruction.operands):
        plain = operand.removesuffix(".reuse")
        if is_predicate(operand) and not operand.startswith("!"):
            if not operand.endswith("T"):
                found.append(operand)
        elif match := _REGISTER.match(plain):
            found += [after(plain, by) for by in range(_width(instruction))]
            # Carry predicates may follow the register.
            for carry in instruction.operands[place + 1 : place + 3]:
                if not is_predicate(carry) or carry.startswith("!"):
                    break
                if not carry.endswith("T") and len(instruction.operands) > place + 3:
                    found.append(carry)
            del match
            break
        elif plain in ("RZ", "URZ") and place + 1 < len(instruction.operands):
            continue
        else:
            break
    return found


def getter(operand: str, environment: Environment) -> Getter:
    """A function that reads a 32-bit operand: a register, a constant of bank 0, or an immediate, perhaps negated.

    The number is unsigned, None where it is unknown. A register that was never written is 0. Operands of any other
    form, such as floats and other banks, are unknown.
    """
    operand = operand.removesuffix(".reuse")
    if operand[:1] == "-" and not _INTEGER.match(operand):
        inner = getter(operand[1:], environment)
        # Not reduced modulo 2**32, as -0 must produce the carry of a subtraction.
        return lambda r: None if (v := inner(r)) is None else (~v & _MASK) + 1
    if operand[:1] == "~":
        inner = getter(operand[1:], environment)
        return lambda r: None if (v := inner(r)) is None else ~v & _MASK
    if operand[:1] == "|":
        inner = getter(operand.strip("|"), environment)
        return lambda r: None if (v := inner(r)) is None else abs(_signed(v)) & _MASK
    if operand in ("RZ", "URZ", "SRZ"):
        return lambda r: 0
    if _INTEGER.match(operand):
        value = int(operand, 16) & _MASK
        return lambda r: value
    if match := _CONSTANT.match(operand):
        return _constant(match, environment)
    if operand.startswith("SR_"):
        if (special := environment.special.get(operand)) is not None:
            return lambda r: special
        return lambda r: r.get(operand)
    if is_predicate(operand):
        return predicate(operand)
    if _REGISTER.match(operand):
        return lambda r: r.get(operand, 0)
    return lambda r: None


def _constant(match: re.Match[str], environment: Environment) -> Getter:
    offset = int(match[2], 16) if match[2] else 0
    constants = environment.constants
    if match[1] in (None, "RZ", "URZ"):
        held = constants.get(offset)
        return lambda r: held
    name = match[1]
    return lambda r: None if (v := r.get(name, 0)) is None else constants.get(v + offset & _MASK)


def constant_after(operand: str, by: int) -> str:
    """The operand for the constant ``by`` bytes after another one, which must be of bank 0."""
    match = _CONSTANT.match(operand)
    assert match is not None, operand
    offset = int(match[2], 16) if match[2] else 0
    return f"c[0x0][{match[1] + '+' if match[1] else ''}{offset + by:#x}]"


def getter64(operand: str, environment: Environment) -> Getter:
    """A function that reads a 64-bit operand: two registers, two words, or an immediate; None if a half is unknown."""
    operand = operand.removesuffix(".reuse").removesuffix(".64")
    if operand[:1] == "-" and not _INTEGER.match(operand):
        inner = getter64(operand[1:], environment)
        return lambda r: None if (v := inner(r)) is None else -v & _MASK64
    if _INTEGER.match(operand):
        value = int(operand, 16) & _MASK64
        return lambda r: value
    low = getter(operand, environment)
    if operand in ("RZ", "URZ", "SRZ"):
        return low
    if _CONSTANT.match(operand):
        high = getter(constant_after(operand, 4), environment)
    else:
        high = getter(after(operand), environment)

    def both(r: Registers) -> int | None:
        a, b = low(r), high(r)
        return None if a is None or b is None else b << 32 | a

    return both


def predicate(operand: str) -> Getter:
    """A function that reads a predicate, perhaps negated by ``!``; None means unknown, and an empty guard is true."""
    if is_always(operand):
        return lambda r: True
    if operand.startswith("!"):
        inner = predicate(operand[1:])
        return lambda r: None if (v := inner(r)) is None else not v
    return lambda r: r.get(operand, False)


def _signed(value: int) -> int:
    value &= _MASK
    return value - (1 << 32) if value & _SIGN else value


def put(registers: Registers, name: str, value: int | None) -> None:
    """Set a 32-bit register; None is unknown. Writes to `RZ`, `URZ`, `PT` and `UPT` are dropped."""
    if name in ("RZ", "URZ", "PT", "UPT"):
        return
    registers[name] = value


def put64(registers: Registers, name: str, value: int | None) -> None:
    """Set a register pair from a 64-bit number, lower half first; None is unknown."""
    put(registers, name, None if value is None else value & _MASK)
    put(registers, after(name), None if value is None else value >> 32 & _MASK)


def operation(instruction: Instruction, environment: Environment) -> Operation:
    """The effect of an instruction on registers, including its guard.

    Under an unknown guard its results become unknown.
    """
    from tilewright.model.scalar_rules import RULES

    rule = RULES.get(instruction.base)
    made = rule(instruction, environment) if rule is not None else None
    results = results_of(instruction)
    if made is None:
        made = forget(results)
    if is_always(instruction.predicate):
        return made
    guard, forgotten, rule_of = predicate(instruction.predicate), forget(results), made

    def guarded(r: Registers) -> None:
        holds = guard(r)
        if holds:
            rule_of(r)
        elif holds is None:
            forgotten(r)

    return guarded


def forget(names: Sequence[str]) -> Operation:
    """An operation that makes registers unknown."""

    def run(r: Registers) -> None:
        for name in names:
            r[name] = None

    return run


def float_bits(value: float) -> int:
    """The bits of a number as f32, rounded to nearest even; those of an infinity where it is too large."""
    try:
        return struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        return 0xFF800000 if value < 0 else 0x7F800000


def bits_float(value: int) -> float:
    """The f32 with the lower 32 bits of a number."""
    return struct.unpack("<f", struct.pack("<I", value & _MASK))[0]
