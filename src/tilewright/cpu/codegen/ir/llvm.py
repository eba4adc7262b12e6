"""Small pieces of LLVM IR that work on scalars and vectors alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from tilewright.cpu.codegen.ir.debug_info import Origins
from tilewright.cpu.codegen.ir.elements import I1, I64, PTR, Literal
from tilewright.cpu.codegen.ir.printing import text_of
from tilewright.cpu.codegen.ir.types import Builder, Constant, Type, Value
from tilewright.cpu.target import CpuTarget

INTRINSIC_SUFFIX = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}


class TargetModule(ir.Module):
    """A module that knows for which processor its code is."""

    def __init__(self, name: str, target: CpuTarget) -> None:
        super().__init__(name=name)
        self.triple, self.data_layout = target.triple, target.data_layout
        self.target = target
        self.origins: Origins | None = None
        self.keys: dict[int, tuple[Value, Value]] = {}
        """Values, by their ``id``, that were made of an integer in their order, and that integer."""

    def _get_body_lines(self) -> list[str]:
        """What llvmlite joins in ``str``; should it stop, it does the work itself."""
        lines = [ty.get_declaration() for ty in self.get_identified_types().values()]
        held = self.globals.values()
        return lines + [text_of(v) if isinstance(v, ir.Function) else str(v) for v in held]


def target_of(b: Builder) -> CpuTarget:
    """The processor for which a builder makes code."""
    module = b.module
    assert isinstance(module, TargetModule)
    return module.target


def lanes_of(ty: Type) -> int:
    """The number of lanes of a vector type; 0 for a scalar."""
    return ty.count if isinstance(ty, ir.VectorType) else 0


def scalar_of(ty: Type) -> Type:
    """The type of one lane."""
    return ty.element if isinstance(ty, ir.VectorType) else ty


def scalar_bytes(ty: Type) -> int:
    """The size of a number in memory, in bytes."""
    if isinstance(ty, ir.IntType):
        return ty.width // 8
    return {"half": 2, "float": 4, "double": 8}[str(ty)]


def shaped(ty: Type, like: Type) -> Type:
    """``ty`` with as many lanes as ``like``."""
    return vector(ty, lanes_of(like))


def vector(ty: Type, lanes: int) -> Type:
    """A vector type; the scalar itself for 0 lanes."""
    return ir.VectorType(ty, lanes) if lanes else ty


def splat_constant(constant: Constant, lanes: int) -> Constant:
    """A constant in every lane."""
    return Splat(constant, lanes) if lanes else constant


class Splat(Literal):
    """A constant vector with ``lane`` in every lane."""

    def __init__(self, lane: Constant, lanes: int) -> None:
        text = f"splat ({lane.type} {lane.get_reference()})"
        super().__init__(ir.VectorType(lane.type, lanes), text)
        self.lane = lane


def number(like: Type, value: float) -> Constant:
    """A number in every lane of a type; a float must be one that the type has."""
    return splat_constant(ir.Constant(scalar_of(like), value), lanes_of(like))


def int_lanes(values: Sequence[int], ty: ir.IntType = I64) -> Constant:
    """A constant vector of integers."""
    body = ", ".join(f"{ty} {v}" for v in values)
    return Literal(ir.VectorType(ty, len(values)), f"<{body}>")


def all_on(lanes: int) -> Constant:
    """The mask that is set in every lane."""
    return splat_constant(ir.Constant(I1, 1), lanes)


def is_all_on(mask: Value) -> bool:
    """Whether a mask is known to be set in every lane. A constant need not be: it may be all off."""
    if not isinstance(mask, ir.Constant):
        return False
    return mask.get_reference() == all_on(lanes_of(mask.type)).get_reference()


def undefined(ty: Type) -> Constant:
    """The undefined value of a type."""
    return Literal(ty, "undef")


def is_undefined(value: Value) -> bool:
    """Whether a value was made by :func:`undefined`."""
    return isinstance(value, Literal) and value.constant == "undef"


def splat(b: Builder, value: Value, lanes: int) -> Value:
    """The scalar in every lane; a vector stays."""
    if not lanes or isinstance(value.type, ir.VectorType):
        return value
    if isinstance(value, ir.Constant):
        return splat_constant(value, lanes)
    ty = ir.VectorType(value.type, lanes)
    first = b.insert_element(undefined(ty), value, ir.Constant(ir.IntType(32), 0))
    return shuffle(b, first, first, [0] * lanes)


def splatted(value: Value) -> Value | None:
    """The scalar that ``splat`` has put in every lane; None for other vectors."""
    if not isinstance(value, ir.instructions.ShuffleVector):
        return None
    first, _, order = value.operands
    if any(lane.constant for lane in order.constant):
        return None
    if not isinstance(first, ir.instructions.InsertElement) or first.operands[2].constant:
        return None
    return first.operands[1]


def by_registers(
    b: Builder, operands: Sequence[Value], bits: int, make: Callable[[Sequence[Value]], Value]
) -> Value:
    """What ``make`` gives for vectors of lanes of so many bits, asked for no more of them at once than a register of the target
    holds: it may have an instruction for these."""
    lanes = lanes_of(operands[0].type)
    if lanes * bits <= target_of(b).vector_bits:
        return make(operands)
    half = lanes // 2
    first, second = (
        by_registers(b, [shuffle(b, v, v, range(at, at + half)) for v in operands], bits, make)
        for at in (0, half)
    )
    return shuffle(b, first, second, range(lanes))


def shuffle(b: Builder, lhs: Value, rhs: Value, mask: Sequence[int]) -> Value:
    """The lanes of two vectors that ``mask`` numbers, those of ``rhs`` behind those of ``lhs``."""
    constant = ir.Constant(ir.VectorType(ir.IntType(32), len(mask)), list(mask))
    found = b.shuffle_vector(lhs, rhs, constant)
    # One that is undefined has no key, and needs none.
    keys = key_of(b, lhs), key_of(b, lhs if is_undefined(rhs) else rhs)
    if keys[0] is not None and keys[1] is not None:
        set_key(b, found, b.shuffle_vector(keys[0], keys[1], constant))
    return found


def set_key(b: Builder, value: Value, key: Value) -> None:
    """Remember of which integer, in the order of floats, a value was made, for operations that go on with that integer. It is
    there wherever the value is."""
    module = b.module
    assert isinstance(module, TargetModule)
    module.keys[id(value)] = value, key


def key_of(b: Builder, value: Value) -> Value | None:
    """The integer that a value was made of; None where it was made of something else."""
    module = b.module
    assert isinstance(module, TargetModule)
    found = module.keys.get(id(value))
    return None if found is None else found[1]


def type_suffix(ty: Type) -> str:
    """The name of a type in the names of intrinsics."""
    lanes, scalar = lanes_of(ty), scalar_of(ty)
    name = f"i{scalar.width}" if isinstance(scalar, ir.IntType) else INTRINSIC_SUFFIX[str(scalar)]
    return f"v{lanes}{name}" if lanes else name


def declare(module: ir.Module, name: str, result: Type, args: Sequence[Type]) -> ir.Function:
    """The function of that name, declared at most once in a module."""
    found = module.globals.get(name)
    if found is None:
        found = ir.Function(module, ir.FunctionType(result, list(args)), name)
    assert isinstance(found, ir.Function)
    return found


def intrinsic(
    b: Builder,
    name: str,
    args: Sequence[Value],
    result: Type | None = None,
    overloads: Sequence[Type] | None = None,
) -> Value:
    """A call of ``llvm.NAME``, overloaded on the type of the first argument unless told else."""
    types = [args[0].type] if overloads is None else overloads
    full = ".".join(["llvm", name, *map(type_suffix, types)])
    function = declare(b.module, full, result or args[0].type, [a.type for a in args])
    return b.call(function, list(args))


def masked_store(b: Builder, args: Sequence[Value]) -> None:
    """``llvm.masked.store`` of data, address, alignment and mask.

    Words of 16 bits go as ``half``: where a mask turns out to be on in one constant lane alone, LLVM stores that lane in
    the register that it was widened to, 32 bits, over the neighbour.
    """
    data, *others = args
    if lanes_of(data.type) and scalar_of(data.type) == ir.IntType(16):
        data = b.bitcast(data, shaped(ir.HalfType(), data.type))
    overloads = [data.type, others[0].type]
    intrinsic(b, "masked.store", [data, *others], ir.VoidType(), overloads)


def prefetch(b: Builder, pointer: Value, *, near: bool = True, write: bool = False) -> None:
    """Ask for the cache line at a pointer, which need not be valid; ``near``: into the first cache."""
    word = ir.IntType(32)
    function = declare(b.module, "llvm.prefetch.p0", ir.VoidType(), [PTR, word, word, word])
    kind, keep, data = (ir.Constant(word, n) for n in (int(write), 3 if near else 2, 1))
    b.call(function, [pointer, kind, keep, data])


def count(
    b: Builder, start: Value, end: Value, step: Value, body: Callable[[Builder, Value], None]
) -> None:
    """Run a body for ``start, start + step, ... < end``."""
    entry, inside, after = b.block, b.append_basic_block("each"), b.append_basic_block("counted")
    b.cbranch(b.icmp_unsigned("<", start, end), inside, after)
    b.position_at_end(inside)
    at = b.phi(I64)
    at.add_incoming(start, entry)
    body(b, at)
    following = b.add(at, step)
    at.add_incoming(following, b.block)
    b.cbranch(b.icmp_unsigned("<", following, end), inside, after)
    b.position_at_end(after)


def count_with(
    b: Builder,
    end: Value,
    start: Sequence[Value],
    body: Callable[[Value, list[Value]], list[Value]],
) -> list[Value]:
    """Run a body for ``0, 1, ... < end``, once at least; it is given the number and values, and gives the next values. The
    last ones are returned."""
    entry, again, after = b.block, b.append_basic_block("each"), b.append_basic_block("counted")
    b.branch(again)
    b.position_at_end(again)
    number = b.phi(I64)
    number.add_incoming(ir.Constant(I64, 0), entry)
    phis = [b.phi(value.type) for value in start]
    for phi, value in zip(phis, start, strict=True):
        phi.add_incoming(value, entry)
    following = body(number, list(phis))
    advanced = b.add(number, ir.Constant(I64, 1), flags=["nuw", "nsw"])
    for phi, value in zip([number, *phis], [advanced, *following], strict=True):
        phi.add_incoming(value, b.block)
    b.cbranch(b.icmp_unsigned("<", advanced, end), again, after)
    b.position_at_end(after)
    return following


def any_lane(b: Builder, mask: Value) -> Value:
    """Whether a lane of an i1 vector is set; a scalar stays."""
    if not lanes_of(mask.type):
        return mask
    return intrinsic(b, "vector.reduce.or", [mask], I1)


def signed_of(constant: ir.Constant) -> int | None:
    """The number of an integer constant, which may be written with or without its sign."""
    number = constant.constant
    if not isinstance(number, int) or not isinstance(constant.type, ir.IntType):
        return None
    half = 1 << constant.type.width - 1
    return (number + half) % (2 * half) - half


def all_of(b: Builder, conditions: Sequence[Value]) -> Value | None:
    """The conjunction; None where there is nothing to ask."""
    result: Value | None = None
    for condition in conditions:
        result = condition if result is None else b.and_(result, condition)
    return result


def merge(b: Builder, found: Sequence[tuple[Sequence[Value], ir.Block]]) -> list[Value]:
    """The values that control brings along from several blocks."""
    merged: list[Value] = []
    for values in zip(*(values for values, _ in found), strict=True):
        phi = b.phi(values[0].type)
        for value, (_, block) in zip(values, found, strict=True):
            phi.add_incoming(value, block)
        merged.append(phi)
    return merged


class _PointerCallee(ir.Value):
    """A function known by its address and signature."""

    def __init__(self, pointer: Value, signature: ir.FunctionType) -> None:
        self.pointer = pointer
        self.function_type = self.ftype = signature
        self.type = signature.as_pointer()

    def get_reference(self) -> str:
        return self.pointer.get_reference()


def call_pointer(
    b: Builder, pointer: Value, signature: ir.FunctionType, args: Sequence[Value]
) -> Value:
    """A call of the function at an address, by the C calling convention."""
    return b.call(_PointerCallee(pointer, signature), list(args))


def store_atomic(b: Builder, value: Value, pointer: Value, ordering: str, align: int) -> None:
    """An atomic store, aligned to ``align`` bytes; llvmlite's own asks for typed pointers."""
    b._insert(ir.instructions.StoreAtomicInstr(b.block, value, pointer, ordering, align))


