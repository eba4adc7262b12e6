"""LLVM IR as text: values, blocks and functions.

Types are their spelling. llvmlite's own builder has no bfloat, no string attributes of parameters and no convergent
inline assembly, all of which kernels need; LLVM checks the text when it parses it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.floats import float_to_bits

I1, I8, I16, I32, I64 = "i1", "i8", "i16", "i32", "i64"
F32, F64 = "float", "double"
GENERIC, GLOBAL, SHARED, LOCAL = 0, 1, 3, 5


def pointer(space: int) -> str:
    """The type of pointers to a memory space, in NVPTX's numbers."""
    return f"ptr addrspace({space})" if space else "ptr"


@dataclass(frozen=True, slots=True)
class Value:
    """An LLVM value: its type, and its name or constant."""

    type: str
    ref: str

    def __str__(self) -> str:
        return f"{self.type} {self.ref}"

    @property
    def number(self) -> int | None:
        """The value of an integer constant, else None."""
        ref = self.ref.removeprefix("-")
        return int(self.ref) if ref.isdecimal() else None


def integer(ty: str, number: int) -> Value:
    """A constant of an integer type."""
    return Value(ty, str(number))


def index(number: int) -> Value:
    """An i64 constant, the type of ``index`` on GPUs."""
    return Value(I64, str(number))


_HEX = {"half": ("0xH", "<e", 4), "float": ("0x", "<d", 16), "double": ("0x", "<d", 16)}


def floating(ty: str, number: float) -> Value:
    """A constant of half, bfloat, float or double; ``number`` is rounded to the type once, to nearest even."""
    if ty == "bfloat":
        return Value(ty, f"0xR{float_to_bits(number, FORMATS['bf16']):04X}")
    prefix, code, digits = _HEX[ty]
    if ty == "float":
        number = _to_f32(number)
    if ty == "half":
        number = _to_f16(number)
    data = struct.pack(code, number)
    return Value(ty, f"{prefix}{int.from_bytes(data, 'little'):0{digits}X}")


