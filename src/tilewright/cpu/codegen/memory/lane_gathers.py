"""Vectors whose lanes come from anywhere: gathers by what the processor has for them.

LLVM gathers by the processor's instruction only where it deems that fast, and takes a branch for each lane elsewhere, which is
mispredicted where masks vary. On processors with AVX2 but no AVX-512 the instruction is named here: it takes the mask as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I8, I32, I64, PTR, Element
from tilewright.cpu.codegen.ir.types import Builder, Type, Value

#: By which the addressing of x86 multiplies.
SCALES = (1, 2, 4, 8)
#: Processors gather words of 32 bits at least.
WORD_BYTES, _FEWEST_WORDS = 4, 4
_AVX2_BITS = 256
#: What is gathered at once at fewest, in bits, where offsets are no wider than elements.
_SHORTEST_BITS = 128
PAGE = 4096


def gather_from(b: Builder, pointers: Value, element: Element, on: Value, fallback: Value) -> Value:
    """The buffer form of the elements behind pointers, ``fallback`` where the mask is off."""
    lanes = llvm.lanes_of(pointers.type)
    if element.buffer_bytes < WORD_BYTES and lanes >= _FEWEST_WORDS:
        return _gather_in_words(b, pointers, element, on, fallback)
    return _gather(b, pointers, ir.VectorType(element.buffer, lanes), on, fallback)


def gather_behind(
    b: Builder, base: Value, offsets: Value, unit: int, element: Element, on: Value, fallback: Value
) -> Value:
    """The same of the elements at offsets from one base, in units of so many bytes (``SCALES``)."""
    ty = ir.VectorType(element.buffer, llvm.lanes_of(offsets.type))
    base, offsets = narrow(b, base, offsets, unit)
    parts = [base, offsets, on, fallback]
    if (found := _by_avx2(b, parts, unit, ty)) is not None:
        return found
    pointers = b.gep(base, [offsets], source_etype=ir.IntType(8 * unit))
    pointers.type = llvm.shaped(PTR, ty)
    return gather_from(b, pointers, element, on, fallback)


def load_each(b: Builder, pointer: Value, behind: Sequence[Value], element: Element) -> Value:
    """The buffer form of the elements so many bytes behind a pointer, loaded one by one: where such numbers are known before a
    loop, or constants, that takes a half to a quarter of the time of a gather."""
    found: Value = llvm.undefined(ir.VectorType(element.buffer, len(behind)))
    for lane, number in enumerate(behind):
        where = b.gep(pointer, [number], source_etype=I8)
        one = b.load(where, typ=element.buffer, align=element.buffer_bytes)
        found = b.insert_element(found, one, ir.Constant(I32, lane))
    return found


def store_each(
    b: Builder, pointer: Value, behind: Sequence[Value], data: Value, element: Element
) -> None:
    """The same for a store, in ascending order of lanes."""
    for lane, number in enumerate(behind):
        where = b.gep(pointer, [number], source_etype=I8)
        one = b.extract_element(data, ir.Constant(I32, lane))
        b.store(one, where, align=element.buffer_bytes)


def _gather(b: Builder, pointers: Value, ty: Type, on: Value, fallback: Value) -> Value:
    if _has_avx2_alone(b) and not llvm.is_all_on(on):
        addresses = b.ptrtoint(pointers, llvm.shaped(I64, ty))
        parts = [ir.Constant(PTR, None), addresses, on, fallback]
        if (found := _by_avx2(b, parts, 1, ty)) is not None:
            return found
    size = ir.Constant(I32, llvm.scalar_bytes(ty.element))
    args = [pointers, size, on, fallback]
    return llvm.intrinsic(b, "masked.gather", args, ty, [ty, pointers.type])


def _gather_in_words(
    b: Builder, pointers: Value, element: Element, on: Value, fallback: Value
) -> Value:
    """Elements of one or two bytes out of the aligned words that hold them: a word is on the page of its element."""
    lanes = llvm.lanes_of(pointers.type)
    addresses = b.ptrtoint(pointers, ir.VectorType(I64, lanes))
    inside = b.and_(addresses, llvm.number(addresses.type, WORD_BYTES - 1))
    firsts = b.inttoptr(b.sub(addresses, inside), pointers.type)
    ty = ir.VectorType(I32, lanes)
    words = _gather(b, firsts, ty, on, llvm.number(ty, 0))
    words = b.lshr(words, b.shl(b.trunc(inside, ty), llvm.number(ty, 3)))
    bits = b.trunc(words, ir.VectorType(ir.IntType(8 * element.buffer_bytes), lanes))
    held = ir.VectorType(element.buffer, lanes)
    return b.select(on, bits if bits.type == held else b.bitcast(bits, held), fallback)


def _has_avx2_alone(b: Builder) -> bool:
    """Whether AVX2 gathers, and nothing newer. LLVM's own choice is right for the others."""
    target = llvm.target_of(b)
    return target.is_x86 and target.has("avx2") and not target.has("avx512f")


