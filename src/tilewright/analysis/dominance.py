"""Whether every operand is defined before its use, in a place that the use can see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.traits import IsolatedFromAbove

from tilewright.analysis.reports import Findings
from tilewright.analysis.structure import operand_part
from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile.base import Related
from tilewright.dialects.source_map import Part

USE_BEFORE_DEFINITION = define_code(
    "use-before-definition",
    "A value is used before the operation that defines it.",
    "Operations run in the order in which they stand. A value that a later iteration needs must be "
    "carried: `iter_values` of for and loop.",
)
VALUE_NOT_VISIBLE = define_code(
    "value-not-visible",
    "A value is used outside the region that defines it.",
    "Values of a region end with it. What is needed after it must be yielded, or carried by the "
    "loop, and so become a result of the operation that holds the region.",
)
ISOLATED_REGION = define_code(
    "isolated-region",
    "A value from outside is used inside a region that is isolated.",
    "The bodies of module and entry see only their own values.",
)


@dataclass(slots=True)
class _Frame:
    """A block that is being walked; ``visible`` is shared by frames up to an isolated region."""

    ops: Iterator[Operation]
    visible: set[int]
    added: list[int] = field(default_factory=list[int])

    def define(self, values: tuple[SSAValue, ...]) -> None:
        for value in values:
            self.visible.add(id(value))
            self.added.append(id(value))


def check_dominance(root: Operation, findings: Findings) -> None:
    """Report every operand that its operation cannot use. Nesting may be of any depth."""
    frames = _frames_of(root, set())
    while frames:
        frame = frames[-1]
        op = next(frame.ops, None)
        if op is None:
            frame.visible.difference_update(frame.added)
            frames.pop()
            continue
        visible = frame.visible
        for index, value in enumerate(op.operands):
            if id(value) not in visible:
                _report(op, index, value, findings)
        if results := op.results:
            frame.define(tuple(results))
        if op.regions:
            # The results stand for what the regions leave behind, so the regions do not see them.
            hidden = {id(result) for result in results}
            visible -= hidden
            frames.append(_Restore(iter(()), visible, [], hidden))
            frames += _frames_of(op, visible)


@dataclass(slots=True)
class _Restore(_Frame):
    """Makes the results of an operation visible again once its regions are walked."""

    hidden: set[int] = field(default_factory=set[int])
