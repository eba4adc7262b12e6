"""Asynchronous copies to shared memory."""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.dialects.declare import enum_property, int_property
from tilewright.dialects.nvgpu.ops.async_copy import (
    BYPASS_BYTES,
    DeviceAsyncCopyOp,
    DeviceAsyncWaitOp,
)
from tilewright.dialects.upstream.base.shapes import bit_width
from tilewright.dialects.upstream.nvvm import ops as nvvm
from tilewright.gpu.codegen import ir
from tilewright.gpu.codegen.function import Function, lowers

_NO_STATE = ir.integer(ir.I32, 0)


@lowers("nvgpu.device_async_copy")
def _copy(f: Function, op: Operation) -> None:
    assert isinstance(op, DeviceAsyncCopyOp)
    source = f.element_address(op.src, op.srcIndices)
    if f.layout(op.src).space not in (0, 1):
        raise f.refuse(op, "copies from global memory only")
    source = f.code.cast("addrspacecast", source, ir.pointer(ir.GLOBAL))
    target = f.element_address(op.dst, op.dstIndices)
    width = bit_width(f.layout(op.dst).element)
    size = int_property(op, "dstElements") * width // 8
    cache = "cg" if op.bypassL1 is not None and size == BYPASS_BYTES else "ca"
    name = f"llvm.nvvm.cp.async.{cache}.shared.global.{size}"
    given = [target, source]
    if op.srcElements is not None:
        name += ".s"
        bits = f.code.mul(f.as_u32(op.srcElements), ir.integer(ir.I32, width))
        given.append(f.code.binary("lshr", bits, ir.integer(ir.I32, 3)))
    f.code.call(name, "void", given)
    f.set(op.asyncToken, _NO_STATE)


@lowers("nvvm.cp.async.shared.global")
def _copy_by_address(f: Function, op: Operation) -> None:
    assert isinstance(op, nvvm.CpAsyncSharedGlobalOp)
    word = enum_property(op, "modifier")
    name = f"llvm.nvvm.cp.async.{word}.shared.global.{int_property(op, 'size')}"
    given = [f.value(op.dst), f.value(op.src)]
    if op.cpSize is not None:
        name += ".s"
        given.append(f.value(op.cpSize))
    f.code.call(name, "void", given)


@lowers("nvgpu.device_async_create_group")
def _group(f: Function, op: Operation) -> None:
    f.code.call("llvm.nvvm.cp.async.commit.group", "void", [])
    f.set(op.results[0], _NO_STATE)


@lowers("nvgpu.device_async_wait")
def _wait(f: Function, op: Operation) -> None:
    assert isinstance(op, DeviceAsyncWaitOp)
    f.code.call("llvm.nvvm.cp.async.wait.group", "void", [ir.integer(ir.I32, op.groups)])
