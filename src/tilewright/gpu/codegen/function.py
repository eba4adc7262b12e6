"""The state of generating one function: values, insertion points, and the dispatch from operation to handler."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilewright.diagnostics import TileIRError
from tilewright.dialects.backends import Table
from tilewright.dialects.source_map import location_of
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base.shapes import bit_width
from tilewright.gpu.architectures import Feature, needs, require
from tilewright.gpu.codegen import ir, layout
from tilewright.gpu.codegen.ir import Code, Value
from tilewright.gpu.codegen.layout import Memref, MemrefLayout
from tilewright.gpu.codegen.unit import Unit

Handler = Callable[["Function", Operation], None]
HANDLERS: Table[Handler] = Table("GPUs")
"""What writes the code of an operation, by the operation's name."""
lowers = HANDLERS.rule


class Function:
    """One function while its code is written."""

    def __init__(self, unit: Unit, results: Sequence[Attribute] = ()) -> None:
        self.unit = unit
        self.code = Code(unit.declarations)
        self.results = results
        #: The extents of the block where the kernel says them.
        self.block_size: tuple[int, ...] | None = None
        #: What stands for the function in the line table.
        self._scope: int | None = None
        self._values: dict[SSAValue, tuple[Value, ...] | Memref] = {}
        self._targets: dict[Block, ir.Block] = {}
        #: Where the operation that ends a region of `scf` leads to, innermost last.
        self.exits: list[Callable[[Operation], None]] = []

    # Values

    def parts(self, value: SSAValue) -> tuple[Value, ...]:
        """What a value became."""
        found = self._values[value]
        if isinstance(found, Memref):
            return found.flatten(self.layout(value))
        return found

    def all_parts(self, values: Sequence[SSAValue]) -> list[Value]:
        """The registers of several values, one after the other."""
        return [part for value in values for part in self.parts(value)]

    def value(self, value: SSAValue) -> Value:
        """What a value became that is one value of LLVM."""
        (part,) = self.parts(value)
        return part

    def memref(self, value: SSAValue) -> Memref:
        """The address, extents and strides that a memref's value stands for."""
        found = self._values[value]
        assert isinstance(found, Memref)
        return found

    def set(self, value: SSAValue, *made: Value) -> None:
        """Say what a value becomes."""
        expected = layout.parts(value.type)
        assert tuple(part.type for part in made) == expected, (value, made, expected)
        if isinstance(value.type, MemRefType):
            self._values[value] = layout.memref_of(self.layout(value), made)
        else:
            self._values[value] = made

    def set_memref(self, value: SSAValue, made: Memref) -> None:
        """Say which memref a value is; what its type knows takes the place of what ``made`` says."""
        found = self.layout(value)
        assert made.pointer.type == found.pointer, (made, found)
        self._values[value] = layout.memref_of(found, made.flatten(found))

    def set_all(self, values: Sequence[SSAValue], parts: Sequence[Value]) -> None:
        """Say what several values become, whose parts stand behind one another."""
        left = iter(parts)
        for value in values:
            self.set(value, *(next(left) for _ in self.types(value)))

    def types(self, value: SSAValue) -> tuple[str, ...]:
        """The types of LLVM that a value becomes; a TileIRError where there are none."""
        owner = value.owner
        at = owner if isinstance(owner, Operation) else owner.parent_op()
        return layout.parts(value.type, location_of(at) if at is not None else None)

    def layout(self, value: SSAValue) -> MemrefLayout:
        """The layout of a memref; a TileIRError where it is none that we know."""
        assert isinstance(value.type, MemRefType)
        found = layout.memref_layout(value.type)
        if found is None:
            owner = value.owner
            at = owner if isinstance(owner, Operation) else owner.parent_op()
            raise layout.unsupported(
                f"memrefs of '{format_type(value.type)}' cannot be compiled for GPUs: their layout "
                "is not strided, or their memory space is unknown",
                location_of(at) if at is not None else None,
            )
        return found

    # Places in memory

    def linear_index(self, memref: Memref, indices: Sequence[SSAValue]) -> Value:
        """The place of an element, counted in elements from the pointer."""
        total = memref.offset
        for place, stride in zip(indices, memref.strides, strict=True):
            total = self.code.add(total, self.code.mul(self.value(place), stride))
        return total

    def element_address(self, memref: SSAValue, indices: Sequence[SSAValue]) -> Value:
        """The address of an element, also of one that shares its byte."""
        found = self.layout(memref)
        linear = self.linear_index(self.memref(memref), indices)
        return self.address(self.memref(memref).pointer, found.element, linear)

    def address(self, base: Value, element: Attribute, linear: Value) -> Value:
        """The address of the element of a number."""
        if layout.is_packed(element):
            bits = self.code.mul(linear, ir.index(bit_width(element)))
            count = (
                ir.index(bits.number // 8)
                if bits.number is not None
                else self.code.binary("lshr", bits, ir.index(3))
            )
            return self.code.offset(base, ir.I8, count)
        return self.code.offset(base, f"i{8 * layout.element_bytes(element)}", linear)

    def shared_address(self, address: Value) -> Value:
        """A pointer into shared memory as the 32 bits that instructions take."""
        return self.code.op(ir.I32, f"ptrtoint {address} to i32")

    # Operations

    def refuse(self, op: Operation, why: str, help: str = "") -> TileIRError:
        """The error for an operation, or for a form of it, that cannot be compiled."""
        return layout.unsupported(f"'{op.name}' {why}", location_of(op), help)

    def require(self, op: Operation, feature: Feature) -> None:
        """Note that an operation needs something; a TileIRError where the architecture lacks it."""
        require(self.unit.arch, op.name, feature, location_of(op))
        self.unit.isa = max(self.unit.isa, feature.isa)

    def emit(self, op: Operation) -> None:
        """Write the code of an operation; a TileIRError where there is none."""
        handler = HANDLERS.rule_of(op)
        if handler is None:
            raise self.refuse(op, "cannot be compiled for GPUs")
        self.require(op, needs(op.name))
        for result in op.results:
            self.types(result)
        around = self.code.origin
        self.code.origin = self._origin(op) or around
        handler(self, op)
        self.code.origin = around

    def _origin(self, op: Operation) -> str | None:
        if self.unit.line_table is None or self._scope is None:
            return None
        return self.unit.line_table.origin(op, self._scope)

    def mark(self, name: str, op: Operation) -> str:
        """What ends the head of the function, where lines are told; to be called before its body."""
        if self.unit.line_table is None:
            return ""
        self._scope = self.unit.line_table.function(name, op)
        self.code.origin = self._origin(op) or ""
        return f" !dbg !{self._scope}"

    def emit_block(self, block: Block) -> None:
        """Write the code of the operations of a block, at the end of what there is."""
        for op in block.ops:
            self.emit(op)

    def target(self, block: Block) -> ir.Block:
        """The block of LLVM that stands for a block; it merges what the block takes."""
        return self._targets[block]

    def emit_region(self, region: Region) -> None:
        """Write the code of a region of blocks that branch, whose first has its values already.

        Blocks come in an order in which each stands behind those that dominate it; those that
        cannot be reached have no code.
        """
        order = _reverse_postorder(region.blocks[0])
        for block in order[1:]:
            made = self._targets[block] = self.code.new_block("bb")
            merged = [self.code.phi(made, ty) for arg in block.args for ty in self.types(arg)]
            self.set_all(block.args, merged)
        for block in order:
            if block is not order[0]:
                self.code.start(self._targets[block])
            self.emit_block(block)

    def asm(self, text: str, *args: Value, results: Sequence[str] = ()) -> list[Value]:
        """Inline PTX with effects; see ``Code.asm``."""
        return self.code.asm(text, results, args)

    def asm_where(self, predicate: SSAValue | None, text: str, *args: Value) -> None:
        """Inline PTX without results, where a predicate holds if there is one."""
        if predicate is None:
            self.code.asm(f"{text};", (), args)
            return
        number = self.code.resize(self.value(predicate), ir.I32)
        guarded = f"{{ .reg .pred p; setp.ne.b32 p, ${len(args)}, 0; @p {text}; }}"
        self.code.asm(guarded, (), [*args, number])

    def as_bit(self, number: Value) -> Value:
        """Whether a 32-bit number that PTX gave is not zero."""
        return self.code.compare("ne", number, ir.integer(ir.I32, 0))

    def as_u32(self, value: SSAValue) -> Value:
        """An index as the 32 bits that instructions take."""
        return self.code.resize(self.value(value), ir.I32)


def _reverse_postorder(entry: Block) -> list[Block]:
    seen = {entry}
    order: list[Block] = []
    stack = [(entry, iter(_successors(entry)))]
    while stack:
        block, left = stack[-1]
        following = next((b for b in left if b not in seen), None)
        if following is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(_successors(following))))
    return order[::-1]


def _successors(block: Block) -> Sequence[Block]:
    last = block.last_op
    return last.successors if last is not None else ()
