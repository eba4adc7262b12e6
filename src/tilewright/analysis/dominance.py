"""Dominance: checks that every operand is defined before its use and visible to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.traits import IsolatedFromAbove

from tilewright.analysis.reports import DiagnosticCollector
from tilewright.analysis.structure import operand_part
from tilewright.diagnostics import define_code
from tilewright.dialects.declare import Related

USE_BEFORE_DEFINITION = define_code(
    "use-before-definition",
    "A value is used before the operation that defines it.",
    "Operations run in textual order. A value that the next iteration needs must be carried: "
    "`iter_values` of for and loop.",
    wrong="%sum = addi %n, %sum : tile<i32>",
    right="""
    %sum = for %i in (%n to %n, step %n) : tile<i32> iter_values(%before = %n) -> (tile<i32>) {
      %after = addi %n, %before : tile<i32>
      continue %after : tile<i32>
    }
    """,
)
VALUE_NOT_VISIBLE = define_code(
    "value-not-visible",
    "A value is used outside the region that defines it.",
    "Values of a region end with it. What is needed after it must be yielded, or carried by the "
    "loop, and so become a result of the operation that holds the region.",
)
ISOLATED_REGION = define_code(
    "isolated-region",
    "A value from outside is used inside an isolated region.",
    "The bodies of module and entry see only their own values.",
)


@dataclass(slots=True)
class _Frame:
    """A block being walked.

    ``visible`` holds the ids of the values that its operations may use; frames share it within an
    isolated region. ``pending`` values become visible before the next operation. ``dominated`` are
    the blocks dominated by this one, each with those that it dominates itself.
    """

    ops: Iterator[Operation]
    visible: set[int]
    pending: Sequence[SSAValue]
    dominated: list[_Dominated] = field(default_factory=list["_Dominated"])
    added: list[int] = field(default_factory=list[int])

    def next_op(self) -> Operation | None:
        for value in self.pending:
            self.visible.add(id(value))
            self.added.append(id(value))
        op = next(self.ops, None)
        self.pending = op.results if op is not None else ()
        return op


@dataclass(slots=True)
class _Dominated:
    """A block in the dominator tree of its region."""

    block: Block
    children: list[_Dominated] = field(default_factory=list["_Dominated"])


def check_dominance(root: Operation, collector: DiagnosticCollector) -> None:
    """Report every operand that its operation may not use, as ``collector``'s errors. Handles any nesting depth.

    Rules are MLIR's: a definition dominates its uses and is visible to them, and regions isolated from above see
    nothing outside.
    """
    frames = _frames_of(root, set())
    while frames:
        frame = frames[-1]
        op = frame.next_op()
        if op is None:
            if frame.dominated:
                frames.append(_frame_of(frame.dominated.pop(), frame.visible))
            else:
                frame.visible.difference_update(frame.added)
                frames.pop()
            continue
        visible = frame.visible
        if any(id(value) not in visible for value in op.operands):
            _report(op, visible, collector)
        if op.regions:
            frames += _frames_of(op, visible)


def _frames_of(op: Operation, visible: set[int]) -> list[_Frame]:
    """Return frames for the blocks of an operation, in reverse order.

    Unreachable blocks are skipped, since they never run.
    """
    isolated = op.has_trait(IsolatedFromAbove, value_if_unregistered=False)
    return [
        _frame_of(_dominator_tree(region), set() if isolated else visible)
        for region in reversed(op.regions)
        if region.blocks
    ]


def _frame_of(node: _Dominated, visible: set[int]) -> _Frame:
    return _Frame(iter(node.block.ops), visible, node.block.args, node.children[::-1])


def _dominator_tree(region: Region) -> _Dominated:
    """Return the dominator tree of the blocks reachable from a region's entry."""
    entry = region.blocks[0]
    if entry.next_block is None:
        return _Dominated(entry)
    order = _reverse_postorder(entry)
    position = {block: index for index, block in enumerate(order)}
    predecessors: list[list[int]] = [[] for _ in order]
    for index, block in enumerate(order):
        for successor in _successors(block):
            predecessors[position[successor]].append(index)
    parents = _immediate_dominators(predecessors)
    nodes = [_Dominated(block) for block in order]
    for index, parent in enumerate(parents[1:], start=1):
        nodes[parent].children.append(nodes[index])
    return nodes[0]


