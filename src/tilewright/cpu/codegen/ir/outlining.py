"""Outlining: cuts long functions into several.

The time of LLVM's instruction selection and similar passes grows faster than a function's length. While code is generated, the loop
nests of an operation are marked as a part; if the function has become long, each part becomes a function of its own
and is replaced by a call.

A part can be outlined if it has one entry and one exit. Values it uses from outside become arguments under the same names,
so nothing inside changes. Addresses and indices that others use too are computed before the call; other results
are returned through memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import PTR, VOID
from tilewright.cpu.codegen.ir.types import Value
from tilewright.cpu.target import CpuTarget

#: How many instructions a function may have.
LONG = 6000
#: Parts of fewer instructions stay where they are.
_SHORT = 8
#: Up to how many instructions parts that follow one another become one function.
_JOINED = 150
#: How many values a part may have from outside.
_MOST_ARGUMENTS = 200
_PURE = frozenset(
    {
        *("getelementptr", "add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr"),
        *("zext", "sext", "trunc", "icmp", "select", "inttoptr", "ptrtoint"),
    }
)


@dataclass(frozen=True, slots=True)
class Part:
    """The blocks of a function from ``start``, number ``first``, up to ``end``, number ``behind``, which is
    not of it. Control comes from ``before``, and goes through ``joints`` on its way."""

    function: ir.Function
    before: ir.Block
    start: ir.Block
    end: ir.Block
    first: int
    behind: int
    joints: tuple[ir.Block, ...] = ()

    @property
    def blocks(self) -> list[ir.Block]:
        """The blocks of the part, in the order of the function."""
        return self.function.blocks[self.first : self.behind]

    @property
    def length(self) -> int:
        """The number of instructions."""
        return sum(len(block.instructions) for block in self.blocks)


@dataclass(slots=True)
class _Found:
    """What is known of a part: whether control goes through it from start to end, what it uses from outside
    (in the order of the code), and which of its values others use."""

    part: Part
    closed: bool = True
    inputs: dict[Value, None] = field(default_factory=dict)
    outputs: dict[Value, None] = field(default_factory=dict)


def outline(parts: Sequence[Part], target: CpuTarget) -> int:
    """Make functions of the parts of long functions, in place; how many functions that gave.

    The parts do not overlap.
    """
    made = 0
    for function in dict.fromkeys(part.function for part in parts):
        if sum(len(block.instructions) for block in function.blocks) > LONG:
            joined = _joined([part for part in parts if part.function is function])
            long = [part for part in joined if part.length > _SHORT]
            for found in _looked_at(function, long):
                made += _extract(found, made, target)
            function.blocks = [block for block in function.blocks if block.parent is function]
    return made


def _joined(parts: Sequence[Part]) -> list[Part]:
    """The parts of a function in order, those as one between which nothing branches: short ones make
    as many functions and calls as long ones."""
    found: list[Part] = []
    for part in parts:
        if found and found[-1].end is part.before:
            joints = (*found[-1].joints, part.before)
            both = replace(found[-1], end=part.end, behind=part.behind, joints=joints)
            if both.length <= _JOINED:
                found[-1] = both
                continue
        found.append(part)
    return found


def _looked_at(function: ir.Function, parts: Sequence[Part]) -> list[_Found]:
    found = [_Found(part) for part in parts]
    home: dict[object, _Found] = {}
    for each in found:
        for block in each.part.blocks:
            home[block] = each
            for instruction in block.instructions:
                home[instruction] = each
    for block in function.blocks:
        here = home.get(block)
        for instruction in block.instructions:
            for operand in _operands(instruction):
                if isinstance(operand, ir.Block):
                    if instruction is block.terminator:
                        _follow(operand, here, home.get(operand))
                    continue
                there = home.get(operand)
                if there is here:
                    continue
                if here is not None:
                    here.inputs[operand] = None
                if there is not None:
                    there.outputs[operand] = None
    return found


def _follow(to: ir.Block, here: _Found | None, there: _Found | None) -> None:
    """Take note of a branch."""
    if here is there:
        if here is not None and to is here.part.start:
            here.closed = False
        return
    if there is not None and to is not there.part.start:
        there.closed = False
    if here is not None and to is not here.part.end:
        here.closed = False


def _operands(instruction: ir.Instruction) -> Iterator[Value | ir.Block]:
    """The values of a function, and the blocks, that an instruction names."""
    pending: list[object] = list(instruction.operands)
    if isinstance(instruction, ir.PhiInstr):
        pending += [each for incoming in instruction.incomings for each in incoming]
    for operand in pending:
        value = llvm.held_by(operand)
        if isinstance(value, ir.Block | ir.Instruction | ir.Argument):
            yield value


def _extract(found: _Found, number: int, target: CpuTarget) -> bool:
    """Make a function of a part; whether that is possible."""
    part = found.part
    last = _block_behind(part)
    if not found.closed or last is None:
        return False
    hoisted = _hoisted(found)
    inside = set(hoisted)
    handed = [value for value in found.outputs if value not in inside]
    if any(value.parent not in (part.start, *part.joints, last) for value in handed):
        return False
    inputs = _inputs(found, hoisted)
    if len(inputs) + len(handed) > _MOST_ARGUMENTS:
        return False
    function = part.function
    types = [value.type for value in inputs] + [PTR] * len(handed)
    name = f"{function.name}.part.{number}"
    made = ir.Function(function.module, ir.FunctionType(VOID, types), name)
    made.linkage = "internal"
    llvm.prepare(made, target)
    made.scope = type(made.scope)()  # without the names that the arguments have had until now
    for argument, value in zip(made.args, inputs, strict=False):
        argument.name = value.name
    for cell in made.args[len(inputs) :]:
        cell.name = function.scope.register("result", deduplicate=True)
    before = part.before
    b = ir.IRBuilder(before)
    before.instructions.pop()
    before.terminator = None
    for instruction in hoisted:
        instruction.parent.instructions.remove(instruction)
        instruction.parent = before
        before.instructions.append(instruction)
    b.position_at_end(before)
    cells: list[Value] = []
    for value in handed:
        with b.goto_entry_block():
            cells.append(llvm.stack(b, value.type))
    b.call(made, [*inputs, *cells])
    for value, cell in zip(handed, cells, strict=True):
        b._insert(_Again(before, cell, value))
    b.branch(part.end)
    _move(part, made, last, handed)
    return True


def _block_behind(part: Part) -> ir.Block | None:
    """The only block from which control leaves a part."""
    ends = [(block, block.terminator) for block in part.blocks]
    leaving = [(b, end.operands) for b, end in ends if end is not None and part.end in end.operands]
    return leaving[0][0] if len(leaving) == 1 and len(leaving[0][1]) == 1 else None


def _move(part: Part, made: ir.Function, last: ir.Block, handed: Sequence[Value]) -> None:
    blocks = part.blocks
    made.blocks = blocks
    for block in blocks:
        block.parent = made
    last.instructions.pop()
    last.terminator = None
    b = ir.IRBuilder(last)
    b.position_at_end(last)
    for value, cell in zip(handed, made.args[len(made.args) - len(handed) :], strict=True):
        b.store(value, cell)
    b.ret_void()


def _hoisted(found: _Found) -> list[ir.Instruction]:
    """Instructions that run whenever a part does, that others use too and that can stand before it, with those
    that they need."""
    part = found.part
    candidates = [each for block in (part.start, *part.joints) for each in block.instructions]
    movable: dict[object, None] = {}
    for instruction in candidates:
        if instruction.opname in _PURE and all(
            operand in movable or operand in found.inputs for operand in _operands(instruction)
        ):
            movable[instruction] = None
    needed = {value for value in found.outputs if value in movable}
    for instruction in reversed(candidates):
        if instruction in needed:
            needed.update(each for each in _operands(instruction) if each in movable)
    return [instruction for instruction in candidates if instruction in needed]


def _inputs(found: _Found, hoisted: Sequence[ir.Instruction]) -> list[Value]:
    """What a part uses from outside when some of it has been moved there."""
    moved = set(hoisted)
    inputs: dict[Value, None] = {}
    for block in found.part.blocks:
        for instruction in block.instructions:
            if instruction not in moved:
                for operand in _operands(instruction):
                    if operand in moved or operand in found.inputs:
                        inputs[operand] = None
    return list(inputs)


class _Again(ir.LoadInstr):
    """A value read back, under the name that it had where it was computed."""

    def __init__(self, parent: ir.Block, cell: Value, value: Value) -> None:
        super().__init__(parent, cell, typ=value.type)
        self._value = value

    def get_reference(self) -> str:
        return self._value.get_reference()
