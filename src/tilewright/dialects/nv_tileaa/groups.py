"""Divides the operands that a text shows into the groups of an operation.

A text lists operands, bracketed indices apart, and their types in operand order. Which of them are
masks, fallback values or tokens follows from ``operandSegmentSizes``, or else from the types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NoReturn, TypeVar

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute
from xdsl.irdl import AttrSizedOperandSegments
from xdsl.parser import Parser, UnresolvedOperand

from tilewright.dialects.declare import DeclaredOp, Group
from tilewright.dialects.nv_tileaa import codes
from tilewright.dialects.source_map import Part
from tilewright.dialects.syntax.engine import ParseState
from tilewright.dialects.syntax.tokens import fail, previous_end

SEGMENTS = "operandSegmentSizes"
#: Names under which directives leave what they read until the groups are known.
WRITTEN, RESULTS = "operands", "results"
BRACKETED = "bracketed"

_ItemT = TypeVar("_ItemT")


class GroupedOp(DeclaredOp):
    """An operation whose text lists its operands without saying to which group each belongs.

    * ``BRACKETS``: the operand group that is written in brackets behind the first one;
    * ``fits``: which divisions of the operands into groups can be meant.
    """

    BRACKETS: ClassVar[str] = ""

    @classmethod
    def fits(cls, sizes: Mapping[str, int], results: Sequence[Attribute]) -> bool:
        """Whether operands divided so can be meant, given the types of the results."""
        return True


@dataclass(frozen=True, slots=True)
class Groups:
    """The operand groups of an operation class, and the names of its results."""

    operands: tuple[Group, ...]
    results: tuple[str, ...]
    leaves_out_token: bool

    def sizes(self, count: int) -> Iterator[tuple[int, ...]]:
        """Every way to divide ``count`` operands."""
        yield from self._sizes(0, count)

    def _sizes(self, at: int, count: int) -> Iterator[tuple[int, ...]]:
        if at == len(self.operands):
            if count == 0:
                yield ()
            return
        group = self.operands[at]
        most = count if group.most is None else min(count, group.most)
        for size in range(group.least, most + 1):
            for rest in self._sizes(at + 1, count - size):
                yield (size, *rest)

    def accepted(self, sizes: Sequence[int], types: Sequence[Attribute]) -> int:
        """How many types would go to a group that takes them."""
        found = at = 0
        for group, size in zip(self.operands, sizes, strict=True):
            found += sum(map(group.constraint.accepts, types[at : at + size]))
            at += size
        return found

    def named(self, sizes: Sequence[int]) -> dict[str, int]:
        """How many operands each group has, by name."""
        return {group.name: n for group, n in zip(self.operands, sizes, strict=True)}

    def written_order(self, brackets: str) -> list[int]:
        """Positions of the groups in the order in which they are written."""
        names = [group.name for group in self.operands]
        order = list(range(len(names)))
        if brackets in names[1:]:
            order.remove(at := names.index(brackets))
            order.insert(1, at)
        return order

    def in_operand_order(
        self, written: Sequence[_ItemT], sizes: Sequence[int], brackets: str
    ) -> list[_ItemT]:
        """The written items in the order of the operands."""
        pieces: dict[int, Sequence[_ItemT]] = {}
        at = 0
        for position in self.written_order(brackets):
            pieces[position] = written[at : at + sizes[position]]
            at += sizes[position]
        return [item for position in range(len(sizes)) for item in pieces[position]]

    def rename_parts(
        self, parts: dict[Part, tuple[int, int]], sizes: Sequence[int], brackets: str
    ) -> dict[Part, tuple[int, int]]:
        """Places of written operands and types under the names of their groups."""
        in_order: list[Part] = [
            ("operand", self.operands[g].name, i)
            for g in range(len(sizes))
            for i in range(sizes[g])
        ]
        by_writing: list[Part] = [
            ("operand", self.operands[g].name, i)
            for g in self.written_order(brackets)
            for i in range(sizes[g])
        ]
        names = {("operand", WRITTEN, i): part for i, part in enumerate(by_writing)}
        for i, (_, name, index) in enumerate(in_order):
            names[("type", WRITTEN, i)] = ("type", name, index)
        for i in range(sum(1 for kind, name, _ in parts if (kind, name) == ("type", RESULTS))):
            last = len(self.results) - 1
            name = self.results[min(i, last)] if self.results else RESULTS
            names[("type", RESULTS, i)] = ("type", name, max(i - last, 0))
        return {names.get(part, part): span for part, span in parts.items()}


@cache
def groups_of(cls: type[GroupedOp]) -> Groups:
    """The operand groups of an operation class."""
    definition = cls.get_irdl_definition()
    found = tuple(Group.of(name, field) for name, field in definition.operands)
    segmented = [o for o in definition.options if isinstance(o, AttrSizedOperandSegments)]
    leaves_out = bool(segmented) and type(segmented[0]) is not AttrSizedOperandSegments
    return Groups(found, tuple(name for name, _ in definition.results), leaves_out)


def take_written(
    state: ParseState,
) -> tuple[list[UnresolvedOperand], list[Attribute], list[Attribute]]:
    """What the directives have read: operands as written, their types in operand order, results."""
    written = state.operands.get(WRITTEN, [])
    return written, state.types.get(WRITTEN, []), state.types.get(RESULTS, [])


def divide(
    cls: type[GroupedOp],
    parser: Parser,
    state: ParseState,
    count: int,
    types: Sequence[Attribute],
    results: Sequence[Attribute],
) -> tuple[int, ...]:
    """The size of each group: the one division in which most operands fit their groups.

    ``count`` operands are written; ``types`` are theirs, ``results`` those of the results. Raises CodedParseError
    where it cannot be told.
    """
    groups = groups_of(cls)
    given = state.properties.pop(SEGMENTS, None)
    bracketed = len(state.operands.get(BRACKETED, ()))
    possible = [
        sizes
        for sizes in groups.sizes(count)
        if not cls.BRACKETS or groups.named(sizes)[cls.BRACKETS] == bracketed
    ]
    if given is not None:
        if isinstance(given, DenseArrayBase):
            wanted = tuple(int(n) for n in given.iter_values())
            for sizes in possible:
                if wanted == (sizes[:-1] if groups.leaves_out_token else sizes):
                    return sizes
        _fail(
            cls, parser, state, f"{SEGMENTS} does not divide the {count} operands written, {given},"
        )
    fitting = [sizes for sizes in possible if cls.fits(groups.named(sizes), results)]
    meant = fitting or possible
    scores = [groups.accepted(sizes, types) for sizes in meant]
    best = [sizes for sizes, score in zip(meant, scores, strict=True) if score == max(scores)]
    if len(best) != 1:
        why = "can be divided in several ways" if fitting else "cannot be divided"
        _fail(cls, parser, state, f"the {count} operands written {why}")
    return best[0]


def _fail(cls: type[GroupedOp], parser: Parser, state: ParseState, what: str) -> NoReturn:
    groups = groups_of(cls)
    names = [group.name for group in groups.operands]
    listed = ", ".join(f"'{name}'" for name in names)
    counted = names[:-1] if groups.leaves_out_token else names
    fail(
        parser,
        f"{what} into the groups {listed} of '{cls.name}'",
        state.start,
        previous_end(parser),
        code=codes.OPERAND_GROUPS,
        help=f"{SEGMENTS} = array<i32: ...> counts {', '.join(counted)}",
    )
