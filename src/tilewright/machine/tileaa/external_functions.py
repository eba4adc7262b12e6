"""External functions: calls of a module to functions it does not define, which the caller may provide."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.ir import Operation, SSAValue

from tilewright.dialects.nv_tileaa import types as A
from tilewright.dialects.nv_tileaa.ops import functions
from tilewright.launching.codes import PLUGIN_RESULT
from tilewright.launching.external_functions import (
    EXTERNAL,
    function_named,
    missing_plugin,
    plugin_name,
)
from tilewright.launching.plugins import PluginResultError, array_over, plugin_results, reach_of
from tilewright.launching.storage import storage_of
from tilewright.launching.value_types import TileLike, tile_like
from tilewright.machine.compile import Nested, Step, Translator, implements
from tilewright.machine.faults import Fault
from tilewright.machine.memory import Memory
from tilewright.machine.tileaa.functions import call_step, function_of
from tilewright.machine.values import TOKEN, Registers, TensorView
from tilewright.numerics.arrays import Array

Read = Callable[[Registers], object]


def plugin_step(op: Operation, t: Translator) -> Step:
    """Runs the function supplied for an operation. Raises ``Fault`` if there is none.

    It is called with the operands but tokens; results of another type or shape are a ``Fault`` of the run.
    """
    name = plugin_name(op)
    function = t.machine.plugins.get(name)
    if function is None:
        raise t.refusal(op, missing_plugin(op))
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
        try:
            arrays = plugin_results(name, found, types)
        except PluginResultError as error:
            raise Fault(PLUGIN_RESULT, str(error)) from None
        for slot, array in zip(slots, arrays, strict=True):
            regs[slot] = array

    return step


def _is_token(value: SSAValue) -> bool:
    return isinstance(value.type, A.MemTokenType)


def _held(op: Operation, value: SSAValue) -> TileLike:
    found = tile_like(value.type)
    if found is None:
        raise Translator.refusal(
            op, f"'{op.name}' returns a value of type '{value.type}', which has no array form"
        )
    return found


def _reader(op: Operation, value: SSAValue, t: Translator) -> Read:
    """Return a function that reads an operand as an array: tiles read-only, memrefs over their memory."""
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
    """Return the elements of a tensor as an array over memory."""
    size = storage_of(element).size
    reach = reach_of(tensor.shape, tensor.strides)
    found = memory.find(tensor.base, reach * size, size, write=True)
    offset = tensor.base - found.base
    return array_over(found.buffer, offset, element, tensor.shape, tensor.strides)


@implements(*(kind for kind in EXTERNAL if kind not in (functions.PluginOp, functions.ExecuteOp)))
def _call_out(op: Operation, t: Translator) -> Step:
    """Kernels are launched by ``Program.launch``; one that launches another needs an external function."""
    return plugin_step(op, t)


@implements(functions.PluginOp)
def _plugin(op: functions.PluginOp, t: Translator) -> Step | Nested:
    """A supplied function takes precedence over one of the module."""
    name = plugin_name(op)
    if name in t.machine.plugins or function_named(op) is None:
        return plugin_step(op, t)
    return call_step(t, function_of(op, name, t), op.operands, op.results)
