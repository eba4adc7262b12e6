"""Launches that can be sent to another process: a module as bytecode, a grid, and arguments."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.campaign.jobs import content_key
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.launching.described import ArrayValue, ListValue, Value, row_of
from tilewright.numerics.arrays import Array

#: Larger arrays are replaced by zeros: their contents only affect loops that depend on data.
MOST_FILLED = 1 << 22


@dataclass(frozen=True, eq=False)
class Zeros:
    """An array of which only dtype and shape are kept."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @cached_property
    def array(self) -> Array:
        """Zeros in place of the array, allocated on first use."""
        return np.zeros(self.shape, self.dtype)


@dataclass(frozen=True, eq=False)
class KeptList:
    """A list of arrays, which a kernel receives as a table of addresses, extents and strides (``numbers``)."""

    items: tuple[Array | Zeros, ...]
    numbers: tuple[tuple[int, ...], ...]

    @property
    def arrays(self) -> list[Array]:
        """The arrays of the list, with zeros for those that were not kept."""
        return [item.array if isinstance(item, Zeros) else item for item in self.items]

    @property
    def table(self) -> Array:
        """The table, with the addresses of the arrays in this process."""
        rows = [
            [array.__array_interface__["data"][0], *numbers]
            for array, numbers in zip(self.arrays, self.numbers, strict=True)
        ]
        return np.array(rows, np.int64).reshape(-1)


@dataclass(frozen=True, eq=False)
class KeptLaunch:
    """A launch. ``decisions`` are those of the compiler, by name.

    ``args``: numbers, arrays and, for large ones, ``Zeros``, as for ``tilewright.run``; equal arrays are one object. A
    ``KeptList`` stands for the table of a list.
    """

    name: str
    module: bytes
    entry: str
    grid: tuple[int, int, int]
    args: tuple[object, ...]
    decisions: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def arguments(self) -> list[object]:
        """The arguments, with all arrays and tables allocated."""
        return [_whole(arg) for arg in self.args]

    @property
    def memory(self) -> list[Array]:
        """The arrays that the kernel accesses through the tables of lists."""
        lists = (arg for arg in self.args if isinstance(arg, KeptList))
        return [array for each in lists for array in each.arrays]

    @cached_property
    def key(self) -> str:
        """A hash of everything on which the modelled time depends. It excludes the contents of floating-point arrays:
        they only affect loops that depend on them, and are often random.
        """
        seen: dict[int, int] = {}
        told: list[object] = []

        def tell(arg: object) -> object:
            if isinstance(arg, Zeros | np.ndarray):
                number = seen.setdefault(id(arg), len(seen))
                return [number, str(arg.dtype), list(arg.shape), _content(arg)]
            if isinstance(arg, KeptList):
                return [
                    [tell(item), list(n)] for item, n in zip(arg.items, arg.numbers, strict=True)
                ]
            return repr(arg)

        told += map(tell, self.args)
        decided = sorted(map(repr, self.decisions.items()))
        return content_key(self.module, self.entry, list(self.grid), told, decided)


def _whole(arg: object) -> object:
    if isinstance(arg, Zeros):
        return arg.array
    return arg.table if isinstance(arg, KeptList) else arg


def _content(array: Zeros | Array) -> str:
    if isinstance(array, Zeros) or array.dtype.kind not in "iub":
        return ""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def keep_launch(
    name: str, module: ModuleOp, entry: str, grid: tuple[int, int, int], args: Sequence[object]
) -> KeptLaunch:
    """Keep a launch of a verified module. Arguments with the same memory stay one array; of large ones only dtype and
    shape are kept.

    Other arrays are copied, in row-major order. Raises ``TileIRError`` for a module that bytecode cannot hold.
    """
    from tilewright.bytecode import write

    keeper = _Keeper()
    kept = [keeper.keep(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
    return KeptLaunch(name, write(module), entry, grid, tuple(kept))


def keep_described(
    name: str, module: ModuleOp, entry: str, grid: tuple[int, int, int], values: Sequence[Value]
) -> KeptLaunch:
    """Keep a launch with arguments that a client has described, as ``keep_launch`` does."""
    from tilewright.bytecode import write

    keeper, kept = _Keeper(), list[object]()
    for value in values:
        if isinstance(value, ArrayValue):
            layout = value.layout
            kept += [keeper.keep(row_of(value)), *layout.shape, *layout.strides]
        elif isinstance(value, ListValue):
            rows = tuple(keeper.keep(row_of(item)) for item in value.items)
            numbers = tuple((*i.layout.shape, *i.layout.strides) for i in value.items)
            kept += [KeptList(rows, numbers), len(rows)]
        else:
            kept.append(value.item())
    return KeptLaunch(name, write(module), entry, grid, tuple(kept))


class _Keeper:
    """Keeps each array once."""

    def __init__(self) -> None:
        self._made: dict[tuple[object, ...], Array | Zeros] = {}

    def keep(self, array: Array) -> Array | Zeros:
        place = array.__array_interface__["data"][0], array.dtype, array.shape, array.strides
        if place not in self._made:
            if array.size > MOST_FILLED:
                self._made[place] = Zeros(array.dtype, array.shape)
            else:
                # Copied because a kernel may receive a read-only array, and may be measured in this process.
                self._made[place] = np.array(array, order="C")
        return self._made[place]


def with_hints(module: ModuleOp, entry: str, hints: Mapping[str, Any]) -> ModuleOp:
    """A copy of a module whose entry has these hints; the module is not changed."""
    from tilewright.tuning.hints import set_hints

    copy = module.clone()
    set_hints(copy.entry(entry), hints)
    return copy
