"""Value names as MLIR's printers choose them.

A block names the results of all its operations before entering any nested region. A region continues
from the counters of the enclosing block at that point. Sibling regions may therefore reuse each
other's numbers and names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from xdsl.ir import Block, Operation, Region, SSAValue

from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.ops.control_flow import ForOp
from tilewright.dialects.cuda_tile.ops.reductions import ReduceOp

_AXIS = re.compile(r"\.(shape|strides)\.(\d+)")
_ITEM = re.compile(r"\.item\.(\d+)")


def as_python(text: str) -> str:
    """Rewrite Tile IR names in a text as the Python they come from: ``%q.shape[0]`` for
    ``%q.shape.0``, ``%pair[1]`` for ``%pair.item.1``."""
    return _ITEM.sub(r"[\1]", _AXIS.sub(r".\1[\2]", text))


@dataclass(slots=True)
class _Counters:
    value: int = 0
    argument: int = 0
    conflict: int = 0


@dataclass(slots=True)
class Names:
    """``of`` maps the id of a value to its name with ``%``. ``results`` maps the id of an operation to
    the text before it, such as ``%a, %b:2 = ``."""

    of: dict[int, str] = field(default_factory=dict)
    results: dict[int, str] = field(default_factory=dict)


def name_values(roots: Sequence[Operation], *, suggest: bool) -> Names:
    """Name all values in and under operations of one block.

    Values keep the names they were read with. With ``suggest``, other values get the names that their
    operations suggest instead of numbers.
    """
    naming = _Naming(suggest)
    counters = _Counters()
    for op in roots:
        naming.name_results(op, counters)
    for op in roots:
        for region in op.regions:
            naming.name_region(region, counters)
    return naming.names


class _Naming:
    def __init__(self, suggest: bool):
        self.suggest = suggest
        self.names = Names()
        self.used: set[str] = set()

    def name_region(self, region: Region, outer: _Counters) -> None:
        counters = replace(outer)
        taken: list[str] = []
        suggested = _argument_names(region) if self.suggest else ()
        for position, block in enumerate(region.blocks):
            if block.args:
                self._name_arguments(block, position == 0, suggested, counters, taken)
            for op in block.ops:
                if op.results:
                    self.name_results(op, counters, taken)
        for block in region.blocks:
            for op in block.ops:
                for inner in op.regions:
                    self.name_region(inner, counters)
        self.used.difference_update(taken)

    def _name_arguments(
        self,
        block: Block,
        is_entry: bool,
        suggested: Sequence[str],
        counters: _Counters,
        taken: list[str],
    ) -> None:
        for index, argument in enumerate(block.args):
            name = argument.name_hint
            if name is None and is_entry and index < len(suggested):
                name = suggested[index]
            elif name is None and is_entry:
                name = f"arg{counters.argument}"
                counters.argument += 1
            self.names.of[id(argument)] = "%" + self._unique(name, counters, taken)

    def name_results(
        self, op: Operation, counters: _Counters, taken: list[str] | None = None
    ) -> None:
        results = op.results
        if not results:
            return
        if taken is None:
            taken = []
        of = self.names.of
        if len(results) == 1:
            result = results[0]
            hint = result.name_hint or (self._suggestion(op, 0) if self.suggest else None)
            name = of[id(result)] = "%" + self._unique(hint, counters, taken)
            self.names.results[id(op)] = name + " = "
            return
        shown: list[str] = []
        for group, hint in self._groups(op):
            name = "%" + self._unique(hint, counters, taken)
            if len(group) == 1:
                of[id(group[0])] = name
                shown.append(name)
                continue
            for index, result in enumerate(group):
                of[id(result)] = f"{name}#{index}"
            shown.append(f"{name}:{len(group)}")
        self.names.results[id(op)] = ", ".join(shown) + " = "

    def _groups(self, op: Operation) -> Iterator[tuple[list[SSAValue], str | None]]:
        """Yield groups of results that share a name, with the suggested name."""
        named_one_by_one = (
            self.suggest and isinstance(op, TileOp) and len(op.RESULT_NAMES) == len(op.results)
        )
        group: list[SSAValue] = []
        first = 0
        for index, result in enumerate(op.results):
            apart = result.name_hint is None and named_one_by_one
            if group and (apart or result.name_hint != group[0].name_hint):
                yield group, self._wish(op, group[0], first)
                group, first = [], index
            group.append(result)
        yield group, self._wish(op, group[0], first)

    def _wish(self, op: Operation, result: SSAValue, index: int) -> str | None:
        if result.name_hint is not None or not self.suggest:
            return result.name_hint
        return self._suggestion(op, index)

    def _suggestion(self, op: Operation, index: int) -> str | None:
        return op.result_name(index) if isinstance(op, TileOp) else None

    def _unique(self, name: str | None, counters: _Counters, taken: list[str]) -> str:
        if name is None:
            counters.value += 1
            return str(counters.value - 1)
        unique = name
        while unique in self.used:
            unique = f"{name}_{counters.conflict}"
            counters.conflict += 1
        self.used.add(unique)
        taken.append(unique)
        return unique


def _argument_names(region: Region) -> Sequence[str]:
    """Return the names that an operation suggests for the arguments of its body."""
    op = region.parent
    count = len(region.blocks[0].args) if region.blocks else 0
    if isinstance(op, ForOp):
        return ["loopIdx", *(f"iterArg{i}" for i in range(count - 1))]
    if isinstance(op, ReduceOp):
        if count == 2:
            return ["reduce_lhs", "reduce_rhs"]
        return [f"reduce_{'rhs' if i % 2 else 'lhs'}{i // 2}" for i in range(count)]
    return ()
