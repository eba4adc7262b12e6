"""Arguments of ``tilewright profile``: the SPECs of ``tilewright run``, of which only the sizes matter."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.cli.session import UsageError
from tilewright.numerics.strides import row_major

#: The addresses of the modelled launch's arrays: far apart and well aligned.
_FIRST_ADDRESS, _APART = 1 << 36, 1 << 36
_NAMED = re.compile(r"(?P<name>[A-Za-z_][\w$.\-]*)=(?P<spec>.*)", re.DOTALL)
_ARRAY = re.compile(
    r"(random|normal|zeros|ones|iota|full):(?P<element>\w+):(?P<dims>\d+(x\d+)*)(:.*)?"
)
_NUMBER = re.compile(r"(?:\w+:)?(?P<number>[-+]?[\d.]+(e[-+]?\d+)?|true|false)")


@dataclass(frozen=True, slots=True)
class Arguments:
    """Values of parameters in order, None for those not given, and the total bytes of the arrays, None if none was
    given."""

    values: tuple[int | float | None, ...]
    array_bytes: int | None


def read_arguments(given: Sequence[str], names: Sequence[str]) -> Arguments:
    """Parse ``--arg`` options for parameters of these names. Raises UsageError for malformed options and for
    too many."""
    values: list[int | float | None] = [None] * len(names)
    total: int | None = None
    arrays = 0
    for text in given:
        named = _NAMED.fullmatch(text)
        spec = named["spec"] if named else text
        at = _place(named["name"] if named else None, names, values, text)
        whole = spec.startswith("array:")
        found = _array(spec.removeprefix("array:"))
        if found is None:
            numbers: list[int | float] = [_number(spec, text)]
        else:
            extents, size = found
            total = (total or 0) + size
            numbers = [_FIRST_ADDRESS + arrays * _APART]
            arrays += 1
            numbers += [*extents, *row_major(extents)] if whole else []
        if at + len(numbers) > len(values):
            raise UsageError.because(
                f"'{text}' is for {len(numbers)} parameters from '{names[at]}' on; the kernel has {len(names)}"
            )
        values[at : at + len(numbers)] = numbers
    return Arguments(tuple(values), total)


def _place(name: str | None, names: Sequence[str], values: Sequence[object], text: str) -> int:
    if name is None:
        free = next((at for at, value in enumerate(values) if value is None), None)
        if free is None:
            raise UsageError.because(f"'{text}' is one argument too many; parameters: {len(names)}")
        return free
    if name in names:
        return list(names).index(name)
    if (numbered := re.fullmatch(r"arg(\d+)", name)) and int(numbered[1]) < len(names):
        return int(numbered[1])
    raise UsageError.because(
        f"there is no parameter '{name}'", help=f"there are: {', '.join(names) or 'none'}"
    )


def _array(spec: str) -> tuple[list[int], int] | None:
    """Return extents and bytes of an array, or None if the SPEC is not one."""
    if spec.endswith(".npy"):
        from tilewright.cli.array_files import array_size

        return array_size(spec)
    match = _ARRAY.fullmatch(spec)
    if match is None:
        return None
    from tilewright.numerics import FORMATS

    if match["element"] not in FORMATS:
        raise UsageError.because(f"'{spec}': there is no element type '{match['element']}'")
    extents = [int(extent) for extent in match["dims"].split("x")]
    return extents, math.prod(extents) * FORMATS[match["element"]].bits // 8


def _number(spec: str, text: str) -> int | float:
    match = _NUMBER.fullmatch(spec)
    word = match["number"] if match else ""
    if word in ("true", "false"):
        return int(word == "true")
    try:
        return int(word)
    except ValueError:
        pass
    try:
        return float(word)
    except ValueError:
        raise UsageError.because(
            f"'{text}' is neither a number nor an array",
            help="for example `4096`, `1.5`, `zeros:f16:4096x4096` or `array:zeros:f16:4096x4096`",
        ) from None
