"""The ``gpu`` dialect as our texts know it."""

from __future__ import annotations

from functools import cache

from xdsl.dialects.gpu import GPU, TerminatorOp, YieldOp
from xdsl.ir import Dialect, Operation

from tilewright.dialects.upstream.base.formats import with_format
from tilewright.dialects.upstream.base.operations import OPERATIONS
from tilewright.dialects.upstream.gpu import attributes as gpu_attributes
from tilewright.dialects.upstream.gpu import kernels as gpu_kernels
from tilewright.dialects.upstream.gpu import launch as gpu_launch
from tilewright.dialects.upstream.gpu import ops as gpu_ops
from tilewright.dialects.upstream.gpu import reduce as gpu_reduce

_FORMATS: dict[type[Operation], str] = {
    TerminatorOp: "attr-dict",
    YieldOp: "attr-dict ($values^ `:` type($values))?",
}


@cache
def load() -> Dialect:
    """Our operations and attributes, and those of xDSL that we do not declare."""
    assert all((gpu_kernels, gpu_launch, gpu_ops, gpu_reduce))
    operations = {op.name: with_format(op, _FORMATS.get(op)) for op in GPU.operations}
    operations |= {op.name: op for op in OPERATIONS["gpu"].values()}
    attributes = {attribute.name: attribute for attribute in GPU.attributes}
    attributes |= {attribute.name: attribute for attribute in gpu_attributes.ATTRIBUTES}
    return Dialect("gpu", list(operations.values()), list(attributes.values()))
