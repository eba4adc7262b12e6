"""`llvm`: memory accesses by address, atomics, fences.

LLVM turns masks into branches, and ptxas those into predicates. An i1 takes a byte. Atomic updates that the hardware
has are emitted as inline PTX, because LLVM 22 drops their ordering and scope; LLVM expands the others to
compare-exchange loops.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.dialects.upstream.base.shapes import element_of as element_type
from tilewright.dialects.upstream.llvm import atomics as llvm_atomics
from tilewright.dialects.upstream.llvm import ops as llvm
from tilewright.dialects.upstream.llvm.syntax import ordering_of, scope_of
from tilewright.gpu.architectures import BF16_ATOMICS, CLUSTER
from tilewright.gpu.codegen import ir, layout
from tilewright.gpu.codegen.arith import element_of, like, mangled
from tilewright.gpu.codegen.function import Function, lowers
from tilewright.gpu.codegen.ir import Value

#: LLVM's synchronization scopes and their names in PTX; the empty one is the system.
_SCOPES = {"": "sys", "device": "gpu", "block": "cta", "cluster": "cluster", "singlethread": "cta"}
_I1 = IntegerType(1)


# Types and alignment


def _in_memory(ty: Attribute) -> str:
    """The LLVM type of a value in memory."""
    (found,) = layout.parts(ty)
    return like(found, ir.I8) if element_type(ty) == _I1 else found


def _to_memory(f: Function, value: SSAValue) -> Value:
    (part,) = f.parts(value)
    return f.code.cast("zext", part, _in_memory(value.type))


def _from_memory(f: Function, result: SSAValue, found: Value) -> None:
    if element_type(result.type) == _I1:
        bit = like(found.type, ir.I1)
        zero = "0" if found.type == ir.I8 else "zeroinitializer"
        found = f.code.op(bit, f"icmp ne {found}, {zero}")
    f.set(result, found)


def _check_storable(f: Function, op: Operation, ty: Attribute) -> None:
    if layout.is_packed(element_type(ty)):
        raise f.refuse(op, "reaches whole bytes, and such elements share theirs")


def _alignment(op: Operation, ty: Attribute) -> int:
    stated = op.properties.get("alignment")
    if isinstance(stated, IntegerAttr):
        return stated.value.data
    count = ty.get_shape()[0] if isinstance(ty, VectorType) else 1
    size = count * layout.element_bytes(element_type(ty))
    return 1 << (size - 1).bit_length()


# Pointers


@lowers("llvm.mlir.zero")
def _zero(f: Function, op: Operation) -> None:
    (ty,) = f.types(op.results[0])
    f.set(op.results[0], Value(ty, "null" if ty.startswith("ptr") else "zeroinitializer"))


@lowers("llvm.ptrtoint", "llvm.inttoptr", "llvm.addrspacecast")
def _convert(f: Function, op: Operation) -> None:
    (ty,) = f.types(op.results[0])
    f.set(op.results[0], f.code.cast(op.name.partition(".")[2], f.value(op.operands[0]), ty))


@lowers("llvm.getelementptr")
def _offset(f: Function, op: Operation) -> None:
    assert isinstance(op, llvm.GetElementPtrOp)
    counted = op.properties["elem_type"]
    ty = layout.scalar(counted)
    if ty is None or layout.is_packed(counted):
        raise f.refuse(op, "counts numbers and pointers only", help="count bytes, which are i8")
    if len(op.places) != 1:
        raise f.refuse(op, "is compiled with one place only")
    (place,) = op.places
    index = ir.index(place) if isinstance(place, int) else f.value(place)
    flag = "inbounds " if op.inbounds is not None else ""
    ty = ir.I8 if ty == ir.I1 else ty
    (result,) = f.types(op.res)
    f.set(op.res, f.code.op(result, f"getelementptr {flag}{ty}, {f.value(op.base)}, {index}"))


# Gathers and scatters


def _is_everything(mask: SSAValue) -> bool:
    """Whether a mask is a constant that is all true."""
    owner = mask.owner
    if not isinstance(owner, ConstantOp):
        return False
    value = owner.value
    return isinstance(value, DenseIntOrFPElementsAttr) and all(value.get_values())


@lowers("llvm.intr.masked.gather")
def _gather(f: Function, op: Operation) -> None:
    assert isinstance(op, llvm.MaskedGatherOp)
    _check_storable(f, op, op.res.type)
    pointers, mask = f.value(op.ptrs), f.value(op.mask)
    ty, align = _in_memory(op.res.type), _alignment(op, op.res.type)
    if _is_everything(op.mask):
        found = _by_lane(f, pointers, lambda p, _: f.code.load(element_of(ty), p, align), ty)
        assert found is not None
        _from_memory(f, op.res, found)
        return
    other = Value(ty, "poison") if op.pass_thru is None else _to_memory(f, op.pass_thru)
    name = f"llvm.masked.gather.{mangled(ty)}.{mangled(pointers.type)}"
    args = [pointers, ir.integer(ir.I32, align), mask, other]
    _from_memory(f, op.res, f.code.call(name, ty, args))


@lowers("llvm.intr.masked.scatter")
def _scatter(f: Function, op: Operation) -> None:
    assert isinstance(op, llvm.MaskedScatterOp)
    _check_storable(f, op, op.value.type)
    pointers, mask, value = f.value(op.ptrs), f.value(op.mask), _to_memory(f, op.value)
    align = _alignment(op, op.value.type)
    if _is_everything(op.mask):

        def store(pointer: Value, place: Value) -> None:
            f.code.store(f.code.element(value, element_of(value.type), place), pointer, align)

        _by_lane(f, pointers, store)
        return
    name = f"llvm.masked.scatter.{mangled(value.type)}.{mangled(pointers.type)}"
    f.code.call(name, "void", [value, pointers, ir.integer(ir.I32, align), mask])


def _by_lane(
    f: Function,
    pointers: Value,
    one: Callable[[Value, Value], Value | None],
    result: str = "",
) -> Value | None:
    """Emit ``one`` for each pointer and its index; returns the vector of results, if any."""
    element = element_of(pointers.type)
    made = Value(result, "poison")
    for number in range(int(pointers.type[1 : pointers.type.index(" ")])):
        place = ir.integer(ir.I32, number)
        found = one(f.code.element(pointers, element, place), place)
        if found is not None:
            made = f.code.with_element(made, found, place)
    return made if result else None


# Loads and stores with one address


def _qualifiers(f: Function, op: Operation, *orderings: str) -> str:
    """The scope and the orderings of an atomic operation, in LLVM's syntax."""
    scope = scope_of(op)  # pyright: ignore[reportArgumentType]
    if scope not in _SCOPES:
        listed = ", ".join(f"'{known}'" for known in _SCOPES if known)
        raise f.refuse(op, f"has the scope '{scope}'; GPUs have {listed}, and none for the system")
    if scope == "cluster":
        f.require(op, CLUSTER)
    shown = f'syncscope("{scope}") ' if scope else ""
    return shown + " ".join(orderings)