def _to_f32(number: float) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _to_f16(number: float) -> float:
    try:
        struct.pack("<e", number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
    return number


@dataclass(slots=True)
class Block:
    """A basic block: label, phis, instructions."""

    label: str
    phis: list[tuple[Value, list[tuple[Value, str]]]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    terminated: bool = False

    def text(self) -> str:
        """The block as LLVM's text."""
        merged = [
            f"  {value.ref} = phi {value.type} "
            + ", ".join(f"[ {source.ref}, %{label} ]" for source, label in incoming)
            for value, incoming in self.phis
        ]
        return "\n".join([f"{self.label}:", *merged, *self.lines])


#: The constraint letter of inline assembly for a type.
_CONSTRAINTS = {I16: "h", I32: "r", I64: "l", F32: "f", F64: "d"}


def _constraint(ty: str) -> str:
    return "l" if ty.startswith("ptr") else _CONSTRAINTS[ty]


class Code:
    """The body of a function; instructions are appended to ``block``."""

    def __init__(self, declarations: dict[str, str]) -> None:
        self.declarations = declarations
        self.entry_lines: list[str] = []
        self.blocks: list[Block] = []
        self._count = 0
        #: Suffix of instructions with their debug location, if any.
        self.origin = ""
        self.block = self.start("entry")

    # Blocks

    def new_block(self, name: str) -> Block:
        """A new block, which appears in the text when it is started."""
        self._count += 1
        return Block(name if name == "entry" else f"{name}{self._count}")

    def start(self, block: Block | str) -> Block:
        """Set the insertion point to a block."""
        self.block = self.new_block(block) if isinstance(block, str) else block
        self.blocks.append(self.block)
        return self.block

    def phi(self, block: Block, ty: str) -> Value:
        """Add a phi to a block; ``branch`` supplies its incoming values."""
        value = Value(ty, self._name())
        block.phis.append((value, []))
        return value

    def branch(self, target: Block, values: Sequence[Value] = ()) -> None:
        """End the block with a branch to ``target``, with values for its phis."""
        self._pass(target, values)
        self._end(f"br label %{target.label}")

    def branch_if(
        self,
        condition: Value,
        then: Block,
        otherwise: Block,
        then_values: Sequence[Value] = (),
        other_values: Sequence[Value] = (),
    ) -> None:
        """End the block with a conditional branch, with values for the phis of each target."""
        if then is otherwise and then.phis:
            chosen = [
                self.select(condition, a, b) for a, b in zip(then_values, other_values, strict=True)
            ]
            self.branch(then, chosen)
            return
        self._pass(then, then_values)
        if then is not otherwise:
            self._pass(otherwise, other_values)
        self._end(f"br i1 {condition.ref}, label %{then.label}, label %{otherwise.label}")

    def switch(self, value: Value, default: Block, cases: Iterable[tuple[int, Block]]) -> None:
        """End the block with a switch; the targets must not have phis."""
        listed = " ".join(f"{value.type} {number}, label %{b.label}" for number, b in cases)
        self._end(f"switch {value}, label %{default.label} [ {listed} ]")

    def ret(self, value: Value | None = None) -> None:
        """End the block with a return."""
        self._end("ret void" if value is None else f"ret {value}")

    def unreachable(self) -> None:
        """End the block with ``unreachable``."""
        self._end("unreachable")

    def _pass(self, target: Block, values: Sequence[Value]) -> None:
        for (merged, incoming), value in zip(target.phis, values, strict=True):
            assert merged.type == value.type, f"{merged.type} merges {value.type}"
            incoming.append((value, self.block.label))

    def _end(self, line: str) -> None:
        assert not self.block.terminated
        self.block.lines.append(f"  {line}{self.origin}")
        self.block.terminated = True

    # Instructions

    def _name(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def op(self, ty: str, text: str) -> Value:
        """Append an instruction with a result."""
        value = Value(ty, self._name())
        self.block.lines.append(f"  {value.ref} = {text}{self.origin}")
        return value

    def effect(self, text: str) -> None:
        """Append an instruction without a result."""
        self.block.lines.append(f"  {text}{self.origin}")

    def binary(self, opcode: str, a: Value, b: Value) -> Value:
        """Append ``opcode a, b`` on operands of one type."""
        assert a.type == b.type, f"{opcode} of {a.type} and {b.type}"
        return self.op(a.type, f"{opcode} {a}, {b.ref}")

    def add(self, a: Value, b: Value) -> Value:
        """A sum of integers, folded for constants."""
        if a.number is not None and b.number is not None:
            return integer(a.type, a.number + b.number)
        if a.number == 0 or b.number == 0:
            return b if a.number == 0 else a
        return self.binary("add", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        """A product of integers, folded for constants."""
        if a.number is not None and b.number is not None:
            return integer(a.type, a.number * b.number)
        if 1 in (a.number, b.number):
            return b if a.number == 1 else a
        return integer(a.type, 0) if 0 in (a.number, b.number) else self.binary("mul", a, b)

    def cast(self, opcode: str, value: Value, ty: str) -> Value:
        """Convert a value to a type; a value of that type is returned as is."""
        return value if value.type == ty else self.op(ty, f"{opcode} {value} to {ty}")

    def resize(self, value: Value, ty: str, *, signed: bool = False) -> Value:
        """Truncate or extend an integer; folds constants."""
        if value.number is not None and value.type != I1:
            width = int(ty[1:])
            number = value.number & ((1 << width) - 1)
            return integer(ty, number - (1 << width) if number >> (width - 1) else number)
        narrower = int(ty[1:]) < int(value.type[1:])
        return self.cast("trunc" if narrower else "sext" if signed else "zext", value, ty)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """Append a ``select``, by element for a vector condition; ``a`` where it holds."""
        return self.op(a.type, f"select {condition}, {a}, {b}")

    def compare(self, predicate: str, a: Value, b: Value) -> Value:
        """Append ``icmp`` with an LLVM predicate."""
        return self.op(I1, f"icmp {predicate} {a}, {b.ref}")

    def extract(self, aggregate: Value, ty: str, place: int) -> Value:
        """Extract the member of a struct at position ``place``."""
        return self.op(ty, f"extractvalue {aggregate}, {place}")

    def element(self, vector: Value, ty: str, place: Value) -> Value:
        """Extract an element of a vector; poison if out of bounds."""
        return self.op(ty, f"extractelement {vector}, {place}")

    def with_element(self, vector: Value, value: Value, place: Value) -> Value:
        """Replace an element of a vector."""
        return self.op(vector.type, f"insertelement {vector}, {value}, {place}")

    def load(self, ty: str, address: Value, align: int) -> Value:
        """Load from an address with an alignment in bytes."""
        return self.op(ty, f"load {ty}, {address}, align {align}")

    def store(self, value: Value, address: Value, align: int) -> None:
        """Store to an address with an alignment in bytes."""
        self.effect(f"store {value}, {address}, align {align}")

    def offset(self, base: Value, ty: str, count: Value) -> Value:
        """An address plus ``count`` elements of a type, which may be negative."""
        if count.number == 0:
            return base
        return self.op(base.type, f"getelementptr {ty}, {base}, {count}")

    def alloca(self, ty: str, align: int) -> Value:
        """Allocate thread-local memory in the entry block, aligned to ``align`` bytes."""
        value = Value("ptr", self._name())
        self.entry_lines.append(f"  {value.ref} = alloca {ty}, align {align}")
        return value

    def call(self, name: str, result: str, args: Sequence[Value], attributes: str = "") -> Value:
        """Call an intrinsic or a library function, and declare it."""
        types = ", ".join(arg.type for arg in args)
        self.declarations[name] = f"declare {result} @{name}({types})"
        return self.call_defined(name, result, args, attributes)

    def call_defined(
        self, name: str, result: str, args: Sequence[Value], attributes: str = ""
    ) -> Value:
        """Call a function of this module. ``attributes`` precede the return type. The result of ``void`` must not be
        used.
        """
        text = f"call {attributes}{result} @{name}({', '.join(map(str, args))})"
        if result == "void":
            self.effect(text)
            return Value("void", "")
        return self.op(result, text)

    def asm(
        self,
        text: str,
        results: Sequence[str] = (),
        args: Sequence[Value] = (),
        *,
        pure: bool = False,
        tied: int = 0,
    ) -> list[Value]:
        """Inline PTX. ``$0`` and on are the results, then the arguments.

        The first ``tied`` arguments share the registers of the first results, and are referred to by those. All of it
        is convergent; unless ``pure`` it has side effects and orders memory.
        """
        constraints = [f"={_constraint(ty)}" for ty in results]
        constraints += [str(i) if i < tied else _constraint(a.type) for i, a in enumerate(args)]
        if not pure:
            constraints.append("~{memory}")
        ty = "void"
        if results:
            ty = results[0] if len(results) == 1 else "{ " + ", ".join(results) + " }"
        effects = "" if pure else "sideeffect "
        quoted = text.replace("\\", "\\5C").replace('"', "\\22").replace("\n", "\\0A")
        call = (
            f'call {ty} asm {effects}"{quoted}", "{",".join(constraints)}"'
            f"({', '.join(map(str, args))}) #0"
        )
        if not results:
            self.effect(call)
            return []
        found = self.op(ty, call)
        if len(results) == 1:
            return [found]
        return [self.extract(found, member, i) for i, member in enumerate(results)]

    def text(self) -> str:
        """The blocks as text, with allocas at the head of the first."""
        first, *others = self.blocks
        head = "\n".join([f"{first.label}:", *self.entry_lines, *first.lines])
        return "\n".join([head, *(block.text() for block in others)])
