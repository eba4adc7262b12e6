"""`nvvm`: fences, groups, named barriers and clusters, one instruction each."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Operation

from tilewright.dialects.declare import enum_property, int_property
from tilewright.dialects.syntax.engine import property_of
from tilewright.dialects.upstream.llvm.intrinsics import INTRINSICS
from tilewright.dialects.upstream.nvvm import ops as nvvm
from tilewright.gpu.codegen import ir
from tilewright.gpu.codegen.arith import element_of
from tilewright.gpu.codegen.function import Function, lowers
from tilewright.gpu.codegen.ir import Value
from tilewright.gpu.codegen.math import by_element

#: Operations that are an instruction without operands.
_PLAIN = {
    "nvvm.fence.mbarrier.init": "fence.mbarrier_init.release.cluster",
    "nvvm.cp.async.bulk.commit.group": "cp.async.bulk.commit_group",
    "nvvm.wgmma.fence.aligned": "wgmma.fence.sync.aligned",
    "nvvm.wgmma.commit.group.sync.aligned": "wgmma.commit_group.sync.aligned",
    "nvvm.cluster.arrive": "barrier.cluster.arrive",
    "nvvm.cluster.arrive.relaxed": "barrier.cluster.arrive.relaxed",
    "nvvm.cluster.wait": "barrier.cluster.wait",
}


@lowers(*_PLAIN)
def _plain(f: Function, op: Operation) -> None:
    f.asm(f"{_PLAIN[op.name]};")


@lowers("nvvm.cp.async.bulk.wait_group")
def _bulk_wait(f: Function, op: Operation) -> None:
    assert isinstance(op, nvvm.CpAsyncBulkWaitGroupOp)
    read = ".read" if op.properties.get("read") is not None else ""
    f.asm(f"cp.async.bulk.wait_group{read} {int_property(op, 'group')};")


@lowers("nvvm.wgmma.wait.group.sync.aligned")
def _wgmma_wait(f: Function, op: Operation) -> None:
    assert isinstance(op, nvvm.WgmmaWaitGroupSyncOp)
    f.asm(f"wgmma.wait_group.sync.aligned {int_property(op, 'group')};")


@lowers("nvvm.barrier")
def _barrier(f: Function, op: Operation) -> None:
    assert isinstance(op, nvvm.BarrierOp)
    number = f.value(op.barrierId) if op.barrierId is not None else ir.integer(ir.I32, 0)
    if op.numberOfThreads is None:
        f.asm("bar.sync $0;", number)
    else:
        f.asm("bar.sync $0, $1;", number, f.value(op.numberOfThreads))


@lowers("nvvm.barrier.arrive")
def _arrive(f: Function, op: Operation) -> None:
    assert isinstance(op, nvvm.BarrierArriveOp)
    number = f.value(op.barrierId) if op.barrierId is not None else ir.integer(ir.I32, 0)
    f.asm("bar.arrive $0, $1;", number, f.value(op.numberOfThreads))


@lowers("nvvm.bar.warp.sync")
def _warp_barrier(f: Function, op: Operation) -> None:
    f.asm("bar.warp.sync $0;", f.value(op.operands[0]))


@lowers("nvvm.elect.sync")
def _elect(f: Function, op: Operation) -> None:
    text = "{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.b32 $0, 1, 0, p; }"
    (found,) = f.asm(text, results=[ir.I32])
    f.set(op.results[0], f.as_bit(found))


@lowers("nvvm.fence.proxy")
def _fence(f: Function, op: Operation) -> None:
    space = enum_property(op, "space")
    f.asm(f"fence.proxy.{enum_property(op, 'kind')}{f'::{space}' if space else ''};")


@lowers("nvvm.setmaxregister")
def _registers(f: Function, op: Operation) -> None:
    action = enum_property(op, "action")[:3]
    count = op.properties["regCount"]
    assert isinstance(count, IntegerAttr)
    f.unit.trades_registers = True
    f.asm(f"setmaxnreg.{action}.sync.aligned.u32 {count.value.data};")


@lowers("llvm.call_intrinsic")
def _intrinsic(f: Function, op: Operation) -> None:
    """LLVM's own instruction selection; vectors go element by element."""
    name = property_of(op, "intrin", StringAttr).data
    if name not in INTRINSICS:
        raise f.refuse(op, f"calls the intrinsic '{name}', which is not known")
    result = element_of(f.types(op.results[0])[0])

    def one(*args: Value) -> Value:
        return f.code.call(name, result, args)

    rows = zip(*map(f.parts, op.operands), f.types(op.results[0]), strict=True)
    f.set(op.results[0], *(by_element(f, one, ty)(*args) for *args, ty in rows))
