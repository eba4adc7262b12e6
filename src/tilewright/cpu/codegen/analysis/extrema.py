"""Which extrema of floats belong to networks, such as those that sort: integers in the order of floats pay there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue

from tilewright.cpu.codegen.elementwise.float_keys import has_keys
from tilewright.cpu.codegen.ir.elements import element_of
from tilewright.cpu.target import CpuTarget
from tilewright.dialects import facts
from tilewright.dialects.arith import SelectOp
from tilewright.dialects.facts import Elements
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import is_set

_EXTREMA = frozenset({"maxf", "minf"})
_MOVES = frozenset({Elements.RESHAPED, Elements.MOVED})
#: What it costs to make an integer in the order of the floats of one, to make a float of it again, an extremum of such integers, and
#: one of floats, in instructions; f16 and bf16 are widened for that, and rounded.
_THERE, _BACK, _ONE, _OF_FLOATS, _OF_HALVES = 4, 6, 2, 6, 13


def find_by_keys(ops: Iterable[Operation], target: CpuTarget) -> set[SSAValue]:
    """The results of extrema that are cheaper as those of integers, with all that they are linked to, also by operations that
    only move and choose elements."""
    links = _Links()
    extrema: list[Operation] = []
    for op in ops:
        if facts.meaning(op) in _EXTREMA:
            if has_keys(element_of(op.results[0].type), target) and not is_set(op, "flush_to_zero"):
                extrema.append(op)
                links.join(op, op.operands)
        elif taken := _taken(op):
            links.join(op, taken)
    networks: dict[SSAValue, list[Operation]] = defaultdict(list)
    for op in extrema:
        networks[links.top(op.results[0])].append(op)
    return {op.results[0] for network in networks.values() if _pays(network) for op in network}


def _taken(op: Operation) -> list[SSAValue]:
    """The values of which an operation gives some elements as they are."""
    if isinstance(op, SelectOp):
        return list(op.operands[1:])
    if facts.elements(op) not in _MOVES:
        return []
    return [value for value in op.operands if isinstance(value.type, T.TileType)]


class _Links:
    """Values that are linked to one another: a forest, each tree of which is one set."""

    def __init__(self) -> None:
        self._above: dict[SSAValue, SSAValue] = {}

    def top(self, value: SSAValue) -> SSAValue:
        """What stands for all values that are linked to one."""
        found = value
        while (above := self._above.get(found)) is not None:
            found = above
        while (above := self._above.get(value)) is not None:
            self._above[value], value = found, above
        return found

    def join(self, op: Operation, values: Iterable[SSAValue]) -> None:
        """Link the result of an operation to values."""
        for value in values:
            one, other = self.top(op.results[0]), self.top(value)
            if one is not other:
                self._above[other] = one


def _pays(network: list[Operation]) -> bool:
    """Whether integers are cheaper for a network than floats."""
    borders = _Borders(set(network))
    given = {value for op in network for value in op.operands if not borders.comes_from(value)}
    left = sum(not borders.stays(op.results[0]) for op in network)
    is_half = element_of(network[0].results[0].type).format.bits == 16
    before = len(network) * (_OF_HALVES if is_half else _OF_FLOATS)
    return _ONE * len(network) + _THERE * len(given) + _BACK * left < before


class _Borders:
    """Where elements come to a network, and leave it."""

    def __init__(self, network: set[Operation]) -> None:
        self._network = network
        self._made: dict[SSAValue, bool] = {}
        self._kept: dict[SSAValue, bool] = {}

    def comes_from(self, value: SSAValue) -> bool:
        """Whether all elements of a value are made by the network."""
        if (known := self._made.get(value)) is None:
            owner = value.owner
            taken = _taken(owner) if isinstance(owner, Operation) else []
            known = owner in self._network or (bool(taken) and all(map(self.comes_from, taken)))
            self._made[value] = known
        return known

    def stays(self, value: SSAValue) -> bool:
        """Whether nothing but the network looks at the elements of a value."""
        if (known := self._kept.get(value)) is None:
            known = self._kept[value] = all(
                use.operation in self._network
                or (value in _taken(use.operation) and self.stays(use.operation.results[0]))
                for use in value.uses
            )
        return known
