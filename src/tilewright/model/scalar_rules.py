"""One rule for each scalar opcode that branches may depend on: see ``scalars``.

The meaning of opcodes follows from NVIDIA's disassembler and from what ptxas generates for PTX, whose meaning is
documented; tests run both on the same inputs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import product

from tilewright.model.sass import Instruction
from tilewright.model.scalars import (
    _ADDRESS,
    Environment,
    Getter,
    Operation,
    Registers,
    after,
    bits_float,
    constant_after,
    float_bits,
    getter,
    getter64,
    is_predicate,
    packed_predicates,
    predicate,
    put,
    put64,
)

Rule = Callable[[Instruction, Environment], Operation | None]

_MASK, _MASK64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
#: The prefix of the pseudo-registers that hold local memory, one for each address.
_LOCAL = "local "


def _signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def _split(operands: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """The result, the predicates after it that are further results, and the rest."""
    carries: list[str] = []
    rest = list(operands[1:])
    while rest and is_predicate(rest[0]) and not rest[0].startswith("!"):
        carries.append(rest.pop(0))
    return operands[0], carries, rest


def _values(getters: Sequence[Getter], r: Registers) -> list[int] | None:
    """The values, or None if one is unknown."""
    found = [get(r) for get in getters]
    return None if None in found else found  # pyright: ignore[reportReturnType]


def _plain(function: Callable[..., int | None], *, count: int) -> Rule:
    """A rule with one 32-bit result, computed from ``count`` operands."""

    def rule(instruction: Instruction, environment: Environment) -> Operation:
        target = instruction.operands[0]
        getters = [getter(operand, environment) for operand in instruction.operands[1 : 1 + count]]

        def run(r: Registers) -> None:
            values = _values(getters, r)
            found = function(*values) if values is not None else None
            put(r, target, None if found is None else found & _MASK)

        return run

    return rule


def _move(instruction: Instruction, environment: Environment) -> Operation:
    target, source = instruction.operands[0], instruction.operands[-1]
    if instruction.base in ("MOV", "UMOV") and len(instruction.operands) > 2:
        source = instruction.operands[1]
    wide = "64" in instruction.modifiers
    if wide:
        get64 = getter64(source, environment)
        return lambda r: put64(r, target, get64(r))
    get = getter(source, environment)
    return lambda r: put(r, target, None if (v := get(r)) is None else v & _MASK)


def _to_uniform(instruction: Instruction, environment: Environment) -> Operation:
    target, carries, rest = _split(instruction.operands)
    if carries or not rest:
        return _move(instruction, environment)
    get = getter(rest[0], environment)
    return lambda r: put(r, target, get(r))


def _zero(instruction: Instruction, environment: Environment) -> Operation | None:
    target, source = instruction.operands
    if "32" in instruction.modifiers:
        return _move(instruction, environment)
    if source != "SRZ":
        return None
    return lambda r: put64(r, target, 0)


def _load_constant(instruction: Instruction, environment: Environment) -> Operation | None:
    if set(instruction.modifiers) - {"64", "128"}:
        return None
    target, source = instruction.operands[0], instruction.operands[-1]
    if "128" in instruction.modifiers:
        low, high = getter64(source, environment), getter64(constant_after(source, 8), environment)
        third = after(target, 2)

        def four(r: Registers) -> None:
            put64(r, target, low(r))
            put64(r, third, high(r))

        return four
    if "64" in instruction.modifiers:
        get64 = getter64(source, environment)
        return lambda r: put64(r, target, get64(r))
    get = getter(source, environment)
    return lambda r: put(r, target, get(r))


def _add(instruction: Instruction, environment: Environment) -> Operation:
    """IADD3 and similar: sums with carries out, and with `.X` in."""
    target, carries, rest = _split(instruction.operands)
    extended, wide = "X" in instruction.modifiers, "64" in instruction.modifiers
    sources = [operand for operand in rest if not is_predicate(operand)]
    read = getter64 if wide else getter
    getters = [read(operand, environment) for operand in sources]
    carry_in = [predicate(operand) for operand in rest if is_predicate(operand)] if extended else []
    bits = 64 if wide else 32

    def run(r: Registers) -> None:
        values = _values([*getters, *carry_in], r)
        total = sum(values) if values is not None else None
        if wide:
            put64(r, target, None if total is None else total & _MASK64)
        else:
            put(r, target, None if total is None else total & _MASK)
        for number, carry in enumerate(carries):
            put(r, carry, None if total is None else total >> bits > number)

    return run


def _multiply(instruction: Instruction, environment: Environment) -> Operation:
    """IMAD: the low bits, the high ones (`.HI`) or all (`.WIDE`) of a * b + c."""
    target, carries, rest = _split(instruction.operands)
    words = set(instruction.modifiers)
    wide, high = "WIDE" in words, "HI" in words
    signed = "U32" not in words and (wide or high)
    sources = [operand for operand in rest if not is_predicate(operand)]
    carry_in = predicate(rest[-1]) if "X" in words and is_predicate(rest[-1]) else None
    a, b = (getter(operand, environment) for operand in sources[:2])
    c = (getter64 if wide or high else getter)(sources[2], environment)

    def run(r: Registers) -> None:
        left, right, add = a(r), b(r), c(r)
        carry = carry_in(r) if carry_in is not None else 0
        total = None
        if add is not None and carry is not None:
            if left == 0 or right == 0:
                total = add + carry
            elif left is not None and right is not None:
                if signed:
                    left, right = _signed(left), _signed(right)
                total = left * right + add + carry
        if wide:
            put64(r, target, None if total is None else total & _MASK64)
            for place in carries:
                put(r, place, None if total is None else total >> 64 != 0)
        else:
            put(r, target, None if total is None else (total >> 32 if high else total) & _MASK)
            for place in carries:
                put(r, place, None)

    return run


def _shift_add(instruction: Instruction, environment: Environment) -> Operation | None:
    """LEA: (a << shift) + b; `.HI` uses the bits above 32 of a shifted pair."""
    target, carries, rest = _split(instruction.operands)
    words = set(instruction.modifiers)
    carry_in = predicate(rest.pop()) if "X" in words and is_predicate(rest[-1]) else None
    rest = [operand for operand in rest if not is_predicate(operand)]
    if "64" in words:
        return None
    getters = [getter(operand, environment) for operand in rest]
    high = "HI" in words

    def run(r: Registers) -> None:
        values = _values([*getters, *([carry_in] if carry_in is not None else [])], r)
        total = None
        if values is not None:
            carry = values.pop() if carry_in is not None else 0
            a, b, shift = values[0], values[1], values[-1]
            if high:
                upper = (
                    values[2] if len(values) > 3 else _MASK * (a >> 31) if "SX32" in words else 0
                )
                total = ((upper << 32 | a) << shift >> 32 & _MASK) + b + carry
            else:
                total = (a << shift & _MASK) + b + carry
        put(r, target, None if total is None else total & _MASK)
        for number, place in enumerate(carries):
            put(r, place, None if total is None else total >> 32 > number)

    return run


def _shift(instruction: Instruction, environment: Environment) -> Operation:
    """SHF: the low or high word (`.HI`) of a shifted pair."""
    words = set(instruction.modifiers)
    target = instruction.operands[0]
    getters = [getter(operand, environment) for operand in instruction.operands[1:4]]
    left, high = "L" in words, "HI" in words
    wide, signed = bool(words & {"U64", "S64"}), bool(words & {"S32", "S64"})

    def run(r: Registers) -> None:
        low, by, upper = (get(r) for get in getters)
        if by is None:
            return put(r, target, None)
        by = by & 63 if wide else min(by, 32)
        if not wide:
            # A single word is shifted: the low one to the left, the high one to the right.
            one = upper if high and not left else low
            if one is None:
                return put(r, target, None)
            one = _signed(one) if signed else one
            return put(r, target, (one << by if left else one >> by) & _MASK)
        if low is None or upper is None:
            return put(r, target, None)
        pair = upper << 32 | low
        pair = _signed(pair, 64) if signed else pair
        pair = (pair << by if left else pair >> by) & _MASK64
        return put(r, target, pair >> 32 if high else pair & _MASK)

    return run


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "LT": lambda a, b: a < b,
    "EQ": lambda a, b: a == b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "NE": lambda a, b: a != b,
    "GE": lambda a, b: a >= b,
    "T": lambda a, b: True,
    "F": lambda a, b: False,
}
_COMBINE: dict[str, Callable[[int | None, int | None], int | None]] = {
    "AND": lambda a, b: False if False in (a, b) else None if None in (a, b) else True,
    "OR": lambda a, b: True if True in (a, b) else None if None in (a, b) else False,
    "XOR": lambda a, b: None if None in (a, b) else a != b,
}


def _lut(table: int, values: Sequence[int], mask: int) -> int:
    found = 0
    for index, bits in enumerate(product((False, True), repeat=3)):
        if table >> index & 1:
            term = mask
            for value, is_set in zip(values, bits, strict=True):
                term &= value if is_set else ~value
            found |= term
    return found & mask


def _logic(instruction: Instruction, environment: Environment) -> Operation:
    """LOP3: any function of three bits, by a table. Its predicate is combined with the last operand."""
    operands = list(instruction.operands)
    flag = operands.pop(0) if is_predicate(operands[0]) else None
    combine = _COMBINE["AND" if "PAND" in instruction.modifiers else "OR"]
    with_ = predicate(operands[5] if len(operands) > 5 else "!PT")
    target = operands[0]
    getters = [getter(operand, environment) for operand in operands[1:4]]
    table = int(operands[4], 16)

    def run(r: Registers) -> None:
        found = [get(r) for get in getters]
        if None in found:
            # Unknown words do not matter if neither 0 nor 1 would change the result.
            tried = {
                _lut(table, [v if v is not None else w for v, w in zip(found, pick)], _MASK)
                for pick in product((0, _MASK), repeat=3)
            }
            result = tried.pop() if len(tried) == 1 else None
        else:
            result = _lut(table, [v & _MASK for v in found if v is not None], _MASK)
        put(r, target, result)
        if flag is not None:
            put(r, flag, combine(None if result is None else result != 0, with_(r)))

    return run


def _predicate_logic(instruction: Instruction, environment: Environment) -> Operation:
    """PLOP3: two functions of three predicates, by tables."""
    first, second, *sources = instruction.operands[:5]
    tables = [int(operand, 16) for operand in instruction.operands[5:7]]
    getters = [predicate(operand) for operand in sources]

    def run(r: Registers) -> None:
        found = [get(r) for get in getters]
        for target, table in zip((first, second), tables, strict=False):
            choices = product(*([bool(v)] if v is not None else [False, True] for v in found))
            tried = {table >> (4 * a + 2 * b + c) & 1 for a, b, c in choices}
            put(r, target, bool(tried.pop()) if len(tried) == 1 else None)

    return run


def _compare(instruction: Instruction, environment: Environment) -> Operation | None:
    """ISETP: a comparison combined with a predicate; `.EX` continues that of the low words."""
    words = instruction.modifiers
    name = next((word for word in words if word in _COMPARE), None)
    combine = next((_COMBINE[word] for word in words if word in _COMBINE), None)
    if name is None or combine is None:
        return None
    bits = 64 if {"U64", "S64"} & set(words) else 32
    signed, extended = not {"U32", "U64"} & set(words), "EX" in words
    first, second = instruction.operands[:2]
    a, b = (
        (getter64 if bits == 64 else getter)(operand, environment)
        for operand in instruction.operands[2:4]
    )
    with_ = predicate(instruction.operands[4])
    low = predicate(instruction.operands[5]) if extended else None
    compare, strict = _COMPARE[name], _COMPARE[name.replace("E", "T") if name[0] in "LG" else name]

    def holds(r: Registers) -> bool | None:
        left, right = a(r), b(r)
        if left is None or right is None:
            return None
        left, right = left & (1 << bits) - 1, right & (1 << bits) - 1
        if signed:
            left, right = _signed(left, bits), _signed(right, bits)
        if low is None:
            return compare(left, right)
        below = low(r)
        if left == right:
            return None if below is None else bool(below)
        return name == "NE" or (name != "EQ" and strict(left, right))

    def run(r: Registers) -> None:
        found, other = holds(r), with_(r)
        put(r, first, combine(found, other))
        put(r, second, combine(None if found is None else not found, other))

    return run


def _select(instruction: Instruction, environment: Environment) -> Operation:
    target, a, b, chosen = instruction.operands
    wide = "64" in instruction.modifiers
    read, write = (getter64, put64) if wide else (getter, put)
    first, second, which = read(a, environment), read(b, environment), predicate(chosen)

    def run(r: Registers) -> None:
        one, other, take = first(r), second(r), which(r)
        if take is None:
            write(r, target, one if one == other else None)
        else:
            found = one if take else other
            write(r, target, None if found is None else found & (_MASK64 if wide else _MASK))

    return run


def _extremum(instruction: Instruction, environment: Environment) -> Operation | None:
    """IMNMX: the minimum if the predicate is true, else the maximum."""
    words = set(instruction.modifiers)
    operands = [o for o in instruction.operands if not is_predicate(o)]
    chosen = [o for o in instruction.operands if is_predicate(o)]
    if len(operands) != 3 or not chosen:
        return None
    wide = bool(words & {"U64", "S64"})
    read, write = (getter64, put64) if wide else (getter, put)
    a, b = (read(operand, environment) for operand in operands[1:])
    target, least = operands[0], predicate(chosen[-1])
    signed, bits = not words & {"U32", "U64"}, 64 if wide else 32

    def run(r: Registers) -> None:
        values = _values([a, b], r)
        smaller = least(r)
        if values is None or smaller is None:
            return write(r, target, None)
        values = [_signed(v, bits) if signed else v & (1 << bits) - 1 for v in values]
        return write(r, target, (min if smaller else max)(values) & (1 << bits) - 1)

    return run


def _sum_extremum(instruction: Instruction, environment: Environment) -> Operation | None:
    """VIADDMNMX: the minimum of a sum and a third operand if the predicate is true, else the maximum."""
    operands = [o for o in instruction.operands if not is_predicate(o)]
    chosen = [o for o in instruction.operands if is_predicate(o)]
    if len(operands) != 4 or not chosen or "RELU" in instruction.modifiers:
        return None
    getters = [getter(operand, environment) for operand in operands[1:]]
    target, least = operands[0], predicate(chosen[-1])
    signed = "U32" not in instruction.modifiers

    def run(r: Registers) -> None:
        values, smaller = _values(getters, r), least(r)
        if values is None or smaller is None:
            return put(r, target, None)
        a, b, c = values
        compared = [_signed(v & _MASK) if signed else v & _MASK for v in (a + b, c)]
        return put(r, target, (min if smaller else max)(compared) & _MASK)

    return run


def _extend(instruction: Instruction, environment: Environment) -> Operation | None:
    if "W" in instruction.modifiers:
        return None
    signed = "U32" not in instruction.modifiers
    cut = lambda value, bits: _signed(value, bits) if signed and bits else value & (1 << bits) - 1  # noqa: E731
    return _plain(cut, count=2)(instruction, environment)


def _permute(a: int, selector: int, b: int) -> int:
    """PRMT: selects four of eight bytes; bit 3 of a selector replicates the sign."""
    held = (b << 32 | a).to_bytes(8, "little")
    found = 0
    for place in range(4):
        which = selector >> 4 * place & 15
        byte = held[which & 7]
        found |= (0xFF * (byte >> 7) if which & 8 else byte) << 8 * place
    return found


def _permutation(instruction: Instruction, environment: Environment) -> Operation | None:
    return None if instruction.modifiers else _plain(_permute, count=3)(instruction, environment)


def _leading_one(instruction: Instruction, environment: Environment) -> Operation | None:
    if set(instruction.modifiers) - {"U32"}:
        return None
    find = lambda value: value.bit_length() - 1  # noqa: E731
    return _plain(find, count=1)(instruction, environment)


def _to_float(instruction: Instruction, environment: Environment) -> Operation | None:
    """Converts integers to floats, as integer divisions start."""
    words = set(instruction.modifiers)
    if words - {"U32", "S32", "RP", "RZ", "F32"}:
        return None
    signed = "U32" not in words
    convert = lambda v: float_bits(float(_signed(v) if signed else v))  # noqa: E731
    return _plain(convert, count=1)(instruction, environment)


def _to_integer(instruction: Instruction, environment: Environment) -> Operation | None:
    words = set(instruction.modifiers)
    if "U32" not in words or "TRUNC" not in words:
        return None

    def convert(bits: int) -> int | None:
        value = bits_float(bits)
        return None if value != value else int(min(max(value, 0.0), float(_MASK)))

    return _plain(convert, count=1)(instruction, environment)


def _reciprocal(instruction: Instruction, environment: Environment) -> Operation | None:
    if instruction.modifiers != ("RCP",):
        return None

    def convert(bits: int) -> int | None:
        value = bits_float(bits)
        # Of others the reciprocal is subnormal, infinite or NaN, which hardware may flush.
        return float_bits(1.0 / value) if 2**-126 <= abs(value) <= 2**126 else None

    return _plain(convert, count=1)(instruction, environment)


def _byte_of(instruction: Instruction) -> int:
    """The bit position of the predicates in the register of `P2R` and `R2P`."""
    return next(
        (8 * int(word[1]) for word in instruction.modifiers if word in ("B1", "B2", "B3")), 0
    )


def _pack(instruction: Instruction, environment: Environment) -> Operation | None:
    """P2R: inserts the predicates of a mask into a register."""
    target, base, mask = instruction.operands[0], *instruction.operands[-2:]
    names, at = packed_predicates(instruction), _byte_of(instruction)
    if not mask.startswith("0x"):
        return None
    keep, cover = getter(base, environment), int(mask, 16) << at
    getters = [(at + int(name[1:]), predicate(name)) for name in names]

    def run(r: Registers) -> None:
        value = keep(r)
        bits = [(place, get(r)) for place, get in getters]
        if value is None or any(bit is None for _, bit in bits):
            return put(r, target, None)
        return put(r, target, value & ~cover & _MASK | sum(bool(b) << place for place, b in bits))

    return run


def _unpack(instruction: Instruction, environment: Environment) -> Operation | None:
    """R2P: extracts the predicates of a mask from a register."""
    source, mask = instruction.operands[-2:]
    if not mask.startswith("0x"):
        return None
    get, at = getter(source, environment), _byte_of(instruction)
    names = packed_predicates(instruction)

    def run(r: Registers) -> None:
        value = get(r)
        for name in names:
            put(r, name, None if value is None else bool(value >> at + int(name[1:]) & 1))

    return run


def _float_product(instruction: Instruction, environment: Environment) -> Operation | None:
    """FMUL, which some integer divisions use; always rounded to nearest."""
    if set(instruction.modifiers) - {"RZ"}:
        return None

    def convert(a: int, b: int) -> int | None:
        found = bits_float(a) * bits_float(b)
        return float_bits(found) if abs(found) < 3e38 else None

    return _plain(convert, count=2)(instruction, environment)


def _half_constant(instruction: Instruction, environment: Environment) -> Operation | None:
    """HFMA2 of zeros, by which ptxas writes a constant to a register."""
    if len(instruction.operands) != 5 or instruction.operands[1:3] != ("-RZ", "RZ"):
        return None
    try:
        high, low = (struct.pack("<e", float(word)) for word in instruction.operands[3:])
    except (ValueError, OverflowError):
        return None
    target, value = instruction.operands[0], struct.unpack("<I", low + high)[0]
    return lambda r: put(r, target, value)


def _true(instruction: Instruction, environment: Environment) -> Operation:
    """A wait that succeeds, or the election of the walked thread."""
    targets = [o for o in instruction.operands if is_predicate(o) and not o.startswith("!")][:1]
    others = [o for o in instruction.operands[:2] if o.startswith(("R", "UR"))]

    def run(r: Registers) -> None:
        for target in targets:
            put(r, target, True)
        for other in others:
            put(r, other, None)

    return run


def _wait(instruction: Instruction, environment: Environment) -> Operation | None:
    return _true(instruction, environment) if "PHASECHK" in instruction.modifiers else None


def _false(instruction: Instruction, environment: Environment) -> Operation:
    """FCHK: whether a division needs the slow path, which ordinary numbers do not."""
    target = instruction.operands[0]
    return lambda r: put(r, target, False)


def _vote(instruction: Instruction, environment: Environment) -> Operation:
    """Votes, in which all threads agree with the walked one."""
    word, flag, source = (
        instruction.operands[0],
        instruction.operands[1:-1],
        predicate(instruction.operands[-1]),
    )
    targets = [word] if is_predicate(word) else [o for o in flag if is_predicate(o)][:1]

    def run(r: Registers) -> None:
        value = source(r)
        for target in targets:
            put(r, target, value)
        if not is_predicate(word):
            put(r, word, None if value is None else _MASK * bool(value))

    return run


def _shuffle(instruction: Instruction, environment: Environment) -> Operation | None:
    """A broadcast from the first lane, which is the walked one."""
    if instruction.modifiers != ("IDX",) or instruction.operands[3] != "RZ":
        return None
    target, get = instruction.operands[1], getter(instruction.operands[2], environment)
    return lambda r: put(r, target, get(r))


def _words(instruction: Instruction) -> int | None:
    """The registers that an access to local memory moves; None for parts of one."""
    sizes = [word for word in instruction.modifiers if word not in ("LU", "EL", "EF", "NA")]
    return {"": 1, "64": 2, "128": 4}.get("".join(sizes))


def _local_names(operand: str, environment: Environment) -> Getter | None:
    match = _ADDRESS.match(operand)
    if match is None:
        return None
    base = getter(match[1] or "RZ", environment)
    offset = int(match[2], 16) if match[2] else 0
    return lambda r: None if (v := base(r)) is None else v + offset & _MASK


def _named(register: str, by: int) -> str:
    return register if register == "RZ" else f"R{int(register[1:]) + by}"


def _store_local(instruction: Instruction, environment: Environment) -> Operation | None:
    at = _local_names(instruction.operands[0], environment)
    source, count = instruction.operands[1].removesuffix(".reuse"), _words(instruction)
    if at is None or count is None:
        return None
    getters = [getter(_named(source, by), environment) for by in range(count)]

    def run(r: Registers) -> None:
        start = at(r)
        for by, get in enumerate(getters):
            if start is not None:
                put(r, f"{_LOCAL}{start + 4 * by}", get(r))

    return run


def _load_local(instruction: Instruction, environment: Environment) -> Operation | None:
    at = _local_names(instruction.operands[1], environment)
    target, count = instruction.operands[0], _words(instruction)
    if at is None or count is None:
        return None

    def run(r: Registers) -> None:
        start = at(r)
        for by in range(count):
            put(
                r, _named(target, by), None if start is None else r.get(f"{_LOCAL}{start + 4 * by}")
            )

    return run


RULES: dict[str, Rule] = {
    **dict.fromkeys(("MOV", "UMOV", "S2R", "S2UR"), _move),
    **dict.fromkeys(("R2UR",), _to_uniform),
    "CS2R": _zero,
    **dict.fromkeys(("LDC", "ULDC", "LDCU"), _load_constant),
    **dict.fromkeys(("IADD3", "UIADD3", "IADD", "UIADD", "VIADD", "UVIADD"), _add),
    **dict.fromkeys(("IMAD", "UIMAD"), _multiply),
    **dict.fromkeys(("LEA", "ULEA"), _shift_add),
    **dict.fromkeys(("SHF", "USHF"), _shift),
    **dict.fromkeys(("LOP3", "ULOP3"), _logic),
    **dict.fromkeys(("PLOP3", "UPLOP3"), _predicate_logic),
    **dict.fromkeys(("ISETP", "UISETP"), _compare),
    **dict.fromkeys(("SEL", "USEL"), _select),
    **dict.fromkeys(("IMNMX", "UIMNMX", "VIMNMX", "UVIMNMX"), _extremum),
    "VIADDMNMX": _sum_extremum,
    **dict.fromkeys(("SGXT", "USGXT"), _extend),
    **dict.fromkeys(("PRMT", "UPRMT"), _permutation),
    **dict.fromkeys(("FLO", "UFLO"), _leading_one),
    **dict.fromkeys(("POPC", "UPOPC"), _plain(lambda value: value.bit_count(), count=1)),
    **dict.fromkeys(("IABS", "UIABS"), _plain(lambda value: abs(_signed(value)), count=1)),
    **dict.fromkeys(("I2F", "I2FP", "UI2F", "UI2FP"), _to_float),
    **dict.fromkeys(("F2I", "UF2I"), _to_integer),
    "MUFU": _reciprocal,
    **dict.fromkeys(("FMUL", "UFMUL"), _float_product),
    **dict.fromkeys(("HFMA2",), _half_constant),
    **dict.fromkeys(("ELECT",), _true),
    "USETMAXREG": _true,
    "SYNCS": _wait,
    "FCHK": _false,
    **dict.fromkeys(("VOTE", "VOTEU"), _vote),
    "P2R": _pack,
    "R2P": _unpack,
    "SHFL": _shuffle,
    "STL": _store_local,
    "LDL": _load_local,
}