def _volatile(op: Operation) -> str:
    return "volatile " if "volatile_" in op.properties else ""


@lowers("llvm.load")
def _load(f: Function, op: Operation) -> None:
    assert isinstance(op, llvm.LoadOp)
    _check_storable(f, op, op.res.type)
    ty, address = _in_memory(op.res.type), f.value(op.addr)
    head = f"{_volatile(op)}{ty}, {address}"
    align = f", align {_alignment(op, op.res.type)}"
    if ordering := ordering_of(op):
        text = f"load atomic {head} {_qualifiers(f, op, ordering)}{align}"
    else:
        note = f", !invariant.load {_EMPTY}" if op.invariant is not None else ""
        text = f"load {head}{align}{note}"
    _from_memory(f, op.res, f.code.op(ty, text))


#: An empty metadata node.
_EMPTY = "!{}"


@lowers("llvm.store")
def _store(f: Function, op: Operation) -> None:
    assert isinstance(op, llvm.StoreOp)
    _check_storable(f, op, op.value.type)
    head = f"{_volatile(op)}{_to_memory(f, op.value)}, {f.value(op.addr)}"
    align = f", align {_alignment(op, op.value.type)}"
    if ordering := ordering_of(op):
        f.code.effect(f"store atomic {head} {_qualifiers(f, op, ordering)}{align}")
    else:
        f.code.effect(f"store {head}{align}")


# Atomic updates


#: The updates with a PTX instruction, by keyword and LLVM type.
_NATIVE = {
    **{
        (keyword, f"i{bits}"): f"{name}.{letter}{bits}"
        for bits in (32, 64)
        for keyword, name, letter in (
            ("xchg", "exch", "b"),
            ("add", "add", "u"),
            ("sub", "add", "u"),
            ("_and", "and", "b"),
            ("_or", "or", "b"),
            ("_xor", "xor", "b"),
            ("max", "max", "s"),
            ("min", "min", "s"),
            ("umax", "max", "u"),
            ("umin", "min", "u"),
        )
    },
    ("uinc_wrap", "i32"): "inc.u32",
    ("udec_wrap", "i32"): "dec.u32",
    ("fadd", "float"): "add.f32",
    ("fadd", "double"): "add.f64",
    ("fadd", "half"): "add.noftz.f16",
    ("fadd", "bfloat"): "add.noftz.bf16",
}
_SEMANTICS = {
    "monotonic": "relaxed",
    "acquire": "acquire",
    "release": "release",
    "acq_rel": "acq_rel",
    # The rest is done by a preceding fence.
    "seq_cst": "acquire",
}
#: Types that are passed in integer registers.
_AS_INTEGER = {"half": ir.I16, "bfloat": ir.I16}


