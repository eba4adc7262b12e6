"""Vectors in memory under masks.

AVX-512 reads and writes them so by itself. AVX does for words of 32 and 64 bits, where AMD's stores wait for the cache line and for
all stores before them, and LLVM takes the lanes of all others one by one, with a branch for each. Most masks are on in all lanes, which
is asked first, or in none. Else a vector that is read comes as a whole if its page has a lane that is read; runs of lanes that are
written, or that are read next to another page, are copied by a function of their own.
"""

from __future__ import annotations

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm, uncommon
from tilewright.cpu.codegen.ir.elements import I1, I8, I32, I64, PTR
from tilewright.cpu.codegen.ir.types import Builder, Type, Value
from tilewright.cpu.target import CpuTarget

_VOID = ir.VoidType()
#: No system has smaller pages.
_PAGE = 4096
#: Words that are copied at once, in bytes.
_WORD = 8
#: AVX has stores and loads under masks for such elements and longer ones.
_FEWEST_BYTES = 4
#: Vectors of so many bytes or more have what lies so far behind them fetched ahead where they are loaded under a mask.
_ASKED_FOR, _AHEAD = 32, 128
#: The lanes of a mask are counted in words.
_MOST_LANES = 64
#: Of how many bits mask registers hold parts that they take from other registers as they are.
_MASK_BITS = (8, 16, 32, 64)
#: So many lanes are stored by one branch for each, where not all are.
_FEW_LANES = 4


def masked_load(
    b: Builder,
    pointer: Value,
    ty: Type,
    on: Value,
    other: Value | None = None,
    align: int | None = None,
    *,
    near: bool = False,
) -> Value:
    """A vector of elements, ``other`` (None: anything) in lanes where the mask is off, which are not read unless they
    are on a page with one that is. ``align``: what the address is a multiple of, in bytes; None for the size of an element. ``near``: the
    address is that of memory, or next to some, whatever the mask is."""
    otherwise = llvm.undefined(ty) if other is None else other
    unit, target = llvm.scalar_bytes(llvm.scalar_of(ty)), llvm.target_of(b)
    align = unit if align is None else align
    if _is_native(target, unit) or _is_plain(on):
        if target.is_x86 and not target.has("avx512f") and llvm.lanes_of(ty) * unit >= _ASKED_FOR:
            # Without that a Zen 3 takes five times as long where memory is behind the second cache: it has nothing fetched ahead
            # for such loads.
            llvm.prefetch(b, b.gep(pointer, [ir.Constant(I64, _AHEAD)], source_etype=I8))
        if not near and not _is_plain(on):
            pointer = somewhere(b, pointer, llvm.any_lane(b, on))
        args: list[Value] = [pointer, ir.Constant(I32, align), on, otherwise]
        return llvm.intrinsic(b, "masked.load", args, ty, [ty, PTR])
    name = f"tilewright.masked.load.{llvm.type_suffix(ty)}.{align}"
    function = b.module.globals.get(name)
    if function is None:
        function = uncommon.inlined(b.module, name, ty, [PTR, on.type, ty])
        _load(function, unit, align)
    return b.call(function, [pointer, on, otherwise])


def masked_store(b: Builder, data: Value, pointer: Value, on: Value, *, near: bool = False) -> None:
    """Store the lanes of a vector of elements, aligned to their size, where the mask is on. ``near``: as for ``masked_load``."""
    unit, target = llvm.scalar_bytes(llvm.scalar_of(data.type)), llvm.target_of(b)
    if llvm.is_all_on(on):
        store_whole(b, data, pointer, unit)
        return
    lanes = on.constant if isinstance(on, ir.Constant) else None
    if isinstance(lanes, list) and unit >= _FEWEST_BYTES and not target.has("avx512f"):
        _store_lanes(b, data, pointer, lanes, unit)
        return
    if (target.has("avx512f") and _is_native(target, unit)) or _is_plain(on):
        if not near and not _is_plain(on):
            pointer = somewhere(b, pointer, llvm.any_lane(b, on))
        llvm.masked_store(b, [data, pointer, ir.Constant(I32, unit), on])
        return
    name = f"tilewright.masked.store.{llvm.type_suffix(data.type)}"
    function = b.module.globals.get(name)
    if function is None:
        function = uncommon.inlined(b.module, name, _VOID, [data.type, PTR, on.type])
        _store(function, unit)
    b.call(function, [data, pointer, on])


