"""Modules and kernels as launches see them: by what is known of them, without IR where that is enough.

A module comes as an operation, or as bytes that were loaded before. In the second case a record tells all that usual launches need
(``module_records``); the bytes are read when something else is asked for, such as where in them an error is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from tilewright.cpu.runtime.once import once
from tilewright.diagnostics import SourceLocation, TileIRError
from tilewright.launching.codes import BAD_ARGUMENT
from tilewright.launching.global_memory import GlobalMemory
from tilewright.launching.interfaces import KernelInterface, ModuleInterface, Parameter, PassedType

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
    from xdsl.ir import Attribute, Operation

    from tilewright.launching.modules import KernelOp, Module


class LaunchedKernel:
    """A kernel of a module: its interface, and the operation, which ``find`` gives when something asks for it."""

    def __init__(self, interface: KernelInterface, find: Callable[[], KernelOp]) -> None:
        self.interface = interface
        self._find = find

    @classmethod
    def of(cls, op: KernelOp) -> LaunchedKernel:
        """A kernel that is there as an operation. Raises ``TileIRError`` as ``interface_of``."""
        return cls(interface_of(op), lambda: op)

    @cached_property
    def op(self) -> KernelOp:
        """The operation."""
        return self._find()

    @property
    def location(self) -> SourceLocation | None:
        """Where the kernel is, for errors."""
        from tilewright.dialects.source_map import location_of

        return location_of(self.op)

    @cached_property
    def writes(self) -> Mapping[int | None, Operation]:
        """The first write through each parameter; under None, through any."""
        from tilewright.launching.checks import first_writes

        return first_writes(self.op)


class LaunchedModule:
    """A module whose kernels are launched; ``read`` gives the operation, and ``record`` what is known without it."""

    def __init__(
        self, read: Callable[[], Operation], record: ModuleInterface | None = None
    ) -> None:
        self._read = once(read)
        self._record = record

    @cached_property
    def op(self) -> Module:
        """The module that runs. Raises ``TypeError`` if there is none, and what reading raises."""
        from tilewright.launching.modules import runnable_module

        return runnable_module(self._read())

    @cached_property
    def lowered(self) -> BuiltinModuleOp:
        """The module as ``nv_tileaa``."""
        from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp

        if isinstance(self.op, BuiltinModuleOp):
            return self.op
        from tilewright.lowering import lower_to_tileaa

        return lower_to_tileaa(self.op).module

    @property
    def globals(self) -> Sequence[GlobalMemory]:
        """The globals, with their first contents."""
        if self._record is not None:
            return self._record.globals
        from tilewright.launching.modules import globals_of

        return globals_of(self.op)

    @property
    def digest(self) -> str | None:
        """A hash of all that the code of kernels depends on; None for a module that has no form as bytecode.

        Operations can be changed, so it is that of the operations where they are there.
        """
        if self._record is not None and not self.is_read:
            return self._record.digest
        return digest_of(self.op)

    @property
    def is_read(self) -> bool:
        """Whether the operations are there."""
        return "op" in self.__dict__

    def kernel(self, name: str | None) -> LaunchedKernel:
        """The kernel of that name; for None the only one.

        Raises ``TileIRError`` where there is none (``unknown-entry``), and as ``interface_of``.
        """
        recorded = self._record.kernel(name) if self._record is not None else None
        from_module = once(lambda: self._kernel_op(name))
        if recorded is None:
            return LaunchedKernel.of(from_module())
        return LaunchedKernel(recorded, from_module)

    def _kernel_op(self, name: str | None) -> KernelOp:
        from tilewright.launching.modules import kernel_of

        return kernel_of(self.op, name)


def digest_of(module: Module) -> str | None:
    """A hash of a module as bytecode, on which the code of its kernels depends; None for a module that has no such
    form.
    """
    from tilewright.bytecode import write
    from tilewright.launching.modules import is_tileaa

    if is_tileaa(module):
        return None
    try:
        return hashlib.sha256(write(module)).hexdigest()
    except TileIRError:  # what bytecode cannot hold
        return None


def interface_of(op: KernelOp) -> KernelInterface:
    """The interface of a kernel. Raises ``TileIRError`` (``bad-argument``) for a parameter that takes no argument on
    this machine.
    """
    from tilewright.launching.checks import first_writes

    parameters = [
        Parameter(argument.name_hint or "", _passed_type(op, number, argument.type))
        for number, argument in enumerate(op.block.args)
    ]
    promised = getattr(op, "launch_grid", None)
    return KernelInterface(op.symbol, tuple(parameters), frozenset(first_writes(op)), promised)


def _passed_type(op: KernelOp, number: int, ty: Attribute) -> PassedType:
    from tilewright.dialects.source_map import location_of
    from tilewright.launching.value_types import is_pointer, pointee_in, tile_like

    found = tile_like(ty)
    if found is None or (found.rank and is_pointer(found)):
        raise TileIRError.single(
            BAD_ARGUMENT,
            f"argument {number} cannot be passed on this machine: its type is '{ty}'",
            location_of(op),
            help="pass tiles through memory",
        )
    pointee = pointee_in(found) if is_pointer(found) else ""
    return PassedType(found.element, found.dims, pointee)