def _by_avx2(b: Builder, parts: Sequence[Value], unit: int, ty: Type) -> Value | None:
    """``ty``, the elements at a base and offsets where a mask is on, a fallback elsewhere, by AVX2's instruction; None where it
    has none for such, and where the mask is on everywhere: loads one by one take no longer then, and LLVM knows where."""
    base, offsets, on, fallback = parts
    bits, wide = 8 * llvm.scalar_bytes(ty.element), llvm.scalar_of(offsets.type).width
    if not _has_avx2_alone(b) or llvm.is_all_on(on) or bits not in (32, 64) or wide not in (32, 64):
        return None
    lanes = min(ty.count, _AVX2_BITS // max(bits, wide))
    least = _SHORTEST_BITS if bits == wide else _AVX2_BITS
    if ty.count % lanes or lanes * max(bits, wide) < least:
        return None
    words = ir.IntType(bits)
    chosen = b.sext(on, llvm.shaped(words, ty))
    if words != ty.element:
        chosen = b.bitcast(chosen, ty)

    def piece(first: int) -> Value:
        part = [part_of(b, each, first, lanes) for each in (fallback, offsets, chosen)]
        args = [part[0], base, part[1], part[2], ir.Constant(I8, unit)]
        types = [each.type for each in args]
        name = _name(ty.element, bits, wide, lanes)
        return b.call(llvm.declare(b.module, name, part[0].type, types), args)

    return joined(b, piece, ty.count, lanes)


def narrow(b: Builder, base: Value, offsets: Value, unit: int) -> tuple[Value, Value]:
    """A base and offsets that give the same addresses, with what is equal in all lanes in the base. If 32 bits hold what is
    left, it is not extended: the processor does that, and takes twice as many offsets at once."""
    moved: list[Value] = []
    rest, ones = offsets, llvm.number(offsets.type, 1).get_reference()
    while isinstance(rest, ir.Instruction) and rest.opname in ("add", "mul"):
        first, second = rest.operands
        if rest.opname == "mul":
            if not isinstance(second, ir.Constant) or second.get_reference() != ones:
                break
            rest = first
        elif (uniform := llvm.splatted(second)) is not None:
            moved, rest = [*moved, uniform], first
        elif (uniform := llvm.splatted(first)) is not None:
            moved, rest = [*moved, uniform], second
        else:
            break
    if not isinstance(rest, ir.CastInstr) or rest.opname != "sext":
        return base, offsets
    (narrow,) = rest.operands
    if llvm.scalar_of(narrow.type) != I32:
        return base, offsets
    for number in moved:
        base = b.gep(base, [number], source_etype=ir.IntType(8 * unit))
    return base, narrow


def _name(element: Type, bits: int, wide: int, lanes: int) -> str:
    """The intrinsic that gathers so many elements by offsets of 32 or 64 bits."""
    kind = {("float", 32): "ps", ("double", 64): "pd"}.get((str(element), bits))
    kind = kind or {32: "d", 64: "q"}[bits]
    short = lanes * max(bits, wide) < _AVX2_BITS
    return f"llvm.x86.avx2.gather.{'d' if wide == 32 else 'q'}.{kind}{'' if short else '.256'}"


def part_of(b: Builder, value: Value, first: int, lanes: int) -> Value:
    """So many lanes of a vector, from one on."""
    if llvm.lanes_of(value.type) == lanes:
        return value
    return llvm.shuffle(b, value, value, range(first, first + lanes))


def joined(b: Builder, piece: Callable[[int], Value], total: int, lanes: int) -> Value:
    """Pieces of so many lanes, side by side."""
    held = [piece(first) for first in range(0, total, lanes)]
    while len(held) > 1:
        order = range(2 * llvm.lanes_of(held[0].type))
        pairs = zip(held[::2], held[1::2], strict=True)
        held = [llvm.shuffle(b, *pair, order) for pair in pairs]
    return held[0]