def somewhere(b: Builder, pointer: Value, any_on: Value) -> Value:
    """An address for a vector under a mask: memory of the module's own, unless a lane is on.

    Nothing is accessed there, but a processor finds that out only after it has looked for the page: where there is none, such as in front
    of an array, a Zen 4 takes some 500 cycles (a stencil on 401 x 601 f64 at the edge of mapped memory: 6.0 instead of 0.35 ms).
    """
    if not llvm.target_of(b).is_x86:
        return pointer
    return b.select(any_on, pointer, llvm.zeros(b.module, _OWN, _OWN_BYTES, _OWN_BYTES))


#: Memory that nobody uses, as long as the longest vector that is accessed under a mask.
_OWN, _OWN_BYTES = "nothing", 512


def mask_where(b: Builder, mask: Value, holds: Value) -> Value:
    """A mask of several lanes, all off unless a condition holds.

    AVX holds masks in words as wide as the elements. A mask that was found once for many rows is kept in such words, which the
    condition of each row turns off; LLVM would take them to shorter words and back. With AVX-512 the condition is a number of as many
    bits: LLVM would put it into all lanes of a vector, to compare them.
    """
    target, lanes = llvm.target_of(b), llvm.lanes_of(mask.type)
    if target.has("avx512f") and lanes in _MASK_BITS and not isinstance(holds, ir.Constant):
        bits = b.sext(holds, ir.IntType(lanes))
        return b.and_(mask, b.bitcast(bits, ir.VectorType(I1, lanes)))
    few = lanes * 8 < 32
    if few or not target.has("avx2") or target.has("avx512f") or isinstance(mask, ir.Constant):
        return b.and_(mask, llvm.splat(b, holds, lanes))
    bits = min(max(target.vector_bits // lanes, 8), 64)
    words = ir.VectorType(ir.IntType(bits), lanes)
    floats = ir.VectorType(ir.FloatType(), bits * lanes // 32)
    held = llvm.intrinsic(b, "arithmetic.fence", [b.bitcast(b.sext(mask, words), floats)])
    each = llvm.splat(b, b.sext(holds, words.element), lanes)
    return b.icmp_signed("<", b.and_(b.bitcast(held, words), each), llvm.number(words, 0))


def store_whole(b: Builder, data: Value, pointer: Value, align: int) -> None:
    """Store a vector or a number, at a multiple of ``align`` bytes.

    A choice between something and what is there already stays one where there is AVX: LLVM would store the former under a mask,
    in a loop over lanes on some processors.
    """
    target, lanes = llvm.target_of(b), llvm.lanes_of(data.type)
    chosen = isinstance(data, ir.instructions.SelectInstr) and lanes > 1
    unit = llvm.scalar_bytes(llvm.scalar_of(data.type)) if chosen else 0
    if unit >= _FEWEST_BYTES and target.has("avx") and not target.has("avx512f"):
        floats = ir.VectorType(ir.FloatType() if unit == _FEWEST_BYTES else ir.DoubleType(), lanes)
        data = llvm.intrinsic(b, "arithmetic.fence", [b.bitcast(data, floats)])
    b.store(data, pointer, align=align)


def _store_where_on(
    b: Builder, data: Value, pointer: Value, bits: Value, lane: int, unit: int
) -> None:
    on, off = (b.append_basic_block(name) for name in ("on", "off"))
    bit = b.and_(bits, ir.Constant(bits.type, 1 << lane))
    b.cbranch(b.icmp_unsigned("!=", bit, ir.Constant(bits.type, 0)), on, off)
    b.position_at_end(on)
    _store_lane(b, data, pointer, lane, unit)
    b.branch(off)
    b.position_at_end(off)


def _store_lane(b: Builder, data: Value, pointer: Value, lane: int, unit: int) -> None:
    where = b.gep(pointer, [ir.Constant(I64, lane * unit)], source_etype=I8)
    b.store(b.extract_element(data, ir.Constant(I32, lane)), where, align=unit)


def _store_lanes(b: Builder, data: Value, pointer: Value, on: list[ir.Constant], unit: int) -> None:
    """Store the lanes whose mask is known to be on one by one."""
    for lane, each in enumerate(on):
        if each.constant:
            _store_lane(b, data, pointer, lane, unit)


def _is_native(target: CpuTarget, unit: int) -> bool:
    """Whether the processor loads elements of so many bytes under masks."""
    if unit >= _FEWEST_BYTES:
        return target.has("avx")
    return target.has("avx512bw") and target.has("avx512vl")


def _is_plain(on: Value) -> bool:
    """Whether LLVM knows best: of a mask that is known, and of a single lane."""
    return isinstance(on, ir.Constant) or not 1 < llvm.lanes_of(on.type) <= _MOST_LANES


def _asked(function: ir.Function, on: Value) -> tuple[Builder, Value, Value]:
    """A builder behind the question whether all lanes are on, for where not all are; the mask as a number, and the block
    for where they are."""
    entry, whole, rest = (function.append_basic_block(n) for n in ("entry", "whole", "rest"))
    b = ir.IRBuilder(entry)
    ty = ir.IntType(llvm.lanes_of(on.type))
    bits = b.bitcast(on, ty)
    all_on = b.icmp_unsigned("==", bits, ir.Constant(ty, -1))
    uncommon.branch(b, all_on, whole, rest)
    b.position_at_end(rest)
    return b, bits, whole


def _load(function: ir.Function, unit: int, align: int) -> None:
    pointer, on, other = function.args
    ty = other.type
    size = unit * llvm.lanes_of(ty)
    b, bits, whole = _asked(function, on)
    near, apart, some = (function.append_basic_block(n) for n in ("near", "apart", "some"))
    done = function.append_basic_block("done")
    found: list[tuple[Value, ir.Block]] = []

    def done_with(value: Value) -> None:
        found.append((value, b.block))
        b.branch(done)

    inside = b.and_(b.ptrtoint(pointer, I64), ir.Constant(I64, _PAGE - 1))
    on_one_page = b.icmp_unsigned("<=", inside, ir.Constant(I64, _PAGE - size))
    any_on = b.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))
    uncommon.branch(b, b.and_(any_on, on_one_page), near, apart)
    b.position_at_end(near)
    done_with(b.select(on, b.load(pointer, typ=ty, align=align), other))
    b.position_at_end(apart)
    found.append((other, apart))
    b.cbranch(any_on, some, done)
    b.position_at_end(some)
    held = _on_stack(function, ty, size)
    b.store(other, held, align=unit)
    _copy_lanes(b, held, pointer, bits, unit)
    done_with(b.load(held, typ=ty, align=unit))
    b.position_at_end(whole)
    done_with(b.load(pointer, typ=ty, align=align))
    b.position_at_end(done)
    result = b.phi(ty)
    for value, block in found:
        result.add_incoming(value, block)
    b.ret(result)


def _store(function: ir.Function, unit: int) -> None:
    data, pointer, on = function.args
    b, bits, whole = _asked(function, on)
    lanes, done = llvm.lanes_of(data.type), function.append_basic_block("done")
    if lanes <= _FEW_LANES:
        for lane in range(lanes):
            _store_where_on(b, data, pointer, bits, lane, unit)
    else:
        some = function.append_basic_block("some")
        b.cbranch(b.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0)), some, done)
        b.position_at_end(some)
        held = _on_stack(function, data.type, unit * lanes)
        b.store(data, held, align=unit)
        _copy_lanes(b, pointer, held, bits, unit)
    b.branch(done)
    b.position_at_end(whole)
    b.store(data, pointer, align=unit)
    b.branch(done)
    b.position_at_end(done)
    b.ret_void()