def _native(f: Function, op: llvm_atomics.AtomicRMWOp) -> Value | None:
    """An atomic update by one instruction, which returns the old value; None if the architecture has none."""
    value, address = f.value(op.val), f.value(op.ptr)
    given = value.type
    if op.keyword == "xchg" and given in ("float", "double"):
        value = f.code.cast("bitcast", value, ir.I32 if given == "float" else ir.I64)
    elif op.keyword == "xchg" and given.startswith("ptr"):
        value = f.code.cast("ptrtoint", value, ir.I64)
    name = _NATIVE.get((op.keyword, value.type))
    if name is None or (name.endswith("bf16") and not BF16_ATOMICS.is_in(f.unit.arch)):
        return None
    if name.endswith("bf16"):
        f.require(op, BF16_ATOMICS)
    if op.keyword == "sub":
        value = f.code.binary("sub", ir.integer(value.type, 0), value)
    register = _AS_INTEGER.get(value.type, value.type)
    ordering, scope = ordering_of(op), _SCOPES[scope_of(op)]
    space = ".global" if address.type == ir.pointer(ir.GLOBAL) else ""
    args = [address, f.code.cast("bitcast", value, register)]
    if op.res.first_use is None and ordering in ("monotonic", "release") and op.keyword != "xchg":
        f.code.asm(f"red.{_SEMANTICS[ordering]}.{scope}{space}.{name} [$0], $1;", [], args)
        return f.code.cast("bitcast", args[1], given)
    text = f"atom.{_SEMANTICS[ordering]}.{scope}{space}.{name} $0, [$1], $2;"
    if ordering == "seq_cst":
        text = f"fence.sc.{scope};\n\t{text}"
    (old,) = f.code.asm(text, [register], args)
    old = f.code.cast("bitcast", old, value.type)
    return f.code.cast("inttoptr" if given.startswith("ptr") else "bitcast", old, given)


def _check_updated(f: Function, op: Operation, ty: Attribute) -> None:
    """Raises ``TileIRError`` for types without an atomic update in LLVM."""
    if layout.element_bytes(ty) > 8:
        raise f.refuse(op, "is compiled for up to 64 bits")


@lowers("llvm.atomicrmw")
def _update(f: Function, op: Operation) -> None:
    assert isinstance(op, llvm_atomics.AtomicRMWOp)
    _check_updated(f, op, op.val.type)
    qualifiers = _qualifiers(f, op, ordering_of(op))
    found = _native(f, op)
    if found is None:
        keyword = op.keyword.removeprefix("_")
        found = f.code.op(
            f.types(op.res)[0],
            f"atomicrmw {_volatile(op)}{keyword} {f.value(op.ptr)}, {f.value(op.val)} "
            f"{qualifiers}, align {_alignment(op, op.val.type)}",
        )
    f.set(op.res, found)


@lowers("llvm.cmpxchg")
def _exchange(f: Function, op: Operation) -> None:
    assert isinstance(op, llvm_atomics.AtomicCmpXchgOp)
    _check_updated(f, op, op.val.type)
    ty, bit = f.types(op.res)
    orderings = [ordering_of(op, f"{when}_ordering") for when in ("success", "failure")]
    weak = "weak " if op.weak is not None else ""
    pair = f.code.op(
        f"{{ {ty}, i1 }}",
        f"cmpxchg {weak}{_volatile(op)}{f.value(op.ptr)}, {f.value(op.cmp)}, {f.value(op.val)} "
        f"{_qualifiers(f, op, *orderings)}, align {_alignment(op, op.val.type)}",
    )
    f.set(op.res, f.code.extract(pair, ty, 0), f.code.extract(pair, bit, 1))


@lowers("llvm.extractvalue")
def _member(f: Function, op: Operation) -> None:
    assert isinstance(op, llvm_atomics.ExtractValueOp)
    ty, parts = op.container.type, f.parts(op.container)
    position = op.properties["position"]
    assert isinstance(position, DenseArrayBase)
    for number in position.get_values():
        members = ty.types.data  # pyright: ignore[reportAttributeAccessIssue]
        counts = [len(layout.parts(member)) for member in members]
        first = sum(counts[: int(number)])
        ty, parts = members[int(number)], parts[first : first + counts[int(number)]]
    f.set(op.res, *parts)


@lowers("llvm.fence")
def _fence(f: Function, op: Operation) -> None:
    assert isinstance(op, llvm_atomics.FenceOp)
    f.code.effect(f"fence {_qualifiers(f, op, ordering_of(op))}")
