"""Copies by the tensor memory accelerator."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from tilewright.dialects.nvgpu.ops import tma
from tilewright.gpu.codegen.function import Function, lowers
from tilewright.gpu.codegen.ir import Value
from tilewright.gpu.codegen.mbarrier import barrier_pointer


def _tile(f: Function, memref: SSAValue) -> Value:
    """The address in shared memory of a tile's first element."""
    made, found = f.memref(memref), f.layout(memref)
    return f.shared_address(f.address(made.pointer, found.element, made.offset))


def _coordinates(f: Function, values: Sequence[SSAValue]) -> list[Value]:
    return [f.as_u32(value) for value in values]


#: The first compute capability, times ten, whose PTX has the block's own shared memory as destination.
_OWN_BLOCK = 100


@lowers("nvgpu.tma.async.load")
def _load(f: Function, op: Operation) -> None:
    assert isinstance(op, tma.TmaAsyncLoadOp)
    barrier = f.shared_address(barrier_pointer(f, op, op.barriers, op.mbarId))
    given = [_tile(f, op.dst), f.value(op.tensorMapDescriptor), barrier]
    places = _coordinates(f, op.coordinates)
    listed = ", ".join(f"${len(given) + i}" for i in range(len(places)))
    given += places
    multicast = mask = ""
    if op.multicastMask is not None:
        multicast, mask = ".multicast::cluster", f", ${len(given)}"
        given.append(f.value(op.multicastMask))
    # From sm_100 on ptxas would otherwise check for each copy whether the address is in the block itself.
    own = op.multicastMask is None and f.unit.arch.number >= _OWN_BLOCK
    f.asm_where(
        op.predicate,
        f"cp.async.bulk.tensor.{len(places)}d.shared::{'cta' if own else 'cluster'}.global"
        f".mbarrier::complete_tx::bytes{multicast} [$0], [$1, {{{listed}}}], [$2]{mask}",
        *given,
    )


@lowers("nvgpu.tma.async.store")
def _store(f: Function, op: Operation) -> None:
    """Belongs to the thread's next bulk group, which the program commits and waits for."""
    assert isinstance(op, tma.TmaAsyncStoreOp)
    places = _coordinates(f, op.coordinates)
    listed = ", ".join(f"${2 + i}" for i in range(len(places)))
    f.asm_where(
        op.predicate,
        f"cp.async.bulk.tensor.{len(places)}d.global.shared::cta.bulk_group "
        f"[$1, {{{listed}}}], [$0]",
        _tile(f, op.src),
        f.value(op.tensorMapDescriptor),
        *places,
    )


@lowers("nvgpu.tma.prefetch.descriptor")
def _prefetch(f: Function, op: Operation) -> None:
    assert isinstance(op, tma.TmaPrefetchOp)
    f.asm_where(op.predicate, "prefetch.tensormap [$0]", f.value(op.tensorMapDescriptor))


@lowers("nvgpu.tma.fence.descriptor")
def _fence(f: Function, op: Operation) -> None:
    assert isinstance(op, tma.TmaFenceOp)
    text = "fence.proxy.tensormap::generic.acquire.sys [$0], 128;"
    f.asm(text, f.value(op.tensorMapDescriptor))


@lowers("nvgpu.tma.create.descriptor")
def _create(f: Function, op: Operation) -> None:
    raise f.refuse(
        op,
        "makes a tensor map on the host, and kernels take them as parameters",
        help="give the kernel a parameter of the type of the map; the launch makes it of an array",
    )
