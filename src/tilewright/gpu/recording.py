"""Makes kernels report prints and failed assertions in a buffer of the launch.

By default a kernel prints through the driver, to standard output, and a failed assertion destroys the process's CUDA
context. In our kernels both become records (``gpu.messages``), written by ordinary operations, and the kernel continues
behind a failed assertion, as on the other machines. Functions that the kernel calls are left unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith as A
from xdsl.dialects import builtin as b
from xdsl.dialects import cf, scf
from xdsl.dialects.gpu import DimensionAttr, DimensionEnum
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.dialects.vector import CombiningKindAttr, CombiningKindFlag, ReductionOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilewright.dialects.source_map import set_source, source_of
from tilewright.dialects.upstream.arith import vectors as V
from tilewright.dialects.upstream.gpu import kernels as gpu_kernels
from tilewright.dialects.upstream.gpu import ops as gpu_ops
from tilewright.dialects.upstream.llvm import ops as llvm
from tilewright.dialects.upstream.llvm.atomics import AtomicRMWOp
from tilewright.dialects.upstream.llvm.syntax import BIN_OPS, ORDERINGS
from tilewright.gpu.messages import (
    BUFFER_HEADER,
    RECORD_HEADER,
    AssertionSite,
    PrintSite,
    Site,
    ValueKind,
)
from tilewright.launching.assertions import OperationSource
from tilewright.lowering.nvgpu.effects import REGISTERS, SHAPE, THREADS
from tilewright.lowering.nvgpu.parameters import add_parameter, copy_with_kernel
from tilewright.lowering.nvgpu.types import GLOBAL_POINTER

_I1, _I8, _I32, _I64 = (b.IntegerType(bits) for bits in (1, 8, 32, 64))
_INDEX, _F64 = b.IndexType(), b.Float64Type()


@dataclass(frozen=True, slots=True)
class Recorded:
    """A module whose kernel has the message buffer as last parameter. ``sites`` describe its records.

    Without sites the module is unchanged.
    """

    module: b.ModuleOp
    kernel: gpu_kernels.FuncOp
    sites: tuple[Site, ...] = ()


def record_messages(module: b.ModuleOp, kernel: gpu_kernels.FuncOp) -> Recorded:
    """A copy of the module in which a kernel records its messages."""
    if not any(_site(op) for op in kernel.walk()):
        return Recorded(module, kernel)
    copy, kernel = copy_with_kernel(module, kernel)
    buffer = add_parameter(kernel, GLOBAL_POINTER, "messages")
    sites: list[Site] = []
    for op in list(kernel.walk()):
        site = _site(op)
        if site is not None:
            sites.append(site)
            _Writer(op, buffer, len(sites), site).replace()
    return Recorded(copy, kernel, tuple(sites))


def _site(op: Operation) -> Site | None:
    if isinstance(op, cf.AssertOp):
        return _assertion(op)
    if isinstance(op, gpu_ops.PrintfOp):
        kinds: list[ValueKind] = []
        for value in op.args:
            if (kind := _kind(value.type)) is None:
                return None
            kinds.append(kind)
        text = cast("b.StringAttr", op.properties["format"]).data
        return PrintSite(text, tuple(kinds), tuple(_width(value.type) for value in op.args))
    return None


def _kind(ty: Attribute) -> ValueKind | None:
    if isinstance(ty, b.Float16Type | b.BFloat16Type | b.Float32Type | b.Float64Type):
        return "float"
    is_integer = isinstance(ty, b.IntegerType) and ty.width.data <= 64
    return "integer" if is_integer or isinstance(ty, b.IndexType | LLVMPointerType) else None


def _width(ty: Attribute) -> int:
    return ty.width.data if isinstance(ty, b.IntegerType) else 64


def _numbers(op: Operation, name: str) -> tuple[int, ...]:
    found = op.attributes.get(name)
    return tuple(map(int, found.get_values())) if isinstance(found, b.DenseArrayBase) else ()


def _assertion(op: cf.AssertOp) -> AssertionSite:
    vector = _asserted_vector(op)
    source = OperationSource.of(op)
    if vector is None:
        return AssertionSite(op.msg.data, source)
    elements = cast("b.VectorType[Attribute]", vector.type).get_shape()[0]
    shape, registers, threads = (_numbers(op, name) for name in (SHAPE, REGISTERS, THREADS))
    return AssertionSite(op.msg.data, source, elements, shape, registers, threads)


def _asserted_vector(op: cf.AssertOp) -> SSAValue | None:
    """The elements that an assertion checks, if the lowering has annotated them."""
    owner = op.arg.owner
    if not isinstance(owner, ReductionOp) or REGISTERS not in op.attributes:
        return None
    both = CombiningKindAttr(CombiningKindFlag.AND)
    if owner.kind != both or len(owner.operands) != 1:
        return None
    ty = owner.vector.type
    return owner.vector if isinstance(ty, b.VectorType) and len(ty.get_shape()) == 1 else None


class _Writer:
    """Replaces an operation by code that records its message."""

    def __init__(self, op: Operation, buffer: SSAValue, number: int, site: Site):
        self.op, self.buffer, self.number, self.site = op, buffer, number, site
        block = op.parent
        assert block is not None
        self.block = block
        self.before: Operation | None = op

    def replace(self) -> None:
        op = self.op
        if isinstance(op, cf.AssertOp):
            true = self.constant(1, _I1)
            wrong = self.one(A.XOrIOp, (op.arg, true), _I1)
            self.branch(wrong, lambda: self.record(self.asserted(op)))
        else:
            self.record([self.word(value) for value in op.operands])
        op.detach()
        op.erase()

    def asserted(self, op: cf.AssertOp) -> list[SSAValue]:
        vector = _asserted_vector(op)
        if vector is None:
            return []
        (count,) = cast("b.VectorType[Attribute]", vector.type).get_shape()
        return [self.one(V.ExtUIOp, (vector,), b.VectorType(_I8, [count]))]

    # The record.

    def record(self, values: Sequence[SSAValue]) -> None:
        """Reserve the bytes of the record, and write it if it fits."""
        size = self.site.size
        start = self.one(
            AtomicRMWOp,
            (self.buffer, self.constant(size, _I64)),
            _I64,
            {
                "bin_op": b.IntegerAttr(BIN_OPS.index("add"), 64),
                "ordering": b.IntegerAttr(ORDERINGS["monotonic"], 64),
                "syncscope": b.StringAttr("device"),
            },
        )
        room = self.one(llvm.LoadOp, (self.at(self.buffer, 8),), _I64)
        end = self.one(A.AddiOp, (start, self.constant(size, _I64)), _I64)
        fits = self.one(A.CmpiOp, (end, room), _I1, {"predicate": b.IntegerAttr(7, _I64)})
        self.branch(fits, lambda: self.write(start, values))

    def write(self, start: SSAValue, values: Sequence[SSAValue]) -> None:
        offset = self.one(A.AddiOp, (start, self.constant(BUFFER_HEADER, _I64)), _I64)
        record = self.at(self.buffer, offset)
        words = [*(self.id(axis) for axis in DimensionEnum), self.thread()]
        for place, word in enumerate(words):
            self.store(self.one(V.IndexCastOp, (word,), _I32), self.at(record, 8 + 4 * place), 4)
        for place, value in enumerate(values):
            alignment = 1 if isinstance(value.type, b.VectorType) else 8
            self.store(value, self.at(record, RECORD_HEADER + 8 * place), alignment)
        self.store(self.constant(self.number, _I64), record, 8)

    def id(self, axis: DimensionEnum) -> SSAValue:
        return self.place(gpu_ops.BlockIdOp, axis)

    def thread(self) -> SSAValue:
        """The linear number of the thread in its block, x fastest."""
        x, y, z = (self.place(gpu_ops.ThreadIdOp, axis) for axis in DimensionEnum)
        columns, rows = (
            self.place(gpu_ops.BlockDimOp, axis) for axis in (DimensionEnum.X, DimensionEnum.Y)
        )
        outer = self.one(A.AddiOp, (self.one(A.MuliOp, (z, rows), _INDEX), y), _INDEX)
        return self.one(A.AddiOp, (self.one(A.MuliOp, (outer, columns), _INDEX), x), _INDEX)

    def word(self, value: SSAValue) -> SSAValue:
        """A number as 64 bits."""
        ty = value.type
        if _kind(ty) == "float":
            return value if ty == _F64 else self.one(A.ExtFOp, (value,), _F64)
        if isinstance(ty, b.IndexType):
            return self.one(V.IndexCastOp, (value,), _I64)
        if isinstance(ty, LLVMPointerType):
            return self.one(llvm.PtrToIntOp, (value,), _I64)
        if _width(ty) == 64:
            return value
        kind = V.ExtUIOp if _width(ty) == 1 else V.ExtSIOp
        return self.one(kind, (value,), _I64)

    # Operations.

    def add(self, op: Operation) -> Operation:
        op.location = self.op.location
        if (source := source_of(self.op)) is not None:
            set_source(op, source)
        if self.before is None:
            self.block.add_op(op)
        else:
            self.block.insert_op_before(op, self.before)
        return op

    def one(
        self,
        kind: type[Operation],
        operands: Sequence[SSAValue],
        result: Attribute,
        properties: dict[str, Attribute] | None = None,
    ) -> SSAValue:
        made = kind.create(operands=operands, result_types=[result], properties=properties or {})
        return self.add(made).results[0]

    def constant(self, number: int, ty: b.IntegerType) -> SSAValue:
        return self.one(A.ConstantOp, (), ty, {"value": b.IntegerAttr(number, ty)})

    def place(self, kind: type[Operation], axis: DimensionEnum) -> SSAValue:
        return self.one(kind, (), _INDEX, {"dimension": DimensionAttr(axis)})

    def at(self, pointer: SSAValue, offset: SSAValue | int) -> SSAValue:
        """A pointer plus an offset in bytes."""
        address = self.one(llvm.PtrToIntOp, (pointer,), _I64)
        if isinstance(offset, int):
            offset = self.constant(offset, _I64)
        return self.one(
            llvm.IntToPtrOp, (self.one(A.AddiOp, (address, offset), _I64),), GLOBAL_POINTER
        )

    def store(self, value: SSAValue, pointer: SSAValue, alignment: int) -> None:
        properties: dict[str, Attribute] = {"alignment": b.IntegerAttr(alignment, 64)}
        self.add(llvm.StoreOp.create(operands=[value, pointer], properties=properties))

    def branch(self, condition: SSAValue, work: object) -> None:
        """Build ``work`` in an ``scf.if``."""
        body = Block()
        outer = self.block, self.before
        self.block, self.before = body, None
        assert callable(work)
        work()
        self.add(scf.YieldOp.create())
        self.block, self.before = outer
        self.add(scf.IfOp.create(operands=[condition], regions=[Region(body), Region()]))
