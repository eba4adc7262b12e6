"""A run stopped at an operation, for inspection."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.diagnostics import ByteSpan
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.debug_info import source_position
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.dialects.source_map import location_of
from tilewright.machine.inspect.stats import DEFAULT_BINS, TileStats, numbers_of, tile_stats
from tilewright.machine.values import TensorView
from tilewright.numerics.arrays import PTR, Array, is_numpy

When = Literal["before", "after"]
Value = Array | TensorView

_SHOWN_ELEMENTS = 8


class StopRun(Exception):
    """Raised by a breakpoint's action to end the run. Arrays keep what was written."""


@dataclass(frozen=True, slots=True, eq=False)
class Stop:
    """One execution of an operation by a tile block, about to begin or just ended.

    ``operands`` and ``results`` are keyed by name, with ``%``, as ``tilewright dis`` prints them: tiles
    as read-only arrays (pointers as uint64), views as ``TensorView``; tokens are skipped. Before the
    operation there are no results. ``hit`` counts the executions that matched the breakpoint, from 1,
    including those it skips. ``variables`` are all named tiles that are known before the operation; of
    ``%total`` and ``%total.1``, ``total`` is the later.
    """

    op: Operation
    block: tuple[int, int, int]
    when: When
    hit: int
    operands: Mapping[str, Value]
    results: Mapping[str, Value]
    types: Mapping[str, Attribute]
    variables: Mapping[str, Value] = field(default_factory=dict[str, "Value"], repr=False)

    def __getitem__(self, name: str) -> Value:
        """Return a result or operand by name, with or without ``%``."""
        key = name if name.startswith("%") else f"%{name}"
        for values in (self.results, self.operands):
            if key in values:
                return values[key]
        known = ", ".join({**self.operands, **self.results}) or "none"
        raise KeyError(f"'{self.op.name}' has no value {key} here; values: {known}")

    def stats(self, name: str, *, bins: int = DEFAULT_BINS) -> TileStats:
        """Return the statistics of a tile by name, with or without ``%``.

        Raises KeyError for an unknown name, TypeError for a view, ValueError for less than one bin.
        """
        value = self[name]
        if isinstance(value, TensorView):
            raise TypeError(f"{name} is a view, not a tile")
        key = name if name.startswith("%") else f"%{name}"
        return tile_stats(value, element=element_name(self.types[key]), bins=bins)

    @property
    def location(self) -> str:
        """``file:line`` in the module's text; the byte offset in a bytecode module."""
        return describe_location(self.op)

    @property
    def source(self) -> str | None:
        """``file:line`` in the kernel's own source, or None without debug information."""
        return describe_source(self.op)

    def __str__(self) -> str:
        """Return a few lines: location, tile block, and every value."""
        source = f" ({self.source})" if self.source else ""
        where = "before" if self.when == "before" else "at"
        lines = [f"{where} {self.op.name} {self.location}{source}, tile block {self.block}"]
        for values in (self.operands, self.results):
            lines += [
                f"  {name}: {describe_value(value, self.types[name])}"
                for name, value in values.items()
            ]
        return "\n".join(lines)


def print_stop(stop: Stop) -> None:
    """Print a stop to standard output. The default action of a breakpoint."""
    print(stop)


def look_at(value: object) -> Value | None:
    """Return a register in a form that may be shown; None for a token.

    An array is a read-only view of the tile, and changes when the machine reuses its memory.
    """
    if isinstance(value, TensorView):
        return value
    if not is_numpy(value):
        return None
    # Tiles may share memory with others in the machine, which must not be modified.
    array = np.asarray(value).view()
    array.flags.writeable = False
    return array


def element_name(ty: Attribute) -> str:
    """Return the element type of a tile, ``ptr`` for pointers."""
    assert isinstance(ty, T.TileType)
    return PTR if isinstance(ty.element_type, T.PtrType) else ty.element


def describe_value(value: Value, ty: Attribute) -> str:
    """Return the type, followed by the number, the elements if few, or the statistics."""
    shown = format_type(ty)
    if isinstance(value, TensorView):
        shape, strides = list(value.shape), list(value.strides)
        return f"{shown} at {value.base:#x}, shape {shape}, strides {strides}"
    element = element_name(ty)
    if value.size <= _SHOWN_ELEMENTS:
        return f"{shown} = {format_elements(value, element)}"
    return f"{shown} {tile_stats(value, element=element)}"


_Numbers: TypeAlias = "int | float | list[_Numbers]"


def format_elements(array: Array, element: str) -> str:
    """Format all elements in brackets, pointers in hexadecimal."""
    numbers = numbers_of(array, element)

    def layout(part: _Numbers) -> str:
        if isinstance(part, list):
            return "[" + ", ".join(map(layout, part)) + "]"
        if isinstance(part, float):
            return f"{part:.6g}"
        return f"{part:#x}" if element == PTR else str(part).lower()

    return layout(numbers.tolist())


def describe_location(op: Operation) -> str:
    """Return ``FILE:LINE`` of an operation, or its byte offset in bytecode; ``(no place)`` if unknown."""
    location = location_of(op)
    if location is None:
        return "(no place)"
    if isinstance(location, ByteSpan):
        return f"{location.file_name}: byte {location.offset:#x}"
    return f"{location.file_name}:{location.line}"


def describe_source(op: Operation) -> str | None:
    """Return ``FILE:LINE`` in the program that the kernel was made from, or None if unknown."""
    position = source_position(op.location)
    return None if position is None else f"{position[0]}:{position[1]}"


_VARIABLE = re.compile(r"(?P<name>[^\W\d]\w*)(?:\.\d+)?")


def visible_tiles(op: Operation) -> dict[str, SSAValue]:
    """Return the named tiles known before an operation; the latest of each name."""
    levels: list[list[SSAValue]] = []
    current: Operation | None = op
    while current is not None and (block := current.parent) is not None:
        own: list[SSAValue] = list(block.args)
        for before in block.ops:
            if before is current:
                break
            own += before.results
        levels.append(own)
        current = block.parent_op()
    found: dict[str, SSAValue] = {}
    for value in (value for own in reversed(levels) for value in own):
        named, ty = _VARIABLE.fullmatch(value.name_hint or ""), value.type
        if named and isinstance(ty, T.TileType) and not isinstance(ty.element_type, T.PtrType):
            found[named["name"]] = value
    return found


def named_values(values: tuple[SSAValue, ...], names: Mapping[int, str]) -> dict[str, SSAValue]:
    """Return the values that are not tokens by name, each once."""
    return {names[id(value)]: value for value in values if not isinstance(value.type, T.TokenType)}
