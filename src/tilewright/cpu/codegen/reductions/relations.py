"""What bodies ask of two floats, by the least comparisons.

An argmax asks which number is larger, which one is NaN, and whether they are equal, seven comparisons in all. What comes of
them depends on six cases only: the order of two numbers, and who is NaN. Two comparisons tell most of these apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from xdsl.ir import Operation, SSAValue

from tilewright.cpu.codegen.elementwise.floats import cmpf
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, element_of
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.dialects.arith import AndIOp, CmpfOp, OrIOp

#: The cases of two floats: the first one less, equal, greater; only it is NaN, only the second one, both are.
_LESS, _EQUAL, _GREATER, _FIRST, _SECOND, _BOTH = (1 << case for case in range(6))
_ALL: Final = 63
_NAN: Final = _FIRST | _SECOND | _BOTH
_ORDERS = {
    "equal": _EQUAL,
    "not_equal": _LESS | _GREATER,
    "less_than": _LESS,
    "less_than_or_equal": _LESS | _EQUAL,
    "greater_than": _GREATER,
    "greater_than_or_equal": _GREATER | _EQUAL,
}
_SWAPPED = {_LESS: _GREATER, _GREATER: _LESS, _FIRST: _SECOND, _SECOND: _FIRST}
#: The first one is NaN, the second one is, and either may be.
_IS_NAN = {(0, 0): _FIRST | _BOTH, (1, 1): _SECOND | _BOTH}

#: A comparison of the values with two of these numbers: a predicate, and whether it holds for NaN.
_Question = tuple[int, int, str, bool]


@dataclass(frozen=True, slots=True)
class Relation:
    """In which cases of two floats an i1 is true; ``second`` is ``first`` where only one is asked about."""

    first: SSAValue
    second: SSAValue
    cases: int

    @classmethod
    def of(
        cls, op: Operation, known: Callable[[SSAValue], Relation | bool | None]
    ) -> Relation | bool | None:
        """What an operation gives whose operands are ``known``; None where it is no matter of two floats."""
        if isinstance(op, CmpfOp):
            reading = op.READINGS[op.predicate_name]
            cases = _ORDERS[reading["comparison_predicate"]]
            if reading["comparison_ordering"] == "unordered":
                cases |= _NAN
            lhs, rhs = op.operands
            return cls(lhs, rhs, cases)
        if not isinstance(op, AndIOp | OrIOp):
            return None
        sides = [known(operand) for operand in op.operands]
        is_or = isinstance(op, OrIOp)
        for side, other in (sides, sides[::-1]):
            if isinstance(side, bool):
                return side if side == is_or else other
        lhs, rhs = sides
        if not isinstance(lhs, Relation) or not isinstance(rhs, Relation):
            return None
        pair = list(dict.fromkeys((lhs.first, lhs.second, rhs.first, rhs.second)))
        if len(pair) > 2:
            return None
        first, second = pair[0], pair[-1]
        left, right = (side.about(first, second) for side in (lhs, rhs))
        return cls(first, second, left | right if is_or else left & right)

    def about(self, first: SSAValue, second: SSAValue) -> int:
        """The cases of these two, among which are the own ones."""
        if self.first is self.second:
            if first is second:
                return self.cases
            # Alone it equals itself, or is NaN twice.
            is_nan = _IS_NAN[0, 0] if self.first is first else _IS_NAN[1, 1]
            found = is_nan if self.cases & _BOTH else 0
            return found | (_ALL & ~is_nan if self.cases & _EQUAL else 0)
        if self.first is first:
            return self.cases
        return _turned(self.cases)

    def emit(self, b: Builder, value: Callable[[SSAValue], Value]) -> Value | None:
        """Ask for it by the fewest comparisons; None where that takes more than two."""
        pair = self.first, self.second
        found = _recipes()[1 if self.first is self.second else 2].get(self.cases & self._possible)
        if found is None:
            return None
        questions, joins = found
        operands = [value(each) for each in pair]
        element = element_of(self.first.type)
        answers = [
            cmpf(
                b,
                operands[x],
                operands[y],
                element=element,
                comparison_predicate=predicate,
                comparison_ordering="unordered" if of_nan else "ordered",
            )
            for x, y, predicate, of_nan in questions
        ]
        if not answers:
            lanes = max(llvm.lanes_of(operand.type) for operand in operands)
            return llvm.splat_constant(llvm.number(I1, int(joins == "or")), lanes)
        if len(answers) == 1:
            return answers[0]
        return (b.or_ if joins == "or" else b.and_)(*answers)

    @property
    def _possible(self) -> int:
        return _EQUAL | _BOTH if self.first is self.second else _ALL


def _turned(cases: int) -> int:
    """The cases of the same two in the other order."""
    return sum(_SWAPPED.get(1 << n, 1 << n) for n in range(6) if cases >> n & 1)


def _answer(question: _Question) -> int:
    x, y, predicate, of_nan = question
    if x == y:
        is_nan = _IS_NAN[x, y]
        return is_nan if of_nan else _ALL & ~is_nan
    return _ORDERS[predicate] | (_NAN if of_nan else 0)


@cache
def _recipes() -> dict[int, dict[int, tuple[Sequence[_Question], str]]]:
    """For one value and for two: the questions by the cases that they tell from the others, and how answers are joined."""
    alone: list[_Question] = [
        (n, n, *kind) for n in (0, 1) for kind in (("equal", False), ("not_equal", True))
    ]
    pairs: list[_Question] = [(0, 1, name, of_nan) for name in _ORDERS for of_nan in (False, True)]
    found: dict[int, dict[int, tuple[Sequence[_Question], str]]] = {}
    for count, mask in ((1, _EQUAL | _BOTH), (2, _ALL)):
        table: dict[int, tuple[Sequence[_Question], str]] = {0: ((), "and"), mask: ((), "or")}
        singles = [q for q in [*alone, *pairs] if count == 2 or q[:2] == (0, 0)]
        for question in singles:
            table.setdefault(_answer(question) & mask, ((question,), ""))
        for one in singles:
            for other in singles:
                table.setdefault(_answer(one) & _answer(other) & mask, ((one, other), "and"))
                table.setdefault((_answer(one) | _answer(other)) & mask, ((one, other), "or"))
        found[count] = table
    return found