def store_non_temporal(b: Builder, value: Value, pointer: Value, align: int) -> None:
    """A store, aligned to ``align`` bytes, that does not bring its cache line in; ``fence_stores`` orders it before
    others.
    """
    store = b.store(value, pointer, align=align)
    store.set_metadata("nontemporal", b.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))


def fence_stores(b: Builder) -> None:
    """Wait for non-temporal stores, on x86."""
    b.call(declare(b.module, "llvm.x86.sse.sfence", ir.VoidType(), []), [])


def stack(b: Builder, ty: Type, align: int | None = None) -> Value:
    """Memory of the function for one value, as an opaque pointer."""
    found = b.alloca(ty)
    found.type, found.align = PTR, align
    return found


class _Opaque(ir.Value):
    """A value under the type of opaque pointers."""

    def __init__(self, value: Value) -> None:
        self.value = value
        self.type = PTR

    def get_reference(self) -> str:
        return self.value.get_reference()


def opaque(value: Value) -> Value:
    """The address of a global variable, without the type that llvmlite gives it."""
    return _Opaque(value)


def zeros(module: ir.Module, name: str, size: int, align: int) -> Value:
    """Memory of a module, so many bytes that are zero at first, by its name; made where it is first asked for."""
    found = module.globals.get(name)
    if found is None:
        ty = ir.ArrayType(ir.IntType(8), size)
        found = ir.GlobalVariable(module, ty, name)
        found.linkage = "internal"
        found.align = align  # pyright: ignore[reportAttributeAccessIssue]
        found.initializer = ir.Constant(ty, None)  # pyright: ignore[reportAttributeAccessIssue]
    return opaque(found)


def held_by(value: object) -> object:
    """The value itself, or the one that it stands for under another type."""
    if isinstance(value, _Opaque):
        return value.value
    return value.pointer if isinstance(value, _PointerCallee) else value


class _AnyAttributes(ir.values.FunctionAttributes):
    """Function attributes beyond those that llvmlite lists, strings among them."""

    def add(self, name: str) -> None:
        set.add(self, name)


def prepare(function: ir.Function, target: CpuTarget) -> None:
    """Give a function the attributes that all code has."""
    add_attribute(function, "nounwind")
    if target.is_x86:
        bits = target.vector_bits
        add_attribute(function, f'"prefer-vector-width"="{bits}"')
        add_attribute(function, f'"min-legal-vector-width"="{bits}"')


def add_attribute(function: ir.Function, text: str) -> None:
    """Give a function an attribute, as it is written in LLVM IR."""
    if not isinstance(function.attributes, _AnyAttributes):
        attributes = _AnyAttributes()
        for known in function.attributes:
            attributes.add(known)
        function.attributes = attributes
    function.attributes.add(text)