def _on_stack(function: ir.Function, ty: Type, size: int) -> Value:
    b = ir.IRBuilder(function.entry_basic_block)
    b.position_at_start(function.entry_basic_block)
    return llvm.stack(b, ty, min(size, 16))


def _copy_lanes(b: Builder, to: Value, source: Value, bits: Value, unit: int) -> None:
    """Copy the elements of so many bytes whose bits are set, of which there is one at least."""
    module = b.module
    name = f"tilewright.masked.copy.{unit}"
    function = module.globals.get(name)
    if function is None:
        function = uncommon.apart(module, name, [PTR, PTR, I64], llvm.target_of(b))
        _copy_runs(function, unit)
    wide = bits if bits.type == I64 else b.zext(bits, I64)
    uncommon.call_apart(b, function, [to, source, wide])


def _copy_runs(function: ir.Function, unit: int) -> None:
    """One run of set bits after the other, each by words, of which the last one may overlap the one before it."""
    to, source, bits = function.args
    entry, each = function.append_basic_block("entry"), function.append_basic_block("each")
    b = ir.IRBuilder(entry)
    b.branch(each)
    b.position_at_end(each)
    left = b.phi(I64)
    left.add_incoming(bits, entry)
    first = _trailing_zeros(b, left)
    count = _trailing_zeros(b, b.not_(b.lshr(left, first)))
    size = ir.Constant(I64, unit)
    offset, length = b.mul(first, size), b.mul(count, size)
    here, there = (b.gep(place, [offset], source_etype=I8) for place in (to, source))
    following = function.append_basic_block("following")
    word = _WORD
    while word > unit:
        enough, fewer = (function.append_basic_block(n) for n in ("enough", "fewer"))
        b.cbranch(b.icmp_unsigned(">=", length, ir.Constant(I64, word)), enough, fewer)
        b.position_at_end(enough)
        _copy_words(b, here, there, length, word)
        b.branch(following)
        b.position_at_end(fewer)
        word //= 2
    _copy_words(b, here, there, length, unit)
    b.branch(following)
    b.position_at_end(following)
    lowest = b.and_(left, b.neg(left))
    rest = b.and_(left, b.add(left, lowest))
    left.add_incoming(rest, following)
    done = function.append_basic_block("done")
    b.cbranch(b.icmp_unsigned("!=", rest, ir.Constant(I64, 0)), each, done)
    b.position_at_end(done)
    b.ret_void()


def _copy_words(b: Builder, to: Value, source: Value, length: Value, word: int) -> None:
    """Copy so many bytes, a word at least, and less than two unless words are the longest ones."""
    last = b.sub(length, ir.Constant(I64, word))
    if word == _WORD:
        step = ir.Constant(I64, word)
        llvm.count(b, ir.Constant(I64, 0), last, step, lambda b, at: _copy(b, to, source, at, word))
    else:
        _copy(b, to, source, ir.Constant(I64, 0), word)
    _copy(b, to, source, last, word)


def _copy(b: Builder, to: Value, source: Value, at: Value, size: int) -> None:
    here, there = (b.gep(place, [at], source_etype=I8) for place in (to, source))
    b.store(b.load(there, typ=ir.IntType(8 * size), align=1), here, align=1)


def _trailing_zeros(b: Builder, value: Value) -> Value:
    return llvm.intrinsic(b, "cttz", [value, ir.Constant(I1, 0)], value.type, [value.type])
