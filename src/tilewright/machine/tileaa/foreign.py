"""Code that a module calls but does not hold: run by functions that the caller gives, if any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from tilewright.dialects.nv_tileaa import types as A
from tilewright.dialects.nv_tileaa.ops import functions, pointers
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.symbols import reference, symbols_around
from tilewright.launching.storage import storage_of
from tilewright.launching.value_types import TileLike, tile_like
from tilewright.machine.compile import Nested, Step, Translator, implements
from tilewright.machine.faults import Fault
from tilewright.machine.memory import Memory
from tilewright.machine.tileaa.faults import PLUGIN_RESULT
from tilewright.machine.tileaa.functions import call_step, function_of
from tilewright.machine.values import TOKEN, Registers, TensorView
from tilewright.numerics.arrays import Array, dtype_of

Read = Callable[[Registers], object]


def plugin_step(op: Operation, t: Translator, name: str) -> Step:
    """Runs the function that was given for a name; Translator.refusal where none was."""
    function = t.machine.plugins.get(name)
    if function is None:
        raise t.refusal(
            op,
            f"'{op.name}' runs '{name}', which the machine does not have: give a function on NumPy "
            f"arrays for it, with plugins={{{name!r}: ...}}",
        )
    readers = [_reader(op, value, t) for value in op.operands if not _is_token(value)]
    for value in op.results:
        if _is_token(value):
            t.preset(value, TOKEN)
    made = [value for value in op.results if not _is_token(value)]
    slots, types = t.slots(made), [_held(op, value) for value in made]
    memory = t.machine.memory

    def step(regs: Registers) -> None:
        found = function(*[read(regs) for read in readers])
        memory.version += 1
        for slot, array in zip(slots, _checked(name, found, types), strict=True):
            regs[slot] = array

    return step


def _is_token(value: SSAValue) -> bool:
    return isinstance(value.type, A.MemTokenType)


def _held(op: Operation, value: SSAValue) -> TileLike:
    found = tile_like(value.type)
    if found is None:
        raise Translator.refusal(
            op, f"'{op.name}' gives a value of type '{value.type}', for which no array can stand"
        )
    return found


def _reader(op: Operation, value: SSAValue, t: Translator) -> Read:
    """An operand as an array: tiles read-only, memrefs over their memory."""
    slot = t.slot(value)
    if isinstance(value.type, A.MemrefType):
        element, memory = A.element_name(value.type.element_type), t.machine.memory
        return lambda regs: _memory_of(regs[slot], element, memory)
    _held(op, value)

    def read(regs: Registers) -> object:
        array = np.asarray(regs[slot]).view()
        array.flags.writeable = False
        return array

    return read


def _memory_of(tensor: TensorView, element: str, memory: Memory) -> Array:
    """The elements of a tensor as an array over memory; raw bytes where elements share them."""
    storage = storage_of(element)
    size = storage.size
    pairs = list(zip(tensor.shape, tensor.strides, strict=True))
    reach = sum((extent - 1) * stride for extent, stride in pairs if extent) + 1
    allocation = memory.find(tensor.base, reach * size, size, write=True)
    steps = tuple(stride * size for stride in tensor.strides)
    offset = tensor.base - allocation.base
    raw = np.ndarray(tensor.shape, storage.raw, allocation.buffer, offset, steps)
    dtype = dtype_of(element)
    return raw if storage.packed or dtype.itemsize != storage.raw.itemsize else raw.view(dtype)


def _checked(name: str, found: object, types: Sequence[TileLike]) -> list[Array]:
    given: Sequence[Any] = found if isinstance(found, tuple | list) else (found,)
    if not types:
        return []
    if len(given) != len(types):
        raise Fault(PLUGIN_RESULT, f"plugin '{name}' gave {len(given)} results, not {len(types)}")
    arrays: list[Array] = []
    for number, (value, ty) in enumerate(zip(given, types, strict=True)):
        array, dtype = np.asarray(value), dtype_of(ty.element)
        castable = array.dtype == dtype or np.can_cast(array.dtype, dtype, "same_kind")
        if array.shape != ty.dims or not castable:
            raise Fault(
                PLUGIN_RESULT,
                f"result {number} of plugin '{name}' must be an array of {dtype} of shape "
                f"{ty.dims}, got {array.dtype} of shape {array.shape}",
            )
        arrays.append(array.astype(dtype))
    return arrays


#: What names the code of an operation, by its class.
_NAMES: dict[type[Operation], str] = {
    pointers.ExternElementwiseOp: "symbol",
    pointers.ElementwiseInlineAsmOp: "asm_string",
    pointers.CallElementwiseIntrinsicOp: "intrinsic",
}


def _text(op: Operation, name: str) -> str:
    found = op.properties[name]
    assert isinstance(found, StringAttr)
    return found.data


@implements(*_NAMES)
def call_out(op: Operation, t: Translator) -> Step:
    """The function gets whole tiles, whatever the code does for one element."""
    return plugin_step(op, t, _text(op, _NAMES[type(op)]))


@implements(functions.InjectIROp)
def inject_ir(op: functions.InjectIROp, t: Translator) -> Step:
    return plugin_step(op, t, _text(op, "sym_name" if "sym_name" in op.properties else "code"))


@implements(functions.LaunchFuncOp)
def launch_func(op: functions.LaunchFuncOp, t: Translator) -> Step:
    """Kernels are started by ``Program.launch``; one that starts another needs a function for it."""
    return plugin_step(op, t, reference(op, "kernel"))


@implements(functions.PluginOp)
def plugin(op: functions.PluginOp, t: Translator) -> Step | Nested:
    """A function that is given goes before one of the module."""
    if "symbol" not in op.properties:
        return plugin_step(op, t, _text(op, "code"))
    name = reference(op, "symbol")
    target = (symbols_around(op) or {}).get(name)
    if name in t.machine.plugins or not isinstance(target, FuncOp):
        return plugin_step(op, t, name)
    return call_step(t, function_of(op, name, t), op.operands, op.results)
