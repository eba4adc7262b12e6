"""The bf16 microkernel for processors with tile registers (AMX).

A register holds 16 rows of 64 bytes. Operands are those of ``microkernel``: the left one in place, the right one in strips of
pairs, in which 16 rows of 16 pairs fill one register. Blocks of up to 32 x 32 results stay in four registers while k
runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I8, I64, PTR, VOID
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.products.factors import Entry, Table, each_round
from tilewright.cpu.target import CpuTarget

ROWS = 16
COLUMNS = 32
"""Of one strip: the pairs of two registers."""
DEPTH = 32
_ROW_BYTES = 64
_REGISTERS = 8
#: Four registers of sums, then two of the left operand and two of the right one.
_LEFT, _RIGHT = 4, 6


def fits(target: CpuTarget, accumulation: str, m: int, n: int, k: int) -> bool:
    """Whether a product of a scheme and shape goes there, in strips of ``COLUMNS``."""
    able = target.has("amx-tile") and target.has("amx-bf16") and accumulation == "bf16"
    return able and m % ROWS == 0 and n % COLUMNS == 0 and k % DEPTH == 0


@dataclass(frozen=True, slots=True)
class Sums:
    """What a kernel adds its products to, unless ``fresh``, and where it writes the sums."""

    pointer: Value
    target: Value
    target_step: Value
    fresh: Value


def emit(b: Builder, dims: tuple[int, int, int], source: Table | Entry, sums: Sums) -> None:
    """The body of a kernel function (``microkernel.kernel_function``)."""
    m, n, k = dims
    _call(b, "ldtilecfg", [_configuration(b.module)])
    nest = LoopNest(b)
    parts = 1 if m % (2 * ROWS) else 2
    block = nest.position(nest.loop(m, ROWS * parts)).value
    strip = nest.position(nest.loop(n, COLUMNS)).value
    b = nest.inner
    row_bytes = _number(n * 4)
    column = b.mul(strip, _number(4))
    here = _moved(b, sums.pointer, b.add(b.mul(block, row_bytes), column))
    _begin(b, here, row_bytes, parts, sums.fresh)

    def add(entry: Entry, nothing: list[Value]) -> list[Value]:
        _add_products(nest, entry, block, strip, k, parts)
        return nothing

    if isinstance(source, Entry):
        add(source, [])
    else:
        each_round(nest, source, [], add)
    b = nest.inner
    there = _moved(b, sums.target, b.add(b.mul(block, sums.target_step), column))
    for number, place in _places(b, there, sums.target_step, parts):
        _call(b, "tilestored64", [number, place, sums.target_step])
    nest.close_all()
    _call(nest.inner, "tilerelease", [])


def _add_products(
    nest: LoopNest, entry: Entry, block: Value, strip: Value, k: int, parts: int
) -> None:
    """Add the products of some rows and a strip of columns to the registers of sums."""
    b = nest.inner
    first = _moved(b, entry.left, b.mul(block, entry.left_step))
    panel = _moved(b, entry.right, b.mul(strip, _number(2 * k)))
    depth = nest.depth
    step = nest.position(nest.loop(k, DEPTH)).value
    inner = nest.inner
    along = _moved(inner, first, inner.mul(step, _number(2)))
    down = _moved(inner, panel, inner.mul(step, _number(2 * COLUMNS)))
    lefts = [
        _moved(inner, along, inner.mul(_number(part * ROWS), entry.left_step))
        for part in range(parts)
    ]
    for half in range(2):
        pairs = _moved(inner, down, _number(half * _ROW_BYTES))
        _call(inner, "tileloadd64", [_register(_RIGHT + half), pairs, _number(COLUMNS * 4)])
        for part in range(parts):
            if not half:
                step_bytes = entry.left_step
                _call(inner, "tileloadd64", [_register(_LEFT + part), lefts[part], step_bytes])
            factors = [_register(_LEFT + part), _register(_RIGHT + half)]
            _call(inner, "tdpbf16ps", [_register(part * 2 + half), *factors])
    if nest.depth > depth:
        nest.close()


def _begin(b: Builder, sums: Value, step: Value, parts: int, fresh: Value) -> None:
    """Set the sums to zero, or load them."""
    with b.if_else(fresh) as (zero, add):
        with zero:
            for number in range(2 * parts):
                _call(b, "tilezero", [_register(number)])
        with add:
            for number, place in _places(b, sums, step, parts):
                _call(b, "tileloadd64", [number, place, step])


def _places(b: Builder, corner: Value, step: Value, parts: int) -> list[tuple[Value, Value]]:
    """The registers of sums, and where they lie in a matrix."""
    found: list[tuple[Value, Value]] = []
    for part in range(parts):
        rows = _moved(b, corner, b.mul(_number(part * ROWS), step))
        for half in range(2):
            place = _moved(b, rows, _number(half * _ROW_BYTES))
            found.append((_register(part * 2 + half), place))
    return found


def _configuration(module: ir.Module) -> Value:
    """All registers of full size."""
    name = "tilewright.tile.registers"
    found = module.globals.get(name)
    if found is None:
        data = bytearray(64)
        data[0] = 1
        for number in range(_REGISTERS):
            data[16 + 2 * number] = _ROW_BYTES
            data[48 + number] = ROWS
        array = ir.Constant(ir.ArrayType(I8, len(data)), data)
        found = ir.GlobalVariable(module, array.type, name)
        found.linkage, found.global_constant = "internal", True
        found.align = 64  # pyright: ignore[reportAttributeAccessIssue]
        found.initializer = array  # pyright: ignore[reportAttributeAccessIssue]
    return llvm.opaque(found)


def _call(b: Builder, name: str, arguments: list[Value]) -> None:
    types = [I8 if a.type == I8 else I64 if a.type == I64 else PTR for a in arguments]
    function = llvm.declare(b.module, f"llvm.x86.{name}", VOID, types)
    b.call(function, arguments)


def _register(number: int) -> Value:
    return ir.Constant(I8, number)


def _number(value: int) -> Value:
    return ir.Constant(I64, value)


def _moved(b: Builder, pointer: Value, distance: Value) -> Value:
    return b.gep(pointer, [distance], source_etype=I8)
