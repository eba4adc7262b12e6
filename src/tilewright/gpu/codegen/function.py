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
"""The handler of each operation, by name."""
lowers = HANDLERS.rule


class Function:
    """The code of one function."""

    def __init__(self, unit: Unit, results: Sequence[Attribute] = ()) -> None:
        self.unit = unit
        self.code = Code(unit.declarations)
        self.results = results
        #: The extents of the block, if the kernel specifies them.
        self.block_size: tuple[int, ...] | None = None
        #: The scope of the function in the line table.
        self._scope: int | None = None
        self._values: dict[SSAValue, tuple[Value, ...] | Memref] = {}
        self._targets: dict[Block, ir.Block] = {}
        #: Builds the branch out of a region of `scf` from its terminator; innermost last.
        self.exits: list[Callable[[Operation], None]] = []

    # Values

    def parts(self, value: SSAValue) -> tuple[Value, ...]:
        """The parts of a value."""
        found = self._values[value]
        if isinstance(found, Memref):
            return found.flatten(self.layout(value))
        return found

    def all_parts(self, values: Sequence[SSAValue]) -> list[Value]:
        """The parts of several values, concatenated."""
        return [part for value in values for part in self.parts(value)]

    def value(self, value: SSAValue) -> Value:
        """The only part of a value."""
        (part,) = self.parts(value)
        return part

    def memref(self, value: SSAValue) -> Memref:
        """The address, extents and strides of a memref."""
        found = self._values[value]
        assert isinstance(found, Memref)
        return found

    def set(self, value: SSAValue, *made: Value) -> None:
        """Bind a value to its parts, whose types are those of ``layout.parts``."""
        expected = layout.parts(value.type)
        assert tuple(part.type for part in made) == expected, (value, made, expected)
        if isinstance(value.type, MemRefType):
            self._values[value] = layout.memref_of(self.layout(value), made)
        else:
            self._values[value] = made

    def set_memref(self, value: SSAValue, made: Memref) -> None:
        """Bind a memref; static fields of its type replace those of ``made``."""
        found = self.layout(value)
        assert made.pointer.type == found.pointer, (made, found)
        self._values[value] = layout.memref_of(found, made.flatten(found))

    def set_all(self, values: Sequence[SSAValue], parts: Sequence[Value]) -> None:
        """Bind several values to their concatenated parts."""
        left = iter(parts)
        for value in values:
            self.set(value, *(next(left) for _ in self.types(value)))

    def types(self, value: SSAValue) -> tuple[str, ...]:
        """The LLVM types of a value's parts. Raises ``TileIRError`` (``gpu-unsupported``) if there are none."""
        owner = value.owner
        at = owner if isinstance(owner, Operation) else owner.parent_op()
        return layout.parts(value.type, location_of(at) if at is not None else None)

    def layout(self, value: SSAValue) -> MemrefLayout:
        """The layout of a memref.

        Raises ``TileIRError`` (``gpu-unsupported``) if it is not strided, or its memory space is unknown.
        """
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

    # Addresses

    def linear_index(self, memref: Memref, indices: Sequence[SSAValue]) -> Value:
        """The offset of an element from the pointer, in elements."""
        total = memref.offset
        for place, stride in zip(indices, memref.strides, strict=True):
            total = self.code.add(total, self.code.mul(self.value(place), stride))
        return total

    def element_address(self, memref: SSAValue, indices: Sequence[SSAValue]) -> Value:
        """The address of an element, or of the byte that contains it."""
        found = self.layout(memref)
        linear = self.linear_index(self.memref(memref), indices)
        return self.address(self.memref(memref).pointer, found.element, linear)

    def address(self, base: Value, element: Attribute, linear: Value) -> Value:
        """The address of the element at a linear offset in elements; of the byte that contains it where elements
        share bytes.
        """
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
        """A pointer to shared memory as the i32 that instructions take."""
        return self.code.op(ir.I32, f"ptrtoint {address} to i32")

    # Operations
    # Returns the error for an operation that cannot be compiled, to be raised.

    def refuse(self, op: Operation, why: str, help: str = "") -> TileIRError:
        """The error (``gpu-unsupported``) for an operation, or for a form of it, that cannot be compiled, to be
        raised.
        """
        return layout.unsupported(f"'{op.name}' {why}", location_of(op), help)

    def require(self, op: Operation, feature: Feature) -> None:
        """Record a feature that an operation needs.

        Raises ``TileIRError`` (``gpu-architecture``) if the architecture lacks it.
        """
        require(self.unit.arch, op.name, feature, location_of(op))
        self.unit.isa = max(self.unit.isa, feature.isa)

    def emit(self, op: Operation) -> None:
        """Emit an operation.

        Raises ``TileIRError`` if it has no handler, a type that cannot be compiled (``gpu-unsupported``), or needs a
        feature that the architecture lacks (``gpu-architecture``).
        """
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
        """The suffix of the function's head for debug information. Must be called before its body is emitted."""
        if self.unit.line_table is None:
            return ""
        self._scope = self.unit.line_table.function(name, op)
        self.code.origin = self._origin(op) or ""
        return f" !dbg !{self._scope}"

    def emit_block(self, block: Block) -> None:
        """Emit the operations of a block at the insertion point."""
        for op in block.ops:
            self.emit(op)

    def target(self, block: Block) -> ir.Block:
        """The LLVM block of a block; its phis are the block's arguments."""
        return self._targets[block]

    def emit_region(self, region: Region) -> None:
        """Emit a region of blocks with branches; the arguments of its first block must be bound.

        Blocks are emitted after their dominators. Unreachable blocks are omitted.
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
        """Inline PTX with side effects; see ``Code.asm``."""
        return self.code.asm(text, results, args)

    def asm_where(self, predicate: SSAValue | None, text: str, *args: Value) -> None:
        """Inline PTX without results, predicated if a predicate is given."""
        if predicate is None:
            self.code.asm(f"{text};", (), args)
            return
        number = self.code.resize(self.value(predicate), ir.I32)
        guarded = f"{{ .reg .pred p; setp.ne.b32 p, ${len(args)}, 0; @p {text}; }}"
        self.code.asm(guarded, (), [*args, number])

    def as_bit(self, number: Value) -> Value:
        """Whether an i32 is not zero."""
        return self.code.compare("ne", number, ir.integer(ir.I32, 0))

    def as_u32(self, value: SSAValue) -> Value:
        """An index as the i32 that instructions take."""
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
