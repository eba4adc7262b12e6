"""Decisions that a user makes in place of the compiler (``--decide``, ``--decisions``, ``tune --search``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from tilewright.diagnostics import TileIRError, define_code
from tilewright.model.choices import RING_STAGES

BAD_DECISION = define_code(
    "bad-decision",
    "A decision for the compiler is unknown or out of range.",
    "`--decide NAME=VALUE` takes warps=1 to 32, stages=1, 2, 3, 4, 6 or 8, agents=on or off, "
    "grid=ROWSxCOLUMNS (of warps over a product), width=1 to 16 (bytes of an access of a thread), "
    "band=0 (the order of the grid) or 2 to 1024, resident=0 (as many as fit) to 32 (blocks "
    "per multiprocessor), and parts (of tiles) and depths (of products along k) = 1 (the whole), 2, "
    "4, 8 or 16.",
)
#: The most blocks of a band.
WIDEST_BAND = 1024
#: The most blocks that a multiprocessor holds.
_MOST_RESIDENT = 32
#: The parts that a tile is worked through in, or a product is made in.
PARTS = (1, 2, 4, 8, 16)
_POWERS = (1, 2, 4, 8, 16, 32)
_GRID = re.compile(r"(\d+)x(\d+)")


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decisions about a kernel; the compiler makes those that are None.

    ``warps`` of a block, in the place of a hint, too. ``stages`` of rings, as far as there is room. ``agents``: whether some warps fill
    pipelines, where there are any. ``grid``: warps along the rows and columns of a product, where there are as many.
    ``width``: the bytes that a thread moves at once at most. ``band``: the width of the bands that blocks go through; 0: the order of the grid.
    ``resident``: the blocks that a multiprocessor holds at most; 0: as many as fit. ``parts``: those in which a block works through
    its tiles, if it can; 1: as a whole. ``depths``: those along k in which products with large operands are made, 1: as a whole.
    """

    warps: int | None = None
    stages: int | None = None
    agents: bool | None = None
    grid: tuple[int, int] | None = None
    width: int | None = None
    band: int | None = None
    resident: int | None = None
    parts: int | None = None
    depths: int | None = None

    @staticmethod
    def of(given: Mapping[str, object]) -> Decisions:
        """Decisions by their names: numbers, or the words of the command line.

        Raises ``TileIRError`` (``bad-decision``) for unknown names, and for values out of range.
        """
        made = Decisions()
        for name, value in given.items():
            if name not in _READ:
                raise _bad(f"no decision is called '{name}'; known: {', '.join(_READ)}")
            made = replace(made, **{name: _READ[name](value)})
        return made

    @staticmethod
    def parse(words: Iterable[str]) -> Decisions:
        """Decisions that are written ``NAME=VALUE``.

        Raises ``TileIRError`` (``bad-decision``) for any other form, a name given twice, and what ``of`` refuses.
        """
        given: dict[str, object] = {}
        for word in words:
            name, equals, value = word.partition("=")
            if not equals:
                raise _bad(f"expected NAME=VALUE, found '{word}'")
            if name in given:
                raise _bad(f"{name} is decided twice")
            given[name] = value
        return Decisions.of(given)

    def as_data(self) -> dict[str, Any]:
        """What is decided, by name, as JSON has it."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        written = {name: value for name, value in held.items() if value is not None}
        if self.grid is not None:
            written["grid"] = "{}x{}".format(*self.grid)
        return written


#: No decisions: the compiler makes all.
FREE = Decisions()


def _number(name: str, allowed: Callable[[int], bool], expected: str) -> Callable[[object], int]:
    def read(value: object) -> int:
        if isinstance(value, str) and value.strip().isdigit():
            value = int(value)
        if type(value) is not int or not allowed(value):
            raise _bad(f"{name}={value}: expected {expected}")
        return value

    return read


def _switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value not in ("on", "off"):
        raise _bad(f"agents={value}: expected on or off")
    return value == "on"


def _grid(value: object) -> tuple[int, int]:
    found = _GRID.fullmatch(value) if isinstance(value, str) else None
    rows, columns = (int(found[1]), int(found[2])) if found else (0, 0)
    if rows not in _POWERS or columns not in _POWERS or rows * columns > _POWERS[-1]:
        raise _bad(f"grid={value}: expected ROWSxCOLUMNS, powers of two, at most 32 warps")
    return rows, columns


_READ: dict[str, Callable[[object], Any]] = {
    "warps": _number("warps", _POWERS.__contains__, "1, 2, 4, 8, 16 or 32"),
    "stages": _number("stages", RING_STAGES.__contains__, ", ".join(map(str, RING_STAGES))),
    "agents": _switch,
    "grid": _grid,
    "width": _number("width", (1, 2, 4, 8, 16).__contains__, "1, 2, 4, 8 or 16"),
    "band": _number("band", lambda n: n == 0 or 2 <= n <= WIDEST_BAND, f"0, or 2 to {WIDEST_BAND}"),
    "resident": _number("resident", lambda n: 0 <= n <= _MOST_RESIDENT, f"0 to {_MOST_RESIDENT}"),
    "parts": _number("parts", PARTS.__contains__, "1, 2, 4, 8 or 16"),
    "depths": _number("depths", PARTS.__contains__, "1, 2, 4, 8 or 16"),
}


def _bad(message: str) -> TileIRError:
    return TileIRError.single(BAD_DECISION, message)