def _successors(block: Block) -> Sequence[Block]:
    return block.last_op.successors if block.last_op is not None else ()


def _reverse_postorder(entry: Block) -> list[Block]:
    """Return the reachable blocks, each after at least one of its predecessors."""
    found, postorder = {entry}, list[Block]()
    stack = [(entry, iter(_successors(entry)))]
    while stack:
        block, rest = stack[-1]
        successor = next(rest, None)
        if successor is None:
            postorder.append(block)
            stack.pop()
        elif successor not in found:
            found.add(successor)
            stack.append((successor, iter(_successors(successor))))
    return postorder[::-1]


def _immediate_dominators(predecessors: Sequence[Sequence[int]]) -> list[int]:
    """Return the immediate dominator of each block; blocks are numbered in reverse postorder.

    Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm".
    """
    unknown = len(predecessors)
    found = [0] + [unknown] * (len(predecessors) - 1)
    changed = True
    while changed:
        changed = False
        for block in range(1, len(predecessors)):
            known = [p for p in predecessors[block] if found[p] != unknown]
            nearest = known[0]
            for other in known[1:]:
                while nearest != other:
                    if nearest > other:
                        nearest = found[nearest]
                    else:
                        other = found[other]
            if found[block] != nearest:
                found[block], changed = nearest, True
    return found


def _report(op: Operation, visible: set[int], collector: DiagnosticCollector) -> None:
    """Report one error for each invisible value, at its first use by the operation."""
    operands = list(op.operands)
    for index, value in enumerate(operands):
        if id(value) in visible or any(value is earlier for earlier in operands[:index]):
            continue
        part = operand_part(op, index)
        name = f"operand #{index}" + (f" ('{part[1]}')" if part else "")
        code, why = _explain(op, value)
        collector.error(code, f"{name} {why}", op, part, notes=_definition(value))


def _explain(op: Operation, value: SSAValue) -> tuple[str, str]:
    """Return the code and the reason why a value is not visible at an operation."""
    home = value.owner if isinstance(value.owner, Block) else value.owner.parent
    if home is None:
        return VALUE_NOT_VISIBLE, "is defined by an operation that is not in the module"
    isolating: Operation | None = None
    user: Operation | None = op
    while user is not None:
        if user is value.owner and user is not op:
            return USE_BEFORE_DEFINITION, f"is a result of '{user.name}', which encloses this use"
        if user.parent is home:
            if isolating is not None:
                return (
                    ISOLATED_REGION,
                    f"is defined outside of '{isolating.name}', which is isolated",
                )
            return USE_BEFORE_DEFINITION, "is used before it is defined"
        if user.parent is not None and user.parent.parent is home.parent and isolating is None:
            return VALUE_NOT_VISIBLE, "is defined in a block that does not dominate this use"
        user = user.parent_op()
        if user is not None and user.has_trait(IsolatedFromAbove, value_if_unregistered=False):
            isolating = isolating or user
    holder = home.parent_op()
    where = f" of '{holder.name}'" if holder is not None else ""
    return VALUE_NOT_VISIBLE, f"is defined inside a region{where} and not visible outside of it"


def _definition(value: SSAValue) -> list[Related]:
    if isinstance(value, BlockArgument):
        holder = value.block.parent_op()
        region = value.block.parent
        if holder is None or region is None:
            return []
        part = ("region", "", holder.get_region_index(region))
        return [Related("it is an argument of this region", holder, part)]
    assert isinstance(value.owner, Operation)
    return [Related("it is defined here", value.owner)]
