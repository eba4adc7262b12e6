"""Lowering and launching kernels as per-thread code, shared by the simulator and GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from xdsl.dialects.builtin import DictionaryAttr, IntAttr
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from tilewright.diagnostics import TileIRError
from tilewright.dialects.cuda_tile.ops.module import EntryOp
from tilewright.dialects.nv_tileaa.attributes import KernelSpecAttr
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileas.agents import agent_switch
from tilewright.dialects.source_map import location_of
from tilewright.garbage import rare_collections
from tilewright.launching.checks import check_alignment, check_launch
from tilewright.launching.global_memory import public_global
from tilewright.launching.modules import (
    globals_of,
    is_tileaa,
    kernel_of,
    runnable_module,
)
from tilewright.launching.options import LaunchOptions
from tilewright.lowering import TileAAOptions, lower_to_tileaa
from tilewright.lowering.nvgpu import LoweredThreads, NvgpuOptions, ThreadKernel, lower_to_nvgpu
from tilewright.lowering.nvgpu.hidden_memory import SCRATCH_ALIGNMENT
from tilewright.lowering.nvgpu.linear_grid import linearize_grid, must_fold
from tilewright.lowering.nvgpu.options import NOT_LOWERED
from tilewright.lowering.scheduled import lower_scheduled
from tilewright.lowering.scheduled.schedule import SCHEDULED, Scheduled, schedule
from tilewright.lowering.tileaa.hint_remarks import forbids_tma, hinted_warps, remark_on_hints
from tilewright.nesting import deep_recursion
from tilewright.numerics.arrays import Array
from tilewright.passes.base import clone_with_locations
from tilewright.passes.tileas.decisions import FREE, PARTS, Decisions
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.limit_residency import blocks_wanted
from tilewright.passes.tileas.progress import is_scheduled
from tilewright.passes.tileas.remarks import Remark, Remarks
from tilewright.passes.tileas.shared_conversions import needed_bytes
from tilewright.passes.tileas.split_depths import SplitDepths
from tilewright.passes.tileas.split_tiles import SplitTiles
from tilewright.passes.tileas.target import REGISTERS, Target
from tilewright.passes.tileas.warps import chosen_warps

Grid = int | Sequence[int]


@dataclass(frozen=True, slots=True, eq=False)
class LoweredKernel:
    """A kernel, alone in its ``nvgpu``-level module, and its launch parameters."""

    name: str
    module: BuiltinModuleOp
    spec: ThreadKernel


@dataclass(frozen=True, slots=True)
class ThreadLaunch:
    """A checked launch: the lowered kernel, its grid, and an argument per parameter.

    ``outputs``: the array arguments of the caller. ``folded``: the caller's grid, if the blocks are launched in one
    dimension instead.
    """

    kernel: LoweredKernel
    grid: tuple[int, int, int]
    args: list[object]
    outputs: tuple[Array, ...]
    folded: tuple[int, int, int] | None


class LoweredProgram:
    """A verified module of ``cuda_tile`` or ``nv_tileaa``, whose kernels are lowered on first use.

    ``arch``: the architecture's name (``sm_90a``). Globals live as long as the program. With ``optimize``, tiles get
    layouts and loops are pipelined (``nv_tileas``); without it, and if a kernel has an operation without a layout rule,
    ``nv_tileaa`` is lowered directly. ``decisions`` override those of the scheduler.
    """

    def __init__(
        self,
        module: Operation,
        arch: str,
        shared_bytes: int,
        decisions: Decisions = FREE,
    ):
        self._decisions = decisions
        self.module = runnable_module(module)
        self._target = Target(arch, shared_bytes)
        self._options = NvgpuOptions(shared_bytes=shared_bytes, compute=self._target.compute)
        self._tileaa: BuiltinModuleOp | None = None
        #: By kernel, the error because of which it was lowered without a schedule.
        self.fallbacks: dict[str, TileIRError] = {}
        self._kernels: dict[tuple[str, bool, bool, bool], LoweredKernel] = {}
        self._scheduled: dict[tuple[str, bool], Scheduled] = {}
        self._globals: dict[str, Array] = {}

    @property
    def memory(self) -> list[Array]:
        """The memory of the globals that kernels have used, as arrays that are shared, not copied."""
        return list(self._globals.values())

    def global_array(self, name: str) -> Array:
        """The contents of a public global. Raises ``KeyError`` if there is none of that name."""
        return public_global(name, globals_of(self.module), self._global)

    @rare_collections
    @deep_recursion()
    def kernel(
        self, entry: str | None, optimize: bool = True, *, folded: bool = False, maps: bool = True
    ) -> LoweredKernel:
        """The lowered kernel of that name, or the only one.

        ``folded``: for a one-dimensional launch of its grid (``linearize_grid``). Without ``maps``, it uses no tensor
        maps. Raises ``TileIRError`` if there is no such kernel, or if it cannot be lowered
        (``not-lowered-to-threads``).
        """
        name = kernel_of(self.module, entry).symbol
        key = (name, optimize, folded, maps)
        found = self._kernels.get(key)
        if found is None:
            if folded:
                plain = self.kernel(entry, optimize, maps=maps)
                lowered = replace(plain, module=linearize_grid(plain.module, name))
            else:
                made = self._lower(name, optimize, maps)
                lowered = LoweredKernel(name, made.module, made.kernels[name])
            found = self._kernels[key] = lowered
        return found

    def _lower(self, name: str, optimize: bool, maps: bool) -> LoweredThreads:
        kernel = kernel_of(self.module, name)
        ready = isinstance(kernel, FuncOp) and is_scheduled(kernel)
        if optimize or ready:
            try:
                return lower_scheduled(self.scheduled(name, maps).module, self._options, name)
            except TileIRError as error:
                if ready:
                    raise
                self.fallbacks[name] = error
            except (AssertionError, LookupError, TypeError, ValueError, VerifyException) as error:
                # A defect of the scheduler must not cost the user the kernel, but is reported.
                self.fallbacks[name] = TileIRError.single(
                    NOT_LOWERED,
                    f"the schedule failed: {type(error).__name__}: {error}",
                    location_of(kernel),
                )
        return lower_to_nvgpu(self._lowered(), self._options, name)

    def scheduled(self, entry: str | None = None, maps: bool = True) -> Scheduled:
        """A kernel, by default the only one, at the level of ``nv_tileas``; see ``kernel``.

        Raises ``TileIRError`` if there is no such kernel, or if it has no schedule.
        """
        name = kernel_of(self.module, entry).symbol
        found = self._scheduled.get((name, maps))
        if found is None:
            remarks = Remarks()
            module = self._with_warps(name, remarks)
            if self._decisions.warps is not None:
                module = _copy_of(module)
                _set_warps(module, name, self._decisions.warps)
            hinted = self._entry(name)
            lowering = TileAAOptions(f"sm_{self._target.compute}")
            maps_wanted = maps and not (hinted is not None and forbids_tma(hinted, lowering))
            target = replace(self._target, maps=maps_wanted)
            found = self._scheduled_for(module, name, target, remarks)
            self._scheduled[name, maps] = found
        return found

    def _scheduled_for(
        self, module: BuiltinModuleOp, name: str, target: Target, remarks: Remarks
    ) -> Scheduled:
        """A copy of the module, scheduled for a target: in the shared memory that a block may take if as many share a
        multiprocessor as the kernel asks for, unless a loop of it then has no room for a ring, or its agents take the
        registers of more."""
        warps = self._options.num_warps
        blocks = blocks_wanted(_function(module, name))
        limited = target.shared_by(blocks)
        if limited != target and not is_scheduled(_function(module, name)):
            told = Remarks(list(remarks.found))
            made = schedule(_copy_of(module), name, warps, limited, told, self._decisions)
            func = _function(made.module, name)
            fits = needed_bytes(func) <= target.shared_bytes and _has_rings(made)
            if fits and _blocks_of_agents(func) >= blocks:
                return made
        return self._in_parts_that_fit(module, name, target, remarks)

    def _in_parts_that_fit(
        self, module: BuiltinModuleOp, name: str, target: Target, remarks: Remarks
    ) -> Scheduled:
        """A copy of the module, scheduled for a target: if its tiles take more shared memory than a block has, in as few parts as
        fit, and leave room for rings of its loops, if there are such; where tiles stay whole, with products in as few parts along k
        as fit; else as it is."""

        def made(decisions: Decisions) -> tuple[Scheduled, int]:
            told = Remarks(list(remarks.found))
            found = schedule(
                _copy_of(module), name, self._options.num_warps, target, told, decisions
            )
            return found, needed_bytes(_function(found.module, name))

        whole, needed = made(self._decisions)
        decided = self._decisions.parts or self._decisions.depths
        if needed <= target.shared_bytes or decided or is_scheduled(_function(module, name)):
            return whole

        def fewest(split: type[FunctionPass], decision: str) -> Scheduled | None:
            """In as few parts as fit, or as leave room for rings, too."""
            best: Scheduled | None = None
            for parts in PARTS[1:]:
                found, held = made(replace(self._decisions, **{decision: parts}))
                if not any(r.made_by == split.name and r.figures for r in found.remarks):
                    break  # they stay whole
                if held <= target.shared_bytes and (best is None or _has_rings(found)):
                    best = found
                if best is not None and _has_rings(best):
                    break
            return best

        best = fewest(SplitTiles, "parts") or fewest(SplitDepths, "depths")
        if best is None:
            return whole
        told = Remarks(list(best.remarks))
        message = (
            f"tiles are not scheduled as a whole: they take {needed} bytes of shared memory, but a "
            f"block has {target.shared_bytes}"
        )
        told.add("split", message, _function(module, name))
        return Scheduled(best.module, tuple(told.found))

    def remarks(self, entry: str | None = None) -> list[Remark]:
        """The compiler's decisions about a kernel and their reasons; the last remark says if it was lowered without a
        schedule.

        Lowers the kernel if that has not been done, and raises ``TileIRError`` as ``kernel`` does.
        """
        name = kernel_of(self.module, entry).symbol
        made = self.kernel(entry)
        error = self.fallbacks.get(name)
        scheduled = self._scheduled.get((name, True))
        found = Remarks(list(scheduled.remarks) if scheduled is not None else [])
        kernel = self._entry(name)
        if kernel is not None:
            tma = error is None and bool(made.spec.tensor_maps)
            options = TileAAOptions(f"sm_{self._target.compute}")
            remark_on_hints(kernel, options, made.spec.threads, found, tma, made.spec.blocks)
        if error is not None:
            first = error.diagnostics[0]
            message = f"lowered without a schedule: {first.message}"
            found.found.append(Remark("fallback", message, first.location))
        return found.found

    def arguments(
        self,
        entry: str | None,
        grid: Grid,
        args: Sequence[object],
        *,
        allow_overlap: bool,
        optimize: bool = True,
        scratch: Callable[[int], object] | None = None,
    ) -> ThreadLaunch:
        """Check a launch; returns the lowered kernel and its arguments.

        If the arrays cannot be described by tensor maps, the kernel is one that uses none. ``scratch`` allocates memory
        of a number of bytes, by default on the host. Raises one ``TileIRError`` with all errors.
        """
        op = kernel_of(self.module, entry)
        checked = check_launch(op, grid, args, allow_overlap=allow_overlap)
        check_alignment(op, checked.arguments.arrays)
        folded = must_fold(checked.grid)
        kernel = self.kernel(entry, optimize, folded=folded)
        arrays = checked.arguments.arrays
        given: list[object] = [
            arrays[number] if number in arrays else value.item()
            for number, value in enumerate(checked.arguments.values)
        ]
        views = [plan.view(arrays, given) for plan in kernel.spec.tensor_maps]
        if any(view is None for view in views):
            kernel, views = self.kernel(entry, optimize, folded=folded, maps=False), []
            if kernel.spec.tensor_maps:
                raise TileIRError.single(
                    SCHEDULED,
                    f"'{kernel.name}' has been scheduled for tensor maps, which do not describe these arrays",
                    location_of(op),
                    help="addresses and strides must be multiples of 16 bytes; or schedule it without `tileas-tma`",
                )
        given += [self._global(name) for name in kernel.spec.globals]
        x, y, z = checked.grid
        if kernel.spec.scratch_bytes:
            size = kernel.spec.scratch_bytes * x * y * z
            given.append(_aligned(size) if scratch is None else scratch(size))
        given += views
        if folded:
            given += checked.grid
        row = (x * y * z, 1, 1) if folded else checked.grid
        return ThreadLaunch(kernel, row, given, checked.outputs, checked.grid if folded else None)

    def _global(self, name: str) -> Array:
        found = self._globals.get(name)
        if found is None:
            held = next(g for g in globals_of(self.module) if g.name == name)
            found = self._globals[name] = _aligned(len(held.data), held.alignment)
            found[:] = np.frombuffer(held.data, np.uint8)
            found.flags.writeable = not held.is_constant
        return found

    def _lowered(self) -> BuiltinModuleOp:
        if self._tileaa is None:
            if is_tileaa(self.module):
                assert isinstance(self.module, BuiltinModuleOp)
                self._tileaa = self.module
            else:
                options = TileAAOptions(target=f"sm_{self._target.compute}")
                self._tileaa = lower_to_tileaa(self.module, options).module
        return self._tileaa

    def _with_warps(self, name: str, remarks: Remarks) -> BuiltinModuleOp:
        """The module of ``nv_tileaa`` in which a kernel has the number of warps that its tiles need, unless a hint or
        the decisions set it, or the program is of ``nv_tileaa``, which does.
        """
        module, default = self._lowered(), self._options.num_warps
        if module is self.module or self._decisions.warps is not None:
            return module
        entry, options = self._entry(name), TileAAOptions(f"sm_{self._target.compute}")
        if entry is None or hinted_warps(entry, options):
            return module
        warps = chosen_warps(_function(module, name), default, self._target, remarks)
        if warps == default:
            return module
        return lower_to_tileaa(
            self.module, TileAAOptions(f"sm_{self._target.compute}", warps)
        ).module

    def _entry(self, name: str) -> EntryOp | None:
        """The kernel of that name in ``cuda_tile``, if the program is of that level."""
        kernel = kernel_of(self.module, name)
        return kernel if isinstance(kernel, EntryOp) else None


def _copy_of(module: BuiltinModuleOp) -> BuiltinModuleOp:
    copy = clone_with_locations(module, {})
    assert isinstance(copy, BuiltinModuleOp)
    return copy


def _function(module: BuiltinModuleOp, name: str) -> FuncOp:
    return next(op for op in module.ops if isinstance(op, FuncOp) and op.symbol == name)


def _has_rings(made: Scheduled) -> bool:
    """Whether shared memory had room for the rings of all loops that want some."""
    return not any("needed" in dict(remark.figures) for remark in made.remarks)


def _blocks_of_agents(func: FuncOp) -> float:
    """The blocks on a multiprocessor for which agents that trade registers leave some; no end where none do."""
    switch = agent_switch(func)
    if switch is None or (registers := switch.registers_at_launch) is None:
        return inf
    return REGISTERS // (32 * sum(switch.warps) * registers)


def _set_warps(module: BuiltinModuleOp, name: str, warps: int) -> None:
    """Set the number of warps per block of a kernel."""
    func = _function(module, name)
    spec = func.properties.get("kernel_spec")
    held = dict(spec.value.data) if isinstance(spec, KernelSpecAttr) else {}
    made = KernelSpecAttr(DictionaryAttr({**held, "numWarps": IntAttr(warps)}))
    func.properties["kernel_spec"] = made


def _aligned(size: int, alignment: int = SCRATCH_ALIGNMENT) -> Array:
    """An array of ``size`` bytes, aligned to ``alignment`` and at least to ``SCRATCH_ALIGNMENT``."""
    alignment = max(alignment, SCRATCH_ALIGNMENT)
    room = np.zeros(size + alignment, np.uint8)
    start = -room.ctypes.data % alignment
    return room[start : start + size]


class ThreadsOfTiles:
    """What programs have in common whose machine runs tiles lowered to threads."""

    options: LaunchOptions
    _lowered: LoweredProgram

    @property
    def module(self) -> Operation:
        """The module that was given."""
        return self._lowered.module

    def global_array(self, name: str) -> Array:
        """As for every machine (``launching.machine.Program``)."""
        return self._lowered.global_array(name)

    @property
    def fallbacks(self) -> Mapping[str, TileIRError]:
        """Kernels lowered so far without a schedule, and the reason."""
        return self._lowered.fallbacks

    def threads(self, entry: str | None = None) -> BuiltinModuleOp:
        """The lowered module of a kernel, by default the only one."""
        return self._lowered.kernel(entry, self.options.optimization > 0).module
