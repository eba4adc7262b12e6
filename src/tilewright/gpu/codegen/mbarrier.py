"""mbarriers: 8-byte objects in shared memory, addressed by pointers."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tilewright.dialects.nvgpu.ops import mbarrier
from tilewright.dialects.nvgpu.types import MBarrierGroupType
from tilewright.dialects.upstream.gpu.spaces import SHARED, space_number
from tilewright.gpu.architectures import TRANSACTIONS
from tilewright.gpu.codegen import ir
from tilewright.gpu.codegen.function import Function, lowers
from tilewright.gpu.codegen.ir import Value

_BYTES = 8


def barrier_pointer(f: Function, op: Operation, group: SSAValue, place: SSAValue) -> Value:
    """The pointer to an mbarrier of a group, by its index there.

    Raises ``TileIRError`` (``gpu-unsupported``) for groups outside of shared memory.
    """
    ty = group.type
    assert isinstance(ty, MBarrierGroupType)
    if space_number(ty.memorySpace) != SHARED:
        raise f.refuse(op, "is compiled for barriers in shared memory only")
    return f.code.offset(f.value(group), ir.I64, f.value(place))


def _address(f: Function, op: Operation, group: SSAValue, place: SSAValue) -> Value:
    return f.shared_address(barrier_pointer(f, op, group, place))


@lowers("nvgpu.mbarrier.create")
def _create(f: Function, op: Operation) -> None:
    assert isinstance(op, mbarrier.MBarrierCreateOp)
    ty = op.barriers.type
    assert isinstance(ty, MBarrierGroupType)
    name = f.unit.unique("barriers")
    f.set(op.barriers, f.unit.reserve_shared(name, _BYTES * ty.count, _BYTES))


@lowers("nvgpu.mbarrier.get")
def _get(f: Function, op: Operation) -> None:
    assert isinstance(op, mbarrier.MBarrierGetOp)
    pointer = barrier_pointer(f, op, op.barriers, op.mbarId)
    (ty,) = f.types(op.mbarrierPointer)
    f.set(op.mbarrierPointer, f.code.op(ty, f"ptrtoint {pointer} to {ty}"))


@lowers("nvgpu.mbarrier.init")
def _init(f: Function, op: Operation) -> None:
    assert isinstance(op, mbarrier.MBarrierInitOp)
    address = _address(f, op, op.barriers, op.mbarId)
    f.asm_where(op.predicate, "mbarrier.init.shared.b64 [$0], $1", address, f.as_u32(op.count))


@lowers("nvgpu.mbarrier.arrive")
def _arrive(f: Function, op: Operation) -> None:
    assert isinstance(op, mbarrier.MBarrierArriveOp)
    address = _address(f, op, op.barriers, op.mbarId)
    f.set(op.token, *f.asm("mbarrier.arrive.shared.b64 $0, [$1];", address, results=[ir.I64]))


@lowers("nvgpu.mbarrier.arrive.nocomplete")
def _arrive_nocomplete(f: Function, op: Operation) -> None:
    assert isinstance(op, mbarrier.MBarrierArriveNoCompleteOp)
    address = _address(f, op, op.barriers, op.mbarId)
    text = "mbarrier.arrive.noComplete.shared.b64 $0, [$1], $2;"
    f.set(op.token, *f.asm(text, address, f.as_u32(op.count), results=[ir.I64]))


@lowers("nvgpu.mbarrier.arrive.expect_tx")
def _expect(f: Function, op: Operation) -> None:
    assert isinstance(op, mbarrier.MBarrierArriveExpectTxOp)
    address = _address(f, op, op.barriers, op.mbarId)
    text = "mbarrier.arrive.expect_tx.shared.b64 _, [$0], $1"
    f.asm_where(op.predicate, text, address, f.as_u32(op.txcount))


@lowers("nvgpu.mbarrier.test.wait")
def _test_wait(f: Function, op: Operation) -> None:
    assert isinstance(op, mbarrier.MBarrierTestWaitOp)
    address = _address(f, op, op.barriers, op.mbarId)
    text = "{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [$1], $2; selp.b32 $0, 1, 0, p; }"
    (done,) = f.asm(text, address, f.value(op.token), results=[ir.I32])
    f.set(op.waitComplete, f.as_bit(done))


@lowers("nvgpu.mbarrier.try_wait.parity")
def _try_wait(f: Function, op: Operation) -> None:
    """Polls until the phase has completed; without a suspended wait on older architectures."""
    assert isinstance(op, mbarrier.MBarrierTryWaitParityOp)
    address = _address(f, op, op.barriers, op.mbarId)
    parity = f.code.resize(f.value(op.phaseParity), ir.I32)
    sleeps = TRANSACTIONS.is_in(f.unit.arch)
    ask = (
        "mbarrier.try_wait.parity.shared.b64 p, [$0], $1, $2;"
        if sleeps
        else "mbarrier.test_wait.parity.shared.b64 p, [$0], $1;"
    )
    given = [address, parity, *([f.as_u32(op.ticks)] if sleeps else [])]
    f.asm(f"{{ .reg .pred p; again: {ask} @!p bra again; }}", *given)
