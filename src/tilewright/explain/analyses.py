"""The analyses of ``nv_tileaa``, printed as comments above the operations that they describe."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.ir import Operation, SSAValue

from tilewright.analysis.tileaa import Facts, TokenGraph
from tilewright.analysis.tileaa.bounds import TILED_ACCESSES
from tilewright.analysis.tileaa.integers import width_of
from tilewright.analysis.tileaa.provenance import points
from tilewright.diagnostics.display import printable
from tilewright.dialects import nv_tileaa
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.explain.token_graph import to_dot, to_svg
from tilewright.nesting import deep_recursion
from tilewright.text import Listing, list_text

#: Follows every line number in a remark, because inserted remarks shift the lines.
UNCOUNTED = " without remarks"

Remarks = Iterator[tuple[Operation, str]]
"""Remarks, each with the operation that it precedes."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """A printable analysis."""

    summary: str
    remarks: Callable[[Facts, Listing], Remarks]


def functions(module: Operation) -> tuple[FuncOp, ...]:
    """The functions of ``nv_tileaa`` in an operation, including itself."""
    return tuple(op for op in module.walk() if isinstance(op, FuncOp))


def annotate(module: Operation, names: Sequence[str], *, grid: Sequence[int] | None = None) -> str:
    """The text of a module with remarks of the named analyses; it parses to the same module.

    Remarks are comments above the line that they are about. ``names`` are keys of ``ANALYSES``; ``grid``, the extents
    of a launch, is assumed by the analyses.
    """
    listing = list_text(module)
    remarks: dict[int, list[str]] = defaultdict(list)
    with deep_recursion():
        for function in functions(module):
            for _, line, remark in remarks_of(Facts(function, grid), listing, names):
                remarks[line].append(remark)
    lines = []
    for number, line in enumerate(listing.text.splitlines()):
        indent = line[: len(line) - len(line.lstrip())]
        # A name may contain a line end, which would end the comment.
        lines += [f"{indent}// {printable(remark)}" for remark in remarks.get(number, ())]
        lines.append(line)
    return "\n".join(lines) + "\n"


def remarks_of(
    facts: Facts, listing: Listing, names: Iterable[str]
) -> Iterator[tuple[str, int, str]]:
    """The remarks of the named analyses about a function: the analysis, the line from 0, the remark."""
    for name in names:
        for op, remark in ANALYSES[name].remarks(facts, listing):
            yield name, listing.line_of[op], remark


def draw_tokens(module: Operation, form: Literal["dot", "svg"]) -> str:
    """The token graph of the first function of a module; lines are those of its printed text."""
    listing = list_text(module)
    graph = TokenGraph.of(functions(module)[0])
    return to_dot(graph, listing) if form == "dot" else to_svg(graph, listing)


def values_of(function: FuncOp) -> Iterator[tuple[Operation, SSAValue]]:
    """Every value of a function, with the operation on whose line it is printed."""
    for op in function.walk():
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    yield op, argument
        for result in op.results:
            yield op, result


def accesses_of(function: FuncOp) -> Iterator[Access]:
    """The memory accesses of a function, in order."""
    return (op for op in function.walk() if isinstance(op, Access))


def _per_value(
    wanted: Callable[[SSAValue], bool], fact: Callable[[Facts, SSAValue], str]
) -> Callable[[Facts, Listing], Remarks]:
    def remarks(facts: Facts, listing: Listing) -> Remarks:
        for op, value in values_of(facts.function):
            if wanted(value) and (text := fact(facts, value)):
                yield op, f"{listing.name(value)}: {text}"

    return remarks


def _is_integer(value: SSAValue) -> bool:
    return width_of(value.type) not in (None, 1)


def _has_pattern(value: SSAValue) -> bool:
    return _is_integer(value) or isinstance(T.element_of(value.type), T.PtrType)


def _is_data(value: SSAValue) -> bool:
    return T.is_scalar_or_tile(value.type)


def _range(facts: Facts, value: SSAValue) -> str:
    found = facts.ranges.of(value)
    return "" if found == facts.ranges.unknown(value) else str(found)


def _pattern(facts: Facts, value: SSAValue) -> str:
    found = facts.patterns.of(value)
    return "" if found == facts.patterns.unknown(value) else found.show()


def _bounds(facts: Facts, listing: Listing) -> Remarks:
    for access in accesses_of(facts.function):
        for axis, found in enumerate(facts.bounds.of(access)):
            yield access, f"axis {axis}: {found}"
        if isinstance(access, TILED_ACCESSES):
            yield access, f"bulk copy: {facts.bulk_copies.of(access)}"


def _aliases(facts: Facts, listing: Listing) -> Remarks:
    pointers = _per_value(points, lambda f, value: str(f.provenances.of(value)))
    yield from pointers(facts, listing)
    accesses = list(accesses_of(facts.function))
    for number, one in enumerate(accesses):
        others = [
            line_name(listing, other)
            for other in accesses[:number]
            if facts.aliases.may_alias(one, other)
        ]
        if others:
            yield one, f"may touch the memory of {', '.join(others)}"


def _tokens(facts: Facts, listing: Listing) -> Remarks:
    before: dict[Operation, list[str]] = defaultdict(list)
    for edge in facts.tokens.edges():
        turn = ", an iteration earlier" if edge.around else ""
        before[edge.after].append(f"{line_name(listing, edge.before)}{turn}")
    for op in facts.tokens.effects:
        yield op, f"after {'; '.join(before[op]) or 'nothing'}"


def _lifetimes(facts: Facts, listing: Listing) -> Remarks:
    most, where = facts.lifetimes.peak()
    yield facts.function, f"at most {most} bytes of tiles at once, at {line_name(listing, where)}"
    tiles = _per_value(
        lambda value: isinstance(value.type, T.TileType),
        lambda f, value: str(f.lifetimes.of(value)),
    )
    yield from tiles(facts, listing)


def line_name(listing: Listing, op: Operation) -> str:
    """An operation as shown to users: its mnemonic and its line in the listing, from 1."""
    return (
        f"{op.name.removeprefix(f'{nv_tileaa.NAME}.')} (line {listing.line_of[op] + 1}{UNCOUNTED})"
    )


ANALYSES: Mapping[str, Analysis] = {
    "aliases": Analysis("roots, alias scopes, and which accesses may alias", _aliases),
    "tokens": Analysis("the order of memory effects", _tokens),
    "divisibility": Analysis(
        "contiguity, divisibility and constancy along each axis",
        _per_value(_has_pattern, _pattern),
    ),
    "ranges": Analysis("ranges of integers", _per_value(_is_integer, _range)),
    "bounds": Analysis("which accesses are in bounds, and which could be bulk copies", _bounds),
    "uniformity": Analysis(
        "uniform tiles, and values that are the same in all blocks",
        _per_value(_is_data, lambda facts, value: str(facts.uniformities.of(value))),
    ),
    "lifetimes": Analysis("live ranges of tiles, and the peak of live bytes", _lifetimes),
}
"""All analyses, by the name for ``tilewright opt --print-analysis``."""
