"""Parses SASS: operands, control codes, basic blocks and loops.

The text of instructions comes from nvdisasm (``nvdisasm -c -json -g``), which the caller provides; control codes are
decoded here from the 128 bits of each instruction (Volta and later).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tilewright.diagnostics import TileIRError
from tilewright.model.codes import NO_SUCH_KERNEL, NOT_A_CUBIN
from tilewright.model.elf import KernelFile, read_cubin_file

INSTRUCTION_BYTES = 16
SCOREBOARDS = 6
_NO_SCOREBOARD = 7
#: The position of the control code, and its fields: position in it and width.
_CONTROL_AT = 105
_STALL, _YIELD, _WRITE, _READ, _WAIT, _REUSE = (0, 4), (4, 1), (5, 3), (8, 3), (11, 6), (17, 4)


@dataclass(frozen=True, slots=True)
class Control:
    """The control code of an instruction, for the hardware's scheduler.

    ``stall``: clocks until the warp's next instruction may issue. ``yields``: prefer another warp. ``write_barrier``,
    ``read_barrier``: the scoreboard released when results are written, or operands read; None for none. ``waits``: the
    scoreboards to wait for. ``reuse``: a bit for each operand that is kept in the operand cache.
    """

    stall: int
    yields: bool
    write_barrier: int | None
    read_barrier: int | None
    waits: tuple[int, ...]
    reuse: int

    @classmethod
    def decode(cls, encoding: int) -> Control:
        """Decode the control code from the 128 bits of an instruction."""
        code = encoding >> _CONTROL_AT

        def part(place: tuple[int, int]) -> int:
            return code >> place[0] & (1 << place[1]) - 1

        mask = part(_WAIT)
        return cls(
            part(_STALL),
            not part(_YIELD),
            None if part(_WRITE) == _NO_SCOREBOARD else part(_WRITE),
            None if part(_READ) == _NO_SCOREBOARD else part(_READ),
            tuple(number for number in range(SCOREBOARDS) if mask >> number & 1),
            part(_REUSE),
        )


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction.

    ``opcode`` includes its modifiers, such as `LDG.E.128`; ``predicate`` is the guard, such as `!P0`, or empty;
    ``target`` is the address of a branch or call.
    """

    address: int
    opcode: str
    operands: tuple[str, ...]
    predicate: str
    control: Control
    target: int | None
    line: tuple[str, int] | None = None
    """File and line, if the code has debug information."""

    @property
    def base(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """The modifiers: ``("E", "128")`` of ``LDG.E.128``."""
        return tuple(self.opcode.split(".")[1:])

    @property
    def is_branch(self) -> bool:
        """Whether the instruction may branch."""
        return self.base in _BRANCHES

    def __str__(self) -> str:
        guard = f"@{self.predicate} " if self.predicate else ""
        return f"/*{self.address:04x}*/ {guard}{self.opcode} {', '.join(self.operands)}".rstrip()


_BRANCHES = frozenset({"BRA", "BRX", "BRXU", "JMP", "JMX"})
#: Instructions that end a basic block. A call continues at the next instruction.
_ENDS = frozenset({"EXIT", "RET", "BPT", "KILL", "CALL"}) | _BRANCHES
#: Guards that are always true.
_ALWAYS = frozenset({"", "PT", "UPT"})


@dataclass(frozen=True, slots=True)
class Block:
    """A basic block: instructions ``first`` to ``last``, inclusive, and its successors.

    The successor of a call is the instruction after it, not the function.
    """

    number: int
    first: int
    last: int
    successors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A natural loop: its name (`L0`, in address order), header, and blocks.

    ``parent``: the number of the enclosing loop. ``waits``: it only polls a barrier.
    """

    number: int
    head: int
    blocks: frozenset[int]
    parent: int | None
    depth: int
    waits: bool

    @property
    def name(self) -> str:
        """The name in reports: ``L0``, ``L1``, ... by number."""
        return f"L{self.number}"


@dataclass(frozen=True)
class Kernel:
    """A kernel of a cubin: its resources (``file``) and instructions.

    ``compute`` is the compute capability times ten that it is compiled for. ``slices`` are the positions of the
    instructions that decide where a walk goes, once it has been asked for: without loads, and with them.
    """

    file: KernelFile
    compute: int
    instructions: tuple[Instruction, ...]
    slices: dict[bool, frozenset[int]] = field(
        default_factory=dict[bool, frozenset[int]], init=False, repr=False, compare=False
    )

    @property
    def name(self) -> str:
        """The symbol of the kernel."""
        return self.file.name

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The basic blocks, in address order."""
        return _blocks(self.instructions)

    @cached_property
    def block_at(self) -> dict[int, int]:
        """The number of the basic block that starts at an address."""
        return {self.instructions[block.first].address: block.number for block in self.blocks}

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """The natural loops, from back edges, in address order."""
        return _loops(self.instructions, self.blocks)

    def body(self, loop: Loop) -> list[Instruction]:
        """The instructions of a loop, including nested loops."""
        return [
            self.instructions[at]
            for number in sorted(loop.blocks)
            for at in range(self.blocks[number].first, self.blocks[number].last + 1)
        ]

    @cached_property
    def mix(self) -> Counter[str]:
        """The number of occurrences of each opcode, without modifiers."""
        return Counter(
            instruction.base for instruction in self.instructions if not _is_filler(instruction)
        )

    @property
    def spills(self) -> int:
        """The number of instructions that access thread-local memory."""
        return self.mix["STL"] + self.mix["LDL"]


def _is_filler(instruction: Instruction) -> bool:
    return instruction.base == "NOP" or instruction.predicate in NEVER


def read_kernels(cubin: bytes, disassemble: Callable[[bytes], str]) -> list[Kernel]:
    """The kernels of a cubin.

    ``disassemble`` returns the output of ``nvdisasm -c -json``, with `-g` including lines. Raises ``TileIRError``
    (``model-not-a-cubin``) if the file or the text cannot be parsed.
    """
    found = read_cubin_file(cubin)
    try:
        parts = json.loads(disassemble(cubin))
        functions, files = parts[1], _files(parts)
        texts = {function["function-name"]: function for function in functions}
    except (json.JSONDecodeError, KeyError, IndexError, TypeError) as error:
        raise TileIRError.single(
            NOT_A_CUBIN, f"nvdisasm says nothing that can be read ({error})"
        ) from error
    return [
        Kernel(held, found.compute, tuple(_instructions(held.code, texts[held.name], files)))
        for held in found.kernels
        if held.name in texts
    ]


def kernel_named(kernels: Sequence[Kernel], name: str | None) -> Kernel:
    """The kernel of this name, or the only one. Raises ``TileIRError`` (``model-no-such-kernel``)."""
    if name is None and len(kernels) == 1:
        return kernels[0]
    for kernel in kernels:
        if kernel.name == name:
            return kernel
    names = ", ".join(kernel.name for kernel in kernels) or "none"
    what = f"there is no kernel '{name}'" if name else "there are several kernels: name one"
    raise TileIRError.single(NO_SUCH_KERNEL, what, help=f"kernels of the file: {names}")


def _files(parts: Sequence[dict[str, object]]) -> list[str]:
    """The names of source files, which follow the functions."""
    listed = parts[2].get("files", []) if len(parts) > 2 else []
    assert isinstance(listed, list)
    return [str(each["file"]) for each in listed]


def _instructions(
    code: bytes, function: dict[str, object], files: Sequence[str]
) -> Iterable[Instruction]:
    line: tuple[str, int] | None = None
    texts = function["sass-instructions"]
    start = function["start"]
    assert isinstance(texts, list) and isinstance(start, int)
    if len(texts) * INSTRUCTION_BYTES > len(code):
        raise TileIRError.single(NOT_A_CUBIN, "nvdisasm shows more instructions than the file has")
    for number, text in enumerate(texts):
        at = number * INSTRUCTION_BYTES
        operands = split_operands(text.get("operands", ""))
        base = text["opcode"].partition(".")[0]
        # A line also applies to the instructions that follow.
        if (number_of_file := text.get("source-file-id")) is not None:
            name = str(files[number_of_file]) if number_of_file < len(files) else ""
            line = name, int(text["source-line"])
        yield Instruction(
            start + at,
            text["opcode"],
            operands,
            _guard(text.get("predicate", "")),
            Control.decode(int.from_bytes(code[at : at + INSTRUCTION_BYTES], "little")),
            _target(operands) if base in _BRANCHES or base == "CALL" else None,
            line,
        )


_COMMA = re.compile(r",(?![^\[({]*[\])}])")


def split_operands(text: str) -> tuple[str, ...]:
    """Split operands at commas outside of brackets."""
    return tuple(part.strip() for part in _COMMA.split(text)) if text else ()


def _target(operands: Sequence[str]) -> int | None:
    last = operands[-1] if operands else ""
    return int(last, 16) if re.fullmatch(r"0x[0-9a-f]+", last) else None


def _guard(text: str) -> str:
    """The guard. nvdisasm also reports the operand PR of `P2R` there, which is not one."""
    return text[1:] if text.startswith("@") else ""


#: Guards that are never true; their instructions are filler.
NEVER = frozenset({"!PT", "!UPT"})


def is_always(predicate: str) -> bool:
    """Whether a guard is always true."""
    return predicate in _ALWAYS


def _falls_through(instruction: Instruction) -> bool:
    """Whether the next instruction may be executed after this one."""
    if instruction.base not in _ENDS or instruction.base == "CALL":
        return True
    # `BRA.U !UP0, target` has its condition as an operand.
    guarded = not is_always(instruction.predicate)
    return guarded or (instruction.base == "BRA" and len(instruction.operands) > 1)


def _blocks(code: Sequence[Instruction]) -> tuple[Block, ...]:
    if not code:
        return ()
    numbers = {instruction.address: at for at, instruction in enumerate(code)}
    starts = {0}
    for at, instruction in enumerate(code):
        if instruction.target in numbers:
            starts.add(numbers[instruction.target])
        if instruction.base in _ENDS:
            starts.add(at + 1)
    firsts = sorted(start for start in starts if start < len(code))
    of_first = {first: number for number, first in enumerate(firsts)}
    blocks: list[Block] = []
    for number, first in enumerate(firsts):
        last = (firsts[number + 1] if number + 1 < len(firsts) else len(code)) - 1
        end = code[last]
        successors: list[int] = []
        if _falls_through(end) and last + 1 in of_first:
            successors.append(of_first[last + 1])
        if end.is_branch and end.target in numbers:
            successors.append(of_first[numbers[end.target]])
        blocks.append(Block(number, first, last, tuple(successors)))
    return tuple(blocks)


def _dominators(blocks: Sequence[Block]) -> list[int]:
    """For each block a bit set of its dominators; unreachable blocks dominate only themselves."""
    before: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for after in block.successors:
            before[after].append(block.number)
    everything = (1 << len(blocks)) - 1
    found = [everything] * len(blocks)
    found[0] = 1
    changed = True
    while changed:
        changed = False
        for block in blocks[1:]:
            meet = everything
            for other in before[block.number]:
                meet &= found[other]
            new = (meet if before[block.number] else 0) | 1 << block.number
            if new != found[block.number]:
                found[block.number], changed = new, True
    return found


def _loops(code: Sequence[Instruction], blocks: Sequence[Block]) -> tuple[Loop, ...]:
    """Natural loops by header. The endless self-branch after the end of a kernel is not one."""
    dominators = _dominators(blocks)
    before: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for after in block.successors:
            before[after].append(block.number)
    bodies: dict[int, set[int]] = {}
    for block in blocks:
        for head in block.successors:
            if not dominators[block.number] >> head & 1 or _is_end(code, blocks[head]):
                continue
            body = bodies.setdefault(head, {head})
            todo = [block.number]
            while todo:
                number = todo.pop()
                if number not in body:
                    body.add(number)
                    todo += before[number]
    heads = sorted(bodies, key=lambda head: blocks[head].first)
    loops: list[Loop] = []
    for number, head in enumerate(heads):
        around = [
            other
            for other, outer in enumerate(heads)
            if other != number and head in bodies[outer] and bodies[head] < bodies[outer]
        ]
        parent = min(around, key=lambda other: len(bodies[heads[other]]), default=None)
        body = frozenset(bodies[head])
        loops.append(Loop(number, head, body, parent, len(around), _waits(code, blocks, body)))
    return tuple(loops)


def _is_end(code: Sequence[Instruction], block: Block) -> bool:
    return block.first == block.last and code[block.first].target == code[block.first].address


_POLLS = frozenset({"SYNCS", "NANOSLEEP"})
_WORK = frozenset(
    {"LDG", "STG", "LDS", "STS", "LDSM", "STSM", "UTMALDG", "UTMASTG", "LDGSTS", "MUFU"}
)


def _waits(code: Sequence[Instruction], blocks: Sequence[Block], body: frozenset[int]) -> bool:
    held = [code[at] for n in body for at in range(blocks[n].first, blocks[n].last + 1)]
    names = {instruction.base for instruction in held}
    if names & _POLLS:
        return not (names & _WORK or any(name.endswith("MMA") for name in names))
    return _polls_memory(held)


#: Loops of more instructions do more than poll.
_LONGEST_POLL = 8


def _polls_memory(held: Sequence[Instruction]) -> bool:
    """Whether a loop only loads a word from a fixed address and tests it: a wait before sm_90."""
    loads = [instruction for instruction in held if instruction.base in ("LDS", "LDG", "LD")]
    others = {instruction.base for instruction in held} - {"LDS", "LDG", "LD"}
    if len(held) > _LONGEST_POLL or len(loads) != 1 or others - _LOOKS:
        return False
    address = re.findall(r"\bU?R\d+\b", loads[0].operands[-1])
    return not any(i.operands and i.operands[0] in address for i in held)


_LOOKS = frozenset(
    {"LOP3", "ISETP", "BRA", "NOP", "CCTL", "SHF", "R2UR", "UISETP", "ULOP3", "NANOSLEEP"}
)
