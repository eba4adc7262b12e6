"""Kernel parameters that a launch adds to those of the author."""

from __future__ import annotations

from xdsl.dialects import builtin as b
from xdsl.ir import Attribute, SSAValue

from tilewright.dialects.upstream.gpu import kernels as gpu_kernels
from tilewright.passes.base import clone_with_locations


def copy_with_kernel(
    module: b.ModuleOp, kernel: gpu_kernels.FuncOp
) -> tuple[b.ModuleOp, gpu_kernels.FuncOp]:
    """Clone a module; returns the clone, and in it the clone of ``kernel``."""
    copy = clone_with_locations(module, {})
    assert isinstance(copy, b.ModuleOp)
    place = next(i for i, op in enumerate(module.walk()) if op is kernel)
    found = next(op for i, op in enumerate(copy.walk()) if i == place)
    assert isinstance(found, gpu_kernels.FuncOp)
    return copy, found


def add_parameter(kernel: gpu_kernels.FuncOp, ty: Attribute, name: str) -> SSAValue:
    """Append a parameter to a kernel."""
    signature = kernel.signature
    place = len(signature.inputs)
    inputs = [*signature.inputs.data, ty]
    kernel.properties["function_type"] = b.FunctionType.from_lists(inputs, signature.outputs.data)
    found = kernel.properties.get("arg_attrs")
    if isinstance(found, b.ArrayAttr):
        kernel.properties["arg_attrs"] = b.ArrayAttr([*found.data, b.DictionaryAttr({})])
    argument = kernel.body.blocks[0].insert_arg(ty, place)
    argument.name_hint = name
    return argument
