"""Calls of external functions, on the arrays that the launch was given for them."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir
from xdsl.ir import Operation, SSAValue

from tilewright.cpu.abi import SLOT_BYTES, MemorySite, PluginSite
from tilewright.cpu.codegen.control.control_flow import is_tile
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.emitter.table import lowers, refuse
from tilewright.cpu.codegen.host.callbacks import call_host
from tilewright.cpu.codegen.ir.elements import I32, I64, PTR, element_of
from tilewright.cpu.codegen.ir.types import Value
from tilewright.cpu.codegen.loops.tiles import Strided
from tilewright.cpu.codegen.memory.views import Memref, as_value
from tilewright.dialects.nv_tileaa import types as T
from tilewright.launching.assertions import OperationSource
from tilewright.launching.external_functions import missing_plugin, plugin_name
from tilewright.launching.value_types import TileLike, tile_like


@lowers(
    "extern_elementwise",
    "elementwise_inline_asm",
    "call_elementwise_intrinsic",
    "plugin",
    "inject_ir",
    "launch_func",
)
def call_out(f: FunctionEmitter, op: Operation) -> None:
    """Hands the addresses of all operands to the host, and of buffers for the results.

    Raises ``TileIRError`` (``cpu-unsupported``) where the launch was given no function for it.
    """
    name = plugin_name(op)
    if name not in f.unit.plugins:
        raise refuse(op, missing_plugin(op))
    numbers: list[Value] = []
    kinds: list[TileLike | MemorySite] = []
    for value in op.operands:
        if isinstance(value.type, T.MemTokenType):
            continue
        kind, given = _operand(f, op, value)
        kinds.append(kind)
        numbers += given
    made = [value for value in op.results if not isinstance(value.type, T.MemTokenType)]
    results = tuple(_held(op, value) for value in made)
    buffers = [_buffer(f, value) for value in made]
    numbers += [f.builder.ptrtoint(buffer.pointer, I64) for buffer in buffers]
    site = len(f.unit.sites)
    f.unit.sites.append(PluginSite(name, tuple(kinds), results, OperationSource.of(op)))
    _call(f, site, numbers)
    for value, buffer in zip(made, buffers, strict=True):
        f.values[value] = buffer if is_tile(value) else f.element(buffer, ())
    f.give_token(op)


def _buffer(f: FunctionEmitter, value: SSAValue) -> Strided:
    last = f.plan.last_use(value) if is_tile(value) else f.now
    return f.buffer(element_of(value.type), T.dims_of(value.type), last)


def _held(op: Operation, value: SSAValue) -> TileLike:
    found = tile_like(value.type)
    if found is None:
        raise refuse(op, f"no array form exists for values of type '{value.type}'")
    return found


def _operand(
    f: FunctionEmitter, op: Operation, value: SSAValue
) -> tuple[TileLike | MemorySite, list[Value]]:
    """How the host reads an operand, and the numbers that it gets."""
    found = f.values[value]
    if isinstance(found, Memref):
        extents = [as_value(extent) for extent in (*found.sizes, *found.strides)]
        address = f.builder.ptrtoint(found.pointer, I64)
        return MemorySite(found.element.name, len(found.sizes)), [address, *extents]
    kind, tile = _held(op, value), f.tile(value)
    buffer = f.keep(tile, f.now)
    return kind, [f.builder.ptrtoint(buffer.pointer, I64)]


def _call(f: FunctionEmitter, site: int, numbers: Sequence[Value]) -> None:
    """Call the host; what fails there ends the run."""
    b = f.builder
    payload = f.pointer_to(f.scratch(max(len(numbers), 1) * SLOT_BYTES))
    for position, number in enumerate(numbers):
        b.store(number, b.gep(payload, [ir.Constant(I64, position)], source_etype=I64))
    call_host(f, site, payload, ir.Constant(I64, len(numbers)))
    stop = b.load(b.gep(f.frame.runtime, [ir.Constant(I32, 3)], source_etype=PTR), typ=PTR)
    failed = b.icmp_signed("!=", b.load_atomic(stop, "monotonic", 4, typ=I32), ir.Constant(I32, 0))
    leave, stay = b.append_basic_block("failed"), b.append_basic_block("called")
    b.cbranch(failed, leave, stay)
    b.position_at_end(leave)
    f.leave()
    b.position_at_end(stay)
