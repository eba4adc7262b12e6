"""Host code around kernels: functions that allocate, make tensor maps, and launch.

A host function runs as one lane, through the same translation as kernels; host operations have a table of their own,
so kernels cannot use them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects import builtin as b
from xdsl.dialects import func
from xdsl.ir import Attribute, Operation

from tilewright.diagnostics import TileIRError
from tilewright.launching.options import DEFAULT_OPTIONS, LaunchOptions, with_deprecated
from tilewright.numerics.arrays import Array
from tilewright.numerics.strides import row_major
from tilewright.simulator import codes
from tilewright.simulator.address_space import aligned_bytes
from tilewright.simulator.architectures import Architecture
from tilewright.simulator.arguments import bind
from tilewright.simulator.compile import Nested, Step, Translation, Translator
from tilewright.simulator.counters import Counters
from tilewright.simulator.faults import DiagnosticCollector, Fault
from tilewright.simulator.launch import RENAMED, Program, SimulationResult
from tilewright.simulator.memory import (
    GLOBAL,
    SHARED,
    Buffer,
    MemRef,
    load,
    spread,
    store,
)
from tilewright.simulator.ops.control import body_of
from tilewright.simulator.ops.packed import need_whole_bytes
from tilewright.simulator.shadow import Shadow
from tilewright.simulator.shared_layout import SharedLayout
from tilewright.simulator.state import WARP_SIZE, Block, Cluster, Launch, Warp
from tilewright.simulator.tensor_maps import TensorMap, encode
from tilewright.simulator.timeline import Timeline
from tilewright.simulator.values import element_of

_DYNAMIC = b.DYNAMIC_INDEX
#: The minimum alignment of memory, as for the driver and the C library, in bytes.
_ALIGNMENT = 256
_LANE = np.arange(WARP_SIZE) == 0


@dataclass(frozen=True, slots=True)
class HostResult:
    """The result of a host function: its launches in order, and its return values."""

    launches: tuple[SimulationResult, ...]
    values: tuple[Any, ...]


def run_host(
    program: Program,
    name: str,
    args: Sequence[Any],
    options: LaunchOptions | None = None,
    **deprecated: Any,
) -> HostResult:
    """Run a host function that launches kernels of the program.

    ``args`` as for ``Program.launch``: arrays for memrefs, which are memory of host and device alike and are updated in
    place, and numbers. ``options`` apply to every launch, whose block size is that of the launch operation. Raises
    ``TileIRError`` if there is no such function, for operations that the host does not support, and whatever
    ``Program.launch`` raises.
    """
    arch = deprecated.pop("arch", program.arch)
    chosen = with_deprecated(options or program.options, deprecated, "run_host", RENAMED)
    function = next(
        (
            op
            for op in program.module.walk()
            if isinstance(op, func.FuncOp) and op.sym_name.data in (name, name.removeprefix("@"))
        ),
        None,
    )
    if function is None or not function.body.blocks:
        raise TileIRError.single(codes.KERNEL, f"there is no host function '{name}' with a body")
    try:
        translator = _HostTranslator(
            program.module,
            Architecture.parse(arch),
            SharedLayout(),
            program=program if arch == program.arch else Program(program.module, arch),
            options=chosen,
        )
        return translator.run(function, bind(function.body.blocks[0].args, args))
    except Fault as fault:
        raise TileIRError([fault.diagnostic()]) from None


@dataclass(slots=True, kw_only=True)
class _HostTranslator(Translator):
    """Translates a host function. ``options`` apply to its launches."""

    program: Program
    options: LaunchOptions = DEFAULT_OPTIONS
    launches: list[SimulationResult] = field(default_factory=list)

    def operation(self, op: Operation) -> Translation:
        implementation = _OPERATIONS.get(op.name)
        # In methods of slotted dataclasses super() needs its arguments.
        return (
            super(_HostTranslator, self).operation(op)
            if implementation is None
            else implementation(op, self)
        )

    def run(self, function: func.FuncOp, values: Sequence[Any]) -> HostResult:
        parameters = self.slots(function.body.blocks[0].args)
        types = function.function_type.outputs.data
        results = tuple(self.new_slot() for _ in types)
        body = body_of(function.body, self, results)
        warp = _one_lane(self)
        warp.regs = list(self.registers)
        for slot, value in zip(parameters, values):
            warp.regs[slot] = value
        with np.errstate(all="ignore"):
            if isinstance(body, Nested):
                body.run(warp)
            else:
                for _ in body.start(warp):
                    pass
        found = tuple(_plain(warp.regs[slot], ty) for slot, ty in zip(results, types))
        return HostResult(tuple(self.launches), found)


def _one_lane(t: _HostTranslator) -> Warp:
    one = (1, 1, 1)
    collector = DiagnosticCollector()
    launch = Launch(
        t.arch, one, one, one, t.numerics, Counters(), collector, random.Random(0), Timeline(0),
        t.options.max_iterations, t.options.print_to or (lambda text: None),
    )  # fmt: skip
    cluster = Cluster(launch, (0, 0, 0))
    size = t.shared.buffer_bytes
    shared = Buffer(np.zeros(size, np.uint8), SHARED, "shared memory")
    block = Block(cluster, (0, 0, 0), 0, shared, Shadow(size, 1, 0, 1, collector), 1, 0)
    cluster.blocks.append(block)
    clock = block.new_clock()
    warp = Warp(launch, block, 0, 0, [], _LANE, _LANE, 1, clock, block.new_clock())
    block.warps.append(warp)
    return warp


def _plain(value: Any, ty: Attribute) -> Any:
    """A host value as a Python or NumPy value."""
    if isinstance(value, MemRef):
        return array_of(value, ty)
    if isinstance(value, np.ndarray):
        return value[0].item() if value.ndim == 1 else value[0]
    return value


def array_of(memref: MemRef, ty: Attribute) -> Array:
    """The memory of a memref as an array over it. Raises ``Fault`` for memory that is not global."""
    if memref.buffer.space != GLOBAL:
        raise Fault(codes.ARGUMENT, f"{memref.buffer.name} is not memory that a launch can access")
    element = element_of(ty)
    dtype = np.dtype(np.uint8) if element.bits == 1 else element.dtype
    offset = memref.offset
    start = offset if isinstance(offset, int) else int(offset[0])
    flat = memref.buffer.view(dtype)[start:]
    strides = tuple(stride * dtype.itemsize for stride in memref.strides)
    # NumPy cannot describe floats of one byte, such as f8E5M2, to itself.
    words = flat.view(f"u{dtype.itemsize}")
    writeable = not memref.buffer.read_only
    found = np.lib.stride_tricks.as_strided(words, memref.sizes, strides, writeable=writeable)
    return found.view(dtype)


def _number(warp: Warp, slot: int) -> int:
    value = warp.regs[slot]
    return int(value) if isinstance(value, int) else int(value[0])


# Operations


def _launch(op: Any, t: _HostTranslator) -> Step:
    kernel = op.properties["kernel"]
    name = kernel.nested_references.data[-1].data if kernel.nested_references.data else ""
    extents = {
        what: [t.slot(v) for v in (getattr(op, f"{what}Size{axis}") for axis in "XYZ") if v]
        for what in ("grid", "block", "cluster")
    }
    dynamic = op.dynamicSharedMemorySize
    shared = None if dynamic is None else t.slot(dynamic)
    sources = [(t.slot(value), value.type) for value in op.kernelOperands]

    def step(warp: Warp) -> None:
        found = {what: [_number(warp, slot) for slot in slots] for what, slots in extents.items()}
        args = [_argument(warp.regs[slot], ty) for slot, ty in sources]
        t.launches.append(
            t.program.launch(
                name,
                found["grid"],
                args,
                replace(
                    t.options,
                    block=found["block"],
                    cluster=found["cluster"] or None,
                    dynamic_shared_bytes=0 if shared is None else _number(warp, shared),
                ),
            )
        )

    return step


def _argument(value: Any, ty: Attribute) -> Any:
    return value if isinstance(value, TensorMap) else _plain(value, ty)


def _create_descriptor(op: Any, t: _HostTranslator) -> Step:
    source, result, box = t.slot(op.tensor), t.slot(op.results[0]), t.slots(op.boxDimensions)
    ty, element = op.results[0].type, element_of(op.results[0].type.tensor)
    name = op.results[0].name_hint or "the tensor map"

    def step(warp: Warp) -> None:
        given, wanted = [_number(warp, slot) for slot in box], list(ty.tensor.get_shape())
        if given != wanted:
            raise Fault(
                codes.TENSOR_MAP, f"the box is {given}, and that of its type is {wanted}", op
            )
        array = array_of(warp.regs[source], ty.tensor)
        warp.regs[result] = encode(array, ty, element, name)

    return step


def _alloc(op: Any, t: _HostTranslator) -> Step:
    ty, element = op.results[0].type, element_of(op.results[0].type)
    need_whole_bytes(element, op)
    sizes = op.dynamic_sizes if op.name == "memref.alloc" else op.dynamicSizes
    dynamic, result = list(t.slots(sizes)), t.slot(op.results[0])
    extents = [(True, dynamic.pop(0)) if n == _DYNAMIC else (False, n) for n in ty.get_shape()]
    if not isinstance(ty.layout, b.NoneAttr):
        raise Fault(codes.UNSUPPORTED, "the host allocates memory without a layout only", op)

    def step(warp: Warp) -> None:
        found = tuple(_number(warp, n) if is_slot else n for is_slot, n in extents)
        if any(extent < 0 for extent in found):
            raise Fault(codes.OUT_OF_BOUNDS, f"{op.name} with extents {found}", op)
        data = aligned_bytes(prod(found) * element.size, _ALIGNMENT)
        data[:] = 0xFF
        warp.regs[result] = MemRef(Buffer(data, GLOBAL, op.name), 0, found, row_major(found))

    return step


def _memcpy(op: Any, t: _HostTranslator) -> Step:
    source, target = t.slot(op.src), t.slot(op.dst)
    dtype = element_of(op.src.type).dtype

    def step(warp: Warp) -> None:
        of, to = warp.regs[source], warp.regs[target]
        if of.sizes != to.sizes:
            raise Fault(codes.OUT_OF_BOUNDS, f"{op.name} of {of.sizes} to {to.sizes}", op)
        if prod(of.sizes):
            found = load(warp, of, spread(of.offset, of, of.sizes), dtype, op)
            store(warp, to, spread(to.offset, to, to.sizes), found, dtype, op)

    return step


def _nothing(op: Operation, t: _HostTranslator) -> None:
    """No step: launches and copies have completed, and host and device share memory."""


_OPERATIONS: dict[str, Callable[[Any, _HostTranslator], Translation]] = {
    "gpu.alloc": _alloc,
    "gpu.dealloc": _nothing,
    "gpu.host_register": _nothing,
    "gpu.host_unregister": _nothing,
    "gpu.launch_func": _launch,
    "gpu.memcpy": _memcpy,
    "gpu.set_default_device": _nothing,
    "gpu.wait": _nothing,
    "memref.alloc": _alloc,
    "memref.dealloc": _nothing,
    "nvgpu.tma.create.descriptor": _create_descriptor,
}
